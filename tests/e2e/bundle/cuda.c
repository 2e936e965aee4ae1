/* cuda.c - a host that a bundle in CUDA C++ was vendored into: libcuda.so.1 is opened, code is the bundle's own, or where it has
 * none NVRTC's, and llm_launch_cuda does the rest. Each kernel is held against the definition, on a stream and in a captured graph.
 * Exits 77 where there is no card. What it is not: a test of every kernel. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm.h"

/* Of cuda.h and nvrtc.h, which need not be here. */
static struct {
    int (*init)(unsigned), (*device)(int *, int), (*attribute)(int *, int, int), (*retain)(void **, int), (*enter)(void *);
    int (*allocate)(uint64_t *, size_t), (*release)(uint64_t), (*upload)(uint64_t, const void *, size_t);
    int (*download)(void *, uint64_t, size_t), (*fill)(uint64_t, unsigned char, size_t), (*wait)(void *), (*unload)(void *);
    int (*stream)(void **, unsigned), (*begin)(void *, int), (*end)(void *, void **),
        (*instantiate)(void **, void *, unsigned long long);
    int (*replay)(void *, void *);
} cu;
static struct {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *), (*size)(void *, size_t *), (*code)(void *, char *);
} rtc;

static int look_up(void *library, const char *const *names, int n, void *to)
{
    for (int i = 0; i < n; i++) {
        void *const found = library ? dlsym(library, names[i]) : NULL;
        if (!found)
            return -1;
        memcpy((char *)to + (size_t)i * sizeof found, &found, sizeof found);
    }
    return 0;
}

