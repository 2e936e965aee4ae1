/* How many numbers an element of K or, where `values` is 1, of V becomes where these are widened once. blocks: they are blocks, and not
 * bytes with scales. bf16: Q is bf16, and not f16. Rows of second numbers lie behind a head's first ones, as those of another head. */
static inline int attn_cl_numbers(int values, int blocks, int bf16)
{
    return blocks && !(values && bf16) ? 2 : 1;
}
/* The memory of a kernel that widens K and V once for a launch (_widened). Returns the bytes of `wide`, and those of `done` in *done,
 * which are all zeros before the first launch; -1 if a count is too large. *seen receives what tensor maps of K and V describe then: rows
 * in `wide`, where V begins so many bytes behind K. blocks and bf16: as above. */
static inline int64_t attn_cl_widened(const struct attn_cl_args *a, int head_dim, int head_dim_v, int tile_k, int blocks, int bf16,
    int64_t *done, struct attn_cl_args *seen, int64_t *v_behind)
{
    const int64_t most = INT64_C(1) << 40, tiles = a->kv_len > 0 ? (a->kv_len + tile_k - 1) / tile_k : 1;
    const int64_t heads = a->batch > 0 && a->kv_heads > 0 ? a->batch * a->kv_heads : 1;
    const int64_t record = (blocks ? 0 : bf16 ? 4 : 8) * tile_k + 16;
    const int64_t k = attn_cl_numbers(0, blocks, bf16), v = attn_cl_numbers(1, blocks, bf16);
    const int64_t of_head = 2 * a->kv_len * (k * head_dim + v * head_dim_v) + tiles * record;
    *seen = *a;
    seen->k_stride[2] = head_dim, seen->v_stride[2] = head_dim_v;
    seen->k_stride[1] = a->kv_len * head_dim, seen->v_stride[1] = a->kv_len * head_dim_v;
    seen->k_stride[0] = a->kv_heads * k * seen->k_stride[1], seen->v_stride[0] = a->kv_heads * v * seen->v_stride[1];
    seen->k_at = seen->v_at = 0;
    *v_behind = 2 * heads * k * a->kv_len * head_dim;
    *done = 4 * heads * tiles;
    return of_head > most / heads || heads * tiles > INT64_C(1) << 30 ? -1 : heads * of_head;
}
