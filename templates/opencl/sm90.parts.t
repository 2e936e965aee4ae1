%# What a consumer's warpgroup does with its 64 rows, apart from the order; or a warp with a slice of 16 and keys of its own. How
%# the rows of a slice are divided is said by the tile if sequences are packed, and is the same for all tiles otherwise.
% let SLICED = PACKED ? "at" : "&x->d"
% let SLICED_ROWS = PACKED ? "at->rows" : "x->d.rows"
/* A warpgroup's part of a tile; S, P and O are in fragments. */
struct worker {
    uint shared;
    __local uchar *memory;
    int w, ${SHARES ? "part, " : FEW ? "strip, " : ""}warp, lane;${SHARES ? " /* part: which columns of output it has, the first half or the rest */" : FEW ? " /* strip: which keys of each tile it has */" : ""}
    float scale${QUICK ? ", rise" : ""}${SOFTCAP ? ", ratio" : ""}${SCALED or K_TWO ? (INVARIANT ? ", unit[2]" : ", unit") : RAW ? ", unit" : ""};${SCALED or K_TWO or RAW ? (INVARIANT ? " /* unit: what a row's output is to be multiplied by */" : " /* unit: what output is to be multiplied by */") : ""}
% if SCALED and not FEW
    int even_k, even_v; /* see is_even */
    float ${RESTS or WIDENED ? "key_scale, " : ""}value_scale; /* where these are even */
% end
% if K_TWO
    float key_unit; /* what keys were divided by */
% if FITS
    int units; /* and queries, as the exponents of two powers of two: see unit_of_row */
% end
% end
% if BOUNDED
    float length, limit; /* of its longest query, and how long a key may be: see sm90.scale.t */
% end
% if RESTS and not FEW
    int has_rest;     /* whether probabilities times scales are in two parts; else they have one scale, which is in unit */
% end
% if WINDOW
    int edge, begin; /* see set_ends */
% else
    int edge, end[2]; /* see set_ends */
% end
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
% if INSIDE
    uint step;        /* the step from one number of keys, or of values, to the next */
% end
% if SHARES
    uint told;        /* how often one warpgroup has told the other something so far */
% end
% if MODIFIES
    struct beside beside;
% end
% if SPLIT
    struct attn_cl_split d;
    __global float *parts;   /* see split.t */
    __global uint *done;     /* how many splits of each slice are done */
% end
% if SPLIT or WIDE_O or PACKED or DIRECT_O
    __global ${TYPE_O} *merged; /* where output goes that the copy engine does not write */
% end
% if WIDE_O or PACKED or DIRECT_O
    const struct attn_cl_args *a;
% end
};

% let STRIP_FROM = FEW ? "STRIP * x->strip + " : ""
% if FEW
#define STRIP ${STRIP} /* keys of each tile that a warp has */
% else
% include "opencl/sm90.products.t"
% end
% if SPLIT and (SOFTCAP or MODIFIES or NARROW)

/* Returns how many rows the slice has from this warp's first one on. */
INLINED int rows_from_here(const struct worker *x)
{
% if PACKED
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    return at->rows * at->heads - 16 * x->warp;
% else
    return x->d.rows * x->d.heads - 16 * x->warp;
% end
}
% end

% if NEGATES and not FEW
/* If the scale is negative, Q is negated and scores are multiplied by its magnitude, so that the largest score stays the
 * largest. */
INLINED void negate_q(const struct worker *x)
{
    const uint shared = x->shared;
    for (int at = (x->warp * 32 + x->lane) * 16; at < ${Q_WG}; at += 2048)
        flip_signs16(Q_AT(x->w, x->nq) + at);
    shared_written();
    named_sync(3 + x->w, 128);
}

% end
% if WINDOW
/* Sets the keys that all of the warpgroup's rows see: from begin on, and before edge. */
INLINED void set_ends(struct worker *x, __local volatile const struct tile *at)
{
% if SPLIT
    const int i0 = at->i0, last = i0 + ${SLICED_ROWS} - 1;
% else
    const int i0 = at->i0 + 64 * x->w, last = i0 + 63;
% end
    x->edge = interval(i0, at->keys, at->offset);
    x->begin = last + at->low;
}

