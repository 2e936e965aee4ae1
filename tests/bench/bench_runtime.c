/* bench_runtime.c - what libattn promises around its kernels: two threads against one, the cost of a call, OpenCL on
 * this processor against C, and how soon a new process has the plan of a cached problem. Prints a table as
 * bench_kernels does. What it is not: a test; a slow machine fails nothing. Exits 1 only when something does not
 * work. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kit/devices.h"
#include "runtime/numerics/convert.h"
#include "runtime/api/plan.h"
#include "runtime/system/timer.h"
#include "../kit/child.h"
#include "common.h"

enum { SAMPLES = 9, CALL_SAMPLES = 15, STARTS = 15, HEADS = 8 };
static const double LIMIT = 5; /* seconds for a comparison */

struct bench {
    struct table table;
    struct attn_context *context;
    char dir[64];
};

static int failed(struct bench *b, const char *what, const struct attn_error *err)
{
    return table_error(&b->table, what, err->text);
}

/* Seconds of one execution by the device's clock. */
static double device_seconds(void *arg)
{
    struct work *w = arg;
    double seconds = 0;
    attn_status status = plan_time(w->plan, &w->run, &seconds, &w->err);
    w->status = w->status == ATTN_OK ? status : w->status;
    return w->status == ATTN_OK ? seconds : -1;
}

static struct contest contest_of(const struct bench *b, int threads)
{
    return (struct contest){
        .pool = b->context->pool, .threads = threads, .alone = true, .samples = SAMPLES, .limit = LIMIT};
}

/* ---- threads ---- */
static void compare_threads(struct bench *b, int dim, int64_t n, int causal)
{
    struct work work[2] = {0};
    struct contender c[2] = {{.arg = &work[0], .seconds = work_seconds}, {.arg = &work[1], .seconds = work_seconds}};
    struct attn_plan_info info = {.size = sizeof info};
    char what[80];
    snprintf(what, sizeof what, "two threads against one, %d heads, N=%lld, D=%d, %s", HEADS, (long long)n, dim,
             causal ? "causal" : "full");
    for (int i = 0; i < 2; i++) {
        struct attn_problem p = work_problem(ATTN_F32, dim, HEADS, n, i + 1);
        p.causal = causal;
        p.variant = i ? info.variant : NULL; /* one kernel, so that nothing but the number of threads differs */
        if (work_create(b->context, &p, &work[i]) != ATTN_OK ||
            attn_plan_describe(work[i].plan, &info, &work[i].err) != ATTN_OK) {
            failed(b, what, &work[i].err);
            goto cleanup;
        }
    }
    const struct contest contest = contest_of(b, 2);
    strcat(what, compete(&contest, c, 2) ? "" : "~");
    for (int i = 0; i < 2; i++)
        if (work[i].status != ATTN_OK)
            failed(b, what, &work[i].err);
    if (c[0].timing.samples && c[1].timing.samples)
        table_row(&b->table, what, c[0].timing.min_s / c[1].timing.min_s, "x", 1.9, 0);
cleanup:
    work_destroy(&work[0]);
    work_destroy(&work[1]);
}

static void bench_threads(struct bench *b)
{
    if (cpu_of(b->context)->cores < 2) {
        printf("one core here: two threads are not compared with one\n");
        return;
    }
    for (int dim = 64; dim <= 128; dim *= 2)
        for (int64_t n = 1024; n <= 2048; n *= 2)
            for (int causal = 0; causal <= (n == 1024); causal++)
                compare_threads(b, dim, n, causal);
}

/* ---- the cost of a call ---- */
static void measure_call(struct bench *b, attn_dtype dtype, int dim, int64_t most)
{
    struct attn_problem p = work_problem(dtype, dim, 1, most, 0);
    struct work work;
    struct timer timer;
    struct timing t;
    char what[80];
    snprintf(what, sizeof what, "a call with N=1, one head, D=%d, %s, by a plan for N=%lld", dim,
             field_value_name(F_DTYPE, (int32_t)dtype), (long long)most);
    if (work_create(b->context, &p, &work) == ATTN_OK) {
        work.run.q_len = work.run.kv_len = 1;
        timer_start(&timer, NULL, 1);
        timer_measure(&timer, work_execute, &work, CALL_SAMPLES, 2, &t);
        strcat(what, t.noisy ? "~" : "");
    }
    if (work.status == ATTN_OK)
        table_row(&b->table, what, 1e6 * t.min_s, "us", 0, 2);
    else
        failed(b, what, &work.err);
    work_destroy(&work);
}

