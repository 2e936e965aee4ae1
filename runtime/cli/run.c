/* run.c - `attngen run`: attention over arrays in .npy files. Reads and judges them, asks libattn for a plan, executes
 * it once, writes the output. What it is not: tuning; it takes the cache's winner, else the model's choice, and stores
 * nothing. */
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../attn.h"
#include "../numeric.h"
#include "cli.h"
#include "npy.h"
#include "options.h"

static const struct verb verb = {
    .name = "run",
    .usage = "run -q Q.npy -k K.npy -v V.npy -o O.npy [--lse L.npy] [options]",
    .text = "O = softmax(scale * Q K^T, masked) V, by the fastest kernel that tuning has found\n"
            "for this shape here, or by the one that a model chooses where none is known.\n"
            "Arrays are float32, float16, or uint16 that hold bf16 (with --dtype bf16). float32\n"
            "arrays are rounded first when --dtype names another type. A run that fails writes\n"
            "nothing.",
    .example = "attngen run -q q.npy -k k.npy -v v.npy -o o.npy --causal --threads 2",
    .exits = "an array is missing or does not fit, or the run failed",
    .options = OPTIONS_ATTENTION | OPTIONS_MACHINE | OPTION_BIT(OPTION_Q) | OPTION_BIT(OPTION_K) |
               OPTION_BIT(OPTION_V) | OPTION_BIT(OPTION_O) | OPTION_BIT(OPTION_LSE) | OPTION_BIT(OPTION_COMPARE) |
               OPTION_BIT(OPTION_VARIANT) | OPTION_BIT(OPTION_JSON),
    .required = OPTION_BIT(OPTION_Q) | OPTION_BIT(OPTION_K) | OPTION_BIT(OPTION_V) | OPTION_BIT(OPTION_O),
};

/* One run, from files to files. */
struct run {
    struct options options;
    enum dtype dtype;         /* of the kernel */
    struct npy q, k, v;       /* as read, then rounded to dtype */
    struct npy reference;     /* of --compare; no data without it */
    struct npy o, lse;        /* o in dtype, then in Q's array type */
    enum npy_type array_type; /* of the files Q, K, V and O */
    int64_t *kv_lens;
    int64_t batch, heads, kv_heads, q_len, kv_len, head_dim, head_dim_v;
    double plan_ms, execute_ms;
};

