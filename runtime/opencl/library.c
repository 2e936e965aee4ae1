/* library.c - OpenCL's library, opened at run time, and its devices. Building is in program.c, running in run.c. */
#define _GNU_SOURCE
#include "opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { NO_PLATFORM = -1001 }; /* from Khronos's extension; in CL/cl_ext.h only in headers newer than Debian's oldest */
enum { MOST_PLATFORMS = 32, MOST_DEVICES = 64 };

static const struct {
    cl_int code;
    const char *name;
} code_names[] = {
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
    {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
    {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
    {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
    {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
    {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE"},
    {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {CL_INVALID_EVENT_WAIT_LIST, "CL_INVALID_EVENT_WAIT_LIST"},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
};

int opencl_failed(cl_int code, const char *what, struct gen_error *err)
{
    const char *name = "an error of the driver's own";
    if (code == CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++)
        if (code_names[i].code == code)
            name = code_names[i].name;
    snprintf(err->text, sizeof err->text, "%s: %s (%d)", what, name, (int)code);
    err->no_memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return -1;
}

struct gpu_device opencl_facts(const struct opencl_device *d)
{
    return (struct gpu_device){.is_cpu = d->type == OPENCL_CPU,
                               .nvidia = d->nvidia,
                               .capability = d->capability,
                               .local_bytes = d->local_bytes};
}

const char *opencl_type_name(enum opencl_type type)
{
    static const char *const names[] = {[OPENCL_GPU] = "GPU",
                                        [OPENCL_ACCELERATOR] = "accelerator",
                                        [OPENCL_OTHER] = "other device",
                                        [OPENCL_CPU] = "CPU"};
    return names[type];
}

/* ---- the library ---- */

static int open_library(struct opencl *cl, struct gen_error *err)
{
    static const char *const files[] = {"libOpenCL.so.1", "libOpenCL.so"};
    for (size_t i = 0; i < sizeof files / sizeof *files && !cl->library; i++)
        /* Drivers leave threads and exit handlers behind, so their code must stay loaded. */
        cl->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cl->library) {
        snprintf(err->text, sizeof err->text,
                 "libOpenCL.so.1 was not found; expected an OpenCL loader, such as Debian's "
                 "ocl-icd-libopencl1");
        return -1;
    }
#define OPENCL_NAME(name) #name,
#define OPENCL_PLACE(name) &cl->api.name,
    static const char *const names[] = {OPENCL_FUNCTIONS(OPENCL_NAME)};
    void *const places[] = {OPENCL_FUNCTIONS(OPENCL_PLACE)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(cl->library, names[i]);
        if (!symbol) {
            snprintf(err->text, sizeof err->text, "%s has no function %s; expected a loader of OpenCL 1.2 or later",
                     files[0], names[i]);
            return -1;
        }
        memcpy(places[i], &symbol, sizeof symbol); /* ISO C does not convert an object pointer to a function pointer */
    }
    return 0;
}

/* ---- devices ---- */

/* Drivers pad names with blanks; a name is part of one-line keys. */
static void tidy(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char c = (unsigned char)*from < ' ' ? ' ' : *from;
        if (c != ' ' || (to > text && to[-1] != ' '))
            *to++ = c;
    }
    while (to > text && to[-1] == ' ')
        to--;
    *to = 0;
}

static void device_text(const struct opencl_api *api, cl_device_id id, cl_device_info what, char *out, size_t size)
{
    char text[2048] = "";
    if (api->clGetDeviceInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = 0;
    tidy(text);
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

static void platform_text(const struct opencl_api *api, cl_platform_id id, cl_platform_info what, char *out,
                          size_t size)
{
    char text[2048] = "";
    if (api->clGetPlatformInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = 0;
    tidy(text);
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

static cl_ulong device_number(const struct opencl_api *api, cl_device_id id, cl_device_info what)
{
    cl_ulong value = 0; /* only little-endian machines; shorter types fill its low bytes */
    return api->clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

enum { CAPABILITY_MAJOR = 0x4000, CAPABILITY_MINOR = 0x4001 }; /* from cl_nv_device_attribute_query */

static void judge(const struct opencl_api *api, cl_device_id id, struct opencl_device *d)
{
    int major = 0, minor = 0;
    bool version = sscanf(d->c_version, "OpenCL C %d.%d", &major, &minor) == 2;
    const char *why = NULL;
    if (!device_number(api, id, CL_DEVICE_AVAILABLE))
        why = "the driver says that it is not available";
    else if (!device_number(api, id, CL_DEVICE_COMPILER_AVAILABLE))
        why = "its driver has no compiler";
    else if (!version || major < 1 || (major == 1 && minor < 2))
        why = "it has no OpenCL C 1.2";
    else if (!device_number(api, id, CL_DEVICE_ENDIAN_LITTLE))
        why = "it is big-endian, and this machine is not";
    snprintf(d->why_not, sizeof d->why_not, "%s", why ? why : "");
}

static void describe(const struct opencl_api *api, cl_device_id id, struct opencl_device *d)
{
    cl_platform_id platform = NULL;
    size_t side[3] = {0};
    char vendor[64];
    *d = (struct opencl_device){.id = id};
    api->clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    d->platform = platform;
    platform_text(api, platform, CL_PLATFORM_VERSION, d->version, sizeof d->version);
    platform_text(api, platform, CL_PLATFORM_NAME, d->platform_name, sizeof d->platform_name);
    device_text(api, id, CL_DEVICE_NAME, d->name, sizeof d->name);
    device_text(api, id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    device_text(api, id, CL_DEVICE_OPENCL_C_VERSION, d->c_version, sizeof d->c_version);
    device_text(api, id, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    d->nvidia = strstr(vendor, "NVIDIA") && strstr(d->platform_name, "NVIDIA"); /* not PoCL on such a card */
    if (d->nvidia)
        d->capability = (int)(10 * device_number(api, id, CAPABILITY_MAJOR) + device_number(api, id, CAPABILITY_MINOR));
    cl_ulong type = device_number(api, id, CL_DEVICE_TYPE);
    d->type = type & CL_DEVICE_TYPE_GPU           ? OPENCL_GPU
              : type & CL_DEVICE_TYPE_ACCELERATOR ? OPENCL_ACCELERATOR
              : type & CL_DEVICE_TYPE_CPU         ? OPENCL_CPU
                                                  : OPENCL_OTHER;
    /* NVIDIA reports 48 KiB for cards that have 227; opencl_fits knows better for its own levels. */
    d->local_bytes = (int64_t)device_number(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
    d->memory = (int64_t)device_number(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    d->largest_buffer = (int64_t)device_number(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    d->most_items = (int64_t)device_number(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    api->clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof side, side, NULL);
    for (int i = 0; i < 3; i++)
        d->side[i] = (int64_t)side[i];
    d->units = (int)device_number(api, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    d->clock_mhz = (int)device_number(api, id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    judge(api, id, d);
}

static int add_device(struct opencl *cl, cl_device_id id)
{
    struct opencl_device d, *more = realloc(cl->devices, (size_t)(cl->count + 1) * sizeof *more);
    if (!more)
        return -1;
    cl->devices = more;
    describe(&cl->api, id, &d);
    int at = cl->count++;
    for (; at > 0 && more[at - 1].type > d.type; at--)
        more[at] = more[at - 1];
    more[at] = d;
    return 0;
}

static int list_devices(struct opencl *cl, struct gen_error *err)
{
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint n = 0;
    cl_int code = cl->api.clGetPlatformIDs(MOST_PLATFORMS, platforms, &n);
    if (code == NO_PLATFORM)
        return 0;
    if (opencl_failed(code, "clGetPlatformIDs", err) != 0)
        return -1;
    for (cl_uint p = 0; p < n && p < MOST_PLATFORMS; p++) {
        cl_device_id ids[MOST_DEVICES];
        cl_uint devices = 0;
        if (cl->api.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &devices) != CL_SUCCESS)
            continue; /* a platform without a device reports that as an error */
        for (cl_uint i = 0; i < devices && i < MOST_DEVICES; i++)
            if (add_device(cl, ids[i]) != 0)
                return gen_out_of_memory(err, NULL);
    }
    return 0;
}

int opencl_open(struct opencl **out, struct gen_error *err)
{
    *out = NULL;
    struct opencl *cl = calloc(1, sizeof *cl);
    if (!cl)
        return gen_out_of_memory(err, NULL);
    pthread_mutex_init(&cl->lock, NULL);
    if (open_library(cl, err) != 0 || list_devices(cl, err) != 0) {
        opencl_close(cl);
        return -1;
    }
    cl->own = calloc((size_t)cl->count + 1, sizeof *cl->own);
    if (!cl->own) {
        gen_out_of_memory(err, NULL);
        opencl_close(cl);
        return -1;
    }
    *out = cl;
    return 0;
}

static void target_free(struct opencl_target *t)
{
    if (!t)
        return;
    if (t->quantiser)
        t->free_quantiser(t->quantiser);
    t->cl->api.clReleaseContext(t->context);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void opencl_close(struct opencl *cl)
{
    if (!cl)
        return;
    for (int i = 0; cl->own && i < cl->count; i++)
        target_free(cl->own[i]);
    if (cl->library)
        dlclose(cl->library);
    pthread_mutex_destroy(&cl->lock);
    free(cl->own);
    free(cl->devices);
    free(cl);
}

int opencl_devices(const struct opencl *cl, const struct opencl_device **out)
{
    *out = cl->devices;
    return cl->count;
}

/* "opencl" or "opencl:N" */
static bool is_name(const char *device)
{
    if (strncmp(device, "opencl", 6) != 0 || !device[6])
        return !strcmp(device, "opencl");
    size_t digits = strspn(device + 7, "0123456789");
    return device[6] == ':' && digits > 0 && digits < 6 && !device[7 + digits];
}

int opencl_find(const struct opencl *cl, const char *name, struct gen_error *err)
{
    int first = -1, index = -1;
    for (int i = 0; i < cl->count && first < 0; i++)
        if (!cl->devices[i].why_not[0])
            first = i;
    if (strcmp(name, "opencl") == 0) {
        index = first;
        if (index < 0)
            snprintf(err->text, sizeof err->text, "%s; expected a usable OpenCL device",
                     cl->count ? cl->devices[0].why_not : "no platform has a device");
        return index;
    }
    if (!is_name(name)) {
        snprintf(err->text, sizeof err->text, "device '%.40s' is unknown; expected opencl or opencl:N", name);
        return -1;
    }
    index = atoi(name + strlen("opencl:"));
    if (index >= cl->count)
        snprintf(err->text, sizeof err->text, "there is no device %d; expected one below %d", index, cl->count);
    else if (cl->devices[index].why_not[0])
        snprintf(err->text, sizeof err->text, "device %d, %s, cannot be used: %s", index, cl->devices[index].name,
                 cl->devices[index].why_not);
    else
        return index;
    return -1;
}

/* ---- targets ---- */

static int target_create(struct opencl *cl, const struct opencl_device *device, cl_context context,
                         struct opencl_target **out, struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_device_id id = device->id;
    struct opencl_target *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return gen_out_of_memory(err, NULL);
    *t = (struct opencl_target){.cl = cl, .device = *device, .context = context, .own = !context};
    t->base = (struct device){.backend = cl->backend,
                              .resources = cl->resources,
                              .compiler = "opencl",
                              .form = GEN_READABLE,
                              .units = device->units > 0 ? device->units : 1,
                              .workers = "compute unit",
                              .has_clock = true,
                              .on_cores = device->type == OPENCL_CPU,
                              .ships = device->nvidia ? "ptx" : NULL};
    if (t->own)
        snprintf(t->base.name, sizeof t->base.name, "opencl:%d", (int)(device - cl->devices));
    else
        snprintf(t->base.name, sizeof t->base.name, "opencl");
    if (t->own)
        t->context = cl->api.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    else
        code = cl->api.clRetainContext(context);
    if (opencl_failed(code, t->own ? "clCreateContext" : "clRetainContext", err) != 0) {
        free(t);
        return -1;
    }
    pthread_mutex_init(&t->lock, NULL);
    *out = t;
    return 0;
}

int opencl_own(struct opencl *cl, int index, struct opencl_target **out, struct gen_error *err)
{
    int result = 0;
    pthread_mutex_lock(&cl->lock);
    if (!cl->own[index])
        result = target_create(cl, &cl->devices[index], NULL, &cl->own[index], err);
    *out = cl->own[index];
    pthread_mutex_unlock(&cl->lock);
    return result;
}

int opencl_adopt(struct opencl *cl, void *context, void *device, struct opencl_target **out, struct gen_error *err)
{
    cl_device_id ids[MOST_DEVICES];
    size_t size = 0;
    struct opencl_device d;
    *out = NULL;
    if (opencl_failed(cl->api.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &size),
                      "clGetContextInfo of cl_context", err) != 0)
        return -1;
    size_t n = size / sizeof *ids, i = 0;
    while (i < n && ids[i] != device)
        i++;
    if (i == n) {
        snprintf(err->text, sizeof err->text,
                 "cl_device is not among the %zu devices of cl_context; expected one of them", n);
        return -1;
    }
    describe(&cl->api, device, &d);
    if (d.why_not[0]) {
        snprintf(err->text, sizeof err->text, "device %s cannot be used: %s", d.name, d.why_not);
        return -1;
    }
    return target_create(cl, &d, context, out, err);
}

void opencl_release(struct opencl_target *target)
{
    if (target && !target->own)
        target_free(target);
}

const struct opencl_device *opencl_target_device(const struct opencl_target *target)
{
    return &target->device;
}
