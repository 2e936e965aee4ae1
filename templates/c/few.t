%# Few queries over many keys; what happens inside a tile is few_tiles.t, or few_packed.t where bits are a promise.

/* Few queries over many keys, after Flash-Decoding (Dao, Haziza, Massa, Sizov 2023): all queries of the heads that share a KV head
 * walk its keys together, so that each key is read once. The keys are cut into splits, which are computed alone and joined in
 * their order, so that the bits do not depend on which part computes which split. */

/* The parts of a workspace: blocks of queries, of a split's results, of all splits' results, copies of a tile, and a stage. */
% if INVARIANT
struct space { float *q, *part, *o, *k, *v, ${WIDENS ? "*c, " : ""}*s, *p; void *stage; };
static struct space carve(float *at, int64_t heads)
{
    float *q = heads > 1 ? at + ${FEW_ALL/4} : at, *part = q + heads * ${FEW_PART/4};
    struct space w = {q, part, part + heads * ${FEW_RESULT/4}, at + ${SOME_K/4}, at + ${SOME_V/4}, ${WIDENS ? "at + " : ""}${WIDENS ? SOME_C/4 : ""}${WIDENS ? ", " : ""}at + ${SOME_S/4}, at + ${(PAIRS ? SOME_P : SOME_S)/4},
        at + ${SOME_STAGE/4}};
    return w;
}
% elif PIECED
struct space { float *q, *part, *o; void *k, *v, *stage; const ${CKV} **k_at, **v_at;${SCALED ? " const float **k_scales_at, **v_scales_at;" : ""}${ONCE ? " float *keys; int32_t *values;" : ""} };
static struct space carve(float *at, int64_t heads)
{
    float *q = heads > 1 ? at + ${FEW_ALL/4} : at, *part = q + heads * ${FEW_PART/4};
    struct space w = {q, part, part + heads * ${FEW_RESULT/4}, at + ${FEW_K/4}, at + ${FEW_V/4}, at + ${FEW_STAGE/4}, 0, 0${SCALED ? ", 0, 0" : ""}${ONCE ? ", 0, 0" : ""}};
    w.k_at = (const ${CKV} **)(void *)(heads > 1 ? w.o + heads * ${FEW_RESULT/4} : at + ${FEW_AT/4}), w.v_at = w.k_at + heads * ${2*LIST};
% if SCALED
    w.k_scales_at = (const float **)(void *)(w.v_at + heads * ${2*LIST}), w.v_scales_at = w.k_scales_at + heads * ${LIST};
% end
% if ONCE
    w.keys = at + ${ONCE_K/4}, w.values = (int32_t *)(void *)(at + ${ONCE_V/4});
% end
    return w;
}
% else
struct space { float *q, *part, *o; void *k, *v, *stage;${ONCE ? " float *keys; int32_t *values;" : ""} };
static struct space carve(float *at, int64_t heads)
{
    float *q = heads > 1 ? at + ${FEW_ALL/4} : at, *part = q + heads * ${FEW_PART/4};
    struct space w = {q, part, part + heads * ${FEW_RESULT/4}, at + ${FEW_K/4}, at + ${FEW_V/4}, at + ${FEW_STAGE/4}${ONCE ? ", at + " : ""}${ONCE ? ONCE_K/4 : ""}${ONCE ? ", (int32_t *)(void *)(at + " : ""}${ONCE ? ONCE_V/4 : ""}${ONCE ? ")" : ""}};
    return w;
}
% end
static int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* How many KV heads go through their keys side by side: where the rows of all heads lie within a row of the tensor, as in [batch, row, head,
 * element], memory is then read in its order. Bits do not depend on it. */
static int64_t abreast(const struct attn_args *a)
{
% if ABREAST > 1
    int64_t inside = a->k_stride[1] < a->k_stride[2] && a->v_stride[1] < a->v_stride[2];
    return inside ? over(a->kv_heads, over(a->kv_heads, ${ABREAST})) : 1;
% else
    (void)a;
    return 1;
% end
}
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    int64_t chunks = a->batch * a->kv_heads * over(a->heads / a->kv_heads * a->q_len, ${BQ}), splits = over(a->kv_len, ${SPLIT});
    if (a->part < 0)
        return a->part == -1 ? chunks * splits * ${FEW_RESULT} : a->part == -2 ? chunks * splits : a->part == -3 ? chunks : abreast(a);
    int64_t heads = abreast(a);
    return ${FEW_ALL} + (heads > 1 ? heads * ${FEW_PART + 2*FEW_RESULT + FEW_LISTS} : 0);
}

