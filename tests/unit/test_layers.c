/* test_layers.c - the runtime's folders keep their order, no object files use each other in a circle, and one folder alone
 * speaks of OpenCL, and with it the one that backends of devices share. The order stands in runtime/README.md. Looks into the
 * sources and objects, in the repository's root. What it is not: a test of what they do. */
#define _GNU_SOURCE /* strcasestr */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FOLDERS = 32, OBJECTS = 256, SYMBOLS = 4096, LINE = 4096, NAME = 128 };

struct layers {
    int folders;
    char folder[FOLDERS][NAME]; /* from the top down */
};

/* Lines as "3. `tune/`: ..." */
static void read_order(struct layers *l)
{
    char line[LINE];
    FILE *file = fopen("runtime/README.md", "r");
    if (!file) {
        print_message("# the sources are not here\n");
        skip();
    }
    *l = (struct layers){0};
    while (fgets(line, sizeof line, file)) {
        int number, length = 0;
        char name[NAME];
        if (sscanf(line, "%d. `%100[a-z_]/`:%n", &number, name, &length) != 2 || length == 0)
            continue;
        assert_int_equal(number, l->folders + 1);
        assert_true(l->folders < FOLDERS);
        snprintf(l->folder[l->folders++], NAME, "%s", name);
    }
    fclose(file);
    assert_in_range(l->folders, 8, FOLDERS);
}

static int level_of(const struct layers *l, const char *folder, size_t size)
{
    for (int i = 0; i < l->folders; i++)
        if (strlen(l->folder[i]) == size && !strncmp(l->folder[i], folder, size))
            return i;
    return -1;
}

/* Of "runtime/tune/search.c", behind `prefix`. */
static int level_of_file(const struct layers *l, const char *path, const char *prefix)
{
    const char *folder = path + strlen(prefix), *end = strchr(folder, '/');
    return end ? level_of(l, folder, (size_t)(end - folder)) : -1;
}

/* What one #include of a file says: a file of its own folder, of one below, or of the generator. */
static void check_include(const struct layers *l, const char *path, const char *included)
{
    char beside[2 * LINE];
    const int from = level_of_file(l, path, "runtime/");
    const char *slash = strchr(included, '/');
    if (from < 0)
        fail_msg("%s is in no folder of runtime/README.md", path);
    if (!slash && !strcmp(included, "attn.h"))
        return;
    if (!slash) {
        snprintf(beside, sizeof beside, "%.*s/%s", (int)(strrchr(path, '/') - path), path, included);
        if (access(beside, R_OK) != 0)
            fail_msg("%s includes %s, which is not beside it; expected its folder's name too", path, included);
        return;
    }
    if (!strncmp(included, "gen/", 4) || !strncmp(included, "templates/", 10))
        return;
    const int to = level_of(l, included, (size_t)(slash - included));
    if (to < 0)
        fail_msg("%s includes %s, of no folder of runtime/README.md", path, included);
    if (to <= from)
        fail_msg("%s includes %s; expected only folders below %s", path, included, l->folder[from]);
}

static void test_folders_use_those_below(void **state)
{
    struct layers l;
    glob_t files;
    char line[LINE], included[LINE];
    int includes = 0;
    (void)state;
    read_order(&l);
    assert_int_equal(glob("runtime/*/*.[ch]", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file))
            if (sscanf(line, " # include \"%4000[^\"]\"", included) == 1) {
                check_include(&l, files.gl_pathv[i], included);
                includes++;
            }
        fclose(file);
    }
    globfree(&files);
    assert_true(includes > 200);
}

/* ---- object files ---- */

struct objects {
    int count, symbols;
    char path[OBJECTS][NAME];
    struct {
        char name[NAME];
        int object;
    } symbol[SYMBOLS]; /* defined */
    bool uses[OBJECTS][OBJECTS];
};

