/* tuner.c - see tuner.h. */
#include "tuner.h"

#include <stdlib.h>

static int enter(struct tuner *t, int threads)
{
    struct gen_error err;
    void *place;
    if (place_enter(&place) != 0 || gen_open(&t->gen, &err) != 0 || (threads > 0 && pool_create(threads, &t->pool) != 0))
        return -1;
    t->place = place;
    t->resources = (struct resources){.gen = t->gen, .cache = t->place->cache, .pool = t->pool, .stop = &t->stop};
    if (devices_open(&t->resources, &t->devices, &err) != 0)
        return -1;
    t->device = device_named(t->devices, "cpu", ATTN_TCC);
    t->by_cc = device_named(t->devices, "cpu", ATTN_CC);
    return 0;
}

void *tuner_fixture(size_t size, int threads)
{
    struct tuner *t = calloc(1, size);
    if (t && enter(t, threads) == 0)
        return t;
    free(t);
    return NULL;
}

int tuner_teardown(void **state)
{
    struct tuner *t = *state;
    void *place = t->place;
    devices_close(t->devices);
    pool_destroy(t->pool);
    gen_close(t->gen);
    free(t);
    return place_leave(&place);
}

void tuner_problem(struct tuner *t, enum isa isa, int head_dim, int length, int tile_q)
{
    t->target = (struct tune_target){
        .caller = variant_default(ISA_C), .heads = 1, .kv_heads = 1, .batch = 1, .q_len = length, .kv_len = length, .threads = 1};
    t->target.caller.field[F_HEAD_DIM] = head_dim;
    for (int i = 0; i < TUNER_SOME; i++) {
        t->some[i] = variant_default(isa);
        t->some[i].field[F_HEAD_DIM] = head_dim;
        t->some[i].field[F_TILE_Q] = tile_q * (i + 1);
    }
}

enum isa tuner_isa(const struct tuner *t)
{
    return t->device->backend->why_not(t->device, ISA_AVX2) ? ISA_C : ISA_AVX2;
}

struct tune_target tuner_target(int64_t batch, int heads, int kv_heads, int64_t q_len, int64_t kv_len, int threads)
{
    struct tune_target t = {.caller = variant_default(ISA_C),
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .batch = batch,
                            .q_len = q_len,
                            .kv_len = kv_len,
                            .threads = threads};
    t.caller.field[F_HEAD_DIM] = 32;
    return t;
}
