%# Forward attention on NVIDIA's tensor cores from compute capability 8.0 on, after FlashAttention-2 (Dao 2023). Each tile of queries
%# has a work-group; each of its warps has MR rows, and holds their scores and output in registers. Keys and values lie in shared
%# memory, in ST stages: while one stage is multiplied, the next ones are copied. All PTX is in ptx*.t.
% include "opencl/sm80.sizes.t"
% include "opencl/words.t"
% if WGMMA
% include "opencl/sm90.joint.header.t"
% include "opencl/head.t"
% include "opencl/args.h"
% if FEATURES
% include "opencl/features.h"
% end
% include "opencl/maps.t"
% own
% include "opencl/begin.t"
% include "opencl/ptx.t"
% include "opencl/ptx.sm80.t"
% include "opencl/ptx.sm90.t"
% else
% include "opencl/sm80.header.t"
% include "opencl/head.t"
% include "opencl/args.h"
% if FEATURES
% include "opencl/features.h"
% end
% if SPLIT
% include "opencl/split.h"
% end
% own
% include "opencl/begin.t"
% include "opencl/ptx.t"
% include "opencl/ptx.sm80.t"
% end
% include "opencl/softmax.t"
% if SPLIT
% include "opencl/split.t"
% else
% include "opencl/tiles.t"
% end
% if FITTED
% include "opencl/sm.narrow.t"
% end
% include "opencl/sm80.parts.t"
% let WORDS = TWOFOLD ? "(__global const ushort *)" : ""
% let DOUBLE = TWOFOLD ? "2 * " : ""
% let K_COPIED = PAGED ? "page_k(K_AT(n), " : "copy_qk(K_AT(n), "
% let K_STRIDE = PAGED ? "a->k_stride, p, n" : TWOFOLD ? "2 * a->k_stride[2], p->item" : "a->k_stride[2], p->item"
%# Where products read a tile; the rows of fragment m.
% let K_THERE = SETTLES ? "shared + SETTLED" : "K_AT(n)"
% let V_THERE = SETTLES ? "shared + SETTLED_V" : "V_AT(n)"
% let COLUMNS_THERE = TWOFOLD ? ", 2 * p->columns" : ", p->columns"
%# The unit of output before any value has come; with f32 it only grows, from the least one on.
% let FIRST_UNIT = TWOFOLD ? "7.52316385e-37f" : "1.0f"
% let FRAGMENT_ROWS = SPLIT ? "p.rows - 16 * m" : "16"
% let AND_SCALES = SCALED ? ", k_scales, v_scales, &f" : ""
% let KB = PACKED ? "kb" : "b"
% let STRIDE_K = PAGED ? "a->k_stride, n" : "a->k_stride[2]"
% let STRIDE_V = PAGED ? "a->v_stride, n" : "a->v_stride[2]"
% let V_COLUMNS = BLOCKS ? (PARTS_V > 1 ? "p->columns / 32 * " : V_BYTES) : PARTS_V > 1 ? "p->columns" : PART_V
% let V_COPIED = PAGED ? "page_v(V_AT(n), " : "copy_v(V_AT(n), "
% let V_STRIDE = PAGED ? "a->v_stride, p, n" : TWOFOLD ? "2 * a->v_stride[2], p->item" : "a->v_stride[2], p->item"
% if COPY == "tma"
% include "opencl/sm90.joint.copy.t"
% else

/* Copies the n-th tile of keys and values. Tiles go from the last one down, so that only the first one copied may be
 * partial. */
