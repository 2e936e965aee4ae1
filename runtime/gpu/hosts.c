/* hosts.c - see hosts.h. Only rows that take part are copied; no byte between them is read or written. */
#include "hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which pages are needed ---- */

/* The pages that hold keys, each once, in order, with how many of their rows do; and the tables of the sequences. */
struct used_pages {
    int64_t count, most_rows; /* most_rows: the most of any page */
    int32_t *page, *table;    /* table: for each sequence `width` indices into page */
    int64_t *rows;
    int64_t width;
};

static const int64_t *q_starts_of(const struct gpu_source *s, const struct attn_args *a)
{
    return gpu_takes(s, ARRAY_Q_STARTS) ? a->features->q_starts : NULL;
}

static const int64_t *kv_starts_of(const struct gpu_source *s, const struct attn_args *a)
{
    return gpu_takes(s, ARRAY_Q_STARTS) ? a->features->kv_starts : NULL;
}

static int64_t keys_of(const struct gpu_source *s, const struct attn_args *a, int64_t b)
{
    const int64_t *starts = kv_starts_of(s, a);
    return starts ? starts[b + 1] - starts[b] : a->kv_lens ? a->kv_lens[b] : a->kv_len;
}

static int64_t pages_of(const struct gpu_source *s, const struct attn_args *a, int64_t b)
{
    int64_t keys = keys_of(s, a, b), size = a->features->page_size;
    return keys / size + (keys % size != 0);
}

static int by_number(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static void used_free(struct used_pages *u)
{
    if (!u)
        return;
    free(u->page);
    free(u->table);
    free(u->rows);
    free(u);
}

/* Page numbers become positions among the pages in use. */
static void number_pages(const struct gpu_source *s, const struct attn_args *a, struct used_pages *u)
{
    const struct attn_features *f = a->features;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < pages_of(s, a, b); i++) {
            int64_t left = keys_of(s, a, b) - i * f->page_size, rows = left < f->page_size ? left : f->page_size;
            const int32_t *page =
                bsearch(&f->pages[b * f->page_stride + i], u->page, (size_t)u->count, sizeof *u->page, by_number);
            int64_t at = page - u->page;
            u->table[b * u->width + i] = (int32_t)at;
            u->rows[at] = rows > u->rows[at] ? rows : u->rows[at];
            u->most_rows = rows > u->most_rows ? rows : u->most_rows;
        }
}

static struct used_pages *find_pages(const struct gpu_source *s, const struct attn_args *a, struct gen_error *err)
{
    const struct attn_features *f = a->features;
    struct used_pages *u = calloc(1, sizeof *u);
    int64_t all = 0;
    for (int64_t b = 0; u && b < a->batch; b++) {
        int64_t n = pages_of(s, a, b);
        u->width = n > u->width ? n : u->width;
        all += n;
    }
    if (u) {
        u->page = calloc((size_t)all + 1, sizeof *u->page);
        u->rows = calloc((size_t)all + 1, sizeof *u->rows);
        u->table = calloc((size_t)(a->batch * u->width) + 1, sizeof *u->table);
    }
    if (!u || !u->page || !u->rows || !u->table) {
        gen_out_of_memory(err, NULL);
        used_free(u);
        return NULL;
    }
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < pages_of(s, a, b); i++)
            u->page[u->count++] = f->pages[b * f->page_stride + i];
    qsort(u->page, (size_t)u->count, sizeof *u->page, by_number);
    int64_t kept = 0;
    for (int64_t i = 0; i < u->count; i++)
        if (i == 0 || u->page[i] != u->page[i - 1])
            u->page[kept++] = u->page[i];
    u->count = kept;
    number_pages(s, a, u);
    return u;
}

/* ---- arrays where they are ---- */

static bool is_dense(const struct host *t)
{
    int64_t next = t->width;
    bool seen[SIDES] = {false};
    for (int64_t b = 0; t->rows && b < t->count[0]; b++)
        if (t->rows[b] != t->count[2])
            return false; /* what follows the end of a sequence is not read */
    for (int found = 0; found < SIDES;) {
        int i = 0;
        while (i < SIDES && (seen[i] || (t->count[i] > 1 && t->stride[i] != next)))
            i++;
        if (i == SIDES)
            return false;
        seen[i] = true;
        next *= t->count[i];
        found++;
    }
    return !t->at;
}

static struct host tensor(const void *data, const int64_t stride[3], int64_t batch, int64_t heads, int64_t rows,
                          int64_t width, int64_t element, const int64_t *lens)
{
    struct host t = {.data = (char *)data,
                     .count = {batch, heads, rows, 1},
                     .stride = {stride[0], stride[1], stride[2]},
                     .rows = lens,
                     .width = width,
                     .element = element};
    t.dense = is_dense(&t);
    return t;
}

static struct host vector(const void *data, int64_t n, size_t element)
{
    static const int64_t none[3];
    return tensor(data, none, 1, 1, 1, data ? n : 0, (int64_t)element, NULL);
}

