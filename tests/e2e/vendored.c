/* vendored.c - see vendored.h. */
#define _GNU_SOURCE
#include "vendored.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/invariant.h"
#include "runtime/cpu/processor.h"
#include "shell.h"

/* Wine makes a folder of its own, and prints much. */
#define WINE "WINEPREFIX=\"$SCRATCH/wine\" WINEDEBUG=-all wine"

const struct vendored_machine vendored_machines[VENDORED_MACHINES] = {
    [VENDORED_HERE] = {"x86-64", "", "-m64", "-m64", "", .x86 = true, .family = "x86-64"},
    [VENDORED_I386] = {"i386", "", "-m32", "-m32", "", .x86 = true, .family = "x86-64"},
    [VENDORED_AARCH64] = {"AArch64", "aarch64-linux-gnu-", "", "--target=aarch64-linux-gnu",
                          "qemu-aarch64 -L /usr/aarch64-linux-gnu", .family = "AArch64"},
    [VENDORED_S390X] = {"s390x", "s390x-linux-gnu-", "", "--target=s390x-linux-gnu",
                        "qemu-s390x -L /usr/s390x-linux-gnu", .family = ""},
    [VENDORED_WINDOWS] = {"Windows", "x86_64-w64-mingw32-", "", "--target=x86_64-w64-mingw32", WINE, .x86 = true,
                          .may_not_run = true, .family = "x86-64"},
};

static const struct choice {
    enum isa isa;
    enum dtype dtype;
    enum dtype dtype_kv; /* where it is not 0: narrow */
    int head_dim, head_dim_v;
    bool causal;
    int split;
    bool features;
} choices[] = {
    {.isa = ISA_C, .dtype = DTYPE_F32, .head_dim = 64},
    {.isa = ISA_C, .dtype = DTYPE_BF16, .head_dim = 40, .head_dim_v = 24, .causal = true},
    {.isa = ISA_C, .dtype = DTYPE_F16, .head_dim = 72, .causal = true, .features = true},
    {.isa = ISA_C, .dtype = DTYPE_F32, .dtype_kv = DTYPE_Q8_0, .head_dim = 64},
    {.isa = ISA_AVX2, .dtype = DTYPE_F32, .head_dim = 72, .causal = true},
    {.isa = ISA_AVX2, .dtype = DTYPE_BF16, .dtype_kv = DTYPE_INT8, .head_dim = 64, .causal = true, .split = 2048},
    {.isa = ISA_AVX2, .dtype = DTYPE_F16, .head_dim = 64},
    {.isa = ISA_AVX2, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true, .split = 2048},
    {.isa = ISA_AVX512, .dtype = DTYPE_F32, .head_dim = 64},
    {.isa = ISA_AVX512, .dtype = DTYPE_F16, .head_dim = 33, .head_dim_v = 65, .causal = true},
    {.isa = ISA_AVX512, .dtype = DTYPE_F32, .head_dim = 72, .causal = true, .split = 2048, .features = true},
    {.isa = ISA_AVX512BF16, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true},
    {.isa = ISA_AMX, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true},
    {.isa = ISA_NEON, .dtype = DTYPE_F32, .head_dim = 64, .causal = true},
    {.isa = ISA_NEON, .dtype = DTYPE_BF16, .head_dim = 72, .head_dim_v = 40},
    {.isa = ISA_NEON, .dtype = DTYPE_F16, .head_dim = 64, .causal = true, .split = 2048},
    {.isa = ISA_NEONBF16, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true},
};
enum { CHOICES = sizeof choices / sizeof *choices };
_Static_assert((int)CHOICES <= (int)VENDORED_MOST, "as many fit");

static struct variant variant_of(const struct choice *c)
{
    struct variant v = variant_default(c->isa);
    variant_set_dtypes(&v, c->dtype, c->dtype_kv ? c->dtype_kv : c->dtype, c->dtype);
    v.field[F_HEAD_DIM] = c->head_dim;
    v.field[F_HEAD_DIM_V] = c->head_dim_v;
    v.field[F_CAUSAL] = c->causal;
    if (!c->split && field_choices(F_UNROLL, c->isa, false)[0] == 1)
        v.field[F_UNROLL] = 1, v.field[F_ROWS] = 4; /* compiled the sooner */
    if (c->split) {
        v.field[F_SPLIT] = c->split;
        for (int f = F_ISA + 1; f < FIELD_COUNT; f++)
            if (f != F_SPLIT && field_choices((enum field_id)f, c->isa, true) != field_choices((enum field_id)f, c->isa, false))
                v.field[f] = field_choices((enum field_id)f, c->isa, true)[0];
    }
    for (int f = 0; c->features && f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER && fields[f].type == FIELD_BOOL)
            v.field[f] = true;
    invariant_set(&v);
    return v;
}

