/* test_bundle_launch.c - a bundle's launch code asks OpenCL and CUDA for what libattn asks for, to the byte: arguments in their
 * order, tensor maps, how keys are split, work-groups. Both call functions that write down what they get; the bundle's are in
 * bundle/launch.c and launch_cuda.c, which also look at launches in pieces. What it is not: a run on a device
 * (e2e/test_bundle.sh). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bundle.h"
#include "runtime/cuda/internal.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/levels.h"
#include "bundle/cases.h"

#define HANDLE(type, n) ((type)(uintptr_t)(n))

/* The same functions as in bundle/launch.c, for libattn. State at file scope, since they bring nothing that it could hang
 * from. */
static FILE *said;
static int buffers_made, no_room; /* no_room: 1 where the first buffer is not the room */

static cl_int CL_API_CALL set_argument(cl_kernel k, cl_uint at, size_t size, const void *value)
{
    (void)k;
    write_bytes(said, "argument", at, value, size);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL enqueue(cl_command_queue q, cl_kernel k, cl_uint sides, const size_t *from, const size_t *global,
                                  const size_t *local, cl_uint waits, const cl_event *wait, cl_event *event)
{
    (void)q, (void)k, (void)from, (void)wait;
    write_range(said, sides, global, local, (int)waits, event != NULL);
    return CL_SUCCESS;
}
static size_t made[3];
static cl_mem CL_API_CALL make_buffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    (void)c, (void)flags, (void)host;
    *code = CL_SUCCESS;
    made[no_room + buffers_made] = size;
    return HANDLE(cl_mem, HANDLE_ROOM + buffers_made++);
}

static void launch_cl(struct opencl *cl, const struct variant *v, const struct gen_text *text, const struct launch_case *c)
{
    char name[GEN_NAME_MAX];
    struct opencl_target target = {.cl = cl, .device = {.units = UNITS, .largest_buffer = INT64_MAX}};
    const struct opencl_kernel k = {.target = &target, .source = gpu_source_of(v, text, name)};
    struct opencl_slot slot = {.kernel = HANDLE(cl_kernel, 8)};
    struct launch r = {.queue = HANDLE(cl_command_queue, 7)};
    struct gen_error err;
    for (int i = 0; i < ARRAYS; i++) /* Q, K, V, O, LSE, lengths, and what features bring, in this order there too */
        r.buffer[i] = HANDLE(cl_mem, HANDLE_Q + i);
    fill_args(c, k.source.head_dim, k.source.head_dim_v, &r.args);
    fill_features(c, &r.features);
    r.args.has_lse = r.args.has_lens = c->more;
    r.features.has_q_starts = r.features.has_kv_starts = 1;
    r.features.q_end_at = r.features.q_starts_at + c->batch;
    if (!c->more)
        r.buffer[ARRAY_LSE] = r.buffer[ARRAY_O], r.buffer[ARRAY_KV_LENS] = r.buffer[ARRAY_Q];
    buffers_made = 0, no_room = !text->launch.maps;
    memset(made, 0, sizeof made);
    if (opencl_levels[k.source.level].launch(&k, &slot, &r, NULL, &err) != 0) {
        fprintf(said, "refused\n");
        return;
    }
    if (text->launch.maps || text->launch.split)
        fprintf(said, "memory: %zu %zu %zu\n", made[0], made[1], made[2]);
}

/* The same of CUDA's driver: the kernel whose launches are written. */
static const struct cuda_kernel *cuda_said;
static int cuda_launched(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared,
                         CUstream stream, void **parameters, void **extra)
{
    const struct gpu_source *s = &cuda_said->source;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    int more = 0;
    (void)f, (void)stream, (void)extra;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        more += gpu_takes(s, id);
    write_launch(said, parameters, more, s->features, s->level == GPU_SM90 ? sizeof(struct attn_cuda_maps) : 0,
                 s->level != GPU_PORTABLE, s->split, s->widened, grid, block, shared);
    return 0;
}

/* Of a launch that may begin early nothing else differs. */
static int cuda_launched_early(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra)
{
    assert_true(cuda_said->source.early && c->numAttrs == 1);
    return cuda_launched(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
                         c->hStream, parameters, extra);
}

static void launch_cuda(struct cuda *cu, const struct variant *v, const struct gen_text *text, const struct launch_case *c)
{
    char name[GEN_NAME_MAX];
    const struct cuda_card card = {.units = UNITS, .capability = 90};
    struct cuda_target target = {.cu = cu, .card = &card};
    const struct cuda_kernel k = {.target = &target, .source = gpu_source_of(v, text, name)};
    struct cuda_room room = {.memory = ADDRESS_ROOM, .has = {.done = DONE_BYTES}};
    struct cuda_launch l = {.room = &room};
    struct cuda_need need;
    struct gen_error err;
    for (int i = 0; i < ARRAYS; i++)
        l.buffer[i] = ADDRESS_Q + (CUdeviceptr)i * ADDRESS_STEP;
    fill_args(c, k.source.head_dim, k.source.head_dim_v, &l.args);
    fill_features(c, &l.features);
    l.args.has_lse = l.args.has_lens = c->more;
    l.features.has_q_starts = l.features.has_kv_starts = 1;
    l.features.q_end_at = l.features.q_starts_at + c->batch;
    if (!c->more)
        l.buffer[ARRAY_LSE] = l.buffer[ARRAY_KV_LENS] = 0;
    cuda_said = &k;
    if (cuda_room_need(&k, &l.args, &l.features, &need, &err) != 0 || cuda_launch(&k, &l, &err) != 0)
        fprintf(said, "refused\n");
    else if (text->launch.maps || text->launch.split)
        fprintf(said, "memory: %zu %zu\n", need.done, k.source.split && !need.parts ? 64 : need.parts);
}

