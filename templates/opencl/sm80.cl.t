%# Forward attention on NVIDIA's tensor cores from Ampere on: FlashAttention-2 (Dao 2023, algorithm 1). A work-group has a tile
%# of queries, a warp 16 rows of it, in registers; keys come to shared memory while the softmax and the second product are
%# made, and values while the first one is. Where Hopper's own instructions are to be had, sm90.cl.t is better.
% include "opencl/sm80.sizes.t"
% include "opencl/sm80.header.t"
% include "opencl/args.h"
% include "opencl/ptx.t"
% include "opencl/ptx.sm80.t"
% include "opencl/softmax.t"

/* n rows of keys (or values) from row `from` on, zeros behind them: boxes of 64 columns, swizzled. */
INLINED void copy_tile(uint to, __global const ${TYPE} *from, long stride, int n, const int chunks, const int width, int item)
{
    for (int t = item; t < ${BK} * chunks; t += ${ITEMS}) {
        const int row = t / chunks, c = t % chunks, there = row < n && 8 * c < width;
        copy16(to + c / 8 * ${BK*128} + row * 128 + ((c ^ row) % 8 << 4), from + (there ? row * stride + 8 * c : 0), there);
    }
}

/* Two neighbouring elements of each row that the lane has. */
INLINED void load_q(uint *q, __global const ${TYPE} *from, long stride, int i, int rows, int lane, uint flip)
{
    __global const ${TYPE} *row[2] = {from + min(i, rows - 1) * stride, from + min(i + 8, rows - 1) * stride};
    #pragma unroll
    for (int n = 0; n < ${4*QN}; n++) {
        const int column = n / 2 * 8 + 2 * (lane % 4);
        q[n] = column < ${HD} ? *(__global const uint *)(row[n % 2] + column) ^ flip : 0;
    }
}

/* S = Q K^T */
INLINED void scores(float *s, const uint *q, uint k, int lane)
{
    const uint row = lane / 16 * 8 + lane % 8, at = k + row * 128; /* of the matrix that the lane tells of */
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = 0.0f;
% for d in 0..QN
    {
        const uint chunk = at + ${d/4*BK*128} + ((${d%4*2} + lane / 8 % 2 ^ row % 8) << 4);
% for j in 0..BK/16
        {
            uint b[4];
            load_matrices(b, chunk + ${j*2048});
            multiply(s + ${8*j}, q + ${4*d}, b);
            multiply(s + ${8*j + 4}, q + ${4*d}, b + 2);
        }
% end
    }
% end
}

/* O += P V */
INLINED void values(float *out, const uint *p, uint v, int lane)
{
    const uint row = lane / 8 % 2 * 8 + lane % 8, at = v + row * 128;
% for c in 0..ceil_div(HDV, 16)
    {
        const uint chunk = at + ${c/4*BK*128} + ((${c%4*2} + lane / 16 ^ row % 8) << 4);
% for j in 0..BK/16
        {
            uint b[4];
            load_transposed(b, chunk + ${j*2048});
            multiply(out + ${8*c}, p + ${4*j}, b);
% if 16*c + 8 < HDV
            multiply(out + ${8*c + 4}, p + ${4*j}, b + 2);
% end
        }
% end
    }
% end
}

__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a)
{
    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));
    const uint k_at = (uint)(ulong)memory, v_at = k_at + ${K_TILE};
    const int item = get_local_id(0), warp = item / 32, lane = item % 32, q_len = (int)a.q_len;
    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads);
% if CAUSAL
    const int i0 = (int)(get_num_groups(0) - 1 - get_group_id(0)) * ${BQ}; /* heavy tiles first */
% else
    const int i0 = (int)get_group_id(0) * ${BQ};
% end
    const int keys = a.has_lens ? (int)kv_lens[a.lens_at + b] : (int)a.kv_len;
    const int offset = (int)clamp(a.offset + (a.bottom_right ? keys - q_len : 0), -(1L << 30), 1L << 30);
    const int count = (interval(min(i0 + ${BQ}, q_len) - 1, keys, offset) + ${BK - 1}) / ${BK}; /* tiles of keys */
    const int first = i0 + 16 * warp, i = first + lane / 4; /* this work-item has rows i and i + 8 */
    const int edge = interval(first, keys, offset), end[2] = {interval(i, keys, offset), interval(i + 8, keys, offset)};
    const float scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN); /* exponentials are powers of two; -inf * 0 is no number */
    float out[${NO}];
    uint queries[${4*QN}];
    struct rows rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1];
    k += a.k_at + b * a.k_stride[0] + g * a.k_stride[1];
    v += a.v_at + b * a.v_stride[0] + g * a.v_stride[1];
    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1];
    #pragma unroll
    for (int n = 0; n < ${NO}; n++)
        out[n] = 0.0f;
    if (count > 0)
        copy_tile(k_at, k + (count - 1) * ${BK} * a.k_stride[2], a.k_stride[2], keys - (count - 1) * ${BK}, ${2*QN}, ${HD}, item);
    load_q(queries, q, a.q_stride[2], i, q_len, lane, a.scale < 0.0f ? 0x80008000 : 0);
    for (int j = count - 1; j >= 0; j--) { /* the edge, which must be masked, comes first */
        const int at = j * ${BK};
        float s[${NS}], fix[2];
        uint p[${NS/2}];
        copies_done();
        barrier(CLK_LOCAL_MEM_FENCE); /* these keys are there; the values before are read */
        copy_tile(v_at, v + at * a.v_stride[2], a.v_stride[2], keys - at, ${2*ceil_div(HDV, 16)}, ${HDV}, item);
        scores(s, queries, k_at, lane);
        copies_done();
        barrier(CLK_LOCAL_MEM_FENCE); /* these values are there; the keys are read */
        if (j > 0)
            copy_tile(k_at, k + (at - ${BK}) * a.k_stride[2], a.k_stride[2], ${BK}, ${2*QN}, ${HD}, item);
        if (edge < at + ${BK}) {
            const int left[2] = {end[0] - at - 2 * (lane & 3), end[1] - at - 2 * (lane & 3)};
            mask(s, left);
        }
        if (softmax(s, &rows, fix, scale))
            rescale(out, fix);
        round_all(p, s);
        values(out, p, v_at, lane);
    }
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows.sum[r] += across(rows.sum[r], 1);
        rows.sum[r] += across(rows.sum[r], 2);
        const float inverse = rows.sum[r] == 0.0f ? 0.0f : reciprocal(rows.sum[r]);
        if (i + 8 * r >= q_len)
            continue;
        if (a.has_lse && (lane & 3) == 0)
            lse[a.lse_at + (b * a.heads + h) * a.q_len + i + 8 * r] =
                rows.sum[r] == 0.0f ? -INFINITY : finite(rows.top[r]) * scale * 0.693147181f + log(rows.sum[r]);
        __global uint *to = (__global uint *)(o + (i + 8 * r) * a.o_stride[2] + 2 * (lane & 3));
        #pragma unroll
        for (int n = 0; n < ${NO/4}; n++)
            to[4 * n] = rounded(out[4 * n + 2 * r] * inverse, out[4 * n + 2 * r + 1] * inverse);
    }
}
