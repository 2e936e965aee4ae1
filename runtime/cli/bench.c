/* bench.c - `attngen bench`: times one shape through libattn, as a program would run it, and the core's own peak for
 * comparison. What it is not: tuning; it takes the cache's winner, else the model's choice, and stores nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "numerics/convert.h"
#include "api/plan.h"
#include "arrays/run.h"
#include "system/memory.h"
#include "system/threads.h"
#include "system/timer.h"
#include "judge/workload.h"
#include "cli.h"
#include "features.h"
#include "json.h"
#include "options.h"
#include "print.h"

enum { SAMPLES = 20 };
static const double LIMIT = 5; /* seconds of measuring if no limit is given */

const struct verb verb_bench = {
    .name = "bench",
    .doc = "time one shape",
    .usage = "bench --shape SHAPE [attention options] [options]",
    .text = "Times one shape on random data with the cache's winner or, if there is none, with\n"
            "the kernel that a model chooses. Nothing is stored. A sample counts if the core was\n"
            "quiet before and after it; `noisy` says that there were too few of those. The peak is\n"
            "the rate of multiply-adds that the core sustains, measured in the same run, times the\n"
            "number of threads. GFLOP/s count the pairs of a query and a key that windows, causal\n"
            "masks and lengths let take part; what is done to a score is not counted.",
    .example = "attngen bench --shape 1,8,8,2048,2048,64 --threads 1 --json",
    .exits = "the kernel is not available or failed",
    .options = OPTIONS_ATTENTION | OPTIONS_MACHINE | OPTION_BIT(OPTION_SHAPE) | OPTION_BIT(OPTION_VARIANT) |
               OPTION_BIT(OPTION_TIME_LIMIT) | OPTION_BIT(OPTION_JSON),
    .required = OPTION_BIT(OPTION_SHAPE),
};

struct bench {
    struct options options;
    struct attn_context *context;
    struct attn_plan *plan;
    struct attn_plan_info info;
    struct attn_run run;
    struct attn_error err;
    attn_status status; /* of the last execution */
    void *q, *k, *v, *o, *workspace;
    struct features features;
    /* results */
    struct timing timing;
    double flops, bytes, peak_gflops;
};

static int fail(const char *text)
{
    print_failure("bench", text);
    return CLI_FAILED;
}

static int make_plan(struct bench *b)
{
    const struct options *o = &b->options;
    const struct shape *s = &o->shape;
    const struct attn_options options = {.size = sizeof options, .log = print_warning, .user = "bench"};
    struct attn_problem problem = {
        .size = sizeof problem, .dtype = (attn_dtype)o->dtype, .head_dim = (int)s->head_dim,
        .head_dim_v = (int)s->head_dim_v, .heads = (int)s->heads, .kv_heads = (int)s->kv_heads, .causal = o->causal,
        .max_batch = s->batch, .max_q_len = s->q_len, .max_kv_len = s->kv_len, .threads = o->threads,
        .rigor = ATTN_ESTIMATE, .variant = o->file[OPTION_VARIANT], .compiler = o->compiler,
        .device = o->file[OPTION_DEVICE], .mixed = o->dtype_kv != o->dtype || o->dtype_o != o->dtype};
    if (problem.mixed) {
        problem.kv_dtype = (attn_dtype)o->dtype_kv;
        problem.o_dtype = (attn_dtype)o->dtype_o;
    }
    features_problem(&b->features, o, &problem);
    b->info.size = sizeof b->info;
    if (attn_context_create(&options, &b->context, &b->err) ||
        attn_plan_create(b->context, &problem, &b->plan, &b->err) ||
        attn_plan_describe(b->plan, &b->info, &b->err))
        return fail(b->err.text);
    return CLI_OK;
}

/* A tensor's sides except the last: batch, or pages; heads; rows. */
struct sides {
    int64_t first, heads, rows;
};

