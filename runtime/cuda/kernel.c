#define _GNU_SOURCE /* clock_gettime */
/* kernel.c - a kernel on a card: its code from the cache, from NVRTC or from the driver's OpenCL, loaded, and its functions for
 * backend.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static struct cuda_kernel *of(const struct kernel *kernel)
{
    return kernel->owner;
}

static int64_t workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    (void)kernel, (void)args, (void)threads;
    return 0;
}

static int run(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *memory, size_t size, struct gen_error *err)
{
    (void)pool, (void)threads, (void)memory, (void)size;
    return cuda_run(of(kernel), args, err);
}

static int time_of(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    return cuda_time(of(kernel), args, seconds, err);
}

static int step(const struct kernel *kernel, const struct step_args *args, void *const array[], const size_t size[],
                struct gen_error *err)
{
    return cuda_step(of(kernel), args, array, size, err);
}

static int prepare(const struct kernel *kernel, const struct run_rules *rules, struct gen_error *err)
{
    return cuda_prepare(of(kernel), rules, err);
}

static attn_status enqueue(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                           const void *on, struct attn_error *err)
{
    return cuda_enqueue(of(kernel), rules, shape, *(CUstream const *)on, err);
}

static bool takes(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape, const void *on)
{
    (void)on;
    return cuda_takes(of(kernel), rules, shape);
}

static void keep(const struct kernel *kernel, struct cache *cache)
{
    const struct cuda_kernel *k = of(kernel);
    struct gen_error ignored = {0};
    if (!cache || !cache_path(cache)[0] || !k->code || k->from_cache)
        return;
    if (k->is_ptx)
        cache_object_store(cache, k->key, k->code, k->code_size, &ignored);
    else
        cuda_keep_cubin(k->target, cache, k->key, k->code, k->code_size);
}

static const struct kernel_functions functions = {.workspace = workspace,
                                                  .run = run,
                                                  .time = time_of,
                                                  .step = step,
                                                  .prepare = prepare,
                                                  .enqueue = enqueue,
                                                  .takes = takes,
                                                  .queued = "CUstream",
                                                  .keep = keep};

static void release(struct kernel *kernel)
{
    cuda_kernel_free(of(kernel));
}

void cuda_kernel_free(struct cuda_kernel *k)
{
    bool pushed = false;
    struct gen_error ignored = {0};
    if (!k)
        return;
    const bool entered = cuda_enter(k->target, &pushed, &ignored) == 0;
    for (struct cuda_slot *s = k->free_slots, *next; s; s = next) {
        next = s->next;
        cuda_slot_free(k->target, s);
    }
    cuda_rooms_free(k->target, &k->rooms);
    if (k->module)
        k->target->cu->api.cuModuleUnload(k->module);
    if (entered)
        cuda_leave(k->target, pushed);
    pthread_mutex_destroy(&k->lock);
    pthread_mutex_destroy(&k->rooms.lock);
    free(k->code);
    free(k->key);
    free(k);
}

/* ---- code ---- */

/* Shared memory stands in OpenCL's PTX; other code is given it at each launch. */
static int load(struct cuda_kernel *k, const void *image, struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    CUresult code = api->cuModuleLoadData(&k->module, image);
    if (cuda_failed(api, code, "cuModuleLoadData", err) != 0) {
        k->module = NULL;
        return -1;
    }
    code = api->cuModuleGetFunction(&k->function, k->module, k->name);
    if (code == CUDA_SUCCESS && k->source.level != GPU_PORTABLE && !k->is_ptx)
        code = api->cuFuncSetAttribute(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       (int)k->source.local_bytes);
    return cuda_failed(api, code, k->name, err);
}

/* From the cache; what does not load is compiled again. */
static bool load_kept(struct cuda_kernel *k, struct cache *cache)
{
    struct gen_error ignored = {0};
    size_t size = 0;
    void *image = cache ? cache_object_load(cache, k->key, &size) : NULL;
    bool good = image && (!k->is_ptx || (size > 0 && !((const char *)image)[size - 1])) && load(k, image, &ignored) == 0;
    if (image && !good && k->module) {
        k->target->cu->api.cuModuleUnload(k->module);
        k->module = NULL;
    }
    free(image);
    return good;
}

