/* What the kernel takes beside its buffers; host and device lay it out alike. Tensors are [batch, head, row, element];
 * strides and offsets count elements, the last stride is 1. */
struct attn_cl_args {
    long batch, heads, kv_heads; /* heads is a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    long q_len, kv_len;
    long q_stride[3], k_stride[3], v_stride[3], o_stride[3]; /* of batch, head and row */
    long q_at, k_at, v_at, o_at, lse_at, lens_at;            /* where each tensor starts in its buffer */
    long offset;             /* causal: query i sees keys j <= i + offset ... */
    long bottom_right;       /* ... and if this is 1, offset counts from (keys of the sequence) - q_len */
    int has_lse, has_lens;   /* 0: lse is not written; kv_lens is not read, and every sequence has kv_len keys */
    float scale;             /* scores are scale * q.k */
    int unused;
};