static struct sides query_sides(const struct bench *b)
{
    const struct shape *s = &b->options.shape;
    const struct npy *starts = &b->features.array[ARRAY_Q_STARTS];
    return starts->data ? (struct sides){1, s->heads, starts_rows(starts)}
                        : (struct sides){s->batch, s->heads, s->q_len};
}

static struct sides key_sides(const struct bench *b)
{
    const struct shape *s = &b->options.shape;
    const struct features *f = &b->features;
    return f->array[ARRAY_KV_STARTS].data ? (struct sides){1, s->kv_heads, starts_rows(&f->array[ARRAY_KV_STARTS])}
           : f->array[ARRAY_BLOCK_TABLE].data   ? (struct sides){f->pages, s->kv_heads, f->page_size}
                             : (struct sides){s->batch, s->kv_heads, s->kv_len};
}

static void set_strides(const struct bench *b, struct sides n, int64_t dim, int64_t stride[3])
{
    bool bshd = b->options.layout == LAYOUT_BSHD;
    stride[0] = n.heads * n.rows * dim;
    stride[1] = bshd ? dim : n.rows * dim;
    stride[2] = bshd ? n.heads * dim : dim;
}

/* Memory for n elements, and for the padding that aligned_alloc wants; its pages are touched before anything is
 * timed. */
