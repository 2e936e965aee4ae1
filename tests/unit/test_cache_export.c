/* test_cache_export.c - the cache as one text and back: nothing is lost, and a text that is not whole and right in
 * every line changes nothing. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/text.h"
#include "mutate.h"
#include "place.h"
#include "seed.h"

static const char *const KEYS[] = {"format 1\nprocessor a b c\nbucket 1,2,3\n", "format 1\nprocessor a b c\nbucket 4\n",
                                   "format 1\n"};
enum { KEYS_COUNT = 3, ROWS = 6 };

static void fill(struct cache *cache)
{
    struct cache_row rows[ROWS] = {row("a", CACHE_TIMED, 2e-3), row("b", CACHE_TIMED, 1.23456789e-3),
                                   row("c", CACHE_REJECTED, 0), row("d", CACHE_UNREACHED, 0),
                                   row("e", CACHE_WRONG, 0),    row("f", CACHE_DROPPED, 3e-3)};
    rows[1].noisy = rows[5].patient = true;
    rows[3].limit_s = 2.5;
    rows[4].error = (double)INFINITY;
    strcpy(rows[2].note, "a.t:3: error: the rule; expected  another");
    for (int i = 0; i < KEYS_COUNT; i++)
        assert_int_equal(store(cache, KEYS[i], rows + i, ROWS - i), 0);
}

static void export_some(struct cache *cache, int expected, int expected_unreadable, struct buf *out)
{
    struct gen_error err = {0};
    int entries = -1, unreadable = -1;
    if (cache_export(cache, out, &entries, &unreadable, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(entries, expected);
    assert_int_equal(unreadable, expected_unreadable);
}

static void export(struct cache *cache, int expected, struct buf *out)
{
    export_some(cache, expected, 0, out);
}

static int import(struct cache *cache, const char *text, size_t size, struct gen_error *err)
{
    int entries = -1;
    int result = cache_import(cache, "file.txt", text, size, &entries, err);
    assert_true(result == 0 ? entries >= 0 : entries == 0);
    return result;
}

/* A second cache of the same place. */
static struct cache *other_cache(const struct place *p)
{
    char dir[128];
    struct cache *other;
    snprintf(dir, sizeof dir, "%s/other", p->top);
    assert_int_equal(cache_open(dir, NULL, NULL, &other), 0);
    return other;
}

static void test_round_trip(void **state)
{
    struct place *p = *state;
    struct cache *other = other_cache(p);
    struct buf first = {0}, second = {0};
    struct gen_error err;
    struct cache_entry e;
    export(p->cache, 0, &first); /* there is no cache yet: an export of nothing, which can be imported */
    assert_int_equal(import(other, first.data, first.size, &err), 0);
    buf_free(&first);
    fill(p->cache);
    export(p->cache, KEYS_COUNT, &first);
    for (int i = 0; i < 2; i++) { /* the second time it is there already */
        assert_int_equal(import(other, first.data, first.size, &err), 0);
        export(other, KEYS_COUNT, &second);
        assert_string_equal(first.data, second.data);
        buf_free(&second);
    }
    assert_true(cache_load(other, KEYS[0], &e));
    assert_int_equal(e.n, ROWS);
    assert_string_equal(cache_winner(&e)->name, "b");
    assert_true(cache_find(&e, "b")->noisy && cache_find(&e, "f")->patient && isinf(cache_find(&e, "e")->error));
    assert_string_equal(cache_find(&e, "c")->note, "a.t:3: error: the rule; expected  another");
    cache_entry_free(&e);
    assert_int_equal(files_in(cache_path(other)), KEYS_COUNT + 1);
    buf_free(&first);
    cache_close(other);
}

static void test_import_merges(void **state)
{
    struct place *p = *state;
    struct cache *other = other_cache(p);
    struct cache_row here[] = {row("both", CACHE_TIMED, 2), row("mine", CACHE_TIMED, 4)};
    struct cache_row there[] = {row("both", CACHE_TIMED, 1), row("theirs", CACHE_TIMED, 3)};
    struct buf text = {0};
    struct gen_error err;
    struct cache_entry e;
    assert_int_equal(store(p->cache, KEYS[0], here, 2), 0);
    assert_int_equal(store(other, KEYS[0], there, 2), 0);
    export(other, 1, &text);
    assert_int_equal(import(p->cache, text.data, text.size, &err), 0);
    assert_true(cache_load(p->cache, KEYS[0], &e));
    assert_int_equal(e.n, 3);
    assert_true(cache_find(&e, "both")->min_s == 1 && cache_find(&e, "mine") && cache_find(&e, "theirs"));
    cache_entry_free(&e);
    buf_free(&text);
    cache_close(other);
}

