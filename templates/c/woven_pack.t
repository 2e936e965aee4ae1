%# How kernels on tiles pack keys and values, and what they note of them.
% if not SPLIT or WIDE_RANGE

static uint32_t bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
% end
% if not SPLIT
/* The largest of ${W} floats that are not negative, whose bits have their order. */
static float largest(const uint32_t *bits)
{
    uint32_t top = 0;
    for (int64_t l = 0; l < ${W}; l++)
        top = bits[l] > top ? bits[l] : top;
    return real_of(top);
}
/* A bound of the root of x >= 0, at most 0.2 % above it: half the exponent, with a chord above the root's mantissa, and then a step of
 * Heron's method, which never gives less than the root. */
static float root_bound(float x)
{
    float y = real_of((bits_of_float(x) >> 1) + 0x1fc00000u);
    return 0.5f * (y + x / y);
}
% end

% if ACROSS
/* Where row j of keys or values lies, to be fetched; nothing is read there. */
static const ${CKV} *place_of(const struct head *x, const void *from, int64_t at, const int64_t *stride, int64_t j)
{
% if not CHAINED or PAGED
    j = most(0, least(j, x->s->keys - 1));
% end
    const ${CKV} *head = (const ${CKV} *)from + at + x->g * stride[1];
% if PAGED
    int64_t size = x->a->features->page_size;
    return head + x->a->features->pages[x->s->b * x->a->features->page_stride + j / size] * stride[0] + j % size * stride[2];
% else
    return head + j * stride[2];
% end
}

% end
% if SPLIT
/* Packs a block of keys of KV head g, as far as there are any, with their values${ACROSS ? "; or those alone" : ""}. */
static void pack(const struct head *x, int64_t block${ACROSS ? ", int with_keys" : ""})
% elif ROWWISE
/* Packs keys first to end - 1 of KV head g, in blocks, with their values; notes the largest squares of keys' lengths, lane by lane. */
static void pack(const struct head *x, int64_t first, int64_t end, uint32_t *notes)
% else
/* Packs keys first to end - 1 of KV head g, in blocks, with their values; notes the largest squares of keys' lengths and the largest
 * values, lane by lane. */
static void pack(const struct head *x, int64_t first, int64_t end, uint32_t *notes)
% end
{
    const struct attn_args *a = x->a;
    const struct sequence *s = x->s;
    const struct space *w = x->w;
% if not NARROW
    const ${CKV} *k = (const ${CKV} *)a->k + s->k_at + x->g * a->k_stride[1];
    const ${CKV} *v = (const ${CKV} *)a->v + s->v_at + x->g * a->v_stride[1];
% end
% if SPLIT
    const int64_t end = s->keys, from = block, blocks = 1;
% else
    int64_t from = first / ${KEYS}, blocks = (end + ${KEYS - 1}) / ${KEYS} - from;
% end
% if KEY_PARTS > 1
    uint16_t *parts = (uint16_t *)w->stage + ${2*OPENED};
% end
% if KEYED
    uint16_t *keys = (uint16_t *)w->stage, *values = keys + ${W*LDX*PER};
    ${CKV} *copy = (${CKV} *)((float *)w->stage + ${COPIED});
    memset(values, 0, ${2*W*LDV} * sizeof *values);
% end
% if not SPLIT
    memset(notes, 0, ${NOTES} * sizeof *notes);
    if (blocks <= 0)
        return;
% end
    for (int64_t j = from * ${KEYS}; j < (from + blocks) * ${KEYS}; j += ${W}) {
        int64_t n = most(0, least(${W}, end - j))${NARROW ? "" : ", ld"};
% if KEYED
        float *side = w->side + ${SPLIT ? "0" : "j / "}${SPLIT ? "" : KEYS} * ${SIDE} + j % ${KEYS};
        open_keys(a, s, x->g, j, n, keys, side, copy);
        pack_k(keys, w->k + ${SPLIT ? "j % " : "j"}${SPLIT ? KEYS : ""} * ${LDK}, ${LDX*PER});
% elif NARROW
        const float *row = (const float *)w->stage;
        open_keys(a, s, x->g, j, n, (float *)w->stage);
% else
% if ACROSS
        const ${CKV} *row = 0;
        if (with_keys)
            row = keys_at(a, s, k, a->k_stride, j, n, ${W}, ${HD}, ${LDX*PER}, &ld, (${CKV} *)w->stage);
% else
        const ${CKV} *row = keys_at(a, s, k, a->k_stride, j, n, ${W}, ${HD}, ${LDX*PER}, &ld, (${CKV} *)w->stage);
% end
% end
% if KEYED
% elif KEY_PARTS > 1
        for (int64_t r = 0; r < ${W}; r++)
            part_key(row + r * ${NARROW ? LDX*PER : "ld"}, parts + r * ${LDK*PER});
        pack_k(parts, w->k + ${SPLIT ? "j % " : "j"}${SPLIT ? KEYS : ""} * ${LDK}, ${LDK*PER});
% else
        ${ACROSS ? "if (with_keys) " : ""}pack_k(row, w->k + ${SPLIT ? "j % " : "j"}${SPLIT ? KEYS : ""} * ${LDK}, ld);
% end
        if (j % ${2*W} == 0) {
            float *to = w->v + ${SPLIT ? "0" : "j / "}${SPLIT ? "" : KEYS} * ${VBLOCK} + j % ${KEYS} * ${W/2};
% if KEYED
            open_values(a, s, x->g, j, n, values, side + ${KEYS}, copy);
            open_values(a, s, x->g, j + ${W}, most(0, least(${W}, end - j - ${W})), values + ${W*LDV}, side + ${KEYS + W}, copy);
            pack_pairs(values, to, ${LDV});
% elif NARROW
            for (int64_t r = 0; r < ${2*W}; r++) {
                if (r % ${W} == 0)
                    open_values(a, s, x->g, j + r, most(0, least(${W}, end - j - r)), (float *)w->stage);
% if PLANES == 2
                part_value(row + r % ${W} * ${LDV}, parts + r * ${LDV}, parts + (${2*W} + r) * ${LDV});
% else
                round_value(row + r % ${W} * ${LDV}, parts + r * ${LDV});
% end
            }
% else
            n = most(0, least(${2*W}, end - j));
            row = keys_at(a, s, v, a->v_stride, j, n, ${2*W}, ${HDV}, ${LDV}, &ld, (${CKV} *)w->stage);
% end
% if PLANES == 2 and not NARROW
            for (int64_t r = 0; r < ${2*W}; r++)
                part_value(row + r * ld, parts + r * ${LDV}, parts + (${2*W} + r) * ${LDV});
% end
% if PLANES == 2
            pack_pairs(parts, to, ${LDV});
            pack_pairs(parts + ${2*W*LDV}, to + ${PLANE}, ${LDV});
% elif BLOCKS
            pack_pairs(parts, to, ${LDV});
% elif not KEYED
% if ACROSS
            pack_ahead(row, to, ld, place_of(x, a->k, s->k_at, a->k_stride, j + ${KEYS} - j % ${KEYS} / 2), a->k_stride[2]);
% else
            pack_pairs(row, to, ld);
% end
% end
        }
% if not SPLIT
        if (j % ${KEYS} == ${KEYS - W}) { /* while the block is in the nearest cache */
            key_norms(w->k + j / ${KEYS} * ${KBLOCK}, (int32_t *)notes, ${KEYS/W});
% if not ROWWISE
            value_range(w->v + j / ${KEYS} * ${VBLOCK}, (float *)notes + ${W}, ${KEYED ? 2*CV : VBLOCK/W/16});${KEYED ? " /* without the tiles behind the values */" : ""}
% end
        }
% end
    }
}

