%# What is done to scores between the product and the softmax. The rows of a vector of scores may be of several heads.
% if R > 1 and (BIAS != "none" or MASK)
/* Whether all rows share theirs, as where one mask of keys serves all heads of one query. */
static int alike(const struct rows *x, const int64_t *stride)
{
    return stride[1] == 0 && (stride[2] == 0 || x->s->q_len == 1);
}

% end
%# The bytes of a key's rows, four at a time where that is possible.
% let BYTES_AT_ONCE = R % 4 == 0 ? 4 : 1
% let BYTES_TYPE = R % 4 == 0 ? "uint32_t" : "uint8_t"
/* What the features do to the scores of ${R} rows from row t on, against a tile of n keys from key j on.${BIAS == "none" and not MASK ? "" : R == 1 ? " A bias or mask is read where it lies if its keys lie side by side, or else from a copy." : " A bias or mask is copied in the order of the scores."} */
static void modify(const struct rows *x, const struct space *w, float *s, int64_t t, int64_t j, int64_t n)
{
    const struct attn_features *f = x->a->features;
% if BIAS == "none" and not MASK and not ALIBI
    (void)t, (void)j;
% end
% if BIAS == "none" and not MASK
    (void)w, (void)n;
% end
% if SOFTCAP
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(s, &cap, ${BK/KB/PER});
% end
% if BIAS != "none"
    int64_t bias_step = f->bias_stride[3];
    const ${CB} *bias = (const ${CB} *)f->bias + x->bias_at[t] + j * bias_step;
    ${CB} *biases = (${CB} *)w->stage;
    if (n < ${BK}${R > 1 ? " || t + " : ""}${R > 1 ? R : ""}${R > 1 ? " > x->count" : ""})
        memset(biases, 0, ${BK*R} * sizeof *biases);
% if R == 1
    if (n < ${BK} || bias_step != 1) {
        for (int64_t c = 0; c < n; c++)
            biases[c] = bias[c * bias_step];
        bias = biases;
    }
    add_bias(s, bias, 0, ${BK/KB/PER});
% else
    if (alike(x, f->bias_stride))
        for (int64_t c = 0; c < n; c++) {
            ${CB} one = bias[c * bias_step], *to = biases + c * ${R};
% for r in 0..R
            to[${r}] = one;
% end
        }
    else
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
            ${CB} *to = biases + r;
            bias = (const ${CB} *)f->bias + x->bias_at[t + r] + j * bias_step;
            for (int64_t c = 0; c < n; c++, to += ${R}, bias += bias_step)
                *to = *bias;
        }
    add_bias(s, biases, 0, ${BK/KB/PER});
% end
% end
% if ALIBI
    float numbers[${3*W}];
    for (int64_t l = 0; l < ${W}; l++) {
        int64_t r = t + l % ${R} < x->count ? t + l % ${R} : t;
        numbers[l] = -f->slopes[head_of(x, r)]${TIMES_UNIT};
        numbers[${W} + l] = (float)(j + l / ${R} - query_of(x, r) - x->s->offset), numbers[${2*W} + l] = ${KB}.0f;
    }
    alibi_rows(s, numbers);
% end
% if MASK
    int64_t mask_step = f->mask_stride[3];
    const uint8_t *mask = f->mask + x->mask_at[t] + j * mask_step;
    uint8_t *masks = (uint8_t *)w->stage;
    if (n < ${BK}${R > 1 ? " || t + " : ""}${R > 1 ? R : ""}${R > 1 ? " > x->count" : ""})
        memset(masks, 0, ${BK*R});
% if R == 1
    if (n < ${BK} || mask_step != 1) {
        for (int64_t c = 0; c < n; c++)
            masks[c] = mask[c * mask_step];
        mask = masks;
    }
    hide(s, mask, 0, ${BK/KB/PER});
% else
    if (alike(x, f->mask_stride))
        for (int64_t c = 0; c < n; c++) {
            ${BYTES_TYPE} one = mask[c * mask_step]${BYTES_AT_ONCE > 1 ? " * 0x1010101u" : ""}, *to = (${BYTES_TYPE} *)w->stage + c * ${R/BYTES_AT_ONCE};
% for r in 0..R/BYTES_AT_ONCE
            to[${r}] = one;
% end
        }
    else
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
            uint8_t *to = masks + r;
            mask = f->mask + x->mask_at[t + r] + j * mask_step;
            for (int64_t c = 0; c < n; c++, to += ${R}, mask += mask_step)
                *to = *mask;
        }
    hide(s, masks, 0, ${BK/KB/PER});
% end
% end
}
