/* pairs.c - see pairs.h. Row i sees the keys from max(0, i + low) up to but not including min(length, i + high). Both
 * ends are straight lines that are cut off once, so their sums are those of arithmetic series. Everything is computed
 * in 128 bits, where no position or bound of 64 bits overflows. */
#include "pairs.h"

typedef __int128 wide;

static wide clamp(wide x, wide low, wide high)
{
    return x < low ? low : x > high ? high : x;
}

/* The sum of i + step over from <= i < to. */
static wide series(wide from, wide to, wide step)
{
    return from < to ? (to - from) * (from + step + to - 1 + step) / 2 : 0;
}

/* The rows from <= i < to that see any key, and the sum of the lengths of their intervals. */
struct rows {
    wide from, to, count;
};

/* low: the first key, read if has_low; high: one past the last key, read if has_high. Both for row 0. */
static struct rows count_rows(wide queries, wide length, bool has_low, wide low, bool has_high, wide high)
{
    struct rows r = {0, queries, 0};
    if (has_high)
        r.from = clamp(1 - high, 0, queries);
    if (has_low)
        r.to = clamp(length - low, r.from, queries);
    if (length == 0)
        r.to = r.from;
    const wide cut = has_high ? clamp(length - high, r.from, r.to) : r.from; /* from there on, rows see the last key */
    const wide free = has_low ? clamp(-low, r.from, r.to) : r.to;            /* up to there, rows see key 0 */
    r.count = series(r.from, cut, high) + (r.to - cut) * length - series(free, r.to, low);
    return r;
}

struct pairs pairs_of_sequence(const struct variant *v, const struct attn_args *a, int64_t b)
{
    const int64_t *window = v->field[F_WINDOW] ? a->features->window : NULL;
    const wide at = reference_position(v, a, b);
    const int64_t left = window ? window[0] : -1, right = v->field[F_CAUSAL] ? 0 : window ? window[1] : -1;
    const struct rows r = count_rows(reference_queries(v, a, b), reference_length(v, a, b), left >= 0, at - left,
                                     right >= 0, at + right + 1);
    struct pairs out = {.count = (double)r.count};
    if (r.from < r.to)
        out.seen = (struct keys){reference_keys(v, a, b, (int64_t)r.from).from,
                                 reference_keys(v, a, b, (int64_t)r.to - 1).to};
    return out;
}

bool pairs_are_even(const struct variant *v, const struct attn_args *a)
{
    const bool packed = v->field[F_PACKED] && (a->features->q_starts || a->features->kv_starts);
    return !a->kv_lens && !packed;
}
