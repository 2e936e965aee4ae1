%# FlashAttention-2 (Dao 2023, algorithm 1) without its running maximum, on tiles. This file says which blocks of keys meet which
%# groups of queries, in what order, and what exponentials are relative to; what happens inside a block is woven.micro, which keys a
%# query sees is sequence.t, and where they lie rows.t.

/* There is no running maximum here. Exponentials are relative to a whole number m, the same for the ${MR} rows of a group and known
 * before its first score: by the inequality of Cauchy and Schwarz no exponent is above factor * |q| * |k|, and m is at least 0 and so
 * far below that bound, over all queries of the group and all keys, that no sum of products with the values leaves f32.
 * Exponentials go down to 2^-126, so that nothing is lost as long as a row's sum is above 2^-80. Groups with a row whose sum
 * is not, groups whose bound is not a number or very large, and values so large or small that products leave f32 are computed
 * again, exactly, with true maxima.${SOFTCAP ? " A softcap is a bound too." : ""}${UNBOUNDED ? " No bound knows a bias or a slope: scores so far above what is expected that a sum or a product might leave f32 are cut off there, and the sum shows it." : ""} */

/* The parts of a workspace, and the place where K and V of one head are packed in blocks of ${KEYS} keys. */
struct space { float *trip, *exact, *groups, *k, *v${KEYED ? ", *side" : ""}; void *stage; };
static int64_t blocks_of(const struct attn_args *a) { return (a->kv_len + ${KEYS - 1}) / ${KEYS}; }
/* The keys of a piece, which one part packs: so few where there are few that all parts have some. */
static int64_t piece_of(const struct attn_args *a) { return a->kv_len > ${FEW_KEYS} ? ${PIECE} : ${KEYS}; }
static int64_t pieces_of(const struct attn_args *a) { return (a->kv_len + piece_of(a) - 1) / piece_of(a); }
/* What a head takes of memory that parts share, in slots: notes on each piece, and then K and V. */
static int64_t shared_head(const struct attn_args *a) { return pieces_of(a) * ${NOTES} + blocks_of(a) * ${KBLOCK + VBLOCK + SIDE}; }
static struct space carve(float *at, float *panels, int64_t blocks)
{
    struct space w = {at, at + ${SPACE}, at + ${AT_GROUPS}, panels, panels + blocks * ${KBLOCK}, ${KEYED ? "panels + blocks * " : ""}${KEYED ? KBLOCK + VBLOCK : ""}${KEYED ? ", " : ""}at + ${AT_STAGE}};
    return w;
}
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    if (a->part < 0) /* all heads' panels; of use where several tiles of queries read them */
        return a->heads / a->kv_heads * ((a->q_len + ${BQ - 1}) / ${BQ}) > 1 ? a->batch * a->kv_heads * shared_head(a) * 4 : 0;
    return ${WORKSPACE} + (a->shared ? 0 : blocks_of(a) * ${(KBLOCK + VBLOCK + SIDE)*4});
}

/* One group of ${MR} rows of queries of one head. */
struct group {
    float *q, *o, *state;
    int64_t h, i0, rows;       /* its head, first row, and how many there are */
    int64_t begin, end;        /* blocks that any row sees */
    int64_t whole, unwhole;    /* of those, the blocks that all rows see all of: [whole, unwhole) */
    float base;                /* m, what exponents are relative to */
% if ROUGH
    int fine;                  /* whether the smallest parts of keys might count */
% end
    float *sums, *parts;       /* of the exponentials: as they are multiplied, and, for the LSE, before they are rounded */
};

/* What all groups of one KV head share. */
struct head {
    const struct attn_args *a;
    const struct space *w;
    const struct sequence *s;
    int64_t g;                      /* the KV head */
    float factor;                   /* what scores are multiplied by to be exponents */
    float norm;                     /* the largest square of a key's length */
    float hidden;                   /* the score of keys that are not seen */
% if MODIFY
    float scale;                    /* what products are multiplied by to be scores, before they are modified */
% end
    float steep;                    /* how much exponents grow with products, at most */
    float room;                     /* how far exponents may be above m */
    int exact;                      /* every group is done exactly */
};

