%# Which tile is next.

/* A tile of queries: its first one, its head, key head and sequence, the keys of that, what a causal interval counts
 * from, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
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

INLINED struct tile tile_at(int t, const struct attn_cl_args *a, int near, __global const long *kv_lens${WINDOW ? "," : ")"}
% if WINDOW
    const struct attn_cl_features *features)
% end
{
    struct tile x;
    const int q_len = (int)a->q_len, heads = (int)a->heads, tiles = (q_len + ${BQ - 1}) / ${BQ};
% if CAUSAL and ORDER == "heavy"
    /* Heavy tiles first, so that light ones fill the end; of as many heads as have room in the cache. */
    const int first = t / (near * tiles) * near, rest = t - first * tiles, some = min(near, heads * (int)a->batch - first);
    const int head = first + rest % some;
    x.i0 = (tiles - 1 - rest / some) * ${BQ};
% else
    const int head = t / tiles;
    x.i0 = (t - head * tiles) * ${BQ};
% end
    x.b = head / heads;
    x.h = head - x.b * heads;
    x.g = x.h / (heads / (int)a->kv_heads);
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
    const long at = a->offset + (a->bottom_right ? x.keys - q_len : 0); /* where query 0 stands; lengths are below 2^30 */
% if ALIBI
    x.origin = (int)clamp(at, -(1L << 30), 1L << 30);
% end
% if WINDOW
    const long left = features->window[0], right = ${CAUSAL ? "0" : "features->window[1]"};
    x.low = left < 0 ? -(1 << 30) : (int)clamp(at - left, -(1L << 30), 1L << 30);
    x.offset = right < 0 ? 1 << 30 : (int)clamp(at + right, -(1L << 30), 1L << 30);
% else
    x.offset = (int)clamp(at, -(1L << 30), 1L << 30);
% end
    /* Without keys there is one tile too, all masked: so O = 0 and LSE = -inf come about as all else. */
% if FROM
    const int end = (interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK};
    x.from = max(min(max(x.i0 + x.low, 0) / ${BK}, end - 1), 0);
    x.count = max(end - x.from, 1);
% else
    x.count = max((interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK}, 1);
% end
    return x;
}