static void *room(size_t bytes)
{
    size_t size = (bytes + 63) / 64 * 64 + 64;
    void *memory = aligned_alloc(64, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

/* So many are drawn, a prime number, and come again and again: in each row at another place. To draw all would take longer than to
 * time a kernel over them. */
enum { DRAWN = 1048573 };

static void *random_data(enum dtype t, struct sides n, int64_t dim, uint64_t seed)
{
    const size_t units = (size_t)(n.first * n.heads * n.rows * dim / dtype_values(t)), size = dtype_size(t);
    const size_t drawn = units < DRAWN ? units : DRAWN;
    char *data = room(units * size);
    if (!data)
        return NULL;
    fill_normal(data, t, drawn * (size_t)dtype_values(t), seed);
    for (size_t at = drawn; at < units; at += drawn)
        memcpy(data + at * size, data, (units - at < drawn ? units - at : drawn) * size);
    return data;
}

static int make_features(struct bench *b)
{
    struct gen_error err = {0};
    return features_make(&b->options, &b->options.shape, &b->features, &err) ? fail(err.text) : CLI_OK;
}

/* Says which tensors are too large before any is made. */
static int check_room(const struct bench *b, struct sides q, struct sides k)
{
    const struct options *o = &b->options;
    const double rows = (double)q.first * (double)q.heads * (double)q.rows;
    const double keys = (double)k.first * (double)k.heads * (double)k.rows, left = memory_left();
    const double size_q = rows * (double)o->shape.head_dim * (double)dtype_size(o->dtype);
    const double size_o = rows * (double)o->shape.head_dim_v * (double)dtype_size(o->dtype_o);
    const double size_kv = keys * (double)(o->shape.head_dim + o->shape.head_dim_v) * (double)dtype_size(o->dtype_kv) /
                           dtype_values(o->dtype_kv);
    char text[200];
    if (size_q + size_kv + size_o <= left)
        return CLI_OK;
    snprintf(text, sizeof text,
             "the shape needs %.1f GB of memory (Q %.1f, K and V %.1f, O %.1f), and %.1f GB are left; expected a "
             "smaller one",
             (size_q + size_kv + size_o) * 1e-9, size_q * 1e-9, size_kv * 1e-9, size_o * 1e-9, left * 1e-9);
    return fail(text);
}

static int make_data(struct bench *b)
{
    const struct shape *s = &b->options.shape;
    const struct options *o = &b->options;
    const struct sides q = query_sides(b), k = key_sides(b);
    size_t rows = (size_t)(q.first * q.heads * q.rows);
    if (check_room(b, q, k) != CLI_OK)
        return CLI_FAILED;
    b->q = random_data(o->dtype, q, s->head_dim, 1);
    b->k = random_data(o->dtype_kv, k, s->head_dim, 2);
    b->v = random_data(o->dtype_kv, k, s->head_dim_v, 3);
    b->o = room(rows * (size_t)s->head_dim_v * dtype_size(o->dtype_o));
    if (!b->q || !b->k || !b->v || !b->o)
        return fail("out of memory for this shape");
    b->run = (struct attn_run){.size = sizeof b->run, .q = b->q, .k = b->k, .v = b->v, .o = b->o,
                               .batch = s->batch, .q_len = s->q_len, .kv_len = s->kv_len, .align = o->align,
                               .q_offset = o->q_offset, .scale = o->scale,
                               .has_scale = (o->given & OPTION_BIT(OPTION_SCALE)) != 0};
    features_run(&b->features, o, &b->run);
    set_strides(b, q, s->head_dim, b->run.q_stride);
    set_strides(b, k, s->head_dim / dtype_values(o->dtype_kv), b->run.k_stride);
    set_strides(b, k, s->head_dim_v / dtype_values(o->dtype_kv), b->run.v_stride);
    set_strides(b, q, s->head_dim_v, b->run.o_stride);
    return CLI_OK;
}

/* The bytes that take part, by the masks and lengths of this run. */
static int count_work(struct bench *b)
{
    struct attn_args args;
    struct attn_features features;
    if (read_run(&b->plan->rules, &b->run, &args, &features, &b->err))
        return fail(b->err.text);
    b->flops = attention_flops(&b->plan->variant, &args);
    b->bytes = attention_bytes(&b->plan->variant, &args);
    return CLI_OK;
}
static void execute(void *arg)
{
    struct bench *b = arg;
    if (b->status == ATTN_OK)
        b->status = attn_execute(b->plan, &b->run, b->workspace, &b->err);
}

static double execute_by_clock(void *arg)
{
    struct bench *b = arg;
    double seconds = -1;
    if (b->status == ATTN_OK)
        b->status = plan_time(b->plan, &b->run, &seconds, &b->err);
    return b->status == ATTN_OK ? seconds : -1;
}

/* By the device's clock, without the copies; neighbours here matter only if the device is a processor. */
static void measure_by_clock(struct bench *b, struct timer *timer, double limit)
{
    struct samples samples = {0};
    double end = timer_now() + limit;
    do
        timer_sample_device(timer, execute_by_clock, b, b->plan->device->on_cores, 0.1, &samples);
    while (b->status == ATTN_OK && samples.quiets < SAMPLES && timer_now() < end);
    timer_summary(&samples, SAMPLES, &b->timing);
}

static int measure(struct bench *b)
{
    struct timer timer;
    size_t size = 0;
    struct device *device = b->plan->device;
    struct pool *pool = device->has_clock ? NULL : b->context->pool;
    if (attn_workspace_size(b->plan, &b->run, 0, &size, &b->err))
        return fail(b->err.text);
    if ((double)size <= memory_left())
        b->workspace = room(size);
    if (!b->workspace) {
        char text[120];
        snprintf(text, sizeof text, "the workspace needs %.1f GB of memory, and %.1f GB are left; expected a smaller shape",
                 (double)size * 1e-9, memory_left() * 1e-9);
        return fail(text);
    }
    if (pool)
        pool_spread(pool);
    timer_start(&timer, pool, pool ? b->info.threads : 1);
    if (device->backend->peak)
        b->peak_gflops = device->backend->peak(device, &timer, b->info.threads, b->options.dtype);
    double limit = b->options.time_limit > 0 ? b->options.time_limit : LIMIT;
    if (device->has_clock)
        measure_by_clock(b, &timer, limit);
    else
        timer_measure(&timer, execute, b, SAMPLES, limit, &b->timing);
    return b->status == ATTN_OK ? CLI_OK : fail(b->err.text);
}

static double per_second(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds * 1e-9 : 0;
}

/* As --dtype takes it. */
static struct npy_text types_of(const struct options *o)
{
    struct npy_text t;
    const char *q = field_value_name(F_DTYPE, o->dtype), *kv = dtypes[o->dtype_kv].name;
    if (o->dtype_kv == o->dtype && o->dtype_o == o->dtype)
        snprintf(t.text, sizeof t.text, "%s", q);
    else
        snprintf(t.text, sizeof t.text, "q=%s,kv=%s,o=%s", q, kv, field_value_name(F_DTYPE, o->dtype_o));
    return t;
}

static int print_json(const struct bench *b)
{
    struct buf out = {0};
    const struct timing *t = &b->timing;
    buf_puts(&out, "{\"variant\": ");
    json_text(&out, b->info.variant);
    buf_printf(&out, ", \"device\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"compiler\": \"%s\"", b->info.device,
               b->options.shape.text, types_of(&b->options).text, b->info.compiler);
    buf_printf(&out, ", \"threads\": %d, \"cached\": %s, \"compile_ms\": %.3f, \"samples\": %d, \"noisy\": %s",
               b->info.threads, b->info.cached ? "true" : "false", b->info.compile_ms, t->samples,
               t->noisy ? "true" : "false");
    buf_printf(&out, ", \"ms\": {\"min\": %.6f, \"median\": %.6f}", t->min_s * 1e3, t->median_s * 1e3);
    buf_printf(&out, ", \"gflops\": {\"max\": %.2f, \"median\": %.2f}, \"gbps\": %.3f, \"peak_gflops\": %.2f}\n",
               per_second(b->flops, t->min_s), per_second(b->flops, t->median_s), per_second(b->bytes, t->min_s),
               b->peak_gflops);
    bool good = buf_ok(&out);
    if (good)
        fputs(out.data, stdout);
    buf_free(&out);
    return good ? CLI_OK : fail("out of memory");
}

static void print_text(const struct bench *b)
{
    const struct timing *t = &b->timing;
    double gflops = per_second(b->flops, t->min_s), median = per_second(b->flops, t->median_s);
    const char *workers = b->plan->device->workers;
    printf("%s on %s, %d %s%s, compiled by %s in %.3f ms, %s\n", b->info.variant, b->info.device, b->info.threads,
           workers, b->info.threads == 1 ? "" : "s", b->info.compiler, b->info.compile_ms,
           b->options.file[OPTION_VARIANT] ? "as asked" : b->info.cached ? "from the cache" : "by estimate");
    printf("shape    %s, %s%s\n", b->options.shape.text, types_of(&b->options).text, b->options.causal ? ", causal" : "");
    printf("time     %.4f ms at best, median %.4f ms, of %d %ssamples\n", t->min_s * 1e3, t->median_s * 1e3, t->samples,
           t->noisy ? "noisy " : "");
    printf("speed    %.1f GFLOP/s at best, median %.1f; %.2f GB/s of Q, K, V and O\n", gflops, median,
           per_second(b->bytes, t->min_s));
    if (b->peak_gflops > 0)
        printf("peak     %.1f GFLOP/s; %.1f%% of it at best, median %.1f%%\n", b->peak_gflops,
               100 * gflops / b->peak_gflops, 100 * median / b->peak_gflops);
}

int cli_bench(int argc, char **argv)
{
    struct bench b = {0};
    int code = CLI_OK;
    if (!options_begin(&verb_bench, argc, argv, &b.options, &code))
        return code;
    code = make_features(&b);
    if (code == CLI_OK)
        code = make_plan(&b);
    if (code == CLI_OK)
        code = make_data(&b);
    if (code == CLI_OK)
        code = count_work(&b);
    if (code == CLI_OK)
        code = measure(&b);
    if (code == CLI_OK && b.options.json)
        code = print_json(&b);
    else if (code == CLI_OK)
        print_text(&b);
    attn_plan_destroy(b.plan);
    attn_context_destroy(b.context);
    free(b.q);
    free(b.k);
    free(b.v);
    free(b.o);
    free(b.workspace);
    features_free(&b.features);
    return code;
}
