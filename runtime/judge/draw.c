/* draw.c - see draw.h. For tuning, these are typical: a window of 1024 keys, a bias and a mask that all sequences and
 * heads share, a softcap of 50, ALiBi's own slopes, equal sequences, pages of 16 keys in random order, and scales of rows that are
 * alike, as those of a model's keys and values are. */
#include "draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "numerics/convert.h"
#include "numerics/reference.h"

struct chance {
    uint64_t state;
};

static uint64_t mix(uint64_t seed, int64_t a, int64_t b)
{
    uint64_t state = seed + (uint64_t)a * 0x9e3779b97f4a7c15u + (uint64_t)b * 0xc2b2ae3d27d4eb4fu;
    return random_next(&state);
}

static int64_t below(struct chance *c, int64_t limit)
{
    return random_below(&c->state, limit);
}

static bool one_in(struct chance *c, int n)
{
    return below(c, n) == 0;
}

void draw_window(const struct variant *v, int64_t window[2])
{
    window[0] = v->field[F_CAUSAL] ? TYPICAL_WINDOW - 1 : TYPICAL_WINDOW / 2;
    window[1] = v->field[F_CAUSAL] ? 0 : TYPICAL_WINDOW - 1 - TYPICAL_WINDOW / 2;
}

/* A bound of a window: none, nothing at all, a few, as many as a tile or one more or less, or any. */
static int64_t draw_bound(struct chance *c, int64_t kv_len)
{
    switch (below(c, 6)) {
    case 0: return -1;
    case 1: return 0;
    case 2: return below(c, 8);
    case 3: return ((int64_t)16 << below(c, 5)) - 1 + below(c, 3);
    default: return below(c, kv_len + 5);
    }
}

static void *keep(struct drawn *d, enum array_id list, int64_t count, size_t element)
{
    size_t size = (size_t)count * element;
    d->list[list].data = malloc(size ? size : 1);
    d->list[list].size = d->list[list].data ? size : 0;
    return d->list[list].data;
}

/* ---- lists ---- */

static float draw_slope(const struct draw *w, struct chance *c, int64_t h)
{
    float slope = exp2f(-8.0f * (float)(h + 1) / (float)w->heads);
    if (!w->typical && one_in(c, 4))
        slope = one_in(c, 2) ? 0 : 0.5f * random_normal(&c->state);
    return slope;
}

/* Some so large that the rest vanishes, some so small that they change nothing. */
static float draw_logit(const struct draw *w, struct chance *c)
{
    float logit = 2 * random_normal(&c->state);
    if (!w->typical && one_in(c, 4))
        logit += one_in(c, 2) ? 100.0f : -100.0f;
    return logit;
}

static int draw_heads(const struct draw *w, struct chance *c, enum array_id id, struct drawn *d)
{
    float *number = keep(d, id, w->heads, sizeof *number);
    for (int64_t h = 0; number && h < w->heads; h++) {
        number[h] = arrays[id].random == RANDOM_SLOPES ? draw_slope(w, c, h) : draw_logit(w, c);
        if (id == ARRAY_SINKS && w->sink != 0)
            number[h] = w->sink;
    }
    return number ? 0 : -1;
}

int64_t draw_length(int64_t most, int64_t b)
{
    static const int64_t sixteenths[] = {16, 3, 8, 1, 12, 5, 2, 10};
    return (most * sixteenths[b % 8] + 15) / 16;
}

/* Lengths of which one is `most`, one in four is 0, and the others are random. */
static int draw_starts(const struct draw *w, int64_t most, struct chance *c, struct drawn *d, enum array_id list)
{
    int64_t *starts = keep(d, list, w->batch + 1, sizeof *starts), longest = w->batch > 0 ? below(c, w->batch) : 0;
    if (!starts)
        return -1;
    starts[0] = 0;
    for (int64_t b = 0; b < w->batch; b++) {
        int64_t len = one_in(c, 4) ? 0 : below(c, most + 1);
        starts[b + 1] = starts[b] + (w->typical ? draw_length(most, b) : b == longest ? most : len);
    }
    return 0;
}

