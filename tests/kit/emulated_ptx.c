/* emulated_ptx.c - the functions of templates/opencl/ptx.t and ptx.sm80.t, by name, as this processor computes them. Each is
 * what its PTX is documented to do (PTX ISA 8.3). What runs by itself on a card is done late here: see emulated.h. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"

/* Called from kernels alone. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef uint32_t uint;
typedef uint64_t ulong64;

static uint bits(float x)
{
    uint y;
    memcpy(&y, &x, 4);
    return y;
}
static float number(uint x)
{
    float y;
    memcpy(&y, &x, 4);
    return y;
}
static float element(enum dtype t, const void *at)
{
    return dtype_load(t, at, 0);
}
static float half_of(enum dtype t, uint word, int high)
{
    const uint16_t x = (uint16_t)(high ? word >> 16 : word);
    return element(t, &x);
}
uint emulated_two(enum dtype t, float low, float high)
{
    uint16_t two[2];
    dtype_store(t, two, 0, low), dtype_store(t, two, 1, high);
    return two[0] | (uint)two[1] << 16;
}
static float cut_to_float(double x)
{
    const float y = (float)x;
    return fabs((double)y) > fabs(x) && isfinite(y) ? nextafterf(y, 0) : y;
}
/* The exponent of a finite number; that of 0 is lower than all others. */
static int exponent(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return (int)(b >> 52 & 2047) - 1023;
}
/* x without its bits below 2**unit. */
static double cut(double x, int unit)
{
    const int bits = exponent(x) - unit; /* behind the leading one */
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    b = bits < 0 ? 0 : bits < 52 ? b & ~(UINT64_MAX >> (12 + bits)) : b;
    memcpy(&x, &b, sizeof b);
    return x;
}
static float sum_at_once(float sum, const float *x, const float *y, int count, int more_bits)
{
    int top = sum == 0 ? INT_MIN : exponent(sum);
    double all = sum;
    for (int i = 0; i < count; i++) {
        const int size = x[i] == 0 || y[i] == 0 ? INT_MIN : exponent(x[i]) + exponent(y[i]);
        top = size > top ? size : top;
        all += (double)x[i] * y[i];
    }
    if (!isfinite(all) || top == INT_MIN)
        return (float)all;
    const int unit = top - 23 - more_bits;
    all = cut(sum, unit);
    for (int i = 0; i < count; i++)
        all += cut((double)x[i] * y[i], unit);
    return cut_to_float(all);
}
float emulated_sum(float sum, const float *x, const float *y, int count)
{
    const struct emulated_facts *f = emulated_facts();
    const int step = count == 16 ? f->products : f->products / 2;
    for (int i = 0; i < count; i += step)
        sum = sum_at_once(sum, x + i, y + i, step, f->bits);
    return sum;
}
enum dtype emulated_type_of_p(void)
{
    const struct emulated_facts *f = emulated_facts();
    return f->type_kv == DTYPE_F16 || f->type_kv == DTYPE_BF16 ? f->type_kv : DTYPE_F16;
}

