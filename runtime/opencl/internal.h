/* internal.h - what the files of this folder share: OpenCL's functions as pointers, and the structs behind opencl.h.
 * What it is not: for anything outside this folder. */
#ifndef ATTNGEN_OPENCL_INTERNAL_H
#define ATTNGEN_OPENCL_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>

#include "templates/opencl/split.h"
#include "gpu/hosts.h"
#include "opencl.h"

/* Everything of OpenCL 1.2 that is used. */
#define OPENCL_FUNCTIONS(X)                                                                                            \
    X(clGetPlatformIDs)                                                                                                \
    X(clGetPlatformInfo)                                                                                               \
    X(clGetDeviceIDs)                                                                                                  \
    X(clGetDeviceInfo)                                                                                                 \
    X(clCreateContext)                                                                                                 \
    X(clRetainContext)                                                                                                 \
    X(clReleaseContext)                                                                                                \
    X(clGetContextInfo)                                                                                                \
    X(clCreateCommandQueue)                                                                                            \
    X(clReleaseCommandQueue)                                                                                           \
    X(clGetCommandQueueInfo)                                                                                           \
    X(clCreateProgramWithSource)                                                                                       \
    X(clCreateProgramWithBinary)                                                                                       \
    X(clBuildProgram)                                                                                                  \
    X(clGetProgramInfo)                                                                                                \
    X(clGetProgramBuildInfo)                                                                                           \
    X(clReleaseProgram)                                                                                                \
    X(clCreateKernel)                                                                                                  \
    X(clReleaseKernel)                                                                                                 \
    X(clSetKernelArg)                                                                                                  \
    X(clGetKernelWorkGroupInfo)                                                                                        \
    X(clCreateBuffer)                                                                                                  \
    X(clReleaseMemObject)                                                                                              \
    X(clGetMemObjectInfo)                                                                                              \
    X(clEnqueueWriteBuffer)                                                                                            \
    X(clEnqueueFillBuffer)                                                                                             \
    X(clEnqueueReadBuffer)                                                                                             \
    X(clEnqueueMapBuffer)                                                                                              \
    X(clEnqueueUnmapMemObject)                                                                                         \
    X(clEnqueueNDRangeKernel)                                                                                          \
    X(clEnqueueMarkerWithWaitList)                                                                                     \
    X(clWaitForEvents)                                                                                                 \
    X(clGetEventProfilingInfo)                                                                                         \
    X(clRetainEvent)                                                                                                   \
    X(clGetEventInfo)                                                                                                  \
    X(clReleaseEvent)                                                                                                  \
    X(clFlush)                                                                                                         \
    X(clFinish)

#define OPENCL_MEMBER(name) __typeof__(&name) name;
struct opencl_api {
    OPENCL_FUNCTIONS(OPENCL_MEMBER)
};

struct opencl_target {
    struct device base;
    struct opencl *cl;
    struct opencl_device device;
    cl_context context;
    bool own;
    struct opencl_kernel *quantiser; /* of attn_quantise_cl; NULL: not built yet. Under lock */
    void (*free_quantiser)(struct opencl_kernel *kernel);
    pthread_mutex_t lock;
};

struct opencl {
    const struct resources *resources; /* this and the next: NULL if devices are not opened through the backend */
    const struct backend *backend;
    void *library;
    struct opencl_api api;
    struct opencl_device *devices;
    int count;
    pthread_mutex_t lock;
    struct opencl_target **own; /* for each device; NULL: not made yet. Under lock */
};

/* What one execution needs for itself. Kept for the next one. */
struct opencl_room {
    cl_mem memory;
    size_t size;
};
struct opencl_slot {
    cl_kernel kernel; /* its arguments are set in place, so no two threads may share it */
    cl_command_queue queue;
    struct opencl_room room[ARRAYS];
    cl_mem maps;                    /* for level sm90: where groups put their tensor maps */
    struct opencl_room done, parts; /* for kernels that split keys: how many splits are done, and their results */
    cl_mem nothing;                 /* for runs without keys: GPU_NOTHING bytes of zeros in place of what would hold some */
    cl_event busy;                  /* the last launch on a caller's queue, which uses maps until it ends; or NULL */
    struct opencl_slot *next;
};

