/* attn.h - libattn: fused attention for this machine, generated, checked, tuned and remembered.
 *
 * INTRODUCTION
 *
 *   O = softmax(scale * Q K^T, masked) V, without the matrix of scores in memory: FlashAttention-2 (Dao 2023, section
 *   3.1, algorithm 1) over the online softmax of Milakov and Gimelshein (2018, algorithm 3). Scores, softmax, sums and
 *   output accumulate in f32 whatever the element types. libattn writes kernels for one exact problem, compiles them in
 *   the process (C by libtcc or a compiler, OpenCL C by the device's driver), checks each against a reference in double
 *   precision before it is timed, and remembers the fastest. tests/examples/ten_lines.c is a whole program.
 *
 * WHAT IS COMPUTED
 *
 *   For query i of head h in sequence b, over the keys j of the KV head that h reads. Each line but the first and the
 *   last is a feature that a plan has or has not; one that it has not costs nothing, it is not in the kernel.
 *
 *     x_j = scale * (q_i . k_j)
 *     x_j = c tanh(x_j / c)                     softcap: Gemma 2 (2024, section 2); before everything that masks
 *     x_j = x_j + bias[b, h, i, j]              bias: any sides of it may be shared (a stride of 0); -inf masks
 *     x_j = x_j - slope[h] |pos(i) - j|         ALiBi: Press, Smith and Lewis (2022), by distance, to both sides
 *     x_j = -inf unless j takes part:           masks, all of those that there are:
 *                                                 j < keys of the sequence
 *                                                 j <= pos(i)                             causal
 *                                                 pos(i) - left <= j <= pos(i) + right    window, FlashAttention-2's
 *                                                 mask[b, h, i, j] != 0                   mask
 *     p_j = exp(x_j) / (sum of exp(x_j) + exp(sink[h]))    sink: gpt-oss (2025); StreamingLLM (Xiao et al. 2023)
 *                                                          found why heads want one. Without: + 0
 *     O_i = sum of p_j v_j,  LSE_i = ln(sum of exp(x_j))
 *
 *   pos(i) = i + where query 0 stands on the axis of keys, which align says: by default so that the last query stands
 *   at the last key. LSE leaves the sink out, so that parts of one attention merge (attn_merge). A row in which no key
 *   takes part is empty, by whatever feature, sink or not: O = 0, LSE = -inf. Masks that are intervals (all but `mask`
 *   and -inf in a bias) also save the work: tiles of keys that no query of a tile sees are not visited.
 *
 *   Where the rows lie is the other half: strides of any size for each tensor, so that [batch, head, row, element] and
 *   [batch, row, head, element] are both native, one K serves many sequences, and V may be a view of K; lengths for
 *   each sequence; sequences packed one after another without padding (cu_seqlens, as in FlashAttention's varlen); and
 *   K and V in pages that a block table lists (Kwon et al. 2023, vLLM), of any number of rows from 1 on. K and V may be
 *   narrower than Q, as caches are: bytes with scales, or blocks (attn_dtype).
 *
 * OBJECTS
 *
 *   struct attn_context  what is shared: the generator, the cache of winners, the threads, the caller's callbacks. One
 *                        a process is usual; several do not know of each other.
 *   struct attn_problem  what is asked for, apart from lengths and pointers: a plain struct of the caller's.
 *   struct attn_plan     the answer: one compiled kernel. Made once, executed many times.
 *   struct attn_run      one execution: lengths, strides, pointers, positions, and the features' numbers and arrays. A
 *                        plain struct again.
 *   struct attn_partials results over parts of the keys, for attn_merge. Again plain.
 *
 *   What is decided when:
 *     context   where the cache is; which instruction sets may be used (the processor's, or fewer, in ATTNGEN_ISA in
 *               the environment); memory and log callbacks; which compiler $CC names.
 *     plan      element types, head dims, heads, features, device, compiler, threads, maxima of batch and lengths, and
 *               with them the kernel. Maxima are rounded up to powers of two for tuning, so that neighbours share
 *               a winner; the lengths of executions are free below them. A growing KV cache needs no new plan.
 *     run       all else.
 *
 * TUNING AND CACHE
 *
 *   attn_plan_create takes the variant that the problem pins, else the cache's winner, else looks for one with the
 *   problem's rigor. An entry of the cache is found by all that timings depend on (this library's templates and code,
 *   the compiler, the processor or device and its driver, threads, the rounded problem) and trusted only when it is
 *   whole, the user's own, and of the same source text. Whatever is wrong with the cache (no directory, full,
 *   read-only, damaged, foreign) costs a search or a compilation and a line of the log, never the plan. Processes may
 *   share it: who stores waits two seconds at most while another does not go on, then leaves it and says so in the log;
 *   who reads waits for nobody, and a child of fork keeps nobody waiting.
 *   A variant is remembered as wrong only for what its compiler refused or its kernel did, not for want of memory, of
 *   room on a disk or of a device; a search asks again after a day, and whenever nothing else can be used.
 *   A pinned variant is a kernel by its name, as attn_plan_info.variant gives it. A name holds every choice that tuning
 *   has, so it stands for the same kernel wherever this version of libattn runs; another version may write it
 *   differently.
 *
 * DETERMINISM
 *
 *   The same plan gives the same bits for a query row whatever the threads, the parts, the workspace, the strides, and
 *   whatever else is in the batch. Two plans may differ in variant, and then in the last bits: pin the variant where
 *   that matters. The bound on the error is the same for all: twice that of a three-pass computation with f32 scores
 *   whose probabilities and output are rounded to their element types, and a few units in the last place.
 *
 * FLOATING POINT
 *
 *   The environment is assumed to round to nearest, and is left as it is but for flags. On finite inputs whose scores and
 *   sums are finite a call may raise inexact, underflow, overflow and denormal, and for the processor never division by
 *   zero or invalid: a host may trap those two. This holds for empty rows, and for the -inf that a bias or a sink may
 *   hold, too. NaN, other infinities, and products q . k beyond FLT_MAX may raise invalid. What an OpenCL driver does in
 *   the threads of its own is its own.
 *   The sum of p_j v_j is formed before it is divided by the sum of p_j, as in FlashAttention and PyTorch's flash kernel:
 *   an element of O is infinite where max |v_j| times the sum of exp(x_j - max x), at most the number of keys, is beyond
 *   FLT_MAX, although the quotient might not be.
 *
 * THREADS AND FORK
 *
 *   1. Any number of threads may use one context, and execute one plan, at once. Creation is safe too; C kernels are
 *      compiled one at a time.
 *   2. A plan may be destroyed when nobody executes it; a context when it has no plan left and nobody is in a call.
 *   3. The context's threads start when an execution first needs them; attn_execute takes part with the calling thread.
 *      While one execution has them, another at the same time runs in its own thread alone.
 *   4. A child of fork may execute plans for the processor, and make such plans: threads start anew there. OpenCL does
 *      not outlive a fork: do not use such plans, nor destroy them or their context, in a child.
 *   5. Nothing here installs signal handlers, changes the locale, or writes to stdout or stderr. The compiler that $CC
 *      names is run with posix_spawn, and only for ATTN_CC.
 *
 *   6. A thread with a stack of 64 KiB, of which glibc has its share, may make every call. What an OpenCL driver takes of
 *      it beyond, when one is used, is the driver's: PoCL compiles in the caller's thread, and takes more.
 *
 * MEMORY
 *
 *   Where memory runs out, be it a compiler's inside this library, the call returns ATTN_NO_MEMORY, holds none of what it
 *   had, and may be made again. What can be done without is left out: a file of the cache, a thread.
 *   Inputs are read, outputs written, and nothing is kept of either after a call (attn_execute_cl: after its event).
 *   Strings and structs given to a function may go when it returns. A plan keeps one workspace that its last execution
 *   left, for the next; executions at the same time allocate each its own.
 *
 * OPENCL
 *
 *   The loader (libOpenCL.so.1) is opened when a problem first names a device, and need not be there otherwise. Kernels
 *   are OpenCL C 1.2 without extensions. attn_execute copies host arrays there and back; attn_execute_cl enqueues on
 *   the caller's queue and buffers. Binaries are kept in the cache.
 *
 * ERRORS
 *
 *   Every function that can fail returns an attn_status and takes an optional `struct attn_error *` last, which it
 *   fills when it returns something other than ATTN_OK and leaves alone otherwise. A call that fails before a kernel
 *   runs has written nothing; outputs (`out`) of creating functions are then NULL. Nothing falls back silently: what is
 *   slower than it should be is told to the log, and so is a plan that this system cannot have.
 *
 * STRUCTS WITH A SIZE
 *
 *   Set `size` to sizeof the struct and the rest to zero before filling in: `struct attn_run r = {.size = sizeof r}`.
 *   Zero is the default of every field that has one. A program with an older header gets what it meant; one with a
 *   newer header gets ATTN_UNSUPPORTED when it sets a field that this library does not know. A size that no version's
 *   struct can have is ATTN_INVALID. */
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
/* Of the library that runs, as ATTN_VERSION is of this header: 1000 times the major version, which changes with the
 * ABI, and the minor one. */
