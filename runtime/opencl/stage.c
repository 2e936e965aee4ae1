/* stage.c - a run's host arrays on a device: what is copied there and back, and the structs that kernels take.
 * Rows that take part are copied, and no byte between them is read or written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Static_assert(sizeof(long) == 8 && sizeof(int) == 4, "struct attn_cl_args is laid out as OpenCL C does");

struct attn_cl_args opencl_args(const struct attn_args *a)
{
    struct attn_cl_args c = {.batch = a->batch,
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .q_len = a->q_len,
                             .kv_len = a->kv_len,
                             .offset = a->offset,
                             .bottom_right = a->bottom_right,
                             .scale = a->scale};
    for (int i = 0; i < 3; i++) {
        c.q_stride[i] = a->q_stride[i];
        c.k_stride[i] = a->k_stride[i];
        c.v_stride[i] = a->v_stride[i];
        c.o_stride[i] = a->o_stride[i];
    }
    return c;
}

struct attn_cl_features opencl_features_of(const struct opencl_kernel *k, const struct attn_args *a)
{
    const struct attn_features *f = a->features;
    if (!k->source.features.any)
        return (struct attn_cl_features){0};
    struct attn_cl_features c = {.window = {f->window[0], f->window[1]},
                                 .page_stride = f->page_stride,
                                 .page_size = f->page_size,
                                 .softcap = f->softcap};
    for (int i = 0; i < SIDES; i++) {
        c.bias_stride[i] = f->bias_stride[i];
        c.mask_stride[i] = f->mask_stride[i];
    }
    return c;
}

/* ---- which pages are needed ---- */

/* The pages that hold keys, each once, in order, and how many of their rows do; the sequences' tables of them. */
struct used_pages {
    int64_t count, most_rows; /* most_rows: of all pages */
    int32_t *page, *table;    /* table: for each sequence `width` indices into page */
    int64_t *rows;
    int64_t width;
};

static const int64_t *q_starts_of(const struct opencl_kernel *k, const struct attn_args *a)
{
    return k->source.features.packed ? a->features->q_starts : NULL;
}

static const int64_t *kv_starts_of(const struct opencl_kernel *k, const struct attn_args *a)
{
    return k->source.features.packed ? a->features->kv_starts : NULL;
}

static int64_t keys_of(const struct opencl_kernel *k, const struct attn_args *a, int64_t b)
{
    const int64_t *starts = kv_starts_of(k, a);
    return starts ? starts[b + 1] - starts[b] : a->kv_lens ? a->kv_lens[b] : a->kv_len;
}

static int64_t pages_of(const struct opencl_kernel *k, const struct attn_args *a, int64_t b)
{
    int64_t keys = keys_of(k, a, b), size = a->features->page_size;
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

/* Numbers of pages are replaced by where they stand among those in use. */
static void number_pages(const struct opencl_kernel *k, const struct attn_args *a, struct used_pages *u)
{
    const struct attn_features *f = a->features;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < pages_of(k, a, b); i++) {
            int64_t left = keys_of(k, a, b) - i * f->page_size, rows = left < f->page_size ? left : f->page_size;
            const int32_t *page =
                bsearch(&f->pages[b * f->page_stride + i], u->page, (size_t)u->count, sizeof *u->page, by_number);
            int64_t at = page - u->page;
            u->table[b * u->width + i] = (int32_t)at;
            u->rows[at] = rows > u->rows[at] ? rows : u->rows[at];
            u->most_rows = rows > u->most_rows ? rows : u->most_rows;
        }
}

