%# The two products of a warpgroup; boxes of Q are ${Q_BOX} bytes apart.
/* These functions begin S = Q K^T and O += P V, and do not wait for them. */
INLINED void begin_scores(float *s, uint q, uint k)
{
    const uint q0 = operand_at(q, 16), k0 = operand_at(k, 16);
    products_begin();
% if K_TWO
    /* The rests of keys come first: what is cut off of a sum is less while it is small. */
% for d in 0..ceil_div(HD, 16)
    multiply_qk(s, operand(q0 + ${d/4*(Q_BOX/16) + d%4*2}), operand(k0 + ${K_TILE/16 + d/4*BK*8 + d%4*2}), ${d > 0});
% end
% end
% for d in 0..ceil_div(HD, 16)
    multiply_qk(s${HALVES and d%2 ? " + " : ""}${HALVES and d%2 ? NS : ""}, operand(q0 + ${d/4*(Q_BOX/16) + d%4*2}), operand(k0 + ${d/4*BK*8 + d%4*2}), ${d > HALVES or K_TWO});
% end
    products_commit();
}
% if HALVES
/* A score has been two sums, since the tensor cores do not round, but cut off, whenever they add to one. */
INLINED void add_halves(float *s)
{
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] += s[${NS} + n];
}
% end
INLINED void begin_values(float *out, const uint *p, ${RESTS ? "const uint *rest, const int has_rest, " : ""}uint v)
{
    const uint v0 = operand_at(v, ${BK*128});
% if RESTS
    if (has_rest) {
        products_begin();
% for j in 0..BK/16
        multiply_pv(out, p + ${4*j}, operand(v0 + ${128*j}));
        multiply_pv(out, rest + ${4*j}, operand(v0 + ${128*j}));
% end
        products_commit();
        return;
    }
% end
    products_begin();
% for j in 0..BK/16
% if V_TWO
    multiply_pv(out, p + ${4*j}, operand(v0 + ${V_TILE/16 + 128*j}));
% end
    multiply_pv(out, p + ${4*j}, operand(v0 + ${128*j}));
% end
    products_commit();
}
