/* emulated_sm90.c - the functions of templates/opencl/ptx.sm90.t, by name, as this processor computes them: barriers, the copy
 * engine, and products of warpgroups. Each is what its PTX is documented to do (PTX ISA 8.3). */
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

/* ---- ptx.sm90.t: barriers ---- */

/* A barrier as it lies in shared memory; its phase ends when nothing is missing. */
struct barrier {
    uint expected : 15, missing : 15, phase : 1, made : 1;
    int32_t bytes;
};
static struct barrier *barrier_at(uint bar)
{
    struct barrier *b = (struct barrier *)(void *)emulated_at(bar, sizeof *b);
    return b;
}
static void settle(struct barrier *b)
{
    emulated_progress();
    if (b->missing == 0 && b->bytes == 0) {
        b->missing = b->expected;
        b->phase = !b->phase;
    }
}
void barrier_init(uint bar, uint arrivals)
{
    *barrier_at(bar) = (struct barrier){.expected = arrivals & 0x7fff, .missing = arrivals & 0x7fff, .made = 1};
}
void barriers_made(void)
{
}
static void arrive_at(uint bar)
{
    struct barrier *b = barrier_at(bar);
    if (b->missing == 0) {
        fprintf(stderr, "one arrival more than a barrier waits for\n");
        abort();
    }
    b->missing--;
    settle(b);
}
/* Others may go on before the one that has told them to. */
void arrive(uint bar)
{
    arrive_at(bar);
    for (uint n = emulated_random(6) ? 0 : emulated_random(20); n > 0; n--) {
        emulated_progress();
        emulated_yield();
    }
}
void arrive_and_expect(uint bar, uint bytes)
{
    barrier_at(bar)->bytes += (int)bytes;
    arrive(bar);
}
void expect(uint bar, uint bytes)
{
    barrier_at(bar)->bytes += (int)bytes;
}
static void arrived(uint bar, uint bytes)
{
    struct barrier *b = barrier_at(bar);
    b->bytes -= (int)bytes;
    settle(b);
}
void await(uint bar, uint parity)
{
    while (barrier_at(bar)->phase == parity)
        emulated_yield();
}
static int named(uint name, uint items, bool waits, int x)
{
    struct emulated_named *b = emulated_named(name);
    const int turn = b->turn;
    b->any |= x;
    if (++b->count == (int)items) {
        b->was = b->any;
        b->count = b->any = 0;
        b->turn++;
        emulated_progress();
    } else
        while (waits && b->turn == turn)
            emulated_yield();
    return b->was;
}
void named_sync(uint name, uint items)
{
    named(name, items, true, 0);
}
void named_arrive(uint name, uint items)
{
    named(name, items, false, 0);
}
int named_any(uint name, uint items, int x)
{
    return named(name, items, true, x != 0);
}

/* ---- ptx.sm90.t: the copy engine ---- */

/* A map, read as runtime/opencl/tma.c writes it. */
struct box_map {
    char *base;
    int64_t width, count[4], stride[4]; /* bytes */
    int side[2];                        /* of a box: rows, and heads */
};
static struct box_map map_of(ulong64 map)
{
    const ulong64 *w = (const ulong64 *)(uintptr_t)map;
    const ulong64 low = 0xffffffff;
    struct box_map m = {.base = (char *)(uintptr_t)w[0], .width = (int64_t)(w[4] & low) + 1};
    const ulong64 last[4] = {w[4] >> 32, w[5] & low, w[5] >> 32, w[6] & low};
    const ulong64 unit[4] = {w[1] >> 32 | (w[3] >> 32 & 15) << 32, (w[2] & low) | (w[3] >> 36 & 15) << 32,
                             w[2] >> 32 | (w[3] >> 40 & 15) << 32, (w[3] & low) | (w[3] >> 44 & 15) << 32};
    for (int d = 0; d < 4; d++) {
        m.count[d] = (int64_t)last[d] + 1;
        m.stride[d] = (int64_t)unit[d] * 16;
    }
    m.side[0] = (int)(w[7] & 255) + 1;
    m.side[1] = (int)(w[7] >> 8 & 255) + 1;
    if (w[0] % 16 != 0) {
        fprintf(stderr, "a tensor's address is no multiple of 16\n");
        abort();
    }
    return m;
}
/* The place in the tensor of a row of a box, or NULL. */
static char *row_at(const struct box_map *m, const int at[4])
{
    char *row = m->base;
    for (int d = 0; d < 4; d++) {
        if (at[d] < 0 || at[d] >= m->count[d])
            return NULL;
        row += at[d] * m->stride[d];
    }
    return row;
}
static void move(ulong64 map, int column, const int first[4], int heads_at, uint shared, bool store)
{
    const struct box_map m = map_of(map);
    for (int h = 0; h < (heads_at ? m.side[1] : 1); h++)
        for (int r = 0; r < m.side[0]; r++) {
            int at[4] = {first[0] + r, first[1], first[2], first[3]};
            at[heads_at] += heads_at ? h : 0;
            char *row = row_at(&m, at);
            for (int e = 0; e < 64; e++) {
                uint to = shared + (uint)(h * m.side[0] + r) * 128 + (uint)e * 2;
                to ^= (to >> 7 & 7) << 4;
                char *mine = emulated_at(to, 2);
                const bool inside = row && column + e < m.width;
                if (store && inside)
                    memcpy(row + 2 * (column + e), mine, 2);
                else if (!store && inside)
                    memcpy(mine, row + 2 * (column + e), 2);
                else if (!store)
                    memset(mine, 0, 2);
            }
        }
}