% if BOUNDED
INLINED int is_at_edge(const struct worker *x, int j) /* whether a row may not see all keys of tile j */
{
    return x->edge < (j + 1) * ${BK} || x->begin > j * ${BK};
}
% end
/* Masks the keys of tile j that lie behind the ends of intervals, or before they begin. */
INLINED void mask_edge(float *s, const struct worker *x, int j)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
% if SPLIT
    const int r = anew(16 * x->warp + x->lane / 4), from = j * ${BK} + ${STRIP_FROM}2 * (x->lane & 3);
    const int i = at->i0 + r - head_of(r, ${SLICED}) * ${SLICED_ROWS}, i8 = at->i0 + r + 8 - head_of(r + 8, ${SLICED}) * ${SLICED_ROWS};
% else
    const int row = 64 * x->w + 16 * x->warp + x->lane / 4, from = j * ${BK} + ${STRIP_FROM}2 * (x->lane & 3);
% end
    if (x->edge < (j + 1) * ${BK}) {
% if SPLIT
        const int keys = at->keys, offset = at->offset;
        const int left[2] = {interval(i, keys, offset) - from, interval(i8, keys, offset) - from};
% else
        const int i = at->i0 + row, keys = at->keys, offset = at->offset;
        const int left[2] = {interval(i, keys, offset) - from, interval(i + 8, keys, offset) - from};
% end
        mask(s, left);
    }
    if (x->begin > j * ${BK}) {
% if SPLIT
        const int before[2] = {i + at->low - from, i8 + at->low - from};
% else
        const int first = at->i0 + row + at->low - from, before[2] = {first, first + 8};
% end
        mask_before(s, before);
    }
}
% else
/* Sets what rows see: row i sees keys before end[0], row i + 8 those before end[1], and all of the warpgroup's rows see
 * those before edge. */
INLINED void set_ends(struct worker *x, __local volatile const struct tile *at)
{
% if SPLIT
    const int i0 = at->i0, r = anew(16 * x->warp + x->lane / 4), keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i0 + r - head_of(r, ${SLICED}) * ${SLICED_ROWS}, keys, offset);
    x->end[1] = interval(i0 + r + 8 - head_of(r + 8, ${SLICED}) * ${SLICED_ROWS}, keys, offset);
% else
    const int i0 = at->i0 + 64 * x->w, i = i0 + 16 * x->warp + x->lane / 4, keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i, keys, offset), x->end[1] = interval(i + 8, keys, offset);
% end
}

% if BOUNDED
INLINED int is_at_edge(const struct worker *x, int j) /* whether a row may not see all keys of tile j */
{
    return x->edge < (j + 1) * ${BK};
}
% end
/* Masks the keys of tile j that lie behind the ends of intervals. */
INLINED void mask_edge(float *s, const struct worker *x, int j)
{
    if (x->edge < (j + 1) * ${BK}) {
        const int from = j * ${BK} + ${STRIP_FROM}2 * (x->lane & 3), left[2] = {x->end[0] - from, x->end[1] - from};
        mask(s, left);
    }
}
% end

% if MODIFIES
% if SPLIT
/* Of which heads and queries a lane's two rows are. */
INLINED void heads_and_queries(int *h, int *i, const struct worker *x, __local volatile const struct tile *at, const struct attn_cl_args *a)
{
    const int first = anew(16 * x->warp + x->lane / 4);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const struct row y = some_row_at(first + 8 * r, at, &x->d, a);
        h[r] = at->g * x->d.group + y.h, i[r] = y.i;
    }
}
% end
% if MASKS_AHEAD
/* The masks of the warp's keys in tile j. */
INLINED void masks_of_tile(uint *two, const struct worker *x, int j, const struct attn_cl_args *a, const struct attn_cl_features *f)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int key = j * ${BK} + ${STRIP_FROM}2 * (x->lane & 3);
    int h[2], i[2];
    heads_and_queries(h, i, x, at, a);
    read_masks(two, &x->beside, f, at->b, h, i, rows_from_here(x) > 8, key, at->keys - key);
}
% end
/* The scores of tile j. */
INLINED void modify_tile(float *s, const struct worker *x, int j, const struct attn_cl_args *a, const struct attn_cl_features *f${MASKS_AHEAD ? ", const uint *masks)" : ")"}
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int key = j * ${BK} + ${STRIP_FROM}2 * (x->lane & 3);
% if SPLIT
    const int rows = rows_from_here(x);
    int h[2], i[2];
    if (rows <= 0)
        return;
    heads_and_queries(h, i, x, at, a);
    modify(s, &x->beside, f, at->b, h, i, rows > 8, key, at->keys - key, ${ALIBI ? "at->origin - key" : "0"}${MASKS_AHEAD ? ", masks" : ""});
% else
    const int i = at->i0 + 64 * x->w + 16 * x->warp + x->lane / 4;
    modify(s, &x->beside, f, at->b, at->h, i, ${PACKED ? "at->queries" : "(int)a->q_len"}, key, at->keys - key, ${ALIBI ? "i + at->origin - key" : "0"});
% end
}

