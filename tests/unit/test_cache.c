/* test_cache.c - the cache's promises: what is stored is found, whatever is wrong is a miss, two writers lose nothing,
 * a disk that cannot be written to harms nobody, and nobody else's files are touched. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cache/text.h"
#include "mutate.h"
#include "place.h"
#include "seed.h"

static const char KEY[] = "format 1\nprocessor a b c\nbucket 1,2,3\n";

static void test_stored_is_found(void **state)
{
    struct place *p = *state;
    struct cache_entry e;
    struct stat s;
    struct cache_row rows[] = {row("a", CACHE_TIMED, 2e-3), row("b", CACHE_TIMED, 1.23456789e-3),
                               row("c", CACHE_REJECTED, 0), row("d", CACHE_UNREACHED, 0)};
    strcpy(rows[2].note, "the rule; with spaces  and\nlines");
    rows[3].limit_s = 2.5;
    rows[1].noisy = true;
    assert_false(cache_load(p->cache, KEY, &e)); /* and nothing was made by looking */
    assert_int_not_equal(access(p->dir, F_OK), 0);
    assert_int_equal(store(p->cache, KEY, rows, 4), 0);
    assert_int_equal(stat(p->dir, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_true(cache_load(p->cache, KEY, &e));
    assert_string_equal(e.key, KEY);
    assert_int_equal(e.n, 4);
    assert_string_equal(cache_winner(&e)->name, "b");
    const struct cache_row *b = cache_find(&e, "b"), *c = cache_find(&e, "c");
    assert_true(b->min_s == 1.23456789e-3 && b->error == 1e-7 && b->bound == 2e-6 && b->noisy);
    assert_true(b->source == 0x1234 && b->samples == 8);
    assert_string_equal(c->note, "the rule; with spaces  and lines");
    assert_int_equal(c->state, CACHE_REJECTED);
    assert_true(cache_find(&e, "d")->limit_s == 2.5);
    assert_null(cache_find(&e, "e"));
    cache_entry_free(&e);
    assert_false(cache_load(p->cache, "format 1\nprocessor a b c\nbucket 1,2,4\n", &e));
    assert_int_equal(p->warnings, 0);
}

static void test_merge(void **state)
{
    struct place *p = *state;
    struct cache_entry e;
    struct cache_row first[] = {row("quiet", CACHE_TIMED, 3), row("slower", CACHE_TIMED, 3), row("new", CACHE_TIMED, 1),
                                row("wrong", CACHE_TIMED, 1), row("reached", CACHE_TIMED, 4),
                                row("dropped", CACHE_DROPPED, 1), row("further", CACHE_UNREACHED, 0)};
    struct cache_row second[] = {row("quiet", CACHE_TIMED, 2), row("slower", CACHE_TIMED, 5),
                                 row("new", CACHE_TIMED, 9), row("wrong", CACHE_WRONG, 0),
                                 row("reached", CACHE_UNREACHED, 0), row("dropped", CACHE_TIMED, 2),
                                 row("further", CACHE_UNREACHED, 0), row("more", CACHE_TIMED, 7)};
    second[0].noisy = true;
    second[2].source = 99;
    second[4].source = 0;
    first[6].source = second[6].source = 0;
    first[6].limit_s = 1;
    second[6].limit_s = 20;
    assert_int_equal(store(p->cache, KEY, first, 7), 0);
    assert_int_equal(store(p->cache, KEY, second, 8), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    assert_int_equal(e.n, 8);
    assert_true(cache_find(&e, "quiet")->min_s == 3);
    assert_true(cache_find(&e, "slower")->min_s == 3);
    assert_true(cache_find(&e, "new")->min_s == 9);
    assert_int_equal(cache_find(&e, "wrong")->state, CACHE_WRONG);
    assert_true(cache_find(&e, "reached")->min_s == 4);
    assert_int_equal(cache_find(&e, "dropped")->state, CACHE_TIMED);
    assert_true(cache_find(&e, "further")->limit_s == 20);
    assert_true(cache_find(&e, "more")->min_s == 7);
    cache_entry_free(&e);
}

/* Every byte is changed, and the file is cut to every length: all of these are misses, none is an error, and a store mends
 * it. */
static void test_damage(void **state)
{
    struct place *p = *state;
    char path[CACHE_PATH_MAX], text[4096];
    struct cache_entry e;
    struct cache_row rows[] = {row("a", CACHE_TIMED, 2), row("b", CACHE_DROPPED, 3)};
    assert_int_equal(store(p->cache, KEY, rows, 2), 0);
    cache_file(p->cache, KEY, path);
    size_t size = read_all(path, text, sizeof text);
    assert_true(size > 100 && size < sizeof text);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= 1;
        write_all(path, text, size);
        text[i] ^= 1;
        assert_false(cache_load(p->cache, KEY, &e));
        write_all(path, text, i);
        assert_false(cache_load(p->cache, KEY, &e));
    }
    write_all(path, text, size);
    assert_true(cache_load(p->cache, KEY, &e));
    cache_entry_free(&e);
    write_all(path, "rubbish", 7);
    assert_int_equal(store(p->cache, KEY, rows, 1), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    assert_int_equal(e.n, 1);
    cache_entry_free(&e);
    assert_int_equal(p->warnings, 0);
}

/* A good entry under another key's name must not be taken for that key's. */
static void test_wrong_name(void **state)
{
    struct place *p = *state;
    char from[CACHE_PATH_MAX], to[CACHE_PATH_MAX];
    struct cache_entry e;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    cache_file(p->cache, KEY, from);
    cache_file(p->cache, "format 1\n", to);
    assert_int_equal(rename(from, to), 0);
    assert_false(cache_load(p->cache, "format 1\n", &e));
    r.min_s = 5;
    assert_int_equal(store(p->cache, "format 1\n", &r, 1), 0);
    assert_true(cache_load(p->cache, "format 1\n", &e));
    assert_true(e.n == 1 && e.rows[0].min_s == 5);
    cache_entry_free(&e);
}

static void test_not_files(void **state)
{
    struct place *p = *state;
    char path[CACHE_PATH_MAX];
    struct cache_entry e;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, "format 1\n", &r, 1), 0);
    cache_file(p->cache, KEY, path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(cache_load(p->cache, KEY, &e));
    assert_int_equal(store(p->cache, KEY, &r, 1), -1);
    assert_int_equal(files_in(p->dir), 3); /* entry, directory, lock: nothing left beside */
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not be waited for */
    assert_false(cache_load(p->cache, KEY, &e));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_false(cache_load(p->cache, KEY, &e));
    assert_int_equal(unlink(path), 0);
}

static void test_unsafe_directory(void **state)
{
    struct place *p = *state;
    struct cache_entry e;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    assert_int_equal(chmod(p->dir, 0770), 0);
    assert_false(cache_load(p->cache, KEY, &e));
    assert_int_equal(store(p->cache, KEY, &r, 1), -1);
    assert_int_equal(p->warnings, 1); /* once, not at each use */
    assert_non_null(strstr(p->warning, "others may write to it; expected a directory of mode 0700 that belongs to this user"));
    assert_int_equal(chmod(p->dir, 0700), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    cache_entry_free(&e);
    if (geteuid() != 0)
        skip(); /* only root can make a directory somebody else's */
    assert_int_equal(chown(p->dir, 12345, 12345), 0);
    assert_false(cache_load(p->cache, KEY, &e));
    assert_int_equal(store(p->cache, KEY, &r, 1), -1);
}

/* A write that stops halfway, as on a full disk. */
static int full_disk(struct place *p)
{
    struct cache_row rows[64];
    struct cache_entry e;
    char name[16];
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "n%d", i);
        rows[i] = row(name, CACHE_TIMED, 1);
    }
    if (store(p->cache, KEY, rows, 64) != -1)
        return 1;
    if (!cache_load(p->cache, KEY, &e)) /* what was there before stays whole */
        return 2;
    return e.n == 1 ? 0 : 3;
}