/* What is under way: boxes, and copies of 16 bytes by work-items, with the arrival that follows them. */
struct copy {
    enum { BOX_LOAD, BOX_STORE, BYTES_LOAD, COPY_16, ARRIVAL } what;
    ulong64 map;
    int column, first[4], heads_at, item, is_there;
    uint shared, bar, bytes;
    const void *from;
};
enum { COPIES_MOST = 1 << 16 };
static struct copy copies[COPIES_MOST];
static int copies_begun;

void emulated_engine_begin(void)
{
    copies_begun = 0;
}
static void carry_out(const struct copy *c)
{
    const int before = emulated_as(c->item);
    switch (c->what) {
    case BOX_LOAD:
    case BOX_STORE:
        move(c->map, c->column, c->first, c->heads_at, c->shared, c->what == BOX_STORE);
        if (c->what == BOX_LOAD)
            arrived(c->bar, c->bytes);
        break;
    case BYTES_LOAD:
        memcpy(emulated_at(c->shared, c->bytes), c->from, c->bytes);
        arrived(c->bar, c->bytes);
        break;
    case COPY_16: emulated_copy(c->shared, c->from, c->is_there ? 16 : 0, 16); break;
    case ARRIVAL: arrive_at(c->bar); break;
    }
    emulated_as(before);
}
/* Does some copies, or all: those of everybody (item -1), or a work-item's stores or its other copies. They come in any
 * order, but an arrival comes after the copies before it. Returns whether there were any. */
