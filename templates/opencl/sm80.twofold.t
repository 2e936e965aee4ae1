%# Numbers of f32 on isa sm80, as two of f16 each: what f16 has of a number, and of the rest. Each row of queries, keys and values is multiplied
%# by a power of two of its own first, so that both have room in f16; what is lost is at most 2**-23 of a number, or 2**-39 of the
%# largest one of its row. Products are three: of the upper parts, and of the upper part of each side with the lower one of the other.
INLINED float larger_finite(float top, float x)
{
    x = fabs(x);
    return x <= FLT_MAX ? fmax(top, x) : top;
}
% let LANES_QK = HD <= 16 ? 4 : HD <= 32 ? 8 : HD <= 64 ? 16 : 32
% let LANES_V = DV <= 16 ? 4 : DV <= 32 ? 8 : DV <= 64 ? 16 : 32
%# Rows of which a warp has the numbers at once, so that it need not wait for each of them.
% let AT_ONCE = BK*LANES_QK/ITEMS >= 4 and BK*LANES_V/ITEMS >= 4 and HD <= 128 and DV <= 128 ? 4 : BK*LANES_QK/ITEMS >= 2 and BK*LANES_V/ITEMS >= 2 ? 2 : 1
/* Makes of rows of f32 in boxes rows of f16 in the same place: of the upper parts of their numbers in so many boxes and, in as many
 * behind these, of the lower ones. Boxes have so many rows, and each row so many quarters, of four columns, and so many lanes. This lane
 * has a part of row `first` and of those that follow by `step`, before row `end`; `count` rows are done by all. units receives for
 * each row what its numbers are to be multiplied by. An infinity or a NaN does not count where the largest number of a row is looked
 * for. */
INLINED void fold_rows(const struct worker *p, uint from, const int boxes, const int rows, int first, const int count, int end, const int step,
    const int quarters, const int lanes, uint units)
{
    const int whole = count % (${AT_ONCE} * step) == 0;
    const int lane = p->lane % lanes;
    __local uchar *const memory = p->memory + from;
    #pragma unroll 1
    for (int row = first, n = 0; n < count; row += ${AT_ONCE} * step, n += ${AT_ONCE} * step) {
        float4 x[${2*AT_ONCE}]; /* four columns of each row, or twice four */
        float top[${AT_ONCE}], most = 0.0f;
        #pragma unroll
        for (int r = 0; r < ${AT_ONCE}; r++) {
            top[r] = 0.0f;
            #pragma unroll
            for (int c = 0; c * lanes < quarters; c++) {
                const int quarter = lane + c * lanes;
                float4 y = ${FLOAT4}(0.0f, 0.0f, 0.0f, 0.0f);
                if ((whole || row + r * step < end) && ((c + 1) * lanes <= quarters || quarter < quarters))
                    y = *(__local const float4 *)(memory + quarter / 8 * rows * 128 + place(row + r * step, quarter % 8, 128));
                top[r] = fmax(fmax(fmax(top[r], fabs(y.x)), fabs(y.y)), fmax(fabs(y.z), fabs(y.w)));
                x[2 * r + c] = y;
            }
            most = fmax(most, top[r]);
        }
        if (most > FLT_MAX)
            #pragma unroll
            for (int r = 0; r < ${AT_ONCE}; r++) {
                top[r] = 0.0f;
                #pragma unroll
                for (int c = 0; c * lanes < quarters; c++) {
                    const float4 y = x[2 * r + c];
                    top[r] = larger_finite(larger_finite(larger_finite(larger_finite(top[r], y.x), y.y), y.z), y.w);
                }
            }
        #pragma unroll
        for (int r = 0; r < ${AT_ONCE}; r++) {
            int size = as_int(top[r]);
            if (lanes == 32)
                size = most_in_warp(size);
            else
                #pragma unroll
                for (int bit = 1; bit < lanes; bit *= 2)
                    size = max(size, as_int(across(as_float(size), bit)));
            const int power = min(141 - (size >> 23), 120); /* the largest number becomes at least 2**14, and less than 2**15 */
            const float by = as_float((127 + power) << 23);
            if ((whole || row + r * step < end) && lane == 0)
                *(__local float *)(p->memory + units + 4 * (row + r * step)) = as_float((127 - power) << 23);
            #pragma unroll
            for (int c = 0; c * lanes < quarters; c++) {
                const int quarter = lane + c * lanes;
                const float4 z = x[2 * r + c];
                const float y[4] = {z.x * by, z.y * by, z.z * by, z.w * by};
                const uint low = rounded(y[0], y[1]), high = rounded(y[2], y[3]);
                __local uchar *const to = memory + quarter / 16 * rows * 128 + place(row + r * step, quarter / 2 % 8, 128) + 8 * (quarter % 2);
                if ((whole || row + r * step < end) && ((c + 1) * lanes <= quarters || quarter < quarters)) {
                    *(__local uint2 *)to = ${UINT2}(low, high);
                    *(__local uint2 *)(to + boxes * rows * 128) = ${UINT2}(remainders(y[0], y[1], low), remainders(y[2], y[3], high));
                }
            }
        }
    }
}

/* The warp's queries; unit receives the units of this work-item's rows of scores. */
INLINED void order_queries(const struct worker *p, float *unit)
{
    fold_rows(p, ${AT_Q}, ${HB}, ${BQ}, p->warp * ${MR} + p->lane / ${LANES_QK}, ${MR}, (p->warp + 1) * ${MR}, ${32/LANES_QK}, ${4*STEPS}, ${LANES_QK}, ${AT_Q + AT_UNITS});
    warp_sync();
    #pragma unroll
    for (int r = 0; r < ${2*FR}; r++)
        unit[r] = *(__local const float *)(p->memory + ${AT_Q + AT_UNITS} + 4 * (p->warp * ${MR} + 8 * r + p->lane / 4));
}

