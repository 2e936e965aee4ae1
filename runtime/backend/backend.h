/* backend.h - what a kind of device offers to those who plan, tune, judge and run: its devices, kernels on them, and what
 * is known of both. A backend is a folder beside this one and a row of devices/list.h; nobody else names it.
 * What it is not: a choice of device (devices/), of kernel (tune/), or public (attn.h). */
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

/* What a program lends to its backends, and outlives them. */
struct resources {
    const struct gen *gen;
    struct cache *cache; /* NULL: none */
    struct pool *pool;   /* NULL: the calling thread alone */
    const volatile sig_atomic_t
        *stop; /* not 0: whoever is in the middle of something long gives up; NULL: nobody asks */
};

/* A device, opened; the first member of its backend's own struct. Immutable but for what the backend locks inside. */
struct device {
    const struct backend *backend;
    const struct resources *resources;
    char name[24];        /* as --device takes it */
    const char *compiler; /* of its kernels: "tcc" */
    enum gen_flags form;  /* in which it takes C kernels' text */
    int units;            /* that a run uses, whatever threads it is given; 0: as many threads as it is given */
    const char *workers;  /* what those are called: "thread" */
    bool has_clock;       /* a kernel's `time` goes by a clock of the device's own */
    bool on_cores;        /* it computes on this machine's cores, whose neighbours disturb it */
    const char *only;     /* the one kernel that it has, where none is generated: nothing to tune or pin; else NULL */
    const char *ships;    /* what it can make of a variant for others to load, "ptx"; or NULL */
};

/* What is done with a kernel. Functions return 0, or -1 and in err what is wrong. Any number of threads may call them. */
struct kernel;
struct run_rules;
struct step_args;
struct kernel_functions {
    /* Bytes that a run by so many threads needs, a multiple of 64; -1 when the kernel refuses the arguments. */
    int64_t (*workspace)(const struct kernel *kernel, const struct attn_args *args, int threads);
    /* Runs it on host arrays and waits. args is only read; a device takes neither pool, threads nor workspace, which is of
     * at least the size that the function before says, aligned to 64. */
    int (*run)(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *workspace, size_t size, struct gen_error *err);
    /* The same in the arrays' own memory, where kernel->in_place: who reads or writes elsewhere can be caught. */
    int (*run_in_place)(const struct kernel *kernel, const struct attn_args *args, struct gen_error *err);
    /* Seconds of a run, by the clock of a device that has one. */
    int (*time)(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err);
    /* A product or a softmax apart, on host arrays of so many bytes, the last of which is the output; NULL: it has none. */
    int (*step)(const struct kernel *kernel, const struct step_args *args, void *const array[], const size_t size[],
                struct gen_error *err);
    /* Allocates what runs within these rules need on the caller's own queues. NULL: nothing to allocate. */
    int (*prepare)(const struct kernel *kernel, const struct run_rules *rules, struct gen_error *err);
    /* Puts it on the caller's own queue. `on` is the backend's public struct of such a run. NULL: there are no queues. */
    attn_status (*enqueue)(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                           const void *on, struct attn_error *err);
    /* Whether it takes the rows of such a run as they lie; of one that it does not, enqueue says the rule. NULL: any. */
    bool (*takes)(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape, const void *on);
    const char *queued; /* that struct's name, without which `on` could be another's */
    /* Keeps what was compiled for the next process. Whatever fails costs that one a compilation. NULL: nothing to keep. */
    void (*keep)(const struct kernel *kernel, struct cache *cache);
};

/* A compiled kernel; all zeros: none. */
struct kernel {
    const struct kernel_functions *functions;
    void (*release)(struct kernel *kernel); /* gives back what it lives in; NULL: nothing to give back */
    /* Of a kernel that is a function in this process: one part of a run in the calling thread, and the bytes that a part
     * needs. NULL: a run has no parts. */
    int (*run)(const struct attn_args *args);
    int64_t (*workspace)(const struct attn_args *args);
    void *code, *owner; /* the backend's own */
    size_t code_size;
    bool in_place; /* it can run in host arrays' own memory */
    double compile_ms;
    const char *origin; /* of its code, in words, where there are several ways to it; else NULL */
    char flaw[96]; /* why its compiler's report speaks against it, so that others are timed first; "": nothing does */
};
void kernel_free(struct kernel *kernel); /* NULL and none are allowed */

