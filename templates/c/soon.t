%# What comes after a tile of queries is fetched while that is computed: what a processor fetches by itself ends with a head.
/* Rows that are read or written soon: where they begin, how many bytes they are apart, how many lines each has, and how many they are. */
struct area { const uint8_t *at; int64_t ld, lines, rows; };
struct soon { int64_t cuts, count; int large; struct area area[4]; };

/* Nothing yet. Where the whole problem lies in caches near a core, nothing ever is. */
static struct soon soon_begin(const struct attn_args *a, int64_t cuts)
{
    int64_t queries = a->batch * a->heads * a->q_len, keys = a->batch * a->kv_heads * a->kv_len;
    struct soon x;
    x.cuts = cuts, x.count = 0;
    x.large = queries * (int64_t)(${HD} * sizeof(${CQ}) + ${HDV} * sizeof(${CO})) + keys * ${(KEY_LINES + SOON_VALUE)*64} > ${SOON_LEAST};
    return x;
}

/* Adds rows from number `first` on of a matrix whose strides are in units of so many bytes. */
static void add_area(struct soon *out, const void *matrix, int64_t head, int64_t ld, int64_t unit, int64_t first, int64_t rows, int64_t lines)
{
    struct area *m = &out->area[out->count++];
    m->at = (const uint8_t *)matrix + (head + first * ld) * unit;
    m->ld = ld * unit, m->lines = lines, m->rows = rows;
}

/* What the next tile of queries, rows i0 and on of head h, reads and writes; and the head's keys and values if others are packed now. */
static void add_tile(struct soon *out, const struct attn_args *a, const struct sequence *s, int64_t h, int64_t i0${PAGED ? "" : ", int others"})
{
    const int64_t rows = least(${BQ}, s->q_len - i0);
% if not PAGED
% let UNIT = NARROW ? BYTES : SIZE
    const int64_t g = h / (a->heads / a->kv_heads), first = first_key(s, 0), keys = end_key(s, s->q_len - 1) - first;
    if (others && keys > 0 && keys <= ${SOON_MOST/((KEY_LINES + SOON_VALUE)*64)}) {
        add_area(out, a->k, s->k_at + g * a->k_stride[1], a->k_stride[2], ${UNIT}, first, keys, ${KEY_LINES});
        add_area(out, a->v, s->v_at + g * a->v_stride[1], a->v_stride[2], ${UNIT}, first, keys, ${SOON_VALUE});
    }
% end
    add_area(out, a->q, s->q_at + h * a->q_stride[1], a->q_stride[2], sizeof(${CQ}), i0, rows, (${HD} * sizeof(${CQ}) + 63) / 64);
    add_area(out, a->o, s->o_at + h * a->o_stride[1], a->o_stride[2], sizeof(${CO}), i0, rows, (${HDV} * sizeof(${CO}) + 63) / 64);
}

/* What comes after tile u of a unit, which is share t of the work up to `end`: another tile of the unit, or the first one of the next. */
static struct soon *next_tile(const struct attn_args *a, const struct sequence *s, struct soon *out, int64_t t, int64_t u, int64_t end)
{
    int64_t cuts = out->cuts, group = a->heads / a->kv_heads, unit = t / cuts, next = unit, v = u - cuts;
    struct sequence other;
    out->count = 0;
    if (!out->large || (v < 0 && t + 1 == end))
        return out;
    if (v < 0) {
        next = (t + 1) / cuts;
        other = sequence_of(a, next / a->kv_heads);
        s = &other;
        v = group * query_tiles(s->q_len) - 1 - (t + 1) % cuts;
    }
    if (v >= 0)
        add_tile(out, a, s, next % a->kv_heads * group + v / query_tiles(s->q_len), v % query_tiles(s->q_len) * ${BQ}${PAGED ? "" : ", next != unit"});
    return out;
}

/* Fetches one of so many equal shares of what is left. */
static void fetch_share(struct soon *x, int64_t shares)
{
    for (int64_t i = 0; i < x->count; i++) {
        struct area *m = &x->area[i];
        int64_t n = (m->rows + shares - 1) / shares;
        if (n > 0)
            fetch_lines(m->at, m->ld, m->lines, n);
        m->at += n * m->ld, m->rows -= n;
    }
}
