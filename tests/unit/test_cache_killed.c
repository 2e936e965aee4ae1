/* test_cache_killed.c - processes that are killed before and after each of their system calls, in a store, an import
 * and a tuning run: what had been stored is still there, whole, and the next store sweeps away what was left. What it
 * is not: a machine that loses power, or writers that take turns (test_cache.c, test_cache_lock.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devices.h"
#include "mutate.h"
#include "place.h"
#include "runtime/tune/tune.h"
#include "seed.h"

/* ---- one process, system call by system call ---- */

enum { NEVER = 1 << 30, UNTRACEABLE = -2 };

/* Runs work in a child that stops before and after each system call, calls `each` at every stop, and kills it at stop
 * number kill_at, counted from 1. Returns how many stops there were, and whether it was killed in *killed. */
static int run_stepwise(int (*work)(void *arg), void *arg, int kill_at, void (*each)(void *arg), bool *killed)
{
    int status, stops = 0;
    *killed = false;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(99);
        raise(SIGSTOP);
        _exit(work(arg));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        return UNTRACEABLE;
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (int signal_number = 0;;) {
        ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)signal_number);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status))
            break;
        bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        signal_number = at_call ? 0 : WSTOPSIG(status);
        if (!at_call)
            continue;
        stops++;
        if (each)
            each(arg);
        if (stops == kill_at) {
            kill(child, SIGKILL);
            assert_int_equal(waitpid(child, &status, 0), child);
            *killed = true;
            return stops;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child's status is %x", (unsigned)status);
    return stops;
}

/* ---- what was stored ---- */

enum { KEYS = 4 };
static const char *const keys[KEYS] = {"format 1\nbucket 0\n", "format 1\nbucket 1\n", "format 1\nbucket 2\n",
                                       "format 1\nbucket 3\n"};

static void put(struct cache *cache, int key, const char *name, double min_s)
{
    struct cache_row r = row(name, CACHE_TIMED, min_s);
    assert_int_equal(store(cache, keys[key], &r, 1), 0);
}

static double time_of(struct cache *cache, int key, const char *name)
{
    struct cache_entry e;
    double min_s = 0;
    if (!cache_load(cache, keys[key], &e))
        return -1;
    if (cache_find(&e, name))
        min_s = cache_find(&e, name)->min_s;
    cache_entry_free(&e);
    return min_s;
}

/* Two entries with two rows, and an object; the first time made, and then copied, which takes less time. */
static void fill(struct place *p)
{
    struct gen_error err;
    struct stat s;
    char full[80], command[500];
    snprintf(full, sizeof full, "%s/full", p->top);
    bool made = stat(full, &s) == 0;
    snprintf(command, sizeof command, "rm -rf %s && { test ! -d %s || cp -a %s %s; }", p->dir, full, full, p->dir);
    assert_int_equal(system(command), 0);
    if (made)
        return;
    for (int key = 0; key < 2; key++) {
        put(p->cache, key, "one", 1 + key);
        put(p->cache, key, "two", 3 + key);
    }
    assert_int_equal(cache_object_store(p->cache, keys[0], "machine code", 12, &err), 0);
    snprintf(command, sizeof command, "cp -a %s %s", p->dir, full);
    assert_int_equal(system(command), 0);
}

static void is_filled(struct cache *cache)
{
    size_t size;
    for (int key = 0; key < 2; key++) {
        assert_true(time_of(cache, key, "one") == 1 + key);
        assert_true(time_of(cache, key, "two") == 3 + key);
    }
    char *object = cache_object_load(cache, keys[0], &size);
    assert_non_null(object);
    assert_int_equal(size, 12);
    assert_memory_equal(object, "machine code", 12);
    free(object);
}

/* Usable: a store works at once, and leaves no file but entries, objects and the lock. */
static void is_usable(struct place *p, int files)
{
    put(p->cache, 1, "later", 9);
    is_filled(p->cache);
    assert_true(time_of(p->cache, 1, "later") == 9);
    assert_int_equal(files_in(p->dir), files);
    assert_int_equal(p->warnings, 0);
}

/* ---- stores ---- */

static int store_work(void *arg)
{
    struct place *p = arg;
    struct cache_row r = row("three", CACHE_TIMED, 7);
    return store(p->cache, keys[0], &r, 1) != 0;
}

static int first_store_work(void *arg)
{
    struct place *p = arg;
    struct cache_row r = row("one", CACHE_TIMED, 7);
    return store(p->cache, keys[0], &r, 1) != 0;
}

static int object_work(void *arg)
{
    struct place *p = arg;
    struct gen_error err;
    return cache_object_store(p->cache, keys[1], "more machine code", 17, &err) != 0;
}

static void skip_untraceable(int stops)
{
    if (stops != UNTRACEABLE)
        return;
    print_message("skipped: no process may be traced here\n");
    skip();
}

