/* run.c - `attngen run`: attention over arrays in .npy files. Reads and checks them, asks libattn for a plan, executes
 * it once, writes the output. What it is not: tuning; it takes the cache's winner, else the model's choice, and stores
 * nothing. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "attn.h"
#include "numerics/convert.h"
#include "cli.h"
#include "options.h"
#include "print.h"
#include "run_arrays.h"

const struct verb verb_run = {
    .name = "run",
    .doc = "compute attention over arrays in .npy files",
    .usage = "run -q Q.npy -k K.npy -v V.npy -o O.npy [--lse L.npy] [options]",
    .text = "O = softmax(scale * Q K^T -> softcap -> + bias, ALiBi -> mask; sinks) V, by the\n"
            "fastest kernel that tuning has found for this shape on this machine, or else by one\n"
            "that a model chooses. Arrays are float32, float16, or uint16 that holds\n"
            "bf16 (with --dtype bf16, or q=, kv= or o=bf16); K and V may have another type than\n"
            "Q. float32 arrays are first rounded if --dtype names another type; O is then\n"
            "float32, as Q is, unless o= says otherwise. With --dtype kv=int8, K and V are int8,\n"
            "with kv=fp8 they are uint8, both with --k-scales and --v-scales; with kv=q8_0 or\n"
            "kv=q4_0 they are uint8 whose last side is the bytes of a row. Or they are float32 or\n"
            "float16 and are first quantised, by the given scales or one for each row. A run that\n"
            "fails writes nothing.",
    .example = "attngen run -q q.npy -k k.npy -v v.npy -o o.npy --causal --threads 2",
    .exits = "an array is missing or does not fit, the run failed, or the\noutput differs from --compare's array by "
             "more than --tolerance",
    .options = OPTIONS_ATTENTION | OPTIONS_MACHINE | OPTION_BIT(OPTION_Q) | OPTION_BIT(OPTION_K) |
               OPTION_BIT(OPTION_V) | OPTION_BIT(OPTION_O) | OPTION_BIT(OPTION_LSE) | OPTION_BIT(OPTION_COMPARE) |
               OPTION_BIT(OPTION_TOLERANCE) | OPTION_BIT(OPTION_QUIET) | OPTION_BIT(OPTION_VARIANT) |
               OPTION_BIT(OPTION_JSON),
    .required = OPTION_BIT(OPTION_Q) | OPTION_BIT(OPTION_K) | OPTION_BIT(OPTION_V) | OPTION_BIT(OPTION_O),
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- computing ---- */

/* In units of the type. A packed array is a batch of one, a paged one a batch of pages. */
static void set_strides(const struct run *r, const struct npy *a, enum dtype type, int64_t stride[3])
{
    bool bshd = r->options.layout == LAYOUT_BSHD;
    int64_t dim = a->shape[3] / dtype_values(type), inner = a->shape[2] * dim;
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
    struct attn_problem problem = {
        .size = sizeof problem,
        .dtype = (attn_dtype)r->dtype_q,
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
        .mixed = r->dtype_kv != r->dtype_q || r->dtype_o != r->dtype_q,
    };
    if (problem.mixed) {
        problem.kv_dtype = (attn_dtype)r->dtype_kv;
        problem.o_dtype = (attn_dtype)r->dtype_o;
    }
    features_problem(&r->features, &r->options, &problem);
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
        .align = r->options.align,
        .q_offset = r->options.q_offset,
        .scale = r->options.scale,
        .has_scale = (r->options.given & OPTION_BIT(OPTION_SCALE)) != 0,
    };
    set_strides(r, &r->q, r->dtype_q, run.q_stride);
    set_strides(r, &r->k, r->dtype_kv, run.k_stride);
    set_strides(r, &r->v, r->dtype_kv, run.v_stride);
    set_strides(r, &r->o, r->dtype_o, run.o_stride);
    features_run(&r->features, &r->options, &run);
    return attn_execute(p, &run, NULL, err);
}

/* ---- what it prints ---- */