% end
% if UNEVEN
/* The last tile of keys that a row of this warpgroup sees. If it has no rows, or they see no key, it is the first tile,
 * which is masked. */
INLINED int last_seen(const struct worker *x, const struct attn_cl_args *a)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int i0 = at->i0 + 64 * x->w, rows = ${PACKED ? "at->queries" : "(int)a->q_len"} - i0, from = ${FROM ? "at->from" : "0"};
    const int end = rows > 0 ? interval(i0 + min(rows, 64) - 1, at->keys, at->offset) : 0;
    return max((end + ${BK - 1}) / ${BK} - 1, from);
}

% end
% if not FEW
% if SPLIT
/* A row whose keys are all in one split is complete, and its LSE is written; the state of any other row is stored beside its
 * part of the output. */
INLINED void note_rows(const struct worker *x, const struct row_states *rows, float *inverse, __local volatile const struct tile *at,
    const struct attn_cl_args *a, __global float *lse)
{
    const int whole = at->splits == 1, row = anew(16 * x->warp + x->lane / 4);
    __global float *states = x->parts + state_at(slice_at(at, &x->d, a), at->split, row, &x->d);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int n = row + 8 * r;
        const struct row y = row_at(n, at, &x->d, a);
        const float sum = rows->sum[r], top = finite(rows->top[r])${ADDS ? "" : " * x->scale"};
        if (!whole)
            inverse[r] = ${NARROW ? (INVARIANT ? "x->unit[r]" : "x->unit") : "1.0f"};
        if (!y.is || (x->lane & 3) != 0)
            continue;
        leave_state(sum, top, &y, whole, states + 16 * r * x->d.splits, at, &x->d, a, lse);
    }
}

% end
/* The rows of the tile before are complete: writes their LSE, and says by what their output is to be multiplied. */
INLINED void close_rows(const struct worker *x, struct row_states *rows, float *inverse, int pending, const struct attn_cl_args *a,
    __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq - 1);
% if SINK and not SPLIT
    const float sink = pending ? sinks[at->h]${LOG2E} : -INFINITY;
% end
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
% if SINK and SPLIT
        const int row = anew(16 * x->warp + x->lane / 4) + 8 * r;
        const float sink = pending ? sinks[at->g * x->d.group + some_row_at(row, at, &x->d, a).h]${LOG2E} : -INFINITY;
% end
% if SINK
        inverse[r] = inverse_with_sink(rows->sum[r], finite(rows->top[r])${ADDS ? "" : " * x->scale"}, sink);
% else
        inverse[r] = rows->sum[r] == 0.0f ? 0.0f : reciprocal(rows->sum[r]);
% end
% if SCALED or K_TWO
        inverse[r] *= x->unit${INVARIANT ? "[r]" : ""};
% end
    }
% if SPLIT
    if (pending)
        note_rows(x, rows, inverse, at, a, lse);
% else
    const int item = ${ITEM} & 127;
    if (a->has_lse && pending && (item & 3) == 0) {
        const int i = at->i0 + 64 * x->w + item / 32 * 16 + (item & 31) / 4;
% if PACKED
        lse += a->lse_at + (at->qb * a->heads + at->h) * at->q_all + at->q_from;
% else
        lse += a->lse_at + (at->b * a->heads + at->h) * a->q_len;
% end
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (i + 8 * r < ${PACKED ? "at->queries" : "(int)a->q_len"})
                lse[i + 8 * r] = lse_of(rows->sum[r], finite(rows->top[r])${ADDS ? "" : " * x->scale"});
    }
% end
    rows->top[0] = rows->top[1] = -INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
}

/* Waits until what was stored last has left shared memory. */
INLINED void await_staging(const struct worker *x)
{
    if (x->warp == 0 && x->lane == 0)
        stores_read();
    named_sync(3 + ${MINE}, 128);
}

%# Where two warpgroups share columns, those of the second begin behind those of the first, and may be fewer.
% let HAS = SHARES ? "has" : NO
% let AT_COLUMN = SHARES ? " + first" : ""
% if WIDE_O
/* O of tile n goes to memory from registers; a work-item has pairs of columns of two rows. */
INLINED void store_output(const struct worker *x, uint n, const float *out, const float *inverse)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, n);
    const struct attn_cl_args *a = x->a;
    const int item = ${ITEM} & 127, row = item / 32 * 16 + (item & 31) / 4;
