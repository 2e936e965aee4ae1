%# Copies by the copy engine, for sm80.cl.t: work-item 0 begins them, and all work-items wait for them.

/* The barriers, which lie in shared memory behind all else: one for Q, and one for each stage of keys and values. */
#define Q_FULL (shared + ${AT_BAR})
#define FULL(n) (shared + ${AT_BAR + 8} + (n) % ${ST} * 8)

% if not MAPS_WHOLE
% include "opencl/sm90.map.t"
% end
struct source {
    ulong q, k, v; /* maps */
};
INLINED struct source source_of(const struct worker *p, const struct ${MAPS} *maps, __global ulong *room,
    __global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v)
{
    const uint shared = p->shared;
% if MAPS_WHOLE
    if (p->item == 96) {
% else
    if (p->item == 0)
        place_map(room, maps->q, (ulong)q);
    else if (p->item == 32)
        place_map(room + 16, maps->k, (ulong)k);
    else if (p->item == 64)
        place_map(room + 32, maps->v, (ulong)v);
    else if (p->item == 96) {
% end
        barrier_init(Q_FULL, 1);
        for (int n = 0; n < ${ST}; n++)
            barrier_init(FULL(n), 1);
        barriers_made();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% if MAPS_WHOLE
    const struct source from = {(ulong)maps->q, (ulong)maps->k, (ulong)maps->v};
% else
    const struct source from = {(ulong)room, (ulong)(room + 16), (ulong)(room + 32)};
% end
    return from;
}

INLINED void load_queries(const struct worker *p, const struct tile *x, const struct source *f)
{
    const uint shared = p->shared;
    if (p->item != 0)
        return;
    arrive_and_expect(Q_FULL, ${Q_TILE});
    for (int c = 0; c < ${HB}; c++)
        for (int w = 0; w < ${BQ/64}; w++)
            box_load(shared + ${AT_Q} + c * ${BQ*128} + w * 8192, f->q, 64 * c, x->i0 + 64 * w, x->h, x->b, Q_FULL);
}

/* Loads the n-th tile of keys and values. Tiles go from the last one down; where a sequence has no keys they lie outside the
 * tensor. */
INLINED void load_next(const struct worker *p, const struct tile *x, int n, const struct source *f)
{
    const uint shared = p->shared;
    const int row = x->keys ? (x->count - 1 - n) * ${BK} : 1 << 30;
    if (p->item != 0 || n >= x->count)
        return;
    arrive_and_expect(FULL(n), ${STAGE});
    for (int c = 0; c < ${HB}; c++)
        box_load(K_AT(n) + c * ${BK*128}, f->k, 64 * c, row, x->g, x->b, FULL(n));
    for (int c = 0; c < ${VB}; c++)
        box_load(V_AT(n) + c * ${BK*128}, f->v, 64 * c, row, x->g, x->b, FULL(n));
}

/* Values of the first tile that lie behind a sequence's end may be NaN, and 0 * NaN is NaN. So they are set to zero, as what
 * lies outside the tensor is already. */
INLINED void clear_behind(const struct worker *p, const struct tile *x, int kv_len)
{
    const uint shared = p->shared;
    const int end = x->keys - (x->count - 1) * ${BK};
    if (end >= ${BK} || x->keys == kv_len || x->keys == 0)
        return;
    for (int c = 0; c < ${VB}; c++)
        for (int byte = end * 128 + p->item * 16; byte < ${BK*128}; byte += ${16*ITEMS})
            zero16(V_AT(0) + c * ${BK*128} + byte);
    shared_written();
}
