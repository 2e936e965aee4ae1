%# Where bits are a promise: keys are computed ${JOINS} at a time, each with a maximum of their own, and joined in their order, as
%# kernels do that split keys among threads. The first of them are computed where the whole is to be.
static struct space part_of(const struct space *w)
{
    struct space part = *w;
    part.o = w->part_o, part.row = w->part_row;
    return part;
}

/* A part joins the keys before it. */
static void join_part(const struct space *w, int64_t rows)
{
    for (int64_t i = 0; i < rows; i += ${MR}) {
        float *row = w->row + i / ${MR} * ${STATE}, *part = w->part_row + i / ${MR} * ${STATE};
        join(row, part);
        blend(w->o + i * ${LDO}, w->part_o + i * ${LDO}, row, part);
    }
}

/* The part that was computed last, if any, is complete; the next one begins. */
static const struct space *begin_part(const struct space *w, const struct space *last, const struct space *part, int64_t rows)
{
    if (last == part)
        join_part(w, rows);
    begin(part, rows);
    return part;
}
