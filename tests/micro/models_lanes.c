/* models_lanes.c - see models.h: the micro-kernels for few queries that go lane by lane, without sums over keys or columns: scales
 * are spread, scores cut, hidden or given biases or ALiBi, outputs rescaled, and states and outputs of two parts of the keys
 * joined. */
#include <math.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

static void spread(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK), ld = j->kind % 3;
    memory(j, 0, DTYPE_F32, (n - 1) * ld + 1);
    memory(j, 1, DTYPE_F32, (n - 1) * z->R + z->W);
    integer(j, 2, ld);
    integer(j, 3, n);
    for (int64_t i = 0; i < (n - 1) * z->R + z->W; i++)
        want(j, 1, i, (double)get(j, 0, (i / z->R < n ? i / z->R : n - 1) * ld) * z->SHRUNK, 0);
}

/* Whole vectors of scales that lie side by side. */
static void spread_row(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / z->W);
    memory(j, 0, DTYPE_F32, n * z->W);
    memory(j, 1, DTYPE_F32, n * z->W * z->R);
    integer(j, 2, n);
    for (int64_t i = 0; i < n * z->W * z->R; i++)
        want(j, 1, i, (double)get(j, 0, i / z->R) * z->SHRUNK, 0);
}

static void rescale(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, (z->R - 1) * z->LDO + z->CV * z->W);
    memory(j, 1, DTYPE_F32, z->FIX + z->R);
    for (int64_t i = 0; i < z->R; i++)
        for (int64_t c = 0; c < z->CV * z->W; c++) {
            double o = (double)get(j, 1, z->FIX + i) * (double)get(j, 0, i * z->LDO + c);
            want(j, 0, i * z->LDO + c, o, fabs(o) * 0x1p-23 + TINY);
        }
}

static void cut_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t keys = z->BK;
    memory(j, 0, DTYPE_F32, z->R * z->BK);
    memory(j, 1, DTYPE_F32, 4 * z->W);
    for (int64_t i = 0; i < z->R; i++) {
        int64_t some[] = {1 + random_below(&j->random, keys), 0, keys, 1, keys, keys}, limit = some[(i + j->kind) % 6];
        int64_t from = some[(i + 2 * j->kind + 1) % 6];
        for (int64_t l = i; l < z->W; l += z->R) {
            int32_t lane[4] = {(int32_t)limit, (int32_t)from, (int32_t)(l / z->R), (int32_t)z->KB};
            for (int v = 0; v < 4; v++)
                memcpy(j->arg[1].before + 4 * (v * z->W + l), &lane[v], 4);
        }
        for (int64_t k = 0; k < keys; k++)
            want(j, 0, k * z->R + i, k >= from && k < limit ? (double)get(j, 0, k * z->R + i) : -HUGE_VAL, 0);
    }
}

static void join(struct job *j)
{
    const struct sizes *z = &j->z;
    for (int p = 0; p < 2; p++) {
        memory(j, p, DTYPE_F32, z->STATE);
        for (int64_t l = 0; l < z->W; l++) {
            set(j, p, z->MAX + l, (l + j->kind) % (3 + p) == 0 ? -HUGE_VALF : 4 * get(j, p, z->MAX + l));
            set(j, p, z->SUM + l, (l + j->kind) % (3 + p) == 0 ? 0.0f : 1 + fabsf(get(j, p, z->SUM + l)));
            if (z->TWO_SUMS)
                set(j, p, z->ROUNDED + l, 0.998f * get(j, p, z->SUM + l));
            for (int i = 0; i < 2 && z->BEARS; i++)
                set(j, p, z->BORNE + i * z->W + l, (0.3f + (float)i) * get(j, p, z->SUM + l));
        }
    }
    for (int64_t l = 0; l < z->W; l++) {
        float m = get(j, 0, z->MAX + l), n = get(j, 1, z->MAX + l), top = m > n ? m : n,
              base = fmaxf(top, (float)LOWEST);
        double f = power(z, (double)(m - base)), g = power(z, (double)(n - base));
        double sum = f * (double)get(j, 0, z->SUM + l) + g * (double)get(j, 1, z->SUM + l);
        want(j, 0, z->MAX + l, (double)top, 0);
        want(j, 0, z->BASE + l, (double)base, 0);
        want(j, 0, z->FIX + l, f, power_error(z, (double)(m - base)) * f + TINY);
        want(j, 1, z->FIX + l, g, power_error(z, (double)(n - base)) * g + TINY);
        want(j, 0, z->SUM + l, sum, (z->NATURAL ? 4e-6 : 4e-7) * sum + TINY);
        const int64_t more[] = {z->ROUNDED, z->BORNE, z->BORNE + z->W};
        for (int i = 0; i < (z->BEARS ? 3 : z->TWO_SUMS ? 1 : 0); i++) {
            double rounded = f * (double)get(j, 0, more[i] + l) + g * (double)get(j, 1, more[i] + l);
            want(j, 0, more[i] + l, rounded, (z->NATURAL ? 4e-6 : 4e-7) * rounded + TINY);
        }
    }
}