/* Some rows of KV head g, in the order of head and query; the keys that any of them sees, and that all see. */
% if BIAS == "none" and not MASK
struct rows { const struct attn_args *a; const struct sequence *s; int64_t g, first, count, from, end, seen_from, seen_end; };
% else
struct rows {
    const struct attn_args *a;
    const struct sequence *s;
    int64_t g, first, count, from, end, seen_from, seen_end;
% if BIAS != "none"
    int64_t bias_at[${BQ}]; /* of each row: the element for its first key */
% end
% if MASK
    int64_t mask_at[${BQ}]; /* the same of the mask */
% end
};
% end
static int64_t head_of(const struct rows *x, int64_t t)
{
    return x->g * (x->a->heads / x->a->kv_heads) + (x->first + t) / x->s->q_len;
}
static int64_t query_of(const struct rows *x, int64_t t)
{
    return (x->first + t) % x->s->q_len;
}
% if BIAS != "none" or MASK

/* The elements of a bias or mask before the one of row t's first key. */
static int64_t beside(const struct rows *x, const int64_t *stride, int64_t t)
{
    return x->s->b * stride[0] + head_of(x, t) * stride[1] + query_of(x, t) * stride[2];
}
% end

% if BYTE_TILES and BLOCKS
/* Those integers as tiles of bytes, the right side of products: for each half of four blocks of a key one of their upper bytes and one
 * of their lower ones, of 16 rows of four bytes by 16 columns, of which number 4*r + b has row r's numbers of block b. Both have signs. */
static void digits_of(const int32_t *integers, int32_t *to)
{
    memset(to, 0, ${BYTE_STEPS*1024});
    for (int64_t r = 0; r < ${R}; r++)
        for (int64_t d = 0; d < ${HD}; d++) {
            int64_t b = d % 128 / 32;
            int64_t window = d % 32 / 16, at = b * 16 + d % 16;
            int32_t *tile = to + (d / 128 * ${WINDOWS} + window) * 512 + at / 4 * 16 + 4 * r + b;
            int32_t n = (int16_t)((uint32_t)integers[r * ${LDW} + d / 2] >> d % 2 * 16);
            int32_t low = ((n + 128) & 255) - 128, high = (n - low) / 256;
            tile[0] = (int32_t)((uint32_t)tile[0] | ((uint32_t)high & 255) << at % 4 * 8);
            tile[256] = (int32_t)((uint32_t)tile[256] | ((uint32_t)low & 255) << at % 4 * 8);
        }
}

% elif BYTE_TILES
/* Those integers as tiles of bytes, the right side of products: ${BYTE_STEPS} of them, each of 16 rows of four columns of the queries by 16
 * columns, of which the first ${R} have the upper bytes of ${R} rows, and the next the lower ones. Both have signs. */
static void digits_of(const int32_t *integers, int32_t *to)
{
    memset(to, 0, ${BYTE_STEPS*1024});
    for (int64_t r = 0; r < ${R}; r++)
        for (int64_t d = 0; d < ${HD}; d++) {
            int32_t *at = to + d / 4 * 16 + r, n = (int16_t)((uint32_t)integers[r * ${LDW} + d / 2] >> d % 2 * 16);
            int32_t low = ((n + 128) & 255) - 128, high = (n - low) / 256;
            at[0] = (int32_t)((uint32_t)at[0] | ((uint32_t)high & 255) << d % 4 * 8);
            at[${R}] = (int32_t)((uint32_t)at[${R}] | ((uint32_t)low & 255) << d % 4 * 8);
        }
}

% end
% if INTEGERS
/* The same queries as integers of 16 bits, behind the floats; then what each lane of a vector of their products with keys is times, and
 * behind the place for a tile's largest scale how far off a score may be for each 1 of that. Integers differ from a row's numbers by at
 * most half of 2**-${BYTE_TILES ? 13 : 14} of a power of two that is at most its largest, and most numbers of 8 bits not at all; the stored numbers of a key
 * are at most ${NIBBLES ? 8 : 128} times its scale. Where a score may thus be off by more than 2**-10, half of what rounding a probability to
 * bf16 would do to it, whole_tiles does without integers: a sum of exponentials is then off by a 2**-10th of itself at most, and so are
 * outputs, of the largest value.${SOFTCAP ? " A tanh of a score over cap, times cap, is off by no more than the score." : ""} */
