%# Forward attention in C: FlashAttention-2 (Dao 2023, algorithm 1). Queries outside, keys inside, online softmax, one
%# division at the end. This file is the tile loop; what happens inside a tile is attn.micro.
% include "c/attn.sizes.t"
% include "c/header.t"
% lower
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The parts of a workspace; K and V of one head, packed in tiles, lie at its end. */
struct space { float *q, *o, *s, *p, *row, *k, *v; ${TYPE} *stage; };
static struct space carve(char *at, int64_t kv_len)
{
    int64_t tiles = (kv_len + ${BK - 1}) / ${BK};
    struct space w = {(float *)at, (float *)(at + ${AT_O}), (float *)(at + ${AT_S}), (float *)(at + ${PAIRS ? AT_P : AT_S}),
        (float *)(at + ${AT_ROW}), (float *)(at + ${WORKSPACE}), (float *)(at + ${WORKSPACE} + tiles * ${KTILE*4}), (${TYPE} *)(at + ${AT_STAGE})};
    return w;
}
int64_t ${NAME}_workspace(const struct attn_args *a) { return ${WORKSPACE} + (a->kv_len + ${BK - 1}) / ${BK} * ${KTILE*4 + VTILE*4}; }

/* Query i sees the keys before this one. */
static int64_t interval(int64_t i, int64_t keys, int64_t offset)
{
% if CAUSAL
    int64_t end = i + offset + 1;
    return end < 0 ? 0 : least(end, keys);
% else
    (void)i, (void)offset;
    return keys;
% end
}

/* The rows themselves, or a copy padded with zeros where whole vectors would reach past their end. */
static const ${TYPE} *staged(const ${TYPE} *from, int64_t *ld, int64_t rows, int64_t width, int64_t padded, ${TYPE} *stage)
{
    if (rows >= ${W} && width == padded)
        return from;
    memset(stage, 0, ${W} * padded * sizeof *stage);
    for (int64_t r = 0; r < least(rows, ${W}); r++)
        memcpy(stage + r * padded, from + r * *ld, width * sizeof *stage);
    *ld = padded;
    return stage;
}

static void pack(const struct attn_args *a, const struct space *w, int64_t b, int64_t g, int64_t keys)
{
    const ${TYPE} *k = (const ${TYPE} *)a->k + b * a->k_stride[0] + g * a->k_stride[1];
    const ${TYPE} *v = (const ${TYPE} *)a->v + b * a->v_stride[0] + g * a->v_stride[1];
    for (int64_t j = 0; j < (keys + ${NR - 1}) / ${NR} * ${NR}; j += ${W}) {
        int64_t ldk = a->k_stride[2], ldv = a->v_stride[2], rows = keys - j;
        const ${TYPE} *from = staged(rows > 0 ? k + j * ldk : k, &ldk, rows, ${HD}, ${LDQ*PER}, w->stage);
        pack_k(from, w->k + j / ${NR} * ${LDQ*NR} + j % ${NR}, ldk);
        from = staged(rows > 0 ? v + j * ldv : v, &ldv, rows, ${HDV}, ${LDO}, w->stage);
        pack_v(from, w->v + j / ${BK} * ${VTILE} + j % ${BK} * ${NR/PER}, ldv);
    }
}

/* MR rows of queries against one tile of keys. The rows see ends[i] of its keys; all of them when whole. */
static void tile(const struct space *w, int64_t i, int64_t j, int64_t n, int whole, const int32_t *ends, const float *scale)
{
    float *row = w->row + i / ${MR} * ${STATE}, *o = w->o + i * ${LDO};
    const float *k = w->k + j * ${LDQ}, *v = w->v + j / ${BK} * ${VTILE};
    score_tile(w->q + i * ${LDQ}, k, w->s, scale, (n + ${NR - 1}) / ${NR});
    if (whole)
        softmax(w->s, w->p, row, ${BK/(PER*W)});
    else
        softmax_edge(w->s, w->p, row, ends, (n + ${PER*W - 1}) / ${PER*W});
% for c in 0..PANELS
    ${c < PANELS - 1 or LAST == NV ? "value_tile" : "value_last"}(w->p, v + ${c*LDP*NR}, o + ${c*NR}, row, (n + ${U*PER - 1}) / ${U*PER});
% end
}

