/* test_ladder.c - the list of rungs as a file, and that specs/ladder emits the kernels that it names. What it is not: a run
 * of them (tests/kernel/test_steps.c, tests/bench/bench_ladder.c). */
#define _GNU_SOURCE /* mkstemp */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/expand.h"
#include "gen/gen.h"
#include "ladder.h"

static void write_list(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_list(void **state)
{
    static const char *const wrong[] = {"no bars\n", "a | b + c | two\n", "a | | none\n", "a | b\n",
                                        "a | b + c + d + e | f\n"};
    struct rung rungs[LADDER_RUNGS];
    struct gen_error err;
    char path[] = "/tmp/attngen-rungs-XXXXXX", text[200];
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "# a comment\n\none | x | y\nthree | a + b + c | d\n%s", wrong[i]);
        write_list(path, text);
        assert_int_equal(ladder_read(path, rungs, &err), -1);
        assert_non_null(strstr(err.text, ":5: error: no rung; expected `title"));
    }
    assert_int_equal(rungs[0].kernels, 1);
    assert_int_equal(rungs[1].kernels, 3);
    assert_string_equal(rungs[1].name[2], "c");
    assert_string_equal(rungs[1].adds, "d");
    assert_false(rungs[1].aside || rungs[1].source);
    write_list(path, "~ left | source:x | y\n");
    assert_int_equal(ladder_read(path, rungs, &err), 1);
    assert_true(rungs[0].aside && rungs[0].source);
    assert_string_equal(rungs[0].title, "left");
    assert_string_equal(rungs[0].name[0], "x");
    remove(path);
    assert_int_equal(ladder_read(path, rungs, &err), -1);
    assert_non_null(strstr(err.text, "cannot be read; expected"));
}

/* Whether the spec emits a kernel of that name. */
static bool emits(const struct gen *g, const char *path, const char *name)
{
    struct gen_error err;
    struct spec spec;
    if (spec_read(path, &spec, &err) != 0)
        fail_msg("%s", err.text);
    struct spec_cursor cursor = {0};
    bool found = false;
    for (struct variant v; spec_next(&spec, &cursor, &v);) {
        char is[GEN_NAME_MAX];
        variant_encode(&v, is);
        if (strcmp(is, name) == 0 && gen_check(g, &v, &err) != 0)
            fail_msg("%s: %s", path, err.text);
        found = found || strcmp(is, name) == 0;
    }
    spec_free(&spec);
    return found;
}

/* The n-th spec is the n-th rung's, with and without a causal mask; rungs that were left have none. */
static void test_specs(void **state)
{
    struct rung rungs[LADDER_RUNGS];
    struct gen_error err;
    struct gen *g;
    glob_t found;
    size_t at = 0;
    (void)state;
    int n = ladder_read("tests/bench/ladder.rungs", rungs, &err);
    if (n < 0)
        fail_msg("%s", err.text);
    assert_int_equal(gen_open(&g, &err), 0);
    assert_int_equal(glob("specs/ladder/*.yaml", 0, NULL, &found), 0);
    for (int i = 0; i < n; i++) {
        if (rungs[i].aside)
            continue;
        assert_true(at < found.gl_pathc);
        for (int k = 0; k < rungs[i].kernels; k++)
            for (int causal = 0; causal < 2; causal++) {
                struct variant v;
                char name[GEN_NAME_MAX];
                if (variant_decode(rungs[i].name[k], &v, &err) != 0)
                    fail_msg("%s", err.text);
                if (field_of_op(F_CAUSAL, (enum operation)v.field[F_OP]))
                    v.field[F_CAUSAL] = causal;
                variant_encode(&v, name);
                if (!emits(g, found.gl_pathv[at], name))
                    fail_msg("%s does not emit %s of '%s'", found.gl_pathv[at], name, rungs[i].title);
            }
        at++;
    }
    assert_int_equal(at, found.gl_pathc);
    globfree(&found);
    gen_close(g);
}

/* The processor's: functions by hand, and kernels that can be emitted. */
static void test_processor(void **state)
{
    struct rung rungs[LADDER_RUNGS];
    struct gen_error err;
    struct gen *g;
    int hands = 0, kernels = 0;
    (void)state;
    int n = ladder_read("tests/bench/cpu.rungs", rungs, &err);
    if (n < 0)
        fail_msg("%s", err.text);
    assert_int_equal(gen_open(&g, &err), 0);
    for (int i = 0; i < n; i++) {
        struct variant v;
        assert_int_equal(rungs[i].kernels, 1);
        if (strncmp(rungs[i].name[0], "hand:", 5) == 0) {
            hands++;
            continue;
        }
        if (variant_decode(rungs[i].name[0], &v, &err) != 0 || gen_check(g, &v, &err) != 0)
            fail_msg("%s: %s", rungs[i].title, err.text);
        kernels++;
    }
    assert_true(hands > 0 && kernels > 0);
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_specs),
                                       cmocka_unit_test(test_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