static void test_store(void **state)
{
    struct place *p = *state;
    bool killed = true;
    int stops, done = 0, i = 1;
    for (; killed; i++) {
        fill(p);
        stops = run_stepwise(store_work, p, i, NULL, &killed);
        skip_untraceable(stops);
        is_filled(p->cache);
        double three = time_of(p->cache, 0, "three");
        assert_true(three == 0 || three == 7);
        done += three == 7;
        is_usable(p, 4);
    }
    print_message("# killed at %d stops, after %d of which it was stored\n", i - 2, done - 1);
    assert_true(i > 20 && done > 1);
}

static void test_first_store(void **state)
{
    struct place *p = *state;
    char command[200];
    bool killed = true;
    int stops, i = 1;
    for (; killed; i++) {
        snprintf(command, sizeof command, "rm -rf %s/deep", p->top);
        assert_int_equal(system(command), 0);
        stops = run_stepwise(first_store_work, p, i, NULL, &killed);
        skip_untraceable(stops);
        double one = time_of(p->cache, 0, "one");
        assert_true(one == -1 || one == 7);
        put(p->cache, 1, "one", 1);
        assert_true(time_of(p->cache, 1, "one") == 1 && time_of(p->cache, 0, "one") == one);
        assert_int_equal(files_in(p->dir), 2 + (one == 7));
    }
    assert_true(i > 20);
}

static void test_object(void **state)
{
    struct place *p = *state;
    size_t size;
    bool killed = true;
    int stops, i = 1;
    for (; killed; i++) {
        fill(p);
        stops = run_stepwise(object_work, p, i, NULL, &killed);
        skip_untraceable(stops);
        is_filled(p->cache);
        char *object = cache_object_load(p->cache, keys[1], &size);
        assert_true(!object || (size == 17 && memcmp(object, "more machine code", 17) == 0));
        is_usable(p, 4 + (object != NULL));
        free(object);
    }
    assert_true(i > 20);
}

/* ---- imports ---- */

struct import {
    struct place *p;
    struct buf text;
};

static int import_work(void *arg)
{
    struct import *import = arg;
    struct gen_error err;
    int entries;
    return cache_import(import->p->cache, "text", import->text.data, import->text.size, &entries, &err) != 0;
}

/* One entry more of each kind: of a key that is there, and of two that are not. */
static void make_text(struct place *p, struct buf *text)
{
    struct gen_error err;
    int entries, unreadable, removed;
    put(p->cache, 0, "imported", 5);
    put(p->cache, 2, "imported", 5);
    put(p->cache, 3, "imported", 5);
    assert_int_equal(cache_export(p->cache, text, &entries, &unreadable, &err), 0);
    assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
}

static void test_import(void **state)
{
    struct place *p = *state;
    struct import import = {.p = p};
    bool killed = true;
    int stops, partly = 0, i = 1;
    make_text(p, &import.text);
    for (; killed; i++) {
        fill(p);
        stops = run_stepwise(import_work, &import, i, NULL, &killed);
        skip_untraceable(stops);
        is_filled(p->cache);
        int there = 0;
        for (int key = 0; key < KEYS; key++)
            there += time_of(p->cache, key, "imported") == 5;
        partly += there > 0 && there < 3;
        is_usable(p, 4 + (time_of(p->cache, 2, "imported") == 5) + (time_of(p->cache, 3, "imported") == 5));
        assert_int_equal(import_work(&import), 0); /* does the rest */
        assert_true(time_of(p->cache, 0, "imported") == 5 && time_of(p->cache, 2, "imported") == 5 &&
                    time_of(p->cache, 3, "imported") == 5);
        is_filled(p->cache);
    }
    print_message("# killed at %d stops, %d of them between two entries\n", i - 2, partly);
    assert_true(i > 40);
    buf_free(&import.text);
}

/* ---- a tuning run ---- */

enum { PROBLEMS = 2 };
struct tuning {
    struct place *p;
    struct gen *gen;
    struct resources resources;
    struct devices *devices;
    struct device *device;
    struct variant some[2];
    struct tune_target target[PROBLEMS];
    char *key[PROBLEMS];
    int rows[PROBLEMS]; /* seen in each one's entry so far */
    int64_t copies;
    uint64_t listing; /* of the directory, when it was last copied */
};

/* Two problems, the first of which is stored when the second is begun. */
static int tune_work(void *arg)
{
    struct tuning *t = arg;
    for (int i = 0; i < PROBLEMS; i++) {
        const struct tune_settings s = {
            .rigor = ATTN_MEASURE, .time_limit = 0.2, .only = t->some, .only_count = 2, .extend = true};
        struct tune_result result;
        struct gen_error err;
        if (tune(t->device, &t->target[i], &s, &result, &err) != 0 || !result.stored)
            return 1;
        tune_result_free(&result);
    }
    return 0;
}

