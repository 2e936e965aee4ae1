/* suite.c - see suite.h. */
#define _GNU_SOURCE
#include "suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/seed.h"

enum { TIMEOUT = 120 };

float *suite_numbers(int64_t n, enum dtype type, uint64_t *random)
{
    float *x = aligned_alloc(64, (size_t)(n + 15) / 16 * 64);
    if (!x)
        abort();
    fill_normal(x, type, (size_t)(type == DTYPE_F32 ? n : 2 * n), random_next(random));
    return x;
}

int suite_wrong(const struct suite *s, const char *what, int64_t at, double got, double expected)
{
    printf("# %s, %s: %s %lld is %.9g; expected %.9g\n", s->table->kernels[s->table->batches[s->at].kernel],
           lowerings[s->form].name, what, (long long)at, got, expected);
    return 1;
}

static void read_numbers(struct suite *s)
{
    const struct emission *e = s->emission[s->table->batches[s->at].kernel];
    for (int i = 0; i < SUITE_NUMBERS && s->table->numbers[i]; i++)
        if (emission_number(e, s->table->numbers[i], &s->number[i]))
            s->number[i] = -1;
}

/* Each lowering meets the same data. */
static int check_form(const struct suite *s)
{
    suite_check *const *checks = s->table->batches[s->at].checks;
    uint64_t random = s->seed;
    int failed = 0;
    for (int round = 0; round < s->table->rounds; round++)
        for (int i = 0; i < SUITE_CHECKS && checks[i] && !failed; i++)
            failed += checks[i](s, &random);
    return failed;
}

static int check_all(void *arg)
{
    struct suite *s = arg;
    int failed = 0, forms = 0;
    for (s->at = 0; s->at < s->batches; s->at++) {
        struct gen_error err = {0};
        struct batch *b = &s->batch[s->at];
        read_numbers(s);
        if (batch_open(b, s->dir, &err) != 0)
            failed += printf("# %s\n", err.text) > 0;
        for (s->form = 0; s->form < LOWERINGS && !failed; s->form++)
            if (b->open[s->form]) {
                forms++;
                failed += check_form(s);
            }
        batch_close(b);
    }
    printf("# %d lowerings ran\n", forms);
    return failed || forms < s->batches;
}

static void test_suite(void **state)
{
    struct suite *s = *state;
    char why[200] = "";
    if (!test_wants("amx"))
        skip();
    if (run_child(check_all, s, TIMEOUT, why, sizeof why) != 0)
        fail_msg("%s: %s", s->table->name, why);
}

static int open_kernels(struct suite *s)
{
    static struct variant v[SUITE_KERNELS];
    struct gen_error err = {0};
    int failed = gen_open(&s->gen, &err);
    for (; !failed && s->kernels < SUITE_KERNELS && s->table->kernels[s->kernels]; s->kernels++)
        failed = variant_decode(s->table->kernels[s->kernels], &v[s->kernels], &err) ||
                 emission_open(s->gen, &v[s->kernels], &s->emission[s->kernels], &err);
    if (failed)
        printf("# %s\n", err.text);
    return failed ? -1 : 0;
}

static int open_batches(struct suite *s)
{
    static struct cpu cpu;
    cpu_detect(&cpu);
    for (; s->batches < SUITE_BATCHES && s->table->batches[s->batches].title; s->batches++) {
        const struct suite_batch *from = &s->table->batches[s->batches];
        struct batch *b = &s->batch[s->batches];
        b->name = from->title;
        b->why_not = cpu_why_not(&cpu, from->isa);
        if (batch_choose(b, s->emission[from->kernel], s->table->kernels[from->kernel], from->names, SUITE_UNITS, s->u[s->batches]))
            return -1;
    }
    return batches_compile(s->batch, s->batches, s->dir) ? -1 : 0;
}

int suite_main(const struct suite_table *table)
{
    static struct suite s;
    s = (struct suite){.table = table, .seed = test_seed()};
    if (open_kernels(&s) || open_batches(&s)) {
        printf("Bail out! no micro-kernels to test\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {{table->name, test_suite, NULL, NULL, &s}};
    int failed = _cmocka_run_group_tests(table->name, tests, 1, NULL, NULL);
    batches_end(s.dir, s.emission, s.kernels, s.gen);
    return failed;
}
