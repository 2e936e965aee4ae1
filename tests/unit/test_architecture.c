/* test_architecture.c - who knows what: a generator that knows nothing of attention, beside templates that know no
 * instruction; and where files stand. Looks into the sources, in the repository's root. What it is not: a test of what they do. */
#define _GNU_SOURCE /* strcasestr, popen */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/fields.h"
#include "dialects.h"

/* Whether it stands in the text as a word of its own. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *c = text; (c = strcasestr(c, word)); c++) {
        bool before = c > text && (isalnum((unsigned char)c[-1]) || c[-1] == '_');
        if (!before && !isalnum((unsigned char)c[n]) && c[n] != '_')
            return true;
    }
    return false;
}

static void test_generator_knows_no_attention(void **state)
{
    static const char *const files[] = {"lex",     "expr",      "template", "parse", "unroll", "registers",
                                        "lower_c", "lower_body", "lower_x86", "print_x86", "parse_key", "match", "isa", "buf",
                                        "micro"};
    static const char *const words[] = {"softmax",    "query", "queries",  "causal",     "score", "scores",
                                        "score_tile", "flash", "head_dim", "value_tile", "online"};
    int read = 0;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (int header = 0; header < 2; header++) {
            char path[64], *text = calloc(1, 1 << 18);
            snprintf(path, sizeof path, "gen/%s.%c", files[i], header ? 'h' : 'c');
            FILE *file = fopen(path, "r");
            if (file && text) {
                assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
                fclose(file);
                read++;
                for (size_t k = 0; k < sizeof words / sizeof *words; k++)
                    if (has_word(text, words[k]) && strcmp(files[i], "micro"))
                        fail_msg("%s says %s", path, words[k]);
                if (strcasestr(text, "attention") && strcmp(files[i], "micro"))
                    fail_msg("%s says attention", path);
            }
            free(text);
        }
    if (!read) {
        print_message("# the sources are not here\n");
        skip();
    }
    assert_true(read > 12);
}

static void test_templates_know_no_instruction(void **state)
{
    struct dialects l;
    struct gen_error err;
    int mnemonics = 0;
    (void)state;
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    for (int i = 0; i < embedded_count; i++) {
        const struct embedded_file *f = &embedded_files[i];
        if (strncmp(f->path, "c/", 2))
            continue;
        for (int t = 0; t < DIALECTS; t++)
            for (int k = 0; k < l.table[t].ops; k++) {
                const struct machine *m = &l.table[t].op[k]->machine;
                if (m->present && has_word(f->data, m->name))
                    fail_msg("%s says %s", f->path, m->name);
                mnemonics += m->present;
            }
        static const char *const never[] = {"_mm", "__m", "immintrin", "zmm", "ymm", "xmm", "AVX", "SSE"};
        for (size_t k = 0; k < sizeof never / sizeof *never; k++)
            if (strstr(f->data, never[k]))
                fail_msg("%s says %s", f->path, never[k]);
    }
    dialects_close(&l);
    assert_true(mnemonics > 50);
}

/* Whether it stands in the text as a word of its own, with a lower-case word behind a point: "wgmma.fence", but neither
 * "wgmma" in a sentence nor "copy.q". */
static bool has_mnemonic(const char *text, const char *mnemonic)
{
    size_t n = strlen(mnemonic);
    for (const char *c = text; (c = strstr(c, mnemonic)); c++) {
        bool before = c > text && (isalnum((unsigned char)c[-1]) || strchr("_.>/", c[-1]));
        if (!before && c[n] == '.' && islower((unsigned char)c[n + 1]))
            return true;
    }
    return false;
}

/* Another vendor's level is then another set of such parts. */
static void test_ptx_stands_in_its_parts(void **state)
{
    static const char *const inlined[] = {"asm", "__asm", "__asm__"};
    static const char *const mnemonics[] = {
        "wgmma",   "mma",          "cp",   "ldmatrix", "stmatrix", "mbarrier", "setmaxnreg", "fence", "bar",
        "barrier", "createpolicy", "shfl", "vote",     "atom",     "red",      "ld",         "st",    "mov",
        "cvt",     "ex2",          "rcp",  "setp",     "selp",     "min",      "max",        "xor",   "add",
        "sub",     "mul",          "mad",  "cvta",     "membar",   "tanh"};
    int parts = 0;
    (void)state;
    for (int i = 0; i < embedded_count; i++) {
        const struct embedded_file *f = &embedded_files[i];
        const bool is_part = !strncmp(f->path, "opencl/ptx", strlen("opencl/ptx")) || !strncmp(f->path, "cuda/", strlen("cuda/"));
        parts += is_part;
        if (is_part)
            continue;
        for (size_t k = 0; k < sizeof inlined / sizeof *inlined; k++)
            if (has_word(f->data, inlined[k]) && strcmp(f->path, "c/prepare.t")) /* which asks the system for tiles */
                fail_msg("%s has inline assembly; expected it in opencl/ptx*.t", f->path);
        for (size_t k = 0; k < sizeof mnemonics / sizeof *mnemonics && strncmp(f->path, "isa/", 4); k++)
            if (has_mnemonic(f->data, mnemonics[k]))
                fail_msg("%s says %s; expected PTX in opencl/ptx*.t", f->path, mnemonics[k]);
        if (strstr(f->data, "%ctaid") || strstr(f->data, "%nctaid") || strstr(f->data, "%tid"))
            fail_msg("%s names a register of PTX; expected that in opencl/ptx*.t", f->path);
    }
    assert_true(has_mnemonic("{wgmma.fence}", "wgmma") && !has_mnemonic("wgmma. x.wgmma.f", "wgmma"));
    assert_true(parts >= 3);
}

