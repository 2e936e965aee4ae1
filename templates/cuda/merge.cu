/* Results over parts of the keys become the result over all of them, as attn_merge of attn.h has it: a warp for each row. What a row is
 * multiplied by is computed in double precision, the row in f32.
 * SPDX-License-Identifier: MIT-0 */
#define MOST_PARTS 64
enum { TYPE_F32, TYPE_F16, TYPE_BF16 };
struct merge {
    const void *part[MOST_PARTS]; /* of each part O, [batch, head, row, element] in these strides, and its LSE, contiguous */
    const float *part_lse[MOST_PARTS];
    void *o;
    float *lse;         /* or NULL */
    const float *sinks; /* of each head, or NULL */
    long rows, q_len, heads;
    long part_stride[3], o_stride[3]; /* of batch, head and row, in elements */
    int count, width, part_type, type;
};

static __device__ __forceinline__ float load(const void *from, long at, int type)
{
    float y;
    if (type == TYPE_F32)
        return ((const float *)from)[at];
    const unsigned short x = ((const unsigned short *)from)[at];
    if (type == TYPE_BF16)
        return __uint_as_float((unsigned)x << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

static __device__ __forceinline__ void store(void *to, long at, int type, float x)
{
    unsigned short y;
    if (type == TYPE_F32) {
        ((float *)to)[at] = x;
        return;
    }
    if (type == TYPE_BF16)
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    else
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    ((unsigned short *)to)[at] = y;
}

static __device__ __forceinline__ double across(double x, int lanes) /* of the lane whose number differs in that bit */
{
    return __shfl_xor_sync(0xffffffff, x, lanes);
}

extern "C" __global__ void __launch_bounds__(128) attn_merge_parts(const __grid_constant__ struct merge m)
{
    const double none = -(double)__int_as_float(0x7f800000);
    const int lane = threadIdx.x % 32;
    const long row = (long)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= m.rows)
        return;
    const long i = row % m.q_len, h = row / m.q_len % m.heads, b = row / m.q_len / m.heads;
    double lse[2], most = none, sum = 0; /* of this lane's parts, and of all */
    bool nan = false;
    for (int n = 0; n < 2; n++) {
        const int part = lane + 32 * n;
        lse[n] = part < m.count ? (double)m.part_lse[part][row] : none;
        nan = nan || lse[n] != lse[n];
        most = lse[n] > most ? lse[n] : most;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const double other = across(most, lanes);
        most = other > most ? other : most;
    }
    nan = __any_sync(0xffffffff, nan);
    for (int n = 0; n < 2; n++)
        sum += lse[n] == none ? 0 : exp(lse[n] - most);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        sum += across(sum, lanes);
    const bool empty = most == none && !nan;
    double base = most, divisor = sum; /* the logarithm of the sum would be lost beside a large LSE */
    if (m.sinks && !empty) {
        const double sink = m.sinks[h];
        base = sink > most ? sink : most;
        divisor = sum * exp(most - base) + exp(sink - base);
    }
    float weight[2];
    for (int n = 0; n < 2; n++)
        weight[n] = lse[n] == none ? 0.0f : (float)(exp(lse[n] - base) / divisor);
    const long from = b * m.part_stride[0] + h * m.part_stride[1] + i * m.part_stride[2];
    const long to = b * m.o_stride[0] + h * m.o_stride[1] + i * m.o_stride[2];
    const unsigned there[2] = {__ballot_sync(0xffffffff, lse[0] != none), __ballot_sync(0xffffffff, lse[1] != none)};
    for (int c = lane; c - lane < m.width; c += 32) {
        float x = 0.0f;
        for (int part = 0; part < m.count; part++) {
            const float w = __shfl_sync(0xffffffff, part < 32 ? weight[0] : weight[1], part % 32);
            if ((there[part / 32] >> part % 32 & 1) && c < m.width) /* an empty part's O may be anything */
                x = fma(w, load(m.part[part], from + c, m.part_type), x);
        }
        if (c < m.width)
            store(m.o, to + c, m.type, x);
    }
    if (lane == 0 && m.lse)
        m.lse[row] = (float)(empty ? none : most + log(sum));
}
