/* test_allocation.c - memory that runs out at every allocation that libattn makes: nothing ends the process, crashes,
 * leaks or prints, the status says what happened, and the same call works right afterwards. What it is not: a test of
 * other errors. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kit/child.h"
#include "../kit/devices.h"
#include "../kit/starve.h"
#include "runtime/attn.h"

/* One of so many points is also tried with all later allocations failing. */
enum { ALL_AFTER = 4 };
enum { ROWS = 5, KEYS = 9, DIM = 16, HEADS = 2, OUT = ROWS * DIM * HEADS };
enum { TIME_LIMIT = 300, DEATHS_MAX = 20, ROOM = 16384 };

/* In which call memory runs out. */
enum stage { CREATE, PLAN, RUN, STAGES };
static const char *const stage_name[STAGES] = {"attn_context_create", "attn_plan_create", "attn_execute"};

enum cached { NO_CACHE, EMPTY_CACHE, WARM_CACHE };
struct scenario {
    const char *name, *device;
    attn_compiler compiler;
    enum cached cached;
    const char *variant; /* NULL: the estimate's */
    enum stage from;     /* stages before it are another scenario's */
    int step;            /* of the points in plan creation, where those of the generator are another scenario's */
    bool measured;       /* candidates are timed, whose points are too many: each is four times the one before it */
};

/* What a child tells its parent, which outlives it. */
struct report {
    int stage;
    long point; /* to begin with, or where it died */
    bool on;
    long points, refused, optional, wrong;
    char text[ROOM];
};

struct work {
    const struct scenario *scenario;
    struct report *report;
    char folder[200];
};

static void say(struct report *r, const char *what, const char *more)
{
    size_t used = strlen(r->text);
    if (r->wrong++ < 20)
        snprintf(r->text + used, sizeof r->text - used, "%s, allocation %ld%s: %s: %s\n", stage_name[r->stage],
                 r->point, r->on ? " and all after it" : "", what, more);
}

/* ---- one sequence of calls ---- */

struct chain {
    struct attn_context *context;
    struct attn_plan *plan;
    char name[256];
    float out[OUT];
};

static attn_status do_stage(const struct work *w, enum stage stage, struct chain *c, struct attn_error *err)
{
    static float q[ROWS * DIM * HEADS], k[KEYS * DIM], v[KEYS * DIM];
    for (int i = 0; i < ROWS * DIM * HEADS; i++)
        q[i] = (float)(i % 7) / 7;
    for (int i = 0; i < KEYS * DIM; i++)
        k[i] = (float)(i % 5) / 5, v[i] = (float)(i % 11) / 11;
    const struct scenario *s = w->scenario;
    const struct attn_options options = {.size = sizeof options, .cache_dir = s->cached == NO_CACHE ? "" : w->folder};
    const struct attn_problem problem = {.size = sizeof problem, .head_dim = DIM, .heads = HEADS, .kv_heads = 1,
                                         .max_batch = 1, .max_q_len = ROWS, .max_kv_len = KEYS, .threads = 2,
                                         .device = s->device, .compiler = s->compiler, .variant = s->variant,
                                         .time_limit = 0.05, .rigor = s->measured ? ATTN_MEASURE : ATTN_ESTIMATE};
    const struct attn_run run = {.size = sizeof run, .q = q, .k = k, .v = v, .o = c->out, .batch = 1, .q_len = ROWS,
                                 .kv_len = KEYS};
    struct attn_plan_info info = {.size = sizeof info};
    attn_status status;
    switch (stage) {
    case CREATE: return attn_context_create(&options, &c->context, err);
    case PLAN:
        status = attn_plan_create(c->context, &problem, &c->plan, err);
        if (status == ATTN_OK && attn_plan_describe(c->plan, &info, err) == ATTN_OK)
            snprintf(c->name, sizeof c->name, "%s", info.variant);
        return status;
    default: memset(c->out, 0xff, sizeof c->out); return attn_execute(c->plan, &run, NULL, err);
    }
}

static void end_chain(struct chain *c)
{
    attn_plan_destroy(c->plan);
    attn_context_destroy(c->context);
}

static void empty_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Runs every stage in order. In stage `starved` the allocation that the report names fails, and then the stage is done
 * again. True if there was such an allocation. */
