/* emulated.c - see emulated.h: the card, and a driver of OpenCL as far as libattn calls one. */
#define _GNU_SOURCE
#include "emulated.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "runtime/numerics/reference.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/variants.h"

enum { UNITS = 2, ARGUMENTS = 32 };

static struct emulated_facts facts; /* of the variant that is built, or whose kernel runs */

const struct emulated_facts *emulated_facts(void)
{
    return &facts;
}

/* ---- memory ---- */

struct memory {
    char *data;
    bool own;
};
struct program {
    char *text, *dir;
    void *library;
    struct emulated_facts facts;
    int references;
};
struct made_kernel {
    struct program *program;
    emulated_entry *entry;
    unsigned char value[ARGUMENTS][1024];
    void *argument[ARGUMENTS];
    void *memory[ARGUMENTS];
};

static struct {
    struct memory *all[4096];
    int count;
} memories;

static bool is_memory(const void *p)
{
    for (int i = 0; i < memories.count; i++)
        if (memories.all[i] == p)
            return p != NULL;
    return false;
}

static cl_mem create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *data, cl_int *code)
{
    struct memory *m = calloc(1, sizeof *m);
    (void)context;
    int at = 0;
    while (at < memories.count && memories.all[at])
        at++;
    if (!m || at == 4096)
        abort();
    memories.count = at == memories.count ? at + 1 : memories.count;
    memories.all[at] = m;
    m->own = !(flags & CL_MEM_USE_HOST_PTR);
    m->data = m->own ? aligned_alloc(256, (size + 255) / 256 * 256) : data;
    if (m->own)
        memset(m->data, 0xff, size);
    if (m->own && data)
        memcpy(m->data, data, size);
    *code = CL_SUCCESS;
    return (cl_mem)(void *)m;
}
static cl_int release_memory(cl_mem buffer)
{
    struct memory *m = (void *)buffer;
    for (int i = 0; i < memories.count; i++)
        if (memories.all[i] == m)
            memories.all[i] = NULL;
    if (m->own)
        free(m->data);
    free(m);
    return CL_SUCCESS;
}
static cl_int write_buffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, const void *data,
                           cl_uint n, const cl_event *events, cl_event *event)
{
    (void)q, (void)wait, (void)n, (void)events, (void)event;
    memcpy(((struct memory *)(void *)m)->data + at, data, size);
    return CL_SUCCESS;
}
static cl_int read_buffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, void *data, cl_uint n,
                          const cl_event *events, cl_event *event)
{
    (void)q, (void)wait, (void)n, (void)events, (void)event;
    memcpy(data, ((struct memory *)(void *)m)->data + at, size);
    return CL_SUCCESS;
}
static cl_int fill_buffer(cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t at,
                          size_t size, cl_uint n, const cl_event *events, cl_event *event)
{
    (void)q, (void)n, (void)events, (void)event;
    for (size_t i = 0; i < size; i += pattern_size)
        memcpy(((struct memory *)(void *)m)->data + at + i, pattern, pattern_size);
    return CL_SUCCESS;
}
static void *map_buffer(cl_command_queue q, cl_mem m, cl_bool wait, cl_map_flags flags, size_t at, size_t size,
                        cl_uint n, const cl_event *events, cl_event *event, cl_int *code)
{
    (void)q, (void)wait, (void)flags, (void)size, (void)n, (void)events, (void)event;
    *code = CL_SUCCESS;
    return ((struct memory *)(void *)m)->data + at;
}
static cl_int unmap(cl_command_queue q, cl_mem m, void *at, cl_uint n, const cl_event *events, cl_event *event)
{
    (void)q, (void)m, (void)at, (void)n, (void)events, (void)event;
    return CL_SUCCESS;
}
static cl_int done(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}
static cl_command_queue create_queue(cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *code)
{
    (void)c, (void)d, (void)p;
    *code = CL_SUCCESS;
    return (cl_command_queue)(void *)&memories;
}

