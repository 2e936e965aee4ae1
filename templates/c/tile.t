%# Some rows of queries meet one tile of keys: which micro-kernels are called, and in what order. See tiles.t.
% if INTEGRAL
% include "c/integral.t"

% end
/* Where ${MR} rows of queries meet a tile of keys: these, the scores, the outputs and the state of the rows. */
% if INTEGRAL
struct place {
    const float *q, *k, *v;
    float *s, *p, *o, *row;
    const float *scales, *numbers, *worst; /* of values; of rows, and the largest of their second and fourth ones */
    float top;                             /* the largest scale of a key */
    const struct attn_args *a;
    const struct sequence *sequence;
    int64_t h, i, j; /* the rows' head, the first one of them, and the first key */
};
% else
struct place { const float *q, *k, *v; float *s, *p, *o, *row;${WEIGHS ? " const float *scales;" : ""} };
% end

/* ${MR} rows of queries meet n keys${MODIFY ? ", from key j on; they are rows i, i + 1 and so on of the tile of queries" : ""}. All rows see the first `seen` of these keys. Of the rest row r
 * sees those below ends[r]${WINDOW ? " and not below ends[" : ""}${WINDOW ? MR : ""}${WINDOW ? " + r]" : ""}, counted from the first one that not all see. */
static void tile(const struct place *w, int64_t n, int64_t seen, const int32_t *ends${not INSIDE or RAW ? ", const float *scale" : ""}${MODIFY ? ", const struct scores *x, int64_t i, int64_t j" : ""}${RAW ? ", int exact" : ""})
{
    int64_t steps = n == ${BK} ? ${BK/(PER*W)} : (n + ${PER*W - 1}) / ${PER*W};
% if NR != PER*W
    int64_t panels = n == ${BK} ? ${BK/NR} : (n + ${NR - 1}) / ${NR};
% end
% let COUNT = NR == PER*W ? "steps" : "panels"
% if RAW
    int${INSIDE ? "" : "32_t"} bad;
% end
% if INSIDE
    change(x, w->q, w->k, i, j, ${COUNT});
% if KNOWN
    bad = w->s[${NUMBERS + 4}] != w->s[${NUMBERS + 4}]; /* some score is no number */
% end
% elif INTEGRAL
    const int rests = coarse(w->worst[0], w->top);
% if RAW
    sum_and_tops((const int32_t *)(const void *)w->q, w->k, w->s, w->numbers, &bad, ${COUNT});
% else
    (void)scale; /* is in the numbers of rows */
    sum_tile((const int32_t *)(const void *)w->q, w->k, w->s, w->numbers, ${COUNT});
% end
    if (rests)
        rest_tile((const int32_t *)(const void *)(w->q + ${Q_RESTS}), w->k, w->s, w->numbers, ${COUNT});
    if (coarse(w->worst[1], w->top))
        for (int64_t r = 0; r < ${MR}; r++)
            without_words(w->a, w->sequence, w->h, least(w->i + r, w->sequence->q_len - 1), w->numbers + 4 * r, w->j, n, w->s + r * ${BK});
% elif RAW
    score_and_tops(w->q, w->k, w->s, w->s + ${BEST}, &bad, ${COUNT});
% else
    score_tile(w->q, w->k, w->s, scale, ${COUNT});
% end
% if MODIFY and not INSIDE or MASK and BIAS != "none"
    modify(x, i, j, n);
% end
    if (seen < n)
        cut(w->s + seen, ends, steps - seen / ${PER*W});
% if RAW
% if MASK and BIAS != "none"
    tops_again(w->s, w->s + ${BEST}, steps);
% else
    if (seen < n${INTEGRAL ? " || rests" : ""}${NR > PER*W ? " || n % " : ""}${NR > PER*W ? NR : ""}${NR > PER*W ? " != 0" : ""})
        ${TABLED ? "tops_of" : "tops_again"}(w->s, w->s + ${BEST}, ${TABLED ? "&bad, " : ""}steps);
% end
% end
% if TABLED
% if LOGS
    w->s[${BEST + MR*W}] = *scale;
% end
    softmax_words(w->s, w->p, w->row, w->s + ${BEST}, ${LOGS ? "w->scales" : "scale"}, steps);
    if (bad)
        spoil(w->s, w->row, steps);
    if (exact)
        add_unrounded(w->s, w->row, scale, steps);
% elif KNOWN
    if (exact || bad)
        softmax_known(w->s, w->p, w->row, w->s + ${BEST}, scale, steps);
    else
        softmax_words(w->s, w->p, w->row, w->s + ${BEST}, scale, steps);
% else
    softmax(w->s, w->p, w->row, steps);
% end
% if BEARS and not BLOCKS
    scale_probs(w->p, w->row, w->scales, steps);
% end
% if KNOWN
    n = steps * ${W/U}; /* all pairs that words were made of, which take turns */
% elif U*PER > 1
    n = n == ${BK} ? ${BK/(U*PER)} : (n + ${U*PER - 1}) / ${U*PER};
% end
% if BEARS and BLOCKS
% for b in 0..WEIGHTS
% let COLUMN = b*VALUES
    scale_block(w->p, w->p + ${MR*BK/2}, w->row, w->row + ${BORNE + b*2*W}, w->scales + ${b*BK}, steps);
    value_block(w->p + ${MR*BK/2}, w->v + ${COLUMN/NR*LDP*NR + COLUMN%NR}, w->o + ${COLUMN}, w->row, n);
% end
% else
% for c in 0..PANELS
    ${c < PANELS - 1 or LAST == NV ? "value_tile" : "value_last"}(w->p, w->v${c ? " + " : ""}${c ? c*LDP*NR : ""}, w->o${c ? " + " : ""}${c ? c*NR : ""}, w->row, n);
% end
% end
}

/* No keys yet, of so many rows. */
static void begin(const struct space *w, int64_t rows)
{
    float none_seen = MINUS_INFINITY, *row = w->row;
    memset(w->o, 0, (size_t)rows * ${LDO*4});
    memset(row, 0, (size_t)(rows / ${MR}) * ${STATE*4});
    for (int64_t r = 0; r < rows; r += ${MR}, row += ${STATE})
        for (int64_t l = 0; l < ${W}; l++)
            row[l] = none_seen;
}

/* Outputs and LSE of so many rows of head h, from row i0 on, of what they have met. */
static void finish_all(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h, int64_t i0, int64_t rows)
{
    ${CO} *out = (${CO} *)a->o + s->o_at + h * a->o_stride[1] + i0 * a->o_stride[2];
    float unused;
    for (int64_t i = 0; i < rows; i++) {
        float *row = w->row + i / ${MR} * ${STATE} + i % ${MR}, *lse = a->lse ? a->lse + s->lse_at + h * s->lse_ld + i0 + i : &unused;
% if SINK
        row[${FIX}] = a->features->sinks[h]${TIMES_UNIT};
% end
% if HDV == LDO
        finish(w->o + i * ${LDO}, row, out + i * a->o_stride[2], lse);
% else
        finish(w->o + i * ${LDO}, row, (${CO} *)w->stage, lse);
        memcpy(out + i * a->o_stride[2], w->stage, ${HDV} * sizeof *out);
% end
    }
}
