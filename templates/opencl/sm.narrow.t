%# Narrow keys and values on the way to the tensor cores, as every level treats them: queries that fit f16, and the steps of both products
%# for warps that widen what they multiply by themselves, in registers. For a product it does not matter
%# which columns a work-item has, if they are the same on both sides: so it takes four stored numbers of a row at a time.
% if FITS
/* Returns the larger of x and the magnitudes of two elements of bf16, as whole numbers; an infinity or a NaN does not count. */
INLINED int larger(int x, uint two)
{
    const int low = (int)(two & 0x7fff), high = (int)(two >> 16 & 0x7fff);
    return max(x, max(low < 0x7f80 ? low : 0, high < 0x7f80 ? high : 0));
}
INLINED uint fitted(uint two, float by)
{
    return rounded(as_float((int)(two << 16)) * by, as_float((int)(two & 0xffff0000u)) * by);
}

% end
% if RESTS
INLINED void round_rest(uint *rest, const float *s, const uint *p) /* what is left of s beside p */
{
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        rest[n] = remainders(s[2 * n], s[2 * n + 1], p[n]);
}

% end
%# The fragments of 16 rows that a warp has.
% let ROWS_16 = ISA == "sm80" ? FR : 1
% if (ISA == "sm80" or FEW) and not RAW and not TWOFOLD
/* S of 16 keys += Q K^T, of 16 columns, or of 32 if words is 4. Q has ${ISA == "sm80" ? "columns in the order of order_queries" : "columns as take_queries has them"}; the scores of
 * the next fragment come so many elements behind those of this one. */
INLINED void add_scores(float *s, const int apart, const uint *q, uint at, const int words)
{
    uint four[4], b[2];
    load_matrices4(four, at);
    #pragma unroll
    for (int m = 0; m < words; m++) {
        widened(b, four[m]);
        #pragma unroll
        for (int f = 0; f < ${ROWS_16}; f++)
            multiply(s + f * apart + 4 * (m % 2), q + 4 * (m / 2 * ${ROWS_16} + f), b);
    }
}

/* O += P V, of 16 keys, and of 16 columns or, if words is 4, of 32. Words 8*c and 8*c + 4 are two columns, next to each other. */
INLINED void add_values(float *out, const uint *p, ${RESTS ? "const uint *rest, " : ""}const int apart, uint at, const int words)
{
    uint four[4];
    load_matrices4_across(four, at);
    #pragma unroll
    for (int m = 0; m < words; m += 2) {
        uint low[2], high[2]; /* of the first eight keys and of the others */
        widened_apart(low, four[m]), widened_apart(high, four[m + 1]);
        const uint even[2] = {low[0], high[0]}, odd[2] = {low[1], high[1]};
        #pragma unroll
        for (int f = 0; f < ${ROWS_16}; f++) {
            multiply(out + f * ${NO} + 4 * m, p + f * apart, even);
            multiply(out + f * ${NO} + 4 * m + 4, p + f * apart, odd);
% if RESTS
            multiply(out + f * ${NO} + 4 * m, rest + f * apart, even);
            multiply(out + f * ${NO} + 4 * m + 4, rest + f * apart, odd);
% end
        }
    }
}

% end
% if ISA == "sm80" or FEW or INVARIANT
/* For scales of values of which `top` is the largest: the power of two by which they are divided, so that their products with
 * probabilities fit f16. The largest becomes at least 64, and less than 128${TWOFOLD ? ", if no larger one came before" : ""}. unit receives the power, and inverse one over it; the
 * power before over this one is returned: what output so far is to be multiplied by. */
INLINED float fit_scales(float top, float *unit, float *inverse)
{
    const int power = min(max((as_int(top) >> 23) - 6, ${TWOFOLD ? "as_int(*unit) >> 23" : 67}), 248); /* as a biased exponent */
    *inverse = as_float((254 - power) << 23);
    const float by = *unit * *inverse;
    *unit = as_float(power << 23);
    return by;
}

% end
% if INVARIANT
/* The same for one row, by the scales of the keys that it sees alone, so that no other key decides what f16 loses of its probabilities.
 * A row that sees none keeps what it has. */
INLINED float fit_row(float top, float *unit, float *inverse)
{
    top = fmax(top, across(top, 1));
    top = fmax(top, across(top, 2));
    *inverse = 1.0f;
    return top == 0.0f ? 1.0f : fit_scales(top, unit, inverse);
}

% if WEIGHED
/* Multiplies the probabilities of a fragment's two rows by the scales of their values, which begin with this lane's first, and divides
 * them by each row's unit. by: what output so far is to be multiplied by. A key that is not seen has any scale. */
INLINED void weigh_rows(float *s, __local const float *scales, float *unit, float *by)
{
    float top[2] = {0.0f, 0.0f}, inverse[2];
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m);
        #pragma unroll
        for (int r = 0; r < 2; r++)
            top[r] = fmax(top[r], fmax(s[m + 2 * r] > 0.0f ? fabs(y.x) : 0.0f, s[m + 2 * r + 1] > 0.0f ? fabs(y.y) : 0.0f));
    }
    by[0] = fit_row(top[0], unit, inverse), by[1] = fit_row(top[1], unit + 1, inverse + 1);
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m);
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            s[m + 2 * r] *= s[m + 2 * r] > 0.0f ? y.x * inverse[r] : 0.0f;
            s[m + 2 * r + 1] *= s[m + 2 * r + 1] > 0.0f ? y.y * inverse[r] : 0.0f;
        }
    }
}

% end
% end
% if (ISA == "sm80" or FEW) and WEIGHED
% if not INVARIANT
/* The scales of a fragment's values, this lane's, as fit_scales divides them; it returns the same. */
INLINED float take_scales(float *y, __local const float *scales, float *unit)
{
    float top = 0.0f;
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n += 2) {
        const float2 two = *(__local const float2 *)(scales + 4 * n);
        y[n] = two.x, y[n + 1] = two.y;
        top = fmax(top, fmax(fabs(two.x), fabs(two.y)));
    }
    top = fmax(top, across(top, 1));
    top = fmax(top, across(top, 2));
    float inverse;
    const float by = fit_scales(top, unit, &inverse);
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        y[n] *= inverse;
    return by;
}

% end
% if ISA == "sm80"
/* Multiplies scores by the scales of their keys and the units of their queries, in the first so many rows. */
INLINED void scale_keys(float *s, __local const float *scales, const float *unit, int rows)
{
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int m = 0; m < ${NS}; m += 4) {
                const float2 y = *(__local const float2 *)(scales + 2 * m);
% if TWOFOLD
                /* both scales together may be no float */
                s[m + 2 * r] = s[m + 2 * r] * y.x * unit[r], s[m + 2 * r + 1] = s[m + 2 * r + 1] * y.y * unit[r];
% else
                s[m + 2 * r] *= y.x * unit[r], s[m + 2 * r + 1] *= y.y * unit[r];
% end
            }
}

% end
% if not INVARIANT
/* Multiplies probabilities by the scales of their values, in the first so many rows. */
INLINED void weigh(float *s, const float *y, int rows)
{
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (8 * r < rows)
            #pragma unroll
            for (int m = 0; m < ${NS}; m += 4)
                s[m + 2 * r] *= y[m / 2], s[m + 2 * r + 1] *= y[m / 2 + 1];
}
% end
% end
