/* features.c - what a run says of its plan's features: that it says so exactly when the plan has them, and that
 * tables, starts and pages lie within what they index. What it is not: what a feature computes (attn.h says it). */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "numerics/convert.h"
#include "run.h"

static void set_what(const char *name, const char *feature, const void *data, bool needed, size_t element,
                     struct table *t)
{
    t->name = name;
    t->feature = feature;
    t->data = data;
    t->needed = needed;
    t->element = (int64_t)element;
}

/* [batch, heads, q_len, kv_len] */
static void set_scores(const struct attn_run *r, int64_t heads, const int64_t stride[4], struct table *t)
{
    const int64_t extent[4] = {r->batch, heads, r->q_len, r->kv_len};
    memcpy(t->extent, extent, sizeof extent);
    memcpy(t->stride, stride, sizeof t->stride);
}

static void set_rows(int64_t rows, int64_t stride, int64_t n, struct table *t)
{
    t->extent[0] = t->extent[1] = 1;
    t->extent[2] = rows;
    t->extent[3] = n;
    t->stride[0] = t->stride[1] = 0;
    t->stride[2] = stride;
    t->stride[3] = 1;
}

void tables_of(const struct attn_plan *plan, const struct attn_run *r, struct table t[TABLES])
{
    const struct attn_problem *p = &plan->problem;
    const int64_t heads = p->heads, starts = r->batch + 1;
    const int64_t pages = r->page_size > 0 && r->kv_len > 0 ? (r->kv_len - 1) / r->page_size + 1 : 0;
    bool rows = r->batch > 0 && r->q_len > 0, scores = rows && r->kv_len > 0; /* there are some */
    size_t bias = p->bias ? dtype_size((enum dtype)(p->bias - 1)) : 1;
    set_what("bias", "bias", r->bias, p->bias && scores, bias, &t[BIAS_TABLE]);
    set_what("mask", "mask", r->mask, p->mask && scores, 1, &t[MASK_TABLE]);
    set_what("alibi_slopes", "alibi", r->alibi_slopes, p->alibi && rows, sizeof(float), &t[SLOPES_TABLE]);
    set_what("sinks", "sink", r->sinks, p->sink && rows, sizeof(float), &t[SINKS_TABLE]);
    set_what("q_starts", "packed", r->q_starts, false, sizeof(int64_t), &t[Q_STARTS_TABLE]); /* one of the two is */
    set_what("kv_starts", "packed", r->kv_starts, false, sizeof(int64_t), &t[KV_STARTS_TABLE]);
    set_what("block_table", "paged", r->block_table, p->paged && scores, sizeof(int32_t), &t[BLOCK_TABLE]);
    set_scores(r, heads, r->bias_stride, &t[BIAS_TABLE]);
    set_scores(r, heads, r->mask_stride, &t[MASK_TABLE]);
    set_rows(1, 0, heads, &t[SLOPES_TABLE]);
    set_rows(1, 0, heads, &t[SINKS_TABLE]);
    set_rows(1, 0, starts, &t[Q_STARTS_TABLE]);
    set_rows(1, 0, starts, &t[KV_STARTS_TABLE]);
    set_rows(r->batch, r->block_table_stride, pages, &t[BLOCK_TABLE]);
}

