%# FlashAttention-2 (Dao 2023, algorithm 1) without its running maximum, on tiles. This file says which blocks of keys meet which
%# groups of queries, in what order, and what exponentials are relative to; what happens inside a block is woven.micro, how keys are
%# packed woven_pack.t, how a group ends woven_close.t, which keys a query sees sequence.t, and where they lie rows.t.

% if ROWWISE
/* There is no running maximum here, and nothing that rows share. Exponentials are relative to 0 and go down to 2^-126, so that nothing
 * is lost as long as a row's sum is from 2^-80 to 2^86${WIDE_RANGE ? " and the largest number of its outputs, which are relative to it, at least 2^-60" : ""}. A row where this is not so is computed again, by its
 * true maximum. ${BOUNDED ? "Scores that would exceed 2^100 are cut off there, and the sum shows it" : "A bias or a slope may be anything: scores that would exceed 2^100 are cut off there, and the sum shows it"}. ${JOINS*KEYS} keys at a time are added up alone, and their sums to the sums before them,
 * ${SPLIT ? "as in kernels that do not split keys" : "as in kernels that split keys"}. So a row has the same bits whatever stands around it. */
% else
/* There is no running maximum here. Exponentials are relative to a whole number m, the same for the ${MR} rows of a group and known
 * before its first score: by the inequality of Cauchy and Schwarz no exponent is above factor * |q| * |k|, and m is at least 0 and so
 * far below that bound, over all queries of the group and all keys, that no sum of products with the values leaves f32.
 * Exponentials go down to 2^-126, so that nothing is lost as long as a row's sum is above 2^-80. Groups with a row whose sum
 * is not, groups whose bound is not a number or very large, and values so large or small that products leave f32 are computed
 * again, exactly, with true maxima.${SOFTCAP ? " A softcap is a bound too." : ""}${UNBOUNDED ? " No bound knows a bias or a slope: scores so far above what is expected that a sum or a product might leave f32 are cut off there, and the sum shows it." : ""} */
% end

/* The parts of a workspace, and the place where K and V of one head are packed in blocks of ${KEYS} keys. */
struct space { float *trip, *exact, *groups${SPLIT ? "" : ", *notes"}${ROWWISE ? ", *kept" : ""}, *k, *v${KEYED ? ", *side" : ""}${THIRDS ? ", *thirds" : ""}; void *stage; };
% if not SPLIT
static int64_t blocks_of(const struct attn_args *a) { return (a->kv_len + ${KEYS - 1}) / ${KEYS}; }
/* The keys of a piece, which one part packs: so few where there are few that all parts have some. */
static int64_t piece_of(const struct attn_args *a) { return a->kv_len > ${FEW_KEYS} ? ${PIECE} : ${KEYS}; }
static int64_t pieces_of(const struct attn_args *a) { return (a->kv_len + piece_of(a) - 1) / piece_of(a); }
/* The tiles of queries of all heads that share a KV head. */
static int64_t tiles_of(const struct attn_args *a, int64_t q_len) { return a->heads / a->kv_heads * ((q_len + ${BQ - 1}) / ${BQ}); }
/* What a head takes of memory that parts share, in slots: notes on each piece, and then K and V. */
static int64_t shared_head(const struct attn_args *a) { return pieces_of(a) * ${NOTES} + blocks_of(a) * ${KBLOCK + VBLOCK + SIDE}; }
% end
static struct space carve(float *at, float *panels, int64_t blocks)
{
    struct space w = {at, at + ${AT_EXACT}, at + ${AT_GROUPS}, ${SPLIT ? "" : "at + "}${SPLIT ? "" : AT_NOTES}${SPLIT ? "" : ", "}${ROWWISE ? "at + " : ""}${ROWWISE ? AT_KEPT : ""}${ROWWISE ? ", " : ""}panels, panels + blocks * ${KBLOCK}, ${KEYED ? "panels + blocks * " : ""}${KEYED ? KBLOCK + VBLOCK : ""}${KEYED ? ", " : ""}${THIRDS ? "at + " : ""}${THIRDS ? WORKSPACE/4 : ""}${THIRDS ? ", " : ""}at + ${AT_STAGE}};
    return w;
}
% if not SPLIT
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads;
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? pieces_of(a) : tiles_of(a, a->q_len));
        return tiles_of(a, a->q_len) > 1 ? units * shared_head(a) * 4 : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return ${WORKSPACE} + ${THIRDS ? "blocks_of(a) * " : ""}${THIRDS ? TBLOCK*4 : ""}${THIRDS ? " + " : ""}(a->shared ? 0 : blocks_of(a) * ${(KBLOCK + VBLOCK + SIDE)*4});
}
% end

