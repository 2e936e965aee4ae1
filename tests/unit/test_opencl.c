/* test_opencl.c - OpenCL on whatever device is there, with a kernel written by hand: found, refused, built, kept,
 * executed on host arrays and on a caller's own buffers. What it is not: a test of the kernels that are emitted. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/buf.h"
#include "runtime/opencl/internal.h"
#include "runtime/judge/trial.h"
#include "runtime/judge/workload.h"
#include "../kit/child.h"
#include "../kit/seed.h"

enum { DIM = 12, DIM_V = 20, TILE_Q = 8 };

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

/* Three passes over the keys, a work-item a row. */
static const char body[] =
    "__kernel __attribute__((reqd_work_group_size(2, 4, 1))) void NAME(__global const float *q, __global const float "
    "*k,\n"
    "    __global const float *v, __global float *o, __global float *lse, __global const long *lens,\n"
    "    const struct attn_cl_args a)\n"
    "{\n"
    "    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads);\n"
    "    const long i = get_group_id(0) * 8 + get_local_id(1) * 2 + get_local_id(0);\n"
    "    if (i >= a.q_len) return;\n"
    "    const long keys = a.has_lens ? lens[a.lens_at + b] : a.kv_len;\n"
    "    const long seen = CAUSAL ? clamp(i + 1 + a.offset + (a.bottom_right ? keys - a.q_len : 0), 0L, keys) : keys;\n"
    "    float s, top = -INFINITY, sum = 0, out[20];\n"
    "    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1] + i * a.q_stride[2];\n"
    "    k += a.k_at + b * a.k_stride[0] + g * a.k_stride[1];\n"
    "    v += a.v_at + b * a.v_stride[0] + g * a.v_stride[1];\n"
    "    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];\n"
    "    for (int c = 0; c < 20; c++) out[c] = 0;\n"
    "    for (int pass = 0; pass < 2; pass++)\n"
    "        for (long j = 0; j < seen; j++) {\n"
    "            s = 0;\n"
    "            for (int d = 0; d < 12; d++) s += q[d] * k[j * a.k_stride[2] + d];\n"
    "            s *= a.scale;\n"
    "            if (pass == 0) { top = max(top, s); continue; }\n"
    "            s = exp(s - top);\n"
    "            sum += s;\n"
    "            for (int c = 0; c < 20; c++) out[c] += s * v[j * a.v_stride[2] + c];\n"
    "        }\n"
    "    for (int c = 0; c < 20; c++) o[c] = seen ? out[c] / sum : 0;\n"
    "    if (a.has_lse) lse[a.lse_at + (b * a.heads + h) * a.q_len + i] = seen ? top + log(sum) : -INFINITY;\n"
    "}\n";

static const char args_text[] =
    "struct attn_cl_args { long batch, heads, kv_heads, q_len, kv_len, q_stride[3], "
    "k_stride[3], v_stride[3], o_stride[3], q_at, k_at, v_at, o_at, lse_at, lens_at, offset, "
    "bottom_right; int has_lse, has_lens; float scale; int unused; };\n";

static struct gpu_source source_of(const char *name, int causal, struct buf *text)
{
    buf_printf(text, "#define NAME %s\n#define CAUSAL %d\n%s%s", name, causal, args_text, body);
    assert_true(buf_ok(text));
    return (struct gpu_source){.name = name,
                                  .text = text->data,
                                  .size = text->size,
                                  .group = {2, 4},
                                  .tile_q = TILE_Q,
                                  .head_dim = DIM,
                                  .head_dim_v = DIM_V,
                                  .element = sizeof(float),
                                  .values = 1,
                                  .element_kv = sizeof(float),
                                  .element_o = sizeof(float)};
}

static struct variant variant_of(int causal)
{
    struct variant v = variant_default(ISA_C);
    v.field[F_DTYPE] = DTYPE_F32;
    v.field[F_HEAD_DIM] = DIM;
    v.field[F_HEAD_DIM_V] = DIM_V;
    v.field[F_CAUSAL] = causal;
    v.field[F_TILE_Q] = TILE_Q;
    v.field[F_TILE_K] = 16;
    return v;
}

