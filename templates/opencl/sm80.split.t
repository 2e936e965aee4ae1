%# For kernels of isa sm80 that split keys: what becomes of the rows of a slice, which are queries of several heads.
/* Divides the rows of a slice whose keys are all in one split, and writes their LSE; notes the state of others beside their part of
 * the output. */
INLINED void close_rows(float *out, const struct worker *p, struct row_states *rows, const struct attn_cl_args *a, __global float *lse${SINK ? "," : ")"}
% if SINK
    __global const float *sinks)
% end
{
    __local volatile const struct tile *at = TILE(p);
    const int whole = at->splits == 1;
    __global float *states = p->parts + state_at(slice_at(at, &p->d, a), at->split, p->warp * ${MR} + p->lane / 4, &p->d);
    #pragma unroll
    for (int r = 0; r < ${2*FR}; r++) {
        float sum = rows[r / 2].sum[r % 2];
        const float top = finite(rows[r / 2].top[r % 2])${ADDS ? "" : " * p->scale"};
        const int n = p->warp * ${MR} + p->lane / 4 + 8 * r;
        const struct row y = row_at(n, at, &p->d, a);
        sum += across(sum, 1);
        sum += across(sum, 2);
        if (whole) {
% if SINK
            const float inverse = y.is ? inverse_with_sink(sum, top, sinks[at->g * p->d.group + y.h]${LOG2E}) : 0.0f;
% else
            const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
% end
            #pragma unroll
            for (int m = 0; m < ${NO}; m++)
                if (m / 2 % 2 == r % 2)
                    out[r / 2 * ${NO} + m] *= inverse;
        }
        if (!y.is || (p->lane & 3) != 0)
            continue;
        leave_state(sum, top, &y, whole, states + 16 * r * p->d.splits, at, &p->d, a, lse);
    }
}

/* Leaves the rows of a split. The group that comes last with a part of a slice merges them all. Groups behind which there are no others, or
 * few, wait a while for the last one and then help: one alone would read the parts of many splits for longer than it took to make
 * them. Nobody waits for ever, since some of the others may not have begun. */
INLINED void leave_part(struct worker *x, const float *out, const struct attn_cl_args *a, __global ${TYPE_O} *o, __global float *lse${SINK ? "," : ")"}
% if SINK
    __global const float *sinks)
% end
{
    __local volatile const struct tile *at = TILE(x);
    __local volatile int *const merges = (__local volatile int *)(x->memory + ${AT_TILE + 120});
    const int slice = slice_at(at, &x->d, a);
    __global uint *const count = COUNTERS(slice);
    __global float *part = x->parts + part_at(slice, at->split, &x->d);
    uint began = 0;
    #pragma unroll
    for (int r = 0; r < ${2*FR}; r++) {
        const int i = x->warp * ${MR} + x->lane / 4 + 8 * r;
        if (row_at(i, at, &x->d, a).is) {
            #pragma unroll
% if IN_FOURS
            for (int c = 0; c < ${DV/16}; c++) { /* a work-item has four columns of every 16 */
                const float *const y = out + r / 2 * ${NO} + 8 * c + r % 2 * 2;
                if (${DV <= PART_ROW} || 16 * c + 4 * (x->lane & 3) < ${PART_ROW})
                    *(__global float4 *)(part + i * ${PART_ROW} + 16 * c + 4 * (x->lane & 3)) = ${FLOAT4}(y[0], y[4], y[1], y[5]);
            }
% else
            for (int m = 0; m < ${PART_ROW/8}; m++) /* a fragment may have more columns, which would be the next row's */
                *(__global float2 *)(part + i * ${PART_ROW} + 8 * m + 2 * (x->lane & 3)) =
                    ${FLOAT2}(out[r / 2 * ${NO} + 4 * m + r % 2 * 2], out[r / 2 * ${NO} + 4 * m + r % 2 * 2 + 1]);
% end
        }
    }
    if (x->item == 0)
        began = counted(count + 1);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (x->item == 0) {
        const int stays = group_number() + 2 * multiprocessors() >= group_count();
        int last = comes_last(count, began, at->splits), complete = last;
        for (int polls = 0; stays && !complete && polls < 64; polls++)
            complete = all_came(count, began, at->splits);
        merges[0] = complete ? last ? 2 : 1 : 0, merges[1] = (int)began;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (merges[0])
        merge(x->parts + part_at(slice, 0, &x->d), x->lane, merges[0] == 2 ? x->warp : -1, merging(count, (uint)merges[1]), at, &x->d, a, o, lse${SINK ? ", sinks" : ""});
}
