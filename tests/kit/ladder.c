/* ladder.c - see ladder.h. */
#include "ladder.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/opencl/variants.h"
#include "runtime/opencl/internal.h"
#include "runtime/judge/workload.h"

/* ---- the list ---- */

/* The field up to the next separator, without the blanks around it; *at moves behind. False when it is empty or long. */
static bool take(char **at, char separator, char *out, size_t room)
{
    char *from = *at + strspn(*at, " \t"), *end = strchr(from, separator);
    size_t size = end ? (size_t)(end - from) : strlen(from);
    *at = from + size + (end != NULL);
    while (size && isspace((unsigned char)from[size - 1]))
        size--;
    snprintf(out, room, "%.*s", (int)size, from);
    return size > 0 && size < room;
}

static bool read_rung(char *line, struct rung *out)
{
    static const char source[] = "source:";
    char names[RUNG_KERNELS * GEN_NAME_MAX], *at = line, *name = names;
    *out = (struct rung){.aside = line[0] == '~'};
    at += out->aside;
    if (!take(&at, '|', out->title, sizeof out->title) || !take(&at, '|', names, sizeof names) ||
        !take(&at, '\n', out->adds, sizeof out->adds))
        return false;
    out->source = !strncmp(names, source, sizeof source - 1);
    name += out->source ? sizeof source - 1 : 0;
    while (*name && out->kernels < RUNG_KERNELS)
        if (!take(&name, '+', out->name[out->kernels++], GEN_NAME_MAX))
            return false;
    return !*name && (out->kernels == 1 || out->kernels == RUNG_KERNELS);
}

int ladder_read(const char *path, struct rung out[LADDER_RUNGS], struct gen_error *err)
{
    char line[1024];
    int n = 0, number = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        snprintf(err->text, sizeof err->text, "%s: error: cannot be read; expected the list of rungs", path);
        return -1;
    }
    while (fgets(line, sizeof line, f)) {
        number++;
        if (line[0] == '#' || !line[strspn(line, " \t\r\n")])
            continue;
        if (n == LADDER_RUNGS || !read_rung(line, &out[n])) {
            snprintf(
                err->text, sizeof err->text,
                "%s:%d: error: no rung; expected `title | kernel, or three with + between | what it adds`, at most "
                "%d of them",
                path, number, LADDER_RUNGS);
            n = -1;
            break;
        }
        n++;
    }
    fclose(f);
    return n;
}

/* ---- the device and its data ---- */
enum { Q, K, V, O, S, P, TENSORS }; /* S and P: scores and probabilities, where they are in memory */

struct ladder {
    struct ladder_problem problem;
    struct gen *gen;
    struct opencl *cl;
    struct opencl_target *target;
    struct cache *cache;
    cl_command_queue queue;
    cl_mem buffer[TENSORS];
    size_t size[TENSORS];
    void *host[TENSORS]; /* of S and P none */
    enum dtype type;     /* of what is in Q, K and V now */
};

const struct opencl_device *ladder_device(const struct ladder *l)
{
    return opencl_target_device(l->target);
}

static struct attn_args args_of(const struct ladder_problem *p)
{
    const int64_t d = p->head_dim, head = p->length * d;
    return (struct attn_args){.size = sizeof(struct attn_args),
                              .batch = p->batch,
                              .heads = p->heads,
                              .kv_heads = p->heads,
                              .q_len = p->length,
                              .kv_len = p->length,
                              .q_stride = {p->heads * head, head, d},
                              .k_stride = {p->heads * head, head, d},
                              .v_stride = {p->heads * head, head, d},
                              .o_stride = {p->heads * head, head, d},
                              .bottom_right = 1,
                              .scale = 1 / sqrtf((float)d),
                              .parts = 1};
}

double ladder_flops(const struct ladder *l)
{
    const struct ladder_problem *p = &l->problem;
    struct variant v = variant_default(ISA_PORTABLE);
    const struct attn_args args = args_of(p);
    v.field[F_HEAD_DIM] = p->head_dim;
    v.field[F_CAUSAL] = p->causal;
    return attention_flops(&v, &args);
}