static void bench_call(struct bench *b)
{
    measure_call(b, ATTN_F32, 64, 1);
    measure_call(b, ATTN_F32, 64, 2048);
    measure_call(b, ATTN_F32, 128, 1);
    measure_call(b, ATTN_BF16, 64, 1);
}

/* ---- OpenCL on this processor ---- */
static void compare_opencl(struct bench *b, const char *device, int dim, int64_t n)
{
    enum { C, CL, COPIES, CONTENDERS };
    struct work work[2] = {0};
    struct contender c[CONTENDERS] = {{.arg = &work[C], .seconds = work_seconds},
                                      {.arg = &work[CL], .seconds = device_seconds},
                                      {.arg = &work[CL], .seconds = work_seconds}};
    struct attn_problem p = work_problem(ATTN_F32, dim, HEADS, n, 0);
    char what[100];
    snprintf(what, sizeof what, "OpenCL against C, all cores, %d heads, N=%lld, D=%d", HEADS, (long long)n, dim);
    for (int i = C; i <= CL; i++) {
        p.device = i == CL ? device : NULL;
        if (work_create(b->context, &p, &work[i]) != ATTN_OK) {
            failed(b, what, &work[i].err);
            goto cleanup;
        }
    }
    const struct contest contest = contest_of(b, cpu_of(b->context)->cores);
    strcat(what, compete(&contest, c, CONTENDERS) ? "" : "~");
    for (int i = C; i <= CL; i++)
        if (work[i].status != ATTN_OK)
            failed(b, what, &work[i].err);
    if (c[C].timing.samples && c[CL].timing.samples && c[COPIES].timing.samples) {
        table_row(&b->table, what, c[C].timing.min_s / c[CL].timing.min_s, "x", 1.0 / 3, 0);
        table_row(&b->table, "  the same with the copies that host arrays need",
                  c[C].timing.min_s / c[COPIES].timing.min_s, "x", 0, 0);
    }
cleanup:
    work_destroy(&work[C]);
    work_destroy(&work[CL]);
}

/* The name of a usable device that is this processor; false and a word about it when there is none. */
static bool find_processor(struct bench *b, char name[24])
{
    const struct opencl_device *device;
    struct gen_error err;
    struct device *first;
    if (devices_find(b->context->devices, "opencl", ATTN_TCC, &first, &err) != 0) {
        printf("OpenCL is not measured: %s\n", err.text);
        return false;
    }
    const struct opencl *cl = opencl_of(b->context);
    int count = opencl_devices(cl, &device);
    for (int i = 0; i < count; i++)
        if (device[i].type == OPENCL_CPU && !device[i].why_not[0]) {
            snprintf(name, 24, "opencl:%d", i);
            return true;
        }
    printf("OpenCL is not measured: of its %d devices none is this processor\n", count);
    return false;
}

/* ---- from process start to a plan ---- */
static attn_status store_winner(const char *cache, struct attn_error *err)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    struct attn_problem p = work_problem(ATTN_F32, 64, 4, 512, 1);
    struct attn_context *context = NULL;
    struct attn_plan *plan = NULL;
    p.rigor = ATTN_MEASURE;
    p.time_limit = 3;
    attn_status status = attn_context_create(&options, &context, err);
    if (status == ATTN_OK)
        status = attn_plan_create(context, &p, &plan, err);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return status;
}

/* What a started process tells about itself: whether its plan came from the cache, as a winner or as a device's binary. */
struct start {
    double queries; /* seconds of looking for platforms and devices */
    bool cached;
};

