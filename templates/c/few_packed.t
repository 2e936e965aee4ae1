%# Rows of queries against the keys of one split, tile by tile, in the order of arithmetic of tiles.t, so that the bits are those of all
%# other kernels. What has to be packed or widened is so for some keys at a time, which stay in the nearest cache until all rows
%# have met them.

/* Where key j of the head lies. */
static const ${CKV} *key_at(const struct rows *x, int64_t j)
{
    const struct attn_args *a = x->a;
    int64_t at = x->s->k_at + x->g * a->k_stride[1];
% if PAGED
    at += a->features->pages[x->s->b * a->features->page_stride + j / a->features->page_size] * a->k_stride[0] + j % a->features->page_size * a->k_stride[2];
% else
    at += j * a->k_stride[2];
% end
    return (const ${CKV} *)a->k + at${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
}

% if not ACROSS and not OPENS
/* Returns where n keys from j on lie, to be fetched line by line. If their rows do not lie side by side, it fetches them at once, and returns
 * a place that is in the cache already. */
static const ${CKV} *ahead_of(const struct rows *x, int64_t j, int64_t n)
{
    const ${CKV} *at = key_at(x, j < x->s->keys ? j : x->s->keys - 1);
    if (j < x->s->keys && x->a->k_stride[2] != ${HD/VALUES})
        fetch_rows(at, x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, n);
    return j < x->s->keys && x->a->k_stride[2] == ${HD/VALUES} ? at : key_at(x, x->from);
}

% end
% if WEIGHS
/* Scales of n keys or values from row j on; and 0 behind them. */
static void scales_from(const struct rows *x, const float *head, const int64_t *stride, int64_t j, int64_t n, float *to)
{
% if not PAGED
    if (stride[2] == 1) {
        memcpy(to, head + j, (size_t)n * sizeof *to);
    } else
% end
    {
        for (int64_t r = 0; r < n; r++)
            to[r] = head[row_of(x->a, x->s, stride, j + r)];
    }
    memset(to + n, 0, (size_t)(${BK} - n) * sizeof *to);
}

% end
% if LOGS
% include "c/rests.t"

/* Of ${SOME} values those with odd scales become times what exponents do not bear of these; n have scales. */
static void tend(uint16_t *v, const float *scales, int64_t n)
{
    float rests[${SOME}];
    for (int64_t r = 0; r < ${SOME}; r++)
        rests[r] = r < n ? rest_of(scales[r]) : 1.0f;
    times_rests(v, rests, ${SOME});
}

% end
% if NARROW and not FOURS
/* Keys j to j + ${NR - 1} of those before end become a panel, and values j to j + ${SOME - 1} pieces of panels; zeros behind them. */
static void pack_keys(const struct rows *x, const struct space *w, int64_t j, int64_t end)
{
    for (int64_t c = 0; c < ${NR}; c += ${W}) {
% if OPENS
        open_keys(x->a, x->s, x->g, j + c, most(0, least(${W}, end - j - c)), (uint16_t *)w->stage, w->k + c + ${(BLOCKS ? BLOCK_SLOTS : LDQ)*NR});
        pack_k((const uint16_t *)w->stage, w->k + c, ${LDQ*PER});
% else
        open_keys(x->a, x->s, x->g, j + c, most(0, least(${W}, end - j - c)), (float *)w->stage);
        pack_k((const float *)w->stage, w->k + c, ${LDQ});
% end
    }
}
% end
% if not DIRECT
% if not NARROW
/* Values j to j + ${SOME - 1} of those before end become pieces of panels; zeros behind them. */
% end
static void pack_values(const struct rows *x, const struct space *w, int64_t j, int64_t end)
{
    const struct attn_args *a = x->a;
    for (int64_t c = 0; c < ${SOME}; c += ${W}) {
        int64_t n = most(0, least(${W}, end - j - c));
% if OPENS
        open_values(a, x->s, x->g, j + c, n, (uint16_t *)w->stage);
        pack_v((const uint16_t *)w->stage, w->v + c * ${NR/PER}, ${LDV});
% elif NARROW
        open_values(a, x->s, x->g, j + c, n, (float *)w->stage);
        pack_v((const float *)w->stage, w->v + c * ${NR/PER}, ${LDO});
% else
        int64_t ld;
        const ${CKV} *from = keys_at(a, x->s, (const ${CKV} *)a->v + x->s->v_at + x->g * a->v_stride[1], a->v_stride, j + c, n, ${W}, ${HDV}, ${LDO}, &ld,
            (${CKV} *)w->stage);
        pack_v(from, w->v + c * ${NR/PER}, ld);
% end
    }
}
% end
% if MODIFY

/* What the features do to the scores of ${R} rows from row t on, against n keys from key j on. A bias or mask comes from a copy, since the
 * rows may be of several heads. */
static void modify(const struct rows *x, const struct space *w, float *s, int64_t t, int64_t j, int64_t n)
{
    const struct attn_features *f = x->a->features;
    int64_t steps = over(n, ${PER*W});
    (void)w, (void)t, (void)j;
% if SOFTCAP
    float cap = f->softcap${TIMES_UNIT};${WHY_UNIT}
    soften(s, &cap, steps);
% end
% if BIAS != "none"
    memset(w->stage, 0, ${MR*BK} * sizeof(${CB}));
    for (int64_t r = 0; r < ${MR} && t + r < x->count; r++) {
        const ${CB} *in = (const ${CB} *)f->bias + x->bias_at[t + r] + j * f->bias_stride[3];
        ${CB} *to = (${CB} *)w->stage + r * ${BK};
        if (f->bias_stride[3] == 1)
            memcpy(to, in, (size_t)n * sizeof *to);
        else
            for (int64_t c = 0; c < n; c++)
                to[c] = in[c * f->bias_stride[3]];
    }
    add_bias(s, (const ${CB} *)w->stage, ${BK}, steps);
% end
% if ALIBI
    float numbers[${W + 2 + 2*MR}];
    numbers[0] = 0.0f, numbers[${W + 1}] = ${W}.0f;
    for (int64_t l = 0; l < ${W}; l++)
        numbers[1 + l] = (float)l;
    for (int64_t r = 0; r < ${MR}; r++) {
        int64_t row = least(t + r, x->count - 1);
        numbers[${W + 2} + r] = (float)(query_of(x, row) + x->s->offset - j);
        numbers[${W + 2 + MR} + r] = -f->slopes[head_of(x, row)]${TIMES_UNIT};
    }
    alibi(s, numbers, steps);
% end
% if MASK
    memset(w->stage, 0, ${MR*BK});
    for (int64_t r = 0; r < ${MR} && t + r < x->count; r++) {
        const uint8_t *in = f->mask + x->mask_at[t + r] + j * f->mask_stride[3];
        uint8_t *to = (uint8_t *)w->stage + r * ${BK};
        if (f->mask_stride[3] == 1)
            memcpy(to, in, (size_t)n * sizeof *to);
        else
            for (int64_t c = 0; c < n; c++)
                to[c] = in[c * f->mask_stride[3]];
    }
    hide(s, (const uint8_t *)w->stage, ${BK}, steps);
% end
}
% end

/* The softmax of ${R} rows from row t on, against n keys from key j on. */
static void soft(const struct rows *x, const struct space *w, int64_t t, int64_t j, int64_t n, float *row)
{
    float *s = w->s + t * ${BK};
    int64_t steps = over(n, ${PER*W});
% if WEIGHS and not INTEGRAL
    scale_keys(s, w->c, steps);
% end
% if MODIFY
    modify(x, w, s, t, j, n);
% end
    if (n < ${BK} || j < x->seen_from || j + n > x->seen_end) {
        int32_t ends[${2*MR}];
        for (int64_t r = 0; r < ${MR}; r++) {
            int64_t i = query_of(x, least(t + r, x->count - 1));
            ends[r] = (int32_t)most(0, least(n, end_key(x->s, i) - j)), ends[${MR} + r] = (int32_t)most(0, least(n, first_key(x->s, i) - j));
        }
        cut(s, ends, steps);
    }
% if TABLED
    float *tops = w->s + ${ROWS_OF_BLOCKS*BK};
    const float *scale = w->q + t / ${MR} * ${QUERIES} + ${Q_SLOTS + 1};
    int32_t bad;
    tops_of(s, tops, &bad, steps);
% if LOGS
    tops[${R*W}] = *scale;
% end
    softmax_words(s, w->p + t * ${BK/2}, row, tops, ${LOGS ? "w->c + " : "scale"}${LOGS ? 2*BK : ""}, steps);
    if (bad)
        spoil(s, row, steps);
    if (x->a->lse)
        add_unrounded(s, row, scale, steps);
% else
    softmax(s, ${PAIRS ? "w->p + t * " : "s"}${PAIRS ? BK/2 : ""}, row, steps);
% end
% if BEARS
    scale_probs(w->p + t * ${BK/2}, row, w->c + ${BK}, steps);
% end
}

% if DIRECT and PAGED and not NARROW
/* Returns where ${SOME} values from row j on lie, to be fetched while those are read that lie here, ld elements apart. If they lie in several pages,
 * or otherwise, it fetches them at once, and returns the place that is read. */
static const ${CKV} *values_ahead(const struct rows *x, const ${CKV} *head, int64_t j, const ${CKV} *here, int64_t ld)
{
    const int64_t *stride = x->a->v_stride, size = x->a->features->page_size, end = least(j + ${SOME}, x->s->keys);
    const int32_t *pages = x->a->features->pages + x->s->b * x->a->features->page_stride;
    if (j + ${SOME} == end && j % size + ${SOME} <= size && stride[2] == ld)
        return head + pages[j / size] * stride[0] + j % size * stride[2];
    for (int64_t some; j < end; j += some) {
        some = least(end - j, size - j % size);
        fetch_rows(head + pages[j / size] * stride[0] + j % size * stride[2], stride[2], some);
    }
    return here;
}

% end
% if IN_TURN
/* All rows meet the keys of one split; o is the blocks of their results. So many scores of its first tile are there already; returns the same of
 * the first tile behind the split, of the keys before `until`. */
static int64_t walk(const struct rows *x, int64_t heads, const struct space *w, int64_t split, float *o, int64_t scored, int64_t until)
% else
/* All rows meet the keys of one split; o is the blocks of their results. */
static void walk(const struct rows *x, int64_t heads, const struct space *w, int64_t split, float *o)
% end
{
    (void)heads; /* one */
    int64_t end = least(x->end, (split + 1) * ${SPLIT}), j = most(split * ${SPLIT}, x->from / ${BK} * ${BK});
% if WIDENS or not NARROW
    const ${CKV} *keys = (const ${CKV} *)x->a->k + (x->s->k_at + x->g * x->a->k_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% end
% if IN_TURN
    const int alone = x->count <= ${MR} && x->a->k_stride[2] == ${HD} && x->a->v_stride[2] == ${LDO};
% end
% if WEIGHS
    const struct attn_features *f = x->a->features;
% end
% if INTEGRAL
    float top; /* of the tile's scales of keys */
% end
% if INTEGRAL and BLOCKS
    float tops[${W}];
% end
    begin(x, o);
    for (; j < end; j += ${BK}) {
        int64_t n = least(${BK}, end - j);
% if WEIGHS
        scales_from(x, f->k_scales + x->s->k_scales_at + x->g * f->k_scales_stride[1], f->k_scales_stride, j, n, w->c);
        scales_from(x, f->v_scales + x->s->v_scales_at + x->g * f->v_scales_stride[1], f->v_scales_stride, j, n, w->c + ${BK});
% end
% if LOGS
        float odd; /* NaN where exponents do not bear the whole scale of some value */
        log_scales(w->c + ${BK}, w->c + ${2*BK}, &odd, over(n, ${2*W}));
% end
% if INTEGRAL and BLOCKS
        memset(tops, 0, sizeof tops);
% elif INTEGRAL
        largest_scale(w->c, &top, ${W}, over(n, ${W}));
% end
% if FOURS
% if IN_PLACE and (WIDENS or not NARROW)
        int64_t step = x->count <= ${MR} && n == ${BK} && x->a->k_stride[2] == ${HD/VALUES} ? ${BK} : ${W}; /* all keys at once, or a few */
% else
        const int64_t step = ${W};
% end
        for (int64_t c = ${IN_TURN ? "scored" : "0"}; c < n; c += step) {
            const int64_t some = least(step, n - c);
% if NARROW and not WIDENS
            const int64_t ld = ${LDQ};
            const float *from = w->k;
            open_keys(x->a, x->s, x->g, j + c, some, w->k);
% else
            int64_t ld;
            const ${CKV} *from = keys_at(x->a, x->s, keys, x->a->k_stride, j + c, some, step, ${BLOCKS ? KEY : HD}, ${BLOCKS ? KEY : LDQ*PER}, &ld, (${CKV} *)w->stage);
% end
% if INTEGRAL
% if IN_PLACE
            if (step == ${BK}) {
                sum_keys(w->q, from, w->s, ${BLOCKS ? "tops" : "w->c"}, ld, 4 * ld);
            } else
% end
            {
                if (j + c + ${AWAY} < x->s->keys)
                    fetch_rows(key_at(x, j + c + ${AWAY}), x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, step);
                for (int64_t t = 0; t < x->count; t += ${MR})
                    sum_again(w->q + t / ${MR} * ${QUERIES}, from, w->s + t * ${BK} + c, ${BLOCKS ? "tops" : "w->c + c"}, ld, 4 * ld);
            }
% if BLOCKS
            top = largest_of(tops);
% end
            for (int64_t t = 0; t < x->count; t += ${MR})
                for (int64_t i = 0; coarse(w->q[t / ${MR} * ${QUERIES} + ${AT_WORST}], top) && i < step; i += ${W})
                    rest_keys(w->q + t / ${MR} * ${QUERIES}, from + i * ld, w->s + t * ${BK} + c + i, ${BLOCKS ? "tops" : "w->c + c + i"}, ld, 4 * ld);
        }
        for (int64_t t = 0; t < x->count; t++)
            if (coarse(w->q[t / ${MR} * ${QUERIES} + ${AT_WORST + 1}], top))
                without_words(x->a, x->s, head_of(x, t), query_of(x, t), w->q + t / ${MR} * ${QUERIES} + ${AT_NUMBERS} + t % ${MR} * 4, j, n, w->s + t * ${BK});
% else
% if LANED
% let AGAIN = QUARTERED ? "quartered_again" : "across_again"
% let LD = QUARTERED ? "ld, 4 * ld" : "ld"
% if IN_PLACE
            if (x->a->k_stride[2] == ${HD/VALUES}) {
                ${QUARTERED ? "score_quartered" : "score_across"}(w->q, from, w->s + c, ${LD}, step / ${W});
            } else
% end
            {
                if (j + c + ${AWAY} < x->s->keys)
                    fetch_rows(key_at(x, j + c + ${AWAY}), x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, step);
                ${AGAIN}(w->q, from, w->s + c, ${LD});
            }
% else
            score_fours(w->q, from, w->s + c, ahead_of(x, j + c + ${AWAY}, step), ld, step / ${W});
% end
            for (int64_t t = ${MR}; t < x->count; t += ${MR})
                ${LANED ? AGAIN : "score_again"}(w->q + t / ${MR} * ${QUERIES}, from, w->s + t * ${BK} + c, ${QUARTERED ? LD : "ld"});
        }
% end
% else
% if NARROW
        for (int64_t c = 0; c < n; c += ${NR}) {
            pack_keys(x, w, j + c, end);
% if OPENS
            if (j + c + ${AWAY} < x->s->keys)
                fetch_rows(key_at(x, j + c + ${AWAY}), x->a->k_stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, least(${NR}, x->s->keys - (j + c + ${AWAY})));
            score_tile(w->q, w->k, w->s + c, w->q + ${MR*LDQ}, 1);
% else
            score_ahead(w->q, w->k, w->s + c, w->q + ${MR*LDQ}, ahead_of(x, j + c + ${AWAY}, ${NR}));
% end
% else
% if IN_PLACE
        int64_t step = x->count <= ${MR} && n == ${BK} && x->a->k_stride[2] == ${HD} ? ${BK} : ${NR}; /* all panels at once, or one */
% else
        const int64_t step = ${NR};
% end
        for (int64_t c = 0; c < n; c += step) {
            int64_t ld;
            const ${CKV} *from = keys_at(x->a, x->s, keys, x->a->k_stride, j + c, least(step, n - c), step, ${HD}, ${LDQ*PER}, &ld, (${CKV} *)w->stage);
            score_panels(w->q, from, w->s + c, ahead_of(x, j + c + ${AWAY}, step), ld, step / ${NR});
% end
            for (int64_t t = ${MR}; t < x->count; t += ${MR}) {
                const float *q = w->q + t / ${MR} * ${QUERIES};
                ${WORDS ? "score_words" : "score_tile"}(q, w->k, w->s + t * ${BK} + c, q + ${MR*LDQ}${WORDS ? "" : ", 1"});
            }
        }
% end
        for (int64_t t = 0; t < x->count; t += ${MR})
            soft(x, w, t, j, n, o + t / ${MR} * ${RESULTS} + ${MR*LDO});
% if DIRECT
        for (int64_t t = 0; t < x->count; t += ${MR}) {
            float *to = o + t / ${MR} * ${RESULTS}, *row = to + ${MR*LDO};
            int64_t same = 0;
            while (same < ${MR} && row[${FIX} + same] == 1.0f)
                same++;
            if (same < ${MR}) /* a maximum has grown */
                rescale(to, row);
        }
% if IN_TURN
        scored = alone && until - j >= ${2*BK} ? ${BK} : 0; /* those of the next tile are made with the values of this one */
        if (scored) {
            add_and_score(${PAIRS ? "w->p" : "w->s"}, (const ${CKV} *)x->a->v + x->s->v_at + x->g * x->a->v_stride[1] + j * ${LDO}, o, w->q, keys + (j + ${BK}) * ${HD}, w->s);
            continue;
        }
% end
% let STEP = AT_ONCE ? "all" : SOME
% if AT_ONCE
        const int64_t all = x->count <= ${MR} && n == ${BK} && x->a->v_stride[2] == ${LDO/VALUES}${LOGS ? " && odd == odd" : ""} ? ${BK} : ${SOME}; /* values of all keys at once, or of a few */
% end
        for (int64_t c = 0; c < n; c += ${STEP}) {
            const ${CKV} *head = (const ${CKV} *)x->a->v + (x->s->v_at + x->g * x->a->v_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, *next;
            int64_t ld, some = least(${STEP}, n - c);
% if WIDENS
            const ${CKV} *from = keys_at(x->a, x->s, head, x->a->v_stride, j + c, some, ${STEP}, ${BLOCKS ? VALUE : HDV}, ${BLOCKS ? VALUE : LDV}, &ld, (${CKV} *)w->stage);
            uint16_t *v = (uint16_t *)(void *)w->v;
% if AT_ONCE
            if (all == ${BK}) {
                ${BLOCKS ? "add_quartered" : "add_narrow"}(w->p, from, o, ${BLOCKS ? "w->c, " : ""}ld, ${BK/SOME});
                break;
            }
% end
            pair_values(from, v, ld, ${SOME});
% if LOGS
            if (odd != odd)
                tend(v, w->c + ${BK} + c, some);
% end
            next = from + ${SOME} * ld; /* fetched ahead; nothing is read, wherever that is */
            if (ld != ${BLOCKS ? VALUE : LDV})
                fetch_rows(next, ld, ${SOME}), next = from;
            ld = ${LDV};
% else
            const ${CKV} *v = keys_at(x->a, x->s, head, x->a->v_stride, j + c, some, ${STEP}, ${HDV}, ${LDO}, &ld, (${CKV} *)(void *)w->v);
% if PAGED
            next = values_ahead(x, head, j + c + ${2*SOME}, v, ld);
% else
            next = v + ${SOME} * ld; /* fetched ahead; nothing is read, wherever that is */
% end
% end
            for (int64_t t = 0; t < x->count; t += ${MR}) {
                float *to = o + t / ${MR} * ${RESULTS};
                const float *p = ${PAIRS ? "w->p + t * " : "w->s + t * "}${PAIRS ? BK/2 : BK} + c${PAIRS ? " / 2" : ""};
% if WHOLE
                if (some == ${STEP}${WIDENS ? "" : " && ld == "}${WIDENS ? "" : LDO}) {
% if AT_ONCE and not WIDENS
                    add_all(p, v, to, next, ld, all / ${SOME});
% else
                    add_some(p, v, to, next, ld);
% end
% if LAST != NV
% let c = PANELS - 1
                    for (int64_t r = 0; r < ${MR}; r += ${VR})
                        add_rest(p + r * ${LDP}, v + ${c*NR}, to + r * ${LDO} + ${c*NR}, next + (r / ${VR} + ${c*(R/VR)}) * ${VALUE_LINES*LINE}, ld, ${SOME/(U*PER)});
% end
                    continue;
                }
% end
% for c in 0..PANELS
                for (int64_t r = 0; r < ${MR}; r += ${VR})
                    ${c < PANELS - 1 or LAST == NV ? "add_values" : "add_rest"}(p + r * ${LDP}, v + ${c*NR}, to + r * ${LDO} + ${c*NR}, next + (r / ${VR} + ${c*(R/VR)}) * ${VALUE_LINES*LINE}, ld, over(some, ${U*PER}));
% end
            }
        }
% else
        for (int64_t c = 0; c < n; c += ${SOME}) {
            pack_values(x, w, j + c, end);
            for (int64_t t = 0; t < x->count; t += ${MR}) {
                float *to = o + t / ${MR} * ${RESULTS}, *fix = to + ${MR*LDO + FIX};
                const float *p = ${PAIRS ? "w->p + t * " : "w->s + t * "}${PAIRS ? BK/2 : BK} + c${PER > 1 ? " / 2" : ""};
% for c in 0..PANELS
                ${c < PANELS - 1 or LAST == NV ? "value_tile" : "value_last"}(p, w->v + ${c*(SOME/PER)*NR}, to + ${c*NR}, to + ${MR*LDO}, over(least(${SOME}, n - c), ${U*PER}));
% end
                for (int64_t r = 0; r < ${MR}; r++)
                    fix[r] = 1.0f; /* the rest of the tile goes on */
            }
        }
% end
    }
% if IN_TURN
    return scored;
% end
}