#define SCALES_AT(n) ((__local const float *)(p.memory + ${AT_STAGES + AT_SCALES} + (n) % ${ST} * ${STAGE}))
/* The n-th tile of keys and values. */
INLINED void settle(const struct worker *p, int n)
{
    const uint from = ${AT_STAGES} + n % ${ST} * ${STAGE};
    fold_rows(p, from, ${HB}, ${BK}, p->item / ${LANES_QK}, ${BK}, ${BK}, ${ITEMS/LANES_QK}, ${4*STEPS}, ${LANES_QK}, from + ${AT_SCALES});
    fold_rows(p, from + ${K_TILE}, ${VB}, ${BK}, p->item / ${LANES_V}, ${BK}, ${BK}, ${ITEMS/LANES_V}, ${DV/4}, ${LANES_V}, from + ${AT_SCALES + 4*BK});
}

/* S = Q K^T. Tensor cores do not round, but cut off, whenever they add to a sum: so sums of 16 columns, of the small products
 * first, are added as floats are. */
% let KEYS = Q_STAYS ? (BK % 32 == 0 ? 2 : 1) : BK % 64 == 0 ? 4 : BK % 32 == 0 ? 2 : 1
INLINED void scores(float *s, ${Q_STAYS ? "const uint *q, " : ""}const struct worker *p, uint k)
{
    #pragma unroll
    for (int n = 0; n < ${BK/16}; n += ${KEYS}) { /* ${16*KEYS} keys at a time */
        #pragma unroll
        for (int d = 0; d < ${STEPS}; d++) {
            const uint at = k + d / 4 * ${BK*128} + (beside_first(p->lane, 128) ^ d % 4 * 32) + n * ${16*128};
            uint upper[${4*KEYS}], lower[${4*KEYS}];
            float sum[${8*KEYS*FR}];
% if Q_STAYS
            const uint *const high = q + d * ${4*FR}, *const low = q + (${STEPS} + d) * ${4*FR};
% else
            uint high[${4*FR}], low[${4*FR}];
            get_queries(high, p, d);
            get_queries(low, p, d + ${4*HB});
% end
            #pragma unroll
            for (int e = 0; e < ${8*KEYS*FR}; e++)
                sum[e] = 0.0f;
            #pragma unroll
            for (int m = 0; m < ${KEYS}; m++) {
                load_matrices4(upper + 4 * m, at + m * ${16*128});
                load_matrices4(lower + 4 * m, at + m * ${16*128} + ${HB*BK*128});
            }
            #pragma unroll
            for (int term = 0; term < 3; term++)
                #pragma unroll
                for (int f = 0; f < ${FR}; f++)
                    #pragma unroll
                    for (int m = 0; m < ${2*KEYS}; m++)
                        multiply(sum + f * ${8*KEYS} + 4 * m, (term == 0 ? low : high) + 4 * f, (term == 1 ? lower : upper) + 2 * m);
            #pragma unroll
            for (int f = 0; f < ${FR}; f++)
                #pragma unroll
                for (int e = 0; e < ${8*KEYS}; e++) {
                    float *const to = s + f * ${NS} + 8 * n + e;
                    *to = d ? *to + sum[f * ${8*KEYS} + e] : sum[f * ${8*KEYS} + e];
                }
        }
    }
}

/* O += P V, of the two parts of probabilities. The sum of a tile's keys begins at 0, and that of the small products is one of its own. */
% let BESIDES = DV % 32 == 0 ? 2 : 1
INLINED void values(float *out, const uint *w, const uint *rest, const struct worker *p, uint v)
{
    #pragma unroll
    for (int c = 0; c < ${DV/16}; c += ${BESIDES}) { /* ${16*BESIDES} columns at a time */
        float sum[${8*BESIDES*FR}], small[${8*BESIDES*FR}];
        #pragma unroll
        for (int e = 0; e < ${8*BESIDES*FR}; e++)
            sum[e] = small[e] = 0.0f;
        #pragma unroll
        for (int n = 0; n < ${BK/16}; n++) {
            uint upper[${4*BESIDES}], lower[${4*BESIDES}];
            #pragma unroll
            for (int m = 0; m < ${BESIDES}; m++) {
                const uint at = v + (c + m) / 4 * ${BK*128} + n * ${16*128} + (below_first(p->lane, 128) ^ (c + m) % 4 * 32);
                load_matrices4_across(upper + 4 * m, at);
                load_matrices4_across(lower + 4 * m, at + ${VB*BK*128});
            }
            #pragma unroll
            for (int term = 0; term < 3; term++)
                #pragma unroll
                for (int f = 0; f < ${FR}; f++)
                    #pragma unroll
                    for (int m = 0; m < ${2*BESIDES}; m++)
                        multiply((term < 2 ? small : sum) + f * ${8*BESIDES} + 4 * m, (term == 0 ? rest : w) + f * ${NS/2} + 4 * n, (term == 1 ? lower : upper) + 2 * m);
        }
        #pragma unroll
        for (int f = 0; f < ${FR}; f++)
            #pragma unroll
            for (int e = 0; e < ${8*BESIDES}; e++)
                out[f * ${NO} + 8 * c + e] += sum[f * ${8*BESIDES} + e] + small[f * ${8*BESIDES} + e];
    }
}
