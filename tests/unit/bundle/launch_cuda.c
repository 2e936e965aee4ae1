/* launch_cuda.c - what a bundle's launch code asks of CUDA's driver, whose functions are here ones that write it down, found by
 * name as dlsym finds them. test_bundle_launch.c makes b.h and b.c, and compares what this writes with what libattn asks. How code
 * is loaded, and what is refused, is looked at here. What it is not: a run of a kernel. */
#include "b.h"

#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

static struct { /* what the driver's functions know: the kernel, which image loads, and what was called */
    const struct b_cuda_kernel *k;
    const void *takes;
    int refused, shared, launches, silent, fails_at;
    uint64_t heads_seen;
} now;

static int load(void **module, const void *image)
{
    if (image != now.takes)
        return now.refused++, 209;
    *module = &now;
    return 0;
}
static int function(void **out, void *module, const char *name)
{
    *out = module;
    return strcmp(name, now.k->variant) ? 500 : 0;
}
static int set(void *f, int attribute, int value)
{
    (void)f;
    now.shared = value;
    return attribute == 8 ? 0 : 1;
}
static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **parameters, void **extra)
{
    const struct b_cuda_kernel *k = now.k;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    int arrays = 0;
    now.heads_seen += (uint64_t)gy * gz;
    if (++now.launches == now.fails_at || f != &now || stream != &now.launches || extra)
        return 700;
    for (int i = 0; i < 9; i++)
        arrays += k->takes >> i & 1;
    if (!now.silent)
        write_launch(stdout, parameters, arrays, k->features, k->maps ? 4 * 128 + 64 : 0, k->capability, k->split, k->widened,
                     grid, block, shared);
    return 0;
}

static void *find_function(void *library, const char *name)
{
    void (*const functions[])(void) = {(void (*)(void))load, (void (*)(void))function, (void (*)(void))set, (void (*)(void))launch};
    static const char *const names[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel"};
    void *found = NULL;
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], name) && strcmp(name, *(const char **)library))
            memcpy(&found, &functions[i], sizeof found);
    return found;
}

static struct b_cuda_run run_of(const struct b_cuda_kernel *k, const struct launch_case *c)
{
    struct b_cuda_run r = {.function = &now, .stream = &now.launches, .units = UNITS};
    uint64_t *const arrays[] = {&r.q, &r.k, &r.v, &r.o, &r.lse, &r.kv_lens, &r.bias, &r.mask, &r.slopes, &r.sinks,
                                &r.q_starts, &r.kv_starts, &r.pages, &r.k_scales, &r.v_scales};
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = ADDRESS_Q + i * ADDRESS_STEP;
    if (!c->more)
        r.lse = r.kv_lens = 0;
    r.room = ADDRESS_ROOM, r.done = ADDRESS_DONE, r.parts = ADDRESS_PARTS;
    fill_args(c, k->head_dim, k->head_dim_v, &r.args);
    fill_features(c, &r.features);
    return r;
}

static int find(const char *variant, struct b_cuda_kernel *out)
{
    static const struct b_problem problems[] = {
#include "problems.h"
    };
    for (int i = 0; i < (int)(sizeof problems / sizeof *problems); i++)
        if (b_find_cuda(&problems[i], 90, out) >= 0 && !strcmp(out->variant, variant))
            return 0;
    return -1;
}

/* The host's own image alone; else the bundle's cubin, then its PTX. */
static const char *look_at_loading(const struct b_cuda_driver *driver, const struct b_cuda_kernel *k)
{
    struct b_cuda_kernel coded = *k, bare = *k;
    void *module, *f;
    const char own = 0;
    coded.cubin = (const unsigned char *)"cubin", coded.ptx = (const unsigned char *)"ptx", bare.cubin = bare.ptx = NULL;
    now.refused = now.shared = 0, now.takes = &own;
    if (b_load_cuda(driver, &coded, &own, &module, &f) != 0 || now.refused != 0 ||
        now.shared != (k->capability ? k->local_bytes : 0))
        return "the host's image is not taken";
    now.takes = coded.cubin;
    if (b_load_cuda(driver, &coded, &own, &module, &f) != 209 || now.refused != 1 || module)
        return "another one is taken than the host's image";
    if (b_load_cuda(driver, &coded, NULL, &module, &f) != 0 || now.refused != 1)
        return "the cubin is not taken";
    now.takes = coded.ptx;
    if (b_load_cuda(driver, &coded, NULL, &module, &f) != 0 || now.refused != 2 || f != &now)
        return "the PTX is not taken where the cubin does not load";
    if (b_load_cuda(driver, &bare, NULL, &module, &f) != 209 || now.refused != 2 || module || f)
        return "a kernel without code is loaded";
    return NULL;
}

