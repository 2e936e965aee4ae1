%# What ends a group of rows of kernels on tiles: rows whose sums say that an exponent was too far off are computed again, and outputs are
%# delivered.
% if SPLIT
% include "c/woven_queries.t"
% end
/* The scores of a block from all parts of its keys, modified and hidden as in the pipeline, but nowhere cut off. */
static void open_scores(const struct head *x, const struct group *g, int64_t block, float *space)
{
% if SPLIT
    pack(x, block${ACROSS ? ", 1" : ""});
% end
% if THIRDS
    pack_thirds(x);
    exact_scores(g->q, x->w->k + block * ${KBLOCK}, x->w->thirds + block * ${TBLOCK}, space);
% else
    ${ROUGH ? "exact_scores" : "scores"}(g->q, x->w->k${SPLIT ? "" : " + block * "}${SPLIT ? "" : KBLOCK}, space);
% end
% if MODIFY
    modify(x, g, block, space${UNBOUNDED ? ", -MINUS_INFINITY" : ""}${LEAST ? ", MINUS_INFINITY" : ""});
% end
    hide(x, g, block, space);
}

% if ROWWISE
/* Computes those rows of a group again whose bits are set: by their true maxima, first these, then everything else. */
static void redo(const struct head *x, struct group *g, uint32_t lost)
{
    float *space = x->w->exact, *kept = x->w->kept;
    int32_t unused[4];
    memcpy(kept, g->o, ${RESULT*4});
    memcpy(kept + ${RESULT}, g->state, ${2*STATE*4});
% else
/* Computes a group again by its true maxima: first these, then everything else. */
static void redo(const struct head *x, struct group *g)
{
    float *space = x->w->exact;
    int32_t unused[4];
% end
% if CHAINED
    if (g->chained)
        pack_queries(x, g);
% end
    space[${FACTOR}] = x->factor;
    space[${FACTOR + 2}] = x->hidden;
% if not SPLIT
    move_to(g, g->room); /* its queries' place may be another group's by now */
    pack_queries(x, g);
% end
    memset(g->o, 0, ${(GROUP_STATE - GROUP_O)*4});
    for (int64_t r = 0; r < ${2*STATE}; r++)
        g->state[r] = r % ${STATE} < ${SUM} ? MINUS_INFINITY : 0.0f;
    for (int64_t block = g->begin; block < g->end; block++) {
        open_scores(x, g, block, space);
        tops(space, g->state${KEYED and not MODIFY ? ", x->w->side + block * " : ""}${KEYED and not MODIFY ? SIDE : ""});
    }
    for (int64_t r = 0; r < ${2*STATE}; r++)
        if (r % ${STATE} < ${SUM}) { /* what is subtracted is finite */
            g->state[r + ${BASE}] = g->state[r] > -3.40282347e38f ? g->state[r] : -3.40282347e38f;
            g->state[r + ${BIAS_AT}] = -g->state[r + ${BASE}];
        }
    for (int64_t block = g->begin; block < g->end; block++) {
        open_scores(x, g, block, space);
        exponentials(space, g->parts, g->state${KEYED ? ", x->w->side + block * " : ""}${KEYED ? SIDE : ""});
        values(space, x->w->v${SPLIT ? "" : " + block * "}${SPLIT ? "" : VBLOCK}, g->o);
    }
    totals(g->sums, g->state, unused);
% if ROWWISE
    for (int64_t r = 0; r < ${MR}; r++)
        if (!(lost >> r & 1)) {
            for (int64_t t = r * ${W}; t < ${RESULT}; t += ${COLUMN})
                memcpy(g->o + t, kept + t, ${W} * sizeof(float));
            for (int64_t i = r / ${W} * ${STATE} + r % ${W}, n = 0; n < ${STATE/W}; n++, i += ${W})
                g->state[i] = kept[${RESULT} + i];
        }
% end
}

% if ROWWISE
/* The rows whose sums${WIDE_RANGE ? " or outputs" : ""} show that they are to be computed again, a bit for each. */
static uint32_t lost_rows(const struct head *x, const struct group *g)
{
    uint32_t lost = 0;
    int32_t bad[4];
    totals(g->sums, g->state, bad);
% if WIDE_RANGE
    int32_t some[${MR}], out[3];
% if CHAINED
    for (int64_t r = ${CHAINED}; r < ${MR}; r++)
        some[r] = 1;
    if (g->chained)
        extents_chained(g->o, some, out);
    else
% end
    extents(g->o, some, out);
    bad[0] |= out[0], bad[2] |= out[1];
    for (int64_t i = 0; out[2] && i < ${GROUP_Z - GROUP_O}; i++) /* rows with numbers that are infinite or none */
        if ((bits_of_float(g->o[i]) & 0x7f800000u) == 0x7f800000u)
            bad[i / ${W*W} % 2 * 2] |= 1 << i / ${W} % ${W};
% end
    bad[0] |= bad[1], bad[2] |= bad[3];
    if (!(bad[0] | bad[2]))
        return 0;
    for (int64_t r = 0; r < g->rows; r++) {
        int64_t i = ${BESIDE ? "query_of(x, g, r)" : "g->i0 + r"};
        if ((bad[r / ${W} * 2] >> r % ${W} & 1) && end_key(x->s, i) > first_key(x->s, i))
            lost |= (uint32_t)1 << r;
    }
    return lost;
}

% else
/* Whether a row that sees any key is among those whose sums are too small. */
static int is_lost(const struct head *x, const struct group *g, const int32_t *bad)
{
    for (int64_t r = 0; r < g->rows; r++) {
        int64_t h = r / ${W} * 2;
        if (((bad[h] | bad[h + 1]) >> r % ${W} & 1) && end_key(x->s, g->i0 + r) > first_key(x->s, g->i0 + r))
            return 1;
    }
    return 0;
}

% end
/* What is left to do after a group's last block: the quotient of each row. Where a sum is too small, or `again` is 1, ${ROWWISE ? "the row" : "the group"} is computed
 * again before. */
static void close_group(const struct head *x, struct group *g, int again)
{
    const struct attn_args *a = x->a;
% if not BESIDE
    ${CO} *out = (${CO} *)a->o + x->s->o_at + g->h * a->o_stride[1] + g->i0 * a->o_stride[2];
% end
% if ROWWISE
% if SPLIT
    g->o = g->total, g->sums = g->o + ${GROUP_Z - GROUP_O}, g->parts = g->sums + ${COLUMN};
% else
    if (g->joins) {
        fold(g->total, g->o, ${RESULT/128});
        g->o = g->total, g->sums = g->o + ${GROUP_Z - GROUP_O}, g->parts = g->sums + ${COLUMN};
    }
% end
    uint32_t lost = lost_rows(x, g);
    if (again)
        lost = 0xffffffffu;
    if (lost)
        redo(x, g, lost);
% else
    int32_t bad[4];
    if (!again) {
        totals(g->sums, g->state, bad);
        again = (bad[0] | bad[1] | bad[2] | bad[3]) && is_lost(x, g, bad);
    }
    if (again)
        redo(x, g);
% end
% if BESIDE
    if (a->lse) {
        const float *lse = (const float *)x->w->stage;
        logarithms(g->parts, g->state, (float *)x->w->stage);
        for (int64_t r = 0; r < g->rows; r++)
            a->lse[x->s->lse_at + head_of(x, g, r) * x->s->lse_ld + query_of(x, g, r)] = lse[r];
    }
% if SINK
    float sinks[${MR}] = {0};
    for (int64_t r = 0; r < g->rows; r++)
        sinks[r] = a->features->sinks[head_of(x, g, r)]${TIMES_UNIT};
    sink_shares(g->state, sinks);
% else
    shares(g->state);
% end
    for (int64_t r = 0; r < g->rows; r++) {
        ${CO} *out = (${CO} *)a->o + x->s->o_at + head_of(x, g, r) * a->o_stride[1] + query_of(x, g, r) * a->o_stride[2];
        deliver(g->o + r / ${W} * ${W*W} + r % ${W} * ${W}, g->state + r / ${W} * ${STATE} + r % ${W}, (${CO} *)x->w->stage, 0, 1);
        memcpy(out, x->w->stage, ${HDV} * sizeof *out);
    }
% else
    if (a->lse) {
        logarithms(g->parts, g->state, (float *)x->w->stage);
        memcpy(a->lse + x->s->lse_at + g->h * x->s->lse_ld + g->i0, x->w->stage, (size_t)g->rows * sizeof(float));
    }
% if SINK
% if SPLIT
    float sink[${MR}];
    for (int64_t r = 0; r < ${MR}; r++)
        sink[r] = a->features->sinks[g->h]${TIMES_UNIT};
    sink_shares(g->state, sink);
% else
    float sink = a->features->sinks[g->h]${TIMES_UNIT};
    sink_shares(g->state, &sink);
% end
% else
    shares(g->state);
% end
% if HDV == LDO
    deliver(g->o, g->state, out, a->o_stride[2], least(${W}, g->rows));
    if (g->rows > ${W})
        deliver(g->o + ${W*W}, g->state + ${STATE}, out + ${W} * a->o_stride[2], a->o_stride[2], g->rows - ${W});
% else
    for (int64_t r = 0; r < g->rows; r++) {
        deliver(g->o + r / ${W} * ${W*W} + r % ${W} * ${W}, g->state + r / ${W} * ${STATE} + r % ${W}, (${CO} *)x->w->stage, 0, 1);
        memcpy(out + r * a->o_stride[2], x->w->stage, ${HDV} * sizeof *out);
    }
% end
% end
}
