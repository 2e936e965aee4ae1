/* backend.c - NVIDIA's cards by CUDA's driver, for backend.h. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/opencl.h"
#include "internal.h"

static struct cuda_target *of(const struct device *device)
{
    return (struct cuda_target *)device;
}

static struct gpu_device facts_of(const struct cuda_card *c)
{
    return (struct gpu_device){.nvidia = true, .capability = c->capability, .local_bytes = 48 << 10};
}

/* ---- cards ---- */

static int read_card(const struct cuda_api *api, int index, struct cuda_card *c, struct gen_error *err)
{
    int major = 0, minor = 0, local = 0;
    size_t memory = 0;
    CUresult code = api->cuDeviceGet(&c->device, index);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceGetName(c->name, sizeof c->name, c->device);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->device);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, c->device);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceGetAttribute(&c->units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, c->device);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceGetAttribute(&local, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, c->device);
    if (code == CUDA_SUCCESS)
        code = api->cuDeviceTotalMem(&memory, c->device);
    c->capability = major * 10 + minor;
    c->local_bytes = local;
    c->memory = (int64_t)memory;
    return cuda_failed(api, code, "a card's attributes", err);
}

static int read_cards(struct cuda *cu, struct gen_error *err)
{
    int count = 0;
    const struct cuda_api *api = &cu->api;
    if (cuda_failed(api, api->cuInit(0), "cuInit", err) != 0 ||
        cuda_failed(api, api->cuDriverGetVersion(&cu->driver), "cuDriverGetVersion", err) != 0 ||
        cuda_failed(api, api->cuDeviceGetCount(&count), "cuDeviceGetCount", err) != 0)
        return -1;
    cu->cards = calloc((size_t)count + 1, sizeof *cu->cards);
    cu->target = calloc((size_t)count + 1, sizeof *cu->target);
    if (!cu->cards || !cu->target)
        return gen_out_of_memory(err, NULL);
    for (int i = 0; i < count; i++) {
        struct gen_error why = {.no_memory = false};
        if (read_card(api, i, &cu->cards[i], &why) != 0)
            snprintf(cu->cards[i].why_not, sizeof cu->cards[i].why_not, "%.150s", why.text);
    }
    cu->count = count;
    return 0;
}

static void close_target(struct cuda_target *t)
{
    bool pushed;
    struct gen_error ignored = {0};
    const struct cuda_api *api = &t->cu->api;
    if (cuda_enter(t, &pushed, &ignored) == 0) {
        if (t->merge.module)
            api->cuModuleUnload(t->merge.module);
        if (t->quantise.module)
            api->cuModuleUnload(t->quantise.module);
        if (t->quiet)
            api->cuStreamDestroy(t->quiet);
        cuda_leave(t, pushed);
    }
    api->cuDevicePrimaryCtxRelease(t->card->device);
    pthread_mutex_destroy(&t->lock);
    free(t->formerly);
    free(t);
}

static void close_library(void *opened)
{
    struct cuda *cu = opened;
    if (!cu)
        return;
    for (int i = 0; i < cu->count; i++)
        if (cu->target[i])
            close_target(cu->target[i]);
    cuda_close_ptx(cu);
    if (cu->compiler)
        dlclose(cu->compiler);
    if (cu->library)
        dlclose(cu->library);
    pthread_mutex_destroy(&cu->lock);
    free(cu->target);
    free(cu->cards);
    free(cu);
}

static void open_compiler(struct cuda *cu)
{
    int major = 0, minor = 0;
    if (nvrtc_load(&cu->nvrtc, &cu->compiler, &cu->no_compiler) != 0)
        return;
    const int code = cu->nvrtc.nvrtcVersion(&major, &minor);
    cu->nvrtc_version = major * 1000 + minor * 10;
    if (code == NVRTC_SUCCESS && cu->nvrtc_version > 0)
        return;
    snprintf(cu->no_compiler.text, sizeof cu->no_compiler.text, "NVRTC does not tell its version (error %d)", code);
    dlclose(cu->compiler);
    cu->compiler = NULL;
}

