/* bench_serving.c - attention as serving engines ask for it, on an OpenCL device: few queries, chunks and packed batches over
 * a cache that lies in pages or not. Alone it says what there is to compare; bench_serving.py drives it with a line for each
 * question, about one cell at a time:
 *     cell VARIANT Hq,Hkv,PAGE[,PAD[,EVEN]] Q,Q,.. K,K,..  builds the kernel, and the problem: of each sequence its queries, keys
 *                                              (N*LENGTH stands for N such); in pages of PAGE rows in random order, or 0: as they
 *                                              come. Tensors begin PAD elements behind their buffers' beginnings, and have as many
 *                                              between rows. EVEN is 1: all rows of a head have the same scales, if any
 *     check ROWS SEED                          fresh data; how many of so many rows of output are wrong, by double precision
 *     round LAUNCHES                           milliseconds a launch by the host's clock
 * Tensors are [sequence, row, head, element], as engines have them; where values are fewer than keys and these wider than 256, as
 * in MLA, V is the first columns of K.
 * A softcap is 50, a window has 1024 keys, and sinks are between -1 and 1. Of narrow keys and values each row of a head has scales
 * of its own, unless EVEN. Launches go round so many copies of them that no cache holds what the next one reads. Each answer is a
 * line of JSON. What it is not: the comparison itself. */
#define _GNU_SOURCE /* strtok_r */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/judge/draw.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/reference.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/variants.h"
#include "runtime/system/timer.h"
#include "runtime/tune/tune.h"
#include "../kit/seed.h"
#include "gpu.h"

enum { MOST = 4096, COPIES_MOST = 64, TENSORS = 4 };
static const size_t DRAWN = 1 << 24, ROTATED = (size_t)768 << 20; /* elements; bytes */

struct worker {
    struct gpu gpu;
    cl_command_queue queue;
    struct gen_error err;
    /* the cell */
    struct variant v;
    struct kernel kernel;
    int heads, kv_heads, page, pad, even, batch, copies, next;
    bool v_in_k;
    int64_t queries[MOST], keys[MOST], q_starts[MOST + 1], kv_starts[MOST + 1];
    int32_t *table;
    int64_t width, pages; /* of a sequence's entries; of all */
    struct attn_args args;
    struct attn_features features;
    cl_mem memory[COPIES_MOST][TENSORS], lists[ARRAYS];
    uint16_t *drawn;  /* of which every tensor is made, repeated */
    uint8_t *narrow;  /* the same of keys and values of bytes, of the type that the cell has */
    float *scales;    /* of these, for each row and head; free() */
    float *sinks;     /* of heads; free() */
};

static int refuse(struct worker *w, const char *why)
{
    snprintf(w->err.text, sizeof w->err.text, "%s", why);
    return -1;
}

/* Drawing few numbers saves time, since memory is what costs. Element i of tensor t is the number that was drawn at this
 * place. */
static size_t drawn_at(int t, size_t i)
{
    return (i + (size_t)t * 1234567) % DRAWN;
}

static void forget(struct worker *w)
{
    for (int c = 0; c < COPIES_MOST; c++)
        for (int t = 0; t < TENSORS; t++)
            if (w->memory[c][t])
                w->gpu.cl->api.clReleaseMemObject(w->memory[c][t]);
    for (int i = 0; i < ARRAYS; i++)
        if (w->lists[i])
            w->gpu.cl->api.clReleaseMemObject(w->lists[i]);
    memset(w->memory, 0, sizeof w->memory);
    memset(w->lists, 0, sizeof w->lists);
    free(w->table);
    free(w->scales);
    free(w->sinks);
    w->table = NULL;
    w->scales = w->sinks = NULL;
    kernel_free(&w->kernel);
    w->kernel = (struct kernel){0};
}

static cl_mem new_buffer(struct worker *w, size_t size, const void *data)
{
    cl_int code;
    cl_mem m = w->gpu.cl->api.clCreateBuffer(w->gpu.target->context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0), size,
                                         (void *)data, &code);
    return opencl_failed(code, "clCreateBuffer", &w->err) == 0 ? m : NULL;
}

