/* test_vendor_matrix.c - emitted files in somebody else's tree, on every machine: by gcc and clang, as C11 and as C++17,
 * each kernel apart and several in one translation unit, with strict warnings; linked with a tiny caller and run, where need
 * be by qemu and wine. For each machine three kernels are drawn to be apart, and three to be in the unit: one of plain C, one whose
 * vectors the machine can run, if there is any, and one of another instruction set; with ATTNGEN_SOAK set all are. Optimised, for
 * warnings that ask for it and other numbers, are those apart in C11, which take most of the time. Other compilers and other
 * questions are those of tests/e2e/test_vendor.c.
 *     ATTN_PART   only this machine, as in AARCH64 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "seed.h"
#include "tests/e2e/shell.h"
#include "tests/e2e/vendored.h"

#define STRICT "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Werror"

/* How a file is compiled for any machine. */
static const struct way {
    const char *gcc, *clang; /* one of them; of gcc what stands behind the machine's prefix */
    const char *flags;       /* C11 first */
} ways[] = {
    {"gcc", NULL, "-std=c11 " STRICT " -Wstrict-prototypes -Wmissing-prototypes"},
    {NULL, "clang", "-std=c11 " STRICT " -Wstrict-prototypes -Wmissing-prototypes"},
    {"g++", NULL, "-x c++ -std=c++17 " STRICT},
    {NULL, "clang++", "-x c++ -std=c++17 " STRICT},
};
enum { WAYS = sizeof ways / sizeof *ways };

static struct vendored all[VENDORED_MOST];
static int count;
enum { DRAWN = 3 };

static void command_of(const struct vendored_machine *m, const struct way *w, char out[512])
{
    if (w->gcc)
        snprintf(out, 512, "%s%s %s %s", m->tools, w->gcc, m->gcc_flags, w->flags);
    else
        snprintf(out, 512, "%s %s %s", w->clang, m->clang_flags, w->flags);
}

static void compile(const char *way, const char *optimise, const char *source, const char *object)
{
    struct said said;
    shell(&said, "%s %s -c %s -o %s", way, optimise, source, object);
    if (said.code || said.err[0])
        fail_msg("%s, of %s: %s", way, source, said.err);
}

/* Compiles each kernel by itself, in a folder that holds nothing else. */
static void compile_apart(const struct vendored_machine *m, const char *way, const char *optimise,
                          const struct vendored *drawn, int n, bool run)
{
    struct said said;
    shell_ok(&said, "rm -rf apart");
    for (int i = 0; i < n; i++) {
        char source[2 * GEN_NAME_MAX + 16], object[2 * GEN_NAME_MAX + 16];
        shell_ok(&said, "mkdir -p apart/%s && cp kernels/%s.c apart/%s", drawn[i].name, drawn[i].name, drawn[i].name);
        snprintf(source, sizeof source, "apart/%s/%s.c", drawn[i].name, drawn[i].name);
        snprintf(object, sizeof object, "apart/%s.o", drawn[i].name);
        compile(way, optimise, source, object);
        vendored_check_names(m, object, &drawn[i], 1);
    }
    if (run)
        vendored_call(m, "calls_apart", "apart/*.o", way);
}

static void compile_unit(const struct vendored_machine *m, const char *way, const struct vendored *drawn, int n, bool run)
{
    struct said said;
    shell_ok(&said, "rm -f unit.c");
    for (int i = 0; i < n; i++)
        shell_ok(&said, "echo '#include \"kernels/%s.c\"' >> unit.c", drawn[i].name);
    compile(way, getenv("ATTNGEN_SOAK") ? "-O1" : "-O0", "unit.c", "unit.o");
    vendored_check_names(m, "unit.o", drawn, n);
    if (run)
        vendored_call(m, "calls_unit", "unit.o", way);
}

/* Whether a kernel may be the nth that is drawn. */
static bool may_be(const struct vendored_machine *m, const struct vendored *drawn, int n, const struct vendored *v)
{
    const enum isa isa = (enum isa)v->variant.field[F_ISA];
    for (int i = 0; i < n; i++)
        if (drawn[i].variant.field[F_ISA] == (int)isa)
            return false;
    return n == 0 ? isa == ISA_C : n != 1 || vendored_has_vectors(m, isa);
}

/* One of plain C, one with vectors that run there, and one of another instruction set. Returns how many. */
static int draw(const struct vendored_machine *m, uint64_t *random, struct vendored out[VENDORED_MOST])
{
    if (getenv("ATTNGEN_SOAK")) {
        memcpy(out, all, sizeof all);
        return count;
    }
    for (int n = 0; n < DRAWN; n++) {
        const struct vendored *from[VENDORED_MOST];
        int most = 0;
        for (int i = 0; i < count; i++)
            if (may_be(m, out, n, &all[i]))
                from[most++] = &all[i];
        for (int i = 0; !most && i < count; i++) /* there are no vectors: any other one */
            if (all[i].variant.field[F_ISA] != ISA_C)
                from[most++] = &all[i];
        out[n] = *from[random_below(random, most)];
    }
    return DRAWN;
}

static void test_machine(void **state)
{
    const struct vendored_machine *m = *state;
    struct vendored apart[VENDORED_MOST], together[VENDORED_MOST];
    struct said said;
    char way[512];
    uint64_t random = test_seed();
    int n = draw(m, &random, apart), done = 0;
    const bool soak = getenv("ATTNGEN_SOAK");
    assert_int_equal(draw(m, &random, together), n);
    shell_ok(&said, "rm -rf calls_* unit.o called*");
    const bool run = vendored_can_run(m);
    if (!run)
        print_message("%s: compiled, not run: what runs its programs is not here\n", m->name);
    for (int w = 0; w < WAYS; w++) {
        command_of(m, &ways[w], way);
        if (!vendored_is_here(m, way)) {
            print_message("%s: not by %s, which is not here\n", m->name, ways[w].gcc ? ways[w].gcc : ways[w].clang);
            continue;
        }
        if (run && !done++) {
            vendored_caller(m, "calls_apart", apart, n, false);
            vendored_caller(m, "calls_unit", together, n, false);
        }
        const bool slow = ways[w].clang && !m->x86; /* with what is vectors elsewhere */
        compile_apart(m, way, w < 2 && (!slow || soak) ? "-O1" : "-O0", apart, n, run);
        compile_unit(m, way, together, n, run);
    }
    if (!done && run)
        skip();
}

static int enter(void **state)
{
    if (shell_enter(state) != 0)
        return -1;
    count = vendored_emit("", all);
    return 0;
}

/* Wine's server writes to its folder until a while after the last program. */
static int leave(void **state)
{
    struct said said;
    shell(&said, "test ! -d \"$SCRATCH/wine\" || WINEPREFIX=\"$SCRATCH/wine\" WINEDEBUG=-all wine wineboot --kill; "
                 "for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf \"$SCRATCH/wine\" && break; sleep 1; done");
    return shell_leave(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define MACHINE(which) {#which, test_machine, NULL, NULL, (void *)&vendored_machines[VENDORED_##which]}
        MACHINE(HERE), MACHINE(I386), MACHINE(AARCH64), MACHINE(S390X), MACHINE(WINDOWS),
    };
    cmocka_set_test_filter(getenv("ATTN_PART"));
    return cmocka_run_group_tests(tests, enter, leave);
}
