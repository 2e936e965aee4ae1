/* plan.c - from a problem to a compiled kernel: the pinned variant, or the one that tuning finds. */
#include "plan.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/run.h"
#include "devices/list.h"
#include "gen/invariant.h"
#include "tune/tune.h"

enum { MOST_THREADS = 1024 };

/* Public and internal types have the same numbers, so that a cast converts them. */
_Static_assert((int)ATTN_F32 == (int)DTYPE_F32 && (int)ATTN_F16 == (int)DTYPE_F16 && (int)ATTN_BF16 == (int)DTYPE_BF16 &&
                   (int)ATTN_INT8 == (int)DTYPE_INT8 && (int)ATTN_FP8 == (int)DTYPE_FP8 &&
                   (int)ATTN_Q8_0 == (int)DTYPE_Q8_0 && (int)ATTN_Q4_0 == (int)DTYPE_Q4_0,
               "attn_dtype is enum dtype");
_Static_assert((int)ATTN_NO_BIAS == (int)BIAS_NONE && (int)ATTN_BIAS_F32 == (int)BIAS_F32 &&
                   (int)ATTN_BIAS_F16 == (int)BIAS_F16 && (int)ATTN_BIAS_BF16 == (int)BIAS_BF16,
               "attn_bias is enum bias");

static attn_status in_range(const char *what, int64_t value, int64_t min, int64_t max, struct attn_error *err)
{
    if (value >= min && value <= max)
        return ATTN_OK;
    return status_fail(err, ATTN_INVALID, "%s is %lld; expected %lld..%lld", what, (long long)value, (long long)min,
                       (long long)max);
}

/* Whether the bytes of the largest tensor fit into 64 bits, at four bytes an element, which covers the LSE too. */
static attn_status check_size(const struct attn_problem *p, struct attn_error *err)
{
    int64_t rows = p->max_q_len > p->max_kv_len ? p->max_q_len : p->max_kv_len;
    int64_t width = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v, n;
    if (!__builtin_mul_overflow(rows, 4 * width, &n) && !__builtin_mul_overflow(n, (int64_t)p->heads, &n) &&
        !__builtin_mul_overflow(n, p->max_batch, &n))
        return ATTN_OK;
    return status_fail(err, ATTN_INVALID,
                       "max_batch %lld, heads %d and lengths to %lld make a tensor of more than 2^63 bytes; "
                       "expected smaller maxima",
                       (long long)p->max_batch, p->heads, (long long)rows);
}

/* Checks the problem, and fills in the defaults that depend on nothing else. */
static attn_status check_problem(struct attn_problem *p, int cores, struct attn_error *err)
{
    const struct field *v = &fields[F_HEAD_DIM_V];
    if (p->head_dim_v == 0 && p->head_dim > v->max && p->head_dim <= fields[F_HEAD_DIM].max)
        return status_fail(err, ATTN_INVALID, "head_dim_v is 0, which stands for head_dim, %d; expected %d..%d",
                           p->head_dim, v->min, v->max);
    if (p->head_dim_v == 0)
        p->head_dim_v = p->head_dim;
    if (p->threads == 0)
        p->threads = cores;
    const struct {
        const char *what;
        int64_t value, min, max;
    } ranges[] = {
        {"dtype", (int)p->dtype, ATTN_F32, ATTN_BF16},
        {"mixed", p->mixed, 0, 1},
        {"kv_dtype", (int)p->kv_dtype, ATTN_F32, ATTN_Q4_0},
        {"o_dtype", (int)p->o_dtype, ATTN_F32, ATTN_BF16},
        {"head_dim", p->head_dim, fields[F_HEAD_DIM].min, fields[F_HEAD_DIM].max},
        {"head_dim_v", p->head_dim_v, v->min, v->max},
        {"heads", p->heads, 1, RUN_HEADS_MOST},
        {"kv_heads", p->kv_heads, 1, RUN_HEADS_MOST},
        {"causal", p->causal, 0, 1},
        {"window", p->window, 0, 1},
        {"softcap", p->softcap, 0, 1},
        {"tune_window_left", p->tune_window_left, -1, INT64_MAX},
        {"tune_window_right", p->tune_window_right, -1, INT64_MAX},
        {"invariant", p->invariant, 0, 1},
        {"max_batch", p->max_batch, 1, INT64_MAX},
        {"max_q_len", p->max_q_len, 1, INT64_MAX},
        {"max_kv_len", p->max_kv_len, 1, INT64_MAX},
        {"threads", p->threads, 0, MOST_THREADS},
        {"rigor", (int)p->rigor, ATTN_ESTIMATE, ATTN_PATIENT},
        {"compiler", (int)p->compiler, ATTN_TCC, ATTN_CC},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        attn_status status = in_range(ranges[i].what, ranges[i].value, ranges[i].min, ranges[i].max, err);
        if (status != ATTN_OK)
            return status;
    }
    attn_status status = arrays_check_switches(p, err);
    if (status != ATTN_OK)
        return status;
    if (p->heads % p->kv_heads != 0)
        return status_fail(err, ATTN_INVALID,
                           "heads is %d and kv_heads %d; expected heads to be a multiple of kv_heads", p->heads,
                           p->kv_heads);
    if (!p->window && (p->tune_window_left || p->tune_window_right))
        return status_fail(err, ATTN_INVALID, "%s is given; expected 0, since window is 0",
                           p->tune_window_left ? "tune_window_left" : "tune_window_right");
    if (!p->mixed && (p->kv_dtype || p->o_dtype))
        return status_fail(err, ATTN_INVALID, "%s is %d; expected 0, since mixed is 0",
                           p->kv_dtype ? "kv_dtype" : "o_dtype", (int)(p->kv_dtype ? p->kv_dtype : p->o_dtype));
    if (!p->mixed)
        p->kv_dtype = p->o_dtype = p->dtype;
    const int values = dtype_values((enum dtype)p->kv_dtype);
    if (p->head_dim % values || p->head_dim_v % values)
        return status_fail(err, ATTN_INVALID, "%s is %d; expected a multiple of %d, as kv_dtype is %s",
                           p->head_dim % values ? "head_dim" : "head_dim_v",
                           p->head_dim % values ? p->head_dim : p->head_dim_v, values,
                           kv_dtype_names[(int)p->kv_dtype + 1]);
    if (!(p->time_limit >= 0) || isinf(p->time_limit))
        return status_fail(err, ATTN_INVALID, "time_limit is %g; expected seconds, or 0 for the default",
                           p->time_limit);
    return check_size(p, err);
}