int ladder_open(const struct ladder_problem *problem, struct cache *cache, struct ladder **out, struct gen_error *err)
{
    struct ladder *l = calloc(1, sizeof *l);
    cl_int code = CL_SUCCESS;
    *out = NULL;
    if (!l)
        return -1;
    l->problem = *problem;
    int index = gen_open(&l->gen, err) == 0 && opencl_open(&l->cl, err) == 0 ? opencl_find(l->cl, "opencl", err) : -1;
    l->cache = cache;
    if (index < 0 || opencl_own(l->cl, index, &l->target, err) != 0)
        goto fail;
    l->queue = l->cl->api.clCreateCommandQueue(l->target->context, l->target->device.id,
                                               CL_QUEUE_PROFILING_ENABLE, &code);
    if (opencl_failed(code, "clCreateCommandQueue", err) != 0) {
        l->queue = NULL;
        goto fail;
    }
    *out = l;
    return 0;
fail:
    ladder_close(l);
    return -1;
}

void ladder_close(struct ladder *l)
{
    if (!l)
        return;
    for (int i = 0; i < TENSORS; i++) {
        if (l->buffer[i])
            l->cl->api.clReleaseMemObject(l->buffer[i]);
        free(l->host[i]);
    }
    if (l->queue)
        l->cl->api.clReleaseCommandQueue(l->queue);
    opencl_close(l->cl);
    gen_close(l->gen);
    free(l);
}

/* A buffer of so many bytes, with what host holds of them, if that is there. */
static int need(struct ladder *l, int which, size_t bytes, struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    if (l->buffer[which] && l->size[which] >= bytes)
        return 0;
    if (l->buffer[which])
        l->cl->api.clReleaseMemObject(l->buffer[which]);
    const bool filled = l->host[which] && which != O;
    l->buffer[which] =
        l->cl->api.clCreateBuffer(l->target->context, CL_MEM_READ_WRITE | (filled ? CL_MEM_COPY_HOST_PTR : 0),
                                  bytes, filled ? l->host[which] : NULL, &code);
    l->size[which] = bytes;
    if (code != CL_SUCCESS)
        l->buffer[which] = NULL;
    return opencl_failed(code, "clCreateBuffer", err);
}

/* Q, K and V of that type, random; room for O. */
static int need_tensors(struct ladder *l, enum dtype type, struct gen_error *err)
{
    const struct ladder_problem *p = &l->problem;
    const size_t elements = (size_t)(p->batch * p->heads * p->length * p->head_dim),
                 bytes = elements * dtype_size(type);
    if (l->host[O] && l->type == type)
        return 0;
    for (int i = Q; i <= O; i++) {
        free(l->host[i]);
        if (l->buffer[i])
            l->cl->api.clReleaseMemObject(l->buffer[i]);
        l->buffer[i] = NULL;
        l->host[i] = malloc(bytes);
        if (!l->host[i]) {
            snprintf(err->text, sizeof err->text, "out of memory");
            return -1;
        }
        if (i != O)
            fill_normal(l->host[i], type, elements, (uint64_t)i + 1);
        if (need(l, i, bytes, err) != 0)
            return -1;
    }
    l->type = type;
    return 0;
}

/* ---- a rung on the device ---- */
struct climb {
    struct ladder *ladder;
    struct variant v[RUNG_KERNELS];
    struct kernel kernel[RUNG_KERNELS];
    int kernels;
    size_t bytes[2]; /* of S and P */
};

/* The variant for the problem: what is not said by the rung's name. */
static void adapt(struct variant *v, const struct ladder_problem *p)
{
    if (v->field[F_OP] == OP_ATTN)
        v->field[F_HEAD_DIM] = p->head_dim;
    if (field_of_op(F_CAUSAL, (enum operation)v->field[F_OP]))
        v->field[F_CAUSAL] = p->causal;
}

