%# Few queries over many keys on tiles: what woven.t does with a block of keys where bits are a promise, in the same order, for all rows
%# that share a KV head, so that each key is read and packed once. There is no pipeline. Splits of keys are computed alone and added in
%# their order, so that the bits do not depend on which part computes which split.

/* The rows of all heads that share a KV head, in groups of ${MR}, and ${GROUPS} groups to a chunk; the splits of all keys. */
static int64_t groups_of(const struct attn_args *a, int64_t q_len)
{
% if BESIDE
    return (a->heads / a->kv_heads * q_len + ${MR - 1}) / ${MR};
% else
    return a->heads / a->kv_heads * ((q_len + ${MR - 1}) / ${MR});
% end
}
static int64_t chunks_of(const struct attn_args *a, int64_t q_len) { return (groups_of(a, q_len) + ${GROUPS - 1}) / ${GROUPS}; }
static int64_t splits_of(const struct attn_args *a) { return (a->kv_len + ${SPLIT - 1}) / ${SPLIT}; }
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    int64_t chunks = a->batch * a->kv_heads * chunks_of(a, a->q_len), splits = splits_of(a);
    if (a->part < 0)
        return a->part == -1 ? chunks * splits * ${GROUPS*RESULT*4} : a->part == -2 ? chunks * splits : a->part == -3 ? chunks : 1;
    return ${WORKSPACE};
}

% if CHAINED
/* Outputs and sums of a group of up to ${CHAINED} rows become 0. */
static void clear_chained(float *o)
{
    for (int64_t t = 0; t <= ${CV}; t++)
        memset(o + t * ${COLUMN}, 0, ${CHAINED*W*4});
}

% end
/* Packs the queries of group number n, one of `groups` that meet keys together, and finds which blocks they see. */
static void open_group(const struct head *x, struct group *g, float *at, int64_t n, int64_t groups)
{
    const struct attn_args *a = x->a;
    const struct sequence *s = x->s;
    float base = 0.0f;
    g->q = at, g->o = at + ${GROUP_O}, g->sums = at + ${GROUP_Z}, g->parts = at + ${GROUP_Z + COLUMN}, g->state = at + ${GROUP_STATE};
    g->total = at + ${GROUP_TOTAL};
% if not ACROSS
    (void)groups;
% end
% if BESIDE
    g->first = n * ${MR}, g->rows = least(${MR}, a->heads / a->kv_heads * s->q_len - g->first);
    int64_t i0 = is_straight(x, g) ? query_of(x, g, 0) : 0, i1 = is_straight(x, g) ? i0 + g->rows - 1 : s->q_len - 1;
% else
    int64_t of_head = (s->q_len + ${MR - 1}) / ${MR};
    g->h = x->g * (a->heads / a->kv_heads) + n / of_head, g->i0 = n % of_head * ${MR}, g->rows = least(${MR}, s->q_len - g->i0);
    int64_t i0 = g->i0, i1 = i0 + g->rows - 1;
% end
    int64_t first = first_key(s, i0), last = end_key(s, i1);
    g->begin = first / ${KEYS}, g->end = last > first ? (last + ${KEYS - 1}) / ${KEYS} : g->begin;
    g->whole = (first_key(s, i1) + ${KEYS - 1}) / ${KEYS}, g->unwhole = end_key(s, i0) / ${KEYS};
% if CHAINED
    g->chained = groups == 1 && g->rows <= ${CHAINED} && !a->lse;
    if (!g->chained)
        pack_queries(x, g);
% else
    pack_queries(x, g);
% end
% if ACROSS
    g->across = 0;
    const int meets = !a->shared || !a->phase; /* and does not only add up what others left */
    for (int64_t i = 0; i < g->rows && meets && !a->lse && (groups <= 2 || g->rows <= ${W}); i += ${W}) {
        g->across = at + ${GROUP_ACROSS};
        pack_k(copy_queries(x, g, i), at + ${GROUP_ACROSS} + i * ${LDX}, ${LDX*PER});
    }
% end
% if CHAINED
    if (g->chained)
        clear_chained(g->o);
    else
% end
    memset(g->o, 0, ${RESULT*4});
    begin(g->state, &base);
}
% if ACROSS

