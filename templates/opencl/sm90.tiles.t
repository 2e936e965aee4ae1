%# Where a tile lies in shared memory.

/* Tensors in shared memory, and the barriers that tell that they have come or are no longer needed: those of the n-th Q of
 * warpgroup w since the launch, and of the n-th tile of K or V. */
#define Q_SLOT(w, n) ((n) % ${QS} * ${WG} + (w))
#define Q_AT(w, n) (shared + Q_SLOT(w, n) * ${Q_WG})
#define Q_FULL(w, n) (shared + ${AT_BAR} + Q_SLOT(w, n) * 8)
#define Q_EMPTY(w, n) (shared + ${AT_BAR + 8*QS*WG} + Q_SLOT(w, n) * 8)
#define Q_ROUND(n) ((n) / ${QS} & 1)
% if INSIDE
/* Keys and values share one ring of ${KV_RING} places, which are taken by number: keys have 0, 2, 4 and so on, values 1, 3,
 * 5. Where values are the first columns of keys, keys have 1, 2, 3 and so on, and values have the number of their keys. In
 * either case the first number of values belongs to none; the first step waits for it all the same. */
#define K_AT(n) (shared + ${AT_K} + (n) % ${KV_RING} * ${KV_PLACE})
#define K_FULL(n) (shared + ${AT_BAR + 16*QS*WG} + (n) % ${KV_RING} * 8)
#define K_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 8*KV_RING} + (n) % ${KV_RING} * 8)
#define V_AT(n) K_AT(n)
#define V_FULL(n) K_FULL(n)
#define V_EMPTY(n) K_EMPTY(n)
#define O_AT(w) (shared + ${AT_O} + (w) * ${OS*O_BOX})
#define LANDED (shared + ${AT_BAR + 16*QS*WG + 32*ST})
#define ROUND(n) ((n) / ${KV_RING} & 1)
#define FIRST_KEYS(inside) ((inside) ? 1 : 0)
#define FIRST_VALUES(inside) ((inside) ? 0 : 1)
#define STEP(inside) ((inside) ? 1 : 2)
% elif not FEW
#define K_AT(n) (shared + ${AT_K} + (n) % ${ST} * ${K_PLACE})
#define V_AT(n) (shared + ${AT_V} + (n) % ${ST} * ${V_PLACE})
#define O_AT(w) (shared + ${AT_O} + (w) * ${OS*O_BOX})
#define K_FULL(n) (shared + ${AT_BAR + 16*QS*WG} + (n) % ${ST} * 8)
#define K_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 8*ST} + (n) % ${ST} * 8)
#define V_FULL(n) (shared + ${AT_BAR + 16*QS*WG + 16*ST} + (n) % ${ST} * 8)
#define V_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 24*ST} + (n) % ${ST} * 8)
#define LANDED (shared + ${AT_BAR + 16*QS*WG + 32*ST})
#define ROUND(n) ((n) / ${ST} & 1)
% else
#define LANDED (shared + ${AT_BAR + 16*QS*WG})
% end
% if SHARES
#define P_FULL (shared + ${AT_BAR + 16*QS*WG + 32*ST + 8})
#define P_EMPTY (shared + ${AT_BAR + 16*QS*WG + 32*ST + 16})
% end
% if WIDENED
/* What comes with the n-th tile of keys: their scales, in the order of place_of_scale, and what values of theirs are to be multiplied by.
 * It stays until the keys of the tile after it are given back. */
#define RECORD_AT(n) ((__local float *)(memory + ${AT_RECORDS} + (n) % ${RECORDS} * ${RECORD}))
% end
#define TILE_AT(w, n) ((__local volatile struct tile *)(memory + ${AT_TILE} + ((n) % ${TILES} * ${WG} + (w)) * ${TILE_BYTES}))

% if NARROW
/* The n-th narrow tile of the ring: its boxes, the scales of its keys and values, a message of what it is, and its barriers.
${FEW ? " */" : " * The scales are also kept beside the n-th wide tile of keys, until the next tile but one has come: first those of keys, then those of"}
% if not FEW
 * values, divided by a power of two, and last that power. */
% end
#define PLACE_AT(n) (shared + ${AT_RING} + (n) % ${RING} * ${PLACE})
#define PAIRS_AT(n) (shared + ${AT_PAIRS} + (n) % ${RING} * ${PAIRS})
#define NOTE_AT(n) ((__local volatile int *)(memory + ${AT_NOTES} + (n) % ${RING} * 16))
% if not FEW
#define SCALES_AT(n) ((__local float *)(memory + ${AT_SCALES} + (n) % 3 * ${SCALES}))
% end
#define PLACE_FULL(n) (shared + ${AT_BAR + 16*QS*WG + 32*ST + 8} + (n) % ${RING} * 8)
#define PLACE_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 32*ST + 8 + 8*RING} + (n) % ${RING} * 8)
#define PLACE_ROUND(n) ((n) / ${RING} & 1)
enum { KEYS, VALUES, END }; /* what a place in the ring holds */

% end
/* For all lanes of a warp. Then one of them may let what comes next into the place: all have seen that this came, and none
 * waits for it any more. */
INLINED void await_by_all(uint bar, uint parity)
{
    await(bar, parity);
    warp_sync();
}
INLINED void make_barriers(uint shared${PAGED and not NARROW ? ", int copies" : ""}${INSIDE ? ", int inside" : ""})
{
    for (int w = 0; w < ${WG}; w++)
        for (int n = 0; n < ${QS}; n++)
            barrier_init(Q_FULL(w, n), ${PACKED and SPLIT ? 33 : 1}), barrier_init(Q_EMPTY(w, n), ${FEW ? WARPS + 1 : VALUES_APART ? "w == 0 ? 5 : 4" : 4});
% if INSIDE
    for (int n = 0; n < ${KV_RING}; n++) /* only places of values are given back by every warpgroup */
        barrier_init(K_FULL(n), ${PAGED ? "copies" : "1"}), barrier_init(K_EMPTY(n), inside || n % 2 ? ${4*CW} : ${4*WG});
% elif not FEW
    for (int n = 0; n < ${ST}; n++) {
        barrier_init(K_FULL(n), ${NARROW ? WIDENERS : PAGED ? "copies" : "1"}), barrier_init(K_EMPTY(n), ${4*WG});
        barrier_init(V_FULL(n), ${NARROW ? WIDENERS : PAGED ? "copies" : "1"}), barrier_init(V_EMPTY(n), ${4*CW});
    }
% end
% if SHARES
    barrier_init(P_FULL, 4), barrier_init(P_EMPTY, 4);
% end
    barrier_init(LANDED, 1);
% if NARROW
    for (int n = 0; n < ${RING}; n++)
        barrier_init(PLACE_FULL(n), 33), barrier_init(PLACE_EMPTY(n), ${FEW ? WARPS : WIDENERS}); /* 32 lanes' scales, and what is announced */
% end
    barriers_made();
}
% if INSIDE

/* Whether values are the first columns of keys, where both lie. A stride along a side of one has no effect, and may be
 * anything. */
INLINED int is_inside(__global const ${TYPE} *k, __global const ${TYPE} *v, const struct attn_cl_args *a)
{
    return k == v && (${PAGED ? "" : "a->batch == 1 || "}a->k_stride[0] == a->v_stride[0]) &&
        (a->kv_heads == 1 || a->k_stride[1] == a->v_stride[1]) && a->k_stride[2] == a->v_stride[2];
}
% end
