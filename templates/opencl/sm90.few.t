%# Few queries over narrow keys and values, which go from the ring to the tensor cores by way of registers alone. Each warp has all 16 rows
%# of a slice and STRIP keys of each tile, which it widens by itself; it has maxima, sums and output of its own until all keys of a unit
%# are done. For a product it does not matter which columns a work-item has, if they are the same on both sides: so it takes four stored
%# numbers of a row at a time, and columns of output come in the order that the head of the file says.
%# Of four columns the first and the third come first where numbers of blocks do.
% let FIRST_Q = RAW ? "((y.x & 0xffff) | y.y << 16)" : "y.x"
% let SECOND_Q = RAW ? "(y.x >> 16 | (y.y & 0xffff0000u))" : "y.y"
% let NEXT = RAW ? "the next but one" : "the next"

/* What row lane/4 + 8*r of the queries has in columns 16*c + 4*(lane%4) and the three behind. */
INLINED uint2 query_at(const struct worker *x, int c, int r)
{
    const uint shared = x->shared;
    __local const uchar *const rows = x->memory + (Q_AT(0, x->nq) - shared) + x->lane / 4 * 128 + (x->lane & 1) * 8;
    return *(__local const uint2 *)(rows + 1024 * r + c / 4 * ${Q_BOX} + (((c % 4 * 2 + (x->lane >> 1 & 1)) ^ x->lane / 4) << 4));
}

% if FITS
/* What the lane's two rows of queries are multiplied by, so that they fit f16: the power of two that brings a row's largest number to at
 * least 2**14, and below 2**15; unit receives the inverse powers. */
INLINED void fit_queries(float *by, float *unit, const struct worker *x)
{
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        int top = 0;
        #pragma unroll
        for (int c = 0; c < ${HD/16}; c++) {
            const uint2 y = query_at(x, c, r);
            top = larger(larger(top, y.x), y.y);
        }
        top = max(top, as_int(across(as_float(top), 1)));
        top = max(top, as_int(across(as_float(top), 2)));
        const int power = min(141 - (top >> 7), 120);
        by[r] = as_float((127 + power) << 23), unit[r] = as_float((127 - power) << 23);
    }
}

% end
/* The queries as left operands${FITS ? ", in f16" : ""}: word 4*c + r has columns 16*c + 4*(lane%4) and ${NEXT} of row lane/4 + 8*r, and
% if SHARED_FEW
 * word 4*c + 2 + r the two behind them. All warps have them in one place, where they are until the last of the unit's keys. */
#define QUERIES_AT ((__local uint4 *)(memory + ${AT_SCALES + 128*WARPS}))
INLINED void take_queries(const struct worker *x, ${FITS ? "float *unit, " : ""}int negative)
{
    __local uchar *const memory = x->memory;
% else
 * word 4*c + 2 + r ${RAW ? "those behind each" : "the two behind them"}. */
INLINED void take_queries(uint *q, const struct worker *x, ${FITS ? "float *unit, " : ""}int negative)
{
% end
% if FITS
    float by[2];
    fit_queries(by, unit, x);
% end
% if SHARED_FEW
    for (int c = x->strip; c < ${HD/16}; c += ${WARPS}) {
        uint q[4];
% else
    #pragma unroll
    for (int c = 0; c < ${HD/16}; c++)
% end
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint2 y = query_at(x, c, r);
% let Q_WORD = SHARED_FEW ? "r" : "4 * c + r"
% if FITS
            q[${Q_WORD}] = fitted(${FIRST_Q}, negative ? -by[r] : by[r]), q[${Q_WORD} + 2] = fitted(${SECOND_Q}, negative ? -by[r] : by[r]);
% else
            q[${Q_WORD}] = ${FIRST_Q} ^ (negative ? 0x80008000 : 0), q[${Q_WORD} + 2] = ${SECOND_Q} ^ (negative ? 0x80008000 : 0);
% end
        }
% if SHARED_FEW
        QUERIES_AT[32 * c + x->lane] = ${UINT4}(q[0], q[1], q[2], q[3]);
    }
    named_sync(3, ${32*WARPS});
% end
}

% if RAW
#define K_SCALES(x) ((__local float *)((x)->memory + ${AT_STRIPS}) + (x)->strip * ${STRIP*max(HD, HDV)/32})
#define V_SCALES(x) K_SCALES(x)
% let SCALES_APART = STRIP
% include "opencl/sm.blocks.t"

