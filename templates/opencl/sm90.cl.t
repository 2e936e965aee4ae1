%# Forward attention on NVIDIA's Hopper, after FlashAttention-3 (Shah et al. 2024). One work-group a multiprocessor walks the
%# tiles of queries. One warp feeds it with Q, and with keys and values in ST stages each. Every other warpgroup has 64 rows
%# of the tile; it begins the scores of the next keys before it makes exponentials of these. All PTX is in ptx*.t.
% if LOOP == "joint"
% include "opencl/sm90.joint.t"
% else
% include "opencl/sm90.sizes.t"
% include "opencl/sm90.header.t"
% include "opencl/args.h"
% if FEATURES
% include "opencl/features.h"
% end
% include "opencl/maps.h"
% include "opencl/ptx.t"
% include "opencl/ptx.sm90.t"
% include "opencl/softmax.t"
% include "opencl/tiles.t"
% include "opencl/sm90.tiles.t"
% include "opencl/sm90.copy.t"
% include "opencl/sm90.parts.t"
% let FIRST = FROM ? "from" : "0"

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
}
INLINED void end_scores(struct part *x, int last)
{
    const uint shared = x->shared;
    ${SERIAL ? "products_wait" : "products_wait_but_last"}();
    RELEASE(x, K_EMPTY(x->nk));
    x->nk++;
    if (last) /* of the tile */
        RELEASE(x, Q_EMPTY(x->w, x->nq));
}
INLINED void end_values(struct part *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    x->nv++;
}

/* All tiles of this work-group, as one sequence of steps. A step begins the scores of its keys, and then the values of the
 * step before, be it of the tile before; ${SERIAL ? "when both are there" : "while these are under way"}, it makes exponentials of the scores. Before the
 * first tile there is one of nothing: P = 0, whose output is not stored. */
INLINED void consume(struct part *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[${NS}], out[${NO}], fix[2], inverse[2];
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
% if FROM
        const int from = TILE_AT(x->w, x->nq)->from;
        int j = from + TILE_AT(x->w, x->nq)->count - 1;
% else
        int j = TILE_AT(x->w, x->nq)->count - 1;
% end
        if (j < ${FIRST})
            break;
% if not SOFTCAP
        if (a->scale < 0.0f)
            negate_q(x);
% end
        begin_step(s, out, p, x);
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, &rows, inverse, a, lse${SINK ? ", sinks" : ""});
        await_staging(x);
        end_scores(x, j == ${FIRST});
% if SOFTCAP
        cap(s, x->ratio);
% end
        mask_edge(s, x, j);
        softmax(s, &rows, fix, x->scale);
        end_values(x);
        if (x->nq > 0)
            store_output(x, out, inverse);
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            out[n] = 0.0f;
        round_all(p, s);
        while (--j >= ${FIRST}) {
            begin_step(s, out, p, x);
            end_scores(x, j == ${FIRST});
% if SOFTCAP
            cap(s, x->ratio);
% end
% if CAUSAL or WINDOW
            mask_edge(s, x, j);
% end
            const int grown = softmax(s, &rows, fix, x->scale);
            end_values(x);
            if (grown)
                rescale(out, fix);
            round_all(p, s);
        }
    }
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    close_rows(x, &rows, inverse, a, lse${SINK ? ", sinks" : ""});
    await_staging(x);
    products_wait();
    store_output(x, out, inverse);
}

__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a,${FEATURES ? "" : " const struct attn_cl_maps maps, __global ulong *room)"}
% if SINK
    __global const float *sinks,
% end
% if FEATURES
    const struct attn_cl_features f, const struct attn_cl_maps maps, __global ulong *room)
% end
{
    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const int item = get_local_id(0);
% if PERSISTENT
    __global uint *taken = (__global uint *)room; /* tiles that were taken beyond a first one each; groups that are done */
    room += 16 + get_group_id(0) * 64;
% else
    room += 16; /* all work-groups write the same maps */
% end
    if (item == 0)
        place_map(room, maps.q, (ulong)(q + a.q_at));
    else if (item == 32)
        place_map(room + 16, maps.k, (ulong)(k + a.k_at));
    else if (item == 64)
        place_map(room + 32, maps.v, (ulong)(v + a.v_at));
    else if (item == 96)
        place_map(room + 48, maps.o, (ulong)(o + a.o_at));
    else if (item == 128)
        make_barriers(shared);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 128) { /* the producer's warpgroup */
        struct source from = {.q = (ulong)room, .k = (ulong)(room + 16), .v = (ulong)(room + 32), .shared = shared,
            .memory = memory, .lane = item & 31, .kv_len = (int)a.kv_len};
% if WG > 1
        registers_for_copying();
% end
        if (item < 32)
            produce(&from, &a, maps.near, kv_lens${PERSISTENT ? ", taken" : ""}${WINDOW ? ", &f" : ""});
        return;
    }
% if WG > 1
    registers_for_computing();
% end
    struct part x = {.shared = shared, .memory = memory, .w = uniform(item / 128) - 1, .warp = item / 32 & 3, .lane = item & 31,
        .o = (ulong)(room + 48)};
% if SOFTCAP
    x.scale = fmax(f.softcap * 1.44269504f, FLT_MIN), x.ratio = a.scale / f.softcap;
% else
    x.scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN); /* exponentials are powers of two; -inf * 0 is no number */
% end
% if PINGPONG
    if (x.w == 1)
        named_arrive(1, 256);
% end
    consume(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""});
% if PINGPONG
    if (x.w == 0)
        named_sync(1, 256);
% end
    stores_done();
}
% end