/* Whether a run of features that the plan does not have says nothing of them; else the first that it names. */
static attn_status check_absent(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err)
{
    static const int64_t none[4];
    const struct attn_problem *p = &plan->problem;
    const struct {
        const char *field, *feature, *expected;
        bool has, given;
    } all[] = {
        {"window_left", "window", "0", p->window, r->window_left != 0},
        {"window_right", "window", "0", p->window, r->window_right != 0},
        {"softcap", "softcap", "0", p->softcap, r->softcap != 0},
        {"bias", "bias", "NULL", p->bias, r->bias},
        {"bias_stride", "bias", "zeros", p->bias, memcmp(r->bias_stride, none, sizeof none) != 0},
        {"mask", "mask", "NULL", p->mask, r->mask},
        {"mask_stride", "mask", "zeros", p->mask, memcmp(r->mask_stride, none, sizeof none) != 0},
        {"alibi_slopes", "alibi", "NULL", p->alibi, r->alibi_slopes},
        {"sinks", "sink", "NULL", p->sink, r->sinks},
        {"q_starts", "packed", "NULL", p->packed, r->q_starts},
        {"kv_starts", "packed", "NULL", p->packed, r->kv_starts},
        {"block_table", "paged", "NULL", p->paged, r->block_table},
        {"block_table_stride", "paged", "0", p->paged, r->block_table_stride != 0},
        {"page_size", "paged", "0", p->paged, r->page_size != 0},
        {"pages", "paged", "0", p->paged, r->pages != 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !all[i].has)
            return status_fail(err, ATTN_INVALID, "%s is given; expected %s, or a plan with %s", all[i].field,
                               all[i].expected, all[i].feature);
    return ATTN_OK;
}

/* No feature, and nothing said of one: how most runs are, and what must cost them little. */
static bool says_nothing(const struct attn_run *r)
{
    static const unsigned char nothing[sizeof *r - offsetof(struct attn_run, window_left)];
    return memcmp(&r->window_left, nothing, sizeof nothing) == 0;
}

static attn_status check_numbers(const struct attn_problem *p, const struct attn_run *r, struct attn_error *err)
{
    const struct {
        const char *name;
        int64_t value;
    } windows[] = {{"window_left", r->window_left}, {"window_right", r->window_right}};
    for (int i = 0; p->window && i < 2; i++)
        if (windows[i].value < -1)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected how many keys, or -1 for no bound",
                               windows[i].name, (long long)windows[i].value);
    if (p->softcap && !(r->softcap > 0 && isfinite(r->softcap)))
        return status_fail(err, ATTN_INVALID, "softcap is %g; expected a finite number above 0", (double)r->softcap);
    if (p->paged && r->page_size < 1)
        return status_fail(err, ATTN_INVALID, "page_size is %lld; expected at least 1, the rows of a page",
                           (long long)r->page_size);
    if (p->paged && r->pages < 0)
        return status_fail(err, ATTN_INVALID, "pages is %lld; expected at least 0, how many K and V have",
                           (long long)r->pages);
    if (r->kv_starts && r->kv_lens)
        return status_fail(err, ATTN_INVALID, "kv_lens and kv_starts are given; expected one of them");
    return ATTN_OK;
}

/* That no index of it overflows when counted in bytes. */
static attn_status check_reach(const struct table *t, struct attn_error *err)
{
    static const char *const sides[4] = {"batch", "head", "query", "key"};
    int64_t room = INT64_MAX / t->element - 1;
    for (int i = 0; i < 4; i++)
        if (t->extent[i] == 0)
            return ATTN_OK;
    for (int i = 0; i < 4; i++) {
        if (takes_room(&room, t->extent[i], t->stride[i]))
            continue;
        bool named = t->extent[0] > 1 || t->extent[1] > 1 || i < 2;
        return status_fail(err, ATTN_INVALID, "%s_stride%s%s is %lld; expected a tensor of less than 2^63 bytes",
                           t->name, named ? " of " : "", named ? sides[i] : "", (long long)t->stride[i]);
    }
    return ATTN_OK;
}

/* The window's ends from where query 0 really stands, then as seen from where the clamped offset puts it. */
static void read_window(const struct attn_run *r, int64_t offset, int64_t window[2])
{
    int64_t at = r->align == ATTN_Q_OFFSET ? r->q_offset : 0, low, high;
    if (r->window_left < 0 || __builtin_sub_overflow(at, r->window_left, &low))
        low = INT64_MIN;
    if (r->window_right < 0 || __builtin_add_overflow(at, r->window_right, &high))
        high = INT64_MAX;
    window[0] = low < -2 * RUN_FAR ? -1 : low < offset ? offset - low : 0;
    window[1] = high > 2 * RUN_FAR ? -1 : high > offset ? high - offset : 0;
}

attn_status read_features(const struct attn_plan *plan, const struct attn_run *r, int64_t offset,
                          struct attn_features *f, struct attn_error *err)
{
    const struct attn_problem *p = &plan->problem;
    if (!plan->has_features && says_nothing(r))
        return ATTN_OK;
    attn_status status = check_absent(plan, r, err);
    if (status == ATTN_OK)
        status = check_numbers(p, r, err);
    if (status != ATTN_OK || !plan->has_features)
        return status;
    struct table t[TABLES];
    tables_of(plan, r, t);
    for (int i = 0; i < TABLES && status == ATTN_OK; i++)
        if (t[i].needed)
            status = check_reach(&t[i], err);
    *f = (struct attn_features){
        .softcap = r->softcap,
        .bias = r->bias,
        .mask = r->mask,
        .slopes = r->alibi_slopes,
        .sinks = r->sinks,
        .q_starts = r->q_starts,
        .kv_starts = r->kv_starts,
        .pages = r->block_table,
        .page_stride = r->block_table_stride,
        .page_size = r->page_size,
    };
    read_window(r, offset, f->window);
    if (p->causal)
        f->window[1] = 0;
    memcpy(f->bias_stride, r->bias_stride, sizeof f->bias_stride);
    memcpy(f->mask_stride, r->mask_stride, sizeof f->mask_stride);
    return status;
}