/* Only of sources that are there: others were left by an earlier layout, or are made of several. */
static int object_of(struct objects *o, const char *path)
{
    char source[2 * LINE];
    snprintf(source, sizeof source, "%.*s.c", (int)(strlen(path) - strlen("out/obj/.o")), path + strlen("out/obj/"));
    if (access(source, R_OK) != 0)
        return -1;
    for (int i = 0; i < o->count; i++)
        if (!strcmp(o->path[i], path))
            return i;
    assert_true(o->count < OBJECTS);
    snprintf(o->path[o->count], NAME, "%s", path);
    return o->count++;
}

/* One pass over what nm says: first what is defined, then what is used. */
static void read_symbols(struct objects *o, bool used)
{
    char line[LINE], name[LINE], kind;
    int object = -1;
    FILE *nm = popen("nm -g -P out/obj/runtime/*/*.o 2>/dev/null", "r");
    assert_non_null(nm);
    while (fgets(line, sizeof line, nm)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[strlen(line) - 1] == ':') {
            line[strlen(line) - 1] = 0;
            object = object_of(o, line);
        } else if (object >= 0 && sscanf(line, "%100s %c", name, &kind) == 2 && (kind == 'U') == used) {
            if (!used) {
                assert_true(o->symbols < SYMBOLS);
                snprintf(o->symbol[o->symbols].name, NAME, "%.120s", name);
                o->symbol[o->symbols++].object = object;
            }
            for (int i = 0; used && i < o->symbols; i++)
                if (!strcmp(o->symbol[i].name, name) && o->symbol[i].object != object)
                    o->uses[object][o->symbol[i].object] = true;
        }
    }
    pclose(nm);
}

static void test_object_files_use_no_circle(void **state)
{
    static struct objects o;
    struct layers l;
    (void)state;
    read_order(&l);
    read_symbols(&o, false);
    read_symbols(&o, true);
    if (o.count == 0) {
        print_message("# the objects are not here\n");
        skip();
    }
    assert_true(o.count > 40 && o.symbols > 200);
    for (int i = 0; i < o.count; i++)
        for (int k = 0; k < o.count; k++)
            if (o.uses[i][k] &&
                level_of_file(&l, o.path[k], "out/obj/runtime/") < level_of_file(&l, o.path[i], "out/obj/runtime/"))
                fail_msg("%s uses %s; expected only folders below its own", o.path[i], o.path[k]);
    for (int via = 0; via < o.count; via++) /* whatever can be reached (Warshall 1962) */
        for (int i = 0; i < o.count; i++)
            for (int k = 0; o.uses[i][via] && k < o.count; k++)
                o.uses[i][k] |= o.uses[via][k];
    for (int i = 0; i < o.count; i++)
        for (int k = 0; k < o.count; k++)
            if (o.uses[i][k] && o.uses[k][i])
                fail_msg("%s and %s use each other; expected no circle", o.path[i], o.path[k]);
}

/* ---- who speaks of OpenCL ---- */

/* Outside its folder: in the list of backends, and where a person reads of it. */
static void test_one_folder_speaks_of_opencl(void **state)
{
    enum { MOST = 12 };
    static const char *const words[] = {"opencl", "sm80", "sm90", "portable"};
    glob_t files;
    char line[LINE];
    int lines = 0;
    (void)state;
    if (glob("runtime/*/*.[ch]", 0, NULL, &files) != 0) {
        print_message("# the sources are not here\n");
        skip();
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *path = files.gl_pathv[i];
        if (!strncmp(path, "runtime/opencl/", 15) || !strncmp(path, "runtime/gpu/", 12) || !strncmp(path, "runtime/cuda/", 13) ||
            !strcmp(path, "runtime/devices/list.h"))
            continue;
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        for (int number = 1; fgets(line, sizeof line, file); number++) {
            bool said = false;
            for (size_t k = 0; k < sizeof words / sizeof *words; k++)
                said |= strcasestr(line, words[k]) != NULL;
            lines += said;
            if (said)
                print_message("# %s:%d:%s", path, number, line);
        }
        fclose(file);
    }
    globfree(&files);
    if (lines > MOST)
        fail_msg("%d lines outside runtime/opencl name OpenCL or a level of it; expected %d at most", lines, MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders_use_those_below),
        cmocka_unit_test(test_object_files_use_no_circle),
        cmocka_unit_test(test_one_folder_speaks_of_opencl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
