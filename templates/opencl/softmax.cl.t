%# The softmax of each row of a matrix, in portable OpenCL C 1.2. A row has a work-item, or the lanes of a work-group.
% include "opencl/softmax.sizes.t"
% include "opencl/words.t"
% include "opencl/softmax.header.t"
% include "opencl/head.t"
% include "opencl/softmax.args.h"

% own
% include "opencl/begin.t"
% include "opencl/types.t"

% include "opencl/interval.t"

/* The scores of a row from j on; -inf from n on, where the row sees no key and nothing is read. */
${FUNCTION} ${VEC} scores(__global const ${TYPE} *s, long j, long n, const int wide)
{
% if VW == 1
    return j < n ? get4(s + j, 1, 0).x : -INFINITY;
% else
    const int left = (int)clamp(n - j, 0L, 4L);
    return masked(get4(s + j, left, wide), left);
% end
}

${KERNEL}(${GROUP}, 1, 1)${KERNEL_END}
void ${NAME}(__global const ${TYPE} *s, __global ${TYPE_O} *p, ${GIVEN} struct softmax_cl_args a)
{
% if LANES > 1
    ${SHARED} float across[${LANES}];
    const int x = get_local_id(0);
    const long i = get_group_id(0);
% else
    const int x = 0;
    const long i = get_global_id(0);
    if (i >= a.rows)
        return;
% end
    const long n = interval(i, a.keys, a.offset);
    s += a.s_at + get_group_id(2) * a.s_stride[0] + get_group_id(1) * a.s_stride[1] + i * a.s_stride[2];
    p += a.p_at + get_group_id(2) * a.p_stride[0] + get_group_id(1) * a.p_stride[1] + i * a.p_stride[2];
% if VW > 1
    const int wide = ((ulong)s & ${4*type_bytes(DTYPE) - 1}) == 0; /* the row can be read four elements at a time */
% else
    const int wide = 0;
% end
    float top = -INFINITY, sum = 0.0f;
    for (long j = x * ${VW}; j < n; j += ${STEP})
        top = max(top, highest(scores(s, j, n, wide)));
% if LANES > 1
    across[x] = top;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int pair = ${LANES/2}; pair > 0; pair /= 2) {
        if (x < pair)
            across[x] = max(across[x], across[x + pair]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top = across[0];
    barrier(CLK_LOCAL_MEM_FENCE);
% end
    const float low = max(top, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
    for (long j = x * ${VW}; j < n; j += ${STEP})
        sum += total(exp2_v((scores(s, j, n, wide) - low) * 1.44269504f));
% if LANES > 1
    across[x] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int pair = ${LANES/2}; pair > 0; pair /= 2) {
        if (x < pair)
            across[x] += across[x + pair];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = across[0];
% end
    const float part = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long j = x * ${VW}; j < a.keys; j += ${STEP})
        put(exp2_v((scores(s, j, n, wide) - low) * 1.44269504f) * part, p + j, (int)min(${VW}L, a.keys - j));
}
% end_own
