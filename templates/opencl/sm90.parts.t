%# What a consumer's warpgroup does with its 64 rows, but for the order in which it does so.
/* A warpgroup's part of a tile: S, P and O in fragments. */
struct part {
    uint shared;
    __local uchar *memory;
    int w, warp, lane;
    float scale${SOFTCAP ? ", ratio" : ""};
% if WINDOW
    int edge, begin; /* see set_ends */
% else
    int edge, end[2]; /* see set_ends */
% end
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
};

% include "opencl/sm90.products.t"

% if not SOFTCAP
/* With a negative scale the scores of -Q are multiplied by its magnitude, so that the largest comes out on top. */
INLINED void negate_q(const struct part *x)
{
    const uint shared = x->shared;
    for (int at = (x->warp * 32 + x->lane) * 16; at < ${Q_WG}; at += 2048)
        flip_signs16(Q_AT(x->w, x->nq) + at);
    shared_written();
    named_sync(3 + x->w, 128);
}

% end
% if WINDOW
/* All of the warpgroup's rows see the keys from begin on that are before edge. */
INLINED void set_ends(struct part *x, __local volatile const struct tile *at)
{
    const int i0 = at->i0 + 64 * x->w;
    x->edge = interval(i0, at->keys, at->offset);
    x->begin = i0 + 63 + at->low;
}

/* The keys of tile j that are behind the ends of intervals, or before they begin. */
INLINED void mask_edge(float *s, const struct part *x, int j)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int row = 64 * x->w + 16 * x->warp + x->lane / 4, from = j * ${BK} + 2 * (x->lane & 3);
    if (x->edge < (j + 1) * ${BK}) {
        const int i = at->i0 + row, keys = at->keys, offset = at->offset;
        const int left[2] = {interval(i, keys, offset) - from, interval(i + 8, keys, offset) - from};
        mask(s, left);
    }
    if (x->begin > j * ${BK}) {
        const int first = at->i0 + row + at->low - from, before[2] = {first, first + 8};
        mask_before(s, before);
    }
}
% else
/* Row i sees keys before end[0], row i + 8 those before end[1], and all of the warpgroup's rows those before edge. */
INLINED void set_ends(struct part *x, __local volatile const struct tile *at)
{
    const int i0 = at->i0 + 64 * x->w, i = i0 + 16 * x->warp + x->lane / 4, keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i, keys, offset), x->end[1] = interval(i + 8, keys, offset);
}

/* The keys of tile j that are behind the ends of intervals. */
INLINED void mask_edge(float *s, const struct part *x, int j)
{
    if (x->edge < (j + 1) * ${BK}) {
        const int from = j * ${BK} + 2 * (x->lane & 3), left[2] = {x->end[0] - from, x->end[1] - from};
        mask(s, left);
    }
}
% end

/* The rows of the tile before are complete: their LSE, and what their output is to be multiplied by. */
INLINED void close_rows(const struct part *x, struct rows *rows, float *inverse, const struct attn_cl_args *a, __global float *lse${SINK ? "," : ")"}
% if SINK
    __global const float *sinks)
% end
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq - 1);
% if SINK
    const float sink = x->nq > 0 ? sinks[at->h] * 1.44269504f : -INFINITY;
% end
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
% if SINK
        inverse[r] = inverse_with_sink(rows->sum[r], finite(rows->top[r]) * x->scale, sink);
% else
        inverse[r] = rows->sum[r] == 0.0f ? 0.0f : reciprocal(rows->sum[r]);
% end
    }
    if (a->has_lse && x->nq > 0 && (x->lane & 3) == 0) {
        const int i = at->i0 + 64 * x->w + 16 * x->warp + x->lane / 4;
        lse += a->lse_at + (at->b * a->heads + at->h) * a->q_len;
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (i + 8 * r < (int)a->q_len)
                lse[i + 8 * r] = rows->sum[r] == 0.0f ? -INFINITY : finite(rows->top[r]) * x->scale * 0.693147181f + log(rows->sum[r]);
    }
    rows->top[0] = rows->top[1] = -INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
}

/* Until what was last stored has left shared memory. */
INLINED void await_staging(const struct part *x)
{
    if (x->warp == 0 && x->lane == 0)
        stores_read();
    named_sync(3 + x->w, 128);
}

/* O of the tile before goes through shared memory, swizzled as the copy engine wants it, ${OS} of ${VB} box${VB > 1 ? "es" : ""} at a time. */
INLINED void store_output(const struct part *x, const float *out, const float *inverse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, x->nq - 1);
    const int row = 16 * x->warp + (x->lane & 15), lead = x->warp == 0 && x->lane == 0;
    const uint at = O_AT(x->w) + row * 128 + ((x->lane / 16 ^ (row & 7)) << 4);
#define PAIR(n) rounded(out[n] * inverse[(n) / 2 % 2], out[(n) + 1] * inverse[(n) / 2 % 2])
% for first in 0..ceil_div(VB, OS)
% if first > 0
    await_staging(x);
% end
% for c in first*OS*4..min(HDV/16, (first + 1)*OS*4)
    store_matrices4((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}), PAIR(${8*c + 4}), PAIR(${8*c + 6}));
% end
% if HDV % 16 != 0 and first == ceil_div(VB, OS) - 1
% let c = HDV/16
    store_matrices2((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}));
% end
    shared_written();
    named_sync(3 + x->w, 128);
    if (lead) {
% for c in first*OS..min(VB, (first + 1)*OS)
        box_store(x->o, ${64*c}, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(x->w) + ${(c - first*OS)*8192});
% end
        stores_commit();
    }
% end
}