static bool is_narrow(const struct worker *w)
{
    return dtypes[variant_dtype_kv(&w->v)].scaled;
}

/* A tensor of so many elements, filled with pieces of what was drawn. */
static cl_mem new_tensor(struct worker *w, int t, size_t elements)
{
    const bool narrow = is_narrow(w) && (t == 1 || t == 2);
    const size_t size = narrow ? 1 : 2;
    const char *drawn = narrow ? (const char *)w->narrow : (const char *)w->drawn;
    cl_mem m = new_buffer(w, elements * size, NULL);
    for (size_t at = 0, n; m && at < elements; at += n) {
        const size_t from = drawn_at(t, at);
        n = DRAWN - from < elements - at ? DRAWN - from : elements - at;
        if (w->gpu.cl->api.clEnqueueWriteBuffer(w->queue, m, CL_TRUE, at * size, n * size, drawn + from * size, 0, NULL, NULL) !=
            CL_SUCCESS)
            return NULL;
    }
    return m;
}

/* "8*1,16,3*128": how many, or -1. */
static int read_lengths(char *text, int64_t *out)
{
    int n = 0;
    char *rest = NULL;
    for (char *c = strtok_r(text, ",", &rest); c; c = strtok_r(NULL, ",", &rest)) {
        long long times = 1, length;
        if (sscanf(c, "%lld*%lld", &times, &length) != 2 && (times = 1, sscanf(c, "%lld", &length) != 1))
            return -1;
        for (; times > 0; times--, n++) {
            if (n == MOST)
                return -1;
            out[n] = length;
        }
    }
    return n;
}

/* Every page in random order, each sequence's entries in a row. */
static void draw_table(struct worker *w, uint64_t seed)
{
    w->width = w->pages = 0;
    for (int b = 0; b < w->batch; b++) {
        const int64_t n = (w->keys[b] + w->page - 1) / w->page;
        w->width = n > w->width ? n : w->width;
        w->pages += n;
    }
    int32_t *order = malloc((size_t)w->pages * sizeof *order);
    w->table = calloc((size_t)(w->width * w->batch), sizeof *w->table);
    for (int64_t i = 0; i < w->pages; i++) {
        const int64_t at = random_below(&seed, i + 1);
        order[i] = order[at];
        order[at] = (int32_t)i;
    }
    for (int64_t b = 0, next = 0; b < w->batch; b++)
        for (int64_t i = 0; i * w->page < w->keys[b]; i++)
            w->table[b * w->width + i] = order[next++];
    free(order);
}

/* Makes a scale for each row and head, from 1/64 to 1/37, since stored numbers are about as many times as large. */
static int make_scales(struct worker *w, int64_t rows, int64_t step)
{
    const int64_t n = rows * w->kv_heads, strides[3] = {w->even ? 0 : step * w->kv_heads, 1, w->even ? 0 : w->kv_heads};
    w->scales = malloc((size_t)n * sizeof *w->scales);
    if (!w->scales)
        return refuse(w, "out of memory");
    for (int64_t i = 0; i < n; i++)
        w->scales[i] = (1 + (float)((w->even ? i % w->kv_heads : i) % 7) / 8) / 64;
    memcpy(w->features.k_scales_stride, strides, sizeof strides);
    memcpy(w->features.v_scales_stride, strides, sizeof strides);
    w->lists[ARRAY_K_SCALES] = new_buffer(w, (size_t)n * sizeof *w->scales, w->scales);
    w->lists[ARRAY_V_SCALES] = new_buffer(w, (size_t)n * sizeof *w->scales, w->scales);
    return w->lists[ARRAY_K_SCALES] && w->lists[ARRAY_V_SCALES] ? 0 : -1;
}