/* What became of a compilation. What fails for want of memory, room on a disk, a program or a device may do another
 * time; what the compiler read and refused it would refuse again. */
enum compiled { COMPILE_OK = 0, COMPILE_FAILED = -1, COMPILE_REFUSED = -2 };

struct backend {
    const char *name;       /* of its devices: NAME, the first usable one, or NAME:N */
    enum language language; /* of the kernels that it compiles; LANGUAGE_COUNT: none */
    bool at_once;           /* it is opened before it is asked for, because it reads the environment */

    /* What its devices share. -1 and why there is none. */
    int (*open)(const struct resources *resources, void **out, struct gen_error *err);
    void (*close)(void *opened); /* NULL is allowed; devices and kernels first */

    /* ---- devices ---- */
    int (*count)(void *opened); /* those that cannot be used included */
    /* Adds a line without its end: name, what it is, and the isas that run there or why it cannot be used. */
    void (*describe)(void *opened, int index, struct buf *out);
    const char *none; /* what is said when there is no device */
    /* The device of that number; -1: the first usable one. Compilers are of C kernels. */
    int (*device)(void *opened, int index, attn_compiler compiler, struct device **out, struct gen_error *err);
    /* Whether a problem brings handles of this backend's, and the device that they are of, retained. NULL: it has none. */
    bool (*brings)(const struct attn_problem *problem);
    attn_status (*adopt)(void *opened, const struct attn_problem *problem, struct device **out, struct gen_error *err);
    void (*release)(struct device *device); /* NULL: backends keep theirs until they close */
    void (*inform)(const struct device *device,
                   struct attn_plan_info *out); /* fills in its handles; NULL: it has none */

    /* ---- kernels ---- */
    const char *(*why_not)(const struct device *device, enum isa isa); /* NULL: kernels of that isa run there */
    /* Whether the emitted text is within the device's limits; nothing is compiled. NULL: it has none. */
    int (*fits)(const struct device *device, const struct variant *variant, const struct gen_text *text,
                struct gen_error *err);
    /* From text, emitted or from a file, to a kernel. Of a device with `only`, text is NULL. An enum compiled. */
    int (*compile)(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err);
    /* What others can load of it, device->ships, for free(); or NULL and why there is none. */
    char *(*ship)(struct device *device, const struct variant *variant, const struct gen_text *text,
                  struct gen_error *err);

    /* Merges parts on the caller's queue; strides are written out. NULL: it cannot. */
    int (*merge)(struct device *device, const struct attn_partials *partials, int64_t rows, const void *on, struct gen_error *err);
    /* Rows to a narrow type, likewise (quantise.h); an attn_status. `on` as enqueue's, or of a struct attn_cl_quantisation. */
    attn_status (*quantise)(struct device *device, const struct quantise_work *work, const void *on, struct attn_error *err);

    /* ---- for tuning; NULL where devices have `only` ---- */
    /* Adds the lines of a tuning's key that tell compiler and device: all that timings there depend on. */
    int (*key)(const struct device *device, int threads, struct buf *out, struct gen_error *err);
    double (*cycles)(const struct device *device, const struct variant *variant, const struct tune_target *target);
    double (*gflops)(const struct device *device, int threads); /* a guess, the same on machines that share a key */
    /* Multiply-adds a second of all threads, each as two, in 1e9, in that type's fastest instruction. 0: none were measured. */
    double (*peak)(struct device *device, struct timer *timer, int threads, enum dtype dtype);
    /* Of a winner whose isa is a fall-back: the isa that one expects there in its place, and in *why what the device lacks
     * for it, or NULL. ISA_COUNT: the winner is as good as any. */
    enum isa (*expected)(const struct device *device, const struct variant *winner, const char **why);
};

#endif
