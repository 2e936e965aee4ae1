/* backend.h - what a kind of device offers to planning, tuning, judging and running: its devices, kernels on them, and
 * what is known about both. A backend is a folder beside this one and a row of devices/list.h; nothing else names it.
 * What it is not: a choice of device (devices/) or of kernel (tune/), or public (attn.h). */
#ifndef ATTNGEN_BACKEND_BACKEND_H
#define ATTNGEN_BACKEND_BACKEND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/buf.h"
#include "gen/gen.h"
#include "templates/c/features.h"
#include "templates/c/args.h"
#include "attn.h"
#include "quantise.h"
#include "target.h"
#include "cache/cache.h"
#include "system/threads.h"
#include "system/timer.h"

/* What a program lends to its backends; it outlives them. */
struct resources {
    const struct gen *gen;
    struct cache *cache; /* NULL: none */
    struct pool *pool;   /* NULL: only the calling thread */
    const volatile sig_atomic_t *stop; /* not 0: stop anything that takes long; NULL: never */
};

/* An open device; the first member of its backend's own struct. Immutable except for what the backend locks inside. */
struct device {
    const struct backend *backend;
    const struct resources *resources;
    char name[24];        /* as --device takes it */
    const char *compiler; /* of its kernels: "tcc" */
    enum gen_flags form;  /* the language in which it takes kernels in C */
    int units;            /* units that a run uses, whatever threads it is given; 0: it uses the given threads */
    const char *workers;  /* what those are called: "thread" */
    bool has_clock;       /* a kernel's `time` uses a clock of the device's own */
    bool on_cores;        /* it computes on this machine's cores, whose neighbours disturb it */
    const char *only;     /* the name of its only kernel, if none is generated: nothing to tune or pin; else NULL */
    const char *ships;    /* what it can make from a variant for others to load, such as "ptx"; or NULL */
    const char *formerly; /* `key`'s lines of a compiler that is missing now, whose winners still hold; or NULL */
};

/* What can be done with a kernel. Functions return 0, or -1 and an error. Any number of threads may call them. */
struct kernel;
struct run_rules;
struct step_args;
struct kernel_functions {
    /* The bytes that a run by so many threads needs, a multiple of 64; -1 if the kernel refuses the arguments. */
    int64_t (*workspace)(const struct kernel *kernel, const struct attn_args *args, int threads);
    /* Runs it on host arrays and waits. args is only read. A device ignores pool, threads and workspace; otherwise the
     * workspace has at least the size that the function above returns, aligned to 64. */
    int (*run)(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *workspace, size_t size, struct gen_error *err);
    /* The same in the arrays' own memory, if kernel->in_place, so that accesses elsewhere can be caught. */
    int (*run_in_place)(const struct kernel *kernel, const struct attn_args *args, struct gen_error *err);
    /* The seconds of a run, by the clock of a device that has one. */
    int (*time)(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err);
    /* A product or a softmax alone, on host arrays of so many bytes, the last one for the output; NULL: it has none. */
    int (*step)(const struct kernel *kernel, const struct step_args *args, void *const array[], const size_t size[],
                struct gen_error *err);
    /* Allocates what runs within these rules need on the caller's queues. NULL: nothing to allocate. */
    int (*prepare)(const struct kernel *kernel, const struct run_rules *rules, struct gen_error *err);
    /* Puts a run on the caller's queue. `on` is the backend's public struct for such a run. NULL: it has none. */
    attn_status (*enqueue)(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                           const void *on, struct attn_error *err);
    /* Whether it takes the rows of such a run as they lie; if not, enqueue gives the rule. NULL: any. */
    bool (*takes)(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape, const void *on);
    const char *queued; /* the name of that struct, since `on` could be another one */
    /* Keeps what was compiled for the next process. A failure costs that process a compilation. NULL: nothing. */
    void (*keep)(const struct kernel *kernel, struct cache *cache);
};

/* A compiled kernel; all zeros: none. */
struct kernel {
    const struct kernel_functions *functions;
    void (*release)(struct kernel *kernel); /* frees what it lives in; NULL: nothing to free */
    /* If it is a function in this process: one part of a run in the calling thread, and the bytes of a part; else NULL. */
    int (*run)(const struct attn_args *args);
    int64_t (*workspace)(const struct attn_args *args);
    void *code, *owner; /* the backend's own */
    size_t code_size;
    bool in_place; /* it can run in the host arrays' own memory */
    double compile_ms;
    const char *origin; /* where its code comes from, in words, if there are several ways; else NULL */
    char flaw[96]; /* why its compiler's report speaks against it, so that others are timed first; "": nothing does */
};
void kernel_free(struct kernel *kernel); /* NULL and an empty kernel are allowed */