/* Whether each kernel takes what the one before it leaves, and all tensors have one type. */
static bool fit_together(const struct climb *c)
{
    const struct variant *v = c->v;
    const enum dtype type = (enum dtype)v[0].field[F_DTYPE];
    if (c->kernels == 1)
        return v[0].field[F_OP] == OP_ATTN && variant_dtype_kv(v) == type && variant_dtype_o(v) == type;
    return v[0].field[F_OP] == OP_MATMUL && v[0].field[F_TRANSPOSED] && v[1].field[F_OP] == OP_SOFTMAX &&
           v[2].field[F_OP] == OP_MATMUL && !v[2].field[F_TRANSPOSED] && variant_dtype_kv(&v[0]) == type &&
           variant_dtype_o(&v[0]) == (enum dtype)v[1].field[F_DTYPE] &&
           variant_dtype_o(&v[1]) == (enum dtype)v[2].field[F_DTYPE] && variant_dtype_kv(&v[2]) == type &&
           variant_dtype_o(&v[2]) == type;
}

/* Builds it as the driver takes it. err has what the driver says, as much as there is room for. */
static enum rung_state build_source(struct ladder *l, const struct gen_text *text, struct gen_error *err)
{
    const struct opencl_api *api = &l->cl->api;
    const char *data = text->data;
    cl_device_id id = l->target->device.id;
    size_t size = 0;
    cl_int code;
    cl_program program = api->clCreateProgramWithSource(l->target->context, 1, &data, &text->size, &code);
    if (opencl_failed(code, "clCreateProgramWithSource", err) != 0)
        return RUNG_FAILED;
    code = api->clBuildProgram(program, 1, &id, OPENCL_OPTIONS, NULL, NULL);
    api->clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log)
        api->clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    api->clReleaseProgram(program);
    snprintf(err->text, sizeof err->text, "%.600s",
             code == CL_SUCCESS ? "it builds; expected a refusal"
             : log              ? log
                                : "");
    free(log);
    return RUNG_FAILED;
}

static enum rung_state build_one(struct climb *c, int i, bool source, struct gen_error *err)
{
    struct ladder *l = c->ladder;
    struct gen_text text;
    const char *why = opencl_isa_why_not(ladder_device(l), (enum isa)c->v[i].field[F_ISA]);
    if (why) {
        snprintf(err->text, sizeof err->text, "isa %s %s", field_value_name(F_ISA, c->v[i].field[F_ISA]), why);
        return RUNG_ELSEWHERE;
    }
    if (gen_emit(l->gen, &c->v[i], GEN_READABLE, &text, err) != 0)
        return RUNG_FAILED;
    enum rung_state state = RUNG_BUILT;
    if (opencl_variant_fits(l->target, &c->v[i], &text, err) != 0)
        state = RUNG_ELSEWHERE;
    else if (source)
        state = build_source(l, &text, err);
    else if (opencl_variant_build(l->target, l->cache, &c->v[i], &text, &c->kernel[i], err) != 0)
        state = RUNG_FAILED;
    else
        opencl_keep(opencl_kernel_of(&c->kernel[i]), l->cache);
    gen_text_free(&text);
    return state;
}

enum rung_state climb_create(struct ladder *l, const struct rung *rung, struct climb **out, char why[640])
{
    struct climb *c = calloc(1, sizeof *c);
    struct gen_error err = {.text = "out of memory"};
    enum rung_state state = c ? RUNG_BUILT : RUNG_FAILED;
    const struct ladder_problem *p = &l->problem;
    *out = NULL;
    why[0] = 0;
    for (int i = 0; state == RUNG_BUILT && i < rung->kernels; i++) {
        c->ladder = l;
        c->kernels = rung->kernels;
        if (variant_decode(rung->name[i], &c->v[i], &err) != 0)
            state = RUNG_FAILED;
        adapt(&c->v[i], p);
    }
    if (state == RUNG_BUILT && !fit_together(c)) {
        snprintf(
            err.text, sizeof err.text,
            "kernels do not go together; expected attn of one element type, or a product (transposed), a softmax and "
            "a product, each of the type that the one before it writes");
        state = RUNG_FAILED;
    }
    for (int i = 0; state == RUNG_BUILT && i < rung->kernels; i++)
        state = build_one(c, i, rung->source, &err);
    if (state == RUNG_BUILT) {
        const size_t scores = (size_t)(p->batch * p->heads * p->length * p->length);
        c->bytes[0] = scores * dtype_size(variant_dtype_o(&c->v[0]));
        c->bytes[1] = scores * dtype_size(variant_dtype_o(&c->v[1]));
        *out = c;
        return state;
    }
    snprintf(why, 640, "%s", err.text);
    climb_free(c);
    return state;
}

