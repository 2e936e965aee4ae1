/* models_words.c - see models.h: the micro-kernels of kernels with a table where the ISA has no tiles. */
#include <math.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "runtime/numerics/half.h"
#include "jobs.h"

/* Where a key's probability stands among those of 32 keys: words are put together two and two of each half, and are put in order
 * where bits are a promise. */
static int64_t place_of(const struct sizes *z, int64_t key)
{
    return z->TABLED ? key : key / 32 * 32 + key % 16 / 4 * 8 + key % 32 / 16 * 4 + key % 4;
}

/* Now and then a key is no finite vector, or a query; or a key's scale, where keys have scales. */
static void score_and_tops(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / z->NR), keys = n * z->NR;
    const int64_t strange = j->kind > 3 ? random_below(&j->random, keys) : -1;
    const int64_t lost = j->kind == 3 ? random_below(&j->random, z->MR) : -1;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDQ + z->SQ) * z->PER);
    if (z->OPENS)
        opened_panels(j, n);
    else
        memory(j, 1, j->slot, ((n - 1) * z->LDQ + z->SQ) * z->NR * z->PER);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 3, DTYPE_F32, z->MR * z->W);
    memory(j, 4, DTYPE_F32, 1);
    integer(j, 5, n);
    if (strange >= 0 && z->OPENS && j->kind > 4)
        *scale_beside(j, strange, z->KEY_SCALES - 1) = NAN;
    else if (strange >= 0)
        set(j, 1, (strange / z->NR * z->KEY_ROWS * z->NR + strange % z->NR) * z->PER, j->kind == 4 ? HUGE_VALF : NAN);
    if (lost >= 0)
        set(j, 0, lost * z->LDQ * z->PER, NAN);
    want_integer(j, 4, 0, lost >= 0 ? (1 << z->W) - 1 : strange < 0 ? 0 : 1 << strange % z->W);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double size, sum = z->OPENS ? opened_dot(j, i, c, &size)
                                        : dot(j, i * z->LDQ, c / z->NR * z->LDQ, c % z->NR, z->SQ, true, &size);
            const double error = (double)(z->SQ * z->PER + 4) * 0x1p-24 * size + TINY;
            struct want *top = &j->arg[3].want[i * z->W + c % z->W];
            want(j, 2, i * z->BK + c, sum, error);
            if (c < z->W || sum > top->value)
                want(j, 3, i * z->W + c % z->W, sum, fmax(error, c < z->W ? 0 : top->tolerance));
            else
                top->tolerance = fmax(error, top->tolerance);
        }
    for (int64_t i = 0; i < z->MR && strange >= 0; i++) { /* what such scores and maxima are depends on the order */
        want_anything(j, 2, i * z->BK + strange);
        want_anything(j, 3, i * z->W + strange % z->W);
    }
}

static void tops_again(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, DTYPE_F32, z->MR * z->W);
    integer(j, 2, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t l = 0; l < z->W; l++) {
            double top = -HUGE_VAL;
            for (int64_t c = l; c < keys; c += z->W) {
                if (j->kind > 1 && (c + i) % j->kind)
                    set(j, 0, i * z->BK + c, -HUGE_VALF);
                top = fmax(top, (double)get(j, 0, i * z->BK + c));
            }
            want(j, 1, i * z->W + l, top, 0);
        }
}

/* The same of all rows, some of whose scores are no numbers or too large at times. */
static void tops_of(struct job *j)
{
    static const float odd[] = {NAN, HUGE_VALF, -HUGE_VALF};
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    const int64_t row = random_below(&j->random, z->MR), at = random_below(&j->random, keys);
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, DTYPE_F32, z->MR * z->W);
    memory(j, 2, DTYPE_F32, 1);
    integer(j, 3, n);
    if (j->kind > 2)
        set(j, 0, row * z->BK + at, odd[j->kind % 3]);
    want_integer(j, 2, 0, j->kind > 2 ? 1 << at % z->W : 0);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t l = 0; l < z->W; l++) {
            double top = -HUGE_VAL;
            for (int64_t c = l; c < keys; c += z->W)
                top = fmax(top, (double)get(j, 0, i * z->BK + c));
            want(j, 1, i * z->W + l, top, 0);
        }
    if (j->kind > 2 && isnan(odd[j->kind % 3]))
        want_anything(j, 1, row * z->W + at % z->W); /* depends on the order */
}