/* One side in four has no starts; for paged keys the lengths say everything. */
static int draw_packed(const struct variant *v, const struct draw *w, struct chance *c, struct drawn *d)
{
    bool no_q = !w->typical && !v->field[F_PAGED] && one_in(c, 4), no_kv = !w->typical && !no_q && one_in(c, 4);
    int result = 0;
    if (!no_q) {
        result = draw_starts(w, w->q_len, c, d, ARRAY_Q_STARTS);
        const int64_t *starts = d->list[ARRAY_Q_STARTS].data;
        d->q_count[0] = 1;
        d->q_count[2] = result == 0 ? starts[w->batch] : 0;
    }
    if (!no_kv && !v->field[F_PAGED] && result == 0) {
        result = draw_starts(w, w->kv_len, c, d, ARRAY_KV_STARTS);
        const int64_t *starts = d->list[ARRAY_KV_STARTS].data;
        d->kv_count[0] = 1;
        d->kv_count[2] = result == 0 ? starts[w->batch] : 0;
    }
    return result;
}

static int64_t draw_page_size(const struct draw *w, struct chance *c)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 32, 64, 100, 128, 256};
    if (w->page_size > 0)
        return w->page_size;
    return w->typical ? TYPICAL_PAGE : sizes[below(c, sizeof sizes / sizeof *sizes)];
}

static void shuffle(int32_t *x, int64_t n, struct chance *c)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = below(c, i + 1);
        x[i] = x[at];
        x[at] = (int32_t)i;
    }
}

/* Every page belongs to a sequence, except for a few; now and then two sequences begin with the same page. Entries that
 * no key needs point far outside. */
static int draw_pages(const struct draw *w, struct chance *c, struct drawn *d)
{
    const int64_t size = draw_page_size(w, c), most = (w->kv_len + size - 1) / size;
    const int64_t stride = most + (w->typical ? 0 : below(c, 3)),
                  count = w->batch * most + (w->typical ? 0 : 1 + below(c, 3));
    int32_t *order = malloc((size_t)(count + 1) * sizeof *order);
    int32_t *pages = keep(d, ARRAY_BLOCK_TABLE, w->batch * stride, sizeof *pages);
    int64_t used = 0;
    if (!order || !pages) {
        free(order);
        return -1;
    }
    shuffle(order, count, c);
    for (int64_t b = 0; b < w->batch; b++) {
        int64_t keys = w->kv_lens ? w->kv_lens[b] : w->kv_len;
        for (int64_t p = 0; p < stride; p++)
            pages[b * stride + p] = p * size < keys ? order[used++] : one_in(c, 2) ? INT32_MAX : INT32_MIN;
        if (b > 0 && !w->typical && keys > 0 && pages[0] >= 0 && pages[0] < count && one_in(c, 4))
            pages[b * stride] = pages[0];
    }
    free(order);
    d->f.page_size = size;
    d->f.page_stride = stride;
    d->kv_count[0] = count;
    d->kv_count[2] = size;
    return 0;
}

/* ---- tables ---- */

static void draw_table(const struct draw *w, struct chance *c, struct drawn_table *t)
{
    const int64_t side[4] = {w->batch, w->heads, w->q_len, w->kv_len};
    int64_t count[4];
    for (int i = 0; i < 4; i++)
        count[i] = w->typical ? (i < 2 ? 1 : side[i]) : one_in(c, i < 2 ? 3 : 5) ? 1 : side[i];
    if (w->masked != MASKED_ANY) /* which speaks of rows and of keys */
        memcpy(count + 2, side + 2, 2 * sizeof *count);
    *t = (struct drawn_table){.step = 1};
    if (!w->typical && one_in(c, 6))
        t->transposed = true;
    else if (!w->typical && one_in(c, 6))
        t->step = 3;
    int64_t along = count[t->transposed ? 2 : 3];
    memcpy(t->count, count, sizeof t->count);
    if (t->transposed)
        t->count[2] = count[3];
    if (along == 1)
        t->step = 0;
    t->row = along > 0 ? (along - 1) * t->step + 1 : 0;
}

