%# What scores of narrow keys are multiplied by. How queries fit f16 stands in sm.narrow.t.

/* Multiplies scores by the scales of their keys${UNITS ? " and the units of their queries" : ""}, before the tile of these keys is counted. */
INLINED void scale_scores(float *s, const struct worker *x${UNITS ? ", const float *unit" : ""})
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
