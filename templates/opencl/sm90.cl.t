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
    int w, warp, lane;
    float scale;
    int edge, end[2]; /* see set_ends */
    uint nk, nv;      /* tiles of keys and of values so far */
};

/* S = Q K^T and O += P V are begun here, and not waited for. */
INLINED void begin_scores(float *s, const struct part *x, uint k)
{
    const uint shared = x->shared, q = Q_AT(x->w);
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
        flip_signs16(Q_AT(x->w) + at);
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

/* With ping-pong one warpgroup's products run while the other makes exponentials. */
% if PINGPONG
#define TAKE_TURN(x) named_sync(1 + (x)->w, 256)
#define GIVE_TURN(x) named_arrive(2 - (x)->w, 256)
% else
#define TAKE_TURN(x)
#define GIVE_TURN(x)
% end
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

/* O and the rows' sums over `count` tiles of keys, the last one first. */
INLINED void attend(struct part *x, int count, float *out, struct rows *rows)
{
    const uint shared = x->shared;
    float s[${NS}], fix[2];
    uint p[${NS/2}];
    await(K_FULL(STAGE(x->nk)), ROUND(x->nk));
    TAKE_TURN(x);
    begin_scores(s, x, K_AT(STAGE(x->nk)));
    GIVE_TURN(x);
    products_wait();
    RELEASE(x, K_EMPTY(STAGE(x->nk)));
% if OWN_O
    if (count == 1)
        RELEASE(x, Q_EMPTY(x->w));
% end
    mask_edge(s, x, count - 1);
    softmax(s, rows, fix, x->scale);
    round_all(p, s);
    for (int j = count - 2; j >= 0; j--) {
        x->nk++;
        await(K_FULL(STAGE(x->nk)), ROUND(x->nk));
        TAKE_TURN(x);
        begin_scores(s, x, K_AT(STAGE(x->nk)));
        await(V_FULL(STAGE(x->nv)), ROUND(x->nv));
        begin_values(out, p, V_AT(STAGE(x->nv)));
        GIVE_TURN(x);
        products_wait_but_last();
        RELEASE(x, K_EMPTY(STAGE(x->nk)));
% if OWN_O
        if (j == 0)
            RELEASE(x, Q_EMPTY(x->w));
% end
% if CAUSAL
        mask_edge(s, x, j);
% end
        const int grown = softmax(s, rows, fix, x->scale);
        products_wait();
        RELEASE(x, V_EMPTY(STAGE(x->nv)));
        x->nv++;
        if (grown)
            rescale(out, fix);
        round_all(p, s);
    }
    x->nk++;
    await(V_FULL(STAGE(x->nv)), ROUND(x->nv));
    begin_values(out, p, V_AT(STAGE(x->nv)));
    products_wait();
    RELEASE(x, V_EMPTY(STAGE(x->nv)));
    x->nv++;
}

/* O goes through shared memory, swizzled as the copy engine wants it. */
INLINED void stage_output(const struct part *x, const float *out, const float *inverse)
{
    const uint shared = x->shared;
    const int row = 16 * x->warp + (x->lane & 15);
    const uint at = O_AT(x->w) + row * 128 + ((x->lane / 16 ^ (row & 7)) << 4);
% for c in 0..HDV/16
    store_matrices4((at ^ ${c%4*32}) + ${c/4*8192},
        rounded(out[${8*c}] * inverse[0], out[${8*c + 1}] * inverse[0]), rounded(out[${8*c + 2}] * inverse[1], out[${8*c + 3}] * inverse[1]),
        rounded(out[${8*c + 4}] * inverse[0], out[${8*c + 5}] * inverse[0]), rounded(out[${8*c + 6}] * inverse[1], out[${8*c + 7}] * inverse[1]));
% end
% if HDV % 16 != 0
% let c = HDV/16
    store_matrices2((at ^ ${c%4*32}) + ${c/4*8192},
        rounded(out[${8*c}] * inverse[0], out[${8*c + 1}] * inverse[0]), rounded(out[${8*c + 2}] * inverse[1], out[${8*c + 3}] * inverse[1]));
% end
}

__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const struct attn_cl_maps maps, __global ulong *room)
{
    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const int item = get_local_id(0), tiles = ((int)a.q_len + ${BQ - 1}) / ${BQ} * (int)(a.heads * a.batch);
    room += get_group_id(0) * 64;
    const ulong o_map = (ulong)(room + 48);
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
        struct source from = {(ulong)room, (ulong)(room + 16), (ulong)(room + 32), shared, item & 31, (int)a.kv_len, 0, 0, 0};
        uint parity = 1;
% if WG > 1
        registers_for_copying();
% end
        for (int t = get_group_id(0); item < 32 && t < tiles; t += get_num_groups(0), parity ^= 1) {
            const struct tile at = tile_at(t, &a, maps.near, kv_lens);
            load_tile(&from, &at, parity, memory);
        }
        return;
    }

% if WG > 1
    registers_for_computing();
% end
    const int lead = item % 128 == 0;
    struct part x = {.shared = shared, .w = uniform(item / 128) - 1, .warp = item / 32 & 3, .lane = item & 31};
    x.scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN); /* exponentials are powers of two; -inf * 0 is no number */
    uint parity = 0;
% if PINGPONG
    if (x.w == 1)
        named_arrive(1, 256);
% end
    for (int t = get_group_id(0); t < tiles; t += get_num_groups(0), parity ^= 1) {
        await(Q_FULL(x.w), parity);
        __local volatile const struct tile *at = TILE_AT(x.w, parity);
        struct rows rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
        float out[${NO}], inverse[2];
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            out[n] = 0.0f;
        set_ends(&x, at);
        if (a.scale < 0.0f)
            negate_q(&x);
        const int count = at->count;
        if (count > 0)
            attend(&x, count, out, &rows);
% if OWN_O
        else
            RELEASE(&x, Q_EMPTY(x.w));
% end
        const int i0 = at->i0 + 64 * x.w, h = at->h, b = at->b;
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = i0 + 16 * x.warp + x.lane / 4 + 8 * r;
            rows.sum[r] += across(rows.sum[r], 1);
            rows.sum[r] += across(rows.sum[r], 2);
            inverse[r] = rows.sum[r] == 0.0f ? 0.0f : 1.0f / rows.sum[r];
            if (a.has_lse && (x.lane & 3) == 0 && i < (int)a.q_len)
                lse[a.lse_at + (b * a.heads + h) * a.q_len + i] =
                    rows.sum[r] == 0.0f ? -INFINITY : finite(rows.top[r]) * x.scale * 0.693147181f + log(rows.sum[r]);
        }
        if (lead)
            stores_read();
        named_sync(3 + x.w, 128); /* the tile before has left shared memory, and all have read this one's Q */
        stage_output(&x, out, inverse);
        shared_written();
        named_sync(3 + x.w, 128);
        if (lead) {
            for (int c = 0; c < ${VB}; c++)
                box_store(o_map, 64 * c, i0, h, b, O_AT(x.w) + c * 8192);
            stores_commit();
% if not OWN_O
            stores_read();
            arrive(Q_EMPTY(x.w));
% end
        }
    }
% if PINGPONG
    if (x.w == 0)
        named_sync(1, 256);
% end
    if (lead)
        stores_done();
}