static int wrong(struct gen_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct gen_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return -1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- types ---- */

/* How elements of a dtype are stored in an array. */
static enum npy_type stored_as(enum dtype t)
{
    return t == DTYPE_F32 ? NPY_F32 : t == DTYPE_F16 ? NPY_F16 : NPY_U16;
}

static int choose_types(struct run *r, struct gen_error *err)
{
    const struct options *o = &r->options;
    bool given = o->given & OPTION_BIT(OPTION_DTYPE);
    const struct npy *const array[] = {&r->q, &r->k, &r->v};
    const char *const path[] = {o->file[OPTION_Q], o->file[OPTION_K], o->file[OPTION_V]};
    for (int i = 0; i < 3; i++) {
        enum npy_type t = array[i]->type;
        if (t != NPY_F32 && t != NPY_F16 && t != NPY_U16)
            return wrong(err, "%s: error: its type is %s; expected float32, float16 or uint16", path[i],
                         npy_type_name(t));
        if (t != r->q.type)
            return wrong(err, "%s: error: its type is %s; expected %s, as in %s", path[i], npy_type_name(t),
                         npy_type_name(r->q.type), path[0]);
    }
    r->array_type = r->q.type;
    if (r->array_type == NPY_U16 && (!given || o->dtype != DTYPE_BF16))
        return wrong(err, "%s: error: its type is uint16; expected --dtype bf16 with it", path[0]);
    if (r->array_type == NPY_F16 && given && o->dtype != DTYPE_F16)
        return wrong(err, "%s: error: its type is float16; expected --dtype f16 with it, or none", path[0]);
    r->dtype = given ? o->dtype : r->array_type == NPY_F16 ? DTYPE_F16 : DTYPE_F32;
    return 0;
}

/* Replaces an array by the same one in another type; both are float32, float16 or bf16 in uint16. */
static int convert(const char *path, struct npy *a, enum dtype from, enum dtype to, struct gen_error *err)
{
    struct npy other;
    if (from == to)
        return 0;
    if (npy_new(path, stored_as(to), a->dims, a->shape, &other, err))
        return -1;
    for (int64_t i = 0; i < a->count; i++)
        dtype_store(to, other.data, i, dtype_load(from, a->data, i));
    npy_free(a);
    *a = other;
    return 0;
}

/* ---- shapes ---- */

static int64_t heads_of(const struct run *r, const struct npy *a)
{
    return a->shape[r->options.layout == LAYOUT_BSHD ? 2 : 1];
}

static int64_t length_of(const struct run *r, const struct npy *a)
{
    return a->shape[r->options.layout == LAYOUT_BSHD ? 1 : 2];
}

/* A shape in words, in the order of the layout; the heads and the length may be names. */
static struct npy_text expected(const struct run *r, int64_t batch, const char *heads, const char *length, int64_t dim)
{
    struct npy_text t;
    bool bshd = r->options.layout == LAYOUT_BSHD;
    char last[24] = "Dv";
    if (dim)
        snprintf(last, sizeof last, "%lld", (long long)dim);
    snprintf(t.text, sizeof t.text, "[%lld, %s, %s, %s]", (long long)batch, bshd ? length : heads,
             bshd ? heads : length, last);
    return t;
}

/* Each array against its limits and against those before it. */
static int check_shapes(struct run *r, struct gen_error *err)
{
    const char *q = r->options.file[OPTION_Q], *k = r->options.file[OPTION_K], *v = r->options.file[OPTION_V];
    const struct npy *const array[] = {&r->q, &r->k, &r->v};
    const char *const path[] = {q, k, v};
    for (int i = 0; i < 3; i++) {
        int64_t most = fields[i < 2 ? F_HEAD_DIM : F_HEAD_DIM_V].max;
        struct npy_text shape = npy_shape_text(array[i]->dims, array[i]->shape);
        if (array[i]->dims != 4)
            return wrong(err, "%s: error: its shape is %s; expected four sides, %s", path[i], shape.text,
                         r->options.layout == LAYOUT_BSHD ? "[batch, length, heads, dim]"
                                                          : "[batch, heads, length, dim]");
        if (array[i]->shape[3] < 1 || array[i]->shape[3] > most)
            return wrong(err, "%s: error: its shape is %s; expected a head dim, the last side, of 1 to %lld", path[i],
                         shape.text, (long long)most);
        if (heads_of(r, array[i]) < 1 || heads_of(r, array[i]) > 65536)
            return wrong(err, "%s: error: its shape is %s; expected 1 to 65536 heads", path[i], shape.text);
    }
    r->batch = r->q.shape[0];
    r->heads = heads_of(r, &r->q);
    r->kv_heads = heads_of(r, &r->k);
    r->q_len = length_of(r, &r->q);
    r->kv_len = length_of(r, &r->k);
    r->head_dim = r->q.shape[3];
    r->head_dim_v = r->v.shape[3];
    if (r->k.shape[0] != r->batch || r->k.shape[3] != r->head_dim)
        return wrong(err, "%s: error: its shape is %s; expected %s to go with %s", k,
                     npy_shape_text(4, r->k.shape).text, expected(r, r->batch, "Hkv", "Skv", r->head_dim).text, q);
    if (r->heads % r->kv_heads)
        return wrong(err, "%s: error: it has %lld heads; expected a number that divides the %lld of %s", k,
                     (long long)r->kv_heads, (long long)r->heads, q);
    if (r->v.shape[0] != r->batch || heads_of(r, &r->v) != r->kv_heads || length_of(r, &r->v) != r->kv_len) {
        char heads[24], length[24];
        snprintf(heads, sizeof heads, "%lld", (long long)r->kv_heads);
        snprintf(length, sizeof length, "%lld", (long long)r->kv_len);
        return wrong(err, "%s: error: its shape is %s; expected %s to go with %s", v,
                     npy_shape_text(4, r->v.shape).text, expected(r, r->batch, heads, length, 0).text, k);
    }
    return 0;
}

/* ---- input and output ---- */

static int read_inputs(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    if (npy_read(file[OPTION_Q], &r->q, err) || npy_read(file[OPTION_K], &r->k, err) ||
        npy_read(file[OPTION_V], &r->v, err) || choose_types(r, err) || check_shapes(r, err))
        return -1;
    if (file[OPTION_KV_LENS] && npy_read_lengths(file[OPTION_KV_LENS], r->batch, r->kv_len, &r->kv_lens, err))
        return -1;
    enum dtype from = r->array_type == NPY_F32 ? DTYPE_F32 : r->dtype;
    return convert(file[OPTION_Q], &r->q, from, r->dtype, err) || convert(file[OPTION_K], &r->k, from, r->dtype, err) ||
                   convert(file[OPTION_V], &r->v, from, r->dtype, err)
               ? -1
               : 0;
}

/* Room for O and LSE, and the array to compare O with. */
static int prepare_outputs(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    int64_t shape[4], rows[3] = {r->batch, r->heads, r->q_len};
    memcpy(shape, r->q.shape, sizeof shape);
    shape[3] = r->head_dim_v;
    if (npy_new(file[OPTION_O], stored_as(r->dtype), 4, shape, &r->o, err))
        return -1;
    if (file[OPTION_LSE] && npy_new(file[OPTION_LSE], NPY_F32, 3, rows, &r->lse, err))
        return -1;
    if (!file[OPTION_COMPARE])
        return 0;
    if (npy_read(file[OPTION_COMPARE], &r->reference, err))
        return -1;
    const struct npy *ref = &r->reference;
    if (ref->dims != 4 || memcmp(ref->shape, shape, sizeof shape) ||
        (ref->type != NPY_F32 && ref->type != r->array_type))
        return wrong(err, "%s: error: it is %s %s; expected %s %s, as the output is", file[OPTION_COMPARE],
                     npy_type_name(ref->type), npy_shape_text(ref->dims, ref->shape).text, npy_type_name(r->array_type),
                     npy_shape_text(4, shape).text);
    return 0;
}

/* Both files or none. */
static int write_outputs(struct run *r, struct gen_error *err)
{
    struct npy_staged out[2] = {{0}};
    const char *const *file = r->options.file;
    enum dtype to = r->array_type == NPY_F32 ? DTYPE_F32 : r->dtype;
    int n = 0, result = -1;
    if (convert(file[OPTION_O], &r->o, r->dtype, to, err) || npy_stage(file[OPTION_O], &r->o, &out[n++], err))
        goto cleanup;
    if (file[OPTION_LSE] && npy_stage(file[OPTION_LSE], &r->lse, &out[n++], err))
        goto cleanup;
    result = npy_commit(out, n, err);
cleanup:
    npy_discard(out, n);
    return result;
}

/* ---- computing ---- */

static void set_strides(const struct run *r, const struct npy *a, int64_t stride[3])
{
    bool bshd = r->options.layout == LAYOUT_BSHD;
    int64_t dim = a->shape[3], inner = a->shape[2] * dim;
    stride[0] = a->shape[1] * inner;
    stride[1] = bshd ? dim : inner;
    stride[2] = bshd ? inner : dim;
}

static int64_t at_least_1(int64_t n)
{
    return n > 1 ? n : 1;
}

static attn_status plan(const struct run *r, struct attn_context *context, struct attn_plan **out,
                        struct attn_error *err)
{
    static const attn_dtype dtype[] = {[DTYPE_F32] = ATTN_F32, [DTYPE_F16] = ATTN_F16, [DTYPE_BF16] = ATTN_BF16};
    const struct attn_problem problem = {
        .size = sizeof problem,
        .dtype = dtype[r->dtype],
        .head_dim = (int)r->head_dim,
        .head_dim_v = (int)r->head_dim_v,
        .heads = (int)r->heads,
        .kv_heads = (int)r->kv_heads,
        .causal = r->options.causal,
        .max_batch = at_least_1(r->batch),
        .max_q_len = at_least_1(r->q_len),
        .max_kv_len = at_least_1(r->kv_len),
        .threads = r->options.threads,
        .rigor = ATTN_ESTIMATE,
        .variant = r->options.file[OPTION_VARIANT],
        .compiler = r->options.compiler,
        .device = r->options.file[OPTION_DEVICE],
    };
    return attn_plan_create(context, &problem, out, err);
}

static attn_status execute(struct run *r, struct attn_plan *p, struct attn_error *err)
{
    struct attn_run run = {
        .size = sizeof run,
        .q = r->q.data,
        .k = r->k.data,
        .v = r->v.data,
        .o = r->o.data,
        .lse = r->lse.data,
        .batch = r->batch,
        .q_len = r->q_len,
        .kv_len = r->kv_len,
        .kv_lens = r->kv_lens,
        .align = r->options.align,
        .q_offset = r->options.q_offset,
        .scale = r->options.scale,
        .has_scale = (r->options.given & OPTION_BIT(OPTION_SCALE)) != 0,
    };
    set_strides(r, &r->q, run.q_stride);
    set_strides(r, &r->k, run.k_stride);
    set_strides(r, &r->v, run.v_stride);
    set_strides(r, &r->o, run.o_stride);
    return attn_execute(p, &run, NULL, err);
}

static void print_log(void *user, attn_log_level level, const char *text)
{
    (void)user;
    if (level == ATTN_LOG_WARNING)
        fprintf(stderr, "attngen run: warning: %s\n", text);
}

/* ---- what it prints ---- */

/* The largest difference from the reference and where it is; infinite where only one of the two is finite. */
static double compare(const struct run *r, int64_t *where)
{
    double worst = 0;
    enum dtype t = r->array_type == NPY_F32 ? DTYPE_F32 : r->dtype;
    enum dtype ref = r->reference.type == NPY_F32 ? DTYPE_F32 : r->dtype;
    *where = 0;
    for (int64_t i = 0; i < r->o.count; i++) {
        double a = dtype_load(t, r->o.data, i), b = dtype_load(ref, r->reference.data, i);
        double d = isnan(a) && isnan(b) ? 0 : a == b ? 0 : fabs(a - b);
        if (isnan(d))
            d = INFINITY;
        if (d > worst) {
            worst = d;
            *where = i;
        }
    }
    return worst;
}

static void print_result(const struct run *r, const struct attn_plan_info *info)
{
    const char *ref = r->options.file[OPTION_COMPARE];
    int64_t where = 0, at[4];
    double difference = ref ? compare(r, &where) : 0;
    for (int i = 3; i >= 0; i--) {
        at[i] = where % at_least_1(r->o.shape[i]);
        where /= at_least_1(r->o.shape[i]);
    }
    struct npy_text place = npy_shape_text(4, at);
    if (r->options.json) {
        printf("{\"variant\": \"%s\", \"device\": \"%s\", \"compiler\": \"%s\", \"cached\": %s, \"plan_ms\": %.3f, "
               "\"execute_ms\": %.3f",
               info->variant, info->device, info->compiler, info->cached ? "true" : "false", r->plan_ms, r->execute_ms);
        if (ref && isfinite(difference))
            printf(", \"difference\": %.3g, \"at\": %s", difference, place.text);
        else if (ref) /* JSON knows no infinity */
            printf(", \"difference\": null, \"at\": %s", place.text);
        printf("}\n");
        return;
    }
    printf("%s on %s by %s, %s: planned in %.3f ms, ran in %.3f ms\n", info->variant, info->device, info->compiler,
           r->options.file[OPTION_VARIANT] ? "as asked"
           : info->cached                  ? "from the cache"
                                           : "by estimate",
           r->plan_ms, r->execute_ms);
    if (ref)
        printf("largest difference from %s: %.3g at %s\n", ref, difference, place.text);
}

/* ---- the verb ---- */

static int compute(struct run *r)
{
    struct attn_context *context = NULL;
    struct attn_plan *p = NULL;
    struct attn_error err = {""};
    struct gen_error file_err = {""};
    struct attn_plan_info info = {.size = sizeof info};
    const struct attn_options options = {.size = sizeof options, .log = print_log};
    int result = CLI_FAILED;
    double start = now_ms();
    if (attn_context_create(&options, &context, &err) || plan(r, context, &p, &err))
        goto cleanup;
    r->plan_ms = now_ms() - start;
    start = now_ms();
    if (execute(r, p, &err))
        goto cleanup;
    r->execute_ms = now_ms() - start;
    if (attn_plan_describe(p, &info, &err) || write_outputs(r, &file_err))
        goto cleanup;
    print_result(r, &info);
    result = CLI_OK;
cleanup:
    if (file_err.text[0])
        fprintf(stderr, "%s\n", file_err.text);
    else if (result)
        fprintf(stderr, "attngen run: error: %s\n", err.text);
    attn_plan_destroy(p);
    attn_context_destroy(context);
    return result;
}

int cli_run(int argc, char **argv)
{
    struct run r = {0};
    struct gen_error err = {""};
    int code = CLI_FAILED;
    if (!options_begin(&verb, argc, argv, &r.options, &code))
        return code;
    const char *lse = r.options.file[OPTION_LSE];
    if (lse && !strcmp(lse, r.options.file[OPTION_O]))
        return usage_error(&verb, "-o and --lse name the same file; expected two");
    if (read_inputs(&r, &err) || prepare_outputs(&r, &err))
        fprintf(stderr, "%s\n", err.text);
    else
        code = compute(&r);
    npy_free(&r.q);
    npy_free(&r.k);
    npy_free(&r.v);
    npy_free(&r.reference);
    npy_free(&r.o);
    npy_free(&r.lse);
    free(r.kv_lens);
    return code;
}
