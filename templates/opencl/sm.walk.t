%# Where sequences are packed: which rows are a sequence's; and, of groups that stay, which sequence their next tile is of.

/* Of a launch: the arrays of where sequences begin, on the sides that are packed${SPLIT ? "; and how many splits there are at most" : ""}. */
struct starts {
    __global const long *q, *kv;
% if SPLIT
    int splits;
% end
};

/* Of a sequence: its rows, and those that come before them in memory. */
struct sequence {
    int queries, keys, q_from, kv_from;
};
INLINED struct sequence sequence_at(int b, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts)
{
    struct sequence s = {.queries = (int)a->q_len, .keys = (int)a->kv_len};
    __global const long *const q = (__global const long *)here((long)starts->q) + here(features->q_starts_at) + b;
    __global const long *const kv = (__global const long *)here((long)starts->kv) + here(features->kv_starts_at) + b;
    if (features->has_q_starts)
        s.q_from = (int)q[0], s.queries = (int)q[1] - s.q_from;
    if (features->has_kv_starts)
        s.kv_from = (int)kv[0], s.keys = (int)kv[1] - s.kv_from;
    else if (a->has_lens)
        s.keys = (int)kv_lens[a->lens_at + b];
    return s;
}
% if SPLIT

/* As struct attn_cl_split says of the longest sequence, of one. */
struct division {
    int rows, heads, along, slices, ratio;
};
INLINED struct division division_of(int queries, const struct attn_cl_args *a)
{
    struct division y = {.rows = max(min(queries, 64), 1), .along = (queries + 63) / 64};
    const int group = (int)a->heads / (int)a->kv_heads;
    y.ratio = (65535 + y.rows) / y.rows;
    y.heads = min(64 * y.ratio >> 16, group);
    y.slices = y.along * ((group + y.heads - 1) / y.heads);
    return y;
}
% end
% if WALKS

% if SPLIT
INLINED int splits_of(int keys, const struct starts *starts)
{
    return max(min((keys + ${SPLIT - 1}) / ${SPLIT}, starts->splits), 1);
}

% end
/* Its tiles of queries, of all heads${SPLIT ? ", for each split of its keys" : ""}. */
INLINED int tiles_of(const struct sequence *s, const struct attn_cl_args *a${SPLIT ? ", const struct starts *starts" : ""})
{
% if SPLIT
    const struct division d = division_of(s->queries, a);
    return (d.slices + ${WG - 1}) / ${WG} * splits_of(s->keys, starts) * (int)a->kv_heads;
% else
    return (s->queries + ${BQ - 1}) / ${BQ} * (int)a->heads;
% end
}

/* Tiles are counted sequence by sequence: first of those whose number of keys has the highest bit of all, then of those that
 * have a bit less, and so on; so large tiles come first, and small ones fill the end. A warp looks at 32 sequences at a time,
 * and never back. */
struct walk {
    int bit, less;    /* that bit of the sequences that are counted now, and the highest of those after them; NONE: no more */
    int first;        /* of the 32 */
    int before, upto; /* tiles before these, and of these up to this lane's */
};
enum { NONE = -2 }; /* without keys it is -1 */

INLINED void look(struct walk *w, int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts)
{
    const int b = w->first + lane;
    int tiles = 0;
    if (b < (int)a->batch) {
        const struct sequence s = sequence_at(b, a, kv_lens, features, starts);
        const int bit = highest_bit(s.keys), all = tiles_of(&s, a${SPLIT ? ", starts" : ""});
        if (bit == w->bit)
            tiles = all;
        else if (bit < w->bit && all > 0)
            w->less = max(w->less, bit);
    }
    w->upto = up_to_lane(tiles);
}

INLINED struct walk begin_walk(int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts)
{
    struct walk w = {.bit = 31, .less = NONE}; /* lengths are below 2^30: of these there are none */
    look(&w, lane, a, kv_lens, features, starts);
    return w;
}

/* The sequence of tile t, no smaller than before, and which of the sequence's it is; -1: there are not so many. */
INLINED int walk_to(int t, int *b, struct walk *w, int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts)
{
    for (;;) {
        const int some = of_lane(w->upto, 31);
        if (t - w->before < some)
            break;
        w->before += some;
        w->first += 32;
        if (w->first >= (int)a->batch) {
            w->first = 0;
            w->bit = most_in_warp(w->less), w->less = NONE;
            if (w->bit == NONE) {
                w->upto = 0;
                return -1;
            }
        }
        look(w, lane, a, kv_lens, features, starts);
    }
    const int which = lanes_with(t - w->before >= w->upto), past = of_lane(w->upto, max(which - 1, 0));
    *b = w->first + which;
    return t - w->before - (which > 0 ? past : 0);
}
% end
