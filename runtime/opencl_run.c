/* opencl_run.c - a kernel's executions: on host arrays, which are copied to the device and back, and on the caller's
 * own buffers and queue; and its time by the device's clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_api.h"

_Static_assert(sizeof(long) == 8 && sizeof(int) == 4, "struct attn_cl_args is laid out as OpenCL C does");

enum { MOST_GROUPS = 65535 }; /* along the second and third side: NVIDIA's limit */
static const double SAMPLE_NS = 2e6;
enum { SAMPLE_MOST = 256 };

/* ---- what one execution needs for itself ---- */

void opencl_slot_free(const struct opencl_api *api, struct opencl_slot *s)
{
    if (!s)
        return;
    for (int i = 0; i < ROOMS; i++)
        if (s->room[i].memory)
            api->clReleaseMemObject(s->room[i].memory);
    if (s->maps)
        api->clReleaseMemObject(s->maps);
    if (s->busy)
        api->clReleaseEvent(s->busy);
    if (s->queue)
        api->clReleaseCommandQueue(s->queue);
    if (s->kernel)
        api->clReleaseKernel(s->kernel);
    free(s);
}

/* Whether nothing that was enqueued still uses what is in it. */
static bool is_idle(const struct opencl_api *api, struct opencl_slot *s)
{
    cl_int status = CL_COMPLETE;
    if (s->busy && api->clGetEventInfo(s->busy, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) ==
                       CL_SUCCESS && status > CL_COMPLETE)
        return false;
    if (s->busy)
        api->clReleaseEvent(s->busy);
    s->busy = NULL;
    return true;
}

/* One that an earlier execution left, else a new one. */
static struct opencl_slot *take_slot(struct opencl_kernel *k, struct gen_error *err)
{
    cl_int code;
    pthread_mutex_lock(&k->lock);
    struct opencl_slot **at = &k->free_slots;
    while (*at && !is_idle(&k->target->cl->api, *at))
        at = &(*at)->next;
    struct opencl_slot *s = *at;
    if (s)
        *at = s->next;
    pthread_mutex_unlock(&k->lock);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(err->text, sizeof err->text, "out of memory");
        return NULL;
    }
    s->kernel = k->target->cl->api.clCreateKernel(k->program, k->name, &code);
    if (opencl_failed(code, "clCreateKernel", err) == 0)
        return s;
    s->kernel = NULL;
    opencl_slot_free(&k->target->cl->api, s);
    return NULL;
}

static void give_slot(struct opencl_kernel *k, struct opencl_slot *s)
{
    pthread_mutex_lock(&k->lock);
    s->next = k->free_slots;
    k->free_slots = s;
    pthread_mutex_unlock(&k->lock);
}

static int need_queue(const struct opencl_kernel *k, struct opencl_slot *s, struct gen_error *err)
{
    cl_int code;
    if (s->queue)
        return 0;
    s->queue = k->target->cl->api.clCreateCommandQueue(k->target->context, k->target->device.id,
                                                       CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS)
        s->queue = NULL;
    return opencl_failed(code, "clCreateCommandQueue", err);
}

