/* What a launch takes. Members that the kernel does not need may be 0. */
struct ${NAME}_cl_run {
    cl_command_queue queue;
    cl_kernel kernel;                 /* of the variant's name, in a program built of its text or PTX */
    cl_mem q, k, v, o, lse, kv_lens;  /* lse and kv_lens may be NULL */
    cl_mem bias, mask, slopes, sinks; /* of its features */
    cl_mem q_starts, kv_starts, pages; /* the starts of a side that is not packed are NULL */
    cl_mem k_scales, v_scales;
    struct attn_cl_args args;         /* has_lse and has_lens are filled in by the launch */
    struct attn_cl_features features; /* and so are q_end_at, has_q_starts and has_kv_starts */
    cl_mem room, done, parts;         /* as ${NAME}_memory_cl says; for one launch at a time */
    cl_uint waits;                    /* how many events there are to wait for */
    const cl_event *wait;
    cl_event *event;                  /* that of the launch, or NULL */
};

% include "bundle/plan.t"

/* The device's compute units. */
static inline cl_int ${NAME}_units_cl(cl_command_queue queue, cl_uint *units)
{
    cl_device_id device;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof *units, units, NULL);
    return code;
}

/* The bytes of the device's memory that a launch takes beside its tensors, in the order of run->room, run->done and run->parts; 0:
 * none. It reads run->queue, args, features, kv_lens and the starts. The first two are all zeros before the first launch, and each leaves them as the next needs them. */
static inline cl_int ${NAME}_memory_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *run, size_t bytes[3])
{
    struct attn_cl_args args = run->args;
    struct attn_cl_features f = run->features;
    const struct attn_cl_args *const a = &args;
    struct ${NAME}_cl_plan plan;
    cl_uint units = 0;
    cl_int code;
    args.has_lens = run->kv_lens != NULL;
    f.has_q_starts = run->q_starts != NULL, f.has_kv_starts = run->kv_starts != NULL;
    code = ${NAME}_plan_cl(k, a, &f, &plan) == 0 ? CL_SUCCESS : CL_INVALID_VALUE;
    bytes[0] = bytes[1] = bytes[2] = 0;
    if (code == CL_SUCCESS && k->maps) {
        code = ${NAME}_units_cl(run->queue, &units);
        bytes[0] = 128 + (size_t)units * 512;
    }
    if (code == CL_SUCCESS && k->split) {
        const size_t slices = (size_t)plan.split.slices * (size_t)a->kv_heads * (size_t)a->batch;
        bytes[1] = 4 * ATTN_CL_COUNTERS * (slices > 0 ? slices : 1);
        bytes[2] = plan.split.splits > 1 ? 4 * slices * (size_t)plan.split.splits * (size_t)plan.split.part : 64;
    }
    if (code == CL_SUCCESS && k->widened) {
        bytes[1] = (size_t)plan.tiles_done;
        bytes[2] = (size_t)plan.wide;
    }
    return code;
}

static inline cl_int ${NAME}_set_cl(cl_kernel kernel, cl_uint *at, size_t size, const void *value,
    cl_int before)
{
    return before == CL_SUCCESS ? clSetKernelArg(kernel, (*at)++, size, value) : before;
}

/* Sets the arguments in their order. */
static inline cl_int ${NAME}_arguments_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *r,
    const struct ${NAME}_cl_plan *plan, int together)
{
    const cl_mem all[6] = {r->q, r->k, r->v, r->o, r->lse ? r->lse : r->o, r->kv_lens ? r->kv_lens : r->q};
    const cl_mem more[9] = {r->bias, r->mask, r->slopes, r->sinks, r->q_starts, r->kv_starts, r->pages, r->k_scales, r->v_scales};
    struct attn_cl_maps maps = plan->maps;
    cl_int code = CL_SUCCESS;
    cl_uint at = 0;
    int i;
    maps.together = together;
    for (i = 0; i < 6; i++)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof all[i], &all[i], code);
    code = ${NAME}_set_cl(r->kernel, &at, sizeof r->args, &r->args, code);
    for (i = 0; i < 9; i++)
        if (k->takes >> i & 1)
            code = ${NAME}_set_cl(r->kernel, &at, sizeof more[i], more[i] ? &more[i] : &r->q, code);
    if (k->features)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof r->features, &r->features, code);
    if (k->maps) {
        code = ${NAME}_set_cl(r->kernel, &at, sizeof maps, &maps, code);
        code = ${NAME}_set_cl(r->kernel, &at, sizeof r->room, &r->room, code);
    } else if (k->capability)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof together, &together, code);
    if (k->split)
        code = ${NAME}_set_cl(r->kernel, &at, sizeof plan->split, &plan->split, code);
    if (k->split || k->widened) {
        code = ${NAME}_set_cl(r->kernel, &at, sizeof r->done, &r->done, code);
        code = ${NAME}_set_cl(r->kernel, &at, sizeof r->parts, &r->parts, code);
    }
    return code;
}

