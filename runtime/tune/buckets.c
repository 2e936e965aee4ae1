/* buckets.c - how a tuning is found: the problem, rounded so that similar ones share a winner, and the key of
 * everything that timings depend on. What it is not: the files that the key names (cache/). */
#include <stdio.h>
#include <string.h>

#include "tune.h"

enum { FORMAT = 2 };

static int64_t power_of_two(int64_t x)
{
    int64_t p = 1;
    while (p < x && p <= INT64_MAX / 2)
        p *= 2;
    return p;
}

/* A few queries count as they are: with the heads that share a KV head they make rows, and the kernel that is the fastest for
 * 16 of them takes 1.4 times as long for 12 as another one does. */
static int64_t round_queries(int64_t n)
{
    return n < FEW_ROWS / HEADS_A_THREAD ? n : power_of_two(n);
}

/* As many keys as a power of two holds, spread as draw_window spreads them. */
static void round_window(struct tune_target *t)
{
    int64_t *w = t->window;
    const int64_t most = INT64_MAX / 8;
    if (!t->caller.field[F_WINDOW])
        w[0] = w[1] = 0;
    if (t->caller.field[F_CAUSAL] && (w[0] || w[1]))
        w[1] = 0; /* whatever follows about keys */
    if (t->caller.field[F_CAUSAL] && w[0] < 0)
        w[1] = -1;
    if (!target_knows_window(t))
        return;
    for (int i = 0; i < 2; i++)
        w[i] = w[i] < 0 || w[i] > most ? -1 : w[i];
    if (w[0] < 0 || w[1] < 0) {
        for (int i = 0; i < 2; i++)
            w[i] = w[i] < 0 ? -1 : power_of_two(w[i] + 1) - 1;
        return;
    }
    const int64_t all = power_of_two(w[0] + w[1] + 1);
    const int64_t behind = w[1] == 0 ? 0 : w[0] == 0 ? all - 1 : all - 1 - all / 2;
    w[0] = all - 1 - behind;
    w[1] = behind;
}

/* Of narrow keys and values: as lengths really are, since a bucket holds fewer sequences and heads. */
static bool is_large(const struct tune_target *t)
{
    const double bytes = variant_has_blocks(&t->caller) ? 4 : 2; /* numbers of blocks may become two */
    const double row = bytes * (variant_head_dim(&t->caller) + variant_head_dim_v(&t->caller));
    return variant_is_narrow(&t->caller) && row * (double)t->batch * t->kv_heads * (double)t->kv_len > TARGET_WIDENED * 0x1p20;
}

void tune_bucket(struct tune_target *t)
{
    round_window(t);
    t->lean = t->lean || is_large(t); /* of a target that was rounded before, too */
    t->threads = t->threads < 1 ? 1 : t->threads;
    t->q_len = round_queries(t->q_len);
    t->kv_len = power_of_two(t->kv_len);
    int most = target_most_heads(t);
    int group = target_group(t);
    if (t->heads > most) {
        group = group > most ? most : group;
        t->kv_heads = most / group;
        t->heads = t->kv_heads * group;
    }
    const int64_t sequences = target_most_sequences(t);
    if (t->batch > sequences)
        t->batch = sequences;
    if (t->batch < 1)
        t->batch = 1;
}

int tune_threads(const struct device *device, int threads)
{
    return device->units ? device->units : threads;
}

static int make_key(const struct device *device, const struct tune_target *t, bool formerly, struct buf *out, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    struct variant caller = t->caller; /* in the one form that each choice of types has */
    variant_set_dtypes(&caller, (enum dtype)caller.field[F_DTYPE], variant_dtype_kv(&caller), variant_dtype_o(&caller));
    variant_encode(&caller, name);
    char *on = strstr(name, "_on_");
    if (on)
        *on = 0;
    buf_printf(out, "format %d\n", FORMAT);
    buf_printf(out, "generator %016llx\n", (unsigned long long)gen_hash());
    if (formerly)
        buf_puts(out, device->formerly);
    else if (device->backend->key(device, t->threads, out, err) != 0)
        return -1;
    buf_printf(out, "problem %s\n", name);
    buf_printf(out, "bucket %lld,%d,%d,%lld,%lld\n", (long long)t->batch, t->heads, t->kv_heads, (long long)t->q_len,
               (long long)t->kv_len);
    if (caller.field[F_WINDOW] && target_knows_window(t))
        buf_printf(out, "window %lld,%lld\n", (long long)t->window[0], (long long)t->window[1]);
    else if (caller.field[F_WINDOW]) /* one of them stands for all */
        buf_printf(out, "window %d\n", TYPICAL_WINDOW);
    if (caller.field[F_PACKED]) /* the length of each sequence does not matter either */
        buf_printf(out, "lengths ragged\n");
    if (t->lean)
        buf_printf(out, "lean\n");
    if (caller.field[F_PAGED])
        buf_printf(out, "page %d\n", TYPICAL_PAGE);
    if (buf_ok(out))
        return 0;
    return gen_out_of_memory(err, "tune");
}

int tune_key(const struct device *device, const struct tune_target *t, struct buf *out, struct gen_error *err)
{
    return make_key(device, t, false, out, err);
}

int tune_former_key(const struct device *device, const struct tune_target *t, struct buf *out, struct gen_error *err)
{
    return make_key(device, t, true, out, err);
}
