%# The queries of a group become tiles.
    for (int64_t i = 0; i < ${MR}; i += ${W}) {
        ${CQ} *rows = (${CQ} *)x->w->stage;
        memset(rows, 0, ${W*LDX*PER} * sizeof *rows);
        for (int64_t r = i; r < least(i + ${W}, g->rows); r++)
% if BESIDE
            memcpy(rows + (r - i) * ${LDX*PER}, q + head_of(x, g, r) * a->q_stride[1] + query_of(x, g, r) * a->q_stride[2], ${HD} * sizeof *rows);
% else
            memcpy(rows + (r - i) * ${LDX*PER}, q + g->h * a->q_stride[1] + (g->i0 + r) * a->q_stride[2], ${HD} * sizeof *rows);
% end
% if PARTS == 2
        for (int64_t r = 0; r < ${W}; r++)
            open_query(rows + r * ${LDX*PER}, g->q + i * ${LDQ} + r * ${W});
% else
        pack_q(rows, g->q + i * ${LDQ}, ${LDX*PER});
% end
    }
