/* run_arrays.c - see run_arrays.h. */
#define _GNU_SOURCE /* sigset_t */
#include "run_arrays.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "arrays/run.h"
#include "numerics/convert.h"
#include "signals.h"

static int wrong(struct gen_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct gen_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return -1;
}

/* ---- types ---- */

/* How an array stores elements of a dtype. */
static enum npy_type stored_as(enum dtype t)
{
    return t == DTYPE_F32    ? NPY_F32
           : t == DTYPE_F16  ? NPY_F16
           : t == DTYPE_BF16 ? NPY_U16
           : t == DTYPE_INT8 ? NPY_I8
                             : NPY_U8;
}

static bool is_narrow(const struct run *r)
{
    return r->dtype_kv >= DTYPE_COUNT;
}

static bool is_float(const struct npy *a)
{
    return a->type == NPY_F32 || a->type == NPY_F16;
}

/* The kernel's type for an array: its own, or the one that it is rounded to first. asked is what --dtype says, -1
 * without it. */
static int choose_type(const char *path, enum npy_type t, int asked, const char *as_asked, enum dtype *out,
                       struct gen_error *err)
{
    if (t != NPY_F32 && t != NPY_F16 && t != NPY_U16)
        return wrong(err, "%s: error: its type is %s; expected float32, float16 or uint16", path, npy_type_name(t));
    if (t == NPY_U16 && asked != DTYPE_BF16)
        return wrong(err, "%s: error: its type is uint16; expected --dtype %sbf16 for it", path, as_asked);
    if (t == NPY_F16 && asked >= 0 && asked != DTYPE_F16)
        return wrong(err, "%s: error: its type is float16; expected --dtype %sf16 for it, or no --dtype", path,
                     as_asked);
    *out = asked >= 0 ? (enum dtype)asked : t == NPY_F16 ? DTYPE_F16 : DTYPE_F32;
    return 0;
}

/* The same for K, whose bytes say less: stored as --dtype says, or numbers that will be. */
static int choose_narrow(const char *path, const struct npy *k, int asked, enum dtype *out, struct gen_error *err)
{
    if (asked < DTYPE_COUNT)
        return wrong(err, "%s: error: its type is %s; expected --dtype kv=%s for it", path, npy_type_name(k->type),
                     k->type == NPY_I8 ? "int8" : "fp8, kv=q8_0 or kv=q4_0");
    *out = (enum dtype)asked;
    if (is_float(k) || k->type == stored_as(*out))
        return 0;
    return wrong(err, "%s: error: its type is %s; expected %s, or float32 or float16 that become %s", path,
                 npy_type_name(k->type), npy_type_name(stored_as(*out)), dtypes[*out].name);
}

static int choose_types(struct run *r, struct gen_error *err)
{
    const struct options *o = &r->options;
    const char *const *file = o->file;
    bool one = o->dtypes & DTYPES_ONE;
    int asked_q = o->dtypes & DTYPES_Q ? (int)o->dtype : -1, asked_kv = o->dtypes & DTYPES_KV ? (int)o->dtype_kv : -1;
    if (choose_type(file[OPTION_Q], r->q.type, asked_q, one || !o->dtypes ? "" : "q=", &r->dtype_q, err))
        return -1;
    if (asked_kv >= DTYPE_COUNT || r->k.type == NPY_I8 || r->k.type == NPY_U8
            ? choose_narrow(file[OPTION_K], &r->k, asked_kv, &r->dtype_kv, err)
            : choose_type(file[OPTION_K], r->k.type, asked_kv,
                          one || (!o->dtypes && r->q.type == NPY_U16) ? "" : "kv=", &r->dtype_kv, err))
        return -1;
    if (r->v.type != r->k.type)
        return wrong(err, "%s: error: its type is %s; expected %s, as in %s", file[OPTION_V], npy_type_name(r->v.type),
                     npy_type_name(r->k.type), file[OPTION_K]);
    r->dtype_o = o->dtypes & DTYPES_O ? o->dtype_o : r->dtype_q;
    r->written = r->q.type == NPY_F32 && !(o->dtypes & DTYPES_O) ? DTYPE_F32 : r->dtype_o;
    return 0;
}

/* Replaces an array by the same one in another type; both are float32, float16 or bf16 in uint16. */
static int convert(const char *path, struct npy *a, enum dtype from, enum dtype to, struct gen_error *err)
{
    struct npy other;
    if (from == to)
        return 0;
    if (npy_new(path, stored_as(to), a->dims, a->shape, &other, err))
        return -1;
    for (int64_t i = 0; i < a->count; i++)
        dtype_store(to, other.data, i, dtype_load(from, a->data, i));
    npy_free(a);
    *a = other;
    return 0;
}

