/* stub.c - see stub.h. */
#define _GNU_SOURCE /* strdup */
#include "stub.h"

#include "runtime/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 132, MOST = 512, UNKNOWN = 999 };

static struct stub s = {.cards = 2};
static _Thread_local void *current[16];
static _Thread_local int depth;
static struct {
    char *at;
    size_t size;
} array[MOST];
struct thing {
    char kind;
    char name[256];
    int shared;
};
struct program {
    char *text;
    char name[256];
};

struct stub *stub_state(void);
struct stub *stub_state(void)
{
    return &s;
}

static int begin(const char *name)
{
    if (!s.fails || strcmp(s.fails, name) != 0)
        return 0;
    return s.after-- > 0 ? 0 : s.code ? s.code : UNKNOWN;
}
#define BEGIN                                                                                                          \
    int failure = begin(__func__);                                                                                     \
    if (failure)                                                                                                       \
    return failure

static void forbid(const char *what)
{
    if (!s.wrong[0])
        snprintf(s.wrong, sizeof s.wrong, "%s", what);
}

static void need_context(const char *what)
{
    if (depth == 0)
        forbid(what);
}

static bool holds(const char *at, size_t size)
{
    for (int i = 0; i < MOST; i++)
        if (array[i].at && at >= array[i].at && at + size <= array[i].at + array[i].size)
            return true;
    return false;
}

