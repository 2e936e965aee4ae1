%# Rows of queries against the keys of one split, tile by tile.
/* What cut_rows needs to know of each lane of a vector of scores, counted from key j: the first key that its row does not see, the first that
 * it sees, the key that the lane is of; and how many keys there are to a vector. */
static void limits(const struct rows *x, int64_t t, int64_t j, int64_t n, int32_t *to)
{
    int all = j >= x->seen_from && j + n <= x->seen_end; /* are seen by every row */
    for (int64_t l = 0; l < ${R}; l++) {
        int64_t i = all ? 0 : query_of(x, t + l), end = all ? n : least(n, end_key(x->s, i) - j), from = all ? 0 : first_key(x->s, i) - j;
        to[l] = (int32_t)(end < 0 ? 0 : end), to[${W} + l] = (int32_t)(from < 0 ? 0 : least(from, n));
    }
% if W > R
    for (int64_t l = ${R}; l < ${W}; l++)
        to[l] = to[l - ${R}], to[${W} + l] = to[${W} + l - ${R}];
% end
    for (int64_t l = 0; l < ${W}; l++)
        to[${2*W} + l] = (int32_t)(l / ${R}), to[${3*W} + l] = ${KB};
}

/* The n keys of a tile from key j on, and their values: where each piece of them begins, and what is fetched meanwhile. */
struct keys { const ${CKV} *const *k, *const *v; int64_t j, n, ldk, ldv; };
% if SCALED
% let SPREAD = SPREADS ? "spread_some" : "spread"
% if SPREADS

/* The scales of n keys or values, ld elements apart, as many lanes each as there are rows. */
static void spread_some(const float *scales, float *to, int64_t ld, int64_t n)
{
    if (ld == 1 && n % ${W} == 0)
        spread_row(scales, to, n / ${W});
    else
        spread(scales, to, ld, n);
}
% end

/* The scales of n keys from j on, and of their values, behind a tile's scores; zeros where the tile has fewer. */
static void scales_of(const struct rows *x, int64_t j, int64_t n, float *s)
{
    const struct attn_features *f = x->a->features;
    const float *k = f->k_scales + x->s->k_scales_at + x->g * f->k_scales_stride[1];
    const float *v = f->v_scales + x->s->v_scales_at + x->g * f->v_scales_stride[1];
    if (n < ${BK})
        memset(s + ${K_SCALES}, 0, ${4*(SCALES_END - K_SCALES)});
% if PAGED
    for (int64_t r = 0, some; r < n; r += some) {
        some = least(n - r, f->page_size - (j + r) % f->page_size);
        ${SPREAD}(k + row_of(x->a, x->s, f->k_scales_stride, j + r), s + ${K_SCALES} + r * ${R}, f->k_scales_stride[2], some);
        ${SPREAD}(v + row_of(x->a, x->s, f->v_scales_stride, j + r), s + ${V_SCALES} + r * ${R}, f->v_scales_stride[2], some);
    }
% else
    ${SPREAD}(k + row_of(x->a, x->s, f->k_scales_stride, j), s + ${K_SCALES}, f->k_scales_stride[2], n);
    ${SPREAD}(v + row_of(x->a, x->s, f->v_scales_stride, j), s + ${V_SCALES}, f->v_scales_stride[2], n);
% end
% if W > R
    if (n < ${BK})
        memset(s + ${K_SCALES} + n * ${R}, 0, ${4*(W - R)}), memset(s + ${V_SCALES} + n * ${R}, 0, ${4*(W - R)});
% end
}
% end

% if PIECED and SCALED
/* The same of a whole tile, by its pieces from number `at` on. */
static void scales_at(const struct rows *x, const struct space *w, int64_t at, float *s)
{
    fetch_scales(w->k_scales_at + at, w->v_scales_at + at);
    for (int64_t p = 0; p < ${PIECES}; p++) {
        ${SPREAD}(w->k_scales_at[at + p], s + ${K_SCALES} + p * ${PIECE*R}, x->a->features->k_scales_stride[2], ${PIECE});
        ${SPREAD}(w->v_scales_at[at + p], s + ${V_SCALES} + p * ${PIECE*R}, x->a->features->v_scales_stride[2], ${PIECE});
    }
}

