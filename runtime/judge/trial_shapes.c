/* trial_shapes.c - the problems: those of trial.h that are known to break kernels, and random ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gen/invariant.h"
#include "trial.h"

void trial_describe(const struct trial_shape *s, char *out, size_t size)
{
    static const char *const layouts[] = {"bhsd", "bshd", "padded", "sparse"};
    char scale[40] = "", outlier[40] = "";
    if (s->scale != 0)
        snprintf(scale, sizeof scale, ", scale %g", (double)s->scale);
    if (s->outlier != 0)
        snprintf(outlier, sizeof outlier, ", columns %g times others", (double)s->outlier);
    snprintf(out, size, "%s: %lld,%lld,%lld,%lld,%lld %s offset %lld from %s%s%s%s%s%s%s%s%s%s%s%s", s->what,
             (long long)s->batch, (long long)s->heads, (long long)s->kv_heads, (long long)s->q_len,
             (long long)s->kv_len, layouts[s->layout], (long long)s->offset,
             s->top_left ? "the top left" : "the bottom right", s->mixed_lens ? ", lengths differ" : "",
             s->no_lse ? ", no LSE" : "",
             s->shifted ? ", shifted" : "", s->odd_rest ? ", the rest shifted" : "", s->front ? ", at the front" : "",
             s->nan_query ? ", a NaN query" : "", s->nan_value ? ", a NaN value" : "", s->v_in_k ? ", V in K" : "",
             s->denormal ? ", denormals" : "", scale, outlier);
}

/* What a problem tests. */
enum { PLAIN, NARROW, OPEN, SPLIT, SLICES, TABLES, WINDOWS, SINKS, PACKED, PAGED };
static bool has(const struct variant *v, int feature)
{
    switch (feature) {
    case NARROW: return variant_is_narrow(v) && isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_C;
    case OPEN: return !v->field[F_CAUSAL] && !v->field[F_WINDOW] && !v->field[F_BIAS] && !v->field[F_MASK];
    case SPLIT: return v->field[F_SPLIT] > 0;
    case SLICES: return v->field[F_SPLIT] > 0 && isa_language((enum isa)v->field[F_ISA]) != LANGUAGE_C;
    case TABLES: return v->field[F_BIAS] || v->field[F_MASK];
    case WINDOWS: return v->field[F_WINDOW];
    case SINKS: return v->field[F_SINK];
    case PACKED: return v->field[F_PACKED];
    case PAGED: return v->field[F_PAGED];
    default: return true;
    }
}