% if NARROW
INLINED void copy_next(const struct worker *p, const struct tile *x, int n, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v,
    const struct attn_cl_args *a${SCALED ? ", __global const float *k_scales, __global const float *v_scales, const struct attn_cl_features *f" : ""})
{
% if not SETTLES
    const uint shared = p->shared;
% end
    const int j = (${FROM ? "x->from + " : ""}x->count - 1 - n) * ${BK}, there = min(x->keys - j, ${BK});
    if (n < x->count) {
% if not PAGED
        k += j * a->k_stride[2]${IN_BYTES}${OF_UNIT}, v += j * a->v_stride[2]${IN_BYTES}${OF_UNIT};
% end
% if SETTLES
        const uint to = ${AT_STAGES} + n % ${ST} * ${STAGE};
        raw_rows(p, to, to + ${AT_SHIFTS}, k, ${STRIDE_K}, there, ${K_RAW/16}, ${BLOCKS ? K_BYTES : HD});
        raw_rows(p, to + ${BK*K_RAW}, to + ${AT_SHIFTS + BK}, v, ${STRIDE_V}, there, ${V_RAW/16}, ${V_COLUMNS}${BLOCKS and PARTS_V > 1 ? UNIT : ""});
% else
        narrow_k(p, K_AT(n), k, ${STRIDE_K}, there);
        narrow_v(p, V_AT(n), v, ${STRIDE_V}, there);
% end
% if SCALED
        copy_scales(p, p->shared + ${AT_STAGES + AT_SCALES} + n % ${ST} * ${STAGE}, k_scales, v_scales, ${PAGED ? "n" : "j"}, there, f);
% end
    }
    copies_commit();
}
% else
INLINED void copy_next(const struct worker *p, const struct tile *x, int n, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v,
    const struct attn_cl_args *a)
{
    const uint shared = p->shared;
    const int j = (${FROM ? "x->from + " : ""}x->count - 1 - n) * ${BK}, there = x->keys - j;
% if not PAGED
    k += j * a->k_stride[2], v += j * a->v_stride[2];
% end
    if (n < x->count && (n > 0 || there >= ${BK})) {
        ${K_COPIED}${WORDS}k, ${K_STRIDE}, ${BK}, ${BK});
        ${V_COPIED}${WORDS}v, ${V_STRIDE}, ${BK}, ${BK}${PARTS_V > 1 ? COLUMNS_THERE : ""});
    } else if (n < x->count) {
        ${K_COPIED}${WORDS}k, ${K_STRIDE}, there, ${BK});
        ${V_COPIED}${WORDS}v, ${V_STRIDE}, there, ${BK}${PARTS_V > 1 ? COLUMNS_THERE : ""});
    }
% if COPY == "async" or COPY == "any"
    copies_commit();
% end
% if WGMMA and COPY == "plain"
    shared_written();
% end
}
% end
% end

${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v, __global ${TYPE_O} *o,
    __global float *lse, __global const long *kv_lens, ${GIVEN} struct attn_cl_args a,${FEATURES ? "" : WGMMA ? " " : " const int near"}${FEATURES or WGMMA ? "" : SPLIT ? "," : ")"}${WGMMA and not FEATURES ? GIVEN : ""}${WGMMA and not FEATURES ? " struct " : ""}${WGMMA and not FEATURES ? MAPS : ""}${WGMMA and not FEATURES ? " maps, __global ulong *room)" : ""}
% include "opencl/features.t"
% if SCALED
    __global const float *k_scales, __global const float *v_scales,
% end
% if FEATURES
    ${GIVEN} struct attn_cl_features f, ${WGMMA ? GIVEN : SPLIT ? "const int near," : "const int near)"}${WGMMA ? " struct " : ""}${WGMMA ? MAPS : ""}${WGMMA ? " maps, __global ulong *room)" : ""}
% end
% if SPLIT
    ${GIVEN} struct attn_cl_split split, __global uint *done, __global float *parts)
