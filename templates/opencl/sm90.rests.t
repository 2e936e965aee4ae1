%# Probabilities times the scales of their values, where f16 may need two parts for them: what widened once lies in records of its tiles,
%# and otherwise scales lie beside the ring's tiles, as widen_scales leaves them.
/* Turns probabilities times the scales of their values into f16, in two parts where it must be, once the tile of keys is counted.
 * It returns the unit of the tile before over this one's: what output so far is to be multiplied by. */
INLINED float scale_values(float *s, uint *p, uint *rest, struct worker *x)
{
    __local uchar *const memory = x->memory;
% if WIDENED
    __local const float *const record = RECORD_AT(x->nk - 1) + ${BK};
% else
    __local const float *const scales = SCALES_AT(x->nk - 1) + ${BK};
% end
    if (x->even_v) {
        x->unit = x->value_scale, x->has_rest = 0;
        round_all(p, s);
        return 1.0f;
    }
% if WIDENED
    const float unit = record[0], by = x->unit == unit ? 1.0f : x->unit * reciprocal(unit);
% else
    const float unit = scales[${BK}], by = x->unit == unit ? 1.0f : x->unit * reciprocal(unit);
% end
    x->unit = unit;
% if WIDENED
    x->has_rest = uniform(record[2] != 0.0f);
% else
    x->has_rest = uniform(((__local const int *)scales)[${BK + 1}]);
% end
    if (!x->has_rest) {
        round_all(p, s);
        return by;
    }
% if WIDENED
    __local const float4 *const scales = (__local const float4 *)(record + 4) + (x->lane & 3);
% end
    #pragma unroll
% if WIDENED
    for (int m = 0; m < ${NS}; m += 8) {
        const float4 y = scales[m / 2];
% else
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m + 2 * (x->lane & 3));
% end
        s[m] *= y.x, s[m + 1] *= y.y, s[m + 2] *= y.x, s[m + 3] *= y.y;
% if WIDENED
        s[m + 4] *= y.z, s[m + 5] *= y.w, s[m + 6] *= y.z, s[m + 7] *= y.w;
% end
    }
    round_all(p, s);
    round_rest(rest, s, p);
    return by;
}
