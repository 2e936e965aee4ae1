/* attn.h - libattn: fused attention kernels that are generated, checked and tuned for this machine, and cached.
 *
 * INTRODUCTION
 *
 *   libattn computes O = softmax(scale * Q K^T, masked) V without storing the matrix of scores: FlashAttention-2 (Dao
 *   2023, section 3.1, algorithm 1) over the online softmax of Milakov and Gimelshein (2018, algorithm 3). Scores,
 *   softmax, sums and output accumulate in f32, whatever the element types are. libattn generates kernels for one exact
 *   problem, compiles them in the process (C with libtcc or a C compiler, OpenCL C with the device's driver, CUDA C++
 *   with NVRTC), checks each against a double-precision reference before timing it, and remembers the fastest.
 *   tests/examples/ten_lines.c is a complete program.
 *
 * WHAT IS COMPUTED
 *
 *   The formulas are for query i of head h in sequence b; j runs over the keys of the KV head that h reads. Every line
 *   except the first and the last describes a feature that a plan either has or does not have. A feature that a plan
 *   does not have is not in its kernel and costs nothing.
 *
 *     x_j = scale * (q_i . k_j)
 *     x_j = c tanh(x_j / c)                     softcap: Gemma 2 (2024, section 2); applied before bias and masks
 *     x_j = x_j + bias[b, h, i, j]              bias: any side may be broadcast (a stride of 0); -inf masks
 *     x_j = x_j - slope[h] |pos(i) - j|         ALiBi: Press, Smith and Lewis (2022), by distance in both directions
 *     x_j = -inf unless key j takes part        masks: key j takes part when all of these hold, as far as they apply:
 *                                                 j < number of keys of the sequence
 *                                                 j <= pos(i)                             causal
 *                                                 pos(i) - left <= j <= pos(i) + right    window, as FlashAttention-2
 *                                                 mask[b, h, i, j] != 0                   mask
 *     p_j = exp(x_j) / (sum of exp(x_j) + exp(sink[h]))    sink: gpt-oss (2025), after StreamingLLM (Xiao et al. 2023);
 *                                                          without sinks, nothing is added to the sum
 *     O_i = sum of p_j v_j,  LSE_i = ln(sum of exp(x_j))
 *
 *   pos(i) is i plus the position of query 0 on the axis of keys, which attn_run.align chooses; by default the last
 *   query stands at the last key. The LSE excludes the sink, so that attn_merge can merge parts of one attention. A row
 *   in which no key takes part, for whatever reason, is empty: O = 0 and LSE = -inf, with or without a sink. Causal
 *   masks, windows and lengths also save work, because tiles of keys that no query of a tile sees are skipped; `mask`
 *   and a bias of -inf do not.
 *
 *   Rows may lie in memory in many ways. Each tensor has strides of any size, so that [batch, head, row, element] and
 *   [batch, row, head, element] are both native, one K can serve many sequences, and V may be a view of K. Each
 *   sequence may have its own length. Sequences may be packed one after another without padding (cu_seqlens, as in
 *   FlashAttention's varlen functions). K and V may lie in pages of one or more rows that a block table lists (Kwon et
 *   al. 2023, vLLM). K and V may have a narrower type than Q: bytes with scales, or blocks (see attn_dtype).
 *
 * OBJECTS
 *
 *   struct attn_context  holds what plans share: the generator, the cache of winners, the threads, the caller's
 *                        callbacks. A process usually has one. Several contexts do not affect each other.
 *   struct attn_problem  says what is asked for, except lengths and pointers. It is a plain struct of the caller's.
 *   struct attn_plan     is one compiled kernel for a problem. It is created once and executed many times.
 *   struct attn_run      describes one execution: lengths, strides, pointers, positions, and the numbers and arrays of
 *                        the features. It is a plain struct.
 *   struct attn_partials holds results over parts of the keys, for attn_merge. It is a plain struct.
 *
 *   What is decided when:
 *     context   the cache's directory; the instruction sets that may be used (those of the processor, or only those
 *               that the environment variable ATTNGEN_ISA lists, separated by commas); memory and log callbacks; the
 *               compiler that $CC names.
 *     plan      element types, head dims, heads, features, device, compiler, threads, and the maxima of batch and
 *               lengths; together they determine the kernel. For tuning, the maxima are rounded up to powers of two
 *               (fewer than 16 queries count as they are), so that similar problems share a winner. An execution may use
 *               any lengths up to the maxima, so a growing KV cache needs no new plan.
 *     run       everything else.
 *
 * TUNING AND CACHE
 *
 *   attn_plan_create takes the variant that the problem pins, otherwise the cache's winner, otherwise it searches with
 *   the problem's rigor. A cache entry is identified by everything that timings depend on (this library's templates and
 *   code, the compiler, the processor or the device and its driver, the number of threads, the rounded problem). It is
 *   trusted only if it is undamaged, belongs to the user, and was measured with the same source text. A problem with
 *   the cache (no directory, a full or read-only disk, a damaged or foreign file) costs a search or a compilation and
 *   one line in the log; the plan is created all the same. Several processes may share a cache. A process that stores
 *   waits up to two seconds for another that holds the lock (up to ten when several take turns); then it gives up and
 *   says so in the log. A process that reads never waits, and a forked child cannot block others.
 *   A variant is remembered as wrong only if its compiler refused it or its kernel computed a wrong result, not if
 *   memory, disk space or the device was unavailable. A search tries such a variant again after a day, and at any time
 *   when no other variant is usable.
 *   A variant is pinned by its kernel's name, which attn_plan_info.variant gives. The name holds every choice that
 *   tuning makes, so it stands for the same kernel wherever this version of libattn runs; another version may name it
 *   differently.
 *
 * DETERMINISM AND ACCURACY
 *
 *   One plan gives a query row the same bits whatever the number of threads or parts, the workspace, the strides, and
 *   the rest of the batch. (The one exception is a run that needs a second kernel: note 6 of attn_execute_cl.) Two
 *   plans may have different variants and then differ in the last bits; pin the variant where that matters, or set
 *   attn_problem.invariant, whose promise holds between plans. Every variant keeps the same error bounds:
 *     max |O - exact|   <= 2 max |naive - exact| + (2^-23 (2 + max |x|) + u) max |v|
 *     max |LSE - exact| <= 2 max |naive - exact| + 2^-22 (1 + max |x|) + u + 2^-23 max |LSE|
 *   where naive is a three-pass computation with f32 scores whose probabilities and output are rounded to their element
 *   types, and u is 2^-12 where probabilities are rounded to f16, 2^-9 where they are rounded to bf16, and 0 for f32.
 *   A variant whose name ends in _table keeps them for scores of up to 2^30 in size. It subtracts a maximum that is rounded to
 *   f32 from a product that is not, so that a row whose largest score is beyond may become 0, infinite or NaN.
 *   A variant in f32 of isa sm80 keeps them where the numbers of a row of Q or K that make up its scores are at least 2^-16 of
 *   the row's largest one: it has smaller ones only to 2^-39 of that. So a column of K that is larger than the others by more than
 *   2^16, and that Q multiplies by next to nothing, costs the others bits.
 *
 * FLOATING POINT
 *
 *   The floating-point environment must round to nearest; a call leaves it unchanged except for flags. If inputs,
 *   scores and sums are finite, a call may raise the flags inexact, underflow, overflow and denormal. Kernels for the
 *   processor then never raise division by zero or invalid, so a host may trap those two. This also holds for empty
 *   rows, and for a bias or a sink of -inf. NaN, other infinities, and products q . k beyond FLT_MAX may raise invalid.
 *   libattn does not control what an OpenCL driver does in its own threads.
 *   The sum of p_j v_j is formed before it is divided by the sum of p_j, as in FlashAttention and in PyTorch's flash
 *   kernel. An element of O is therefore infinite if max |v_j| times the sum of exp(x_j - max x) exceeds FLT_MAX, even
 *   if the quotient would not; that sum is at most the number of keys.
 *
 * THREADS AND FORK
 *
 *   1. Any number of threads may use one context and execute one plan at the same time. Creating plans from several
 *      threads is safe too; C kernels are compiled one at a time.
 *   2. A plan may be destroyed when no thread is executing it; a context, when all its plans are destroyed and no
 *      thread is in a call that uses it.
 *   3. The context's threads start when an execution first needs them; the thread that calls attn_execute works along
 *      with them. They serve one execution at a time: another one at the same time runs in its calling thread alone.
 *   4. After a fork, the child may execute plans for the processor and create such plans; their threads start anew
 *      there. OpenCL and CUDA do not survive a fork: in a child, do not use plans for them, and destroy neither those
 *      plans nor their context.
 *   5. libattn installs no signal handlers, does not change the locale, and writes nothing to stdout or stderr. It
 *      starts another program, the compiler that $CC names, only for ATTN_CC, and with posix_spawn.
 *   6. A stack of 64 KiB, including what glibc takes of it, is enough for every call. An OpenCL driver may need more:
 *      PoCL, for example, compiles in the caller's thread.
 *
 * MEMORY
 *
 *   If memory runs out, even inside libtcc, the call returns ATTN_NO_MEMORY and frees what it had allocated; it may be
 *   repeated. A call goes on without what it can do without: a file of the cache, a thread.
 *   A call reads inputs and writes outputs, and keeps no pointer to either after it returns (attn_execute_cl and
 *   attn_execute_cuda: after the kernel has run). Strings and structs that are passed to a function need not outlive
 *   the call. A plan keeps one workspace from its last execution for the next; simultaneous executions allocate their
 *   own.
 *
 * DEVICES
 *
 *   OpenCL: the loader (libOpenCL.so.1) is opened when a problem first names an OpenCL device, and is not needed
 *   otherwise. Kernels are OpenCL C 1.2 without extensions. attn_execute copies host arrays to the device and back;
 *   attn_execute_cl takes the caller's queue and buffers. Compiled binaries are kept in the cache.
 *   CUDA: libcuda.so.1 and NVRTC (libnvrtc.so.13 or .12) are opened when a problem first names a CUDA device. Without
 *   NVRTC, code for tensor cores is PTX of the driver's OpenCL; the log says where a kernel's code came from.
 *   attn_execute_cuda takes the caller's stream and pointers to device memory. Compiled binaries are kept in the cache.
 *
 * ERRORS
 *
 *   Every function that can fail returns an attn_status and takes an optional `struct attn_error *` as its last
 *   argument. The struct is filled if the status is not ATTN_OK, and left alone otherwise. A call that fails before a
 *   kernel runs has written no output; the `out` of a creating function is then NULL. Nothing falls back silently: the
 *   log reports when a kernel is slower than it should be, and when this system cannot provide a plan.
 *
 * STRUCTS WITH A SIZE
 *
 *   Set `size` to sizeof the struct and zero the rest before filling it in: `struct attn_run r = {.size = sizeof r}`.
 *   Zero is the default of every field that has a default. A program compiled with an older header keeps its meaning. A
 *   program compiled with a newer header gets ATTN_UNSUPPORTED if it sets a field that this library does not know. A
 *   size that no version of the struct can have is ATTN_INVALID. */