/* Launches a kernel of isa sm80 or sm90: work-groups in a row. */
static inline cl_int ${NAME}_launch_row_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *r,
    const struct ${NAME}_cl_plan *plan)
{
    cl_uint units = 0;
    cl_int code = ${NAME}_units_cl(r->queue, &units);
    if (code == CL_SUCCESS) {
        const struct attn_cl_args *a = &r->args;
        const int together = attn_cl_near(a->batch, a->heads, a->kv_heads, a->kv_len, plan->tiles, k->head_dim + k->head_dim_v,
            units);
        const int64_t groups = k->one_tile || plan->units_of_work < units ? plan->units_of_work : units;
        const size_t local = (size_t)k->group[0], global = local * (size_t)groups;
        code = ${NAME}_arguments_cl(k, r, plan, together);
        if (code == CL_SUCCESS)
            code = clEnqueueNDRangeKernel(r->queue, r->kernel, 1, NULL, &global, &local, r->waits, r->wait, r->event);
    }
    return code;
}

/* Launches a portable kernel: a work-group for each tile of each head of each sequence. */
static inline cl_int ${NAME}_launch_pieces_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *r,
    const struct ${NAME}_cl_plan *plan)
{
    struct attn_cl_piece p = {0, 0, 0, 0};
    cl_int code = CL_SUCCESS;
    int pieces = 0;
    if (r->args.heads > ATTN_CL_MOST && r->features.has_q_starts && r->lse)
        return CL_INVALID_VALUE;
    for (; code == CL_SUCCESS && attn_cl_next_piece(&r->args, &p); pieces++) {
        struct ${NAME}_cl_run piece = *r;
        const int one = pieces == 0 && attn_cl_last_piece(&r->args, &p);
        const size_t local[3] = {(size_t)k->group[0], (size_t)k->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)plan->tiles, local[1] * (size_t)p.heads, (size_t)p.batch};
        attn_cl_cut(&p, k->takes >> 6 & 1, &piece.args, &piece.features);
        code = ${NAME}_arguments_cl(k, &piece, plan, 0);
        if (code == CL_SUCCESS)
            code = clEnqueueNDRangeKernel(r->queue, r->kernel, 3, NULL, global, local, r->waits, r->wait, one ? r->event : NULL);
    }
    if (code == CL_SUCCESS && pieces > 1 && r->event)
        code = clEnqueueMarkerWithWaitList(r->queue, 0, NULL, r->event); /* of all before it */
    return code;
}

/* Sets the arguments, tensor maps too, and enqueues the kernel. Returns CL_SUCCESS, or OpenCL's error; CL_INVALID_VALUE for lengths,
 * strides or offsets that the kernel does not take. Only one thread at a time may call it with the same cl_kernel, whose arguments
 * it sets. */
static inline cl_int ${NAME}_launch_cl(const struct ${NAME}_cl_kernel *k, const struct ${NAME}_cl_run *run)
{
    struct ${NAME}_cl_run r = *run;
    struct ${NAME}_cl_plan plan;
    r.args.has_lse = r.lse != NULL, r.args.has_lens = r.kv_lens != NULL;
    r.features.has_q_starts = r.q_starts != NULL, r.features.has_kv_starts = r.kv_starts != NULL;
    r.features.q_end_at = r.features.q_starts_at + r.args.batch;
    if (${NAME}_plan_cl(k, &r.args, &r.features, &plan) != 0)
        return CL_INVALID_VALUE;
    if (plan.tiles * r.args.heads * r.args.batch == 0)
        return r.event ? clEnqueueMarkerWithWaitList(r.queue, r.waits, r.wait, r.event) : CL_SUCCESS;
    if ((k->maps && !r.room) || ((k->split || k->widened) && (!r.done || !r.parts)))
        return CL_INVALID_MEM_OBJECT;
    return k->capability ? ${NAME}_launch_row_cl(k, &r, &plan) : ${NAME}_launch_pieces_cl(k, &r, &plan);
}