static int open_library(const struct resources *resources, void **out, struct gen_error *err)
{
    struct cuda *cu = calloc(1, sizeof *cu);
    *out = NULL;
    if (!cu)
        return gen_out_of_memory(err, NULL);
    cu->resources = resources;
    cu->ptx_by = &opencl_backend;
    pthread_mutex_init(&cu->lock, NULL);
    if (cuda_load(&cu->api, &cu->library, err) != 0 || read_cards(cu, err) != 0) {
        close_library(cu);
        return -1;
    }
    open_compiler(cu);
    *out = cu;
    return 0;
}

static int count_cards(void *opened)
{
    return ((const struct cuda *)opened)->count;
}

static void describe(void *opened, int index, struct buf *out)
{
    const struct cuda *cu = opened;
    const struct cuda_card *c = &cu->cards[index];
    buf_printf(out, "cuda:%d  %s, compute capability %d.%d, driver of CUDA %d.%d, ", index, c->name, c->capability / 10,
               c->capability % 10, cu->driver / 1000, cu->driver % 1000 / 10);
    if (cu->compiler)
        buf_printf(out, "NVRTC %d.%d, ", cu->nvrtc_version / 1000, cu->nvrtc_version % 1000 / 10);
    else
        buf_puts(out, "no NVRTC, so that code is PTX of the driver's OpenCL, ");
    buf_printf(out, "%d multiprocessors, %lld KiB of shared memory:", c->units, (long long)c->local_bytes / 1024);
    if (c->why_not[0])
        buf_printf(out, " not usable: %s", c->why_not);
    const struct gpu_device facts = facts_of(c);
    for (int isa = 0; isa < ISA_COUNT && !c->why_not[0]; isa++)
        if (!gpu_isa_why_not(&facts, (enum isa)isa))
            buf_printf(out, " %s", field_value_name(F_ISA, isa));
}

/* ---- one card ---- */

static int make_target(struct cuda *cu, int index, struct cuda_target **out, struct gen_error *err)
{
    const struct cuda_api *api = &cu->api;
    struct cuda_target *t = calloc(1, sizeof *t);
    bool pushed;
    if (!t)
        return gen_out_of_memory(err, NULL);
    t->cu = cu;
    t->card = &cu->cards[index];
    t->base = (struct device){.backend = &cuda_backend,
                              .resources = cu->resources,
                              .compiler = "cuda",
                              .form = GEN_CUDA,
                              .units = t->card->units,
                              .workers = "multiprocessor",
                              .has_clock = true};
    snprintf(t->base.name, sizeof t->base.name, "cuda:%d", index);
    if (!cu->compiler)
        cuda_recall_former(t);
    if (cuda_failed(api, api->cuDevicePrimaryCtxRetain(&t->context, t->card->device), "cuDevicePrimaryCtxRetain", err) !=
        0) {
        free(t);
        return -1;
    }
    pthread_mutex_init(&t->lock, NULL);
    int result = cuda_enter(t, &pushed, err);
    if (result == 0) {
        result = cuda_failed(api, api->cuStreamCreate(&t->quiet, CU_STREAM_NON_BLOCKING), "cuStreamCreate", err);
        if (result != 0)
            t->quiet = NULL;
        cuda_leave(t, pushed);
    }
    if (result != 0) {
        close_target(t);
        return -1;
    }
    *out = t;
    return 0;
}

static int find_card(void *opened, int index, attn_compiler compiler, struct device **out, struct gen_error *err)
{
    struct cuda *cu = opened;
    (void)compiler; /* CUDA itself compiles */
    *out = NULL;
    int at = index < 0 ? 0 : index;
    while (index < 0 && at < cu->count && cu->cards[at].why_not[0])
        at++;
    if (at >= cu->count) {
        if (cu->count == 0)
            snprintf(err->text, sizeof err->text, "the driver lists no card; expected an NVIDIA card");
        else if (index < 0)
            snprintf(err->text, sizeof err->text, "no card is usable: %s", cu->cards[0].why_not);
        else
            snprintf(err->text, sizeof err->text, "there is no cuda:%d; expected cuda:0 to cuda:%d", index,
                     cu->count - 1);
        return -1;
    }
    if (cu->cards[at].why_not[0]) {
        snprintf(err->text, sizeof err->text, "cuda:%d is not usable: %s", at, cu->cards[at].why_not);
        return -1;
    }
    int result = 0;
    pthread_mutex_lock(&cu->lock);
    if (!cu->target[at])
        result = make_target(cu, at, &cu->target[at], err);
    if (result == 0)
        *out = &cu->target[at]->base;
    pthread_mutex_unlock(&cu->lock);
    return result;
}

