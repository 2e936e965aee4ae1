%# What a work-group does with its tile, apart from the order: copies to shared memory, products, output. How the rows of a slice are
%# divided, where keys are split, is said by the tile if sequences are packed, and is the same for all tiles otherwise.
% let SLICED = PACKED ? "at" : "&p->d"
% let SLICED_ROWS = PACKED ? "at->rows" : "p->d.rows"
%# Elements of 32 bits are two words where rows are copied.
% let FOLDED = TWOFOLD ? "2 * (" : ""
% let END_FOLDED = TWOFOLD ? ")" : ""
%# Rows whose loads are under way together, where these go to registers.
% let PIECES = 4
% let HOW_STORED = SPLIT ? "const struct attn_cl_args *a" : "long stride, int n"
% let HOW_IT_IS = SPLIT ? "a" : "stride, n"
% if SPLIT
#define TILE(p) ((__local volatile struct tile *)((p)->memory + ${AT_TILE}))
% end
/* A warp's part of a tile: ${MR} rows, in fragments of 16. */
struct worker {
    uint shared;
    __local uchar *memory; /* the same */
    int item, warp, lane${PARTS_V > 1 ? ", columns" : ""};
    float scale${SOFTCAP ? ", ratio" : ""}${FITTED ? (INVARIANT ? ", unit[" : ", unit") : ""}${FITTED and INVARIANT ? 2*FR : ""}${FITTED and INVARIANT ? "]" : ""};${FITTED ? (INVARIANT ? " /* unit: what a row's output is to be multiplied by */" : " /* unit: what output is to be multiplied by */") : ""}
% if PACKED
    int queries;           /* how many the sequence has */
% end
% if WINDOW
    int i;                 /* its first row */
    int keys, offset, low; /* as in struct tile */
% else
    int i, reach;          /* its first row; none of its rows sees keys from reach on */
    int keys, offset;      /* as in struct tile */
% end
% if SPLIT
    int rows;                /* of the slice, from its own first row on, which may be none; i is the slice's first query */
    struct attn_cl_split d;
    __global float *parts;   /* see split.t */
    __global uint *done;     /* how many splits of each slice are done */
% end
};

INLINED struct worker part_of(__local uchar *memory, const struct tile *x, const struct attn_cl_args *a${SOFTCAP ? "," : ")"}
% if SOFTCAP
    const struct attn_cl_features *features)
% end
{
% if WINDOW
    const int item = get_local_id(0) % ${ITEMS}; /* with %, the compiler knows its range */
% else
    const int item = get_local_id(0) % ${ITEMS}, last = ${PACKED ? "x->queries" : "(int)a->q_len"} - 1; /* with %, the compiler knows its range */
% end
    struct worker p = {.shared = ${MEMORY_AT}, .memory = memory, .item = item, .warp = uniform(item / 32), .lane = item & 31};
    p.i = x->i0${SPLIT ? "" : " + p.warp * "}${SPLIT ? "" : MR};
    p.keys = x->keys, p.offset = x->offset;
% if PACKED
    p.queries = x->queries;
% end
% if WINDOW
    p.low = x->low;
% elif SPLIT
    p.reach = interval(min(p.i + ${BQ - 1}, last), x->keys, x->offset);
% elif WGMMA
    const int i = x->i0 + p.warp / 4 * 64; /* the first row of the warpgroup, which multiplies as one */
    p.reach = i > last ? 0 : interval(min(i + 63, last), x->keys, x->offset);
% else
    p.reach = p.i > last ? 0 : interval(min(p.i + ${MR - 1}, last), x->keys, x->offset);
% end
% if ADDS
    p.scale = 1.44269504f; /* exponentials are powers of two */
% elif SOFTCAP
    p.scale = fmax(features->softcap * 1.44269504f, FLT_MIN);
% else
    p.scale = fmax(fabs(a->scale)${BY_LOG2E}, FLT_MIN); /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
% end
% if SOFTCAP
    p.ratio = ratio_of(a->scale${MADE_UP}, features->softcap);
% end
    return p;
}

% if WINDOW and not SPLIT
/* Whether any of the warp's rows may see keys of tile j. It is computed anew each time, because registers are scarce. */
INLINED int meets(const struct worker *p, int j)
{
    return j * ${BK} < interval(p->i + ${MR - 1}, p->keys, p->offset) && (j + 1) * ${BK} > p->i + p->low;
}