static void test_full_disk(void **state)
{
    struct place *p = *state;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    assert_int_equal(in_child(p, full_disk), 0);
    assert_int_equal(files_in(p->dir), 2); /* entry and lock */
}

static int read_only(struct place *p)
{
    struct cache_row r = row("b", CACHE_TIMED, 2);
    struct cache_entry e;
    if (geteuid() == 0 && (chown(p->top, 12345, 12345) || setegid(12345) || seteuid(12345)))
        return 9;
    if (store(p->cache, KEY, &r, 1) != -1)
        return 1;
    if (!cache_load(p->cache, KEY, &e))
        return 2;
    return e.n == 1 ? 0 : 3;
}

static void test_read_only(void **state)
{
    struct place *p = *state;
    char path[CACHE_PATH_MAX], deep[80], lock[128];
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    cache_file(p->cache, KEY, path);
    snprintf(deep, sizeof deep, "%s/deep", p->top);
    snprintf(lock, sizeof lock, "%s/lock", p->dir);
    assert_int_equal(unlink(lock), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(p->dir, 12345, 12345) || chown(path, 12345, 12345) || chmod(deep, 0755), 0);
    assert_int_equal(chmod(p->dir, 0500), 0);
    assert_int_equal(in_child(p, read_only), 0);
    assert_int_equal(p->warnings, 0);
}