% if SHARES
    const int first = ${DV} * x->part, has = x->part ? ${NO_2} : ${NO}; /* columns, and elements */
% end
    #pragma unroll
    for (int r = 0; r < 2; r++) {
% if SPLIT
        const struct row y = row_at(row + 8 * r, tile, &x->d, a);
        const int i = y.i, h = tile->g * x->d.group + y.h, is = y.is;
% else
        const int i = tile->i0 + 64 * x->w + row + 8 * r, h = tile->h, is = i < ${PACKED ? "tile->queries" : "(int)a->q_len"};
% end
        __global float *const to = x->merged + a->o_at + tile->${PACKED ? "qb" : "b"} * a->o_stride[0] + h * a->o_stride[1] + ${PACKED ? "(tile->q_from + i)" : "i"} * a->o_stride[2]${AT_COLUMN} + 2 * (item & 3);
        if (is && ((ulong)to & 7) == 0) {
            #pragma unroll
            for (int m = 0; m < ${HAS}; m += 4)
                *(__global float2 *)(to + 2 * m) = ${FLOAT2}(out[m + 2 * r] * inverse[r], out[m + 2 * r + 1] * inverse[r]);
        } else if (is) {
            #pragma unroll
            for (int m = 0; m < ${HAS}; m += 4)
                to[2 * m] = out[m + 2 * r] * inverse[r], to[2 * m + 1] = out[m + 2 * r + 1] * inverse[r];
        }
    }
}
% elif DIRECT_O
/* O of tile n goes to memory from registers, since
 * ${PACKED and SPLIT ? "boxes would overwrite rows of other sequences" : "shared memory is full of keys"}. */
INLINED void store_output(const struct worker *x, uint n, const float *out, const float *inverse)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, n);
    const struct attn_cl_args *a = x->a;
    const int row = anew(16 * x->warp + x->lane / 4);
% if SHARES
    const int first = ${DV} * x->part, has = x->part ? ${NO_2} : ${NO}; /* columns, and elements */
% end
    #pragma unroll
    for (int r = 0; r < 2; r++) {
% if SPLIT
        const struct row y = row_at(row + 8 * r, tile, &x->d, a);
% else
        const struct {
            int i, is;
        } y = {tile->i0 + row + 8 * r, tile->i0 + row + 8 * r < ${PACKED ? "tile->queries" : "(int)a->q_len"}};
% end
        __global ${TYPE_O} *const to = x->merged + a->o_at + tile->${PACKED ? "qb" : "b"} * a->o_stride[0] + ${SPLIT ? "(tile->g * x->d.group + y.h)" : "tile->h"} * a->o_stride[1] +
            ${PACKED ? "(tile->q_from + y.i)" : "y.i"} * a->o_stride[2]${AT_COLUMN} + 2 * (x->lane & 3);
        if (y.is)
            #pragma unroll
            for (int m = 0; m < ${HAS}; m += 4)
                *(__global uint *)(to + 2 * m) = ${ROUNDED_O}(out[m + 2 * r] * inverse[r], out[m + 2 * r + 1] * inverse[r]);
    }
}
% else
% if PACKED
/* Stores rows of O that do not fill boxes, of which so many columns are in shared memory. */
INLINED void store_some(const struct worker *x, __local volatile const struct tile *tile, int rows, const int from, const int to)
{
    __local uchar *const memory = x->memory;
    const int item = ${ITEM} & 127;
    __global ${TYPE_O} *o = x->merged + x->a->o_at + tile->qb * x->a->o_stride[0] + tile->h * x->a->o_stride[1] +
        (tile->q_from + tile->i0 + 64 * x->w) * x->a->o_stride[2];
    for (int n = item; n < rows * 8; n += 128)
        for (int c = from; c < ${SHARES ? "to" : "min(to, "}${SHARES ? "" : HDV}${SHARES ? "" : ")"}; c += 64) {
            const int row = n / 8, column = ${SHARES ? "x->part * " : ""}${SHARES ? DV : ""}${SHARES ? " + " : ""}c + n % 8 * 8;
            __local const uint4 *y = (__local const uint4 *)(memory + ${AT_O} + ${MINE} * ${OS*O_BOX} + (c - from) * 128 + row * 128 + (((n & 7) ^ (row & 7)) << 4));
            if (column < ${HDV})
                *(__global uint4 *)(o + row * x->a->o_stride[2] + column) = *y;
        }
}