static int round_to(const char *path, struct npy *a, enum dtype to, struct gen_error *err)
{
    return convert(path, a, a->type == NPY_F32 ? DTYPE_F32 : to, to, err);
}

/* ---- narrow K and V ---- */

/* The last side of stored blocks, which counts bytes, becomes the number of values in them. */
static int count_values(const struct run *r, const char *path, struct npy *a, struct gen_error *err)
{
    const int values = dtype_values(r->dtype_kv), bytes = (int)dtype_size(r->dtype_kv);
    int64_t *last = &a->shape[a->dims - 1];
    if (values == 1 || a->dims < 1)
        return 0;
    if (*last % (is_float(a) ? values : bytes) != 0)
        return wrong(err, "%s: error: its shape is %s; expected a last side that is a multiple of %d, the %s of a block of %s",
                     path, npy_shape_text(a->dims, a->shape).text, is_float(a) ? values : bytes,
                     is_float(a) ? "values" : "bytes", dtypes[r->dtype_kv].name);
    if (!is_float(a))
        *last = *last / bytes * values;
    return 0;
}

static int check_scales(const struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    const bool k = file[OPTION_K_SCALES], v = file[OPTION_V_SCALES];
    if (!dtypes[r->dtype_kv].scaled)
        return 0;
    if (k != v)
        return wrong(err, "%s is given without %s; expected both", k ? "--k-scales" : "--v-scales",
                     k ? "--v-scales" : "--k-scales");
    if (!k && !is_float(&r->k))
        return wrong(err, "%s: error: its type needs scales; expected --k-scales and --v-scales", file[OPTION_K]);
    return 0;
}

/* Scales by which numbers are to be divided. */
static int check_divisors(const char *path, const struct npy *scales, struct gen_error *err)
{
    const float *scale = scales->data;
    for (int64_t i = 0; i < scales->count; i++)
        if (scale[i] == 0 || !isfinite(scale[i]))
            return wrong(err,
                         "%s: error: its number %lld of %lld is %g; expected finite numbers other than 0, since arrays of floats "
                         "are divided",
                         path, (long long)i + 1, (long long)scales->count, (double)scale[i]);
    return 0;
}

/* attn_quantise would say where a NaN is by batch, head and row; this says it in the order of the file's own sides. */
static int check_numbers(const struct run *r, const char *path, const struct npy *a, bool flat, struct gen_error *err)
{
    const enum dtype type = a->type == NPY_F32 ? DTYPE_F32 : DTYPE_F16;
    int64_t place[4];
    for (int64_t i = 0; i < a->count && r->dtype_kv != DTYPE_FP8; i++) {
        if (!isnan(dtype_load(type, a->data, i)))
            continue;
        for (int64_t side = 3, rest = i; side >= 0; rest /= a->shape[side--])
            place[side] = rest % a->shape[side];
        return wrong(err, "%s: error: it has a NaN at %s; expected none, since %s has none", path,
                     npy_shape_text(flat ? 3 : 4, place + flat).text, dtypes[r->dtype_kv].name);
    }
    return 0;
}

/* Replaces an array of numbers by their stored form; scales that nobody gave are computed. */
static int quantise(const struct run *r, const char *path, const char *scales_path, struct npy *a, bool flat, struct npy *scales,
                    struct gen_error *err)
{
    const bool bshd = r->options.layout == LAYOUT_BSHD, given = scales->data;
    const int values = dtype_values(r->dtype_kv);
    const int64_t sides[3] = {a->shape[0], a->shape[bshd ? 2 : 1], a->shape[bshd ? 1 : 2]}, width = a->shape[3];
    const struct extents e = {.places = sides[0], .kv_heads = sides[1], .place_rows = sides[2]};
    struct npy other;
    struct attn_error why;
    if (!is_float(a))
        return 0;
    if (check_numbers(r, path, a, flat, err) || (given && check_divisors(scales_path, scales, err)))
        return -1;
    int64_t shape[4];
    memcpy(shape, a->shape, sizeof shape);
    shape[3] = width / values * (int64_t)dtype_size(r->dtype_kv);
    if (dtypes[r->dtype_kv].scaled && !given && features_new_scales(&r->options, &e, scales, err))
        return -1;
    if (npy_new(path, stored_as(r->dtype_kv), 4, shape, &other, err))
        return -1;
    struct attn_quantisation q = {.size = sizeof q,
                                  .from = a->type == NPY_F32 ? ATTN_F32 : ATTN_F16,
                                  .to = (attn_dtype)r->dtype_kv,
                                  .batch = sides[0],
                                  .heads = sides[1],
                                  .rows = sides[2],
                                  .width = (int)width,
                                  .in = a->data,
                                  .out = other.data,
                                  .scales = scales->data,
                                  .given = given};
    for (int out = 0; out < 2; out++) {
        int64_t *stride = out ? q.out_stride : q.in_stride, dim = out ? width / values : width;
        stride[0] = sides[1] * sides[2] * dim;
        stride[1] = bshd ? dim : sides[2] * dim;
        stride[2] = bshd ? sides[1] * dim : dim;
    }
    if (scales->data)
        features_scale_strides(&r->options, scales, q.scales_stride);
    if (attn_quantise(&q, &why) != ATTN_OK) { /* nothing that can be wrong is left */
        npy_free(&other);
        return wrong(err, "%s: error: %s", path, why.text);
    }
    other.shape[3] = width;
    npy_free(a);
    *a = other;
    return 0;
}