/* Writers that each add names of their own, all at once: none may be missing afterwards. */
static void test_two_at_once(void **state)
{
    enum { WRITERS = 6, EACH = 15 };
    struct place *p = *state;
    struct cache_entry e;
    pid_t child[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        child[w] = fork();
        assert_true(child[w] >= 0);
        if (child[w] != 0)
            continue;
        for (int i = 0; i < EACH; i++) {
            char name[32];
            snprintf(name, sizeof name, "w%di%d", w, i);
            struct cache_row r = row(name, CACHE_TIMED, 1 + w);
            if (store(p->cache, KEY, &r, 1) != 0)
                _exit(1);
        }
        _exit(0);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_int_equal(waitpid(child[w], &status, 0), child[w]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_true(cache_load(p->cache, KEY, &e));
    assert_int_equal(e.n, WRITERS * EACH);
    cache_entry_free(&e);
    assert_int_equal(files_in(p->dir), 2);
}

/* What a patient search has seen is remembered, whichever row's numbers stay. */
static void test_merge_patient(void **state)
{
    struct place *p = *state;
    struct cache_entry e;
    struct cache_row measured[] = {row("a", CACHE_TIMED, 2), row("b", CACHE_TIMED, 2), row("c", CACHE_DROPPED, 2),
                                   row("d", CACHE_TIMED, 2)};
    struct cache_row patient[] = {row("a", CACHE_TIMED, 3), row("b", CACHE_DROPPED, 3), row("c", CACHE_TIMED, 3),
                                  row("d", CACHE_TIMED, 3)};
    for (int i = 0; i < 4; i++)
        patient[i].patient = true;
    patient[3].source ^= 1;
    for (int turn = 0; turn < 2; turn++) { /* both ways round */
        int removed;
        struct gen_error err;
        assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
        assert_int_equal(store(p->cache, KEY, turn ? patient : measured, 4), 0);
        assert_int_equal(store(p->cache, KEY, turn ? measured : patient, 4), 0);
        assert_true(cache_load(p->cache, KEY, &e));
        assert_true(cache_find(&e, "a")->min_s == 2 && cache_find(&e, "a")->patient);
        assert_true(cache_find(&e, "b")->min_s == 2 && cache_find(&e, "b")->patient);
        assert_true(cache_find(&e, "c")->min_s == 3 && cache_find(&e, "c")->patient);
        assert_true(cache_find(&e, "d")->patient == !turn); /* of another source: the new one's */
        cache_entry_free(&e);
    }
}

/* Stores one name after another, until it is killed. */
static void write_on(struct place *p, const char *names)
{
    for (int i = 0; i < 100000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", names, i % 50);
        struct cache_row r = row(name, CACHE_TIMED, 1);
        if (store(p->cache, KEY, &r, 1) != 0)
            _exit(1);
    }
    _exit(0);
}

/* Writers are killed at any moment: what was there is still there, and what they leave does not pile up. */
static void test_killed(void **state)
{
    enum { WRITERS = 60 };
    struct place *p = *state;
    struct cache_entry e;
    struct cache_row r = row("first", CACHE_TIMED, 2);
    uint64_t seed = test_seed();
    int known = 1, left = 0;
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    for (int w = 0; w < WRITERS; w++) {
        char names[16];
        int status;
        snprintf(names, sizeof names, "w%dn", w);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_on(p, names);
        usleep((useconds_t)dice(&seed, known > 1 ? 3000 : 30000 * (w + 1))); /* on a busy machine the first rows take long */
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_true(cache_load(p->cache, KEY, &e));
        assert_true(e.n >= known);
        assert_non_null(cache_find(&e, "first"));
        known = e.n;
        cache_entry_free(&e);
        left += files_in(p->dir) > 2;
        assert_true(files_in(p->dir) <= 3);
    }
    print_message("# %d writers killed, %d of them halfway; %d rows\n", WRITERS, left, known);
    assert_true(known > 1);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    assert_int_equal(files_in(p->dir), 2);
}

static void count_entry(void *user, const char *path, const struct cache_entry *entry)
{
    (void)path;
    *(int *)user += entry->n;
}

static void test_list_and_clear(void **state)
{
    struct place *p = *state;
    struct gen_error err;
    char path[CACHE_PATH_MAX], left[CACHE_PATH_MAX + 8], other[128];
    int rows = 0, removed = -1;
    struct cache_row two[] = {row("a", CACHE_TIMED, 2), row("b", CACHE_TIMED, 2)};
    assert_int_equal(cache_clear(p->cache, &removed, &err), 0); /* nothing there yet */
    assert_int_equal(removed, 0);
    assert_int_equal(store(p->cache, KEY, two, 2), 0);
    assert_int_equal(store(p->cache, "format 1\n", two, 1), 0);
    cache_file(p->cache, "format 2\n", path);
    write_all(path, "damaged", 7);
    snprintf(left, sizeof left, "%s.123", path);
    write_all(left, "half", 4);
    snprintf(other, sizeof other, "%s/keep.tune", p->dir);
    write_all(other, "mine", 4);
    assert_int_equal(cache_list(p->cache, count_entry, &rows), 1); /* the damaged one */
    assert_int_equal(rows, 3);
    assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
    assert_int_equal(removed, 4);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(files_in(p->dir), 1);
    assert_int_equal(cache_list(p->cache, count_entry, &rows), 0);
    assert_int_equal(rows, 3);
}

static void path_is(const char *own, const char *xdg, const char *home, const char *expected)
{
    struct cache *cache;
    setenv("ATTNGEN_CACHE", own, 1);
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    assert_int_equal(cache_open(NULL, NULL, NULL, &cache), 0);
    assert_string_equal(cache_path(cache), expected);
    cache_close(cache);
}

static void test_where(void **state)
{
    (void)state;
    path_is("/a/b", "/x", "/h", "/a/b");
    path_is("", "/x", "/h", "/x/attngen");
    path_is("", "relative", "/h", "/h/.cache/attngen");
    path_is("", "", "/h", "/h/.cache/attngen");
    path_is("", "", "", "");
}

static void test_none(void **state)
{
    (void)state;
    struct cache *cache;
    struct cache_entry e;
    struct gen_error err;
    char path[CACHE_PATH_MAX];
    int removed;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(cache_open("", NULL, NULL, &cache), 0);
    assert_false(cache_load(cache, KEY, &e));
    assert_int_equal(store(cache, KEY, &r, 1), -1);
    assert_int_equal(cache_list(cache, count_entry, NULL), 0);
    assert_int_equal(cache_clear(cache, &removed, &err), 0);
    cache_file(cache, KEY, path);
    assert_string_equal(path, "");
    cache_close(cache);
}

/* A host program's decimal comma must reach neither what is written nor what is read. */
static void test_decimal_comma(void **state)
{
    (void)state;
    static const char *const some[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    bool set = false;
    for (int i = 0; i < 4 && !set; i++)
        set = setlocale(LC_NUMERIC, some[i]) != NULL;
    if (!set) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    struct cache_row r = row("a", CACHE_TIMED, 0.125);
    struct cache_entry e = {.key = (char *)KEY, .rows = &r, .n = 1}, back;
    struct buf text = {0};
    cache_encode(&e, &text);
    assert_non_null(strstr(text.data, " 0.125 "));
    assert_true(cache_decode(text.data, text.size, &back));
    assert_true(back.rows[0].min_s == 0.125);
    cache_entry_free(&back);
    buf_free(&text);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_stored_is_found), WITH_PLACE(test_merge),          WITH_PLACE(test_damage),
        WITH_PLACE(test_wrong_name),      WITH_PLACE(test_not_files),      WITH_PLACE(test_unsafe_directory),
        WITH_PLACE(test_full_disk),       WITH_PLACE(test_read_only),      WITH_PLACE(test_two_at_once),
        WITH_PLACE(test_merge_patient),   WITH_PLACE(test_killed),
        WITH_PLACE(test_list_and_clear),  cmocka_unit_test(test_where),    cmocka_unit_test(test_none),
        cmocka_unit_test(test_decimal_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
