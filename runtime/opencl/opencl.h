/* opencl.h - OpenCL devices, and kernels on them: found, built, run, timed. Only the files of this folder use OpenCL;
 * its library is opened at run time, and a machine without one gets a message. Handles from or for a caller
 * (cl_context, cl_mem, ...) are void pointers, as in attn.h. What it is not: it knows neither variants nor what a
 * kernel computes. */
#ifndef ATTNGEN_OPENCL_OPENCL_H
#define ATTNGEN_OPENCL_OPENCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/source.h"
#include "arrays/arrays.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "backend/backend.h"
#include "backend/step.h"

extern const struct backend opencl_backend;

struct opencl_device {
    void *id, *platform; /* cl_device_id, cl_platform_id */
    char name[128], driver[64], platform_name[128], version[128], c_version[64];
    enum opencl_type { OPENCL_GPU, OPENCL_ACCELERATOR, OPENCL_OTHER, OPENCL_CPU } type;
    bool nvidia;
    int capability;                 /* of NVIDIA's devices: 90 means 9.0; else 0 */
    int64_t local_bytes;            /* what the arrays of a kernel may take in a work-group, as the driver reports it */
    int64_t memory, largest_buffer; /* bytes */
    int64_t most_items, side[3];    /* of a work-group, and of each of its sides */
    int units, clock_mhz;
    char why_not[160]; /* "": usable */
};
const char *opencl_type_name(enum opencl_type type); /* "GPU" */
struct gpu_device opencl_facts(const struct opencl_device *device);

/* Opens the library and lists all devices of all its platforms: GPUs first, CPUs last, otherwise in the library's
 * order. From then on immutable, except for what it locks inside. The queries take tens of milliseconds. 0, or -1:
 * there is no library. Having no device is not an error. */
struct opencl;
int opencl_open(struct opencl **out, struct gen_error *err);
void opencl_close(struct opencl *cl); /* NULL is allowed; free targets and kernels first */
int opencl_devices(const struct opencl *cl, const struct opencl_device **out); /* returns how many */


/* The index of the device that "opencl" (the first usable one) or "opencl:N" names, or -1 and why there is none. */
int opencl_find(const struct opencl *cl, const char *name, struct gen_error *err);

/* A device in a context: libattn's own, made once for each device; or the caller's, which is retained. */
struct opencl_target;
int opencl_own(struct opencl *cl, int index, struct opencl_target **out, struct gen_error *err);
int opencl_adopt(struct opencl *cl, void *context, void *device, struct opencl_target **out, struct gen_error *err);
void opencl_release(struct opencl_target *target); /* NULL is allowed; libattn's own live until opencl_close */
const struct opencl_device *opencl_target_device(const struct opencl_target *target);

/* 0, or -1 and the limit of the device that the kernel exceeds; nothing is built. */
int opencl_fits(const struct opencl_device *device, const struct gpu_source *source, struct gen_error *err);
/* Appends, as a sentence, how much of these limits it takes. */
void opencl_uses(const struct opencl_device *device, const struct gpu_source *source, struct buf *out);

/* Builds the kernel, or loads what opencl_keep left in the cache (NULL: no cache). A bad file there leads to a build.
 * Compilers may postpone work to the first launch, so this includes one launch of a single empty row. Returns an enum
 * compiled, with the rule or the compiler's message. */
struct opencl_kernel;
struct opencl_build {
    bool from_cache;
    double ms;
    int registers;       /* for each item; 0: not reported */
    int64_t spill_bytes; /* stores of spilled registers for each item, if the compiler reports them; else 0 */
    bool serialised;     /* products of the tensor cores wait for each other, if the compiler reports it */
};
int opencl_build(struct opencl_target *target, struct cache *cache, const struct gpu_source *source,
                 struct opencl_kernel **out, struct gen_error *err);
void opencl_kernel_free(struct opencl_kernel *kernel); /* NULL is allowed; nobody may be running it */
int opencl_compile(struct opencl_target *target, struct cache *cache, const struct gpu_source *source,
                   struct kernel *out, struct gen_error *err); /* the same, for kernel_free to free */