int vendored_emit(const char *options, struct vendored out[VENDORED_MOST])
{
    struct said said;
    int n = 0;
    for (int i = 0; i < CHOICES; i++) {
        const struct isa_facts *isa = &isas[choices[i].isa];
        if (strstr(options, "--machine-code") && isa->intrinsics && !isa->machine_code)
            continue;
        struct vendored *v = &out[n++];
        *v = (struct vendored){.variant = variant_of(&choices[i]), .runs = !choices[i].features && !choices[i].dtype_kv};
        variant_encode(&v->variant, v->name);
        shell_ok(&said, "\"$%s\" emit --variant %s %s -o kernels > /dev/null && echo '#include \"%s.c\"' >> kernels/unit.c",
                 i % 2 ? "ATTNGEN_EMIT" : "ATTNGEN", v->name, options, v->name);
    }
    return n;
}

bool vendored_has_vectors(const struct vendored_machine *m, enum isa isa)
{
    struct cpu cpu;
    cpu_detect(&cpu);
    return isas[isa].intrinsics && !strcmp(isas[isa].family, m->family) && !(m->x86 && cpu_why_not(&cpu, isa));
}

bool vendored_is_here(const struct vendored_machine *m, const char *command)
{
    struct said said;
    const char *rest = m->may_not_run ? "-c here.c" : "here.c -o here &&";
    shell(&said, "printf '#include <string.h>\\nint main(void) { return 0; }\\n' > here.c && %s %s %s %s", command, rest,
          m->may_not_run ? "" : m->run, m->may_not_run ? "" : "./here");
    return said.code == 0;
}

bool vendored_can_run(const struct vendored_machine *m)
{
    struct said said;
    if (!m->run[0])
        return true;
    shell(&said, "printf 'int main(void) { return 0; }\\n' > here.c && %sgcc here.c -o here.exe && %s ./here.exe", m->tools,
          m->run);
    return said.code == 0;
}

void vendored_check_names(const struct vendored_machine *m, const char *objects, const struct vendored *all, int n)
{
    struct said said;
    shell_ok(&said, "rm -f expected");
    for (int i = 0; i < n; i++)
        shell_ok(&said, "for n in '' _workspace %s; do echo %s$n >> expected; done",
                 all[i].variant.field[F_ISA] == ISA_AMX ? "_prepare" : "", all[i].name);
    shell(&said, "LC_ALL=C sort -o expected expected; %snm -g --defined-only %s | grep -v get_pc_thunk | "
                 "sed -nE 's/^[0-9a-f]+ . //p' | LC_ALL=C sort | diff expected -",
          m->tools, objects);
    assert_string_equal(said.out, "");
    shell(&said,
          "%snm -u %s | sed -nE 's/^ +[Uw] //p' | grep -vxE "
          "'memcpy|memset|memmove|_GLOBAL_OFFSET_TABLE_|___chkstk_ms|__stack_chk_(fail(_local)?|guard)|__(u)?(div|mod)di3'",
          m->tools, objects);
    assert_string_equal(said.out, "");
}

void vendored_caller(const struct vendored_machine *m, const char *name, const struct vendored *all, int n, bool plain)
{
    static const char *const limit[] = {[DTYPE_F32] = "3e-6", [DTYPE_F16] = "2e-3", [DTYPE_BF16] = "1.6e-2"};
    struct cpu cpu;
    struct said said;
    cpu_detect(&cpu);
    shell_ok(&said, "mkdir %s && : > %s/kernels.h", name, name);
    for (int i = 0; i < n; i++) {
        const int *const f = all[i].variant.field;
        const enum isa isa = (enum isa)f[F_ISA];
        const char *why = m->x86 && !plain && isas[isa].needs[0] ? cpu_why_not(&cpu, isa) : NULL;
        if (why)
            print_message("%s: compiled for %s, not run: %s\n", all[i].name, m->name, why);
        if (all[i].runs && !why)
            shell_ok(&said, "echo 'KERNEL(%s, %d, %d, %d, %d, %s)' >> %s/kernels.h", all[i].name, f[F_DTYPE],
                     f[F_HEAD_DIM], variant_head_dim_v(&all[i].variant), f[F_CAUSAL], limit[f[F_DTYPE]], name);
    }
    shell_ok(&said, "%sgcc -std=c11 -O1 %s -iquote \"$ROOT/templates/c\" -iquote %s -c \"$ROOT/tests/e2e/vendor/caller.c\" "
                    "-o %s.o",
             m->tools, m->gcc_flags, name, name);
}

void vendored_call(const struct vendored_machine *m, const char *caller, const char *objects, const char *way)
{
    struct said said;
    shell_ok(&said, "%sgcc %s %s.o %s -lm %s -o called", m->tools, m->gcc_flags, caller, objects,
             m->may_not_run ? "" : "-z noexecstack");
    shell(&said, "%s ./called%s", m->run, m->may_not_run ? ".exe" : "");
    if (said.code)
        fail_msg("%s, by %s: %s%s", m->name, way, said.out, said.err);
}