static int need_room(const struct opencl_kernel *k, struct opencl_slot *s, int which, size_t size,
                     struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct opencl_room *room = &s->room[which];
    cl_int code;
    size = size ? size : 64; /* there are no empty buffers */
    if (room->size >= size)
        return 0;
    if (room->memory)
        api->clReleaseMemObject(room->memory);
    *room = (struct opencl_room){0};
    if ((uint64_t)size > (uint64_t)k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text, "a tensor takes %zu bytes; expected at most %lld on %s", size,
                 (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    bool output = which == ROOM_O || which == ROOM_LSE;
    cl_mem memory =
        api->clCreateBuffer(k->target->context, output ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY, size, NULL, &code);
    if (opencl_failed(code, "clCreateBuffer", err) != 0)
        return -1;
    *room = (struct opencl_room){memory, size};
    return 0;
}

/* ---- launching ---- */

static int set_args(const struct opencl_kernel *k, const struct opencl_slot *s, const struct opencl_launch *l,
                    const struct attn_cl_args *args, struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < ROOMS && code == CL_SUCCESS; i++)
        code = k->target->cl->api.clSetKernelArg(s->kernel, i, sizeof l->buffer[i], &l->buffer[i]);
    if (code == CL_SUCCESS)
        code = k->target->cl->api.clSetKernelArg(s->kernel, ROOMS, sizeof *args, args);
    return opencl_failed(code, "clSetKernelArg", err);
}

/* In pieces of as many sequences as a launch may have. The event is the last piece's, which is why the pieces before it
 * need a queue in order, or to be waited for. */
static int launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct opencl_launch *l, cl_event *event,
                  struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const struct opencl_source *src = &k->source;
    const long heads = l->args.heads, tiles = (l->args.q_len + src->tile_q - 1) / src->tile_q;
    cl_event before = NULL;
    if (src->level == OPENCL_SM90)
        return opencl_sm90_launch(k, s, l, event, err);
    if (src->level == OPENCL_SM80 && opencl_sm80_check(k, &l->args, err) != 0)
        return -1;
    if (heads > MOST_GROUPS) {
        snprintf(err->text, sizeof err->text, "there are %ld heads; expected at most %d on a device", heads,
                 MOST_GROUPS);
        return -1;
    }
    for (long b = 0; b < l->args.batch; b += MOST_GROUPS) {
        struct attn_cl_args a = l->args;
        a.batch = l->args.batch - b < MOST_GROUPS ? l->args.batch - b : MOST_GROUPS;
        a.q_at += b * a.q_stride[0];
        a.k_at += b * a.k_stride[0];
        a.v_at += b * a.v_stride[0];
        a.o_at += b * a.o_stride[0];
        a.lse_at += b * heads * a.q_len;
        a.lens_at += b;
        const size_t local[3] = {(size_t)src->group[0], (size_t)src->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)tiles, local[1] * (size_t)heads, (size_t)a.batch};
        bool last = b + MOST_GROUPS >= l->args.batch;
        cl_event done = NULL;
        if (set_args(k, s, l, &a, err) != 0)
            return -1;
        cl_int code = api->clEnqueueNDRangeKernel(l->queue, s->kernel, 3, NULL, global, local, before ? 1 : l->waits,
                                                  before ? &before : l->wait, last ? event : &done);
        if (before)
            api->clReleaseEvent(before);
        before = done;
        if (opencl_failed(code, "clEnqueueNDRangeKernel", err) != 0)
            return -1;
    }
    return 0;
}

static struct attn_cl_args args_of(const struct attn_args *a)
{
    struct attn_cl_args c = {.batch = a->batch,
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .q_len = a->q_len,
                             .kv_len = a->kv_len,
                             .offset = a->offset,
                             .bottom_right = a->bottom_right,
                             .scale = a->scale};
    for (int i = 0; i < 3; i++) {
        c.q_stride[i] = a->q_stride[i];
        c.k_stride[i] = a->k_stride[i];
        c.v_stride[i] = a->v_stride[i];
        c.o_stride[i] = a->o_stride[i];
    }
    return c;
}

/* As a compiled C kernel does. There are no parts on a device: one call is all of the work. */
static int check_args(const struct opencl_kernel *k, const struct attn_args *a, struct gen_error *err)
{
    if (a->size == sizeof *a && (a->parts == 0 || a->parts == 1) && a->part == 0)
        return 0;
    snprintf(err->text, sizeof err->text,
             "%s: error: it refuses its arguments; expected struct attn_args of %zu bytes "
             "and one part",
             k->name, sizeof *a);
    return -1;
}

/* ---- host arrays ---- */

/* Rows of elements in host memory. On the device they have the same strides when no byte lies between them, so that one
 * copy moves all; else they lie packed as [batch, head, row]. */
