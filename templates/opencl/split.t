%# For kernels that split keys: which unit of work is next, that is, a tile of rows and some of the keys; and how the results of a
%# slice of rows, split by split, become its output.

/* A unit of work: `count` tiles of keys from tile `from` on, which are split number `split` of as many as the tile of rows
 * has. Its rows are one slice${WG > 1 ? " for each warpgroup" : ""}. What stands here is ${WG > 1 ? "the first warpgroup's" : "this"} slice: number `slice` of the KV
 * head's, which begins at query i0 of head h of the group that shares KV head g of sequence b. Keys and offset are as
 * without splits. */
struct tile {
    int i0, h, g, b, keys, offset, count, from, slice, split, splits;
% if WINDOW
    int low; /* query i sees keys from i + low to i + offset */
% end
% if ALIBI
    int origin; /* query i stands at i + origin on the axis of keys */
% end
% if PACKED
    int queries, q_from, kv_from; /* of the sequence, and of all that come before it */
    int qb, kb, q_all;            /* its batch in Q and O, and in K and V; the rows that a head has in LSE */
    int rows, heads, along, slices, ratio; /* the same for this sequence as struct attn_cl_split says for the longest one */
% end
};
% if PACKED

% include "opencl/sm.walk.t"

/* The unit with number t, which must not be smaller than in the call before, or none: its count is 0 if it has no keys, and
 * b is below 0 if there are fewer units. Neighbours have the same keys, so that these are in the cache. */
