/* features.c - what a run says about its plan's features: that it does so exactly if the plan has them, and that
 * tables, starts and pages stay within what they index. What it is not: what a feature computes (attn.h). */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "run.h"
#include "system/status.h"

/* Fields of a feature that the plan does not have would be ignored. */
static attn_status fail_absent(const char *field, const char *stride, const char *expected, const char *feature,
                               struct attn_error *err)
{
    return status_fail(err, ATTN_INVALID, "%s%s is given; expected %s, or a plan with %s", field, stride, expected,
                       feature);
}

static bool has_strides(const struct attn_run *r, enum array_id id)
{
    for (int i = 0; i < array_strides(id); i++)
        if (array_number(r, arrays[id].stride.at + (size_t)i * sizeof(int64_t)) != 0)
            return true;
    return false;
}

static attn_status check_absent_arrays(const struct attn_problem *p, const struct attn_run *r, struct attn_error *err)
{
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        const struct array *a = &arrays[id];
        if (array_of_problem(id, p))
            continue;
        if (array_pointer(r, a->run))
            return fail_absent(a->name, "", "NULL", a->feature, err);
        if (has_strides(r, id))
            return fail_absent(a->name, "_stride", array_strides(id) > 1 ? "zeros" : "0", a->feature, err);
    }
    return ATTN_OK;
}

/* Whether a run says nothing about features that the plan does not have; else the first that it names. */
static attn_status check_absent(const struct attn_problem *p, const struct attn_run *r, struct attn_error *err)
{
    if (!p->window && (r->window_left != 0 || r->window_right != 0))
        return fail_absent(r->window_left ? "window_left" : "window_right", "", "0", "window", err);
    if (!p->softcap && r->softcap != 0)
        return fail_absent("softcap", "", "0", "softcap", err);
    attn_status status = check_absent_arrays(p, r, err);
    if (status == ATTN_OK && !p->paged && (r->page_size != 0 || r->pages != 0))
        return fail_absent(r->page_size ? "page_size" : "pages", "", "0", "paged", err);
    return status;
}

/* Neither features nor fields of any: most runs are like this, and it must cost them little. */
static bool says_nothing(const struct attn_run *r)
{
    static const unsigned char nothing[sizeof *r - offsetof(struct attn_run, window_left)];
    return memcmp(&r->window_left, nothing, sizeof nothing) == 0;
}

/* Kernels multiply by scale / softcap in f32, where a number below FLT_MIN has lost digits. */
static attn_status check_softcap(const struct attn_run *r, struct attn_error *err)
{
    const double scale = fabs((double)r->scale), most = FLT_MAX / 2 * fmin(r->softcap, 1),
                 least = FLT_MIN * (double)r->softcap;
    if (!(r->softcap >= RUN_SOFTCAP_LEAST && r->softcap <= RUN_SOFTCAP_MOST))
        return status_fail(err, ATTN_INVALID, "softcap is %g; expected " RUN_SOFTCAPS, (double)r->softcap);
    if (r->has_scale && scale > most)
        return status_fail(err, ATTN_INVALID,
                           "scale is %g; expected a size of at most %g, which divided by the softcap is finite",
                           (double)r->scale, most);
    if (r->has_scale && scale != 0 && scale < least)
        return status_fail(err, ATTN_INVALID,
                           "scale is %g; expected 0 or a size of at least %g, which divided by the softcap keeps its digits",
                           (double)r->scale, least);
    return ATTN_OK;
}

static attn_status check_numbers(const struct attn_problem *p, const struct attn_run *r, struct attn_error *err)
{
    const struct {
        const char *name;
        int64_t value;
    } windows[] = {{"window_left", r->window_left}, {"window_right", r->window_right}};
    for (int i = 0; p->window && i < 2; i++)
        if (windows[i].value < -1)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected a number of keys, or -1 for no bound",
                               windows[i].name, (long long)windows[i].value);
    attn_status status = p->softcap ? check_softcap(r, err) : ATTN_OK;
    if (status != ATTN_OK)
        return status;
    if (p->paged && r->page_size < 1)
        return status_fail(err, ATTN_INVALID, "page_size is %lld; expected the rows of a page, 1 or more",
                           (long long)r->page_size);
    if (p->paged && r->pages < 0)
        return status_fail(err, ATTN_INVALID, "pages is %lld; expected the number of pages of K and V, 0 or more",
                           (long long)r->pages);
    if (r->kv_starts && r->kv_lens)
        return status_fail(err, ATTN_INVALID, "kv_lens and kv_starts are given; expected one of them");
    return ATTN_OK;
}