int attn_version(void);

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_INVALID = 1,     /* an argument is wrong; the message says which and what is expected */
    ATTN_UNSUPPORTED = 2, /* no kernel for this, here; the message gives the rule or the reason */
    ATTN_NO_MEMORY = 3,   /* malloc or the caller's allocate gave none */
    ATTN_FAILED = 4, /* a compiler, the system or a check failed */
} attn_status;
struct attn_error {
    char text[640]; /* one line: `what; expected what`, behind `file:line:col: error:` where that is known */
};
const char *attn_status_name(attn_status s); /* in English; never NULL, whatever s is */

/* IEEE binary32, binary16 and bfloat16, in the machine's byte order. Denormals of bf16 may be read as 0. And what K and V
 * alone may be, both (attn_problem.kv_dtype); attn_quantise makes them:
 *   INT8  signed bytes, FP8 OCP's E4M3 (448 is the largest, no infinities, one NaN): each is multiplied by a scale of its row
 *         (attn_run.k_scales, v_scales);
 *   Q8_0, Q4_0  ggml's blocks of 32 values, byte for byte: an f16 scale d, then 32 signed bytes of d * byte (34 bytes); or 16
 *         bytes, whose low four bits are values 0 to 15 and whose high four 16 to 31, each d * (bits - 8) (18 bytes). A row is
 *         whole blocks, so head_dim and head_dim_v are multiples of 32; strides count blocks; a block has no alignment. */
typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16 = 1,
    ATTN_BF16 = 2,
    ATTN_INT8 = 3,
    ATTN_FP8 = 4,
    ATTN_Q8_0 = 5,
    ATTN_Q4_0 = 6,
} attn_dtype;
/* What query 0 stands at on the axis of keys, which causal masks, windows and ALiBi count from: BOTTOM_RIGHT, (keys of
 * the sequence) - (queries of the sequence), so that the last query sees the last key, as FlashAttention 2.1 and later;
 * TOP_LEFT, 0, as PyTorch and ONNX; Q_OFFSET, attn_run.q_offset, as with a KV cache that grows. */
typedef enum attn_align { ATTN_BOTTOM_RIGHT = 0, ATTN_TOP_LEFT = 1, ATTN_Q_OFFSET = 2 } attn_align;
/* Element type of what is added to scores, if anything is. */
typedef enum attn_bias { ATTN_NO_BIAS = 0, ATTN_BIAS_F32 = 1, ATTN_BIAS_F16 = 2, ATTN_BIAS_BF16 = 3 } attn_bias;
/* What compiles C kernels: libtcc, which is in the library and takes a millisecond, or the compiler that $CC names (cc
 * without it), which takes half a second once (its result is cached) and is gcc or clang. Libtcc makes vectors of
 * kernels on x86-64 alone: on AArch64 it takes kernels in plain C (isa c), which are many times slower, and the log says so;
 * ATTN_CC takes those of isa neon there. A library that was built without libtcc refuses ATTN_TCC. */
typedef enum attn_compiler { ATTN_TCC = 0, ATTN_CC = 1 } attn_compiler;
/* How a winner is looked for that the cache does not have. ESTIMATE: by a model; nothing is compiled, timed or kept.
 * MEASURE: candidates are timed; what the model puts far behind, and what falls behind early, is left. PATIENT: every
 * candidate is timed (but those that the model puts six times behind and at more than a second a run), with four times
 * as many samples, and dropped only when it takes 1.5 times the best's time; a winner that was only MEASUREd does not
 * end it. The two keep what they timed in the cache, for each other too. */
typedef enum attn_rigor { ATTN_ESTIMATE = 0, ATTN_MEASURE = 1, ATTN_PATIENT = 2 } attn_rigor;
typedef enum attn_log_level { ATTN_LOG_WARNING = 0, ATTN_LOG_INFO = 1 } attn_log_level;

/* ---- context ---- */
struct attn_context;
struct attn_options {
    size_t size;           /* sizeof(struct attn_options) */
    const char *cache_dir; /* NULL: $ATTNGEN_CACHE, else $XDG_CACHE_HOME/attngen, else ~/.cache/attngen; "": no cache */
    /* Memory of the workspaces that attn_execute needs; small objects come from malloc. Both or neither; NULL:
     * aligned_alloc and free. allocate gives size bytes aligned to align, a power of two, or NULL; release never gets
     * NULL. Both are called from any thread that executes, at once too. */
    void *(*allocate)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *memory);
    /* NULL: silent. A line without its end; in the thread that called us, from several at once if several do. */
    void (*log)(void *user, attn_log_level level, const char *text);
    void *user; /* handed to the three */
};
/* Makes a context; options may be NULL: all defaults. Reads the processor's features and the environment; opens no file
 * and starts no thread. ATTN_INVALID: out is NULL, a size is wrong, or one of allocate and release is missing;
 * ATTN_UNSUPPORTED: a field that this version does not know; ATTN_NO_MEMORY; ATTN_FAILED: the library's own templates
 * do not parse. */
attn_status attn_context_create(const struct attn_options *options, struct attn_context **out, struct attn_error *err);
void attn_context_destroy(struct attn_context *context); /* NULL is allowed; its plans first */