static uint32_t bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
/* The largest of ${W} floats that are not negative, whose bits have their order. */
static float largest(const uint32_t *bits)
{
    uint32_t top = 0;
    for (int64_t l = 0; l < ${W}; l++)
        top = bits[l] > top ? bits[l] : top;
    return real_of(top);
}
/* A bound of the root of x >= 0, at most 0.2 % above it: half the exponent, with a chord above the root's mantissa, and then a step of
 * Heron's method, which never gives less than the root. */
static float root_bound(float x)
{
    float y = real_of((bits_of_float(x) >> 1) + 0x1fc00000u);
    return 0.5f * (y + x / y);
}

/* Packs keys first to end - 1 of KV head g, in blocks, with their values; notes the largest squares of keys' lengths and the largest
 * values, lane by lane. */
static void pack(const struct head *x, int64_t first, int64_t end, uint32_t *notes)
{
    const struct attn_args *a = x->a;
    const struct sequence *s = x->s;
    const struct space *w = x->w;
% if not NARROW
    const ${CKV} *k = (const ${CKV} *)a->k + s->k_at + x->g * a->k_stride[1];
    const ${CKV} *v = (const ${CKV} *)a->v + s->v_at + x->g * a->v_stride[1];
% end
    int64_t from = first / ${KEYS}, blocks = (end + ${KEYS - 1}) / ${KEYS} - from;
% if KEY_PARTS > 1
    uint16_t *parts = (uint16_t *)w->stage + ${2*OPENED};
% end
% if KEYED
    uint16_t *keys = (uint16_t *)w->stage, *values = keys + ${W*LDX*PER};
    ${CKV} *copy = (${CKV} *)((float *)w->stage + ${COPIED});
    memset(values, 0, ${2*W*LDV} * sizeof *values);
% end
    memset(notes, 0, ${NOTES} * sizeof *notes);
    if (blocks <= 0)
        return;
    for (int64_t j = from * ${KEYS}; j < (from + blocks) * ${KEYS}; j += ${W}) {
        int64_t n = most(0, least(${W}, end - j))${NARROW ? "" : ", ld"};
% if KEYED
        float *side = w->side + j / ${KEYS} * ${SIDE} + j % ${KEYS};
        open_keys(a, s, x->g, j, n, keys, side, copy);
        pack_k(keys, w->k + j * ${LDK}, ${LDX*PER});
% elif NARROW
        const float *row = (const float *)w->stage;
        open_keys(a, s, x->g, j, n, (float *)w->stage);
% else
        const ${CKV} *row = keys_at(a, s, k, a->k_stride, j, n, ${W}, ${HD}, ${LDX*PER}, &ld, (${CKV} *)w->stage);
% end
% if KEYED
% elif KEY_PARTS > 1
        for (int64_t r = 0; r < ${W}; r++)
            part_key(row + r * ${NARROW ? LDX*PER : "ld"}, parts + r * ${LDK*PER});
        pack_k(parts, w->k + j * ${LDK}, ${LDK*PER});
% else
        pack_k(row, w->k + j * ${LDK}, ld);
% end
        if (j % ${2*W} == 0) {
            float *to = w->v + j / ${KEYS} * ${VBLOCK} + j % ${KEYS} * ${W/2};
% if KEYED
            open_values(a, s, x->g, j, n, values, side + ${KEYS}, copy);
            open_values(a, s, x->g, j + ${W}, most(0, least(${W}, end - j - ${W})), values + ${W*LDV}, side + ${KEYS + W}, copy);
            pack_pairs(values, to, ${LDV});
% elif NARROW
            for (int64_t r = 0; r < ${2*W}; r++) {
                if (r % ${W} == 0)
                    open_values(a, s, x->g, j + r, most(0, least(${W}, end - j - r)), (float *)w->stage);
% if PLANES == 2
                part_value(row + r % ${W} * ${LDV}, parts + r * ${LDV}, parts + (${2*W} + r) * ${LDV});
% else
                round_value(row + r % ${W} * ${LDV}, parts + r * ${LDV});
% end
            }
% else
            n = most(0, least(${2*W}, end - j));
            row = keys_at(a, s, v, a->v_stride, j, n, ${2*W}, ${HDV}, ${LDV}, &ld, (${CKV} *)w->stage);
% end
% if PLANES == 2 and not NARROW
            for (int64_t r = 0; r < ${2*W}; r++)
                part_value(row + r * ld, parts + r * ${LDV}, parts + (${2*W} + r) * ${LDV});
% end
% if PLANES == 2
            pack_pairs(parts, to, ${LDV});
            pack_pairs(parts + ${2*W*LDV}, to + ${PLANE}, ${LDV});
% elif BLOCKS
            pack_pairs(parts, to, ${LDV});
% elif not KEYED
            pack_pairs(row, to, ld);
% end
        }
    }
    key_norms(w->k + from * ${KBLOCK}, (int32_t *)notes, blocks * ${KEYS/W});
% if KEYED
    for (int64_t b = from; b < from + blocks; b++) /* without the tiles behind the values */
        value_range(w->v + b * ${VBLOCK}, (float *)notes + ${W}, ${2*CV});
% else
    value_range(w->v + from * ${VBLOCK}, (float *)notes + ${W}, blocks * ${VBLOCK/W/16});
% end
}

