/* merge.c - attn_merge_cuda: parts of one attention merged on the card, by the kernel of templates/cuda/merge.cu. What it is not: the
 * checks of what a caller gives (api/merge.c). */
#include <stdio.h>
#include <stdlib.h>

#include "gen/embed.h"
#include "internal.h"

enum { MOST_PARTS = 64, ROWS = 4, THREADS = 128 };

/* As the kernel has it. */
struct merge {
    const void *part[MOST_PARTS];
    const float *part_lse[MOST_PARTS];
    void *o;
    float *lse;
    const float *sinks;
    int64_t rows, q_len, heads, part_stride[3], o_stride[3];
    int count, width, part_type, type;
};

static int load(struct cuda_target *t, const void *cubin, struct gen_error *err)
{
    const struct cuda_api *api = &t->cu->api;
    CUmodule module;
    if (cuda_failed(api, api->cuModuleLoadData(&module, cubin), "cuModuleLoadData", err) != 0)
        return -1;
    if (cuda_failed(api, api->cuModuleGetFunction(&t->merges, module, "attn_merge_parts"), "attn_merge_parts", err) != 0) {
        api->cuModuleUnload(module);
        return -1;
    }
    t->merge = module;
    return 0;
}

/* The kernel, from the cache or by NVRTC. Under the target's lock. */
static int need_kernel(struct cuda_target *t, struct gen_error *err)
{
    const struct embedded_file *file = embedded_find("cuda/merge.cu");
    struct cache *cache = t->base.resources->cache;
    struct cuda_report report;
    struct gen_error ignored = {0};
    struct buf key = {0};
    void *cubin = NULL;
    size_t size = 0;
    if (t->merge)
        return 0;
    buf_printf(&key, "object attn_merge_parts\ncompiler nvrtc %d\narchitecture %d\nsource %zu %016llx\n",
               t->cu->nvrtc_version, t->card->capability, file->size, (unsigned long long)cache_hash(file->data, file->size));
    if (!buf_ok(&key)) {
        buf_free(&key);
        return gen_out_of_memory(err, NULL);
    }
    cubin = cache ? cache_object_load(cache, key.data, &size) : NULL;
    int result = cubin ? load(t, cubin, &ignored) : -1;
    free(cubin);
    if (result != 0 && cuda_make_cubin(t->cu, t->card->capability, GPU_PORTABLE, "attn_merge_parts", file->data, &cubin, &size,
                                       &report, err) == COMPILE_OK) {
        result = load(t, cubin, err);
        if (result == 0 && cache && cache_path(cache)[0])
            cache_object_store(cache, key.data, cubin, size, &ignored);
        free(cubin);
    }
    buf_free(&key);
    return result;
}

int cuda_merge(struct device *device, const struct attn_partials *p, int64_t rows, const void *on, struct gen_error *err)
{
    struct cuda_target *t = (struct cuda_target *)device;
    const struct cuda_api *api = &t->cu->api;
    struct merge m = {.o = p->o, .lse = p->lse, .sinks = p->sinks, .rows = rows, .q_len = p->q_len, .heads = p->heads,
                      .count = (int)p->count, .width = p->head_dim_v, .part_type = (int)p->part_dtype, .type = (int)p->dtype};
    void *parameters[] = {&m};
    bool pushed;
    if (p->count > MOST_PARTS || rows > (INT64_C(1) << 31)) {
        snprintf(err->text, sizeof err->text, "there are %lld parts of %lld rows; expected at most %d of 2^31 on a card",
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
    pthread_mutex_lock(&t->lock);
    int result = need_kernel(t, err);
    pthread_mutex_unlock(&t->lock);
    if (result == 0)
        result = cuda_failed(api,
                             api->cuLaunchKernel(t->merges, (unsigned)((rows + ROWS - 1) / ROWS), 1, 1, THREADS, 1, 1, 0,
                                                 *(CUstream const *)on, parameters, NULL),
                             "cuLaunchKernel", err);
    cuda_leave(t, pushed);
    return result;
}
