%# Forward attention on NVIDIA's Hopper, after FlashAttention-3 (Shah et al. 2024). One work-group for each multiprocessor walks over
%# the tiles of queries. One warp feeds it with Q, and with keys and values, each in ST stages. Every other warpgroup has 64 rows of
%# the tile; it begins the scores of the next keys before it makes exponentials of these. All PTX is in ptx*.t.
% if LOOP == "joint"
% include "opencl/sm90.joint.t"
% else
% include "opencl/sm90.sizes.t"
% include "opencl/words.t"
% include "opencl/sm90.header.t"
% include "opencl/head.t"
% include "opencl/args.h"
% if FEATURES
% include "opencl/features.h"
% end
% include "opencl/maps.t"
% if SPLIT
% include "opencl/split.h"
% end
% own
%# Whether a kernel begins with memory that launches before it may still be writing; and, where it does not, whether it meanwhile fetches
%# keys and values, whose places the launch's parameters say.
% let READS_FIRST = not MAPS_WHOLE or PACKED or WIDENED
% let FETCHES = SPLIT and AWAITS_LAUNCHES and not READS_FIRST and not PAGED
% include "opencl/begin.t"
% include "opencl/ptx.t"
% include "opencl/ptx.sm90.t"
% if FEW
% include "opencl/ptx.warp.t"
% end
% include "opencl/softmax.t"
% if SPLIT
% include "opencl/split.t"
% else
% include "opencl/tiles.t"
% end
% include "opencl/sm90.tiles.t"
% include "opencl/sm90.copy.t"
% include "opencl/sm90.parts.t"
% if NARROW

% include "opencl/sm.narrow.t"
% end
% if SCALED
% include "opencl/sm90.scale.t"
% end
% if FEW

% include "opencl/sm90.few.t"
% else
% if NARROW

% include "opencl/sm90.widen.t"
% end
% if WIDENED

% include "opencl/sm90.once.t"
% end
% let FIRST = FROM ? "from" : "0"
% let STORE = SPLIT ? (SINK ? "leave_output(x, x->nq - 1, 0, out, factor, a, lse, sinks)" : "leave_output(x, x->nq - 1, 0, out, factor, a, lse)") : "store_output(x, x->nq - 1, out, factor)"
% let STORE_LAST = SPLIT ? (SINK ? "leave_output(x, x->nq - 1, 1, out, factor, a, lse, sinks)" : "leave_output(x, x->nq - 1, 1, out, factor, a, lse)") : STORE
% let NEXT_K = INSIDE ? "x->nk += x->step" : "x->nk++"
% let NEXT_V = INSIDE ? "x->nv += x->step" : "x->nv++"
%# Maxima are of scores without the scale of their keys; the LSE wants them with it.
% let WHOLE_TOPS = FOLDS ? "rows.top[0] *= unit[0], rows.top[1] *= unit[1]" : "rows.top[0] *= unit, rows.top[1] *= unit"
% let AND_SINKS = SINK ? ", sinks" : ""
% let IN_SCORES = UNITS ? "s, unit, " : NARROW or HALVES ? "s, " : ""
% let AND_REST = RESTS ? ", rest" : ""
% let AND_ITS_REST = RESTS ? ", const uint *rest" : ""

/* With ping-pong, one warpgroup's products run while the other makes exponentials. */
% if PINGPONG
#define TAKE_TURN(x) named_sync(1 + (x)->w, 256)
#define GIVE_TURN(x) named_arrive(2 - (x)->w, 256)
% else
#define TAKE_TURN(x)
#define GIVE_TURN(x)
% end
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void clear(float *out)
{
    #pragma unroll
    for (int n = 0; n < ${NO}; n++)
        out[n] = 0.0f;
}

% if SHARES
% include "opencl/sm90.shares.t"

% end
% if LATER
/* What is to be done with output before more is added to it: nothing; store it as that of tile n and begin anew; or multiply
 * it. */
enum due { NOTHING, STORING, RESCALING };

INLINED void settle(float *out, int due, const float *factor, const struct worker *x, uint n)
{
    if (due == STORING) {
        store_output(x, n, out, factor);
        clear(out);
    } else if (due == RESCALING)
        rescale(out, factor);
}

% end
% if EARLY
INLINED void end_values(struct worker *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    ${NEXT_V};
}

