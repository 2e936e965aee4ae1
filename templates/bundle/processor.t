%# What the processor has, and what of it can be used; asked of cpuid, and of xgetbv whether the system saves the registers. On
%# AArch64 the system is asked.

/* ---- the processor ---- */

enum {
% for f in 0..FEATURES
% if feature_used(f)
    ${UPPER}_HAS_${feature(f)} = 1 << ${f},
% end
% end
    ${UPPER}_SLOW_PAIRS = 1 << 29, /* products of bf16 pairs run at half the rate of others, as on Intel's processors */
    ${UPPER}_ASKED = 1 << 30       /* the processor was asked, whatever it said */
};

/* Of each isa: the features that its kernels need, and a number that is higher for faster ones; both are 0 where the compiler
 * makes plain C of them. */
% for n in 0..ISAS
% if isa_used(n) and condition(n) != ""
#if !defined(ATTN_PLAIN_C) && \
    (${condition(n)})
enum {
    ${UPPER}_RANK_${isa_name(n)} = ${rank(n)},
    ${UPPER}_NEEDS_${isa_name(n)} = 0
% for f in 0..FEATURES
% if needs(n, f)
        | ${UPPER}_HAS_${feature(f)}
% end
% end
};
#else
enum { ${UPPER}_NEEDS_${isa_name(n)} = 0, ${UPPER}_RANK_${isa_name(n)} = 0 };
#endif
% elif isa_used(n)
enum { ${UPPER}_NEEDS_${isa_name(n)} = 0, ${UPPER}_RANK_${isa_name(n)} = 0 };
% end
% end

% if asked_x86() != ""
#if !defined(ATTN_PLAIN_C) && ( \
    ${asked_x86()})
#define ${UPPER}_ASKS
#include <cpuid.h>

/* The register XCR0: which registers the system saves for each thread. */
__attribute__((target("xsave"))) static unsigned ${NAME}_saved(void)
{
    return (unsigned)__builtin_ia32_xgetbv(0);
}

% if prepared() >= 0
/* Asks the system for tiles, for all threads of this process: NULL, or why there are none. */
#ifdef __cplusplus
extern "C"
#endif
const char *${symbol(prepared())}_prepare(void);

% end
/* In *present the features that the processor has, as bits. Returns those whose registers the system saves${prepared() >= 0 ? ", and allows this process to use" : ""}. */
static int ${NAME}_ask(int *present)
{
    enum { EAX, EBX, ECX, EDX };
    enum { LEAF_1, LEAF_7, LEAF_7_1, LEAVES };
    static const struct { int has, leaf, reg, bit, xcr0; } all[] = {
% for f in 0..FEATURES
% if feature_used(f) and feature_family(f) == "x86-64"
        {${UPPER}_HAS_${feature(f)}, ${where(f)}, ${register(f)}, ${bit(f)}, ${xcr0(f)}},
% end
% end
    };
    unsigned r[LEAVES][4] = {{0}}, maker = 0, saved = 0, i;
    const unsigned most = (unsigned)__get_cpuid_max(0, &maker);
    int usable = 0;
    *present = 0;
    if (most >= 1)
        __cpuid(1, r[LEAF_1][EAX], r[LEAF_1][EBX], r[LEAF_1][ECX], r[LEAF_1][EDX]);
    if (most >= 7)
        __cpuid_count(7, 0, r[LEAF_7][EAX], r[LEAF_7][EBX], r[LEAF_7][ECX], r[LEAF_7][EDX]);
    if (r[LEAF_7][EAX] >= 1)
        __cpuid_count(7, 1, r[LEAF_7_1][EAX], r[LEAF_7_1][EBX], r[LEAF_7_1][ECX], r[LEAF_7_1][EDX]);
    if (r[LEAF_1][ECX] >> 27 & 1) /* the system uses xsave */
        saved = ${NAME}_saved();
    for (i = 0; i < sizeof all / sizeof *all; i++)
        if (r[all[i].leaf][all[i].reg] >> all[i].bit & 1) {
            *present |= all[i].has;
            usable |= ((int)saved & all[i].xcr0) == all[i].xcr0 ? all[i].has : 0;
        }
% if prepared() >= 0
    if ((usable & ${UPPER}_HAS_amxtile) && ${symbol(prepared())}_prepare())
        usable &= ~${UPPER}_HAS_amxtile;
% end
    return usable | (maker == 0x68747541 ? 0 : ${UPPER}_SLOW_PAIRS); /* "Auth" of AuthenticAMD */
}
#endif
% end
% if asked_a64() != ""
#if !defined(ATTN_PLAIN_C) && ( \
    ${asked_a64()})
#define ${UPPER}_ASKS
#ifdef __linux__
#include <sys/auxv.h>
#endif

/* In *present, and as the result, the features that the processor has, as bits; every system saves their registers. Linux tells
 * them. On other systems only those are known that the compiler was told to use everywhere. */
static int ${NAME}_ask(int *present)
{
    *present = 0;
% for f in 0..FEATURES
% if feature_used(f) and feature_family(f) == "AArch64"
#ifdef __linux__
    if (getauxval(${where(f)}) >> ${bit(f)} & 1)
        *present |= ${UPPER}_HAS_${feature(f)};
#elif defined(${register(f)})
    *present |= ${UPPER}_HAS_${feature(f)};
#endif
% end
% end
    return *present;
}
#endif
% end

% if asked_x86() != "" or asked_a64() != ""
#ifdef ${UPPER}_ASKS
#undef ${UPPER}_ASKS
/* What ${NAME}_ask returns, with ${UPPER}_ASKED. It is asked once, since in a virtual machine each cpuid takes microseconds; threads that
 * ask at the same time find the same. */
static int ${NAME}_processor(void)
{
    static int known;
    int has = __atomic_load_n(&known, __ATOMIC_RELAXED), present;
    if (!has) {
        has = ${NAME}_ask(&present) | ${UPPER}_ASKED;
        __atomic_store_n(&known, has, __ATOMIC_RELAXED);
    }
    return has;
}
#else
% end
static int ${NAME}_ask(int *present)
{
    *present = 0;
    return 0;
}
static int ${NAME}_processor(void) { return 0; }
% if asked_x86() != "" or asked_a64() != ""
#endif
% end

/* The reason why one of the features that are needed cannot be used, or NULL. */
static const char *${NAME}_lacks(int needs, int usable, int present)
{
% for f in 0..FEATURES
% if feature_used(f) and feature(f) == "amxtile"
    if (needs & ~usable & ${UPPER}_HAS_${feature(f)})
        return present & ${UPPER}_HAS_${feature(f)}
                   ? "the kernels need amxtile, for which this system gives no permission"
                   : "the kernels need amxtile, which this processor lacks";
% elif feature_used(f) and feature_family(f) == "x86-64"
    if (needs & ~usable & ${UPPER}_HAS_${feature(f)})
        return present & ${UPPER}_HAS_${feature(f)}
                   ? "the kernels need ${feature(f)}, whose registers this system does not save"
                   : "the kernels need ${feature(f)}, which this processor lacks";
% elif feature_used(f)
    if (needs & ~usable & ${UPPER}_HAS_${feature(f)})
        return "the kernels need ${feature(f)}, which this processor lacks";
% end
% end
    (void)needs, (void)usable, (void)present;
    return NULL;
}
