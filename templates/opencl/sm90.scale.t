%# What scores of narrow keys are multiplied by. How queries fit f16 stands in sm.narrow.t.

% if not FEW
/* Whether all rows of a head have the same scale, as those of a tensor or of a head do. Then nothing is multiplied tile by tile: the
 * scale of keys goes with the scores' own, and that of values with what output is multiplied by. */
INLINED int is_even(const long *stride)
{
    return stride[2] == 0${PAGED ? " && stride[0] == 0" : ""};
}
/* That scale, for a tile of queries. */
INLINED float even_scale(__global const float *scales, long at, const long *stride, __local volatile const struct tile *x)
{
    return x->keys > 0 ? scales[at + x->g * stride[1]${PAGED ? "" : " + x->"}${PAGED ? "" : KB}${PAGED ? "" : " * stride[0]"}] : 1.0f;
}

% end
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