int trial_shapes(const struct variant *v, struct trial_shape out[TRIAL_SHAPES])
{
    const int64_t bq = v->field[F_TILE_Q], bk = v->field[F_TILE_K];
    const int64_t far = v->field[F_ALIBI] ? 1000 : (int64_t)1 << 40; /* distances are scores */
    const int64_t split = invariant_is_one_split(v) ? 5 * bk : v->field[F_SPLIT];
    const float root = sqrtf((float)variant_head_dim(v));
    const float large = 60 / root, huge = 2500 / root; /* exp overflows without the maximum */
    /* The first has no LSE, since the bound of a single row with a single key is luck (see workload_awkward). */
    const struct {
        int needs;
        struct trial_shape shape;
    } all[] = {
        {PLAIN, {"one", 1, 1, 1, 1, 1, .no_lse = true}},
        {PLAIN, {"a tile", 1, 1, 1, bq, bk, .shifted = true}},
        {PLAIN, {"a tile and one", 1, 1, 1, bq + 1, bk + 1, .layout = TRIAL_PADDED}},
        {PLAIN, {"a tile less one", 1, 1, 1, bq > 1 ? bq - 1 : 1, bk > 1 ? bk - 1 : 1, .front = true}},
        {PLAIN, {"two tiles and a prime", 1, 1, 1, 2 * bq + 3, 2 * bk + 7, .top_left = true}},
        {PLAIN, {"groups of three", 2, 6, 2, 7, 13, .layout = TRIAL_BSHD, .mixed_lens = true}},
        {PLAIN, {"all heads on one", 1, 5, 1, 19, 61, .layout = TRIAL_PADDED, .shifted = true}},
        {PLAIN, {"decoding", 2, 4, 2, 1, 2 * bk + 5, .layout = TRIAL_BSHD}},
        {PLAIN, {"more queries than keys", 1, 2, 1, bq + 3, 5, .layout = TRIAL_BHSD}},
        {PLAIN, {"no keys", 2, 2, 2, 3, 0, .front = true}},
        {PLAIN, {"no queries", 1, 1, 1, 0, 5, .layout = TRIAL_BHSD}},
        {PLAIN, {"no sequences", 0, 1, 1, 4, 4, .layout = TRIAL_BHSD}},
        {PLAIN, {"top left", 1, 1, 1, 37, 53, .top_left = true, .no_lse = true}},
        {PLAIN, {"a cache's position", 1, 2, 2, 11, 101, .offset = 83, .top_left = true}},
        {PLAIN, {"a negative position", 1, 1, 1, 41, 43, .offset = -17, .top_left = true}},
        {PLAIN, {"an offset from the end", 3, 2, 1, 9, 31, .offset = -2, .mixed_lens = true, .layout = TRIAL_PADDED}},
        {PLAIN, {"far after", 1, 1, 1, 5, 23, .offset = far}},
        {PLAIN, {"far before", 1, 1, 1, 5, 23, .offset = -far}},
        {PLAIN, {"rows far apart", 2, 2, 1, 3, 5, .layout = TRIAL_SPARSE, .mixed_lens = true, .draw.page_size = 2}},
        {PLAIN, {"many sequences", 8, 2, 2, 17, bk + 2, .layout = TRIAL_BSHD, .mixed_lens = true}},
        {SPLIT, {"few queries, long keys", 2, 6, 2, 3, 2 * split + bk + 5, .layout = TRIAL_BSHD, .mixed_lens = true}},
        {SPLIT, {"one query, split", 1, 4, 1, 1, 3 * split, .shifted = true}},
        {SLICES, {"a split and one", 1, 8, 1, 2, split + 1, .top_left = true, .offset = split - 1}},
        {SLICES, {"sixteen of eight heads", 1, 8, 1, 16, split + 3, .layout = TRIAL_PADDED}},
        {SLICES, {"tiles of rows, split", 1, 2, 2, bq + 7, split + 9, .no_lse = true}},
        {PLAIN, {"large scores", 1, 1, 1, 29, 97, .scale = large}},
        {PLAIN, {"scores of 1e4", 1, 1, 1, 29, 97, .scale = huge}},
        {NARROW, {"columns that stand out", 1, 2, 1, bq + 3, 2 * bk + 5, .outlier = 16}},
        {NARROW, {"columns that stand out by far", 1, 4, 1, 1, 2 * bk + 9, .outlier = 64, .no_lse = true}},
        {NARROW, {"columns that keys do not have", 2, 4, 2, 5, bk + 7, .outlier = 0x1p30f, .layout = TRIAL_PADDED}},
        {PLAIN, {"a NaN in a query", 1, 2, 2, 31, 47, .nan_query = true}},
        {OPEN, {"a NaN in a value", 1, 4, 1, 1, 2 * bk + 5, .nan_value = true}},
        {PLAIN, {"negative scale", 1, 1, 1, 3, 67, .scale = -0.5f, .top_left = true}},
        {PLAIN, {"V in K", 2, 2, 1, 13, 29, .v_in_k = true, .mixed_lens = true, .layout = TRIAL_PADDED}},
        {PLAIN, {"denormals", 1, 1, 1, 17, 41, .denormal = true}},
        {PLAIN,
         {"infinities in padding", 3, 1, 1, 11, 37, .infinite = true, .mixed_lens = true, .layout = TRIAL_PADDED}},
        {TABLES, {"a first tile masked", 1, 2, 1, 11, 2 * bk + 9, .draw.masked = MASKED_FIRST}},
        {TABLES, {"rows masked", 2, 2, 2, 23, 31, .draw.masked = MASKED_ROWS, .mixed_lens = true}},
        {TABLES, {"all masked", 1, 2, 1, 9, bk + 1, .draw.masked = MASKED_ALL}},
        {TABLES, {"shared tables", 2, 3, 1, 13, 2 * bk + 1, .layout = TRIAL_BSHD}},
        {TABLES,
         {"tables far apart", 2, 2, 2, 3, 7, .layout = TRIAL_SPARSE, .draw.masked = MASKED_NONE, .draw.page_size = 3}},
        {WINDOWS, {"a first tile outside", 1, 1, 1, 7, 2 * bk + 11, .draw = {.fixed_window = true, .window = {3, 2}}}},
        {WINDOWS, {"a window over tiles", 1, 1, 1, bq + 5, 3 * bk, .draw = {.fixed_window = true, .window = {bk, bk}}}},
        {WINDOWS,
         {"windows beside the keys", 2, 1, 1, 21, 13, .offset = 6, .top_left = true, .mixed_lens = true,
          .draw = {.fixed_window = true, .window = {4, 0}}}},
        {SINKS, {"a large sink", 2, 3, 1, 5, 19, .mixed_lens = true, .draw.sink = 90}},
        {PACKED, {"more sequences than a warp has lanes", 70, 2, 1, 9, bk / 2 + 3, .layout = TRIAL_BSHD}},
        {PACKED, {"two tiles and other sequences", 3, 2, 2, bq + 70, 2 * bk + 5, .layout = TRIAL_BSHD}},
        {PAGED, {"pages of one key", 2, 2, 1, 5, bk + 3, .mixed_lens = true, .draw.page_size = 1}},
        {PAGED, {"pages of sixteen keys", 2, 4, 2, 1, 5 * bk + 3, .mixed_lens = true, .draw.page_size = 16}},
        {PAGED, {"pages of 48 keys", 1, 3, 1, 2, 6 * bk, .layout = TRIAL_BSHD, .draw.page_size = 48}},
        {PAGED, {"pages of a tile and one", 1, 2, 1, 3, 2 * bk + 3, .layout = TRIAL_BSHD, .draw.page_size = bk + 1}},
    };
    int n = 0;
    _Static_assert(sizeof all / sizeof *all <= TRIAL_SHAPES, "room");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (has(v, all[i].needs))
            out[n++] = all[i].shape;
    return n;
}

