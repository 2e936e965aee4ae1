/* run.c - executions on host arrays: room on the card, and copies there and back; and a kernel's time by the card's
 * events. What it is not: the caller's own memory and streams (enqueue.c). */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* ---- what one execution needs for itself ---- */

void cuda_slot_free(const struct cuda_target *t, struct cuda_slot *s)
{
    const struct cuda_api *api = &t->cu->api;
    if (!s)
        return;
    for (int i = 0; i < ARRAYS; i++)
        if (s->array[i].at)
            api->cuMemFree(s->array[i].at);
    cuda_room_free(t, s->room);
    if (s->stream)
        api->cuStreamDestroy(s->stream);
    free(s);
}

static struct cuda_slot *take_slot(struct cuda_kernel *k, struct gen_error *err)
{
    pthread_mutex_lock(&k->lock);
    struct cuda_slot *s = k->free_slots;
    if (s)
        k->free_slots = s->next;
    pthread_mutex_unlock(&k->lock);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s) {
        gen_out_of_memory(err, NULL);
        return NULL;
    }
    CUresult code = k->target->cu->api.cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING);
    if (cuda_failed(&k->target->cu->api, code, "cuStreamCreate", err) == 0)
        return s;
    free(s);
    return NULL;
}

/* A stream that still reads the caller's memory must not outlive a failure. */
static void give_slot(struct cuda_kernel *k, struct cuda_slot *s, bool good)
{
    if (!good) {
        k->target->cu->api.cuStreamSynchronize(s->stream);
        cuda_slot_free(k->target, s);
        return;
    }
    pthread_mutex_lock(&k->lock);
    s->next = k->free_slots;
    k->free_slots = s;
    pthread_mutex_unlock(&k->lock);
}

/* Kept for the next run if it is large enough. */
static int need_array(const struct cuda_kernel *k, struct cuda_memory *m, size_t size, struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    size = size ? size : 64;
    if (m->size >= size)
        return 0;
    if (m->at)
        api->cuMemFree(m->at);
    *m = (struct cuda_memory){0, 0};
    if (cuda_failed(api, api->cuMemAlloc(&m->at, size), "cuMemAlloc of an array", err) != 0) {
        m->at = 0;
        return -1;
    }
    m->size = size;
    return 0;
}

static int need_room(struct cuda_kernel *k, struct cuda_slot *s, const struct cuda_launch *l, struct gen_error *err)
{
    struct cuda_need need;
    if (cuda_room_need(k, &l->args, &l->features, &need, err) != 0)
        return -1;
    if (s->room && s->room->has.done >= need.done && s->room->has.parts >= need.parts)
        return 0;
    cuda_room_free(k->target, s->room);
    s->room = cuda_room_make(k->target, need, err);
    return s->room ? 0 : -1;
}

/* ---- copies ---- */

/* Rows that are not contiguous go through memory of our own, which is why we wait for them. */
static int copy(const struct cuda_kernel *k, const struct cuda_slot *s, enum array_id id, const struct host *t,
                bool to_host, struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    const char *what = to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync";
    size_t size;
    if (gpu_host_size(t, &size, err) != 0)
        return -1;
    if (size == 0)
        return 0;
    char *packed = t->dense ? t->data : malloc(size);
    if (!packed)
        return gen_out_of_memory(err, NULL);
    if (!t->dense && !to_host)
        gpu_copy_rows(t, packed, false);
    CUresult code = to_host ? api->cuMemcpyDtoHAsync(packed, s->array[id].at, size, s->stream)
                            : api->cuMemcpyHtoDAsync(s->array[id].at, packed, size, s->stream);
    int result = cuda_failed(api, code, what, err);
    if (result == 0 && (to_host || !t->dense))
        result = cuda_failed(api, api->cuStreamSynchronize(s->stream), k->name, err);
    if (!t->dense && to_host && result == 0)
        gpu_copy_rows(t, packed, true);
    if (!t->dense)
        free(packed);
    return result;
}

