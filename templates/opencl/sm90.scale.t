%# What scores of narrow keys are multiplied by. How queries fit f16 stands in sm.narrow.t.

% if SCALED and not FEW
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
% if K_TWO
% if FITS
% include "opencl/sm90.fit.t"
/* What the queries of this work-item's first or second row of scores were divided by. */
INLINED float unit_of_row(const struct worker *x, int r)
{
    return as_float((x->units >> 8 * r & 255) << 23);
}

% end
/* Multiplies scores by what queries${FITS ? "" : " were"} ${BOUNDED ? "" : "and keys "}were divided by, after the tile of these keys was counted. */
INLINED void scale_scores(float *s, const struct worker *x)
{
% if not BOUNDED
    __local uchar *const memory = x->memory;
    const float of_keys = RECORD_AT(x->nk - 1)[2]${FITS ? ", unit[2] = {unit_of_row(x, 0) * of_keys, unit_of_row(x, 1) * of_keys}" : ""};
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] *= ${FITS ? "unit[m / 2 % 2]" : "of_keys"};
% elif FITS
    if (x->units == 0x7f7f) /* which is mostly so: both are 1 */
        return;
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] *= unit_of_row(x, m / 2 % 2);
% end
}
% elif WIDENED
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
/* The values of these keys${K_TWO ? "" : ", like their scales,"} have a power of two of their own${K_TWO ? "" : ", unless all of a head's have one scale"}. It returns that
 * of the tile before over this one's: what output so far is to be multiplied by. */
INLINED float next_unit(struct worker *x)
{
    const float before = x->unit;
    __local uchar *const memory = x->memory;
% if K_TWO
    x->unit = RECORD_AT(x->nk - 1)[0];
    return before * as_float((254 << 23) - as_int(x->unit));
% else
    x->unit = x->even_v ? x->value_scale : RECORD_AT(x->nk - 1)[${BK}];
    return x->even_v ? 1.0f : before * as_float((254 << 23) - as_int(x->unit));
% end
}
% end
% if BOUNDED

/* The length of this warp's longest query: times that of a key it bounds their score (Cauchy and Schwarz). It is rounded up, and a query
 * with a NaN does not count. */
INLINED float length_of_queries(const struct worker *x)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local const uchar *const mine = memory + (Q_AT(x->w, x->nq) - shared) + (16 * x->warp + x->lane / 4) * 128 + (x->lane & 3) * 32;
    float most = 0.0f;
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = 0.0f;
        #pragma unroll 2
        for (int c = 0; c < ${2*HB}; c++) {
            const uint4 y = *(__local const uint4 *)(mine + 1024 * r + c / 2 * ${Q_BOX} + c % 2 * 16);
            sum = add_squares(add_squares(add_squares(add_squares(sum, y.x), y.y), y.z), y.w);
        }
        sum += across(sum, 1);
        sum += across(sum, 2);
        most = fmax(most, sum${K_TWO and FITS ? " * unit_of_row(x, r) * unit_of_row(x, r)" : ""});
    }
    return root(as_float(most_in_warp(as_int(most))) + 4e-36f) * 1.001f; /* squares below that are lost */
}
/* How long a key may be, now that maxima have changed, so that no score, times the scale, is further than 120 above what stands for its row's
 * maximum: no exponential is infinite then. */
INLINED void set_limit(struct worker *x, const struct row_states *rows, float scale)
{
    const float most = fma(fmin(rows->top[0], rows->top[1]), scale, 120.0f) / (x->length * scale);
    x->limit = as_float(~most_in_warp(~as_int(most))); /* the least: those from 0 on have the order of their bits, and all others are below */
}
/* Exponentials are relative to the maximum of some keys before. Where f16 has no room for one, or would not have for a few more, they
 * and all before are divided by a power of two, and the maximum is that much higher. sum: of these. */
INLINED int lower(float *s, struct row_states *rows, const float *sum, float *fix, float inverse)
{
    const int grown = in_warp(!(fmax(sum[0], sum[1]) <= 32768.0f));
    #pragma unroll
    for (int r = 0; r < 2; r++)
        rows->sum[r] += sum[r];
    if (grown)
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            float top = 0.0f;
            #pragma unroll
            for (int n = 2 * r; n < ${NS}; n += 4)
                top = fmax(top, fmax(s[n], s[n + 1]));
            top = fmax(top, across(top, 1));
            top = fmax(top, across(top, 2));
            const int power = min(max((as_int(top) >> 23) - 127, 0), 126);
            fix[r] = as_float((127 - power) << 23);
            rows->top[r] += (float)power * inverse, rows->sum[r] *= fix[r];
            #pragma unroll
            for (int n = 2 * r; n < ${NS}; n += 4)
                s[n] *= fix[r], s[n + 1] *= fix[r];
        }
    return grown;
}
% if SCALED
%# Of so many times 16 keys registers have room for the scales, beside the scores that are being made.
% let SCALES_EARLY = min(BK/16, WG == 3 ? 1 : 4)
/* Reads what the values of the keys that are being multiplied have as their power of two, the length of the longest key, and the first of
 * their scales. */
