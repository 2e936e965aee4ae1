/* bench_gpu.c - times kernels on an OpenCL device as its peers are timed: launches side by side on one queue, by the
 * device's clock. Alone it says what there is to compare; bench_gpu.py drives it with a line for each question:
 *     time VARIANT B,Hq,Hkv,Sq,Skv BATCHES LAUNCHES    milliseconds a launch, of each batch of launches
 *     wall VARIANT B,Hq,Hkv,Sq,Skv BATCHES LAUNCHES    the same by the host's clock, from the first one to the end of the last
 *     read BYTES BATCHES LAUNCHES                      the same of a kernel that reads so much memory, and nothing else
 *     check VARIANT B,Hq,Hkv,Sq,Skv ROWS SEED          error and bound over so many rows, of outputs that were poisoned
 *     tune DTYPE D,DV CAUSAL B,Hq,Hkv,Sq,Skv SECONDS   the fastest variant there, as a plan would find it
 *     names DTYPE D,DV CAUSAL                          all that tuning would try and the rules allow
 *     draw CSV SVG DENSE                               bench_gpu.py's table, beside a dense product's TFLOP/s
 * Each answer is one line of JSON. What it is not: the comparison itself. */
#define _GNU_SOURCE /* strtok_r */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/space.h"
#include "runtime/opencl/variants.h"
#include "runtime/judge/draw.h"
#include "runtime/opencl/internal.h"
#include "runtime/judge/check.h"
#include "runtime/system/timer.h"
#include "runtime/tune/tune.h"
#include "runtime/judge/workload.h"
#include "gpu.h"
#include "gpu_plot.h"

enum { BATCHES_MAX = 512, SPACE_MAX = 4096, KERNELS = 8, DRAWN = 1 << 25 };

struct question {
    struct variant v;
    struct workload_shape shape;
};

struct worker {
    struct gpu gpu;
    struct built {
        struct kernel kernel;
        char name[GEN_NAME_MAX];
    } built[KERNELS], *now; /* the last few kernels, so that alternating between some of them builds nothing anew */
    int next;
    cl_command_queue queue, plain; /* the second takes no times, since taking them costs some between two launches */
    cl_program reader;
    cl_mem memory[4]; /* q, k, v, o */
    size_t size[4];
    struct gen_error err;
};

