%# What is done to scores between the product and the softmax. The rows of a vector of scores may be of several heads.
% if R > 1 and (BIAS != "none" or MASK)
/* Whether all rows share theirs, as where one mask of keys serves all heads of one query. */
static int alike(const struct rows *x, const int64_t *stride)
{
    return stride[1] == 0 && (stride[2] == 0 || x->s->q_len == 1);
}

% end
/* What the features do to the scores of ${R} rows from row t on, against a tile of n keys from key j on.${BIAS == "none" and not MASK ? "" : R == 1 ? " A bias or mask is read where it lies if its keys lie side by side, or else from a copy." : " A bias or mask is copied in the order of the scores."} */
static void modify(const struct rows *x, const struct space *w, float *s, int64_t t, int64_t j, int64_t n)
{
    const struct attn_features *f = x->a->features;
% if BIAS == "none" and not MASK
    (void)f, (void)w, (void)t, (void)j, (void)n; /* what a bias or a mask would need */
% end
% if SOFTCAP
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(s, &cap, ${BK/KB/PER});
% end
% if BIAS != "none"
% let WHAT = "bias"
% let TYPE = CB
% let WORD = CB
% let IN_WORD = 1
% include "c/few_tensor.t"
    add_bias(s, ${R == 1 ? "bias" : "biases"}, 0, ${BK/KB/PER});
% end
% if ALIBI
    const float first[2] = {(float)j, ${KB}.0f};
    alibi_rows(s, s + ${FALLS - SCORES}, first);
% end
% if MASK
% let WHAT = "mask"
% let TYPE = "uint8_t"
%# The bytes of a key's rows, four at a time where that is possible.
% let IN_WORD = R % 4 == 0 ? 4 : 1
% let WORD = R % 4 == 0 ? "uint32_t" : "uint8_t"
% include "c/few_tensor.t"
    hide(s, ${R == 1 ? "mask" : "masks"}, 0, ${BK/KB/PER});
% end
}
