%# Widens narrow keys and values to f16: the warps beside the producer take tiles from the ring, and consumers wait for what these warps
%# write. What queries and scores need for it stands here, too.

/* A work-item's 16 columns of eight rows: t counts boxes of 64 columns first, of which two are side by side in a swizzled row. */
INLINED uint4 widen_read(__local uchar *from, uint t, const uint boxes, uint row)
{
    const uint rows = t / boxes, c = t - rows * boxes;
    return *(__local const uint4 *)(from + (c >> 1) * ${BK*128} + rows * 1024 + (c & 1 ? row & 4 ? -64 : 64 : 0));
}

/* Widens rows of so many columns, from boxes of 128 narrow columns to boxes of 64 wide ones, both swizzled, with zeros from
 * row `end` on. A warp takes eight rows of 64 columns at once, and a work-item 16 columns of one row. Of eight neighbouring
 * work-items four have row r and four have row r^5, so that the eight use all banks, both when they read and when they write. */
INLINED void widen_tile(__local uchar *from, __local uchar *to, const int columns, int end, int item)
{
    const uint boxes = (columns + 63) / 64, k = item & 3, row = (item >> 3 & 3) ^ (item & 4 ? 5 : 0);
    const int near = row & 1 ? -16 : 16; /* from the first 16 bytes to the second */
    from += row * 128 + ((k ^ row) << 4), to += row * 128 + ((2 * k ^ row) << 4);
    /* What comes next is read before this is written: the compiler does not know that the two are apart. */
    uint4 next = widen_read(from, min((uint)item / 32, boxes * ${BK/8} - 1), boxes, row);
    #pragma unroll 2
    for (uint t = item / 32; t < ${BK/8} * boxes; t += ${WIDENERS}) {
        const uint rows = t / boxes, c = t - rows * boxes;
        const uint4 x = next;
        next = widen_read(from, min(t + ${WIDENERS}, boxes * ${BK/8} - 1), boxes, row);
        uint y[8];
        widened(y, x.x), widened(y + 2, x.y), widened(y + 4, x.z), widened(y + 6, x.w);
        if (columns % 64 != 0 && (int)(64 * c + 16 * k) >= columns)
            continue;
        __local uchar *const place = to + c * ${BK*128} + rows * 1024, *const beside = place + near;
        *(__local uint4 *)place = ${UINT4}(y[0], y[1], y[2], y[3]);
        *(__local uint4 *)beside = ${UINT4}(y[4], y[5], y[6], y[7]);
    }
    if (end < ${BK}) /* which is seldom */
        for (uint t = item / 32; t < ${BK/8} * boxes; t += ${WIDENERS}) {
            const uint rows = t / boxes, c = t - rows * boxes;
            __local uchar *const place = to + c * ${BK*128} + rows * 1024, *const beside = place + near;
            if ((int)(8 * rows + row) >= end && (columns % 64 == 0 || (int)(64 * c + 16 * k) < columns)) {
                *(__local uint4 *)place = ${UINT4}(0, 0, 0, 0);
                *(__local uint4 *)beside = ${UINT4}(0, 0, 0, 0);
            }
        }
}

% if INVARIANT
/* Copies a tile's scales to where consumers read them. */
INLINED void widen_scales(__local const float *pairs, __local float *scales, int item)
{
    for (int t = item; t < ${2*BK}; t += ${32*WIDENERS})
        scales[t] = pairs[t];
}
% else
% if RESTS
/* Copies a tile's scales to where consumers read them. Those of keys stay as they are. Those of values, which the first warp copies,
 * are divided by a power of two that none of them exceeds, which stands behind them; unless all are the same, which then stands there
 * itself. Next to it stands which of both it is. */
INLINED void widen_scales(__local const float *pairs, __local float *scales, int keys, int item)
% else
/* Copies a tile's scales to where consumers read them. Those of keys stay as they are. Those of values, which the first warp copies,
 * are divided by a power of two that none of them exceeds, and become f16, which has room for their products with probabilities; the
 * power stands behind them. */