/* ---- shapes ---- */

static bool is_bshd(const struct run *r)
{
    return r->options.layout == LAYOUT_BSHD;
}

static int64_t heads_of(const struct run *r, const struct npy *a)
{
    return a->shape[is_bshd(r) ? 2 : 1];
}

static int64_t length_of(const struct run *r, const struct npy *a)
{
    return a->shape[is_bshd(r) ? 1 : 2];
}

/* A shape in words, in the order of the layout. flat: without its first side; first < 0, heads, length: a number or its
 * name; dim 0: Dv. */
static struct npy_text expected(const struct run *r, bool flat, int64_t first, const char *heads, const char *length,
                                int64_t dim)
{
    struct npy_text t;
    char pages[24] = "pages, ", last[24] = "Dv";
    if (first >= 0)
        snprintf(pages, sizeof pages, "%lld, ", (long long)first);
    if (dim)
        snprintf(last, sizeof last, "%lld", (long long)dim);
    snprintf(t.text, sizeof t.text, "[%s%s, %s, %s]", flat ? "" : pages, is_bshd(r) ? length : heads,
             is_bshd(r) ? heads : length, last);
    return t;
}

/* A shape as the file has it. */
static struct npy_text shape_in_file(const struct npy *a, bool flat)
{
    return npy_shape_text(4 - flat, a->shape + flat);
}

/* Four sides; packed arrays may leave out the first, which is then 1. */
static int check_sides(const struct run *r, const char *path, struct npy *a, bool packed, bool *flat, int64_t most,
                       struct gen_error *err)
{
    struct npy_text shape = npy_shape_text(a->dims, a->shape);
    *flat = packed && a->dims == 3;
    if (*flat) {
        memmove(a->shape + 1, a->shape, 3 * sizeof *a->shape);
        a->shape[0] = 1;
        a->dims = 4;
    }
    if (a->dims != 4)
        return wrong(err, "%s: error: its shape is %s; expected %s sides, %s", path, shape.text,
                     packed ? "three or four" : "four",
                     packed && is_bshd(r) ? "[length, heads, dim] with or without a 1 before it"
                     : packed             ? "[heads, length, dim] with or without a 1 before it"
                     : is_bshd(r)         ? "[batch, length, heads, dim]"
                                          : "[batch, heads, length, dim]");
    if (a->shape[3] < 1 || a->shape[3] > most)
        return wrong(err, "%s: error: its shape is %s; expected a head dim, the last side, of 1 to %lld", path,
                     shape.text, (long long)most);
    if (heads_of(r, a) < 1 || heads_of(r, a) > RUN_HEADS_MOST)
        return wrong(err, "%s: error: its shape is %s; expected 1 to %d heads", path, shape.text, RUN_HEADS_MOST);
    return 0;
}

static int check_query(struct run *r, struct gen_error *err)
{
    const struct npy *starts = &r->features.array[ARRAY_Q_STARTS];
    const char *path = r->options.file[OPTION_Q], *by = r->options.file[OPTION_Q_STARTS];
    if (check_sides(r, path, &r->q, by, &r->flat_q, fields[F_HEAD_DIM].max, err))
        return -1;
    r->heads = heads_of(r, &r->q);
    r->head_dim = r->q.shape[3];
    r->batch = by ? starts_batch(starts) : r->q.shape[0];
    r->q_len = by ? starts_longest(starts) : length_of(r, &r->q);
    if (!by || (r->q.shape[0] == 1 && length_of(r, &r->q) == starts_rows(starts)))
        return 0;
    char rows[24];
    snprintf(rows, sizeof rows, "%lld", (long long)starts_rows(starts));
    return wrong(err, "%s: error: its shape is %s; expected %s, to match %s", path, shape_in_file(&r->q, r->flat_q).text,
                 expected(r, r->flat_q, 1, "Hq", rows, r->head_dim).text, by);
}

