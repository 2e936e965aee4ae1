%# Widens narrow keys and values: three warps beside the producer take tiles from the ring, and consumers wait for what these warps
%# write.

/* Widens rows of so many columns, from boxes of 128 narrow columns to boxes of 64 wide ones, both swizzled, with zeros from
 * row `end` on. A work-item has 16 columns of a row at once. Every other four work-items write their second half first, so
 * that eight of them use all banks. */
INLINED void widen_tile(__local uchar *from, __local uchar *to, const int columns, int end, int item)
{
    #pragma unroll 2
    for (int t = item; t < ${BK} * columns / 16; t += ${32*WIDENERS}) {
        const int row = t / (columns / 16), k = t % (columns / 16), late = k >> 2 & 1, turn = row & 7;
        const uint4 x = *(__local const uint4 *)(from + (k >> 3) * ${BK*128} + row * 128 + (((k & 7) ^ turn) << 4));
        __local uchar *const place = to + (k >> 2) * ${BK*128} + row * 128;
        uint y[8];
        widened(y, x.x), widened(y + 2, x.y), widened(y + 4, x.z), widened(y + 6, x.w);
        if (row >= end)
            #pragma unroll
            for (int n = 0; n < 8; n++)
                y[n] = 0;
        const int c = 2 * k & 7;
        *(__local uint4 *)(place + ((c + late ^ turn) << 4)) =
            late ? ${UINT4}(y[4], y[5], y[6], y[7]) : ${UINT4}(y[0], y[1], y[2], y[3]);
        *(__local uint4 *)(place + ((c + 1 - late ^ turn) << 4)) =
            late ? ${UINT4}(y[0], y[1], y[2], y[3]) : ${UINT4}(y[4], y[5], y[6], y[7]);
    }
}

/* Widens all tiles of this work-group, with work-items 0 to ${32*WIDENERS - 1}. */
INLINED void widen_all(uint shared, __local uchar *memory, int item)
{
    const int lane = item & 31;
    uint nk = 0, nv = 0;
    if (lane == 0)
        arrive(V_FULL(nv)); /* the first step has no values to multiply, but waits for some all the same */
    nv++;
    for (uint n = 0;; n++) {
        await(PLACE_FULL(n), PLACE_ROUND(n));
        const int what = NOTE_AT(n)[0], end = NOTE_AT(n)[1];
        __local uchar *const from = memory + (PLACE_AT(n) - shared);
        if (what == END)
            break;
        if (what == KEYS) {
            await(K_EMPTY(nk), ROUND(nk) ^ 1);
            __local const float *const pairs = (__local const float *)(memory + (PAIRS_AT(n) - shared));
            for (int t = item; t < ${2*BK}; t += ${32*WIDENERS})
                SCALES_AT(nk)[t] = pairs[t];
            widen_tile(from, memory + (K_AT(nk) - shared), ${HD}, ${BK}, item);
        } else {
            await(V_EMPTY(nv), ROUND(nv) ^ 1);
            widen_tile(from, memory + (V_AT(nv) - shared), ${HDV}, end, item);
        }
        shared_written();
        warp_sync();
        if (lane == 0) {
            arrive(what == KEYS ? K_FULL(nk) : V_FULL(nv));
            arrive(PLACE_EMPTY(n));
        }
        nk += what == KEYS, nv += what != KEYS;
    }
}

enum { SCALES_OF_KEYS, SCALES_OF_VALUES };
/* Multiplies scores by the scales of their keys, before the tile of these is counted; and, after that, probabilities by the
 * scales of their values. */
INLINED void multiply_keys(float *s, const struct worker *x, const int of)
{
    __local uchar *const memory = x->memory;
    __local const float *const scales = SCALES_AT(of == SCALES_OF_KEYS ? x->nk : x->nk - 1) + of * ${BK} + 2 * (x->lane & 3);
    #pragma unroll
    for (int m = 0; m < ${NS}; m += 4) {
        const float2 y = *(__local const float2 *)(scales + 2 * m);
        s[m] *= y.x, s[m + 1] *= y.y, s[m + 2] *= y.x, s[m + 3] *= y.y;
    }
}
