/* test_kit.c - the tests' own helpers: does a pairwise choice hold every pair that can be, does a crash become a
 * failure, are all jobs done, are random streams apart. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../kit/child.h"
#include "../kit/pairwise.h"
#include "../kit/seed.h"
#include "runtime/numerics/convert.h"

enum { MAX_ROWS = 400 };

static bool no_twins(void *arg, const int *row)
{
    (void)arg;
    return row[0] != row[1] && !(row[2] == 0 && row[3] == 0 && row[4] > 0);
}

/* By brute force over the whole product: is the pair in some legal row? */
static bool possible(const struct pairwise *p, int f, int x, int g, int y)
{
    int row[PAIRWISE_FIELDS] = {0};
    for (;;) {
        if (row[f] == x && row[g] == y && (!p->legal || p->legal(p->arg, row)))
            return true;
        int at = p->fields - 1;
        while (at >= 0 && ++row[at] == p->count[at])
            row[at--] = 0;
        if (at < 0)
            return false;
    }
}

static bool stands(const struct pairwise *p, int rows, int f, int x, int g, int y)
{
    for (int r = 0; r < rows; r++)
        if (p->rows[r][f] == x && p->rows[r][g] == y)
            return true;
    return false;
}

static void check_pairs(struct pairwise *p, uint64_t seed, int most)
{
    int rows = pairwise_rows(p, seed), pairs = 0, impossible = 0;
    assert_in_range(rows, 1, most);
    for (int r = 0; r < rows; r++)
        assert_true(!p->legal || p->legal(p->arg, p->rows[r]));
    for (int f = 0; f < p->fields; f++)
        for (int g = f + 1; g < p->fields; g++)
            for (int x = 0; x < p->count[f]; x++)
                for (int y = 0; y < p->count[g]; y++) {
                    bool can = possible(p, f, x, g, y);
                    assert_int_equal(stands(p, rows, f, x, g, y), can);
                    pairs++;
                    impossible += !can;
                }
    assert_int_equal(p->pairs, pairs);
    assert_int_equal(p->impossible, impossible);
}

static void test_every_pair(void **state)
{
    (void)state;
    static int rows[MAX_ROWS][PAIRWISE_FIELDS], again[MAX_ROWS][PAIRWISE_FIELDS];
    struct pairwise p = {.fields = 6, .count = {3, 9, 2, 3, 3, 4}, .rows = rows, .max = MAX_ROWS};
    for (uint64_t seed = 1; seed < 6; seed++)
        check_pairs(&p, seed, 50); /* 9 x 4 at least */
    p.legal = no_twins;
    check_pairs(&p, 1, 55);
    memcpy(again, rows, sizeof rows);
    check_pairs(&p, 1, 55);
    assert_memory_equal(rows, again, sizeof rows);
    p.max = 5;
    assert_int_equal(pairwise_rows(&p, 1), -1);
}

static int returns_seven(void *arg)
{
    (void)arg;
    return 7;
}

static int crashes(void *arg)
{
    (void)arg;
    raise(SIGSEGV);
    return 0;
}

static int spins(void *arg)
{
    for (volatile unsigned long i = 0; i != ~0ul || arg; i++)
        ;
    return 0;
}

static void test_children(void **state)
{
    (void)state;
    char why[100];
    assert_int_equal(run_child(returns_seven, NULL, 10, why, sizeof why), 7);
    assert_int_equal(run_child(crashes, NULL, 10, why, sizeof why), -1);
    assert_non_null(strstr(why, "crashed: "));
    assert_int_equal(run_child(spins, NULL, 1, why, sizeof why), -1);
    /* The latter on a machine with so much else to do that five seconds pass before the child has had one of a processor. */
    assert_true(strstr(why, "more than 1 s of the processor") || strstr(why, "did not end within 5 s"));
    const char *const argv[] = {"sh", "-c", "exit 3", NULL};
    assert_int_equal(run_program(argv, "/dev/null"), 3);
}

static int counts(void *arg, int index)
{
    ((char *)arg)[index]++;
    return index == 3;
}

static int dies(void *arg, int index)
{
    ((char *)arg)[index]++;
    if (index == 2)
        _exit(0);
    return 0;
}

static void test_jobs(void **state)
{
    (void)state;
    char *done = shared_memory(100);
    assert_non_null(done);
    assert_int_equal(run_jobs(100, counts, done), 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(done[i], 1);
    assert_true(run_jobs(100, dies, done) >= 1);
    shared_free(done, 100);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* No two of these streams have a number in common, whether their seeds or their numbers differ. */
static void test_streams(void **state)
{
    (void)state;
    enum { SEEDS = 3, STREAMS = 30, NUMBERS = 50, ALL = SEEDS * STREAMS * NUMBERS };
    static uint64_t all[ALL];
    int n = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int i = 0; i < STREAMS; i++) {
            uint64_t stream = test_stream(seed, i);
            assert_int_equal(stream, test_stream(seed, i));
            for (int k = 0; k < NUMBERS; k++)
                all[n++] = random_next(&stream);
        }
    qsort(all, ALL, sizeof *all, by_value);
    for (int i = 1; i < ALL; i++)
        assert_int_not_equal(all[i - 1], all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