/* Some rows have a score that is no number; others may have infinities. */
static void spoil(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, DTYPE_F32, z->STATE);
    integer(j, 2, n);
    for (int64_t l = z->MR; l < z->W; l++)
        want_anything(j, 1, z->SUM + l), want_anything(j, 1, z->ROUNDED + l);
    for (int64_t i = 0; i < z->MR; i++) {
        const bool spoiled = (i + j->kind) % 3 == 0;
        set(j, 0, i * z->BK + random_below(&j->random, keys), spoiled ? NAN : i % 2 ? HUGE_VALF : -HUGE_VALF);
        want(j, 1, z->SUM + i, spoiled ? NAN : (double)get(j, 1, z->SUM + i), 0);
        want(j, 1, z->ROUNDED + i, spoiled ? NAN : (double)get(j, 1, z->ROUNDED + i), 0);
    }
}

/* Of rows that have seen these scores, as softmax_words left them. */
static void add_unrounded(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, DTYPE_F32, z->STATE);
    memory(j, 2, DTYPE_F32, 1);
    integer(j, 3, n);
    set(j, 2, 0, j->kind == 3 ? 1.0f : 0.18033688f);
    for (int64_t l = 0; l < z->W; l++)
        want_anything(j, 1, z->LESS + l);
    for (int64_t l = z->MR; l < z->W; l++)
        want_anything(j, 1, z->SUM + l);
    for (int64_t i = 0; i < z->MR; i++) {
        const float base = (i + j->kind) % 4 ? 2 + fabsf(random_normal(&j->random)) : (float)LOWEST, fix = 0.25f * (float)(i % 5);
        double sum = 0;
        set(j, 1, z->BASE + i, base), set(j, 1, z->FIX + i, fix);
        set(j, 1, z->SUM + i, fabsf(get(j, 1, z->SUM + i)));
        for (int64_t c = 0; c < keys; c++) {
            if (base < 0 || (c + j->kind) % 5 == 0)
                set(j, 0, i * z->BK + c, -HUGE_VALF);
            sum += exp2((double)get(j, 0, i * z->BK + c) * (double)get(j, 2, 0) - (double)base);
        }
        want(j, 1, z->SUM + i, (double)get(j, 1, z->SUM + i) * (double)fix + sum,
             ((double)get(j, 1, z->SUM + i) * (double)fix + sum) * (1e-4 + 0x1p-20) + 2 * TINY);
    }
}

/* Rows are usual, fresh, such that see nothing, wide, with infinity. */
static float make_row(struct job *j, int64_t row, int64_t keys)
{
    const struct sizes *z = &j->z;
    const int kind = (int)((row + j->kind) % 5);
    const bool fresh = kind == 1 || kind == 2;
    float top = -HUGE_VALF;
    set(j, 2, z->MAX + row, fresh ? -HUGE_VALF : 2 * random_normal(&j->random));
    set(j, 2, z->SUM + row, fresh ? 0.0f : 1.0f + 10 * fabsf(random_normal(&j->random)));
    if (z->TWO_SUMS)
        set(j, 2, z->ROUNDED + row, 0.999f * get(j, 2, z->SUM + row));
    for (int64_t c = 0; c < keys; c++)
        set(j, 0, row * z->BK + c, kind == 2 ? -HUGE_VALF : get(j, 0, row * z->BK + c) * (kind == 3 ? 60.0f : 3.0f));
    if (kind == 4)
        set(j, 0, row * z->BK + random_below(&j->random, keys), HUGE_VALF);
    for (int64_t c = 0; c < keys; c++) {
        const float x = get(j, 0, row * z->BK + c), so_far = c < z->W ? -HUGE_VALF : get(j, 3, row * z->W + c % z->W);
        set(j, 3, row * z->W + c % z->W, fmaxf(x, so_far));
        top = fmaxf(top, x);
    }
    return top;
}