static void say_error(const char *text)
{
    printf("{\"error\": \"");
    for (const char *c = text; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            putchar(' ');
        else
            putchar(*c);
    printf("\"}\n");
}

static int build(struct worker *w, const struct variant *v)
{
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    for (int i = 0; i < KERNELS; i++)
        if (strcmp(name, w->built[i].name) == 0) {
            w->now = &w->built[i];
            return 0;
        }
    struct built *b = &w->built[w->next];
    kernel_free(&b->kernel);
    b->name[0] = 0;
    if (tune_compile(&w->gpu.target->base, v, &b->kernel, NULL, &w->err) != 0)
        return -1;
    memcpy(b->name, name, sizeof name);
    w->next = (w->next + 1) % KERNELS;
    w->now = b;
    return 0;
}

/* Random data, made once, as much as is asked for; beyond DRAWN elements it repeats. */
static int need_memory(struct worker *w, int which, enum dtype type, size_t elements)
{
    const struct opencl_api *api = &w->gpu.cl->api;
    const size_t bytes = elements * dtype_size(type);
    cl_int code;
    if (w->size[which] >= bytes)
        return 0;
    if (w->memory[which])
        api->clReleaseMemObject(w->memory[which]);
    w->memory[which] = NULL;
    void *data = malloc(bytes);
    if (!data)
        return -1;
    const size_t drawn = elements < DRAWN ? elements : DRAWN, size = drawn * dtype_size(type);
    fill_normal(data, type, drawn, (uint64_t)which + 1);
    for (size_t at = size; at < bytes; at += size)
        memcpy((char *)data + at, data, bytes - at < size ? bytes - at : size);
    w->memory[which] =
        api->clCreateBuffer(w->gpu.target->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, &code);
    free(data);
    w->size[which] = code == CL_SUCCESS ? bytes : 0;
    return opencl_failed(code, "clCreateBuffer", &w->err);
}

/* Contiguous bhsd; a window and a softcap are the tuner's. */
static struct attn_args args_of(const struct question *q, struct attn_features *f)
{
    const struct workload_shape *s = &q->shape;
    const int64_t d = variant_head_dim(&q->v), dv = variant_head_dim_v(&q->v);
    *f = (struct attn_features){.softcap = 50};
    draw_window(&q->v, f->window);
    return (struct attn_args){.size = sizeof(struct attn_args),
                              .batch = s->batch,
                              .heads = s->heads,
                              .kv_heads = s->kv_heads,
                              .q_len = s->q_len,
                              .kv_len = s->kv_len,
                              .q_stride = {s->heads * s->q_len * d, s->q_len * d, d},
                              .k_stride = {s->kv_heads * s->kv_len * d, s->kv_len * d, d},
                              .v_stride = {s->kv_heads * s->kv_len * dv, s->kv_len * dv, dv},
                              .o_stride = {s->heads * s->q_len * dv, s->q_len * dv, dv},
                              .bottom_right = 1,
                              .scale = 1 / __builtin_sqrtf((float)d),
                              .parts = 1,
                              .features = f};
}

static double event_ms(struct worker *w, cl_event first, cl_event last)
{
    cl_ulong start = 0, end = 0;
    w->gpu.cl->api.clWaitForEvents(1, &last);
    w->gpu.cl->api.clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    w->gpu.cl->api.clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    return (double)(end - start) * 1e-6;
}

/* Milliseconds of so many launches by the host's clock; negative when one is refused. */
static double wall_batch(struct worker *w, const struct attn_args *args, int launches)
{
    const struct opencl_on on = {
        .queue = w->plain, .buffer = {w->memory[0], w->memory[1], w->memory[2], w->memory[3]}};
    w->gpu.cl->api.clFinish(w->plain);
    const double start = timer_now();
    for (int i = 0; i < launches; i++)
        if (opencl_enqueue(opencl_kernel_of(&w->now->kernel), args, &on, &w->err) != 0)
            return -1;
    w->gpu.cl->api.clFinish(w->plain);
    return (timer_now() - start) * 1e3;
}

/* Milliseconds of so many launches, from the first's start to the last's end; negative when one is refused. */
static double time_batch(struct worker *w, const struct attn_args *args, int launches)
{
    cl_event first = NULL, last = NULL;
    for (int i = 0; i < launches; i++) {
        cl_event *event = i == 0 ? &first : i == launches - 1 ? &last : NULL;
        const struct opencl_on on = {.queue = w->queue,
                                     .buffer = {w->memory[0], w->memory[1], w->memory[2], w->memory[3]},
                                     .event = (void **)event};
        if (opencl_enqueue(opencl_kernel_of(&w->now->kernel), args, &on, &w->err) != 0)
            return -1;
    }
    double ms = event_ms(w, first, last ? last : first);
    w->gpu.cl->api.clReleaseEvent(first);
    if (last)
        w->gpu.cl->api.clReleaseEvent(last);
    return ms;
}

static int answer_time(struct worker *w, const struct question *q, bool wall, int batches, int launches)
{
    struct attn_features features;
    const struct attn_args args = args_of(q, &features);
    const enum dtype type = (enum dtype)q->v.field[F_DTYPE];
    const int64_t rows[4] = {args.heads * args.q_len, args.kv_heads * args.kv_len, args.kv_heads * args.kv_len,
                             args.heads * args.q_len};
    double ms[BATCHES_MAX];
    batches = batches < 1 ? 1 : batches > BATCHES_MAX ? BATCHES_MAX : batches;
    if (build(w, &q->v) != 0)
        return -1;
    for (int i = 0; i < 4; i++)
        if (need_memory(w, i, i == 3 ? variant_dtype_o(&q->v) : type,
                        (size_t)(args.batch * rows[i] * (i < 2 ? variant_head_dim(&q->v) : variant_head_dim_v(&q->v)))))
            return -1;
    if (time_batch(w, &args, 2) < 0)
        return -1;
    for (int i = 0; i < batches; i++)
        if ((ms[i] = (wall ? wall_batch : time_batch)(w, &args, launches) / launches) < 0)
            return -1;
    const struct opencl_build *b = opencl_kernel_build(opencl_kernel_of(&w->now->kernel));
    printf("{\"variant\": \"%s\", \"flops\": %.6g, \"registers\": %d, \"spills\": %lld, \"serialised\": %d, \"ms\": [",
           w->now->name, attention_flops(&q->v, &args), b->registers, (long long)b->spill_bytes, b->serialised);
    for (int i = 0; i < batches; i++)
        printf("%s%.6g", i ? ", " : "", ms[i]);
    printf("]}\n");
    return 0;
}

static const char reader[] =
    "__kernel void reads(__global const uint4 *from, ulong count, __global uint *to)\n"
    "{\n"
    "    uint4 x = 0;\n"
    "    const ulong step = get_global_size(0);\n"
    "    for (ulong i = get_global_id(0); i + 7 * step < count; i += 8 * step)\n"
    "        x ^= from[i] ^ from[i + step] ^ from[i + 2 * step] ^ from[i + 3 * step] ^ from[i + 4 * step] ^\n"
    "            from[i + 5 * step] ^ from[i + 6 * step] ^ from[i + 7 * step];\n"
    "    if ((x.x & x.y & x.z & x.w) == 0x12345678)\n"
    "        to[0] = x.x;\n"
    "}\n";

/* The kernel, and its buffers. */
static int need_reader(struct worker *w, size_t bytes, cl_kernel *out)
{
    const struct gpu_source source = {.name = "reads", .text = reader, .size = sizeof reader - 1};
    const struct opencl_api *api = &w->gpu.cl->api;
    const cl_ulong count = bytes / 16;
    cl_int code;
    if (!w->reader && !(w->reader = opencl_build_program(w->gpu.target, &source, &w->err)))
        return -1;
    if (need_memory(w, 1, DTYPE_BF16, bytes / 2) != 0 || need_memory(w, 3, DTYPE_BF16, 64) != 0)
        return -1;
    *out = api->clCreateKernel(w->reader, "reads", &code);
    if (opencl_failed(code, "clCreateKernel", &w->err) != 0)
        return -1;
    api->clSetKernelArg(*out, 0, sizeof w->memory[1], &w->memory[1]);
    api->clSetKernelArg(*out, 1, sizeof count, &count);
    return opencl_failed(api->clSetKernelArg(*out, 2, sizeof w->memory[3], &w->memory[3]), "clSetKernelArg", &w->err);
}

static int answer_read(struct worker *w, size_t bytes, int batches, int launches)
{
    enum { ITEMS = 512, GROUPS = 4 }; /* of a unit */
    const size_t local = ITEMS, global = (size_t)w->gpu.target->device.units * GROUPS * ITEMS;
    const struct opencl_api *api = &w->gpu.cl->api;
    cl_kernel kernel = NULL;
    if (need_reader(w, bytes, &kernel) != 0)
        return -1;
    printf("{\"ms\": [");
    for (int b = -1; b < batches; b++) { /* the first one warms up */
        api->clFinish(w->plain);
        const double start = timer_now();
        for (int i = 0; i < launches; i++)
            api->clEnqueueNDRangeKernel(w->plain, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
        api->clFinish(w->plain);
        if (b >= 0)
            printf("%s%.6g", b ? ", " : "", (timer_now() - start) * 1e3 / launches);
    }
    printf("]}\n");
    api->clReleaseKernel(kernel);
    return 0;
}

static int answer_check(struct worker *w, const struct question *q, int rows, uint64_t seed)
{
    struct workload work;
    struct check check = {0};
    if (build(w, &q->v) != 0)
        return -1;
    if (workload_create(&q->v, &q->shape, seed, &work) != 0) {
        snprintf(w->err.text, sizeof w->err.text, "out of memory");
        return -1;
    }
    int wrong = workload_check(&work, &w->now->kernel, NULL, 1, rows, &check, &w->err);
    workload_free(&work);
    if (wrong)
        return -1;
    printf("{\"variant\": \"%s\", \"error\": null, \"deviation\": %.3g, \"bound\": %.3g}\n", w->now->name, check.error,
           check.bound);
    return 0;
}

static int answer_tune(struct worker *w, const struct question *q, double seconds)
{
    struct tune_target target = {.caller = q->v,
                                 .heads = (int)q->shape.heads,
                                 .kv_heads = (int)q->shape.kv_heads,
                                 .batch = q->shape.batch,
                                 .q_len = q->shape.q_len,
                                 .kv_len = q->shape.kv_len,
                                 .threads = tune_threads(&w->gpu.target->base, 0)};
    const struct tune_settings settings = {.rigor = seconds > 0 ? ATTN_MEASURE : ATTN_ESTIMATE, .time_limit = seconds};
    struct tune_result result = {0};
    char name[GEN_NAME_MAX];
    tune_bucket(&target);
    if (tune(&w->gpu.target->base, &target, &settings, &result, &w->err) != 0)
        return -1;
    variant_encode(&result.winner, name);
    tune_result_free(&result);
    printf("{\"variant\": \"%s\"}\n", name);
    return 0;
}

static int answer_names(struct worker *w, const struct question *q)
{
    static struct variant all[SPACE_MAX];
    int n = tuning_space(&q->v, ISA_SM90, all, SPACE_MAX), said = 0;
    printf("{\"names\": [");
    for (int i = 0; i < n && i < SPACE_MAX; i++) {
        char name[GEN_NAME_MAX];
        if (gen_check(w->gpu.gen, &all[i], &w->err) != 0)
            continue;
        variant_encode(&all[i], name);
        printf("%s\"%s\"", said++ ? ", " : "", name);
    }
    printf("]}\n");
    return 0;
}

static bool read_shape(const char *text, struct workload_shape *s)
{
    long long n[5];
    if (!text || sscanf(text, "%lld,%lld,%lld,%lld,%lld", &n[0], &n[1], &n[2], &n[3], &n[4]) != 5)
        return false;
    *s = (struct workload_shape){.batch = n[0], .heads = n[1], .kv_heads = n[2], .q_len = n[3], .kv_len = n[4]};
    return true;
}

/* DTYPE D,DV CAUSAL */
static bool read_problem(char *const word[], struct variant *v)
{
    int d, dv;
    *v = variant_default(ISA_C);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (word[0] && strcmp(field_value_name(F_DTYPE, t), word[0]) == 0)
            v->field[F_DTYPE] = t;
    if (!word[1] || !word[2] || sscanf(word[1], "%d,%d", &d, &dv) != 2)
        return false;
    v->field[F_HEAD_DIM] = d;
    v->field[F_HEAD_DIM_V] = d == dv ? 0 : dv;
    v->field[F_CAUSAL] = atoi(word[2]);
    return true;
}

static int refuse(struct worker *w, const char *line)
{
    snprintf(w->err.text, sizeof w->err.text,
             "'%.60s'; expected time, wall, read, check, tune, names or draw as bench_gpu.c has them", line);
    return -1;
}

static int answer(struct worker *w, char *line)
{
    enum { WORDS = 8 };
    char *word[WORDS + 1] = {NULL}, *rest = NULL;
    struct question q;
    int n = 0;
    for (char *c = strtok_r(line, " \n", &rest); c && n < WORDS; c = strtok_r(NULL, " \n", &rest))
        word[n++] = c;
    if (n >= 4 && !strcmp(word[0], "names") && read_problem(word + 1, &q.v))
        return answer_names(w, &q);
    if (n >= 6 && !strcmp(word[0], "tune") && read_problem(word + 1, &q.v) && read_shape(word[4], &q.shape))
        return answer_tune(w, &q, atof(word[5]));
    if (n >= 4 && !strcmp(word[0], "read"))
        return answer_read(w, (size_t)atoll(word[1]), atoi(word[2]), atoi(word[3]));
    if (n == 4 && !strcmp(word[0], "draw")) {
        if (gpu_plot(word[1], word[2], opencl_target_device(w->gpu.target)->name, atof(word[3]), &w->err) != 0)
            return -1;
        printf("{\"drawn\": true}\n");
        return 0;
    }
    if (n < 5 || !read_shape(word[2], &q.shape))
        return refuse(w, line);
    if (variant_decode(word[1], &q.v, &w->err) != 0)
        return -1;
    if (!strcmp(word[0], "time") || !strcmp(word[0], "wall"))
        return answer_time(w, &q, !strcmp(word[0], "wall"), atoi(word[3]), atoi(word[4]));
    return !strcmp(word[0], "check") ? answer_check(w, &q, atoi(word[3]), strtoull(word[4], NULL, 10)) : refuse(w, line);
}

static int open_worker(struct worker *w)
{
    cl_int code;
    if (gpu_open(&w->gpu, &w->err) != 0)
        return -1;
    w->queue = w->gpu.cl->api.clCreateCommandQueue(w->gpu.target->context, w->gpu.target->device.id,
                                               CL_QUEUE_PROFILING_ENABLE, &code);
    if (code == CL_SUCCESS)
        w->plain = w->gpu.cl->api.clCreateCommandQueue(w->gpu.target->context, w->gpu.target->device.id, 0, &code);
    return opencl_failed(code, "clCreateCommandQueue", &w->err);
}

int main(int argc, char **argv)
{
    static struct worker w;
    char line[1024];
    bool asked = argc > 1 && !strcmp(argv[1], "-");
    if (open_worker(&w) != 0) {
        printf("# no device to time kernels on: %s\n", w.err.text);
        return asked;
    }
    const struct opencl_device *d = opencl_target_device(w.gpu.target);
    printf("{\"device\": \"%s\", \"driver\": \"%s\", \"capability\": %d, \"units\": %d}\n", d->name, d->driver,
           d->capability, d->units);
    fflush(stdout);
    while (asked && fgets(line, sizeof line, stdin)) {
        w.err.text[0] = 0;
        if (answer(&w, line) != 0)
            say_error(w.err.text);
        fflush(stdout);
    }
    return 0;
}
