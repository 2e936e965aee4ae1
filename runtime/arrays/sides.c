/* sides.c - where a run's arrays lie: their sides and strides by the rows of table.def, and how far those may reach.
 * What it is not: what pointers point to. */
#include <math.h>

#include "run.h"
#include "system/status.h"

void run_rules_of(const struct attn_problem *p, struct run_rules *out)
{
    struct variant v = {{0}};
    *out = (struct run_rules){
        .problem = p, .has_features = p->window || p->softcap, .scale = (float)(1 / sqrt(p->head_dim))};
    variant_set_dtypes(&v, (enum dtype)p->dtype, (enum dtype)p->kv_dtype, (enum dtype)p->o_dtype);
    arrays_set_fields(p, &v);
    for (enum array_id id = 0; id < ARRAYS; id++)
        out->element[id] = array_element(id, &v);
    for (enum array_id id = 0; id < ARRAY_TENSORS; id++) {
        const enum array_side *side = arrays[id].sides;
        out->tensor[id].heads = side[1] == SIDE_HEADS ? p->heads : p->kv_heads;
        out->tensor[id].width = side[3] == SIDE_DIM ? p->head_dim : p->head_dim_v;
        out->tensor[id].keys = side[2] == SIDE_KEYS;
        if (out->tensor[id].keys)
            out->tensor[id].width /= dtype_values((enum dtype)p->kv_dtype);
    }
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (array_of_problem(id, p))
            out->feature[out->features++] = id;
    out->has_features |= out->features > 0;
}

/* ---- tensors ---- */

/* Field by field: a struct that is built and then copied would be read before its writes have completed. */
static void set_tensor(const struct run_rules *rules, const struct attn_run *r, enum array_id id, int64_t rows,
                       bool packed, struct tensor *t)
{
    const struct array *a = &arrays[id];
    t->name = a->name;
    t->data = array_pointer(r, a->run);
    t->stride = (const int64_t *)(const void *)((const char *)r + a->stride.at);
    t->extent[0] = packed ? 1 : r->batch;
    t->extent[1] = rules->tensor[id].heads;
    t->extent[2] = rows;
    t->width = rules->tensor[id].width;
    t->element = rules->element[id];
    t->packed = packed;
}

/* The sides of K and V are those of their pages if they lie in pages. */
static void set_pages(const struct attn_run *r, struct tensor *t)
{
    t->extent[0] = r->batch == 0 || r->kv_len == 0 ? 0 : r->pages;
    t->extent[2] = r->page_size;
    t->packed = false;
}

void tensors_of(const struct run_rules *rules, const struct attn_run *r, struct rows rows,
                struct tensor t[ARRAY_TENSORS])
{
    const struct attn_problem *p = rules->problem;
    bool none = !r->q_starts && !r->kv_starts; /* so far; then both sides may be packed */
    bool q_packed = p->packed && (r->q_starts || none), kv_packed = p->packed && (r->kv_starts || none);
    for (enum array_id id = 0; id < ARRAY_TENSORS; id++) {
        bool keys = rules->tensor[id].keys;
        set_tensor(rules, r, id, keys ? rows.kv : rows.q, keys ? kv_packed : q_packed, &t[id]);
        if (keys && p->paged)
            set_pages(r, &t[id]);
    }
}

bool is_empty(const struct tensor *t)
{
    return t->extent[0] == 0 || t->extent[1] == 0 || t->extent[2] == 0;
}

/* The strides of a tensor without gaps; one that overflows becomes larger than any tensor may be. */
static void contiguous(const struct tensor *t, int64_t stride[3])
{
    stride[2] = t->packed ? t->extent[1] * t->width : t->width; /* heads times width is small */
    stride[1] = t->width;
    if (!t->packed && __builtin_mul_overflow(t->extent[2], t->width, &stride[1]))
        stride[1] = INT64_MAX;
    if (__builtin_mul_overflow(t->extent[1], stride[1], &stride[0]))
        stride[0] = INT64_MAX;
}

static int64_t size_of(int64_t stride)
{
    return stride >= 0 ? stride : stride == INT64_MIN ? INT64_MAX : -stride;
}

bool takes_room(int64_t *room, int64_t extent, int64_t stride)
{
    int64_t reach;
    if (__builtin_mul_overflow(extent - 1, size_of(stride), &reach) || reach > *room)
        return false;
    *room -= reach;
    return true;
}

attn_status check_strides(const struct tensor *t, bool output, int64_t stride[3], struct attn_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    int64_t room = INT64_MAX / t->element - t->width;
    memcpy(stride, t->stride, 3 * sizeof *stride);
    if (stride[0] == 0 && stride[1] == 0 && stride[2] == 0)
        contiguous(t, stride);
    if (t->packed)
        stride[0] = 0; /* a sequence begins where its rows do */
    if (is_empty(t))
        return ATTN_OK;
    for (int i = 0; i < 3; i++) {
        if (!takes_room(&room, t->extent[i], stride[i]))
            return status_fail(err, ATTN_INVALID, "%s_stride of %s is %lld; expected a tensor of less than 2^63 bytes",
                               t->name, sides[i], (long long)stride[i]);
        if (output && t->extent[i] > 1 && size_of(stride[i]) < t->width)
            return status_fail(err, ATTN_INVALID,
                               "%s_stride of %s is %lld; expected at least %lld, the elements of a row", t->name,
                               sides[i], (long long)stride[i], (long long)t->width);
    }
    return ATTN_OK;
}

/* ---- other arrays ---- */

static int64_t extent_of(const struct run_rules *rules, const struct attn_run *r, enum array_side side)
{
    const struct attn_problem *p = rules->problem;
    switch (side) {
    case SIDE_BATCH: return r->batch;
    case SIDE_STARTS: return r->batch + 1;
    case SIDE_HEADS: return p->heads;
    case SIDE_KV_HEADS: return p->kv_heads;
    case SIDE_QUERIES: return r->q_len;
    case SIDE_KEYS: return r->kv_len;
    case SIDE_PAGES: return r->page_size > 0 && r->kv_len > 0 ? (r->kv_len - 1) / r->page_size + 1 : 0;
    case SIDE_PLACES: return p->paged ? r->pages : r->kv_starts ? 1 : r->batch;
    case SIDE_PLACE_ROWS: return p->paged ? r->page_size : r->kv_len;
    case SIDE_DIM: return p->head_dim;
    case SIDE_DIM_V: return p->head_dim_v;
    case SIDE_NONE: break;
    }
    return 1;
}

bool is_needed(const struct attn_run *r, enum array_id id)
{
    bool rows = r->batch > 0 && r->q_len > 0, scores = rows && r->kv_len > 0; /* there are some */
    enum array_needed needed = arrays[id].needed;
    return needed == WHERE_ROWS ? rows : needed == WHERE_SCORES && scores;
}

/* Sides without the caller's strides are contiguous, which here means one side of stride 1: no array has more. */
void table_of(const struct run_rules *rules, const struct attn_run *r, enum array_id id, struct table *t)
{
    const struct array *a = &arrays[id];
    const int sides = array_sides(id), strides = array_strides(id), missing = ARRAY_SIDES - sides;
    for (int i = 0; i < ARRAY_SIDES; i++) {
        int side = i - missing;
        t->extent[i] = side < 0 ? 1 : extent_of(rules, r, a->sides[side]);
        t->stride[i] = side < 0 ? 0 : 1;
        if (side >= 0 && side < strides)
            t->stride[i] = array_number(r, a->stride.at + (size_t)side * sizeof(int64_t));
    }
}