/* Scales are runs of one: shared along random sides, or typically one for each row of each head. */
static void draw_scales(const struct draw *w, struct chance *c, struct drawn *d, enum array_id id)
{
    struct drawn_table *t = &d->table[id];
    *t = (struct drawn_table){.row = 1, .step = 1};
    for (int i = 0; i < 3; i++)
        t->count[i] = !w->typical && one_in(c, 3) ? 1 : d->kv_count[i];
    if (w->even_scales) { /* those of another sequence are others; pages have no sequence */
        t->count[0] = d->f.page_size ? 1 : d->kv_count[0];
        t->count[1] = d->kv_count[1], t->count[2] = 1;
    }
}

static void put_table(const struct drawn_table *t, const int64_t stride[3], int64_t out[4])
{
    for (int i = 0; i < 2; i++)
        out[i] = t->count[i] > 1 ? stride[i] : 0;
    out[t->transposed ? 3 : 2] = t->count[2] > 1 ? stride[2] : 0;
    out[t->transposed ? 2 : 3] = t->step;
}

void drawn_put_table(struct drawn *d, enum array_id id, const void *at, const int64_t stride[3])
{
    array_set_pointer(&d->f, arrays[id].kernel.at, at);
    if (arrays[id].of_kv) {
        int64_t *out = (int64_t *)(void *)((char *)&d->f + arrays[id].kernel_stride.at);
        for (int i = 0; i < 3; i++)
            out[i] = d->table[id].count[i] > 1 ? stride[i] : 0;
        return;
    }
    put_table(&d->table[id], stride, (int64_t *)(void *)((char *)&d->f + arrays[id].kernel_stride.at));
}

struct element {
    int64_t b, h, i, j, keys;
};

/* Whether an element excludes its key, the same for all that share the element. If keys or rows share it, few elements
 * do, or nothing would be left. */
static bool is_masked(const struct drawn *d, int64_t at, int64_t row, const struct element *e)
{
    uint64_t kind = mix(d->seed, 1, 2) % 4;
    switch (d->masked) {
    case MASKED_NONE: return false;
    case MASKED_FIRST: return e->j < e->keys / 2;
    case MASKED_ROWS: return e->i % 2 == 0;
    case MASKED_ALL: return true;
    case MASKED_ANY: break;
    }
    if (kind != 0 && mix(d->seed, row, 4) % 5 == 0)
        return kind > 1; /* the whole row */
    return kind > 0 && mix(d->seed, at, 5) % (kind > 2 ? 2 : 6) == 0;
}

static int64_t at_of(const int64_t stride[4], const struct element *e, int64_t *row)
{
    *row = e->b * stride[0] + e->h * stride[1] + e->i * stride[2];
    return *row + e->j * stride[3];
}

static void fill_bias(const struct drawn *d, enum dtype type, const struct element *e)
{
    int64_t row, at = at_of(d->f.bias_stride, e, &row);
    uint64_t state = mix(d->seed, at, 6);
    bool masked = is_masked(d, at, row, e);
    dtype_store(type, (void *)(uintptr_t)d->f.bias, at, masked ? -INFINITY : 2 * random_normal(&state));
}

static void fill_mask(const struct drawn *d, const struct element *e)
{
    int64_t row, at = at_of(d->f.mask_stride, e, &row);
    ((uint8_t *)(uintptr_t)d->f.mask)[at] = !is_masked(d, ~at, ~row, e);
}

/* Some are negative, some are 0, and some are a hundred times as large as others; none is a number of few digits, which 16 bits
 * would hold. In some neighbourhoods all are smaller, so that the largest of a tile is not that of the next, and in a few all
 * are 0, as in a cache that nobody has written to. All go with values that are drawn 48 times too large. */
static float scale_at(const struct drawn *d, int64_t at)
{
    uint64_t state = mix(d->seed, at, 7);
    const float scale = (0.5f + 0x1p-20f * (float)random_below(&state, 1 << 20)) / 48;
    uint64_t near = mix(d->seed, at >> (5 + d->seed % 3), 8); /* of 32 to 128 */
    const float here = random_below(&near, 3) ? scale : scale / 16;
    if (d->typical)
        return scale;
    if (random_below(&near, 16) == 0 || random_below(&state, 40) == 0)
        return 0;
    return random_below(&state, 6) ? here : random_below(&state, 2) ? -here : here / 100;
}

