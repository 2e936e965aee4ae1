%# The two products of a warpgroup: ${Q_BOX} bytes are between boxes of Q.
/* S = Q K^T and O += P V are begun here, and not waited for. */
INLINED void begin_scores(float *s, uint q, uint k)
{
    products_begin();
% for d in 0..ceil_div(HD, 16)
    multiply_qk(s, operand(q + ${d/4*Q_BOX + d%4*32}, 16), operand(k + ${d/4*BK*128 + d%4*32}, 16), ${d > 0});
% end
    products_commit();
}
INLINED void begin_values(float *out, const uint *p, uint v)
{
    products_begin();
% for j in 0..BK/16
    multiply_pv(out, p + ${4*j}, operand(v + ${2048*j}, ${BK*128}));
% end
    products_commit();
}