/* ---- plan ---- */
struct attn_problem {
    size_t size; /* sizeof(struct attn_problem) */
    attn_dtype dtype;      /* of Q, and of K, V and O unless mixed: F32, F16 or BF16 */
    int head_dim;          /* elements in a row of query and key: 1..576 */
    int head_dim_v;        /* of value and output: 1..512; 0 means head_dim */
    int heads, kv_heads;   /* 1..65536, heads a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    int causal;            /* 0, or 1: query i sees key j only when j <= pos(i) */
    int64_t max_batch, max_q_len, max_kv_len; /* at least 1. Executions stay within; they choose what is tuned for */
    int threads;           /* 0: as many as the process may run on, by its affinity and its control groups' quotas; to
                            * 1024. More than that many take turns */
    attn_rigor rigor;      /* what to do when the cache has no winner */
    /* Seconds of measuring; 0: 30, patient 600. At its end the best so far is taken, or what is there when one candidate
     * was right: the call may take longer by as much as one candidate takes. Random data, compilations and checks count.
     * What is timed for maxima that are long is less of the same: with all that is needed to time and check it it takes
     * half a gigabyte of memory at most, or 8 MiB a thread where that is more. */
    double time_limit;
    const char *variant;   /* NULL, or a kernel pinned by name: same bits tomorrow. No tuning is done then */
    attn_compiler compiler; /* 0: libtcc. Winners are remembered for each apart */
    /* NULL or "cpu"; "opencl", the first usable OpenCL device (GPUs before CPUs), or "opencl:N" as `attngen devices`
     * numbers them; "cuda", the first usable card, or "cuda:N" as CUDA's driver numbers them; threads and compiler are not
     * looked at there; "reference": the definition, computed in double precision and rounded once, by one kernel that no
     * variant can be pinned to. */
    const char *device;
    /* The caller's, both, instead of device: retained for the plan's life. NULL: attn's own. */
    void *cl_context, *cl_device;
    /* ---- features: 0 or 1 each, and defined under WHAT IS COMPUTED. A plan says which there are; the numbers and
     * arrays that they compute with are the run's. ---- */
    int mixed;                    /* 1: kv_dtype and o_dtype count; 0: they are 0, and all tensors are of dtype */
    attn_dtype kv_dtype, o_dtype; /* of K and V, and of O: f32 queries over a KV cache of f16 or int8, say */
    int window;                   /* keys out of a window around the query's position do not take part */
    int softcap;                  /* scores are bent to stay within -c..c */
    attn_bias bias;               /* a tensor of that type is added to scores */
    int mask;                     /* a byte for each query and key says whether the key takes part */
    int alibi;                    /* scores fall by slope[head] for each step between query and key */
    int sink;                     /* a logit of each head joins the denominator, and nothing else */
    int packed;                   /* Q and O, K and V, or both sides lie packed: attn_run.q_starts, kv_starts */
    int paged;                    /* K and V lie in pages: attn_run.block_table */
    /* Of a plan with window, what window to tune for, as in attn_run: keys before and after a query's position, -1 for no bound.
     * Both 0: not known. The number of keys is rounded up to a power of two. A run may use any window. */
    int64_t tune_window_left, tune_window_right;
};
struct attn_plan;
/* Finds and compiles the kernel for a problem. Takes milliseconds with a pinned variant, a cached winner or
 * ATTN_ESTIMATE (half a second more by ATTN_CC or on a device, unless what was compiled is cached too), else up to
 * time_limit. The plan belongs to the caller, and its context must outlive it. Notes:
 * 1. ATTN_INVALID: a pointer is NULL, a field out of range (the message gives the range), kv_heads no divisor of heads,
 *    a kv_dtype or o_dtype without mixed, maxima whose tensors would be of 2^63 bytes or more, a device that is none by
 *    its name, a variant that is no name or is another problem's.
 * 2. ATTN_UNSUPPORTED: no kernel can be had for the problem, the processor or the device (every candidate broke a rule:
 *    the message is the rule, or the nearest one); no OpenCL loader, no such device; no compiler $CC; for ATTN_TCC a
 *    library without libtcc, and a system that lets no process make code at run time, where ATTN_CC may do.
 * 3. ATTN_FAILED: the winner does not compile. ATTN_NO_MEMORY.
 * 4. With ATTN_ESTIMATE and a pinned variant the kernel is compiled but not checked against the reference. */
attn_status attn_plan_create(struct attn_context *context, const struct attn_problem *problem, struct attn_plan **out,
                             struct attn_error *err);
void attn_plan_destroy(struct attn_plan *plan); /* NULL is allowed; nobody may execute it, on a device neither */

/* Whether attn_plan_create would find a kernel for the problem: ATTN_OK, or the status and the words with which it
 * would refuse. The same code answers, up to the point where a kernel is measured or compiled; nothing is stored. */
attn_status attn_supports(struct attn_context *context, const struct attn_problem *problem, struct attn_error *err);

/* What was chosen, and from where. */
struct attn_plan_info {
    size_t size; /* sizeof(struct attn_plan_info), set by the caller */
    const char *variant;  /* its name, to pin it. This and the next two are the plan's, valid as long as it */
    const char *compiler; /* "tcc", "cc", "opencl", "cuda" or "reference" */
    const char *device;   /* "cpu", "opencl:N", "cuda:N", "reference", or "opencl" with the caller's context */
    int cached;           /* 1: the cache's winner; 0: measured, estimated or pinned just now */
    int threads;          /* of another device: its compute units */
    double compile_ms;    /* milliseconds of this plan's compilation, or of loading what was cached */
    void *cl_context, *cl_device; /* of OpenCL; else NULL. Valid as long as the plan */
};
/* Fills out->size bytes; fields that this library does not know with zeros. ATTN_INVALID: a NULL, or a wrong size. */
attn_status attn_plan_describe(const struct attn_plan *plan, struct attn_plan_info *out, struct attn_error *err);

/* ---- execution ---- */
/* Tensors are [batch, head, row, element]: Q [batch, heads, q_len, head_dim], K [batch, kv_heads, kv_len, head_dim],
 * V [batch, kv_heads, kv_len, head_dim_v], O [batch, heads, q_len, head_dim_v]. A row's elements lie side by side. On a
 * packed side the sequences' rows follow each other and there is no batch: Q and O are [row, head, element] of
 * q_starts[batch] rows, K and V of kv_starts[batch]. In pages K and V are [page, head, row, element]. */