/* Multiplies the values of the keys before these, gives their place back, and begins the scores of these keys. It may have to wait for
 * these, and meanwhile the keys after them are on their way to the place that was given back. */
% else
/* Begins the scores of these keys, and then the values of those
 * before${LATER ? "; in between, while scores are multiplied, it does what is due" : ""}. */
% end
INLINED void begin_step(float *s, float *out, const uint *p${AND_ITS_REST}, struct worker *x${LATER ? ", int due, const float *factor, uint n" : ""})
{
    const uint shared = x->shared;
% if EARLY
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
    end_values(x);
% end
    await(K_FULL(x->nk), ROUND(x->nk));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    TAKE_TURN(x);
% if PACKED or PAGED or WIDE
    begin_scores(s, (uint)anew((int)Q_AT(x->w, x->nq)), K_AT(x->nk)); /* otherwise its descriptors would be kept, in memory for lack of registers */
% else
    begin_scores(s, Q_AT(x->w, x->nq), K_AT(x->nk));
% end
% if LATER
    settle(out, due, factor, x, n);
% end
% if not EARLY
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
% end
    GIVE_TURN(x);
}
% if EARLY
INLINED void end_scores(${HALVES ? "float *s, " : ""}struct worker *x, int last)
{
    const uint shared = x->shared;
    products_wait();
% if HALVES
    add_halves(s);
% end
% else
INLINED void end_scores(${UNITS ? "float *s, const float *unit, " : NARROW or HALVES ? "float *s, " : ""}struct worker *x, int last)
{
    const uint shared = x->shared;
    ${SERIAL ? "products_wait" : "products_wait_but_last"}();
% if HALVES
    add_halves(s);
% end
% if NARROW
    scale_scores(s, x${UNITS ? ", unit" : ""});
% end
% end
% if INSIDE
    if (x->step == 2) /* no values that are still to be multiplied lie in them */
        RELEASE(x, K_EMPTY(x->nk));
% else
    RELEASE(x, K_EMPTY(x->nk));
% end
    ${NEXT_K};
    if (last) /* these are the tile's last keys */
        RELEASE(x, Q_EMPTY(x->w, x->nq));
}
% if not EARLY
INLINED void end_values(struct worker *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    ${NEXT_V};
}
% end

/* Multiplies the last values of the tile before, by themselves. */
INLINED void finish(float *out, const uint *p${AND_ITS_REST}, struct worker *x, struct row_states *rows, float *factor,${LATER ? " int due," : ""}
    const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const uint shared = x->shared;
% if LATER
    settle(out, due, factor, x, x->nq - 2);
% end
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
    close_rows(x, rows, factor, 1, a, lse${AND_SINKS});
% if SHARES
    tell(x, p, factor, ENDS);
% end
    await_staging(x);
    end_values(x);
    ${STORE_LAST};
}

INLINED void no_values(uint *p)
{
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        p[n] = 0;
}

% if UNEVEN
/* Passes over the first steps of a tile, whose keys no row of this warpgroup sees. The values of the last such step stay,
 * and are multiplied by P = 0. */
INLINED void skip(int steps, struct worker *x, int pending)
{
    const uint shared = x->shared;
    #pragma unroll 1
    for (; steps > 0; steps--, pending = 0) {
        await_by_all(K_FULL(x->nk), ROUND(x->nk));
        RELEASE(x, K_EMPTY(x->nk));
        x->nk++;
        if (pending) /* the last values of the tile before were multiplied without this tile's first scores */
            continue;
        await_by_all(V_FULL(x->nv), ROUND(x->nv));
        RELEASE(x, V_EMPTY(x->nv));
        x->nv++;
    }
}

% end
/* All tiles of this work-group, as one sequence of steps. A step begins the scores of its keys, and then the values of the
 * step before, which may belong to the tile before; ${SERIAL ? "when both have come" : "while these are under way"}, it
 * makes exponentials of the scores. Before the first tile there is an empty one: P = 0, and its output is not stored. */
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""}${MODIFIES or SCALED ? "," : ")"}
% if MODIFIES or SCALED
    const struct attn_cl_features *f${SCALED ? ", __global const float *k_scales, __global const float *v_scales)" : ")"}
% end
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[${HALVES ? 2*NS : NS}], out[${NO}], factor[2] = {1.0f, 1.0f}, fix[2];
    uint p[${NS/2}]${RESTS ? ", rest[" : ""}${RESTS ? NS/2 : ""}${RESTS ? "]" : ""};
    struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
