%# Forward attention on NVIDIA's Hopper, after FlashAttention-3 (Shah et al. 2024). One work-group a multiprocessor walks the
%# tiles of queries. One warp feeds it with Q, and with keys and values in ST stages each. Every other warpgroup has 64 rows
%# of the tile; it begins the scores of the next keys before it makes exponentials of these. All PTX is in ptx.t.
% include "opencl/sm90.sizes.t"
% include "opencl/sm90.header.t"
% include "opencl/args.h"
% include "opencl/maps.h"
% include "opencl/ptx.t"
% include "opencl/sm90.tiles.t"
% include "opencl/sm90.copy.t"
% include "opencl/softmax.t"

/* A warpgroup's part of a tile: S, P and O in fragments. */
struct part {
    uint shared;
    __local uchar *memory;
    int w, warp, lane;
    float scale;
    int edge, end[2]; /* see set_ends */
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
};

/* S = Q K^T and O += P V are begun here, and not waited for. */
INLINED void begin_scores(float *s, uint q, uint k)
{
    products_begin();
% for d in 0..ceil_div(HD, 16)
    multiply_qk(s, operand(q + ${d/4*8192 + d%4*32}, 16), operand(k + ${d/4*BK*128 + d%4*32}, 16), ${d > 0});
% end
    products_commit();
}
INLINED void begin_values(float *out, const uint *p, uint v)
{
    products_begin();
% for j in 0..BK/16
    multiply_pv(out, p + ${4*j}, operand(v + ${2048*j}, ${BK*128}));
% end
    products_commit();
}

/* With a negative scale the scores of -Q are multiplied by its magnitude, so that the largest comes out on top. */
INLINED void negate_q(const struct part *x)
{
    const uint shared = x->shared;
    for (int at = (x->warp * 32 + x->lane) * 16; at < ${Q_WG}; at += 2048)
        flip_signs16(Q_AT(x->w, x->nq) + at);
    shared_written();
    named_sync(3 + x->w, 128);
}

/* Row i sees keys before end[0], row i + 8 those before end[1], and all of the warpgroup's rows those before edge. */
INLINED void set_ends(struct part *x, __local volatile const struct tile *at)
{
    const int i0 = at->i0 + 64 * x->w, i = i0 + 16 * x->warp + x->lane / 4, keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i, keys, offset), x->end[1] = interval(i + 8, keys, offset);
}

/* The keys of tile j that are behind the ends of intervals. */
INLINED void mask_edge(float *s, const struct part *x, int j)
{
    if (x->edge < (j + 1) * ${BK}) {
        const int from = j * ${BK} + 2 * (x->lane & 3), left[2] = {x->end[0] - from, x->end[1] - from};
        mask(s, left);
    }
}

/* The rows of the tile before are complete: their LSE, and what their output is to be multiplied by. */
INLINED void close_rows(const struct part *x, struct rows *rows, float *inverse, const struct attn_cl_args *a, __global float *lse)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq - 1);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
        inverse[r] = rows->sum[r] == 0.0f ? 0.0f : 1.0f / rows->sum[r];
    }
    if (a->has_lse && x->nq > 0 && (x->lane & 3) == 0) {
        const int i = at->i0 + 64 * x->w + 16 * x->warp + x->lane / 4;
        lse += a->lse_at + (at->b * a->heads + at->h) * a->q_len;
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (i + 8 * r < (int)a->q_len)
                lse[i + 8 * r] = rows->sum[r] == 0.0f ? -INFINITY : finite(rows->top[r]) * x->scale * 0.693147181f + log(rows->sum[r]);
    }
    rows->top[0] = rows->top[1] = -INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
}

/* O of the tile before goes through shared memory, swizzled as the copy engine wants it, ${OS} of ${VB} box${VB > 1 ? "es" : ""} at a time. */
INLINED void store_output(const struct part *x, const float *out, const float *inverse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, x->nq - 1);
    const int row = 16 * x->warp + (x->lane & 15), lead = x->warp == 0 && x->lane == 0;
    const uint at = O_AT(x->w) + row * 128 + ((x->lane / 16 ^ (row & 7)) << 4);
#define PAIR(n) rounded(out[n] * inverse[(n) / 2 % 2], out[(n) + 1] * inverse[(n) / 2 % 2])
% for first in 0..ceil_div(VB, OS)
    if (lead)
        stores_read();
    named_sync(3 + x->w, 128);
% for c in first*OS*4..min(HDV/16, (first + 1)*OS*4)
    store_matrices4((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}), PAIR(${8*c + 4}), PAIR(${8*c + 6}));
% end
% if HDV % 16 != 0 and first == ceil_div(VB, OS) - 1
% let c = HDV/16
    store_matrices2((at ^ ${c%4*32}) + ${(c/4 - first*OS)*8192}, PAIR(${8*c}), PAIR(${8*c + 2}));