INLINED void widen_scales(__local const float *pairs, __local float *scales, int item)
% end
{
    if (item >= 32) {
        for (int t = item - 32; t < ${BK}; t += ${32*WIDENERS - 32})
            scales[t] = pairs[t];
        return;
    }
    float top = 0.0f;
% if RESTS
    const float first = pairs[${BK}];
    int some = !(fabs(first) > 1e-18f && fabs(first) < 1e18f);
    for (int t = item; t < ${BK}; t += 32) {
        top = fmax(top, fabs(pairs[${BK} + t]));
        some |= t < keys && pairs[${BK} + t] != first;
    }
    some = in_warp(some);
% else
    for (int t = item; t < ${BK}; t += 32)
        top = fmax(top, fabs(pairs[${BK} + t]));
% end
    #pragma unroll
    for (int n = 1; n < 32; n *= 2)
        top = fmax(top, across(top, n));
    const int power = min(max((as_int(top) >> 23) + 1, 67), 253); /* as a biased exponent */
    const float by = as_float((254 - power) << 23);
% if RESTS
    for (int t = item; t < ${BK}; t += 32)
        scales[${BK} + t] = pairs[${BK} + t] * by;
    if (item == 0)
        scales[${2*BK}] = some ? as_float(power << 23) : first, ((__local int *)scales)[${2*BK + 1}] = some;
% else
    for (int t = item; t < ${BK/2}; t += 32)
        ((__local uint *)scales)[${BK} + t] = rounded(pairs[${BK} + 2 * t] * by, pairs[${BK} + 2 * t + 1] * by);
    if (item == 0)
        scales[${BK + BK/2}] = as_float(power << 23);
% end
}
% end

/* Widens all tiles of this work-group, with work-items 0 to ${32*WIDENERS - 1}; even: scales are no matter of tiles. */
INLINED void widen_all(uint shared, __local uchar *memory, int even, int item)
{
    const int lane = item & 31;
    uint nk = 0, nv = 0;
    if (lane == 0)
        arrive(V_FULL(nv)); /* the first step has no values to multiply, but waits for some all the same */
    nv++;
    for (uint n = 0;; n++) {
        await(PLACE_FULL(n), PLACE_ROUND(n));
        const int what = NOTE_AT(n)[0], end = NOTE_AT(n)[1];
        __local uchar *const from = memory + (PLACE_AT(n) - shared);
        if (what == END)
            break;
        if (what == KEYS) {
            await(K_EMPTY(nk), ROUND(nk) ^ 1);
            __local const float *const pairs = (__local const float *)(memory + (PAIRS_AT(n) - shared));
            if (!even)
                widen_scales(pairs, SCALES_AT(nk), ${RESTS and not INVARIANT ? "end, " : ""}item);
            widen_tile(from, memory + (K_AT(nk) - shared), ${HD}, ${BK}, item);
        } else {
            await(V_EMPTY(nv), ROUND(nv) ^ 1);
            widen_tile(from, memory + (V_AT(nv) - shared), ${HDV}, end, item);
        }
        shared_written();
        warp_sync();
        if (lane == 0) {
            arrive(what == KEYS ? K_FULL(nk) : V_FULL(nv));
            arrive(PLACE_EMPTY(n));
        }
        nk += what == KEYS, nv += what != KEYS;
    }
}

% if FITS
% include "opencl/sm90.fit.t"

% end
% if INVARIANT
/* Turns probabilities times the scales of their values into f16${RESTS ? ", in two parts" : ""}, once the tile of keys is counted; each row has a unit of its own. by: what
 * output so far is to be multiplied by. */
INLINED void scale_values(float *s, uint *p, ${RESTS ? "uint *rest, " : ""}struct worker *x, float *by)
{
    __local uchar *const memory = x->memory;
    if (x->even_v) {
        x->unit[0] = x->unit[1] = x->value_scale, by[0] = by[1] = 1.0f;
        round_all(p, s);
% if RESTS
        x->has_rest = 0;
% end
        return;
    }
    weigh_rows(s, SCALES_AT(x->nk - 1) + ${BK} + 2 * (x->lane & 3), x->unit, by);
    round_all(p, s);
% if RESTS
    round_rest(rest, s, p);
    x->has_rest = 1;
% end
}
% elif RESTS
% include "opencl/sm90.rests.t"
% else
/* Multiplies probabilities in f16 by the scales of their values, which were divided by a power of two, once the tile of keys is counted.
 * It returns the power of the tile before over this one's: what output so far is to be multiplied by. */
INLINED float scale_values(uint *p, struct worker *x)
{
    __local uchar *const memory = x->memory;
    __local const uint *const scales = (__local const uint *)SCALES_AT(x->nk - 1) + ${BK} + (x->lane & 3);
    if (x->even_v) {
        x->unit = x->value_scale;
        return 1.0f;
    }
    const float unit = SCALES_AT(x->nk - 1)[${BK + BK/2}], by = x->unit * as_float((254 << 23) - as_int(unit));
    x->unit = unit;
    #pragma unroll
    for (int m = 0; m < ${NS/4}; m++) {
        const uint y = scales[4 * m];
        p[2 * m] = times(p[2 * m], y), p[2 * m + 1] = times(p[2 * m + 1], y);
    }
    return by;
}
% end