INLINED struct tile tile_at(int t, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts, struct walk *walk, int lane)
{
    struct tile x;
    x.b = 0;
    const int in_sequence = walk_to(t, &x.b, walk, lane, a, kv_lens, features, starts);
    const struct sequence s = sequence_at(x.b, a, kv_lens, features, starts);
    const struct division y = division_of(s.queries, a);
    const int q_len = s.queries, tiles = (y.slices + ${WG - 1}) / ${WG}, splits = splits_of(s.keys, starts);
    x.rows = y.rows, x.heads = y.heads, x.along = y.along, x.slices = y.slices, x.ratio = y.ratio;
    x.g = in_sequence / max(tiles * splits, 1);
    const int rest = in_sequence - x.g * tiles * splits;
    x.split = rest / max(tiles, 1);
    x.slice = (rest - x.split * tiles) * ${WG};
    x.h = x.slice / max(y.along, 1) * y.heads;
    x.i0 = x.slice % max(y.along, 1) * ${SLICE};
    x.keys = s.keys, x.queries = q_len, x.q_from = s.q_from, x.kv_from = s.kv_from;
    x.qb = features->has_q_starts ? 0 : x.b, x.kb = features->has_kv_starts ? 0 : x.b;
    x.q_all = features->has_q_starts ? (int)starts->q[here(features->q_end_at)] : q_len;
% else

/* Neighbours have the same keys, so that these are in the cache.${FETCHES ? "" : " */"}
% if FETCHES
 * early: launches before this one may still change the lengths, and what is returned is only likely; but no key is behind kv_len. */
% end
INLINED struct tile tile_at(int t, ${FETCHES ? "const int early, " : ""}const struct attn_cl_args *a, const struct attn_cl_split *d, __global const long *kv_lens${WINDOW ? "," : ")"}
% if WINDOW
    const struct attn_cl_features *features)
% end
{
    struct tile x;
    const int q_len = (int)a->q_len, tiles = (d->slices + ${WG - 1}) / ${WG}, pair = t / (tiles * d->splits);
    const int rest = t - pair * tiles * d->splits;
    x.split = rest / tiles;
    x.slice = (rest - x.split * tiles) * ${WG};
    x.b = pair / (int)a->kv_heads;
    x.g = pair - x.b * (int)a->kv_heads;
    x.h = x.slice / d->along * d->heads;
    x.i0 = x.slice % d->along * ${SLICE};
% if FETCHES
    if (early && a->has_lens)
        x.keys = (int)clamp(read_early(kv_lens + a->lens_at + x.b), 0L, a->kv_len);
    else
% end
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
% end
% include "opencl/sm.position.t"
    /* A tile that goes on with another head also has ${WINDOW ? "the first and the last query" : "the last query"} of one.
     * Without keys there is one tile, all of which is masked. */
    const int end = (interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK};
% if WINDOW
    const int first = ${WG > 1 ? "x.i0 + 64 < q_len ? x.i0 : 0" : "x.i0"}, begin = max(min(max(first + x.low, 0) / ${BK}, end - 1), 0);
    const int all = max(end - begin, 1);
    /* Where a window begins within a tile it crosses one more, which is left to the last split: a split of its own would cost more. */
    x.splits = max((all + ${SPLIT/BK - 2}) / ${SPLIT/BK}, 1);
    x.from = begin + x.split * ${SPLIT/BK};
    x.count = x.split < x.splits ? x.split < x.splits - 1 ? ${SPLIT/BK} : all - x.split * ${SPLIT/BK} : 0;
% else
    const int begin = 0, all = max(end, 1);
    x.splits = (all + ${SPLIT/BK - 1}) / ${SPLIT/BK};
    x.from = begin + x.split * ${SPLIT/BK};
    x.count = max(min(all - x.split * ${SPLIT/BK}, ${SPLIT/BK}), 0);
% end
% if PACKED
    if (in_sequence < 0)
        x.b = -1, x.count = 0;
% end
    return x;
}
% let OF = PACKED ? "at" : "d"

/* The same unit for another warpgroup. */
INLINED struct tile slice_of(const struct tile *x, int w, const struct attn_cl_split *d)
{
    struct tile y = *x;
    y.slice += w;
    y.h = y.slice / ${PACKED ? "x" : "d"}->along * ${PACKED ? "x" : "d"}->heads;
    y.i0 = y.slice % ${PACKED ? "x" : "d"}->along * ${SLICE};
    return y;
}

/* A row of a slice. */
struct row {
    int i, h; /* its query, and its head within the group */
    int is;   /* whether the slice has this row */
};
INLINED int head_of(int r, ${PACKED ? "__local volatile const struct tile *at" : "const struct attn_cl_split *d"})
{
    return r * ${OF}->ratio >> 16;
}
INLINED struct row row_at(int r, __local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a)
{
    const int head = head_of(r, ${OF});
    struct row x = {.i = at->i0 + r - head * ${OF}->rows, .h = at->h + head};
    x.is = head < ${OF}->heads && x.h < d->group && x.i < ${PACKED ? "at->queries" : "(int)a->q_len"};
    return x;
}
% if MODIFIES or SINK
/* The same row, or another that exists. */
INLINED struct row some_row_at(int r, __local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a)
{
    struct row x = row_at(r, at, d, a);
    x.i = min(x.i, ${PACKED ? "at->queries" : "(int)a->q_len"} - 1), x.h = min(x.h, d->group - 1);
    return x;
}
% end
INLINED long lse_row(const struct row *x, __local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a)
{
% if PACKED
    return a->lse_at + (at->qb * a->heads + at->g * d->group + x->h) * at->q_all + at->q_from + x->i;
% else
    return a->lse_at + (at->b * a->heads + at->g * d->group + x->h) * a->q_len + x->i;
% end
}

/* The number of a slice among all, and where its results for a split lie: the rows, not yet divided by their sums. Behind the rows of all
 * splits there are for each row, split by split, the maximum that was subtracted, as ${ADDS ? "an exponent of e" : "a power of two"}, and the sum. */
INLINED int slice_at(__local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a)
{
    return (at->b * (int)a->kv_heads + at->g) * d->slices + at->slice;
}
INLINED int part_rows(const struct attn_cl_split *d) /* the floats of a split's rows */
{
    return d->part / ${PART_ROW + 2} * ${PART_ROW};
}
INLINED long part_at(int slice, int split, const struct attn_cl_split *d)
{
    return (long)slice * d->splits * d->part + (long)split * part_rows(d);
}
INLINED long state_at(int slice, int split, int r, const struct attn_cl_split *d) /* of row r */
{
    return part_at(slice, d->splits, d) + 2 * (r * d->splits + split);
}

/* The counters of a slice, ATTN_CL_COUNTERS words: how many of its parts have come, in all launches so far; how many had come when this
 * launch began, in 31 bits, and above them which of the last two words is its own; and these, in turn for every other launch, how many tasks
 * of merging the parts were taken. */
#define COUNTERS(slice) (x->done + ATTN_CL_COUNTERS * (slice))

/* Counts a part of a slice, of which this launch makes so many, and returns whether it was the last of them. The last one readies the
 * counters for the next launch. began: counted(count + 1), from before this part was counted. */
INLINED int comes_last(__global uint *count, uint began, int parts)
{
    const int last = ((count_part(count) + 1 - began) & 0x7fffffff) == (uint)parts;
    if (last)
        count[2 + (~began >> 31)] = 0, count[1] = ((began + parts) & 0x7fffffff) | (~began & 0x80000000);
    return last;
}

INLINED int all_came(__global const uint *count, uint began, int parts)
{
    return ((parts_there(count) - began) & 0x7fffffff) == (uint)parts;
}

/* Where this launch counts the tasks of merging. */
INLINED __global uint *merging(__global uint *count, uint began)
{
    return count + 2 + (began >> 31);
}

/* Writes the LSE of a row that is whole, since one split has all its keys. The state of any other row is left beside its part of the output. */
INLINED void leave_state(float sum, float top, const struct row *y, int whole, __global float *state, __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global float *lse)
{
    if (!whole)
        *(__global float2 *)state = ${FLOAT2}(sum == 0.0f ? -INFINITY : top, sum);
    else if (a->has_lse)
        lse[lse_row(y, at, d, a)] = lse_of(sum, top);
}

%# O may begin anywhere, and have any number of columns, where elements are written one by one.
% let TO_O = WIDE_O ? "float" : SOME_COLUMNS ? "ushort" : "uint"
/* Four columns of a row become output, and the first ones also its LSE. */
INLINED void write_merged(const float *out, float sum, float top, int r, int column, __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ${TYPE_O} *o, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const struct row x = row_at(r, at, d, a);
    if (!x.is)
        return;
% if SINK
    const float inverse = inverse_with_sink(sum, top, sinks[at->g * d->group + x.h]${LOG2E});
% else
    const float inverse = sum == 0.0f ? 0.0f : reciprocal(sum);
% end
    __global ${TO_O} *to = (__global ${TO_O} *)(o + a->o_at + at->${PACKED ? "qb" : "b"} * a->o_stride[0] +
        (at->g * d->group + x.h) * a->o_stride[1] + ${PACKED ? "(at->q_from + x.i)" : "x.i"} * a->o_stride[2] + column);
% if SOME_COLUMNS
    #pragma unroll
    for (int c = 0; c < 4; c++)
        if (column + c < ${HDV})
            to[c] = ${WIDE_O ? "" : "(ushort)"}${WIDE_O ? "" : ROUNDED_O}(out[c] * inverse${WIDE_O ? "" : ", 0.0f"});
% elif WIDE_O
    #pragma unroll
    for (int c = 0; c < 4; c++)
        to[c] = out[c] * inverse;
% else
    to[0] = ${ROUNDED_O}(out[0] * inverse, out[1] * inverse), to[1] = ${ROUNDED_O}(out[2] * inverse, out[3] * inverse);
% end
    if (a->has_lse && column == 0)
        lse[lse_row(&x, at, d, a)] = lse_of(sum, top);
}

/* Merges all parts of a slice, in an order that depends only on how many splits there are, to output and LSE. A chunk is four columns of a row.
 * Some lanes, as many as the splits are worth, share the splits of K chunks, of which they read E at once: loads of K * E chunks are
 * under way together, and neighbouring lanes read neighbouring chunks. Warps take tasks, of as many chunks as their lanes have.
 * early: the next task is asked for before the loads, early enough to have the answer in time; else behind them, lest a warp take a
 * second task before others, which come a little later, have a first one. task: the warp's first task; negative if it takes that one like the others, from behind the first ${MERGERS}, which those that came last begin with. */
INLINED void merge_by(const int K, const int E, const int lanes, const int early, __global const float *parts, int lane, int task, __global uint *taken,
    __local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a, __global ${TYPE_O} *o, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const long step = part_rows(d);
    const int splits = at->splits, chunks = ${OF}->rows * ${OF}->heads * ${PART_ROW/4}, wide = 32 / lanes, mine = lane % lanes;
    uint next = 0;
    if (task < 0 && lane == 0)
        next = count_up(taken);
    for (int t = task < 0 ? ${MERGERS} + uniform((int)next) : task; t * K * wide < chunks; t = ${MERGERS} + uniform((int)next)) {
        const int begin = t * K * wide + lane / lanes;
        __global const float *part[2], *state[2];
        float top[2], sum[2], out[2][4];
        #pragma unroll
        for (int k = 0; k < K; k++) {
            const int n = min(begin + wide * k, chunks - 1), r = n / ${PART_ROW/4};
            part[k] = parts + r * ${PART_ROW} + n % ${PART_ROW/4} * 4, state[k] = parts + state_at(0, 0, r, d);
            top[k] = -INFINITY, sum[k] = out[k][0] = out[k][1] = out[k][2] = out[k][3] = 0.0f;
        }
        if (early && lane == 0)
            next = count_up(taken);
        for (int first = E * mine; first < splits; first += E * lanes) {
            float y[8][4], of[8][2];
            #pragma unroll
            for (int e = 0; e < K * E; e++) { /* a split that is not there weighs nothing */
                const int split = first + e / K;
                of[e][0] = -INFINITY, of[e][1] = y[e][0] = y[e][1] = y[e][2] = y[e][3] = 0.0f;
                written2(of[e], state[e % K] + 2 * split, split < splits);
                written4(y[e], part[e % K] + split * step, split < splits);
            }
            #pragma unroll
            for (int k = 0; k < K; k++) { /* the sum so far is rescaled to the new maximum, as in the softmax */
                const float before = top[k];
                #pragma unroll
                for (int e = k; e < K * E; e += K)
                    top[k] = fmax(top[k], of[e][0]);
                const float fix = exp2_fast((before - finite(top[k]))${TO_TWO});
                sum[k] *= fix;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] *= fix;
            }
            #pragma unroll
            for (int e = 0; e < K * E; e++) {
                const int k = e % K;
                const float weight = exp2_fast((of[e][0] - finite(top[k]))${TO_TWO});
                sum[k] = fma(weight, of[e][1], sum[k]);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] = fma(weight, y[e][c], out[k][c]);
            }
        }
        if (!early && lane == 0)
            next = count_up(taken);
        for (int other = 1; other < lanes; other *= 2)
            #pragma unroll
            for (int k = 0; k < K; k++) {
                const float before = top[k];
                top[k] = fmax(before, across(before, other));
                const float fix = exp2_fast((before - finite(top[k]))${TO_TWO});
                sum[k] = fix * sum[k] + across(fix * sum[k], other);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] = fix * out[k][c] + across(fix * out[k][c], other);
            }
        #pragma unroll
        for (int k = 0; k < K; k++)
            top[k] = finite(top[k]);
        #pragma unroll
        for (int k = 0; k < K; k++) {
            const int n = begin + wide * k, column = n % ${PART_ROW/4} * 4;
            if (n < chunks && mine == 0)
                write_merged(out[k], sum[k], top[k], n / ${PART_ROW/4}, column, at, d, a, o, lse${SINK ? ", sinks" : ""});
        }
    }
}
% if not (defined(WIDE) and WIDE)