% end
% if UNSWIZZLED
/* Where 16 bytes lie in a box. The eight rows of a small matrix are 128 bytes apart, and so in the same banks. */
INLINED uint place(int row, int chunk, const int width)
{
    return row * width + (chunk << 4);
}
% else
/* Where 16 bytes lie in a box, swizzled so that the eight rows of a small matrix are in different banks. */
INLINED uint place(int row, int chunk, const int width)
{
    return row * width + ((chunk ^ (row * width / 128 % (width / 16))) << 4);
}
% end
% if not WGMMA
/* The row whose address a lane gives for four small matrices: two below each other and two beside those; or beside first. */
INLINED uint below_first(int lane, const int width)
{
    return place(lane & 15, lane >> 4, width);
}
INLINED uint beside_first(int lane, const int width)
{
    return place((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1, width);
}
% end
% if COPY != "tma"

/* Copies boxes that lie side by side, of so many rows. n of the rows and so many of the columns exist; the rest becomes
 * zero. */
INLINED void copy_boxes(uint to, __global const ushort *from, long stride, int item, int n, const int rows, const int boxes,
    const int width, const int columns)
{
    const int lanes = width / 16, step = ${ITEMS} / lanes, chunk = item % lanes;
    from += item / lanes * stride + 8 * chunk;
% if COPY == "any"
% if not TWOFOLD
    if ((((ulong)from | 2 * stride) & 2) != 0) { /* some rows begin between words: no copy goes on by itself, but many loads are under way together */
        #pragma unroll ${PIECES}
        for (int r = 0; r < rows; r += step, from += step * stride) {
            const int row = item / lanes + r;
            #pragma unroll
            for (int c = 0; c < boxes; c++)
                if (rows % step == 0 || row < rows)
                    copy_words(to + c * rows * 128 + place(row, chunk, width), from + 64 * c, row < n ? max(min(columns - 64 * c - 8 * chunk, 8), 0) : 0);
        }
        return;
    }
% end
% end
    #pragma unroll
    for (int r = 0; r < rows; r += step, from += step * stride) {
        const int row = item / lanes + r;
        #pragma unroll
        for (int c = 0; c < boxes; c++)
            if (rows % step == 0 || row < rows)
                copy16(to + c * rows * 128 + place(row, chunk, width), from + 64 * c, ${ANYWHERE ? "row < n ? max(min(columns - 64 * c - 8 * chunk, 8), 0) : 0" : "row < n && 64 * c + 8 * chunk < columns"});
    }
}
% if PAGED

/* Where a key is; local memory has this for the next tile, whose keys are looked up while one is multiplied. */
struct place {
    int page, row;
};
#define PLACES(n) ((__local struct place *)(p->memory + ${AT_PLACES}) + (n) % 2 * ${BK})
INLINED void look_up(const struct worker *p, const struct tile *x, int n, __global const int *pages, long page_size)
{
    const uint size = (uint)min(page_size, 1L << 30);
    for (int key = p->item; key < ${BK}; key += ${ITEMS}) {
        const int at = (${FROM ? "x->from + " : ""}x->count - 1 - n) * ${BK} + key;
        if (n < x->count && at < x->keys) {
            const uint page = (uint)at / size;
            PLACES(n)[key].page = pages[page], PLACES(n)[key].row = at - page * size;
        }
    }
}
% if not NARROW
INLINED void page_boxes(uint to, __global const ushort *from, const long *stride, const struct worker *p, int tile, int n, const int rows,
    const int boxes, const int width, const int columns)
{
    const int lanes = width / 16, step = ${ITEMS} / lanes, chunk = p->item % lanes;
    from += 8 * chunk;
    #pragma unroll
    for (int r = 0; r < rows; r += step) {
        const int row = p->item / lanes + r;
        if (rows % step != 0 && row >= rows)
            continue;
        const struct place at = PLACES(tile)[row];
        #pragma unroll
        for (int c = 0; c < boxes; c++)
            copy16(to + c * rows * 128 + place(row, chunk, width), from + (row < n ? ${FOLDED}at.page * stride[0] + at.row * stride[2]${END_FOLDED} : 0) + 64 * c,
                ${ANYWHERE ? "row < n ? max(min(columns - 64 * c - 8 * chunk, 8), 0) : 0" : "row < n && 64 * c + 8 * chunk < columns"});
    }
}
% end
% end
% if SPLIT

/* For rows of Q that a slice has. */
INLINED void slice_boxes(uint to, __global const ushort *from, const long *stride, const struct worker *p, const struct attn_cl_args *a,
    const int rows, const int boxes, const int width, const int columns)
{
    const int lanes = width / 16, step = ${ITEMS} / lanes, chunk = p->item % lanes;
    from += 8 * chunk;
    #pragma unroll
    for (int r = 0; r < rows; r += step) {
        const int n = p->item / lanes + r;
        if (rows % step != 0 && n >= rows)
            continue;
        const struct row x = row_at(n, TILE(p), &p->d, a);
        #pragma unroll
        for (int c = 0; c < boxes; c++)
            copy16(to + c * rows * 128 + place(n, chunk, width), from + (x.is ? ${FOLDED}x.h * stride[1] + x.i * stride[2]${END_FOLDED} : 0) + 64 * c,
                ${ANYWHERE ? "x.is ? max(min(columns - 64 * c - 8 * chunk, 8), 0) : 0" : "x.is && 64 * c + 8 * chunk < columns"});
    }
}
INLINED void slice_q(uint to, __global const ushort *from, const struct worker *p, const struct attn_cl_args *a)
{
% if HB > 1 or HW == 128
    slice_boxes(to, from, a->q_stride, p, a, ${BQ}, ${HW == 128 ? ceil_div(FOLD*HD, 64) : HB - 1}, 128, ${FOLD*HD});
% end
% if HW < 128
    slice_boxes(to + ${128*(HB - 1)*BQ}, from + ${64*(HB - 1)}, a->q_stride, p, a, ${BQ}, 1, ${HW}, ${HD - 64*(HB - 1)});
% end
}
% end
/* For all columns of Q${NARROW ? "" : " or K, or of V"}${PAGED and not NARROW ? "; and for rows in pages" : ""}. */
% for paged in 0..(NARROW ? 1 : PAGED + 1)
% let COPY_BOXES = paged ? "page_boxes" : "copy_boxes"
% let WHERE = paged ? "stride, p, tile" : "stride, item"
% for v in 0..(NARROW ? 1 : 2)
% let D = FOLD*(v ? PART_V : HD)
% let BOXES = ceil_div(D, 64)
% let W = v ? LW : HW
% let SOME = v and PARTS_V > 1
INLINED void ${paged ? "page" : "copy"}_${v ? "v" : paged ? "k" : "qk"}(uint to, __global const ushort *from, ${paged ? "const long *stride, const struct worker *p, int tile" : "long stride, int item"}, int n, const int rows${SOME ? ", int columns" : ""})
{
% if SOME
% if BOXES > 1 or W == 128
    ${COPY_BOXES}(to, from, ${WHERE}, n, rows, ${W == 128 ? BOXES : BOXES - 1}, 128, columns);
% end
% if W < 128
    ${COPY_BOXES}(to + ${128*(BOXES - 1)} * rows, from + ${64*(BOXES - 1)}, ${WHERE}, n, rows, 1, ${W}, columns - ${64*(BOXES - 1)});
% end
% elif W == 128
    ${COPY_BOXES}(to, from, ${WHERE}, n, rows, ${BOXES}, 128, ${D});
% else
% if BOXES > 1
    ${COPY_BOXES}(to, from, ${WHERE}, n, rows, ${BOXES - 1}, 128, ${64*(BOXES - 1)});
% end
    ${COPY_BOXES}(to + ${128*(BOXES - 1)} * rows, from + ${64*(BOXES - 1)}, ${WHERE}, n, rows, 1, ${W}, ${D - 64*(BOXES - 1)});
% end
}
% end
% end
% end
#define K_AT(n) (shared + ${AT_STAGES} + (n) % ${ST} * ${STAGE})
#define V_AT(n) (shared + ${AT_STAGES + (SETTLES ? BK*K_RAW : K_TILE)} + (n) % ${ST} * ${STAGE})

% if NEGATES
/* If the scale is negative, Q is negated and scores are multiplied by its magnitude, so that the largest score stays the
 * largest. */
INLINED void negate_q(const struct worker *p)
{
% for c in 0..FOLD*HB
% let W = c == FOLD*HB - 1 ? HW : 128
    for (int at = p->lane * 16; at < ${MR*W}; at += 512)
        flip_signs16(p->shared + ${AT_Q + c*BQ*128} + p->warp * ${MR*W} + at);
% end
% if WGMMA
    shared_written();
% else
    warp_sync();
% end
}

% end
% if WGMMA
% include "opencl/sm90.joint.parts.t"
% else
/* Columns 16*d to 16*d + 15 of the warp's queries. */
INLINED void get_queries(uint *q, const struct worker *p, int d)
{
    #pragma unroll
    for (int f = 0; f < ${FR}; f++) {
        const int width = d < ${4*(HB - 1)} ? 128 : ${HW};
        const uint box = p->shared + ${AT_Q} + d / 4 * ${BQ*128} + (p->warp * ${MR} + 16 * f) * width;
        load_matrices4(q + 4 * f, box + (below_first(p->lane, width) ^ d % 4 * 32));
    }
}

% let SUM = SUMS > 1 ? "sum" : "s"
% if SUMS > 1
/* Scores are ${SUMS} sums of up to ${16*SUM_STEPS} columns, since the tensor cores do not round, but cut off, whenever they add to one. That of step d, of
 * 16 columns, is the scores themselves or, later, another that begins at 0 and is added to them when it is complete. */
INLINED float *sum_of(float *s, float *more, const int d)
{
    #pragma unroll
    for (int n = 0; n < ${FR*NS}; n++)
        if (d > 0 && d % ${SUM_STEPS} == 0)
            more[n] = 0.0f;
    return d < ${SUM_STEPS} ? s : more;
}
INLINED void add_sum(float *s, const float *more, const int d)
{
    #pragma unroll
    for (int n = 0; n < ${FR*NS}; n++)
        if (d >= ${SUM_STEPS} && (d % ${SUM_STEPS} == ${SUM_STEPS - 1} || d >= ${STEPS - 1}))
            s[n] += more[n];
}

% end
% if NARROW
% include "opencl/sm80.narrow.t"
% end
% if TWOFOLD
% include "opencl/sm80.twofold.t"
% elif IN_FOURS or BLOCKS
% include "opencl/sm80.widen.t"
% else
% let MULTIPLY_QK = MIXED ? "multiply_mixed" : "multiply"
/* S = Q K^T. */
INLINED void scores(float *s, ${Q_STAYS ? "const uint *q, " : ""}const struct worker *p, uint k)
{
    #pragma unroll
    for (int n = 0; n < ${FR*NS}; n++)
        s[n] = 0.0f;
% if SUMS > 1
    float more[${FR*NS}];
% end
    #pragma unroll
    for (int d = 0; d < ${ceil_div(HD, 16)}; d++) {
% if SUMS > 1
        float *const sum = sum_of(s, more, d);
% end
        const int width = d < ${4*(HB - 1)} ? 128 : ${HW};
        const uint at = k + d / 4 * ${BK*128} + (beside_first(p->lane, width) ^ d % 4 * 32);
% if Q_STAYS
        const uint *a = q + d * ${4*FR};
% else
        uint a[${4*FR}];
        get_queries(a, p, d);
% end
        #pragma unroll
        for (int n = 0; n < ${BK/16}; n++) {
            uint b[4];
            load_matrices4(b, at + n * 16 * width);
            #pragma unroll
            for (int f = 0; f < ${FR}; f++) {
                ${MULTIPLY_QK}(${SUM} + f * ${NS} + 8 * n, a + 4 * f, b);
                ${MULTIPLY_QK}(${SUM} + f * ${NS} + 8 * n + 4, a + 4 * f, b + 2);
            }
        }
% if SUMS > 1
        add_sum(s, more, d);
% end
    }
}

/* O += P V. */
INLINED void values(float *out, const uint *w, const struct worker *p, uint v)
{
    #pragma unroll
    for (int n = 0; n < ${BK/16}; n++) {
        #pragma unroll
        for (int c = 0; c < ${ceil_div(DV, 16)}; c++) {
            const int width = c < ${4*(VB - 1)} ? 128 : ${LW};
            const uint at = v + c / 4 * ${BK*128} + n * 16 * width + (below_first(p->lane, width) ^ c % 4 * 32);
            uint b[4];
% if DV % 16 != 0
            if (c == ${DV/16})
                load_matrices2_across(b, at);
            else
                load_matrices4_across(b, at);
% else
            load_matrices4_across(b, at);
% end
            #pragma unroll
            for (int f = 0; f < ${FR}; f++) {
                multiply(out + f * ${NO} + 8 * c, w + f * ${NS/2} + 4 * n, b);
% if DV % 16 != 0
                if (c < ${DV/16})
                    multiply(out + f * ${NO} + 8 * c + 4, w + f * ${NS/2} + 4 * n, b + 2);
% else
                multiply(out + f * ${NO} + 8 * c + 4, w + f * ${NS/2} + 4 * n, b + 2);
% end
            }
        }
    }
}
% end
% end

/* Masks the keys of tile j that lie behind the ends of intervals${WINDOW ? ", or before they begin" : ""}. The bounds are
 * not kept, because registers are scarce. */
INLINED void mask_edge(float *s, const struct worker *p, int j)
{
% if SPLIT
% if PACKED
    __local volatile const struct tile *at = TILE(p);
% end
    const int from = j * ${BK} + 2 * (p->lane & 3), rows = ${SLICED_ROWS};
    const int behind = interval(p->i, p->keys, p->offset) < (j + 1) * ${BK};
% if WINDOW
    const int before = p->i + rows - 1 + p->low > j * ${BK};
    if (!behind && !before)
        return;
% else
    if (!behind)
        return;
% end
    #pragma unroll
    for (int f = 0; f < ${FR}; f++) {
        const int r = p->warp * ${MR} + 16 * f + p->lane / 4;
        const int i = p->i + r - head_of(r, ${SLICED}) * rows, i8 = p->i + r + 8 - head_of(r + 8, ${SLICED}) * rows;
        const int left[2] = {interval(i, p->keys, p->offset) - from, interval(i8, p->keys, p->offset) - from};
        mask(s + f * ${NS}, left);
% if WINDOW
        const int first[2] = {i + p->low - from, i8 + p->low - from};
        mask_before(s + f * ${NS}, first);
% end
    }
}
% else
    if (interval(p->i, p->keys, p->offset) < (j + 1) * ${BK}) {
        const int from = j * ${BK} + 2 * (p->lane & 3), i = p->i + p->lane / 4;
        #pragma unroll
        for (int f = 0; f < ${FR}; f++) {
            const int left[2] = {interval(i + 16 * f, p->keys, p->offset) - from,
                interval(i + 16 * f + 8, p->keys, p->offset) - from};
            mask(s + f * ${NS}, left);
        }
    }
% if WINDOW
    if (p->i + ${MR - 1} + p->low > j * ${BK}) {
        const int first = p->i + p->lane / 4 + p->low - j * ${BK} - 2 * (p->lane & 3);
        #pragma unroll
        for (int f = 0; f < ${FR}; f++) {
            const int before[2] = {first + 16 * f, first + 16 * f + 8};
            mask_before(s + f * ${NS}, before);
        }
    }
% end
}
% end

