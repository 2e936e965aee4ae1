%# Forward attention on NVIDIA's tensor cores from Ampere on: FlashAttention-2 (Dao 2023, algorithm 1). A work-group has a tile
%# of queries, a warp 16 rows of it, in registers; keys come to shared memory while the softmax and the second product are
%# made, and values while the first one is. Where Hopper's own instructions are to be had, sm90.cl.t is better.
% include "opencl/sm80.sizes.t"
% include "opencl/sm80.header.t"
% include "opencl/args.h"
% include "opencl/ptx.t"
% include "opencl/ptx.sm80.t"
% include "opencl/softmax.t"

/* Those of `rows` rows that are before `end`, zeros for the others: boxes of 64 columns, swizzled. */
INLINED void copy_rows(uint to, __global const ${TYPE} *from, long stride, int end, const uint rows, const uint chunks, const uint width, int item)
{
    #pragma unroll
    for (uint n = 0; n < (rows * chunks + ${ITEMS - 1}) / ${ITEMS}; n++) {
        const uint t = (uint)item + n * ${ITEMS}, row = t / chunks, c = t % chunks;
        const int there = (int)row < end && 8 * c < width;
        if (rows * chunks % ${ITEMS} == 0 || t < rows * chunks)
            copy16(to + c / 8 * rows * 128 + row * 128 + ((c ^ row) % 8 << 4), from + (there ? row * stride + 8 * c : 0), there);
    }
}

% if Q_HELD
/* Fragments of Q, from memory to registers: two neighbouring elements of each row that the lane has, again and again. */
INLINED void load_q(uint *q, __global const ${TYPE} *from, long stride, int i, int rows, int lane, uint flip)
{
    __global const ${TYPE} *row[2] = {from + min(i, rows - 1) * stride, from + min(i + 8, rows - 1) * stride};
    #pragma unroll
    for (int n = 0; n < ${4*QN}; n++) {
        const int column = n / 2 * 8 + 2 * (lane % 4);
        q[n] = column < ${HD} ? *(__global const uint *)(row[n % 2] + column) ^ flip : 0;
    }
}
% end

/* S = Q K^T, for ${MT} times 16 rows. */
INLINED void scores(float *s, const uint *queries, uint q, uint k, int lane)
{
    const uint row = lane / 16 * 8 + lane % 8, at = k + row * 128; /* of the matrix that the lane tells of */
% if not Q_HELD
    const uint mine = lane % 16, from = q + mine * 128;
% end
    #pragma unroll
    for (int n = 0; n < ${MT*NS}; n++)
        s[n] = 0.0f;
% for d in 0..QN
    {
        const uint chunk = at + ${d/4*BK*128} + ((${d%4*2} + lane / 8 % 2 ^ row % 8) << 4);
% if Q_HELD
        const uint *a = queries + ${4*MT*d};
% else
        uint a[${4*MT}];
% for m in 0..MT
        load_matrices(a + ${4*m}, from + ${m*2048 + d/4*BQ*128} + ((${d%4*2} + lane / 16 ^ mine % 8) << 4));
% end
% end
% for j in 0..BK/16
        {
            uint b[4];
            load_matrices(b, chunk + ${j*2048});
% for m in 0..MT
            multiply(s + ${m*NS + 8*j}, a + ${4*m}, b);
            multiply(s + ${m*NS + 8*j + 4}, a + ${4*m}, b + 2);
% end
        }
% end
    }
% end
}

/* O += P V */
INLINED void values(float *out, const uint *p, uint v, int lane)
{
    const uint row = lane / 8 % 2 * 8 + lane % 8, at = v + row * 128;
% for j in 0..BK/16
% for c in 0..ceil_div(HDV, 16)
    {
        uint b[4];
        load_transposed(b, at + ${j*2048 + c/4*BK*128} + ((${c%4*2} + lane / 16 ^ row % 8) << 4));
% for m in 0..MT
        multiply(out + ${m*NO + 8*c}, p + ${m*NS/2 + 4*j}, b);
% if 16*c + 8 < HDV
        multiply(out + ${m*NO + 8*c + 4}, p + ${m*NS/2 + 4*j}, b + 2);
% end
% end
    }
% end
% end
}