/* What notes on `pieces` lots of keys say of a head. Returns 1 if no value is so large or small that it needs care. */
static int settle(struct head *x, const uint32_t *notes, int64_t pieces, int64_t keys)
{
    uint32_t top = 0;
    x->norm = 0.0f;
    for (; pieces > 0; pieces--, notes += ${NOTES}) {
        float norm = largest(notes);
        x->norm = bits_of_float(norm) > bits_of_float(x->norm) ? norm : x->norm; /* NaN, too */
        for (int64_t l = ${W}; l < ${2*W}; l++) {
            top = (notes[l] & 0xffffu) > top ? notes[l] & 0xffffu : top;
            top = notes[l] >> 16 > top ? notes[l] >> 16 : top;
        }
    }
    /* What the values, and the sum over keys, leave of 2^127 for exponentials; a bf16 has its exponent in the upper 9 bits. */
    x->room = ${KEYED ? "125.0f" : "126.0f"} - (float)((int32_t)(top >> 7) > 127 ? (int32_t)(top >> 7) - 126 : 0);
    for (int64_t n = keys; n > 0; n /= 2)
        x->room -= 1.0f;
    return top < 0x80u || (top >= 0x2b80u && top < 0x5380u); /* 0, or from 2^-40 up to 2^40 */
}

/* Hides, among the scores of a block in `space`, those of keys that a row does not see. */
static void hide(const struct head *x, const struct group *g, int64_t block, float *space)
{
    const struct sequence *s = x->s;
    int64_t j = block * ${KEYS}, first = g->i0 + s->offset - j;
    int32_t edge[5] = {0};
    if (block >= g->whole && block < g->unwhole)
        return;
    edge[0] = edge[2] = (int32_t)most(-${2*MR}, least(${2*KEYS}, s->keys - j));
% if WINDOW
    if (s->right >= 0)
        edge[0] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first + s->right + 1)), edge[1] = 1;
    if (s->left >= 0)
        edge[3] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first - s->left)), edge[4] = 1;
% elif CAUSAL
    edge[0] = (int32_t)most(-${2*MR}, least(${2*KEYS}, first + 1)), edge[1] = 1;
% else
    (void)first;
% end
    cut_block(space, edge);
}

% if MODIFY
% include "c/woven_modify.t"

% end
/* Computes a group again by its true maxima: first these, then everything else. */
static void redo(const struct head *x, struct group *g)
{
    float *space = x->w->exact;
    int32_t unused[4];
    space[${FACTOR}] = x->factor;
    space[${FACTOR + 2}] = x->hidden;
    memset(g->o, 0, ${(GROUP_STATE - GROUP_O)*4});
    for (int64_t r = 0; r < ${2*STATE}; r++)
        g->state[r] = r % ${STATE} < ${SUM} ? MINUS_INFINITY : 0.0f;
    for (int64_t block = g->begin; block < g->end; block++) {
        ${ROUGH ? "exact_scores" : "scores"}(g->q, x->w->k + block * ${KBLOCK}, space);
% if MODIFY
        modify(x, g, block, space${UNBOUNDED ? ", -MINUS_INFINITY" : ""}${LEAST ? ", MINUS_INFINITY" : ""});
% end
        hide(x, g, block, space);
        tops(space, g->state${KEYED and not MODIFY ? ", x->w->side + block * " : ""}${KEYED and not MODIFY ? SIDE : ""});
    }
    for (int64_t r = 0; r < ${2*STATE}; r++)
        if (r % ${STATE} < ${SUM}) { /* what is subtracted is finite */
            g->state[r + ${BASE}] = g->state[r] > -3.40282347e38f ? g->state[r] : -3.40282347e38f;
            g->state[r + ${BIAS_AT}] = -g->state[r + ${BASE}];
        }
    for (int64_t block = g->begin; block < g->end; block++) {
        ${ROUGH ? "exact_scores" : "scores"}(g->q, x->w->k + block * ${KBLOCK}, space);
% if MODIFY
        modify(x, g, block, space${UNBOUNDED ? ", -MINUS_INFINITY" : ""}${LEAST ? ", MINUS_INFINITY" : ""});
% end
        hide(x, g, block, space);
        exponentials(space, g->parts, g->state${KEYED ? ", x->w->side + block * " : ""}${KEYED ? SIDE : ""});
        values(space, x->w->v + block * ${VBLOCK}, g->o);
    }
    totals(g->sums, g->state, unused);
}

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