/* ---- ptx.t ---- */
int group_number(void)
{
    return emulated_group(false);
}
/* An approximation of x, which is off by up to that share of it. */
static float about(float x, double most)
{
    const double share = (int32_t)(bits(x) * 0x9e3779b1u) / 2147483648.0;
    return (float)(x * (1 + share * most));
}
float exp2_fast(float x) /* ex2.approx is exact for 0 */
{
    const float y = x == 0 ? 1 : about(exp2f(x), 0x1.6ap-23);
    return y < 0x1p-126F ? 0 : y;
}
float within30(float x)
{
    return isnan(x) ? x : x > 30 ? 30 : x < -30 ? -30 : x;
}
float reciprocal(float x)
{
    return about(1 / x, 0x1p-23);
}
/* The word of a lane; each lane shows its own. */
static uint word_of_lane(uint mine, int lane)
{
    struct emulated_item *i = emulated_item();
    i->warp->slot[i->lane][0] = mine;
    emulated_meet_warp();
    const uint y = i->warp->slot[lane][0];
    emulated_meet_warp();
    return y;
}
float across(float x, int lanes)
{
    return number(word_of_lane(bits(x), emulated_item()->lane ^ lanes));
}
float from_lane(float x, int lane)
{
    return number(word_of_lane(bits(x), lane & 31));
}
int uniform(int x)
{
    return (int)word_of_lane((uint)x, 0);
}
int of_lane(int x, int lane)
{
    return (int)word_of_lane((uint)x, lane & 31);
}
/* Joins x of the first `lanes` lanes to start, one after another. */
static int of_lanes(int x, int lanes, int start, int (*join)(int, int))
{
    struct emulated_item *i = emulated_item();
    i->warp->slot[i->lane][0] = (uint)x;
    emulated_meet_warp();
    for (int l = 0; l < lanes; l++)
        start = join(start, (int)i->warp->slot[l][0]);
    emulated_meet_warp();
    return start;
}
static int plus(int a, int b)
{
    return a + b;
}
static int larger(int a, int b)
{
    return a > b ? a : b;
}
int up_to_lane(int x)
{
    return of_lanes(x, emulated_item()->lane + 1, 0, plus);
}
int lanes_with(int x)
{
    return of_lanes(x != 0, EMULATED_LANES, 0, plus);
}
int most_in_warp(int x)
{
    return of_lanes(x, EMULATED_LANES, x, larger);
}
int highest_bit(int x)
{
    int bit = -1;
    for (uint rest = (uint)x; rest; rest >>= 1)
        bit++;
    return bit;
}
int64_t here(int64_t x)
{
    return x;
}
int in_warp(int x)
{
    struct emulated_item *i = emulated_item();
    int any = 0;
    i->warp->slot[i->lane][0] = x != 0;
    emulated_meet_warp();
    for (int l = 0; l < EMULATED_LANES; l++)
        any |= i->warp->slot[l][0] != 0;
    emulated_meet_warp();
    return any;
}
uint rounded(float low, float high)
{
    return emulated_two(emulated_type_of_p(), low, high);
}
uint rounded_o(float low, float high)
{
    return emulated_two(emulated_facts()->type_o, low, high);
}
float of_f16(unsigned short x)
{
    return element(DTYPE_F16, &x);
}
void warp_sync(void)
{
    emulated_meet_warp();
}
void flip_signs16(uint at)
{
    uint *x = (uint *)(void *)emulated_at(at, 16);
    for (int i = 0; i < 4; i++)
        x[i] ^= 0x80008000;
}

int lanes_in_front(int x)
{
    struct emulated_item *i = emulated_item();
    int lanes = 0;
    i->warp->slot[i->lane][0] = x != 0;
    emulated_meet_warp();
    while (lanes < EMULATED_LANES && i->warp->slot[lanes][0])
        lanes++;
    emulated_meet_warp();
    return lanes;
}
void memory_written(void)
{
}
/* Turns that work-items have waited since anybody was told anything: fewer than 2000 in all launches that were seen to end. */
static long waited;
enum { WAITED_MOST = 300000 };

void tell(uint *at, uint what)
{
    *at = what;
    waited = 0;
    emulated_progress();
}

/* ---- ptx.sm80.t ---- */
void emulated_copy(uint to, const void *from, int bytes, int size)
{
    char *at = emulated_at(to, (size_t)size);
    if (to % (uint)size != 0 || (bytes && (uintptr_t)from % (uintptr_t)size != 0)) {
        fprintf(stderr, "a copy of %d bytes is not aligned\n", size);
        abort();
    }
    memset(at, 0, (size_t)size);
    if (bytes)
        memcpy(at, from, (size_t)bytes);
}
void copy16(uint to, const void *from, int is_there)
{
    emulated_copy(to, from, is_there ? 16 : 0, 16);
}
void copy16_async(uint to, const void *from, int bytes)
{
    emulated_copy(to, from, bytes, 16);
}
void copy8_async(uint to, const void *from, int bytes)
{
    emulated_copy(to, from, bytes, 8);
}
void copy4_async(uint to, const void *from, int bytes)
{
    emulated_copy(to, from, bytes, 4);
}
void copies_commit(void)
{
}
void copies_wait(void)
{
}
/* Rows of 16 bytes, whose addresses the lanes give. */
static void show_rows(uint at)
{
    struct emulated_item *i = emulated_item();
    const uint *row = (const uint *)(void *)emulated_at(at, 16);
    for (int c = 0; c < 4; c++)
        i->warp->slot[i->lane][c] = row[c];
    emulated_meet_warp();
}
static void load(uint *m, uint at, int count, bool across)
{
    struct emulated_item *i = emulated_item();
    show_rows(at);
    const int row = i->lane / 4, pair = i->lane % 4;
    for (int k = 0; k < count; k++) {
        uint16_t two[2];
        for (int e = 0; e < 2; e++) {
            const int r = across ? 2 * pair + e : row, c = across ? row : 2 * pair + e;
            two[e] = (uint16_t)(i->warp->slot[8 * k + r][c / 2] >> 16 * (c % 2));
        }
        m[k] = two[0] | (uint)two[1] << 16;
    }
    emulated_meet_warp();
}
void load_matrices4(uint *m, uint at)
{
    load(m, at, 4, false);
}
void load_matrices4_across(uint *m, uint at)
{
    load(m, at, 4, true);
}
void load_matrices2_across(uint *m, uint at)
{
    load(m, at, 2, true);
}
/* C[16][8] += A[16][K] B[K][8]. A row of A, or a column of B, is 8 words of per_word numbers each; number_of(word, k) is number
 * k of a word. */