struct opencl_kernel {
    struct opencl_target *target;
    cl_program program;
    struct gpu_source source; /* without its text; name points to the next member */
    char name[GEN_NAME_MAX];
    char *key; /* of its binary in the cache */
    struct opencl_build build;
    pthread_mutex_t lock;
    struct opencl_slot *free_slots; /* under lock */
};
void opencl_slot_free(const struct opencl_api *api, struct opencl_slot *slot);

/* What a launch needs besides the kernel. */
struct launch {
    cl_command_queue queue;
    cl_mem buffer[ARRAYS];
    struct attn_cl_args args;
    struct attn_cl_features features; /* for kernels that have some */
    cl_uint waits;
    const cl_event *wait;
};

/* ---- what a caller gives (enqueue.c) ---- */

/* What a buffer must hold: up to four sides of runs of `width` elements, the first of them at `at`. */
struct opencl_held {
    const char *name;
    void *buffer;
    int64_t at, width, element;
    int sides;
    int64_t extent[ARRAY_SIDES], stride[ARRAY_SIDES];
};
/* That its buffer is there, unless it is empty, and holds it. */
attn_status opencl_check_held(const struct opencl_target *target, const struct opencl_held *held, struct attn_error *err);
/* The queue, and as many events to wait for as there are. */
attn_status opencl_check_waits(const struct opencl_target *target, void *queue, int count, void *const *wait,
                               struct attn_error *err);

/* ---- rows of narrow types (quantise.c) ---- */

/* attn_quantise_cl; `on` is struct attn_cl_quantisation. */
attn_status opencl_quantise(struct device *device, const struct quantise_work *work, const void *on, struct attn_error *err);

/* ---- host arrays (stage.c) ---- */

/* A run's arrays, and the same on the device. */
struct staged {
    struct gpu_hosts in;
    struct launch launch;
};

/* Reads the arrays, makes room on the device and starts copying inputs there. 0, or -1 and what is wrong; call
 * gpu_hosts_free in any case, after the launch. */
int opencl_stage(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_args *a, struct staged *out,
                 struct gen_error *err);
int opencl_download(const struct opencl_kernel *k, struct opencl_slot *s, const struct staged *staged,
                    struct gen_error *err);

/* Sets the buffers, the struct, and the features' arguments, in the order of a kernel's parameters. *next: the first
 * argument after them, for a level that takes more. */
int opencl_set_args(const struct opencl_kernel *kernel, const struct opencl_slot *slot, const struct launch *launch,
                    cl_uint *next, struct gen_error *err);
int opencl_sm90_launch(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct launch *launch,
                       cl_event *event, struct gen_error *err);
int opencl_sm80_launch(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct launch *launch,
                       cl_event *event, struct gen_error *err);
int opencl_portable_launch(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct launch *launch,
                           cl_event *event, struct gen_error *err);

/* For kernels that split keys: makes room in the slot for the results of splits. The arguments continue at `at`. 0, or
 * -1 and what is too large. */
int opencl_set_split(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct attn_cl_args *args,
                     const struct attn_cl_split *split, cl_uint at, struct gen_error *err);

/* For kernels that widen K and V once, the same for what is widened. */
int opencl_set_widened(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct attn_cl_args *args, cl_uint at,
                       struct gen_error *err);

/* From source, for the source's level. NULL and err if the driver refuses it. */
cl_program opencl_build_program(struct opencl_target *target, const struct gpu_source *source,
                                struct gen_error *err);

/* Fills err with `WHAT: CL_NAME (number)` and returns -1; for CL_SUCCESS returns 0 and fills nothing. */
int opencl_failed(cl_int code, const char *what, struct gen_error *err);

#endif