#ifndef ATTN_H
#define ATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* everything else in the library is hidden */
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION (ATTN_VERSION_MAJOR * 1000 + ATTN_VERSION_MINOR)
/* The version of the library that is running, as ATTN_VERSION is that of this header: 1000 times the major version,
 * which changes with the ABI, plus the minor version. */
int attn_version(void);

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_INVALID = 1,     /* an argument is wrong; the message says which one and what is expected */
    ATTN_UNSUPPORTED = 2, /* there is no kernel for this problem here; the message gives the rule or the reason */
    ATTN_NO_MEMORY = 3,   /* malloc, the caller's allocate or a compiler ran out of memory */
    ATTN_FAILED = 4,      /* a compiler, a driver, the system or a check failed */
} attn_status;
struct attn_error {
    char text[640]; /* one line: `what is wrong; what is expected`, after `file:line:col: error:` where known */
};
const char *attn_status_name(attn_status s); /* in English; never NULL, whatever s is */

/* Element types. F32, F16 and BF16 are IEEE binary32, IEEE binary16 and bfloat16, in the machine's byte order; bf16
 * denormals may be read as 0. Only K and V, and only both together, may have one of the others (attn_problem.kv_dtype),
 * which attn_quantise produces:
 *   INT8  signed bytes, each multiplied by a scale of its row (attn_run.k_scales, v_scales).
 *   FP8   OCP's E4M3 (largest value 448, no infinities, one NaN), each multiplied by a scale of its row.
 *   Q8_0  ggml's blocks of 32 values, byte for byte: an f16 scale d and 32 signed bytes, each value being d * byte; a
 *         block has 34 bytes.
 *   Q4_0  ggml's blocks of 32 values, byte for byte: an f16 scale d and 16 bytes, whose low four bits hold values 0 to
 *         15 and whose high four bits hold values 16 to 31, each value being d * (bits - 8); a block has 18 bytes.
 *   With Q8_0 and Q4_0 a row consists of whole blocks, so head_dim and head_dim_v are multiples of 32; strides count
 *   blocks, and a block need not be aligned. */
typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16 = 1,
    ATTN_BF16 = 2,
    ATTN_INT8 = 3,
    ATTN_FP8 = 4,
    ATTN_Q8_0 = 5,
    ATTN_Q4_0 = 6,
} attn_dtype;
/* The position of query 0 on the axis of keys, from which causal masks, windows and ALiBi count. BOTTOM_RIGHT: number
 * of keys of the sequence minus number of its queries, so that the last query stands at the last key, as in
 * FlashAttention 2.1 and later. TOP_LEFT: 0, as in PyTorch and ONNX. Q_OFFSET: attn_run.q_offset, for example with a
 * growing KV cache. */
typedef enum attn_align { ATTN_BOTTOM_RIGHT = 0, ATTN_TOP_LEFT = 1, ATTN_Q_OFFSET = 2 } attn_align;
/* The element type of the bias, or no bias. */
typedef enum attn_bias { ATTN_NO_BIAS = 0, ATTN_BIAS_F32 = 1, ATTN_BIAS_F16 = 2, ATTN_BIAS_BF16 = 3 } attn_bias;
/* What compiles C kernels. TCC: libtcc, which is built into the library and takes about a millisecond. CC: the compiler
 * that $CC names (`cc` if it is unset), which must be gcc or clang; it takes about half a second once for each kernel,
 * and its result is cached. libtcc produces vector instructions only on x86-64. On AArch64 it compiles kernels in plain
 * C (isa c), which are many times slower, and the log says so; ATTN_CC compiles kernels of isas neon and neonbf16 there.
 * A library that was built without libtcc refuses ATTN_TCC. */
typedef enum attn_compiler { ATTN_TCC = 0, ATTN_CC = 1 } attn_compiler;
/* How to search for a winner that the cache does not have.
 *   ESTIMATE  a model chooses; no candidate is compiled, timed or stored to find out.
 *   MEASURE   candidates are timed, except those that the model expects to take more than 6 times as long as the best;
 *             those that fall behind early are dropped.
 *   PATIENT   every candidate is timed, with four times as many samples, except those that the model expects to take
 *             more than 6 times as long as the best and more than a second a run; a candidate is dropped only when it
 *             takes more than 1.5 times as long as the best. A cached winner that only MEASURE found does not end it.
 * MEASURE and PATIENT keep their timings in the cache, and each uses those of the other. */
typedef enum attn_rigor { ATTN_ESTIMATE = 0, ATTN_MEASURE = 1, ATTN_PATIENT = 2 } attn_rigor;
typedef enum attn_log_level { ATTN_LOG_WARNING = 0, ATTN_LOG_INFO = 1 } attn_log_level;

/* ---- context ---- */
struct attn_context;
struct attn_options {
    size_t size;           /* sizeof(struct attn_options) */
    const char *cache_dir; /* NULL: $ATTNGEN_CACHE, else $XDG_CACHE_HOME/attngen, else ~/.cache/attngen; "": no cache */
    /* Memory for the workspaces that attn_execute needs; small objects always come from malloc. Set both or neither;
     * NULL means aligned_alloc and free. allocate returns `size` bytes aligned to `align`, a power of two, or NULL;
     * release is never called with NULL. Any thread that executes may call them, several threads at once too. */
    void *(*allocate)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *memory);
    /* Called with one line of the log, without a newline; NULL: no log. It is called in the thread that called libattn,
     * in several threads at once if several threads do. */
    void (*log)(void *user, attn_log_level level, const char *text);
    void *user; /* passed to the three functions above */
};
/* Creates a context. options may be NULL, which means all defaults. Reads the processor's features and the environment;
 * opens no file of the cache and starts no thread.
 * ATTN_INVALID: out is NULL, a size is wrong, or only one of allocate and release is set. ATTN_UNSUPPORTED: a field
 * that this version does not know is set. ATTN_NO_MEMORY. ATTN_FAILED: the library's own templates do not parse. */
attn_status attn_context_create(const struct attn_options *options, struct attn_context **out, struct attn_error *err);
/* Destroy the context's plans first. NULL is allowed. */
void attn_context_destroy(struct attn_context *context);