% end
{
    ${SHARED_ALL} uchar memory[${SHARED_BYTES}] __attribute__((aligned(1024)));
    const uint shared = ${MEMORY_AT};
% if SPLIT
% if PACKED
    const struct starts starts = {q_starts, kv_starts, split.splits};
    struct walk walk = begin_walk(get_local_id(0) & 31, &a, kv_lens, &f, &starts);
    const struct tile x = tile_at(group_number(), &a, kv_lens, &f, &starts, &walk, get_local_id(0) & 31);
% else
    const struct tile x = tile_at(group_number(), &a, &split, kv_lens${WINDOW ? ", &f" : ""});
% end
    if (x.count == 0) /* of fewer keys there are fewer splits */
        return;
% elif PACKED
    const struct starts starts = {q_starts, kv_starts};
    const struct tile x = tile_at(group_number(), &a, ${WGMMA ? "maps.together" : "near"}, kv_lens, &f, &starts);
    if (x.i0 >= x.queries)
        return;
% else
    const struct tile x = tile_at(group_number(), &a, ${WGMMA ? "maps.together" : "near"}, kv_lens${WINDOW ? ", &f" : ""});
% end
    ${PARTS_V > 1 or SPLIT or FITTED ? "" : "const "}struct worker p = part_of(memory, &x, &a${SOFTCAP ? ", &f" : ""});
% if SPLIT
    p.d = split, p.parts = parts, p.done = done;
    p.rows = ${PACKED ? "x.rows * x.heads" : "split.rows * split.heads"} - p.warp * ${MR};
    if (p.item == 0)
        ${PUT}TILE(&p)${PUT_IS}x${PUT_END};
    barrier(CLK_LOCAL_MEM_FENCE);
% end
% if MODIFIES
% include "opencl/sm.beside.t"
% end
    float s[${FR*NS}], out[${FR*NO}], fix[2];
% if not BLOCKS
    uint w[${FR*NS/2}]${RESTS ? ", rest[" : ""}${RESTS ? FR*NS/2 : ""}${RESTS ? "]" : ""};
% end
% if FITTED
    float unit[${2*FR}];
% end
    struct row_states rows[${FR}];
% if COPY == "tma"
    const struct source from = source_of(&p, &maps, room + 16, q + a.q_at, k + a.k_at, v + a.v_at);
% else
% if SPLIT
    q += a.q_at + x.${PACKED ? "qb" : "b"} * a.q_stride[0] + x.g * split.group * a.q_stride[1]${PACKED ? " + x.q_from * a.q_stride[2]" : ""};
% else
    q += a.q_at + x.${PACKED ? "qb" : "b"} * a.q_stride[0] + x.h * a.q_stride[1] + ${PACKED ? "(x.q_from + x.i0)" : "x.i0"} * a.q_stride[2];
% end
% let IN_UNITS = UNIT > 1 ? "(" : ""
% let AS_BYTES = UNIT == 34 ? ") * 34" : UNIT == 18 ? ") * 18" : ""
% if PAGED
    k += ${IN_UNITS}a.k_at + x.g * a.k_stride[1]${AS_BYTES};
    v += ${IN_UNITS}a.v_at + x.g * a.v_stride[1]${AS_BYTES};
    pages += f.pages_at + x.b * f.page_stride;
% elif PACKED
    k += ${IN_UNITS}a.k_at + x.kb * a.k_stride[0] + x.g * a.k_stride[1] + x.kv_from * a.k_stride[2]${AS_BYTES};
    v += ${IN_UNITS}a.v_at + x.kb * a.v_stride[0] + x.g * a.v_stride[1] + x.kv_from * a.v_stride[2]${AS_BYTES};
% else
    k += ${IN_UNITS}a.k_at + x.b * a.k_stride[0] + x.g * a.k_stride[1]${AS_BYTES};
    v += ${IN_UNITS}a.v_at + x.b * a.v_stride[0] + x.g * a.v_stride[1]${AS_BYTES};
% end
% if SCALED
% for i in 0..2
% let X = i ? "v" : "k"
    ${X}_scales += f.${X}_scales_at + x.g * f.${X}_scales_stride[1]${PAGED ? "" : " + x."}${PAGED ? "" : KB}${PAGED ? "" : " * f."}${PAGED ? "" : X}${PAGED ? "" : "_scales_stride[0]"}${PACKED and not PAGED ? " + x.kv_from * f." : ""}${PACKED and not PAGED ? X : ""}${PACKED and not PAGED ? "_scales_stride[2]" : ""};
% end
% end
% end
% if SPLIT
    __global ${TYPE_O} *const all = o;
    o += a.o_at + x.${PACKED ? "qb" : "b"} * a.o_stride[0] + x.g * split.group * a.o_stride[1]${PACKED ? " + x.q_from * a.o_stride[2]" : ""};
% elif PACKED
    o += a.o_at + x.qb * a.o_stride[0] + x.h * a.o_stride[1] + (x.q_from + p.i) * a.o_stride[2];
    lse += a.lse_at + (x.qb * a.heads + x.h) * x.q_all + x.q_from;
% else
    o += a.o_at + x.b * a.o_stride[0] + x.h * a.o_stride[1] + p.i * a.o_stride[2];
    lse += a.lse_at + (x.b * a.heads + x.h) * a.q_len;
% end
% if PARTS_V > 1
    for (int part = 0; part < ${PARTS_V}; part++, v += ${BLOCKS ? PART_V/32*UNIT : PART_V}, o += ${PART_V}) { /* each part has some of the columns of V and O */
    p.columns = min(${PART_V}, ${HDV} - part * ${PART_V});
    if (part > 0)
        barrier(CLK_LOCAL_MEM_FENCE); /* now output has left shared memory */
% end
    #pragma unroll
    for (int n = 0; n < ${FR*NO}; n++)
        out[n] = 0.0f;
    for (int m = 0; m < ${FR}; m++)
        rows[m].top[0] = rows[m].top[1] = -INFINITY, rows[m].sum[0] = rows[m].sum[1] = 0.0f;
% if FITTED
% if INVARIANT
    for (int m = 0; m < ${2*FR}; m++)
        p.unit[m] = ${FIRST_UNIT};
% else
    p.unit = ${FIRST_UNIT};
% end
% end

% if COPY == "tma"
    load_queries(&p, &x, &from);
    for (int n = 0; n < ${ST - 1}; n++)
        load_next(&p, &x, n, &from);
    await(Q_FULL, 0);
    if (a.scale < 0.0f)
        negate_q(&p);
% else
% if SPLIT
    slice_q(shared + ${AT_Q}, ${WORDS}q, &p, &a);
% else
    copy_qk(shared + ${AT_Q}, ${WORDS}q, ${DOUBLE}a.q_stride[2], p.item, ${HOW_MANY} - x.i0, ${BQ});
% end
% if ST > 1 and not PAGED
    for (int n = 0; n < ${ST - 1}; n++)
        copy_next(&p, &x, n, k, v, &a${AND_SCALES});
% elif ST > 1
    for (int n = 0; n < ${ST - 1}; n++) {
        look_up(&p, &x, n, pages, f.page_size);
        barrier(CLK_LOCAL_MEM_FENCE);
        copy_next(&p, &x, n, k, v, &a${AND_SCALES});
    }
    look_up(&p, &x, ${ST - 1}, pages, f.page_size);
% end
% if Q_STAYS
    uint fragments[${FR*NQ}];
% if COPY == "async" or COPY == "any"
    copies_wait();
% end
    barrier(CLK_LOCAL_MEM_FENCE);
% if FITTED
    order_queries(&p, unit);
% end
% if NEGATES
    if (a.scale < 0.0f)
        negate_q(&p);
% end
    #pragma unroll
    for (int d = 0; d < ${NQ/4}; d++)
        get_queries(fragments + d * ${4*FR}, &p, ${TWOFOLD ? "d % " : "d"}${TWOFOLD ? STEPS : ""}${TWOFOLD ? " + d / " : ""}${TWOFOLD ? STEPS : ""}${TWOFOLD ? " * " : ""}${TWOFOLD ? 4*HB : ""});
% elif FITTED
    copies_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    order_queries(&p, unit);
% if NEGATES
    if (a.scale < 0.0f)
        negate_q(&p);
% end
% elif NEGATES
    if (a.scale < 0.0f) {
% if COPY == "async" or COPY == "any"
        copies_wait();
% end
        barrier(CLK_LOCAL_MEM_FENCE);
        negate_q(&p);
    }
% end
% end
% if AHEAD
    settle(&p, 0);
% end
    for (int n = 0; n < x.count; n++) {
        const int j = ${FROM ? "x.from + " : ""}x.count - 1 - n;
% if COPY == "plain"
% if PAGED
        look_up(&p, &x, n, pages, f.page_size);
% end
        barrier(CLK_LOCAL_MEM_FENCE); /* now nobody needs the keys before these */
        copy_next(&p, &x, n, k, v, &a${AND_SCALES});
        barrier(CLK_LOCAL_MEM_FENCE); /* now these keys are here */
% elif COPY == "tma"
        await(FULL(n), n / ${ST} & 1);
        if (n == 0)
            clear_behind(&p, &x, (int)a.kv_len);
        barrier(CLK_LOCAL_MEM_FENCE); /* now nobody needs the stage before this one */
        load_next(&p, &x, n + ${ST - 1}, &from);
% else
% if LATE
        if (p.warp >= ${BQ/MR/2} && n > 0)
            settle(&p, n);
% end
        copies_wait();
% if WGMMA
        shared_written();
% end
        barrier(CLK_LOCAL_MEM_FENCE); /* now this stage is here, and nobody needs the one before */
        copy_next(&p, &x, n + ${ST - 1}, k, v, &a${AND_SCALES});
% if PAGED
        look_up(&p, &x, n + ${ST}, pages, f.page_size);
% end
% end
% if AHEAD
        if (${LATE ? "p.warp < " : ""}${LATE ? BQ/MR/2 : ""}${LATE ? " && " : ""}n + 1 < x.count)
            settle(&p, n + 1);
% elif SETTLES or TWOFOLD
        settle(&p, n);
        barrier(CLK_LOCAL_MEM_FENCE); /* now this tile is in its boxes */
% end
% if SPLIT
        if (p.rows <= 0)
% elif WINDOW
        if (!meets(&p, j))
% else
        if (j * ${BK} >= p.reach)
% end
            continue;
        scores(s, ${Q_STAYS ? "fragments, " : ""}&p, ${K_THERE});
% if WEIGHED
        #pragma unroll
        for (int m = 0; m < ${FR}; m++)
            scale_keys(s + m * ${NS}, SCALES_AT(n) + 2 * (p.lane & 3), unit + 2 * m, ${FRAGMENT_ROWS});
% elif FITS
        #pragma unroll
        for (int m = 0; m < ${FR*NS}; m++)
            s[m] *= unit[m / ${NS} * 2 + m / 2 % 2];
% end
% if SOFTCAP
        #pragma unroll
        for (int m = 0; m < ${FR}; m++)
            cap(s + m * ${NS}, p.ratio${SMALL_CAPS ? ADDS ? ", f.softcap <= 128.0f" : ", p.scale <= 184.665f" : ""}${SPLIT ? ", p.rows - 16 * m" : ""});
% end
% if MODIFIES and SPLIT
        const int key = j * ${BK} + 2 * (p.lane & 3), h0 = x.g * split.group;
        #pragma unroll
        for (int m = 0; m < ${FR}; m++)
            if (p.rows > 16 * m) {
                const int r = p.warp * ${MR} + 16 * m + p.lane / 4;
                const struct row y[2] = {some_row_at(r, TILE(&p), &p.d, &a), some_row_at(r + 8, TILE(&p), &p.d, &a)};
                const int h[2] = {h0 + y[0].h, h0 + y[1].h}, i[2] = {y[0].i, y[1].i};
                modify(s + m * ${NS}, &beside, &f, x.b, h, i, p.rows > 16 * m + 8, key, p.keys - key, ${ALIBI ? "x.origin - key" : "0"});
            }
% elif MODIFIES
        const int i = p.i + p.lane / 4, key = j * ${BK} + 2 * (p.lane & 3);
        #pragma unroll
        for (int m = 0; m < ${FR}; m++)
            modify(s + m * ${NS}, &beside, &f, x.b, x.h, i + 16 * m, ${HOW_MANY}, key, p.keys - key, ${ALIBI ? "i + 16 * m + x.origin - key" : "0"});
% end
        mask_edge(s, &p, j);
% if FITTED and INVARIANT
% if BLOCKS
        float inverse[${2*FR}];
% end
% elif WEIGHED
        float of_values[${NS/2}], by;
% elif BLOCKS
        float inverse;
        const float by = fit_blocks(&p, &inverse);
% end
        #pragma unroll
        for (int m = 0; m < ${FR}; m++) {
% if FITTED and INVARIANT
            float by[2];
            fix[0] = fix[1] = 1.0f;
            const int grown = softmax(s + m * ${NS}, rows + m, fix, p.scale);
% if WEIGHED
            weigh_rows(s + m * ${NS}, SCALES_AT(n) + ${BK} + 2 * (p.lane & 3), p.unit + 2 * m, by);
% else
            fit_blocks(s + m * ${NS}, &p, p.unit + 2 * m, inverse + 2 * m, by);
% end
            if (in_warp(grown || by[0] != 1.0f || by[1] != 1.0f)) { /* a row whose unit stays is multiplied by 1 */
                fix[0] *= by[0], fix[1] *= by[1];
                rescale(out + m * ${NO}, fix);
            }
% elif FITTED
            const int grown = softmax(s + m * ${NS}, rows + m, fix, p.scale${SKIPS ? ", " : ""}${SKIPS ? FRAGMENT_ROWS : ""});
% if WEIGHED
            if (m == 0)
                by = take_scales(of_values, SCALES_AT(n) + ${BK} + 2 * (p.lane & 3), &p.unit);
% end
            if (grown || by != 1.0f) { /* the scales of values may have been divided by another power of two */
                fix[0] = grown ? fix[0] * by : by, fix[1] = grown ? fix[1] * by : by;
                rescale(out + m * ${NO}, fix);
            }
% else
            if (softmax(s + m * ${NS}, rows + m, fix, p.scale))
                rescale(out + m * ${NO}, fix);
% end
% if WEIGHED and not INVARIANT
            weigh(s + m * ${NS}, of_values, ${FRAGMENT_ROWS});
% end
% if not BLOCKS
            round_all(w + m * ${NS/2}, s + m * ${NS});
% if RESTS
            round_rest(rest + m * ${NS/2}, s + m * ${NS}, w + m * ${NS/2});
% end
% end
        }
% if BLOCKS
        values(out, s, inverse, &p, ${V_THERE});
% else
        values(out, w${RESTS and (IN_FOURS or TWOFOLD) ? ", rest" : ""}, &p, ${V_THERE});
% if RESTS and not IN_FOURS and not TWOFOLD
        values(out, rest, &p, ${V_THERE});
% end
% end
    }
% if FITTED
% let BACK = TWOFOLD ? "" : NARROW_BY > 1 ? " * 256.0f" : ""
% assert TWOFOLD or NARROW_BY == 1 or NARROW_BY == 256, "NARROW_BY and BACK say the same"
% if INVARIANT
    #pragma unroll
    for (int m = 0; m < ${FR}; m++) {
        fix[0] = p.unit[2 * m]${BACK}, fix[1] = p.unit[2 * m + 1]${BACK};
        rescale(out + m * ${NO}, fix);
    }
% else
    fix[0] = fix[1] = p.unit${BACK};
    #pragma unroll
    for (int m = 0; m < ${FR}; m++)
        rescale(out + m * ${NO}, fix);
% end
% end
% if SPLIT
    close_rows(out, &p, rows, &a, lse${SINK ? ", sinks + f.sinks_at" : ""});
    if (x.splits > 1) {
        leave_part(&p, out, &a, all, lse${SINK ? ", sinks + f.sinks_at" : ""});
        return;
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* now O may take the place of what was copied */
    store_output(o, &a, out, &p);
% else
    close_rows(out, &p, rows, &a, lse${SINK ? ", sinks[f.sinks_at + x.h]" : ""}${SINK ? LOG2E : ""});
    barrier(CLK_LOCAL_MEM_FENCE); /* now O may take the place of what was copied */
    store_output(o, a.o_stride[2], ${HOW_MANY} - p.i, out, &p);
% end
% if PARTS_V > 1
    }
% end
}
% end_own