/* That no index of it overflows when counted in bytes, if its strides are the caller's. */
static attn_status check_reach(const struct run_rules *rules, const struct attn_run *r, enum array_id id,
                               struct attn_error *err)
{
    static const char *const scores[ARRAY_SIDES] = {"batch", "head", "query", "key"};
    static const char *const keys[ARRAY_SIDES] = {"", "batch", "head", "row"};
    const char *const *sides = arrays[id].of_kv ? keys : scores;
    int64_t room = INT64_MAX / rules->element[id] - 1;
    struct table t;
    table_of(rules, r, id, &t);
    for (int i = 0; i < ARRAY_SIDES; i++)
        if (t.extent[i] == 0)
            return ATTN_OK;
    for (int i = 0; i < ARRAY_SIDES; i++) {
        if (takes_room(&room, t.extent[i], t.stride[i]))
            continue;
        bool named = array_strides(id) > 1;
        return status_fail(err, ATTN_INVALID, "%s_stride%s%s is %lld; expected a tensor of less than 2^63 bytes",
                           arrays[id].name, named ? " of " : "", named ? sides[i] : "", (long long)t.stride[i]);
    }
    return ATTN_OK;
}

/* The window's ends counted from the real position of query 0, then as seen from the clamped offset. */
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

attn_status read_features(const struct run_rules *rules, const struct attn_run *r, int64_t offset,
                          struct attn_features *f, struct attn_error *err)
{
    const struct attn_problem *p = rules->problem;
    if (!rules->has_features && says_nothing(r))
        return ATTN_OK;
    attn_status status = check_absent(p, r, err);
    if (status == ATTN_OK)
        status = check_numbers(p, r, err);
    if (status != ATTN_OK || !rules->has_features)
        return status;
    *f = (struct attn_features){.softcap = r->softcap, .page_size = r->page_size};
    for (int i = 0; i < rules->features && status == ATTN_OK; i++) {
        const struct array *a = &arrays[rules->feature[i]];
        if (a->stride.in && is_needed(r, rules->feature[i]))
            status = check_reach(rules, r, rules->feature[i], err);
        array_set_pointer(f, a->kernel.at, array_pointer(r, a->run));
        if (a->stride.in)
            memcpy((char *)f + a->kernel_stride.at, (const char *)r + a->stride.at, a->stride.size);
    }
    read_window(r, offset, f->window);
    if (p->causal)
        f->window[1] = 0;
    return status;
}

attn_status check_presence(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err)
{
    for (int i = 0; i < rules->features; i++) {
        const struct array *a = &arrays[rules->feature[i]];
        if (is_needed(r, rules->feature[i]) && !array_pointer(r, a->run))
            return status_fail(err, ATTN_INVALID, "%s is NULL; expected the array, since the plan has %s", a->name,
                               a->feature);
    }
    if (rules->problem->packed && r->batch > 0 && r->q_len > 0 && !r->q_starts && !r->kv_starts)
        return status_fail(err, ATTN_INVALID,
                           "q_starts and kv_starts are NULL; expected one of them or both, since the plan is packed");
    return ATTN_OK;
}

/* ---- what pointers point to ---- */

/* Starts begin at 0, never decrease, and make no sequence longer than the run says; *rows becomes where the last one
 * ends. */
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
                               "%s[%lld] is %lld; expected %lld..%lld: the one before, plus at most the run's %s", name,
                               (long long)(b + 1), (long long)starts[b + 1], (long long)starts[b],
                               (long long)(starts[b] + most), longest);
    *rows = starts[batch];
    return ATTN_OK;
}

/* The keys of a sequence; lengths and starts are already checked. */
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
                                   "block_table has %d for page %lld of sequence %lld; expected at least 0 and less "
                                   "than %lld, the run's "
                                   "pages",
                                   page[i], (long long)i, (long long)b, (long long)r->pages);
    }
    return ATTN_OK;
}

attn_status check_features(const struct run_rules *rules, const struct attn_run *r, struct rows *rows,
                           struct attn_error *err)
{
    attn_status status = ATTN_OK;
    for (int i = 0; i < rules->features && status == ATTN_OK; i++) {
        enum array_id id = rules->feature[i];
        const void *data = array_pointer(r, arrays[id].run);
        if ((uintptr_t)data % (uintptr_t)rules->element[id] != 0)
            status = status_fail(
                err, ATTN_INVALID,
                "%s is at an address that is not a multiple of %lld; expected an address aligned to its elements",
                arrays[id].name, (long long)rules->element[id]);
        else if (data == r->o && is_needed(r, id))
            status = status_fail(err, ATTN_INVALID, "o is at the address of %s; expected memory that holds no input",
                                 arrays[id].name);
    }
    if (status == ATTN_OK)
        status = check_starts("q_starts", r->q_starts, r->batch, "q_len", r->q_len, &rows->q, err);
    if (status == ATTN_OK)
        status = check_starts("kv_starts", r->kv_starts, r->batch, "kv_len", r->kv_len, &rows->kv, err);
    if (status == ATTN_OK && rules->problem->paged && is_needed(r, ARRAY_BLOCK_TABLE))
        status = check_pages(r, err);
    return status;
}
