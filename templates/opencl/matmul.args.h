/* What the product takes beside its matrices; host and device lay it out alike. Matrices are [batch, head, row, column];
 * strides and offsets count elements, the last stride is 1. */
struct matmul_cl_args {
    long batch, heads, b_heads; /* heads is a multiple of b_heads; head h of A goes with head h / (heads / b_heads) of B */
    long m, n, k;               /* C is m x n, A is m x k */
    long a_stride[3], b_stride[3], c_stride[3]; /* of batch, head and row */
    long a_at, b_at, c_at;                      /* where each matrix starts in its buffer */
    float scale;                                /* C is scale times the product */
    int unused;
};