/* Damaged files and copies under a wrong name are nobody's entries. */
static void test_export_leaves_out(void **state)
{
    struct place *p = *state;
    char path[CACHE_PATH_MAX], copy[CACHE_PATH_MAX], bytes[4096];
    struct buf text = {0};
    fill(p->cache);
    cache_file(p->cache, KEYS[0], path);
    cache_file(p->cache, "format 9\n", copy);
    write_all(copy, bytes, read_all(path, bytes, sizeof bytes));
    assert_int_equal(chmod(copy, 0600), 0);
    cache_file(p->cache, KEYS[1], path);
    write_all(path, "damaged", 7);
    export_some(p->cache, KEYS_COUNT - 1, 1, &text);
    buf_free(&text);
}

/* In memory of just that size, so that ASan sees reading past it. */
static int import_exact(struct cache *cache, const char *text, size_t size, struct gen_error *err)
{
    char *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, text, size);
    int result = import(cache, exact, size, err);
    free(exact);
    return result;
}

static void test_damage(void **state)
{
    struct place *p = *state;
    struct cache *other = other_cache(p);
    struct buf text = {0};
    struct gen_error err;
    fill(p->cache);
    export(p->cache, KEYS_COUNT, &text);
    for (size_t i = 0; i < text.size; i++) {
        assert_int_equal(import_exact(other, text.data, i, &err), -1);
        assert_non_null(strstr(err.text, "; expected"));
        text.data[i] ^= 1;
        assert_int_equal(import_exact(other, text.data, text.size, &err), -1);
        text.data[i] ^= 1;
        assert_true(strncmp(err.text, "file.txt:", 9) == 0 && strstr(err.text, ": error: "));
    }
    assert_int_equal(files_in(cache_path(other)), 0); /* not even the directory */
    buf_free(&text);
    cache_close(other);
}

/* ---- hostile texts: every checksum right ---- */

static void put_sum(struct buf *out, size_t from)
{
    buf_printf(out, "sum %016llx\n", (unsigned long long)cache_hash(out->data + from, out->size - from));
}

/* A text of entries of which each is given without its last line. */
static void seal(const char *const *entries, const size_t *size, int n, struct buf *out)
{
    buf_puts(out, "attngen export 1\n");
    for (int i = 0; i < n; i++) {
        size_t from = out->size;
        buf_put(out, entries[i], size[i]);
        put_sum(out, from);
    }
    put_sum(out, 0);
}

static void refuses(struct place *p, const char *entry, const char *message)
{
    struct buf text = {0};
    struct gen_error err = {0};
    const char *two[] = {"attngen cache 3\nkey format 0\n", entry};
    size_t size[] = {strlen(two[0]), strlen(two[1])};
    seal(two, size, 2, &text);
    assert_int_equal(import_exact(p->cache, text.data, text.size, &err), -1);
    assert_string_equal(err.text, message);
    assert_int_equal(files_in(p->dir), 0);
    buf_free(&text);
}

#define ENTRY "attngen cache 3\nkey format 1\n"
#define BAD_ROW "file.txt:7: error: the row cannot be read; expected the words that `columns` names"

static void test_hostile(void **state)
{
    struct place *p = *state;
    refuses(p, "attngen cache 1\nkey format 1\n",
            "file.txt:5: error: no entry begins here; expected `attngen cache 3`");
    refuses(p, "attngen cache 3\n", "file.txt:6: error: the entry has no key; expected lines that begin with `key`");
    refuses(p, "attngen cache 3\nkey bucket 1\n",
            "file.txt:5: error: the key of the entry that begins here names no"
            " format; expected `key format` as its first line");
    refuses(p, "attngen cache 3\nkey format 0\n",
            "file.txt:5: error: the entry that begins here has the key of the one in"
            " line 2; expected one entry for each key");
    refuses(p, ENTRY "key x \033[2J\n",
            "file.txt:7: error: byte 0x1b is not part of a text; expected printable characters");
    refuses(p, ENTRY "rule\n",
            "file.txt:7: error: the line does not begin with a word of an entry; expected key, columns or"
            " row");
    refuses(p, ENTRY "row a 12 timed 2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet measure \n", BAD_ROW);
    static const char *const dates[] = {"2026-01-02",           "2026-13-02T03:04:05Z", "2026-01-02T24:04:05Z",
                                        "1767322800",           "2026-01-02T03:04:05+", "-026-01-02T03:04:05Z",
                                        "2026-01-02T03:04:05Zx"};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        char entry[200];
        snprintf(entry, sizeof entry, ENTRY "row a 0000000000000012 timed %s 1 1 1 1 1 1 quiet measure \n", dates[i]);
        refuses(p, entry, BAD_ROW);
    }
    refuses(p, ENTRY "row a 0000000000000012 quick 2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z 0 1 1 1 1 1 quiet measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z inf 1 1 1 1 1 quiet measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z -1 1 1 1 1 1 quiet measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z 1 1 1 1 1 nan quiet measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z 1 1 1 1 1 1 calm measure \n", BAD_ROW);
    refuses(p, ENTRY "row a 0000000000000012 timed 2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet\n", BAD_ROW);
    refuses(p,
            ENTRY "row "
                  "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
                  "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
                  "4567890123456789012345678901234567890123456789012345678901234567890123456789 0000000000000012 timed "
                  "2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet measure \n",
            BAD_ROW);
    refuses(p, ENTRY "sum 0000000000000000\nrow\n",
            "file.txt:5: error: the checksum of the entry that begins here is wrong; expected an unchanged one");
}