static bool carry_out_some(bool all, int item, bool stores)
{
    int kept = 0;
    const int begun = copies_begun;
    for (int n = 0; n < begun; n++) {
        const struct copy c = copies[n];
        bool its = item < 0 || (c.item == item && (c.what == BOX_STORE) == stores), now = its && (all || emulated_random(3) == 0);
        for (int k = 0; k < kept && now && c.what == ARRIVAL; k++)
            now = copies[k].item != c.item || copies[k].what != COPY_16;
        if (now)
            carry_out(&c);
        else
            copies[kept++] = c;
    }
    copies_begun = kept;
    return kept < begun;
}
bool emulated_engine_turn(bool all)
{
    return carry_out_some(all, -1, false);
}
static void begin_copy(struct copy c)
{
    if (copies_begun == COPIES_MOST)
        carry_out_some(true, -1, false);
    c.item = emulated_item()->number;
    copies[copies_begun++] = c;
    emulated_progress();
}
void copy16_later(uint to, const void *from, int is_there)
{
    begin_copy((struct copy){.what = COPY_16, .shared = to, .from = from, .is_there = is_there});
}
void copies_arrive(uint bar)
{
    begin_copy((struct copy){.what = ARRIVAL, .bar = bar});
}
void widened(uint *y, uint four)
{
    const enum dtype t = emulated_facts()->type_kv;
    float x[4];
    narrow_load(t == DTYPE_FP8 ? t : DTYPE_INT8, &four, 4, x); /* what becomes of blocks is int8 */
    y[0] = emulated_two(DTYPE_F16, x[0], x[1]), y[1] = emulated_two(DTYPE_F16, x[2], x[3]);
}
void widened_bytes(uint *y, uint four, uint low, uint high)
{
    float x[4];
    narrow_load(DTYPE_INT8, &four, 4, x);
    y[0] = emulated_two(DTYPE_F16, x[low & 3], x[low >> 8 & 3]), y[1] = emulated_two(DTYPE_F16, x[high & 3], x[high >> 8 & 3]);
}
void widened_keys(uint *y, uint four)
{
    float x[4];
    narrow_load(emulated_facts()->type_kv, &four, 4, x);
    y[0] = emulated_two(DTYPE_BF16, x[0], x[1]), y[1] = emulated_two(DTYPE_BF16, x[2], x[3]);
}
void wide_floats(float *y, uint two)
{
    const uint16_t *h = (const uint16_t *)(const void *)&two;
    y[0] = dtype_load(DTYPE_F16, h, 0), y[1] = dtype_load(DTYPE_F16, h, 1);
}
uint times(uint x, uint y)
{
    const uint two[2] = {x, y};
    const uint16_t *h = (const uint16_t *)(const void *)two;
    return emulated_two(DTYPE_F16, dtype_load(DTYPE_F16, h, 0) * dtype_load(DTYPE_F16, h, 2),
                        dtype_load(DTYPE_F16, h, 1) * dtype_load(DTYPE_F16, h, 3));
}
uint left_of_products(uint x, uint y, uint z)
{
    const uint three[3] = {x, y, z};
    const uint16_t *h = (const uint16_t *)(const void *)three;
    float left[2];
    for (int i = 0; i < 2; i++) /* products of f16, and what is left of them, are exact in float */
        left[i] = dtype_load(DTYPE_F16, h, i) * dtype_load(DTYPE_F16, h, i + 2) - dtype_load(DTYPE_F16, h, i + 4);
    return emulated_two(DTYPE_F16, left[0], left[1]);
}
int add_squares_of_bytes(int sum, uint four)
{
    for (int i = 0; i < 4; i++) {
        const int x = (int8_t)(four >> 8 * i);
        sum += x * x;
    }
    return sum;
}
void widened_apart(uint *y, uint four)
{
    widened(y, (four & 0xff0000ff) | (four & 0xff00) << 8 | (four >> 8 & 0xff00));
}
void open_bytes(uint *y, uint16_t low, uint16_t high)
{
    const uint both = low | (uint)high << 16, less = 0x08080808;
    const uint sides[2] = {(both & 0x0f0f0f0f) ^ less, (both >> 4 & 0x0f0f0f0f) ^ less};
    if (emulated_facts()->type_kv == DTYPE_Q8_0)
        widened_apart(y, both);
    else
        for (int i = 0; i < 2; i++) /* 8 less, as a signed byte */
            widened_apart(y + 2 * i, sides[i] | (sides[i] & less) * 30);
}
static uint box_bytes(ulong64 map, bool heads)
{
    const struct box_map m = map_of(map);
    return (uint)(m.side[0] * (heads ? m.side[1] : 1) * 128);
}
void box_load(uint to, ulong64 map, int column, int row, int head, int sequence, uint bar)
{
    begin_copy((struct copy){.what = BOX_LOAD, .map = map, .column = column, .first = {row, head, sequence}, .shared = to,
                             .bar = bar, .bytes = box_bytes(map, false)});
}
void box_load_once(uint to, ulong64 map, int column, int row, int head, int sequence, uint bar, ulong64 policy)
{
    (void)policy;
    box_load(to, map, column, row, head, sequence, bar);
}
void bytes_load(uint to, const void *from, uint bytes, uint bar)
{
    if (to % 16 != 0 || (uintptr_t)from % 16 != 0 || bytes % 16 != 0) {
        fprintf(stderr, "a copy of %u bytes in a row is not aligned to 16\n", bytes);
        abort();
    }
    begin_copy((struct copy){.what = BYTES_LOAD, .from = from, .shared = to, .bar = bar, .bytes = bytes});
}
void bytes_load_once(uint to, const void *from, uint bytes, uint bar, ulong64 policy)
{
    (void)policy;
    bytes_load(to, from, bytes, bar);
}
void box_store(ulong64 map, int column, int row, int head, int sequence, uint from)
{
    begin_copy((struct copy){.what = BOX_STORE, .map = map, .column = column, .first = {row, head, sequence}, .shared = from});
}
void box_prefetch(ulong64 map, int column, int row, int head, int sequence)
{
    (void)map, (void)column, (void)row, (void)head, (void)sequence;
}
ulong64 cache_policy(int again)
{
    return (ulong64)again;
}
void slice_load(uint to, ulong64 map, int column, int row, int head, int kv_head, int sequence, uint bar)
{
    begin_copy((struct copy){.what = BOX_LOAD, .map = map, .column = column, .first = {row, head, kv_head, sequence},
                             .heads_at = 1, .shared = to, .bar = bar, .bytes = box_bytes(map, true)});
}
void slice_store(ulong64 map, int column, int row, int head, int kv_head, int sequence, uint from)
{
    begin_copy((struct copy){.what = BOX_STORE, .map = map, .column = column, .first = {row, head, kv_head, sequence},
                             .heads_at = 1, .shared = from});
}
void stores_commit(void)
{
}
void stores_read(void)
{
    carry_out_some(true, emulated_item()->number, true);
}
void stores_done(void)
{
    carry_out_some(true, emulated_item()->number, true);
}
void shared_written(void)
{
}
void map_written(ulong64 map)
{
    (void)map;
}
void zero16(uint at)
{
    memset(emulated_at(at, 16), 0, 16);
}
void registers_for_copying(void)
{
}
void registers_for_computing(void)
{
}

