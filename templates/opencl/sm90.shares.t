%# Two warpgroups that share the columns of one tile's output, which are more than the registers of one hold. What was counted before
%# it was written, at head_dim 576 with values of 512, tiles of 64 keys, bf16:
%#   registers   of a work-item, of 232 (224 in pages): 128 of output in either warpgroup. The first has 32 scores, 16 words of P and about
%#               32 for all else besides, 208; the second 16 words of P and what says where it is, about 170.
%#   memory      Q 73,728 bytes; two places of the ring with 73,728 each, for keys that hold values; P 8,192 and three numbers a work-item
%#               1,536: 230,912, which leaves 1,536 of 227 KiB to barriers and to what tiles are. Output has none, and goes from registers.
%#   products    of such a tile 36 of 64 x 64 x 16 for scores, 32 cycles each, and twice 4 of 64 x 256 x 16 for output, 128 each: 2,176 cycles,
%#               of which the first warpgroup begins 1,664. Scores are made once: made by both, they would be 1,152 cycles more.
%# The barriers, and why none of them waits for ever:
%#   P_FULL, P_EMPTY   of one place, which the first warpgroup's four warps fill and the second's four empty, by turns: the n-th time either
%#               has parity n % 2. The first waits only for what the second has still to read, and the second reads as soon as it
%#               has multiplied what it read before. For that it waits for values alone; and these were there before the first warpgroup
%#               told their P, because it had waited for the next keys and for those values itself, or (in the last step) is about to wait for the
%#               same barrier. Values come in the order of keys, and are loaded whenever both have given back the place. So of the two that
%#               wait, first for second and second for values, the last always goes on.
%#   V_EMPTY     takes both warpgroups' arrivals, so that neither can be two rounds behind the other, and a parity is never taken for that of
%#               the round before. The values that the first step waits for, of none, the second gives back unread.
%#   tiles       The second does not wait for Q, which may be two tiles ahead. What it knows of a tile it reads in TILE_AT, once it was told
%#               something of it, and until it has stored its output. By then the first may have been told to begin, and to end, the next tile
%#               (each is read only after that output was stored, but for one), so it is in the tile after that at most, whose Q it may have given
%#               back; the producer is then at most ${QS} more ahead: 4 tiles. There is room for 8.
%# Who writes, tells and reads in shared memory does so as work-items do, not as the copy engine and the tensor cores do, so that no fence of
%# theirs is needed: P reaches the second product by registers.

/* What the first warpgroup tells the second: that a tile of queries begins, that it goes on (and that the maximum of some row has
 * grown, so that output is to be multiplied by two numbers first), that it ends, and what its output is to be multiplied by; and
 * that there are no more. With all but the last two come probabilities. */
enum told { BEGINS, GOES_ON, RESCALES, ENDS, NO_MORE };
#define TOLD_P(item) ((__local uint4 *)(memory + ${AT_P}) + (item))
#define TOLD_FACTOR(item) ((__local float *)(memory + ${AT_P + BK*128}) + (item))
#define TOLD_WHAT(item) ((__local int *)(memory + ${AT_P + BK*128 + 1024}) + (item))

/* A work-item tells the one with its place in the other warpgroup, which has the same rows. */
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

/* The second warpgroup: its columns of the output of all tiles of this work-group, after what it is told. */
INLINED void follow(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const uint shared = x->shared;
    float out[${NO}], factor[2];
    uint p[${NS/2}];
    await(V_FULL(x->nv), ROUND(x->nv)); /* of none */
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
        shared_written(); /* they may have been copied by work-items */
% end
        begin_values(out, p, V_AT(x->nv) + ${DV/64*BK*128});
        products_wait();
        RELEASE(x, V_EMPTY(x->nv));
        ${NEXT_V};
    }
}
