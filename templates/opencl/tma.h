/* Tensors as the copy engine sees them, for level sm90. A tensor is [sequence, head, row, element] of 16-bit elements,
 * copied in boxes of 64 elements by some rows. Where boxes hold rows of several heads, it is [sequence, KV head, head of its
 * group, row, element]. */
struct attn_cl_tensor {
    const char *name;  /* its name in messages */
    int bf16;          /* 1: bf16; 0: f16 */
    int64_t width;     /* elements of a row */
    int64_t count[4];  /* how many sequences, (KV) heads and rows there are, and heads in a group; 0 counts as 1, and the kernel must not touch that side */
    int64_t stride[4]; /* in elements; of no effect where the count is 0 or 1 */
    int rows;          /* in a box: 1..256 */
    int heads;         /* heads of a group in a box: 1..256; 0: a head has no group */
    int once;          /* 1: boxes come from memory, not from L2, so what lies beside them is not fetched with them */
};

/* Strides must be multiples of 16 bytes, not negative and below 2^40 bytes; counts are at most 2^32. Returns 0, or the side
 * that breaks a rule: 1..4 if its count does, -1..-4 if its stride does. */
static inline int attn_cl_tensor_breaks(const struct attn_cl_tensor *x)
{
    int i;
    for (i = 0; i < (x->heads ? 4 : 3); i++) {
        if (x->count[i] > INT64_C(1) << 32)
            return i + 1;
        if (x->count[i] > 1 && (x->stride[i] < 0 || x->stride[i] % 8 != 0 || x->stride[i] >= INT64_C(1) << 39))
            return -(i + 1);
    }
    return 0;
}

/* Writes the map of such a tensor, for swizzled boxes whose rows have 128 bytes, with zeros for what is read outside. A map
 * has 128 bytes, whose layout is the hardware's. Its first word, the tensor's address, is 0: the kernel fills it in, and it
 * must be a multiple of 16. */
static inline void attn_cl_map(const struct attn_cl_tensor *x, uint64_t out[16])
{
    /* Bits of the second word: tiles of four or five dimensions, the element's type, 128 bytes of swizzle, and 256 or 128
     * bytes fetched into L2 at once. */
    const uint64_t tiled[2] = {0x30, 0x40}, type[2] = {0x300, 0x500}, swizzle = 0x6000, fetch[2] = {0x60000, 0x40000};
    const int order[2][4] = {{2, 1, 0, 3}, {2, 3, 1, 0}}; /* of the dimensions above that of a row's elements */
    uint64_t last[4] = {0, 0, 0, 0}, unit[4] = {0, 0, 0, 0}; /* the last index of the dimension; its stride in units of 16 bytes, 36 bits */
    const uint64_t low = 0xffffffff, box_width = 64, row_bytes = 128;
    const uint64_t rows = (uint64_t)x->rows, heads = (uint64_t)(x->heads ? x->heads : 1);
    int d;
    for (d = 0; d < (x->heads ? 4 : 3); d++) {
        const int i = order[x->heads > 0][d];
        last[d] = x->count[i] > 1 ? (uint64_t)x->count[i] - 1 : 0;
        unit[d] = x->count[i] > 1 ? (uint64_t)x->stride[i] / 8 : 1;
    }
    for (d = 0; d < 16; d++)
        out[d] = 0;
    out[1] = tiled[x->heads > 0] | type[x->bf16 != 0] | swizzle | fetch[x->once != 0] | (unit[0] & low) << 32;
    out[2] = (unit[1] & low) | (unit[2] & low) << 32;
    out[3] = (unit[3] & low) | (unit[0] >> 32) << 32 | (unit[1] >> 32) << 36 | (unit[2] >> 32) << 40 | (unit[3] >> 32) << 44;
    out[4] = (uint64_t)(x->width - 1) | last[0] << 32;
    out[5] = last[1] | last[2] << 32;
    out[6] = last[3] | (box_width - 1) << 56;
    out[7] = (rows - 1) | (heads - 1) << 8;
    out[8] = rows * heads * row_bytes;
    out[9] = 8 * row_bytes; /* of a swizzle */
}

