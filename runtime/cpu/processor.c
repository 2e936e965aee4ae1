/* processor.c - asks cpuid and xgetbv, or on AArch64 the system, what the processor has and what the system saves, and the
 * system where the process may run. */
#define _GNU_SOURCE
#include "processor.h"

#include "system/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* In the order of cpu.features. */
#define FEATURE(id, name, leaf, reg, bit, xcr0) id,
#define FEATURE_A64(id, name, word, bit, macro) id,
enum feature {
#include "gen/processor.inc"
    FEATURES
};
#undef FEATURE
#undef FEATURE_A64
enum { EAX, EBX, ECX, EDX };
enum { LEAF_1, LEAF_7, LEAF_7_1, LEAVES, OF_A64 = -1 };

/* Where cpuid says it, and the bits of XCR0 without which the system does not save its registers; find_arm asks for those of
 * AArch64. */
static const struct {
    const char *name, *lacks, *unsaved;
    int leaf, reg, bit;
    uint64_t xcr0;
} features[FEATURES] = {
#define FEATURE(id, name, leaf, reg, bit, xcr0)                                                                        \
    [id] = {name, "needs " name ", which this processor lacks",                                                        \
            "needs " name ", whose registers this system does not save", leaf, reg, bit, xcr0},
#define FEATURE_A64(id, name, word, bit, macro)                                                                        \
    [id] = {name, "needs " name ", which this processor lacks", "", OF_A64, 0, 0, 0},
#include "gen/processor.inc"
#undef FEATURE
#undef FEATURE_A64
};

#define BIT(f) (1u << (f))

static bool listed(const char *list, const char *name, char between)
{
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, between) ? strchr(p, between) + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == 0 || p[n] == between))
            return true;
    return false;
}

static uint32_t isa_needs(enum isa isa)
{
    uint32_t bits = 0;
    for (int f = 0; f < FEATURES; f++)
        bits |= listed(isas[isa].needs, features[f].name, ' ') ? BIT(f) : 0;
    return bits;
}

#if defined(__x86_64__)
/* Zeros if the processor has no such leaf. Inside a virtual machine each cpuid costs microseconds: ask once. */
static void leaf(uint32_t highest, uint32_t number, uint32_t sub, uint32_t r[4])
{
    r[EAX] = r[EBX] = r[ECX] = r[EDX] = 0;
    if (number <= highest)
        __cpuid_count(number, sub, r[EAX], r[EBX], r[ECX], r[EDX]);
}

/* Linux grants tiles to a process that asks, for all its threads, now and later. Their registers are large, and from
 * then on so are its signal frames. */
static bool has_tiles(void)
{
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}

static void find_features(struct cpu *cpu, uint32_t r[LEAVES][4])
{
    uint64_t xcr0 = 0; /* the register states that the system saves; none if it does not use xsave */
    if (r[LEAF_1][ECX] >> 27 & 1) {
        uint32_t low, high;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        xcr0 = (uint64_t)high << 32 | low;
    }
    for (int f = 0; f < FEATURES; f++)
        if (features[f].leaf != OF_A64 && (r[features[f].leaf][features[f].reg] >> features[f].bit & 1)) {
            cpu->present |= BIT(f);
            if ((xcr0 & features[f].xcr0) == features[f].xcr0)
                cpu->usable |= BIT(f);
        }
    cpu->tiles_refused = (cpu->usable & BIT(AMXTILE)) && !has_tiles();
    if (cpu->tiles_refused)
        cpu->usable &= ~(BIT(AMXTILE) | BIT(AMXBF16) | BIT(AMXINT8));
}

/* The brand, followed by family, model and stepping, since virtual machines share brands that say nothing. */
static void find_model(struct cpu *cpu, uint32_t highest, uint32_t signature)
{
    char brand[49] = "";
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t r[4];
        leaf(highest, 0x80000002 + i, 0, r);
        memcpy(brand + 16 * i, r, sizeof r);
    }
    size_t n = 0;
    for (const char *from = brand; *from; from++) /* makers pad with spaces, also in front */
        if (*from != ' ' || (n > 0 && cpu->model[n - 1] != ' '))
            cpu->model[n++] = *from;
    if (n > 0 && cpu->model[n - 1] != ' ')
        cpu->model[n++] = ' ';
    uint32_t family = signature >> 8 & 15, model = signature >> 4 & 15;
    if (family == 6 || family == 15)
        model |= (signature >> 16 & 15) << 4;
    if (family == 15)
        family += signature >> 20 & 255;
    snprintf(cpu->model + n, sizeof cpu->model - n, "%x.%x.%x", family, model, signature & 15);
}

