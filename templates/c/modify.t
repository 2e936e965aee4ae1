%# What is done to scores between the product and the softmax. A bias or mask is read where it lies, or from a copy
%# (staged.t).

% let STAGED_ROWS = MR
% let STAGED_KEYS = BK
% include "c/staged.t"

/* What modify() needs to know of the queries, those of head h from row i0 on, and where scores are. */
struct scores { const struct attn_features *f; const struct sequence *s; const struct space *w; int64_t h, i0; };

/* What the features do to the scores of ${MR} rows from row i0 + i on, against n keys from key j on. */
static void modify(const struct scores *x, int64_t i, int64_t j, int64_t n)
{
    const struct space *w = x->w;
    const struct attn_features *f = x->f;
    int64_t steps = (n + ${PER*W - 1}) / ${PER*W};
% if BIAS == "none" and not MASK and not ALIBI
    (void)i, (void)j;
% end
% if SOFTCAP
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(w->s, &cap, steps);
% end
% if BIAS != "none" or MASK
    const struct sequence *s = x->s;
    int64_t row = x->i0 + i, ld;
% end
% if BIAS != "none"
    const ${CB} *bias = (const ${CB} *)f->bias + s->b * f->bias_stride[0] + x->h * f->bias_stride[1];
    bias += row * f->bias_stride[2] + j * f->bias_stride[3];
    bias = (const ${CB} *)table(bias, f->bias_stride, &ld, s->q_len - row, s->keys - j, steps * ${PER*W}, sizeof *bias, w->stage);
    add_bias(w->s, bias, ld, steps);
% end
% if ALIBI
    float numbers[${W + 2 + (INVARIANT ? 2*MR : MR)}];
    numbers[0] = -f->slopes[x->h]${TIMES_UNIT}, numbers[${W + 1}] = ${W}.0f;
% if INVARIANT
    for (int64_t r = 0; r < ${MR}; r++)
        numbers[${W + 2 + MR} + r] = numbers[0]; /* of each row */
% end
% if INVARIANT and WINDOW
    for (int64_t l = 0; l < ${W}; l++)
        numbers[1 + l] = (float)(j % ${BK} + l); /* from the tile's first key, whichever of its keys comes first here */
    for (int64_t r = 0; r < ${MR}; r++)
        numbers[${W + 2} + r] = (float)(x->i0 + i + r + x->s->offset - j / ${BK} * ${BK});
% else
    for (int64_t l = 0; l < ${W}; l++)
        numbers[1 + l] = (float)l;
    for (int64_t r = 0; r < ${MR}; r++)
        numbers[${W + 2} + r] = (float)(x->i0 + i + r + x->s->offset - j);
% end
    alibi(w->s, numbers, steps);
% end
% if MASK
    const uint8_t *mask = f->mask + s->b * f->mask_stride[0] + x->h * f->mask_stride[1];
    mask += row * f->mask_stride[2] + j * f->mask_stride[3];
    mask = (const uint8_t *)table(mask, f->mask_stride, &ld, s->q_len - row, s->keys - j, steps * ${PER*W}, 1, w->stage);
    hide(w->s, mask, ld, steps);
% end
}
