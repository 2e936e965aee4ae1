/* run.c - a kernel's executions: on host arrays (stage.c copies them), and on the caller's own buffers and queue; and
 * its time by the device's clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "levels.h"

/* ---- what one execution needs for itself ---- */

void opencl_slot_free(const struct opencl_api *api, struct opencl_slot *s)
{
    if (!s)
        return;
    for (int i = 0; i < ARRAYS; i++)
        if (s->room[i].memory)
            api->clReleaseMemObject(s->room[i].memory);
    if (s->maps)
        api->clReleaseMemObject(s->maps);
    if (s->done.memory)
        api->clReleaseMemObject(s->done.memory);
    if (s->parts.memory)
        api->clReleaseMemObject(s->parts.memory);
    if (s->nothing)
        api->clReleaseMemObject(s->nothing);
    if (s->busy)
        api->clReleaseEvent(s->busy);
    if (s->queue)
        api->clReleaseCommandQueue(s->queue);
    if (s->kernel)
        api->clReleaseKernel(s->kernel);
    free(s);
}

/* Whether what is enqueued there now begins after that launch has ended. */
static bool comes_after(const struct opencl_api *api, cl_event launch, cl_command_queue queue)
{
    cl_command_queue on = NULL;
    cl_command_queue_properties properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    return queue && api->clGetEventInfo(launch, CL_EVENT_COMMAND_QUEUE, sizeof on, &on, NULL) == CL_SUCCESS && on == queue &&
           api->clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL) == CL_SUCCESS &&
           !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* Whether nothing that was enqueued uses the slot when a launch on that queue does. NULL: a queue of the slot's own. */
static bool is_idle(const struct opencl_api *api, struct opencl_slot *s, cl_command_queue queue)
{
    cl_int status = CL_COMPLETE;
    if (s->busy && api->clGetEventInfo(s->busy, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) == CL_SUCCESS &&
        status > CL_COMPLETE && !comes_after(api, s->busy, queue))
        return false;
    if (s->busy)
        api->clReleaseEvent(s->busy);
    s->busy = NULL;
    return true;
}

/* One that an earlier execution left, else a new one. */
static struct opencl_slot *take_slot(struct opencl_kernel *k, cl_command_queue queue, struct gen_error *err)
{
    cl_int code;
    pthread_mutex_lock(&k->lock);
    struct opencl_slot **at = &k->free_slots;
    while (*at && !is_idle(&k->target->cl->api, *at, queue))
        at = &(*at)->next;
    struct opencl_slot *s = *at;
    if (s)
        *at = s->next;
    pthread_mutex_unlock(&k->lock);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s) {
        gen_out_of_memory(err, NULL);
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

/* ---- launches ---- */

static int need_nothing(const struct opencl_kernel *k, struct opencl_slot *s, struct gen_error *err)
{
    static const char zeros[GPU_NOTHING] = {0};
    cl_int code;
    if (s->nothing)
        return 0;
    s->nothing = k->target->cl->api.clCreateBuffer(k->target->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof zeros,
                                                   (void *)zeros, &code);
    if (code != CL_SUCCESS)
        s->nothing = NULL;
    return opencl_failed(code, "clCreateBuffer", err);
}

static int launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l, cl_event *event,
                  struct gen_error *err)
{
    struct launch without_keys;
    if (l->args.kv_len > 0)
        return opencl_levels[k->source.level].launch(k, s, l, event, err);
    if (need_nothing(k, s, err) != 0)
        return -1;
    without_keys = *l;
    gpu_lie_nowhere(&without_keys.args, &without_keys.features);
    for (enum array_id id = 0; id < ARRAYS; id++)
        if (gpu_holds_keys(id))
            without_keys.buffer[id] = s->nothing;
    return opencl_levels[k->source.level].launch(k, s, &without_keys, event, err);
}

/* ---- host arrays ---- */