% if FITS
    float unit[2]${FOLDS ? ", scale[2]" : ""};
% elif TURNS
    float unit = 1.0f, scale; /* unit: the scale of the keys, where all have the same */
% end
    int pending = 0; /* whether the tile before still has values to multiply, and output to store */
% if LATER
    int due = NOTHING;
% end
    clear(out);
    no_values(p);
    for (;; x->nq++) {
        await(Q_FULL(x->w, x->nq), Q_ROUND(x->nq));
% if PACKED and SPLIT
        shared_written(); /* the copy engine did not bring Q */
% end
% if FROM
        const int from = TILE_AT(x->w, x->nq)->from;
        int j = from + TILE_AT(x->w, x->nq)->count - 1;
% else
        int j = TILE_AT(x->w, x->nq)->count - 1;
% end
        if (j < ${FIRST})
            break;
% if UNEVEN
        const int last = last_seen(x, a);
        if (last < j) {
            if (pending) {
% if FOLDS or TURNS
                ${WHOLE_TOPS};
% end
                finish(out, p${AND_REST}, x, &rows, factor, a, lse${AND_SINKS});
            }
            skip(j - last, x, pending);
            clear(out);
            no_values(p);
            pending = 0, j = last;
        }
% end
% if SCALED
        const float key_scale = x->even_k ? even_scale(k_scales, f->k_scales_at, f->k_scales_stride, TILE_AT(x->w, x->nq)) : 1.0f;
        x->value_scale = x->even_v ? even_scale(v_scales, f->v_scales_at, f->v_scales_stride, TILE_AT(x->w, x->nq)) : 1.0f;
% end
% if FOLDS
        if (pending)
            ${WHOLE_TOPS};
        fit_queries(x, unit);
        unit[0] *= fabs(key_scale), unit[1] *= fabs(key_scale);
        scale[0] = fmax(x->scale * unit[0], FLT_MIN), scale[1] = fmax(x->scale * unit[1], FLT_MIN);
% elif FITS
        fit_queries(x, unit);
        unit[0] *= key_scale, unit[1] *= key_scale;
% elif TURNS
        if (pending)
            ${WHOLE_TOPS};
        unit = fmax(fabs(key_scale), FLT_MIN); /* not 0, since -inf * 0 would be NaN */
        scale = fmax(x->scale * unit, FLT_MIN);
% elif RESTS or WIDENED
        x->key_scale = key_scale;
% end
% if NEGATES
        if (${FOLDS or TURNS ? "(a->scale < 0.0f) != (key_scale < 0.0f)" : "a->scale < 0.0f"})
            negate_q(x);
% end
        begin_step(s, out, p${AND_REST}, x${LATER ? ", due, factor, x->nq - 2" : ""});
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, &rows, factor, pending, a, lse${AND_SINKS});
% if SHARES
        if (pending)
            tell(x, p, factor, ENDS);
% end
        await_staging(x);
        end_scores(${IN_SCORES}x, j == ${FIRST});
% if WIDENED
        scale_scores(s, x);
% end
% if SOFTCAP
        cap(s, x->ratio${SPLIT ? ", rows_from_here(x)" : ""});
% end
% if MODIFIES
        modify_tile(s, x, j, a, f);
% end
        mask_edge(s, x, j);
        softmax(s, &rows, fix, ${FOLDS or TURNS ? "scale" : "x->scale"}${QUICK ? ", x->rise" : ""}${SKIPS ? ", rows_from_here(x)" : ""});
% if not EARLY
        end_values(x);
% end
% if NARROW and INVARIANT
        float first_by[2];
        x->unit[0] = x->unit[1] = 1.0f;
        scale_values(s, p${AND_REST}, x, first_by);
% elif RESTS
        scale_values(s, p, rest, x);
% else
        round_all(p, s);
% if WIDENED
        next_unit(x);
% elif NARROW
        scale_values(p, x);
% end
% end
% if SHARES
        tell(x, p, fix, BEGINS);
% end
% if LATER
        due = pending ? STORING : NOTHING;
        if (!pending)
            clear(out);
% else
        if (pending)
            ${STORE};
        clear(out);
