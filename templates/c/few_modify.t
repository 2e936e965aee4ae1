%# What is done to scores between the product and the softmax. The rows of a vector of scores may be of several heads.
/* What the features do to the scores s of ${R} rows from row t on, whose block of queries is q, against a tile of n keys from key j on.${BIAS == "none" and not MASK ? "" : R == 1 ? " A bias or mask is read where it lies if its keys lie side by side, or else from a copy." : " Rows share vectors of scores, and so a bias or mask is put into their order."} */
static void modify(const struct rows *x, const struct space *w, const float *q, float *s, int64_t t, int64_t j, int64_t n)
{
    const struct attn_features *f = x->a->features;
% if BIAS == "none" and not MASK
    (void)f, (void)w, (void)t, (void)j, (void)n; /* what a bias or a mask would need */
% end
% if not ALIBI
    (void)q; /* what slopes would need */
% end
% if SOFTCAP
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(s, &cap, ${BK/KB/PER});
% end
% if BIAS != "none"
% let WHAT = "bias"
% let TYPE = CB
% let ONE = "add_bias"
% let ALL = "add_biases"
% include "c/few_tensor.t"
% end
% if ALIBI
    const float first[2] = {(float)j, ${KB}.0f};
    alibi_rows(s, q + ${FALLS}, first);
% end
% if MASK
% let WHAT = "mask"
% let TYPE = "uint8_t"
% let ONE = "hide"
% let ALL = "hide_all"
% include "c/few_tensor.t"
% end
}
