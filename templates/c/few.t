%# Few queries over many keys, after Flash-Decoding (Dao, Haziza, Massa, Sizov 2023): all queries of the heads that share a KV
%# head walk its keys together, so that each key is read once. The keys are cut into splits, computed alone and joined in their
%# order, so that the bits do not depend on who computes which.

/* The parts of a workspace; `part` is a split's output and, behind it, its state: four vectors for R rows of queries. */
struct space { float *q, *s, *part, *o, *row; void *k, *v, *stage; };
static struct space carve(char *at)
{
    struct space w = {(float *)at, (float *)(at + ${FEW_S}), (float *)(at + ${FEW_PART}), (float *)(at + ${FEW_O}),
        (float *)(at + ${FEW_ROW}), at + ${FEW_K}, at + ${FEW_V}, at + ${FEW_STAGE}};
    return w;
}
static int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    if (a->part != -1)
        return ${FEW_ALL};
    return a->batch * a->kv_heads * over(a->heads / a->kv_heads * a->q_len, ${BQ}) * over(a->kv_len, ${SPLIT}) * ${FEW_RESULT};
}

/* Some rows of KV head g, in the order of head and query; the keys that any of them sees, and that all see. */
struct rows { const struct attn_args *a; const struct sequence *s; int64_t g, first, count, from, end, seen_from, seen_end; };
static int64_t head_of(const struct rows *x, int64_t t) { return x->g * (x->a->heads / x->a->kv_heads) + (x->first + t) / x->s->q_len; }
static int64_t query_of(const struct rows *x, int64_t t) { return (x->first + t) % x->s->q_len; }

static void pack(const struct rows *x, const struct space *w)
{
    const struct attn_args *a = x->a;
    for (int64_t t = 0; t < x->count; t += ${R}) {
        float *to = w->q + t / ${R} * ${R*LDQ + W};
        memset(w->stage, 0, ${W*LDQ} * sizeof(${CQ}));
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++)
            memcpy((${CQ} *)w->stage + r * ${LDQ}, (const ${CQ} *)a->q + x->s->q_at + head_of(x, t + r) * a->q_stride[1] + query_of(x, t + r) * a->q_stride[2],
                ${HD} * sizeof(${CQ}));
        pack_q(w->stage, to, ${LDQ});
        to[${R*LDQ}] = a->scale * ${SOFTCAP ? "(1 / a->features->softcap)" : UNIT}; ${NATURAL ? "" : "/* exponentials are powers of two */"}
    }
}

static void begin(const struct rows *x, float *row, float *o)
{
    int64_t blocks = over(x->count, ${R});
    memset(o, 0, blocks * ${R*LDO} * sizeof *o);
    for (int64_t i = 0; i < blocks * ${STATE}; i++)
        row[i] = i % ${STATE} < ${SUM} ? -1.0f / 0.0f : 0.0f;
}

% if MODIFY
% include "c/few_modify.t"
% end

/* Of each lane of scores from key j on: the first key that its row does not see, the first that it sees, its own, and KB. */
static void limits(const struct rows *x, int64_t t, int64_t j, int64_t n, int32_t *to)
{
    for (int64_t l = 0; l < ${W}; l++) {
        int64_t i = query_of(x, t + l % ${R}), end = least(n, end_key(x->s, i) - j), from = first_key(x->s, i) - j;
        to[l] = (int32_t)(end < 0 ? 0 : end), to[${W} + l] = (int32_t)(from < 0 ? 0 : least(from, n));
        to[${2*W} + l] = (int32_t)(l / ${R}), to[${3*W} + l] = ${KB};
    }
}

/* R rows from t on against n keys from j on; o and row are their output and state. */
static void tile(const struct rows *x, const struct space *w, int64_t t, int64_t j, int64_t n, const ${CKV} *k, int64_t ldk, const ${CKV} *v, int64_t ldv,
    float *o, float *row)
{
    int64_t steps = over(n, ${KB});
    score_rows(w->q + t / ${R} * ${R*LDQ + W}, k, w->s, ldk, steps);
% if MODIFY
    modify(x, w, t, j, n, steps);
% end
    if (n == ${BK} && j >= x->seen_from && j + n <= x->seen_end)
        softmax_rows(w->s, row, steps);
    else {
        int32_t limit[${4*W}];
        limits(x, t, j, n, limit);
        softmax_rows_edge(w->s, row, limit, steps);
        for (float *p = w->s + steps * ${W}; p < w->s + ${BK*R}; p++)
            *p = 0.0f;
    }
    int64_t same = 0;
    while (same < ${R} && row[${FIX} + same] == 1.0f)
        same++;
    if (same < ${R}) /* a maximum has grown */
        rescale(o, row);
% for c in 0..PANELS
    for (int64_t r = 0; r < ${R}; r += ${VR})
        ${c < PANELS - 1 or LAST == NV ? "value_rows" : "value_rest"}(w->s + r, v + ${c*NR}, o + r * ${LDO} + ${c*NR}, ldv, over(n, ${U}));
% end
}

