%# Queries as words, and what is done where words and rests leave too much of them (integral.micro).
/* Whether scores of rows that words or rests leave `off` of, for each 1 of a key's scale, may be off by more than 2**-10, half of what rounding a
 * probability to bf16 does to it. top: the largest scale of the keys. */
static int coarse(float off, float top)
{
    return !(off * top <= 9.765625e-4f);
}

/* The numbers of ${MR} rows, as pack_words left them, become what scores need; worst: the largest of how far off words and rests leave a score. A NaN
 * stays there. */
static void weigh_rows(const struct attn_args *a, float *f, float *worst)
{
% if TABLED
    const float times = a->scale < 0 ? -1.0f : 1.0f;
% else
    const float times = a->scale${TIMES_SCALE_UNIT};
% end
    float bound = a->scale${TIMES_UNIT} * ${NIBBLES ? 8 : 128}; /* a key's integers are that large at most */
    bound = bound < 0 ? -bound : bound;
    worst[0] = worst[1] = 0.0f;
    for (float *end = f + ${4*MR}; f < end; f += 4) {
        f[0] *= times, f[1] *= bound, f[2] *= times, f[3] *= bound;
        worst[0] = f[1] > worst[0] || f[1] != f[1] ? f[1] : worst[0];
        worst[1] = f[3] > worst[1] || f[3] != f[3] ? f[3] : worst[1];
    }
}

% if BLOCKS
/* A block's scale. */
static float half_at(const uint8_t *from)
{
    const uint32_t half = from[0] | (uint32_t)from[1] << 8, power = half >> 10 & 31, digits = half & 1023;
    const uint32_t bits = (power == 31 ? 255 : power + 112) << 23 | digits << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    x = power ? x : (float)digits * 5.96046448e-8f;
    return half & 0x8000 ? -x : x;
}

% end
% if BLOCKS and SPLIT
static float largest_of(const float *x)
{
    float top = 0.0f;
    for (int64_t l = 0; l < ${W}; l++)
        top = x[l] > top ? x[l] : top;
    return top;
}

% end
/* Scores of a row, query i of head h, against n keys from key j on, for those keys whose scale makes too much of what rests leave of the
 * query: its numbers are more than 2**22 times apart, or no finite ones. */
static void without_words(const struct attn_args *a, const struct sequence *s, int64_t h, int64_t i, const float *f, int64_t j, int64_t n, float *scores)
{
    const int64_t g = h / (a->heads / a->kv_heads);
    const ${CQ} *q = (const ${CQ} *)a->q + s->q_at + h * a->q_stride[1] + i * a->q_stride[2];
    const ${CKV} *keys = (const ${CKV} *)a->k + (s->k_at + g * a->k_stride[1])${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
% if not BLOCKS
    const float *scales = a->features->k_scales + s->k_scales_at + g * a->features->k_scales_stride[1];
% end
    for (int64_t c = 0; c < n; c++) {
        const ${CKV} *key = keys + row_of(a, s, a->k_stride, j + c)${BLOCKS ? " * " : ""}${BLOCKS ? BYTES : ""};
        float score = 0.0f, top = 0.0f;
        for (int64_t b = 0; b < ${HD}; b += ${BLOCKS ? VALUES : HD}${BLOCKS ? ", key += " : ""}${BLOCKS ? BYTES : ""}) {
            const float scale = ${BLOCKS ? "half_at((const uint8_t *)key)" : "scales[row_of(a, s, a->features->k_scales_stride, j + c)]"};
            float sum = 0.0f, size = scale < 0 ? -scale : scale;
            top = top >= size ? top : size; /* a NaN stays unless a number comes */
            for (int64_t d = 0; d < ${BLOCKS ? VALUES : HD}; d++) {
                uint32_t bits = (uint32_t)q[b + d] << 16;
                float x;
                memcpy(&x, &bits, sizeof x);
                sum += x * (float)${NIBBLES ? "((d < 16 ? key[2 + d] & 15 : key[2 + d - 16] >> 4) - 8)" : BLOCKS ? "key[2 + d]" : "key[d]"};
            }
            score += sum * scale;
        }
        if (coarse(f[3], top))
            scores[c] = score * ${TABLED ? "(a->scale < 0 ? -1.0f : 1.0f)" : "(a->scale"}${TABLED ? "" : TIMES_SCALE_UNIT}${TABLED ? "" : ")"};
    }
}
% if SPLIT

/* Packs a block of queries, rows that lie side by side. */
static void words_of(const struct attn_args *a, const ${CQ} *q, float *to)
{
    float *words = to + ${3*QROWS*LDQ}, *rests = to + ${7*QROWS*LDQ}; /* where they stand once, before they are copied */
    in_quarters(q, to);
    pack_words((const ${CQ} *)(const void *)to, (int32_t *)(void *)words, (int32_t *)(void *)rests, to + ${AT_NUMBERS}, ${LDQ*PER});
    four_times((const ${CQ} *)(const void *)words, to);
    four_times((const ${CQ} *)(const void *)rests, to + ${4*QROWS*LDQ});
    weigh_rows(a, to + ${AT_NUMBERS}, to + ${AT_WORST});
}
% else

/* Packs ${W} rows of queries, ld elements apart, as rows i, i + 1 and so on; and then says of all of them what scores need. */
static void words_of(const struct space *w, int64_t i, const ${CQ} *q, int64_t ld)
{
    float *words = w->q + i * ${LDQ}, *rests = words + ${Q_RESTS};
    pack_words(q, (int32_t *)(void *)words, (int32_t *)(void *)rests, w->q + ${Q_NUMBERS} + 4 * i, ld);
}

static void weigh_all(const struct attn_args *a, const struct space *w, int64_t rows)
{
    for (int64_t i = 0; i < rows; i += ${MR})
        weigh_rows(a, w->q + ${Q_NUMBERS} + 4 * i, w->q + ${Q_WORST} + i / ${MR} * 2);
}
% end