% end
/* ${LIVE} rows from row t on meet a tile; q and o are their blocks of queries and of results. Behind the tile's keys there are zeros. */
static void one_tile(const struct rows *x, const struct space *w, int64_t t, const struct keys *y, float *q, float *o)
{
    int64_t j = y->j, n = y->n;
    float *s = q + ${SCORES};
% if not MODIFY
    (void)w; /* what features would need */
% end
% if SCALED
    scales_of(x, j, n, s);
% end
% if INTEGERS and not BYTE_TILES
    ${IN_FOURS ? "score_eights" : "score_integers"}((const int32_t *)(void *)(q + ${INTS}), y->k, s, q + ${FACTORS}, y->ldk, y->ldk);
    if (!(q[${FACTORS + W}] * q[${FACTORS + W + 1}] <= 9.765625e-4f))
        score_rows(q, y->k, s, y->ldk, y->ldk);
% else
    ${SCORES_BY}(q, y->k, s, y->ldk, y->ldk);
% end
% if MODIFY
    modify(x, w, q, s, t, j, n);
% end
    if (n < ${BK} || j < x->seen_from || j + n > x->seen_end) {
        int32_t limit[${4*W}];
        limits(x, t, j, n, limit);
        cut_rows(s, limit);
    }
% if QUARTERS
    spread_blocks(y->v, s + ${VALUES_TIMES}, y->ldv);
% end
    softmax_rows(s, o + ${R*LDO});
% if LISTED
    tile_values(s, y->v, o, y->ldv, y->ldv);
% else
% for c in 0..PANELS
% for r in 0..VR_ROUNDS
% let ROW_AT = r*VR
% let P_AT = COUPLES ? c*PROBS_STEP + PROBS_AT + ROW_AT : P_PAIRS ? c*PROBS_STEP + PROBS_AT + ROW_AT % 4/2*(W/2) + ROW_AT/4*2 + ROW_AT % 2 : ROW_AT
% let V_AT = c*NR/VALUES*BYTES
% let O_AT = ROW_AT*LDO + c*NR
% let NEXT_AT = PASS_ROWS ? (c*VR_ROUNDS + r)*(BK/SWEEPS) : (c*VR_ROUNDS + r)*VALUE_LINES*LINE
    ${c < PANELS - 1 or LAST == NV ? "value_rows" : "value_rest"}(s${P_AT ? " + " : ""}${P_AT ? P_AT : ""}, y->v[0]${V_AT ? " + " : ""}${V_AT ? V_AT : ""}, o${O_AT ? " + " : ""}${O_AT ? O_AT : ""}, s + ${PROBS + c*FIX_STEP + ROW_AT}, y->v[1]${NEXT_AT ? " + " : ""}${NEXT_AT ? NEXT_AT : ""}${NEXT_AT and PASS_ROWS ? " * y->ldv" : ""}, y->ldv);
% end
% end
% end
}

/* Row j of a head. */
% if NARROW
static const ${CKV} *row_at(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j)
{
    return head + row_of(a, s, stride, j)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
}
% else
static const ${CKV} *row_at(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j)
{
% if PAGED
    const int64_t size = a->features->page_size;
    const int32_t *pages = a->features->pages + s->b * a->features->page_stride;
    return head + pages[j / size] * stride[0] + j % size * stride[2];
% else
    (void)a, (void)s;
    return head + j * stride[2];
% end
}
% end

% if BYTE_TILES and BLOCKS
/* Finds what stands beside a tile; and whether products of bytes are exact enough for it. worst: how far off a score may be for each 1 of
 * the largest scale of a key; 2**-10 is half of what rounding a probability to bf16 would do to it. A probability times the
 * scale of its block is at most half of 2**-15 of the largest scale off, where the largest probability is 1: a sum of values is then at
 * most 2**-16 of the largest value off for each key, as often as the block's scale goes into the largest; 2**-9 in all is as much
 * as bf16 would be, and 1.25 times that is let pass. */
static int weighed(const ${CKV} *k, const ${CKV} *v, float worst, int64_t ldk, int64_t ldv, float *beside)
{
    int fine;
    weigh_blocks(k, v, beside, ldk, ldv);
    fine = worst * beside[${HEAVIEST}] <= 9.765625e-4f;
    for (int64_t b = 0; b < ${VALUE_PIECES*4}; b++) {
        const float *of = beside + ${CHECKS} + b / 4 * ${5*W} + b % 4;
        fine = fine && of[0] > 1e-25f && of[${W}] <= 160 && of[${2*W}] > 0;
    }
    return fine;
}