/* One of a row's sums, which add up what is within relative of `more`. */
static void want_sum(struct job *j, int64_t at, double fix, double more, double relative)
{
    const double sum = (double)get(j, 2, at) * fix + more;
    want(j, 2, at, sum, sum * relative + 2 * TINY);
}

/* relative: how far off an exponential may be. Sums are of exponentials as they are rounded, or as they were before; or two
 * sums are of both, but words leave one alone, which nothing reads then. */
static void want_row(struct job *j, int64_t row, int64_t keys, float top, double relative, bool words)
{
    const struct sizes *z = &j->z;
    const float factor = z->LOGS ? get(j, 3, z->MR * z->W) : get(j, 4, 0);
    const float old = get(j, 2, z->MAX + row), most = fmaxf(old, z->NATURAL ? top : top * factor);
    const double base = fmax(LOWEST, (double)most), fix = power(z, (double)(old - (float)base)), rounded = relative + 0x1.01p-8;
    const double near = 0x1p-22 * (1 + (isinf(base) || base == LOWEST ? 0 : fabs(base))); /* of a product that is rounded once */
    const double added = near + (double)(keys / z->W + 6) * 0x1p-24;
    double sum = 0;
    for (int64_t c = 0; c < keys; c++) {
        const double s = (double)get(j, 0, row * z->BK + c), times = (double)factor;
        const double x = z->NATURAL ? (s - base) * times : s * times - base;
        const double p = isinf(base) ? NAN : exp2(x);
        const double borne = z->LOGS ? p * exp2((double)get(j, 4, c / 32 * 64 + c % 32) / 128) : p;
        want(j, 1, row * z->LDP * z->PER + place_of(z, c), borne, borne * (rounded + 8 * near) + TINY);
        if (isinf(base))
            want_anything(j, 1, row * z->LDP * z->PER + place_of(z, c));
        sum += p;
    }
    want(j, 2, z->MAX + row, (double)most, 0);
    want(j, 2, z->BASE + row, base, 0);
    want(j, 2, z->FIX + row, fix, fix * (z->NATURAL ? power_error(z, (double)(old - (float)base)) : 3e-7) + TINY);
    if (words && z->TWO_SUMS)
        want(j, 2, z->SUM + row, (double)get(j, 2, z->SUM + row), 0);
    else
        want_sum(j, z->SUM + row, fix, sum, relative + added);
    if (z->TWO_SUMS)
        want_sum(j, z->ROUNDED + row, fix, sum, (words ? relative : rounded) + added);
}

/* The first eight bits of a number. */
static float cut_short(float x)
{
    return dtype_load(DTYPE_BF16, (const uint16_t[]){(uint16_t)(bits_of(x) >> 16)}, 0);
}

/* A value's scale of 2**l, as log_scales leaves it. */
static void set_scale(struct job *j, int64_t key, float l)
{
    const int64_t at = key / 32 * 64 + key % 32, pair = key / 32 * 128 + 64 + key % 32;
    const float inverse = exp2f(-l), most = cut_short(inverse);
    set(j, 4, at, 128 * l);
    dtype_store(DTYPE_BF16, j->arg[4].before, pair, most);
    dtype_store(DTYPE_BF16, j->arg[4].before, pair + 32, inverse - most);
}