__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${NAME}(__global const ${TYPE} *q, __global const ${TYPE} *k, __global const ${TYPE} *v, __global ${TYPE} *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a)
{
    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));
    const uint q_at = (uint)(ulong)memory, k_at = q_at + ${Q_TILE}, v_at = k_at + ${K_TILE};
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
    const int first = i0 + ${16*MT} * warp, i = first + lane / 4; /* this work-item has rows i and i + 8, and 16 on */
    const int edge = interval(first, keys, offset);
    const float scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN); /* exponentials are powers of two; -inf * 0 is no number */
    const uint flip = a.scale < 0.0f ? 0x80008000 : 0; /* with a negative one the scores of -Q are multiplied by its magnitude */
    float out[${MT*NO}];
    uint queries[${Q_HELD ? 4*QN*MT : 1}];
    struct rows rows[${MT}];
    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1];
    k += a.k_at + b * a.k_stride[0] + g * a.k_stride[1];
    v += a.v_at + b * a.v_stride[0] + g * a.v_stride[1];
    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1];
    #pragma unroll
    for (int n = 0; n < ${MT*NO}; n++)
        out[n] = 0.0f;
    #pragma unroll
    for (int m = 0; m < ${MT}; m++)
        rows[m].top[0] = rows[m].top[1] = -INFINITY, rows[m].sum[0] = rows[m].sum[1] = 0.0f;
    if (count > 0)
        copy_rows(k_at, k + (count - 1) * ${BK} * a.k_stride[2], a.k_stride[2], keys - (count - 1) * ${BK}, ${BK}, ${2*QN}, ${HD}, item);
% if Q_HELD
% for m in 0..MT
    {
        uint mine[${4*QN}];
        load_q(mine, q, a.q_stride[2], i + ${16*m}, q_len, lane, flip);
        #pragma unroll
        for (int n = 0; n < ${4*QN}; n++)
            queries[n / 4 * ${4*MT} + ${4*m} + n % 4] = mine[n];
    }
% end
% else
    copy_rows(q_at, q + i0 * a.q_stride[2], a.q_stride[2], q_len - i0, ${BQ}, ${2*QN}, ${HD}, item);
    if (flip) {
        copies_done();
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = item; t < ${Q_TILE/4}; t += ${ITEMS})
            ((__local uint *)memory)[t] ^= flip;
    }
% end
    for (int j = count - 1; j >= 0; j--) { /* the edge, which must be masked, comes first */
        const int at = j * ${BK};
        float s[${MT*NS}];
        uint p[${MT*NS/2}];
        copies_done();
        barrier(CLK_LOCAL_MEM_FENCE); /* these keys are there; the values before are read */
        copy_rows(v_at, v + at * a.v_stride[2], a.v_stride[2], keys - at, ${BK}, ${2*ceil_div(HDV, 16)}, ${HDV}, item);
        scores(s, queries, q_at + ${2048*MT} * warp, k_at, lane);
        copies_done();
        barrier(CLK_LOCAL_MEM_FENCE); /* these values are there; the keys are read */
        if (j > 0)
            copy_rows(k_at, k + (at - ${BK}) * a.k_stride[2], a.k_stride[2], ${BK}, ${BK}, ${2*QN}, ${HD}, item);
        #pragma unroll
        for (int m = 0; m < ${MT}; m++) {
            float fix[2];
            if (edge < at + ${BK}) {
                const int from = at + 2 * (lane & 3);
                const int left[2] = {interval(i + 16 * m, keys, offset) - from, interval(i + 16 * m + 8, keys, offset) - from};
                mask(s + m * ${NS}, left);
            }
            if (softmax(s + m * ${NS}, &rows[m], fix, scale))
                rescale(out + m * ${NO}, fix);
            round_all(p + m * ${NS/2}, s + m * ${NS});
        }
        values(out, p, v_at, lane);
    }
    #pragma unroll
    for (int n = 0; n < ${2*MT}; n++) {
        const int m = n / 2, r = n % 2, row = i + 8 * n;
        float sum = rows[m].sum[r];
        sum += across(sum, 1);
        sum += across(sum, 2);
        const float inverse = sum == 0.0f ? 0.0f : reciprocal(sum);
        if (row >= q_len)
            continue;
        if (a.has_lse && (lane & 3) == 0)
            lse[a.lse_at + (b * a.heads + h) * a.q_len + row] =
                sum == 0.0f ? -INFINITY : finite(rows[m].top[r]) * scale * 0.693147181f + log(sum);
        __global uint *to = (__global uint *)(o + row * a.o_stride[2] + 2 * (lane & 3));
        #pragma unroll
        for (int c = 0; c < ${NO/4}; c++)
            to[4 * c] = rounded(out[m * ${NO} + 4 * c + 2 * r] * inverse, out[m * ${NO} + 4 * c + 2 * r + 1] * inverse);
    }
}