struct attn_run {
    size_t size; /* sizeof(struct attn_run) */
    const void *q, *k, *v; /* element [0, 0, 0, 0] of each, aligned to an element. NULL where the tensor is empty */
    void *o;               /* the same; every row is written, and nothing between rows */
    float *lse; /* [batch, heads, q_len] contiguous, [heads, q_starts[batch]] when Q is packed, or NULL: natural log of
                 * a row's sum of exp(score), -inf if empty */
    int64_t batch, q_len, kv_len; /* 0..the plan's maxima; kv_len 0 makes every row empty. On a packed side the length
                                   * is that of the longest sequence, or more */
    /* Of batch, head and row, in elements (K and V of blocks: in blocks), whatever the order in memory. All three 0: contiguous, in the order given
     * above. Else each counts as it is: 0 and negative ones are allowed for inputs (one K for all sequences is a batch
     * stride of 0), and for O at least a row's elements, whatever the sign. A stride along an extent of 0 or 1 does not
     * matter; nor, on a packed side, that of batch; in pages it is from page to page. */
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];
    const int64_t *kv_lens; /* [batch], each 0..kv_len: keys of a sequence; none behind them is read. NULL: kv_len.
                             * NULL with kv_starts, which say it too */
    attn_align align;       /* what masks and distances count from; of no effect without causal, window and alibi */
    int64_t q_offset;       /* with ATTN_Q_OFFSET: the position of query 0, of any size and sign; else 0 */
    float scale;            /* read when has_scale: any finite number; else 1/sqrt(head_dim) */
    int has_scale;          /* 0 or 1 */
    /* ---- of the plan's features. What belongs to a feature that the plan has not must be 0 and NULL: it would not be
     * heard. Of one that it has, arrays must be there wherever there is a row (bias, mask and table: a score). ---- */
    int64_t window_left, window_right; /* keys before and after the query's position that it sees, itself not counted:
                                        * 0 or more, or -1 for no bound. In causal plans none after, whatever stands
                                        * here. Left 0 and right 0, as zeroed, is each query's own position alone */
    float softcap;                     /* c: 1e-30..1e30; scale / c must be finite */
    const void *bias;                  /* element [0, 0, 0, 0] of [batch, heads, q_len, kv_len], aligned to an element;
                                        * query and key count within their sequence, packed or not. -inf masks */
    int64_t bias_stride[4];            /* of batch, head, query, key, in elements; each counts as it is: 0 where the
                                        * bias is the same for all, negative ones too */
    const unsigned char *mask;         /* [batch, heads, q_len, kv_len]: 1 where the key takes part, else 0 */
    int64_t mask_stride[4];            /* as bias_stride */
    const float *alibi_slopes;         /* [heads] */
    const float *sinks;                /* [heads]; -inf is none */
    /* Packed: [batch + 1], from 0 on and not falling; sequence b is rows starts[b]..starts[b + 1] - 1 (cu_seqlens), any
     * number of them to q_len or kv_len, none included. NULL leaves that side as it is without packing; one of the two
     * must be there. With pages kv_starts says how many keys a sequence has, and the block table where they are. */
    const int64_t *q_starts, *kv_starts;
    /* Paged: key j of sequence b is row j % page_size of page block_table[b * block_table_stride + j / page_size].
     * Entries of pages that hold keys of the sequence must be 0..pages - 1, whether some query sees them or not; those
     * behind are not read. A page may serve many sequences. */
    const int32_t *block_table;
    int64_t block_table_stride; /* elements from one sequence's entries to the next's: 0 when all share them */
    int64_t page_size, pages;   /* rows of a page, at least 1; pages that K and V have, 0 or more */
    /* With a kv_dtype of INT8 or FP8, wherever there is a score: what the numbers stored in a row are multiplied by, element
     * [0, 0, 0] of [batch, KV head, row], in pages of [page, KV head, row]; on a packed side rows count as K's do. Strides in
     * elements, each as it is: 0 where the scale is the same, so that three zeros are one scale for all. Finite numbers,
     * negative ones too. Other types have none, and 0 and NULL here. */
    const float *k_scales, *v_scales;
    int64_t k_scales_stride[3], v_scales_stride[3];
};
/* Computes O and LSE; blocks until both are there. Notes:
 * 1. A row that sees no key gives O = 0 and LSE = -inf. With batch or q_len 0 nothing is read or written.
 * 2. -inf and NaN in the inputs have their meaning: a NaN in query i reaches row i alone, one in key or value j those
 *    rows whose tile of keys holds j. Keys past a sequence's length reach nothing, nor do the rows of bias and mask
 *    there; rows of a page that are no keys are not read.
 * 3. Outputs must not overlap inputs, nor rows of O each other. O at an input's address is refused, and neighbouring
 *    rows that overlap; other overlaps are not noticed. Inputs may overlap as they like: V may be columns of K.
 * 4. workspace: NULL, and it is allocated, or the one that the plan has left is used; or the caller's, of at least
 *    attn_workspace_size bytes for this run, aligned to 64, for this execution alone. Its contents mean nothing.
 * 5. Uses the context's threads, as many as the plan has, fewer for a small run. Sequences of different lengths are
 *    handed out as threads become free. For a run on a device see below.
 * 6. ATTN_INVALID: what does not fit the plan or the above (the message says which), with nothing written. Starts,
 *    lengths and block table are looked through; the numbers in other arrays are taken as they come.
 *    ATTN_UNSUPPORTED: a field that this version does not know; ATTN_NO_MEMORY: no workspace; ATTN_FAILED: on a device,
 *    what its driver said; O and LSE are then undefined. */