static int make_sinks(struct worker *w)
{
    w->sinks = malloc((size_t)w->heads * sizeof *w->sinks);
    if (!w->sinks)
        return refuse(w, "out of memory");
    for (int h = 0; h < w->heads; h++)
        w->sinks[h] = (float)(h % 9) / 4 - 1;
    w->lists[ARRAY_SINKS] = new_buffer(w, (size_t)w->heads * sizeof *w->sinks, w->sinks);
    return w->lists[ARRAY_SINKS] ? 0 : -1;
}

static int make_problem(struct worker *w)
{
    const int d = variant_head_dim(&w->v), dv = variant_head_dim_v(&w->v);
    const bool packed = w->v.field[F_PACKED];
    w->v_in_k = d > 256 && dv < d;
    const int v_row = w->v_in_k ? d : dv;
    int64_t most_q = 0, most_k = 0;
    for (int b = 0; b < w->batch; b++) {
        w->q_starts[b + 1] = w->q_starts[b] + w->queries[b];
        w->kv_starts[b + 1] = w->kv_starts[b] + w->keys[b];
        most_q = w->queries[b] > most_q ? w->queries[b] : most_q;
        most_k = w->keys[b] > most_k ? w->keys[b] : most_k;
    }
    if (w->page)
        draw_table(w, 1);
    const int64_t q_rows = w->q_starts[w->batch];
    const int64_t kv_rows = w->page ? w->pages * w->page : packed ? w->kv_starts[w->batch] : most_k * w->batch;
    if (!packed && (q_rows != most_q * w->batch || (!w->page && w->kv_starts[w->batch] != kv_rows)))
        return refuse(w, "lengths differ; expected a packed variant, or one length");
    const int64_t step = w->page ? w->page : most_k, pad = w->pad;
    const int64_t q_row = w->heads * d + pad, k_row = w->kv_heads * d + pad, v_row_all = w->kv_heads * v_row + pad,
                  o_row = w->heads * dv + pad;
    w->features = (struct attn_features){.window = {-1, -1}, .softcap = 50, .page_stride = w->width, .page_size = w->page};
    draw_window(&w->v, w->features.window);
    w->args = (struct attn_args){.size = sizeof w->args,
                                 .batch = w->batch,
                                 .heads = w->heads,
                                 .kv_heads = w->kv_heads,
                                 .q_len = most_q,
                                 .kv_len = most_k,
                                 .q_stride = {most_q * q_row, d, q_row},
                                 .k_stride = {step * k_row, d, k_row},
                                 .v_stride = {step * v_row_all, v_row, v_row_all},
                                 .o_stride = {most_q * o_row, dv, o_row},
                                 .bottom_right = 1,
                                 .scale = 1 / sqrtf((float)d),
                                 .parts = 1,
                                 .features = &w->features};
    const size_t size[TENSORS] = {(size_t)(q_rows * q_row + pad), (size_t)(kv_rows * k_row + pad),
                                  w->v_in_k ? 0 : (size_t)(kv_rows * v_row_all + pad), (size_t)(q_rows * o_row + pad)};
    if (w->v.field[F_SINK] && make_sinks(w) != 0)
        return -1;
    if (is_narrow(w) && make_scales(w, kv_rows, step) != 0)
        return -1;
    const size_t all = 2 * (size[0] + size[3]) + (is_narrow(w) ? 1 : 2) * (size[1] + size[2]);
    w->copies = all > ROTATED ? 2 : (int)(ROTATED / all) + 2;
    w->copies = w->copies > COPIES_MOST ? COPIES_MOST : w->copies;
    for (int c = 0; c < w->copies; c++)
        for (int t = 0; t < TENSORS; t++)
            if (size[t] && !(w->memory[c][t] = new_tensor(w, t, size[t])))
                return -1;
    if (w->page)
        w->lists[ARRAY_BLOCK_TABLE] = new_buffer(w, (size_t)(w->width * w->batch) * sizeof *w->table, w->table);
    if (packed)
        w->lists[ARRAY_Q_STARTS] = new_buffer(w, (size_t)(w->batch + 1) * sizeof *w->q_starts, w->q_starts);
    if (packed) /* with pages they are the lengths of what the table lists */
        w->lists[ARRAY_KV_STARTS] = new_buffer(w, (size_t)(w->batch + 1) * sizeof *w->kv_starts, w->kv_starts);
    else
        w->lists[ARRAY_KV_LENS] = new_buffer(w, (size_t)w->batch * sizeof *w->keys, w->keys);
    return 0;
}

