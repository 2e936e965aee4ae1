%# Rows of queries against the keys of one split, tile by tile.
/* Of each lane of scores from key j on: the first key that its row does not see, the first that it sees, its own, and KB. */
static void limits(const struct rows *x, int64_t t, int64_t j, int64_t n, int32_t *to)
{
    for (int64_t l = 0; l < ${W}; l++) {
        int64_t i = query_of(x, t + l % ${R}), end = least(n, end_key(x->s, i) - j), from = first_key(x->s, i) - j;
        to[l] = (int32_t)(end < 0 ? 0 : end), to[${W} + l] = (int32_t)(from < 0 ? 0 : least(from, n));
        to[${2*W} + l] = (int32_t)(l / ${R}), to[${3*W} + l] = ${KB};
    }
}

/* A tile's n keys from j on, their values, and the tile behind it. */
struct keys { const ${CKV} *k, *v, *next_k, *next_v; int64_t j, n, ldk, ldv; };

/* R rows from t on against a tile; o is their block of results. */
static void tile(const struct rows *x, const struct space *w, int64_t t, const struct keys *y, float *o)
{
    int64_t j = y->j, n = y->n, steps = over(n, ${KB});
    float *q = w->q + t / ${R} * ${QUERIES}, *s = q + ${SCORES}, *row = o + ${R*LDO};
    score_rows(q, y->k, s, y->next_k, y->ldk, steps);
% if MODIFY
    modify(x, w, s, t, j, n, steps);
% end
    if (n == ${BK} && j >= x->seen_from && j + n <= x->seen_end)
        softmax_rows(s, row, steps);
    else {
        int32_t limit[${4*W}];
        limits(x, t, j, n, limit);
        softmax_rows_edge(s, row, limit, steps);
        for (float *p = s + steps * ${W}; p < s + ${BK*R}; p++)
            *p = 0.0f;
    }
    int64_t same = 0;
    while (same < ${R} && row[${FIX} + same] == 1.0f)
        same++;
    if (same < ${R}) /* a maximum has grown */
        rescale(o, row);
% for c in 0..PANELS
    for (int64_t r = 0; r < ${R}; r += ${VR})
        ${c < PANELS - 1 or LAST == NV ? "value_rows" : "value_rest"}(s + r, y->v + ${c*NR}, o + r * ${LDO} + ${c*NR}, y->next_v + (r / ${VR} + ${c*(R/VR)}) * ${VALUE_LINES*LINE}, y->ldv, over(n, ${U}));
% end
}

/* Row j of a head. */
static const ${CKV} *row_at(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j)
{
% if PAGED
    return head + a->features->pages[s->b * a->features->page_stride + j / a->features->page_size] * stride[0] + j % a->features->page_size * stride[2];
% else
    (void)a, (void)s;
    return head + j * stride[2];
% end
}

% if TILED
/* The values of a tile, whose probabilities of the first rows are at s. */
static void values(const struct rows *x, float *s, const ${CKV} *v, float *o, int64_t ld)
{
    for (int64_t b = 0; b * ${R} < x->count; b++)
        tile_values(s + b * ${QUERIES}, v, o + b * ${RESULTS}, ld);
}
% end

/* The rows against the keys of one split; o is the blocks of their results. */
static void walk(const struct rows *x, const struct space *w, int64_t split, float *o)
{
    const struct attn_args *a = x->a;
    const ${CKV} *k = (const ${CKV} *)a->k + x->s->k_at + x->g * a->k_stride[1], *v = (const ${CKV} *)a->v + x->s->v_at + x->g * a->v_stride[1];
    int64_t end = least(x->end, (split + 1) * ${SPLIT});
    begin(x, o);
% if TILED
    float *s = 0; /* of the tile before: probabilities that wait for their values, so that the softmax is no stop */
    int64_t seen_end = least(end, x->seen_end) - ${BK};
% end
    for (int64_t j = most(split * ${SPLIT}, x->from / ${BK} * ${BK}); j < end; j += ${BK}) {
        struct keys y = {.j = j, .n = least(${BK}, end - j), .ldk = a->k_stride[2], .ldv = a->v_stride[2]};
% if TILED
        float *before = s, *half = s == w->q + ${SCORES} ? s + ${BUFFER} : w->q + ${SCORES};
        s = j >= x->seen_from && j <= seen_end ? half : 0;
        for (int64_t b = 0; s && b * ${R} < x->count; b++)
            tile_scores(w->q + b * ${QUERIES}, k + j * y.ldk, s + b * ${QUERIES}, o + b * ${RESULTS} + ${R*LDO}, y.ldk);
        if (before)
            values(x, before, v + (j - ${BK}) * y.ldv, o, y.ldv);
        if (s)
            continue;
% end
        int64_t next = j + ${BK} < end ? j + ${BK} : j;
        y.next_k = row_at(a, x->s, k, a->k_stride, next), y.next_v = row_at(a, x->s, v, a->v_stride, next);
        y.k = keys_at(a, x->s, k, a->k_stride, j, y.n, ${BK}, ${HD}, ${LDQ}, &y.ldk, w->k);
        y.v = keys_at(a, x->s, v, a->v_stride, j, y.n, ${BK}, ${HDV}, ${LDO}, &y.ldv, w->v);
        for (int64_t t = 0; t < x->count; t += ${R})
            tile(x, w, t, &y, o + t / ${R} * ${RESULTS});
    }
% if TILED
    if (s)
        values(x, s, v + (end - ${BK}) * a->v_stride[2], o, a->v_stride[2]);
% end
}