/* ---- ptx.sm90.t: products ---- */
ulong64 operand(uint place)
{
    return place | (ulong64)(64 | 1 << 30) << 32;
}
/* Every element that the type can have, as a float. */
static const float *floats_of(enum dtype t)
{
    static float all[DTYPE_COUNT][1 << 16];
    static bool made[DTYPE_COUNT];
    for (uint i = 0; i < 1 << 16 && !made[t]; i++) {
        const uint16_t x = (uint16_t)i;
        all[t][i] = dtype_load(t, &x, 0);
    }
    made[t] = true;
    return all[t];
}
/* Element at byte `at` of an operand's group of eight rows number `eight`, in box number `box`, swizzled. */
static uint16_t operand_element(ulong64 operand, int box, int eight, int at)
{
    uint byte = (uint)(operand & 0x3fff) << 4;
    byte += (uint)box * ((uint)(operand >> 16 & 0x3fff) << 4) + (uint)eight * ((uint)(operand >> 32 & 0x3fff) << 4) +
            (uint)at;
    byte ^= (byte >> 7 & 7) << 4;
    uint16_t x;
    memcpy(&x, emulated_at(byte, 2), sizeof x);
    return x;
}
static void operand_row(ulong64 operand, int row, float out[16])
{
    const float *of = floats_of(emulated_facts()->type_scores);
    for (int d = 0; d < 16; d++)
        out[d] = of[operand_element(operand, 0, row / 8, row % 8 * 128 + 2 * d)];
}
/* A work-item has two rows, and of each two of every eight keys or columns. */
static void do_qk(float *s, ulong64 q, ulong64 k, int add)
{
    const struct emulated_item *i = emulated_item();
    const int row = i->number % 128 / 32 * 16 + i->lane / 4;
    float rows[2][16], key[16];
    operand_row(q, row, rows[0]), operand_row(q, row + 8, rows[1]);
    for (int j = 0; j < emulated_facts()->tile_k / 4; j++) {
        operand_row(k, 8 * (j / 2) + 2 * (i->lane % 4) + j % 2, key);
        for (int r = 0; r < 2; r++) {
            const int n = j / 2 * 4 + 2 * r + j % 2;
            s[n] = emulated_sum(add ? s[n] : 0, rows[r], key, 16);
        }
    }
}
static void do_pv(float *o, const uint *p, ulong64 v)
{
    const float *of = floats_of(emulated_type_of_p());
    struct emulated_item *i = emulated_item();
    float rows[2][16];
    memcpy(i->warp->slot[i->lane], p, 16);
    emulated_meet_warp();
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 16; k++)
            rows[r][k] = of[(uint16_t)(i->warp->slot[4 * (i->lane / 4) + k % 8 / 2][r + k / 8 * 2] >> 16 * (k % 2))];
    emulated_meet_warp();
    for (int c = 0; c < emulated_facts()->columns / 4; c++) {
        const int column = 8 * (c / 2) + 2 * (i->lane % 4) + c % 2, n = c / 2 * 4 + c % 2;
        float y[16];
        for (int k = 0; k < 16; k++)
            y[k] = of[operand_element(v, column / 64, k / 8, k % 8 * 128 + column % 64 * 2)];
        o[n] = emulated_sum(o[n], rows[0], y, 16), o[n + 2] = emulated_sum(o[n + 2], rows[1], y, 16);
    }
}