struct host {
    char *data;
    const int64_t *stride; /* in elements */
    int64_t count[3];
    const int64_t *rows;    /* of each sequence, at most count[2]; or NULL */
    int64_t width, element; /* elements of a row; bytes of one */
    bool dense;
};

static bool is_dense(const struct host *t)
{
    int64_t next = t->width;
    bool seen[3] = {false};
    for (int64_t b = 0; t->rows && b < t->count[0]; b++)
        if (t->rows[b] != t->count[2])
            return false; /* what lies behind a sequence's end is not read */
    for (int found = 0; found < 3;) {
        int i = 0;
        while (i < 3 && (seen[i] || (t->count[i] > 1 && t->stride[i] != next)))
            i++;
        if (i == 3)
            return false;
        seen[i] = true;
        next *= t->count[i];
        found++;
    }
    return true;
}

static struct host host_of(const void *data, const int64_t *stride, int64_t batch, int64_t heads, int64_t rows,
                           int64_t width, int64_t element, const int64_t *lens)
{
    struct host t = {.data = (char *)data,
                     .stride = stride,
                     .count = {batch, heads, rows},
                     .rows = lens,
                     .width = width,
                     .element = element};
    t.dense = is_dense(&t);
    return t;
}

static int host_size(const struct host *t, size_t *out, struct gen_error *err)
{
    int64_t size = t->width * t->element;
    bool over = false;
    for (int i = 0; i < 3; i++)
        over |= __builtin_mul_overflow(size, t->count[i], &size);
    *out = over ? 0 : (size_t)size;
    if (over)
        snprintf(err->text, sizeof err->text, "a tensor takes more than 2^63 bytes");
    return over ? -1 : 0;
}

static void device_strides(const struct host *t, long stride[3])
{
    stride[2] = t->dense ? t->stride[2] : t->width;
    stride[1] = t->dense ? t->stride[1] : t->count[2] * t->width;
    stride[0] = t->dense ? t->stride[0] : t->count[1] * t->count[2] * t->width;
}

/* Between host rows and packed ones, all that there are. */
static void copy_rows(const struct host *t, char *packed, bool to_host)
{
    const int64_t bytes = t->width * t->element;
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++) {
            int64_t rows = t->rows ? t->rows[b] : t->count[2];
            bool together = t->stride[2] == t->width;
            for (int64_t i = 0; i < rows; i += together ? rows : 1) {
                char *host = t->data + (b * t->stride[0] + h * t->stride[1] + i * t->stride[2]) * t->element;
                char *device = packed + ((b * t->count[1] + h) * t->count[2] + i) * bytes;
                memcpy(to_host ? host : device, to_host ? device : host, (size_t)(together ? rows * bytes : bytes));
            }
        }
}

/* Through a mapping, which on a CPU is the buffer itself. */
static int copy_mapped(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                       size_t size, bool to_host, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    char *packed =
        api->clEnqueueMapBuffer(s->queue, s->room[which].memory, CL_TRUE,
                                to_host ? CL_MAP_READ : CL_MAP_WRITE_INVALIDATE_REGION, 0, size, 0, NULL, NULL, &code);
    if (opencl_failed(code, "clEnqueueMapBuffer", err) != 0)
        return -1;
    copy_rows(t, packed, to_host);
    return opencl_failed(api->clEnqueueUnmapMemObject(s->queue, s->room[which].memory, packed, 0, NULL, NULL),
                         "clEnqueueUnmapMemObject", err);
}

/* Makes room and, unless it is an output, copies there. */
static int upload(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                  struct gen_error *err)
{
    size_t size;
    if (host_size(t, &size, err) != 0 || need_room(k, s, which, size, err) != 0)
        return -1;
    if (size == 0 || which == ROOM_O || which == ROOM_LSE)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, false, err);
    return opencl_failed(k->target->cl->api.clEnqueueWriteBuffer(s->queue, s->room[which].memory, CL_FALSE, 0, size,
                                                                 t->data, 0, NULL, NULL),
                         "clEnqueueWriteBuffer", err);
}