/* One group of ${MR} rows of queries of ${BESIDE ? "the heads that share a KV head" : "one head"}. */
struct group {
    float *q, *o, *state${SPLIT ? "" : ", *room"};
% if BESIDE
    int64_t first, rows;       /* its first row, in the order of head and query, and how many there are */
% if ACROSS
    const float *across;       /* the queries of each ${W} rows as pairs of columns; 0: it meets keys that are packed */
% end
% if CHAINED
    int chained;               /* whether its values are multiplied by vectors, not as tiles */
% end
% else
    int64_t h, i0, rows;       /* its head, first row, and how many there are */
% end
    int64_t begin, end;        /* blocks that any row sees */
    int64_t whole, unwhole;    /* of those, the blocks that all rows see all of: [whole, unwhole) */
% if ROWWISE
    float *total;              /* of what blocks before those under way left: o and sums */
% if not SPLIT
    int joins;                 /* whether there are such blocks */
% if BOUNDED
    int wild;                  /* whether scores might be too large, or no numbers */
% end
% end
% else
    float base;                /* m, what exponents are relative to */
% end
% if REACHES
    int far;                   /* whether scores may be so large that tanh needs more than five terms */
% end
% if INSIDE
    int64_t changed, unchanged; /* blocks whose scores may be changed while they are read: [changed, unchanged) */
% end
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
% if not SPLIT
    float norm;                     /* the largest square of a key's length */
% end
    float hidden;                   /* the score of keys that are not seen */
% if MODIFY
    float scale;                    /* what products are multiplied by to be scores, before they are modified */
% end
    float steep;                    /* how much exponents grow with products, at most */
% if not ROWWISE
    float room;                     /* how far exponents may be above m */
% end
    int exact;                      /* every group is done exactly */
% if THIRDS
    int64_t *thirds;                /* whose third parts of keys are packed: the number of a sequence and a KV head */
% end
% if INSIDE
    int inside;                     /* whether scores may be changed while they are read */
% end
% if BOUNDED
    float ends[3];                  /* from where to where scores may be, and what stands for those that are no numbers */
% end
};
% include "c/woven_pack.t"
% include "c/woven_hide.t"

% if ROWWISE
/* What exponentials of a trip are made with. */
static void set_space(const struct head *x, float *space)
{
    space[${FACTOR}] = x->factor${TABLE ? " * 128.0f" : ""};
    space[${FACTOR + 1}] = ${TABLE ? "128.0f * 127.0f - 11.0f" : "0.0f"};
% if TABLE
    space[${FACTOR + 2}] = -1e7f / x->factor; /* as a word it is in range, and no infinity becomes a number */
    space[${FACTOR + 3}] = x->factor;
% else
    space[${FACTOR + 2}] = x->hidden;
% end
}

% if not SPLIT
/* How many blocks there are from the last one on until one after which sums are added to those before. */
static int64_t until_join(int64_t last, int64_t now, int lse)
{
    return least(${JOINS} - last % ${JOINS}, lse ? ${JOINS} - now % ${JOINS} : ${JOINS});
}

% end
% end
% if MODIFY
% include "c/woven_modify.t"

% end
% if INSIDE
% include "c/woven_inside.t"

