%# Rows of a tensor where they lie, or a copy.
% if not WOVEN and RAW

/* The largest scores are to be those of the largest products: where the scale is negative, the signs of so many slots of queries are turned
 * round. Returns what products are to be times. */
static float turned(float *q, int64_t slots, float scale)
{
    for (int64_t l = 0; scale < 0 && l < slots; l++) {
        uint32_t slot;
        memcpy(&slot, q + l, sizeof slot);
        slot ^= 0x80008000u;
        memcpy(q + l, &slot, sizeof slot);
    }
    scale = scale < 0 ? -scale : scale;
    return scale < 1.17549435e-38f ? 1.17549435e-38f : scale; /* 0 times -inf is no score */
}
% end
% if NARROW

/* How far row j of a sequence lies behind its head's first: of K, V and their scales. */
static int64_t row_of(const struct attn_args *a, const struct sequence *s, const int64_t *stride, int64_t j)
{
% if PAGED
    int64_t size = a->features->page_size;
    return a->features->pages[s->b * a->features->page_stride + j / size] * stride[0] + j % size * stride[2];
% else
    (void)a, (void)s;
    return j * stride[2];
% end
}
% end
% if WOVEN and type_scaled(TKV)
% for v in 0..2
% let X = v ? "v" : "k"
% let WIDTH = v ? HDV : HD
% let STEP = v ? LDV : LDX*PER
% let ALONE = PAGED or WIDTH % (2*W) != 0

/* ${v ? "Values" : "Keys"} j to j + n - 1 of KV head g as ${W} rows of bf16, zeros where there are fewer: what is stored, times a power of two. What is left of their
 * scales goes into rests${v ? ", and its inverses behind the rows" : ""}. */
static void ${v ? "open_values" : "open_keys"}(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t j, int64_t n, uint16_t *to, float *rests, ${CKV} *copy)
{
    const ${CKV} *head = (const ${CKV} *)a->${X} + s->${X}_at + g * a->${X}_stride[1];
    const float *scales = a->features->${X}_scales + s->${X}_scales_at + g * a->features->${X}_scales_stride[1];
    float scale[${W}], parts[${5*W}];
% if WIDTH % (2*W) != 0
    memset(copy, 0, ${round_up(WIDTH, 2*W)});
% else
    (void)copy; /* for rows that are not whole vectors */
% end
    for (int64_t r = 0; r < ${W}; r++)
        scale[r] = r < n ? scales[row_of(a, s, a->features->${X}_scales_stride, j + r)] : 1.0f;
    open_scales(scale, parts);
    memcpy(rests, parts + ${W}, ${W} * sizeof *rests);
% if v and TABLE
    memcpy(rests + ${KEYS}, parts + ${2*W}, ${W} * sizeof *rests);
% end
% if ALONE
    for (int64_t r = 0; r < n; r++) {
        const ${CKV} *row = head + row_of(a, s, a->${X}_stride, j + r);
% if WIDTH % (2*W) != 0
        memcpy(copy, row, ${WIDTH});
        row = copy;
% end
        ${v ? "widen_values" : "widen_keys"}(row, to + r * ${STEP}, parts + r, 0, 0, 1);
    }
% else
    if (n > 0)
        ${v ? "widen_values" : "widen_keys"}(head + row_of(a, s, a->${X}_stride, j), to, parts, a->${X}_stride[2], ${STEP}, n);
% end
    for (int64_t r = n; r < ${W}; r++)
        memset(to + r * ${STEP}, 0, ${STEP} * sizeof *to);
% if v
    for (int64_t r = 0; r < ${W}; r++) {
        float *behind = (float *)(to + r * ${STEP} + ${LDO});
        behind[0] = parts[${3*W} + r], behind[1] = parts[${4*W} + r];
    }
% end
}
% end
% elif OPENS and not WIDENS
% if LOGS
% include "c/rests.t"
% end
% for v in 0..2
% let X = v ? "v" : "k"
% let WIDTH = v ? HDV : HD
% let STEP = v ? LDV : LDQ*PER
% let ASIDE = not v or WEIGHS
% let WHAT = INTEGRAL and not v ? "what is stored, as words" : v and not WEIGHS ? "each number rounded" : SCALED and TKV == "fp8" and (v or EIGHTS) ? "a 256th of what is stored" : SCALED and not INVARIANT ? "what is stored, times a power of two" : "what is stored"

