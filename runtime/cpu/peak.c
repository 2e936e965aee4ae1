/* peak.c - see peak.h. The loops are assembly, so that no optimiser, and no lack of one, changes what is measured. */
#include "peak.h"

#include <stdlib.h>

/* Twelve accumulators hide a latency of four to six cycles on two pipes; vdpbf16ps needs as many. */
enum { ACCUMULATORS = 12, CHUNKS = 512 };

#if defined(__x86_64__)
#define EACH(op, r)                                                                                                    \
    op(r, 0) op(r, 1) op(r, 2) op(r, 3) op(r, 4) op(r, 5) op(r, 6) op(r, 7) op(r, 8) op(r, 9) op(r, 10) op(r, 11)
#define CLEAR(r, n) "vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n\t" /* the upper parts become 0 too */
#define FMA(r, n) "vfmadd231ps %%" #r "12, %%" #r "13, %%" #r #n "\n\t"
#define DOT(r, n) "vdpbf16ps %%" #r "12, %%" #r "13, %%" #r #n "\n\t"
/* Operands are 2^-10 in both halves of a lane: sums stay small numbers, never denormal and never infinite. */
#define LOOP(op, r)                                                                                                    \
    __asm__ volatile(EACH(CLEAR, r) "vpbroadcastd %1, %%" #r "12\n\t"                                                  \
                                    "vpbroadcastd %1, %%" #r "13\n\t"                                                  \
                                    ".p2align 6\n1:\n\t" EACH(op, r) EACH(op, r) "dec %0\n\t"                          \
                                    "jnz 1b\n\t"                                                                       \
                                    "vzeroupper"                                                                       \
                     : "+r"(turns)                                                                                     \
                     : "m"(operand)                                                                                    \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",  \
                       "xmm11", "xmm12", "xmm13")

static void fma_avx2(int64_t turns)
{
    static const uint32_t operand = 0x3a803a80;
    LOOP(FMA, ymm);
}

static void fma_avx512(int64_t turns)
{
    static const uint32_t operand = 0x3a803a80;
    LOOP(FMA, zmm);
}

static void dot_avx512bf16(int64_t turns)
{
    static const uint32_t operand = 0x3a803a80;
    LOOP(DOT, zmm);
}

/* Four tiles of products in turn, eight products in a turn, on whatever the tiles hold: the time does not depend on the
 * values. */
static void dot_amx(int64_t turns)
{
    static const _Alignas(64) uint8_t config[64] = {[0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64,
                                                    [26] = 64, [28] = 64, [30] = 64, [48] = 16, [49] = 16, [50] = 16,
                                                    [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16};
    __asm__ volatile("ldtilecfg %1\n"
                     "1: tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
                     "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
                     "dec %0\n jnz 1b\n tilerelease\n"
                     : "+r"(turns)
                     : "m"(config));
}
#endif

#if defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>

static void fma_neon(int64_t turns)
{
    volatile float sink, source = 0x1p-10f;
    float32x4_t sum[ACCUMULATORS], x = vdupq_n_f32(source), y = vdupq_n_f32(source), all = x;
    for (int i = 0; i < ACCUMULATORS; i++)
        sum[i] = vdupq_n_f32(0);
    for (int64_t n = 0; n < 2 * turns; n++)
        for (int i = 0; i < ACCUMULATORS; i++)
            sum[i] = vfmaq_f32(sum[i], x, y);
    for (int i = 0; i < ACCUMULATORS; i++)
        all = vaddq_f32(all, sum[i]);
    sink = vaddvq_f32(all);
    (void)sink;
}

#if __GNUC__ >= 10 || __clang_major__ >= 16
#define HAS_DOT_NEON
__attribute__((target("arch=armv8.2-a+bf16"))) static void dot_neon(int64_t turns)
{
    volatile float sink, source = 0x1p-10f;
    float32x4_t sum[ACCUMULATORS], all = vdupq_n_f32(source);
    bfloat16x8_t x = vreinterpretq_bf16_f32(all), y = x;
    for (int i = 0; i < ACCUMULATORS; i++)
        sum[i] = vdupq_n_f32(0);
    for (int64_t n = 0; n < 2 * turns; n++)
        for (int i = 0; i < ACCUMULATORS; i++)
            sum[i] = vbfdotq_f32(sum[i], x, y);
    for (int i = 0; i < ACCUMULATORS; i++)
        all = vaddq_f32(all, sum[i]);
    sink = vaddvq_f32(all);
    (void)sink;
}
#endif
#endif

static void plain_c(int64_t turns)
{
    float sum[ACCUMULATORS] = {0};
    volatile float sink, source = 0x1p-10f;
    float x = source, y = source;
    for (int64_t n = 0; n < 2 * turns; n++)
        for (int i = 0; i < ACCUMULATORS; i++)
            sum[i] = sum[i] * x + y;
    for (int i = 0; i < ACCUMULATORS; i++)
        sink = sum[i];
    (void)sink;
}

struct loop {
    void (*run)(int64_t turns);
    int64_t turns;
    double flops; /* a turn */
};

static struct loop choose(enum isa isa, enum dtype dtype)
{
    struct loop loop = {.run = plain_c, .flops = 2.0 * 2 * ACCUMULATORS};
#if defined(__x86_64__)
    if (isa == ISA_AVX2)
        loop = (struct loop){.run = fma_avx2, .flops = 2.0 * 2 * 8 * ACCUMULATORS};
    else if (isa == ISA_AMX && dtype == DTYPE_BF16)
        loop = (struct loop){.run = dot_amx, .flops = 8.0 * 2 * 16 * 16 * 32};
    else if (isa == ISA_AVX512BF16 && dtype == DTYPE_BF16)
        loop = (struct loop){.run = dot_avx512bf16, .flops = 2.0 * 2 * 32 * ACCUMULATORS};
    else if (isa == ISA_AVX512 || isa == ISA_AVX512BF16 || isa == ISA_AMX)
        loop = (struct loop){.run = fma_avx512, .flops = 2.0 * 2 * 16 * ACCUMULATORS};
#elif defined(__aarch64__) && defined(__GNUC__)
    if (isa == ISA_NEON || isa == ISA_NEONBF16)
        loop = (struct loop){.run = fma_neon, .flops = 2.0 * 2 * 4 * ACCUMULATORS};
#ifdef HAS_DOT_NEON
    if (isa == ISA_NEONBF16 && dtype == DTYPE_BF16)
        loop = (struct loop){.run = dot_neon, .flops = 2.0 * 2 * 8 * ACCUMULATORS};
#endif
    (void)dtype;
#else
    (void)isa;
    (void)dtype;
#endif
    loop.turns = 64;
    return loop;
}

static double rate(const struct loop *loop)
{
    double start = timer_now();
    loop->run(loop->turns);
    double seconds = timer_now() - start;
    return seconds > 0 ? loop->flops * (double)loop->turns / seconds : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

void peak_measure(struct timer *t, enum isa isa, enum dtype dtype, struct peak *out)
{
    static const double CHUNK = 0.2e-3, WARM = 20e-3, LEAST = 50e-3, LIMIT = 0.5;
    struct loop loop = choose(isa, dtype);
    double quiet[CHUNKS], busy[CHUNKS];
    int quiets = 0, busies = 0;
    double start = timer_now(), last = start;
    while (loop.turns < INT64_C(1) << 40) {
        loop.run(loop.turns);
        double now = timer_now();
        if (now - last >= CHUNK)
            break;
        last = now;
        loop.turns *= 2;
    }
    *out = (struct peak){0};
    double spent = 0; /* in quiet chunks */
    double best_after = timer_probe(t);
    bool before = timer_is_quiet(t, best_after, best_after);
    while (timer_now() - start < LIMIT && spent < LEAST) {
        double gflops = rate(&loop) * 1e-9;
        double probe = timer_probe(t);
        if (probe > best_after)
            best_after = probe;
        bool after = timer_is_quiet(t, best_after, probe);
        if (gflops > out->burst)
            out->burst = gflops;
        if (timer_now() - start > WARM) { /* what came before is the burst */
            if (before && after && gflops > 0) {
                spent += loop.flops * (double)loop.turns / (gflops * 1e9);
                quiet[quiets++ % CHUNKS] = gflops;
            } else
                busy[busies++ % CHUNKS] = gflops;
        }
        before = after;
    }
    out->noisy = spent < LEAST;
    if (quiets)
        out->sustained = median(quiet, quiets < CHUNKS ? quiets : CHUNKS);
    else if (busies)
        out->sustained = median(busy, busies < CHUNKS ? busies : CHUNKS);
    else
        out->sustained = out->burst;
}

double peak_gflops(struct timer *t, const struct cpu *cpu, enum dtype dtype)
{
    double best = 0;
    for (int isa = ISA_COUNT - 1; isa >= 0; isa--) {
        struct peak p;
        bool other = dtype == DTYPE_BF16 && (isa == ISA_AVX512 || isa == ISA_NEON); /* their instruction is not that of pairs */
        if (!cpu->isa[isa] || (isas[isa].pairs && dtype != DTYPE_BF16) || (best > 0 && !other))
            continue;
        peak_measure(t, (enum isa)isa, dtype, &p);
        if (p.sustained > best)
            best = p.sustained;
    }
    return best;
}