% end
% if not SPLIT
/* From now on the queries and outputs of a group lie at `at`. */
static void move_to(struct group *g, float *at)
{
    g->q = at, g->o = at + ${GROUP_O}, g->sums = at + ${GROUP_Z}, g->parts = at + ${GROUP_Z + COLUMN};
}

/* Packs the queries of a group where they are to lie. */
static void pack_queries(const struct head *x, const struct group *g)
{
    const struct attn_args *a = x->a;
    const ${CQ} *q = (const ${CQ} *)a->q + x->s->q_at + g->h * a->q_stride[1] + g->i0 * a->q_stride[2];
    for (int64_t i = 0; i < ${MR}; i += ${W}) {
        int64_t ld = a->q_stride[2];
        const ${CQ} *from = queries_at(i < g->rows ? q + i * ld : q, &ld, g->rows - i, (${CQ} *)x->w->stage);
% if PARTS == 2
        for (int64_t r = 0; r < ${W}; r++)
            open_query(from + r * ld, g->q + i * ${LDQ} + r * ${W});
% else
        pack_q(from, g->q + i * ${LDQ}, ld);
% end
    }
}

% end
% include "c/woven_close.t"
% if SPLIT
% include "c/woven_few.t"
% else

/* The rows of head h from row i0 on, and which blocks they see. */
static void place_group(const struct head *x, struct group *g, int64_t h, int64_t i0)
{
    const struct sequence *s = x->s;
    int64_t n = least(${MR}, s->q_len - i0), first = first_key(s, i0), last = end_key(s, i0 + n - 1);
    g->h = h, g->i0 = i0, g->rows = n, g->q = 0;
    g->begin = first / ${KEYS}, g->end = last > first ? (last + ${KEYS - 1}) / ${KEYS} : g->begin;
    /* Rows behind the last one see what they would. */
    g->whole = (first_key(s, i0 + ${MR - 1}) + ${KEYS - 1}) / ${KEYS}, g->unwhole = end_key(s, i0) / ${KEYS};
}

/* Packs the queries of a group, at `near` or, if that is 0, in its room${ROWWISE ? "" : ", and finds what their exponents are relative to"}. Groups that see nothing, or are
 * done exactly, are done then; returns whether there is more to do. */