/* What is left to do after a group's last block: the quotient of each row. Where a sum is too small, or `again` is 1, the group is computed
 * again before. */
static void close_group(const struct head *x, struct group *g, int again)
{
    const struct attn_args *a = x->a;
    ${CO} *out = (${CO} *)a->o + x->s->o_at + g->h * a->o_stride[1] + g->i0 * a->o_stride[2];
    int32_t bad[4];
    if (!again) {
        totals(g->sums, g->state, bad);
        again = (bad[0] | bad[1] | bad[2] | bad[3]) && is_lost(x, g, bad);
    }
    if (again)
        redo(x, g);
    if (a->lse) {
        logarithms(g->parts, g->state, (float *)x->w->stage);
        memcpy(a->lse + x->s->lse_at + g->h * x->s->lse_ld + g->i0, x->w->stage, (size_t)g->rows * sizeof(float));
    }
% if SINK
    float sink = a->features->sinks[g->h]${TIMES_UNIT};
    sink_shares(g->state, &sink);
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
}

/* Packs the rows of head h from row i0 on, finds what their exponents are relative to and which blocks they see. */
static void open_group(const struct head *x, struct group *g, float *at, int64_t h, int64_t i0)
{
    const struct attn_args *a = x->a;
    const struct sequence *s = x->s;
    const ${CQ} *q = (const ${CQ} *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    uint32_t norms[${W}] = {0};
    int64_t last, first, n = least(${MR}, s->q_len - i0);
    float bound;
    g->q = at, g->o = at + ${GROUP_O}, g->sums = at + ${GROUP_Z}, g->parts = at + ${GROUP_Z + COLUMN}, g->state = at + ${GROUP_STATE};
    g->h = h, g->i0 = i0, g->rows = n;
    first = first_key(s, i0), last = end_key(s, i0 + n - 1);
    g->begin = first / ${KEYS}, g->end = last > first ? (last + ${KEYS - 1}) / ${KEYS} : g->begin;
    /* Rows behind the last one see what they would. */
    g->whole = (first_key(s, i0 + ${MR - 1}) + ${KEYS - 1}) / ${KEYS}, g->unwhole = end_key(s, i0) / ${KEYS};
    for (int64_t i = 0; i < ${MR}; i += ${W}) {
        int64_t ld = a->q_stride[2];
        const ${CQ} *from = queries_at(i < n ? q + i * ld : q, &ld, n - i, (${CQ} *)x->w->stage);
% if PARTS == 2
        for (int64_t r = 0; r < ${W}; r++)
            open_query(from + r * ld, g->q + i * ${LDQ} + r * ${W});
% else
        pack_q(from, g->q + i * ${LDQ}, ld);
% end
    }
    memset(g->o, 0, ${(GROUP_STATE - GROUP_O)*4});
    query_norms(g->q, (int32_t *)norms);
    bound = root_bound(largest(norms) * x->norm) * x->steep * ${PARTS*KEY_PARTS > 1 ? "1.02f; /* a vector is up to 1/128 longer than that of its parts */" : "1.001f;"}
% if ROUGH
    g->fine = !(bound < 192.0f); /* 2^-17 of such a score is half of what an LSE may be off */
% end
% if SOFTCAP
    if (bound > a->features->softcap * 1.4441f)
        bound = a->features->softcap * 1.4441f;
% end
    g->base = bound > x->room && bound < 100000.0f ? (float)(int32_t)(bound - x->room) + 1.0f : 0.0f;
% if NATURAL
    g->base *= 0.693147181f;
% end
    begin(g->state, &g->base);
    if (g->begin == g->end || x->exact || !(bound < 100000.0f)) {
        close_group(x, g, g->begin < g->end);
        g->end = g->begin;
    }
}

/* The blocks of keys that a share of the work meets, in order: tiles of ${BQ} queries, within them visits of ${BK} keys, within
 * those the groups of the tile. */
struct walk {
    struct group group[${GROUPS + 2}];   /* of this tile; and two of those before, whose blocks may be under way */
    struct group *tile[${GROUPS}];       /* this tile's */
    const struct group *busy[2];     /* whose blocks are under way */
    int64_t u, cuts, tiles, units;   /* tiles of queries: the next one, and how far from there to the next */
    int64_t groups, at;              /* how many groups this tile has, and which is visited */
    int64_t visit, block, stop, end; /* the first block of the visit; this one, and where the visit of the group and of all end */
};

/* Goes to the next tile of queries and opens its groups; 0 when there is none. */
static int open_tile(const struct head *x, struct walk *k)
{
    const struct attn_args *a = x->a;
    if (k->u >= k->units)
        return 0;
    int64_t group = a->heads / a->kv_heads, h = x->g * group + k->u % group, i0 = (k->tiles - 1 - k->u / group) * ${BQ}; /* long ones first */
    k->groups = (least(${BQ}, x->s->q_len - i0) + ${MR - 1}) / ${MR};
    k->end = 0;
    k->visit = -1;
    for (int64_t i = 0, place = 0; i < k->groups; i++, place++) {
        while (&k->group[place] == k->busy[0] || &k->group[place] == k->busy[1])
            place++;
        struct group *g = k->tile[i] = &k->group[place];
        open_group(x, g, x->w->groups + place * ${GROUP_ALL}, h, i0 + i * ${MR});
        if (g->begin < g->end) {
            k->end = most(k->end, g->end);
            k->visit = k->visit < 0 ? g->begin : least(k->visit, g->begin);
        }
    }
    k->u += k->cuts;
    k->at = -1;
    return 1;
}

/* Goes to the next block; 0 when there is none. */
static int advance(const struct head *x, struct walk *k)
{
    if (++k->block < k->stop)
        return 1;
    for (;;) {
        if (++k->at >= k->groups) {
            k->at = 0, k->visit += ${BK/KEYS};
            if (k->visit >= k->end && !open_tile(x, k))
                return 0;
            if (k->at < 0)
                continue;
        }
        const struct group *g = k->tile[k->at];
        k->block = most(g->begin, k->visit), k->stop = least(g->end, k->visit + ${BK/KEYS});
        if (k->block < k->stop)
            return 1;
    }
}

/* What there is to do for three blocks, one after another: the products of the last one with the values at v, the exponentials of this
 * one, the scores of the next one with the keys at k. */
static void step(float *space, const struct group *last, const float *v, const struct group *now, const struct group *next, const float *k, int lse${KEYED ? ", const float *side" : ""})
{
    if (last)
        values(space, v, last->o);
% if TABLE
    if (now && !lse)
        words(space${KEYED ? ", side" : ""});
    else if (now)
        exponentials(space, now->parts, now->state${KEYED ? ", side" : ""});
% elif SERIAL
    if (now && !lse)
        exponentials_alone(space, now->parts, now->state${KEYED ? ", side" : ""});
    else if (now)
        exponentials(space, now->parts, now->state${KEYED ? ", side" : ""});
% else
    (void)lse;
    if (now)
        exponentials(space, now->parts, now->state${KEYED ? ", side" : ""});
% end
% if ROUGH
    if (next && next->fine)
        exact_scores(next->q, k, space);
    else if (next)
% else
    if (next)
% end
        scores(next->q, k, space);
}

/* Three blocks are under way at once: of the next one the scores are made, of this one the exponentials, of the last one the products with
 * the values. ${SERIAL ? "" : "Where all three are there, one function makes them together, for as many trips as blocks follow one another; where one is missing, each is made by itself. "}${ROUGH and not SERIAL ? "So it is where the smallest parts of keys might count, since that function leaves them out. " : ""}*/
static void attend(const struct head *x, struct walk *k)
{
    struct at { struct group *group; int64_t block; } last = {0, 0}, now = {0, 0}, next = {0, 0};
    float *space = x->w->trip${SERIAL ? "" : ", *at["}${SERIAL ? "" : 6 + KEYED}${SERIAL ? "" : "]"};
    k->busy[0] = k->busy[1] = 0;
    int more = advance(x, k), lse = x->a->lse != 0;
% if TABLE
    space[${FACTOR}] = lse ? x->factor : x->factor * 128.0f; /* a table's exponentials are too far off for an LSE */
% else
    space[${FACTOR}] = x->factor;
% end
% if TABLE
    space[${FACTOR + 2}] = ${KEYED ? "-5e6f" : "-1e7f"} / x->factor; /* as a word it is in range, and no infinity becomes a number */
% else
    space[${FACTOR + 2}] = x->hidden;
% end
% if not SERIAL
    at[5] = space;
% end
    while (more || now.group || last.group) {
        next.group = more ? k->tile[k->at] : 0, next.block = k->block;
% if SERIAL
        if (now.group)
            space[${FACTOR + 1}] = ${TABLE ? "lse ? -now.group->base : 128.0f * (127.0f - now.group->base" : "-now.group->base"}${TABLE and NATURAL ? " * 1.44269504f" : ""}${TABLE ? ") - 11.0f" : ""};
        int64_t n = 1;
% if not MODIFY
        if (next.group && next.group == now.group && next.group == last.group && next.block == last.block + 2 && next.block == now.block + 1 && next.block >= next.group->whole)
            n = most(1, least(k->stop, next.group->unwhole) - next.block);
% end
        for (int64_t t = 0; t < n; t++)
            step(space, last.group, x->w->v + (last.block + t) * ${VBLOCK}, now.group, next.group, x->w->k + (next.block + t) * ${KBLOCK}, lse${KEYED ? ", x->w->side + (now.block + t) * " : ""}${KEYED ? SIDE : ""});
        k->block += n - 1, next.block += n - 1, now.block += n - 1, last.block += n - 1;
% else
        at[0] = x->w->k + next.block * ${KBLOCK}, at[2] = x->w->v + last.block * ${VBLOCK};
        if (now.group)
            at[4] = now.group->parts, space[${FACTOR + 1}] = ${TABLE ? "lse ? -now.group->base : 128.0f * (127.0f - now.group->base" : "-now.group->base"}${TABLE and NATURAL ? " * 1.44269504f" : ""}${TABLE ? ") - 11.0f" : ""};
% if KEYED
        at[6] = x->w->side + now.block * ${SIDE};
% end
        if (next.group && now.group && last.group${ROUGH ? " && !next.group->fine" : ""}) {
            struct group *g = next.group;
            int64_t n = 1;
% if not MODIFY
            if (g == last.group && g == now.group && next.block == last.block + 2 && next.block == now.block + 1 && next.block >= g->whole)
                n = most(1, least(k->stop, g->unwhole) - next.block);
% end
            at[1] = g->q, at[3] = last.group->o;
            if (lse)
                trip_lse(at, n);
            else
                trip(at, n);
            k->block += n - 1, next.block += n - 1, now.block += n - 1, last.block += n - 1;
        } else
            step(space, last.group, at[2], now.group, next.group, at[0], lse${KEYED ? ", at[6]" : ""});
% end
        if (last.group && last.block + 1 == last.group->end)
            close_group(x, last.group, 0);
% if MODIFY
        if (next.group)
            modify(x, next.group, next.block, space${UNBOUNDED ? ", next.group->base + " : ""}${UNBOUNDED ? (NATURAL ? "69.0f" : "100.0f") : ""}${LEAST ? ", space[" : ""}${LEAST ? FACTOR + 2 : ""}${LEAST ? "]" : ""});
% end
        if (next.group)
            hide(x, next.group, next.block, space);
        last = now, now = next;
        k->busy[0] = last.group, k->busy[1] = now.group;
        more = next.group && advance(x, k);
    }
}
% include "c/prepare.t"

/* Where parts share memory: piece t of packing, some keys of one head. */
static void pack_shared(const struct attn_args *a, int64_t t)
{
    int64_t pieces = pieces_of(a), keys = piece_of(a), unit = t / pieces, piece = t % pieces;
    float *at = (float *)a->shared + unit * shared_head(a);
    struct space w = carve((float *)a->workspace, at + pieces * ${NOTES}, blocks_of(a));
    struct sequence s = sequence_of(a, unit / a->kv_heads);
    struct head head;
    head.a = a, head.w = &w, head.s = &s, head.g = unit % a->kv_heads;
    if (s.q_len > 0)
        pack(&head, most(first_key(&s, 0), piece * keys), least(end_key(&s, s.q_len - 1), (piece + 1) * keys), (uint32_t *)at + piece * ${NOTES});
}

/* The work is batch * kv_heads units; where these cannot be shared out evenly, each is cut into `cuts` shares. Parts that share memory
 * pack first, some keys at a time. */
int ${NAME}(const struct attn_args *a)
{
    int64_t units, cuts, packed = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    units = a->batch * a->kv_heads;
    if (a->shared && !a->phase) {
        int64_t all = units * pieces_of(a);
        for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++)
            pack_shared(a, t);
        return 0;
    }
    struct space w = carve((float *)a->workspace, (float *)a->workspace + ${WORKSPACE/4}, blocks_of(a));
    struct head head;
    struct walk walk;
    cuts = cuts_of(units, a->parts);
    for (int64_t i = 0; i < ${W}; i++)
        w.trip[${ONES} + i] = real_of(0x3f803f80u);
    for (int64_t n = ${W}; n < ${W*W}; n *= 2)
        memcpy(w.trip + ${ONES} + n, w.trip + ${ONES}, (size_t)n * sizeof(float));
    memcpy(w.exact + ${ONES}, w.trip + ${ONES}, ${4*W*W});
    head.a = a, head.w = &w, head.room = 0.0f;
% if MODIFY
    head.factor = ${NATURAL ? "1.44269504f" : "1.0f"};
    head.scale = a->scale${TIMES_SCALE_UNIT};
    head.steep = (a->scale < 0 ? -a->scale : a->scale) * ${KEYED ? "2.88539008f" : "1.44269504f"};
    head.hidden = MINUS_INFINITY;
% else
    head.factor = a->scale${TIMES_UNIT};${WHY_UNIT}
    if (head.factor == 0.0f)
        head.factor = 1.17549435e-38f; /* times which a score is nothing, and minus infinity itself */
    head.steep = ${KEYED ? "2.0f * (" : ""}head.factor < 0 ? -head.factor : head.factor${KEYED ? ")" : ""};
    head.hidden = head.factor > 0 ? MINUS_INFINITY : -MINUS_INFINITY;
% end
    tiles_on();
    for (int64_t t = units * cuts * a->part / a->parts; t < units * cuts * (a->part + 1) / a->parts; t++) {
        int64_t unit = t / cuts;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        walk.tiles = (s.q_len + ${BQ - 1}) / ${BQ}, walk.units = a->heads / a->kv_heads * walk.tiles;
        if (t % cuts >= walk.units)
            continue; /* fewer tiles than shares */
        head.s = &s, head.g = unit % a->kv_heads;
        int64_t first = s.q_len > 0 ? first_key(&s, 0) : 0, end = s.q_len > 0 ? end_key(&s, s.q_len - 1) : 0;
        if (packed != unit) {
            uint32_t notes[${NOTES}];
            const uint32_t *known = notes;
            int64_t pieces = 1;
            if (a->shared) {
                float *at = (float *)a->shared + unit * shared_head(a);
                w = carve((float *)a->workspace, at + pieces_of(a) * ${NOTES}, blocks_of(a));
                int64_t keys = piece_of(a);
                known = (const uint32_t *)at + first / keys * ${NOTES};
                pieces = end > first ? (end + keys - 1) / keys - first / keys : 0;
            } else {
                pack(&head, first, end, notes);
            }
            head.exact = !settle(&head, known, pieces, end - first)${TABLE and not MODIFY ? " || head.steep < 1e-30f" : ""};
        }
        packed = unit;
        walk.u = t % cuts, walk.cuts = cuts;
        walk.groups = walk.at = walk.visit = walk.block = walk.stop = walk.end = 0;
        attend(&head, &walk);
    }
    tiles_off();
    return 0;
}
