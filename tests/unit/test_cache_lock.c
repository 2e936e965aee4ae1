/* test_cache_lock.c - the cache's lock under forks and stopped processes, rows of different age, and entries that
 * cannot be read just now. What it is not: killed processes (test_cache_killed.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "place.h"
#include "runtime/cache/directory.h"
#include "runtime/cache/text.h"

static const char KEY[] = "format 1\nbucket 1\n";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- forks ---- */

enum { CHILDREN = 150 };
struct forker {
    pid_t child[CHILDREN];
    atomic_bool stop;
    int n;
};

static void *fork_on(void *arg)
{
    struct forker *f = arg;
    while (f->n < CHILDREN && !atomic_load(&f->stop)) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* should the test itself come to an end before */
            for (;;)
                pause();
        }
        if (child > 0)
            f->child[f->n++] = child;
        usleep(500);
    }
    return NULL;
}

/* Children that are forked in the middle of stores, and go on living, leave the lock to others. */
static void test_fork(void **state)
{
    struct place *p = *state;
    struct forker f = {.n = 0};
    struct cache_row r = row("a", CACHE_TIMED, 2);
    pthread_t thread;
    double longest = 0;
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, fork_on, &f), 0);
    int failed = 0;
    for (int i = 0; i < 300 && failed == 0; i++) {
        double start = now();
        failed = store(p->cache, KEY, &r, 1);
        longest = now() - start > longest ? now() - start : longest;
    }
    atomic_store(&f.stop, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < f.n; i++) {
        kill(f.child[i], SIGKILL);
        waitpid(f.child[i], NULL, 0);
    }
    print_message("# %d children; the longest store took %.3f s\n", f.n, longest);
    assert_true(f.n > 0);
    assert_int_equal(failed, 0);
    assert_int_equal(p->warnings, 0);
}

/* ---- a holder that does not go on ---- */

/* A process that holds the lock and stands still. */
static pid_t stopped_holder(const struct place *p)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        char path[128];
        snprintf(path, sizeof path, "%s/lock", p->dir);
        int fd = open(path, O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX) != 0)
            _exit(1);
        raise(SIGSTOP);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void test_stopped_holder(void **state)
{
    struct place *p = *state;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    struct cache_entry e;
    struct gen_error err = {0};
    struct buf text = {0};
    int entries, unreadable, removed;
    char object[] = "object";
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    pid_t holder = stopped_holder(p);
    alarm(60); /* where the lock has no deadline */
    double start = now();
    for (int i = 0; i < 100; i++) { /* readers never wait */
        assert_true(cache_load(p->cache, KEY, &e));
        cache_entry_free(&e);
    }
    assert_int_equal(cache_export(p->cache, &text, &entries, &unreadable, &err), 0);
    assert_true(now() - start < 1);
    start = now();
    struct cache_entry one = {.key = (char *)KEY, .rows = &r, .n = 1};
    assert_int_equal(cache_store(p->cache, &one, &err), -1);
    assert_non_null(strstr(err.text, "nothing was stored: another process has held the cache's lock for 2 seconds"));
    double took = now() - start;
    assert_true(took >= 1.9 && took < 10);
    assert_int_equal(p->warnings, 1);
    assert_non_null(strstr(p->warning, "another process has held the cache's lock"));
    start = now(); /* those who come next need not find out anew */
    for (int i = 0; i < 5; i++)
        assert_int_equal(cache_object_store(p->cache, KEY, object, sizeof object, &err), -1);
    assert_int_equal(cache_import(p->cache, "text", text.data, text.size, &entries, &err), -1);
    assert_non_null(strstr(err.text, "nothing was imported: another process"));
    assert_int_equal(cache_clear(p->cache, &removed, &err), -1);
    assert_non_null(strstr(err.text, "not cleared: another process"));
    assert_true(now() - start < 5);
    assert_int_equal(p->warnings, 1);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    assert_int_equal(cache_import(p->cache, "text", text.data, text.size, &entries, &err), 0);
    alarm(0);
    buf_free(&text);
}

/* Many processes that take turns are no hang: one that waits for longer than a deadline, while others go on, still gets
 * the lock. */
static void test_turns(void **state)
{
    struct place *p = *state;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    int dir = cache_dir_open(p->cache, true, NULL), ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) { /* has it for 0.2 s seven times, with nothing between */
        for (int i = 0; i < 7; i++) {
            int held = cache_dir_lock(dir, 1);
            if (i == 0)
                (void)!write(ready[1], "x", 1);
            usleep(200000);
            cache_dir_unlock(held);
        }
        _exit(0);
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    int held = cache_dir_lock(dir, 0.5);
    assert_true(held >= 0);
    cache_dir_unlock(held);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    close(dir);
}

/* ---- rows and their age ---- */

static struct cache_row dated(const char *name, enum cache_state state, int64_t when)
{
    struct cache_row r = row(name, state, state == CACHE_TIMED ? 2 : 0);
    r.when = when;
    return r;
}

static enum cache_state state_of(struct place *p, const char *name)
{
    struct cache_entry e;
    assert_true(cache_load(p->cache, KEY, &e));
    assert_non_null(cache_find(&e, name));
    enum cache_state state = cache_find(&e, name)->state;
    cache_entry_free(&e);
    return state;
}

/* Of a timing and a wrong result the later one stands, whichever is stored first; a row that nobody measured replaces no
 * timing. */