static uint16_t bf16_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static double of_bf16(const void *data, size_t at)
{
    const uint32_t u = (uint32_t)((const uint16_t *)data)[at] << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static double element(const void *data, size_t at, int size)
{
    return size == 2 ? of_bf16(data, at) : ((const float *)data)[at];
}

/* The largest difference of some rows from the definition. */
static double difference(const struct llm_problem *p, void *const data[4], int size)
{
    const int d = p->head_dim, group = (int)(p->heads / p->kv_heads);
    double worst = 0, *out = calloc((size_t)d, sizeof *out);
    for (int64_t row = 0; row < p->batch * p->heads * p->q_len; row += p->q_len > 64 ? 37 : 1) {
        const int64_t i = row % p->q_len, h = row / p->q_len % p->heads, b = row / p->q_len / p->heads;
        const int64_t keys = p->causal ? i + 1 + p->kv_len - p->q_len : p->kv_len;
        const size_t kv = (size_t)((b * p->kv_heads + h / group) * p->kv_len * d);
        double sum = 0;
        memset(out, 0, (size_t)d * sizeof *out);
        for (int64_t j = 0; j < keys; j++) {
            double score = 0;
            for (int c = 0; c < d; c++)
                score += element(data[0], (size_t)(row * d + c), size) * element(data[1], kv + (size_t)(j * d + c), size);
            const double e = exp(score / sqrt(d));
            sum += e;
            for (int c = 0; c < d; c++)
                out[c] += e * element(data[2], kv + (size_t)(j * d + c), size);
        }
        for (int c = 0; c < d; c++)
            worst = fmax(worst, fabs(out[c] / sum - element(data[3], (size_t)(row * d + c), size)));
    }
    free(out);
    return worst;
}

/* What NVRTC makes of a text; NULL where it is not here. */
static char *compile(const struct llm_cuda_kernel *k, int capability)
{
    static const char *const names[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"};
    void *library = dlopen("libnvrtc.so.13", RTLD_NOW), *program;
    char architecture[40], *text = malloc(llm_text_cuda(k, NULL)), *code = NULL;
    const char *const options[] = {architecture, "--std=c++20"};
    size_t size;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%s", capability, k->capability == 90 ? "a" : "");
    library = library ? library : dlopen("libnvrtc.so.12", RTLD_NOW);
    if (!text || look_up(library, names, 4, &rtc) != 0)
        return free(text), NULL;
    llm_text_cuda(k, text);
    if (!rtc.create(&program, text, "kernel.cu", 0, NULL, NULL) && !rtc.compile(program, 2, options) && !rtc.size(program, &size) &&
        (code = malloc(size)))
        rtc.code(program, code);
    free(text);
    return code;
}

/* A run on the stream, and again in a graph of two launches. The largest difference; negative: it failed. */
static double run(const struct llm_cuda_driver *driver, const struct llm_problem *p, int capability, int units, void *stream)
{
    const int size = p->dtype == LLM_BF16 ? 2 : 4;
    const size_t count[4] = {(size_t)(p->batch * p->heads * p->q_len * p->head_dim),
                             (size_t)(p->batch * p->kv_heads * p->kv_len * p->head_dim)};
    struct llm_cuda_run r = {.stream = stream, .units = units};
    uint64_t *const at[7] = {&r.q, &r.k, &r.v, &r.o, &r.room, &r.done, &r.parts};
    struct llm_cuda_kernel k;
    size_t bytes[7];
    void *data[4], *module, *graph, *made;
    static unsigned seed = 1;
    double worst = 0;
    if (llm_find_cuda(p, capability, &k) < 0)
        return puts(llm_supports_cuda(p, capability)), -1;
    char *image = k.cubin || k.ptx ? NULL : compile(&k, capability);
    if (llm_load_cuda(driver, &k, image, &module, &r.function) != 0)
        return free(image), printf("%s is not loaded\n", k.variant), -1;
    llm_cuda_args(p, &r.args);
    if (llm_memory_cuda(&k, &r, bytes + 4) != 0)
        return -1;
    for (int i = 0; i < 7; i++) {
        bytes[i] = i < 4 ? count[i == 1 || i == 2] * (size_t)size : bytes[i];
        if (bytes[i] && (cu.allocate(at[i], bytes[i]) || cu.fill(*at[i], i < 4 ? 0xff : 0, bytes[i])))
            return -1;
        if (i > 3)
            continue;
        data[i] = malloc(bytes[i]);
        for (size_t n = 0; n < bytes[i] / (size_t)size && i < 3; n++) {
            seed = seed * 1664525 + 1013904223;
            const float x = (float)(seed >> 8) / (1 << 23) - 1;
            if (size == 2)
                ((uint16_t *)data[i])[n] = bf16_of(x);
            else
                ((float *)data[i])[n] = x;
        }
        if (i < 3 && cu.upload(*at[i], data[i], bytes[i]))
            return -1;
    }
    for (int way = 0; way < 2 && worst >= 0; way++) {
        int code = way ? cu.begin(stream, 2) : 0;
        for (int launch = 0; launch <= way && code == 0; launch++)
            code = llm_launch_cuda(driver, &k, &r);
        if (way)
            code = code || cu.end(stream, &graph) || cu.instantiate(&made, graph, 0) || cu.replay(made, stream);
        code = code || cu.wait(stream) || cu.download(data[3], r.o, bytes[3]) || cu.fill(r.o, 0xff, bytes[3]);
        worst = code ? -1 : fmax(worst, difference(p, data, size));
    }
    printf("%s, %s: %g\n", k.variant, image ? "NVRTC's code" : "the bundle's code", worst);
    for (int i = 0; i < 7; i++)
        if (*at[i])
            cu.release(*at[i]);
    for (int i = 0; i < 4; i++)
        free(data[i]);
    cu.unload(module);
    free(image);
    return worst;
}

int main(void)
{
    static const char *const names[] = {"cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemsetD8_v2",
        "cuStreamSynchronize", "cuModuleUnload",
        "cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    static const struct llm_problem problems[] = {
        {.dtype = LLM_BF16, .head_dim = 64, .causal = 1, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 300, .kv_len = 333},
        {.dtype = LLM_BF16, .head_dim = 128, .batch = 3, .heads = 8, .kv_heads = 2, .q_len = 1, .kv_len = 5000},
        {.dtype = LLM_BF16, .head_dim = 96, .causal = 1, .batch = 1, .heads = 3, .kv_heads = 3, .q_len = 200, .kv_len = 200},
        {.head_dim = 64, .causal = 1, .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 70, .kv_len = 70},
    };
    struct llm_cuda_driver driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *stream;
    int device, major, minor, units, failed = 0;
    if (!library || look_up(library, names, sizeof names / sizeof *names, &cu) != 0 ||
        llm_open_cuda(&driver, dlsym, library) != 0 ||
        cu.init(0) || cu.device(&device, 0))
        return puts("there is no card here"), 77;
    if (cu.attribute(&major, 75, device) || cu.attribute(&minor, 76, device) || cu.attribute(&units, 16, device) ||
        cu.retain(&context, device) || cu.enter(context) || cu.stream(&stream, 0))
        return puts("the card cannot be used"), 1;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const double worst = run(&driver, &problems[i], 10 * major + minor, units, stream);
        failed |= worst < 0 || worst > (problems[i].dtype == LLM_BF16 ? 8e-3 : 3e-6);
    }
    return failed;
}