/* The rows against the keys of one split. */
static void walk(const struct rows *x, const struct space *w, int64_t split, float *o, float *row)
{
    const struct attn_args *a = x->a;
    const ${CKV} *k = (const ${CKV} *)a->k + x->s->k_at + x->g * a->k_stride[1], *v = (const ${CKV} *)a->v + x->s->v_at + x->g * a->v_stride[1];
    int64_t end = least(x->end, (split + 1) * ${SPLIT});
    begin(x, row, o);
    for (int64_t j = most(split * ${SPLIT}, x->from / ${BK} * ${BK}); j < end; j += ${BK}) {
        int64_t n = least(${BK}, end - j), ldk = a->k_stride[2], ldv = a->v_stride[2];
% if IN_PLACE
        const ${CKV} *kt = k + j * ldk, *vt = v + j * ldv;
        if (n < ${BK})
% else
        const ${CKV} *kt, *vt;
% end
            kt = keys_at(a, x->s, k, a->k_stride, j, n, ${BK}, ${HD}, ${LDQ}, &ldk, w->k), vt = keys_at(a, x->s, v, a->v_stride, j, n, ${BK}, ${HDV}, ${LDO}, &ldv, w->v);
        for (int64_t t = 0; t < x->count; t += ${R})
            tile(x, w, t, j, n, kt, ldk, vt, ldv, o + t * ${LDO}, row + t / ${R} * ${STATE});
    }
}

/* All splits, joined in their order: those that lie in `shared`, or each computed now. */
static void total(const struct rows *x, const struct space *w, float *shared)
{
    const struct attn_args *a = x->a;
    float unused;
    begin(x, w->row, w->o);
    for (int64_t split = x->from / ${SPLIT}; split * ${SPLIT} < x->end; split++) {
        float *o = shared ? shared + split * ${FEW_RESULT/4} : w->part, *part = o + ${BQ*LDO};
        if (!shared)
            walk(x, w, split, o, part);
        for (int64_t t = 0; t < x->count; t += ${R}) {
            join(w->row + t / ${R} * ${STATE}, part + t / ${R} * ${STATE});
            blend(w->o + t * ${LDO}, o + t * ${LDO}, w->row + t / ${R} * ${STATE}, part + t / ${R} * ${STATE});
        }
    }
    for (int64_t t = 0; t < x->count; t++) {
        int64_t h = head_of(x, t), i = query_of(x, t);
        float *row = w->row + t / ${R} * ${STATE} + t % ${R}, *lse = a->lse ? a->lse + x->s->lse_at + h * x->s->lse_ld + i : &unused;
% if SINK
        row[${FIX}] = a->features->sinks[h] * ${UNIT};
% end
        finish(w->o + t * ${LDO}, row, w->stage, lse);
        memcpy((${CO} *)a->o + x->s->o_at + h * a->o_stride[1] + i * a->o_stride[2], w->stage, ${HDV} * sizeof(${CO}));
    }
}

/* Rows first..first + BQ - 1, and which keys they see. */
static struct rows rows(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t first)
{
    int64_t all = a->heads / a->kv_heads * s->q_len;
    struct rows x = {a, s, g, first, most(0, least(${BQ}, all - first)), s->keys, 0, 0, s->keys};
    for (int64_t t = 0; t < x.count; t++) {
        int64_t from = first_key(s, query_of(&x, t)), end = end_key(s, query_of(&x, t));
        x.from = least(x.from, from), x.end = most(x.end, end);
        x.seen_from = most(x.seen_from, from), x.seen_end = least(x.seen_end, end);
    }
    return x;
}

/* The work is batch * kv_heads units of all queries that share a KV head, in chunks of BQ rows; the keys of a chunk are shared
 * out by splits where the parts have memory that they share. */
int ${NAME}(const struct attn_args *a)
{
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    int64_t chunks = over(a->heads / a->kv_heads * a->q_len, ${BQ}), splits = over(a->kv_len, ${SPLIT}), units = a->batch * a->kv_heads;
    int64_t pieces = a->shared ? chunks * (a->phase ? 1 : splits) : 1; /* of a unit */
    struct space w = carve((char *)a->workspace);
    for (int64_t t = units * pieces * a->part / a->parts; t < units * pieces * (a->part + 1) / a->parts; t++) {
        int64_t unit = t / pieces, piece = t % pieces, chunk = a->shared && !a->phase ? piece / splits : piece;
        struct sequence s = sequence(a, unit / a->kv_heads);
        do {
            struct rows x = rows(a, &s, unit % a->kv_heads, chunk * ${BQ});
            float *shared = a->shared ? (float *)a->shared + (unit * chunks + chunk) * splits * ${FEW_RESULT/4} : 0;
            pack(&x, &w);
            if (shared && !a->phase)
                walk(&x, &w, piece % splits, shared + piece % splits * ${FEW_RESULT/4}, shared + piece % splits * ${FEW_RESULT/4} + ${BQ*LDO});
            else
                total(&x, &w, shared);
        } while (!a->shared && ++chunk < chunks);
    }
    return 0;
}