static int launch(struct worker *w, int copy)
{
    struct opencl_on on = {.queue = w->queue};
    for (int t = 0; t < TENSORS; t++) {
        on.buffer[ARRAY_Q + t] = w->memory[copy][w->v_in_k && t == 2 ? 1 : t];
        on.at[ARRAY_Q + t] = w->pad;
    }
    for (int i = 0; i < ARRAYS; i++)
        if (w->lists[i])
            on.buffer[i] = w->lists[i];
    return opencl_enqueue(opencl_kernel_of(&w->kernel), &w->args, &on, &w->err);
}

/* The first key that a window leaves to a query. */
static int64_t first_seen(const struct worker *w, int b, int64_t i)
{
    const int64_t first = w->keys[b] - w->queries[b] + i - w->features.window[0];
    return w->v.field[F_WINDOW] && first > 0 ? first : 0;
}

/* Keys that any query of the sequences sees. */
static int64_t keys_read(const struct worker *w)
{
    int64_t all = 0;
    for (int b = 0; b < w->batch; b++)
        all += w->keys[b] - (w->queries[b] > 0 ? first_seen(w, b, 0) : 0);
    return all;
}

static double flops_of(const struct worker *w)
{
    double pairs = 0;
    for (int b = 0; b < w->batch; b++)
        for (int64_t i = 0; i < w->queries[b]; i++) {
            const int64_t sees = w->v.field[F_CAUSAL] ? w->keys[b] - w->queries[b] + i + 1 : w->keys[b],
                          first = first_seen(w, b, i);
            pairs += (double)(sees > first ? sees - first : 0);
        }
    return 2.0 * (variant_head_dim(&w->v) + variant_head_dim_v(&w->v)) * w->heads * pairs;
}

static int answer_cell(struct worker *w, char *word[])
{
    forget(w);
    if (variant_decode(word[1], &w->v, &w->err) != 0)
        return -1;
    w->pad = w->even = 0;
    if (sscanf(word[2], "%d,%d,%d,%d,%d", &w->heads, &w->kv_heads, &w->page, &w->pad, &w->even) < 3 || w->pad < 0)
        return refuse(w, "expected Hq,Hkv,PAGE, or that and PAD, or that and EVEN");
    if (w->v.field[F_WINDOW] && !w->v.field[F_CAUSAL])
        return refuse(w, "expected a window that is causal");
    w->batch = read_lengths(word[3], w->queries);
    if (w->batch < 1 || read_lengths(word[4], w->keys) != w->batch)
        return refuse(w, "expected as many lengths of keys as of queries");
    if ((w->page > 0) != (w->v.field[F_PAGED] == 1) || dtype_size((enum dtype)w->v.field[F_DTYPE]) != 2)
        return refuse(w, "expected a variant that goes with the pages, of 16 bits");
    if (is_narrow(w))
        fill_normal(w->narrow, variant_dtype_kv(&w->v), DRAWN, 2);
    if (tune_compile(&w->gpu.target->base, &w->v, &w->kernel, NULL, &w->err) != 0 || make_problem(w) != 0)
        return -1;
    const struct opencl_build *b = opencl_kernel_build(opencl_kernel_of(&w->kernel));
    const int64_t keys = keys_read(w), width = variant_head_dim(&w->v) + (w->v_in_k ? 0 : variant_head_dim_v(&w->v));
    printf("{\"flops\": %.6g, \"bytes\": %.6g, \"copies\": %d, \"registers\": %d, \"spills\": %lld, \"build_ms\": %.0f}\n",
           flops_of(w), (is_narrow(w) ? 1.0 : 2.0) * (double)keys * w->kv_heads * (double)width, w->copies,
           b->registers, (long long)b->spill_bytes, b->ms);
    return 0;
}

