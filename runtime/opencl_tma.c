/* opencl_tma.c - see opencl_tma.h. */
#define _GNU_SOURCE
#include "opencl_tma.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of cuda.h, whose numbers are part of the driver's ABI. */
enum { MAP_F16 = 6, MAP_BF16 = 9, MAP_SWIZZLE_128 = 3, MAP_FETCH_256 = 3, RANK = 4 };
typedef int encode_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                         const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                         int swizzle, int fetch, int fill);

struct tma {
    void *library, *context;
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    encode_tiled *encode;
};

static int open_library(struct tma *t, struct gen_error *err)
{
    static const char file[] = "libcuda.so.1";
    const struct {
        const char *name;
        void *place;
    } all[] = {{"cuInit", &t->init},
               {"cuDevicePrimaryCtxRetain", &t->retain},
               {"cuDevicePrimaryCtxRelease_v2", &t->release},
               {"cuCtxPushCurrent_v2", &t->push},
               {"cuCtxPopCurrent_v2", &t->pop},
               {"cuTensorMapEncodeTiled", &t->encode}};
    t->library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!t->library) {
        snprintf(err->text, sizeof err->text, "%s was not found; expected NVIDIA's driver, which makes tensor maps", file);
        return -1;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *symbol = dlsym(t->library, all[i].name);
        if (!symbol) {
            snprintf(err->text, sizeof err->text, "%s has no function %s; expected a driver of CUDA 12 or later", file,
                     all[i].name);
            return -1;
        }
        memcpy(all[i].place, &symbol, sizeof symbol);
    }
    return 0;
}

static int failed(int code, const char *what, struct gen_error *err)
{
    if (code != 0)
        snprintf(err->text, sizeof err->text, "%s: CUDA error %d", what, code);
    return code == 0 ? 0 : -1;
}

/* The driver computes a map without touching the device, but only in a thread that has a context. */
static int encode(const struct tma *t, const struct tma_tensor *x, uint64_t address, uint64_t out[16],
                  struct gen_error *err)
{
    _Alignas(64) uint64_t map[16];
    const uint64_t dims[RANK] = {(uint64_t)x->width, (uint64_t)x->count[2], (uint64_t)x->count[1],
                                 (uint64_t)x->count[0]};
    const uint64_t strides[RANK - 1] = {(uint64_t)x->stride[2] * 2, (uint64_t)x->stride[1] * 2,
                                        (uint64_t)x->stride[0] * 2};
    const uint32_t box[RANK] = {64, (uint32_t)x->rows, 1, 1}, steps[RANK] = {1, 1, 1, 1};
    void *ignored;
    if (failed(t->push(t->context), "cuCtxPushCurrent", err) != 0)
        return -1;
    int code = t->encode(map, x->bf16 ? MAP_BF16 : MAP_F16, RANK, (void *)(uintptr_t)address, dims, strides, box, steps, 0,
                         MAP_SWIZZLE_128, MAP_FETCH_256, 0);
    t->pop(&ignored);
    memcpy(out, map, sizeof map);
    if (code != 0)
        snprintf(err->text, sizeof err->text,
                 "cuTensorMapEncodeTiled of %s: CUDA error %d; dims %llu %llu %llu %llu, strides %llu %llu %llu bytes",
                 x->name, code, (unsigned long long)dims[0], (unsigned long long)dims[1], (unsigned long long)dims[2],
                 (unsigned long long)dims[3], (unsigned long long)strides[0], (unsigned long long)strides[1],
                 (unsigned long long)strides[2]);
    return code == 0 ? 0 : -1;
}

static const uint64_t SOME_ADDRESS = 1u << 20;

/* Kernels write addresses into maps, so that nothing else may depend on one. */
static int check_layout(const struct tma *t, struct gen_error *err)
{
    const struct tma_tensor x = {"a tensor", true, 128, {2, 3, 100}, {38400, 12800, 128}, 64};
    const uint64_t other = 0x7f1234567890u;
    uint64_t one[16], two[16];
    if (encode(t, &x, SOME_ADDRESS, one, err) != 0 || encode(t, &x, other, two, err) != 0)
        return -1;
    if (one[0] == SOME_ADDRESS && two[0] == other && memcmp(one + 1, two + 1, sizeof one - sizeof *one) == 0)
        return 0;
    snprintf(err->text, sizeof err->text, "this driver's tensor maps do not begin with the address, which kernels fill in");
    return -1;
}

int tma_open(struct tma **out, struct gen_error *err)
{
    struct tma *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) {
        snprintf(err->text, sizeof err->text, "out of memory");
        return -1;
    }
    if (open_library(t, err) != 0 || failed(t->init(0), "cuInit", err) != 0 ||
        failed(t->retain(&t->context, 0), "cuDevicePrimaryCtxRetain", err) != 0 || check_layout(t, err) != 0) {
        tma_close(t);
        return -1;
    }
    *out = t;
    return 0;
}

void tma_close(struct tma *t)
{
    if (!t)
        return;
    if (t->context)
        t->release(0);
    if (t->library)
        dlclose(t->library);
    free(t);
}

int tma_map(const struct tma *t, const struct tma_tensor *tensor, uint64_t out[16], struct gen_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    struct tma_tensor x = *tensor;
    for (int i = 2; i >= 0; i--) {
        if (x.count[i] <= 1) { /* of no effect, but the driver looks at it */
            x.count[i] = 1;
            x.stride[i] = i == 2 ? (x.width + 7) / 8 * 8 : x.stride[i + 1];
        }
        if (x.stride[i] >= 0 && x.stride[i] % 8 == 0)
            continue;
        snprintf(err->text, sizeof err->text,
                 "%s_stride of %s is %lld; expected a multiple of 8 elements, 0 or more, for this level (isa portable "
                 "takes any)",
                 x.name, sides[i], (long long)x.stride[i]);
        return -1;
    }
    return encode(t, &x, SOME_ADDRESS, out, err);
}
