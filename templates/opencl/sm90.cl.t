%# Forward attention on NVIDIA's Hopper, after FlashAttention-3 (Shah et al. 2024). One work-group for each multiprocessor walks over
%# the tiles of queries. One warp feeds it with Q, and with keys and values, each in ST stages. Every other warpgroup has 64 rows of
%# the tile; it begins the scores of the next keys before it makes exponentials of these (sm90.consume.t). This file says what a kernel is
%# made of, and makes memory, tensor maps and barriers ready. All PTX is in ptx*.t.
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
% let FETCHES = SPLIT and AWAITS_LAUNCHES and not READS_FIRST and not PAGED and not RAW
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
% if NARROW or RESTS or FITS

% include "opencl/sm.narrow.t"
% end
% if SCALED or K_TWO
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
% include "opencl/sm90.steps.t"
% include "opencl/sm90.consume.t"
% end

${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v, __global ${TYPE_O} *o,
    __global float *lse, __global const long *kv_lens, ${GIVEN} struct attn_cl_args a,${FEATURES ? "" : " "}${FEATURES ? "" : GIVEN}${FEATURES ? "" : " struct "}${FEATURES ? "" : MAPS}${FEATURES ? "" : " maps, __global ulong *room"}${FEATURES ? "" : SPLIT or WIDENED ? "," : ")"}
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
% if K_TWO
    const struct stored stored = {.k = k, .v = v, ${IN_PAGES ? ".pages = pages, " : ""}.memory = wide, .a = &a${FEATURES ? ", .y = &f" : ""}};
    const struct source source = {.memory = memory, .a = &a, ${FEATURES ? ".features = &f, " : ""}.wide = widened};
% else
    const struct stored stored = {.k = k, .v = v, .k_scales = k_scales, .v_scales = v_scales, ${IN_PAGES ? ".pages = pages, " : ""}.memory = wide, .a = &a, .y = &f};
    const int even = is_even(f.k_scales_stride) && is_even(f.v_scales_stride);
    const struct source source = {.memory = memory, .a = &a, .features = &f, .wide = widened, .even = even};
% end
    struct widener widener = {.f = &source, .x = &stored, .kv_lens = kv_lens, .taken = taken + 2, ${PACKED ? ".starts = &starts" : CAUSAL and ORDER == "heavy" ? ".some = heads_together(&a, maps.together)" : ".some = heads_together(&a, 1)"}};
    const int turned = item < 32 ? item + ${ITEMS - 32} : item - 32; /* those who will widen come first */
% if PACKED
    if (turned < 32)
        widener.walk = begin_walk(turned, &a, kv_lens, &f, &starts, 1);
% end
    const int more = widen_first(&widener, turned); /* the first tiles are wanted at once, and nobody has anything else to do */
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
        from.a = &a${FEATURES ? ", from.features = &f" : ""};
% end
% if WIDENED
        from.wide = widened, from.head = -1${SCALED ? ", from.even = even" : ""};
% end
% if NARROW and SCALED
        from.k_scales = k_scales, from.v_scales = v_scales;
% if not FEW
        from.even = is_even(f.k_scales_stride) && is_even(f.v_scales_stride);
% end
% end
% if PACKED and SPLIT
        from.q_rows = q;
% end
% if PAGED or RAW
        from.k_rows = k, from.v_rows = v${PAGED ? ", from.pages = pages, from.box = maps.box;" : ";"}
% end
% if PAGED
% if NARROW and not RAW
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
% if VALUES_APART
        else if (item < 64)
            produce_values(&from);
% elif NARROW
        else
            widen_all(shared, memory, from.even, item - 32);
% elif WIDENED
        else
            widen_all(&widener, more, item - 32);
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
    x.ratio = ratio_of(a.scale${MADE_UP}, f.softcap);
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
% if K_TWO
    x.unit = x.key_unit = 1.0f;
% end
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