void climb_free(struct climb *c)
{
    for (int i = 0; c && i < c->kernels; i++)
        kernel_free(&c->kernel[i]);
    free(c);
}

struct opencl_build climb_build(const struct climb *c)
{
    struct opencl_build most = {.registers = 0};
    for (int i = 0; i < c->kernels; i++) {
        const struct opencl_build *b = opencl_kernel_build(opencl_kernel_of(&c->kernel[i]));
        most.registers = b->registers > most.registers ? b->registers : most.registers;
        most.spill_bytes += b->spill_bytes;
        most.serialised |= b->serialised;
        most.ms += b->ms;
    }
    return most;
}

static int prepare(struct climb *c, struct gen_error *err)
{
    struct ladder *l = c->ladder;
    if (need_tensors(l, (enum dtype)c->v[0].field[F_DTYPE], err) != 0)
        return -1;
    if (c->kernels == 1)
        return 0;
    return need(l, S, c->bytes[0], err) || need(l, P, c->bytes[1], err) ? -1 : 0;
}

/* The structs of the three steps, contiguous as the tensors are. */
static void steps_of(const struct ladder_problem *p, struct step_args out[RUNG_KERNELS])
{
    const struct attn_args a = args_of(p);
    const long n = p->length, score[3] = {p->heads * n * n, n * n, n};
    for (int i = 0; i < RUNG_KERNELS; i++)
        out[i] = (struct step_args){.product = {.batch = p->batch,
                                                  .heads = p->heads,
                                                  .b_heads = p->heads,
                                                  .m = n,
                                                  .n = n,
                                                  .k = p->head_dim,
                                                  .scale = a.scale},
                                      .softmax = {.batch = p->batch, .heads = p->heads, .rows = n, .keys = n}};
    out[2].product.n = p->head_dim;
    out[2].product.k = n;
    out[2].product.scale = 1;
    for (int i = 0; i < 3; i++) {
        out[0].product.a_stride[i] = a.q_stride[i];
        out[0].product.b_stride[i] = a.k_stride[i];
        out[0].product.c_stride[i] = score[i];
        out[1].softmax.s_stride[i] = score[i];
        out[1].softmax.p_stride[i] = score[i];
        out[2].product.a_stride[i] = score[i];
        out[2].product.b_stride[i] = a.v_stride[i];
        out[2].product.c_stride[i] = a.o_stride[i];
    }
}

/* Enqueues one launch; the events are of its first kernel and its last, or NULL. */
static int launch(struct climb *c, cl_event *first, cl_event *last, struct gen_error *err)
{
    struct ladder *l = c->ladder;
    if (c->kernels == 1) {
        const struct attn_args args = args_of(&l->problem);
        cl_event *event = first ? first : last;
        const struct opencl_on on = {.queue = l->queue,
                                     .buffer = {l->buffer[Q], l->buffer[K], l->buffer[V], l->buffer[O]},
                                     .event = (void **)event};
        int result = opencl_enqueue(opencl_kernel_of(&c->kernel[0]), &args, &on, err);
        if (result == 0 && first && last) {
            *last = *first;
            l->cl->api.clRetainEvent(*last);
        }
        return result;
    }
    struct step_args step[RUNG_KERNELS];
    void *const buffer[RUNG_KERNELS][3] = {{l->buffer[Q], l->buffer[K], l->buffer[S]},
                                           {l->buffer[S], l->buffer[P]},
                                           {l->buffer[P], l->buffer[V], l->buffer[O]}};
    steps_of(&l->problem, step);
    for (int i = 0; i < RUNG_KERNELS; i++) {
        cl_event *event = i == 0 ? first : i == RUNG_KERNELS - 1 ? last : NULL;
        if (opencl_step_enqueue(opencl_kernel_of(&c->kernel[i]), &step[i], l->queue, buffer[i], (void **)event, err) != 0)
            return -1;
    }
    return 0;
}