/* Tiles one after another of which every row sees every key, as many as can be products of bytes; o is the blocks of their results. A
 * tile's values are multiplied after the scores of the next tile are computed, so that nothing waits for its softmax. */
static int64_t whole_tiles(const struct rows *x, const struct space *w, const ${CKV} *k, const ${CKV} *v, int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2] * ${BYTES}, ldv = x->a->v_stride[2] * ${BYTES};
    float *s = w->q + ${SCORES}, *before = s + ${BUFFER}, *end = o + over(x->count, ${LIVE}) * ${RESULTS}, *beside = w->k, worst = 0;
    int32_t *values = (int32_t *)(void *)(beside + ${ALONGSIDE}), *keys = (int32_t *)(void *)(beside + ${OPENED});
    for (int64_t t = 0; t < x->count; t += ${R}) {
        float off = w->q[t / ${R} * ${QUERIES} + ${FACTORS + W + 1}];
        worst = off > worst || off != off ? off : worst; /* a NaN stays */
    }
    for (int64_t n = 0; n <= count; n++) {
        float *q = w->q, *to = s, *from = before;
        if (n < count && !weighed(k, v + (n > 0 ? ${BK} * ldv : 0), worst, ldk, ldv, beside))
            count = n;
        if (n < count) {
            open_nibbles(k, keys, ldk);
            for (float *to_o = o; to_o < end; to_o += ${RESULTS}, q += ${QUERIES}, to += ${QUERIES}) {
                const int32_t *digits = (const int32_t *)(void *)(q + ${Q_TILES});
                score_nibbles(digits, keys, (int32_t *)(void *)to, k + ${BK} * ldk, ldk);
                softmax_blocks((int32_t *)(void *)to, to, to_o + ${R*LDO}, beside, k + ${BK + BK/4} * ldk, ldk);
            }
        }
        if (n > 0) {
            const ${CKV} *next = v + ${2*BK} * ldv; /* the tile behind it has been weighed */
            for (int64_t c = 0; c < ${CHUNKS}; c++, next += ${SHARE_ROWS} * ldv) {
                float *of = from;
                mix_blocks(v + c * ${2*BYTES}, values, next, ldv);
                for (float *to_o = o; to_o < end; to_o += ${RESULTS}, of += ${QUERIES})
                    add_blocks((int32_t *)(void *)of + c * 256, of + c * ${3*W}, values, to_o + c * 64,
                        next + ${4*OPENED_ROWS} * ldv, ldv);
            }
            v += ${BK} * ldv;
        }
        k += ${BK} * ldk, to = s, s = before, before = to;
    }
    return count;
}
% elif BYTE_TILES
/* Finds what stands beside the tile of keys from j on; and whether products of bytes are exact enough for it. worst: how far off a score may
 * be for each 1 of the largest scale of a key; 2**-10 is half of what rounding a probability to bf16 would do to it. A probability
 * times the scale of its value is at most half of 2**-16 of the largest scale off, where the largest probability is 1: a sum
 * of values is then at most 2**-17 of the largest value off for each key, as often as the key's scale goes into the
 * largest; 2**-9 in all is as much as bf16 would be. */
static int weighed(const struct rows *x, int64_t j, float worst, float *beside)
{
    const struct attn_features *f = x->a->features;
    const float *k = f->k_scales + x->s->k_scales_at + x->g * f->k_scales_stride[1] + row_of(x->a, x->s, f->k_scales_stride, j);
    const float *v = f->v_scales + x->s->v_scales_at + x->g * f->v_scales_stride[1] + row_of(x->a, x->s, f->v_scales_stride, j);
    float *lined = beside + ${BESIDE};
    if (f->k_scales_stride[2] != 1)
        line_up(k, lined, f->k_scales_stride[2], ${BK}), k = lined;
    if (f->v_scales_stride[2] != 1)
        line_up(v, lined + ${BK + W}, f->v_scales_stride[2], ${BK}), v = lined + ${BK + W};
    weigh(k, v, beside);
    return worst * beside[${HEAVIEST}] <= 9.765625e-4f && beside[${LIGHTEST}] > 0 && beside[${HIGHEST}] > 1e-25f &&
           beside[${HIGHEST}] * beside[${INVERSES}] <= 256;
}