/* Puts the scales of the warp's rows of a place where products read them, with zeros from row `end` on; the largest one's magnitude. */
INLINED float settle_scales(const struct worker *x, uint n, const int blocks, int end)
{
    const uint shared = x->shared;
    __local const uchar *const place = x->memory + (PLACE_AT(n) - shared);
    __local const int *const begins = (__local const int *)(x->memory + (PAIRS_AT(n) - shared)) + STRIP * x->strip;
    int top = 0;
    warp_sync(); /* all have read those that were there */
    #pragma unroll
    for (int i = 0; i < STRIP * blocks; i += 32) {
        const int key = (i + x->lane) % STRIP, block = (i + x->lane) / STRIP;
        if (STRIP * blocks % 32 != 0 && block >= blocks)
            continue;
        const float y = key < end ? of_f16(*(__local const ushort *)(place + begins[key] + block * ${UNIT})) : 0.0f;
        K_SCALES(x)[i + x->lane] = y;
        top = max(top, as_int(fabs(y)));
    }
    warp_sync();
    return as_float(most_in_warp(top));
}

/* Numbers of two places in blocks, as open_bytes has them: of the first 16 columns, and then of the last 16. Bytes lie at any even place. */
INLINED void open_block(uint *y, __local const uchar *low, __local const uchar *high)
{
    open_bytes(y, *(__local const ushort *)low, *(__local const ushort *)high);
% if DTYPE_KV == "q8_0"
    open_bytes(y + 2, *(__local const ushort *)(low + 16), *(__local const ushort *)(high + 16));
% end
}

/* S = Q K^T of the warp's keys in a place of the ring, which their scales multiply. */
INLINED void strip_scores(float *s, const uint *q, const struct worker *x, uint n, const int rows)
{
    const uint shared = x->shared;
    __local const uchar *const place = x->memory + (PLACE_AT(n) - shared) + 2 + 4 * (x->lane & 3);
    __local const int *const begins = (__local const int *)(x->memory + (PAIRS_AT(n) - shared)) + STRIP * x->strip + x->lane / 4;
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] = 0.0f;
    #pragma unroll
    for (int m = 0; m < ${STRIP/16}; m++) { /* of 16 keys */
        __local const uchar *const keys[2] = {place + begins[16 * m], place + begins[16 * m + 8]};
        #pragma unroll
        for (int c = 0; c < ${HD/32}; c++) { /* and of a block of columns */
            float t[8];
            #pragma unroll
            for (int e = 0; e < 2; e++) {
                uint y[4];
                open_block(y, keys[e] + c * ${UNIT}, keys[e] + c * ${UNIT} + 2);
                t[4 * e] = t[4 * e + 1] = t[4 * e + 2] = t[4 * e + 3] = 0.0f;
                multiply(t + 4 * e, q + 8 * c, y);
                multiply(t + 4 * e, q + 8 * c + 4, y + 2);
            }
            add_block(s, t, x, c, m, rows);
        }
    }
}

