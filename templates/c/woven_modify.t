%# What is done to the scores of a block between their products and their exponentials, in the tiles that they lie in: all of it in one
%# pass, 16 rows at a time.
% let STAGED_ROWS = W
% let STAGED_KEYS = KEYS
% include "c/staged.t"

% let LEAST = TABLE and (UNBOUNDED or MASK)
/* What the features do to the scores of group g against a block of keys.${UNBOUNDED ? " Scores beyond top become top: nothing says beforehand how large they are, and a sum that has one of them is out of range." : ""} */
static void modify(const struct head *x, const struct group *g, int64_t block, float *space${UNBOUNDED ? ", float top" : ""}${LEAST ? ", float least_score" : ""})
{
    const struct attn_features *f = x->a->features;
    float numbers[${REST_NUMBERS + (KEYED ? KEYS : 0)}];
% if BIAS != "none" or MASK or ALIBI
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS};
% else
    (void)g${KEYED ? "" : ", (void)block"};
% end
    numbers[0] = x->scale;
% if KEYED
    memcpy(numbers + ${REST_NUMBERS}, x->w->side + block * ${SIDE}, ${KEYS} * sizeof *numbers);
% end
% if SOFTCAP
    numbers[1] = f->softcap${TIMES_UNIT};${WHY_UNIT}
% end
% if UNBOUNDED
    numbers[2] = top;
% end
% if LEAST
    numbers[4] = least_score;
% end
% if ALIBI
    numbers[3] = -f->slopes[g->h]${TIMES_UNIT};
    for (int64_t c = 0; c < ${KEYS}; c++)
        numbers[${KEY_NUMBERS} + c] = (float)c;
% end
    for (int64_t half = 0; half < 2; half++) {
        float *scores = space + ${AT_SCORES} + half * ${W*W};
% if BIAS != "none" or MASK or ALIBI
        int64_t row = g->i0 + half * ${W};
% end
% if ALIBI
        for (int64_t r = 0; r < ${W}; r++)
            numbers[${ROW_NUMBERS} + r] = (float)(row + r + s->offset - j);
% end
% if BIAS != "none"
        int64_t ld;
        const ${CB} *bias = (const ${CB} *)f->bias + s->b * f->bias_stride[0] + g->h * f->bias_stride[1];
        bias += row * f->bias_stride[2] + j * f->bias_stride[3];
        bias = (const ${CB} *)table(bias, f->bias_stride, &ld, s->q_len - row, s->keys - j, ${KEYS}, sizeof *bias, x->w->stage);
% end
% if MASK
        int64_t seen_ld;
        const uint8_t *seen = f->mask + s->b * f->mask_stride[0] + g->h * f->mask_stride[1];
        seen += row * f->mask_stride[2] + j * f->mask_stride[3];
        seen = (const uint8_t *)table(seen, f->mask_stride, &seen_ld, s->q_len - row, s->keys - j, ${KEYS}, 1, (float *)x->w->stage + ${W*KEYS});
% end
% if BIAS != "none" and MASK
        modify_both(scores, numbers, bias, seen, ld, seen_ld);
% elif BIAS != "none"
        modify_biased(scores, numbers, bias, ld);
% elif MASK
        modify_masked(scores, numbers, seen, seen_ld);
% else
        modify_plain(scores, numbers);
% end
    }
}
