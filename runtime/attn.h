/* attn.h - libattn: fused attention for this machine, generated, checked, tuned and remembered.
 *
 * Three objects, in the order in which a program meets them:
 *   attn_context  what is shared: generated-source templates, the cache of tuned winners, the threads, callbacks.
 *   attn_problem  what a caller wants to compute, apart from lengths and pointers: types, head dims, heads, maxima.
 *   attn_plan     the answer: one compiled kernel for that problem. Made once, executed many times.
 * A plan fixes dtype, head dims, heads, causality, threads and the maxima of batch and lengths; the lengths
 * themselves, strides and pointers are given at each execution, so that a growing KV cache needs no new plan.
 *
 * O = softmax(scale * Q K^T, masked) V, after FlashAttention-2 (Dao 2023, section 3.1) with the online softmax of
 * Milakov and Gimelshein (2018). Row i of Q sees key j when j < the sequence's length and, if causal, j <= i + offset.
 * A row that sees no key gives O = 0 and LSE = -inf. Scores, softmax and sums are f32.
 *
 * Threads: a context may be used from any number of threads at once; a plan's execute is re-entrant. Destroy an object
 * when nobody uses it any more, plans before their context. Every function that can fail takes an optional
 * `struct attn_error *` as its last argument, which it fills when it returns something other than ATTN_OK. */
#ifndef ATTN_H
#define ATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* all else in the library is hidden */
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION (ATTN_VERSION_MAJOR * 1000 + ATTN_VERSION_MINOR)
int attn_version(void); /* of the library that runs, as ATTN_VERSION is of this header */

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_INVALID = 1,     /* an argument is wrong; the message says which and what is expected */
    ATTN_UNSUPPORTED = 2, /* no kernel for this, here; the message gives the rule or the reason */
    ATTN_NO_MEMORY = 3,
    ATTN_FAILED = 4, /* a compiler, the system or a check failed */
} attn_status;
struct attn_error {
    char text[640]; /* `what; expected what` */
};
const char *attn_status_name(attn_status s); /* never NULL */

typedef enum attn_dtype { ATTN_F32 = 0, ATTN_F16 = 1, ATTN_BF16 = 2 } attn_dtype;
typedef enum attn_align { ATTN_BOTTOM_RIGHT = 0, ATTN_TOP_LEFT = 1, ATTN_Q_OFFSET = 2 } attn_align;
/* What compiles C kernels: libtcc, which is in the library and takes a millisecond, or the compiler that $CC names (cc
 * without it), which takes half a second once (its result is cached) and is gcc or clang. */
typedef enum attn_compiler { ATTN_TCC = 0, ATTN_CC = 1 } attn_compiler;
typedef enum attn_rigor { ATTN_ESTIMATE = 0, ATTN_MEASURE = 1 } attn_rigor;
typedef enum attn_log_level { ATTN_LOG_WARNING = 0, ATTN_LOG_INFO = 1 } attn_log_level;

/* ---- context ---- */
struct attn_context;
struct attn_options {
    size_t size;           /* sizeof(struct attn_options) */
    const char *cache_dir; /* NULL: $ATTNGEN_CACHE, else $XDG_CACHE_HOME/attngen, else ~/.cache/attngen; "": no cache */
    void *(*allocate)(void *user, size_t size, size_t align); /* NULL: aligned_alloc; used for packed data and results */
    void (*release)(void *user, void *memory);
    void (*log)(void *user, attn_log_level level, const char *text); /* NULL: silent. Called from the calling thread */
    void *user;                                                     /* handed to the three */
};
/* options may be NULL: all defaults. The strings are copied. */
attn_status attn_context_create(const struct attn_options *options, struct attn_context **out, struct attn_error *err);
void attn_context_destroy(struct attn_context *context); /* NULL is allowed */

/* ---- plan ---- */
struct attn_problem {
    size_t size; /* sizeof(struct attn_problem) */
    attn_dtype dtype;
    int head_dim;          /* of query and key: 1..576 */
    int head_dim_v;        /* of value and output: 1..512; 0 means head_dim */
    int heads, kv_heads;   /* heads a multiple of kv_heads */
    int causal;            /* 0 or 1 */
    int64_t max_batch, max_q_len, max_kv_len; /* executions stay within; they choose the bucket that is tuned for */
    int threads;           /* 0: as many as the process may run on */
    attn_rigor rigor;      /* what to do when the cache has no winner: estimate by a model, or measure */
    double time_limit;     /* seconds of measuring; 0: 30 */
    const char *variant;   /* NULL, or a kernel pinned by name: same bits tomorrow. No tuning is done then */
    attn_compiler compiler; /* 0: libtcc. Winners are remembered for each apart */
    const char *device;     /* NULL or "cpu"; "opencl", the first usable OpenCL device (GPUs before CPUs), or "opencl:N" as
                             * `attngen devices` numbers them. There threads and compiler are not looked at */
    void *cl_context, *cl_device; /* the caller's, both, instead of device: retained for the plan's life. NULL: attn's */
};
struct attn_plan;
attn_status attn_plan_create(struct attn_context *context, const struct attn_problem *problem, struct attn_plan **out,
                             struct attn_error *err);