static void integers_of(const ${CQ} *q, float *to${SOFTCAP ? ", float cap" : ""})
{
    float row[${2*R}], worst = 0.0f, scale = to[${R*LDQ}];
% if IN_FOURS
    pack_integers(q, (int32_t *)(void *)(to + ${ROWS_ONCE}), row, ${STAGED});
    four_times((const ${CQ} *)(const void *)(to + ${ROWS_ONCE}), to + ${INTS});
% else
    pack_integers(q, (int32_t *)(void *)(to + ${INTS}), row, ${STAGED});
% end
    for (int64_t r = 0; r < ${R}; r++)
        worst = row[2 * r + 1] > worst || row[2 * r + 1] != row[2 * r + 1] ? row[2 * r + 1] : worst; /* a NaN stays */
    for (int64_t l = 0; l < ${W}; l++)
        to[${FACTORS} + l] = scale * row[2 * (l % ${R}${LIVE < R ? " % " : ""}${LIVE < R ? LIVE : ""})];
% if SOFTCAP
    scale *= cap;
% end
    to[${FACTORS + W + 1}] = worst * (scale < 0 ? -scale : scale) * ${NIBBLES ? 8 : 128};
% if BYTE_TILES
    for (int64_t l = 0; l < ${W}; l++)
        to[${SCORES + FACTORS_OF} + l] = to[${SCORES + BUFFER + FACTORS_OF} + l] = to[${FACTORS} + l]${NIBBLES ? " * 0.0625f" : ""};
    digits_of((const int32_t *)(void *)(to + ${INTS}), (int32_t *)(void *)(to + ${Q_TILES}));
% end
}

% end
% if TILES and not BYTE_TILES
/* The same queries as tiles, the right side of products: ${HD/32} of them, side by side, each of 16 rows of 16 pairs, of which the first ${R}
 * are of the ${R} queries. Pairs are of columns as open_pairs leaves those of keys. */
static void tiles_of(const ${CQ} *q, float *to)
{
    memset(to, 0, ${HD/32*1024});
    for (int64_t t = 0; t < ${HD/32}; t++)
        for (int64_t p = 0; p < 16; p++)
            for (int64_t r = 0; r < ${R}; r++) {
                const ${CQ} *x = q + r * ${HD} + t / 2 * 64 + t % 2 * 8 + p / 4 * 16 + p % 4 * 2;
                to[p * ${HD/2} + t * 16 + r] = real_of(x[0] | (uint32_t)x[1] << 16);
            }
}

% end
% if INTEGRAL
% include "c/integral.t"