struct fixture {
    struct opencl *cl;
    struct opencl_target *target;
    char dir[64];
    struct cache *cache;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct gen_error err = {0};
    assert_non_null(f);
    *state = f;
    if (opencl_open(&f->cl, &err) != 0)
        fail_msg("%s", err.text);
    int index = opencl_find(f->cl, "opencl", &err);
    if (index < 0 || opencl_own(f->cl, index, &f->target, &err) != 0)
        fail_msg("%s", err.text);
    snprintf(f->dir, sizeof f->dir, "/tmp/attn-opencl-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(cache_open(f->dir, NULL, NULL, &f->cache), 0);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct gen_error err;
    int removed;
    assert_int_equal(cache_clear(f->cache, &removed, &err), 0);
    assert_int_equal(rmdir(f->dir), 0); /* nothing but what clear knows was left there */
    cache_close(f->cache);
    opencl_release(f->target);
    opencl_close(f->cl);
    free(f);
    return 0;
}

static struct kernel compile(const struct fixture *f, const char *name, int causal, struct cache *cache)
{
    struct buf text = {0};
    struct kernel kernel;
    struct gen_error err = {0};
    struct gpu_source source = source_of(name, causal, &text);
    if (opencl_compile(f->target, cache, &source, &kernel, &err) != 0)
        fail_msg("%s", err.text);
    buf_free(&text);
    return kernel;
}

/* ---- the library and its devices ---- */

/* In a process that may open no more files, a library that is not yet there cannot be opened. */
static int open_without_files(void *arg)
{
    const struct rlimit none = {0, 0};
    struct opencl *cl = NULL;
    struct gen_error err = {0};
    (void)arg;
    if (setrlimit(RLIMIT_NOFILE, &none) != 0 || opencl_open(&cl, &err) == 0 || cl)
        return 1;
    return strcmp(err.text, "libOpenCL.so.1 was not found; expected an OpenCL loader, such as Debian's "
                            "ocl-icd-libopencl1") == 0
               ? 0
               : 2;
}

static void test_no_library(void **state)
{
    char why[200] = "";
    (void)state;
    assert_int_equal(run_child(open_without_files, NULL, 60, why, sizeof why), 0);
}

static void test_devices(void **state)
{
    struct fixture *f = *state;
    const struct opencl_device *d;
    struct gen_error err = {0};
    char name[32];
    int n = opencl_devices(f->cl, &d), usable = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "opencl:%d", i);
        assert_int_equal(opencl_find(f->cl, name, &err), d[i].why_not[0] ? -1 : i);
        assert_true(d[i].name[0] && d[i].driver[0] && d[i].c_version[0] && d[i].platform_name[0]);
        assert_true(d[i].local_bytes > 0 && d[i].most_items > 0 && d[i].side[0] > 0 && d[i].units > 0);
        assert_true(i == 0 || d[i - 1].type <= d[i].type);
        usable += !d[i].why_not[0];
        assert_null(strpbrk(d[i].name, "\n\t"));
    }
    assert_true(usable > 0);
    snprintf(name, sizeof name, "opencl:%d", n);
    static const char *const wrong[] = {"opencl:", "opencl:x", "opencl:0x", "opencl:-1", "opencl: 0", "opencl0", "gpu"};
    assert_int_equal(opencl_find(f->cl, name, &err), -1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(opencl_find(f->cl, wrong[i], &err), -1);
        assert_non_null(strstr(err.text, "expected opencl or opencl:N"));
    }
}

/* ---- limits and builds ---- */

static void ends_as(const struct fixture *f, enum compiled how, const struct gpu_source *source, const char *text)
{
    struct opencl_kernel *k;
    struct gen_error err = {0};
    assert_int_equal(opencl_build(f->target, f->cache, source, &k, &err), how);
    assert_null(k);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
}

static void refused(const struct fixture *f, const struct gpu_source *source, const char *text)
{
    ends_as(f, COMPILE_FAILED, source, text);
}

/* What cannot fit is never given to the compiler, which would complain of this text. */
static void test_limits(void **state)
{
    struct fixture *f = *state;
    const struct opencl_device *d = opencl_target_device(f->target);
    const struct gpu_source fine = {.name = "k",
                                       .text = "no C at all",
                                       .size = 11,
                                       .group = {2, 4},
                                       .tile_q = 8,
                                       .head_dim = 1,
                                       .head_dim_v = 1,
                                       .element = 4,
                                       .values = 1,
                                       .element_kv = 4,
                                       .element_o = 4};
    struct gpu_source s = fine;
    s.local_bytes = d->local_bytes + 1;
    refused(f, &s, "bytes of local memory; expected at most");
    s = fine;
    s.group[0] = 1;
    s.group[1] = (int)d->most_items + 1;
    refused(f, &s, "work-items; expected at most");
    struct opencl_device narrow = *d;
    struct gen_error err;
    narrow.side[1] = 3;
    assert_int_equal(opencl_fits(&narrow, &fine, &err), -1);
    assert_non_null(strstr(err.text, "k: error: its work-group is 2 by 4; expected at most"));
    assert_int_equal(opencl_fits(d, &fine, &err), 0);
    ends_as(f, COMPILE_REFUSED, &fine, "k.cl:1:"); /* and the compiler's complaint, with its place */
    ends_as(f, COMPILE_REFUSED, &fine, "error:");
    struct buf text = {0};
    struct gpu_source other = source_of("exported", 0, &text);
    other.name = "wanted";
    refused(f, &other, "wanted");
    buf_free(&text);
}

