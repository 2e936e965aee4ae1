/* rooms.c - the device memory of a launch: that of its stream, or of the capture that its stream is in. What it is not:
 * what is in it (launch.c). */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct cuda_room *cuda_room_make(struct cuda_target *t, struct cuda_need need, struct gen_error *err)
{
    const size_t zeros = ROOM_COUNTERS + need.done, size = zeros + need.parts;
    const struct cuda_api *api = &t->cu->api;
    struct cuda_room *room = calloc(1, sizeof *room);
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* lets a thread allocate while others capture */
    if (!room) {
        gen_out_of_memory(err, NULL);
        return NULL;
    }
    api->cuThreadExchangeStreamCaptureMode(&mode);
    CUresult code = api->cuMemAlloc(&room->memory, size);
    int result = cuda_failed(api, code, "cuMemAlloc of a launch's memory", err);
    if (result == 0) {
        code = api->cuMemsetD8Async(room->memory, 0, zeros, t->quiet);
        if (code == CUDA_SUCCESS)
            code = api->cuStreamSynchronize(t->quiet);
        result = cuda_failed(api, code, "cuMemsetD8Async of a launch's memory", err);
        if (result != 0)
            api->cuMemFree(room->memory);
    }
    api->cuThreadExchangeStreamCaptureMode(&mode);
    if (result != 0) {
        free(room);
        return NULL;
    }
    room->has = need;
    return room;
}

CUdeviceptr cuda_room_done(const struct cuda_room *room)
{
    return room->memory + ROOM_COUNTERS;
}

CUdeviceptr cuda_room_parts(const struct cuda_room *room)
{
    return room->memory + ROOM_COUNTERS + room->has.done;
}

static bool holds(const struct cuda_room *room, struct cuda_need need)
{
    return room->has.done >= need.done && room->has.parts >= need.parts;
}

void cuda_room_free(const struct cuda_target *t, struct cuda_room *room)
{
    if (!room)
        return;
    t->cu->api.cuMemFree(room->memory);
    free(room);
}

int cuda_rooms_prepare(struct cuda_target *t, struct cuda_rooms *rooms, struct cuda_need need, struct gen_error *err)
{
    enum { PLENTY = 64 << 20, TOO_MUCH = 256 << 20 }; /* bytes: what is held for streams that may never come; and what is not */
    int count = (int)(PLENTY / (ROOM_COUNTERS + need.done + need.parts));
    int result = 0;
    count = count > ROOMS_FIRST ? ROOMS_FIRST : need.parts > TOO_MUCH ? 0 : count < 2 ? 2 : count;
    pthread_mutex_lock(&rooms->lock);
    rooms->least = need;
    for (int i = 0; i < count && result == 0; i++) {
        struct cuda_room *room = cuda_room_make(t, need, err);
        if (room) {
            room->next = rooms->unused;
            rooms->unused = room;
        } else
            result = -1;
    }
    pthread_mutex_unlock(&rooms->lock);
    return result;
}

void cuda_rooms_free(const struct cuda_target *t, struct cuda_rooms *rooms)
{
    for (int i = -1; i < ROOMS_BUCKETS; i++) {
        struct cuda_room *room = i < 0 ? rooms->unused : rooms->taken[i], *next;
        for (; room; room = next) {
            next = room->next;
            cuda_room_free(t, room);
        }
    }
}

/* One that nobody has, or a new one. Under the lock. */
static struct cuda_room *fresh(struct cuda_target *t, struct cuda_rooms *rooms, struct cuda_need need, struct gen_error *err)
{
    struct cuda_room **at = &rooms->unused;
    while (*at && !holds(*at, need))
        at = &(*at)->next;
    struct cuda_room *room = *at;
    if (room) {
        *at = room->next;
        return room;
    }
    need.done = need.done > rooms->least.done ? need.done : rooms->least.done;
    need.parts = need.parts > rooms->least.parts ? need.parts : rooms->least.parts;
    return cuda_room_make(t, need, err);
}

struct cuda_room *cuda_room_of(struct cuda_target *t, struct cuda_rooms *rooms, CUstream stream,
                               struct cuda_need need, struct gen_error *err)
{
    const uint64_t number = (uintptr_t)stream;
    uint64_t capture = 0;
    int status = 0;
    CUresult code = t->cu->api.cuStreamGetCaptureInfo(stream, &status, &capture);
    if (cuda_failed(&t->cu->api, code, "cuStreamGetCaptureInfo", err) != 0)
        return NULL;
    capture = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? capture : 0;
    pthread_mutex_lock(&rooms->lock);
    struct cuda_room **bucket = &rooms->taken[(number >> 4 ^ number >> 12 ^ capture) % ROOMS_BUCKETS];
    struct cuda_room *room = *bucket;
    while (room && (room->stream != number || room->capture != capture || !holds(room, need)))
        room = room->next;
    if (!room && (room = fresh(t, rooms, need, err))) { /* a smaller one of the same stream stays: its launches may
                                                         * still run */
        room->stream = number;
        room->capture = capture;
        room->next = *bucket;
        *bucket = room;
    }
    pthread_mutex_unlock(&rooms->lock);
    return room;
}
