%# The two products of a warpgroup; boxes of Q are ${Q_BOX} bytes apart.
/* These functions begin S = Q K^T and O += P V, and do not wait for them. */
INLINED void begin_scores(float *s, uint q, uint k)
{
    const uint q0 = operand_at(q, 16), k0 = operand_at(k, 16);
    products_begin();
% for d in 0..ceil_div(HD, 16)
    multiply_qk(s, operand(q0 + ${d/4*(Q_BOX/16) + d%4*2}), operand(k0 + ${d/4*BK*8 + d%4*2}), ${d > 0});
% end
    products_commit();
}
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
    multiply_pv(out, p + ${4*j}, operand(v0 + ${128*j}));
% end
    products_commit();
}