/* Both makers describe caches in the same way; number is the leaf that this one uses. */
static void find_caches(struct cpu *cpu, uint32_t highest, uint32_t number)
{
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t r[4];
        leaf(highest, number, i, r);
        uint32_t type = r[EAX] & 31, level = r[EAX] >> 5 & 7;
        if (type == 0)
            return;
        int64_t size =
            (int64_t)((r[EBX] >> 22) + 1) * ((r[EBX] >> 12 & 1023) + 1) * ((r[EBX] & 4095) + 1) * ((int64_t)r[ECX] + 1);
        if (level == 1 && type == 1)
            cpu->l1d = size;
        else if (level == 2)
            cpu->l2 = size;
        else if (level == 3)
            cpu->l3 = size;
    }
}

static void find_x86(struct cpu *cpu)
{
    uint32_t basic, extended, top[4], r[LEAVES][4];
    leaf(0, 0, 0, top);
    basic = top[EAX];
    leaf(0x80000000, 0x80000000, 0, top);
    extended = top[EAX] >= 0x80000000 ? top[EAX] : 0;
    leaf(basic, 1, 0, r[LEAF_1]);
    leaf(basic, 7, 0, r[LEAF_7]);
    leaf(r[LEAF_7][EAX] >= 1 ? basic : 0, 7, 1, r[LEAF_7_1]);
    find_features(cpu, r);
    find_model(cpu, extended, r[LEAF_1][EAX]);
    leaf(extended, 0x80000001, 0, top);
    if (top[ECX] >> 22 & 1) /* AMD's TOPOEXT */
        find_caches(cpu, extended, 0x8000001d);
    else
        find_caches(cpu, basic, 4);
}
#endif

#if defined(__aarch64__)
static void find_features(struct cpu *cpu)
{
#if defined(__linux__)
    static const struct {
        enum feature feature;
        unsigned long word;
        int bit;
    } told[] = {
#define FEATURE(id, name, leaf, reg, bit, xcr0)
#define FEATURE_A64(id, name, word, bit, macro) {id, word, bit},
#include "gen/processor.inc"
#undef FEATURE
#undef FEATURE_A64
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (getauxval(told[i].word) >> told[i].bit & 1)
            cpu->present |= BIT(told[i].feature);
#endif
    cpu->usable = cpu->present;
}

/* The maker and the part from the processor's own register, if the system shows it. */
static void find_arm(struct cpu *cpu)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
    char midr[32] = "";
    if (f && !fgets(midr, sizeof midr, f))
        midr[0] = 0;
    if (f)
        fclose(f);
    midr[strcspn(midr, "\n")] = 0;
    snprintf(cpu->model, sizeof cpu->model, "AArch64%s%s", midr[0] ? " " : "", midr);
    find_features(cpu);
}
#endif

#if defined(__x86_64__)
#define FAMILY "x86-64"
#elif defined(__aarch64__)
#define FAMILY "AArch64"
#else
#define FAMILY "another"
#endif

/* Why no processor of this machine's kind has it, or NULL. */
static const char *foreign(enum isa isa)
{
    const char *family = isas[isa].family;
    if (!*family || !strcmp(family, FAMILY))
        return NULL;
    return strcmp(family, "AArch64") ? "is for x86-64, and this is another processor"
                                     : "is for AArch64, and this is another processor";
}

void cpu_detect(struct cpu *out)
{
    memset(out, 0, sizeof *out);
#if defined(__x86_64__)
    find_x86(out);
#elif defined(__aarch64__)
    find_arm(out);
#endif
    if (!out->model[0])
        snprintf(out->model, sizeof out->model, "unknown");
    out->cores = cores();

    const char *only = getenv("ATTNGEN_ISA");
    for (int i = 0; i < ISA_COUNT; i++) {
        out->has[i] = isa_language((enum isa)i) == LANGUAGE_C && !foreign((enum isa)i) &&
                      (isa_needs((enum isa)i) & ~out->usable) == 0;
        out->isa[i] = out->has[i] && (!only || !only[0] || listed(only, field_value_name(F_ISA, i), ','));
    }
    size_t n = 0;
    for (int f = 0; f < FEATURES; f++)
        if (out->usable & BIT(f))
            n += (size_t)snprintf(out->features + n, sizeof out->features - n, "%s%s", n ? " " : "", features[f].name);
}

const char *cpu_why_not(const struct cpu *cpu, enum isa isa)
{
    if (cpu->isa[isa])
        return NULL;
    if (isa_language(isa) != LANGUAGE_C)
        return "is not for processors; `attngen devices` lists the devices that it is for";
    if (foreign(isa))
        return foreign(isa);
    for (int f = 0; f < FEATURES; f++)
        if (isa_needs(isa) & BIT(f)) {
            if (!(cpu->present & BIT(f)))
                return features[f].lacks;
            if (!(cpu->usable & BIT(f)))
                return cpu->tiles_refused && f == AMXTILE ? "needs amxtile, for which this system gave no permission"
                                                          : features[f].unsaved;
        }
    return "is not in ATTNGEN_ISA, which lists the only isas to use";
}