static bool go_through(const struct work *w, enum stage starved, struct chain *c)
{
    struct report *r = w->report;
    bool hit = false;
    for (enum stage s = CREATE; s < STAGES; s++) {
        struct attn_error err = {""};
        if (s == starved) {
            starve(r->point, r->on);
            attn_status status = do_stage(w, s, c, &err);
            starve_end(&hit);
            if (hit && status == ATTN_OK) {
                r->optional++;
                continue;
            }
            r->refused += hit;
            if (hit && (status != ATTN_NO_MEMORY || !strstr(err.text, "memory")))
                say(r, attn_status_name(status), err.text);
        }
        if (s != starved || hit) {
            attn_status status = do_stage(w, s, c, &err);
            if (status != ATTN_OK) {
                say(r, s == starved ? "not again" : "not afterwards", err.text);
                break;
            }
        }
    }
    return hit;
}

static bool try_point(const struct work *w, enum stage stage, const struct chain *good)
{
    struct report *r = w->report;
    struct chain c = {0};
    if (w->scenario->cached == EMPTY_CACHE)
        empty_folder(w->folder);
    const long before = starve_held();
    const int files = open_files();
    bool hit = go_through(w, stage, &c);
    if (hit && !w->scenario->measured && strcmp(c.name, good->name) != 0)
        say(r, "another variant", c.name);
    if (hit && !w->scenario->measured && memcmp(c.out, good->out, sizeof c.out) != 0)
        say(r, "another result", "");
    end_chain(&c);
    if (starve_held() != before)
        say(r, starve_held() > before ? "memory is kept" : "more is freed than was taken", "");
    if (open_files() != files && strcmp(w->scenario->device, "cpu") == 0)
        say(r, "a file is kept open", "");
    return hit;
}

static long next_point(const struct work *w)
{
    const struct report *r = w->report;
    if (w->scenario->measured)
        return 4 * r->point + 3;
    return r->point + (r->stage == PLAN ? w->scenario->step : 1);
}

/* In a child: tries the points from the report's on, and says in the report how far it came. */
static int go_on(void *arg)
{
    struct work *w = arg;
    struct report *r = w->report;
    struct chain good = {0};
    starve(-1, false);
    for (enum stage s = CREATE; s < STAGES; s++) {
        struct attn_error err = {""};
        if (do_stage(w, s, &good, &err) != ATTN_OK) {
            say(r, "without hunger", err.text);
            return 1;
        }
    }
    end_chain(&good);
    for (; r->stage < (w->scenario->measured ? RUN : STAGES); r->stage++, r->point = 0)
        for (;; r->point = next_point(w)) {
            r->points++;
            r->on = false;
            if (!try_point(w, (enum stage)r->stage, &good))
                break;
            r->on = true;
            if (r->points % ALL_AFTER == 0)
                try_point(w, (enum stage)r->stage, &good);
        }
    return 0;
}

/* ---- the children ---- */

/* Does the work in a child, and keeps every word that it prints; a child that dies means that an allocation ended the
 * process. */
static int go_on_silently(void *arg)
{
    struct work *w = arg;
    char path[240];
    snprintf(path, sizeof path, "%s.said", w->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600), out = dup(1), err = dup(2);
    dup2(fd, 1);
    dup2(fd, 2);
    int result = go_on(arg);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    return result;
}

static void check_silence(const struct work *w)
{
    char path[240], text[400] = "";
    snprintf(path, sizeof path, "%s.said", w->folder);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    unlink(path);
    if (n > 0)
        say(w->report, "it printed", text);
}

