%# The product of two matrices for each head, in portable OpenCL C 1.2, at three levels: a work-item for each element; tiles of both
%# operands in local memory; and work-items that each hold MR rows by NV vectors of C in registers.
% include "opencl/matmul.sizes.t"
% include "opencl/words.t"
% include "opencl/matmul.header.t"
% include "opencl/head.t"
% include "opencl/matmul.args.h"

% own
% include "opencl/begin.t"
% include "opencl/types.t"
% if TILED

/* The columns of m rows of A from `from` on, as [${BQ}][${DEPTH}], with zeros beyond the last of each. */
${FUNCTION} void fill_a(__local float *at, __global const ${TYPE} *a, long ld, int m, int depth, int item, const int wide)
{
    for (int t = item; t < ${BQ*DEPTH/READ}; t += ${ITEMS}) {
        const int i = t / ${DEPTH/READ}, d = t % ${DEPTH/READ}${READ > 1 ? " * 4" : ""};
% if READ == 1
        at[t] = i < m && d < depth ? get4(a + i * ld + d, 1, 0).x : 0.0f;
% else
        *(__local float4 *)(at + i * ${DEPTH} + d) = i < m ? get4(a + i * ld + d, depth - d, wide) : (float4)(0.0f);
% end
    }
}

% if TRANSPOSED
/* The columns of n rows of B from `from` on, transposed to [${DEPTH}][${LDB}], with zeros beyond the last of each. */
${FUNCTION} void fill_b(__local float *bt, __global const ${TYPE_KV} *b, long ld, int n, int depth, int item, const int wide)
{
    for (int t = item; t < ${BK*DEPTH/READ}; t += ${ITEMS}) {
        const int j = t / ${DEPTH/READ}, d = t % ${DEPTH/READ}${READ > 1 ? " * 4" : ""};
% if READ == 1
        bt[d * ${LDB} + j] = j < n && d < depth ? ${GET_KV}(b + j * ld + d, 1, 0).x : 0.0f;
% else
        const float4 f = j < n ? ${GET_KV}(b + j * ld + d, depth - d, wide) : (float4)(0.0f);
        bt[d * ${LDB} + j] = f.x, bt[(d + 1) * ${LDB} + j] = f.y;
        bt[(d + 2) * ${LDB} + j] = f.z, bt[(d + 3) * ${LDB} + j] = f.w;
% end
    }
}
% else
/* n columns of `depth` rows of B, as [${DEPTH}][${LDB}], with zeros beyond the last of each. */
${FUNCTION} void fill_b(__local float *bt, __global const ${TYPE_KV} *b, long ld, int n, int depth, int item, const int wide)
{
    for (int t = item; t < ${BK*DEPTH/READ}; t += ${ITEMS}) {
        const int d = t / ${BK/READ}, j = t % ${BK/READ}${READ > 1 ? " * 4" : ""};
% if READ == 1
        bt[d * ${LDB} + j] = j < n && d < depth ? ${GET_KV}(b + d * ld + j, 1, 0).x : 0.0f;
% else
        *(__local float4 *)(bt + d * ${LDB} + j) = d < depth ? ${GET_KV}(b + d * ld + j, n - j, wide) : (float4)(0.0f);
% end
    }
}
% end
% end

${KERNEL}(${GX}, ${GQ}, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *a, __global const ${TYPE_KV} *b, __global ${TYPE_O} *c, ${GIVEN} struct matmul_cl_args p)
{
% if TILED
    ${SHARED} float at[${BQ*DEPTH}] __attribute__((aligned(64))), bt[${DEPTH*LDB}] __attribute__((aligned(64)));
% end
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(2) % p.heads, batch = get_group_id(2) / p.heads;
    const long i0 = get_group_id(1) * ${ROWS}L, j0 = get_group_id(0) * ${COLUMNS}L;
    a += p.a_at + batch * p.a_stride[0] + head * p.a_stride[1] + i0 * p.a_stride[2];
    b += p.b_at + batch * p.b_stride[0] + head / (p.heads / p.b_heads) * p.b_stride[1] + j0${TRANSPOSED ? " * p.b_stride[2]" : ""};
    c += p.c_at + batch * p.c_stride[0] + head * p.c_stride[1] + i0 * p.c_stride[2] + j0;
    const int m = (int)min(${ROWS}L, p.m - i0), n = (int)min(${COLUMNS}L, p.n - j0); /* the rows and columns that this tile has */
% if not TILED
    if (y >= m || x >= n)
        return;
    float sum = 0.0f;
    for (long d = 0; d < p.k; d++)
        sum = fma(get4(a + y * p.a_stride[2] + d, 1, 0).x, ${GET_KV}(b + ${TRANSPOSED ? "x * p.b_stride[2] + d" : "d * p.b_stride[2] + x"}, 1, 0).x, sum);
    put(p.scale * sum, c + y * p.c_stride[2] + x, 1);
% else
    const int item = y * ${GX} + x;
% if READ == 1
    const int wide = 0;
% else
    const int wide = ((p.a_stride[2] | p.b_stride[2]) & 3) == 0 && ((ulong)a & ${4*type_bytes(DTYPE) - 1}) == 0 &&
        ((ulong)b & ${4*type_bytes(DTYPE_KV) - 1}) == 0; /* rows can be read four elements at a time */
% end
% for r in 0..MR
% for v in 0..NV
    ${VEC} c${r}_${v} = 0.0f;
% end
% end
    for (long from = 0; from < p.k; from += ${DEPTH}) {
        const int depth = (int)min(${DEPTH}L, p.k - from);
        fill_a(at, a + from, p.a_stride[2], m, depth, item, wide);
        fill_b(bt, b + from${TRANSPOSED ? "" : " * p.b_stride[2]"}, p.b_stride[2], n, depth, item, wide);
        barrier(CLK_LOCAL_MEM_FENCE);
% if READ == 1
        for (int d = 0; d < ${DEPTH}; d++) { /* rows y, y + ${GQ}, ... by columns x, x + ${GX}, ... */
            __local const float *row = bt + d * ${LDB} + x;
% for v in 0..NV
            const float b${v} = row[${v*STEP}];
% end
% for r in 0..MR
            const float a${r} = at[(y + ${r*GQ}) * ${DEPTH} + d];
% end
% for r in 0..MR
% for v in 0..NV
            c${r}_${v} = fma(a${r}, b${v}, c${r}_${v});
% end
% end
        }
% else
        for (int d = 0; d < ${DEPTH}; d += 4) { /* rows y, y + ${GQ}, ... by the vectors x, x + ${GX}, ... of columns */
% for r in 0..MR
            const float4 a${r} = *(__local const float4 *)(at + (y + ${r*GQ}) * ${DEPTH} + d);
% end
% for u in 0..4
            {
                __local const float *row = bt + (d + ${u}) * ${LDB} + x * ${VW};
% for v in 0..NV
                const ${VEC} b${v} = load(row + ${v*STEP});
% end
% for r in 0..MR
% for v in 0..NV
                c${r}_${v} = fma((${VEC})(a${r}.s${u}), b${v}, c${r}_${v});
% end
% end
            }
% end
        }
% end
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% for r in 0..MR
    if (y + ${r*GQ} < m) {
        __global ${TYPE_O} *row = c + (y + ${r*GQ}) * p.c_stride[2] + x * ${VW};
% for v in 0..NV
        put(p.scale * c${r}_${v}, row + ${v*STEP}, n - ${v*STEP} - x * ${VW});
% end
    }
% end
% end
}
% end_own
