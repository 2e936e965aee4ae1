/* models_inside.c - see models.h: scores that are changed behind their products. */
#include <math.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

/* Which argument says how a score of row i and key c is changed: none has NO_ARGUMENT. */
enum { NO_ARGUMENT = -1, READ = 3, LD = 4 };

/* A product of row i and key c, and how far off it may be. */
static double product(const struct job *j, int64_t i, int64_t c, double *error)
{
    const struct sizes *z = &j->z;
    double size, sum = z->OPENS ? opened_dot(j, i, c, &size)
                                : dot(j, i * z->LDQ, c / z->NR * z->LDQ, c % z->NR, z->SQ, true, &size);
    *error = (double)(z->SQ * z->PER + 4) * 0x1p-24 * size + TINY;
    return sum;
}

/* What the numbers behind the scores make of it, and the element at `at` of argument `biases`. */
static double changed(const struct job *j, int64_t i, int64_t c, int biases, int64_t at, double *error)
{
    const struct sizes *z = &j->z;
    const double scale = z->SCALES ? (double)get(j, 2, z->NUMBERS) : 1, cap = z->CAPS ? (double)get(j, 2, z->NUMBERS + 1) : 1;
    double x = product(j, i, c, error) * scale;
    *error = *error * fabs(scale) + TINY;
    if (z->SOFTCAP) {
        x = cap * tanh(x);
        *error = *error * cap + 4.2e-7 * fabs(x) + TINY;
    }
    if (biases != NO_ARGUMENT) {
        x += (double)get(j, biases, at);
        *error += isinf(x) ? 0 : 0x1p-22 * fabs((double)get(j, biases, at));
    }
    if (z->ALIBI) {
        const double fall = (double)get(j, 2, z->NUMBERS + 2) * fabs((double)get(j, 2, z->NUMBERS + 3) + (double)(c - i));
        x += fall;
        *error += 0x1p-22 * fabs(fall);
    }
    *error += isinf(x) ? 0 : 0x1p-23 * fabs(x);
    return x;
}

/* The scale, the cap, minus the slope, the distance of the first key from the first row, and distances within a panel. */
static void set_numbers(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t at = z->NUMBERS;
    set(j, 2, at, j->kind == 5 ? 1.0f : 0.3f), set(j, 2, at + 1, 50.0f * 1.44269504f);
    set(j, 2, at + 2, j->kind ? -0.37f : 0.0f), set(j, 2, at + 3, (float)(j->kind - 2) * 50), set(j, 2, at + 5, (float)z->NR);
    for (int64_t i = 0; i < z->MR * z->NR && z->ALIBI; i++)
        set(j, 2, z->DISTANCES + i, (float)(i % z->NR - i / z->NR));
}

/* A key's largest score in its lane so far. */
static void want_top(struct job *j, int64_t i, int64_t c, double x, double error)
{
    const struct sizes *z = &j->z;
    const int64_t at = z->BEST + i * z->W + c % z->W;
    struct want *top = &j->arg[2].want[at];
    if (c < z->W || (x > top->value && top->kind == NEAR))
        want(j, 2, at, x, fmax(error, c < z->W ? 0 : top->tolerance));
    else
        top->tolerance = fmax(error, top->tolerance);
}

/* Scores of n panels. Argument biases or bytes, or neither, has rows that are ld elements apart. Now and then a score is no number,
 * and in others some are infinite. */
static void scores_inside(struct job *j, int64_t n, int biases, int bytes, int64_t ld)
{
    const struct sizes *z = &j->z;
    const int64_t keys = n * z->NR, strange = j->kind > 3 ? random_below(&j->random, keys) : -1;
    bool none = false, infinite = false;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDQ + z->SQ) * z->PER);
    if (z->OPENS)
        opened_panels(j, n);
    else
        memory(j, 1, j->slot, n * z->LDQ * z->NR * z->PER);
    memory(j, 2, DTYPE_F32, z->DISTANCES + z->ALIBI * z->MR * z->NR);
    set_numbers(j);
    if (strange >= 0)
        set(j, 1, (strange / z->NR * z->KEY_ROWS * z->NR + strange % z->NR) * z->PER, NAN);
    for (int64_t i = 0; i < z->MR * keys; i++) {
        const int64_t row = i / keys, c = i % keys, at = row * ld + c;
        double error, x = changed(j, row, c, biases, at, &error);
        if (bytes != NO_ARGUMENT && !j->arg[bytes].before[at])
            x = -HUGE_VAL, error = 0;
        want(j, 2, row * z->BK + c, x, error);
        none |= isnan(x), infinite |= isinf(x);
        if (z->KNOWN)
            want_top(j, row, c, x, error);
    }
    for (int64_t i = 0; i < z->MR && strange >= 0 && z->KNOWN; i++) /* such a maximum depends on the order */
        want_anything(j, 2, z->BEST + i * z->W + strange % z->W);
    if (z->KNOWN)
        want(j, 2, z->NUMBERS + 4, none ? NAN : infinite ? -HUGE_VAL : 0, none || infinite ? 0 : 1e30);
}

static void score_changed(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.NR);
    scores_inside(j, n, NO_ARGUMENT, NO_ARGUMENT, 0);
    integer(j, 3, n);
}

/* Now and then with biases that hide a key. */
static void score_biased(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.NR), keys = n * j->z.NR, ld = j->kind % 3 ? keys + 3 : 0;
    memory(j, READ, j->bias, (j->z.MR - 1) * ld + keys);
    if (j->kind == 2)
        set(j, READ, random_below(&j->random, j->arg[READ].count), -HUGE_VALF);
    integer(j, LD, ld);
    scores_inside(j, n, READ, NO_ARGUMENT, ld);
    integer(j, 5, n);
}

static void score_hidden(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.NR), keys = n * j->z.NR, ld = j->kind % 3 ? keys + 3 : 0;
    memory(j, READ, DTYPE_F32, (j->z.MR - 1) * ld + keys);
    j->arg[READ].bytes = true;
    for (int64_t i = 0; i < j->arg[READ].count; i++)
        j->arg[READ].before[i] = (uint8_t)(random_below(&j->random, 3) ? 1 + random_below(&j->random, 255) : 0);
    integer(j, LD, ld);
    scores_inside(j, n, NO_ARGUMENT, READ, ld);
    integer(j, 5, n);
}

const struct model inside_models[] = {
    {"score_changed", score_changed}, {"score_biased", score_biased}, {"score_hidden", score_hidden}, {NULL, NULL},
};