static int started(const char *cache, const char *device)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    struct attn_problem p = work_problem(ATTN_F32, 64, 4, 512, device ? 0 : 1);
    struct attn_context *context;
    struct attn_plan *plan;
    struct device *found;
    struct gen_error err;
    struct start s = {0};
    p.device = device;
    if (attn_context_create(&options, &context, NULL) != ATTN_OK)
        return 1;
    double start = timer_now();
    if (device && devices_find(context->devices, device, ATTN_TCC, &found, &err) != 0)
        return 1;
    s.queries = device ? timer_now() - start : 0;
    if (attn_plan_create(context, &p, &plan, NULL) != ATTN_OK)
        return 1;
    s.cached = device ? opencl_kernel_build(opencl_kernel_of(&plan->kernel))->from_cache : plan->cached;
    if (write(STDOUT_FILENO, &s, sizeof s) != sizeof s)
        return 1;
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return 0;
}

/* Seconds from before the process starts until it says that its plan is ready. */
static double start_once(const char *cache, const char *device, struct start *out)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    double start = timer_now();
    pid_t child = vfork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "bench_runtime", "--plan", cache, device, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = child > 0 ? read(ends[0], out, sizeof *out) : -1;
    double seconds = timer_now() - start;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return got == sizeof *out ? seconds : -1;
}

static void bench_starts(struct bench *b, const char *device)
{
    const char *what = device ? "OpenCL plan of a kept binary, from process start" : "cached plan, from process start";
    double whole[STARTS], queries[STARTS], rest[STARTS];
    char cache[100];
    struct attn_error err;
    struct start s;
    snprintf(cache, sizeof cache, "%s/cache", b->dir);
    if (!device && store_winner(cache, &err) != ATTN_OK) {
        failed(b, what, &err);
        return;
    }
    if (device && start_once(cache, device, &s) < 0) {
        table_error(&b->table, what, "the first process did not get its plan");
        return;
    }
    for (int i = 0; i < STARTS; i++) {
        whole[i] = start_once(cache, device, &s);
        if (whole[i] < 0 || !s.cached) {
            table_error(&b->table, what, "a later process did not find it in the cache");
            return;
        }
        queries[i] = s.queries;
        rest[i] = whole[i] - s.queries;
    }
    table_row(&b->table, what, 1e3 * median(whole, STARTS), "ms", 0, device ? 0 : 10);
    if (device) {
        table_row(&b->table, "  of that the queries for platforms and devices", 1e3 * median(queries, STARTS), "ms", 0,
                  0);
        table_row(&b->table, "  and all the rest", 1e3 * median(rest, STARTS), "ms", 0, 50);
    }
}

static void bench_opencl(struct bench *b)
{
    char device[24];
    if (!find_processor(b, device))
        return;
    for (int dim = 64; dim <= 128; dim *= 2)
        for (int64_t n = 1024; n <= 2048; n *= 2)
            compare_opencl(b, device, dim, n);
    bench_starts(b, device);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--plan") == 0)
        return started(argv[2], argc > 3 ? argv[3] : NULL);
    struct bench b = {.dir = "/tmp/attn-bench-XXXXXX"};
    setenv("POCL_AFFINITY", "1", 0); /* PoCL too binds its threads to a core each, as pool_spread does */
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_error err = {"no temporary directory"};
    if (!mkdtemp(b.dir) || attn_context_create(&options, &b.context, &err) != ATTN_OK) {
        fprintf(stderr, "bench_runtime: error: %s\n", err.text);
        return 1;
    }
    pool_spread(b.context->pool);
    printf("%s, %d cores; ~ marks what never became quiet\n", cpu_of(b.context)->model, cpu_of(b.context)->cores);
    table_head();
    bench_threads(&b);
    bench_call(&b);
    bench_starts(&b, NULL);
    bench_opencl(&b);
    attn_context_destroy(b.context);
    const char *const argv_rm[] = {"rm", "-rf", b.dir, NULL};
    run_program(argv_rm, "/dev/null");
    printf("%d below what is asked for, %d errors\n", b.table.below, b.table.errors);
    return b.table.errors ? 1 : 0;
}