/* Tiles one after another of which every row sees every key, as many as can be products of bytes; o is the blocks of their results. A
 * tile's values are multiplied after the scores of the next tile are computed, so that nothing waits for its softmax. */
static int64_t whole_tiles(const struct rows *x, const struct space *w, const ${CKV} *k, const ${CKV} *v, int64_t j, int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2], ldv = x->a->v_stride[2];
    float *s = w->q + ${SCORES}, *before = s + ${BUFFER}, *end = o + over(x->count, ${LIVE}) * ${RESULTS}, *beside = w->k, worst = 0;
    int32_t *values = (int32_t *)(void *)(beside + ${ALONGSIDE});
    for (int64_t t = 0; t < x->count; t += ${R}) {
        float off = w->q[t / ${R} * ${QUERIES} + ${FACTORS + W + 1}];
        worst = off > worst || off != off ? off : worst; /* a NaN stays */
    }
    for (int64_t n = 0; n <= count; n++) {
        float *q = w->q, *to = s, *from = before;
        if (n < count && !weighed(x, j + n * ${BK}, worst, beside))
            count = n;
        if (n < count)
            for (float *to_o = o; to_o < end; to_o += ${RESULTS}, q += ${QUERIES}, to += ${QUERIES}) {
                int32_t *integers = (int32_t *)(void *)to;
                score_bytes((const int32_t *)(void *)(q + ${Q_TILES}), k, integers, k + ${BK} * ldk, ldk, 4 * ldk);
                softmax_bytes(integers, to, to_o + ${R*LDO}, beside, k + ${BK + BK/4} * ldk, ldk);
            }
        if (n > 0) {
            const ${CKV} *next = v + ${BK} * ldv;
            for (int64_t c = 0; c < ${HDV}; c += 64, next += ${SHARE_ROWS} * ldv) {
                float *of = from;
                mix_tile(v + c, values, next, ldv);
                for (float *to_o = o; to_o < end; to_o += ${RESULTS}, of += ${QUERIES})
                    add_bytes((int32_t *)(void *)of, of, values, to_o + c, next + ${4*OPENED_ROWS} * ldv, ldv);
            }
            v += ${BK} * ldv;
        }
        k += ${BK} * ldk, to = s, s = before, before = to;
    }
    return count;
}
% elif FP8_TILES
/* Tiles one after another of which every row sees every key; o is the blocks of their results. Of the tile's keys and values, 16 are
 * opened while the 16 before them are multiplied by the first block of queries; other blocks meet those that are open already. */
static void whole_tiles(const struct rows *x, const struct space *w, const ${CKV} *k, const ${CKV} *v, int64_t j, int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2], ldv = x->a->v_stride[2];
    float *open = w->k, *end = w->q + over(x->count, ${LIVE}) * ${QUERIES};
    for (int64_t n = 0; n < count; n++, j += ${BK}, k += ${BK} * ldk, v += ${BK} * ldv) {
        const ${CKV} *next = k + ${BK} * ldk;
        float *to = o;
        open_first_keys(k, open, v, ldk, ldv);
% if BQ > R
        if (x->count > ${R}) {
            score_and_open_all(w->q, k + 16 * ldk, v + 16 * ldv, ldk, ldv);
            score_and_turn_all(w->q, v, next, ldv, ldk);
        } else {
            score_and_open(w->q, k + 16 * ldk, v + 16 * ldv, ldk, ldv);
            score_and_turn(w->q, v, next, ldv, ldk);
        }
        for (float *block = w->q + ${QUERIES}; block < end; block += ${QUERIES})
            score_opened(block + ${Q_TILES}, open, block + ${SCORES});
% else
        score_and_open(w->q, k + 16 * ldk, v + 16 * ldv, ldk, ldv);
        score_and_turn(w->q, v, next, ldv, ldk);
% end
        for (float *block = w->q; block < end; block += ${QUERIES}, to += ${RESULTS}) {
            scales_of(x, j, ${BK}, block + ${SCORES});
            softmax_keys(block + ${R*LDQ}, block + ${SCORES}, to + ${R*LDO});
        }
% for c in 0..HDV/COLS
% let AT = c*COLS
% let NEXT_AT = (4*c + 1)*CHUNK_ROWS
% if c > 0
        open_first_values(v + ${AT}, open + (x->count > ${R} ? ${FIRST_VALUES} : 0), next + ${4*c*CHUNK_ROWS} * ldk, ldv, ldk);
% end
% if BQ > R
        if (x->count > ${R})
            add_and_open_all(w->q, o${AT ? " + " : ""}${AT ? AT : ""}, v + ${AT ? AT : ""}${AT ? " + " : ""}16 * ldv, next + ${NEXT_AT} * ldk, ldv, ldk);
        else
            add_and_open(w->q, o${AT ? " + " : ""}${AT ? AT : ""}, v + ${AT ? AT : ""}${AT ? " + " : ""}16 * ldv, next + ${NEXT_AT} * ldk, ldv, ldk);
        to = o + ${RESULTS + AT};
        for (float *block = w->q + ${QUERIES}; block < end; block += ${QUERIES}, to += ${RESULTS})
            add_opened(block + ${SCORES}, open, to, open + ${APART});
% else
        add_and_open(w->q, o${AT ? " + " : ""}${AT ? AT : ""}, v + ${AT ? AT : ""}${AT ? " + " : ""}16 * ldv, next + ${NEXT_AT} * ldk, ldv, ldk);
% end
% end
    }
}
% elif TILED
/* How far the rows are apart that are fetched while others are computed. Where the rows of so many heads fill those of the tensor, each head fetches
 * a share of the memory that all read next, in its order; else its own rows. */