static int open_group(const struct head *x, struct group *g, float *room, float *near)
{
    uint32_t norms[${W}];
    float bound;
    g->room = room, g->state = room + ${GROUP_STATE};
    move_to(g, near ? near : room);
    pack_queries(x, g);
    if (x->a->lse)
        memset(g->parts, 0, ${COLUMN*4});
    query_norms(g->q, (int32_t *)norms);
% if not ROWWISE or BOUNDED
    bound = root_bound(real_of(norms[0]) * x->norm) * x->steep * ${PARTS*KEY_PARTS > 1 ? "1.02f; /* a vector is up to 1/128 longer than that of its parts */" : "1.001f;"}
% end
% if ROUGH
    g->fine = !(bound < 192.0f); /* 2^-17 of such a score is half of what an LSE may be off */
    if (g->fine)
        pack_thirds(x);
% end
% if INSIDE
    find_changed(x, g${SOFTCAP ? ", bound" : ""});
% end
% if SOFTCAP and (not ROWWISE or BOUNDED)
    if (bound > x->a->features->softcap * 1.4441f)
        bound = x->a->features->softcap * 1.4441f;
% end
% if ROWWISE
    float base = 0.0f;
    begin(g->state, &base);
    g->total = room + ${GROUP_TOTAL}, g->joins = (g->end - 1) / ${JOINS} > g->begin / ${JOINS};
    if (g->joins)
        memset(g->total, 0, ${RESULT*4});
% if BOUNDED
    g->wild = !(bound < 100.0f);
% end
    if (g->begin == g->end || x->exact) {
% else
    g->base = bound > x->room && bound < 100000.0f ? (float)(int32_t)(bound - x->room) + 1.0f : 0.0f;
% if NATURAL
    g->base *= 0.693147181f;
% end
    begin(g->state, &g->base);
    if (g->begin == g->end || x->exact || !(bound < 100000.0f)) {
% end
        move_to(g, room); /* what is near may be another group's, which is under way */
        memset(g->o, 0, ${(GROUP_STATE - GROUP_O)*4});
        close_group(x, g, g->begin < g->end);
        g->end = g->begin;
        return 0;
    }
    return 1;
}

% if AHEAD_ROWS
/* Rows to fetch: how far they are apart, in slots, and in how many trips. */
struct errand { float *at; int64_t step, trips; };

% end
/* The blocks of keys that a share of the work meets, in order: tiles of ${BQ} queries, within them visits of ${BK} keys, within
 * those the groups of the tile. Where all keys stay in the cache, one visit has them all, so that a group ends before the next begins. */
struct walk {
    struct group group[${GROUPS + 2}];   /* of this tile; and two of those before, whose blocks may be under way */
    struct group *tile[${GROUPS}];       /* this tile's */
    const struct group *busy[2];     /* whose blocks are under way */
    int64_t u, cuts, tiles, units;   /* tiles of queries: the next one, and how far from there to the next */
    int64_t groups, at;              /* how many groups this tile has, and which is visited */
    int64_t reach;                   /* how many blocks a visit has, at most */
    int64_t visit, block, stop, end; /* the first block of the visit; this one, and where the visit of the group and of all end */
% if AHEAD_ROWS
    struct errand errand[2];         /* what is to be fetched, the last one first */
    int64_t errands;
% end
    float *room[${GROUPS + 2}];      /* where groups can be opened: first where one ended last, which is in the cache */
    int64_t rooms;                   /* how many are free */
    float *near;                     /* where each group has its queries and outputs, if one ends before the next begins; or 0 */
};

/* The next tile's head and first row; the tiles that see the most keys come first. */
static int64_t head_at(const struct head *x, const struct walk *k)
{
    int64_t group = x->a->heads / x->a->kv_heads;
    return x->g * group + k->u % group;
}
static int64_t row_at(const struct head *x, const struct walk *k) { return (k->tiles - 1 - k->u / (x->a->heads / x->a->kv_heads)) * ${BQ}; }
% if AHEAD_ROWS
% include "c/woven_ahead.t"
% end

/* Goes to the next tile of queries; 0 when there is none. A group is opened when its first block comes. */
static int open_tile(const struct head *x, struct walk *k)
{
    if (k->u >= k->units)
        return 0;
    int64_t h = head_at(x, k), i0 = row_at(x, k);
    k->groups = (least(${BQ}, x->s->q_len - i0) + ${MR - 1}) / ${MR};
    k->end = 0;
    k->visit = -1;
    for (int64_t i = 0, place = 0; i < k->groups; i++, place++) {
        while (&k->group[place] == k->busy[0] || &k->group[place] == k->busy[1])
            place++;
        struct group *g = k->tile[i] = &k->group[place];
        place_group(x, g, h, i0 + i * ${MR});
        if (g->begin < g->end) {
            k->end = most(k->end, g->end);
            k->visit = k->visit < 0 ? g->begin : least(k->visit, g->begin);
        } else
            open_group(x, g, k->room[k->rooms - 1], k->near);
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
            k->at = 0, k->visit += k->reach;
            if (k->visit >= k->end && !open_tile(x, k))
                return 0;
            if (k->at < 0)
                continue;
        }
        struct group *g = k->tile[k->at];
        k->block = most(g->begin, k->visit), k->stop = least(g->end, k->visit + k->reach);
        if (k->block < k->stop && (g->q || open_group(x, g, k->room[k->rooms - 1], k->near))) {
            k->rooms -= k->block == g->begin;
% if AHEAD_ROWS
            look_ahead(x, k);
% end
            return 1;
        }
    }
}

/* What there is to do for three blocks, one after another: the products of the last one with the values at v, the exponentials of this
 * one, the scores of the next one with the keys at k. */
