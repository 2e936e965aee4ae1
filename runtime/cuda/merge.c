/* merge.c - attn_merge_cuda: merges parts of one attention on the card, by the kernel of templates/cuda/merge.cu. What
 * it is not: the checks of what a caller gives (api/merge.c). */
#include <stdio.h>

#include "gen/embed.h"
#include "internal.h"

enum { MOST_PARTS = 64, ROWS = 4, THREADS = 128 };

/* The struct that the kernel takes. */
struct merge {
    const void *part[MOST_PARTS];
    const float *part_lse[MOST_PARTS];
    void *o;
    float *lse;
    const float *sinks;
    int64_t rows, q_len, heads, part_stride[3], o_stride[3];
    int count, width, part_type, type;
};

int cuda_merge(struct device *device, const struct attn_partials *p, int64_t rows, const void *on, struct gen_error *err)
{
    struct cuda_target *t = (struct cuda_target *)device;
    const struct cuda_api *api = &t->cu->api;
    struct merge m = {.o = p->o, .lse = p->lse, .sinks = p->sinks, .rows = rows, .q_len = p->q_len, .heads = p->heads,
                      .count = (int)p->count, .width = p->head_dim_v, .part_type = (int)p->part_dtype, .type = (int)p->dtype};
    void *parameters[] = {&m};
    bool pushed;
    if (p->count > MOST_PARTS || rows > (INT64_C(1) << 31)) {
        snprintf(err->text, sizeof err->text,
                 "there are %lld parts of %lld rows; expected at most %d parts of 2^31 rows on a card",
                 (long long)p->count, (long long)rows, MOST_PARTS);
        return -1;
    }
    for (int i = 0; i < m.count; i++) {
        m.part[i] = p->part_o[i];
        m.part_lse[i] = p->part_lse[i];
    }
    for (int i = 0; i < 3; i++) {
        m.part_stride[i] = p->part_stride[i];
        m.o_stride[i] = p->o_stride[i];
    }
    if (cuda_enter(t, &pushed, err) != 0)
        return -1;
    const struct embedded_file *file = embedded_find("cuda/merge.cu");
    int result = cuda_need_helper(t, &t->merge, "attn_merge_parts", file->data, file->size, err);
    if (result == 0)
        result = cuda_failed(api,
                             api->cuLaunchKernel(t->merge.function, (unsigned)((rows + ROWS - 1) / ROWS), 1, 1, THREADS, 1, 1, 0,
                                                 *(CUstream const *)on, parameters, NULL),
                             "cuLaunchKernel", err);
    cuda_leave(t, pushed);
    return result;
}