/* A bias or mask; along a side that shares it, there is only one. */
static struct host table(const struct attn_args *a, const void *data, const int64_t stride[SIDES], int64_t element)
{
    struct host t = {
        .data = (char *)data, .count = {a->batch, a->heads, a->q_len, a->kv_len}, .width = 1, .element = element};
    for (int i = 0; i < SIDES; i++) {
        t.stride[i] = stride[i];
        t.count[i] = stride[i] == 0 && t.count[i] > 1 ? 1 : t.count[i];
    }
    if (stride[SIDES - 1] == 1) {
        t.width = a->kv_len;
        t.count[SIDES - 1] = 1;
    }
    t.dense = is_dense(&t);
    return t;
}

/* How many elements an array without strides has. */
static int64_t elements_of(const struct attn_args *a, enum array_id id)
{
    enum array_side side = arrays[id].sides[0];
    return side == SIDE_HEADS ? a->heads : side == SIDE_KV_HEADS ? a->kv_heads : a->batch + (side == SIDE_STARTS);
}

/* All except the block table, of which only the used part is there. */
static void feature_hosts(const struct gpu_source *s, const struct attn_args *a, struct host *host)
{
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        const void *data = array_pointer(a->features, arrays[id].kernel.at);
        if (!gpu_takes(s, id) || id == ARRAY_BLOCK_TABLE)
            continue;
        if (arrays[id].of_kv)
            continue;
        host[id] = array_sides(id) == SIDES ? table(a, data, array_in(arrays[id].kernel_stride, a, a->features),
                                                    s->element_of[id])
                                            : vector(data, elements_of(a, id), (size_t)s->element_of[id]);
    }
}

static bool is_v_in_k(const struct gpu_source *s, const struct attn_args *a)
{
    return a->v == a->k && s->head_dim_v <= s->head_dim && memcmp(a->k_stride, a->v_stride, sizeof a->k_stride) == 0;
}

int gpu_hosts_of(const struct gpu_source *s, const struct attn_args *a, struct gpu_hosts *out, struct gen_error *err)
{
    const int64_t *qs = q_starts_of(s, a), *ks = kv_starts_of(s, a), *lens = ks ? NULL : a->kv_lens;
    struct host *host = out->host;
    int64_t q_batch = qs ? 1 : a->batch, q_rows = qs ? qs[a->batch] : a->q_len;
    int64_t kv_batch = ks ? 1 : a->batch, kv_rows = ks ? ks[a->batch] : a->kv_len;
    if (gpu_takes(s, ARRAY_BLOCK_TABLE)) { /* all up to the last one in use */
        out->used = find_pages(s, a, err);
        if (!out->used)
            return -1;
        int64_t used = out->used->count;
        kv_batch = used ? out->used->page[used - 1] + (int64_t)1 : 0;
        kv_rows = a->features->page_size;
        lens = NULL;
        int64_t width = 0;
        for (int64_t b = 0; b < a->batch; b++)
            if (pages_of(s, a, b) > 0)
                width = b * a->features->page_stride + pages_of(s, a, b);
        host[ARRAY_BLOCK_TABLE] = vector(a->features->pages, width, sizeof *a->features->pages);
    }
    host[ARRAY_Q] = tensor(a->q, a->q_stride, q_batch, a->heads, q_rows, s->head_dim, s->element, NULL);
    host[ARRAY_K] = tensor(a->k, a->k_stride, kv_batch, a->kv_heads, kv_rows, s->head_dim / s->values, s->element_kv, lens);
    host[ARRAY_V] = tensor(a->v, a->v_stride, kv_batch, a->kv_heads, kv_rows, s->head_dim_v / s->values, s->element_kv, lens);
    out->v_in_k = is_v_in_k(s, a);
    if (out->v_in_k)
        host[ARRAY_V] = host[ARRAY_K];
    host[ARRAY_O] = tensor(a->o, a->o_stride, q_batch, a->heads, q_rows, s->head_dim_v, s->element_o, NULL);
    host[ARRAY_LSE] = vector(a->lse, q_batch * a->heads * q_rows, sizeof *a->lse);
    host[ARRAY_KV_LENS] = vector(a->kv_lens, a->batch, sizeof *a->kv_lens);
    if (s->features)
        feature_hosts(s, a, host);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) /* of each row, if it is there */
        if (arrays[id].of_kv && gpu_takes(s, id))
            host[id] = tensor(array_pointer(a->features, arrays[id].kernel.at),
                              array_in(arrays[id].kernel_stride, a, a->features), kv_batch, a->kv_heads, kv_rows, 1,
                              s->element_of[id], lens);
    gpu_set_structs(s, a, &out->args, &out->features);
    for (enum array_id id = 0; id < ARRAYS; id++)
        gpu_set_has(&out->args, &out->features, id,
                    gpu_takes(s, id) && array_pointer(array_in(arrays[id].kernel, a, a->features), 0));
    out->features.q_end_at = a->batch;
    return 0;
}