static void hunger(const struct scenario *s)
{
    struct work w = {.scenario = s, .report = shared_memory(sizeof *w.report)};
    struct report *r = w.report;
    const char *tmp = getenv("TMPDIR");
    assert_non_null(r);
    snprintf(w.folder, sizeof w.folder, "%.150s/allocation-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(w.folder));
    r->stage = s->from;
    for (int deaths = 0; r->stage < STAGES && deaths < DEATHS_MAX; deaths++) {
        char why[100] = "by itself";
        if (run_child(go_on_silently, &w, TIME_LIMIT, why, sizeof why) == 0)
            break;
        say(r, "the process ended", why);
        r->point++;
    }
    check_silence(&w);
    empty_folder(w.folder);
    rmdir(w.folder);
    print_message("# %s: %ld points, %ld times refused, %ld times done without\n", s->name, r->points, r->refused,
                  r->optional);
    const long wrong = r->wrong;
    for (char *rest = NULL, *line = strtok_r(r->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        print_message("# %s\n", line);
    shared_free(r, sizeof *r);
    assert_int_equal(wrong, 0);
}

/* ---- scenarios ---- */

static void by_tcc(void **state)
{
    (void)state;
    hunger(&(struct scenario){.name = "tcc", .device = "cpu", .step = 1});
}

static void by_tcc_with_a_cache(void **state)
{
    (void)state;
    hunger(&(struct scenario){.name = "tcc with a cache", .device = "cpu", .cached = WARM_CACHE, .from = PLAN,
                              .step = 5});
}

static void by_tcc_with_measurements(void **state)
{
    (void)state;
    hunger(&(struct scenario){.name = "tcc with measurements", .device = "cpu", .cached = EMPTY_CACHE, .from = PLAN,
                              .measured = true});
}

/* A compiler that returns what gcc once made of the same source: the test is about who runs it. */
static void by_cc_in(enum cached cached, const char *name)
{
    char script[240], text[1000];
    const char *tmp = getenv("TMPDIR");
    snprintf(script, sizeof script, "%.150s/compiler-%ld", tmp ? tmp : "/tmp", (long)getpid());
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$1\" = --version ] && { echo compiler 1; exit 0; }\n"
             "while [ $# -gt 2 ]; do [ \"$1\" = -o ] && out=$2; last=$3; shift; done\n"
             "[ -f '%s.so' ] || gcc -std=c11 -O1 -fPIC -shared -o '%s.so' \"$last\" || exit 1\n"
             "exec cp '%s.so' \"$out\"\n",
             script, script, script);
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(script, 0700), 0);
    setenv("CC", script, 1);
    hunger(&(struct scenario){.name = name, .device = "cpu", .compiler = ATTN_CC, .cached = cached, .from = PLAN,
                              .variant = "attn_f32_d16_on_c_q16k16_r4x2u1", .step = 1});
    unsetenv("CC");
    unlink(script);
    snprintf(text, sizeof text, "%s.so", script);
    unlink(text);
}

static void by_cc(void **state)
{
    (void)state;
    by_cc_in(NO_CACHE, "cc");
}

static void by_cc_into_the_cache(void **state)
{
    (void)state;
    by_cc_in(EMPTY_CACHE, "cc into the cache");
}

static void by_cc_from_the_cache(void **state)
{
    (void)state;
    by_cc_in(WARM_CACHE, "cc from the cache");
}

static void by_the_reference(void **state)
{
    (void)state;
    hunger(&(struct scenario){.name = "reference", .device = "reference", .from = PLAN, .step = 1});
}

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

static void by_opencl_in(enum cached cached, const char *name, int step)
{
    hunger(&(struct scenario){.name = name, .device = "opencl", .cached = cached, .from = PLAN, .step = step,
                              .variant = "attn_f32_d16_on_portable_q16k16_r4x1u4_g4_l4"});
}

static void by_opencl(void **state)
{
    (void)state;
    by_opencl_in(NO_CACHE, "opencl", 1);
}

static void by_opencl_into_the_cache(void **state)
{
    (void)state;
    by_opencl_in(EMPTY_CACHE, "opencl into the cache", 1);
}

static void by_opencl_from_the_cache(void **state)
{
    (void)state;
    by_opencl_in(WARM_CACHE, "opencl from the cache", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_tcc),          cmocka_unit_test(by_tcc_with_a_cache),
        cmocka_unit_test(by_tcc_with_measurements),
        cmocka_unit_test(by_cc),           cmocka_unit_test(by_cc_into_the_cache),
        cmocka_unit_test(by_cc_from_the_cache), cmocka_unit_test(by_the_reference),
        cmocka_unit_test(by_opencl),            cmocka_unit_test(by_opencl_into_the_cache),
        cmocka_unit_test(by_opencl_from_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