% if THIRDS
/* Packs the third parts of the keys of KV head g, unless they are there, 32 keys at a time: rows of 16 of them beside those of others. */
static void pack_thirds(const struct head *x)
{
    const struct sequence *s = x->s;
    int64_t unit = s->b * x->a->kv_heads + x->g, first = first_key(s, 0), end = end_key(s, s->q_len - 1);
    uint16_t *parts = (uint16_t *)x->w->stage + ${2*OPENED};
    const float *row = (const float *)x->w->stage;
    if (*x->thirds == unit)
        return;
    *x->thirds = unit;
    for (int64_t j = first / ${KEYS} * ${KEYS}; j < (end + ${KEYS - 1}) / ${KEYS} * ${KEYS}; j += ${W}) {
        open_keys(x->a, s, x->g, j, most(0, least(${W}, end - j)), (float *)x->w->stage);
        for (int64_t r = 0; r < ${W}; r++)
            third_key(row + r * ${LDX*PER}, parts + r * ${LDK*PER} + j % ${2*W} / ${W} * ${LDX*PER});
        if (j % ${2*W} == ${W})
            pack_k(parts, x->w->thirds + (j - ${W}) * ${LDX}, ${LDK*PER});
    }
}

% end
% if SPLIT
% elif ROWWISE
/* What notes on `pieces` lots of keys say of a head. */
static void settle(struct head *x, const uint32_t *notes, int64_t pieces)
{
    x->norm = 0.0f;
    for (; pieces > 0; pieces--, notes += ${NOTES}) {
        float norm = largest(notes);
        x->norm = bits_of_float(norm) > bits_of_float(x->norm) ? norm : x->norm; /* NaN, too */
    }
}

% else
/* What notes on `pieces` lots of keys say of a head. Returns 1 if no value is so large or small that it needs care. */
static int settle(struct head *x, const uint32_t *notes, int64_t pieces, int64_t keys)
{
    uint32_t top = 0;
    x->norm = 0.0f;
    for (; pieces > 0; pieces--, notes += ${NOTES}) {
        float norm = largest(notes);
        x->norm = bits_of_float(norm) > bits_of_float(x->norm) ? norm : x->norm; /* NaN, too */
        for (int64_t l = ${W}; l < ${2*W}; l++) {
            top = (notes[l] & 0xffffu) > top ? notes[l] & 0xffffu : top;
            top = notes[l] >> 16 > top ? notes[l] >> 16 : top;
        }
    }
    /* What the values, and the sum over keys, leave of 2^127 for exponentials; a bf16 has its exponent in the upper 9 bits. */
    x->room = ${KEYED ? "125.0f" : "126.0f"} - (float)((int32_t)(top >> 7) > 127 ? (int32_t)(top >> 7) - 126 : 0);
    for (int64_t n = keys; n > 0; n /= 2)
        x->room -= 1.0f;
    return top < 0x80u || (top >= 0x2b80u && top < 0x5380u); /* 0, or from 2^-40 up to 2^40 */
}

% end
