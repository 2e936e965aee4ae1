%# The online softmax, of two rows for each work-item, in the fragments of the tensor cores. Each of a row's four lanes has its own
%# share of the row's sum; the maximum is that of all four.
/* Query i sees the keys before this one. */
INLINED int interval(int i, int keys, int offset)
{
% if CAUSAL or WINDOW
    return max(min(i + offset + 1, keys), 0);
% else
    return keys;
% end
}

% if SOFTCAP
%# Whether a cap up to 128 has a form of its own: where keys are split memory is waited for, and where heads are wide there are no registers for two.
%# Where bits are a promise, kernels that split keys and those that do not must have the same.
% let SMALL_CAPS = not SPLIT and not INVARIANT and not TWOFOLD and HD <= 128 and HDV <= 128
% if SMALL_CAPS
/* tanh x by y = 2x log2 e, off by 2**-21 at most: of a cap up to 128 scores are then off by 2**-14 at most, where rounding a probability
 * to f16 changes it by 2**-12 of itself. */
INLINED float tanh_of_small(float y)
{
    return fma(-2.0f, reciprocal(exp2_fast(y) + 1.0f), 1.0f);
}
% end
/* tanh x${SMALL_CAPS ? " by the same number, and exact relative to itself, too" : " by y = 2x log2 e"}: e / (e + 2), where e = exp(2x) - 1 = 2**y - 1. With y = n + r that is 2**n * (2**r - 1) +
 * (2**n - 1), a sum without cancellation. 2**r - 1 is r times a polynomial (relative error 1.1e-8), so that tanh x is close to x
 * near 0. From 2**y = 2**30 on the result is 1, and from 2**-30 down it is -1. */
INLINED float tanh_fast(float twice)
{
    const float y = within30(twice), shifted = y + 12582912.0f; /* floats this large are whole numbers */
    const float r = y - (shifted - 12582912.0f), two_n = as_float((as_int(shifted) << 23) + 0x3f800000);
    float p = fma(0.000154035124f, r, 0.00133907355f);
    p = fma(p, r, 0.00961823749f), p = fma(p, r, 0.0555035743f);
    p = fma(p, r, 0.240226498f), p = fma(p, r, 0.693147188f);
    const float e = fma(p * r, two_n, two_n - 1.0f);
    return e * reciprocal(e + 2.0f);
}
/* What scores are multiplied by for that: twice their scale divided by the cap, as a power of two. */
INLINED float ratio_of(float scale, float softcap)
{
    return fmin(fmax(scale / softcap * 2.88539008f, -FLT_MAX), FLT_MAX);
}

% if SPLIT
/* tanh of scores times ratio, for the first so many rows. */
INLINED void cap(float *s, float ratio, int rows)
{
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int n = 2 * r; n < ${NS}; n += 4)
                s[n] = tanh_fast(s[n] * ratio), s[n + 1] = tanh_fast(s[n + 1] * ratio);
}
% else
/* tanh of scores times ratio.${SMALL_CAPS ? " small: whether the cap is at most 128, or the scale, which is that many powers of two, at most 184.665." : ""} */
INLINED void cap(float *s, float ratio${SMALL_CAPS ? ", int small" : ""})
{
% if SMALL_CAPS
    if (small)
        #pragma unroll
        for (int n = 0; n < ${NS}; n++)
            s[n] = tanh_of_small(s[n] * ratio);
    else
% end
        #pragma unroll
        for (int n = 0; n < ${NS}; n++)
            s[n] = tanh_fast(s[n] * ratio);
}
% end

% end
struct row_states {
    float top[2], sum[2]; /* the maximum of the scores so far, or what stands for it; and this lane's share of the sum of exponentials */
};

/* Sets scores to -inf where a key is past the end of a row's interval: the row sees the first left[r] keys from this lane's
 * first on. */
INLINED void mask(float *s, const int *left)
{
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = 8 * (n / 4) + n % 2 < left[n / 2 % 2] ? s[n] : -INFINITY;
}
% if WINDOW

/* And where a key is before the interval: the row does not see the first before[r] of these keys. */
INLINED void mask_before(float *s, const int *before)
{
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = 8 * (n / 4) + n % 2 < before[n / 2 % 2] ? -INFINITY : s[n];
}
% end

INLINED float finite(float m) /* what is subtracted; for a row without keys it is not -inf, since -inf - -inf would be NaN */
{
    return m == -INFINITY ? 0.0f : m;
}

% let OF_ROW = FOLDS ? "[r]" : ""
% let LOWERED = BIAS != "none" ? "" : FOLDS ? " * scale[r]" : " * scale"
% if BIAS != "none"
/* The exponential of a score, relative to what is subtracted from those of its row. */
INLINED float exponential(float score, float low, float scale)
{
    return exp2_fast((score - low) * scale);
}

% else
/* The exponential of a score, relative to what is subtracted from those of its row, which has been multiplied by the scale. */
INLINED float exponential(float score, float low, float scale)
{
    return exp2_fast(fma(score, scale, -low));
}

