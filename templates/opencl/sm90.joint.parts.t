%# The products that sm80.parts.t describes, by a warpgroup: one function begins them, another waits for them.
% include "opencl/sm90.products.t"

INLINED void scores(float *s, const struct worker *p, uint k)
{
    begin_scores(s, p->shared + ${AT_Q} + p->warp / 4 * 8192, k);
    products_wait();
}
INLINED void values(float *out, const uint *w, const struct worker *p, uint v)
{
    begin_values(out, w, v);
    products_wait();
}
