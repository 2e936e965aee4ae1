/* cpu.c - see cpu.h. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "numerics/reference.h"
#include "peak.h"
#include "tcc.h"

enum { COMPILERS = 2 };

struct opened {
    struct cpu cpu;
    struct cc *cc;
    struct cpu_device device[COMPILERS]; /* by attn_compiler */
};

static const struct cpu_device *of(const struct device *device)
{
    return (const struct cpu_device *)device;
}

static void close_cpu(void *self)
{
    struct opened *o = self;
    if (!o)
        return;
    cc_close(o->cc);
    free(o);
}

/* libtcc takes machine code, which it could not make itself; other compilers take the form that people read. */
static int open_cpu(const struct resources *resources, void **out, struct gen_error *err)
{
    struct opened *o = calloc(1, sizeof *o);
    *out = NULL;
    if (o)
        cpu_detect(&o->cpu);
    if (!o || cc_open(resources->cache, &o->cpu, &o->cc) != 0) {
        free(o);
        return gen_out_of_memory(err, NULL);
    }
    cc_heed(o->cc, resources->stop);
    const struct device base = {
        .backend = &cpu_backend, .resources = resources, .name = "cpu", .workers = "thread", .on_cores = true};
    for (int i = 0; i < COMPILERS; i++)
        o->device[i] = (struct cpu_device){.base = base, .cpu = &o->cpu};
    o->device[ATTN_TCC].base.compiler = "tcc";
    o->device[ATTN_TCC].base.form = GEN_MACHINE_CODE_JIT;
    o->device[ATTN_CC].base.compiler = "cc";
    o->device[ATTN_CC].base.form = GEN_READABLE;
    o->device[ATTN_CC].cc = o->cc;
    *out = o;
    return 0;
}

static int find_device(void *self, int index, attn_compiler compiler, struct device **out, struct gen_error *err)
{
    struct opened *o = self;
    *out = NULL;
    if (index > 0) {
        snprintf(err->text, sizeof err->text, "there is no device %d; expected cpu", index);
        return -1;
    }
    if (compiler == ATTN_TCC && jit_why_not()) {
        snprintf(err->text, sizeof err->text,
                 "%s; expected a compiler that is run as a program, gcc or clang: ATTN_CC, or --compiler cc", jit_why_not());
        return -1;
    }
    *out = &o->device[compiler].base;
    return 0;
}

static int count_devices(void *self)
{
    (void)self;
    return 1;
}

static void describe(void *self, int index, struct buf *out)
{
    const struct cpu *cpu = &((const struct opened *)self)->cpu;
    (void)index;
    buf_printf(out, "cpu  %s, %d %s:", cpu->model, cpu->cores, cpu->cores == 1 ? "thread" : "threads");
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_why_not(cpu, (enum isa)isa))
            buf_printf(out, " %s", field_value_name(F_ISA, isa));
    const char *before = " (not ", *after = "";
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const char *why = cpu_why_not(cpu, (enum isa)isa);
        if (!why || isa_language((enum isa)isa) != LANGUAGE_C)
            continue;
        buf_printf(out, "%s%s: %s", before, field_value_name(F_ISA, isa), why);
        before = "; ";
        after = ")";
    }
    buf_puts(out, after);
}

/* libtcc has no intrinsics: it compiles machine code that the generator made, or plain C. */
static const char *why_not(const struct device *device, enum isa isa)
{
    const char *why = cpu_why_not(of(device)->cpu, isa);
    if (!why && !of(device)->cc && isas[isa].intrinsics && !isas[isa].machine_code)
        return "has only intrinsics, which libtcc cannot compile; expected another compiler (ATTN_CC, --compiler cc)";
    return why;
}