static void step(float *space, const struct group *last, const float *v, const struct group *now, const struct group *next, const float *k, int lse${KEYED ? ", const float *side" : ""}${THIRDS ? ", const float *thirds" : ""}${INSIDE ? ", const struct reading *r" : ""})
{
    if (last)
        values(space, v, last->o);
% if TABLE and ROWWISE
    if (now && lse)
        add_exponentials(space, now->parts, space + ${FACTOR + 3});
    if (now)
        words(space);
% elif TABLE
% if INSIDE
    if (now && r->inside)
        words_inside(r);
    else if (now && !lse)
% else
    if (now && !lse)
% end
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
        exact_scores(next->q, k, thirds, space);
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
    struct group *last = 0, *now = 0, *next = 0;
    int64_t last_block = 0, now_block = 0, next_block = 0;
    float *space = x->w->trip${SERIAL ? "" : ", *at["}${SERIAL ? "" : 7 + KEYED}${SERIAL ? "" : "]"};
% if INSIDE
    struct reading reading = {.at = at};
% end
    k->busy[0] = k->busy[1] = 0;
    for (k->rooms = 0; k->rooms < ${GROUPS + 2}; k->rooms++)
        k->room[k->rooms] = x->w->groups + k->rooms * ${GROUP_ALL};
    int lse = x->a->lse != 0;
    k->near = k->reach >= blocks_of(x->a) && !lse ? space + ${SPACE} : 0;
    int more = advance(x, k);
% if ROWWISE
    set_space(x, space);
% else
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
% end
% if INSIDE
    begin_changes(x, space);
% end
% if not SERIAL
    at[5] = space;
% end
    while (more || now || last) {
        next = more ? k->tile[k->at] : 0, next_block = k->block;
% if AHEAD_ROWS
        int fresh = last && last_block == last->begin;
        if (fresh && (!now || !next || lse${ROUGH ? " || next->fine" : ""}))
            memset(last->o, 0, ${(GROUP_Z + COLUMN - GROUP_O)*4});
        else if (fresh)
            clear(last->o);
% else
        if (last && last_block == last->begin)
            memset(last->o, 0, ${(GROUP_Z + COLUMN - GROUP_O)*4});
% end
% if SERIAL
% if not ROWWISE
        if (now)
            space[${FACTOR + 1}] = ${TABLE ? "lse ? -now->base : 128.0f * (127.0f - now->base" : "-now->base"}${TABLE and NATURAL ? " * 1.44269504f" : ""}${TABLE ? ") - 11.0f" : ""};
% end
        int64_t n = 1;
% if not MODIFY
        if (next && next == now && next == last && next_block == last_block + 2 && next_block == now_block + 1 && ${CUTS_WORDS ? "now" : "next"}_block >= next->whole${BOUNDED ? " && !next->wild" : ""})
            n = most(1, least(k->stop, next->unwhole) - next_block);
% if ROWWISE
        n = least(n, until_join(last_block, now_block, lse));
% end
% end
        for (int64_t t = 0; t < n; t++)
            step(space, last, x->w->v + (last_block + t) * ${VBLOCK}, now, next, x->w->k + (next_block + t) * ${KBLOCK}, lse${KEYED ? ", x->w->side + (now_block + t) * " : ""}${KEYED ? SIDE : ""}${THIRDS ? ", x->w->thirds + (next_block + t) * " : ""}${THIRDS ? TBLOCK : ""});
        k->block += n - 1, next_block += n - 1, now_block += n - 1, last_block += n - 1;
% else
        at[0] = x->w->k + next_block * ${KBLOCK}, at[2] = x->w->v + last_block * ${VBLOCK};
% if ROWWISE
        if (now && now != last)
            at[4] = now->parts;
% else
        if (now && now != last)
            at[4] = now->parts, space[${FACTOR + 1}] = ${TABLE ? "lse ? -now->base : 128.0f * (127.0f - now->base" : "-now->base"}${TABLE and NATURAL ? " * 1.44269504f" : ""}${TABLE ? ") - 11.0f" : ""};
% end
% if KEYED
        at[7] = x->w->side + now_block * ${SIDE};
% end
% if INSIDE
        reading.inside = now && is_changed(now, now_block);
% end
        if (next && now && last${ROUGH ? " && !next->fine" : ""}${ROWWISE and TABLE ? " && !lse" : ""}) {
            struct group *g = next;
            int64_t n = 1;
% if INSIDE
            if (reading.inside && g == last && g == now && next_block == last_block + 2 && next_block == now_block + 1 && now_block >= g->whole)
                n = most(1, least(least(k->stop, g->unwhole), g->unchanged) - next_block);
% elif not MODIFY
            if (g == last && g == now && next_block == last_block + 2 && next_block == now_block + 1 && ${CUTS_WORDS ? "now" : "next"}_block >= g->whole${BOUNDED ? " && !g->wild" : ""})
                n = (k->stop < g->unwhole ? k->stop : g->unwhole) - next_block;
            if (n < 1)
                n = 1;
% if ROWWISE
            n = least(n, until_join(last_block, now_block, lse));
% end
% end
            at[1] = g->q, at[3] = last->o;
% if AHEAD_ROWS
            int64_t stride;
% if not ROWWISE
            if (lse)
                trip_lse(at, n);
            else {
% end
            for (int64_t left = n; left > 0; fresh = 0) {
                int64_t m = fetch_by(k, fresh ? 1 : left, at, &stride);
% if INSIDE
                if (reading.inside) {
                    read_block(x, now, now_block + n - left, space, &reading);
                    trip_inside(&reading, m, stride, fresh ? 0 : ${W});
                } else
% end
                trip(at, m, stride, fresh ? 0 : ${W});
                left -= m, at[0] += m * ${KBLOCK}, at[2] += m * ${VBLOCK};
            }
% if not ROWWISE
            }
% end
% elif ROWWISE and TABLE
            trip(at, n);
% else
            if (lse)
                trip_lse(at, n);
% if INSIDE
            else if (reading.inside) {
                read_block(x, now, now_block, space, &reading);
                trip_inside(&reading, n, 0, ${W});
            }
% end
            else
                trip(at, n);
% end
            k->block += n - 1, next_block += n - 1, now_block += n - 1, last_block += n - 1;
        } else {
% if INSIDE
            if (reading.inside)
                read_block(x, now, now_block, space, &reading);
% end
            step(space, last, at[2], now, next, at[0], lse${KEYED ? ", at[7]" : ""}${THIRDS ? ", x->w->thirds + next_block * " : ""}${THIRDS ? TBLOCK : ""}${INSIDE ? ", &reading" : ""});
        }
% end
% if ROWWISE
        if (last && (last_block + 1) % ${JOINS} == 0 && last_block + 1 < last->end)
            fold(last->total, last->o, ${(RESULT - COLUMN)/128});
        if (lse && now && (now_block + 1) % ${JOINS} == 0 && now_block + 1 < now->end)
            fold(now->total + ${RESULT - COLUMN}, now->parts, ${COLUMN/128});
% end
        if (last && last_block + 1 == last->end) {
            close_group(x, last, 0);
            k->room[k->rooms++] = last->room;
        }
% if INSIDE
        if (next && !is_changed(next, next_block))
            modify(x, next, next_block, space${UNBOUNDED ? ", next->base + " : ""}${UNBOUNDED ? (NATURAL ? "69.0f" : "100.0f") : ""}${LEAST ? ", space[" : ""}${LEAST ? FACTOR + 2 : ""}${LEAST ? "]" : ""});
% elif MODIFY
        if (next)
            modify(x, next, next_block, space${UNBOUNDED ? (ROWWISE ? ", " : ", next->base + ") : ""}${UNBOUNDED ? (NATURAL ? "69.0f" : "100.0f") : ""}${LEAST ? ", space[" : ""}${LEAST ? FACTOR + 2 : ""}${LEAST ? "]" : ""});
% end
% if BOUNDED
        if (next && next->wild)
            keep_within(space, x->ends, ${MR});
% end
% if CUTS_WORDS
        if (now && !lse && (now_block < now->whole || now_block >= now->unwhole))
            hide_words(x, now, now_block, space);
        if (next && lse && (next_block < next->whole || next_block >= next->unwhole))
% else
        if (next && (next_block < next->whole || next_block >= next->unwhole))
% end
            hide(x, next, next_block, space);
        last = now, last_block = now_block, now = next, now_block = next_block;
        k->busy[0] = last, k->busy[1] = now;
        more = next && advance(x, k);
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
 * pack first, some keys at a time; then a share is a tile of queries, and tiles of one unit follow one another. A part that does not
 * leaves in its workspace what it packed last, for the next part there. */
int ${NAME}(const struct attn_args *a)
{
    int64_t units, cuts, last, packed = -1, kept = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    units = a->batch * a->kv_heads;
    if (a->shared && !a->phase) {
        int64_t all = units * pieces_of(a);
        for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++)
            pack_shared(a, t);
        return 0;
    }
    struct space w = carve((float *)a->workspace, (float *)a->workspace + ${WORKSPACE/4}${THIRDS ? " + blocks_of(a) * " : ""}${THIRDS ? TBLOCK : ""}, blocks_of(a));
    struct head head;
    struct walk walk;
% if THIRDS
    int64_t thirds = -1;
    head.thirds = &thirds;
% end
    cuts = a->shared ? tiles_of(a, a->q_len) : cuts_of(units, a->parts);
    last = units * cuts * (a->part + 1) / a->parts;
% include "c/woven_head.t"
    if (a->phase && !a->shared)
        memcpy(&kept, w.notes, sizeof kept);
    tiles_on();
    for (int64_t t = units * cuts * a->part / a->parts; t < last; t++) {
        int64_t unit = t / cuts;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        walk.tiles = (s.q_len + ${BQ - 1}) / ${BQ}, walk.units = tiles_of(a, s.q_len);
        if (t % cuts >= walk.units)
            continue; /* fewer tiles than shares */
        head.s = &s, head.g = unit % a->kv_heads;
        int64_t first = s.q_len > 0 ? first_key(&s, 0) : 0, end = s.q_len > 0 ? end_key(&s, s.q_len - 1) : 0;
        if (packed != unit) {
            uint32_t *notes = (uint32_t *)w.notes + ${W};
            const uint32_t *known = notes;
            int64_t pieces = 1;
            if (a->shared) {
                float *at = (float *)a->shared + unit * shared_head(a);
                w = carve((float *)a->workspace, at + pieces_of(a) * ${NOTES}, blocks_of(a));
                int64_t keys = piece_of(a);
                known = (const uint32_t *)at + first / keys * ${NOTES};
                pieces = end > first ? (end + keys - 1) / keys - first / keys : 0;
            } else {
                if (kept != unit)
                    pack(&head, first, end, notes);
                kept = unit;
            }
% if ROWWISE
            settle(&head, known, pieces);
% else
            head.exact = !settle(&head, known, pieces, end - first)${TABLE and not MODIFY ? " || head.steep < 1e-30f" : ""};
% end
        }
        packed = unit;
        walk.u = t % cuts, walk.cuts = a->shared ? 1 : cuts;
        if (a->shared) {
            walk.units = least(walk.units, walk.u + last - t);
            t += walk.units - walk.u - 1;
        }
        walk.groups = walk.at = walk.visit = walk.block = walk.stop = walk.end = 0;
        walk.reach = blocks_of(a) > ${NEAR_BLOCKS} ? ${BK/KEYS} : ${max(BK/KEYS, NEAR_BLOCKS)};
        attend(&head, &walk);
    }
    tiles_off();
    if (!a->shared)
        memcpy(w.notes, &kept, sizeof kept);
    return 0;
}
% end
