%# Forward attention in portable OpenCL C 1.2: FlashAttention-2 (Dao 2023, algorithm 1) with a work-group for each tile of
%# queries. A work-item holds MR rows by NV vectors of scores, and MR rows by CV vectors of output; keys, values and
%# probabilities lie in local memory. A group of one work-item (CPUs) takes several turns of MR rows.
% include "opencl/attn.sizes.t"
% include "opencl/words.t"
% include "opencl/header.t"
% include "opencl/head.t"
% include "opencl/args.h"
% if FEATURES
% include "opencl/features.h"
% end
% own
% include "opencl/begin.t"
% include "opencl/types.t"
% include "opencl/modify.t"

% include "opencl/interval.t"

/* The ${MR} by ${NV} vectors of scores += Q K^T, of ${DC} columns from `from` on and the keys under col. */
${FUNCTION} void scores(${VEC} *s, __global const ${TYPE} *const *row, __local const float *col, int from, const int wide)
{
% for r in 0..MR
% for c in 0..NV
    ${VEC} s${r}_${c} = s[${r*NV + c}];
% end
% end
    for (int d = 0; d < ${DC}; d += ${U}) {
% if DP % DC != 0
        if (from + d >= ${DP})
            break;
% end
% for w in 0..U/4
% for r in 0..MR
% if HD % U == 0
        const float4 f${w}_${r} = get4(row[${r}] + from + d + ${4*w}, 4, wide);
% else
        const float4 f${w}_${r} = get4(row[${r}] + from + d + ${4*w}, ${HD} - from - d - ${4*w}, wide);
% end
% end
% for u in 0..4
        {
% for c in 0..NV
            const ${VEC} b${c} = load(col + (d + ${4*w + u}) * ${BK} + ${c*STEP});
% end
% for r in 0..MR
% for c in 0..NV
            s${r}_${c} = fma((${VEC})(f${w}_${r}.s${u}), b${c}, s${r}_${c});
% end
% end
        }
% end
% end
    }
% for r in 0..MR
% for c in 0..NV
    s[${r*NV + c}] = s${r}_${c};
% end
% end
}

${KERNEL}(${GX}, ${GQ}, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v, __global ${TYPE_O} *o,
    __global float *lse, __global const long *kv_lens, ${GIVEN} struct attn_cl_args a${FEATURES ? "," : ")"}
% include "opencl/features.t"
% if SCALED
    __global const float *k_scales, __global const float *v_scales,
% end
% if FEATURES
    ${GIVEN} struct attn_cl_features f)
% end
{
    ${SHARED} float kt[${KTILE}] __attribute__((aligned(64))), p[${ROWS*BK}] __attribute__((aligned(64)));
% if CHUNKED
    __local float *const vt = kt;
% else
    ${SHARED} float vt[${VTILE}] __attribute__((aligned(64)));
% end
% if GX > 1
    ${SHARED} float across[${ROWS*GX}];
% end
% if NARROW_KV
    ${SHARED} struct place place[${BK}]; /* where each key of a tile lies */
% elif PAGED
    ${SHARED} long2 place[${BK}]; /* where each key of a tile begins in K, and in V */
% end
    const int x = get_local_id(0), y = get_local_id(1), item = y * ${GX} + x;
    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads), i0 = get_group_id(0) * ${BQ}L;
% include "opencl/sequence.t"
% if TURNS > 1
    const int turns = (int)min(${TURNS}L, (${QUERIES} - i0 + ${ROWS-1}) / ${ROWS}); /* the turns that have queries */
% end
% if SOFTCAP
    const float scale = a.scale / f.softcap, cap = f.softcap${LOG2E};
% elif BIAS != "none"
    const float scale = a.scale;
% else
    const float scale = a.scale * 1.44269504f; /* exponentials are powers of two */
% end
% if ALIBI
    const float slope = slopes[f.slopes_at + h]${LOG2E};
% end
    ${VEC} out[${TURNS*MR*CV}];
% if INVARIANT
    float top[${TURNS*MR}]; /* of each row: the maximum so far, */
    ${VEC} sum[${TURNS*MR*SV}]; /* and this lane's shares of the sum */
% else
    float top[${TURNS*MR}], sum[${TURNS*MR}]; /* of each row: the maximum so far, and this lane's share of the sum */
% end
% include "opencl/pointers.t"
    for (int i = 0; i < ${TURNS*MR*CV}; i++)
        out[i] = 0.0f;
% if INVARIANT
    for (int i = 0; i < ${TURNS*MR}; i++)
        top[i] = -INFINITY;
    for (int i = 0; i < ${TURNS*MR*SV}; i++)
        sum[i] = 0.0f;
% else
    for (int i = 0; i < ${TURNS*MR}; i++)
        top[i] = -INFINITY, sum[i] = 0.0f;
% end

% if WINDOW and TURNS > 1
    int from = 0, to = 0; /* the turns whose rows see keys of the tile; neither falls from one tile to the next */