static void step_of_rows(struct job *j, double relative, bool words)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, j->slot, (z->MR - 1) * z->LDP * z->PER + keys);
    memory(j, 2, DTYPE_F32, z->STATE);
    memory(j, 3, DTYPE_F32, z->MR * z->W + z->LOGS);
    memory(j, 4, DTYPE_F32, z->LOGS ? 2 * keys : 1);
    integer(j, 5, n);
    for (int64_t c = 0; z->LOGS && c < keys; c++)
        set_scale(j, c, 3 * random_normal(&j->random));
    const float factor = z->NATURAL ? 1.44269504f : j->kind == 3 ? 1.0f : 0.18033688f;
    set(j, z->LOGS ? 3 : 4, z->LOGS ? z->MR * z->W : 0, factor);
    for (int64_t i = 0; i < z->STATE; i++)
        want_anything(j, 2, i); /* lanes that are no row's */
    for (int64_t i = 0; i < z->MR; i++)
        want_row(j, i, keys, make_row(j, i, keys), relative, words);
}

static void softmax_known(struct job *j)
{
    step_of_rows(j, 1e-4, false);
}

/* A word is off by half of the last of its seven bits, and a table's corrections by as much. */
static void softmax_words(struct job *j)
{
    step_of_rows(j, 0.0074, true);
}

/* Scales of each two keys are of like size; some scale may be no such number. */
static void log_scales(struct job *j)
{
    static const float odd[] = {0.0f, -1.5f, NAN, 0x1p-61f, 0x1.8p60f, -HUGE_VALF};
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (2 * z->W)), keys = n * 2 * z->W;
    const int64_t strange = j->kind > 2 ? random_below(&j->random, keys) : -1;
    int exponent = 0;
    memory(j, 0, DTYPE_F32, keys);
    memory(j, 1, DTYPE_F32, 2 * keys);
    memory(j, 2, DTYPE_F32, 1);
    integer(j, 3, n);
    want(j, 2, 0, strange < 0 ? 0 : NAN, 0);
    for (int64_t k = 0; k < keys; k++) {
        const int64_t at = k / 32 * 64 + k % 32, pair = k / 32 * 128 + 64 + k % 32;
        exponent = k % 2 ? exponent : (int)random_below(&j->random, 120) - 60;
        /* the inverse's last bits, below the first eight, are neither near 0 nor near 1 */
        const float scale = 1 / ldexpf(1 + ((float)random_below(&j->random, 127) + 0.25f) / 128, -exponent - 1);
        set(j, 0, k, k == strange ? odd[random_below(&j->random, 6)] : scale);
        const float stored = get(j, 0, k), size = fminf(stored != stored ? 0x1p-60f : fmaxf(fabsf(stored), 0x1p-60f), 0x1p60f);
        const double times = j->kv == DTYPE_FP8 ? 256 : 1, inverse = 1 / ((double)size * times);
        want(j, 1, at, 128 * log2((double)size * times), 0.0075);
        want_element(j, 1, pair, (double)cut_short((float)inverse), 0);
        want_element(j, 1, pair + 32, inverse - (double)cut_short((float)inverse), inverse * 0x1p-15);
    }
    for (int64_t i = 32; strange >= 0 && i < 64; i += 16) /* its pair's */
        want_anything(j, 1, strange / 32 * 64 + i + strange % 32 / 2);
}

static void times_rests(struct job *j)
{
    const int64_t n = up_to(j, j->z.SOME), ld = j->z.LDV;
    memory(j, 0, DTYPE_BF16, n * ld);
    memory(j, 1, DTYPE_F32, n);
    integer(j, 2, n);
    set(j, 1, 0, j->kind % 2 ? -1.0f : 1.0f);
    for (int64_t i = 0; i < n * ld; i++) {
        const double x = (double)get(j, 0, i) * (double)get(j, 1, i / ld);
        want(j, 0, i, x, i < ld ? 0 : fabs(x) * 0x1.01p-8 + TINY);
    }
}

const struct model word_models[] = {
    {"log_scales", log_scales}, {"times_rests", times_rests},
    {"score_and_tops", score_and_tops}, {"tops_again", tops_again}, {"softmax_known", softmax_known},
    {"softmax_words", softmax_words}, {"tops_of", tops_of}, {"spoil", spoil}, {"add_unrounded", add_unrounded}, {NULL, NULL},
};
