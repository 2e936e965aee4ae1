
/* ---- CUDA ---- */

% include "bundle/plan.t"

enum { ${UPPER}_CUDA_INVALID = 1, ${UPPER}_CUDA_NO_CODE = 209 };

/* Pointers to functions are not void *. */
static int ${NAME}_look_up(void *(*find)(void *library, const char *name), void *library, const char *name, void *to, size_t size)
{
    void *const found = find(library, name);
    memcpy(to, &found, size);
    return found != NULL;
}

int ${NAME}_open_cuda(struct ${NAME}_cuda_driver *driver, void *(*find)(void *library, const char *name), void *library)
{
    int all = sizeof(void *) == 8 && sizeof driver->cuLaunchKernel == sizeof(void *);
    all = all && ${NAME}_look_up(find, library, "cuModuleLoadData", &driver->cuModuleLoadData, sizeof(void *));
    all = all && ${NAME}_look_up(find, library, "cuModuleGetFunction", &driver->cuModuleGetFunction, sizeof(void *));
    all = all && ${NAME}_look_up(find, library, "cuFuncSetAttribute", &driver->cuFuncSetAttribute, sizeof(void *));
    all = all && ${NAME}_look_up(find, library, "cuLaunchKernel", &driver->cuLaunchKernel, sizeof(void *));
    return all ? 0 : -1;
}

size_t ${NAME}_text_cuda(const struct ${NAME}_cuda_kernel *kernel, char *out)
{
    size_t bytes = 0;
    unsigned i;
    for (i = 0; i < kernel->lines; i++) {
        const size_t size = strlen(kernel->text[i]);
        if (out)
            memcpy(out + bytes, kernel->text[i], size);
        bytes += size;
    }
    if (out)
        out[bytes] = 0;
    return bytes + 1;
}

int ${NAME}_load_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel, const void *image,
    void **module, void **function)
{
    const int dynamic_shared_size = 8; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    const void *const images[3] = {image, image ? NULL : (const void *)kernel->cubin, image ? NULL : (const void *)kernel->ptx};
    int code = ${UPPER}_CUDA_NO_CODE, i;
    *module = *function = NULL;
    for (i = 0; i < 3 && code != 0; i++)
        if (images[i])
            code = driver->cuModuleLoadData(module, images[i]);
    if (code == 0)
        code = driver->cuModuleGetFunction(function, *module, kernel->variant);
    if (code == 0 && kernel->capability) /* portable kernels declare theirs */
        code = driver->cuFuncSetAttribute(*function, dynamic_shared_size, (int)kernel->local_bytes);
    return code;
}

/* What its callers leave to be filled in. */
static void ${NAME}_complete(struct ${NAME}_cuda_run *r)
{
    r->args.has_lse = r->lse != 0, r->args.has_lens = r->kv_lens != 0;
    r->features.has_q_starts = r->q_starts != 0, r->features.has_kv_starts = r->kv_starts != 0;
    r->features.q_end_at = r->features.q_starts_at + r->args.batch;
}

int ${NAME}_memory_cuda(const struct ${NAME}_cuda_kernel *kernel, const struct ${NAME}_cuda_run *run, size_t bytes[3])
{
    struct ${NAME}_cuda_run r = *run;
    struct ${NAME}_cuda_plan plan;
    bytes[0] = bytes[1] = bytes[2] = 0;
    ${NAME}_complete(&r);
    if (${NAME}_plan_cuda(kernel, &r.args, &r.features, &plan) != 0 || (kernel->maps && r.units < 1))
        return ${UPPER}_CUDA_INVALID;
    if (kernel->maps)
        bytes[0] = 128 + (size_t)r.units * 512;
    if (kernel->split) {
        const size_t slices = (size_t)plan.split.slices * (size_t)r.args.kv_heads * (size_t)r.args.batch;
        bytes[1] = 4 * ATTN_CL_COUNTERS * (slices > 0 ? slices : 1);
        bytes[2] = plan.split.splits > 1 ? 4 * slices * (size_t)plan.split.splits * (size_t)plan.split.part : 64;
    }
    if (kernel->widened) {
        bytes[1] = (size_t)plan.tiles_done;
        bytes[2] = (size_t)plan.wide;
    }
    return 0;
}