attn_status check_presence(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err)
{
    struct table t[TABLES];
    tables_of(plan, r, t);
    for (int i = 0; i < TABLES; i++)
        if (t[i].needed && !t[i].data)
            return status_fail(err, ATTN_INVALID, "%s is NULL; expected the array, since the plan has %s", t[i].name,
                               t[i].feature);
    if (plan->problem.packed && r->batch > 0 && r->q_len > 0 && !r->q_starts && !r->kv_starts)
        return status_fail(err, ATTN_INVALID,
                           "q_starts and kv_starts are NULL; expected one of them or both, since the plan is packed");
    return ATTN_OK;
}

/* ---- what pointers point to ---- */

/* From 0 on, not falling, and no sequence longer than the run says; *rows becomes where the last one ends. */
static attn_status check_starts(const char *name, const int64_t *starts, int64_t batch, const char *longest,
                                int64_t most, int64_t *rows, struct attn_error *err)
{
    if (!starts)
        return ATTN_OK;
    if (starts[0] != 0)
        return status_fail(err, ATTN_INVALID, "%s[0] is %lld; expected 0", name, (long long)starts[0]);
    for (int64_t b = 0; b < batch; b++) /* within the plan's maxima, so that no sum overflows */
        if (starts[b + 1] < starts[b] || starts[b + 1] > starts[b] + most)
            return status_fail(err, ATTN_INVALID,
                               "%s[%lld] is %lld; expected %lld..%lld, the one before and at most the run's %s more",
                               name, (long long)(b + 1), (long long)starts[b + 1], (long long)starts[b],
                               (long long)(starts[b] + most), longest);
    *rows = starts[batch];
    return ATTN_OK;
}

/* Keys of a sequence; lengths and starts were found to be good. */
static int64_t keys_of(const struct attn_run *r, int64_t b)
{
    if (r->kv_starts)
        return r->kv_starts[b + 1] - r->kv_starts[b];
    return r->kv_lens ? r->kv_lens[b] : r->kv_len;
}

static attn_status check_pages(const struct attn_run *r, struct attn_error *err)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int32_t *page = r->block_table + b * r->block_table_stride;
        for (int64_t i = 0; i * r->page_size < keys_of(r, b); i++)
            if (page[i] < 0 || page[i] >= r->pages)
                return status_fail(err, ATTN_INVALID,
                                   "block_table has %d for page %lld of sequence %lld; expected below %lld, the run's "
                                   "pages",
                                   page[i], (long long)i, (long long)b, (long long)r->pages);
    }
    return ATTN_OK;
}

attn_status check_features(const struct attn_plan *plan, const struct attn_run *r, struct rows *rows,
                           struct attn_error *err)
{
    struct table t[TABLES];
    attn_status status = ATTN_OK;
    tables_of(plan, r, t);
    for (int i = 0; i < TABLES && status == ATTN_OK; i++) {
        if ((uintptr_t)t[i].data % (uintptr_t)t[i].element != 0)
            status = status_fail(err, ATTN_INVALID,
                                 "%s is at an address that is no multiple of %lld; expected whole elements", t[i].name,
                                 (long long)t[i].element);
        else if (t[i].needed && t[i].data == r->o)
            status = status_fail(err, ATTN_INVALID, "o is at the address of %s; expected memory that no input is in",
                                 t[i].name);
    }
    if (status == ATTN_OK)
        status = check_starts("q_starts", r->q_starts, r->batch, "q_len", r->q_len, &rows->q, err);
    if (status == ATTN_OK)
        status = check_starts("kv_starts", r->kv_starts, r->batch, "kv_len", r->kv_len, &rows->kv, err);
    if (status == ATTN_OK && t[BLOCK_TABLE].needed)
        status = check_pages(r, err);
    return status;
}
