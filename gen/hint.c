/* hint.c - see hint.h. */
#include "hint.h"

#include <stddef.h>
#include <string.h>

/* The insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[3][LONGEST + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (int j = 0; j <= n; j++)
        row[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *hint_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    int least = 2 * (2 + (int)strlen(word) / 3); /* farther is not a typing error */
    for (; *words; words++) {
        int d = distance(word, *words);
        if (d >= (int)strlen(*words))
            continue;
        d = 2 * d + (word[0] != (*words)[0]); /* of two at the same distance, the one with the same beginning */
        if (d < least) {
            least = d;
            best = *words;
        }
    }
    return best;
}

/* What users of other libraries look for in a spec. The words are theirs; the second column says where attngen has
 * it. */
static const struct {
    const char *key, *where;
} run_arguments[] = {
    {"heads", "attn_problem.heads, or --shape"},
    {"num_heads", "attn_problem.heads, or --shape"},
    {"kv_heads", "attn_problem.kv_heads, or --shape"},
    {"num_kv_heads", "attn_problem.kv_heads, or --shape"},
    {"batch", "attn_run.batch, or --shape"},
    {"batch_size", "attn_run.batch, or --shape"},
    {"q_len", "attn_run.q_len, or --shape"},
    {"kv_len", "attn_run.kv_len, or --shape"},
    {"seq_len", "attn_run.q_len and kv_len, or --shape"},
    {"seqlen", "attn_run.q_len and kv_len, or --shape"},
    {"kv_lens", "attn_run.kv_lens, or --kv-lens"},
    {"page_size", "attn_run.page_size, or the shape of K and V"},
    {"block_size", "attn_run.page_size, or the shape of K and V"},
    {"block_table", "attn_run.block_table, or --block-table"},
    {"window_left", "attn_run.window_left, or --window"},
    {"window_right", "attn_run.window_right, or --window"},
    {"window_size", "attn_run.window_left and window_right, or --window"},
    {"sliding_window", "attn_run.window_left and window_right, or --window"},
    {"scale", "attn_run.scale, or --scale"},
    {"softmax_scale", "attn_run.scale, or --scale"},
    {"q_offset", "attn_run.q_offset, or --q-offset"},
    {"align", "attn_run.align, or --causal=ALIGN"},
    {"layout", "attn_run's strides, or --layout"},
    {"strides", "attn_run.q_stride, k_stride, v_stride and o_stride"},
    {"threads", "attn_problem.threads, or --threads"},
    {"device", "attn_problem.device, or --device"},
};

const char *hint_run_argument(const char *key)
{
    for (size_t i = 0; i < sizeof run_arguments / sizeof *run_arguments; i++)
        if (!strcmp(key, run_arguments[i].key))
            return run_arguments[i].where;
    return NULL;
}

const char *hint_run_value(const char *key)
{
    static const struct {
        const char *key, *where;
    } values[] = {
        {"window", "each call gives the window's bounds (attn_run.window_left and window_right, or --window)"},
        {"softcap", "each call gives the cap (attn_run.softcap, or --softcap)"},
        {"alibi", "each call gives the slopes (attn_run.alibi_slopes, or --alibi)"},
        {"sink", "each call gives the logits (attn_run.sinks, or --sinks)"},
        {"mask", "each call gives the mask (attn_run.mask, or --mask)"},
        {"paged", "each call gives the pages' size and table (attn_run.page_size and block_table, or --block-table)"},
        {"packed",
         "each call gives the starts (attn_run.q_starts and kv_starts, or --cu-seqlens-q and --cu-seqlens-k)"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!strcmp(key, values[i].key))
            return values[i].where;
    return NULL;
}
