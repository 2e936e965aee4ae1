/* test_maps.c - the maps of tensors that libattn makes for the copy engine (runtime/gpu/tma.c), each word of them against
 * cuTensorMapEncodeTiled of NVIDIA's driver, where a Hopper is. What it is not: copies by them (test_sm90_parts.c), or what
 * makes a map impossible (tests/unit/test_opencl_tma.c). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/gpu/tma.h"
#include "runtime/numerics/convert.h"
#include "../kit/card.h"
#include "../kit/seed.h"

typedef int encode_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                         const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int fetch, int fill);

static void *function(void *library, const char *name)
{
    void *f = dlsym(library, name);
    if (!f)
        fail_msg("libcuda.so.1 has no %s", name);
    return f;
}

static void check_map(encode_tiled *encode, uint64_t *seed)
{
    const bool grouped = random_below(seed, 2);
    struct attn_cl_tensor x = {.name = "x",
                               .bf16 = random_below(seed, 2),
                               .width = 8 * (1 + random_below(seed, 32)),
                               .rows = grouped ? (int)(1 + random_below(seed, 64)) : 8 * (int)(1 + random_below(seed, 32))};
    x.once = random_below(seed, 2);
    x.heads = grouped ? (int)(1 + random_below(seed, 64 / x.rows)) : 0;
    for (int i = 0; i < (grouped ? 4 : 3); i++) {
        x.count[i] = 2 + random_below(seed, random_below(seed, 2) ? 1 << 20 : 40);
        x.stride[i] = 8 * random_below(seed, random_below(seed, 2) ? INT64_C(1) << 36 : 1000);
    }
    const uint64_t address = 16 * (1 + (uint64_t)random_below(seed, INT64_C(1) << 40));
    const int order[2][4] = {{2, 1, 0, 0}, {2, 3, 1, 0}};
    uint64_t dims[5] = {(uint64_t)x.width}, strides[4];
    for (int d = 0; d < 4; d++) {
        dims[d + 1] = (uint64_t)x.count[order[grouped][d]];
        strides[d] = (uint64_t)x.stride[order[grouped][d]] * 2;
    }
    const uint32_t box[5] = {64, (uint32_t)x.rows, grouped ? (uint32_t)x.heads : 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    _Alignas(64) uint64_t theirs[16];
    uint64_t ours[16];
    struct gen_error err = {0};
    int code = encode(theirs, x.bf16 ? 9 : 6, grouped ? 5 : 4, (void *)(uintptr_t)address, dims, strides, box, steps, 0, 3,
                      x.once ? 2 : 3, 0);
    if (code != 0 || tma_map(&x, ours, &err) != 0)
        fail_msg("CUDA error %d; %s", code, err.text);
    ours[0] = address;
    for (int i = 0; i < 16; i++)
        if (ours[i] != theirs[i])
            fail_msg("word %d is %016llx, not %016llx; strides %lld %lld %lld %lld", i, (unsigned long long)ours[i],
                     (unsigned long long)theirs[i], (long long)x.stride[0], (long long)x.stride[1], (long long)x.stride[2],
                     (long long)x.stride[3]);
}

/* Every word as the driver's own function makes it, which wants a context of its own. */
static void test_maps(void **state)
{
    card_need(*state);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    uint64_t seed = test_seed();
    if (!cuda)
        fail_msg("there is no libcuda.so.1 beside NVIDIA's OpenCL");
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *);
    encode_tiled *encode;
    *(void **)&init = function(cuda, "cuInit");
    *(void **)&retain = function(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set = function(cuda, "cuCtxSetCurrent");
    *(void **)&encode = function(cuda, "cuTensorMapEncodeTiled");
    assert_int_equal(init(0), 0);
    assert_int_equal(retain(&context, 0), 0);
    assert_int_equal(set(context), 0);
    for (int i = 0; i < 2000; i++)
        check_map(encode, &seed);
}

static int setup(void **state)
{
    static struct card card;
    *state = &card;
    card_open(&card, 90, 90);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
    };
    return cmocka_run_group_tests(tests, setup, card_teardown);
}