/* The device that the handles belong to, or that is named. The strings in the problem stay the caller's and are not
 * kept. */
static attn_status find_device(struct attn_plan *plan, struct attn_error *err)
{
    struct attn_problem *p = &plan->problem;
    struct devices *devices = plan->context->devices;
    struct gen_error gen_err = {0};
    const char *name = p->device;
    attn_status status = devices_adopt(devices, p, &plan->device, &gen_err);
    p->device = NULL;
    if (status != ATTN_OK)
        return status_because(&gen_err, status, err);
    if (plan->device)
        return ATTN_OK;
    if (name && !device_is_name(name))
        return status_fail(err, ATTN_INVALID, "device is '%.40s'; expected " DEVICE_NAMES, name);
    if (devices_find(devices, name, p->compiler, &plan->device, &gen_err) != 0)
        return status_because(&gen_err, ATTN_UNSUPPORTED, err);
    return ATTN_OK;
}

static struct variant caller_of(const struct attn_problem *p)
{
    struct variant v = variant_default(ISA_C);
    v.field[F_OP] = OP_ATTN;
    variant_set_dtypes(&v, (enum dtype)p->dtype, (enum dtype)p->kv_dtype, (enum dtype)p->o_dtype);
    v.field[F_HEAD_DIM] = p->head_dim;
    v.field[F_HEAD_DIM_V] = p->head_dim_v == p->head_dim ? 0 : p->head_dim_v; /* 0: as head_dim, not in the name */
    v.field[F_CAUSAL] = p->causal;
    v.field[F_WINDOW] = p->window;
    v.field[F_SOFTCAP] = p->softcap;
    v.field[F_INVARIANT] = p->invariant;
    arrays_set_fields(p, &v);
    return v;
}

/* A field's value as messages show it: 0 in a paired field means the value of the first. */
static const char *value_text(const struct variant *v, enum field_id f, char room[16])
{
    enum field_id from = v->field[f] ? f : field_first(f);
    int32_t value = v->field[from];
    const char *word = field_value_name(from, value);
    if (fields[f].type == FIELD_BOOL)
        word = value ? "true" : "false";
    snprintf(room, 16, "%d", value);
    return word ? word : room;
}