static void uses(const struct device *device, const struct variant *variant, const struct gen_text *text, struct buf *out)
{
    const struct cpu *cpu = of(device)->cpu;
    const enum dtype type = variant_dtype_kv(variant);
    const int64_t units = (variant_head_dim(variant) + variant_head_dim_v(variant)) / dtype_values(type);
    const int64_t bytes = variant->field[F_TILE_K] * units * (int64_t)dtype_size(type);
    (void)text;
    buf_printf(out, "A tile's keys and values, %lld bytes as they are stored, are", (long long)bytes);
    if (cpu->l2 > 0)
        buf_printf(out, " %.0f %% of the %lld bytes of a core's L2 cache.", 100.0 * (double)bytes / (double)cpu->l2,
                   (long long)cpu->l2);
    else
        buf_puts(out, " in an L2 cache whose size is unknown.");
}

static int compile(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err)
{
    const struct cpu_device *d = of(device);
    char name[GEN_NAME_MAX];
    variant_encode(variant, name);
    return d->cc ? cc_compile(d->cc, text->data, name, out, err) : jit_compile(text->data, name, out, err);
}

/* libtcc has no function that returns its version, but its compiled code can. */
static int tcc_version(struct gen_error *err)
{
    static const char source[] = "int tcc_version(const void *a) { return __TINYC__; }\n"
                                 "long long tcc_version_workspace(const void *a) { return 0; }\n";
    struct kernel kernel;
    if (jit_compile(source, "tcc_version", &kernel, err) != 0)
        return -1;
    int version = kernel.run(NULL);
    kernel_free(&kernel);
    return version;
}

static int key(const struct device *device, int threads, struct buf *out, struct gen_error *err)
{
    const struct cpu_device *d = of(device);
    const struct cpu *cpu = d->cpu;
    const char *identity = d->cc ? cc_identity(d->cc, err) : NULL;
    int version = d->cc ? 0 : tcc_version(err);
    if ((d->cc && !identity) || version < 0)
        return -1;
    if (identity)
        buf_printf(out, "compiler cc %s\n", identity);
    else
        buf_printf(out, "compiler tcc -nostdlib %d\n", version);
    buf_printf(out, "processor %s\n", cpu->model);
    buf_printf(out, "features %s\n", cpu->features);
    buf_printf(out, "caches %lld %lld %lld\n", (long long)cpu->l1d, (long long)cpu->l2, (long long)cpu->l3);
    buf_printf(out, "threads %d\n", threads);
    return 0;
}

static double cycles(const struct device *device, const struct variant *variant, const struct tune_target *target)
{
    return estimate_cycles(variant, target, of(device)->cpu);
}

static double gflops(const struct device *device, int threads)
{
    const struct cpu *cpu = of(device)->cpu;
    return (cpu->has[ISA_AVX512] ? 100 : cpu->has[ISA_AVX2] ? 50 : cpu->has[ISA_NEON] ? 25 : 1) * (double)threads;
}

static double peak(struct device *device, struct timer *timer, int threads, enum dtype dtype)
{
    return peak_gflops(timer, of(device)->cpu, dtype) * threads;
}

/* Not reported if somebody asked for plain C by ATTNGEN_ISA. */
static enum isa expected(const struct device *device, const struct variant *winner, const char **why)
{
    const struct cpu *cpu = of(device)->cpu;
    const enum isa vectors = cpu->has[ISA_NEON] ? ISA_NEON : ISA_AVX2;
    *why = why_not(device, vectors);
    return winner->field[F_ISA] != ISA_C || (cpu->has[vectors] && !cpu->isa[vectors]) ? ISA_COUNT : vectors;
}

const struct backend cpu_backend = {
    .name = "cpu",
    .language = LANGUAGE_C,
    .at_once = true,
    .open = open_cpu,
    .close = close_cpu,
    .count = count_devices,
    .describe = describe,
    .device = find_device,
    .why_not = why_not,
    .uses = uses,
    .compile = compile,
    .key = key,
    .cycles = cycles,
    .gflops = gflops,
    .peak = peak,
    .expected = expected,
};
