%# Where in shared memory a tile lies.

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

% if NARROW
/* The n-th narrow tile of the ring: its boxes, the scales of its keys and of their values, what it is, and its barriers. And those
 * scales beside the n-th wide tile of keys, until the next tile but one has come. */
#define PLACE_AT(n) (shared + ${AT_RING} + (n) % ${RING} * ${PLACE})
#define PAIRS_AT(n) (shared + ${AT_PAIRS} + (n) % ${RING} * ${PAIRS})
#define NOTE_AT(n) ((__local volatile int *)(memory + ${AT_NOTES} + (n) % ${RING} * 16))
#define SCALES_AT(n) ((__local float *)(memory + ${AT_SCALES} + (n) % 3 * ${PAIRS}))
#define PLACE_FULL(n) (shared + ${AT_BAR + 16*QS*WG + 32*ST + 8} + (n) % ${RING} * 8)
#define PLACE_EMPTY(n) (shared + ${AT_BAR + 16*QS*WG + 32*ST + 8 + 8*RING} + (n) % ${RING} * 8)
#define PLACE_ROUND(n) ((n) / ${RING} & 1)
enum { KEYS, VALUES, END }; /* what a place has */

% end
INLINED void make_barriers(uint shared${PAGED and not NARROW ? ", int copies" : ""})
{
    for (int w = 0; w < ${WG}; w++)
        for (int n = 0; n < ${QS}; n++)
            barrier_init(Q_FULL(w, n), ${PACKED and SPLIT ? 33 : 1}), barrier_init(Q_EMPTY(w, n), 4);
    for (int n = 0; n < ${ST}; n++) {
        barrier_init(K_FULL(n), ${NARROW ? WIDENERS : PAGED ? "copies" : "1"}), barrier_init(K_EMPTY(n), ${4*WG});
        barrier_init(V_FULL(n), ${NARROW ? WIDENERS : PAGED ? "copies" : "1"}), barrier_init(V_EMPTY(n), ${4*WG});
    }
    barrier_init(LANDED, 1);
% if NARROW
    for (int n = 0; n < ${RING}; n++)
        barrier_init(PLACE_FULL(n), 33), barrier_init(PLACE_EMPTY(n), ${WIDENERS}); /* a lane's scales each, and what is announced */
% end
    barriers_made();
}