% for v in 0..(PARTED_V or CHAINED ? 2 : 1)
% let X = v ? "v" : "k"
/* The ${v ? "values" : "keys"} of a block as rows of pairs, *ld slots apart: where they lie, or a copy. */
static const float *${v ? "values_of_block" : "keys_of_block"}(const struct head *x, int64_t block, int64_t *ld)
{
    const struct attn_args *a = x->a;
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS};
    const ${CKV} *${X} = (const ${CKV} *)a->${X} + s->${X}_at + x->g * a->${X}_stride[1];
    const ${CKV} *row = keys_at(a, s, ${X}, a->${X}_stride, j, least(${KEYS}, s->keys - j), ${KEYS}, ${v ? HDV : HD}, ${v ? LDO : LDX*PER}, ld, (${CKV} *)x->w->stage);
    if ((*ld & 1) || ((size_t)row & 3)) {
        ${CKV} *copy = (${CKV} *)x->w->stage;
        for (int64_t r = 0; r < ${KEYS}; r++)
            memcpy(copy + r * ${v ? LDO : LDX*PER}, row + r * *ld, ${v ? LDO : LDX*PER} * sizeof *copy);
        row = copy, *ld = ${v ? LDO : LDX*PER};
    }
    *ld /= 2;
    return (const float *)(const void *)row;
}

% end
/* Hides scores of keys that a row does not see, where rows are columns, of ${W} rows from row `first` on. */
static void hide_across(const struct head *x, const struct group *g, int64_t block, int64_t first, float *scores)
{
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS};
    float none[${W}];
    if (block >= g->whole && block < g->unwhole)
        return;
    for (int64_t r = 0; r < ${W}; r++)
        none[r] = x->w->trip[${FACTOR + 2}];
    int64_t queries = ${CAUSAL or WINDOW ? "s->q_len > 1 ? least(" : "1"}${CAUSAL or WINDOW ? W : ""}${CAUSAL or WINDOW ? ", g->rows - first) : 1" : ""};
    for (int64_t r = 0; r < queries; r++) {
        int64_t i = query_of(x, g, first + r), begin = first_key(s, i) - j, end = end_key(s, i) - j;
        for (int64_t c = 0; c < ${KEYS}; c++) {
            float *to = scores + c * ${W};
            if (c >= begin && c < end)
                continue;
            if (queries > 1)
                to[r] = none[0];
            else
                memcpy(to, none, sizeof none);
        }
    }
}

/* Row j of keys, to be fetched as slots. */
static const float *ahead(const struct head *x, int64_t j)
{
    return (const float *)(const void *)place_of(x, x->a->k, x->s->k_at, x->a->k_stride, j);
}

/* Whether a group meets values where these lie. */
static int is_parted(const struct group *g)
{
% if PARTED_V
    return g->across && g->rows <= ${W};
% else
    (void)g;
    return 0;
% end
}

/* What a block adds to the outputs of a group. The keys and values of the block behind it are fetched meanwhile. */
static void meet_across(const struct head *x, const struct group *g, int64_t block)
{
    const struct attn_args *a = x->a;
    const struct space *w = x->w;
    int64_t ld, next = (block + 1) * ${KEYS}, v_at = x->s->v_at;
    const float *k = keys_of_block(x, block, &ld);
    float *scores = w->trip + ${AT_SCORES}, *probs = w->trip + ${AT_PROBS};
    if (g->rows > ${W}) {
        scores_twice(g->across, k, w->trip, ld, ahead(x, next + 32));
        for (int64_t r = 0; r < ${MR}; r += ${W}) {
            hide_across(x, g, block, r, scores + r * ${KEYS});
            words_across(w->trip, scores + r * ${KEYS}, probs + r * ${W}, place_of(x, a->v, v_at, a->v_stride, next + 2 * r), a->v_stride[2]);
        }
        values(w->trip, w->v, g->o);
        return;
    }
    scores_across(g->across, k, w->trip, ld, ahead(x, next${PARTED_V ? "" : " + 32"}));
    hide_across(x, g, block, 0, scores);
% if PARTED_V
    words_parted(w->trip, (int32_t *)(void *)(w->trip + ${AT_PARTED}), ld, ahead(x, next + 32));
    const float *v = values_of_block(x, block, &ld);
    values_parted(w->trip, v, g->o, ld, (const float *)(const void *)place_of(x, a->v, v_at, a->v_stride, next));
% else
    words_across(w->trip, scores, probs, place_of(x, a->v, v_at, a->v_stride, next), a->v_stride[2]);
    values_across(w->trip, w->v, g->o, place_of(x, a->v, v_at, a->v_stride, next + 32), a->v_stride[2]);
% end
}
% end

% if CHAINED
/* Hides scores of keys that a row does not see, where scores_fourth leaves them. */
static void hide_fourth(const struct head *x, const struct group *g, int64_t block, float *scores)
{
    if (block >= g->whole && block < g->unwhole)
        return;
    for (int64_t r = 0; r < g->rows; r++, scores++) {
        int64_t i = query_of(x, g, r), begin = first_key(x->s, i) - block * ${KEYS}, end = end_key(x->s, i) - block * ${KEYS};
        for (int64_t c = 0; c < ${KEYS}; c++)
            if (c < begin || c >= end)
                scores[c % 4 * ${KEYS} + c / 4 * 4] = x->w->trip[${FACTOR + 2}];
    }
}