static void fill_scales(const struct drawn *d, const struct variant *v, const struct attn_args *args)
{
    const struct attn_features *f = &d->f;
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t g = 0; g < args->kv_heads; g++)
            for (int64_t j = 0; j < reference_length(v, args, b); j++) {
                const int64_t k = reference_key_at(v, args, f->k_scales_stride, b, g, j);
                const int64_t value = reference_key_at(v, args, f->v_scales_stride, b, g, j);
                ((float *)(uintptr_t)f->k_scales)[k] = scale_at(d, k);
                ((float *)(uintptr_t)f->v_scales)[value] = scale_at(d, ~value) * d->value_scale;
            }
}

void drawn_fill(const struct drawn *d, const struct variant *v, const struct attn_args *args)
{
    if (d->table[ARRAY_K_SCALES].row)
        fill_scales(d, v, args);
    const struct drawn_table *bias = &d->table[ARRAY_BIAS], *mask = &d->table[ARRAY_MASK];
    int64_t heads = bias->count[1] > 1 || mask->count[1] > 1 ? args->heads : args->heads > 0;
    if (!bias->row && !mask->row)
        return;
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < reference_queries(v, args, b); i++) {
                struct keys keys = reference_keys(v, args, b, i);
                for (int64_t j = keys.from; j < keys.to; j++) {
                    const struct element e = {b, h, i, j, args->kv_len};
                    if (bias->row)
                        fill_bias(d, variant_dtype_bias(v), &e);
                    if (mask->row)
                        fill_mask(d, &e);
                }
            }
}

/* ---- all ---- */

int draw_features(const struct variant *v, const struct draw *w, uint64_t seed, struct drawn *out)
{
    static const float caps[] = {0.5f, 2, 15, 30, 50, 1000};
    int result = 0;
    seed = mix(seed, w->q_len * 1024 + w->batch, w->kv_len * 1024 + w->heads); /* one seed may serve many problems */
    struct chance c = {mix(seed, 0, 0)};
    *out = (struct drawn){.masked = w->masked,
                          .typical = w->typical,
                          .value_scale = w->value_scale != 0 ? w->value_scale : 1,
                          .seed = seed,
                          .q_count = {w->batch, w->heads, w->q_len},
                          .kv_count = {w->batch, w->kv_heads, w->kv_len}};
    if (v->field[F_WINDOW]) {
        draw_window(v, out->f.window);
        for (int i = 0; i < 2 && (!w->typical || w->fixed_window); i++)
            out->f.window[i] = w->fixed_window ? w->window[i] : draw_bound(&c, w->kv_len);
    }
    if (v->field[F_SOFTCAP])
        out->f.softcap = w->softcap != 0 ? w->softcap : w->typical ? 50 : caps[below(&c, sizeof caps / sizeof *caps)];
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        enum array_random random = array_of_variant(id, v) ? arrays[id].random : NO_RANDOM;
        if (random == RANDOM_BIAS || random == RANDOM_MASK)
            draw_table(w, &c, &out->table[id]);
        else if (random == RANDOM_SLOPES || random == RANDOM_LOGITS)
            result |= draw_heads(w, &c, id, out);
    }
    if (v->field[F_PACKED])
        result |= draw_packed(v, w, &c, out);
    if (v->field[F_PAGED])
        result |= draw_pages(w, &c, out);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (array_of_variant(id, v) && arrays[id].random == RANDOM_SCALES)
            draw_scales(w, &c, out, id);
    if (result != 0)
        drawn_free(out);
    return result;
}

void drawn_free(struct drawn *d)
{
    if (!d)
        return;
    for (int i = 0; i < ARRAYS; i++) {
        free(d->list[i].data);
        d->list[i].data = NULL;
        d->list[i].size = 0;
    }
}

void drawn_put(struct drawn *d, enum array_id id, void *at)
{
    size_t size = d->list[id].size;
    if (size)
        memcpy(at, d->list[id].data, size);
    array_set_pointer(&d->f, arrays[id].kernel.at, size ? at : NULL);
}
