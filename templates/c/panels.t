%# The workspace of a kernel that packs: what lies in it, its size, and the tiles of keys and values.

/* The parts of a workspace, and the place where K and V of one head are packed in tiles. */
struct space { float *q, *o, *s, *p, *row, *k, *v${JOINS ? ", *part_o, *part_row" : ""}; void *stage; };
static int64_t key_tiles(const struct attn_args *a) { return (a->kv_len + ${BK - 1}) / ${BK}; }
static int64_t query_tiles(int64_t q_len) { return (q_len + ${BQ - 1}) / ${BQ}; }
static struct space carve(float *at, float *panels, int64_t tiles)
{
    struct space w = {at, at + ${AT_O/4}, at + ${AT_S/4}, at + ${(PAIRS ? AT_P : AT_S)/4}, at + ${AT_ROW/4}, panels,
        panels + tiles * ${KTILE}, ${JOINS ? "at + " : ""}${JOINS ? AT_PART/4 : ""}${JOINS ? ", at + " : ""}${JOINS ? AT_PART_ROW/4 : ""}${JOINS ? ", " : ""}at + ${AT_STAGE/4}};
    return w;
}
int64_t ${NAME}_workspace(const struct attn_args *a)
{
    int64_t panels = key_tiles(a) * ${KTILE*4 + VTILE*4};
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads, tiles = a->heads / a->kv_heads * query_tiles(a->q_len);
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? key_tiles(a) : tiles);
        return tiles > 1 ? units * panels : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return ${WORKSPACE} + (a->shared ? 0 : panels);
}

/* Packs the tiles of KV head g that hold keys first to end - 1. */
static void pack(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t g, int64_t first, int64_t end)
{
% if not NARROW
    const ${CKV} *k = (const ${CKV} *)a->k + s->k_at + g * a->k_stride[1];
    const ${CKV} *v = (const ${CKV} *)a->v + s->v_at + g * a->v_stride[1];
% end
% if LOGS
    float scales[${2*W}], odd;
% end
    for (int64_t j = first / ${BK} * ${BK}; j < (end + ${NR - 1}) / ${NR} * ${NR}; j += ${W}) {
% if OPENS
        int64_t n = end < j ? 0 : least(${W}, end - j);
        uint16_t *stage = (uint16_t *)w->stage;
        float *panel = w->k + j / ${NR} * ${KEY_ROWS*NR} + j % ${NR};
        open_keys(a, s, g, j, n, stage, panel + ${(BLOCKS ? BLOCK_SLOTS : LDQ)*NR});
        pack_k(stage, panel, ${LDQ*PER});
% if LOGS
        open_values(a, s, g, j, n, stage, scales + j % ${2*W});
        if (j % ${2*W})
            log_scales(scales, w->v + j / ${BK} * ${VTILE} + ${VTILE - BESIDE_VALUES} + j % ${BK} / ${2*W} * ${4*W}, &odd, 1);
% elif WEIGHS
        float *scales = w->v + j / ${BK} * ${VTILE} + ${VTILE - BESIDE_VALUES};
        if (j % ${BK} == 0)
            memset(scales, 0, ${4*WEIGHTS*BK});
        open_values(a, s, g, j, n, stage, scales + j % ${BK});
% else
        open_values(a, s, g, j, n, stage);
% end
% elif NARROW
        int64_t n = end < j ? 0 : least(${W}, end - j);
        open_keys(a, s, g, j, n, (float *)w->stage);
        pack_k((const float *)w->stage, w->k + j / ${NR} * ${LDQ*NR} + j % ${NR}, ${LDQ});
        open_values(a, s, g, j, n, (float *)w->stage);
% else
        int64_t n = least(${W}, end - j), ld;
        const ${CKV} *from = keys_at(a, s, k, a->k_stride, j, n, ${W}, ${HD}, ${LDQ*PER}, &ld, (${CKV} *)w->stage);
        pack_k(from, w->k + j / ${NR} * ${LDQ*NR} + j % ${NR}, ld);
        from = keys_at(a, s, v, a->v_stride, j, n, ${W}, ${HDV}, ${LDO}, &ld, (${CKV} *)w->stage);
% end
% let ROWS = OPENS ? "stage" : NARROW ? "(const float *)w->stage" : "from"
% let LD = OPENS ? LDV : NARROW ? LDO : "ld"
% if KNOWN
        pack_v(${ROWS}, w->v + j / ${BK} * ${VTILE} + j % ${BK} / ${2*W} * ${W*NR} + j % ${2*W} / ${W} * ${2*NR}, ${LD}); /* pairs of both halves in turn */
% else
        pack_v(${ROWS}, w->v + j / ${BK} * ${VTILE} + j % ${BK} * ${NR/PER}, ${LD});
% end
    }
}