void attn_plan_destroy(struct attn_plan *plan); /* NULL is allowed */

/* Whether attn_plan_create would find a kernel for the problem: ATTN_OK, or the status and the words with which it
 * would refuse. The same code answers, up to the point where a kernel is measured or compiled; nothing is stored. */
attn_status attn_supports(struct attn_context *context, const struct attn_problem *problem, struct attn_error *err);

/* What was chosen, and from where. The strings belong to the plan. */
struct attn_plan_info {
    size_t size; /* sizeof(struct attn_plan_info), set by the caller */
    const char *variant;
    const char *compiler; /* "tcc", "cc" or "opencl" */
    const char *device;   /* "cpu", "opencl:N", or "opencl" with the caller's context */
    int cached;           /* 1: the cache's winner; 0: measured, estimated or pinned just now */
    int threads;          /* of an OpenCL device: its compute units */
    double compile_ms;
    void *cl_context, *cl_device; /* NULL on cpu; valid as long as the plan */
};
attn_status attn_plan_describe(const struct attn_plan *plan, struct attn_plan_info *out, struct attn_error *err);

/* ---- execution ---- */
struct attn_run {
    size_t size; /* sizeof(struct attn_run) */
    const void *q, *k, *v;
    void *o;
    float *lse; /* [batch, heads, q_len] contiguous, or NULL */
    int64_t batch, q_len, kv_len; /* 0 is allowed: nothing is read; kv_len 0 makes every row empty */
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3]; /* batch, head, row; in elements; all 0: contiguous bhsd */
    const int64_t *kv_lens; /* [batch] or NULL */
    attn_align align;       /* what a causal mask counts from */
    int64_t q_offset;       /* with ATTN_Q_OFFSET: the position of query 0; may be negative */
    float scale;            /* read when has_scale; else 1/sqrt(head_dim) */
    int has_scale;
};
/* Outputs must not overlap inputs. Uses the context's threads; blocks until done. Allocates the workspace itself when
 * workspace is NULL, else uses the caller's attn_workspace_size bytes, aligned to 64. */
attn_status attn_execute(struct attn_plan *plan, const struct attn_run *run, void *workspace, struct attn_error *err);
/* Bytes that attn_execute needs for that run; for one part of attn_execute_part when parts > 0. */
attn_status attn_workspace_size(const struct attn_plan *plan, const struct attn_run *run, int parts, size_t *out,
                                struct attn_error *err);
/* For callers with threads of their own: does part 0..parts-1 of the run in the calling thread. All parts together are
 * the run; each needs its own workspace of attn_workspace_size(plan, run, parts) bytes, aligned to 64. */
attn_status attn_execute_part(const struct attn_plan *plan, const struct attn_run *run, int part, int parts,
                              void *workspace, struct attn_error *err);

/* ---- execution on OpenCL ----
 * attn_execute takes host arrays for every plan: on a device it copies the rows that take part there and the rows of O and
 * LSE back, and needs no workspace. There are no parts on a device: attn_execute_part is ATTN_UNSUPPORTED.
 * attn_execute_cl takes the caller's own buffers: handles are void pointers, so that this header needs none of OpenCL's. */
struct attn_cl_run {
    size_t size;                         /* sizeof(struct attn_cl_run) */
    void *queue;                         /* cl_command_queue of the plan's cl_context and cl_device; any order */
    void *q, *k, *v, *o, *lse, *kv_lens; /* cl_mem of that context. lse (float), kv_lens (int64, [batch]): or NULL */
    int64_t q_at, k_at, v_at, o_at, lse_at, kv_lens_at; /* where each begins in its buffer, in elements */
    int wait_count;                      /* events in wait, 0 with NULL */
    void *const *wait;                   /* cl_event; the kernel starts when all are complete */
    void **event;                        /* NULL, or where to put a cl_event that the caller releases */
};
/* Enqueues the run and returns; nothing is copied, and nobody waits. Lengths, strides, mask and scale are `shape`'s, whose
 * pointers must be NULL; strides may not lead before a buffer's begin or past its end. Lengths in kv_lens cannot be looked
 * at here: the caller answers for 0..kv_len. Buffers and queue stay the caller's, and must outlive the kernel's run.
 * Any number of threads may call for one plan. An empty run (batch or q_len 0) still gives an event. */
attn_status attn_execute_cl(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *run,
                            struct attn_error *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