/* The products that a work-item has begun. Whether each is done at once or when it is waited for is drawn for its whole
 * warp. */
struct product {
    float *to;
    const uint *p; /* NULL: of scores */
    ulong64 left, right;
    int add, group;
};
enum { PRODUCTS_MOST = 256, PRODUCT_ITEMS = 1024 };
static struct begun {
    struct product product[PRODUCTS_MOST];
    int count, group;
    uint drawn;
} begun[PRODUCT_ITEMS];

/* Of the groups before that one. */
static void do_products(int group)
{
    struct begun *b = &begun[emulated_item()->number];
    int done = 0;
    for (; done < b->count && b->product[done].group < group; done++) {
        const struct product *x = &b->product[done];
        if (x->p)
            do_pv(x->to, x->p, x->right);
        else
            do_qk(x->to, x->left, x->right, x->add);
    }
    memmove(b->product, b->product + done, (size_t)(b->count - done) * sizeof *b->product);
    b->count -= done;
}
static void begin_product(struct product x)
{
    struct begun *b = &begun[emulated_item()->number];
    if (b->count == PRODUCTS_MOST) {
        fprintf(stderr, "%d products are under way\n", b->count);
        abort();
    }
    x.group = b->group;
    b->product[b->count++] = x;
}
void products_begin(void)
{
    emulated_meet_warp();
}
void products_commit(void)
{
    struct begun *b = &begun[emulated_item()->number];
    b->group++;
    b->drawn = b->drawn * 1664525 + 1013904223;
    if (b->drawn >> 30 == 0)
        do_products(b->group);
}
void products_wait(void)
{
    do_products(begun[emulated_item()->number].group);
    emulated_meet_warp();
}
void products_wait_but_last(void)
{
    do_products(begun[emulated_item()->number].group - 1);
    emulated_meet_warp();
}
void multiply_qk(float *s, ulong64 q, ulong64 k, int add)
{
    begin_product((struct product){.to = s, .left = q, .right = k, .add = add});
}
void multiply_pv(float *o, const uint *p, ulong64 v)
{
    begin_product((struct product){.to = o, .p = p, .right = v});
}
int group_count(void)
{
    return emulated_group(true);
}
static float half_of(enum dtype t, uint word, int high)
{
    const uint16_t x = (uint16_t)(high ? word >> 16 : word);
    return dtype_load(t, &x, 0);
}
float root(float x)
{
    return sqrtf(x);
}
float add_squares(float sum, uint two)
{
    const float low = half_of(emulated_facts()->type_scores, two, 0), high = half_of(emulated_facts()->type_scores, two, 1);
    return fmaf(low, low, fmaf(high, high, sum));
}
uint larger_squares(uint most, const uint *y)
{
    const enum dtype type = emulated_facts()->type;
    float sum[2] = {0, 0};
    for (int i = 0; i < 4; i++)
        for (int n = 0; n < 2; n++) {
            const float x = type == DTYPE_F16 ? half_of(type, y[i], n) / 16 : half_of(type, y[i], n);
            const uint rounded = emulated_two(type, fmaf(x, x, sum[n]), 0);
            sum[n] = half_of(type, rounded, 0);
        }
    return emulated_two(type, fmaxf(half_of(type, most, 0), sum[0]), fmaxf(half_of(type, most, 1), sum[1]));
}
int most_bits(int most, float a, float b)
{
    int p, q;
    memcpy(&p, &a, 4), memcpy(&q, &b, 4);
    p = p > q ? p : q;
    return p > most ? p : most;
}
int anew(int x)
{
    return x;
}
static void store_matrices(uint at, const uint *m, int count)
{
    struct emulated_item *i = emulated_item();
    i->warp->slot[i->lane][4] = at;
    memcpy(i->warp->slot[i->lane], m, 16);
    emulated_meet_warp();
    for (int k = 0; k < count; k++) { /* this lane's pair of matrix k, to the row that lane 8k + row names */
        const uint to = i->warp->slot[8 * k + i->lane / 4][4];
        memcpy(emulated_at(to + (uint)(i->lane % 4) * 4, 4), &i->warp->slot[i->lane][k], 4);
    }
    emulated_meet_warp();
}
void store_matrices4(uint at, uint a, uint b, uint c, uint d)
{
    const uint m[4] = {a, b, c, d};
    store_matrices(at, m, 4);
}
void store_matrices2(uint at, uint a, uint b)
{
    const uint m[4] = {a, b, 0, 0};
    store_matrices(at, m, 2);
}