attn_status attn_execute(struct attn_plan *plan, const struct attn_run *run, void *workspace, struct attn_error *err);
/* Puts in *out the bytes of workspace that attn_execute needs for that run (parts 0), or one part of attn_execute_part
 * (parts > 0). Looks at lengths, strides and numbers, and at no pointer. A part's depends on kv_len at most, and does
 * not fall when that grows; the whole run's also holds what threads share where there are few queries, and so depends
 * on batch and q_len too. 0 on a device, and when there is nothing to do. Errors as attn_execute, but that arrays may be
 * missing; *out is then 0. */
attn_status attn_workspace_size(const struct attn_plan *plan, const struct attn_run *run, int parts, size_t *out,
                                struct attn_error *err);
/* For callers with threads of their own: does part 0..parts-1 of the run in the calling thread, and allocates nothing.
 * All parts together, at once or in any order, are the run; the same bits as attn_execute. Each part at work needs a
 * workspace of its own, of attn_workspace_size(plan, run, parts) bytes, aligned to 64. parts is at least 1 and may be
 * more than there is work for. The best are divisors and multiples of batch * kv_heads: keys and values of one
 * (sequence, KV head) are packed anew by each part that shares it. Every part checks the whole run. Errors as
 * attn_execute; ATTN_UNSUPPORTED for a plan on a device too. */
attn_status attn_execute_part(const struct attn_plan *plan, const struct attn_run *run, int part, int parts,
                              void *workspace, struct attn_error *err);

/* ---- parts of one attention ---- */
/* Results over different keys of the same queries, as when keys are split among threads or machines, come in pieces, or
 * share a prefix. From n of them, each with its LSE:
 *   LSE = ln(sum of exp(LSE_p)),  O = sum of exp(LSE_p) O_p / (sum of exp(LSE_p) + exp(sink[h]))
 * after Flash-Decoding (Dao et al. 2023); what is left of FlashAttention-2's rescaling when all tiles are done. Sinks
 * join here, once, and so must not be in the parts. */
struct attn_partials {
    size_t size;   /* sizeof(struct attn_partials) */
    int64_t count; /* of parts, 0 or more; without one every row is empty */
    const void *const *part_o;     /* [count]: element [0, 0, 0, 0] of each [batch, heads, q_len, head_dim_v] */
    const float *const *part_lse;  /* [count]: [batch, heads, q_len] contiguous, as executions write it */
    attn_dtype part_dtype, dtype;  /* of the parts' O, and of the one that is written: F32, F16 or BF16 */
    int64_t part_stride[3], o_stride[3]; /* as attn_run's, of inputs and of O; all parts have the same */
    void *o;
    float *lse; /* NULL, or [batch, heads, q_len]: without sinks, so that it can be merged again */
    int64_t batch, q_len; /* 0 or more. Packed rows are a batch of 1, with the strides of their rows */
    int heads, head_dim_v; /* 1..65536, 1..512 */
    const float *sinks; /* NULL, or [heads]: finite, or -inf for none */
};
/* Merges; any number of threads may call at once. Notes:
 * 1. A part's empty row (LSE -inf) changes nothing, whatever its O holds, which is not read. Where all are empty: O = 0
 *    and LSE = -inf, sink or not. One part without sinks is copied, in value. A NaN or +inf reaches its row alone.
 * 2. Computed in double precision and rounded once: within one unit in the last place of O's type, and of LSE's, of
 *    what the formula gives for the parts as they are. What their own rounding lost is theirs: an LSE of L knows its
 *    weight to 2^-24 |L| of it.
 * 3. o may be one of part_o, and lse its part_lse, with the same type and strides; no other overlap is allowed.
 * 4. context: its threads help where there is enough to do; the bits are the same without. NULL: the caller's alone.
 * 5. ATTN_INVALID: the message says what, and nothing is written. ATTN_UNSUPPORTED: an unknown field is set. */
attn_status attn_merge(struct attn_context *context, const struct attn_partials *partials, struct attn_error *err);

/* ---- narrow K and V ---- */
/* Rows of f32, f16 or bf16 that become rows of a type that K and V may have. A cache that grows is made of calls with the rows
 * that are new: no row needs another, but where they share a scale that is to be found. */