/* O += P V of the warp's keys; probabilities are multiplied by the scales of a block of columns before they are rounded. */
INLINED void strip_values(float *out, const float *s, const struct worker *x, uint n, const int rows)
{
    const uint shared = x->shared;
    __local const uchar *const place = x->memory + (PLACE_AT(n) - shared) + 2 + x->lane / 4 * 2;
    __local const int *const begins = (__local const int *)(x->memory + (PAIRS_AT(n) - shared)) + STRIP * x->strip + 2 * (x->lane & 3);
    #pragma unroll
    for (int m = 0; m < ${STRIP/16}; m++) {
        __local const uchar *const values[4] = {place + begins[16 * m], place + begins[16 * m + 1], place + begins[16 * m + 8], place + begins[16 * m + 9]};
        #pragma unroll
        for (int c = 0; c < ${HDV/32}; c++) {
            uint first[4], last[4], p[4]${RESTS ? ", rest[4]" : ""}; /* of the first eight keys and of the others */
            weigh_block(p, ${RESTS ? "rest, " : ""}s, 1.0f, x, c, m, rows);
            open_block(first, values[0] + c * ${UNIT}, values[1] + c * ${UNIT});
            open_block(last, values[2] + c * ${UNIT}, values[3] + c * ${UNIT});
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint y[2] = {first[i], last[i]};
                multiply(out + 16 * c + 4 * i, p, y);
% if RESTS
                multiply(out + 16 * c + 4 * i, rest, y);
% end
            }
        }
    }
}
% else
/* S = Q K^T of the warp's keys in a tile of the ring. */
INLINED void strip_scores(float *s, ${SHARED_FEW ? "" : "const uint *q, "}const struct worker *x, uint k)
{
% if SHARED_FEW
    __local uchar *const memory = x->memory;
% end
    const uint row = k + (STRIP * x->strip + (x->lane & 15)) * 128;
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = 0.0f;
    #pragma unroll
    for (int n = 0; n < ${STRIP/16}; n++) /* of 16 keys */
        #pragma unroll
        for (int c = 0; c < ${HD/16}; c += 2) { /* and of twice 16 columns */
            const int chunk = c + (c + 1 < ${HD/16} ? x->lane / 16 : 0);
% if SHARED_FEW
            const uint4 y = QUERIES_AT[32 * c + x->lane], z = QUERIES_AT[32 * (c + 1 < ${HD/16} ? c + 1 : c) + x->lane];
            const uint q[8] = {y.x, y.y, y.z, y.w, z.x, z.y, z.z, z.w};
% end
            add_scores(s + 8 * n, 0, q${SHARED_FEW ? "" : " + 4 * c"}, row + n * 2048 + c / 8 * ${BK*128} + ((chunk % 8 ^ (x->lane & 7)) << 4),
                c + 1 < ${HD/16} ? 4 : 2);
        }
}

/* O += P V of the warp's keys. */
INLINED void strip_values(float *out, const uint *p, ${RESTS ? "const uint *rest, " : ""}const struct worker *x, uint v)
{
    const uint row = v + (STRIP * x->strip + (x->lane & 15)) * 128;
    #pragma unroll
    for (int n = 0; n < ${STRIP/16}; n++)
        #pragma unroll
        for (int c = 0; c < ${HDV/16}; c += 2) {
            const int chunk = c + (c + 1 < ${HDV/16} ? x->lane / 16 : 0);
            add_values(out + 8 * c, p + 4 * n, ${RESTS ? "rest + 4 * n, " : ""}0, row + n * 2048 + c / 8 * ${BK*128} + ((chunk % 8 ^ (x->lane & 7)) << 4),
                c + 1 < ${HDV/16} ? 4 : 2);
        }
}
% if DTYPE_KV == "fp8"

/* Sets the warp's values of a tile to zero from row `end` on: a NaN may lie there, which P = 0 would not undo. */
INLINED void clear_strip(const struct worker *x, uint v, int end)
{
    const uint first = v + STRIP * x->strip * 128;
    for (int at = max(end - STRIP * x->strip, 0) * 128 + 16 * x->lane; at < STRIP * 128; at += 512)
        for (int c = 0; c < ${ceil_div(HDV, 128)}; c++)
            zero16(first + c * ${BK*128} + at);
    warp_sync();
    shared_written(); /* before the copy engine writes there */
}
% end

/* Multiplies probabilities by the scales of their values, as take_scales has them, and returns what it says. */
INLINED float scale_strip(float *s, struct worker *x)
{
    __local uchar *const memory = x->memory;
    const uint shared = x->shared;
    float y[${STRIP/4}];
    const float by = take_scales(y, (__local const float *)(memory + (PAIRS_AT(x->nk) - shared)) + ${STRIP_FROM}2 * (x->lane & 3), &x->unit);
    weigh(s, y, rows_from_here(x));
    return by;
}
% end

/* All keys of tile n are done: puts together what the warps have, and leaves it for the splits' merge or, if there is one split, in
 * memory. Whoever comes last with a split merges them all; who stays, since there is no other tile, waits a while and helps. */