/* ${v ? "Values" : "Keys"} j to j + n - 1 of KV head g as ${W} rows of ${INTEGRAL and not v ? "pairs" : "bf16"}, and zeros where there are fewer: ${WHAT}.
% if not ASIDE
 */
% elif SCALED
 * ${INVARIANT or v ? "Their scales go" : "What is left of their scales goes"} beside. */
% else
 * Their scales go beside${v ? "" : ", into columns of a panel"}. */
% end
static void ${v ? "open_values" : "open_keys"}(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t j, int64_t n, uint16_t *to${ASIDE ? ", float *beside" : ""})
{
    const ${CKV} *head = (const ${CKV} *)a->${X} + (s->${X}_at + g * a->${X}_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if SCALED
    const float *scales = a->features->${X}_scales + s->${X}_scales_at + g * a->features->${X}_scales_stride[1];
% if v or not INTEGRAL
    float factors[${W}];
% end
% end
% if WIDTH % (2*W) != 0
    ${CKV} *copy = (${CKV} *)((float *)to + ${ROW});
    memset(copy, 0, ${STEP});
% elif PAGED
    int64_t size = a->features->page_size;
% end
    for (int64_t r = 0, m; r < n; r += m) {
        const ${CKV} *row = head + row_of(a, s, a->${X}_stride, j + r)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if WIDTH % (2*W) != 0
        m = 1;
        memcpy(copy, row, ${WIDTH});
        row = copy;
% elif PAGED
        m = least(n - r, size - (j + r) % size); /* which lie in one page */
% else
        m = n;
% end
% if SCALED
        const float *from = scales + row_of(a, s, a->features->${X}_scales_stride, j + r);
% if not ASIDE
        for (int64_t i = 0; i < m; i++)
            factors[i] = from[i * a->features->v_scales_stride[2]];
% elif v
        for (int64_t i = 0; i < m; i++)
            factors[i] = ${LOGS ? "rest_of(from[i * a->features->v_scales_stride[2]])" : ""}${LOGS and TKV == "fp8" ? " * " : ""}${TKV == "fp8" ? "0.00390625f" : LOGS ? "" : "1.0f"}, beside[r + i] = from[i * a->features->v_scales_stride[2]];
% else
% if INTEGRAL
        for (int64_t i = 0; i < m; i++)
            beside[r + i] = from[i * a->features->k_scales_stride[2]];
% elif INVARIANT
        for (int64_t i = 0; i < m; i++)
            factors[i] = ${EIGHTS and TKV == "fp8" ? "0.00390625f" : "1.0f"}, beside[r + i] = from[i * a->features->k_scales_stride[2]]${EIGHTS and TKV == "fp8" ? " * 256" : ""};
% else
        split_scales(from, factors, beside + r, a->features->k_scales_stride[2], m);
% end
% end
% if INTEGRAL and not v
        open_words(row, (int32_t *)(void *)to + r * ${STEP/2}, a->k_stride[2], ${STEP/2}, m);
% else
        ${v ? "widen_values" : "widen_keys"}(row, to + r * ${STEP}, factors, a->${X}_stride[2], ${STEP}, m);
% end
% else
        ${v ? (WEIGHS ? "open_value_numbers" : "open_rows") : INTEGRAL ? "open_blocks" : "open_stored"}(row, to + r * ${STEP}, ${ASIDE ? "beside + r, " : ""}a->${X}_stride[2] * ${BYTES}, m);
% end
    }
    memset(to + n * ${STEP}, 0, (size_t)(${W} - n) * ${2*STEP});
% if SCALED and ASIDE
    for (int64_t r = n; r < ${W}; r++)
        beside[r] = 0.0f;
% elif ASIDE
    for (int64_t i = 0; n < ${W} && i < ${v ? WEIGHTS : KEY_SCALES}; i++)
        memset(beside + i * ${v ? BK : (BLOCK_SLOTS + 1)*NR} + n, 0, (size_t)(${W} - n) * sizeof *beside);
% end
}
% end
% elif NARROW and not FEW and not WIDENS
% for v in 0..2
% let WIDTH = v ? HDV : HD
% let PADDED = v ? LDV : LDX*PER
% let ROW_OPENS = v and HD != HDV ? (BLOCKS ? "open_value" : "widen_value") : BLOCKS ? "open_key" : "widen_key"

/* ${v ? "Values" : "Keys"} j to j + n - 1 of KV head g as ${W} rows of floats; zeros where there are fewer. */
static void ${v ? "open_values" : "open_keys"}(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t j, int64_t n, float *to)
{
    const ${CKV} *head = (const ${CKV} *)a->${v ? "v" : "k"} + (s->${v ? "v" : "k"}_at + g * a->${v ? "v" : "k"}_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if SCALED
    const float *scales = a->features->${v ? "v" : "k"}_scales + s->${v ? "v" : "k"}_scales_at + g * a->features->${v ? "v" : "k"}_scales_stride[1];
% end
% if WIDTH != PADDED
    ${CKV} *copy = (${CKV} *)(to + ${ROW});
    memset(copy, 0, ${PADDED});
% end
    for (int64_t r = 0; r < n; r++) {
        const ${CKV} *row = head + row_of(a, s, a->${v ? "v" : "k"}_stride, j + r)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if WIDTH != PADDED
        memcpy(copy, row, ${WIDTH});
        row = copy;
% end
        ${ROW_OPENS}(row, to + r * ${PADDED}${SCALED ? (v ? ", scales + row_of(a, s, a->features->v_scales_stride, j + r)" : ", scales + row_of(a, s, a->features->k_scales_stride, j + r)") : ""});
    }
    memset(to + n * ${PADDED}, 0, (size_t)(${W} - n) * ${4*PADDED});
}
% end
% else

/* Keys or values j to j + n - 1 of a head, as `all` rows that are *ld elements apart: where they lie; or a copy, padded with zeros, if
 * there are fewer${PAGED ? ", if rows are not whole vectors, or if they lie in several pages" : " or rows are not whole vectors"}. */
static const ${CKV} *keys_at(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j, int64_t n,
    int64_t all, int64_t width, int64_t padded, int64_t *ld, ${CKV} *copy)
{
    *ld = stride[2]${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if PAGED
    int64_t size = a->features->page_size;
    const int32_t *pages = a->features->pages + s->b * a->features->page_stride;
    int together = j % size + n <= size;
    if (together && n == all && width == padded)
        return head + (pages[j / size] * stride[0] + j % size * stride[2])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% let AT_ROW_R = "(pages[(j + r) / size] * stride[0] + (j + r) % size * stride[2])"
% else
    (void)a, (void)s; /* what pages would need */
    if (n == all && width == padded)
        return head + j * ${BLOCKS ? "*ld" : "stride[2]"};
% let AT_ROW_R = "(j + r) * stride[2]"
% end
    int64_t filled = width == padded ? n : 0; /* rows that need no zeros */
    memset(copy + filled * padded, 0, (size_t)((all - filled) * padded) * sizeof *copy);
    for (int64_t r = 0; r < n; r++)
        memcpy(copy + r * padded, head + ${AT_ROW_R}${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""}, (size_t)width * sizeof *copy);
    *ld = padded;
    return copy;
}
% end
% if not SPLIT

/* ${W} rows of queries, *ld elements apart: where they lie; or a copy, padded with zeros, if there are fewer${HD == LDX*PER ? "" : " or rows are not whole vectors"}. */
static const ${CQ} *queries_at(const ${CQ} *from, int64_t *ld, int64_t rows, ${CQ} *copy)
{
% if HD == LDX*PER
    if (rows >= ${W})
        return from;
% end
    memset(copy, 0, ${W*LDX*PER} * sizeof *copy);
    for (int64_t r = 0; r < least(rows, ${W}); r++)
        memcpy(copy + r * ${LDX*PER}, from + r * *ld, ${HD} * sizeof *copy);
    *ld = ${LDX*PER};
    return copy;
}
% end