/* ---- plan ---- */
struct attn_problem {
    size_t size;         /* sizeof(struct attn_problem) */
    attn_dtype dtype;    /* of Q, and of K, V and O unless `mixed` is 1: F32, F16 or BF16 */
    int head_dim;        /* elements in a row of Q and of K: 1..576 */
    int head_dim_v;      /* elements in a row of V and of O: 1..512; 0 means head_dim */
    int heads, kv_heads; /* 1..65536; heads is a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    int causal;          /* 0 or 1; 1: query i sees key j only if j <= pos(i) */
    /* The largest batch and lengths that an execution may have; at least 1 each. Tuning is for these. */
    int64_t max_batch, max_q_len, max_kv_len;
    /* Up to 1024. 0: as many as the process may use, by its CPU affinity and the quotas of its control groups. If this
     * is more than that, threads take turns. */
    int threads;
    attn_rigor rigor; /* how to search if the cache has no winner */
    /* Seconds that a search may measure; 0 means 30, or 600 with ATTN_PATIENT. They include random data, compilation
     * and checks. When they are over, the best candidate so far is taken; if there is none yet, the search goes on
     * until one is right. The call may exceed the limit by the time that one candidate takes. For large maxima, a
     * smaller problem of the same kind is timed instead: with all that timing and checking need, it takes at most 512
     * MiB of memory, or 8 MiB for each thread if that is more. */
    double time_limit;
    const char *variant;    /* NULL, or the name of the kernel to pin; then nothing is tuned */
    attn_compiler compiler; /* ATTN_TCC (0) or ATTN_CC. Each has winners of its own */
    /* NULL or "cpu": this processor. "opencl": the first usable OpenCL device, GPUs before CPUs; "opencl:N": the one
     * that `attngen devices` gives that number. "cuda": the first usable card; "cuda:N": the one that CUDA's driver
     * gives that number. "reference": the definition computed in double precision and rounded once, by its only kernel,
     * so that no variant can be pinned. `threads` and `compiler` are ignored for OpenCL and CUDA devices. */
    const char *device;
    /* A cl_context and a cl_device_id of the caller's to use instead of `device`; both or neither. libattn retains them
     * as long as the plan exists. NULL: libattn creates its own context. */
    void *cl_context, *cl_device;
    /* ---- features: defined under WHAT IS COMPUTED; 0 or 1 unless said otherwise. The plan says which features there
     * are; attn_run has the numbers and arrays that they compute with. ---- */
    int mixed;                    /* 1: kv_dtype and o_dtype apply. 0: both are 0, and all tensors are of dtype */
    attn_dtype kv_dtype, o_dtype; /* of K and V, and of O; for example f32 queries with a KV cache of f16 or int8 */
    int window;                   /* keys outside a window around the query's position do not take part */
    int softcap;                  /* tanh keeps scores within -c..c */
    attn_bias bias;               /* a tensor of this type is added to the scores */
    int mask;                     /* a byte for each query and key says whether the key takes part */
    int alibi;                    /* a score falls by slope[head] for each position between query and key */
    int sink;                     /* each head has a logit that joins the denominator only */
    int packed;                   /* Q and O, K and V, or all of them are packed: attn_run.q_starts, kv_starts */
    int paged;                    /* K and V lie in pages: attn_run.block_table */
    /* For a plan with `window`: the window to tune for, as window_left and window_right in attn_run, -1 for no bound.
     * Both 0: not known. The number of keys in it is rounded up to a power of two. A run may use any window. */
    int64_t tune_window_left, tune_window_right;
    /* 0 or 1; 1 promises the same bits. Take two plans of this library on the same device that agree in compiler, types, head
     * dims, heads, causal and the features from window to sink. A row of O and of LSE has the same bits in both if its query, the
     * keys and values that it sees, their positions, and the numbers of the features are the same. Nothing else matters: maxima,
     * batch, other sequences, packed or not, paged or not, the chunks in which queries come, keys that the row does not see,
     * threads, parts, streams, rigor, and what tuning found. What orders the sums is fixed by the instruction set, the types, the
     * head dims and the features; everything else is tuned, apart from plans that promise nothing. Notes:
     * 1. The keys and values of the sequence must be finite.
     * 2. Nothing is promised between devices, instruction sets (ATTNGEN_ISA), compilers or versions of this library. Plans take the
     *    first instruction set, in a fixed order, that has such kernels: sm90, sm80, portable; amx, avx512bf16 (but not on
     *    processors with amx), avx512, avx2; neonbf16, neon; c. Plans take amx and those with bf16 in their names for Q, K and V
     *    in bf16 only.
     * 3. A variant that is pinned must be an invariant one, and may be of another instruction set than plans choose.
     * 4. ATTN_UNSUPPORTED if there is no such kernel. On isa sm90 a run whose rows the copy engine does not take as they lie is
     *    refused (note 6 of attn_execute_cl), as with a pinned variant. */
    int invariant;
};
struct attn_plan;
/* Finds and compiles the kernel for a problem. With a pinned variant, a cached winner or ATTN_ESTIMATE this takes
 * milliseconds (half a second more with ATTN_CC or on a device, unless the compiled kernel is cached too); otherwise it
 * takes up to time_limit. The caller owns the plan; its context must outlive it. Notes:
 * 1. ATTN_INVALID: a pointer is NULL; a field is out of range (the message gives the range); heads is not a multiple of
 *    kv_heads; kv_dtype or o_dtype is set without mixed; the maxima allow tensors of 2^63 bytes or more; device is not
 *    the name of a device; variant is not a name, or names a kernel for another problem.
 * 2. ATTN_UNSUPPORTED: the problem, the processor or the device allows no kernel (the message gives the rule that
 *    rejected the best candidate); there is no OpenCL loader, no CUDA library, no such device or no compiler $CC;
 *    ATTN_TCC with a library that was built without libtcc, or on a system that lets no process create code at run
 *    time, where ATTN_CC may still work.
 * 3. ATTN_FAILED: the chosen kernel does not compile. ATTN_NO_MEMORY.
 * 4. With ATTN_ESTIMATE or a pinned variant, the kernel is compiled but not checked against the reference. */
attn_status attn_plan_create(struct attn_context *context, const struct attn_problem *problem, struct attn_plan **out,
                             struct attn_error *err);
/* No thread may be executing the plan, and no device may still be running its kernel. NULL is allowed. */
void attn_plan_destroy(struct attn_plan *plan);

/* Says whether attn_plan_create would find a kernel for the problem: ATTN_OK, or the status and message with which it
 * would refuse. The same code decides both, up to the point where a kernel would be measured or compiled. Nothing is
 * stored. */
attn_status attn_supports(struct attn_context *context, const struct attn_problem *problem, struct attn_error *err);

