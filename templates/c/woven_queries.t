%# The queries of a group where keys are split: a copy of some rows, and all of them as tiles.
/* A copy of up to ${W} rows of queries of a group, from row i on, with zeros behind each and behind the last, ${LDX*PER} numbers a row. */
static const ${CQ} *copy_queries(const struct head *x, const struct group *g, int64_t i)
{
    const struct attn_args *a = x->a;
    const ${CQ} *q = (const ${CQ} *)a->q + x->s->q_at;
    ${CQ} *rows = (${CQ} *)x->w->stage;
    memset(rows, 0, ${W*LDX*PER} * sizeof *rows);
    for (int64_t r = i; r < least(i + ${W}, g->rows); r++)
% if BESIDE
        memcpy(rows + (r - i) * ${LDX*PER}, q + head_of(x, g, r) * a->q_stride[1] + query_of(x, g, r) * a->q_stride[2], ${HD} * sizeof *rows);
% else
        memcpy(rows + (r - i) * ${LDX*PER}, q + g->h * a->q_stride[1] + (g->i0 + r) * a->q_stride[2], ${HD} * sizeof *rows);
% end
    return rows;
}

/* Packs the queries of a group as tiles. */
static void pack_queries(const struct head *x, const struct group *g)
{
    for (int64_t i = 0; i < ${MR}; i += ${W}) {
        const ${CQ} *rows = copy_queries(x, g, i);
% if PARTS == 2
        for (int64_t r = 0; r < ${W}; r++)
            open_query(rows + r * ${LDX*PER}, g->q + i * ${LDQ} + r * ${W});
% else
        pack_q(rows, g->q + i * ${LDQ}, ${LDX*PER});
% end
    }
}

