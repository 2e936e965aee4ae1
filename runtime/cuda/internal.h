/* internal.h - what the files of this folder share: devices of CUDA's driver, kernels on them, and what an execution
 * needs. What it is not: for anything outside this folder. */
#ifndef ATTNGEN_CUDA_INTERNAL_H
#define ATTNGEN_CUDA_INTERNAL_H

#include <pthread.h>

#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "templates/opencl/split.h"
#include "templates/cuda/maps.h"
#include "arrays/run.h"
#include "backend/backend.h"
#include "backend/step.h"
#include "gpu/hosts.h"
#include "gpu/launch.h"
#include "gpu/levels.h"
#include "driver.h"

extern const struct backend cuda_backend;

struct cuda_card {
    char name[128];
    CUdevice device;
    int capability, units;
    int64_t local_bytes, memory; /* most shared memory that a kernel may ask for; the card's memory */
    char why_not[160];           /* "": usable */
};

struct cuda_target {
    struct device base;
    struct cuda *cu;
    const struct cuda_card *card;
    CUcontext context; /* the card's primary context, retained */
    CUstream quiet;    /* libattn's own, on which rooms are cleared */
    int former;        /* without NVRTC: the version of the one that made the cache's newest cubin; 0: unknown */
    char *formerly;    /* base.formerly, if former is not 0 */
    pthread_mutex_t lock;
    struct cuda_helper {
        CUmodule module; /* NULL: not compiled yet. Under lock */
        CUfunction function;
    } merge, quantise; /* of attn_merge_cuda and attn_quantise_cuda */
};

struct cuda {
    const struct resources *resources;
    void *library, *compiler; /* compiler: NVRTC's, or NULL */
    struct cuda_api api;
    struct nvrtc_api nvrtc;
    struct gen_error no_compiler; /* why there is none */
    int driver, nvrtc_version;    /* 13000, 13010: as CUDA numbers them */
    const struct backend *ptx_by; /* whose devices make PTX where there is no NVRTC: OpenCL's */
    void *ptx_opened;             /* under lock; NULL: not opened yet */
    struct cuda_card *cards;
    int count;
    pthread_mutex_t lock;
    struct cuda_target **target; /* for each card; NULL: not made yet. Under lock */
};

/* ---- code (code.c) ---- */

/* A cubin from a text in CUDA C++, by NVRTC; the caller frees *cubin. Returns an enum compiled. */
struct cuda_report {
    int registers;
    int64_t spill_bytes;
    bool serialised;
};
int cuda_make_cubin(const struct cuda *cu, int capability, enum gpu_level level, const char *name, const char *text,
                    void **cubin, size_t *size, struct cuda_report *report, struct gen_error *err);

/* The version of NVRTC that cubins in the cache are of: the one that is here, or, without any, the former one. 0: none. */
int cuda_cubins_by(const struct cuda_target *t);
/* What the place in the cache is found by, of the PTX that the driver's OpenCL makes of a text, or of NVRTC's cubin; the caller
 * frees it. NULL: out of memory. */
char *cuda_code_key(const struct cuda_target *t, bool is_ptx, const char *name, const char *text, size_t size);
/* Keeps a cubin that NVRTC made, and the version of that NVRTC for processes without one. */
void cuda_keep_cubin(const struct cuda_target *t, struct cache *cache, const char *key, const void *cubin, size_t size);
/* The lines of a tuning's key for kernels by that NVRTC; 0: by the driver's OpenCL. */
void cuda_key_lines(const struct cuda_target *t, int nvrtc, struct buf *out);
/* Reads the former version, in a process without NVRTC. */
void cuda_recall_former(struct cuda_target *t);

/* PTX of the driver's OpenCL, with the 0 at its end, for a kernel that uses tensor cores; the caller frees *ptx. Returns an enum
 * compiled (ptx.c). */
int cuda_make_ptx(struct cuda *cu, const struct gpu_source *source, void **ptx, size_t *size, struct gen_error *err);
void cuda_close_ptx(struct cuda *cu);

/* ---- contexts (context.c) ---- */

/* Makes the target's context that of the thread, if it is not already; *pushed says whether cuda_leave must undo
 * that. */
int cuda_enter(const struct cuda_target *t, bool *pushed, struct gen_error *err);
void cuda_leave(const struct cuda_target *t, bool pushed);

/* ---- rooms (rooms.c) ---- */

/* A room is device memory for launches that follow one another, on one stream or in one capture of it: counters that
 * kernels leave at zero, and the results of splits. */
struct cuda_need {
    size_t done, parts; /* bytes, after the ROOM_COUNTERS that every kernel may have */
};
struct cuda_room {
    uint64_t stream, capture; /* who has it; capture 0: none */
    CUdeviceptr memory;       /* counters, then done, which are zero while no launch runs, then parts */
    struct cuda_need has;
    struct cuda_room *next;
};
CUdeviceptr cuda_room_done(const struct cuda_room *room);
CUdeviceptr cuda_room_parts(const struct cuda_room *room);
enum { ROOM_COUNTERS = 128 + 512 * 256, /* counters, and maps for as many groups as the largest card of level sm90 has
                                         * units, which kernels of packed sequences make themselves */
        ROOMS_BUCKETS = 64, ROOMS_FIRST = 16 };