/* One tile of queries of head h, rows i0 on, over all keys that any of them sees. */
static void attend(const struct attn_args *a, const struct space *w, int64_t b, int64_t h, int64_t i0, int64_t keys, int64_t offset)
{
    int64_t rows = least(${BQ}, a->q_len - i0), end = interval(i0 + rows - 1, keys, offset);
    const ${TYPE} *q = (const ${TYPE} *)a->q + b * a->q_stride[0] + h * a->q_stride[1] + i0 * a->q_stride[2];
    ${TYPE} *out = (${TYPE} *)a->o + b * a->o_stride[0] + h * a->o_stride[1] + i0 * a->o_stride[2];
    float scale = a->scale * 1.44269504f, unused; /* exponentials are powers of two */
    int32_t ends[${MR}];
    int64_t padded = (rows + ${MR - 1}) / ${MR} * ${MR};
    for (int64_t i = 0; i < padded; i += ${W}) {
        int64_t ld = a->q_stride[2];
        const ${TYPE} *from = staged(i < rows ? q + i * ld : q, &ld, rows - i, ${HD}, ${LDQ*PER}, w->stage);
        pack_q(from, w->q + i * ${LDQ}, ld);
    }
    memset(w->o, 0, padded * ${LDO*4});
    for (float *row = w->row; row < w->row + padded / ${MR} * ${STATE}; row += ${STATE})
        for (int64_t l = 0; l < ${STATE}; l++)
            row[l] = l < ${SUM} ? -1.0f / 0.0f : 0.0f;

    for (int64_t j = 0; j < end; j += ${BK})
        for (int64_t i = 0; i < rows; i += ${MR}) {
            int64_t first = interval(i0 + i, keys, offset) - j, last = least(end, interval(i0 + i + ${MR - 1}, keys, offset)) - j;
            if (last <= 0)
                continue;
            for (int64_t r = 0; first < ${BK} && r < ${MR}; r++)
                ends[r] = (int32_t)least(${BK}, interval(i0 + i + r, keys, offset) - j);
            tile(w, i, j, least(${BK}, last), first >= ${BK}, ends, &scale);
        }

    for (int64_t i = 0; i < rows; i++) {
        float *lse = a->lse ? a->lse + (b * a->heads + h) * a->q_len + i0 + i : &unused;
% if HDV == LDO
        finish(w->o + i * ${LDO}, w->row + i / ${MR} * ${STATE} + i % ${MR}, out + i * a->o_stride[2], lse);
% else
        finish(w->o + i * ${LDO}, w->row + i / ${MR} * ${STATE} + i % ${MR}, w->stage, lse);
        memcpy(out + i * a->o_stride[2], w->stage, ${HDV} * sizeof *out);
% end
    }
}

/* The work is batch * kv_heads units, each cut into `cuts` shares where there are more parts than units. */
int ${NAME}(const struct attn_args *a)
{
    int64_t group, tiles, units, cuts, x, y, packed = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1)
        return 1;
    group = a->heads / a->kv_heads, tiles = (a->q_len + ${BQ - 1}) / ${BQ}, units = a->batch * a->kv_heads;
    struct space w = carve((char *)a->workspace, a->kv_len);
    for (x = units, y = a->parts; y; )
        cuts = x % y, x = y, y = cuts;
    cuts = x ? a->parts / x : 1;
    for (int64_t t = units * cuts * a->part / a->parts; t < units * cuts * (a->part + 1) / a->parts; t++) {
        int64_t unit = t / cuts, b = unit / a->kv_heads, g = unit % a->kv_heads;
        int64_t keys = a->kv_lens ? a->kv_lens[b] : a->kv_len;
        int64_t offset = a->offset + (a->bottom_right ? keys - a->q_len : 0);
        for (int64_t u = t % cuts; u < group * tiles; u += cuts) {
            if (packed != unit)
                pack(a, &w, b, g, interval(a->q_len - 1, keys, offset));
            packed = unit;
            attend(a, &w, b, g * group + u / tiles, u % tiles * ${BQ}, keys, offset);
        }
    }
    return 0;
}
#endif