% end
/* Packs the queries of the rows, ${LIVE} to a block, with the scale of their scores behind each block. */
static void pack(const struct rows *x, const struct space *w, float *to)
{
    const struct attn_args *a = x->a;
    for (int64_t t = 0; t < x->count; t += ${LIVE}, to += ${QUERIES}) {
        memset(w->stage, 0, ${QROWS*STAGED} * sizeof(${CQ}));
        for (int64_t r = 0; r < ${LIVE} && t + r < x->count; r++) {
            const ${CQ} *q = (const ${CQ} *)a->q + x->s->q_at + head_of(x, t + r) * a->q_stride[1];
            memcpy((${CQ} *)w->stage + r * ${STAGED}, q + query_of(x, t + r) * a->q_stride[2], ${HD} * sizeof *q);
        }
% if FOURS and not LANED
        pack_q((const ${CQ} *)w->stage, w->k, ${LDQ*PER});
        pack_fours(w->k, to);
% elif INTEGRAL
        words_of(a, (const ${CQ} *)w->stage, to);
% else
        pack_q((const ${CQ} *)w->stage, to, ${STAGED});
% end
% if TABLED
        to[${Q_SLOTS}] = 1.0f, to[${Q_SLOTS + 1}] = turned(to, ${INTEGRAL ? 0 : Q_SLOTS}, a->scale${TIMES_UNIT});${WHY_UNIT}
% else
        to[${Q_SLOTS}] = a->scale${TIMES_SCALE_UNIT};${SOFTCAP ? "" : WHY_UNIT}
% end
% if QUARTERED
        four_times((const ${CQ} *)(const void *)to, to + ${AT_FOURS});
% end
% if ALIBI and not INVARIANT
        for (int64_t l = 0; l < ${W}; l++) {
            int64_t r = t + l % ${R} < x->count ? t + l % ${R} : t;
            to[${FALLS} + l] = -a->features->slopes[head_of(x, r)]${TIMES_UNIT};
            to[${FALLS + W} + l] = (float)(l / ${R} - query_of(x, r) - x->s->offset);
        }
% end
% if INTEGERS and IN_FOURS
        in_quarters((const ${CQ} *)w->stage, to + ${FACTORS + 2*W});
        integers_of((const ${CQ} *)(const void *)(to + ${FACTORS + 2*W}), to${SOFTCAP ? ", a->features->softcap" : ""}${SOFTCAP ? TIMES_UNIT : ""});
% elif INTEGERS
        integers_of((const ${CQ} *)w->stage, to${SOFTCAP ? ", a->features->softcap" : ""}${SOFTCAP ? TIMES_UNIT : ""});
% elif CODES and IN_FOURS
        four_times((const ${CQ} *)w->stage, to + ${INTS});
% elif CODES
        in_eights((const ${CQ} *)w->stage, to + ${INTS});
% elif IN_LANES and TILED
        in_quarters((const ${CQ} *)w->stage, to + ${INTS});
% elif QUARTERS and TILED
        in_quarters((const ${CQ} *)w->stage, to + ${ROWS_ONCE});
        four_times((const ${CQ} *)(const void *)(to + ${ROWS_ONCE}), to + ${INTS});
% elif TILES
        tiles_of((const ${CQ} *)w->stage, to + ${Q_TILES});
% end
% if ONCE and not IN_LANES
        for (int64_t r = 0; r < ${R}; r++)
            memcpy(to + ${ONCE_Q} + r * ${ONCE_LDQ}, (const ${CQ} *)w->stage + r * ${STAGED}, ${HD} * sizeof(${CQ}));
% end
    }
}

/* The results of no keys at all: outputs and sums of 0, maxima of minus infinity. */
static void begin(const struct rows *x, float *o)
{
    float none_seen = MINUS_INFINITY;
    memset(o, 0, (size_t)over(x->count, ${LIVE}) * ${RESULTS} * sizeof *o);
    for (int64_t t = 0; t < x->count; t += ${LIVE})
        for (int64_t i = 0; i < ${SUM}; i++)
            o[t / ${LIVE} * ${RESULTS} + ${R*LDO + MAX} + i] = none_seen;
}

% if INVARIANT
% include "c/few_packed.t"
% else
% if MODIFY
% include "c/few_modify.t"
% end

% include "c/few_tiles.t"
% end
/* All splits of so many heads, joined in their order: those that lie in `shared`, or each computed now. */
static void total(const struct rows *x, int64_t heads, const struct space *w, float *shared)
{
    const struct attn_args *a = x->a;
    float unused;
    int64_t split = x->from / ${SPLIT}, splits = over(x->end, ${SPLIT})${IN_TURN ? ", scored = 0" : ""};
% if not INVARIANT
    if (splits - split == 1) { /* nothing is to be joined, and -0 stays what it is */
        for (int64_t h = 0; h < heads && shared; h++)
            memcpy(w->o + h * ${FEW_RESULT/4}, shared + split * a->kv_heads * ${FEW_RESULT/4} + h * ${FEW_RESULT/4}, (size_t)over(x->count, ${LIVE}) * ${RESULTS} * sizeof *shared);
        if (!shared)
            walk(x, heads, w, split, w->o);
        split = splits;
    } else
% end
        for (int64_t h = 0; h < heads; h++)
            begin(x, w->o + h * ${FEW_RESULT/4});
    for (; split < splits; split++) {
        float *part = shared ? shared + split * a->kv_heads * ${FEW_RESULT/4} : w->part;
        if (!shared)
            ${IN_TURN ? "scored = " : ""}walk(x, heads, w, split, part${IN_TURN ? ", scored, x->end" : ""});
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < x->count; t += ${LIVE}) {
                float *to = w->o + h * ${FEW_RESULT/4} + t / ${LIVE} * ${RESULTS}, *from = part + h * ${FEW_RESULT/4} + t / ${LIVE} * ${RESULTS};
                join(to + ${R*LDO}, from + ${R*LDO});
                blend(to, from, to + ${R*LDO}, from + ${R*LDO});
            }
    }
    for (float *block = w->o, *end = w->o + heads * ${FEW_RESULT/4}; block < end; block += ${FEW_RESULT/4}, x++)
        for (int64_t t = 0; t < x->count; t++) {
            int64_t h = head_of(x, t), i = query_of(x, t);
            float *o = block + t / ${LIVE} * ${RESULTS}, *row = o + ${R*LDO} + t % ${LIVE};
            float *lse = a->lse ? a->lse + x->s->lse_at + h * x->s->lse_ld + i : &unused;
% if SINK
            row[${FIX}] = a->features->sinks[h]${TIMES_UNIT};
% end
            finish(o + t % ${LIVE} * ${LDO}, row, (${CO} *)w->stage, lse);
            memcpy((${CO} *)a->o + x->s->o_at + h * a->o_stride[1] + i * a->o_stride[2], w->stage, ${HDV} * sizeof(${CO}));
        }
}

