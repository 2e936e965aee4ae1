%# FlashAttention-2 (Dao 2023, algorithm 1): queries outside, keys inside, online softmax, one division at the end. This file
%# is the tile loop; what happens inside a tile is tile.t and attn.micro, which keys a query sees is sequence.t, where they lie
%# rows.t, and how they are packed panels.t.
% include "c/panels.t"
% if MODIFY
% include "c/modify.t"
% end

% include "c/tile.t"

% if JOINS
% include "c/joins.t"

% end
% if SOON
% include "c/soon.t"

% end
/* One tile of queries of head h, from row i0 on, meets all keys that any of its rows sees.${SOON ? " Meanwhile what is wanted soon is fetched." : ""} */
static void attend(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h, int64_t i0${SOON ? ", struct soon *soon" : ""})
{
    int64_t rows = least(${BQ}, s->q_len - i0), padded = (rows + ${MR - 1}) / ${MR} * ${MR}, end = end_key(s, i0 + rows - 1);
    const ${CQ} *q = (const ${CQ} *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    float scale = a->scale${TIMES_SCALE_UNIT};${SOFTCAP ? "" : WHY_UNIT}
% if RAW
    int exact = a->lse ? 1 : 0; /* an LSE is of sums before rounding */
% end
    int32_t ends[${WINDOW ? 2*MR : MR}] = {0}; /* used for tiles that the edge of an interval crosses */
% if MODIFY
    struct scores x = {a->features, s, w, h, i0};
% end
% if INSIDE and KNOWN
    float times;
% end
    for (int64_t i = 0; i < padded; i += ${W}) {
        int64_t ld = a->q_stride[2];
        const ${CQ} *from = queries_at(i < rows ? q + i * ld : q, &ld, rows - i, (${CQ} *)w->stage);
        ${INTEGRAL ? "words_of(w, i, from, ld)" : "pack_q(from, w->q + i * "}${INTEGRAL ? "" : LDQ}${INTEGRAL ? "" : ", ld)"};
    }
% if INTEGRAL
    weigh_all(a, w, padded);
% end
% if RAW
    scale = turned(w->q, ${INTEGRAL ? "0" : "padded * "}${INTEGRAL ? "" : LDQ}, scale);
% end
% if INSIDE
    ${KNOWN ? "times = " : ""}begin_changes(&x, scale);
% end
% if JOINS
    struct space part = part_of(w);
    const struct space *to = w;
% end
% let TO = JOINS ? "to" : "w"
% let SCALE_ARGUMENT = not INSIDE ? ", &scale" : KNOWN ? ", &times" : ""
    int64_t seen_below = end_key(s, i0)${WINDOW ? ", seen_from = first_key(s, i0 + padded - 1)" : ""}; /* by all rows */
    begin(w, padded);
    for (int64_t first = first_key(s, i0) / ${BK} * ${BK}, j = first; j < end; j += ${BK}) {
% if JOINS
        if (j > first && j % ${JOINS} == 0)
            to = begin_part(w, to, &part, padded);
% end
        struct place at = {w->q, w->k + j * ${KEY_ROWS}, w->v + j * ${VTILE/BK}, w->s, w->p, ${TO}->o, ${TO}->row${WEIGHS ? ", w->v + j * " : ""}${WEIGHS ? VTILE/BK : ""}${WEIGHS ? " + " : ""}${WEIGHS ? VTILE - BESIDE_VALUES : ""}${INTEGRAL and not WEIGHS ? ", 0" : ""}${INTEGRAL ? ", w->q + " : ""}${INTEGRAL ? Q_NUMBERS : ""}${INTEGRAL ? ", w->q + " : ""}${INTEGRAL ? Q_WORST : ""}${INTEGRAL ? ", 0, a, s, h, i0, j" : ""}};
% if INTEGRAL
        largest_scale(at.k + ${(BLOCKS ? BLOCK_SLOTS : LDQ)*NR}, &at.top, ${KEY_ROWS/KEY_SCALES*NR}, (least(${BK}, end - j) + ${NR - 1}) / ${NR}${BLOCKS ? " * " : ""}${BLOCKS ? KEY_SCALES : ""});
% end
        int whole = seen_below - j >= ${BK}${WINDOW ? " && seen_from <= j" : ""};
        for (int64_t i = 0; i < rows; i += ${MR}, at.q += ${MR*LDQ}, at.o += ${MR*LDO}, at.row += ${STATE}${INTEGRAL ? ", at.i += " : ""}${INTEGRAL ? MR : ""}${INTEGRAL ? ", at.numbers += " : ""}${INTEGRAL ? 4*MR : ""}${INTEGRAL ? ", at.worst += 2" : ""}) {
% if SOON
            if (j == first && soon->count)
                fetch_share(soon, (rows - i + ${MR - 1}) / ${MR});
% end
            if (whole) {
                tile(&at, ${BK}, ${BK}, ends${SCALE_ARGUMENT}${MODIFY ? ", &x, i, j" : ""}${RAW ? ", exact" : ""});
                continue;
            }
            int64_t all = end_key(s, i0 + i) - j, last = least(end, end_key(s, i0 + i + ${MR - 1})) - j; /* all rows see keys below `all`, none sees `last` */
% if WINDOW
            int64_t none = first_key(s, i0 + i) - j, from = first_key(s, i0 + i + ${MR - 1}) - j; /* and from */
            int64_t skip = most(0, none) / ${NR} * ${NR}; /* whole panels that no row sees */
            int64_t seen = from <= 0 ? least(${BK}, most(0, all)) / ${PER*W} * ${PER*W} : 0; /* whole vectors that all see */
            if (last <= most(0, none) || none >= ${BK})
                continue;
            for (int64_t r = 0; r < ${MR}; r++) {
                ends[r] = (int32_t)(least(${BK}, end_key(s, i0 + i + r) - j) - skip - seen);
                ends[${MR} + r] = (int32_t)most(0, least(${BK}, first_key(s, i0 + i + r) - j) - skip);
            }
            struct place there = at;
            there.k += skip * ${KEY_ROWS}, there.v += skip * ${NR/PER}${WEIGHS ? ", there.scales += " : ""}${LOGS ? "2 * " : ""}${WEIGHS ? "skip" : ""}${INTEGRAL ? ", there.j += skip" : ""};
            tile(&there, least(${BK}, last) - skip, seen, ends${SCALE_ARGUMENT}${MODIFY ? ", &x, i, j + skip" : ""}${RAW ? ", exact" : ""});
% else
            if (last <= 0)
                continue;
            int64_t seen = all < 0 ? 0 : least(${BK}, all) / ${PER*W} * ${PER*W}; /* whole vectors that all rows see */
            for (int64_t r = 0; all < ${BK} && r < ${MR}; r++)
                ends[r] = (int32_t)(least(${BK}, end_key(s, i0 + i + r) - j) - seen);
            tile(&at, least(${BK}, last), seen, ends${SCALE_ARGUMENT}${MODIFY ? ", &x, i, j" : ""}${RAW ? ", exact" : ""});
% end
        }
    }
% if JOINS
    if (to == &part)
        join_part(w, padded);
% end
    finish_all(a, w, s, h, i0, rows);
}

% include "c/shared.t"

/* The work is batch * kv_heads units; where these cannot be shared out evenly, each is cut into `cuts` shares. Where parts share
 * memory, the work is tiles of keys, and then tiles of queries. Behind all else in a part's workspace stands which unit is
 * packed there. */
int ${NAME}(const struct attn_args *a)
{
    int64_t group, units, cuts, packed = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1${FEATURES ? " || !a->features" : ""})
        return 1;
    group = a->heads / a->kv_heads, units = a->batch * a->kv_heads;
    if (a->shared) {
        int64_t all = units * (a->phase ? group * query_tiles(a->q_len) : key_tiles(a));
        for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++)
            do_shared(a, t);
        return 0;
    }
    struct space w = carve((float *)a->workspace, (float *)a->workspace + ${WORKSPACE/4}, key_tiles(a));
    cuts = cuts_of(units, a->parts);
% if SOON
    struct soon soon = soon_begin(a, cuts);
% end
    const int64_t end = units * cuts * (a->part + 1) / a->parts;
    if (a->phase)
        memcpy(&packed, (char *)a->workspace + ${AT_KEPT}, sizeof packed);
    for (int64_t t = units * cuts * a->part / a->parts; t < end; t++) {
        int64_t unit = t / cuts, g = unit % a->kv_heads;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        int64_t tiles = query_tiles(s.q_len);
        for (int64_t u = group * tiles - 1 - t % cuts; u >= 0; u -= cuts) {
            if (packed != unit)
                pack(a, &w, &s, g, first_key(&s, 0), end_key(&s, s.q_len - 1));
            packed = unit;
            attend(a, &w, &s, g * group + u / tiles, u % tiles * ${BQ}${SOON ? ", next_tile(a, &s, &soon, t, u, end)" : ""});
        }
    }
    memcpy((char *)a->workspace + ${AT_KEPT}, &packed, sizeof packed);
    return 0;
}
