/* What the features do to the scores of ${R} rows from row t on, against a tile of n keys from key j on. A bias or mask is copied in the order
 * of the scores. */
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
    memset(w->stage, 0, ${BK*R} * sizeof(${CB}));
    for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
        const ${CB} *in = (const ${CB} *)f->bias + x->s->b * f->bias_stride[0] + head_of(x, t + r) * f->bias_stride[1];
        ${CB} *to = (${CB} *)w->stage + r;
        for (int64_t c = 0; c < n; c++)
            to[c * ${R}] = in[query_of(x, t + r) * f->bias_stride[2] + (j + c) * f->bias_stride[3]];
    }
    add_bias(s, (const ${CB} *)w->stage, 0, ${BK/KB/PER});
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
    memset(w->stage, 0, ${BK*R});
    for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
        const uint8_t *in = f->mask + x->s->b * f->mask_stride[0] + head_of(x, t + r) * f->mask_stride[1];
        uint8_t *to = (uint8_t *)w->stage + r;
        for (int64_t c = 0; c < n; c++)
            to[c * ${R}] = in[query_of(x, t + r) * f->mask_stride[2] + (j + c) * f->mask_stride[3]];
    }
    hide(s, (const uint8_t *)w->stage, 0, ${BK/KB/PER});
% end
}