static int stage(struct cuda_kernel *k, struct cuda_slot *s, const struct attn_args *args, struct gpu_hosts *hosts,
                 struct cuda_launch *l, struct gen_error *err)
{
    size_t size;
    if (gpu_hosts_of(&k->source, args, hosts, err) != 0)
        return -1;
    gpu_hosts_pack(&k->source, hosts);
    *l = (struct cuda_launch){.stream = s->stream, .args = hosts->args, .features = hosts->features};
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (!gpu_takes(&k->source, id))
            continue;
        if (id == ARRAY_V && hosts->v_in_k) {
            l->buffer[id] = l->buffer[ARRAY_K];
            continue;
        }
        if (gpu_host_size(&hosts->host[id], &size, err) != 0 || need_array(k, &s->array[id], size, err) != 0 ||
            (!arrays[id].output && copy(k, s, id, &hosts->host[id], false, err) != 0))
            return -1;
        l->buffer[id] = s->array[id].at;
    }
    if (need_room(k, s, l, err) != 0)
        return -1;
    l->room = s->room;
    return 0;
}

/* A run on host arrays that has begun: the context is entered, and the arrays and the launch of it are on the card. */
struct begun {
    struct gpu_hosts hosts;
    struct cuda_launch launch;
    struct cuda_slot *slot; /* NULL: nothing takes part, or it could not begin */
    bool pushed;
};

/* Behind it, whatever it returns, comes end_run where it has a slot. */
static int begin_run(struct cuda_kernel *k, const struct attn_args *args, struct begun *out, struct gen_error *err)
{
    *out = (struct begun){.slot = NULL};
    if (gpu_check_args(&k->source, k->name, args, err) != 0)
        return -1;
    if (args->batch == 0 || args->q_len == 0)
        return 0;
    if (cuda_enter(k->target, &out->pushed, err) != 0)
        return -1;
    out->slot = take_slot(k, err);
    if (out->slot)
        return stage(k, out->slot, args, &out->hosts, &out->launch, err);
    cuda_leave(k->target, out->pushed);
    return -1;
}

static void end_run(struct cuda_kernel *k, struct begun *b, bool good)
{
    give_slot(k, b->slot, good);
    gpu_hosts_free(&b->hosts); /* when nothing reads it any more */
    cuda_leave(k->target, b->pushed);
}

int cuda_run(struct cuda_kernel *k, const struct attn_args *args, struct gen_error *err)
{
    struct begun b;
    int result = begin_run(k, args, &b, err);
    if (!b.slot)
        return result;
    if (result == 0)
        result = cuda_launch(k, &b.launch, err);
    if (result == 0)
        result = copy(k, b.slot, ARRAY_O, &b.hosts.host[ARRAY_O], true, err);
    if (result == 0)
        result = copy(k, b.slot, ARRAY_LSE, &b.hosts.host[ARRAY_LSE], true, err);
    if (result == 0)
        result = cuda_failed(&k->target->cu->api, k->target->cu->api.cuStreamSynchronize(b.slot->stream), k->name, err);
    end_run(k, &b, result == 0);
    return result;
}

/* ---- time ---- */

/* Seconds from before the first of n launches to after the last. */
static int time_launches(const struct cuda_kernel *k, const struct cuda_launch *l, int n, double *seconds,
                         struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    CUevent event[2] = {NULL, NULL};
    float ms = 0;
    CUresult code = api->cuEventCreate(&event[0], CU_EVENT_DEFAULT);
    if (code == CUDA_SUCCESS)
        code = api->cuEventCreate(&event[1], CU_EVENT_DEFAULT);
    if (code == CUDA_SUCCESS)
        code = api->cuEventRecord(event[0], l->stream);
    int result = cuda_failed(api, code, "cuEventRecord", err);
    for (int i = 0; i < n && result == 0; i++)
        result = cuda_launch(k, l, err);
    if (result == 0) {
        code = api->cuEventRecord(event[1], l->stream);
        if (code == CUDA_SUCCESS)
            code = api->cuEventSynchronize(event[1]);
        if (code == CUDA_SUCCESS)
            code = api->cuEventElapsedTime(&ms, event[0], event[1]);
        result = cuda_failed(api, code, "a timed launch", err);
    }
    for (int i = 0; i < 2; i++)
        if (event[i])
            api->cuEventDestroy(event[i]);
    *seconds = ms * 1e-3;
    return result;
}

int cuda_time(struct cuda_kernel *k, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    struct begun b;
    double s = 0;
    int n = 1, result = begin_run(k, args, &b, err);
    *seconds = 0;
    if (!b.slot)
        return result;
    if (result == 0)
        result = time_launches(k, &b.launch, 1, &s, err);
    if (result == 0) {
        n = gpu_sample_launches(s);
        result = time_launches(k, &b.launch, n, &s, err);
    }
    end_run(k, &b, result == 0);
    *seconds = result == 0 ? s / n : 0;
    return result;
}
