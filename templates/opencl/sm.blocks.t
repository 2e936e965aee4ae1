%# Products with keys and values in blocks, as every level adds them: K_SCALES and V_SCALES say where the scales of a tile stand as floats,
%# block by block, those of a block SCALES_APART keys behind those of the one before.
/* s += t times the scales of the keys: products of 16 keys over the columns of block c, in the first so many rows of a fragment. */
INLINED void add_block(float *s, const float *t, const struct worker *p, int c, int n, const int rows)
{
    #pragma unroll
    for (int e = 0; e < 2; e++) {
        const float2 y = *(__local const float2 *)(K_SCALES(p) + c * ${SCALES_APART} + 16 * n + 8 * e + 2 * (p->lane & 3));
        #pragma unroll
        for (int f = 0; f < ${ROWS_16}; f++) {
            float *const to = s + f * ${NS} + 8 * n + 4 * e;
            const float *const of = t + 8 * f + 4 * e;
            to[0] = fma(of[0], y.x, to[0]), to[1] = fma(of[1], y.y, to[1]);
            if (rows > 8)
                to[2] = fma(of[2], y.x, to[2]), to[3] = fma(of[3], y.y, to[3]);
        }
    }
}

% let INVERSES = INVARIANT ? "const float *" : "float"
/* Probabilities of 16 keys times the scales of block c of their values, and times inverse, in f16${RESTS ? "; and what is left of them beside that" : ""}. */
INLINED void weigh_block(uint *w, ${RESTS ? "uint *rest, " : ""}const float *s, ${INVERSES}${INVARIANT ? "" : " "}inverse, const struct worker *p, int c, int n, const int rows)
{
    #pragma unroll
    for (int e = 0; e < 2; e++) {
        const float2 y = *(__local const float2 *)(V_SCALES(p) + c * ${SCALES_APART} + 16 * n + 8 * e + 2 * (p->lane & 3));
        #pragma unroll
        for (int f = 0; f < ${ROWS_16}; f++)
            #pragma unroll
            for (int r = 0; r < 2; r++) {
                const float *const of = s + f * ${NS} + 8 * n + 4 * e + 2 * r;
                if (8 * r >= rows) {
                    w[4 * f + 2 * e + r] = ${RESTS ? "rest[4 * f + 2 * e + r] = 0;" : "0;"}
                    continue;
                }
% if INVARIANT
                const float low = of[0] * (of[0] > 0.0f ? y.x * inverse[2 * f + r] : 0.0f), high = of[1] * (of[1] > 0.0f ? y.y * inverse[2 * f + r] : 0.0f);
% else
                const float low = of[0] * (y.x * inverse), high = of[1] * (y.y * inverse);
% end
                w[4 * f + 2 * e + r] = rounded(low, high);
% if RESTS
                rest[4 * f + 2 * e + r] = remainders(low, high, w[4 * f + 2 * e + r]);
% end
            }
    }
}