/* Rows first to first + ${BQ - 1}, as far as there are any, and which keys they see. */
static struct rows rows_from(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t first)
{
    int64_t all = a->heads / a->kv_heads * s->q_len;
% if BIAS == "none" and not MASK
    struct rows x = {a, s, g, first, most(0, least(${BQ}, all - first)), s->keys, 0, 0, s->keys};
% else
    struct rows x;
    x.a = a, x.s = s, x.g = g, x.first = first, x.count = most(0, least(${BQ}, all - first));
    x.from = s->keys, x.end = 0, x.seen_from = 0, x.seen_end = s->keys;
% end
    for (int64_t t = 0; t < x.count; t++) {
        int64_t from = first_key(s, query_of(&x, t)), end = end_key(s, query_of(&x, t));
% if BIAS != "none"
        x.bias_at[t] = beside(&x, a->features->bias_stride, t);
% end
% if MASK
        x.mask_at[t] = beside(&x, a->features->mask_stride, t);
% end
        x.from = least(x.from, from), x.end = most(x.end, end);
        x.seen_from = most(x.seen_from, from), x.seen_end = least(x.seen_end, end);
    }
    if (x.from >= x.end)
        x.from = x.end = 0; /* no row sees a key, and behind the last one there may be no page */
    return x;
}

% if TILES
% include "c/prepare.t"

% end
/* The work is batch * kv_heads units of all queries that share a KV head, in chunks of ${BQ} rows. Where parts share memory, the keys of a
 * chunk are shared out among them by splits${ABREAST > 1 ? ". Heads that lie side by side are neighbours in the order of work, and so many of a part" : ""}. */
int ${NAME}(const struct attn_args *a)
{
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    int64_t chunks = over(a->heads / a->kv_heads * a->q_len, ${BQ}), splits = over(a->kv_len, ${SPLIT});
    int64_t pieces = a->shared ? chunks * (a->phase ? 1 : splits) : 1; /* that a unit is shared out in */
    int64_t from = a->batch * a->kv_heads * pieces * a->part / a->parts, to = a->batch * a->kv_heads * pieces * (a->part + 1) / a->parts;
    int64_t most = abreast(a), row = most > 1 ? a->kv_heads : 1, heads;
    struct space w = carve((float *)a->workspace, most);
% if TILES
    tiles_on();
% end
    for (int64_t t = from; t < to; t += heads) {
        int64_t unit = t / (row * pieces) * row + t % row, piece = t / row % pieces, g = unit % a->kv_heads;
        int64_t chunk = a->shared && !a->phase ? piece / splits : piece;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        heads = least(least(most - g % most, a->kv_heads - g), to - t);
        do {
            struct rows x[${ABREAST}];
            float *shared = a->shared ? (float *)a->shared + (((unit - g) * chunks + chunk * a->kv_heads) * splits + g) * ${FEW_RESULT/4} : 0;
            int64_t h = 0;
            do {
                x[h] = rows_from(a, &s, g + h, chunk * ${BQ});
                pack(x + h, &w, w.q + h * ${FEW_PART/4});
            } while (++h < heads);
            if (shared && !a->phase)
                ${IN_TURN ? "(void)" : ""}walk(x, heads, &w, piece % splits, shared + piece % splits * a->kv_heads * ${FEW_RESULT/4}${IN_TURN ? ", 0, " : ""}${IN_TURN ? "least(x->end, (piece % splits + 1) * " : ""}${IN_TURN ? SPLIT : ""}${IN_TURN ? ")" : ""});
            else
                total(x, heads, &w, shared);
        } while (!a->shared && ++chunk < chunks);
    }
% if TILES
    tiles_off();
% end
    return 0;
}