static const char *look_at_refusals(const struct b_cuda_driver *driver, const struct b_cuda_kernel *k)
{
    struct b_cuda_run r = run_of(k, &cases[0]);
    now.silent = 1, now.launches = 0;
    r.args.k_stride[2] += 4;
    if (b_launch_cuda(driver, k, &r) != 1)
        return "a stride of half of 16 bytes is taken";
    r = run_of(k, &cases[0]), r.args.v_stride[1] = -r.args.v_stride[1];
    if (b_launch_cuda(driver, k, &r) != 1)
        return "a negative stride is taken";
    r = run_of(k, &cases[0]), r.v += 8;
    if (b_launch_cuda(driver, k, &r) != 1)
        return "an address of half of 16 bytes is taken";
    r = run_of(k, &cases[0]), r.room = 0;
    if (b_launch_cuda(driver, k, &r) != 1)
        return "a launch without memory for maps is taken";
    r = run_of(k, &cases[0]), r.units = 0;
    if (b_launch_cuda(driver, k, &r) != 1 || now.launches)
        return "a card without multiprocessors is taken";
    r = run_of(k, &cases[0]), r.args.batch = 0;
    if (b_launch_cuda(driver, k, &r) != 0 || now.launches)
        return "an empty run is launched";
    r = run_of(k, &cases[0]), now.fails_at = 1;
    if (b_launch_cuda(driver, k, &r) != 700)
        return "CUDA's error is lost";
    now.fails_at = 0;
    return NULL;
}

/* A portable launch in pieces: every head of every sequence once, and nothing after a failure. */
static const char *look_at_pieces(const struct b_cuda_driver *driver, const struct b_cuda_kernel *k)
{
    static const struct launch_case large = {3, 70000, 7, 3, 5, 0};
    struct b_cuda_run r = run_of(k, &large);
    r.q_starts = r.kv_starts = 0, now.silent = 1, now.launches = 0, now.heads_seen = 0;
    if (b_launch_cuda(driver, k, &r) != 0 || now.launches < 4 || now.heads_seen != 3 * 70000)
        return "pieces are not the whole";
    now.launches = 0, now.fails_at = 2;
    if (b_launch_cuda(driver, k, &r) != 700 || now.launches != 2)
        return "pieces go on after a failure";
    now.fails_at = 0;
    return NULL;
}

int main(void)
{
    static struct b_cuda_kernel k;
    struct b_cuda_driver driver;
    const char *missing = "cuLaunchKernel", *none = "", *wrong = NULL;
    if (b_open_cuda(&driver, find_function, &missing) != -1 || b_open_cuda(&driver, find_function, &none) != 0)
        return puts("a driver that lacks a function is taken, or one that has all is not"), 1;
    now.k = &k;
    for (int i = 0; i < LAUNCHED && !wrong; i++) {
        if (find(launched[i], &k) != 0)
            return puts(launched[i]), 1;
        char *text = malloc(b_text_cuda(&k, NULL));
        if (!text || b_text_cuda(&k, text) != strlen(text) + 1 || !strstr(text, k.variant) || !strstr(text, "__global__"))
            return puts("a kernel's text is not whole"), 1;
        free(text);
        now.silent = 0;
        for (int c = 0; c < CASES; c++) {
            struct b_cuda_run r = run_of(&k, &cases[c]);
            size_t bytes[3];
            int code = b_memory_cuda(&k, &r, bytes);
            printf("%s, case %d\n", launched[i], c);
            if (!code && (k.maps || k.split))
                printf("memory: %zu %zu\n", (bytes[1] + 255) / 256 * 256, bytes[2]);
            code = code ? code : b_launch_cuda(&driver, &k, &r);
            if (code)
                printf("refused\n");
        }
        wrong = look_at_loading(&driver, &k);
    }
    if (!wrong && find(launched[0], &k) == 0)
        wrong = look_at_refusals(&driver, &k);
    if (!wrong && find(launched[LAUNCHED - 1], &k) == 0)
        wrong = look_at_pieces(&driver, &k);
    if (wrong)
        puts(wrong);
    return wrong != NULL;
}