/* What one block adds to the outputs of a group of up to ${CHAINED} rows. */
static void meet_chained(const struct head *x, const struct group *g, int64_t block)
{
    float *scores = x->w->trip + ${AT_SCORES}, *probs = x->w->trip + ${AT_PROBS};
    int64_t ld;
    const float *k = keys_of_block(x, block, &ld);
    scores_fourth(g->across, k, scores, ld, 4 * ld, k);
    hide_fourth(x, g, block, scores);
    words_fourth(x->w->trip, probs, k, ld);
    const float *v = values_of_block(x, block, &ld);
    values_chained(probs, v, g->o, ld, v);
}

/* Whether rows of a tensor are such that a block of them can be met where it lies. */
static int in_place(const struct head *x, const void *from, const int64_t *stride)
{
% if HD != LDX*PER or HDV != LDO
    (void)x, (void)from, (void)stride; /* they are not whole vectors */
    return 0;
% elif PAGED
    return x->a->features->page_size % ${KEYS} == 0 && !((size_t)from & 3) && !((stride[0] | stride[1] | stride[2]) & 1);
% else
    return !((size_t)from & 3) && !((stride[0] | stride[1] | stride[2]) & 1);
% end
}

/* The same of blocks begin to end - 1, which all rows see all of, and which lie as they should. */
static void meet_all_chained(const struct head *x, const struct group *g, int64_t begin, int64_t end)
{
    const struct attn_args *a = x->a;
    int64_t ld = a->k_stride[2] / 2, ld_v = a->v_stride[2] / 2;
    float *with[3] = {(float *)g->across, x->w->trip, g->o}, *of[${2*(JOINS + 1)}], **at = of;
    if (begin >= end)
        return;
% if PAGED
    for (int64_t block = begin; block <= end; block++) {
        *at++ = (float *)(void *)place_of(x, a->k, x->s->k_at, a->k_stride, block * ${KEYS});
        *at++ = (float *)(void *)place_of(x, a->v, x->s->v_at, a->v_stride, block * ${KEYS});
    }
% else
    float *k = (float *)(void *)place_of(x, a->k, x->s->k_at, a->k_stride, begin * ${KEYS});
    float *v = (float *)(void *)place_of(x, a->v, x->s->v_at, a->v_stride, begin * ${KEYS});
    for (int64_t n = end - begin + 1; n; n--, k += ${KEYS} * ld, v += ${KEYS} * ld_v)
        *at++ = k, *at++ = v;
% end
    blocks_chained(with, of, end - begin, ld, 4 * ld, ld_v);
}

/* What a split of the keys adds to the outputs of a group of up to ${CHAINED} rows, which are 0 before. */
static void walk_chained(const struct head *x, const struct group *g, int64_t split)
{
    const struct attn_args *a = x->a;
    int64_t begin = most(split * ${JOINS}, g->begin), end = least((split + 1) * ${JOINS}, g->end);
    int64_t from = most(begin, least(g->whole, end)), to = most(from, least(g->unwhole, end));
    int32_t mode[1];
    if (!in_place(x, a->k, a->k_stride) || !in_place(x, a->v, a->v_stride))
        to = from;
    flush(mode);
    for (int64_t block = begin; block < from; block++)
        meet_chained(x, g, block);
    meet_all_chained(x, g, from, to);
    for (int64_t block = to; block < end; block++)
        meet_chained(x, g, block);
    flush_no_more(mode);
    straighten_chained(g->o);
    spread_sums(g->sums);
}

% end
/* What a split of the keys adds to the outputs of some groups, which are 0 before. */
static void walk(const struct head *x, struct group *group, int64_t groups, int64_t split)
{
    const struct space *w = x->w;
% if CHAINED
    if (groups == 1 && group->chained) {
        walk_chained(x, group, split);
        return;
    }
% end
    int64_t begin = (split + 1) * ${JOINS}, end = split * ${JOINS};
    for (int64_t i = 0; i < groups; i++)
        if (group[i].begin < group[i].end) {
            begin = least(begin, most(split * ${JOINS}, group[i].begin));
            end = most(end, least((split + 1) * ${JOINS}, group[i].end));
        }
% if ACROSS
    int packs = 0, with_keys = 0;
    for (int64_t i = 0; i < groups; i++)
        packs |= !is_parted(&group[i]), with_keys |= !group[i].across;
% end
    for (int64_t block = begin; block < end; block++) {
% if ACROSS
        if (packs)
            pack(x, block, with_keys);
% else
        pack(x, block);
% end
        for (int64_t i = 0; i < groups; i++) {
            const struct group *g = &group[i];
            if (block < g->begin || block >= g->end)
                continue;
% if ACROSS
            if (g->across) {
                meet_across(x, g, block);
                continue;
            }
% end
            ${ROUGH ? "exact_scores" : "scores"}(g->q, w->k, w->trip);
% if MODIFY
            modify(x, g, block, w->trip${UNBOUNDED ? (NATURAL ? ", 69.0f" : ", 100.0f") : ""}${LEAST ? ", w->trip[" : ""}${LEAST ? FACTOR + 2 : ""}${LEAST ? "]" : ""});
% end
% if BOUNDED
            keep_within(w->trip, x->ends, ${MR});
% end
            hide(x, g, block, w->trip);
% if TABLE
            if (x->a->lse)
                add_exponentials(w->trip, g->parts, w->trip + ${FACTOR + 3});
            words(w->trip${KEYED ? ", w->side" : ""});
% else
            exponentials(w->trip, g->parts, g->state${KEYED ? ", w->side" : ""});
% end
            values(w->trip, w->v, g->o);
        }
    }
% if PARTED_V
    for (int64_t i = 0; i < groups; i++)
        if (is_parted(&group[i]))
            straighten(group[i].o);
% end
}

