/* The most tiles of keys that a tile of rows sees. With a window that number is small, at whatever key the window begins.
 * window: of struct attn_cl_features, or NULL. packed: whether queries may be packed. */
static inline int64_t attn_cl_tiles_seen(const struct attn_cl_args *a, const attn_cl_int64 *window, int packed,
    int tile_k)
{
    const int64_t all = (a->kv_len + tile_k - 1) / tile_k, n = a->kv_len;
    int64_t seen, tiles, at, first;
    if (!window || window[0] < 0 || window[1] < 0 || window[0] >= n || window[1] >= n)
        return all;
    seen = window[0] + window[1] + a->q_len; /* keys that are seen by all queries together */
    tiles = (seen + tile_k - 1) / tile_k + 1;
    at = a->offset + (a->bottom_right ? n - a->q_len : 0), first = at - window[0];
    if (!a->has_lens && !packed && first >= 0 && first < n) /* then the first key is the same for all sequences */
        tiles = (first % tile_k + seen + tile_k - 1) / tile_k;
    return tiles < all ? tiles : all;
}

/* How rows and keys are divided for a kernel that splits keys: `split` keys are computed together, in tiles of tile_q by
 * tile_k. Returns how many units of work there are, or -1 if there are too many. Lengths are below 2^30. */
static inline int64_t attn_cl_divide(const struct attn_cl_args *a, const attn_cl_int64 *window, int packed, int split, int tile_q,
    int tile_k, int head_dim_v, struct attn_cl_split *out)
{
    const int64_t most = INT64_C(1) << 30, slice = tile_q < 64 ? tile_q : 64; /* slice: a warpgroup's rows, or a warp's */
    const int64_t group = a->heads / a->kv_heads, rows = a->q_len < slice ? a->q_len : slice;
    const int64_t heads = rows > 0 && slice / rows < group ? slice / rows : group, along = (a->q_len + slice - 1) / slice;
    const int64_t tiles = attn_cl_tiles_seen(a, window, packed, tile_k), of_split = split / tile_k, warpgroups = tile_q / slice;
    /* With a window the last split may have one tile more (split.t). */
    const int64_t shared_out = window ? tiles - 1 : tiles, splits = shared_out > of_split ? (shared_out + of_split - 1) / of_split : 1;
    /* Where sequences are packed, one with fewer queries may have more rows in a slice, but never more slices. */
    const int64_t most_rows = packed ? slice : rows * heads;
    const int64_t over = heads > 0 ? (group - 1) / heads + 1 : 0;
    int64_t slices, all;
    if (rows < 1 || over < 1 || along > most / over)
        return -1;
    slices = along * over;
    all = (slices + warpgroups - 1) / warpgroups * warpgroups;
    if (slices >= most || a->kv_heads > most / splits || all > most / (a->kv_heads * splits))
        return -1;
    all *= a->kv_heads * splits;
    if (a->batch < 1 || a->batch > most / all || all * a->batch >= most)
        return -1;
    out->rows = (int)rows, out->heads = (int)heads, out->along = (int)along, out->slices = (int)slices;
    out->splits = (int)splits, out->group = (int)group;
    out->part = (int)(most_rows * ((head_dim_v + 7) / 8 * 8) + (most_rows + 1) / 2 * 4);
    out->ratio = (int)((65536 + rows - 1) / rows);
    return all * a->batch / warpgroups;
}