static void count_files(const char *dir, int *objects, char path[300])
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    *objects = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (strlen(e->d_name) > 32) {
            ++*objects;
            snprintf(path, 300, "%s/%s", dir, e->d_name);
        }
    closedir(d);
}

static bool came_from_cache(const struct fixture *f, const char *name, int causal)
{
    struct kernel kernel = compile(f, name, causal, f->cache);
    struct trial_result result;
    struct gen_error err = {0};
    struct variant v = variant_of(causal);
    struct trial *t;
    const struct trial_shape shape = {"small", 1, 2, 1, 9, 17, .layout = TRIAL_BSHD};
    bool cached = opencl_kernel_build(opencl_kernel_of(&kernel))->from_cache;
    opencl_keep(opencl_kernel_of(&kernel), f->cache);
    assert_int_equal(trial_create(&v, &shape, test_seed(), &t, &err), 0);
    if (trial_run(t, &kernel, 1, 0, &result, &err) != 0)
        fail_msg("%s", err.text);
    trial_free(t);
    kernel_free(&kernel);
    return cached;
}

static void test_binaries(void **state)
{
    struct fixture *f = *state;
    char path[300] = "";
    int objects, removed;
    struct gen_error err;
    assert_int_equal(cache_clear(f->cache, &removed, &err), 0);
    assert_false(came_from_cache(f, "first", 0));
    count_files(f->dir, &objects, path);
    assert_int_equal(objects, 1);
    assert_true(came_from_cache(f, "first", 0));
    assert_false(came_from_cache(f, "first", 1)); /* another source of the same name */
    assert_false(came_from_cache(f, "second", 0));
    assert_true(came_from_cache(f, "second", 0));
    assert_int_equal(cache_clear(f->cache, &removed, &err), 0);
    assert_false(came_from_cache(f, "first", 0));
    count_files(f->dir, &objects, path);

    assert_int_equal(chmod(path, 0666), 0); /* others may have changed it */
    assert_false(came_from_cache(f, "first", 0));
    assert_true(came_from_cache(f, "first", 0));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, -200, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -200, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    fclose(file);
    assert_false(came_from_cache(f, "first", 0));
    assert_int_equal(truncate(path, 100), 0);
    assert_false(came_from_cache(f, "first", 0));
}

/* A file that is whole and ours, but that the driver does not take. */
static void test_foreign_binary(void **state)
{
    struct fixture *f = *state;
    const struct opencl_device *d = opencl_target_device(f->target);
    struct buf text = {0}, key = {0};
    struct gen_error err;
    struct gpu_source s = source_of("foreign", 0, &text);
    buf_printf(&key, "object %s\noptions %s\nplatform %s, %s\ndevice %s\ndriver %s\nsource %zu %016llx\n", s.name,
               d->nvidia ? "-cl-std=CL1.2 -cl-nv-verbose" : OPENCL_OPTIONS, d->platform_name, d->version, d->name,
               d->driver, s.size, (unsigned long long)cache_hash(s.text, s.size));
    assert_true(buf_ok(&key));
    assert_int_equal(cache_object_store(f->cache, key.data, "no binary", 9, &err), 0);
    assert_false(came_from_cache(f, "foreign", 0));
    assert_true(came_from_cache(f, "foreign", 0)); /* what was built took its place */
    buf_free(&text);
    buf_free(&key);
}

/* ---- execution ---- */

static void test_host_arrays(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = test_seed();
    for (int causal = 0; causal < 2; causal++) {
        struct trial_shape shapes[TRIAL_SHAPES];
        struct variant v = variant_of(causal);
        struct kernel kernel = compile(f, "host_arrays", causal, NULL);
        int n = trial_shapes(&v, shapes);
        assert_false(opencl_kernel_build(opencl_kernel_of(&kernel))->from_cache);
        for (int i = 0; i < n; i++) {
            struct trial_result result;
            struct gen_error err = {0};
            char what[300];
            trial_describe(&shapes[i], what, sizeof what);
            if (trial_all(&v, &shapes[i], &kernel, 0, seed, &result, &err) != 0)
                fail_msg("%s: %s", what, err.text);
        }
        kernel_free(&kernel);
    }
}

