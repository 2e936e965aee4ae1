% include "opencl/near.h"
% if CUDA
% include "cuda/maps.h"
% else
% include "opencl/maps.h"
% end
% include "opencl/split.h"
% include "opencl/tma.h"
% include "opencl/divide.h"
% include "opencl/wide.h"
% include "opencl/pieces.h"

/* What a launch is made of; maps are for kernels that take them, split for those that split keys, and the last three for those that widen
 * keys and values once: the bytes of their memory and of its counters, and where values begin in it. */
struct ${NAME}_${W}_plan {
    int64_t tiles, units_of_work; /* of queries, along a head; of all that groups may take */
    struct attn_${W}_maps maps;
    struct attn_cl_split split;
    int64_t wide, tiles_done, v_behind;
};

/* 0; or -1 for lengths, heads, strides or offsets that the kernel does not take. */
static inline int ${NAME}_plan_${W}(const struct ${NAME}_${W}_kernel *k, const struct attn_cl_args *a,
    const struct attn_cl_features *f, struct ${NAME}_${W}_plan *out)
{
    const int blocks = k->widened == 2; /* which may begin anywhere */
    const int64_t most = 1 << 30, at[4] = {a->q_at, blocks ? 0 : a->k_at, blocks ? 0 : a->v_at, a->o_at};
    int64_t kv[2];
    attn_cl_uint64 *const to[4] = {out->maps.q, out->maps.k, out->maps.v, out->maps.o};
    struct attn_cl_tensor x[4];
    struct attn_cl_args seen = *a; /* K and V as maps describe them */
    const int mapped = k->whole_rows == 2;
    const int numbers[2] = {attn_cl_numbers(0, blocks, k->bf16), attn_cl_numbers(1, blocks, k->bf16)};
    int i, s, box;
    memset(out, 0, sizeof *out);
    if (a->batch < 0 || a->heads < 0 || a->kv_heads < 1 || a->heads % a->kv_heads != 0 || a->q_len < 0 || a->kv_len < 0)
        return -1;
    if (a->q_len >= most || a->kv_len >= most || a->heads >= most || a->batch >= most)
        return -1;
    out->tiles = (a->q_len + k->rows - 1) / k->rows;
    if (out->tiles == 0 || a->heads == 0 || a->batch == 0) /* nothing to write */
        return 0;
    if (k->split)
        out->units_of_work = attn_cl_divide(a, k->window ? f->window : NULL, k->takes >> 4 & 1, k->split, k->rows, k->keys,
            k->head_dim_v, &out->split);
    else if (!k->capability) /* in pieces, if need be */
        out->units_of_work = out->tiles;
    else if (out->tiles * a->heads < most / a->batch)
        out->units_of_work = out->tiles * a->heads * a->batch;
    if (k->widened == 1) {
        if (a->k_at % 16 != 0 || a->v_at % 16 != 0)
            return -1;
        attn_cl_sides_of_kv(a, f, k->takes >> 6 & 1, kv);
        for (s = 0; s < 3; s++) {
            const int64_t count = s == 1 ? a->kv_heads : kv[s / 2];
            if (count > 1 && (a->k_stride[s] % 16 != 0 || a->v_stride[s] % 16 != 0))
                return -1;
        }
    }
    if (k->widened) {
        out->wide = attn_cl_widened(a, k->head_dim, k->head_dim_v, k->keys, blocks, k->bf16, &out->tiles_done, &seen,
            &out->v_behind);
        if (out->wide < 0)
            return -1;
    }
    box = attn_cl_tensors(&seen, f, k->split ? &out->split : NULL, k->takes >> 6 & 1, k->widened ? numbers : NULL, k->bf16,
        k->head_dim, k->head_dim_v, k->keys, x);
    for (i = 0; i < 4; i++) {
        const int pairs = k->narrow && !k->widened && (i == 1 || i == 2), step = pairs ? 16 : 8; /* elements of 16 bytes */
        if (i == 3 && mapped && k->o_differs && box) /* which the copy engine does not write */
            continue;
        if (k->whole_rows && at[i] % step != 0)
            return -1;
        for (s = 0; s < 3 && k->whole_rows; s++) {
            if (x[i].count[s] > 1 && x[i].stride[s] % step != 0)
                return -1;
            x[i].stride[s] /= pairs ? 2 : 1; /* the copy engine moves bytes two by two */
        }
        x[i].width /= pairs ? 2 : 1;
        if (!mapped || (i == 3 && k->o_differs) || ((i == 1 || i == 2) && !box)) /* small pages: rows are copied one by one */
            continue;
        if (attn_cl_tensor_breaks(&x[i]) != 0)
            return -1;
        attn_cl_map(&x[i], to[i]);
    }
    out->maps.box = mapped ? box : 0;
    return out->units_of_work > 0 ? 0 : -1;
}
