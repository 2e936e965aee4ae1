#ifndef ATTN_ARGS_DEFINED
#define ATTN_ARGS_DEFINED
/* What every attention kernel takes. Tensors are [batch, head, row, element]; strides count elements, the last one is 1.
 * Memory belongs to the caller; the kernel allocates nothing, keeps nothing and may run in any number of threads at
 * once, each part with a workspace of its own. */
struct attn_args {
    int64_t size;           /* sizeof(struct attn_args) */
    const void *q, *k, *v;  /* [batch, heads, q_len, HD], [batch, kv_heads, kv_len, HD], [batch, kv_heads, kv_len, HDV] */
    void *o;                /* [batch, heads, q_len, HDV] */
    float *lse;             /* [batch, heads, q_len], contiguous: natural log of the sum of exponentials; or NULL */
    void *workspace;        /* NAME_workspace(args) bytes, aligned to 64; one for each part */
    int64_t batch, heads, kv_heads; /* heads is a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    int64_t q_len, kv_len;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3]; /* of batch, head and row */
    const int64_t *kv_lens; /* [batch], keys of each sequence, 0..kv_len; or NULL: kv_len each */
    int64_t offset;         /* causal: query i sees keys j <= i + offset ... */
    int64_t bottom_right;   /* ... and if this is 1, offset counts from (keys of the sequence) - q_len */
    float scale;            /* scores are scale * q.k */
    int64_t part, parts;    /* this call does part 0..parts-1 of the work; 0, 1: all of it */
    /* NULL, or where NAME_workspace tells more than 0 when part is -1: as many bytes, aligned to 64, the same for all
     * parts, which then share what is one's alone otherwise, so that NAME_workspace may tell less for a part. All parts
     * are called with phase 0, and when they are done, with phase 1. */
    void *shared;
    int64_t phase;
    const struct attn_features *features; /* of kernels that have features; others do not look at it */
};
#endif