/* A template may refine a field's variable, `let ST = FEW ? 0 : ST`. If it gave one another meaning, rules that know the field
 * would read that instead. These three have no such fields of their own. */
static void test_variables_of_fields_mean_the_field(void **state)
{
    static const char *const without[] = {"opencl/peak.cl.t", "opencl/matmul.sizes.t", "opencl/sm90.joint.t"};
    int lets = 0;
    (void)state;
    for (int i = 0; i < embedded_count; i++) {
        const struct embedded_file *f = &embedded_files[i];
        bool has_fields = true;
        for (size_t k = 0; k < sizeof without / sizeof *without; k++)
            has_fields &= strcmp(f->path, without[k]) != 0;
        for (const char *line = f->data; has_fields && *line; line += strcspn(line, "\n"), line += *line == '\n') {
            char name[40], value[1000] = "";
            if (sscanf(line, "%% let %39[A-Z0-9_] = %999[^\n]", name, value) != 2)
                continue;
            lets++;
            for (int k = 0; k < FIELD_COUNT; k++)
                if (!strcmp(name, fields[k].var) && !has_word(value, name))
                    fail_msg("%s gives %s another meaning than field %s; expected another name", f->path, name, fields[k].key);
        }
    }
    assert_true(lets > 300);
}

/* Sizes that all templates of a driver read have names of their own: a second `let` of a name would change what the lines behind it
 * mean, those of micro-kernels among them, and nothing would say so. */
static void test_each_size_is_let_once(void **state)
{
    int lets = 0;
    (void)state;
    for (int i = 0; i < embedded_count; i++) {
        const struct embedded_file *f = &embedded_files[i];
        char name[500][40];
        int n = 0;
        if (!strstr(f->path, ".sizes.t"))
            continue;
        for (const char *line = f->data; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            char value[1000] = "";
            assert_true(n < 500);
            if (sscanf(line, "%% let %39[A-Z0-9_] = %999[^\n]", name[n], value) != 2 || has_word(value, name[n]))
                continue;
            for (int k = 0; k < n; k++)
                if (!strcmp(name[k], name[n]))
                    fail_msg("%s lets %s twice; expected another name", f->path, name[n]);
            n++, lets++;
        }
    }
    assert_true(lets > 300);
}

static void test_driver_is_short(void **state)
{
    const struct embedded_file *f = embedded_find("c/tiles.t");
    int lines = 0;
    (void)state;
    for (size_t i = 0; i < f->size; i++)
        lines += f->data[i] == '\n';
    assert_in_range(lines, 50, 149);
}

/* As wide as .clang-format lets them be. */
static void test_no_line_is_too_wide(void **state)
{
    enum { COLUMNS = 132 };
    static const char *const where[] = {"gen/*.[ch]",       "gen/*/*.c",      "runtime/*.h",
                                        "runtime/*/*.[ch]", "tests/*/*.[ch]", "tests/*/*/*.[ch]"};
    glob_t found;
    int wide = 0;
    (void)state;
    for (size_t i = 0; i < sizeof where / sizeof *where; i++)
        glob(where[i], i ? GLOB_APPEND : 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char line[4096];
        FILE *file = fopen(found.gl_pathv[i], "r");
        for (int n = 1; file && fgets(line, sizeof line, file); n++)
            if (strcspn(line, "\n") > COLUMNS)
                wide += printf("# %s:%d: the line is too wide; expected %d columns at most\n", found.gl_pathv[i], n, COLUMNS) > 0;
        if (file)
            fclose(file);
    }
    const size_t files = found.gl_pathc;
    globfree(&found);
    if (!files) {
        print_message("# the sources are not here\n");
        skip();
    }
    assert_true(files > 300);
    assert_int_equal(wide, 0);
}

/* What the tree holds: each folder, and how the names of its files end; at the top level whole names. A file of another kind has
 * most likely been left there by a program. */
