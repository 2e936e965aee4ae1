%# What kernels on tiles fetch while they compute, so that a group finds its queries, and room for its outputs, in the cache.

/* Sends for n rows, `stride` elements of `size` bytes apart, after those that are sent for later. */
static void send_for(struct walk *k, const void *first, int64_t stride, int64_t size, int64_t n)
{
    struct errand *e = &k->errand[k->errands++];
    e->at = (float *)first, e->step = stride * size / 4, e->trips = (n + ${AHEAD_ROWS - 1}) / ${AHEAD_ROWS};
}

/* What a visit of a group fetches: first the queries of the group that is opened next, and then, if it is the group's last one, the
 * rows of its outputs. */
static void look_ahead(const struct head *x, struct walk *k)
{
    const struct attn_args *a = x->a;
    const struct group *g = k->tile[k->at];
    int64_t h = g->h, i0 = g->i0 + ${MR}, opens = k->at + 1 < k->groups ? !k->tile[k->at + 1]->q : 0;
    if (k->at + 1 == k->groups && k->visit + k->reach >= k->end && k->u < k->units)
        opens = 1, h = head_at(x, k), i0 = row_at(x, k);
    k->errands = 0;
    if (k->stop == g->end)
        send_for(k, (const ${CO} *)a->o + x->s->o_at + g->h * a->o_stride[1] + g->i0 * a->o_stride[2], a->o_stride[2], sizeof(${CO}), g->rows);
    if (opens)
        send_for(k, (const ${CQ} *)a->q + x->s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2], a->q_stride[2], sizeof(${CQ}), least(${MR}, x->s->q_len - i0));
}

/* What n trips fetch, or fewer if there is less, goes into at[6]; returns how many they are. *step: from a row to the next. */
static int64_t fetch_by(struct walk *k, int64_t n, float **at, int64_t *step)
{
    *step = 0, at[6] = at[1]; /* rows that are there */
    if (!k->errands)
        return n;
    struct errand *e = &k->errand[k->errands - 1];
    if (n > e->trips)
        n = e->trips;
    at[6] = e->at, *step = e->step;
    e->at += n * ${AHEAD_ROWS} * e->step, e->trips -= n;
    k->errands -= e->trips == 0;
    return n;
}