/* How many batches and rows tensors have in their maps. Packed tensors have one batch, and tensors in pages have one for
 * each page. Only the device knows how many packed rows or pages there are, so these sides are larger than any; a kernel
 * then puts in the number of packed rows. Q and O are alike, and so are K and V. */
static inline void attn_cl_sides_of_q(const struct attn_cl_args *a, const struct attn_cl_features *f, int64_t out[2])
{
    const int64_t many = INT64_C(1) << 31;
    out[0] = f->has_q_starts ? 1 : a->batch, out[1] = f->has_q_starts ? many : a->q_len;
}
static inline void attn_cl_sides_of_kv(const struct attn_cl_args *a, const struct attn_cl_features *f, int paged, int64_t out[2])
{
    const int64_t many = INT64_C(1) << 31;
    out[0] = paged ? many : f->has_kv_starts ? 1 : a->batch;
    out[1] = paged ? (f->page_size < many ? f->page_size : many) : f->has_kv_starts ? many : a->kv_len;
}

/* The keys of a box, which lie in one page and in one tile, and so many that boxes begin where the swizzle does. 0: there is
 * no such number. */
static inline int attn_cl_box_of_page(int64_t page, int tile)
{
    const int swizzled = 8; /* rows */
    int n = page < tile ? (int)page : tile;
    for (; n >= swizzled; n--)
        if (n % swizzled == 0 && page % n == 0 && tile % n == 0)
            return n;
    return 0;
}

/* The maps of Q, K, V and O of a launch, in the order of struct attn_cl_maps. split: how rows are divided where keys are
 * split, or NULL. widened: the arguments say where K and V lie once they are widened, out of pages and of packed sequences; then keys have
 * numbers[0] rows each, and values numbers[1], as that many heads have; else it is NULL. Returns
 * the rows of a box of K and V; 0 if pages allow no boxes, and then K and V have no maps. */
static inline int attn_cl_tensors(const struct attn_cl_args *a, const struct attn_cl_features *f, const struct attn_cl_split *split,
    int paged, const int numbers[2], int bf16, int head_dim, int head_dim_v, int tile_k, struct attn_cl_tensor out[4])
{
    const char *const names[4] = {"q", "k", "v", "o"};
    const attn_cl_int64 *const strides[4] = {a->q_stride, a->k_stride, a->v_stride, a->o_stride};
    const int64_t group = a->kv_heads > 0 ? a->heads / a->kv_heads : 1;
    int64_t q[2], kv[2];
    int i, s, box;
    attn_cl_sides_of_q(a, f, q);
    attn_cl_sides_of_kv(a, f, paged, kv);
    if (numbers)
        kv[0] = a->batch, kv[1] = a->kv_len;
    box = paged && !numbers ? attn_cl_box_of_page(kv[1], tile_k) : tile_k;
    for (i = 0; i < 4; i++) {
        struct attn_cl_tensor *x = &out[i];
        const int rows = i == 0 || i == 3; /* of queries */
        const struct attn_cl_tensor whole = {names[i], bf16, i < 2 ? head_dim : head_dim_v,
            {rows ? q[0] : kv[0], rows ? a->heads : a->kv_heads * (numbers ? numbers[i - 1] : 1), rows ? q[1] : kv[1], 0}, {0, 0, 0, 0},
            rows ? 64 : box, 0, split != NULL};
        *x = whole;
        for (s = 0; s < 3; s++)
            x->stride[s] = strides[i][s];
        if (!rows || !split)
            continue;
        /* Seen as KV heads, each with its group of heads, in boxes of a slice's rows. */
        x->count[1] = a->kv_heads, x->count[3] = group;
        x->stride[3] = x->stride[1];
        x->stride[1] = x->stride[3] > INT64_MAX / group ? INT64_MAX : x->stride[3] * group; /* which is refused */
        x->rows = split->rows, x->heads = split->heads;
    }
    return box;
}