% end
    shared_written();
    named_sync(3 + x->w, 128);
    if (lead) {
% for c in first*OS..min(VB, (first + 1)*OS)
        box_store(x->o, ${64*c}, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(x->w) + ${(c - first*OS)*8192});
% end
        stores_commit();
    }
% end
}

/* With ping-pong one warpgroup's products run while the other makes exponentials. */
% if PINGPONG
#define TAKE_TURN(x) named_sync(1 + (x)->w, 256)
#define GIVE_TURN(x) named_arrive(2 - (x)->w, 256)
% else
#define TAKE_TURN(x)
#define GIVE_TURN(x)
% end
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void begin_step(float *s, float *out, const uint *p, struct part *x)
{
    const uint shared = x->shared;
    await(K_FULL(x->nk), ROUND(x->nk));
    TAKE_TURN(x);
    begin_scores(s, Q_AT(x->w, x->nq), K_AT(x->nk));
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    GIVE_TURN(x);
    products_wait_but_last();
    RELEASE(x, K_EMPTY(x->nk));
    x->nk++;
}
INLINED void end_step(struct part *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    x->nv++;
}

/* All tiles of this work-group, as one sequence of steps. A step begins the scores of its keys, and then the values of the
 * step before, be it of the tile before; while these are under way, it makes exponentials of the scores. Before the
 * first tile there is one of nothing: P = 0, whose output is not stored. */
INLINED void consume(struct part *x, const struct attn_cl_args *a, __global float *lse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[${NS}], out[${NO}], fix[2];
    uint p[${NS/2}];
    struct rows rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        p[n] = 0;
    #pragma unroll
    for (int n = 0; n < ${NO}; n++)
        out[n] = 0.0f;
    for (;; x->nq++) {
        await(Q_FULL(x->w, x->nq), Q_ROUND(x->nq));
        int j = TILE_AT(x->w, x->nq)->count - 1;
        if (j < 0)
            break;
        set_ends(x, TILE_AT(x->w, x->nq));
        if (a->scale < 0.0f)
            negate_q(x);
        begin_step(s, out, p, x);
        if (j == 0)
            RELEASE(x, Q_EMPTY(x->w, x->nq));
        mask_edge(s, x, j);
        close_rows(x, &rows, fix, a, lse);
        const float inverse[2] = {fix[0], fix[1]};
        softmax(s, &rows, fix, x->scale);
        end_step(x);
        if (x->nq > 0)
            store_output(x, out, inverse);
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            out[n] = 0.0f;
        round_all(p, s);
        while (--j >= 0) {
            begin_step(s, out, p, x);
            if (j == 0)
                RELEASE(x, Q_EMPTY(x->w, x->nq));
% if CAUSAL
            mask_edge(s, x, j);
% end
            const int grown = softmax(s, &rows, fix, x->scale);
            end_step(x);
            if (grown)
                rescale(out, fix);
            round_all(p, s);
        }
    }
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    close_rows(x, &rows, fix, a, lse);
    products_wait();
    store_output(x, out, fix);
}

__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const struct attn_cl_maps maps, __global ulong *room)
{
    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const int item = get_local_id(0);
    __global uint *taken = (__global uint *)room; /* tiles that were taken beyond a first one each; groups that are done */
    room += 16 + get_group_id(0) * 64;
    if (item == 0) {
        make_barriers(shared);
        place_map(room, maps.q, (ulong)(q + a.q_at)), place_map(room + 16, maps.k, (ulong)(k + a.k_at));
        place_map(room + 32, maps.v, (ulong)(v + a.v_at)), place_map(room + 48, maps.o, (ulong)(o + a.o_at));
        maps_written();
        for (int i = 0; i < 64; i += 16)
            map_acquire((ulong)(room + i));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 128) { /* the producer's warpgroup */
        struct source from = {.q = (ulong)room, .k = (ulong)(room + 16), .v = (ulong)(room + 32), .shared = shared,
            .memory = memory, .lane = item & 31, .kv_len = (int)a.kv_len};
% if WG > 1
        registers_for_copying();
% end
        if (item < 32)
            produce(&from, &a, maps.near, kv_lens, taken);
        return;
    }
% if WG > 1
    registers_for_computing();
% end
    struct part x = {.shared = shared, .memory = memory, .w = uniform(item / 128) - 1, .warp = item / 32 & 3, .lane = item & 31,
        .o = (ulong)(room + 48)};
    x.scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN); /* exponentials are powers of two; -inf * 0 is no number */
% if PINGPONG
    if (x.w == 1)
        named_arrive(1, 256);
% end
    consume(&x, &a, lse);
% if PINGPONG
    if (x.w == 0)
        named_sync(1, 256);
% end
    stores_done();
}