static struct used_pages *find_pages(const struct opencl_kernel *k, const struct attn_args *a, struct gen_error *err)
{
    const struct attn_features *f = a->features;
    struct used_pages *u = calloc(1, sizeof *u);
    int64_t all = 0;
    for (int64_t b = 0; u && b < a->batch; b++) {
        int64_t n = pages_of(k, a, b);
        u->width = n > u->width ? n : u->width;
        all += n;
    }
    if (u) {
        u->page = calloc((size_t)all + 1, sizeof *u->page);
        u->rows = calloc((size_t)all + 1, sizeof *u->rows);
        u->table = calloc((size_t)(a->batch * u->width) + 1, sizeof *u->table);
    }
    if (!u || !u->page || !u->rows || !u->table) {
        snprintf(err->text, sizeof err->text, "out of memory");
        used_free(u);
        return NULL;
    }
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < pages_of(k, a, b); i++)
            u->page[u->count++] = f->pages[b * f->page_stride + i];
    qsort(u->page, (size_t)u->count, sizeof *u->page, by_number);
    int64_t kept = 0;
    for (int64_t i = 0; i < u->count; i++)
        if (i == 0 || u->page[i] != u->page[i - 1])
            u->page[kept++] = u->page[i];
    u->count = kept;
    number_pages(k, a, u);
    return u;
}

/* ---- arrays where they are ---- */