INLINED void leave_unit(float *out, const struct worker *x, uint n, struct row_states *rows, const int stays,
    const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(0, n);
    __local float *const states = (__local float *)(memory + ${AT_SCALES}), *const columns = states + ${2*16*WARPS};
    const int whole = at->splits == 1, have = ${SLICED_ROWS} * ${PACKED ? "at->heads" : "x->d.heads"}, row = x->lane / 4, item = 32 * x->strip + x->lane;
    const int slice = slice_at(at, &x->d, a);
    __global uint *const count = COUNTERS(slice);
    const uint began = whole ? 0 : counted(count + 1);
    __global float *const part = x->parts + (whole ? 0 : part_at(slice, at->split, &x->d));
    float by[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
        if ((x->lane & 3) == 0)
            *(__local float2 *)(states + 2 * (16 * x->strip + row + 8 * r)) = ${FLOAT2}(rows->top[r], rows->sum[r]);
    }
    named_sync(3, ${32*WARPS});
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = row + 8 * r;
        float top = -INFINITY, sum = 0.0f;
        for (int w = 0; w < ${WARPS}; w++)
            top = fmax(top, states[2 * (16 * w + i)]);
        top = finite(top);
        for (int w = 0; w < ${WARPS}; w++)
            sum = fma(exp2_fast((states[2 * (16 * w + i)] - top) * x->scale), states[2 * (16 * w + i) + 1], sum);
        by[r] = exp2_fast((rows->top[r] - top) * x->scale) * x->unit;
% if not ADDS
        top *= x->scale;
% end
        const struct row y = row_at(i, at, &x->d, a);
        if (whole) {
% if SINK
            by[r] *= inverse_with_sink(sum, top, sinks[at->g * x->d.group + some_row_at(i, at, &x->d, a).h]${LOG2E});
% else
            by[r] *= sum == 0.0f ? 0.0f : reciprocal(sum);
% end
        }
        if (x->strip == 0 && (x->lane & 3) == 0 && y.is)
            leave_state(sum, top, &y, whole, x->parts + state_at(slice, at->split, i, &x->d), at, &x->d, a, lse);
    }
    #pragma unroll
    for (int c = 0; c < ${HDV/16}; c += 2) { /* 32 columns of all rows at a time */
        #pragma unroll
        for (int k = 0; k < (c + 1 < ${HDV/16} ? 2 : 1); k++)
            #pragma unroll
            for (int r = 0; r < 2; r++) {
                const float *const y = out + 8 * (c + k) + 2 * r;
                if (8 * r < have)
                    *(__local float4 *)(columns + (16 * x->strip + row + 8 * r) * 32 + (k ^ (row & 1)) * 16 + 4 * (x->lane & 3)) =
                        ${FLOAT4}(y[0] * by[r], y[4] * by[r], y[1] * by[r], y[5] * by[r]);
            }
        named_sync(3, ${32*WARPS});
        for (int t = item; t < have * (c + 1 < ${HDV/16} ? 8 : 4); t += ${32*WARPS}) {
            const int quads = c + 1 < ${HDV/16} ? 8 : 4, r = t / quads, quad = t % quads, column = 16 * c + 4 * quad;
            __local const float4 *const from = (__local const float4 *)(columns + r * 32 + (quad / 4 ^ (r & 1)) * 16 + quad % 4 * 4);
            float4 y = from[0];
            for (int w = 1; w < ${WARPS}; w++) {
                const float4 z = from[w * 128];
                y.x += z.x, y.y += z.y, y.z += z.z, y.w += z.w;
            }
            if (!whole)
                *(__global float4 *)(part + r * ${HDV} + column) = y;
            else {
                const struct row z = row_at(r, at, &x->d, a);
                __global ${TYPE_O} *const to = x->merged + a->o_at + at->${PACKED ? "qb" : "b"} * a->o_stride[0] +
                    (at->g * x->d.group + z.h) * a->o_stride[1] + ${PACKED ? "(at->q_from + z.i)" : "z.i"} * a->o_stride[2] + column;
                if (z.is) {
% if WIDE_O
                    to[0] = y.x, to[1] = y.y, to[2] = y.z, to[3] = y.w;
% else
                    ((__global uint *)to)[0] = ${ROUNDED_O}(y.x, y.y), ((__global uint *)to)[1] = ${ROUNDED_O}(y.z, y.w);
% end
                }
            }
        }
        named_sync(3, ${32*WARPS});
    }
    if (whole)
        return;
    const int lead = item == 0;
    int last = 0, complete = 0;
    if (lead)
        last = comes_last(count, began, at->splits);
    last = named_any(3, ${32*WARPS}, last);
    for (int polls = 0; lead && stays && !last && !complete && polls < 64; polls++)
        complete = all_came(count, began, at->splits);
    if (last || (stays && named_any(3, ${32*WARPS}, complete)))
        merge(x->parts + part_at(slice, 0, &x->d), anew(x->lane), last && x->strip < 4 ? x->strip : -1, merging(count, began), at, &x->d, a, x->merged, lse${SINK ? ", sinks" : ""});
}