% end
        pending = 1;
        while (--j >= ${FIRST}) {
            begin_step(s, out, p${AND_REST}, x${LATER ? ", due, factor, x->nq - 1" : ""});
% if BOUNDED
            float largest;
            float4 early[${SCALES_EARLY}];
            early_scales(&largest, early, x);
% end
            end_scores(${IN_SCORES}x, j == ${FIRST});
% if WIDENED and not BOUNDED
            scale_scores(s, x);
% end
% if SOFTCAP
            cap(s, x->ratio${SPLIT ? ", rows_from_here(x)" : ""});
% end
% if MODIFIES
            modify_tile(s, x, j, a, f);
% end
% if BOUNDED
            int grown;
            if (!x->even_k)
                grown = softmax_of_rows(s, &rows, factor, largest, early, x, j);
            else {
% if CAUSAL or WINDOW
                mask_edge(s, x, j);
% end
                grown = softmax(s, &rows, factor, scale);
            }
% else
% if CAUSAL or WINDOW
            mask_edge(s, x, j);
% end
            ${SCALED ? "int" : "const int"} grown = softmax(s, &rows, factor, ${FOLDS or TURNS ? "scale" : "x->scale"}${QUICK ? ", x->rise" : ""}${SKIPS ? ", rows_from_here(x)" : ""});
% end
% if not EARLY
            end_values(x);
% end
% if NARROW and INVARIANT
            float by[2];
            scale_values(s, p${AND_REST}, x, by);
% elif RESTS
            const float by = scale_values(s, p, rest, x);
% else
            round_all(p, s);
% if WIDENED
            const float by = next_unit(x);
% elif NARROW
            const float by = scale_values(p, x);
% end
% end
% if NARROW and INVARIANT
            factor[0] = grown ? factor[0] * by[0] : by[0], factor[1] = grown ? factor[1] * by[1] : by[1];
            grown = in_warp(grown || by[0] != 1.0f || by[1] != 1.0f); /* a row whose unit stays is multiplied by 1 */
% elif SCALED
            if (by != 1.0f) { /* the scales of values were divided by another number */
                factor[0] = grown ? factor[0] * by : by, factor[1] = grown ? factor[1] * by : by;
                grown = 1;
            }
% end
% if SHARES
            tell(x, p, factor, grown ? RESCALES : GOES_ON);
% end
% if LATER
            due = grown ? RESCALING : NOTHING;
% else
            if (grown)
                rescale(out, factor);
% end
        }
    }
% if FOLDS or TURNS
    ${WHOLE_TOPS};
% end
    if (pending)
        finish(out, p${AND_REST}, x, &rows, factor,${LATER ? " due," : ""} a, lse${AND_SINKS});
% if SHARES
    tell(x, p, factor, NO_MORE);
% end
}
% end

${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v, __global ${TYPE_O} *o,
    __global float *lse, __global const long *kv_lens, ${GIVEN} struct attn_cl_args a,${FEATURES ? "" : " "}${FEATURES ? "" : GIVEN}${FEATURES ? "" : " struct "}${FEATURES ? "" : MAPS}${FEATURES ? "" : " maps, __global ulong *room"}${FEATURES ? "" : SPLIT ? "," : ")"}
% include "opencl/features.t"
% if SCALED
    __global const float *k_scales, __global const float *v_scales,
% end
% if FEATURES
    ${GIVEN} struct attn_cl_features f, ${GIVEN} struct ${MAPS} maps, __global ulong *room${SPLIT or WIDENED ? "," : ")"}
% end
% if WIDENED
    __global uint *done, __global ushort *wide)
% end
% if SPLIT
    ${GIVEN} struct attn_cl_split split, __global uint *done, __global float *parts)