void gpu_hosts_free(struct gpu_hosts *hosts)
{
    used_free(hosts->used);
    hosts->used = NULL;
}

/* ---- arrays on the device ---- */

int gpu_host_size(const struct host *t, size_t *out, struct gen_error *err)
{
    int64_t size = t->width * t->element;
    bool over = false;
    for (int i = 0; i < SIDES; i++)
        over |= __builtin_mul_overflow(size, t->count[i], &size);
    *out = over ? 0 : (size_t)size;
    if (over)
        snprintf(err->text, sizeof err->text, "a tensor takes more than 2^63 bytes");
    return over ? -1 : 0;
}

/* Along a side with a single element no stride is used, and it is 0. With steps it is 0 only where the caller's is: kernels take 0
 * to mean that all rows share a scale, and must not find that in a sequence of one key alone. */
static void device_strides(const struct host *t, long *stride, int sides, bool steps)
{
    int64_t packed = t->width;
    for (int i = SIDES - 1; i >= 0; i--) {
        const bool one = t->count[i] <= 1 && !(steps && t->stride[i] != 0);
        if (i < sides)
            stride[i] = one ? 0 : t->dense ? t->stride[i] : packed;
        packed *= t->count[i];
    }
}

/* Keys next to each other are one run, whose elements have no side of their own. */
static void table_strides(const struct host *t, long stride[SIDES])
{
    device_strides(t, stride, SIDES, false);
    if (t->stride[SIDES - 1] == 1)
        stride[SIDES - 1] = 1;
}

static void copy_run(const struct host *t, int64_t from, char *packed, bool to_host, int64_t runs)
{
    char *host = t->data + from * t->element;
    memcpy(to_host ? host : packed, to_host ? packed : host, (size_t)(runs * t->width * t->element));
}

/* Copies all that there are between host rows and packed ones. */
void gpu_copy_rows(const struct host *t, char *packed, bool to_host)
{
    const int64_t bytes = t->count[3] * t->width * t->element; /* of a row */
    bool together = t->count[3] == 1 && t->stride[2] == t->width;
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++) {
            int64_t from = (t->at ? t->at[b] : b) * t->stride[0] + h * t->stride[1];
            int64_t rows = !t->rows || t->rows[b] > t->count[2] ? t->count[2] : t->rows[b];
            char *device = packed + (b * t->count[1] + h) * t->count[2] * bytes;
            if (together && rows > 0)
                copy_run(t, from, device, to_host, rows);
            for (int64_t i = 0; !together && i < rows; i++)
                for (int64_t c = 0; c < t->count[3]; c++)
                    copy_run(t, from + i * t->stride[2] + c * t->stride[3],
                             device + i * bytes + c * t->width * t->element, to_host, 1);
        }
}

/* The device has only the pages in use, with the rows in use, and those that boxes of rows reach after them. */
static void gather_pages(const struct gpu_source *s, struct gpu_hosts *st)
{
    enum { MOST_BOX = 256 };
    const struct used_pages *u = st->used;
    int64_t rows = u->most_rows;
    if (s->rows == ROWS_MAPPED && rows > 0)
        rows = rows + MOST_BOX < st->features.page_size ? rows + MOST_BOX : st->features.page_size;
    for (enum array_id room = ARRAY_K; room < ARRAYS; room++) {
        if (room > ARRAY_V && !arrays[room].of_kv)
            continue;
        struct host *t = &st->host[room];
        t->count[0] = u->count;
        t->count[2] = rows;
        t->rows = u->rows;
        t->at = u->page;
        t->dense = false;
    }
    int64_t batch = st->args.batch;
    st->host[ARRAY_BLOCK_TABLE] = vector(u->table, batch * u->width, sizeof *u->table);
    st->features.page_stride = u->width;
}

/* Scales that all rows share, and all pages if there are any, are one on the device, too: kernels have a shorter way for it, which
 * sequences of one page and of many pages of one row must take alike. */
static void share_rows(struct host *t)
{
    if (t->stride[2] != 0 || (t->at && t->stride[0] != 0))
        return;
    for (int side = t->at ? 0 : 2; side <= 2; side += 2)
        if (t->count[side] > 1) {
            t->count[side] = 1;
            t->dense = false;
        }
}

void gpu_hosts_pack(const struct gpu_source *s, struct gpu_hosts *hosts)
{
    if (hosts->used)
        gather_pages(s, hosts);
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (!gpu_takes(s, id) || (array_sides(id) != SIDES && !arrays[id].of_kv))
            continue;
        if (id >= ARRAY_TENSORS && arrays[id].of_kv)
            share_rows(&hosts->host[id]);
        long *stride = array_at(arrays[id].cl_stride, &hosts->args, &hosts->features);
        if (id < ARRAY_TENSORS || arrays[id].of_kv)
            device_strides(&hosts->host[id], stride, 3, id >= ARRAY_TENSORS);
        else
            table_strides(&hosts->host[id], stride);
    }
}