static int64_t apart(const int64_t *stride, int64_t heads)
{
    return stride[2] == heads * stride[1] ? stride[1] : stride[2];
}

/* Tiles one after another of which every row sees every key, of each head in turn; o is the blocks of their results. The values of a head's
 * tile are multiplied after the scores of the next head's are computed, so that nothing waits for its softmax. */
% if PIECED
static void whole_tiles(const struct rows *x, int64_t heads, const struct space *w, int64_t at, ${MODIFY ? "int64_t j, " : ""}int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, ldv = x->a->v_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
    const int64_t head_k = ${2*LIST}, head_v = ${2*LIST}, tile_k = ${2*PIECES}, tile_v = ${2*PIECES};
    const ${CKV} *const *k = w->k_at + at, *const *v = w->v_at + at, *const *values = v;
% else
static void whole_tiles(const struct rows *x, int64_t heads, const struct space *w, const ${CKV} *k, const ${CKV} *v, ${COUNTS ? "int64_t j, " : ""}int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, head_k = x->a->k_stride[1]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, tile_k = ${BK} * ldk;
    int64_t ldv = x->a->v_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, head_v = x->a->v_stride[1]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, tile_v = ${BK} * ldv;
    const ${CKV} *keys[2], *values[2];
% end
    int64_t far_k = apart(x->a->k_stride, heads)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, far_v = apart(x->a->v_stride, heads)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if not PIECED
    int64_t share_k = far_k < ldk ? ${BK} * far_k - head_k : 0, share_v = far_v < ldv ? ${BK} * far_v - head_v : 0;
    int64_t ahead_k = tile_k, ahead_v = ${QUARTERS ? "2 * " : ""}tile_v;
% end
    int64_t back_k = tile_k - (heads - 1) * head_k, back_v = tile_v - (heads - 1) * head_v, steps = count * heads, h = 0;
    int64_t size = over(x->count, ${LIVE}) * ${RESULTS};
    float *s = w->q + ${SCORES}, *before = s + ${BUFFER}, *q = w->q, *result = o, *last = o;
% if ONCE
    const int once = x->count > ${ONCE_OVER*R}; /* widened, for all blocks of rows */
% end
    for (int64_t n = 0; n <= steps; n++) {
        float *block = q, *to = s, *from = before, *to_o = result, *end = result + size;
        if (n == steps)
            end = result;
% if PIECED
        else
            fetch_starts(k, v);
% else
        keys[0] = k, keys[1] = k + ahead_k;
% end
% if ONCE
        if (once && n < steps)
            open_keys(${PIECED ? "k" : "keys"}, w->keys, ldk, far_k);
% end
        for (${MODIFY ? "int64_t t = 0" : ""}; to_o < end; to_o += ${RESULTS}, block += ${QUERIES}, to += ${QUERIES}${MODIFY ? ", t += " : ""}${MODIFY ? LIVE : ""}) {
% if ONCE
            if (!once || to == s) {
% let INSET = "    "
% else
% let INSET = ""
% end
% if SCALED and PIECED
            ${INSET}scales_at(x, w, h * ${LIST} + at / 2, to);
% elif SCALED
            ${INSET}scales_of(x + h, j, ${BK}, to);
% end
% if QUARTERS
            ${INSET}spread_blocks(${PIECED ? "v" : "&v"}, to + ${VALUES_TIMES}, ldv);
% end
% if ONCE
            }
            if (once) {
                ${SCALED ? "score_once" : "score_blocks_once"}(block, w->keys, to${SCALED ? ", s + " : ""}${SCALED ? K_SCALES : ""});
% if MODIFY
                modify(x + h, w, block, to, t, j, ${BK});
% end
                softmax_once(to, to_o + ${R*LDO}, s + ${VALUES_TIMES});
                continue;
            }
% end
% if INTEGERS
            float *exact = block + ${FACTORS + W + 2}; /* enough, so far: of these rows alone, whatever other rows and heads are beside them */
            if (n < heads || *exact > 0) {
                ${IN_FOURS ? "score_eights" : "score_integers"}((const int32_t *)(void *)(block + ${INTS}), ${PIECED ? "k" : "keys"}, to, block + ${FACTORS}, ldk, far_k);
                *exact = block[${FACTORS + W}] * block[${FACTORS + W + 1}] <= 9.765625e-4f;
            }
            if (!(*exact > 0))
                ${SCORES_BY}(block, ${PIECED ? "k" : "keys"}, to, ldk, far_k);
% elif ALONE
            ${SCORES_BY}(block, ${PIECED ? "k" : "keys"}, to, ldk, far_k);
% else
            tile_scores(block, ${PIECED ? "k" : "keys"}, to, to_o + ${R*LDO}, ldk, far_k);
% end
% if MODIFY
            modify(x + h, w, block, to, t, j, ${BK});
% end
% if ALONE
            softmax_rows(to, to_o + ${R*LDO});
% end
        }
% if ONCE
        if (once && n > 0) {
            open_values(values, w->values, ldv, far_v);
            for (to_o = last, end = last + size; to_o < end; to_o += ${RESULTS}, from += ${QUERIES})
                values_once(from, w->values, to_o);
        } else
% end
        if (n > 0)
            for (to_o = last, end = last + size; to_o < end; to_o += ${RESULTS}, from += ${QUERIES})
                tile_values(from, values, to_o, ldv, far_v);
        to = s, s = before, before = to, last = result;
% if PIECED
        values = v;
% else
        values[0] = v, values[1] = v + ahead_v;
% end
        if (++h < heads) {
            k += head_k, v += head_v, q += ${FEW_PART/4}, result += ${FEW_RESULT/4};
% if not PIECED
            ahead_k += share_k, ahead_v += share_v;
% end
            continue;
        }
        k += back_k, v += back_v, h = 0;
% if SCALED and PIECED
        at += ${2*PIECES};
% end
% if COUNTS
        j += ${BK};
% end
        if (heads > 1) {
            q = w->q, result = o;
% if not PIECED
            ahead_k = tile_k, ahead_v = ${QUARTERS ? "2 * " : ""}tile_v;
% end
        }
    }
}
% end

/* The first key of a head, and its value; in pages those of the page at the tensor's beginning. */
static const ${CKV} *head_k(const struct rows *x)
{
    return (const ${CKV} *)x->a->k + ${BLOCKS ? "(" : ""}x->s->k_at + x->g * x->a->k_stride[1]${BLOCKS ? ") * " : ""}${BLOCKS ? BYTES : ""};
}
static const ${CKV} *head_v(const struct rows *x)
{
    return (const ${CKV} *)x->a->v + ${BLOCKS ? "(" : ""}x->s->v_at + x->g * x->a->v_stride[1]${BLOCKS ? ") * " : ""}${BLOCKS ? BYTES : ""};
}

% if PIECED
/* Lists for head number h of so many the pieces of ${PIECE} keys, and of their values, from key j to the end of the tile that has key end - 1, and
 * those of the tile${AHEAD > PIECES ? "s" : ""} behind it, which are only fetched; where a sequence has no more keys, its last piece stands for them. 0: pages are of such a
 * size that a piece may lie in two. */
static int list_pieces(const struct rows *x, int64_t h, int64_t heads, const struct space *w, int64_t j, int64_t end)
{
    const struct attn_args *a = x->a;
    const struct attn_features *f = a->features;
    const ${CKV} *k = head_k(x + h), *v = head_v(x + h), **k_at = w->k_at + h * ${2*LIST}, **v_at = w->v_at + h * ${2*LIST};
    const int32_t *page = f->pages + x->s->b * f->page_stride + j / f->page_size;
    int64_t row = j % f->page_size, count = over(end - j, ${BK}) * ${PIECES}, far_k = apart(a->k_stride, heads), far_v = apart(a->v_stride, heads);
    int64_t share_k = far_k < a->k_stride[2] ? h * (${PIECE} * far_k - a->k_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""} : 0;
    int64_t share_v = far_v < a->v_stride[2] ? h * (${PIECE} * far_v - a->v_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""} : 0;
% if SCALED
    const float *ks = f->k_scales + x[h].g * f->k_scales_stride[1], *vs = f->v_scales + x[h].g * f->v_scales_stride[1];
    const float **k_scales_at = w->k_scales_at + h * ${LIST}, **v_scales_at = w->v_scales_at + h * ${LIST};
% end
    if (f->page_size % ${PIECE} != 0)
        return 0;
    for (int64_t i = 0; i < count + ${BEGUN}; i++) {
        if (j < x->s->keys) {
            k_at[2 * i] = k + (page[0] * a->k_stride[0] + row * a->k_stride[2])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
            v_at[2 * i] = v + (page[0] * a->v_stride[0] + row * a->v_stride[2])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if SCALED
            k_scales_at[i] = ks + page[0] * f->k_scales_stride[0] + row * f->k_scales_stride[2];
            v_scales_at[i] = vs + page[0] * f->v_scales_stride[0] + row * f->v_scales_stride[2];
% end
            j += ${PIECE}, row += ${PIECE};
            if (row == f->page_size)
                row = 0, page++;
        } else {
            k_at[2 * i] = k_at[2 * i - 2], v_at[2 * i] = v_at[2 * i - 2];
% if SCALED
            k_scales_at[i] = k_scales_at[i - 1], v_scales_at[i] = v_scales_at[i - 1];
% end
        }
    }
    for (int64_t i = 0; i < count; i++)
        k_at[2 * i + 1] = k_at[2 * i + ${2*PIECES}] + share_k, v_at[2 * i + 1] = v_at[2 * i + ${2*AHEAD}] + share_v;
    return 1;
}

/* A tile that is not read by its pieces, so that lists lead to rows where they lie together, or to copies; and to those from key `next` on. */
static void gather(const struct rows *x, const struct space *w, const ${CKV} *k, const ${CKV} *v, int64_t next, struct keys *y, const ${CKV} **k_at, const ${CKV} **v_at)
{
    const struct attn_args *a = x->a;
    const ${CKV} *next_k = row_at(a, x->s, k, a->k_stride, next), *next_v = row_at(a, x->s, v, a->v_stride, next);
    int64_t ldk = y->ldk, ldv = y->ldv;
    k = keys_at(a, x->s, k, a->k_stride, y->j, y->n, ${BK}, ${HD/VALUES*BYTES}, ${KEY}, &y->ldk, (${CKV} *)w->k);
    v = keys_at(a, x->s, v, a->v_stride, y->j, y->n, ${BK}, ${HDV/VALUES*BYTES}, ${VALUE}, &y->ldv, (${CKV} *)w->v);
    for (int64_t p = 0; p < ${PIECES}; p++) {
        k_at[2 * p] = k + p * ${PIECE} * y->ldk, v_at[2 * p] = v + p * ${PIECE} * y->ldv;
        k_at[2 * p + 1] = next_k + p * ${PIECE} * ldk, v_at[2 * p + 1] = next_v + p * ${PIECE} * ldv;
    }
    y->k = k_at, y->v = v_at;
}

% end
/* All rows of so many heads meet the keys of one split; o is the blocks of their results.${FP8_TILES ? " quick: by tiles, where they are whole." : ""} */
static void ${FP8_TILES ? "walk_so" : "walk"}(const struct rows *x, int64_t heads, const struct space *w, int64_t split, float *o${FP8_TILES ? ", int quick" : ""})
{
    const struct attn_args *a = x->a;
    int64_t end = least(x->end, (split + 1) * ${SPLIT}), j = most(split * ${SPLIT}, x->from / ${BK} * ${BK});
% if PIECED
    int64_t first = j;
    int listed = j < end;
    for (int64_t h = 0; h < heads && listed; h++)
        listed = list_pieces(x, h, heads, w, j, end);
% end
    for (int64_t h = 0; h < heads; h++)
        begin(x, o + h * ${FEW_RESULT/4});
    while (j < end) {
% if PIECED
        int64_t whole = j < x->seen_from || !listed ? 0 : (least(end, x->seen_end) - j) / ${BK};
        if (whole > 0) {
            whole_tiles(x, heads, w, (j - first) / ${PIECE} * 2, ${MODIFY ? "j, " : ""}whole, o);
            j += whole * ${BK};
            continue;
        }
% elif TILED
        int64_t whole = j < x->seen_from${FP8_TILES ? " || !quick" : ""} ? 0 : (least(end, x->seen_end) - j) / ${BK};
        if (whole > 0) {
            const ${CKV} *k = head_k(x) + j * a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, *v = head_v(x) + j * a->v_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if BYTE_TILES
            int64_t done = whole_tiles(x, w, k, v${SCALED ? ", j" : ""}, whole, o);
            j += done * ${BK};
            if (done > 0)
                continue; /* else the tile goes the way of those that are not whole */
% else
            whole_tiles(x, ${FP8_TILES ? "" : "heads, "}w, k, v${COUNTS ? ", j" : ""}, whole, o);
            j += whole * ${BK};
            continue;
% end
        }
% end
        for (int64_t h = 0; h < heads; h++) {
            const struct rows *y = x + h;
            const ${CKV} *k = head_k(y), *v = head_v(y);
            const ${CKV} *k_pieces[${2*PIECES}], *v_pieces[${2*PIECES}];
            struct keys tile;
            tile.j = j, tile.n = least(${BK}, end - j);
% if PIECED
            tile.ldk = a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, tile.ldv = a->v_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
            tile.k = w->k_at + h * ${2*LIST} + (j - first) / ${PIECE} * 2, tile.v = w->v_at + h * ${2*LIST} + (j - first) / ${PIECE} * 2;
            if (!listed || tile.n < ${BK})
                gather(y, w, k, v, j + ${BK} < end ? j + ${BK} : j, &tile, k_pieces, v_pieces);
% else
            int64_t next = j + ${BK} < end ? j + ${BK} : j;
            k_pieces[1] = row_at(a, x->s, k, a->k_stride, next), v_pieces[1] = row_at(a, x->s, v, a->v_stride, next);
            k_pieces[0] = keys_at(a, x->s, k, a->k_stride, j, tile.n, ${BK}, ${HD/VALUES*BYTES}, ${KEY}, &tile.ldk, (${CKV} *)w->k);
            v_pieces[0] = keys_at(a, x->s, v, a->v_stride, j, tile.n, ${BK}, ${HDV/VALUES*BYTES}, ${VALUE}, &tile.ldv, (${CKV} *)w->v);
            tile.k = k_pieces, tile.v = v_pieces;
% end
            for (int64_t t = 0; t < x->count; t += ${LIVE})
                one_tile(y, w, t, &tile, w->q + h * ${FEW_PART/4} + t / ${LIVE} * ${QUERIES}, o + h * ${FEW_RESULT/4} + t / ${LIVE} * ${RESULTS});
        }
        j += ${BK};
    }
}
% if FP8_TILES

/* The same; again without tiles, if an output is not finite: a value that is not a number must be the end of its own column alone. */
static void walk(const struct rows *x, int64_t heads, const struct space *w, int64_t split, float *o)
{
    float sums[${W}], *end = o + over(x->count, ${LIVE}) * ${RESULTS};
    int quick = 1;
    walk_so(x, heads, w, split, o, quick);
    for (float *block = o; block < end && quick; block += ${RESULTS}) {
        finite(block, sums, ${R*LDO/W});
        quick = sums[0] == 0.0f;
    }
    if (!quick)
        walk_so(x, heads, w, split, o, quick);
}
% end

