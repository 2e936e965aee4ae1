/* structs.c - makes the structs that device kernels take from a run's arguments (launch.h). What it is not: where
 * arrays lie on a device (hosts.c). */
#include <stdio.h>
#include <string.h>

#include "launch.h"

_Static_assert(sizeof(long) == 8 && sizeof(int) == 4, "struct attn_cl_args is laid out as OpenCL C does");

/* The strides of an array, which are long in OpenCL C. */
static void set_strides(const struct attn_args *a, const struct array *of, struct attn_cl_args *args,
                        struct attn_cl_features *features)
{
    const char *from = array_in(of->kernel_stride, a, a->features);
    char *to = array_at(of->cl_stride, args, features);
    for (size_t i = 0; i < of->cl_stride.size; i += sizeof(long)) {
        long stride = (long)array_number(from, i);
        memcpy(to + i, &stride, sizeof stride);
    }
}

int gpu_check_args(const struct gpu_source *source, const char *name, const struct attn_args *a, struct gen_error *err)
{
    bool ours = a->size == sizeof *a && (a->parts == 0 || a->parts == 1) && a->part == 0;
    if (ours && (!source->features || a->features))
        return 0;
    snprintf(err->text, sizeof err->text,
             "%s: error: it refuses its arguments; expected struct attn_args of %zu bytes%s", name, sizeof *a,
             ours ? " with features" : " and one part");
    return -1;
}

void gpu_set_structs(const struct gpu_source *s, const struct attn_args *a, struct attn_cl_args *out,
                     struct attn_cl_features *features)
{
    const struct attn_features *f = s->features ? a->features : NULL;
    *out = (struct attn_cl_args){.batch = a->batch,
                                      .heads = a->heads,
                                      .kv_heads = a->kv_heads,
                                      .q_len = a->q_len,
                                      .kv_len = a->kv_len,
                                      .offset = a->offset,
                                      .bottom_right = a->bottom_right,
                                      .scale = a->scale};
    *features = (struct attn_cl_features){.unused = 0};
    if (f) {
        features->window[0] = f->window[0];
        features->window[1] = f->window[1];
        features->page_size = f->page_size;
        features->softcap = f->softcap;
    }
    for (enum array_id id = 0; id < ARRAYS; id++)
        if (arrays[id].cl_stride.in && (id < ARRAY_FEATURES || f))
            set_strides(a, &arrays[id], out, features);
}

void gpu_set_has(struct attn_cl_args *args, struct attn_cl_features *features, enum array_id id, bool has)
{
    const int number = has;
    if (arrays[id].cl_has.in)
        memcpy(array_at(arrays[id].cl_has, args, features), &number, sizeof number);
}

bool gpu_takes(const struct gpu_source *s, enum array_id id)
{
    return id < ARRAY_FEATURES || s->element_of[id] > 0;
}

void gpu_move(struct attn_cl_args *args, struct attn_cl_features *features, enum array_id id, long by)
{
    char *at = array_at(arrays[id].cl_offset, args, features);
    long offset = (long)array_number(at, 0) + by;
    memcpy(at, &offset, sizeof offset);
}

bool gpu_holds_keys(enum array_id id)
{
    for (int s = 0; s < ARRAY_SIDES; s++)
        switch (arrays[id].sides[s]) {
        case SIDE_KEYS:
        case SIDE_PAGES:
        case SIDE_PLACES:
        case SIDE_PLACE_ROWS: return true;
        default: break;
        }
    return false;
}

void gpu_lie_nowhere(struct attn_cl_args *args, struct attn_cl_features *features)
{
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (!gpu_holds_keys(id))
            continue;
        memset(array_at(arrays[id].cl_offset, args, features), 0, arrays[id].cl_offset.size);
        if (arrays[id].cl_stride.in != IN_NONE)
            memset(array_at(arrays[id].cl_stride, args, features), 0, arrays[id].cl_stride.size);
    }
}

int gpu_next_piece(const struct gpu_source *s, const struct attn_cl_args *whole, const struct attn_cl_features *all,
                   struct attn_cl_piece *piece, struct attn_cl_args *args, struct attn_cl_features *features,
                   struct gen_error *err)
{
    if (whole->heads > ATTN_CL_MOST && all->has_q_starts && whole->has_lse) {
        snprintf(err->text, sizeof err->text, "there are %lld heads of packed queries, and an LSE; expected at most %d heads then",
                 (long long)whole->heads, ATTN_CL_MOST);
        return -1;
    }
    if (!attn_cl_next_piece(whole, piece))
        return 0;
    *args = *whole, *features = *all;
    attn_cl_cut(piece, gpu_takes(s, ARRAY_BLOCK_TABLE), args, features);
    return 1;
}
