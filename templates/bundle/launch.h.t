struct ${NAME}_cl_run {
    cl_command_queue queue;
    cl_kernel kernel;                 /* of the variant's name, in a program built of its text or PTX */
    cl_mem q, k, v, o, lse, kv_lens;  /* lse and kv_lens: or NULL */
    cl_mem bias, mask, slopes, sinks; /* those that the kernel takes, and of the next: */
    cl_mem q_starts, kv_starts, pages; /* starts: or NULL, of a side that is not packed */
    struct attn_cl_args args;         /* but for has_lse and has_lens */
    struct attn_cl_features features; /* but for q_end_at, has_q_starts and has_kv_starts */
    cl_uint waits;
    const cl_event *wait;
    cl_event *event;                  /* or NULL */
};

% include "opencl/near.h"

static inline int ${NAME}_begins_whole(const int64_t *stride, int64_t at)
{
    return ((stride[0] | stride[1] | stride[2] | at) & 7) == 0;
}

/* The work-groups along each side. CL_INVALID_VALUE for lengths, strides or offsets that the kernel does not take. */
static inline cl_int ${NAME}_groups_cl(const struct ${NAME}_cl_kernel *k, const struct attn_cl_args *a,
    int64_t groups[3])
{
    const int64_t most = 65535, tiles = (a->q_len + k->rows - 1) / k->rows; /* most: NVIDIA's limit along two sides */
    const int whole = ${NAME}_begins_whole(a->q_stride, a->q_at) && ${NAME}_begins_whole(a->k_stride, a->k_at) &&
                      ${NAME}_begins_whole(a->v_stride, a->v_at) && ${NAME}_begins_whole(a->o_stride, a->o_at);
    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0 || a->heads > most || a->batch > most)
        return CL_INVALID_VALUE;
    if (a->q_len >= 1 << 30 || a->kv_len >= 1 << 30 || (k->whole_rows && !whole))
        return CL_INVALID_VALUE;
    groups[0] = k->capability ? tiles * a->heads * a->batch : tiles;
    groups[1] = k->capability ? 1 : a->heads;
    groups[2] = k->capability ? 1 : a->batch;
    return groups[0] < 1 << 30 ? CL_SUCCESS : CL_INVALID_VALUE;
}

static inline cl_int ${NAME}_units_cl(cl_command_queue queue, cl_uint *units)
{
    cl_device_id device;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof *units, units, NULL);
    return code;
}

static inline cl_int ${NAME}_set_cl(cl_kernel kernel, cl_uint *at, size_t size, const void *value,
    cl_int before)
{
    return before == CL_SUCCESS ? clSetKernelArg(kernel, (*at)++, size, value) : before;
}

/* Sets the arguments in their order and enqueues the kernel. CL_SUCCESS, or OpenCL's error. As all that sets arguments, it is
 * for one thread at a time with one cl_kernel. */
static inline cl_int ${NAME}_launch_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *r)
{
    struct attn_cl_args a = r->args;
    struct attn_cl_features f = r->features;
    const cl_mem all[6] = {r->q, r->k, r->v, r->o, r->lse ? r->lse : r->o, r->kv_lens ? r->kv_lens : r->q};
    const cl_mem more[7] = {r->bias, r->mask, r->slopes, r->sinks, r->q_starts, r->kv_starts, r->pages};
    cl_uint at = 0, units = 0;
    int64_t groups[3] = {0, 0, 0};
    cl_int code = ${NAME}_groups_cl(k, &a, groups);
    int i, near;
    if (code == CL_SUCCESS && groups[0] * groups[1] * groups[2] == 0) /* nothing to write */
        return r->event ? clEnqueueMarkerWithWaitList(r->queue, r->waits, r->wait, r->event) : CL_SUCCESS;
    a.has_lse = r->lse != NULL, a.has_lens = r->kv_lens != NULL;
    f.has_q_starts = r->q_starts != NULL, f.has_kv_starts = r->kv_starts != NULL;
    f.q_end_at = f.q_starts_at + a.batch;
    for (i = 0; i < 6; i++)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof all[i], &all[i], code);
    code = ${NAME}_set_cl(r->kernel, &at, sizeof a, &a, code);
    for (i = 0; i < 7; i++)
        if (k->takes >> i & 1)
            code = ${NAME}_set_cl(r->kernel, &at, sizeof more[i], more[i] ? &more[i] : &r->q, code);
    if (k->features)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof f, &f, code);
    if (k->capability && code == CL_SUCCESS) {
        code = ${NAME}_units_cl(r->queue, &units);
        near = attn_cl_near(a.batch, a.heads, a.kv_heads, a.kv_len, (a.q_len + k->rows - 1) / k->rows, k->head_dims,
            units);
        code = ${NAME}_set_cl(r->kernel, &at, sizeof near, &near, code);
    }
    {
        const size_t local[3] = {(size_t)k->group[0], (size_t)k->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)groups[0], local[1] * (size_t)groups[1], (size_t)groups[2]};
        if (code == CL_SUCCESS)
            code = clEnqueueNDRangeKernel(r->queue, r->kernel, 3, NULL, global, local, r->waits, r->wait, r->event);
        return code;
    }
}