/* What was chosen, and how. */
struct attn_plan_info {
    size_t size;                  /* sizeof(struct attn_plan_info), set by the caller */
    const char *variant;          /* the kernel's name, with which it can be pinned. The plan owns the three strings */
    const char *compiler;         /* "tcc", "cc", "opencl", "cuda" or "reference" */
    const char *device;           /* "cpu", "opencl:N", "cuda:N", "reference", or "opencl" with the caller's context */
    int cached;                   /* 1: the winner came from the cache; 0: it was measured, estimated or pinned */
    int threads;                  /* on a device: its number of compute units */
    double compile_ms;            /* milliseconds to compile this plan's kernel, or to load it from the cache */
    void *cl_context, *cl_device; /* of an OpenCL plan, valid as long as the plan; otherwise NULL */
};
/* Fills out->size bytes; fields that this library does not know become 0. ATTN_INVALID: a pointer is NULL, or the size
 * is wrong. */
attn_status attn_plan_describe(const struct attn_plan *plan, struct attn_plan_info *out, struct attn_error *err);

/* ---- execution ---- */
/* The tensors are [batch, head, row, element]: Q [batch, heads, q_len, head_dim], K [batch, kv_heads, kv_len,
 * head_dim], V [batch, kv_heads, kv_len, head_dim_v], O [batch, heads, q_len, head_dim_v]. The elements of a row are
 * contiguous. On a packed side (Q and O, or K and V) the rows of the sequences follow one another and there is no
 * batch: Q and O are [row, head, element] with q_starts[batch] rows, K and V with kv_starts[batch] rows. In pages, K
 * and V are [page, head, row, element]. V may be the first head_dim_v elements of each row of K, as in MLA's latent
 * cache: the same pointer (or buffer and v_at as k_at) and the same strides. Kernels of isa sm90 for head_dim above 256 see
 * that at each run and then read the rows once; no field has to say it. */
struct attn_run {
    size_t size;           /* sizeof(struct attn_run) */
    const void *q, *k, *v; /* element [0, 0, 0, 0] of each, aligned to an element; may be NULL if the tensor is empty */
    void *o;               /* the same; every row is written, and nothing between rows */
    /* NULL, or [batch, heads, q_len] contiguous ([heads, q_starts[batch]] if Q is packed): the natural logarithm of
     * each row's sum of exp(score), -inf for an empty row. */
    float *lse;
    /* 0 up to the plan's maxima. kv_len 0 makes every row empty. On a packed side the length is that of the longest
     * sequence, or more. */
    int64_t batch, q_len, kv_len;
    /* Strides of batch, head and row, in elements (in blocks if K and V have blocks), in this order whatever the order
     * in memory. All three 0: contiguous, in the order given above. Otherwise each counts as it is: inputs may have
     * strides of 0 and negative ones (a batch stride of 0 is one K for all sequences), and those of O are at least the
     * elements of a row in size, whatever their sign. A stride along an extent of 0 or 1 is ignored, and so is the
     * batch stride of a packed side. In pages the batch stride goes from page to page. */
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];
    /* [batch], each 0..kv_len: the number of keys of each sequence; no key after them is read. NULL: kv_len for all.
     * Must be NULL if kv_starts is given, which implies the same numbers. */
    const int64_t *kv_lens;
    attn_align align; /* from where masks and distances count; has no effect without causal, window and alibi */
    int64_t q_offset; /* with ATTN_Q_OFFSET: the position of query 0, of any size and sign; otherwise 0. One beyond 2^60 or
                       * -2^60 counts as that, which only the LSE of ALiBi can show */
    float scale;      /* any number of at most 1e30 in size; read only if has_scale is 1, otherwise 1/sqrt(head_dim) */
    int has_scale;    /* 0 or 1 */
    /* ---- features. Fields of a feature that the plan does not have must be 0 or NULL; libattn refuses others rather
     * than ignore them. Arrays of a feature that the plan has are required if there is any row (bias, mask, block table
     * and scales: any score). ---- */
    /* How many keys before and after its position a query sees, not counting the key at that position: 0 or more, or -1
     * for no bound. In causal plans it sees none after, whatever window_right says. The zeroed values, 0 and 0, leave
     * each query only the key at its own position. */
    int64_t window_left, window_right;
    float softcap; /* c: 1e-30..1e30; scale / c must be finite, and not less than FLT_MIN in size unless scale is 0 */
    /* Element [0, 0, 0, 0] of [batch, heads, q_len, kv_len], aligned to an element. Query and key are counted within
     * their sequence, packed or not. -inf masks. */
    const void *bias;
    int64_t bias_stride[4];    /* of batch, head, query and key, in elements; each counts as it is: 0 broadcasts, and
                                * negative strides are allowed */
    const unsigned char *mask; /* [batch, heads, q_len, kv_len]: 1 if the key takes part, otherwise 0 */
    int64_t mask_stride[4];    /* as bias_stride */
    const float *alibi_slopes; /* [heads] */
    const float *sinks;        /* [heads]; -inf: no sink */
    /* Packed: [batch + 1] each, starting at 0 and never decreasing (cu_seqlens). Sequence b is rows starts[b] to
     * starts[b + 1] - 1, from none up to q_len or kv_len of them. NULL leaves that side unpacked; at least one of the
     * two is required. With pages, kv_starts says only how many keys each sequence has; the block table says where. */
    const int64_t *q_starts, *kv_starts;
    /* Paged: key j of sequence b is row j % page_size of page block_table[b * block_table_stride + j / page_size].
     * Entries of pages that hold keys of the sequence must be 0..pages - 1, whether or not a query sees those keys;
     * later entries are not read. Several sequences may use the same page. */
    const int32_t *block_table;
    int64_t block_table_stride; /* elements from one sequence's entries to the next one's; 0: all share them */
    int64_t page_size, pages;   /* rows of a page, at least 1; number of pages of K and V, 0 or more */
    /* With a kv_dtype of INT8 or FP8, what the numbers stored in a row are multiplied by: element [0, 0, 0] of
     * [batch, KV head, row], or in pages of [page, KV head, row]; on a packed side rows are counted as K's are. Strides
     * are in elements and count as they are; 0 broadcasts, so three zeros mean one scale for all. Scales are finite and
     * may be negative. For other types both are NULL and the strides 0. */
    const float *k_scales, *v_scales;
    int64_t k_scales_stride[3], v_scales_stride[3];
};
/* Computes O and LSE, and returns when both are written. Notes:
 * 1. A row that sees no key gets O = 0 and LSE = -inf. If batch or q_len is 0, nothing is read or written.
 * 2. -inf and NaN in the inputs have their usual meaning; but where kernels multiply each number as a sum of two (f16 on isa
 *    amx, f32 on isa sm80), an infinity in Q, K or V may count as NaN. A NaN in query i affects only row i; a NaN in key or
 *    value j, or an infinity in value j, affects the rows whose tile of keys holds j. Keys after a sequence's length affect
 *    nothing, nor do the bias and mask there; rows of a page that hold no key are not read.
 * 3. Outputs must not overlap inputs, and rows of O must not overlap each other. O at an input's address and
 *    overlapping neighbouring rows are refused; other overlaps are not detected. Inputs may overlap in any way: V may
 *    be columns of K.
 * 4. workspace: NULL (libattn allocates one or reuses the plan's), or at least attn_workspace_size bytes of the
 *    caller's for this run, aligned to 64 bytes and used by this execution alone. Its contents do not matter.
 * 5. The run uses the context's threads: as many as the plan has, or fewer if it is small. Threads take the next
 *    sequence or head when they are free, so different lengths are balanced. For runs on a device see below.
 * 6. ATTN_INVALID: something does not fit the plan or the rules above (the message says what), and nothing was written.
 *    Starts, lengths and block tables are checked; the contents of other arrays are not. ATTN_UNSUPPORTED: a field that
 *    this version does not know is set. ATTN_NO_MEMORY: there is no memory for the workspace. ATTN_FAILED: a device's
 *    driver failed (the message says how); O and LSE are then undefined. */