static bool is_dense(const struct host *t)
{
    int64_t next = t->width;
    bool seen[SIDES] = {false};
    for (int64_t b = 0; t->rows && b < t->count[0]; b++)
        if (t->rows[b] != t->count[2])
            return false; /* what lies behind a sequence's end is not read */
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

/* A bias or mask; where it is the same along a side there is one of it. */
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

static void feature_hosts(const struct opencl_kernel *k, const struct attn_args *a, struct host *host)
{
    const struct opencl_features *has = &k->source.features;
    const struct attn_features *f = a->features;
    if (has->bias)
        host[ROOM_BIAS] = table(a, f->bias, f->bias_stride, has->bias);
    if (has->mask)
        host[ROOM_MASK] = table(a, f->mask, f->mask_stride, 1);
    if (has->alibi)
        host[ROOM_SLOPES] = vector(f->slopes, a->heads, sizeof *f->slopes);
    if (has->sink)
        host[ROOM_SINKS] = vector(f->sinks, a->heads, sizeof *f->sinks);
    if (has->packed) {
        host[ROOM_Q_STARTS] = vector(f->q_starts, a->batch + 1, sizeof *f->q_starts);
        host[ROOM_KV_STARTS] = vector(f->kv_starts, a->batch + 1, sizeof *f->kv_starts);
    }
}

int opencl_hosts(const struct opencl_kernel *k, const struct attn_args *a, struct staged *out, struct gen_error *err)
{
    const struct opencl_source *s = &k->source;
    const int64_t *qs = q_starts_of(k, a), *ks = kv_starts_of(k, a), *lens = ks ? NULL : a->kv_lens;
    struct host *host = out->host;
    int64_t q_batch = qs ? 1 : a->batch, q_rows = qs ? qs[a->batch] : a->q_len;
    int64_t kv_batch = ks ? 1 : a->batch, kv_rows = ks ? ks[a->batch] : a->kv_len;
    if (s->features.paged) { /* all up to the last one in use */
        out->used = find_pages(k, a, err);
        if (!out->used)
            return -1;
        int64_t used = out->used->count;
        kv_batch = used ? out->used->page[used - 1] + (int64_t)1 : 0;
        kv_rows = a->features->page_size;
        lens = NULL;
        int64_t width = 0;
        for (int64_t b = 0; b < a->batch; b++)
            if (pages_of(k, a, b) > 0)
                width = b * a->features->page_stride + pages_of(k, a, b);
        host[ROOM_PAGES] = vector(a->features->pages, width, sizeof *a->features->pages);
    }
    host[ROOM_Q] = tensor(a->q, a->q_stride, q_batch, a->heads, q_rows, s->head_dim, s->element, NULL);
    host[ROOM_K] = tensor(a->k, a->k_stride, kv_batch, a->kv_heads, kv_rows, s->head_dim, s->element_kv, lens);
    host[ROOM_V] = tensor(a->v, a->v_stride, kv_batch, a->kv_heads, kv_rows, s->head_dim_v, s->element_kv, lens);
    host[ROOM_O] = tensor(a->o, a->o_stride, q_batch, a->heads, q_rows, s->head_dim_v, s->element_o, NULL);
    host[ROOM_LSE] = vector(a->lse, q_batch * a->heads * q_rows, sizeof *a->lse);
    host[ROOM_LENS] = vector(a->kv_lens, a->batch, sizeof *a->kv_lens);
    if (s->features.any)
        feature_hosts(k, a, host);
    out->launch.args = opencl_args(a);
    out->launch.args.has_lse = a->lse != NULL;
    out->launch.args.has_lens = a->kv_lens != NULL;
    out->launch.features = opencl_features_of(k, a);
    out->launch.features.has_q_starts = qs != NULL;
    out->launch.features.has_kv_starts = ks != NULL;
    out->launch.features.q_end_at = a->batch;
    return 0;
}

void opencl_unstage(struct staged *staged)
{
    used_free(staged->used);
    staged->used = NULL;
}

/* ---- arrays on the device ---- */

static int host_size(const struct host *t, size_t *out, struct gen_error *err)
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

/* Where there is one of a side, all along it are the same. */
static void device_strides(const struct host *t, long *stride, int sides)
{
    int64_t packed = t->width;
    for (int i = SIDES - 1; i >= 0; i--) {
        if (i < sides)
            stride[i] = t->dense ? t->stride[i] : t->count[i] > 1 ? packed : 0;
        packed *= t->count[i];
    }
}

/* Keys side by side are one run, whose elements have no side of their own. */
static void table_strides(const struct host *t, long stride[SIDES])
{
    device_strides(t, stride, SIDES);
    if (t->stride[SIDES - 1] == 1)
        stride[SIDES - 1] = 1;
}

static void copy_run(const struct host *t, int64_t from, char *packed, bool to_host, int64_t runs)
{
    char *host = t->data + from * t->element;
    memcpy(to_host ? host : packed, to_host ? packed : host, (size_t)(runs * t->width * t->element));
}

/* Between host rows and packed ones, all that there are. */
static void copy_rows(const struct host *t, char *packed, bool to_host)
{
    const int64_t bytes = t->count[3] * t->width * t->element; /* of a row */
    bool together = t->count[3] == 1 && t->stride[2] == t->width;
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++) {
            int64_t from = (t->at ? t->at[b] : b) * t->stride[0] + h * t->stride[1];
            int64_t rows = t->rows ? t->rows[b] : t->count[2];
            char *device = packed + (b * t->count[1] + h) * t->count[2] * bytes;
            if (together && rows > 0)
                copy_run(t, from, device, to_host, rows);
            for (int64_t i = 0; !together && i < rows; i++)
                for (int64_t c = 0; c < t->count[3]; c++)
                    copy_run(t, from + i * t->stride[2] + c * t->stride[3],
                             device + i * bytes + c * t->width * t->element, to_host, 1);
        }
}