/* Mostly short, now and then about as long as tiles are. */
static int64_t random_length(uint64_t *state)
{
    switch (random_below(state, 8)) {
    case 0: return random_below(state, 3);
    case 1: return ((int64_t)16 << random_below(state, 5)) - 1 + random_below(state, 3);
    case 2: return 1 + random_below(state, 400);
    default: return 1 + random_below(state, 70);
    }
}

void trial_random(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    int64_t kv_heads = 1 + random_below(state, 3), group = 1 + random_below(state, 3);
    *out = (struct trial_shape){.what = "by chance",
                                .batch = 1 + random_below(state, 3),
                                .heads = kv_heads * group,
                                .kv_heads = kv_heads,
                                .q_len = random_length(state),
                                .kv_len = random_length(state)};
    out->layout = random_below(state, 12) == 0 ? TRIAL_SPARSE : (enum fenced_layout)random_below(state, 3);
    if (out->layout == TRIAL_SPARSE) { /* at least one page of memory for each row */
        out->q_len %= 20;
        out->kv_len %= 40;
        out->draw.page_size = 1 + random_below(state, 4);
    }
    out->mixed_lens = random_below(state, 2);
    out->top_left = random_below(state, 3) == 0;
    if (random_below(state, 3) == 0)
        out->offset = random_below(state, out->kv_len + out->q_len + 9) - out->q_len - 4;
    out->no_lse = random_below(state, 6) == 0;
    out->shifted = random_below(state, 3) == 0;
    out->front = random_below(state, 3) == 0;
    out->nan_query = random_below(state, 16) == 0;
    out->v_in_k = random_below(state, 10) == 0;
    out->denormal = random_below(state, 10) == 0 && variant_head_dim_v(v) >= 8; /* of few all may be, and bf16 may read them as 0 */
    out->infinite = random_below(state, 4) == 0;
    out->draw.even_scales = variant_is_narrow(v) && random_below(state, 4) == 0;
    float root = sqrtf((float)variant_head_dim(v));
    if (has(v, NARROW) && random_below(state, 4) == 0)
        out->outlier = random_below(state, 4) ? (float)(4 << random_below(state, 5)) : 0x1p30f;
    if (random_below(state, 4) == 0) /* scores of up to 1e4 */
        out->scale = (random_below(state, 2) ? 1 : -1) * exp2f((float)random_below(state, 12)) / root;
    out->odd_rest = random_below(state, 2);
}