/* ---- programs ---- */

static cl_program with_source(cl_context c, cl_uint count, const char **text, const size_t *size, cl_int *code)
{
    struct program *p = calloc(1, sizeof *p);
    (void)c, (void)count;
    if (!p)
        abort();
    p->text = strndup(*text, *size);
    p->references = 1;
    p->facts = facts;
    *code = CL_SUCCESS;
    return (cl_program)(void *)p;
}
static char dir_now[240];

static cl_int build(cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
                    void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    struct program *p = (void *)program;
    static int number;
    char source[300], library[300], log[300];
    (void)n, (void)ids, (void)options, (void)notify, (void)data;
    if (p->library)
        return CL_SUCCESS;
    number++;
    snprintf(source, sizeof source, "%s/%d-%d.cl", dir_now, (int)getpid(), number);
    snprintf(library, sizeof library, "%s/%d-%d.so", dir_now, (int)getpid(), number);
    snprintf(log, sizeof log, "%s/%d-%d.log", dir_now, (int)getpid(), number);
    char *text = emulated_text(p->text);
    FILE *f = fopen(source, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
    free(text);
    const char *const argv[] = {"clang",   "-x",           "cl",
                                "-cl-std=CL1.2", "-Xclang", "-finclude-default-header",
                                "-include", "tests/kit/host.cl", "-target", "x86_64-linux-gnu", "-O1", "-mfma", "-ffp-contract=off",
                                "-fsanitize=alignment", "-fsanitize-trap=alignment",
                                "-fPIC",   "-shared", "-Wl,-Bsymbolic", "-w",       "-o",  library, source, NULL};
    if (run_program(argv, log) != 0 || !(p->library = dlopen(library, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s does not compile: %s: %s\n", source, log, dlerror());
        abort();
    }
    unlink(source), unlink(library), unlink(log);
    return CL_SUCCESS;
}
/* What a driver for Hopper gives out, which libattn changes and brings back: here it names the program. */
static cl_int program_info(cl_program program, cl_program_info what, size_t size, void *out, size_t *got)
{
    char text[200];
    snprintf(text, sizeof text, ".version 8.3\n.target sm_90\n.reqntid 1, 1, 1\n// program %p\n", (void *)program);
    const size_t length = strlen(text);
    cl_device_id id = (cl_device_id)(void *)&memories;
    (void)size;
    if (what == CL_PROGRAM_DEVICES) {
        memcpy(out, &id, sizeof id);
        if (got)
            *got = sizeof id;
    } else if (what == CL_PROGRAM_BINARY_SIZES)
        memcpy(out, &length, sizeof length);
    else
        memcpy(*(char **)out, text, length);
    return CL_SUCCESS;
}
static cl_program with_binary(cl_context c, cl_uint n, const cl_device_id *ids, const size_t *sizes,
                              const unsigned char **data, cl_int *status, cl_int *code)
{
    const char *at = strstr((const char *)*data, "// program ");
    void *program = NULL;
    (void)c, (void)n, (void)ids, (void)sizes;
    if (!at || sscanf(at, "// program %p", &program) != 1)
        abort();
    *status = *code = CL_SUCCESS;
    ((struct program *)program)->references++;
    return (cl_program)program;
}
/* libattn releases what it has changed before it brings the change. */
static cl_int release_program(cl_program program)
{
    (void)program;
    return CL_SUCCESS;
}
static cl_int build_info(cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *out, size_t *got)
{
    (void)p, (void)d, (void)what;
    if (got)
        *got = 1;
    if (size && out)
        *(char *)out = 0;
    return CL_SUCCESS;
}

/* ---- kernels ---- */

static cl_kernel create_kernel(cl_program program, const char *name, cl_int *code)
{
    struct made_kernel *k = calloc(1, sizeof *k);
    char entry_name[300];
    if (!k)
        abort();
    k->program = (void *)program;
    snprintf(entry_name, sizeof entry_name, "emulated_entry_%s", name);
    *(void **)&k->entry = dlsym(k->program->library, entry_name);
    *code = k->entry ? CL_SUCCESS : CL_INVALID_KERNEL_NAME;
    return (cl_kernel)(void *)k;
}
static cl_int release_kernel(cl_kernel kernel)
{
    free((void *)kernel);
    return CL_SUCCESS;
}
static cl_int group_info(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t size, void *out,
                         size_t *got)
{
    const size_t most = EMULATED_ITEMS;
    (void)k, (void)d, (void)what, (void)size, (void)got;
    memcpy(out, &most, sizeof most);
    return CL_SUCCESS;
}
static cl_int set_argument(cl_kernel kernel, cl_uint at, size_t size, const void *value)
{
    struct made_kernel *k = (void *)kernel;
    void *pointer = NULL;
    if (at >= ARGUMENTS || size > sizeof k->value[0])
        return CL_INVALID_ARG_INDEX;
    memcpy(k->value[at], value, size);
    k->argument[at] = k->value[at];
    if (size == sizeof pointer)
        memcpy(&pointer, value, sizeof pointer);
    k->memory[at] = is_memory(pointer) ? pointer : NULL;
    return CL_SUCCESS;
}
static cl_int enqueue(cl_command_queue q, cl_kernel kernel, cl_uint sides, const size_t *offset, const size_t *global,
                      const size_t *local, cl_uint n, const cl_event *events, cl_event *event)
{
    struct made_kernel *k = (void *)kernel;
    (void)q, (void)offset, (void)n, (void)events, (void)event;
    if (sides != 1 || *local > EMULATED_ITEMS || *global % *local != 0)
        return CL_INVALID_WORK_GROUP_SIZE;
    for (int i = 0; i < ARGUMENTS; i++)
        if (k->memory[i])
            memcpy(k->value[i], &((struct memory *)k->memory[i])->data, sizeof(void *));
    facts = k->program->facts;
    emulated_launch(k->entry, k->argument, (int)*local, (int)(*global / *local));
    return CL_SUCCESS;
}

/* ---- the card ---- */

const char *emulated_why_not(void)
{
#ifdef __x86_64__
    return system("command -v clang > /dev/null") == 0 ? NULL : "clang is not here";
#else
    return "this processor is no x86-64";
#endif
}

static struct opencl driver;
static struct opencl_target card;

struct opencl_target *emulated_card(const char *dir)
{
    snprintf(dir_now, sizeof dir_now, "%s", dir);
    driver.api.clCreateCommandQueue = create_queue;
    driver.api.clCreateProgramWithSource = with_source;
    driver.api.clCreateProgramWithBinary = with_binary;
    driver.api.clBuildProgram = build;
    driver.api.clGetProgramInfo = program_info;
    driver.api.clGetProgramBuildInfo = build_info;
    driver.api.clReleaseProgram = release_program;
    driver.api.clCreateKernel = create_kernel;
    driver.api.clReleaseKernel = release_kernel;
    driver.api.clSetKernelArg = set_argument;
    driver.api.clGetKernelWorkGroupInfo = group_info;
    driver.api.clCreateBuffer = create_buffer;
    driver.api.clReleaseMemObject = release_memory;
    driver.api.clEnqueueWriteBuffer = write_buffer;
    driver.api.clEnqueueReadBuffer = read_buffer;
    driver.api.clEnqueueFillBuffer = fill_buffer;
    driver.api.clEnqueueMapBuffer = map_buffer;
    driver.api.clEnqueueUnmapMemObject = unmap;
    driver.api.clEnqueueNDRangeKernel = enqueue;
    driver.api.clFlush = done;
    driver.api.clFinish = done;
    driver.api.clReleaseCommandQueue = done;
    card = (struct opencl_target){.cl = &driver,
                                  .device = {.id = &memories,
                                             .name = "an emulated card",
                                             .type = OPENCL_GPU,
                                             .nvidia = true,
                                             .capability = 90,
                                             .local_bytes = 48 << 10,
                                             .memory = INT64_C(1) << 40,
                                             .largest_buffer = INT64_C(1) << 40,
                                             .most_items = EMULATED_ITEMS,
                                             .side = {EMULATED_ITEMS, EMULATED_ITEMS, EMULATED_ITEMS},
                                             .units = UNITS},
                                  .context = (cl_context)(void *)&driver};
    if (!emulated_open() || !emulated_ptx[0])
        abort();
    return &card;
}

void emulated_begin(const struct variant *v)
{
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    emulated_reseed(name);
    facts = (struct emulated_facts){.type = (enum dtype)v->field[F_DTYPE],
                                       .type_o = variant_dtype_o(v), .type_kv = variant_dtype_kv(v),
                                       .tile_k = v->field[F_TILE_K],
                                       .columns = (variant_head_dim_v(v) + 7) / 8 * 8};
    facts.products = v->field[F_ISA] == ISA_SM90 ? 16 : 8;
    facts.bits = v->field[F_ISA] == ISA_SM90 ? 2 : 1;
    facts.type_scores = v->field[F_WIDENED] && dtype_values(facts.type_kv) == 1 ? facts.type : emulated_type_of_p();
    if (v->field[F_ISA] == ISA_SM90 && facts.columns > 256) /* which two warpgroups share, by boxes of 64 */
        facts.columns = (facts.columns + 127) / 128 * 64;
}

/* Whether the kernel takes rows at these addresses; or, of an O of another type than Q, at any. */
static bool takes_addresses(const struct kernel *kernel, const struct attn_args *a)
{
    const struct opencl_kernel *k = opencl_kernel_of(kernel);
    const void *const at[ARRAY_TENSORS] = {[ARRAY_Q] = a->q, [ARRAY_K] = a->k, [ARRAY_V] = a->v, [ARRAY_O] = a->o};
    struct opencl_on rows = {.buffer = {NULL}};
    for (int id = 0; id < ARRAY_TENSORS; id++)
        if (k->source.rows != ROWS_ANYWHERE && (uintptr_t)at[id] % 16 &&
            (id != ARRAY_O || k->source.element_o == k->source.element))
            return false;
    return opencl_takes_rows(k, a, &rows);
}

/* Biases, masks, scales and lists begin wherever the caller has them, also where copies would put Q, K, V and O elsewhere. */
static int run_in_place(const struct kernel *kernel, const struct attn_args *args, struct gen_error *err)
{
    struct opencl_kernel *k = opencl_kernel_of(kernel);
    return takes_addresses(kernel, args) ? opencl_run_in_place(k, args, err) : opencl_run(k, args, err);
}

int emulated_build(const struct gen *gen, const struct variant *v, const char *dir, struct kernel *out,
                   struct gen_error *err)
{
    static struct kernel_functions functions;
    struct gen_text text;
    struct opencl_target *const target = emulated_card(dir);
    emulated_begin(v);
    if (gen_emit(gen, v, GEN_READABLE, &text, err) != 0)
        return -1;
    int result = opencl_variant_build(target, NULL, v, &text, out, err);
    gen_text_free(&text);
    if (result == 0) {
        functions = *out->functions;
        functions.run_in_place = run_in_place;
        out->functions = &functions;
        out->in_place = true;
    }
    return result;
}

int emulated_is_here(void *unused)
{
    struct gen_error err;
    const struct opencl_device *devices;
    struct opencl *cl;
    (void)unused;
    int index = opencl_open(&cl, &err) == 0 ? opencl_find(cl, "opencl", &err) : -1;
    return index >= 0 && opencl_devices(cl, &devices) > index && !opencl_isa_why_not(&devices[index], ISA_SM90);
}