struct worker {
    struct opencl_kernel *kernel;
    struct workload work;
    int failed;
};

static void *run_often(void *arg)
{
    struct worker *w = arg;
    struct gen_error err;
    for (int i = 0; i < 20; i++)
        w->failed |= opencl_run(w->kernel, &w->work.args, &err) != 0;
    return NULL;
}

/* Each thread has other data and another shape; one kernel serves them all. */
static void test_threads(void **state)
{
    enum { THREADS = 4 };
    struct fixture *f = *state;
    struct kernel kernel = compile(f, "threads", 1, NULL);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct variant v = variant_of(1);
    for (int i = 0; i < THREADS; i++) {
        const struct workload_shape shape = {
            .batch = 1, .heads = 2, .kv_heads = 1, .q_len = 7 + 5 * i, .kv_len = 40 - 3 * i};
        workers[i] = (struct worker){.kernel = opencl_kernel_of(&kernel)};
        assert_int_equal(workload_create(&v, &shape, test_seed() + (uint64_t)i, &workers[i].work), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        struct check check;
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failed, 0);
        assert_int_equal(check_output(&v, &workers[i].work.args, 0, 1, &check), 0);
        assert_true(check.pass);
        workload_free(&workers[i].work);
    }
    kernel_free(&kernel);
}

static void test_time(void **state)
{
    struct fixture *f = *state;
    struct kernel kernel = compile(f, "timed", 0, NULL);
    struct workload small, large;
    struct variant v = variant_of(0);
    const struct workload_shape little = {.batch = 1, .heads = 1, .kv_heads = 1, .q_len = 8, .kv_len = 8};
    const struct workload_shape much = {.batch = 1, .heads = 8, .kv_heads = 8, .q_len = 256, .kv_len = 256};
    struct gen_error err = {0};
    double little_s = 0, much_s = 0;
    assert_int_equal(workload_create(&v, &little, 1, &small), 0);
    assert_int_equal(workload_create(&v, &much, 1, &large), 0);
    assert_int_equal(opencl_time(opencl_kernel_of(&kernel), &small.args, &little_s, &err), 0);
    assert_int_equal(opencl_time(opencl_kernel_of(&kernel), &large.args, &much_s, &err), 0);
    assert_true(little_s > 0 && much_s > little_s); /* 8192 times the work */
    large.args.q_len = 0;
    assert_int_equal(opencl_time(opencl_kernel_of(&kernel), &large.args, &much_s, &err), 0);
    assert_true(much_s == 0);
    assert_true(opencl_peak_gflops(f->target, false) > 0.1);
    assert_true(opencl_peak_gflops(f->target, true) > 0.1);
    workload_free(&small);
    workload_free(&large);
    kernel_free(&kernel);
}

/* ---- a caller's own context, queue, buffers and events ---- */

struct theirs {
    const struct opencl_api *api;
    cl_context context;
    cl_command_queue queue;
    struct workload work;
};

