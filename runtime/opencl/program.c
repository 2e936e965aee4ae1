/* program.c - from OpenCL C to a kernel on a device: the device's limits, the build, the compiler's report, and
 * binaries kept in the cache. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/buf.h"
#include "internal.h"
#include "levels.h"
#include "gpu/ptx.h"

enum { BINARY_MOST = 64 << 20, HOPPER = 90 };

/* Nothing that relaxes IEEE arithmetic: -inf and NaN have a meaning in a softmax, and a check that passed once must
 * pass on every driver. For the same reason there is no -cl-mad-enable: templates say fma where they mean it. -w keeps
 * PoCL from printing on stderr how many warnings its compiler had; NVIDIA's driver prints nothing. */
const char OPENCL_OPTIONS[] = "-cl-std=CL1.2 -w";

static const char *options_of(const struct opencl_device *d)
{
    return d->nvidia ? "-cl-std=CL1.2 -cl-nv-verbose" : OPENCL_OPTIONS; /* adds registers and spills to the log */
}

static int out_of_memory(struct gen_error *err)
{
    return gen_out_of_memory(err, NULL);
}

/* NVIDIA's driver reports 48 KiB for every card. From 9.0 on it assembles for the card itself (sm_90a if its PTX says
 * sm_90), and then accepts all that a group can have there; for earlier cards its assembler refuses more than it
 * reports. */
static int64_t most_local(const struct opencl_device *d, enum gpu_level level)
{
    enum { CONSUMER_BLACKWELL = 120, MOST = 227 << 10, MOST_OF_CONSUMERS = 99 << 10 };
    if (!gpu_levels[level].all_local || d->capability < HOPPER)
        return d->local_bytes;
    return d->capability < CONSUMER_BLACKWELL ? MOST : MOST_OF_CONSUMERS;
}

int opencl_fits(const struct opencl_device *d, const struct gpu_source *s, struct gen_error *err)
{
    const struct gpu_device facts = opencl_facts(d);
    int64_t items = (int64_t)s->group[0] * s->group[1], local = most_local(d, s->level);
    if (!gpu_level_runs(s->level, &facts))
        snprintf(err->text, sizeof err->text,
                 "%s: error: it is for compute capability %s; expected an NVIDIA device that has it, not %s", s->name,
                 gpu_levels[s->level].capabilities, d->name);
    else if (s->local_bytes > local)
        snprintf(err->text, sizeof err->text,
                 "%s: error: it needs %lld bytes of local memory; expected at most %lld on %s", s->name,
                 (long long)s->local_bytes, (long long)local, d->name);
    else if (items > d->most_items)
        snprintf(err->text, sizeof err->text,
                 "%s: error: its work-group has %lld work-items; expected at most %lld on %s", s->name,
                 (long long)items, (long long)d->most_items, d->name);
    else if (s->group[0] > d->side[0] || s->group[1] > d->side[1])
        snprintf(err->text, sizeof err->text,
                 "%s: error: its work-group is %d by %d; expected at most %lld by %lld on %s", s->name, s->group[0],
                 s->group[1], (long long)d->side[0], (long long)d->side[1], d->name);
    else
        return 0;
    return -1;
}

void opencl_uses(const struct opencl_device *d, const struct gpu_source *s, struct buf *out)
{
    const int64_t local = most_local(d, s->level);
    buf_printf(out, "A work-group takes %lld of %lld bytes of local memory (%.0f %%) and has %d of at most %lld work-items; ",
               (long long)s->local_bytes, (long long)local,
               local > 0 ? 100.0 * (double)s->local_bytes / (double)local : 0.0, s->group[0] * s->group[1],
               (long long)d->most_items);
    buf_printf(out, "the device has %d compute unit%s.", d->units, d->units == 1 ? "" : "s");
}

/* ---- the compiler's report ---- */

