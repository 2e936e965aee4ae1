%# What queries in bf16 become so that they fit f16, and what scores of narrow keys are multiplied by.

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

/* Multiplies scores by the scales of their keys${FOLDS ? "" : " and the units of their queries"}, before the tile of these keys is counted. */
INLINED void scale_scores(float *s, const struct worker *x${FOLDS ? "" : ", const float *unit"})
{
    __local uchar *const memory = x->memory;
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
                s[m + 2 * r] *= y.x${FOLDS ? "" : " * unit[r]"}, s[m + 2 * r + 1] *= y.y${FOLDS ? "" : " * unit[r]"};
            }
% else
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m);
% if FOLDS
        s[m] *= y.x, s[m + 1] *= y.y, s[m + 2] *= y.x, s[m + 3] *= y.y;
% else
        s[m] *= y.x * unit[0], s[m + 1] *= y.y * unit[0], s[m + 2] *= y.x * unit[1], s[m + 3] *= y.y * unit[1];
% end
    }
% end
}