/* All tiles of this work-group. */
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""}${MODIFIES ? "," : ")"}
% if MODIFIES
    const struct attn_cl_features *f)
% end
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[${NS}], out[${NO}], fix[2]${FITS ? ", unit[2]" : ""};
% if RAW
    uint q[${HD/4}];
% else
    uint ${SHARED_FEW ? "" : "q["}${SHARED_FEW ? "" : HD/4}${SHARED_FEW ? "" : "], "}p[${NS/2}]${RESTS ? ", rest[" : ""}${RESTS ? NS/2 : ""}${RESTS ? "]" : ""};
% end
    await(Q_FULL(0, x->nq), Q_ROUND(x->nq));
    while (TILE_AT(0, x->nq)->count > 0) {
        struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
        const int from = TILE_AT(0, x->nq)->from;
        take_queries(${SHARED_FEW ? "" : "q, "}x, ${FITS ? "unit, " : ""}${NEGATES ? "a->scale < 0.0f" : "0"});
        warp_sync();
        if (x->lane == 0)
            arrive(Q_EMPTY(0, x->nq));
        set_ends(x, TILE_AT(0, x->nq));
        x->unit = 1.0f;
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            out[n] = 0.0f;
        for (int j = from + TILE_AT(0, x->nq)->count - 1; j >= from; j--) {
% if MASKS_AHEAD
            uint masks[${NS/2}];
            masks_of_tile(masks, x, j, a, f);
% end
            await(PLACE_FULL(x->nk), PLACE_ROUND(x->nk));
% if RAW
            const int end = TILE_AT(0, x->nq)->keys - j * ${BK} - STRIP * x->strip;
            settle_scales(x, x->nk, ${HD/32}, end);
            if (rows_from_here(x) > 8)
                strip_scores(s, q, x, x->nk, 16);
            else
                strip_scores(s, q, x, x->nk, 8);
% if UNITS
            #pragma unroll
            for (int n = 0; n < ${NS}; n++)
                s[n] *= unit[n / 2 % 2];
% end
% else
            strip_scores(s, ${SHARED_FEW ? "" : "q, "}x, PLACE_AT(x->nk));
            scale_scores(s, x${UNITS ? ", unit" : ""});
% end
% if SOFTCAP
            cap(s, x->ratio, rows_from_here(x));
% end
% if MODIFIES
            modify_tile(s, x, j, a, f${MASKS_AHEAD ? ", masks" : ""});
% end
            mask_edge(s, x, j);
            const int grown = softmax(s, &rows, fix, x->scale, rows_from_here(x));
            warp_sync();
            if (x->lane == 0)
                arrive(PLACE_EMPTY(x->nk));
            x->nk++;
            await(PLACE_FULL(x->nk), PLACE_ROUND(x->nk));
% if RAW
            float inverse;
            const float by = fit_scales(settle_scales(x, x->nk, ${HDV/32}, end), &x->unit, &inverse);
            #pragma unroll
            for (int n = 0; n < ${NS}; n++)
                s[n] *= inverse;
% else
            const float by = scale_strip(s, x);
            round_all(p, s);
% if RESTS
            round_rest(rest, s, p);
% end
% end
            if (grown || by != 1.0f) {
                fix[0] = grown ? fix[0] * by : by, fix[1] = grown ? fix[1] * by : by;
                rescale(out, fix);
            }
% if DTYPE_KV == "fp8"
            if (TILE_AT(0, x->nq)->keys < j * ${BK} + ${STRIP_FROM}STRIP)
                clear_strip(x, PLACE_AT(x->nk), TILE_AT(0, x->nq)->keys - j * ${BK});
% end
% if RAW
            if (rows_from_here(x) > 8)
                strip_values(out, s, x, x->nk, 16);
            else
                strip_values(out, s, x, x->nk, 8);
% else
            strip_values(out, p, ${RESTS ? "rest, " : ""}x, PLACE_AT(x->nk));
% end
            warp_sync();
            if (x->lane == 0)
                arrive(PLACE_EMPTY(x->nk));
            x->nk++;
        }
        x->nq++;
        await(Q_FULL(0, x->nq), Q_ROUND(x->nq));
        leave_unit(out, x, x->nq - 1, &rows, TILE_AT(0, x->nq)->count == 0, a, lse${SINK ? ", sinks" : ""});
    }
}