/* Rows of Q, K, V and O that begin at multiples of 16 bytes, and their addresses for tensor maps. */
static int ${NAME}_place_cuda(const struct ${NAME}_cuda_kernel *k, const struct ${NAME}_cuda_run *r, int64_t v_behind, struct attn_cuda_maps *maps)
{
    const uint64_t from[4] = {r->q, r->k, r->v, r->o};
    const int64_t at[4] = {r->args.q_at, r->args.k_at, r->args.v_at, r->args.o_at};
    attn_cl_uint64 *const to[4] = {maps->q, maps->k, maps->v, maps->o};
    int i;
    for (i = 0; i < 4; i++) {
        const int of_kv = i == 1 || i == 2, blocks = of_kv && k->widened == 2; /* which are read two bytes at a time */
        const uint64_t address = from[i] + (uint64_t)at[i] * (k->narrow && of_kv ? 1 : 2);
        if (k->whole_rows && (blocks ? from[i] % 2 : address % 16) != 0 && !(i == 3 && k->o_differs))
            return -1;
        if (k->whole_rows == 2)
            to[i][0] = address;
    }
    if (k->widened) {
        maps->k[0] = r->parts;
        maps->v[0] = r->parts + (uint64_t)v_behind;
    }
    return 0;
}

/* With parameters in their order. */
static int ${NAME}_put_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *k,
    const struct ${NAME}_cuda_run *r, const struct ${NAME}_cuda_plan *plan, const unsigned grid[3])
{
    uint64_t all[6] = {r->q, r->k, r->v, r->o, r->lse, r->kv_lens}, memory[3] = {r->room, r->done, r->parts};
    uint64_t more[9] = {r->bias, r->mask, r->slopes, r->sinks, r->q_starts, r->kv_starts, r->pages, r->k_scales, r->v_scales};
    struct attn_cl_args args = r->args;
    struct attn_cl_features features = r->features;
    struct attn_cuda_maps maps = plan->maps;
    struct attn_cl_split split = plan->split;
    void *parameter[6 + 1 + 9 + 1 + 2 + 3];
    int n = 0, i;
    for (i = 0; i < 6; i++)
        parameter[n++] = &all[i];
    parameter[n++] = &args;
    for (i = 0; i < 9; i++)
        if (k->takes >> i & 1)
            parameter[n++] = &more[i];
    if (k->features)
        parameter[n++] = &features;
    if (k->maps) {
        parameter[n++] = &maps;
        parameter[n++] = &memory[0];
    } else if (k->capability)
        parameter[n++] = &maps.together;
    if (k->split)
        parameter[n++] = &split;
    if (k->split || k->widened) {
        parameter[n++] = &memory[1];
        parameter[n++] = &memory[2];
    }
    return driver->cuLaunchKernel(r->function, grid[0], grid[1], grid[2], (unsigned)k->group[0], (unsigned)k->group[1], 1,
        k->capability ? (unsigned)k->local_bytes : 0, r->stream, parameter, NULL);
}

/* Of portable kernels: a block for each tile of each head of each sequence. */
static int ${NAME}_put_pieces(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *k,
    const struct ${NAME}_cuda_run *r, const struct ${NAME}_cuda_plan *plan)
{
    struct attn_cl_piece p = {0, 0, 0, 0};
    int code = 0, more = attn_cl_next_piece(&r->args, &p);
    if (r->args.heads > ATTN_CL_MOST && r->features.has_q_starts && r->lse)
        return ${UPPER}_CUDA_INVALID;
    while (more) {
        struct ${NAME}_cuda_run piece = *r;
        const unsigned grid[3] = {(unsigned)plan->tiles, (unsigned)p.heads, (unsigned)p.batch};
        attn_cl_cut(&p, k->takes >> 6 & 1, &piece.args, &piece.features);
        code = ${NAME}_put_cuda(driver, k, &piece, plan, grid);
        more = code == 0 && !attn_cl_last_piece(&r->args, &p) && attn_cl_next_piece(&r->args, &p);
    }
    return code;
}

int ${NAME}_launch_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel,
    const struct ${NAME}_cuda_run *run)
{
    const struct ${NAME}_cuda_kernel *const k = kernel;
    struct ${NAME}_cuda_run r = *run;
    struct ${NAME}_cuda_plan plan;
    unsigned grid[3] = {0, 1, 1};
    ${NAME}_complete(&r);
    if (${NAME}_plan_cuda(k, &r.args, &r.features, &plan) != 0)
        return ${UPPER}_CUDA_INVALID;
    if (plan.tiles * r.args.heads * r.args.batch == 0)
        return 0;
    if (!k->capability)
        return ${NAME}_put_pieces(driver, k, &r, &plan);
    if ((k->maps && !r.room) || ((k->split || k->widened) && (!r.done || !r.parts)) || r.units < 1 || ${NAME}_place_cuda(k, &r, plan.v_behind, &plan.maps) != 0)
        return ${UPPER}_CUDA_INVALID;
    plan.maps.together = attn_cl_near(r.args.batch, r.args.heads, r.args.kv_heads, r.args.kv_len, plan.tiles, k->head_dim + k->head_dim_v,
        (unsigned)r.units);
    grid[0] = (unsigned)(k->one_tile || plan.units_of_work < r.units ? plan.units_of_work : r.units);
    return ${NAME}_put_cuda(driver, k, &r, &plan, grid);
}