attn_status attn_execute(struct attn_plan *plan, const struct attn_run *run, void *workspace, struct attn_error *err);
/* Sets *out to the bytes of workspace that attn_execute (parts = 0) or one part of attn_execute_part (parts > 0) needs
 * for the run. It looks at lengths, strides and numbers, but not at arrays. The size for a part depends on no length
 * but kv_len, and never falls when kv_len grows. The size for a whole run also covers what threads share where there are
 * few sequences and KV heads for each thread, and so depends on batch and q_len too. It is 0 on a device, and if there is
 * nothing to compute. The errors are those of attn_execute, except that arrays may be missing; *out is then 0. */
attn_status attn_workspace_size(const struct attn_plan *plan, const struct attn_run *run, int parts, size_t *out,
                                struct attn_error *err);
/* For callers with threads of their own: computes one part (0..parts - 1) of the run in the calling thread, and
 * allocates nothing. All parts, at the same time or in any order, make up the run, with the same bits as attn_execute.
 * Each part that is at work needs its own workspace of attn_workspace_size(plan, run, parts) bytes, aligned to 64.
 * parts is at least 1; there may be more parts than work. Divisors and multiples of batch * kv_heads are fastest,
 * because each part that shares a (sequence, KV head) packs its keys and values again. Each part checks the whole run.
 * The errors are those of attn_execute, and ATTN_UNSUPPORTED for a plan on a device. */
attn_status attn_execute_part(const struct attn_plan *plan, const struct attn_run *run, int part, int parts,
                              void *workspace, struct attn_error *err);

/* The parts of one run for a team of threads, as OpenMP's runtime has one: each member calls attn_team_work with the same
 * struct, and claims parts until none is left. The signature is that of what such a runtime calls. */
struct attn_team {
    size_t size; /* sizeof(struct attn_team) */
    const struct attn_plan *plan;
    const struct attn_run *run;
    int parts;   /* as for attn_execute_part */
    int members; /* how many workspaces there are; threads for which there is none return at once */
    void *workspace;
    size_t workspace_size;   /* bytes from one to the next: attn_workspace_size(plan, run, parts), or more, a multiple of 64 */
    int next, seated;        /* 0 before; the team counts here */
    int failed;              /* 0 before; 1 if a part failed, after which no more parts are begun ... */
    attn_status status;      /* ... with the status and the message of the first one that did */
    struct attn_error error;
};
/* Takes a struct attn_team. When all members have returned, the run is done or failed. The struct serves one run. With
 * another size than this version's it does nothing, and `next` stays 0. */
void attn_team_work(void *team);

/* ---- parts of one attention ---- */
/* Results for the same queries over different keys: keys that are split among threads or machines, that arrive in
 * pieces, or that share a prefix. attn_merge combines n of them, each with its LSE:
 *   LSE = ln(sum of exp(LSE_p)),  O = sum of exp(LSE_p) O_p / (sum of exp(LSE_p) + exp(sink[h]))
 * as in Flash-Decoding (Dao et al. 2023). Sinks are applied here, once; the parts must be computed without them. */
struct attn_partials {
    size_t size;                         /* sizeof(struct attn_partials) */
    int64_t count;                       /* number of parts, 0 or more; with none, every row is empty */
    const void *const *part_o;           /* [count]: element [0, 0, 0, 0] of each [batch, heads, q_len, head_dim_v] */
    const float *const *part_lse;        /* [count]: [batch, heads, q_len] contiguous, as executions write it */
    attn_dtype part_dtype, dtype;        /* of the O of the parts, and of the O that is written: F32, F16 or BF16 */
    int64_t part_stride[3], o_stride[3]; /* as in attn_run, for inputs and for O; all parts have the same strides */
    void *o;
    float *lse;            /* NULL, or [batch, heads, q_len]; excludes the sinks, so that it can be merged again */
    int64_t batch, q_len;  /* 0 or more. Packed rows are a batch of 1 with the strides of their rows */
    int heads, head_dim_v; /* 1..65536, 1..512 */
    const float *sinks;    /* NULL, or [heads]: finite, or -inf for no sink */
};
/* Merges. Any number of threads may call it at the same time. Notes:
 * 1. An empty row of a part (LSE -inf) changes nothing, and its O is not read. If the row is empty in all parts, O = 0
 *    and LSE = -inf, with or without a sink. One part without sinks is copied, value for value. A NaN or +inf affects
 *    only its row.
 * 2. The result is computed in double precision and rounded once: O and LSE are within one unit in the last place of
 *    their types of what the formula gives for the parts as they are. The rounding of the parts themselves remains: a
 *    part whose LSE is L has a weight that is accurate to a relative 2^-24 |L|.
 * 3. o may be one of part_o, with the same type and strides, and lse the part_lse of that part; no other overlap is
 *    allowed.
 * 4. context: its threads help if there is enough to do, with the same bits. NULL: only the calling thread works.
 * 5. ATTN_INVALID: the message says what is wrong, and nothing was written. ATTN_UNSUPPORTED: a field that this version
 *    does not know is set. */