% end
/* Raises the maxima of rows to those of these scores. Returns whether the sums so far, and so the output, must be multiplied by fix. */
INLINED int raise(const float *s, struct row_states *x, float *fix, ${FOLDS ? "const float *scale" : "float scale"}${SKIPS ? ", int rows" : ""})
{
    float top[4] = {x->top[0], x->top[1], s[4], s[6]}; /* two chains for each row, to hide the latency of the instruction */
% if SKIPS
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int n = 2 * r; n < ${NS}; n += 4)
                top[n / 2 % 4] = fmax(top[n / 2 % 4], fmax(s[n], s[n + 1]));
% else
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        top[n / 2 % 4] = fmax(top[n / 2 % 4], s[n]);
% end
    top[0] = fmax(top[0], top[2]), top[1] = fmax(top[1], top[3]);
% if LAZY
    /* Exponentials up to 2**8 do no harm, so the old maximum may stand for a slightly larger one, unless some lane has one
     * that is larger still. */
    int grown = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++)
        grown |= (top[r] - x->top[r]) * scale${OF_ROW} > 8.0f;
    grown = in_warp(grown);
    if (grown)
% else
    const int grown = 1;
% end
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = fmax(top[r], across(top[r], 1));
            top[r] = fmax(top[r], across(top[r], 2));
% if INVARIANT
            /* Each row decides for itself; one that has not grown, beside one that has, is multiplied by 1. */
            const int grows = (top[r] - x->top[r]) * scale${OF_ROW} > 8.0f;
            fix[r] = grows ? exp2_fast((x->top[r] - finite(top[r])) * scale${OF_ROW}) : 1.0f;
            x->top[r] = grows ? top[r] : x->top[r];
% else
            fix[r] = exponential(x->top[r], finite(top[r])${LOWERED}, scale${OF_ROW});
            x->top[r] = top[r];
% end
            x->sum[r] *= fix[r];
        }
    return grown;
}

% if QUICK
/* Whether a score may be above the maximum of its row by rise, or that maximum is too small to tell. Scores are compared by their bits,
 * as integers, of which one instruction takes three: those of floats from 0 on have the order of the floats, and are above those of
 * negative ones; -0 has the least. */
INLINED int may_have_grown(const float *s, const struct row_states *x, float rise)
{
    const int least = as_int(-0.0f);
    int top[4] = {least, least, least, least}; /* two chains for each row */
    #pragma unroll
    for (int n = 0; n < ${NS}; n += 2)
        top[n / 2 % 4] = most_bits(top[n / 2 % 4], s[n], s[n + 1]);
    int grown = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const float limit = x->top[r] + rise;
        grown |= max(top[r], top[r + 2]) >= as_int(limit > 0.0f ? limit : -0.0f);
    }
    return in_warp(grown);
}

% end
/* Turns scores into exponentials. Returns whether the sums so far, and so the output, must be multiplied by fix. */
INLINED int softmax(float *s, struct row_states *x, float *fix, ${FOLDS ? "const float *scale" : "float scale"}${QUICK ? ", float rise" : ""}${SKIPS ? ", int rows" : ""})
{
    const int grown = ${QUICK ? "may_have_grown(s, x, rise) && " : ""}raise(s, x, fix, scale${SKIPS ? ", rows" : ""});
    float low[2];
    #pragma unroll
    for (int r = 0; r < 2; r++)
        low[r] = finite(x->top[r])${LOWERED};
% if SKIPS
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int n = 2 * r; n < ${NS}; n += 4) {
                s[n] = exponential(s[n], low[r], scale${OF_ROW});
                s[n + 1] = exponential(s[n + 1], low[r], scale${OF_ROW});
                x->sum[r] += s[n] + s[n + 1];
            }
% else
    #pragma unroll
    for (int n = 0; n < ${NS}; n++) {
        const int r = n / 2 % 2;
        s[n] = exponential(s[n], low[r], scale${OF_ROW});
    }
    #pragma unroll
    for (int n = 0; n < ${NS}; n += 4) {
        x->sum[0] += s[n] + s[n + 1];
        x->sum[1] += s[n + 2] + s[n + 3];
    }
% end
    return grown;
}

% if SINK
/* The factor of the output when a sink joins a row's sum, whose exponentials are relative to top. top and sink are exponents
 * of ${ADDS ? "e" : "two"}. */
INLINED float inverse_with_sink(float sum, float top, float sink)
{
    const float high = fmax(top, sink), less = exp2_fast((top - high)${TO_TWO});
    return sum == 0.0f ? 0.0f : less / fma(sum, less, exp2_fast((sink - high)${TO_TWO}));
}

% end
/* The LSE of a row whose exponentials are relative to top, which is finite and an exponent of ${ADDS ? "e" : "two"}. */
INLINED float lse_of(float sum, float top)
{
    return sum == 0.0f ? -INFINITY : top${ADDS ? "" : " * 0.693147181f"} + log(sum);
}

INLINED void rescale(float *o, const float *fix)
{
    #pragma unroll
    for (int n = 0; n < ${NO}; n++)
        o[n] *= fix[n / 2 % 2];
}

/* The fragments of a product's result serve as the next product's left operand. */
INLINED void round_all(uint *p, const float *s)
{
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        p[n] = rounded(s[2 * n], s[2 * n + 1]);
}
% if MODIFIES

% include "opencl/sm.modify.t"
% end