static int need_room(const struct opencl_kernel *k, struct opencl_slot *s, int which, size_t size,
                     struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct opencl_room *room = &s->room[which];
    cl_int code;
    size = size ? size : 64; /* there are no empty buffers */
    if (room->size >= size)
        return 0;
    if (room->memory)
        api->clReleaseMemObject(room->memory);
    *room = (struct opencl_room){0};
    if ((uint64_t)size > (uint64_t)k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text, "a tensor takes %zu bytes; expected at most %lld on %s", size,
                 (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    bool output = which == ROOM_O || which == ROOM_LSE;
    cl_mem memory =
        api->clCreateBuffer(k->target->context, output ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY, size, NULL, &code);
    if (opencl_failed(code, "clCreateBuffer", err) != 0)
        return -1;
    *room = (struct opencl_room){memory, size};
    return 0;
}

/* Through a mapping, which on a CPU is the buffer itself. */
static int copy_mapped(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                       size_t size, bool to_host, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    char *packed =
        api->clEnqueueMapBuffer(s->queue, s->room[which].memory, CL_TRUE,
                                to_host ? CL_MAP_READ : CL_MAP_WRITE_INVALIDATE_REGION, 0, size, 0, NULL, NULL, &code);
    if (opencl_failed(code, "clEnqueueMapBuffer", err) != 0)
        return -1;
    copy_rows(t, packed, to_host);
    return opencl_failed(api->clEnqueueUnmapMemObject(s->queue, s->room[which].memory, packed, 0, NULL, NULL),
                         "clEnqueueUnmapMemObject", err);
}

/* Makes room and, unless it is an output, copies there. */
static int upload(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                  struct gen_error *err)
{
    size_t size;
    if (host_size(t, &size, err) != 0 || need_room(k, s, which, size, err) != 0)
        return -1;
    if (size == 0 || which == ROOM_O || which == ROOM_LSE)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, false, err);
    return opencl_failed(k->target->cl->api.clEnqueueWriteBuffer(s->queue, s->room[which].memory, CL_FALSE, 0, size,
                                                                 t->data, 0, NULL, NULL),
                         "clEnqueueWriteBuffer", err);
}

static int download(const struct opencl_kernel *k, struct opencl_slot *s, int which, const struct host *t,
                    struct gen_error *err)
{
    size_t size;
    if (host_size(t, &size, err) != 0)
        return -1;
    if (size == 0)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, true, err);
    return opencl_failed(k->target->cl->api.clEnqueueReadBuffer(s->queue, s->room[which].memory, CL_TRUE, 0, size,
                                                                t->data, 0, NULL, NULL),
                         "clEnqueueReadBuffer", err);
}

int opencl_download(const struct opencl_kernel *k, struct opencl_slot *s, const struct staged *staged,
                    struct gen_error *err)
{
    int result = download(k, s, ROOM_O, &staged->host[ROOM_O], err);
    return result == 0 ? download(k, s, ROOM_LSE, &staged->host[ROOM_LSE], err) : result;
}

/* On the device there are the pages in use alone, with the rows in use. */
static void gather_pages(struct staged *st)
{
    const struct used_pages *u = st->used;
    for (int room = ROOM_K; room <= ROOM_V; room++) {
        struct host *t = &st->host[room];
        t->count[0] = u->count;
        t->count[2] = u->most_rows;
        t->rows = u->rows;
        t->at = u->page;
        t->dense = false;
    }
    int64_t batch = st->launch.args.batch;
    st->host[ROOM_PAGES] = vector(u->table, batch * u->width, sizeof *u->table);
    st->launch.features.page_stride = u->width;
}

int opencl_stage(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_args *a, struct staged *out,
                 struct gen_error *err)
{
    struct attn_cl_args *c = &out->launch.args;
    if (opencl_hosts(k, a, out, err) != 0)
        return -1;
    if (out->used)
        gather_pages(out);
    for (int i = 0; i < ROOMS; i++) {
        if (!opencl_takes(&k->source, i))
            continue;
        if (upload(k, s, i, &out->host[i], err) != 0)
            return -1;
        out->launch.buffer[i] = s->room[i].memory;
    }
    device_strides(&out->host[ROOM_Q], c->q_stride, 3);
    device_strides(&out->host[ROOM_K], c->k_stride, 3);
    device_strides(&out->host[ROOM_V], c->v_stride, 3);
    device_strides(&out->host[ROOM_O], c->o_stride, 3);
    if (k->source.features.bias)
        table_strides(&out->host[ROOM_BIAS], out->launch.features.bias_stride);
    if (k->source.features.mask)
        table_strides(&out->host[ROOM_MASK], out->launch.features.mask_stride);
    out->launch.queue = s->queue;
    return 0;
}
