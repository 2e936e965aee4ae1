%# Which keys of a block the rows of a group on tiles do not see: where the ends of their intervals cross it.
% if BESIDE
/* The head and the query of row r. */
static int64_t head_of(const struct head *x, const struct group *g, int64_t r)
{
    return x->g * (x->a->heads / x->a->kv_heads) + (g->first + r) / x->s->q_len;
}
static int64_t query_of(const struct head *x, const struct group *g, int64_t r)
{
    return (g->first + r) % x->s->q_len;
}
/* Whether rows follow one another as queries do, so that an end of their intervals is a line. */
static int is_straight(const struct head *x, const struct group *g)
{
    return g->first % x->s->q_len + g->rows <= x->s->q_len;
}

% end
% if not WINDOW and not SPLIT
/* A key of a block, or one before or behind it that stands for all there. */
static int32_t within_block(int64_t key) { return key < -${2*MR} ? -${2*MR} : key > ${2*KEYS} ? ${2*KEYS} : (int32_t)key; }

% end
/* Which keys of a block the first row does not see, and how that changes from row to row, as cut_block takes it. */
static void find_edges(const struct head *x, const struct group *g, int64_t block, int32_t *edge)
{
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS}, first = ${BESIDE ? "query_of(x, g, 0)" : "g->i0"} + s->offset - j;
% if WINDOW or SPLIT
    edge[1] = edge[3] = edge[4] = 0;
    edge[0] = edge[2] = (int32_t)most(-${2*MR}, least(${2*KEYS}, s->keys - j));
% else
    edge[0] = edge[2] = within_block(s->keys - j), edge[1] = ${CAUSAL};
% end
% if WINDOW
    if (s->right >= 0)
        edge[0] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first + s->right + 1)), edge[1] = ${BESIDE ? "s->q_len > 1" : "1"};
    if (s->left >= 0)
        edge[3] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first - s->left)), edge[4] = ${BESIDE ? "s->q_len > 1" : "1"};
% elif CAUSAL and not SPLIT
    edge[0] = within_block(first + 1);
% elif CAUSAL
    edge[0] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first + 1)), edge[1] = ${BESIDE ? "s->q_len > 1" : "1"};
% else
    (void)first;
% end
}

% if CUTS_WORDS
/* Hides, among the exponentials of a block in `space`, those of keys that a row does not see. */
static void hide_words(const struct head *x, const struct group *g, int64_t block, float *space)
{
    int32_t edge[${WINDOW ? "5" : "3"}];
    if (block >= g->whole && block < g->unwhole)
        return;
    find_edges(x, g, block, edge);
% if WINDOW
    edge[3]--;
% end
    cut_words(space + ${AT_PROBS}, edge);
}

% end
/* Hides, among the scores of a block in `space`, those of keys that a row does not see. */
static void hide(const struct head *x, const struct group *g, int64_t block, float *space)
{
    int32_t edge[${WINDOW or SPLIT ? "5" : "3"}];
    if (block >= g->whole && block < g->unwhole)
        return;
% if BESIDE and (CAUSAL or WINDOW)
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS};
    if (!is_straight(x, g) && s->q_len > 1) {
        for (int64_t r = 0; r < g->rows; r++) {
            int64_t begin = first_key(s, query_of(x, g, r)) - j, end = end_key(s, query_of(x, g, r)) - j;
            float *row = space + ${AT_SCORES} + r / ${W} * ${W*W} + r % ${W} * ${W};
            for (int64_t c = 0; c < ${KEYS}; c++)
                if (c < begin || c >= end)
                    row[c / ${W} * ${2*W*W} + c % ${W}] = space[${FACTOR + 2}];
        }
        return;
    }
% end
    find_edges(x, g, block, edge);
% if WINDOW or SPLIT
    cut_block(space, edge);
% else
    for (int64_t c = 0; c < 2; c++, edge[0] -= ${KEYS/2}, edge[2] -= ${KEYS/2}) /* half of the keys each */
        if (edge[0] < ${KEYS/2} || edge[2] < ${KEYS/2})
            cut_half(space + ${AT_SCORES} + c * ${4*W*W}, edge, space + ${FACTOR + 2});
% end
}
