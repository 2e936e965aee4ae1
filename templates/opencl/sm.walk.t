%# For packed sequences: which rows a sequence has and, for groups that stay, to which sequence their next tile belongs.

/* For a launch: the arrays that say where sequences begin, on the sides that are
 * packed${SPLIT ? "; and the largest number of splits" : ""}. */
struct starts {
    __global const long *q, *kv;
% if SPLIT
    int splits;
% end
};

/* For a sequence: its rows, and the number of rows before them in memory. */
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

/* The same for one sequence as struct attn_cl_split says for the longest one. */
struct division {
    int rows, heads, along, slices, ratio;
};
INLINED struct division division_of(int queries, const struct attn_cl_args *a)
{
    struct division y = {.rows = max(min(queries, ${SLICE}), 1), .along = (queries + ${SLICE - 1}) / ${SLICE}};
    const int group = (int)a->heads / (int)a->kv_heads;
    y.ratio = (65535 + y.rows) / y.rows;
    y.heads = min(${SLICE} * y.ratio >> 16, group);
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
%# Where keys are widened once, those who widen them go by tiles of keys.
% let AND_OF_KEYS = WIDENED ? ", const int of_keys" : ""
% let OF_KEYS = WIDENED ? ", of_keys" : ""
/* The number of a sequence's tiles of queries, of all heads${SPLIT ? ", and for each split of its keys" : ""}${WIDENED ? "; or of its keys, of all KV heads" : ""}. */
INLINED int tiles_of(const struct sequence *s, const struct attn_cl_args *a${SPLIT ? ", const struct starts *starts" : ""}${AND_OF_KEYS})
{
% if WIDENED
    if (of_keys)
        return s->queries > 0 ? max((s->keys + ${BK - 1}) / ${BK}, 1) * (int)a->kv_heads : 0;
% end
% if SPLIT
    const struct division d = division_of(s->queries, a);
    return (d.slices + ${WG - 1}) / ${WG} * splits_of(s->keys, starts) * (int)a->kv_heads;
% else
    return (s->queries + ${BQ - 1}) / ${BQ} * (int)a->heads;
% end
}

/* Tiles are numbered sequence by sequence. First come the sequences whose number of keys has the highest bit of all, then
 * those whose highest bit is the next lower one, and so on; so large tiles come first, and small ones fill the end. A warp
 * looks at 32 sequences at a time, and never goes back. */
struct walk {
    int bit, less;    /* the highest bit of the sequences that are being counted, and that of the sequences after them; NONE: there are no more */
    int first;        /* the first of the 32 sequences */
    int before, upto; /* tiles before those of these 32, and with those of these up to this lane's */
};
enum { NONE = -2 }; /* the bit of a sequence without keys is -1 */

INLINED void look(struct walk *w, int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts${AND_OF_KEYS})
{
    const int b = w->first + lane;
    int tiles = 0;
    if (b < (int)a->batch) {
        const struct sequence s = sequence_at(b, a, kv_lens, features, starts);
        const int bit = highest_bit(s.keys), all = tiles_of(&s, a${SPLIT ? ", starts" : ""}${OF_KEYS});
        if (bit == w->bit)
            tiles = all;
        else if (bit < w->bit && all > 0)
            w->less = max(w->less, bit);
    }
    w->upto = up_to_lane(tiles);
}

INLINED struct walk begin_walk(int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts${AND_OF_KEYS})
{
    struct walk w = {.bit = 31, .less = NONE}; /* lengths are below 2^30, so no sequence has this bit */
    look(&w, lane, a, kv_lens, features, starts${OF_KEYS});
    return w;
}

/* The sequence of tile t, which must not be smaller than in the call before, and the number of the tile within that
 * sequence; -1: there are fewer tiles. */
INLINED int walk_to(int t, int *b, struct walk *w, int lane, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts${AND_OF_KEYS})
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
        look(w, lane, a, kv_lens, features, starts${OF_KEYS});
    }
    const int which = lanes_with(t - w->before >= w->upto), past = of_lane(w->upto, max(which - 1, 0));
    *b = w->first + which;
    return t - w->before - (which > 0 ? past : 0);
}
% end