/* The result of a compilation. A failure for lack of memory, disk space, a program or a device may not happen another
 * time; what the compiler read and refused, it would refuse again. */
enum compiled { COMPILE_OK = 0, COMPILE_FAILED = -1, COMPILE_REFUSED = -2 };

struct backend {
    const char *name;       /* of its devices: NAME is the first usable one, NAME:N one of them */
    enum language language; /* of the kernels that it compiles; LANGUAGE_COUNT: none */
    bool at_once;           /* open it at once, because it reads the environment */

    /* Makes what its devices share. -1 and why there is none. */
    int (*open)(const struct resources *resources, void **out, struct gen_error *err);
    void (*close)(void *opened); /* NULL is allowed; free devices and kernels first */

    /* ---- devices ---- */
    int (*count)(void *opened); /* including those that cannot be used */
    /* Appends a line without its newline: name, what it is, and the isas that run there or why it cannot be used. */
    void (*describe)(void *opened, int index, struct buf *out);
    const char *none; /* what to say if there is no device */
    /* The device of that number; -1: the first usable one. The compiler is for kernels in C. */
    int (*device)(void *opened, int index, attn_compiler compiler, struct device **out, struct gen_error *err);
    /* Whether a problem brings handles of this backend, and their device, which is retained. NULL: it has none. */
    bool (*brings)(const struct attn_problem *problem);
    attn_status (*adopt)(void *opened, const struct attn_problem *problem, struct device **out, struct gen_error *err);
    void (*release)(struct device *device); /* NULL: the backend keeps its devices until it closes */
    void (*inform)(const struct device *device, struct attn_plan_info *out); /* fills in its handles; NULL: it has none */

    /* ---- kernels ---- */
    const char *(*why_not)(const struct device *device, enum isa isa); /* NULL: such kernels run there */
    /* Whether the emitted text is within the device's limits; nothing is compiled. NULL: it has none. */
    int (*fits)(const struct device *device, const struct variant *variant, const struct gen_text *text,
                struct gen_error *err);
    /* Appends a sentence on how much of the device such a kernel takes. NULL: it says nothing. */
    void (*uses)(const struct device *device, const struct variant *variant, const struct gen_text *text, struct buf *out);
    /* From text, emitted or from a file, to a kernel. With `only`, text is NULL. Returns an enum compiled. */
    int (*compile)(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err);
    /* What others can load of it (device->ships); the caller frees it. NULL and why there is none. */
    char *(*ship)(struct device *device, const struct variant *variant, const struct gen_text *text, struct gen_error *err);

    /* Merges parts on the caller's queue; strides are filled in. NULL: it cannot. */
    int (*merge)(struct device *device, const struct attn_partials *partials, int64_t rows, const void *on, struct gen_error *err);
    /* Rows to a narrow type, likewise (quantise.h); an attn_status. `on` as enqueue's, or of a struct attn_cl_quantisation. */
    attn_status (*quantise)(struct device *device, const struct quantise_work *work, const void *on, struct attn_error *err);

    /* ---- for tuning; NULL if devices have `only` ---- */
    /* Appends the lines of a tuning's key that identify compiler and device, on which timings depend. */
    int (*key)(const struct device *device, int threads, struct buf *out, struct gen_error *err);
    double (*cycles)(const struct device *device, const struct variant *variant, const struct tune_target *target);
    double (*gflops)(const struct device *device, int threads); /* a guess, the same on machines that share a key */
    /* Multiply-adds per second of all threads, each as two, in 1e9, by that type's fastest instruction. 0: unknown. */
    double (*peak)(struct device *device, struct timer *timer, int threads, enum dtype dtype);
    /* For a winner whose isa is a fallback: the isa that one would expect there instead, and in *why what the device
     * lacks for it, or NULL. ISA_COUNT: the winner is as good as any. */
    enum isa (*expected)(const struct device *device, const struct variant *winner, const char **why);
};

#endif