static inline __attribute__((always_inline)) void multiply_words(float *c, const uint *a, const uint *b, int per_word,
                                                                 float (*number_of)(uint word, int k))
{
    struct emulated_item *i = emulated_item();
    memcpy(i->warp->slot[i->lane], a, 16);
    memcpy(i->warp->slot[i->lane] + 4, b, 8);
    emulated_meet_warp();
    for (int n = 0; n < 4; n++) {
        const int row = i->lane / 4, column = 2 * (i->lane % 4) + n % 2, near = 4 * per_word;
        float x[16], y[16];
        for (int k = 0; k < 2 * near; k++) {
            const int from = k % near / per_word, half = k / near;
            x[k] = number_of(i->warp->slot[4 * row + from][n / 2 + 2 * half], k % per_word);
            y[k] = number_of(i->warp->slot[4 * column + from][4 + half], k % per_word);
        }
        c[n] = emulated_sum(c[n], x, y, 2 * near);
    }
    emulated_meet_warp();
}
static float half_of_p(uint word, int k)
{
    return half_of(emulated_type_of_p(), word, k);
}
void multiply(float *c, const uint *a, const uint *b)
{
    multiply_words(c, a, b, 2, half_of_p);
}
static float tf32_of(uint word, int k) /* a number has 19 bits of a float */
{
    (void)k;
    return number(word & 0xffffe000);
}
void multiply_tf32(float *c, const uint *a, const uint *b)
{
    multiply_words(c, a, b, 1, tf32_of);
}

static void widened_two(enum dtype t, uint *y, uint x)
{
    for (int n = 0; n < 2; n++)
        y[n] = bits(half_of(t, x, n));
}
void widened_q(uint *y, uint x)
{
    widened_two(emulated_facts()->type, y, x);
}
void widened_k(uint *y, uint x)
{
    widened_two(emulated_facts()->type_kv, y, x);
}

uint spread(uint four, uint which)
{
    uint y = 0;
    for (int i = 0; i < 4; i++) {
        const uint byte = which >> 4 * i & 15;
        y |= (byte < 4 ? four >> 8 * byte & 255 : 0) << 8 * i;
    }
    return y;
}
uint remainders(float low, float high, uint two)
{
    return emulated_two(DTYPE_F16, low - half_of(DTYPE_F16, two, 0), high - half_of(DTYPE_F16, two, 1));
}

int multiprocessors(void)
{
    return 2; /* a few of the groups are the last ones */
}
uint count_up(uint *at)
{
    return (*at)++;
}
uint count_part(uint *at)
{
    return (*at)++;
}
uint parts_there(const uint *at)
{
    const uint before = *at;
    for (uint turns = emulated_random(2) ? 1 : 100; turns > 0 && *at == before; turns--) { /* later, as a poll that takes long */
        if (++waited > WAITED_MOST) {
            fprintf(stderr, "work-items wait forever for what others are to tell them in memory\n");
            abort();
        }
        emulated_progress();
        emulated_yield();
    }
    return *at;
}
uint counted(const uint *at)
{
    return *at;
}
long read_early(const long *at)
{
    return *at;
}
void written2(float *x, const float *at, int are_there)
{
    if (are_there)
        memcpy(x, at, 8);
}
void written4(float *x, const float *at, int are_there)
{
    if (are_there)
        memcpy(x, at, 16);
}

const void *const emulated_ptx[] = {(const void *)group_number};