INLINED void early_scales(float2 *end, float4 *scales, const struct worker *x)
{
    __local uchar *const memory = x->memory;
    __local const float *const record = RECORD_AT(x->nk);
    *end = *(__local const float2 *)(record + ${BK});
    if (x->even_k)
        return;
    #pragma unroll
    for (int n = 0; n < ${SCALES_EARLY}; n++)
        scales[n] = ((__local const float4 *)record)[4 * n + (x->lane & 3)];
}
/* Turns scores into exponentials, as softmax does, where each key has a scale. In most tiles no score is masked, and none can make an
 * exponential infinite${RESTS ? "" : "; and values have the same power of two as those before"}. There nobody looks for a maximum: one instruction
 * multiplies a score and subtracts what stands for the maximum, and the sums of exponentials tell whether that was too low. */
INLINED int softmax_of_rows(float *s, struct row_states *rows, float *fix, float2 end, const float4 *early, struct worker *x, int j)
{
    __local uchar *const memory = x->memory;
    if (is_at_edge(x, j) || !(end.y <= x->limit)${RESTS ? "" : " || end.x != x->unit"}) {
        scale_scores(s, x);
        mask_edge(s, x, j);
        int grown = softmax(s, rows, fix, 1.0f);
        if (grown)
            set_limit(x, rows, 1.0f);
% if not RESTS
        const float by = next_unit(x);
        if (by != 1.0f) { /* the scales of values were divided by another number */
            fix[0] = grown ? fix[0] * by : by, fix[1] = grown ? fix[1] * by : by;
            grown = 1;
        }
% end
        return grown;
    }
    __local const float4 *const scales = (__local const float4 *)RECORD_AT(x->nk - 1) + (x->lane & 3);
    float sum[2];
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 8) {
        const float4 four = m / 8 < ${SCALES_EARLY} ? early[m / 8] : scales[m / 2];
        const float y[4] = {four.x, four.y, four.z, four.w};
        #pragma unroll
        for (int n = 0; n < 8; n++)
            s[m + n] = exp2_fast(fma(s[m + n], y[n / 4 * 2 + n % 2], -rows->top[n / 2 % 2]));
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const float two = s[m + 2 * r] + s[m + 2 * r + 1];
            sum[r] = m == 0 ? two : sum[r] + two;
            sum[r] += s[m + 2 * r + 4] + s[m + 2 * r + 5];
        }
    }
    const int grown = lower(s, rows, sum, fix, 1.0f);
    if (grown)
        set_limit(x, rows, 1.0f);
    return grown;
}
% end
% if K_TWO
/* Keys of a tile have a unit of their own. If it is another than before, maxima are in this unit from here on. */
INLINED int next_unit_of_keys(struct worker *x, struct row_states *rows, float *scale, float unit)
{
    if (unit == x->key_unit)
        return 0;
    const float by = x->key_unit * as_float((254 << 23) - as_int(unit));
    rows->top[0] *= by, rows->top[1] *= by;
    x->key_unit = unit;
    *scale = fmax(x->scale * unit, FLT_MIN); /* not 0, since -inf * 0 would be NaN */
    return 1;
}
/* Turns scores into exponentials, as softmax does. In most tiles no score is masked, none can make an exponential infinite, and keys and
 * values have the units of those before. There nobody looks for a maximum, and the sums of exponentials tell whether what stands for it
 * was too low. record: that of these keys. */
INLINED int softmax_of_blocks(float *s, struct row_states *rows, float *fix, float *scale_now, float4 record, struct worker *x, int j)
{
    if (is_at_edge(x, j) || !(record.y <= x->limit) || record.x != x->unit || record.z != x->key_unit) {
        const int other = next_unit_of_keys(x, rows, scale_now, record.z);
        mask_edge(s, x, j);
        int grown = softmax(s, rows, fix, *scale_now);
        if (grown || other)
            set_limit(x, rows, *scale_now);
        const float by = next_unit(x);
        if (by != 1.0f) {
            fix[0] = grown ? fix[0] * by : by, fix[1] = grown ? fix[1] * by : by;
            grown = 1;
        }
        return grown;
    }
    const float scale = *scale_now;
% else
/* The same where all keys of a head have one scale. */
INLINED int softmax_of_head(float *s, struct row_states *rows, float *fix, float scale, float longest, struct worker *x, int j)
{
    if (is_at_edge(x, j) || !(longest <= x->limit)) {
        mask_edge(s, x, j);
        const int grown = softmax(s, rows, fix, scale);
        if (grown)
            set_limit(x, rows, scale);
        return grown;
    }
% end
    const float low[2] = {rows->top[0] * scale, rows->top[1] * scale};
    float sum[2];
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        #pragma unroll
        for (int n = 0; n < 4; n++)
            s[m + n] = exp2_fast(fma(s[m + n], scale, -low[n / 2]));
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const float two = s[m + 2 * r] + s[m + 2 * r + 1];
            sum[r] = m == 0 ? two : sum[r] + two;
        }
    }
    const int grown = lower(s, rows, sum, fix, 1.0f / scale);
    if (grown)
        set_limit(x, rows, scale);
    return grown;
}
% end
% end