/* The largest difference from the reference and where it is; infinite if only one of the two is finite. */
static double compare(const struct run *r, int64_t *where)
{
    double worst = 0;
    enum dtype t = r->written, ref = r->reference.type == NPY_F32 ? DTYPE_F32 : r->written;
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

/* Returns whether the result is as near to the reference as was required. */
static bool print_result(const struct run *r, const struct attn_plan_info *info, double plan_ms, double execute_ms)
{
    const char *ref = r->options.file[OPTION_COMPARE];
    int64_t where = 0, at[4];
    double difference = ref ? compare(r, &where) : 0;
    const bool judged = r->options.given & OPTION_BIT(OPTION_TOLERANCE);
    const bool near = !judged || difference <= (double)r->options.tolerance;
    for (int i = 3; i >= 0; i--) {
        at[i] = where % at_least_1(r->o.shape[i]);
        where /= at_least_1(r->o.shape[i]);
    }
    int dims = r->flat_q ? 3 : 4;
    struct npy_text place = npy_shape_text(dims, at + 4 - dims);
    if (r->options.json) {
        printf("{\"variant\": \"%s\", \"device\": \"%s\", \"compiler\": \"%s\", \"cached\": %s, \"plan_ms\": %.3f, "
               "\"execute_ms\": %.3f",
               info->variant, info->device, info->compiler, info->cached ? "true" : "false", plan_ms, execute_ms);
        if (ref && isfinite(difference))
            printf(", \"difference\": %.3g, \"at\": %s", difference, place.text);
        else if (ref) /* JSON has no infinity */
            printf(", \"difference\": null, \"at\": %s", place.text);
        if (judged)
            printf(", \"within_tolerance\": %s", near ? "true" : "false");
        printf("}\n");
        return near;
    }
    printf("%s on %s by %s, %s: planned in %.3f ms, ran in %.3f ms\n", info->variant, info->device, info->compiler,
           r->options.file[OPTION_VARIANT] ? "as asked"
           : info->cached                  ? "from the cache"
                                           : "by estimate",
           plan_ms, execute_ms);
    if (ref)
        print_line(stdout, "largest difference from %s: %.3g at %s", ref, difference, place.text);
    if (!near)
        print_line(stderr, "attngen run: error: %s differs from %s by %.3g at %s; expected at most %g",
                   r->options.file[OPTION_O], ref, difference, place.text, (double)r->options.tolerance);
    return near;
}

/* ---- the verb ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (!a || !b)
        return false;
    return !strcmp(a, b) ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* The option of the input that an output would replace; NULL: none. */
static const char *replaced_input(const struct options *o, const char *output)
{
    for (enum array_id id = 0; id < ARRAYS; id++) {
        enum option_id option = option_of(id);
        if (option != OPTION_O && option != OPTION_LSE && same_file(output, o->file[option]))
            return option_name(option);
    }
    return same_file(output, o->file[OPTION_COMPARE]) ? option_name(OPTION_COMPARE) : NULL;
}

static int compute(struct run *r)
{
    struct attn_context *context = NULL;
    struct attn_plan *p = NULL;
    struct attn_error err = {""};
    struct gen_error file_err = {0};
    struct attn_plan_info info = {.size = sizeof info};
    const struct attn_options options = {.size = sizeof options, .log = print_warning, .user = "run"};
    int result = CLI_FAILED;
    bool far = false; /* from the reference: that is already reported */
    double start = now_ms(), plan_ms, execute_ms;
    if (attn_context_create(&options, &context, &err) || plan(r, context, &p, &err))
        goto cleanup;
    plan_ms = now_ms() - start;
    start = now_ms();
    if (execute(r, p, &err))
        goto cleanup;
    execute_ms = now_ms() - start;
    if (attn_plan_describe(p, &info, &err) || run_write(r, &file_err))
        goto cleanup;
    result = print_result(r, &info, plan_ms, execute_ms) ? CLI_OK : CLI_FAILED;
    far = result != CLI_OK;
cleanup:
    if (file_err.text[0])
        print_line(stderr, "%s", file_err.text);
    else if (result && !far)
        print_failure("run", err.text);
    attn_plan_destroy(p);
    attn_context_destroy(context);
    return result;
}

int cli_run(int argc, char **argv)
{
    struct run r = {0};
    struct gen_error err = {0};
    int code = CLI_FAILED;
    if (!options_begin(&verb_run, argc, argv, &r.options, &code))
        return code;
    const char *const *file = r.options.file, *const outs[] = {file[OPTION_O], file[OPTION_LSE]};
    if (same_file(file[OPTION_O], file[OPTION_LSE]))
        return usage_error(&verb_run, "-o and --lse name the same file; expected different files");
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++) {
        const char *input = replaced_input(&r.options, outs[i]);
        if (input)
            return usage_error(&verb_run, "%s and %s name the same file; expected an output that replaces no input", input,
                               i == 0 ? "-o" : "--lse");
    }
    if (run_read(&r, &err) || run_prepare(&r, &err))
        print_failure("run", err.text);
    else
        code = compute(&r);
    run_free(&r);
    return code;
}