static void create_theirs(const struct fixture *f, struct theirs *t)
{
    const struct workload_shape shape = {
        .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 11, .kv_len = 23, .kv_lens = {23, 9}, .uneven = true};
    cl_device_id id = opencl_target_device(f->target)->id;
    struct variant v = variant_of(1);
    cl_int code;
    t->api = &f->cl->api;
    t->context = t->api->clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    t->queue = t->api->clCreateCommandQueue(t->context, id, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(workload_create(&v, &shape, test_seed(), &t->work), 0);
}

static cl_mem buffer_of(const struct theirs *t, const void *data, size_t bytes, size_t before)
{
    cl_int code;
    cl_mem m = t->api->clCreateBuffer(t->context, CL_MEM_READ_WRITE, bytes + before, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(t->api->clEnqueueWriteBuffer(t->queue, m, CL_TRUE, before, bytes, data, 0, NULL, NULL),
                     CL_SUCCESS);
    return m;
}

/* Every tensor in a buffer of its own, behind some elements that are not its; then all at once into O and LSE. */
static void run_theirs(const struct theirs *t, struct opencl_kernel *kernel)
{
    const struct workload_shape *s = &t->work.shape;
    struct attn_args a = t->work.args;
    size_t rows = (size_t)(s->batch * s->heads * s->q_len), keys = (size_t)(s->batch * s->kv_heads * s->kv_len);
    cl_event wait, done;
    cl_int code = t->api->clEnqueueMarkerWithWaitList(t->queue, 0, NULL, &wait);
    assert_int_equal(code, CL_SUCCESS);
    void *const waits[] = {wait};
    struct opencl_on on = {.queue = t->queue,
                           .at = {[ARRAY_Q] = 3, [ARRAY_K] = 5, [ARRAY_O] = 7, [ARRAY_LSE] = 2, [ARRAY_KV_LENS] = 1},
                           .waits = 1,
                           .wait = waits,
                           .event = (void **)&done};
    struct gen_error err = {0};
    on.buffer[ARRAY_Q] = buffer_of(t, a.q, rows * DIM * 4, 3 * 4);
    on.buffer[ARRAY_K] = buffer_of(t, a.k, keys * DIM * 4, 5 * 4);
    on.buffer[ARRAY_V] = buffer_of(t, a.v, keys * DIM_V * 4, 0);
    on.buffer[ARRAY_O] = buffer_of(t, a.o, rows * DIM_V * 4, 7 * 4);
    on.buffer[ARRAY_LSE] = buffer_of(t, a.lse, rows * 4, 2 * 4);
    on.buffer[ARRAY_KV_LENS] = buffer_of(t, s->kv_lens, sizeof(int64_t) * 2, sizeof(int64_t));
    if (opencl_enqueue(kernel, &a, &on, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(t->api->clEnqueueReadBuffer(t->queue, on.buffer[ARRAY_O], CL_TRUE, 7 * 4, rows * DIM_V * 4, a.o, 1,
                                                 &done, NULL),
                     CL_SUCCESS);
    assert_int_equal(
        t->api->clEnqueueReadBuffer(t->queue, on.buffer[ARRAY_LSE], CL_TRUE, 2 * 4, rows * 4, a.lse, 0, NULL, NULL),
        CL_SUCCESS);
    t->api->clReleaseEvent(done);
    t->api->clReleaseEvent(wait);
    const struct opencl_target *target = opencl_kernel_target(kernel);
    assert_int_equal(opencl_check_buffer(target, "o", on.buffer[ARRAY_O], rows * DIM_V * 4 + 7 * 4, &err), 0);
    assert_int_equal(opencl_check_buffer(target, "o", on.buffer[ARRAY_O], rows * DIM_V * 4 + 7 * 4 + 1, &err), -1);
    assert_non_null(strstr(err.text, "expected at least"));
    for (int i = 0; i < ARRAY_FEATURES; i++)
        t->api->clReleaseMemObject(on.buffer[i]);
}

static void test_their_context(void **state)
{
    struct fixture *f = *state;
    struct theirs t;
    struct opencl_target *target;
    struct gen_error err = {0};
    struct buf text = {0};
    struct opencl_kernel *kernel;
    struct variant v = variant_of(1);
    struct check check;
    create_theirs(f, &t);
    assert_int_equal(opencl_adopt(f->cl, t.context, NULL, &target, &err), -1);
    assert_non_null(strstr(err.text, "cl_device is not among the 1 devices of cl_context"));
    if (opencl_adopt(f->cl, t.context, opencl_target_device(f->target)->id, &target, &err) != 0)
        fail_msg("%s", err.text);
    struct gpu_source source = source_of("theirs", 1, &text);
    if (opencl_build(target, NULL, &source, &kernel, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(opencl_check_queue(target, t.queue, &err), 0);
    assert_int_equal(opencl_check_queue(f->target, t.queue, &err), -1); /* of another context */
    run_theirs(&t, kernel);
    struct attn_args a = t.work.args;
    a.kv_lens = t.work.shape.kv_lens;
    assert_int_equal(check_output(&v, &a, 0, 1, &check), 0);
    assert_true(check.pass);
    if (opencl_run(kernel, &a, &err) != 0) /* host arrays go through their context as well */
        fail_msg("%s", err.text);
    assert_int_equal(check_output(&v, &a, 0, 1, &check), 0);
    assert_true(check.pass);
    opencl_kernel_free(kernel);
    opencl_release(target);
    buf_free(&text);
    workload_free(&t.work);
    t.api->clReleaseCommandQueue(t.queue);
    t.api->clReleaseContext(t.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_library), /* first: a library once opened stays */
        cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_binaries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_binary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host_arrays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_their_context, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