/* Keeps the binary for the next process. It is separate from building because PoCL takes seconds to return one. A
 * failure only costs the next process a build. */
void opencl_keep(struct opencl_kernel *kernel, struct cache *cache);
struct opencl_kernel *opencl_kernel_of(const struct kernel *kernel); /* of one that opencl_compile made */
const struct opencl_build *opencl_kernel_build(const struct opencl_kernel *kernel);
const struct opencl_target *opencl_kernel_target(const struct opencl_kernel *kernel);
extern const char OPENCL_OPTIONS[]; /* that programs are built with */

/* What NVIDIA's driver makes of it, after `head`, which is a comment: PTX for the device's compute capability and later
 * ones (level sm90: only for 9.0), with the lowest version that the driver accepts. The caller frees it; NULL and why
 * there is none. */
char *opencl_ptx(struct opencl_target *target, const struct gpu_source *source, const char *head,
                 struct gen_error *err);

/* Runs on host arrays and waits: copies the rows that take part to the device, and the rows of O and LSE back; bytes
 * between rows are neither read nor written. Buffers are kept for the next run. Any number of threads may run one
 * kernel. */
int opencl_run(struct opencl_kernel *kernel, const struct attn_args *args, struct gen_error *err);

/* The same without copies, if device and host share memory: buffers are the arrays' own memory, from each one's first
 * row to its last, including gaps, so that a kernel that reads or writes elsewhere can be caught. For judging
 * kernels. */
int opencl_run_in_place(struct opencl_kernel *kernel, const struct attn_args *args, struct gen_error *err);

/* The seconds of the kernel alone, by the device's own clock: the mean over launches of about two milliseconds
 * together, after one that is not counted. Copies as opencl_run does, but nothing back. */
int opencl_time(struct opencl_kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err);

/* Enqueues on the caller's queue and returns. Pointers in args are not followed; buffers and offsets are in `on`. */
struct opencl_on {
    void *queue;          /* cl_command_queue of the target's context and device */
    void *buffer[ARRAYS]; /* cl_mem; NULL if they are empty, and for optional arrays */
    int64_t at[ARRAYS];   /* offsets, in elements */
    int waits;
    void *const *wait; /* cl_event */
    void **event;      /* cl_event, which the caller releases; or NULL */
};
int opencl_enqueue(struct opencl_kernel *kernel, const struct attn_args *args, const struct opencl_on *on,
                   struct gen_error *err);
/* Whether rows lie there as the kernel takes them. */
bool opencl_takes_rows(const struct opencl_kernel *kernel, const struct attn_args *args, const struct opencl_on *on);

bool opencl_takes_run(struct opencl_kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                      const struct attn_cl_run *run);
/* attn_execute_cl, for a plan's kernel. */
attn_status opencl_enqueue_run(struct opencl_kernel *kernel, const struct run_rules *rules,
                               const struct attn_run *shape, const struct attn_cl_run *run, struct attn_error *err);

/* A step alone: the struct for the kernel's kind, and buffers (cl_mem) in the order in which it takes them: A, B and C,
 * or S and P. Put on the caller's queue; or run on host arrays of so many bytes, of which the last is copied back. The
 * event may be NULL. */
int opencl_step_enqueue(struct opencl_kernel *kernel, const struct step_args *step, void *queue, void *const buffer[],
                        void **event, struct gen_error *err);
int opencl_step_run(struct opencl_kernel *kernel, const struct step_args *step, void *const array[],
                    const size_t size[], struct gen_error *err);

/* Whether `buffer` has at least `end` bytes and belongs to the target's context, and whether `queue` belongs to the
 * target. 0, or -1 and what is wrong. */
int opencl_check_buffer(const struct opencl_target *target, const char *what, void *buffer, uint64_t end,
                        struct gen_error *err);
int opencl_check_queue(const struct opencl_target *target, void *queue, struct gen_error *err);

/* The sustained rate of multiply-adds of the whole device, each counted as two, with the fastest instruction for
 * products of f32, or of 16 bits with sums in f32: NVIDIA's tensor cores, if the compute capability shows them. 0 if it
 * cannot be measured. */
double opencl_peak_gflops(struct opencl_target *target, bool of_16_bits);

#endif
