%# What is done to scores between the product and the softmax, in a pass of its own, or (INSIDE) behind their products. A bias or mask is read
%# where it lies, or from a copy (staged.t).

% let STAGED_ROWS = MR
% let STAGED_KEYS = BK
% include "c/staged.t"

/* What modify() needs to know of the queries, those of head h from row i0 on, and where scores are. */
struct scores { const struct attn_features *f; const struct sequence *s; const struct space *w; int64_t h, i0; };
% if INSIDE

/* The numbers that changes of scores take which stay the same for a tile of queries (inside.micro).${KNOWN ? " Returns what softmax multiplies scores by." : ""} */
static ${KNOWN ? "float" : "void"} begin_changes(const struct scores *x, float scale)
{
    float *numbers = x->w->s + ${NUMBERS};
% if SOFTCAP
    float cap = x->f->softcap${TIMES_UNIT};${WHY_UNIT}
% end
    numbers[0] = scale;
% if SOFTCAP
    numbers[1] = cap;
% end
% if ALIBI
    numbers[2] = -x->f->slopes[x->h]${TIMES_UNIT}, numbers[5] = ${NR}.0f;
    for (int64_t i = 0; i < ${MR}; i++)
        for (int64_t c = 0; c < ${NR}; c++)
            numbers[${DISTANCES - NUMBERS} + i * ${NR} + c] = (float)(c - i);
% end
% if KNOWN
    return ${NATURAL ? "1.44269504f; /* log2(e), as exponentials are powers of two */" : ALIBI ? "1.0f;" : SOFTCAP ? "cap;" : "scale;"}
% end
}

/* Scores of ${MR} rows q, from row i0 + i on, against so many panels k of keys from key j on, and what the features do to them. */
static void change(const struct scores *x, const float *q, const float *k, int64_t i, int64_t j, int64_t panels)
{
% if READS
% let WHAT = BIAS != "none" ? "bias" : "mask"
% let TYPE = BIAS != "none" ? CB : "uint8_t"
    const struct attn_features *f = x->f;
    const struct sequence *s = x->s;
    int64_t row = x->i0 + i, ld;
    const ${TYPE} *${WHAT} = (const ${TYPE} *)f->${WHAT} + s->b * f->${WHAT}_stride[0] + x->h * f->${WHAT}_stride[1];
    ${WHAT} += row * f->${WHAT}_stride[2] + j * f->${WHAT}_stride[3];
    ${WHAT} = (const ${TYPE} *)table(${WHAT}, f->${WHAT}_stride, &ld, s->q_len - row, s->keys - j, panels * ${NR}, sizeof *${WHAT}, x->w->stage);
% elif not ALIBI
    (void)x, (void)i, (void)j;
% end
% if ALIBI
    x->w->s[${NUMBERS + 3}] = (float)(j - (x->i0 + i + x->s->offset));
% end
    ${SCORES_OF}(q, k, x->w->s${READS ? ", " : ""}${READS ? WHAT : ""}${READS ? ", ld" : ""}, panels);
}
% end
% if not INSIDE or MASK and BIAS != "none"

/* What ${INSIDE ? "a mask does" : "the features do"} to the scores of ${MR} rows from row i0 + i on, against n keys from key j on. */
static void modify(const struct scores *x, int64_t i, int64_t j, int64_t n)
{
    const struct space *w = x->w;
    const struct attn_features *f = x->f;
    int64_t steps = (n + ${PER*W - 1}) / ${PER*W};
% if BIAS == "none" and not MASK and not ALIBI
    (void)i, (void)j;
% end
% if SOFTCAP and not INSIDE
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(w->s, &cap, steps);
% end
% if BIAS != "none" or MASK
    const struct sequence *s = x->s;
    int64_t row = x->i0 + i, ld;
% end
% if BIAS != "none" and not INSIDE
    const ${CB} *bias = (const ${CB} *)f->bias + s->b * f->bias_stride[0] + x->h * f->bias_stride[1];
    bias += row * f->bias_stride[2] + j * f->bias_stride[3];
    bias = (const ${CB} *)table(bias, f->bias_stride, &ld, s->q_len - row, s->keys - j, steps * ${PER*W}, sizeof *bias, w->stage);
    add_bias(w->s, bias, ld, steps);
% end
% if ALIBI and not INSIDE
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
% end