struct attn_quantisation {
    size_t size;          /* sizeof(struct attn_quantisation) */
    attn_dtype from, to;  /* F32, F16 or BF16; INT8, FP8, Q8_0 or Q4_0 */
    int64_t batch, heads, rows; /* 0 or more each, whatever they are called: pages, KV heads, rows of a page */
    int width;            /* values of a row, 1..576; of block types a multiple of 32 */
    const void *in;       /* element [0, 0, 0, 0], aligned to an element; NULL where there is no row */
    void *out;            /* the same, of `to`; rows must not overlap each other, nor the input */
    int64_t in_stride[3], out_stride[3]; /* of batch, head and row, as attn_run's: in elements; in units of `to` */
    /* INT8 and FP8: element [0, 0, 0] of the scales, [batch, head, row] with strides as attn_run.k_scales_stride, and aligned.
     * Other types: NULL and zeros. */
    float *scales;
    int64_t scales_stride[3];
    int given; /* 1: scales are read, finite and not 0; 0: they are written, each the size of the largest finite value of its
                * rows, divided by 127 or by 448 (1 where that is 0 or would be): rows of one scale are all in this call */
    /* Where rows go in a cache, paged or not: NULL, and they lie in `out` as in `in`; or [batch, rows] contiguous, for each row
     * its slot, one below 0 for a row that is left out (padding). Then out and scales are [page, head, row of a page], and slot n
     * is row n % page_size of page n / page_size; without pages a sequence is one. No slot is named twice. */
    const int64_t *slots;
    int64_t page_size, pages; /* rows of a page, at least 1; pages that `out` has. Without slots 0 */
};
/* Converts; on the calling thread, with no memory of its own. Any number of threads may call, for different rows. Notes:
 * 1. A stored number is the one nearest to value / scale, ties to the even one. What is beyond the largest of its sign becomes
 *    that (INT8 -128 and 127, FP8 448, Q8_0 127, Q4_0 -8 and 7), infinities too; a block's scale is the f16 that is nearest to
 *    its largest finite value, divided by 127 (Q8_0, its size) or by -8 (Q4_0, with its sign), and stays within 65504.
 * 2. A NaN stays one in FP8. INT8 and blocks have none: it is refused, and so is a head_dim that is no multiple of 32.
 * 3. ATTN_INVALID: the message says what, and nothing is written: all rows are looked through first. ATTN_UNSUPPORTED: an
 *    unknown field is set. */
attn_status attn_quantise(const struct attn_quantisation *quantisation, struct attn_error *err);

/* The same on a device, into caches that lie there: the bits are those that attn_quantise gives. */
struct attn_cl_quantisation {
    size_t size;                                   /* sizeof(struct attn_cl_quantisation) */
    void *queue;                                   /* cl_command_queue of the plan's cl_context and cl_device; any order */
    void *in, *out, *scales, *slots;               /* cl_mem of what attn_quantisation's pointers are, or NULL where those are */
    int64_t in_at, out_at, scales_at, slots_at;    /* where each begins in its buffer, in elements (of `to` in units); 0 or more */
    int wait_count;                                /* as attn_cl_run's */
    void *const *wait;
    void **event;
};
/* Puts it on the caller's queue, flushes that and returns; nothing is copied, and nobody waits. Notes:
 * 1. plan: any for that device, in whose context the buffers are; what it is for does not matter. The first call on a device
 *    compiles the kernel, or loads it from the cache. Any number of threads may call.
 * 2. Lengths, strides and types are `shape`'s, whose pointers must be NULL. A tensor must begin and end in its buffer.
 * 3. Values, given scales and slots cannot be looked at here. A NaN becomes 0 where the type has none; slots beyond the last are
 *    left out, as those below 0 are; numbers under a scale that is no finite one, or 0, mean nothing.
 * 4. ATTN_UNSUPPORTED: the plan is not for OpenCL. ATTN_INVALID: as attn_quantise and attn_execute_cl. ATTN_FAILED: what the
 *    driver said. */
attn_status attn_quantise_cl(struct attn_plan *plan, const struct attn_quantisation *shape,
                             const struct attn_cl_quantisation *run, struct attn_error *err);
/* Puts it on a stream of the card of `plan`, which is any plan for that card; all pointers are of that card's memory. It may be
 * captured, but for the first call on a card. Otherwise as attn_quantise_cl and attn_execute_cuda. */
attn_status attn_quantise_cuda(struct attn_plan *plan, const struct attn_quantisation *quantisation, void *stream,
                               struct attn_error *err);

/* ---- execution on OpenCL ---- */
/* attn_execute takes host arrays for every plan: on a device it copies the rows that take part there and the rows of O
 * and LSE back, waits, and ignores workspace (but for its alignment). The device's buffers are kept for the plan's next
 * run. There are no parts on a device: attn_execute_part is ATTN_UNSUPPORTED, and so is attn_workspace_size with
 * parts > 0. attn_execute_cl takes the caller's own buffers: handles are void pointers, so that this header needs none
 * of OpenCL's. */
