/* options_attention.c - see options_read.h: shapes, types, masks and scores. */
#include "options_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arrays/run.h"

/* The product of four sizes of a tensor, or -1 from 2^40 on. */
static int64_t elements(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t factor[] = {a, b, c, d}, most = INT64_C(1) << 40;
    int64_t product = 1;
    for (int i = 0; i < 4; i++) {
        if (product >= most / factor[i])
            return -1;
        product *= factor[i];
    }
    return product;
}

/* Integers of at least 1 with commas between them: how many there are, or -1 for anything else. */
static int integers(const char *at, int64_t *const *out, int most)
{
    for (int n = 0; n < most; n++) {
        at = read_prefix(at, out[n]);
        if (!at || *out[n] < 1)
            return -1;
        if (!*at)
            return n + 1;
        if (*at++ != ',')
            return -1;
    }
    return -1;
}

int read_shape(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    struct shape *s = &out->shape;
    int64_t *const side[] = {&s->batch, &s->heads, &s->kv_heads, &s->q_len, &s->kv_len, &s->head_dim, &s->head_dim_v};
    const int sides = sizeof side / sizeof *side;
    int n = integers(value, side, sides);
    if (n < sides - 1 || strlen(value) >= sizeof s->text)
        return option_wrong(
            err, "%s '%s' is invalid; expected B,Hq,Hkv,Sq,Skv,D or B,Hq,Hkv,Sq,Skv,D,Dv, all integers of at least 1",
            option->name, value);
    if (n == sides - 1)
        s->head_dim_v = s->head_dim;
    if (s->head_dim > fields[F_HEAD_DIM].max || s->head_dim_v > fields[F_HEAD_DIM_V].max)
        return option_wrong(
            err, "%s '%s' has head dims %lld and %lld; expected D from 1 to %d and Dv (D when not given) from 1 to %d",
            option->name, value, (long long)s->head_dim, (long long)s->head_dim_v, (int)fields[F_HEAD_DIM].max,
            (int)fields[F_HEAD_DIM_V].max);
    if (s->heads % s->kv_heads)
        return option_wrong(err,
                            "%s '%s' has %lld query heads for %lld key heads; expected a multiple of the key heads",
                            option->name, value, (long long)s->heads, (long long)s->kv_heads);
    if (s->heads > RUN_HEADS_MOST)
        return option_wrong(err, "%s '%s' has %lld query heads; expected 1 to %d", option->name, value, (long long)s->heads,
                            RUN_HEADS_MOST);
    int64_t d = s->head_dim > s->head_dim_v ? s->head_dim : s->head_dim_v;
    if (elements(s->batch, s->heads, s->q_len, d) < 0 || elements(s->batch, s->kv_heads, s->kv_len, d) < 0)
        return option_wrong(err, "%s '%s' is too large; expected tensors of fewer than 2^40 elements", option->name,
                            value);
    memcpy(s->text, value, strlen(value) + 1);
    return 0;
}

/* Each of q, kv and o at most once, as in `q=f32,kv=f16,o=f32`; what follows a comma, or NULL. */
static const char *read_part(const char *at, struct options *out)
{
    static const char *const parts[] = {"q=", "kv=", "o="};
    enum dtype *const dtype[] = {&out->dtype, &out->dtype_kv, &out->dtype_o};
    for (int i = 0; i < 3; i++) {
        size_t skip = strlen(parts[i]);
        if (strncmp(at, parts[i], skip) || (out->dtypes & 1u << i))
            continue;
        at += skip;
        size_t size = strcspn(at, ",");
        for (int t = 0; t < (dtype[i] == &out->dtype_kv ? (int)DTYPE_ALL : (int)DTYPE_COUNT); t++) {
            const char *name = dtypes[t].name;
            if (strlen(name) != size || strncmp(at, name, size))
                continue;
            *dtype[i] = (enum dtype)t;
            out->dtypes |= 1u << i;
            return at + size;
        }
        return NULL;
    }
    return NULL;
}

/* One type for Q, K and V, or parts. */
int read_dtype(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    int dtype = 0;
    if (!strchr(value, '=')) {
        for (int t = DTYPE_COUNT; t < (int)DTYPE_ALL; t++)
            if (!strcmp(value, dtypes[t].name))
                return option_wrong(err, "%s '%s' is a type of K and V alone; expected kv=%s", option->name, value, value);
        if (read_word(option, value, fields[F_DTYPE].names, &dtype, err))
            return -1;
        out->dtype = out->dtype_kv = out->dtype_o = (enum dtype)dtype;
        out->dtypes = DTYPES_Q | DTYPES_KV | DTYPES_ONE;
        return 0;
    }
    for (const char *at = value; (at = read_part(at, out)); at++) {
        if (*at)
            continue;
        if (!(out->dtypes & DTYPES_KV))
            out->dtype_kv = out->dtype;
        if (!(out->dtypes & DTYPES_O))
            out->dtype_o = out->dtype;
        return 0;
    }
    return option_wrong(err,
                        "%s '%s' is invalid; expected q=, kv= and o=, each once at most, with f32, f16 or bf16, as in "
                        "q=f32,kv=f16; kv= with int8, fp8, q8_0 or q4_0 too",
                        option->name, value);
}

int read_causal(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {"bottom-right", "top-left", NULL};
    int align = 0;
    if (value && read_word(option, value, words, &align, err))
        return -1;
    out->causal = true;
    out->align = align ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
    return 0;
}

int read_q_offset(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    const int64_t most = INT64_C(1) << 40; /* so that adding a length cannot overflow */
    return read_integer(option, value, -most, most, &out->q_offset, err);
}

int read_window(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    const int64_t most = INT64_C(1) << 40;
    int64_t *w = out->window;
    const char *at = read_prefix(value, &w[0]);
    at = at && *at == ',' ? read_prefix(at + 1, &w[1]) : NULL;
    if (!at || *at || w[0] < -1 || w[1] < -1 || w[0] > most || w[1] > most)
        return option_wrong(
            err, "%s '%s' is invalid; expected L,R, the keys before and after, each 0 to 2^40, or -1 for no bound",
            option->name, value);
    return 0;
}

int read_scale(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a finite number, of at most %g in size", (double)RUN_SCALE_MOST);
    if (read_number(option, value, expected, &out->scale, err))
        return -1;
    if (fabsf(out->scale) > RUN_SCALE_MOST)
        return option_wrong(err, "%s '%s' is invalid; expected %s", option->name, value, expected);
    return 0;
}

int read_softcap(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    if (read_number(option, value, RUN_SOFTCAPS, &out->softcap, err))
        return -1;
    if (!(out->softcap >= RUN_SOFTCAP_LEAST && out->softcap <= RUN_SOFTCAP_MOST))
        return option_wrong(err, "%s '%s' is invalid; expected " RUN_SOFTCAPS, option->name, value);
    return 0;
}

int read_layout(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {"bhsd", "bshd", NULL};
    int layout = 0;
    if (read_word(option, value, words, &layout, err))
        return -1;
    out->layout = layout ? LAYOUT_BSHD : LAYOUT_BHSD;
    return 0;
}