% if SPLIT
% include "opencl/sm80.split.t"
% else
/* The rows are complete: writes their LSE, and divides O as it is to be stored. */
INLINED void close_rows(float *out, const struct worker *p, struct row_states *rows, const struct attn_cl_args *a, __global float *lse${SINK ? "," : ")"}
% if SINK
    float sink)
% end
{
    #pragma unroll
    for (int r = 0; r < ${2*FR}; r++) {
        float sum = rows[r / 2].sum[r % 2];
        const float top = finite(rows[r / 2].top[r % 2])${ADDS ? "" : " * p->scale"};
        const int i = p->i + p->lane / 4 + 8 * r;
        sum += across(sum, 1);
        sum += across(sum, 2);
% if SINK
        const float inverse = inverse_with_sink(sum, top, sink);
% else
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
% end
        if (a->has_lse && (p->lane & 3) == 0 && i < ${PACKED ? "p->queries" : "(int)a->q_len"})
            lse[i] = lse_of(sum, top);
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            if (n / 2 % 2 == r % 2)
                out[r / 2 * ${NO} + n] *= inverse;
    }
}
% end

%# The c-th pair of neighbouring columns of output that a work-item has in row r: its elements, and its first column.
% let PAIR_X = IN_FOURS ? "c / 2 * 8 + c % 2 + 2 * r" : "4 * c + 2 * r"
% let PAIR_Y = IN_FOURS ? "c / 2 * 8 + c % 2 + 2 * r + 4" : "4 * c + 2 * r + 1"
% let PAIR_AT = IN_FOURS ? "c / 2 * 16 + c % 2 * 2" : "8 * c"
% let LEFT_OF_PAIR = IN_FOURS ? "(c / 2 * 16 + c % 2 * 2)" : "8 * c"
% if WIDE_O
/* Stores row lane/4 of a fragment and the row 8 below it, a pair of columns at a time. */
INLINED void store_output(__global ${TYPE_O} *o, ${HOW_STORED}, const float *out, const struct worker *p)
{
    const int column = ${IN_FOURS ? 4 : 2} * (p->lane & 3);
    #pragma unroll
    for (int f = 0; f < ${FR}; f++)
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = 16 * f + 8 * r + p->lane / 4;
% if SPLIT
            const struct row y = row_at(p->warp * ${MR} + row, TILE(p), &p->d, a);
            const int is = y.is;
            __global ${TYPE_O} *const to = o + y.h * a->o_stride[1] + y.i * a->o_stride[2] + column;
% else
            const int is = row < n;
            __global ${TYPE_O} *const to = o + row * stride + column;
% end
            const int wide = ((ulong)to & 7) == 0;
            #pragma unroll
            for (int c = 0; c < ${DV/8}; c++) {
                const float x = out[f * ${NO} + ${PAIR_X}], y = out[f * ${NO} + ${PAIR_Y}];
                const int left = ${PARTS_V > 1 ? "p->columns" : PART_V} - ${LEFT_OF_PAIR} - column;
                if (is && wide && left > 1)
                    *(__global float2 *)(to + ${PAIR_AT}) = ${FLOAT2}(x, y);
                else if (is) {
                    if (left > 0)
                        to[${PAIR_AT}] = x;
                    if (left > 1)
                        to[${PAIR_AT} + 1] = y;
                }
            }
        }
}
% else
/* O goes through shared memory, where each warp keeps to its own rows, so that 16 bytes are written at once. */
INLINED void put_box(__global ushort *o, ${HOW_STORED}, ${SPLIT ? "const struct worker *p" : "int lane"}, __local const uchar *from, const int width,
    ${PARTS_V > 1 ? "int columns" : "const int columns"})
{
% if SPLIT
    const int lane = p->lane;
% end
    const int lanes = width / 16, step = 32 / lanes, chunk = lane % lanes;
    #pragma unroll
    for (int r = 0; r < ${MR}; r += step) {
        const int row = lane / lanes + r;
% if SPLIT
        const struct row y = row_at(p->warp * ${MR} + row, TILE(p), &p->d, a);
        const int is = y.is;
        __global ushort *const to = o + y.h * a->o_stride[1] + y.i * a->o_stride[2] + 8 * chunk;
% else
        const int is = row < n;
        __global ushort *const to = o + row * stride + 8 * chunk;
% end
% if ANYWHERE
        __local const ushort *const x = (__local const ushort *)(from + place(row, chunk, width));
        if (is && (((ulong)to & 15) != 0 || 8 * chunk + 8 > columns)) {
            for (int e = 0; e < 8 && 8 * chunk + e < columns; e++)
                to[e] = x[e];
        } else
% end
        if (is && 8 * chunk < columns)
            *(__global uint4 *)to = *(__local const uint4 *)(from + place(row, chunk, width));
    }
}
INLINED void store_output(__global ushort *o, ${HOW_STORED}, const float *out, const struct worker *p)
{
    #pragma unroll
    for (int f = 0; f < ${FR}; f++)
        #pragma unroll
        for (int m = 0; m < ${NO/2}; m++) { /* pairs of columns of row lane/4, and then of the row 8 below it */
            const int c = m / 2, width = c < ${8*(VB - 1)} ? 128 : ${LW};
% if IN_FOURS
            const int r = m % 2, chunk = c % 8 / 2 * 2 + (p->lane >> 1 & 1);
            const uint at = c / 8 * ${BQ*128} + p->warp * ${MR} * width + place(16 * f + 8 * r + p->lane / 4, chunk, width);
            *(__local uint *)(p->memory + at + 8 * (p->lane & 1) + 4 * (c % 2)) = ${ROUNDED_O}(out[f * ${NO} + ${PAIR_X}], out[f * ${NO} + ${PAIR_Y}]);
% else
            const uint at = c / 8 * ${BQ*128} + p->warp * ${MR} * width + place(16 * f + 8 * (m % 2) + p->lane / 4, c % 8, width);
            *(__local uint *)(p->memory + at + 4 * (p->lane & 3)) = ${ROUNDED_O}(out[f * ${NO} + 2 * m], out[f * ${NO} + 2 * m + 1]);
% end
        }
    warp_sync();
% for c in 0..VB
% let W = c == VB - 1 ? LW : 128
    put_box(o + ${64*c}, ${HOW_IT_IS}, ${SPLIT ? "p" : "p->lane"}, p->memory + ${c*BQ*128} + p->warp * ${MR*W}, ${W}, ${PARTS_V > 1 ? "p->columns - " : ""}${PARTS_V > 1 ? 64*c : PART_V - 64*c});
% end
}
% end
