%# The producer: one warp, of which one lane talks to the copy engine.

% if not MAPS_WHOLE
% include "opencl/sm90.map.t"
% end

struct source {
    ulong q, k, v; /* maps */
    uint shared;   /* where shared memory begins */
    __local uchar *memory; /* the same */
    int lane, kv_len;
% if SPLIT
    struct attn_cl_split d;
    ulong policy;  /* of keys and values in L2 */
% end
    uint nq, nk, nv, landed; /* tiles of queries, keys and values so far; and of those how many were cleared behind the end */
};

/* With Q a consumer gets the tile's place. */
INLINED void load_q(const struct source *f, const struct tile *x, int w)
{
    const uint shared = f->shared, full = Q_FULL(w, f->nq);
    __local uchar *const memory = f->memory;
    await(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
    if (f->lane)
        return;
% if SPLIT
    const struct tile mine = slice_of(x, w, &f->d);
    ${PUT}TILE_AT(w, f->nq)${PUT_IS}mine${PUT_END};
    arrive_and_expect(full, f->d.rows * f->d.heads * ${HB*128});
    for (int c = 0; c < ${HB}; c++)
        slice_load(Q_AT(w, f->nq) + c * 8192, f->q, 64 * c, mine.i0, mine.h, mine.g, mine.b, full);
% else
    ${PUT}TILE_AT(w, f->nq)${PUT_IS}*x${PUT_END};
    arrive_and_expect(full, ${Q_WG});
    for (int c = 0; c < ${HB}; c++)
        box_load(Q_AT(w, f->nq) + c * 8192, f->q, 64 * c, x->i0 + 64 * w, x->h, x->b, full);
% end
}

/* A tile of no keys marks the end. */
INLINED void load_end(const struct source *f, int w)
{
    const uint shared = f->shared;
    __local uchar *const memory = f->memory;
    await(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
    if (f->lane)
        return;
    TILE_AT(w, f->nq)->count = 0;
    arrive(Q_FULL(w, f->nq));
}

% let LOAD_KV = SPLIT ? "box_load_once" : "box_load"
% let POLICY = SPLIT ? ", f->policy" : ""
/* The row of tile j, outside the tensor where a sequence has no keys. */
INLINED int row_of(const struct tile *x, int j)
{
    return x->keys ? j * ${BK} : 1 << 30;
}

INLINED void load_k(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, n = f->nk++;
    await(K_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane)
        return;
    arrive_and_expect(K_FULL(n), ${K_TILE});
    for (int c = 0; c < ${HB}; c++)
        ${LOAD_KV}(K_AT(n) + c * ${BK*128}, f->k, 64 * c, row_of(x, j), x->g, x->b, K_FULL(n)${POLICY});
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
    const uint shared = f->shared, n = f->nv++;
    const int end = x->keys - j * ${BK}, whole = end >= ${BK} || x->keys == f->kv_len || x->keys == 0;
    const uint bar = whole ? V_FULL(n) : LANDED;
    await(V_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0) {
        arrive_and_expect(bar, ${V_TILE});
        for (int c = 0; c < ${VB}; c++)
            ${LOAD_KV}(V_AT(n) + c * ${BK*128}, f->v, 64 * c, row_of(x, j), x->g, x->b, bar${POLICY});
    }
    if (!whole)
        clear_behind(f, V_AT(n), end, V_FULL(n));
}

/* Queries of all warpgroups, and the first keys, which are the last: they may have to be masked. */
INLINED void load_first(struct source *f, const struct tile *x)
{
    load_q(f, x, 0);
    load_k(f, x, ${FROM ? "x->from + " : ""}x->count - 1);
% for w in 1..WG
    load_q(f, x, ${w});
% end
    f->nq++;
}

% if SPLIT
/* The unit with number t or, if it has no keys, the next one that this group takes; none is left where count is 0. */
INLINED struct tile unit_from(int t, int units, const struct source *f, const struct attn_cl_args *a,
    __global const long *kv_lens, __global uint *taken${WINDOW ? ", const struct attn_cl_features *features" : ""})
{
    for (;;) {
        struct tile x = tile_at(min(t, units - 1), a, &f->d, kv_lens${WINDOW ? ", features" : ""});
        uint next = 0;
        if (t >= units)
            x.count = 0;
        if (t >= units || x.count > 0)
            return x;
        if (f->lane == 0)
            next = count_up(taken);
        t = group_count() + uniform((int)next);
    }
}

% end
% if PERSISTENT
/* Tiles are given out as work-groups become free. The last one to see that there are no more counts from 0 again. All is
 * loaded in the order in which consumers want it: keys a step ahead of values, of the next tile too. */
INLINED void produce(struct source *f, const struct attn_cl_args *a${SPLIT ? "" : ", int near"}, __global const long *kv_lens, __global uint *taken${WINDOW ? "," : ")"}
% if WINDOW
    const struct attn_cl_features *features)
% end
{
    const uint shared = f->shared;
% if SPLIT
    const int tiles = (f->d.slices + ${WG - 1}) / ${WG} * f->d.splits * (int)(a->kv_heads * a->batch), groups = group_count();
    struct tile x = unit_from(group_number(), tiles, f, a, kv_lens, taken${WINDOW ? ", features" : ""});
% else
    const int tiles = ((int)a->q_len + ${BQ - 1}) / ${BQ} * (int)(a->heads * a->batch), groups = group_count();
    struct tile x = tile_at(group_number(), a, near, kv_lens${WINDOW ? ", features" : ""});
% end
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, and waits for some all the same */
    f->nv++;
% if SPLIT
    int more = x.count > 0;
    if (more)
        load_first(f, &x);
    while (more) {
% else
    load_first(f, &x);
    for (int more = 1; more;) {
% end
        uint next = 0;
        for (int j = ${FROM ? "x.from + " : ""}x.count - 1; j > ${FROM ? "x.from" : "0"}; j--) {
            if (f->lane == 0 && j${FROM ? " - x.from" : ""} == min(x.count - 1, 3)) /* early enough to have the answer in time */
                next = count_up(taken);
            load_k(f, &x, j - 1);
            load_v(f, &x, j);
        }
        if (f->lane == 0 && x.count == 1)
            next = count_up(taken);
        const int t = groups + uniform((int)next);
% if SPLIT
        const struct tile y = unit_from(t, tiles, f, a, kv_lens, taken${WINDOW ? ", features" : ""});
        more = y.count > 0;
% else
        const struct tile y = tile_at(min(t, tiles - 1), a, near, kv_lens${WINDOW ? ", features" : ""});
        more = t < tiles;
% end
% if QS > 1
        if (more)
            load_first(f, &y);
        load_v(f, &x, ${FROM ? "x.from" : "0"});
% else
        if (more) {
% if not SPLIT
            for (int c = 0; c < ${HB*WG} && f->lane == 0; c++)
                box_prefetch(f->q, 64 * (c % ${HB}), y.i0 + 64 * (c / ${HB}), y.h, y.b);
% end
            load_k(f, &y, ${FROM ? "y.from + " : ""}y.count - 1);
        }
        load_v(f, &x, ${FROM ? "x.from" : "0"});
        if (more) {
% for w in 0..WG
            load_q(f, &y, ${w});
% end
            f->nq++;
        }
% end
        x = y;
    }
% for w in 0..WG
    load_end(f, ${w});
% end
    if (f->lane == 0 && (int)count_up(taken + 1) == groups - 1)
        taken[0] = 0, taken[1] = 0;
}
% else
/* One tile, loaded in the order in which consumers want it: keys a step ahead of values. */
INLINED void produce(struct source *f, const struct attn_cl_args *a, int near, __global const long *kv_lens${WINDOW ? "," : ")"}
% if WINDOW
    const struct attn_cl_features *features)
% end
{
    const uint shared = f->shared;
    const struct tile x = tile_at(group_number(), a, near, kv_lens${WINDOW ? ", features" : ""});
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, and waits for some all the same */
    f->nv++;
    load_first(f, &x);
    for (int j = ${FROM ? "x.from + " : ""}x.count - 1; j > ${FROM ? "x.from" : "0"}; j--) {
        load_k(f, &x, j - 1);
        load_v(f, &x, j);
    }
    load_v(f, &x, ${FROM ? "x.from" : "0"});
% for w in 0..WG
    load_end(f, ${w});
% end
}
% end
