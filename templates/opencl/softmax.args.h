/* What the softmax takes beside its matrices; host and device lay it out alike. Both are [batch, head, row, key]; strides
 * and offsets count elements, the last stride is 1. */
struct softmax_cl_args {
    long batch, heads;
    long rows, keys;
    long s_stride[3], p_stride[3]; /* of batch, head and row */
    long s_at, p_at;               /* where each matrix starts in its buffer */
    long offset;                   /* causal: row i sees keys j <= i + offset */
};