/* The same for many splits: a task is a row's next four chunks. Eight lanes share the splits of a chunk, and all lanes of the warp those
 * of the row's maximum and sum; each learns from others by what its splits are to be multiplied. */
INLINED void merge_many(__global const float *parts, int lane, int task, __global uint *taken, __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ${TYPE_O} *o, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const long step = part_rows(d);
    const int splits = at->splits, tasks = ${OF}->rows * ${OF}->heads * ${ceil_div(PART_ROW, 16)}, mine = lane & 7;
    uint next = 0;
    if (task < 0 && lane == 0)
        next = count_up(taken);
    for (int t = task < 0 ? ${MERGERS} + uniform((int)next) : task; t < tasks; t = ${MERGERS} + uniform((int)next)) {
        const int r = t / ${ceil_div(PART_ROW, 16)}, column = t % ${ceil_div(PART_ROW, 16)} * 16 + lane / 8 * 4;
        __global const float *const part = parts + r * ${PART_ROW} + min(column, ${PART_ROW - 4}), *const state = parts + state_at(0, 0, r, d);
        float top = -INFINITY, sum = 0.0f, out[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int first = 0; first < splits; first += 128) {
            float y[16][4], of[4][2], most = top;
            #pragma unroll
            for (int e = 0; e < 4; e++) { /* a split that is not there weighs nothing */
                const int split = first + 32 * e + lane;
                of[e][0] = -INFINITY, of[e][1] = 0.0f;
                written2(of[e], state + 2 * split, split < splits);
            }
            #pragma unroll
            for (int e = 0; e < 16; e++) {
                const int split = first + 8 * e + mine;
                y[e][0] = y[e][1] = y[e][2] = y[e][3] = 0.0f;
                written4(y[e], part + split * step, split < splits);
            }
            #pragma unroll
            for (int e = 0; e < 4; e++)
                most = fmax(most, of[e][0]);
            for (int other = 1; other < 32; other *= 2)
                most = fmax(most, across(most, other));
            const float fix = exp2_fast((top - finite(most))${TO_TWO}); /* the sum so far is rescaled to the new maximum, as in the softmax */
            top = most, sum *= fix;
            #pragma unroll
            for (int c = 0; c < 4; c++)
                out[c] *= fix;
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                of[e][0] = exp2_fast((of[e][0] - finite(top))${TO_TWO});
                sum = fma(of[e][0], of[e][1], sum);
            }
            #pragma unroll
            for (int e = 0; e < 16; e++) {
                const float weight = from_lane(of[e / 4][0], e % 4 * 8 + mine);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[c] = fma(weight, y[e][c], out[c]);
            }
        }
        if (lane == 0)
            next = count_up(taken);
        for (int other = 1; other < 32; other *= 2) {
            sum += across(sum, other);
            #pragma unroll
            for (int c = 0; c < 4 && other < 8; c++)
                out[c] += across(out[c], other);
        }
        if (mine == 0 && column < ${PART_ROW})
            write_merged(out, sum, finite(top), r, column, at, d, a, o, lse${SINK ? ", sinks" : ""});
    }
}
% end

INLINED void merge(__global const float *parts, int lane, int task, __global uint *taken, __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ${TYPE_O} *o, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const int splits = at->splits;
% if defined(WIDE) and WIDE
    /* Beside heads wider than 256 there are registers for eight reads at once, and not for sixteen. */
    merge_by(1, 8, splits <= 8 ? 1 : splits <= 16 ? 2 : splits <= 32 ? 4 : 8, 0, parts, lane, task, taken, at, d, a, o, lse${SINK ? ", sinks" : ""});
% else
    if (splits <= 32)
        merge_by(2, 4, splits <= 4 ? 1 : splits <= 8 ? 2 : splits <= 16 ? 4 : 8, 1, parts, lane, task, taken, at, d, a, o, lse${SINK ? ", sinks" : ""});
    else
        merge_many(parts, lane, task, taken, at, d, a, o, lse${SINK ? ", sinks" : ""});
% end
}