static char *build_log(const struct opencl_target *t, cl_program program)
{
    const struct opencl_api *api = &t->cl->api;
    size_t size = 0;
    api->clGetProgramBuildInfo(program, t->device.id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = size ? calloc(1, size + 1) : NULL;
    if (log && api->clGetProgramBuildInfo(program, t->device.id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
        log[0] = 0;
    return log;
}

/* Compilers give the source a name of their own, and say `name:line:col: error: what` or `error: name:line:col: what`;
 * we put the place and the fault after our name. Returns an enum compiled: without a place, the driver may have lacked
 * anything at that moment. */
static enum compiled build_failed(const struct opencl_target *t, cl_program program, const char *name, cl_int code,
                                  struct gen_error *err)
{
    char *log = build_log(t, program);
    const char *error = log ? strstr(log, "error:") : NULL, *from = error;
    if (!error) {
        snprintf(err->text, sizeof err->text, "%s.cl: error: it does not build (%d): %.400s", name, (int)code,
                 log && log[0] ? log : "the compiler did not say why");
        free(log);
        return COMPILE_FAILED;
    }
    while (from > log && from[-1] != '\n')
        from--;
    int line = 0, column = 0, used = 0;
    const char *end = from + strcspn(from, "\n"), *at = from;
    while (at < end && sscanf(at, ":%9d:%9d: %n", &line, &column, &used) != 2)
        at++;
    if (at < end && strncmp(at + used, "error: ", 7) == 0)
        used += 7;
    if (at < end)
        snprintf(err->text, sizeof err->text, "%s.cl:%d:%d: error: %.*s", name, line, column, (int)(end - at - used),
                 at + used);
    else
        snprintf(err->text, sizeof err->text, "%s.cl: %.*s", name, (int)(end - error), error);
    bool placed = at < end;
    free(log);
    return placed && code == CL_BUILD_PROGRAM_FAILURE ? COMPILE_REFUSED : COMPILE_FAILED;
}

static void read_log(const struct opencl_target *t, cl_program program, struct opencl_build *build)
{
    char *log = t->device.nvidia ? build_log(t, program) : NULL;
    if (!log)
        return;
    const struct ptx_report report = ptx_report(log);
    build->registers = report.registers;
    build->spill_bytes = report.spill_bytes;
    build->serialised = report.serialised;
    free(log);
}

/* ---- binaries ---- */

static int binary_key(const struct opencl_device *d, const struct gpu_source *s, struct buf *key,
                      struct gen_error *err)
{
    buf_printf(key, "object %s\noptions %s\nplatform %s, %s\ndevice %s\ndriver %s\nsource %zu %016llx\n", s->name,
               options_of(d), d->platform_name, d->version, d->name, d->driver, s->size,
               (unsigned long long)cache_hash(s->text, s->size));
    return buf_ok(key) ? 0 : out_of_memory(err);
}

/* The position of the device's binary among those of all devices of the context, and a NUL that is not counted. NULL:
 * there is none. */
static unsigned char *get_binary(const struct opencl_target *t, cl_program program, size_t *size)
{
    enum { DEVICES = 64 };
    const struct opencl_api *api = &t->cl->api;
    cl_device_id ids[DEVICES];
    size_t sizes[DEVICES] = {0}, got = 0, mine = 0;
    unsigned char *binaries[DEVICES] = {NULL};
    if (api->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof ids, ids, &got) != CL_SUCCESS ||
        api->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS)
        return NULL;
    size_t n = got / sizeof *ids;
    while (mine < n && ids[mine] != t->device.id)
        mine++;
    if (mine == n || sizes[mine] == 0 || sizes[mine] > BINARY_MOST || !(binaries[mine] = calloc(1, sizes[mine] + 1)))
        return NULL;
    *size = sizes[mine];
    if (api->clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof *binaries, binaries, NULL) == CL_SUCCESS)
        return binaries[mine];
    free(binaries[mine]);
    return NULL;
}

/* NULL: this driver refuses it. */
static cl_program from_binary(struct opencl_target *t, const void *data, size_t size, cl_int *build_code)
{
    const struct opencl_api *api = &t->cl->api;
    cl_device_id id = t->device.id;
    cl_int code = CL_INVALID_BINARY, status = CL_INVALID_BINARY;
    const unsigned char *binary = data;
    cl_program program = api->clCreateProgramWithBinary(t->context, 1, &id, &size, &binary, &status, &code);
    if (code != CL_SUCCESS)
        return NULL;
    *build_code =
        status != CL_SUCCESS ? status : api->clBuildProgram(program, 1, &id, options_of(&t->device), NULL, NULL);
    return program;
}

/* What NVIDIA's driver returns: PTX, even for a program that it then refused, as it refuses Hopper's own instructions.
 * It compiles for sm_90, which lacks them; the text is changed to be for sm_90a. */
static char *driver_ptx(const struct opencl_target *t, cl_program program, const struct gpu_source *s,
                        cl_int build_code, struct gen_error *err)
{
    size_t size = 0;
    char *text = NULL;
    if (opencl_levels[s->level].retargeted || build_code == CL_SUCCESS)
        text = (char *)get_binary(t, program, &size);
    if (!text) {
        build_failed(t, program, s->name, build_code, err);
        return NULL;
    }
    if (!opencl_levels[s->level].retargeted)
        return text;
    char *ptx = ptx_for_hopper(text, size, err);
    free(text);
    return ptx;
}

/* From a program as driver_ptx returned it. */
static cl_program from_ptx(struct opencl_target *t, const char *ptx, const char *name, struct gen_error *err)
{
    cl_int code = CL_BUILD_PROGRAM_FAILURE;
    cl_program program = from_binary(t, ptx, strlen(ptx), &code);
    if (program && code == CL_SUCCESS)
        return program;
    if (!program) {
        snprintf(err->text, sizeof err->text, "%s.cl: error: the driver refuses the PTX that it wrote itself", name);
        return NULL;
    }
    build_failed(t, program, name, code, err);
    t->cl->api.clReleaseProgram(program);
    return NULL;
}

/* From source; the result of the build is in *build_code. */
static cl_program compile(struct opencl_target *t, const struct gpu_source *s, cl_int *build_code,
                          struct gen_error *err)
{
    const struct opencl_api *api = &t->cl->api;
    cl_device_id id = t->device.id;
    cl_int code;
    const char *text = s->text;
    cl_program program = api->clCreateProgramWithSource(t->context, 1, &text, &s->size, &code);
    if (opencl_failed(code, "clCreateProgramWithSource", err) != 0)
        return NULL;
    *build_code = api->clBuildProgram(program, 1, &id, options_of(&t->device), NULL, NULL);
    return program;
}

/* A copy with the lowest `.version` that this driver accepts. Drivers refuse versions later than theirs, and this one
 * writes its own version whatever the kernel needs. The versions in between brought neither an instruction that kernels
 * use here nor a card. */
static char *of_lowest_version(struct opencl_target *t, const char *ptx, const char *name, struct gen_error *err)
{
    static const int versions[] = {70, 74, 78, 80, 83, 86, 87, 88};
    const int own = ptx_version(ptx), count = sizeof versions / sizeof *versions;
    for (int i = 0; i <= count; i++) {
        const int version = i < count ? versions[i] : own;
        if (i < count && version >= own)
            continue;
        char *text = ptx_of_version(ptx, version, err);
        cl_program ready = text ? from_ptx(t, text, name, err) : NULL;
        if (ready) {
            t->cl->api.clReleaseProgram(ready);
            return text;
        }
        free(text);
    }
    return NULL;
}

char *opencl_ptx(struct opencl_target *t, const struct gpu_source *s, const char *head, struct gen_error *err)
{
    const struct opencl_api *api = &t->cl->api;
    cl_int code;
    struct buf all = {0};
    if (!t->device.nvidia) {
        snprintf(err->text, sizeof err->text, "%s: error: %s has no PTX; expected an NVIDIA device", s->name,
                 t->device.name);
        return NULL;
    }
    if (opencl_fits(&t->device, s, err) != 0)
        return NULL;
    cl_program made = compile(t, s, &code, err);
    if (!made)
        return NULL;
    char *ptx = driver_ptx(t, made, s, code, err);
    api->clReleaseProgram(made);
    if (!ptx)
        return NULL;
    buf_puts(&all, head);
    buf_puts(&all, ptx);
    free(ptx);
    ptx = NULL;
    if (!buf_ok(&all))
        out_of_memory(err);
    else
        ptx = of_lowest_version(t, all.data, s->name, err);
    buf_free(&all);
    return ptx;
}

static cl_program build_judged(struct opencl_target *t, const struct gpu_source *s, enum compiled *how,
                               struct gen_error *err)
{
    const struct opencl_api *api = &t->cl->api;
    cl_int code;
    *how = COMPILE_FAILED;
    cl_program program = compile(t, s, &code, err);
    if (!program)
        return NULL;
    if (!opencl_levels[s->level].retargeted) {
        if (code == CL_SUCCESS)
            return program;
        *how = build_failed(t, program, s->name, code, err);
        api->clReleaseProgram(program);
        return NULL;
    }
    char *ptx = driver_ptx(t, program, s, code, err);
    api->clReleaseProgram(program);
    program = ptx ? from_ptx(t, ptx, s->name, err) : NULL;
    free(ptx);
    return program;
}

cl_program opencl_build_program(struct opencl_target *t, const struct gpu_source *s, struct gen_error *err)
{
    enum compiled ignored;
    return build_judged(t, s, &ignored, err);
}

/* NULL: no binary, or none that this driver accepts. */
static cl_program load_binary(struct opencl_target *t, struct cache *cache, const char *key)
{
    size_t size = 0;
    cl_int code = CL_INVALID_BINARY;
    void *data = cache ? cache_object_load(cache, key, &size) : NULL;
    if (!data)
        return NULL;
    cl_program program = from_binary(t, data, size, &code);
    free(data);
    if (program && code == CL_SUCCESS)
        return program;
    if (program)
        t->cl->api.clReleaseProgram(program);
    return NULL;
}

void opencl_keep(struct opencl_kernel *k, struct cache *cache)
{
    struct gen_error ignored;
    size_t size = 0;
    if (!cache || !cache_path(cache)[0] || k->build.from_cache)
        return;
    unsigned char *binary = get_binary(k->target, k->program, &size);
    if (binary)
        cache_object_store(cache, k->key, binary, size, &ignored);
    free(binary);
}

/* ---- kernels ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* What only the built kernel shows: how many of its items the registers of a unit hold. Returns an enum compiled. */
static int check_built(const struct opencl_kernel *k, cl_kernel kernel, struct gen_error *err)
{
    size_t most = 0, items = (size_t)k->source.group[0] * (size_t)k->source.group[1];
    const struct opencl_device *d = &k->target->device;
    cl_int code =
        k->target->cl->api.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (opencl_failed(code, "clGetKernelWorkGroupInfo", err) != 0)
        return COMPILE_FAILED;
    /* NVIDIA reports 0 for a kernel that can have no group, and for one of level sm90 what its consumers allow. */
    if (most == 0 || items <= most || gpu_levels[k->source.level].shares_registers)
        return COMPILE_OK;
    snprintf(err->text, sizeof err->text,
             "%s: error: its work-group has %zu work-items; expected at most %zu, for which %s has registers", k->name,
             items, most, d->name);
    return COMPILE_REFUSED;
}

/* One row that sees no key. */
static int launch_empty(struct opencl_kernel *k, struct gen_error *err)
{
    const int64_t dim = k->source.head_dim, dim_v = k->source.head_dim_v;
    void *q = calloc((size_t)dim, (size_t)k->source.element), *o = calloc((size_t)dim_v, (size_t)k->source.element_o);
    const float none = 0;
    struct attn_features features = {.window = {-1, -1}, .softcap = 1, .page_size = 1};
    const struct attn_args args = {.size = sizeof args,
                                   .q = q,
                                   .o = o,
                                   .batch = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .q_len = 1,
                                   .q_stride = {dim, dim, dim},
                                   .k_stride = {dim, dim, dim},
                                   .v_stride = {dim_v, dim_v, dim_v},
                                   .o_stride = {dim_v, dim_v, dim_v},
                                   .scale = 1,
                                   .parts = 1,
                                   .features = &features};
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (arrays[id].needed == WHERE_ROWS) /* for each head, and there is one */
            array_set_pointer(&features, arrays[id].kernel.at, &none);
    int result = q && o ? opencl_run(k, &args, err) : out_of_memory(err);
    free(q);
    free(o);
    return result;
}

static int build_program(struct opencl_kernel *k, struct cache *cache, const struct gpu_source *s,
                         struct gen_error *err)
{
    struct buf key = {0};
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    enum compiled result = COMPILE_FAILED;
    if (binary_key(&k->target->device, s, &key, err) != 0)
        goto cleanup;
    k->key = strdup(key.data);
    if (!k->key) {
        out_of_memory(err);
        goto cleanup;
    }
    k->program = load_binary(k->target, cache, k->key);
    k->build.from_cache = k->program != NULL;
    if (!k->program)
        k->program = build_judged(k->target, s, &result, err);
    if (!k->program)
        goto cleanup;
    result = COMPILE_FAILED;
    cl_kernel kernel = api->clCreateKernel(k->program, s->name, &code);
    if (opencl_failed(code, s->name, err) != 0)
        goto cleanup;
    result = check_built(k, kernel, err);
    api->clReleaseKernel(kernel);
    if (result == 0 && !k->build.from_cache)
        read_log(k->target, k->program, &k->build);
    if (result == COMPILE_OK && s->step == GPU_ATTENTION && launch_empty(k, err) != 0)
        result = COMPILE_FAILED;
cleanup:
    buf_free(&key);
    return result;
}

int opencl_build(struct opencl_target *target, struct cache *cache, const struct gpu_source *source,
                 struct opencl_kernel **out, struct gen_error *err)
{
    double start = now_ms();
    *out = NULL;
    if (opencl_fits(&target->device, source, err) != 0)
        return -1;
    struct opencl_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return out_of_memory(err);
    k->target = target;
    k->source = *source;
    k->source.text = NULL; /* the caller's */
    snprintf(k->name, sizeof k->name, "%s", source->name);
    k->source.name = k->name;
    pthread_mutex_init(&k->lock, NULL);
    int result = build_program(k, cache, source, err);
    if (result != COMPILE_OK) {
        opencl_kernel_free(k);
        return result;
    }
    k->build.ms = now_ms() - start;
    *out = k;
    return 0;
}

void opencl_kernel_free(struct opencl_kernel *k)
{
    if (!k)
        return;
    for (struct opencl_slot *s = k->free_slots, *next; s; s = next) {
        next = s->next;
        opencl_slot_free(&k->target->cl->api, s);
    }
    if (k->program)
        k->target->cl->api.clReleaseProgram(k->program);
    pthread_mutex_destroy(&k->lock);
    free(k->key);
    free(k);
}

struct opencl_kernel *opencl_kernel_of(const struct kernel *kernel)
{
    return kernel->owner;
}

const struct opencl_build *opencl_kernel_build(const struct opencl_kernel *kernel)
{
    return &kernel->build;
}

const struct opencl_target *opencl_kernel_target(const struct opencl_kernel *kernel)
{
    return kernel->target;
}