int cuInit(unsigned flags)
{
    BEGIN;
    return flags == 0 ? 0 : 1;
}
int cuDriverGetVersion(int *out)
{
    BEGIN;
    *out = 13000;
    return 0;
}
int cuGetErrorName(int code, const char **out)
{
    *out = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuDeviceGetCount(int *out)
{
    BEGIN;
    *out = s.cards;
    return 0;
}
int cuDeviceGet(int *out, int index)
{
    BEGIN;
    *out = index;
    return 0;
}
int cuDeviceGetName(char *out, int size, int device)
{
    BEGIN;
    snprintf(out, (size_t)size, "a stub %d", device);
    return 0;
}
int cuDeviceGetAttribute(int *out, int which, int device)
{
    BEGIN;
    (void)device;
    *out = which == 16 ? UNITS : which == 75 ? 9 : which == 76 ? 0 : which == 97 ? 232448 : -1;
    return *out < 0 ? 1 : 0;
}
int cuDeviceTotalMem_v2(size_t *out, int device)
{
    BEGIN;
    (void)device;
    *out = (size_t)1 << 37;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **out, int device)
{
    BEGIN;
    static int contexts[16];
    *out = &contexts[device];
    s.contexts++;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    s.contexts--;
    return 0;
}
int cuCtxGetCurrent(void **out)
{
    BEGIN;
    *out = depth ? current[depth - 1] : NULL;
    return 0;
}
int cuCtxPushCurrent_v2(void *context)
{
    BEGIN;
    current[depth++] = context;
    return 0;
}
int cuCtxPopCurrent_v2(void **out)
{
    if (depth == 0)
        forbid("cuCtxPopCurrent without a context");
    else
        *out = current[--depth];
    return 0;
}

static struct thing *thing(char kind, const char *name)
{
    struct thing *t = calloc(1, sizeof *t);
    t->kind = kind;
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

int cuModuleLoadData(void **out, const void *image)
{
    BEGIN;
    need_context("cuModuleLoadData without a context");
    if (strncmp(image, "cubin ", 6) != 0 && strncmp(image, "ptx ", 4) != 0)
        return 200;
    *out = thing('m', strchr(image, ' ') + 1);
    s.modules++;
    return 0;
}
int cuModuleUnload(void *module)
{
    free(module);
    s.modules--;
    return 0;
}
/* A module is its only function. */
int cuModuleGetFunction(void **out, void *module, const char *name)
{
    BEGIN;
    *out = module;
    return strcmp(((struct thing *)module)->name, name) == 0 ? 0 : 500;
}
int cuFuncGetAttribute(int *out, int which, void *function)
{
    BEGIN;
    (void)function;
    *out = which == 0 ? 1024 : 0;
    return 0;
}
int cuFuncSetAttribute(void *function, int which, int value)
{
    BEGIN;
    if (which != 8)
        return 1;
    ((struct thing *)function)->shared = s.set_shared = value;
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra)
{
    BEGIN;
    const struct thing *f = function;
    const struct stub_launch l = {f->name, {gx, gy, gz}, {bx, by, bz}, shared, stream, parameters};
    need_context("cuLaunchKernel without a context");
    if (extra || (shared > 49152 && (int)shared > f->shared))
        return 1;
    s.launches++;
    if (s.launched)
        s.launched(s.user, &l);
    return 0;
}

/* Kernels of another language, which do not await what was launched before them, must not be launched so. */
int cuLaunchKernelEx(const CUlaunchConfig *c, void *function, void **parameters, void **extra)
{
    if (c->numAttrs != 1 || c->attrs->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
        !c->attrs->value.programmaticStreamSerializationAllowed)
        forbid("cuLaunchKernelEx with other attributes");
    s.early++;
    return cuLaunchKernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                          c->sharedMemBytes, c->hStream, parameters, extra);
}

int cuMemAlloc_v2(uint64_t *out, size_t size)
{
    BEGIN;
    need_context("cuMemAlloc without a context");
    for (int i = 0; i < MOST; i++) {
        if (array[i].at)
            continue;
        array[i].at = aligned_alloc(256, (size + 255) / 256 * 256);
        memset(array[i].at, 0xaa, (size + 255) / 256 * 256);
        array[i].size = size;
        *out = (uintptr_t)array[i].at;
        s.arrays++;
        s.allocations++;
        return size ? 0 : 1;
    }
    return 2;
}
int cuMemFree_v2(uint64_t at)
{
    for (int i = 0; i < MOST; i++)
        if (array[i].at && (uintptr_t)array[i].at == at) {
            free(array[i].at);
            array[i].at = NULL;
            s.arrays--;
            return 0;
        }
    forbid("cuMemFree of what is not there");
    return 1;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
    BEGIN;
    (void)stream;
    if (!holds((char *)(uintptr_t)to, size))
        forbid("cuMemcpyHtoDAsync outside memory");
    else
        memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
    BEGIN;
    (void)stream;
    if (!holds((char *)(uintptr_t)from, size))
        forbid("cuMemcpyDtoHAsync outside memory");
    else
        memcpy(to, (void *)(uintptr_t)from, size);
    return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream)
{
    BEGIN;
    (void)stream;
    if (!holds((char *)(uintptr_t)to, size))
        forbid("cuMemsetD8Async outside memory");
    else
        memset((void *)(uintptr_t)to, value, size);
    return 0;
}
int cuStreamCreate(void **out, unsigned flags)
{
    BEGIN;
    *out = thing(flags == 1 ? 's' : '?', "stream");
    s.streams++;
    return 0;
}
int cuStreamDestroy_v2(void *stream)
{
    free(stream);
    s.streams--;
    return 0;
}
int cuStreamSynchronize(void *stream)
{
    BEGIN;
    s.waits++;
    if (stream && stream == s.capturing)
        forbid("cuStreamSynchronize of a stream under capture");
    return 0;
}
int cuStreamGetCaptureInfo(void *stream, int *status, uint64_t *id)
{
    BEGIN;
    *status = stream && stream == s.capturing;
    *id = s.capture;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int old = 0;
    int new = *mode;
    *mode = old;
    (void)new;
    return 0;
}
int cuEventCreate(void **out, unsigned flags)
{
    BEGIN;
    (void)flags;
    *out = thing('e', "event");
    s.events++;
    return 0;
}
int cuEventRecord(void *event, void *stream)
{
    BEGIN;
    (void)event, (void)stream;
    return 0;
}
int cuEventSynchronize(void *event)
{
    BEGIN;
    (void)event;
    return 0;
}
int cuEventElapsedTime(float *out, void *a, void *b)
{
    BEGIN;
    (void)a, (void)b;
    *out = 0.25f;
    return 0;
}
int cuEventDestroy_v2(void *event)
{
    free(event);
    s.events--;
    return 0;
}

/* ---- NVRTC: a cubin is "cubin NAME", of the last function that the text has as a kernel ---- */

int nvrtcVersion(int *major, int *minor)
{
    BEGIN;
    *major = 13, *minor = 1;
    return 0;
}
int nvrtcCreateProgram(void **out, const char *text, const char *name, int n, const char *const *a, const char *const *b)
{
    BEGIN;
    (void)a, (void)b;
    struct program *p = calloc(1, sizeof *p);
    p->text = strdup(text);
    snprintf(p->name, sizeof p->name, "%.*s", (int)strcspn(name, "."), name);
    *out = p;
    s.programs++;
    return n;
}
int nvrtcCompileProgram(void *program, int n, const char *const *options)
{
    BEGIN;
    const struct program *p = program;
    char kernel[300];
    snprintf(kernel, sizeof kernel, "\nvoid %s(", p->name);
    s.compiled++;
    bool apart = false; /* multiplications and additions */
    if (n < 2 || strncmp(options[0], "--gpu-architecture=sm_90", 24) != 0)
        forbid("NVRTC is not told of the card's architecture");
    for (int i = 0; i < n; i++)
        apart = apart || strcmp(options[i], "--fmad=false") == 0;
    if (apart != (strstr(p->name, "_invariant_") != NULL))
        forbid("NVRTC is told --fmad=false for other kernels than invariant ones");
    if (strcmp(p->name, "attn_merge_parts") == 0)
        snprintf(kernel, sizeof kernel, " %s(", p->name);
    return strstr(p->text, kernel) && strstr(p->text, "extern \"C\" __global__") ? 0 : 6;
}
int nvrtcDestroyProgram(void **program)
{
    struct program *p = *program;
    free(p->text);
    free(p);
    s.programs--;
    return 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *out)
{
    BEGIN;
    (void)program;
    *out = 64;
    return 0;
}
int nvrtcGetProgramLog(void *program, char *out)
{
    BEGIN;
    (void)program;
    snprintf(out, 64, "x.cu(7): error: stub\nptxas info : Used 168 registers\n");
    return 0;
}
int nvrtcGetPTXSize(void *program, size_t *out)
{
    BEGIN;
    *out = strlen(((struct program *)program)->name) + 5;
    return 0;
}
int nvrtcGetPTX(void *program, char *out)
{
    BEGIN;
    sprintf(out, "ptx %s", ((struct program *)program)->name);
    return 0;
}
int nvrtcGetCUBINSize(void *program, size_t *out)
{
    BEGIN;
    *out = strlen(((struct program *)program)->name) + 7;
    return 0;
}
int nvrtcGetCUBIN(void *program, char *out)
{
    BEGIN;
    sprintf(out, "cubin %s", ((struct program *)program)->name);
    return 0;
}