% end
{
    ${SHARED_ALL} uchar memory[${SHARED_BYTES}] __attribute__((aligned(1024)));
    const uint shared = ${MEMORY_AT};
    const int item = get_local_id(0);
% if AWAITS_LAUNCHES and READS_FIRST
    await_launches();
% end
% if INSIDE
    const int inside = is_inside(k + a.k_at, v + a.v_at, &a);
% end
% if PERSISTENT
    __global uint *taken = (__global uint *)room; /* two counters: tiles that were taken after each group's first one; and groups that are done */
% if MAPS_PLACED
    room += 16 + group_number() * 64;
% end
% elif MAPS_PLACED
    room += 16; /* all work-groups write the same maps */
% end
% if WIDENED
    const struct wide widened = wide_of(&a, wide, done, taken);
% end
% if PACKED
    const struct starts starts = {q_starts, kv_starts${SPLIT ? ", split.splits" : ""}};
% end
% if not MAPS_PLACED
    if (item == 128)
        make_barriers(shared${PAGED and not NARROW ? ", maps.box ? 1 : 32" : ""}${INSIDE ? ", inside" : ""});
% else
% if PACKED
    const long q_rows = f.has_q_starts ? q_starts[f.q_end_at] : a.q_len;
    if (item == 0)
        place_rows(room, maps.q, (ulong)(q + a.q_at), q_rows);
% if PAGED or WIDENED
    else if (item == 32)
        place_map(room + 16, maps.k, (ulong)${WIDENED ? "wide_keys(&a, wide)" : "(k + a.k_at)"});
    else if (item == 64)
        place_map(room + 32, maps.v, (ulong)${WIDENED ? "wide_values(&a, wide)" : "(v + a.v_at)"});
% else
    const long kv_rows = f.has_kv_starts ? kv_starts[f.kv_starts_at + a.batch] : a.kv_len;
    if (item == 32)
        place_rows(room + 16, maps.k, (ulong)(k + a.k_at), kv_rows);
    else if (item == 64)
        place_rows(room + 32, maps.v, (ulong)(v + a.v_at), kv_rows);
% end
    else if (item == 96)
        place_rows(room + 48, maps.o, (ulong)(o + a.o_at), q_rows);
% else
    if (item == 0)
        place_map(room, maps.q, (ulong)(q + a.q_at));
    else if (item == 32)
        place_map(room + 16, maps.k, (ulong)${WIDENED ? "wide_keys(&a, wide)" : "(k + a.k_at)"});
    else if (item == 64)
        place_map(room + 32, maps.v, (ulong)${WIDENED ? "wide_values(&a, wide)" : "(v + a.v_at)"});
    else if (item == 96)
        place_map(room + 48, maps.o, (ulong)(o + a.o_at));
% end
    else if (item == 128)
        make_barriers(shared${PAGED and not NARROW ? ", maps.box ? 1 : 32" : ""}${INSIDE ? ", inside" : ""});
% end
% if SPLIT
    /* Rows of Q that a slice does not have are set to zero; what was there before might be the largest of a warp. */
    for (int at = 16 * item; at < ${AT_K}; at += ${16*ITEMS})
        zero16(shared + at);
    shared_written();
% end
% if AWAITS_LAUNCHES and not READS_FIRST and not FETCHES
    await_launches(); /* nothing in memory was touched before */
% end
    barrier(CLK_LOCAL_MEM_FENCE);
% if WIDENED
    const struct stored stored = {.k = k, .v = v, .k_scales = k_scales, .v_scales = v_scales, ${IN_PAGES ? ".pages = pages, " : ""}.memory = wide, .a = &a, .y = &f};
    const int even = is_even(f.k_scales_stride) && is_even(f.v_scales_stride);
    const struct source source = {.memory = memory, .a = &a, .features = &f, .wide = widened, .even = even};
    struct widener widener = {.f = &source, .x = &stored, .kv_lens = kv_lens, .taken = taken + 2, ${PACKED ? ".starts = &starts" : CAUSAL and ORDER == "heavy" ? ".some = heads_together(&a, maps.together)" : ".some = heads_together(&a, 1)"}};
    const int turned = item < 32 ? item + ${ITEMS - 32} : item - 32; /* those who will widen come first */
% if PACKED
    if (turned < 32)
        widener.walk = begin_walk(turned, &a, kv_lens, &f, &starts, 1);
% end
    widen_next(&widener, 0, ${ITEMS}, turned); /* the first tiles are wanted at once, and nobody has anything else to do */
% end
    if (item < ${128*FEEDERS}) { /* the producer's warpgroup${FEEDERS > 1 ? ", and one that widens" : ""} */
        struct source from = {.q = ${MAP_Q}, .k = ${MAP_K}, .v = ${MAP_V}, .shared = shared,
            .memory = memory, .lane = item & 31, .kv_len = (int)a.kv_len${SPLIT ? ", .d = split," : "};"}
% if SPLIT
            .policy = cache_policy(split.slices > ${WG})};
% end
% if INSIDE
        from.step = STEP(inside), from.nk = FIRST_KEYS(inside), from.nv = FIRST_VALUES(inside);
% end
% if PACKED or PAGED or NARROW or WIDENED
        from.a = &a, from.features = &f;
% end
% if WIDENED
        from.wide = widened, from.head = -1, from.even = even;
% end
% if NARROW
        from.k_scales = k_scales, from.v_scales = v_scales;
% if not FEW
        from.even = is_even(f.k_scales_stride) && is_even(f.v_scales_stride);
% end
% end
% if PACKED and SPLIT
        from.q_rows = q;
% end
% if PAGED
        from.k_rows = k, from.v_rows = v, from.pages = pages, from.box = maps.box;
% if NARROW
        from.boxes = maps.box ? ${BK} / maps.box : 0;
% end
% end
% if FETCHES
        if (item == 0)
            fetch_ahead(&from, &a, kv_lens${INSIDE ? ", inside" : ""}${WINDOW ? ", &f" : ""});
        await_launches(); /* nothing was written before, and nothing that was read is used from here on */
% end
% if CW > 1 or NARROW and not FEW
        registers_for_copying();
% end
        if (item < 32)
            produce(&from, &a, ${SPLIT or PACKED ? "" : "maps.together, "}kv_lens${PERSISTENT ? ", taken" : ""}${PACKED ? ", &f, &starts" : WINDOW ? ", &f" : ""});
% if NARROW and not FEW
        else
            widen_all(shared, memory, from.even, item - 32);
% elif WIDENED
        else
            widen_all(&widener, item - 32);
% end
        return;
    }
% if FETCHES
    await_launches();
% end
% if CW > 1 or NARROW and not FEW
    registers_for_computing();
% end
    struct worker x = {.shared = shared, .memory = memory, .${SHARES ? "part" : FEW ? "strip" : "w"} = uniform(item / ${FEW ? 32 : 128}) - ${FEW ? 4 : FEEDERS}, .warp = ${FEW ? "0" : "item / 32 & 3"}, .lane = item & 31,
        .o = ${MAP_O}${SPLIT ? ", .d = split, .parts = parts, .done = done" : ""}${SPLIT or WIDE_O or PACKED or DIRECT_O ? ", .merged = o" : ""}${WIDE_O or PACKED or DIRECT_O ? ", .a = &a" : ""}};
% if INSIDE
    x.step = STEP(inside), x.nk = FIRST_KEYS(inside), x.nv = FIRST_VALUES(inside);
% end
% if MODIFIES
% include "opencl/sm.beside.t"
    x.beside = beside;
% end
% if ADDS
    x.scale = 1.44269504f; /* exponentials are powers of two */
% elif SOFTCAP
    x.scale = fmax(f.softcap * 1.44269504f, FLT_MIN);
% else
    x.scale = fmax(fabs(a.scale)${BY_LOG2E}, FLT_MIN); /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
% end
% if SOFTCAP
    x.ratio = a.scale${MADE_UP} / f.softcap;
% end
% if QUICK
    x.rise = 4.0f / x.scale; /* half of what does no harm, so that no rounding hides more than that */
% end
% if PINGPONG
    if (x.w == 1)
        named_arrive(1, 256);
% end
% if SHARES
    if (x.part) {
        x.part = 1; /* now the compiler knows it */
        follow(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""});
        stores_done();
        return;
    }
    x.part = 0;
% end
% if SCALED and not FEW
% if not WIDENED
    x.even_k = is_even(f.k_scales_stride), x.even_v = is_even(f.v_scales_stride);
% end
% if WIDENED
    if (even) { /* apart, since no tile has room for what it does not need */
        x.even_k = x.even_v = 1;
        consume(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""}, &f, k_scales, v_scales);
    } else {
        x.even_k = x.even_v = 0;
% if BOUNDED
        x.scale = 1.0f; /* the scales of keys have it in them */
% end
        consume(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""}, &f, k_scales, v_scales);
    }
% else
    consume(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""}, &f, k_scales, v_scales);
% end
% else
    consume(&x, &a, lse${SINK ? ", sinks + f.sinks_at" : ""}${MODIFIES ? ", &f" : ""});
% end
% if PINGPONG
    if (x.w == 0)
        named_sync(1, 256);
% end
    stores_done();
}
% end_own
% end
