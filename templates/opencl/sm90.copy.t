%# The producer: one warp, of which one lane talks to the copy engine.

/* The first 64 bits of a map are its tensor's address, which the host does not know. */
INLINED void place_map(__global ulong *to, const ulong *words, ulong address)
{
    to[0] = address;
    #pragma unroll
    for (int i = 1; i < 16; i++)
        to[i] = words[i];
}

struct source {
    ulong q, k, v; /* maps */
    uint shared;   /* where shared memory begins */
    int lane, kv_len;
    uint nk, nv, landed; /* tiles of keys and values so far, and of those how many were cleared behind the end */
};

/* Q, and with it the tile: a consumer that has the one has the other. */
INLINED void load_q(const struct source *f, const struct tile *x, int w, uint parity, __local uchar *memory)
{
    const uint shared = f->shared;
    await(Q_EMPTY(w), parity);
    if (f->lane)
        return;
    *TILE_AT(w, parity ^ 1) = *x;
    arrive_and_expect(Q_FULL(w), ${Q_WG});
    for (int c = 0; c < ${HB}; c++)
        box_load(Q_AT(w) + c * 8192, f->q, 64 * c, x->i0 + 64 * w, x->h, x->b, Q_FULL(w));
}

INLINED void load_k(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, stage = STAGE(f->nk);
    await(K_EMPTY(stage), ROUND(f->nk) ^ 1);
    f->nk++;
    if (f->lane)
        return;
    arrive_and_expect(K_FULL(stage), ${K_TILE});
    for (int c = 0; c < ${HB}; c++)
        box_load(K_AT(stage) + c * ${BK*128}, f->k, 64 * c, j * ${BK}, x->g, x->b, K_FULL(stage));
}

/* What lies behind a sequence's end may be NaN, and 0 * NaN is NaN: it is made zero, as what is behind the tensor's. */
INLINED void clear_behind(struct source *f, uint at, int end, uint full)
{
    const uint shared = f->shared;
    await(LANDED, f->landed++ & 1);
    for (int c = 0; c < ${VB}; c++)
        for (int byte = end * 128 + f->lane * 16; byte < ${BK*128}; byte += 512)
            zero16(at + c * ${BK*128} + byte);
    shared_written();
    warp_sync();
    if (f->lane == 0)
        arrive(full);
}

INLINED void load_v(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, stage = STAGE(f->nv);
    const int end = x->keys - j * ${BK}, whole = end >= ${BK} || x->keys == f->kv_len;
    const uint bar = whole ? V_FULL(stage) : LANDED;
    await(V_EMPTY(stage), ROUND(f->nv) ^ 1);
    f->nv++;
    if (f->lane == 0) {
        arrive_and_expect(bar, ${V_TILE});
        for (int c = 0; c < ${VB}; c++)
            box_load(V_AT(stage) + c * ${BK*128}, f->v, 64 * c, j * ${BK}, x->g, x->b, bar);
    }
    if (!whole)
        clear_behind(f, V_AT(stage), end, V_FULL(stage));
}

/* In the order in which the consumers want them; the last keys, which may have to be masked, come first. */
INLINED void load_tile(struct source *f, const struct tile *x, uint parity, __local uchar *memory)
{
    load_q(f, x, 0, parity, memory);
    if (x->count > 0)
        load_k(f, x, x->count - 1);
% for w in 1..WG
    load_q(f, x, ${w}, parity, memory);
% end
    for (int j = x->count - 1; j >= 0; j--) {
        if (j > 0)
            load_k(f, x, j - 1);
        load_v(f, x, j);
    }
}