static void blend(struct job *j)
{
    const struct sizes *z = &j->z;
    for (int p = 0; p < 2; p++) {
        memory(j, p, DTYPE_F32, (z->R - 1) * z->LDO + z->CV * z->W);
        memory(j, 2 + p, DTYPE_F32, z->FIX + z->R);
    }
    for (int64_t i = 0; i < z->LIVE; i++)
        for (int64_t c = 0; c < z->CV * z->W; c++) {
            double a = (double)get(j, 2, z->FIX + i) * (double)get(j, 0, i * z->LDO + c);
            double b = (double)get(j, 3, z->FIX + i) * (double)get(j, 1, i * z->LDO + c);
            want(j, 0, i * z->LDO + c, a + b, (fabs(a) + fabs(b)) * 0x1p-22 + TINY);
        }
}

static void alibi_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t first = 16 * (j->kind + 1);
    memory(j, 0, DTYPE_F32, z->R * z->BK);
    memory(j, 1, DTYPE_F32, 2 * z->W);
    memory(j, 2, DTYPE_F32, 2);
    set(j, 2, 0, (float)first), set(j, 2, 1, (float)z->KB);
    for (int64_t l = 0; l < z->W; l++)
        set(j, 1, z->W + l, (float)(l / z->R - first - 40 * (j->kind - 2)));
    for (int64_t i = 0; i < z->R * z->BK; i++) {
        double s = (double)get(j, 0, i), slope = (double)get(j, 1, i % z->W);
        double fall = slope * fabs((double)get(j, 1, z->W + i % z->W) + (double)(first + i / z->W * z->KB));
        want(j, 0, i, s + fall, 0x1p-22 * (fabs(s) + fabs(fall)) + TINY);
    }
}

/* Scores of as many keys of each row, and what a row has for each of these keys. */
static void beside_scores(struct job *j, enum dtype type)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->R * z->SIDE_KEYS);
    add_specials(j, 0);
    memory(j, 1, type, z->R * z->SIDE_KEYS);
    j->arg[1].rows = z->R;
}

static void add_biases(struct job *j)
{
    const struct sizes *z = &j->z;
    beside_scores(j, j->bias);
    add_specials(j, 1);
    for (int64_t i = 0; i < z->R * z->SIDE_KEYS; i++) {
        double s = (double)get(j, 0, i), b = (double)get(j, 1, i % z->R * z->SIDE_KEYS + i / z->R);
        want(j, 0, i, s + b, isinf(s) || isinf(b) ? 0 : 0x1p-22 * (fabs(s) + fabs(b)) + TINY);
    }
}

static void hide_all(struct job *j)
{
    const struct sizes *z = &j->z;
    beside_scores(j, DTYPE_F32);
    uint8_t *bytes = j->arg[1].before;
    j->arg[1].bytes = true;
    for (int64_t i = 0; i < z->R * z->SIDE_KEYS; i++)
        bytes[i] = (uint8_t)(random_below(&j->random, 2) ? 0 : j->kind % 2 ? 1 : 1 + random_below(&j->random, 255));
    for (int64_t i = 0; i < z->R * z->SIDE_KEYS; i++)
        want(j, 0, i, bytes[i % z->R * z->SIDE_KEYS + i / z->R] ? (double)get(j, 0, i) : -HUGE_VAL, 0);
}

const struct model lane_models[] = {
    {"spread", spread},
    {"spread_row", spread_row},
    {"rescale", rescale},
    {"cut_rows", cut_rows},
    {"join", join},
    {"blend", blend},
    {"alibi_rows", alibi_rows},
    {"add_biases", add_biases},
    {"hide_all", hide_all},
    {NULL, NULL},
};