% end
% let PART_COLUMN = SHARES ? "first + " : ""
/* O of tile n goes through shared memory, swizzled as the copy engine wants it, ${OS} of ${OB} box${OB > 1 ? "es" : ""} at a time. */
INLINED void store_output(const struct worker *x, uint n, const float *out, const float *inverse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, n);
    const int item = ${ITEM} & 127, row = item / 32 * 16 + (item & 15), lead = item == 0;
% if SHARES
    const int first = ${DV} * x->part; /* column */
% end
    const uint at = O_AT(${MINE}) + row * 128 + (((item / 16 & 1) ^ (row & 7)) << 4);
% if PACKED
    const int rows = tile->queries - tile->i0 - 64 * x->w;
% end
#define PAIR(n) ${ROUNDED_O}(out[n] * inverse[(n) / 2 % 2], out[(n) + 1] * inverse[(n) / 2 % 2])
% for first in 0..ceil_div(OB, OS)
% if first > 0
    await_staging(x);
% end
% for c in first*OS*4..min(DV/16, (first + 1)*OS*4)
    store_matrices4((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}), PAIR(${8*c + 4}), PAIR(${8*c + 6}));
% end
% if DV % 16 != 0 and first == ceil_div(OB, OS) - 1
% let c = DV/16
    store_matrices2((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}));
% end
    shared_written();
    named_sync(3 + ${MINE}, 128);
% if PACKED
    if (rows < 64) /* what lies behind them belongs to another sequence */
        store_some(x, tile, rows, ${64*OS*first}, ${64*min(OB, (first + 1)*OS)});
    else if (lead) {
% else
    if (lead) {
% end
% for c in first*OS..min(OB, (first + 1)*OS)
% if PACKED
        box_store(x->o, ${PART_COLUMN}${64*c}, tile->q_from + tile->i0 + 64 * x->w, tile->h, tile->qb, O_AT(${MINE}) + ${(c - first*OS)*8192});
% elif SPLIT
        slice_store(x->o, ${PART_COLUMN}${64*c}, tile->i0, tile->h, tile->g, tile->b, O_AT(${MINE}) + ${(c - first*OS)*8192});
% else
        box_store(x->o, ${PART_COLUMN}${64*c}, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(${MINE}) + ${(c - first*OS)*8192});
% end
% end
        stores_commit();
    }
% end
}
% end
% if SPLIT

/* The same for rows that are complete. The parts of others are kept, and whoever comes last with one merges them all. A warpgroup that
 * stays, since it has no other tile, waits a while for the last one and then helps: one alone would read the parts of many splits for
 * longer than it took to make them. Nobody waits for ever, since some of the others may not have begun. */
INLINED void leave_output(const struct worker *x, uint n, const int stays, const float *out, const float *inverse, const struct attn_cl_args *a,
    __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, n);
    const int lead = x->warp == 0 && x->lane == 0, row = anew(16 * x->warp + x->lane / 4);
    const int slice = slice_at(at, &x->d, a);
    if (at->splits == 1) {
        store_output(x, n, out, inverse);
        return;
    }
    if (at->slice >= ${PACKED ? "at->slices" : "x->d.slices"}) /* there is no slice left for this warpgroup */
        return;
    __global uint *const count = COUNTERS(slice);
    const uint began = counted(count + 1);
    __global float *part = x->parts + part_at(slice, at->split, &x->d)${SHARES ? " + x->part * " : ""}${SHARES ? DV : ""};
% if SHARES
    const int has = x->part ? ${NO_2} : ${NO}; /* the elements of output that it has */
% end
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = row + 8 * r;
        if (row_at(i, at, &x->d, a).is) {
            #pragma unroll
            for (int m = 0; m < ${HAS}; m += 4)
                *(__global float2 *)(part + i * ${HDV} + 2 * m + 2 * (x->lane & 3)) = ${FLOAT2}(out[m + 2 * r]${NARROW ? " * inverse[r]" : ""}, out[m + 2 * r + 1]${NARROW ? " * inverse[r]" : ""});
        }
    }
    named_sync(3 + ${MINE}, 128);
    const int all = ${SHARES ? "2 * at->splits" : "at->splits"};
    int last = 0, complete = 0;
    if (lead)
        last = comes_last(count, began, all);
    last = named_any(3 + ${MINE}, 128, last);
    for (int polls = 0; lead && stays && !last && !complete && polls < 64; polls++)
        complete = all_came(count, began, all);
    if (last || (stays && named_any(3 + ${MINE}, 128, complete)))
        merge(x->parts + part_at(slice, 0, &x->d), anew(x->lane), last ? x->warp : -1, merging(count, began), at, &x->d, a, x->merged, lse${SINK ? ", sinks" : ""});
}
% end
% end