static double at(const struct worker *w, int t, int64_t element)
{
    if (is_narrow(w) && (t == 1 || t == 2)) {
        float x;
        const int d = t == 1 ? variant_head_dim(&w->v) : variant_head_dim_v(&w->v);
        dtype_load_row(variant_dtype_kv(&w->v), w->narrow, (int64_t)drawn_at(t, (size_t)element), 1, &x);
        return (double)x * (double)w->scales[element / d];
    }
    return (double)dtype_load((enum dtype)w->v.field[F_DTYPE], w->drawn + drawn_at(w->v_in_k && t == 2 ? 1 : t, (size_t)element),
                              0);
}

/* Where key j of sequence b begins in K (1) or V (2). */
static int64_t key_at(const struct worker *w, int t, int b, int64_t j, int g)
{
    const int64_t *stride = t == 1 ? w->args.k_stride : w->args.v_stride;
    if (w->page)
        return w->pad + w->table[b * w->width + j / w->page] * stride[0] + j % w->page * stride[2] + g * stride[1];
    if (w->v.field[F_PACKED])
        return w->pad + (w->kv_starts[b] + j) * stride[2] + g * stride[1];
    return w->pad + b * stride[0] + j * stride[2] + g * stride[1];
}

/* A row's output by the definition; the bound is what rounding of P and O may do. */
static int is_right(const struct worker *w, const uint16_t *o, int b, int64_t i, int h)
{
    const int d = variant_head_dim(&w->v), dv = variant_head_dim_v(&w->v), g = h / (w->heads / w->kv_heads);
    const int64_t q = w->pad + (w->q_starts[b] + i) * w->args.q_stride[2] + h * d,
                  to = w->pad + (w->q_starts[b] + i) * w->args.o_stride[2] + h * dv;
    const int64_t sees = w->v.field[F_CAUSAL] ? w->keys[b] - w->queries[b] + i + 1 : w->keys[b];
    const int64_t first = first_seen(w, b, i);
    double *score = malloc((size_t)(sees > 0 ? sees : 1) * sizeof *score), top = w->sinks ? (double)w->sinks[h] : -INFINITY,
           sum = 0;
    for (int64_t j = first; j < sees; j++) {
        const int64_t key = key_at(w, 1, b, j, g);
        score[j] = 0;
        for (int e = 0; e < d; e++)
            score[j] += at(w, 0, q + e) * at(w, 1, key + e);
        score[j] *= (double)w->args.scale;
        if (w->v.field[F_SOFTCAP])
            score[j] = (double)w->features.softcap * tanh(score[j] / (double)w->features.softcap);
        top = score[j] > top ? score[j] : top;
    }
    for (int64_t j = first; j < sees; j++)
        sum += score[j] = exp(score[j] - top);
    if (w->sinks)
        sum += exp((double)w->sinks[h] - top);
    int right = 1;
    for (int e = 0; e < dv; e++) {
        double x = 0, size = 0;
        for (int64_t j = first; j < sees; j++) {
            const double part = score[j] / sum * at(w, 2, key_at(w, 2, b, j, g) + e);
            x += part, size += fabs(part);
        }
        const double got = (double)dtype_load((enum dtype)w->v.field[F_DTYPE], o, to + e);
        right &= fabs(got - x) <= size / 128 + fabs(x) / 128 + 1e-6;
    }
    free(score);
    return right;
}

