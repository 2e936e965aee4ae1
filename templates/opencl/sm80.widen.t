%# Both products of isa sm80 over narrow keys and values, where these are widened in registers, or are blocks. Where rows lie in boxes of
%# 128 columns as they were stored, load_matrices4 reads them as it reads rows of 16 bits.
% if BLOCKS

% let SCALES_APART = BK
% include "opencl/sm.blocks.t"
% end

/* S = Q K^T, of stored numbers${BLOCKS ? " times the scales of their blocks" : ""}. */
INLINED void scores(float *s, ${Q_STAYS ? "const uint *q, " : ""}const struct worker *p, uint k)
{
    #pragma unroll
    for (int n = 0; n < ${FR*NS}; n++)
        s[n] = 0.0f;
% if SUMS > 1
    float more[${FR*NS}];
% end
    #pragma unroll
    for (int c = 0; c < ${ceil_div(HD, 16)}; c += 2) { /* twice 16 columns at a time */
% if SUMS > 1
        float *const sum = sum_of(s, more, c);
% end
% if WIDENS
        const int width = c < ${4*(HB - 1)} ? 128 : ${HW};
        const uint at = k + c / 4 * ${BK*128}, row = beside_first(p->lane, width) ^ c % 4 * 32;
% else
        const int words = c + 1 < ${ceil_div(HD, 16)} ? 4 : 2, width = c < ${8*(K_BOXES - 1)} ? 128 : ${K_LAST};
        const uint at = k + c / 8 * ${BK*128} + place(p->lane & 15, c % 8 + (words == 4 ? p->lane / 16 : 0), width);
% end
% if Q_STAYS
        const uint *a = q + c * ${4*FR};
% else
        uint a[${8*FR}];
        get_queries(a, p, c);
        if (${BLOCKS ? "1" : "words == 4"})
            get_queries(a + ${4*FR}, p, c + 1);
% end
        #pragma unroll
        for (int n = 0; n < ${BK/16}; n++) {
% if BLOCKS
            float t[${8*FR}];
            #pragma unroll
            for (int e = 0; e < ${8*FR}; e++)
                t[e] = 0.0f;
% if WIDENS
            #pragma unroll
            for (int d = 0; d < 2; d++) {
                uint b[4];
                load_matrices4(b, at + (row ^ d * 32) + n * 16 * width);
                #pragma unroll
                for (int f = 0; f < ${FR}; f++) {
                    multiply(t + 8 * f, a + ${4*FR} * d + 4 * f, b);
                    multiply(t + 8 * f + 4, a + ${4*FR} * d + 4 * f, b + 2);
                }
            }
% else
            add_scores(t, 8, a, at + n * 16 * width, words);
% end
            add_block(s, t, p, c / 2, n, 16);
% else
            add_scores(${SUM} + 8 * n, ${NS}, a, at + n * 16 * width, words);
% end
        }
% if SUMS > 1
        add_sum(s, more, c + 1);
% end
    }
}

/* O += P V, of stored numbers${BLOCKS ? "; probabilities are multiplied by the scales of a block of columns, and by inverse, before they are rounded" : ""}. */
% if BLOCKS
INLINED void values(float *out, const float *s, ${INVERSES}${INVARIANT ? "" : " "}inverse, const struct worker *p, uint v)
% else
INLINED void values(float *out, const uint *w${RESTS ? ", const uint *rest" : ""}, const struct worker *p, uint v)
% end
{
    #pragma unroll
    for (int n = 0; n < ${BK/16}; n++) {
        #pragma unroll
        for (int c = 0; c < ${DV/16}; c += 2) {
% if WIDENS
            const int width = c < ${4*(VB - 1)} ? 128 : ${LW};
            const uint at = v + c / 4 * ${BK*128} + n * 16 * width, row = below_first(p->lane, width) ^ c % 4 * 32;
% else
            const int words = c + 1 < ${DV/16} ? 4 : 2, width = c < ${8*(V_BOXES - 1)} ? 128 : ${V_LAST};
            const uint at = v + c / 8 * ${BK*128} + n * 16 * width + place(p->lane & 15, c % 8 + (words == 4 ? p->lane / 16 : 0), width);
% end
% if BLOCKS
            uint w[${4*FR}]${RESTS ? ", rest[" : ""}${RESTS ? 4*FR : ""}${RESTS ? "]" : ""};
            weigh_block(w, ${RESTS ? "rest, " : ""}s, inverse, p, c / 2, n, 16);
% if WIDENS
            #pragma unroll
            for (int d = 0; d < 2; d++) {
                uint b[4];
                load_matrices4_across(b, at + (row ^ d * 32));
                #pragma unroll
                for (int f = 0; f < ${FR}; f++) {
                    float *const to = out + f * ${NO} + 8 * (c + d);
                    multiply(to, w + 4 * f, b), multiply(to + 4, w + 4 * f, b + 2);
% if RESTS
                    multiply(to, rest + 4 * f, b), multiply(to + 4, rest + 4 * f, b + 2);
% end
                }
            }
% else
            add_values(out + 8 * c, w${RESTS ? ", rest" : ""}, 4, at, words);
% end
% else
            add_values(out + 8 * c, w + 4 * n${RESTS ? ", rest + 4 * n" : ""}, ${NS/2}, at, words);
% end
        }
    }
}
