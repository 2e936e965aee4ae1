/* helper.c - kernels other than attention, for merging and quantising: one of each for a card, compiled when it is first
 * needed. What it is not: their launches. */
#include <stdlib.h>

#include "internal.h"

static int load(struct cuda_target *t, struct cuda_helper *helper, const char *name, const void *cubin, struct gen_error *err)
{
    const struct cuda_api *api = &t->cu->api;
    CUmodule module;
    if (cuda_failed(api, api->cuModuleLoadData(&module, cubin), "cuModuleLoadData", err) != 0)
        return -1;
    if (cuda_failed(api, api->cuModuleGetFunction(&helper->function, module, name), name, err) != 0) {
        api->cuModuleUnload(module);
        return -1;
    }
    helper->module = module;
    return 0;
}

/* From the cache or by NVRTC. Under the target's lock. */
static int make(struct cuda_target *t, struct cuda_helper *helper, const char *name, const char *text, size_t text_size,
                struct gen_error *err)
{
    struct cache *cache = t->base.resources->cache;
    struct cuda_report report;
    struct gen_error ignored = {0};
    char *key = cuda_code_key(t, false, name, text, text_size);
    void *cubin = NULL;
    size_t size = 0;
    if (!key)
        return gen_out_of_memory(err, NULL);
    cubin = cache ? cache_object_load(cache, key, &size) : NULL;
    int result = cubin ? load(t, helper, name, cubin, &ignored) : -1;
    free(cubin);
    if (result != 0 && cuda_make_cubin(t->cu, t->card->capability, GPU_PORTABLE, name, text, &cubin, &size, &report, err) ==
                           COMPILE_OK) {
        result = load(t, helper, name, cubin, err);
        if (result == 0 && cache && cache_path(cache)[0])
            cuda_keep_cubin(t, cache, key, cubin, size);
        free(cubin);
    }
    free(key);
    return result;
}

int cuda_need_helper(struct cuda_target *t, struct cuda_helper *helper, const char *name, const char *text, size_t size,
                     struct gen_error *err)
{
    pthread_mutex_lock(&t->lock);
    int result = helper->module ? 0 : make(t, helper, name, text, size, err);
    pthread_mutex_unlock(&t->lock);
    return result;
}