static void frame_is(struct place *p, const char *text, size_t size, const char *message)
{
    struct gen_error err = {0};
    assert_int_equal(import_exact(p->cache, text, size, &err), -1);
    assert_string_equal(err.text, message);
}

static void test_frame(void **state)
{
    struct place *p = *state;
    struct buf text = {0};
    static const char FOREIGN[] = "file.txt:1: error: this is not what `attngen cache export` writes; expected `attngen"
                                  " export 1`";
    static const char CUT[] = "error: the end is missing; expected `sum` and 16 digits, alone in the last line";
    char message[200];
    frame_is(p, "", 0, FOREIGN);
    frame_is(p, "\0\0\0\0", 4, FOREIGN);
    frame_is(p, "attngen export 2\nsum 0000000000000000\n", 38, FOREIGN);
    snprintf(message, sizeof message, "file.txt:1: %s", CUT);
    frame_is(p, "attngen export 1\n", 17, message);
    fill(p->cache);
    export(p->cache, KEYS_COUNT, &text);
    snprintf(message, sizeof message, "file.txt:2: %s", CUT);
    frame_is(p, text.data, 20, message);
    text.data[text.size - 30] ^= 1;
    frame_is(p, text.data, text.size,
             "file.txt:33: error: the checksum is not that of the lines before; expected an"
             " unchanged file");
    buf_free(&text);
}

/* Whatever damage, sealed anew: refused and nothing written, or all of it is good and comes back the same. */
static void test_mutations(void **state)
{
    struct place *p = *state;
    struct cache_row rows[] = {row("a", CACHE_TIMED, 2e-3), row("b", CACHE_WRONG, 0)};
    struct cache_entry good = {.key = (char *)KEYS[0], .rows = rows, .n = 2};
    struct buf entry = {0};
    struct gen_error err;
    uint64_t seed = test_seed();
    int taken = 0, removed;
    strcpy(rows[1].note, "a note");
    cache_encode(&good, &entry);
    for (int i = 0; i < 1500; i++) {
        struct buf text = {0}, once = {0}, twice = {0};
        size_t size;
        char *damaged = mutate(entry.data, entry.size - 21, &seed, &size);
        assert_non_null(damaged);
        seal((const char *const *)&damaged, &size, 1, &text);
        if (import_exact(p->cache, text.data, text.size, &err) != 0) {
            assert_true(strncmp(err.text, "file.txt:", 9) == 0 && strstr(err.text, "; expected "));
            assert_true(files_in(p->dir) <= 0);
        } else {
            taken++;
            export(p->cache, 1, &once);
            assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
            assert_int_equal(import_exact(p->cache, once.data, once.size, &err), 0);
            export(p->cache, 1, &twice);
            assert_string_equal(once.data, twice.data);
            assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
        }
        buf_free(&text);
        buf_free(&once);
        buf_free(&twice);
        free(damaged);
    }
    print_message("# %d of 1500 damaged texts were good ones\n", taken);
    buf_free(&entry);
}