/* Sets every element to NaN, a piece at a time: scores can be 4 GiB and more, a size that a driver may take for 0. */
static int poison(struct ladder *l, int which, struct gen_error *err)
{
    enum { PIECE = 1 << 28, WORD = 8 };
    const unsigned char nan[WORD] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    cl_int code = CL_SUCCESS;
    for (size_t at = 0, n; at < l->size[which] && code == CL_SUCCESS; at += n) {
        const size_t left = l->size[which] - at;
        n = left >= PIECE ? PIECE : left >= WORD ? left / WORD * WORD : left;
        code = l->cl->api.clEnqueueFillBuffer(l->queue, l->buffer[which], nan, n % WORD ? 1 : WORD, at, n, 0, NULL, NULL);
    }
    return opencl_failed(code, "clEnqueueFillBuffer", err);
}

int climb_check(struct climb *c, int64_t rows, struct check *out, struct gen_error *err)
{
    struct ladder *l = c->ladder;
    struct variant v = variant_default(ISA_PORTABLE);
    struct attn_args args = args_of(&l->problem);
    if (prepare(c, err) != 0 || poison(l, O, err) != 0 ||
        (c->kernels > 1 && (poison(l, S, err) != 0 || poison(l, P, err) != 0)) || launch(c, NULL, NULL, err) != 0 ||
        opencl_failed(
            l->cl->api.clEnqueueReadBuffer(l->queue, l->buffer[O], CL_TRUE, 0, l->size[O], l->host[O], 0, NULL, NULL),
            "clEnqueueReadBuffer", err) != 0)
        return -1;
    v.field[F_DTYPE] = (int32_t)l->type;
    v.field[F_HEAD_DIM] = l->problem.head_dim;
    v.field[F_CAUSAL] = l->problem.causal;
    args.q = l->host[Q];
    args.k = l->host[K];
    args.v = l->host[V];
    args.o = l->host[O];
    if (check_output(&v, &args, rows, 1, out) != 0)
        snprintf(err->text, sizeof err->text, "out of memory");
    else if (!out->pass)
        snprintf(err->text, sizeof err->text, "wrong by %.3g at batch %lld, head %lld, row %lld; expected at most %.3g",
                 out->error, (long long)out->b, (long long)out->h, (long long)out->row, out->bound);
    else
        return 0;
    return -1;
}

int climb_time(struct climb *c, int launches, double *ms, struct gen_error *err)
{
    const struct opencl_api *api = &c->ladder->cl->api;
    cl_event first = NULL, last = NULL;
    cl_ulong start = 0, end = 0;
    int result = prepare(c, err);
    for (int i = 0; i < launches && result == 0; i++)
        result = launch(c, i == 0 ? &first : NULL, i == launches - 1 ? &last : NULL, err);
    if (result == 0) {
        cl_int code = api->clWaitForEvents(1, &last);
        if (code == CL_SUCCESS)
            code = api->clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        if (code == CL_SUCCESS)
            code = api->clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        result = opencl_failed(code, "a timed launch", err);
    }
    api->clFinish(c->ladder->queue);
    if (first)
        api->clReleaseEvent(first);
    if (last)
        api->clReleaseEvent(last);
    *ms = (double)(end - start) * 1e-6 / launches;
    return result;
}
