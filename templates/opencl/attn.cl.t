%# Forward attention in portable OpenCL C 1.2: FlashAttention-2 (Dao 2023, algorithm 1) with a work-group for each tile of
%# queries. A work-item holds MR rows by NV vectors of scores, and MR rows by CV vectors of output; keys, values and
%# probabilities lie in local memory. A group of one work-item (CPUs) takes several turns of MR rows.
% include "opencl/attn.sizes.t"
% include "opencl/header.t"
% include "opencl/args.h"
% include "opencl/types.t"

/* Query i sees the keys before this one. */
static long interval(long i, long keys, long offset)
{
% if CAUSAL
    return clamp(i + offset + 1, 0L, keys);
% else
    return keys;
% end
}

/* S[MR][NV vectors] += Q[MR][${DC} columns from `from` on] K^T, for the keys under col. */
static void scores(${VEC} *s, __global const ${TYPE} *const *row, __local const float *col, int from, const int wide)
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

__kernel __attribute__((reqd_work_group_size(${GX}, ${GQ}, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a)
{
    __local float kt[${KTILE}] __attribute__((aligned(64))), p[${ROWS*BK}] __attribute__((aligned(64)));
% if CHUNKED
    __local float *const vt = kt;
% else
    __local float vt[${VTILE}] __attribute__((aligned(64)));
% end
% if GX > 1
    __local float across[${ROWS*GX}];
% end
    const int x = get_local_id(0), y = get_local_id(1), item = y * ${GX} + x;
    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads), i0 = get_group_id(0) * ${BQ}L;
    const long keys = a.has_lens ? kv_lens[a.lens_at + b] : a.kv_len;
    const long offset = a.offset + (a.bottom_right ? keys - a.q_len : 0);
    const long end = interval(min(i0 + ${BQ}L, a.q_len) - 1, keys, offset);
% if TURNS > 1
    const int turns = (int)min(${TURNS}L, (a.q_len - i0 + ${ROWS-1}) / ${ROWS}); /* that have queries */
% end
    const float scale = a.scale * 1.44269504f; /* exponentials are powers of two */
    ${VEC} out[${TURNS*MR*CV}];
    float top[${TURNS*MR}], sum[${TURNS*MR}]; /* of each row: the maximum so far, and this lane's share of the sum */
    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1];
    k += a.k_at + b * a.k_stride[0] + g * a.k_stride[1];
    v += a.v_at + b * a.v_stride[0] + g * a.v_stride[1];
    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1];
% if HD % U == 0 and HDV % 4 == 0
    const int wide = ((a.q_stride[2] | a.k_stride[2] | a.v_stride[2]) & 3) == 0 &&
        (((ulong)q | (ulong)k | (ulong)v) & ${DTYPE == "f32" ? 15 : 7}) == 0; /* rows can be read four elements at a time */
% else
    const int wide = 0;
% end
    for (int i = 0; i < ${TURNS*MR*CV}; i++)
        out[i] = 0.0f;
    for (int i = 0; i < ${TURNS*MR}; i++)
        top[i] = -INFINITY, sum[i] = 0.0f;

    for (long j = 0; j < end; j += ${BK}) {
        const int n = (int)min(${BK}L, end - j);
% if not CHUNKED
        barrier(CLK_LOCAL_MEM_FENCE);
        fill_k(kt, k + j * a.k_stride[2], a.k_stride[2], n, 0, item, wide);
        fill_v(vt, v + j * a.v_stride[2], a.v_stride[2], n, item, wide);
        barrier(CLK_LOCAL_MEM_FENCE);
% end
        for (int turn = 0; turn < ${TURNS > 1 ? "turns" : "1"}; turn++) {
            const long i = i0 + turn * ${ROWS} + y * ${MR}; /* this work-item's first row */
            ${VEC} s[${BLOCKS*MR*NV}];
            float fix[${MR}];
            __global const ${TYPE} *row[${MR}];
            for (int r = 0; r < ${MR}; r++)
                row[r] = q + min(i + r, a.q_len - 1) * a.q_stride[2];
            for (int block = 0; block < ${BLOCKS*MR*NV}; block++)
                s[block] = 0.0f;
            for (int part = 0; part < ${DP}; part += ${DC}) { /* S = Q K^T */
% if CHUNKED
                barrier(CLK_LOCAL_MEM_FENCE);
                fill_k(kt, k + j * a.k_stride[2] + part, a.k_stride[2], n, part, item, wide);
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
                s[block] *= scale;
            if (interval(i0 + turn * ${ROWS}, keys, offset) < j + ${BK}) /* an interval ends in this tile: mask */
                for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
% for c in 0..NV
                    s[block * ${MR*NV} + ${r*NV + c}] = masked(s[block * ${MR*NV} + ${r*NV + c}],
                        (int)(interval(i + ${r}, keys, offset) - j) - block * ${BLOCK} - x * ${VW} - ${c*STEP});
% end
% end
                }
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
            const float low${r} = max(m${r}, -FLT_MAX); /* -inf - -inf is no number: a row without keys subtracts this */
            fix[${r}] = exp2_1(top[turn * ${MR} + ${r}] - low${r});
            top[turn * ${MR} + ${r}] = m${r}, sum[turn * ${MR} + ${r}] *= fix[${r}];
% end
            for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
% for c in 0..NV
                {
                    const ${VEC} e = exp2_v(s[block * ${MR*NV} + ${r*NV + c}] - low${r});
                    sum[turn * ${MR} + ${r}] += total(e);
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
            barrier(CLK_LOCAL_MEM_FENCE); /* here: PoCL 3.1 runs the first item wrong when a loop's body begins with one */
            for (int part = 0; part < n; part += ${KC}) { /* O = fix * O + P V */
% if CHUNKED
                fill_v(vt, v + (j + part) * a.v_stride[2], a.v_stride[2], n - part, item, wide);
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

    for (int turn = 0; turn < ${TURNS}; turn++)
% if GX > 1 and TURNS == 1
        #pragma unroll /* what is indexed by numbers alone can stay in registers */
% end
        for (int r = 0; r < ${MR}; r++) {
            const long i = i0 + turn * ${ROWS} + y * ${MR} + r;
            float l = sum[turn * ${MR} + r];
% if GX > 1
            barrier(CLK_LOCAL_MEM_FENCE);
            across[y * ${GX} + x] = l;
            barrier(CLK_LOCAL_MEM_FENCE);
            l = 0.0f;
            for (int t = 0; t < ${GX}; t++)
                l += across[y * ${GX} + t];
% end
            if (i >= a.q_len)
                continue;
            if (a.has_lse && x == 0)
                lse[a.lse_at + (b * a.heads + h) * a.q_len + i] = top[turn * ${MR} + r] * 0.693147181f + log(l);
            for (int c = 0; c < ${CV}; c++)
                put(out[(turn * ${MR} + r) * ${CV} + c] * (l == 0.0f ? 0.0f : 1.0f / l), o + i * a.o_stride[2] + c * ${STEP} + x * ${VW},
                    ${HDV} - c * ${STEP} - x * ${VW});
        }
}
