
/* ---- for devices ---- */

% for i in KERNELS..ALL
static const char *const ${symbol(i)}_text[] = {
% lines i
};
% if has_ptx(i)
static const unsigned char ${symbol(i)}_ptx[] = {
% bytes i
% if CUDA
    0, /* the end of the text */
% end
};
% end
% if has_cubin(i)
static const unsigned char ${symbol(i)}_cubin[] = {
% cubin i
};
% end
% end

struct ${NAME}_${W}_row {
    struct ${NAME}_${W}_kernel kernel;
    short has[${UPPER}_FIELDS];
    int few; /* it is for few queries */
};
static const struct ${NAME}_${W}_row ${NAME}_${W}_rows[] = {
% for i in KERNELS..ALL
    {{"${NAME}_${problem(i)}",
      "${variant(i)}",
      ${symbol(i)}_text,
      sizeof ${symbol(i)}_text / sizeof *${symbol(i)}_text,
% if has_cubin(i)
      ${symbol(i)}_cubin, sizeof ${symbol(i)}_cubin,
% elif CUDA
      NULL, 0,
% end
% if has_ptx(i)
      ${symbol(i)}_ptx, sizeof ${symbol(i)}_ptx${CUDA ? " - 1" : ""},
% else
      NULL, 0,
% end
      ${capability(i)}, ${capability_most(i)}, {${group_0(i)}, ${group_1(i)}}, ${tile_rows(i)}, ${tile_keys(i)}, ${local_bytes(i)},
      ${takes(i)}, ${has_features(i)}, ${rows_begin(i)}, ${head_dim(i)}, ${head_dim_v(i)}, ${bf16(i)}, ${o_differs(i)}, ${narrow(i)},
      ${maps(i)}, ${one_tile(i)}, ${widened(i)}, ${split(i)}, ${window(i)}},
     {
% for f in 0..FIELDS
      ${value(i, f)},
% end
     },
     ${few(i)}},
% end
};
enum { ${UPPER}_DEVICE_ROWS = sizeof ${NAME}_${W}_rows / sizeof *${NAME}_${W}_rows };

/* The best for that capability: of the highest level, then for as many queries. fits: how near the nearest problem is, and
 * needs: of those that are it, the least capability. */
static const struct ${NAME}_${W}_row *${NAME}_${W}_best(const struct ${NAME}_problem *p, int capability, int *fits, int *needs)
{
    const struct ${NAME}_${W}_row *best = NULL;
    const int64_t queries = p->kv_heads > 0 ? p->q_len * (p->heads / p->kv_heads) : 0;
    int asked[${UPPER}_FIELDS], most = -1, i;
    ${NAME}_read(p, asked);
    *fits = 0, *needs = 999;
    for (i = 0; i < ${UPPER}_DEVICE_ROWS; i++) {
        const struct ${NAME}_${W}_row *row = &${NAME}_${W}_rows[i];
        const int few = queries > 0 && queries < ${FEW}, value = 2 * row->kernel.capability + (few == row->few);
        const int n = ${NAME}_fits(row->has, asked);
        *fits = n > *fits ? n : *fits;
        if (n == 3 && row->kernel.capability < *needs)
            *needs = row->kernel.capability;
        if (n == 3 && row->kernel.capability <= capability && capability <= row->kernel.most && value > most) {
            most = value;
            best = row;
        }
    }
    return best;
}

int ${NAME}_find_${W}(const struct ${NAME}_problem *problem, int capability, struct ${NAME}_${W}_kernel *kernel)
{
    int fits, needs;
    const struct ${NAME}_${W}_row *row = ${NAME}_${W}_best(problem, capability, &fits, &needs);
    if (!row)
        return -1;
    *kernel = row->kernel;
    return capability >= 80 && row->kernel.capability == 0;
}

const char *${NAME}_supports_${W}(const struct ${NAME}_problem *problem, int capability)
{
    int fits, needs;
    const struct ${NAME}_${W}_row *row = ${NAME}_${W}_best(problem, capability, &fits, &needs);
    if (row && capability >= 80 && row->kernel.capability == 0)
        return "the kernels for it use no tensor cores; expected one of isa sm80 to be faster";
    if (row)
        return NULL;
    if (fits < 3)
        return ${NAME}_why(fits);
    if (needs == 90)
        return "the kernels for it need a device of NVIDIA's of compute capability 9.0; expected such a one";
    return "the kernels for it need a device of NVIDIA's of compute capability 8.0 or later; expected such a one";
}

void ${NAME}_${W}_args(const struct ${NAME}_problem *problem, struct attn_cl_args *args)
{
    const int width = problem->head_dim > 0 ? problem->head_dim : 1;
    const int width_v = problem->head_dim_v ? problem->head_dim_v : width;
    memset(args, 0, sizeof *args);
% include "bundle/args.t"
}
% if CUDA
% include "bundle/cuda.t"
% end
