%# Which tile is next, and where in shared memory it lies.

/* A tile of queries: its first one, its head, key head and sequence, the keys of that, what a causal interval counts
 * from, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
};

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
    /* Without keys there is one tile too, all masked: so O = 0 and LSE = -inf come about as all else. */
    x.count = max((interval(min(x.i0 + ${BQ}, q_len) - 1, x.keys, x.offset) + ${BK - 1}) / ${BK}, 1);
    return x;
}

/* Tensors in shared memory, and the barriers that tell that they are there, or no longer needed: the n-th Q of warpgroup
 * w since the launch, and the n-th tile of K or V. */
#define Q_SLOT(w, n) ((n) % ${QS} * ${WG} + (w))
#define Q_AT(w, n) (shared + Q_SLOT(w, n) * ${Q_WG})
#define Q_FULL(w, n) (shared + ${AT_BAR} + Q_SLOT(w, n) * 8)
#define Q_EMPTY(w, n) (shared + ${AT_BAR + 8*QS*WG} + Q_SLOT(w, n) * 8)
#define Q_ROUND(n) ((n) / ${QS} & 1)
#define K_AT(n) (shared + ${AT_K} + (n) % ${ST} * ${K_TILE})
#define V_AT(n) (shared + ${AT_V} + (n) % ${ST} * ${V_TILE})
#define O_AT(w) (shared + ${AT_O} + (w) * ${OS*O_BOX})
#define K_FULL(n) (shared + ${AT_BAR + 16*QS*WG} + (n) % ${ST} * 8)
#define K_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 8*ST} + (n) % ${ST} * 8)
#define V_FULL(n) (shared + ${AT_BAR + 16*QS*WG + 16*ST} + (n) % ${ST} * 8)
#define V_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 24*ST} + (n) % ${ST} * 8)
#define LANDED (shared + ${AT_BAR + 16*QS*WG + 32*ST})
#define ROUND(n) ((n) / ${ST} & 1)
#define TILE_AT(w, n) ((__local volatile struct tile *)(memory + ${AT_TILE} + ((n) % ${TILES} * ${WG} + (w)) * ${TILE_BYTES}))

INLINED void make_barriers(uint shared)
{
    for (int w = 0; w < ${WG}; w++)
        for (int n = 0; n < ${QS}; n++)
            barrier_init(Q_FULL(w, n), 1), barrier_init(Q_EMPTY(w, n), 4);
    for (int n = 0; n < ${ST}; n++) {
        barrier_init(K_FULL(n), 1), barrier_init(K_EMPTY(n), ${4*WG});
        barrier_init(V_FULL(n), 1), barrier_init(V_EMPTY(n), ${4*WG});
    }
    barrier_init(LANDED, 1);
    barriers_made();
}