static int download(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                    struct gen_error *err)
{
    size_t size;
    if (host_size(t, &size, err) != 0)
        return -1;
    if (size == 0)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, true, err);
    return opencl_failed(k->target->cl->api.clEnqueueReadBuffer(s->queue, s->room[which].memory, CL_TRUE, 0, size,
                                                                t->data, 0, NULL, NULL),
                         "clEnqueueReadBuffer", err);
}

/* Everything but the launch: tensors as the host has them, and on the device. */
struct staged {
    struct host q, k, v, o, lse, lens;
    struct opencl_launch launch;
};

static const int64_t vector_stride[3] = {1, 1, 1};

static void hosts_of(const struct opencl_kernel *k, const struct attn_args *a, struct staged *out)
{
    const int64_t dim = k->source.head_dim, dim_v = k->source.head_dim_v, element = k->source.element;
    out->q = host_of(a->q, a->q_stride, a->batch, a->heads, a->q_len, dim, element, NULL);
    out->k = host_of(a->k, a->k_stride, a->batch, a->kv_heads, a->kv_len, dim, element, a->kv_lens);
    out->v = host_of(a->v, a->v_stride, a->batch, a->kv_heads, a->kv_len, dim_v, element, a->kv_lens);
    out->o = host_of(a->o, a->o_stride, a->batch, a->heads, a->q_len, dim_v, element, NULL);
    out->lse =
        host_of(a->lse, vector_stride, 1, 1, 1, a->lse ? a->batch * a->heads * a->q_len : 0, sizeof(float), NULL);
    out->lens = host_of(a->kv_lens, vector_stride, 1, 1, 1, a->kv_lens ? a->batch : 0, sizeof(int64_t), NULL);
}

static int stage(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_args *a, struct staged *out,
                 struct gen_error *err)
{
    struct attn_cl_args *c = &out->launch.args;
    hosts_of(k, a, out);
    const struct host *const all[ROOMS] = {&out->q, &out->k, &out->v, &out->o, &out->lse, &out->lens};
    if (need_queue(k, s, err) != 0)
        return -1;
    for (int i = 0; i < ROOMS; i++) {
        if (upload(k, s, i, all[i], err) != 0)
            return -1;
        out->launch.buffer[i] = s->room[i].memory;
    }
    *c = args_of(a);
    device_strides(&out->q, c->q_stride);
    device_strides(&out->k, c->k_stride);
    device_strides(&out->v, c->v_stride);
    device_strides(&out->o, c->o_stride);
    c->has_lse = a->lse != NULL;
    c->has_lens = a->kv_lens != NULL;
    out->launch.queue = s->queue;
    return 0;
}

/* A queue that still reads the caller's memory must not outlive a failure. */
static int give_up(struct opencl_kernel *k, struct opencl_slot *s)
{
    if (s->queue)
        k->target->cl->api.clFinish(s->queue);
    opencl_slot_free(&k->target->cl->api, s);
    return -1;
}

