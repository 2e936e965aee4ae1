%# What scores of narrow keys are multiplied by. How queries fit f16 stands in sm.narrow.t.

% if not FEW
/* Whether all rows of a head have the same scale, as those of a tensor or of a head do. Then nothing is multiplied tile by tile: the
 * scale of keys goes with the scores' own, and that of values with what output is multiplied by. */
INLINED int is_even(const long *stride)
{
    return stride[2] == 0${PAGED or IN_PAGES ? " && stride[0] == 0" : ""};
}
/* That scale, for a tile of queries. */
INLINED float even_scale(__global const float *scales, long at, const long *stride, __local volatile const struct tile *x)
{
    return x->keys > 0 ? scales[at + x->g * stride[1]${PAGED or IN_PAGES ? "" : " + x->"}${PAGED or IN_PAGES ? "" : SCALES_B}${PAGED or IN_PAGES ? "" : " * stride[0]"}] : 1.0f;
}

% end
% if WIDENED
/* Where a record has the scale of a tile's key: a work-item has eight scores of the same row of 16 keys, whose scales lie side by side. */
INLINED int place_of_scale(int key)
{
    return (key & ~15) | (key << 1 & 12) | (key >> 2 & 2) | (key & 1);
}
/* Multiplies scores by the scales of their keys${BOUNDED ? ", and by the scale of all" : ""}, after the tile of these keys was counted. */
INLINED void scale_scores(float *s, const struct worker *x)
{
    __local uchar *const memory = x->memory;
    if (x->even_k) {
% if not TURNS
        #pragma unroll
        for (int m = 0; m < ${NS}; m++)
            s[m] *= x->key_scale;
% end
        return;
    }
    __local const float4 *const scales = (__local const float4 *)RECORD_AT(x->nk - 1) + (x->lane & 3);
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 8) {
        const float4 y = scales[m / 2];
        s[m] *= y.x, s[m + 1] *= y.y, s[m + 2] *= y.x, s[m + 3] *= y.y;
        s[m + 4] *= y.z, s[m + 5] *= y.w, s[m + 6] *= y.z, s[m + 7] *= y.w;
    }
}
% else
/* Multiplies scores by the scales of their keys${UNITS ? " and the units of their queries" : ""}, before the tile of these keys is counted. */
INLINED void scale_scores(float *s, const struct worker *x${UNITS ? ", const float *unit" : ""})
{
    __local uchar *const memory = x->memory;
% if not FEW
    if (x->even_k) {
% if not FOLDS
        #pragma unroll
        for (int m = 0; m < ${NS}; m++)
            s[m] *= ${UNITS ? "unit[m / 2 % 2]" : "x->key_scale"};
% end
        return;
    }
% end
% if FEW
    const uint shared = x->shared;
    __local const float *const scales = (__local const float *)(memory + (PAIRS_AT(x->nk) - shared)) + ${STRIP_FROM}2 * (x->lane & 3);
% else
    __local const float *const scales = SCALES_AT(x->nk) + 2 * (x->lane & 3);
% end
% if SKIPS
    const int rows = rows_from_here(x);
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int m = 0; m < ${NS}; m += 4) {
                const float2 y = *(__local const float2 *)(scales + 2 * m);
                s[m + 2 * r] *= y.x${UNITS ? " * unit[r]" : ""}, s[m + 2 * r + 1] *= y.y${UNITS ? " * unit[r]" : ""};
            }
% else
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m);
% if not UNITS
        s[m] *= y.x, s[m + 1] *= y.y, s[m + 2] *= y.x, s[m + 3] *= y.y;
% else
        s[m] *= y.x * unit[0], s[m + 1] *= y.y * unit[0], s[m + 2] *= y.x * unit[1], s[m + 3] *= y.y * unit[1];
% end
    }
% end
}
% end
% if WIDENED

% if RESTS
% include "opencl/sm90.rests.t"
% else
/* The values of these keys, like their scales, have a power of two of their own, unless all of a head's have one scale. It returns that
 * of the tile before over this one's: what output so far is to be multiplied by. */
INLINED float next_unit(struct worker *x)
{
    const float before = x->unit;
    __local uchar *const memory = x->memory;
    x->unit = x->even_v ? x->value_scale : RECORD_AT(x->nk - 1)[${BK}];
    return x->even_v ? 1.0f : before * as_float((254 << 23) - as_int(x->unit));
}
% end
% if BOUNDED

/* Whether a score may be so far above its row's maximum so far that this matters; the largest of a tile's scales, times the largest score
 * before it is multiplied, is a bound. It says yes where a scale is negative, and of rows that have seen no key. Scores are compared by
 * their bits, as integers, which are negative for those below 0. */
INLINED int may_have_grown(const float *s, const struct row_states *rows, float largest)
{
    int top[4] = {0, 0, 0, 0}; /* two chains for each row */
    #pragma unroll
    for (int n = 0; n < ${NS}; n += 2)
        top[n / 2 % 4] = most_bits(top[n / 2 % 4], s[n], s[n + 1]);
    int grown = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++)
        grown |= !(fma(as_float(max(top[r], top[r + 2])), largest, -rows->top[r]) <= 8.0f); /* nor if it is not a number */
    return in_warp(grown);
}
%# Of so many times 16 keys registers have room for the scales, beside the scores that are being made.
% let SCALES_EARLY = min(BK/16, WG == 3 ? 1 : 4)
/* Reads the largest scale of the tile of keys that is being multiplied, and the first of its scales. */
INLINED void early_scales(float *largest, float4 *scales, const struct worker *x)
{
    __local uchar *const memory = x->memory;
    __local const float *const record = RECORD_AT(x->nk);
    if (x->even_k)
        return;
    *largest = record[${BK + 1}];
    #pragma unroll
    for (int n = 0; n < ${SCALES_EARLY}; n++)
        scales[n] = ((__local const float4 *)record)[4 * n + (x->lane & 3)];
}
/* Turns scores into exponentials, as softmax does, where each key has a scale. Few tiles have scores that are above the maximum, or that
 * are masked, and of these alone scores are multiplied before they are compared. Those of others are multiplied as the maximum is
 * subtracted, by one instruction. */
INLINED int softmax_of_rows(float *s, struct row_states *rows, float *fix, float largest, const float4 *early, const struct worker *x, int j)
{
    __local uchar *const memory = x->memory;
    if (is_at_edge(x, j) || may_have_grown(s, rows, largest)) {
        scale_scores(s, x);
        mask_edge(s, x, j);
        return softmax(s, rows, fix, 1.0f);
    }
    __local const float4 *const scales = (__local const float4 *)RECORD_AT(x->nk - 1) + (x->lane & 3);
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 8) {
        const float4 four = m / 8 < ${SCALES_EARLY} ? early[m / 8] : scales[m / 2];
        const float y[4] = {four.x, four.y, four.z, four.w};
        #pragma unroll
        for (int n = 0; n < 8; n++)
            s[m + n] = exp2_fast(fma(s[m + n], y[n / 4 * 2 + n % 2], -rows->top[n / 2 % 2]));
        rows->sum[0] += s[m] + s[m + 1], rows->sum[0] += s[m + 4] + s[m + 5];
        rows->sum[1] += s[m + 2] + s[m + 3], rows->sum[1] += s[m + 6] + s[m + 7];
    }
    return 0;
}
% end
% end