/* A queue that still reads the caller's memory must not outlive a failure. */
static void give_up(struct opencl_kernel *k, struct opencl_slot *s)
{
    if (s->queue)
        k->target->cl->api.clFinish(s->queue);
    opencl_slot_free(&k->target->cl->api, s);
}

/* A run on host arrays that has begun. */
struct begun {
    struct staged staged;
    struct opencl_slot *slot; /* NULL: nothing takes part, or it could not begin */
};

/* Behind it, whatever it returns, comes end_run where it has a slot. */
static int begin_run(struct opencl_kernel *k, const struct attn_args *args, struct begun *out, struct gen_error *err)
{
    *out = (struct begun){.slot = NULL};
    if (gpu_check_args(&k->source, k->name, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return 0;
    out->slot = take_slot(k, NULL, err);
    return out->slot ? need_queue(k, out->slot, err) : -1;
}

static void end_run(struct opencl_kernel *k, struct begun *b, bool good)
{
    if (good)
        give_slot(k, b->slot);
    else
        give_up(k, b->slot);
    gpu_hosts_free(&b->staged.in); /* when nothing reads it any more */
}

int opencl_run(struct opencl_kernel *k, const struct attn_args *args, struct gen_error *err)
{
    struct begun b;
    int result = begin_run(k, args, &b, err);
    if (!b.slot)
        return result;
    if (result == 0)
        result = opencl_stage(k, b.slot, args, &b.staged, err);
    if (result == 0)
        result = launch(k, b.slot, &b.staged.launch, NULL, err);
    if (result == 0)
        result = opencl_download(k, b.slot, &b.staged, err);
    if (result == 0)
        result = opencl_failed(k->target->cl->api.clFinish(b.slot->queue), k->name, err);
    end_run(k, &b, result == 0);
    return result;
}

/* ---- in place ---- */

/* A buffer that is the array's own memory. */
static int own_memory(const struct opencl_kernel *k, const struct host *t, bool output, cl_mem *out,
                      struct gen_error *err)
{
    int64_t elements = t->width;
    cl_int code;
    bool empty = t->width == 0;
    for (int i = 0; i < SIDES; i++) {
        elements += (t->count[i] > 0 ? t->count[i] - 1 : 0) * t->stride[i];
        empty |= t->count[i] == 0;
    }
    size_t size = (size_t)(elements * t->element);
    cl_mem_flags flags = (output ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY) | (empty ? 0 : CL_MEM_USE_HOST_PTR);
    *out =
        k->target->cl->api.clCreateBuffer(k->target->context, flags, empty ? 64 : size, empty ? NULL : t->data, &code);
    if (code != CL_SUCCESS)
        *out = NULL;
    return opencl_failed(code, "clCreateBuffer on host memory", err);
}

/* Drivers may keep the contents of host memory elsewhere until it is mapped. */
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
    struct begun b;
    int result = begin_run(k, args, &b, err);
    struct staged *st = &b.staged;
    if (!b.slot)
        return result;
    if (result == 0)
        result = gpu_hosts_of(&k->source, args, &st->in, err);
    for (enum array_id i = 0; i < ARRAYS && result == 0; i++)
        if (gpu_takes(&k->source, i))
            result = own_memory(k, &st->in.host[i], arrays[i].output, &st->launch.buffer[i], err);
    st->launch.args = st->in.args;
    st->launch.features = st->in.features;
    st->launch.queue = b.slot->queue;
    if (result == 0)
        result = launch(k, b.slot, &st->launch, NULL, err);
    if (result == 0)
        result = seen_by_host(k, b.slot->queue, st->launch.buffer[ARRAY_O], err);
    if (result == 0)
        result = seen_by_host(k, b.slot->queue, st->launch.buffer[ARRAY_LSE], err);
    if (b.slot->queue && api->clFinish(b.slot->queue) != CL_SUCCESS && result == 0)
        result = opencl_failed(CL_OUT_OF_RESOURCES, k->name, err);
    for (int i = 0; i < ARRAYS; i++)
        if (st->launch.buffer[i])
            api->clReleaseMemObject(st->launch.buffer[i]);
    end_run(k, &b, result == 0);
    return result;
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
static int time_launches(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l, int n,
                         double *ns, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_event events[GPU_SAMPLE_MOST];
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
    struct begun b;
    double ns = 0;
    int n = 1, result = begin_run(k, args, &b, err);
    *seconds = 0;
    if (!b.slot)
        return result;
    if (result == 0)
        result = opencl_stage(k, b.slot, args, &b.staged, err);
    if (result == 0)
        result = time_launches(k, b.slot, &b.staged.launch, 1, &ns, err);
    if (result == 0) {
        n = gpu_sample_launches(ns * 1e-9);
        result = time_launches(k, b.slot, &b.staged.launch, n, &ns, err);
    }
    end_run(k, &b, result == 0);
    *seconds = result == 0 ? ns / n * 1e-9 : 0;
    return result;
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
        snprintf(err->text, sizeof err->text, "%s is not a buffer (%d); expected a cl_mem", what, (int)code);
    else if (context != t->context)
        snprintf(err->text, sizeof err->text, "%s belongs to another context; expected one of the plan's cl_context",
                 what);
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
        snprintf(err->text, sizeof err->text, "queue is not a command queue (%d); expected a cl_command_queue",
                 (int)code);
    else if (context != t->context || device != t->device.id)
        snprintf(err->text, sizeof err->text,
                 "queue belongs to another %s; expected one of the plan's cl_context and device",
                 context != t->context ? "context" : "device");
    else
        return 0;
    return -1;
}

/* The caller's buffers and where things begin in them, besides what the arguments say. */
static struct launch launch_on(const struct opencl_kernel *k, const struct attn_args *args, const struct opencl_on *on)
{
    struct launch l = {.queue = on->queue, .waits = (cl_uint)on->waits, .wait = (const cl_event *)on->wait};
    gpu_set_structs(&k->source, args, &l.args, &l.features);
    l.features.q_end_at = on->at[ARRAY_Q_STARTS] + args->batch;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        void *const any = id == ARRAY_LSE ? on->buffer[ARRAY_O] : on->buffer[ARRAY_Q]; /* if it is not used */
        gpu_move(&l.args, &l.features, id, on->at[id]);
        gpu_set_has(&l.args, &l.features, id, gpu_takes(&k->source, id) && on->buffer[id]);
        l.buffer[id] = on->buffer[id] ? on->buffer[id] : any;
    }
    if (args->kv_len == 0) /* so that it takes any rows that there are not */
        gpu_lie_nowhere(&l.args, &l.features);
    return l;
}

bool opencl_takes_rows(const struct opencl_kernel *k, const struct attn_args *args, const struct opencl_on *on)
{
    const struct launch l = launch_on(k, args, on);
    return gpu_takes_rows(&k->source, &l.args, &l.features);
}

int opencl_enqueue(struct opencl_kernel *k, const struct attn_args *args, const struct opencl_on *on,
                   struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    if (gpu_check_args(&k->source, k->name, args, err) != 0)
        return -1;
    const struct launch l = launch_on(k, args, on);
    if (args->batch == 0 || args->q_len == 0)
        return on->event
                   ? opencl_failed(api->clEnqueueMarkerWithWaitList(l.queue, l.waits, l.wait, (cl_event *)on->event),
                                   "clEnqueueMarkerWithWaitList", err)
                   : 0;
    struct opencl_slot *s = take_slot(k, l.queue, err);
    if (!s)
        return -1;
    cl_event *event = (cl_event *)on->event;
    const bool keeps = opencl_levels[k->source.level].keeps_slot;
    if (!event && keeps)
        event = &s->busy;
    int result = launch(k, s, &l, event, err);
    if (result == 0 && keeps && event != &s->busy && api->clRetainEvent(*event) == CL_SUCCESS)
        s->busy = *event;
    if (result == 0)
        result = opencl_failed(api->clFlush(l.queue), "clFlush", err);
    give_slot(k, s);
    return result;
}