/* ---- kernels ---- */

static const char *why_not(const struct device *device, enum isa isa)
{
    const struct gpu_device facts = facts_of(of(device)->card);
    return gpu_isa_why_not(&facts, isa);
}

static int fits(const struct device *device, const struct variant *variant, const struct gen_text *text,
                struct gen_error *err)
{
    enum { MOST_THREADS = 1024, MOST_FIXED = 48 << 10 };
    char name[GEN_NAME_MAX];
    const struct cuda_card *c = of(device)->card;
    const struct gpu_source s = gpu_source_of(variant, text, name);
    const struct gpu_device facts = facts_of(c);
    const int64_t local = s.level == GPU_PORTABLE ? MOST_FIXED : c->local_bytes;
    if (!gpu_level_runs(s.level, &facts))
        snprintf(err->text, sizeof err->text, "%s: error: it is for compute capability %s; expected a card that has it, not %s",
                 name, gpu_levels[s.level].capabilities, c->name);
    else if (s.local_bytes > local)
        snprintf(err->text, sizeof err->text, "%s: error: it needs %lld bytes of shared memory; expected at most %lld on %s",
                 name, (long long)s.local_bytes, (long long)local, c->name);
    else if (s.group[0] * s.group[1] > MOST_THREADS)
        snprintf(err->text, sizeof err->text, "%s: error: its block has %d threads; expected at most %d", name,
                 s.group[0] * s.group[1], MOST_THREADS);
    else if (!of(device)->cu->compiler && !device->resources->gen) /* texts of files, which OpenCL's PTX would not be of */
        *err = of(device)->cu->no_compiler;
    else
        return 0;
    return -1;
}

static int compile(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    *out = (struct kernel){0};
    if (fits(device, variant, text, err) != 0)
        return COMPILE_FAILED;
    const struct gpu_source source = gpu_source_of(variant, text, name);
    return cuda_compile(of(device), &source, out, err);
}

/* ---- for tuning ---- */

static int key(const struct device *device, int threads, struct buf *out, struct gen_error *err)
{
    const struct cuda_target *t = of(device);
    (void)threads, (void)err;
    cuda_key_lines(t, t->cu->compiler ? t->cu->nvrtc_version : 0, out);
    return 0;
}

static double cycles(const struct device *device, const struct variant *variant, const struct tune_target *target)
{
    const struct gpu_level_row *level = gpu_level_of((enum isa)variant->field[F_ISA]);
    const struct gpu_device facts = facts_of(of(device)->card);
    return level ? level->cycles(variant, target, &facts) : 0; /* which is rejected anyway */
}

static double gflops(const struct device *device, int threads)
{
    (void)threads;
    return 50.0 * of(device)->card->units;
}

static double peak(struct device *device, struct timer *timer, int threads, enum dtype dtype)
{
    (void)timer, (void)threads;
    return cuda_peak_gflops(of(device), dtype != DTYPE_F32);
}

static enum isa expected(const struct device *device, const struct variant *winner, const char **why)
{
    const struct gpu_device facts = facts_of(of(device)->card);
    *why = NULL;
    return gpu_isa_expected(&facts, winner);
}

const struct backend cuda_backend = {
    .name = "cuda",
    .language = LANGUAGE_CUDA,
    .open = open_library,
    .close = close_library,
    .count = count_cards,
    .describe = describe,
    .none = "the driver lists no card; expected an NVIDIA card",
    .device = find_card,
    .why_not = why_not,
    .fits = fits,
    .compile = compile,
    .merge = cuda_merge,
    .quantise = cuda_quantise,
    .key = key,
    .cycles = cycles,
    .gflops = gflops,
    .peak = peak,
    .expected = expected,
};
