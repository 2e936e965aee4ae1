%# Two warpgroups share the columns of a tile's output where head_dim.v is more than 256, since the registers of one cannot hold it.
%# The first warpgroup makes scores and probabilities P and multiplies the first columns of V; it tells the second P, which
%# multiplies the rest.
%# The budget that this was written to, for head_dim 576 with values of 512, tiles of 64 keys, in bf16:
%#   registers   per work-item, of 224: both warpgroups hold 128 elements of output. The first needs 32 scores, 16 words of P
%#               and about 32 for the rest besides, together 208; the second 16 words of P and its addresses, about 170.
%#   memory      Q takes 73,728 bytes; the ring of two places 73,728 each, for keys that hold values; P 8,192, and three numbers per
%#               work-item 1,536. That is 230,912 bytes; 1,536 of 227 KiB are left for barriers and tiles. Output goes to memory
%#               from registers.
%#   products    per tile: 36 of 64 x 64 x 16 for scores, of 32 cycles each, and twice 4 of 64 x 256 x 16 for output, of 128 cycles
%#               each; 2,176 cycles, of which the first warpgroup begins 1,664. If both warpgroups made the scores it would be 1,152
%#               cycles more.
%# The barriers, and why none of them waits for ever or too short:
%#   P_FULL, P_EMPTY   have one place, which the four warps of the first warpgroup fill and those of the second empty, in turn; the
%#               n-th time has parity n % 2. The first waits until the second has read what it was told last, and the second reads
%#               that as soon as it has multiplied the P before. The values for this were there before the first told the last P,
%#               because it had waited for them itself: so the second waits for nothing that the first still has to do, and the
%#               first gets its place.
%#   V_EMPTY     counts arrivals of both warpgroups, so neither can be two rounds behind, and no parity is mistaken for that of
%#               another round. The first step waits for values although there are none (sm90.consume.t); the second warpgroup
%#               gives their place back unread.
%#   tiles       The second warpgroup never waits for Q, which may be ahead of it. It reads TILE_AT of a tile after it was told
%#               something of it, until it has stored the tile's output. Meanwhile the first can get as far as the first step of the
%#               tile after the next, where it waits to tell that the next has ended; so the producer has written tiles up to the
%#               third after this one. There is room for 6 or more.
%# P goes from registers to registers by loads and stores of work-items, and so needs no fence for the copy engine or the tensor cores.

/* What the first warpgroup tells the second: that a tile of queries begins; that it goes on; that it goes on, but output
 * must first be multiplied by two factors, because the maximum of a row has grown; that it ends, with the last two factors
 * of its output; or that there are no more tiles. Probabilities come with the first three. */
enum told { BEGINS, GOES_ON, RESCALES, ENDS, NO_MORE };
#define TOLD_P(item) ((__local uint4 *)(memory + ${AT_P}) + (item))
#define TOLD_FACTOR(item) ((__local float *)(memory + ${AT_P + BK*128}) + (item))
#define TOLD_WHAT(item) ((__local int *)(memory + ${AT_P + BK*128 + 1024}) + (item))

/* Each work-item tells the one that has the same place in the second warpgroup, and so the same rows. */
INLINED void tell(struct worker *x, const uint *p, const float *factor, const int what)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    const int item = anew(32 * x->warp + x->lane);
    await(P_EMPTY, (x->told & 1) ^ 1);
    if (what < ENDS) {
        #pragma unroll
        for (int n = 0; n < ${BK/16}; n++)
            TOLD_P(item)[128 * n] = ${UINT4}(p[4 * n], p[4 * n + 1], p[4 * n + 2], p[4 * n + 3]);
    }
    TOLD_FACTOR(item)[0] = factor[0], TOLD_FACTOR(item)[128] = factor[1];
    *TOLD_WHAT(item) = what;
    x->told++;
    warp_sync();
    RELEASE(x, P_FULL);
}
INLINED int hear(struct worker *x, uint *p, float *factor)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    const int item = anew(32 * x->warp + x->lane);
    await(P_FULL, x->told & 1);
    #pragma unroll
    for (int n = 0; n < ${BK/16}; n++) {
        const uint4 y = TOLD_P(item)[128 * n];
        p[4 * n] = y.x, p[4 * n + 1] = y.y, p[4 * n + 2] = y.z, p[4 * n + 3] = y.w;
    }
    factor[0] = TOLD_FACTOR(item)[0], factor[1] = TOLD_FACTOR(item)[128];
    const int what = uniform(*TOLD_WHAT(item));
    x->told++;
    warp_sync();
    RELEASE(x, P_EMPTY);
    return what;
}

/* Makes the second warpgroup's columns of the output of all tiles, as it is told. */
INLINED void follow(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const uint shared = x->shared;
    float out[${NO}], factor[2];
    uint p[${NS/2}];
    await_by_all(V_FULL(x->nv), ROUND(x->nv)); /* of none */
    RELEASE(x, V_EMPTY(x->nv));
    ${NEXT_V};
    for (;;) {
        const int what = hear(x, p, factor);
        if (what == NO_MORE)
            break;
        if (what == ENDS) {
            x->nq++;
            await_staging(x);
            ${STORE};
            continue;
        }
        if (what == BEGINS)
            clear(out);
        if (what == RESCALES)
            rescale(out, factor);
        await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
        shared_written(); /* work-items may have copied them */
% end
        begin_values(out, p, V_AT(x->nv) + ${DV/64*BK*128});
        products_wait();
        RELEASE(x, V_EMPTY(x->nv));
        ${NEXT_V};
    }
}