/* As many rows as an entry may have, and one more. */
static void test_huge(void **state)
{
    struct place *p = *state;
    struct buf entry = {0}, text = {0};
    struct gen_error err = {0};
    buf_puts(&entry, ENTRY);
    for (int i = 0; i < CACHE_ROWS_MAX; i++)
        buf_printf(&entry, "row n%06d 0000000000000012 timed 2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet measure \n",
                   CACHE_ROWS_MAX - i);
    seal((const char *const *)&entry.data, &entry.size, 1, &text);
    assert_int_equal(import_exact(p->cache, text.data, text.size, &err), 0);
    buf_free(&text);
    export(p->cache, 1, &text);
    struct cache_row r = row("one-more", CACHE_TIMED, 1);
    assert_int_equal(store(p->cache, "format 1\n", &r, 1), -1); /* it could not be read again */
    buf_puts(&entry, "row n0 0000000000000012 timed 2026-01-02T03:04:05Z 1 1 1 1 1 1 quiet measure \n");
    buf_free(&text);
    seal((const char *const *)&entry.data, &entry.size, 1, &text);
    assert_int_equal(import_exact(p->cache, text.data, text.size, &err), -1);
    assert_string_equal(err.text, "file.txt:20004: error: the entry has too many rows; expected at most 20000");
    buf_free(&text);
    buf_free(&entry);
}

/* ---- a directory that takes only some ---- */

/* One of the files cannot be replaced: those before it get back what they were. */
static void test_put_back(void **state)
{
    for (int blocked = 0; blocked < KEYS_COUNT; blocked++) {
        struct place *p = *state;
        struct cache *other = other_cache(p);
        struct cache_row old = row("old", CACHE_TIMED, 5);
        struct buf text = {0};
        struct gen_error err;
        struct cache_entry e;
        char path[CACHE_PATH_MAX];
        int had = (blocked + 1) % KEYS_COUNT, absent = (blocked + 2) % KEYS_COUNT, removed;
        fill(p->cache);
        export(p->cache, KEYS_COUNT, &text);
        assert_int_equal(store(other, KEYS[had], &old, 1), 0);
        cache_file(other, KEYS[blocked], path);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(import(other, text.data, text.size, &err), -1);
        assert_non_null(strstr(err.text, "/other: error: nothing was imported: "));
        assert_true(cache_load(other, KEYS[had], &e));
        assert_true(e.n == 1 && e.rows[0].min_s == 5);
        cache_entry_free(&e);
        assert_false(cache_load(other, KEYS[absent], &e));
        assert_int_equal(files_in(cache_path(other)), 3); /* the entry, the directory, the lock */
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(import(other, text.data, text.size, &err), 0);
        assert_true(cache_load(other, KEYS[had], &e));
        assert_non_null(cache_find(&e, "old"));
        cache_entry_free(&e);
        assert_int_equal(cache_clear(other, &removed, &err), 0);
        assert_int_equal(removed, KEYS_COUNT);
        buf_free(&text);
        cache_close(other);
    }
}

/* The first entries fit, the last does not. */
static int full_disk(struct place *p)
{
    struct cache *other = other_cache(p);
    struct cache_row large[64];
    struct buf text = {0};
    struct gen_error err;
    for (int i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        large[i] = row(name, CACHE_TIMED, 1);
    }
    if (store(p->cache, "format 2\n", large, 64) != 0 || store(other, "format 1\n", large, 1) != 0)
        return 1;
    export(p->cache, KEYS_COUNT + 1, &text);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){3000, 3000});
    if (import(other, text.data, text.size, &err) != -1)
        return 2;
    buf_free(&text);
    export(other, 1, &text);
    bool unchanged = text.size < 500 && files_in(cache_path(other)) == 2;
    buf_free(&text);
    cache_close(other);
    return unchanged ? 0 : 3;
}

static void test_full_disk(void **state)
{
    struct place *p = *state;
    fill(p->cache);
    assert_int_equal(in_child(p, full_disk), 0);
}

static void test_unusable(void **state)
{
    struct place *p = *state;
    struct buf text = {0};
    struct gen_error err;
    int entries, unreadable;
    fill(p->cache);
    export(p->cache, KEYS_COUNT, &text);
    assert_int_equal(chmod(p->dir, 0777), 0);
    assert_int_equal(import(p->cache, text.data, text.size, &err), -1);
    assert_non_null(strstr(err.text, "expected a directory of mode 0700"));
    buf_free(&text);
    assert_int_equal(cache_export(p->cache, &text, &entries, &unreadable, &err), -1);
    assert_non_null(strstr(err.text, "expected a directory of mode 0700"));
    assert_int_equal(p->warnings, 1);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_round_trip), WITH_PLACE(test_import_merges), WITH_PLACE(test_export_leaves_out),
        WITH_PLACE(test_damage),     WITH_PLACE(test_hostile),       WITH_PLACE(test_frame),
        WITH_PLACE(test_mutations),  WITH_PLACE(test_huge),          WITH_PLACE(test_put_back),
        WITH_PLACE(test_full_disk),  WITH_PLACE(test_unusable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