% end
    for (long j = ${WINDOW ? "begin" : "0"}; j < end; j += ${BK}) {
        const int n = (int)min(${BK}L, end - j);
% if NARROW_KV
        for (int key = item; key < n; key += ${ITEMS}) {
% if PAGED
            const long page = pages[(j + key) / f.page_size], row = (j + key) % f.page_size;
            place[key].k = (page * a.k_stride[0] + row * a.k_stride[2]) * ${UNIT}, place[key].v = (page * a.v_stride[0] + row * a.v_stride[2]) * ${UNIT};
% if SCALED
            place[key].k_scale = k_scales[page * f.k_scales_stride[0] + row * f.k_scales_stride[2]];
            place[key].v_scale = v_scales[page * f.v_scales_stride[0] + row * f.v_scales_stride[2]];
% end
% else
            place[key].k = (j + key) * a.k_stride[2] * ${UNIT}, place[key].v = (j + key) * a.v_stride[2] * ${UNIT};
% if SCALED
            place[key].k_scale = k_scales[(j + key) * f.k_scales_stride[2]], place[key].v_scale = v_scales[(j + key) * f.v_scales_stride[2]];
% end
% end
        }
% elif PAGED
        for (int key = item; key < n; key += ${ITEMS}) {
            const long page = pages[(j + key) / f.page_size], row = (j + key) % f.page_size;
            place[key] = ${LONG2}(page * a.k_stride[0] + row * a.k_stride[2], page * a.v_stride[0] + row * a.v_stride[2]);
        }
% end
% if not CHUNKED
        barrier(CLK_LOCAL_MEM_FENCE);
        fill_k(kt, ${PAGED or NARROW_KV ? "k, place" : "k + j * a.k_stride[2], a.k_stride[2]"}, n, 0, item${NARROW_KV ? "" : ", wide"});
        fill_v(vt, ${PAGED or NARROW_KV ? "v, place" : "v + j * a.v_stride[2], a.v_stride[2]"}, n, item${NARROW_KV ? "" : ", wide"});
        barrier(CLK_LOCAL_MEM_FENCE);
% end
% if WINDOW and TURNS > 1
        while (from < turns && interval(i0 + (from + 1) * ${ROWS} - 1, keys, offset, left, right).y <= j)
            from++;
        while (to < turns && interval(i0 + to * ${ROWS}, keys, offset, left, right).x < j + n)
            to++;
        for (int turn = from; turn < to; turn++) {
% else
        for (int turn = 0; turn < ${TURNS > 1 ? "turns" : "1"}; turn++) {
% end
            const long i = i0 + turn * ${ROWS} + y * ${MR}; /* this work-item's first row */
            ${VEC} s[${BLOCKS*MR*NV}];
            float fix[${MR}];
            __global const ${TYPE} *row[${MR}];
            for (int r = 0; r < ${MR}; r++)
                row[r] = q + min(i + r, ${QUERIES} - 1) * a.q_stride[2];
            for (int block = 0; block < ${BLOCKS*MR*NV}; block++)
                s[block] = 0.0f;
            for (int part = 0; part < ${DP}; part += ${DC}) { /* S = Q K^T */
% if CHUNKED
                barrier(CLK_LOCAL_MEM_FENCE);
                fill_k(kt, ${NARROW_KV ? "k, place" : PAGED ? "k + part, place" : "k + j * a.k_stride[2] + part, a.k_stride[2]"}, n, part, item${NARROW_KV ? "" : ", wide"});
                barrier(CLK_LOCAL_MEM_FENCE);
% end
                for (int block = 0; block < ${BLOCKS}; block++) {
                    __local const float *col = kt + block * ${BLOCK} + x * ${VW};
                    if (wide)
                        scores(s + block * ${MR*NV}, row, col, part, 1);
                    else
                        scores(s + block * ${MR*NV}, row, col, part, 0);
                }
            }
            for (int block = 0; block < ${BLOCKS*MR*NV}; block++)
                s[block] ${SOFTCAP ? "= tanh_v(s[block] * scale) * cap" : "*= scale"};
% include "opencl/modify_tile.t"
% for r in 0..MR
            float m${r} = -INFINITY;
% end
            for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
% for c in 0..NV
                m${r} = max(m${r}, highest(s[block * ${MR*NV} + ${r*NV + c}]));
% end
% end
            }
% if GX > 1
% for r in 0..MR
            across[(y * ${MR} + ${r}) * ${GX} + x] = m${r};
% end
            barrier(CLK_LOCAL_MEM_FENCE);
% for r in 0..MR
            for (int l = 0; l < ${GX}; l++)
                m${r} = max(m${r}, across[(y * ${MR} + ${r}) * ${GX} + l]);
% end
% end
% for r in 0..MR
            m${r} = max(m${r}, top[turn * ${MR} + ${r}]);
            const float low${r} = max(m${r}, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[${r}] = ${EXP}_1(top[turn * ${MR} + ${r}] - low${r});
% if INVARIANT
            top[turn * ${MR} + ${r}] = m${r};
            for (int share = 0; share < ${SV}; share++)
                sum[(turn * ${MR} + ${r}) * ${SV} + share] *= fix[${r}];
% else
            top[turn * ${MR} + ${r}] = m${r}, sum[turn * ${MR} + ${r}] *= fix[${r}];
% end
% end
            for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
% for c in 0..NV
                {
                    const ${VEC} e = ${EXP}_v(s[block * ${MR*NV} + ${r*NV + c}] - low${r});
% if INVARIANT
                    sum[(turn * ${MR} + ${r}) * ${SV} + (block * ${NV} + ${c}) % ${SV}] += e;
% else
                    sum[turn * ${MR} + ${r}] += total(e);
% end
                    store(e, p + (y * ${MR} + ${r}) * ${BK} + block * ${BLOCK} + x * ${VW} + ${c*STEP});
                }
% end
% end
            }
% for r in 0..MR
% for c in 0..CV
            ${VEC} o${r}_${c} = out[(turn * ${MR} + ${r}) * ${CV} + ${c}] * fix[${r}];
% end
% end
            barrier(CLK_LOCAL_MEM_FENCE); /* not in the loop: PoCL 3.1 errs where a loop's body begins with a barrier */
            for (int part = 0; part < n; part += ${KC}) { /* O = fix * O + P V */
% if CHUNKED
                fill_v(vt, ${PAGED or NARROW_KV ? "v, place + part" : "v + (j + part) * a.v_stride[2], a.v_stride[2]"}, n - part, item${NARROW_KV ? "" : ", wide"});
                barrier(CLK_LOCAL_MEM_FENCE);
% end
                for (int key = 0; key < ${KC} && part + key < n; key += 4) {
% for r in 0..MR
                    const float4 f${r} = *(__local const float4 *)(p + (y * ${MR} + ${r}) * ${BK} + part + key);
% end
% for u in 0..4
                    {
                        __local const float *b = vt + (key + ${u}) * ${DV} + x * ${VW};
% for c in 0..CV
                        const ${VEC} b${c} = load(b + ${c*STEP});
% end
% for r in 0..MR
% for c in 0..CV
                        o${r}_${c} = fma((${VEC})(f${r}.s${u}), b${c}, o${r}_${c});
% end
% end
                    }
% end
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
% for r in 0..MR
% for c in 0..CV
            out[(turn * ${MR} + ${r}) * ${CV} + ${c}] = o${r}_${c};
% end
% end
        }
    }

% if PACKED
    lse += a.lse_at + (f.has_q_starts ? h * q_starts[f.q_end_at] + q_from : (b * a.heads + h) * a.q_len);
% end
% if SINK
    const float sink = sinks[f.sinks_at + h]${LOG2E};
% end
    for (int turn = 0; turn < ${TURNS}; turn++)
% if GX > 1 and TURNS == 1
        #pragma unroll /* arrays whose indices are constants can stay in registers */
% end
        for (int r = 0; r < ${MR}; r++) {
            const long i = i0 + turn * ${ROWS} + y * ${MR} + r;
% if INVARIANT
            /* The sum of all shares, in their order: those of this lane, or of all lanes. */
            float l = 0.0f;
% if GX > 1
            barrier(CLK_LOCAL_MEM_FENCE);
% for share in 0..SV
            store(sum[(turn * ${MR} + r) * ${SV} + ${share}], p + y * ${SHARES} + ${share*STEP} + x * ${VW});
% end
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int share = 0; share < ${SHARES}; share++)
                l += p[y * ${SHARES} + share];
% else
            for (int share = 0; share < ${SV}; share++) {
                float shares[${VW}];
% if VW == 1
                shares[0] = sum[(turn * ${MR} + r) * ${SV} + share];
% else
                vstore${SUFFIX}(sum[(turn * ${MR} + r) * ${SV} + share], 0, shares);
% end
                for (int t = 0; t < ${VW}; t++)
                    l += shares[t];
            }
% end
% else
            float l = sum[turn * ${MR} + r];
% end
% if GX > 1 and not INVARIANT
            barrier(CLK_LOCAL_MEM_FENCE);
            across[y * ${GX} + x] = l;
            barrier(CLK_LOCAL_MEM_FENCE);
            l = 0.0f;
            for (int t = 0; t < ${GX}; t++)
                l += across[y * ${GX} + t];
% end
            if (i >= ${QUERIES})
                continue;
            if (a.has_lse && x == 0)
                lse[${PACKED ? "" : "a.lse_at + (b * a.heads + h) * a.q_len + "}i] = top[turn * ${MR} + r]${BIAS != "none" ? "" : " * 0.693147181f"} + log(l);
% if SINK
            const float high = max(max(top[turn * ${MR} + r], sink), -FLT_MAX), less = ${EXP}_1(top[turn * ${MR} + r] - high);
            const float part = l == 0.0f ? 0.0f : less / fma(l, less, ${EXP}_1(sink - high)); /* the part of O that the sink leaves */
% end
            for (int c = 0; c < ${CV}; c++)
                put(out[(turn * ${MR} + r) * ${CV} + c] * ${SINK ? "part" : "(l == 0.0f ? 0.0f : 1.0f / l)"}, o + i * a.o_stride[2] + c * ${STEP} + x * ${VW},
                    ${HDV} - c * ${STEP} - x * ${VW});
        }
}
% end_own