/* Sets kv_len; for pages, from the table's columns. */
static int check_lengths(struct run *r, struct gen_error *err)
{
    struct features *f = &r->features;
    const char *path = r->options.file[OPTION_K];
    r->kv_len = f->array[ARRAY_KV_STARTS].data ? starts_longest(&f->array[ARRAY_KV_STARTS]) : length_of(r, &r->k);
    if (!f->array[ARRAY_BLOCK_TABLE].data)
        return 0;
    f->pages = r->k.shape[0];
    f->page_size = length_of(r, &r->k);
    if (f->page_size < 1)
        return wrong(err, "%s: error: its shape is %s; expected pages of at least 1 row", path,
                     npy_shape_text(4, r->k.shape).text);
    if (__builtin_mul_overflow(f->page_size, f->array[ARRAY_BLOCK_TABLE].shape[1], &r->kv_len) || r->kv_len > INT64_C(1)
                                                                                                                  << 40)
        return wrong(err, "%s: error: its %lld pages of a sequence are too many; expected fewer than 2^40 keys",
                     r->options.file[OPTION_BLOCK_TABLE], (long long)f->array[ARRAY_BLOCK_TABLE].shape[1]);
    return 0;
}

static int check_key(struct run *r, struct gen_error *err)
{
    const struct npy *starts = &r->features.array[ARRAY_KV_STARTS];
    const char *const *file = r->options.file;
    const char *path = file[OPTION_K], *by = file[OPTION_KV_STARTS];
    bool paged = file[OPTION_BLOCK_TABLE];
    char length[24] = "Skv";
    if (check_sides(r, path, &r->k, by, &r->flat_k, fields[F_HEAD_DIM].max, err))
        return -1;
    if (by)
        snprintf(length, sizeof length, "%lld", (long long)starts_rows(starts));
    int64_t first = paged ? -1 : by ? 1 : r->batch;
    if ((!paged && r->k.shape[0] != first) || r->k.shape[3] != r->head_dim ||
        (by && length_of(r, &r->k) != starts_rows(starts)))
        return wrong(err, "%s: error: its shape is %s; expected %s, to match %s", path,
                     shape_in_file(&r->k, r->flat_k).text,
                     expected(r, r->flat_k, first, "Hkv", paged ? "rows" : length, r->head_dim).text,
                     by && r->k.shape[3] == r->head_dim ? by : file[OPTION_Q]);
    r->kv_heads = heads_of(r, &r->k);
    if (r->heads % r->kv_heads)
        return wrong(err, "%s: error: it has %lld heads; expected a divisor of the %lld heads of %s", path,
                     (long long)r->kv_heads, (long long)r->heads, file[OPTION_Q]);
    return check_lengths(r, err);
}

static int check_value(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    if (check_sides(r, file[OPTION_V], &r->v, file[OPTION_KV_STARTS], &r->flat_v, fields[F_HEAD_DIM_V].max, err))
        return -1;
    r->head_dim_v = r->v.shape[3];
    if (r->v.shape[0] == r->k.shape[0] && heads_of(r, &r->v) == r->kv_heads &&
        length_of(r, &r->v) == length_of(r, &r->k))
        return 0;
    char heads[24], length[24];
    snprintf(heads, sizeof heads, "%lld", (long long)r->kv_heads);
    snprintf(length, sizeof length, "%lld", (long long)length_of(r, &r->k));
    return wrong(err, "%s: error: its shape is %s; expected %s, to match %s", file[OPTION_V],
                 shape_in_file(&r->v, r->flat_v).text, expected(r, r->flat_v, r->k.shape[0], heads, length, 0).text,
                 file[OPTION_K]);
}

/* ---- input and output ---- */

/* Where sequences and pages are, on which shapes depend; q is checked between them, since it gives the batch. */
static int read_places(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    struct features *f = &r->features;
    const char *q = file[OPTION_Q_STARTS], *k = file[OPTION_KV_STARTS], *table = file[OPTION_BLOCK_TABLE];
    if ((q && features_read_starts(q, &f->array[ARRAY_Q_STARTS], err)) || check_query(r, err))
        return -1;
    if (table && features_read_table(table, r->batch, &f->array[ARRAY_BLOCK_TABLE], err))
        return -1;
    if (!k)
        return 0;
    if (features_read_starts(k, &f->array[ARRAY_KV_STARTS], err))
        return -1;
    if (starts_batch(&f->array[ARRAY_KV_STARTS]) == r->batch)
        return 0;
    return wrong(err, "%s: error: it has %lld sequences; expected %lld, as in %s", k,
                 (long long)starts_batch(&f->array[ARRAY_KV_STARTS]), (long long)r->batch, q ? q : file[OPTION_Q]);
}