static const struct {
    const char *folder, *endings;
} layout[] = {
    {"", "/.clang-format /.gitignore /CHANGELOG.md /LICENSE /Makefile /README.md"},
    {".ci", "/run"},
    {"gen", ".c .h .inc"},
    {"gen/tool", ".c"},
    {"out/gallery", ".c .cl .cu /manifest.json"},
    {"runtime", "/README.md /attn.h"},
    {"runtime/api", ".c .h"},
    {"runtime/arrays", ".c .h .def"},
    {"runtime/backend", ".c .h"},
    {"runtime/cache", ".c .h"},
    {"runtime/cli", ".c .h"},
    {"runtime/cpu", ".c .h .ld"},
    {"runtime/cuda", ".c .h"},
    {"runtime/devices", ".c .h"},
    {"runtime/gpu", ".c .h"},
    {"runtime/install", ".in .md .mk"},
    {"runtime/judge", ".c .h"},
    {"runtime/numerics", ".c .h"},
    {"runtime/opencl", ".c .h"},
    {"runtime/python", ".md .mk .py .toml"},
    {"runtime/python/attngen", ".py /py.typed"},
    {"runtime/reference", ".c .h"},
    {"runtime/system", ".c .h"},
    {"runtime/tune", ".c .h"},
    {"specs", ".md .shapes .yaml"},
    {"specs/ladder", ".yaml"},
    {"templates", "/README.md .t"},
    {"templates/bundle", ".t"},
    {"templates/c", ".h .micro .t"},
    {"templates/cuda", ".cu .h .t"},
    {"templates/isa", ".h .isa"},
    {"templates/opencl", ".h .t"},
    {"tests", "/README.md /run.sh /tests.mk"},
    {"tests/arm", ".c .h"},
    {"tests/bench", ".c .h .md .names .py .rungs .svg"},
    {"tests/data", "/README.md"},
    {"tests/data/minilm-layer3", ".npy"},
    {"tests/e2e", ".c .h .py .sh .sums"},
    {"tests/e2e/bundle", ".c"},
    {"tests/e2e/vendor", ".c"},
    {"tests/examples", ".c"},
    {"tests/examples/vendored", "/Makefile"},
    {"tests/examples/vendored/src", ".c"},
    {"tests/kernel", ".c .sh"},
    {"tests/kit", ".c .cl .h .sh .supp"},
    {"tests/micro", ".c .h"},
    {"tests/python", ".py .sh"},
    {"tests/unit", ".c .h .sh"},
    {"tests/unit/bundle", ".c .h"},
    {"tests/unit/cuda", ".c .h"},
};

/* Whether a name with a slash before it ends in one of these words. */
static bool ends_in(const char *name, const char *endings)
{
    const size_t size = strlen(name);
    for (const char *e = endings; *e; e += strspn(e, " ")) {
        const size_t n = strcspn(e, " ");
        if (n <= size && !strncmp(name + size - n, e, n) && (*e != '/' || n == size))
            return true;
        e += n;
    }
    return false;
}

/* Emitted kernels, whose names begin with attn_, are only in the gallery. */
static bool is_in_layout(const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) : 0;
    char name[300];
    snprintf(name, sizeof name, "/%s", slash ? slash + 1 : path);
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        if ((int)strlen(layout[i].folder) == n && !strncmp(layout[i].folder, path, (size_t)n))
            return ends_in(name, layout[i].endings) && (strncmp(name, "/attn_", 6) || !strcmp(layout[i].folder, "out/gallery"));
    return false;
}

static void test_each_file_has_its_place(void **state)
{
    static const char *const strange[] = {
        "attn_f32_d64.c", "attn_f32_d64.h", "core", "Makefile.orig", "gen/attn_f32_d64.c", "gen/gen.o", "doc/page.md",
        "templates/c/extra/few.t", "out/obj/x.c", "out/gallery/few.h", "runtime/notes.md", "\"gen/\\303.c\"", ".c"};
    FILE *list = popen("git ls-files 2>/dev/null", "r");
    char path[300];
    int files = 0, strangers = 0;
    (void)state;
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        assert_false(is_in_layout(strange[i]));
    for (; list && fgets(path, sizeof path, list); files++) {
        path[strcspn(path, "\n")] = 0;
        if (!is_in_layout(path))
            strangers += printf("# %s: no such file is in the layout; expected it elsewhere, or a row for it here\n", path) > 0;
    }
    if (list)
        pclose(list);
    if (!files) {
        print_message("# git knows no files here\n");
        skip();
    }
    assert_true(files > 800);
    assert_int_equal(strangers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generator_knows_no_attention),
        cmocka_unit_test(test_templates_know_no_instruction),
        cmocka_unit_test(test_ptx_stands_in_its_parts),
        cmocka_unit_test(test_variables_of_fields_mean_the_field),
        cmocka_unit_test(test_each_size_is_let_once),
        cmocka_unit_test(test_driver_is_short),
        cmocka_unit_test(test_no_line_is_too_wide),
        cmocka_unit_test(test_each_file_has_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
