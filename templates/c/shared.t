%# What a part does that shares memory with others: packs, or attends.
/* Piece t of the work where parts share memory. In phase 0 that is to pack one tile of keys of one head; in phase 1, to compute one tile
 * of queries of one head. The last tiles of all heads come first, because under a causal mask these see the most keys. */
static void do_shared(const struct attn_args *a, int64_t t)
{
    int64_t units = a->batch * a->kv_heads, group = a->heads / a->kv_heads, tiles = key_tiles(a);
    int64_t unit = a->phase ? t % units : t / tiles, g = unit % a->kv_heads;
    struct space w = carve((float *)a->workspace, (float *)a->shared + unit * tiles * ${KTILE + VTILE}, tiles);
    struct sequence s = sequence_of(a, unit / a->kv_heads);
    if (a->phase) {
        int64_t head = t / units % group, first = (query_tiles(a->q_len) - 1 - t / units / group) * ${BQ};
% if SOON
        struct soon none;
        none.count = 0;
% end
        if (first < s.q_len)
            attend(a, &w, &s, g * group + head, first${SOON ? ", &none" : ""});
    } else if (s.q_len > 0) {
        int64_t j = t % tiles * ${BK}, from = first_key(&s, 0), end = least(end_key(&s, s.q_len - 1), j + ${BK});
        if (from < j + ${BK} && j < end)
            pack(a, &w, &s, g, j, end);
    }
}