static void test_later_stands(void **state)
{
    struct place *p = *state;
    struct gen_error err;
    int removed;
    struct cache_row one[] = {dated("was_wrong", CACHE_WRONG, 1000), dated("is_wrong", CACHE_TIMED, 1000),
                              dated("both", CACHE_WRONG, 1000), dated("unmeasured", CACHE_TIMED, 1000)};
    struct cache_row two[] = {dated("was_wrong", CACHE_TIMED, 2000), dated("is_wrong", CACHE_WRONG, 2000),
                              dated("both", CACHE_TIMED, 1000), dated("unmeasured", CACHE_REJECTED, 2000)};
    two[3].source = 0;
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
        assert_int_equal(store(p->cache, KEY, turn ? two : one, 4), 0);
        assert_int_equal(store(p->cache, KEY, turn ? one : two, 4), 0);
        assert_int_equal(state_of(p, "was_wrong"), CACHE_TIMED);
        assert_int_equal(state_of(p, "is_wrong"), CACHE_WRONG);
        assert_int_equal(state_of(p, "both"), CACHE_WRONG);
        assert_int_equal(state_of(p, "unmeasured"), CACHE_TIMED);
    }
}

static void test_dates(void **state)
{
    struct place *p = *state;
    static const int64_t some[] = {0, 1, 86399, 951782400, 951868799, 1000000000, 1709164800, 1735689599};
    enum { N = sizeof some / sizeof *some };
    struct cache_row rows[N + 1];
    struct cache_entry e;
    char path[CACHE_PATH_MAX], text[8192], name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n%d", i);
        rows[i] = dated(name, CACHE_TIMED, some[i]);
    }
    rows[N] = dated("future", CACHE_WRONG, (int64_t)time(NULL) + 1000); /* of a clock that was wrong: not known */
    assert_int_equal(store(p->cache, KEY, rows, N + 1), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    for (int i = 0; i < N; i++)
        assert_int_equal(cache_find(&e, rows[i].name)->when, some[i]);
    assert_int_equal(cache_find(&e, "future")->when, 0);
    cache_entry_free(&e);
    cache_file(p->cache, KEY, path);
    text[read_all(path, text, sizeof text - 1)] = 0;
    assert_non_null(strstr(text, " timed 2000-02-29T00:00:00Z "));
    assert_non_null(strstr(text, " timed 2001-09-09T01:46:40Z "));
}

/* Every day of the calendar comes back as it was. */
static void test_every_day(void **state)
{
    (void)state;
    enum { DAYS = 47482, EACH = 500 }; /* to the year 2100, which has no leap day */
    struct cache_row rows[EACH];
    for (int64_t day = 0; day < DAYS; day += EACH) {
        struct cache_entry e = {.key = (char *)KEY, .rows = rows, .n = EACH}, back;
        struct buf text = {0};
        for (int i = 0; i < EACH; i++)
            rows[i] = dated("a", CACHE_TIMED, (day + i) * 86400 + (day + i) % 86400);
        cache_encode(&e, &text);
        assert_true(cache_decode(text.data, text.size, &back));
        for (int i = 0; i < EACH; i++)
            assert_int_equal(back.rows[i].when, rows[i].when > time(NULL) ? 0 : rows[i].when);
        cache_entry_free(&back);
        buf_free(&text);
    }
}

/* ---- what cannot be read just now ---- */

#ifndef __SANITIZE_ADDRESS__
static int store_without_memory(struct place *p)
{
    struct cache_row r = row("more", CACHE_TIMED, 2);
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1)
        return 8;
    fclose(f);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 19); /* less than the entry has */
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) != 0)
        return 9;
    return store(p->cache, KEY, &r, 1) == -1 ? 0 : 1;
}
#endif

/* An entry that is whole, and only cannot be read for want of memory, must not be replaced as if it were damaged. */
static void test_no_memory_to_read(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    (void)state;
    print_message("skipped: the address sanitizer needs the address space\n");
    skip();
#else
    enum { ROWS = 9000 };
    struct place *p = *state;
    struct cache_row *rows = calloc(ROWS, sizeof *rows);
    struct cache_entry e;
    char name[GEN_NAME_MAX];
    for (int i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "a_row_with_a_name_of_some_length_so_that_the_file_becomes_a_large_one_%d", i);
        rows[i] = row(name, CACHE_TIMED, 2);
    }
    assert_int_equal(store(p->cache, KEY, rows, ROWS), 0);
    free(rows);
    assert_int_equal(in_child(p, store_without_memory), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    assert_int_equal(e.n, ROWS);
    cache_entry_free(&e);
#endif
}

/* Where there are no links, an import moves a file aside before the new one takes its place. */
static void test_moved_aside(void **state)
{
    struct place *p = *state;
    struct cache_row r = row("a", CACHE_TIMED, 2);
    char path[CACHE_PATH_MAX], aside[CACHE_PATH_MAX + 16], other[CACHE_PATH_MAX];
    struct cache_entry e;
    assert_int_equal(store(p->cache, KEY, &r, 1), 0);
    cache_file(p->cache, KEY, path);
    snprintf(aside, sizeof aside, "%s.0123", path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(store(p->cache, "format 1\nbucket 2\n", &r, 1), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    cache_entry_free(&e);
    cache_file(p->cache, "format 1\nbucket 2\n", other);
    assert_int_equal(link(other, aside), 0); /* and one whose place is taken goes */
    assert_int_equal(store(p->cache, "format 1\nbucket 2\n", &r, 1), 0);
    assert_true(cache_load(p->cache, KEY, &e));
    cache_entry_free(&e);
    assert_int_equal(files_in(p->dir), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_fork),
        WITH_PLACE(test_stopped_holder),
        WITH_PLACE(test_turns),
        WITH_PLACE(test_later_stands),
        WITH_PLACE(test_dates),
        cmocka_unit_test(test_every_day),
        WITH_PLACE(test_no_memory_to_read),
        WITH_PLACE(test_moved_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