struct attn_cl_run {
    size_t size;                         /* sizeof(struct attn_cl_run) */
    void *queue;                         /* cl_command_queue of the plan's cl_context and cl_device; any order */
    void *q, *k, *v, *o, *lse, *kv_lens; /* cl_mem of that context. lse (float), kv_lens (int64, [batch]): or NULL */
    int64_t q_at, k_at, v_at, o_at, lse_at, kv_lens_at; /* where each begins in its buffer, in elements; 0 or more */
    int wait_count;                      /* events in wait, 0 with NULL */
    void *const *wait;                   /* cl_event; the kernel starts when all are complete */
    void **event;                        /* NULL, or where to put a cl_event that the caller releases */
    /* Of the plan's features: cl_mem of what attn_run's pointers of that name are, and where it begins, in elements. */
    void *bias, *mask, *alibi_slopes, *sinks, *q_starts, *kv_starts, *block_table;
    int64_t bias_at, mask_at, alibi_slopes_at, sinks_at, q_starts_at, kv_starts_at, block_table_at;
    void *k_scales, *v_scales; /* of narrow K and V */
    int64_t k_scales_at, v_scales_at;
};
/* Enqueues the run, flushes the queue and returns; nothing is copied, and nobody waits. Notes:
 * 1. Lengths, strides and numbers are `shape`'s, whose pointers must be NULL. Empty tensors may have NULL for a buffer.
 * 2. A tensor must begin and end in its buffer, strides and all. O in an input's buffer at the same place is refused;
 *    other overlaps are not noticed.
 * 3. What is in kv_lens, starts and block table cannot be looked at here: the caller answers for it being as attn_run
 *    says. Of a packed side, and of its LSE, only the longest sequence is known to fit its buffer.
 * 4. Buffers and queue stay the caller's, and must outlive the kernel's run; so must the plan.
 * 5. Any number of threads may call for one plan. An empty run (batch or q_len 0) still gives an event.
 * 6. Kernels for NVIDIA's tensor cores (isa sm80 or sm90 in the variant's name) are fastest where strides and offsets are
 *    multiples of 8 elements, and not negative. A plan for a run that is otherwise compiles a second kernel, with copyany in
 *    its name, when there is a first such run, which may take seconds; the log says which rule the first one has. Where the
 *    variant is pinned such a run is ATTN_FAILED. What attn_execute copies is as the first one wants it.
 * 7. ATTN_UNSUPPORTED: the plan is for cpu. ATTN_INVALID: a handle that is none or of another context or device, and
 *    all that attn_execute finds. ATTN_FAILED: what the driver said; more than 65535 heads. O and LSE are then
 *    undefined. */
attn_status attn_execute_cl(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *run,
                            struct attn_error *err);

/* ---- execution on CUDA ---- */
/* Of plans for the device "cuda" or "cuda:N": NVIDIA's cards by the CUDA driver, as it numbers them. All is in the card's primary
 * context, which is that of CUDA's runtime and of PyTorch. libcuda.so.1 and NVRTC (libnvrtc.so.13 or .12) are opened at run time.
 *
 * Puts the run on a stream and returns: nothing is copied, and nobody waits. Notes:
 * 1. All pointers in `run` are of memory of the plan's card; lengths, strides and numbers are as in attn_execute. What is in
 *    kv_lens, starts and block table cannot be looked at here: the caller answers for it being as attn_run says. What pointers
 *    point to stays the caller's, and must outlive the kernel's run; so must the plan.
 * 2. stream: a CUstream (cudaStream_t) of that context; NULL is the default stream.
 * 3. Any number of threads may call for one plan, on any streams. Launches of different streams run at once, so each stream has a
 *    room of the plan's memory, and so has each capture of a stream into a graph. A plan begins with up to 16 rooms, of the size
 *    that its maxima ask for; who needs another one has it allocated by the call, which then waits for the card. No call that finds
 *    its room allocates, or waits for anything. Rooms are kept until the plan is destroyed.
 * 4. It may be captured into a graph. What is in kv_lens is read when the graph runs, all else is that of the capture: kv_len, the most
 *    keys that there will be, strides and pointers. Graphs that hold its launches must be destroyed before the plan.
 * 5. Kernels for tensor cores (isa sm80 or sm90 in the variant's name) are fastest where strides are multiples of 8 elements, of 0
 *    or more, and tensors at multiples of 16 bytes. For a run that is otherwise a second kernel is compiled, as note 6 of
 *    attn_execute_cl says: make one such run before a stream is captured.
 * 6. ATTN_UNSUPPORTED: the plan is not for CUDA. ATTN_INVALID: what attn_execute finds without looking at memory. ATTN_FAILED: what
 *    the driver said; O and LSE are then undefined. CUDA does not outlive a fork. */
attn_status attn_execute_cuda(struct attn_plan *plan, const struct attn_run *run, void *stream, struct attn_error *err);
/* attn_merge on a stream of the card of `plan`, which is any plan for that card; what the plan is for does not matter. part_o and
 * part_lse are arrays of the host's, of pointers to the card's memory; o, lse and sinks are there too. At most 64 parts. Weights
 * are computed in double precision, rows in f32: within 2^-21 of the largest element that a part has, before it is rounded once. The first call on a card compiles the kernel, or loads it from the cache: it
 * is not for a capture. Otherwise as attn_execute_cuda: nobody waits, and later calls allocate nothing. */
attn_status attn_merge_cuda(struct attn_plan *plan, const struct attn_partials *partials, void *stream,
                            struct attn_error *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