static attn_status pin(struct attn_plan *plan, const char *name, struct attn_error *err)
{
    struct gen_error gen_err = {0};
    struct variant caller = caller_of(&plan->problem), *v = &plan->variant;
    if (variant_decode(name, v, &gen_err) != 0)
        return status_because(&gen_err, ATTN_INVALID, err);
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        char has[16], wants[16];
        if (fields[f].side == FIELD_CALLER && v->field[f] != caller.field[f])
            return status_fail(err, ATTN_INVALID,
                               "variant '%s' has %s %s and the problem has %s; expected a variant for this problem",
                               name, fields[f].key, value_text(v, f, has), value_text(&caller, f, wants));
    }
    enum isa isa = (enum isa)v->field[F_ISA];
    const char *why = plan->device->backend->why_not(plan->device, isa);
    if (why)
        return status_fail(err, ATTN_UNSUPPORTED, "variant '%s' cannot run: isa %s %s", name,
                           field_value_name(F_ISA, isa), why);
    if (gen_check(plan->context->gen, v, &gen_err) != 0 || invariant_fits(v, plan->problem.max_kv_len, &gen_err) != 0)
        return status_because(&gen_err, ATTN_UNSUPPORTED, err);
    return ATTN_OK;
}

static struct tune_target target_of(const struct attn_problem *p)
{
    struct tune_target target = {.caller = caller_of(p),
                                 .heads = p->heads,
                                 .kv_heads = p->kv_heads,
                                 .batch = p->max_batch,
                                 .q_len = p->max_q_len,
                                 .kv_len = p->max_kv_len,
                                 .threads = p->threads,
                                 .window = {p->tune_window_left, p->tune_window_right}};
    tune_bucket(&target);
    return target;
}

static attn_status choose(struct attn_plan *plan, attn_rigor rigor, struct attn_error *err)
{
    struct attn_context *c = plan->context;
    const struct attn_problem *p = &plan->problem;
    const struct tune_target target = target_of(p);
    const struct tune_settings settings = {.rigor = rigor, .time_limit = p->time_limit};
    struct tune_result result = {0};
    struct gen_error gen_err = {0};
    if (tune(plan->device, &target, &settings, &result, &gen_err) != 0)
        return status_because(&gen_err, ATTN_UNSUPPORTED, err);
    plan->variant = result.winner;
    plan->cached = result.from_cache;
    if (result.fallback[0])
        context_log(c, ATTN_LOG_WARNING, "%s is the only choice: %s", isa_slow((enum isa)plan->variant.field[F_ISA]),
                    result.fallback);
    if (result.not_stored[0])
        context_log(c, ATTN_LOG_WARNING, "the timings were not stored: %s", result.not_stored);
    tune_result_free(&result);
    return ATTN_OK;
}

/* A pinned variant needs no key, so nothing else would find out in time that its compiler is missing. */
static attn_status check_compiler(const struct attn_plan *plan, struct attn_error *err)
{
    struct gen_error gen_err = {0};
    struct buf ignored = {0};
    int missing = plan->device->backend->key(plan->device, plan->problem.threads, &ignored, &gen_err);
    buf_free(&ignored);
    return missing ? status_because(&gen_err, ATTN_UNSUPPORTED, err) : ATTN_OK;
}

/* A device with only one kernel leaves nothing to choose. */
static attn_status take_only(struct attn_plan *plan, const char *pinned, struct attn_error *err)
{
    plan->variant = caller_of(&plan->problem);
    plan->source = "the only kernel";
    if (!pinned)
        return ATTN_OK;
    return status_fail(err, ATTN_UNSUPPORTED,
                       "variant '%.200s' is pinned; expected none, since device %s has one kernel", pinned,
                       plan->device->name);
}

/* Everything of a plan except the compiled kernel: this answers attn_supports, and is the way to every plan. */
static attn_status decide(struct attn_context *context, const struct attn_problem *problem, bool only_ask,
                          struct attn_plan *plan, struct attn_error *err)
{
    plan->context = context;
    atomic_init(&plan->spare, NULL);
    pthread_mutex_init(&plan->lock, NULL);
    attn_status status = status_read_struct(&status_problem, &plan->problem, problem, err);
    const char *pinned = plan->problem.variant;
    plan->problem.variant = NULL; /* the caller's string */
    if (status == ATTN_OK)
        status = check_problem(&plan->problem, pool_threads(context->pool), err);
    if (status == ATTN_OK)
        status = find_device(plan, err);
    if (status == ATTN_OK)
        plan->problem.threads = tune_threads(plan->device, plan->problem.threads);
    if (status == ATTN_OK && plan->device->only)
        return take_only(plan, pinned, err);
    if (status == ATTN_OK && pinned) {
        status = pin(plan, pinned, err);
        plan->source = "pinned";
        plan->pinned = true;
        return status == ATTN_OK ? check_compiler(plan, err) : status;
    }
    if (status == ATTN_OK)
        status = choose(plan, only_ask ? ATTN_ESTIMATE : plan->problem.rigor, err);
    plan->source = plan->cached ? "cached" : plan->problem.rigor == ATTN_ESTIMATE ? "estimated" : "measured";
    return status;
}