struct cuda_rooms {
    pthread_mutex_t lock;
    struct cuda_room *taken[ROOMS_BUCKETS], *unused; /* under lock */
    struct cuda_need least;                          /* of new ones */
};
/* The room of a stream, or of its capture, at least that large. If there is none left, or none large enough, this
 * allocates one; otherwise it allocates nothing. NULL and err. */
struct cuda_room *cuda_room_of(struct cuda_target *t, struct cuda_rooms *rooms, CUstream stream,
                               struct cuda_need need, struct gen_error *err);
/* Makes rooms in advance, enough for everything that needs no more than that; none if they are large, but all that come later
 * are as large. */
int cuda_rooms_prepare(struct cuda_target *t, struct cuda_rooms *rooms, struct cuda_need need, struct gen_error *err);
/* One room by itself. */
struct cuda_room *cuda_room_make(struct cuda_target *t, struct cuda_need need, struct gen_error *err);
void cuda_room_free(const struct cuda_target *t, struct cuda_room *room); /* NULL is allowed */
void cuda_rooms_free(const struct cuda_target *t, struct cuda_rooms *rooms);

/* ---- kernels ---- */

/* What one execution on host arrays needs for itself. Kept for the next one. */
struct cuda_slot {
    CUstream stream;
    struct cuda_memory {
        CUdeviceptr at;
        size_t size;
    } array[ARRAYS];
    struct cuda_room *room;
    struct cuda_slot *next;
};

struct cuda_kernel {
    struct cuda_target *target;
    CUmodule module;
    CUfunction function;
    struct gpu_source source; /* without its text; name points to the next member */
    char name[GEN_NAME_MAX];
    char *key; /* of its code in the cache */
    void *code;
    size_t code_size;
    bool is_ptx; /* of the driver's OpenCL; else a cubin of NVRTC's */
    bool from_cache;
    struct cuda_report report;
    struct cuda_rooms rooms;
    pthread_mutex_t lock;
    struct cuda_slot *free_slots; /* under lock */
};
int cuda_compile(struct cuda_target *target, const struct gpu_source *source, struct kernel *out, struct gen_error *err);
void cuda_kernel_free(struct cuda_kernel *kernel);

/* A launch: arrays begin where the pointers say plus the structs' offsets. */
struct cuda_launch {
    CUstream stream;
    CUdeviceptr buffer[ARRAYS];
    const struct cuda_room *room; /* of at least what cuda_room_need says */
    struct attn_cl_args args;
    struct attn_cl_features features;
};
int cuda_launch(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err);
/* What a launch's room must have. 0, or -1 and what is too large. */
int cuda_room_need(const struct cuda_kernel *k, const struct attn_cl_args *args, const struct attn_cl_features *features,
                   struct cuda_need *out, struct gen_error *err);

/* run.c: on host arrays, waiting; and the seconds of a launch. */
int cuda_run(struct cuda_kernel *k, const struct attn_args *args, struct gen_error *err);
int cuda_time(struct cuda_kernel *k, const struct attn_args *args, double *seconds, struct gen_error *err);
void cuda_slot_free(const struct cuda_target *t, struct cuda_slot *s);

/* Checks that tensors begin where the kernel takes them. */
int cuda_check_addresses(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err);

/* enqueue.c: attn_execute_cuda; and whether rows lie as the kernel takes them. */
attn_status cuda_enqueue(struct cuda_kernel *k, const struct run_rules *rules, const struct attn_run *run, CUstream stream,
                         struct attn_error *err);
bool cuda_takes(const struct cuda_kernel *k, const struct run_rules *rules, const struct attn_run *run);
int cuda_prepare(struct cuda_kernel *k, const struct run_rules *rules, struct gen_error *err);

/* steps.c: a step of attention alone, on host arrays. */
int cuda_step(struct cuda_kernel *k, const struct step_args *step, void *const array[], const size_t size[],
              struct gen_error *err);

/* helper.c: that kernel is there, of a text in CUDA C++. Between cuda_enter and cuda_leave. */
int cuda_need_helper(struct cuda_target *t, struct cuda_helper *helper, const char *name, const char *text, size_t size,
                     struct gen_error *err);

/* quantise.c: attn_quantise_cuda. */
attn_status cuda_quantise(struct device *device, const struct quantise_work *work, const void *on, struct attn_error *err);

/* merge.c: attn_merge_cuda. */
int cuda_merge(struct device *device, const struct attn_partials *p, int64_t rows, const void *on, struct gen_error *err);

/* peak.c */
double cuda_peak_gflops(struct cuda_target *t, bool of_16_bits);

#endif