static int make_key(struct cuda_kernel *k, const struct gpu_source *s, struct gen_error *err)
{
    free(k->key);
    k->key = cuda_code_key(k->target, k->is_ptx, s->name, s->text, s->size);
    return k->key ? 0 : gen_out_of_memory(err, NULL);
}

/* A cubin needs no compiler when it is there. */
static int find_kept(struct cuda_kernel *k, const struct gpu_source *s, struct cache *cache, struct gen_error *err)
{
    k->is_ptx = cuda_cubins_by(k->target) == 0;
    if (make_key(k, s, err) != 0)
        return -1;
    k->from_cache = load_kept(k, cache);
    if (k->from_cache || k->is_ptx || k->target->cu->compiler)
        return 0;
    k->is_ptx = true;
    if (make_key(k, s, err) != 0)
        return -1;
    k->from_cache = load_kept(k, cache);
    return 0;
}

static int build(struct cuda_kernel *k, const struct gpu_source *s, struct gen_error *err)
{
    struct cuda *cu = k->target->cu;
    struct cache *cache = k->target->base.resources->cache;
    int threads = 0;
    if (find_kept(k, s, cache, err) != 0)
        return COMPILE_FAILED;
    if (!k->from_cache) {
        int result = k->is_ptx ? cuda_make_ptx(cu, s, &k->code, &k->code_size, err)
                               : cuda_make_cubin(cu, k->target->card->capability, s->level, s->name, s->text, &k->code,
                                                 &k->code_size, &k->report, err);
        if (result != COMPILE_OK)
            return result;
        if (load(k, k->code, err) != 0)
            return COMPILE_FAILED;
    }
    CUresult code = cu->api.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k->function);
    if (cuda_failed(&cu->api, code, "cuFuncGetAttribute", err) != 0)
        return COMPILE_FAILED;
    if (threads >= s->group[0] * s->group[1])
        return COMPILE_OK;
    snprintf(err->text, sizeof err->text, "%s: error: its block has %d threads; expected at most %d, for which %s has registers",
             s->name, s->group[0] * s->group[1], threads, k->target->card->name);
    return COMPILE_REFUSED;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Whence a kernel's code came, in words, for the log. */
static const char *origin(const struct cuda_kernel *k)
{
    if (k->is_ptx)
        return k->from_cache ? "the cache's PTX of the driver's OpenCL" : "PTX of the driver's OpenCL, since there is no NVRTC";
    return k->from_cache ? "a cubin of the cache" : "NVRTC's cubin";
}

/* What costs a kernel so much that others are tried first. */
static void tell_flaw(const struct cuda_report *r, char *out, size_t size)
{
    if (r->serialised)
        snprintf(out, size, "the compiler reports that it serialised the tensor cores");
    else if (r->spill_bytes)
        snprintf(out, size, "the compiler reports %lld bytes of spilled registers", (long long)r->spill_bytes);
}

int cuda_compile(struct cuda_target *target, const struct gpu_source *source, struct kernel *out, struct gen_error *err)
{
    const double start = now_ms();
    bool pushed;
    *out = (struct kernel){0};
    struct cuda_kernel *k = calloc(1, sizeof *k);
    if (!k) {
        gen_out_of_memory(err, NULL);
        return COMPILE_FAILED;
    }
    k->target = target;
    k->source = *source;
    k->source.text = NULL; /* the caller's */
    snprintf(k->name, sizeof k->name, "%s", source->name);
    k->source.name = k->name;
    pthread_mutex_init(&k->lock, NULL);
    pthread_mutex_init(&k->rooms.lock, NULL);
    int result = cuda_enter(target, &pushed, err) == 0 ? COMPILE_OK : COMPILE_FAILED;
    if (result == COMPILE_OK) {
        result = build(k, source, err);
        cuda_leave(target, pushed);
    }
    if (result != COMPILE_OK) {
        cuda_kernel_free(k);
        return result;
    }
    *out = (struct kernel){.functions = &functions,
                           .release = release,
                           .owner = k,
                           .compile_ms = now_ms() - start,
                           .origin = origin(k)};
    tell_flaw(&k->report, out->flaw, sizeof out->flaw);
    return COMPILE_OK;
}