attn_status attn_merge(struct attn_context *context, const struct attn_partials *partials, struct attn_error *err);

/* ---- narrow K and V ---- */
/* Converts rows of f32, f16 or bf16 to rows of a type that K and V may have. A growing cache can be filled by one call
 * for the new rows at a time: no row depends on another, except that rows which share a scale that is to be computed
 * must be in the same call. */
struct attn_quantisation {
    size_t size;                /* sizeof(struct attn_quantisation) */
    attn_dtype from, to;        /* F32, F16 or BF16; INT8, FP8, Q8_0 or Q4_0 */
    int64_t batch, heads, rows; /* 0 or more each; in pages: pages, KV heads, rows of a page */
    int width;                  /* values in a row, 1..576; for block types a multiple of 32 */
    const void *in;             /* element [0, 0, 0, 0], aligned to an element; without a row, it may be NULL */
    void *out;                  /* the same, of type `to`; rows must not overlap each other or the input */
    int64_t in_stride[3], out_stride[3]; /* of batch, head and row as in attn_run; in elements, or blocks of `to` */
    /* INT8 and FP8: element [0, 0, 0] of the scales [batch, head, row], aligned, with strides as
     * attn_run.k_scales_stride. Other types: NULL and zeros. */
    float *scales;
    int64_t scales_stride[3];
    /* 1: the scales are read; they are finite and not 0. 0: they are computed and written; each is the largest finite
     * magnitude among its rows divided by 127 (INT8) or 448 (FP8), or 1 if that is 0. */
    int given;
    /* Where rows go in a cache, paged or not. NULL: they lie in `out` as in `in`. Otherwise [batch, rows] contiguous: the
     * slot of each row, negative for a row that is left out (padding). out and scales are then [page, head, row of a
     * page], and slot n is row n % page_size of page n / page_size; in a cache without pages each sequence is one page.
     * No slot may be named twice. */
    const int64_t *slots;
    int64_t page_size, pages; /* rows of a page, at least 1; number of pages of `out`. Both 0 without slots */
};
/* Converts in the calling thread, without allocating memory. Any number of threads may call it for different rows.
 * Notes:
 * 1. A stored number is the one nearest to value / scale, ties to even. Values out of range, infinities included,
 *    become the largest number of their sign (INT8 -128 and 127, FP8 448, Q8_0 127, Q4_0 -8 and 7). The scale of a
 *    block is the f16, within 65504, that is nearest to the block's finite value of largest magnitude divided by -8
 *    with its sign (Q4_0), or to that magnitude divided by 127 (Q8_0).
 * 2. A NaN stays a NaN in FP8. INT8 and blocks have none, so a NaN is refused, and so is a width of blocks that is not
 *    a multiple of 32.
 * 3. ATTN_INVALID: the message says what is wrong, and nothing was written, because all rows are checked first.
 *    ATTN_UNSUPPORTED: a field that this version does not know is set. */
attn_status attn_quantise(const struct attn_quantisation *quantisation, struct attn_error *err);

/* The same on an OpenCL device, for caches in its memory, with the same bits as attn_quantise. */
struct attn_cl_quantisation {
    size_t size;                     /* sizeof(struct attn_cl_quantisation) */
    void *queue;                     /* a cl_command_queue of the plan's cl_context and cl_device, of any order */
    void *in, *out, *scales, *slots; /* cl_mem for the pointers of attn_quantisation, NULL where those would be NULL */
    int64_t in_at, out_at, scales_at,
        slots_at;   /* where each begins in its buffer, in elements (out: in units of `to`) */
    int wait_count; /* this and the next two as in attn_cl_run */
    void *const *wait;
    void **event;
};
/* Enqueues the conversion, flushes the queue and returns, without copying data or waiting for the device. Notes:
 * 1. plan: any plan for the device whose context the buffers belong to; nothing else about it matters. The first call on
 *    a device compiles the kernel, or loads it from the cache. Any number of threads may call it.
 * 2. `shape` gives lengths, strides and types; all its pointers must be NULL. A tensor must lie entirely in its buffer.
 * 3. Values, given scales and slots cannot be checked here. A NaN becomes 0 in a type that has none; slots beyond the
 *    last, like negative ones, are left out; numbers under a scale that is 0 or not finite are meaningless.
 * 4. ATTN_UNSUPPORTED: the plan is not for OpenCL. ATTN_INVALID: as for attn_quantise and attn_execute_cl. ATTN_FAILED:
 *    the driver failed (the message says how). */
attn_status attn_quantise_cl(struct attn_plan *plan, const struct attn_quantisation *shape,
                             const struct attn_cl_quantisation *run, struct attn_error *err);
/* The same on a stream of the card that `plan` is for; nothing else about the plan matters. All pointers are to that
 * card's memory. The call may be captured into a graph, except the first one on a card. Otherwise as attn_quantise_cl
 * and attn_execute_cuda. */
attn_status attn_quantise_cuda(struct attn_plan *plan, const struct attn_quantisation *quantisation, void *stream,
                               struct attn_error *err);

/* ---- execution on OpenCL ---- */
/* attn_execute takes host arrays for every plan. On a device it copies the rows that take part to the device and the
 * rows of O and LSE back, waits, and ignores workspace (except for its alignment). The device's buffers are kept for
 * the plan's next run. A device computes no parts: attn_execute_part returns ATTN_UNSUPPORTED, and so does
 * attn_workspace_size if parts > 0. attn_execute_cl takes the caller's own buffers; handles are void pointers, so that
 * this header needs no OpenCL header. */