/* What libattn asks for, with memory's line behind each launch put before it, as the bundle says it. */
static char *by_libattn(struct gen *g, bool of_cuda)
{
    struct opencl cl = {.api = {.clSetKernelArg = set_argument, .clEnqueueNDRangeKernel = enqueue,
                                .clCreateBuffer = make_buffer}};
    struct cuda cu = {.api = {.cuLaunchKernel = cuda_launched, .cuLaunchKernelEx = cuda_launched_early}};
    char *whole = NULL;
    size_t size;
    FILE *out = open_memstream(&whole, &size);
    for (int i = 0; i < LAUNCHED; i++) {
        struct variant v;
        struct gen_text text;
        struct gen_error err;
        if (variant_decode(launched[i], &v, &err) != 0 || gen_emit(g, &v, of_cuda ? GEN_CUDA : GEN_READABLE, &text, &err) != 0)
            fail_msg("%s", err.text);
        for (int c = 0; c < CASES; c++) {
            char *one = NULL;
            size_t length;
            fprintf(out, "%s, case %d\n", launched[i], c);
            said = open_memstream(&one, &length);
            if (of_cuda)
                launch_cuda(&cu, &v, &text, &cases[c]);
            else
                launch_cl(&cl, &v, &text, &cases[c]);
            fclose(said);
            char *memory = strstr(one, "memory:");
            if (memory) {
                fprintf(out, "%s", memory);
                *memory = 0;
            }
            fprintf(out, "%s", one);
            free(one);
        }
        gen_text_free(&text);
    }
    fclose(out);
    return whole;
}

static void write_bundle(struct gen *g, bool of_cuda, const char *dir)
{
    struct bundle_kernel kernel[LAUNCHED] = {{.few = false}};
    struct bundle b;
    struct gen_error err;
    for (int i = 0; i < LAUNCHED; i++) {
        assert_int_equal(variant_decode(launched[i], &kernel[i].variant, &err), 0);
        kernel[i].few = bundle_few(&kernel[i].variant);
    }
    const struct bundle_source source = {.name = "b", .version = "0.1", .cuda = of_cuda, .kernel = kernel, .kernels = LAUNCHED};
    if (bundle_make(g, &source, &b, &err) != 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < b.files; i++) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", dir, b.file[i].name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(b.file[i].data, 1, b.file[i].size, f), b.file[i].size);
        assert_int_equal(fclose(f), 0);
    }
    bundle_free(&b);
}

/* All that the bundle's program says, or NULL where it cannot be built or fails. */
static char *by_bundle(const char *dir, const char *program, int *status)
{
    char *command = NULL, *whole = NULL;
    size_t size;
    int c;
    assert_true(asprintf(&command,
                         "exec 2>&1; cd %s && cc -std=c11 -Wall -Wextra -Werror -I. \"$OLDPWD\"/tests/unit/bundle/%s b.c "
                         "-o launch && ./launch", dir, program) > 0);
    FILE *from = popen(command, "r"), *to = open_memstream(&whole, &size);
    assert_non_null(from);
    while ((c = getc(from)) != EOF)
        putc(c, to);
    *status = pclose(from);
    fclose(to);
    free(command);
    return whole;
}

static void same_as_libattn(bool of_cuda)
{
    struct gen *g;
    struct gen_error err;
    char dir[4096], command[4200];
    const char *base = getenv("TMPDIR");
    int status, line = 1;
    snprintf(dir, sizeof dir, "%s/attngen-launch-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(gen_open(&g, &err), 0);
    write_bundle(g, of_cuda, dir);
    char *theirs = by_bundle(dir, of_cuda ? "launch_cuda.c" : "launch.c", &status), *ours = by_libattn(g, of_cuda);
    if (status != 0)
        fail_msg("%s", strlen(theirs) > 2000 ? theirs + strlen(theirs) - 2000 : theirs);
    const char *a = ours, *b = theirs;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    if (*a || *b)
        fail_msg("line %d: libattn ...%.300s\nthe bundle ...%.300s", line, a, b);
    assert_true(line > LAUNCHED * CASES * 8);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    free(theirs);
    free(ours);
    gen_close(g);
}

static void test_opencl(void **state)
{
    (void)state;
    same_as_libattn(false);
}

static void test_cuda(void **state)
{
    (void)state;
    same_as_libattn(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opencl), cmocka_unit_test(test_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