int run_read(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    struct features *f = &r->features;
    if (npy_read(file[OPTION_Q], &r->q, err) || npy_read(file[OPTION_K], &r->k, err) ||
        npy_read(file[OPTION_V], &r->v, err) || choose_types(r, err) || count_values(r, file[OPTION_K], &r->k, err) ||
        count_values(r, file[OPTION_V], &r->v, err) || check_scales(r, err) || read_places(r, err) || check_key(r, err) ||
        check_value(r, err))
        return -1;
    const struct extents e = {r->batch, r->heads, r->q_len, r->kv_len, r->k.shape[0], r->kv_heads, length_of(r, &r->k),
                              r->dtype_q, r->dtype_kv};
    if (features_read(&r->options, &e, f, err))
        return -1;
    if (is_narrow(r))
        return round_to(file[OPTION_Q], &r->q, r->dtype_q, err) ||
                       quantise(r, file[OPTION_K], file[OPTION_K_SCALES], &r->k, r->flat_k, &f->array[ARRAY_K_SCALES], err) ||
                       quantise(r, file[OPTION_V], file[OPTION_V_SCALES], &r->v, r->flat_v, &f->array[ARRAY_V_SCALES], err)
                   ? -1
                   : 0;
    bool failed = round_to(file[OPTION_Q], &r->q, r->dtype_q, err) ||
                  round_to(file[OPTION_K], &r->k, r->dtype_kv, err) ||
                  round_to(file[OPTION_V], &r->v, r->dtype_kv, err);
    return failed ? -1 : 0;
}

int run_prepare(struct run *r, struct gen_error *err)
{
    const char *const *file = r->options.file;
    bool packed = r->features.array[ARRAY_Q_STARTS].data;
    const int64_t rows[3] = {r->batch, r->heads, r->q_len}, packed_rows[2] = {r->heads, length_of(r, &r->q)};
    int64_t shape[4];
    memcpy(shape, r->q.shape, sizeof shape);
    shape[3] = r->head_dim_v;
    if (npy_new(file[OPTION_O], stored_as(r->dtype_o), 4, shape, &r->o, err))
        return -1;
    if (file[OPTION_LSE] &&
        npy_new(file[OPTION_LSE], NPY_F32, packed ? 2 : 3, packed ? packed_rows : rows, &r->lse, err))
        return -1;
    if (!file[OPTION_COMPARE])
        return 0;
    if (npy_read(file[OPTION_COMPARE], &r->reference, err))
        return -1;
    const struct npy *ref = &r->reference;
    int dims = r->flat_q ? 3 : 4;
    if (ref->dims == dims && !memcmp(ref->shape, shape + 4 - dims, (size_t)dims * sizeof *shape) &&
        (ref->type == NPY_F32 || ref->type == stored_as(r->written)))
        return 0;
    return wrong(err, "%s: error: it is %s %s; expected %s %s, as the output has", file[OPTION_COMPARE],
                 npy_type_name(ref->type), npy_shape_text(ref->dims, ref->shape).text,
                 npy_type_name(stored_as(r->written)), npy_shape_text(dims, shape + 4 - dims).text);
}

int run_write(struct run *r, struct gen_error *err)
{
    struct npy_staged out[2] = {{0}};
    const char *const *file = r->options.file;
    int n = 0, result = -1;
    sigset_t before;
    if (convert(file[OPTION_O], &r->o, r->dtype_o, r->written, err))
        return -1;
    struct npy o = r->o;
    signals_hold(&before);
    if (r->flat_q) {
        memmove(o.shape, o.shape + 1, 3 * sizeof *o.shape);
        o.dims = 3;
    }
    if (npy_stage(file[OPTION_O], &o, &out[n++], err))
        goto cleanup;
    if (file[OPTION_LSE] && npy_stage(file[OPTION_LSE], &r->lse, &out[n++], err))
        goto cleanup;
    if (out[0].in_place || out[1].in_place) /* whoever reads a pipe may never do so */
        signals_release(&before);
    result = npy_commit(out, n, err);
cleanup:
    npy_discard(out, n);
    signals_release(&before);
    return result;
}

void run_free(struct run *r)
{
    struct npy *const array[] = {&r->q, &r->k, &r->v, &r->reference, &r->o, &r->lse};
    for (size_t i = 0; i < sizeof array / sizeof *array; i++)
        npy_free(array[i]);
    features_free(&r->features);
}