int opencl_run(struct opencl_kernel *k, const struct attn_args *args, struct gen_error *err)
{
    struct staged st = {0};
    if (check_args(k, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return 0;
    struct opencl_slot *s = take_slot(k, err);
    if (!s)
        return -1;
    if (stage(k, s, args, &st, err) != 0 || launch(k, s, &st.launch, NULL, err) != 0 ||
        download(k, s, ROOM_O, &st.o, err) != 0 || download(k, s, ROOM_LSE, &st.lse, err) != 0 ||
        opencl_failed(k->target->cl->api.clFinish(s->queue), k->name, err) != 0)
        return give_up(k, s);
    give_slot(k, s);
    return 0;
}

/* ---- in place ---- */

/* A buffer that is the array's own memory. */
static int own_memory(const struct opencl_kernel *k, const struct host *t, bool output, cl_mem *out,
                      struct gen_error *err)
{
    int64_t elements = t->width;
    cl_int code;
    for (int i = 0; i < 3; i++)
        elements += (t->count[i] > 0 ? t->count[i] - 1 : 0) * t->stride[i];
    size_t size = (size_t)(elements * t->element);
    bool empty = size == 0 || t->count[0] == 0 || t->count[1] == 0 || t->count[2] == 0;
    cl_mem_flags flags = (output ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY) | (empty ? 0 : CL_MEM_USE_HOST_PTR);
    *out = k->target->cl->api.clCreateBuffer(k->target->context, flags, empty ? 64 : size, empty ? NULL : t->data, &code);
    if (code != CL_SUCCESS)
        *out = NULL;
    return opencl_failed(code, "clCreateBuffer on host memory", err);
}

/* Drivers may keep what is in host memory elsewhere until it is mapped. */
static int seen_by_host(const struct opencl_kernel *k, cl_command_queue queue, cl_mem memory, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    void *at = api->clEnqueueMapBuffer(queue, memory, CL_TRUE, CL_MAP_READ, 0, 1, 0, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        code = api->clEnqueueUnmapMemObject(queue, memory, at, 0, NULL, NULL);
    return opencl_failed(code, "clEnqueueMapBuffer", err);
}

int opencl_run_in_place(struct opencl_kernel *k, const struct attn_args *args, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct staged st = {0};
    if (check_args(k, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return 0;
    struct opencl_slot *s = take_slot(k, err);
    if (!s)
        return -1;
    const struct host *const all[ROOMS] = {&st.q, &st.k, &st.v, &st.o, &st.lse, &st.lens};
    int result = need_queue(k, s, err);
    hosts_of(k, args, &st);
    for (int i = 0; i < ROOMS && result == 0; i++)
        result = own_memory(k, all[i], i == ROOM_O || i == ROOM_LSE, &st.launch.buffer[i], err);
    st.launch.args = args_of(args);
    st.launch.args.has_lse = args->lse != NULL;
    st.launch.args.has_lens = args->kv_lens != NULL;
    st.launch.queue = s->queue;
    if (result == 0)
        result = launch(k, s, &st.launch, NULL, err);
    if (result == 0)
        result = seen_by_host(k, s->queue, st.launch.buffer[ROOM_O], err);
    if (result == 0)
        result = seen_by_host(k, s->queue, st.launch.buffer[ROOM_LSE], err);
    if (s->queue && api->clFinish(s->queue) != CL_SUCCESS && result == 0)
        result = opencl_failed(CL_OUT_OF_RESOURCES, k->name, err);
    for (int i = 0; i < ROOMS; i++)
        if (st.launch.buffer[i])
            api->clReleaseMemObject(st.launch.buffer[i]);
    if (result != 0)
        return give_up(k, s);
    give_slot(k, s);
    return 0;
}

/* ---- time ---- */

static int event_ns(const struct opencl_api *api, cl_event event, double *out, struct gen_error *err)
{
    cl_ulong start = 0, end = 0;
    cl_int code = api->clWaitForEvents(1, &event);
    if (code == CL_SUCCESS)
        code = api->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    if (code == CL_SUCCESS)
        code = api->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    *out = (double)(end - start);
    return opencl_failed(code, "a timed launch", err);
}

/* The sum over so many launches. */
static int time_launches(const struct opencl_kernel *k, struct opencl_slot *s, const struct opencl_launch *l, int n,
                         double *ns, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_event events[SAMPLE_MOST];
    int made = 0, result = 0;
    double one;
    *ns = 0;
    while (result == 0 && made < n) {
        result = launch(k, s, l, &events[made], err);
        made += result == 0;
    }
    for (int i = 0; i < made; i++) {
        if (result == 0 && (result = event_ns(api, events[i], &one, err)) == 0)
            *ns += one;
        api->clReleaseEvent(events[i]);
    }
    return result;
}

int opencl_time(struct opencl_kernel *k, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    struct staged st = {0};
    double ns = 0;
    *seconds = 0;
    if (check_args(k, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return 0;
    struct opencl_slot *s = take_slot(k, err);
    if (!s)
        return -1;
    if (stage(k, s, args, &st, err) != 0 || time_launches(k, s, &st.launch, 1, &ns, err) != 0)
        return give_up(k, s);
    double fit = ns > 0 ? SAMPLE_NS / ns : SAMPLE_MOST;
    int n = fit < 1 ? 1 : fit > SAMPLE_MOST ? SAMPLE_MOST : (int)fit;
    if (time_launches(k, s, &st.launch, n, &ns, err) != 0)
        return give_up(k, s);
    *seconds = ns / n * 1e-9;
    give_slot(k, s);
    return 0;
}

/* ---- the caller's buffers ---- */

int opencl_check_buffer(const struct opencl_target *t, const char *what, void *buffer, uint64_t end,
                        struct gen_error *err)
{
    size_t size = 0;
    cl_context context = NULL;
    cl_int code = t->cl->api.clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (code == CL_SUCCESS)
        code = t->cl->api.clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (code != CL_SUCCESS)
        snprintf(err->text, sizeof err->text, "%s is no buffer (%d); expected a cl_mem", what, (int)code);
    else if (context != t->context)
        snprintf(err->text, sizeof err->text, "%s is of another context; expected one of the plan's cl_context", what);
    else if (end > size)
        snprintf(err->text, sizeof err->text, "%s has %zu bytes; expected at least %llu, where the tensor ends", what,
                 size, (unsigned long long)end);
    else
        return 0;
    return -1;
}

int opencl_check_queue(const struct opencl_target *t, void *queue, struct gen_error *err)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_int code = t->cl->api.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = t->cl->api.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code != CL_SUCCESS)
        snprintf(err->text, sizeof err->text, "queue is no command queue (%d); expected a cl_command_queue", (int)code);
    else if (context != t->context || device != t->device.id)
        snprintf(err->text, sizeof err->text,
                 "queue is of another %s; expected one of the plan's cl_context and device",
                 context != t->context ? "context" : "device");
    else
        return 0;
    return -1;
}

int opencl_enqueue(struct opencl_kernel *k, const struct attn_args *args, const struct opencl_on *on,
                   struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct opencl_launch l = {.queue = on->queue,
                       .buffer = {on->q, on->k, on->v, on->o, on->lse, on->lens},
                       .args = args_of(args),
                       .waits = (cl_uint)on->waits,
                       .wait = (const cl_event *)on->wait};
    if (check_args(k, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return on->event
                   ? opencl_failed(api->clEnqueueMarkerWithWaitList(l.queue, l.waits, l.wait, (cl_event *)on->event),
                                   "clEnqueueMarkerWithWaitList", err)
                   : 0;
    l.args.q_at = on->q_at;
    l.args.k_at = on->k_at;
    l.args.v_at = on->v_at;
    l.args.o_at = on->o_at;
    l.args.lse_at = on->lse_at;
    l.args.lens_at = on->lens_at;
    l.args.has_lse = on->lse != NULL;
    l.args.has_lens = on->lens != NULL;
    for (int i = 0; i < ROOMS; i++) /* any buffer stands for one that is not looked at */
        if (!l.buffer[i])
            l.buffer[i] = i == ROOM_LSE ? on->o : on->q;
    struct opencl_slot *s = take_slot(k, err);
    if (!s)
        return -1;
    cl_event *event = (cl_event *)on->event;
    if (!event && k->source.level == OPENCL_SM90)
        event = &s->busy;
    int result = launch(k, s, &l, event, err);
    if (result == 0 && k->source.level == OPENCL_SM90 && event != &s->busy && api->clRetainEvent(*event) == CL_SUCCESS)
        s->busy = *event;
    if (result == 0)
        result = opencl_failed(api->clFlush(l.queue), "clFlush", err);
    give_slot(k, s);
    return result;
}
