%# Which tile is next.

/* A tile of queries: its first one, its head, KV head and sequence, the keys of that sequence, the offset of a causal
 * interval, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
% if PACKED
    int queries, q_from, kv_from; /* of the sequence, and of all that come before it */
    int qb, kb, q_all; /* its batch in Q and O, and in K and V; the rows that a head has in LSE */
% end
% if FROM
    int from; /* the first of these tiles of keys */
% end
% if WINDOW
    int low; /* query i sees keys from i + low to i + offset */
% end
% if ALIBI
    int origin; /* query i stands at i + origin on the axis of keys */
% end
};
% if PACKED

% include "opencl/sm.walk.t"
% end

% if WALKS
/* Tile t, which must not be smaller than in the call before; its count is 0 if there are fewer tiles. */
INLINED struct tile tile_at(int t, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct attn_cl_features *features, const struct starts *starts, struct walk *walk, int lane)
% else
INLINED struct tile tile_at(int t, const struct attn_cl_args *a, int near, __global const long *kv_lens${WINDOW or PACKED ? "," : ")"}
% if PACKED
    const struct attn_cl_features *features, const struct starts *starts)
% elif WINDOW
    const struct attn_cl_features *features)
% end
% end
{
    struct tile x;
% if WALKS
    x.b = 0;
    const int in_sequence = walk_to(t, &x.b, walk, lane, a, kv_lens, features, starts${WIDENED ? ", 0" : ""});
    const struct sequence s = sequence_at(x.b, a, kv_lens, features, starts);
    const int q_len = s.queries, heads = (int)a->heads, tiles = max((q_len + ${BQ - 1}) / ${BQ}, 1);
% if CAUSAL and ORDER == "heavy"
    /* Tiles with many keys come first, for as many heads together as have room for their keys and values in L2, but enough
     * that every group has two tiles. */
    const int group = heads / (int)a->kv_heads, some_group = tiles * group;
    const int room = ${(24*1024*1024)/(2*(HD + HDV))} / max(s.keys, 1), enough = (2 * group_count() + some_group - 1) / some_group;
    const int near = min((long)max(room, max(enough, 1)) * group, (long)heads);
    const int first = in_sequence / (near * tiles) * near, rest = in_sequence - first * tiles, some = min(near, heads - first);
    x.h = first + rest % some;
    x.i0 = (tiles - 1 - rest / some) * ${BQ};
% else
    x.h = in_sequence / tiles;
    x.i0 = (in_sequence - x.h * tiles) * ${BQ};
% end
% else
% if PACKED
    const int most = (int)a->q_len, heads = (int)a->heads, tiles = (most + ${BQ - 1}) / ${BQ};
% else
    const int q_len = (int)a->q_len, heads = (int)a->heads, tiles = (q_len + ${BQ - 1}) / ${BQ};
% end
% if CAUSAL and ORDER == "heavy"
    /* Tiles with many keys come first, so that those with few fill the end; for as many heads together as have room for
     * their keys and values in L2. */
    const int first = t / (near * tiles) * near, rest = t - first * tiles, some = min(near, heads * (int)a->batch - first);
    const int head = first + rest % some;
    x.i0 = (tiles - 1 - rest / some) * ${BQ};
% else
    const int head = t / tiles;
    x.i0 = (t - head * tiles) * ${BQ};
% end
    x.b = head / heads;
    x.h = head - x.b * heads;
% if PACKED
    const struct sequence s = sequence_at(x.b, a, kv_lens, features, starts);
    const int q_len = s.queries;
% end
% end
    x.g = x.h / (heads / (int)a->kv_heads);
% if PACKED
    x.keys = s.keys, x.queries = q_len, x.q_from = s.q_from, x.kv_from = s.kv_from;
    x.qb = features->has_q_starts ? 0 : x.b, x.kb = features->has_kv_starts ? 0 : x.b;
    x.q_all = features->has_q_starts ? (int)starts->q[here(features->q_end_at)] : q_len;
% else
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
% end
% include "opencl/sm.position.t"
    /* Without keys there is one tile all the same, all of which is masked. So O = 0 and LSE = -inf need no code of their
     * own. */
% if FROM
    const int end = (interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK};
    x.from = max(min(max(x.i0 + x.low, 0) / ${BK}, end - 1), 0);
    x.count = max(end - x.from, 1);
% else
    x.count = max((interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK}, 1);
% end
% if WALKS
    if (in_sequence < 0)
        x.count = 0;
% end
    return x;
}
