/* test_micro_damaged.c - texts of micro-kernels and tables of ISAs that are damaged at random: they are refused with a message, or
 * can still be written out and lowered, and nothing crashes. What it is not: what is said of each mistake
 * (test_micro_language.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/gen.h"
#include "dialects.h"
#include "mutate.h"
#include "seed.h"

/* Reads the micro-kernels with this text for one of their files, and writes out and lowers those of few queries, or those of
 * whole tiles, for avx512 and plain C. */
static bool write_all(struct dialects *l, bool few, const char *file, const char *text, size_t size, struct gen_error *err)
{
    bool good = !dialects_micros(l, file, text, size, err);
    for (int isa = 0; isa < 2 && good; isa++) {
        struct variant v = variant_default(isa ? ISA_C : ISA_AVX512);
        struct unrolled u[GEN_MICROS_MAX];
        int n;
        v.field[F_DTYPE] = isa ? DTYPE_F16 : DTYPE_BF16;
        v.field[F_ROWS] = 4;
        if (few)
            v.field[F_SPLIT] = 2048;
        good = !dialects_variant(l, &v, GEN_MICROS_MAX, u, &n, err);
        for (int i = 0; i < n; i++) {
            struct buf out = {0};
            struct code code = {0};
            lower_c_ops(&out, u[i].isa, &u[i], 1);
            lower_c_body(&out, &u[i]);
            good = good && (isa || !encode_x86(&code, &u[i], NULL, NULL, err));
            code_free(&code);
            buf_free(&out);
            unrolled_free(&u[i]);
        }
    }
    return good;
}

static void test_mutated_text(void **state)
{
    uint64_t seed = test_seed();
    int good = 0, rounds = 1500;
    (void)state;
    for (int i = 0; i < rounds; i++) {
        const bool few = i % 2;
        const struct embedded_file *f = embedded_find(few ? "c/few.micro" : "c/attn.micro");
        struct dialects l;
        struct gen_error err = {0};
        assert_non_null(f);
        size_t size = f->size;
        char *text = i < 2 ? NULL : mutate(f->data, f->size, &seed, &size);
        assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
        bool taken = write_all(&l, few, f->path, text ? text : f->data, size, &err);
        if (i < 2 && !taken)
            fail_msg("undamaged: %s", err.text);
        if (!taken && !strstr(err.text, ": error: "))
            fail_msg("no message for text %d: '%s'", i, err.text);
        good += taken;
        dialects_close(&l);
        free(text);
    }
    print_message("# of %d damaged texts %d can still be written out\n", rounds, good);
    assert_true(good > 20 && good < rounds - 100);
}

static void test_mutated_tables(void **state)
{
    uint64_t seed = test_seed() + 1;
    int good = 0, rounds = 1500;
    (void)state;
    for (int i = 0; i < rounds; i++) {
        struct dialects l;
        struct gen_error err = {0};
        int which = i % DIALECTS;
        const struct embedded_file *f = embedded_find(dialects_files[which]);
        size_t size;
        char *text = mutate(f->data, f->size, &seed, &size);
        bool taken = !dialects_open(&l, which, text, size, &err);
        if (taken && dialects_table(&l, "avx512") && dialects_table(&l, "c"))
            taken = write_all(&l, false, NULL, NULL, 0, &err);
        if (!taken && !strstr(err.text, ": error: "))
            fail_msg("no message for table %d: '%s'", i, err.text);
        good += taken;
        dialects_close(&l);
        free(text);
    }
    print_message("# of %d damaged tables %d can still be used\n", rounds, good);
    assert_true(good > 20 && good < rounds - 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutated_text),
        cmocka_unit_test(test_mutated_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