static void count_rows(struct tuning *t, struct cache *cache)
{
    struct cache_entry e;
    for (int i = 0; i < PROBLEMS; i++) {
        int n = 0;
        if (cache_load(cache, t->key[i], &e)) {
            n = e.n;
            cache_entry_free(&e);
        }
        if (n < t->rows[i])
            fail_msg("problem %d had %d rows, and has %d now", i, t->rows[i], n);
        t->rows[i] = n;
    }
    is_filled(cache);
}

static uint64_t listing_of(const char *dir)
{
    char path[400];
    struct stat s;
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &s) == 0)
            sum += cache_hash(e->d_name, strlen(e->d_name)) * (uint64_t)(s.st_size + 1);
    }
    if (d)
        closedir(d);
    return sum;
}

/* What a kill at this moment would leave is what is there: nothing of a process outlives it but its files. A copy of
 * them is stored into. */
static void look(void *arg)
{
    struct tuning *t = arg;
    char command[400];
    uint64_t listing = listing_of(t->p->dir);
    if (listing == t->listing)
        return;
    t->listing = listing;
    count_rows(t, t->p->cache);
    struct place copy = *t->p;
    snprintf(copy.dir, sizeof copy.dir, "%.60s/copy", t->p->top);
    snprintf(command, sizeof command, "rm -rf %s && cp -a %s %s", copy.dir, t->p->dir, copy.dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(cache_open(copy.dir, NULL, NULL, &copy.cache), 0);
    put(copy.cache, 1, "later", 9);
    count_rows(t, copy.cache);
    assert_int_equal(files_in(copy.dir), 4 + (t->rows[0] > 0) + (t->rows[1] > 0));
    cache_close(copy.cache);
    t->copies++;
}

static void tuning_open(struct tuning *t, struct place *p)
{
    struct gen_error err;
    *t = (struct tuning){.p = p};
    assert_int_equal(gen_open(&t->gen, &err), 0);
    t->resources = (struct resources){.gen = t->gen, .cache = p->cache};
    assert_int_equal(devices_open(&t->resources, &t->devices, &err), 0);
    t->device = device_named(t->devices, "cpu", ATTN_TCC);
    for (int i = 0; i < 2; i++) {
        t->some[i] = variant_default(t->device->backend->why_not(t->device, ISA_AVX2) ? ISA_C : ISA_AVX2);
        t->some[i].field[F_HEAD_DIM] = 32;
        t->some[i].field[F_TILE_Q] = 24 + 24 * i;
    }
    for (int i = 0; i < PROBLEMS; i++) {
        struct buf key = {0};
        t->target[i] = (struct tune_target){
            .caller = t->some[0], .heads = 1, .kv_heads = 1, .batch = 1, .q_len = 16 << i, .kv_len = 16, .threads = 1};
        assert_int_equal(tune_key(t->device, &t->target[i], &key, &err), 0);
        t->key[i] = key.data;
    }
}

static void tuning_close(struct tuning *t)
{
    for (int i = 0; i < PROBLEMS; i++)
        free(t->key[i]);
    devices_close(t->devices);
    gen_close(t->gen);
}

/* Once with a look at every stop, then killed at some: a run takes too long to be killed at each. */
static void test_tuning(void **state)
{
    enum { KILLS = 6 };
    struct place *p = *state;
    struct tuning t;
    uint64_t seed = test_seed();
    bool killed;
    tuning_open(&t, p);
    fill(p);
    int stops = run_stepwise(tune_work, &t, NEVER, look, &killed);
    skip_untraceable(stops);
    print_message("# looked at %d stops, %lld of which had changed a file\n", stops, (long long)t.copies);
    assert_int_equal(t.rows[0], 2);
    assert_int_equal(t.rows[1], 2);
    assert_true(t.copies >= 5);
    for (int i = 0; i < KILLS; i++) {
        fill(p);
        memset(t.rows, 0, sizeof t.rows);
        /* The last of them are the second store. */
        int at = i % 2 ? stops - (int)dice(&seed, 60) : 1 + (int)dice(&seed, (uint64_t)stops);
        run_stepwise(tune_work, &t, at, NULL, &killed);
        count_rows(&t, p->cache);
        assert_true(t.rows[0] == 0 || t.rows[0] == 2);
        assert_true(t.rows[1] == 0 || t.rows[1] == 2);
        is_usable(p, 4 + (t.rows[0] > 0) + (t.rows[1] > 0));
    }
    tuning_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_store),  WITH_PLACE(test_first_store), WITH_PLACE(test_object),
        WITH_PLACE(test_import), WITH_PLACE(test_tuning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