static int answer_check(struct worker *w, int rows, uint64_t seed)
{
    const int64_t width = w->heads * variant_head_dim_v(&w->v), row = w->args.o_stride[2];
    const size_t elements = (size_t)(w->q_starts[w->batch] * row + w->pad);
    uint16_t *o = malloc(elements * 2);
    int wrong = 0;
    memset(o, 0xff, elements * 2);
    int result = o ? opencl_failed(w->gpu.cl->api.clEnqueueWriteBuffer(w->queue, w->memory[0][3], CL_TRUE, 0, elements * 2, o, 0,
                                                                   NULL, NULL),
                                   "clEnqueueWriteBuffer", &w->err)
                   : refuse(w, "out of memory");
    for (int i = 0; i < 2 && result == 0; i++) /* counters must be left as they were */
        result = launch(w, 0);
    if (result == 0)
        result = opencl_failed(w->gpu.cl->api.clEnqueueReadBuffer(w->queue, w->memory[0][3], CL_TRUE, 0, elements * 2, o, 0, NULL,
                                                              NULL),
                               "clEnqueueReadBuffer", &w->err);
    for (int n = 0; n < rows && result == 0; n++) {
        const int b = (int)random_below(&seed, w->batch);
        const int64_t i = w->queries[b] > 0 ? random_below(&seed, w->queries[b]) : -1;
        if (i >= 0)
            wrong += !is_right(w, o, b, i, (int)random_below(&seed, w->heads));
    }
    for (int64_t i = 0; i < (int64_t)elements && result == 0; i++) /* poison is a NaN, and stays between rows */
        wrong += (o[i] == 0xffff) != (i < w->pad || (i - w->pad) % row >= width);
    free(o);
    if (result == 0)
        printf("{\"rows\": %d, \"wrong\": %d}\n", rows, wrong);
    return result;
}

static int answer_round(struct worker *w, int launches)
{
    w->gpu.cl->api.clFinish(w->queue);
    const double start = timer_now();
    for (int i = 0; i < launches; i++) {
        if (launch(w, w->next) != 0)
            return -1;
        w->next = (w->next + 1) % w->copies;
    }
    w->gpu.cl->api.clFinish(w->queue);
    printf("{\"ms\": %.6g}\n", (timer_now() - start) * 1e3 / launches);
    return 0;
}

static int answer(struct worker *w, char *line)
{
    enum { WORDS = 6 };
    char *word[WORDS + 1] = {NULL}, *rest = NULL;
    int n = 0;
    for (char *c = strtok_r(line, " \n", &rest); c && n < WORDS; c = strtok_r(NULL, " \n", &rest))
        word[n++] = c;
    if (n == 5 && !strcmp(word[0], "cell"))
        return answer_cell(w, word);
    if (!w->memory[0][0])
        return refuse(w, "expected a cell first");
    if (n == 3 && !strcmp(word[0], "check"))
        return answer_check(w, atoi(word[1]), strtoull(word[2], NULL, 10));
    return n == 2 && !strcmp(word[0], "round") ? answer_round(w, atoi(word[1])) : refuse(w, "expected cell, check or round");
}

static int open_worker(struct worker *w)
{
    cl_int code;
    if (gpu_open(&w->gpu, &w->err) != 0)
        return -1;
    w->queue = w->gpu.cl->api.clCreateCommandQueue(w->gpu.target->context, w->gpu.target->device.id, 0, &code);
    w->drawn = malloc(DRAWN * 2);
    w->narrow = malloc(DRAWN);
    if (!w->drawn || !w->narrow)
        return refuse(w, "out of memory");
    fill_normal(w->drawn, DTYPE_BF16, DRAWN, 1);
    return opencl_failed(code, "clCreateCommandQueue", &w->err);
}

int main(int argc, char **argv)
{
    static struct worker w;
    static char line[1 << 20];
    bool asked = argc > 1 && !strcmp(argv[1], "-");
    if (open_worker(&w) != 0) {
        printf("# no device to time kernels on: %s\n", w.err.text);
        return asked;
    }
    const struct opencl_device *d = opencl_target_device(w.gpu.target);
    printf("{\"device\": \"%s\", \"driver\": \"%s\", \"capability\": %d, \"units\": %d}\n", d->name, d->driver, d->capability,
           d->units);
    fflush(stdout);
    while (asked && fgets(line, sizeof line, stdin)) {
        if (answer(&w, line) != 0)
            printf("{\"error\": \"%.300s\"}\n", w.err.text);
        fflush(stdout);
    }
    forget(&w);
    return 0;
}