struct attn_cl_run {
    size_t size;                         /* sizeof(struct attn_cl_run) */
    void *queue;                         /* a cl_command_queue of the plan's cl_context and cl_device, of any order */
    void *q, *k, *v, *o, *lse, *kv_lens; /* cl_mem of that context; lse (float), kv_lens (int64, [batch]) may be NULL */
    int64_t q_at, k_at, v_at, o_at, lse_at, kv_lens_at; /* where each begins in its buffer, in elements; 0 or more */
    int wait_count;                                     /* number of events in wait; 0 if wait is NULL */
    void *const *wait;                                  /* cl_event; the kernel starts when all are complete */
    void **event; /* NULL, or where to put a cl_event, which the caller releases */
    /* Arrays of the plan's features: a cl_mem for the pointer of that name in attn_run, and where it begins in
     * elements. */
    void *bias, *mask, *alibi_slopes, *sinks, *q_starts, *kv_starts, *block_table;
    int64_t bias_at, mask_at, alibi_slopes_at, sinks_at, q_starts_at, kv_starts_at, block_table_at;
    void *k_scales, *v_scales; /* for narrow K and V */
    int64_t k_scales_at, v_scales_at;
};
/* Enqueues the run, flushes the queue and returns, without copying data or waiting for the device. Notes:
 * 1. `shape` gives lengths, strides and numbers; all its pointers must be NULL. An empty tensor may have NULL for a
 *    buffer.
 * 2. A tensor with its strides must lie entirely in its buffer. O at the same place of the same buffer as an input is
 *    refused; other overlaps are not detected.
 * 3. The contents of kv_lens, starts and block table cannot be checked here: the caller must make sure that they are as
 *    attn_run says. For a packed side, and its LSE, only the longest sequence is known to fit its buffer.
 * 4. The caller keeps the buffers and the queue; they and the plan must outlive the kernel's run.
 * 5. Any number of threads may call this for one plan. A run that computes nothing (batch or q_len 0) still gives an
 *    event.
 * 6. Kernels for NVIDIA's tensor cores (isa sm80 or sm90 in the variant's name) are fastest with strides and offsets
 *    that are multiples of 8 elements and not negative. The first run that such a kernel does not take makes the plan
 *    compile a second kernel, with copyany in its name, which may take seconds; the log gives the rule that the run
 *    breaks. If the variant is pinned, such a run returns ATTN_FAILED. attn_execute lays out its copies as the first
 *    kernel wants them.
 * 7. ATTN_UNSUPPORTED: the plan is not for an OpenCL device. ATTN_INVALID: a handle is not valid, or belongs to another
 *    context or device; and everything that attn_execute refuses. ATTN_FAILED: the driver failed (the message says
 *    how), or there are packed queries of 65536 heads and an LSE. O and LSE are then undefined. */
attn_status attn_execute_cl(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *run,
                            struct attn_error *err);

/* ---- execution on CUDA ---- */
/* For plans on the device "cuda" or "cuda:N". Everything happens in the card's primary context, which CUDA's runtime
 * and PyTorch use too.
 *
 * Puts the run on a stream and returns, without copying data; see note 3 for when it waits. Notes:
 * 1. All pointers in `run` are to memory of the plan's card; lengths, strides and numbers are as in attn_execute. The
 *    contents of kv_lens, starts and block table cannot be checked here: the caller must make sure that they are as
 *    attn_run says. The caller keeps the memory; it and the plan must outlive the kernel's run.
 * 2. stream: a CUstream (cudaStream_t) of that context; NULL is the default stream. A kernel of isa sm90 may begin while
 *    the one before it on the stream is still running. Before that one has ended it writes nothing, and of K, V and
 *    kv_lens it reads only to bring keys and values nearer; what it computes with is read afterwards. In a captured
 *    graph the edge between them is a programmatic one.
 * 3. Any number of threads may call this for one plan, on any streams. Launches on different streams run at the same
 *    time, so each stream, and each capture of a stream into a graph, has a block of device memory of its own. A plan
 *    is created with 2 to 16 such blocks (as many as 64 MiB hold) of the size that its maxima need. A call that
 *    finds no block for its stream or capture allocates one and waits for the card. Apart from that, and from note 5,
 *    no call allocates memory or waits. Blocks are kept until the plan is destroyed.
 * 4. The call may be captured into a graph. The contents of arrays are read when the graph runs. Everything else is
 *    fixed at capture: strides, pointers, and kv_len, which is then the largest number of keys. Destroy graphs that
 *    hold launches of a plan before the plan.
 * 5. Kernels for tensor cores (isa sm80 or sm90 in the variant's name) are fastest with strides that are multiples of 8
 *    elements and not negative, and with tensors at multiples of 16 bytes. The first run that such a kernel does not
 *    take compiles a second one, as note 6 of attn_execute_cl says, which takes seconds and allocates memory of the
 *    host and of the card: make such a run before capturing one.
 * 6. ATTN_UNSUPPORTED: the plan is not for CUDA. ATTN_INVALID: what attn_execute refuses without looking at arrays.
 *    ATTN_FAILED: the driver failed (the message says how); O and LSE are then undefined. */
attn_status attn_execute_cuda(struct attn_plan *plan, const struct attn_run *run, void *stream, struct attn_error *err);
/* attn_merge on a stream of the card that `plan` is for; nothing else about the plan matters. part_o and part_lse are
 * host arrays of pointers to the card's memory; o, lse and sinks are in the card's memory too. There may be at most 64
 * parts and 2^31 rows; more is ATTN_FAILED. Weights are computed in double precision and rows in f32: the result is
 * within 2^-21 of the largest element of any part, before it is rounded once. The first call on a card compiles the
 * kernel or loads it from the cache, so do not capture that one. Later calls allocate nothing and do not wait for the
 * card. */
attn_status attn_merge_cuda(struct attn_plan *plan, const struct attn_partials *partials, void *stream,
                            struct attn_error *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