/* All splits, added in their order: those that lie in `shared`, or each computed now; and the quotients. */
static void total(const struct head *x, struct group *group, int64_t groups, float *shared)
{
    int64_t begin = splits_of(x->a), end = 0;
    for (int64_t i = 0; i < groups; i++) {
% if CHAINED
        if (group[i].chained) {
            clear_chained(group[i].total);
            memset(group[i].total + ${GROUP_Z - GROUP_O}, 0, ${COLUMN*4});
        } else
% end
        memset(group[i].total, 0, ${RESULT*4});
        if (group[i].begin < group[i].end) {
            begin = least(begin, group[i].begin / ${JOINS});
            end = most(end, (group[i].end + ${JOINS - 1}) / ${JOINS});
        }
    }
    for (int64_t split = begin; split < end; split++) {
        if (!shared)
            walk(x, group, groups, split);
% if CHAINED
        for (int64_t i = 0; i < groups; i++) {
            float *part = shared ? shared + (split * ${GROUPS} + i) * ${RESULT} : group[i].o;
            if (group[i].chained)
                fold_chained(group[i].total, part, ${CV + 1});
            else
                fold(group[i].total, part, ${RESULT/128});
        }
% else
        for (int64_t i = 0; i < groups; i++)
            fold(group[i].total, shared ? shared + (split * ${GROUPS} + i) * ${RESULT} : group[i].o, ${RESULT/128});
% end
    }
    for (int64_t i = 0; i < groups; i++)
        close_group(x, &group[i], x->exact && group[i].begin < group[i].end);
}
% include "c/prepare.t"

/* The work is batch * kv_heads units of all queries that share a KV head, in chunks of ${GROUPS} groups. Where parts share memory, the keys of a
 * chunk are shared out among them by splits. */
int ${NAME}(const struct attn_args *a)
{
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    int64_t chunks = chunks_of(a, a->q_len), splits = splits_of(a), units = a->batch * a->kv_heads;
    int64_t pieces = a->shared ? chunks * (a->phase ? 1 : splits) : 1; /* that a unit is shared out in */
    struct space w = carve((float *)a->workspace, (float *)a->workspace + ${AT_BLOCK}, 1);
    struct group group[${GROUPS}];
    struct head head;
% include "c/woven_head.t"
    set_space(&head, w.trip);
    tiles_on();
    for (int64_t t = units * pieces * a->part / a->parts; t < units * pieces * (a->part + 1) / a->parts; t++) {
        int64_t unit = t / pieces, piece = t % pieces, chunk = a->shared && !a->phase ? piece / splits : piece;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        head.s = &s, head.g = unit % a->kv_heads;
        do {
            int64_t first = chunk * ${GROUPS}, groups = s.q_len > 0 ? most(0, least(${GROUPS}, groups_of(a, s.q_len) - first)) : 0;
            float *shared = a->shared ? (float *)a->shared + (unit * chunks + chunk) * splits * ${GROUPS*RESULT} : 0;
            for (int64_t i = 0; i < groups; i++)
                open_group(&head, &group[i], w.groups + i * ${GROUP_ROOM}, first + i, groups);
            if (shared && !a->phase) {
                float *to = shared + piece % splits * ${GROUPS*RESULT};
                walk(&head, group, groups, piece % splits);
% if CHAINED
                if (groups == 1 && group->chained)
                    for (int64_t t = 0; t <= ${CV}; t++)
                        memcpy(to + t * ${COLUMN}, group->o + t * ${COLUMN}, ${CHAINED*W*4});
                else
% end
                for (int64_t i = 0; i < groups; i++)
                    memcpy(to + i * ${RESULT}, group[i].o, ${RESULT*4});
            } else
                total(&head, group, groups, shared);
        } while (!a->shared && ++chunk < chunks);
    }
    tiles_off();
    return 0;
}