attn_status attn_plan_create(struct attn_context *context, const struct attn_problem *problem, struct attn_plan **out,
                             struct attn_error *err)
{
    struct gen_error gen_err = {0};
    struct attn_error own;
    err = err ? err : &own;
    if (!out)
        return status_fail(err, ATTN_INVALID, "out is NULL; expected where to put the plan");
    *out = NULL;
    if (!context || !problem)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", context ? "problem" : "context");
    struct attn_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return status_fail(err, ATTN_NO_MEMORY, "out of memory for a plan");
    attn_status status = decide(context, problem, false, plan, err);
    if (status != ATTN_OK)
        goto cleanup;
    variant_encode(&plan->variant, plan->name);
    if (plan->device->only)
        snprintf(plan->name, sizeof plan->name, "%s", plan->device->only);
    run_rules_of(&plan->problem, &plan->rules);
    if (tune_compile(plan->device, &plan->variant, &plan->kernel, NULL, &gen_err) != 0) {
        status = status_because(&gen_err, ATTN_FAILED, err);
        goto cleanup;
    }
    if (plan->kernel.functions->keep)
        plan->kernel.functions->keep(&plan->kernel, context->cache);
    if (plan->kernel.functions->prepare && plan->kernel.functions->prepare(&plan->kernel, &plan->rules, &gen_err) != 0) {
        status = status_because(&gen_err, ATTN_FAILED, err);
        goto cleanup;
    }
    const char *origin = plan->kernel.origin;
    context_log(context, ATTN_LOG_INFO, "%s (%s%s), compiled by %s in %.2f ms%s%s", plan->name, plan->source,
                plan->problem.invariant && !plan->device->only ? "; what orders its sums is fixed" : "", plan->device->compiler,
                plan->kernel.compile_ms, origin ? ", from " : "", origin ? origin : "");
    *out = plan;
cleanup:
    if (status == ATTN_FAILED || status == ATTN_UNSUPPORTED) /* these concern the system, not a mistake */
        context_log(context, ATTN_LOG_WARNING, "no plan was created: %s", err->text);
    if (status != ATTN_OK)
        attn_plan_destroy(plan);
    return status;
}

attn_status attn_supports(struct attn_context *context, const struct attn_problem *problem, struct attn_error *err)
{
    if (!context || !problem)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", context ? "problem" : "context");
    struct attn_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return status_fail(err, ATTN_NO_MEMORY, "out of memory for a plan");
    attn_status status = decide(context, problem, true, plan, err);
    attn_plan_destroy(plan);
    return status;
}

void attn_plan_destroy(struct attn_plan *plan)
{
    if (!plan)
        return;
    context_release(plan->context, atomic_load(&plan->spare));
    kernel_free(&plan->anywhere);
    kernel_free(&plan->kernel);
    pthread_mutex_destroy(&plan->lock);
    device_release(plan->device);
    free(plan);
}

const struct kernel *plan_anywhere(struct attn_plan *plan, const char *why)
{
    struct gen_error err = {0};
    pthread_mutex_lock(&plan->lock);
    if (!plan->looked) {
        const struct tune_target target = target_of(&plan->problem);
        struct variant v;
        char name[GEN_NAME_MAX] = "";
        struct kernel *const k = &plan->anywhere;
        if (tune_anywhere(plan->device, &target, &v, &err) == 0 && tune_compile(plan->device, &v, k, NULL, &err) == 0 &&
            (!k->functions->prepare || k->functions->prepare(k, &plan->rules, &err) == 0))
            variant_encode(&v, name);
        else
            kernel_free(k);
        if (name[0])
            context_log(plan->context, ATTN_LOG_WARNING, "%s executes the runs that %s refuses: %s", name, plan->name, why);
        else
            context_log(plan->context, ATTN_LOG_WARNING, "no other kernel executes the runs that this one refuses: %s", err.text);
        plan->looked = true;
    }
    pthread_mutex_unlock(&plan->lock);
    return plan->anywhere.functions ? &plan->anywhere : NULL;
}

attn_status attn_plan_describe(const struct attn_plan *plan, struct attn_plan_info *out, struct attn_error *err)
{
    if (!plan || !out)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", plan ? "out" : "plan");
    size_t size = out->size;
    attn_status status = status_check_size(&status_plan_info, size, err);
    if (status != ATTN_OK)
        return status;
    struct attn_plan_info info = {
        .size = size,
        .variant = plan->name,
        .compiler = plan->device->compiler,
        .device = plan->device->name,
        .cached = plan->cached,
        .threads = plan->problem.threads,
        .compile_ms = plan->kernel.compile_ms,
    };
    if (plan->device->backend->inform)
        plan->device->backend->inform(plan->device, &info);
    memset(out, 0, size); /* zeros for what a newer header knows and this library does not */
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
    return ATTN_OK;
}
