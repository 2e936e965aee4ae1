%# Which tile is next, and where in shared memory it lies.

/* A tile of queries: its first one, its head, key head and sequence, the keys of that, what a causal interval counts
 * from, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
};

/* Query i sees the keys before this one. */
INLINED int interval(int i, int keys, int offset)
{
% if CAUSAL
    return max(min(i + offset + 1, keys), 0);
% else
    return keys;
% end
}

INLINED struct tile tile_at(int t, const struct attn_cl_args *a, int near, __global const long *kv_lens)
{
    struct tile x;
    const int q_len = (int)a->q_len, heads = (int)a->heads, tiles = (q_len + ${BQ - 1}) / ${BQ};
% if CAUSAL
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
    x.offset = (int)clamp(a->offset + (a->bottom_right ? x.keys - q_len : 0), -(1L << 30), 1L << 30); /* lengths are below 2^30 */
    x.count = (interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK};
    return x;
}

/* Tensors, of warpgroup w or in a stage, and the barriers that tell that they are there, or no longer needed. */
#define Q_AT(w) (shared + (w) * ${Q_STEP})
#define K_AT(stage) (shared + ${AT_K} + (stage) * ${K_TILE})
#define V_AT(stage) (shared + ${AT_V} + (stage) * ${V_TILE})
#define O_AT(w) (shared + ${OWN_O ? AT_O : 0} + (w) * ${OWN_O ? O_WG : Q_STEP})
#define Q_FULL(w) (shared + ${AT_BAR} + (w) * 8)
#define Q_EMPTY(w) (shared + ${AT_BAR + 8*WG} + (w) * 8)
#define K_FULL(stage) (shared + ${AT_BAR + 16*WG} + (stage) * 8)
#define K_EMPTY(stage) (shared + ${AT_BAR + 16*WG + 8*ST} + (stage) * 8)
#define V_FULL(stage) (shared + ${AT_BAR + 16*WG + 16*ST} + (stage) * 8)
#define V_EMPTY(stage) (shared + ${AT_BAR + 16*WG + 24*ST} + (stage) * 8)
#define LANDED (shared + ${AT_BAR + 16*WG + 32*ST})
#define TILE_AT(w, parity) ((__local struct tile *)(memory + ${AT_TILE} + (2 * (w) + (parity)) * ${TILE_BYTES}))
#define STAGE(n) ((n) % ${ST}) /* of the n-th tile of keys, or of values, since the launch */
#define ROUND(n) ((n) / ${ST} & 1)

INLINED void make_barriers(uint shared)
{
    for (int w = 0; w < ${WG}; w++)
        barrier_init(Q_FULL(w), 1), barrier_init(Q_EMPTY(w), ${OWN_O ? 4 : 1});
    for (int i = 0; i < ${ST}; i++) {
        barrier_init(K_FULL(i), 1), barrier_init(K_EMPTY(i), ${4*WG});
        barrier_init(V_FULL(i), 1), barrier_init(V_EMPTY(i), ${4*WG});
    }
    barrier_init(LANDED, 1);
    barriers_made();
}
