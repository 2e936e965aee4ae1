#ifndef ATTN_CL_FEATURES_DEFINED
#define ATTN_CL_FEATURES_DEFINED
/* What kernels with features take last, behind their features' buffers. A kernel reads what its own features need; all else
 * may be anything. Strides count elements; those of a bias or a mask are of batch, head, query and key, and 0 where all have
 * the same. */
struct attn_cl_features {
    attn_cl_int64 window[2];                       /* _window: query i sees keys from i + offset - window[0] to i + offset + window[1]; -1: no bound */
    attn_cl_int64 bias_stride[4], mask_stride[4];  /* _bias: is added to scores, and -inf masks; _mask: bytes, where 0 means that the key takes no part */
    /* _paged: row j of sequence b is row j % page_size of page pages[b * page_stride + j / page_size]; k_stride[0] and v_stride[0] are from
     * page to page */
    attn_cl_int64 page_stride, page_size;
    attn_cl_int64 bias_at, mask_at, slopes_at, sinks_at, pages_at; /* where each tensor starts in its buffer */
    attn_cl_int64 q_starts_at, kv_starts_at;       /* _packed: sequence b has rows starts[b] to starts[b + 1] - 1 of the one batch that there is */
    attn_cl_int64 q_end_at;                        /* the position of q_starts[batch], the number of all queries; lse is then [heads, that number] */
    int has_q_starts, has_kv_starts;      /* 0: this side is not packed, and its starts are not read */
    float softcap;                        /* _softcap: c > 0 of score = c tanh(score / c) */
    int unused;
    attn_cl_int64 k_scales_at, v_scales_at; /* _kvint8, _kvfp8: a key or value is the stored number times its scale */
    attn_cl_int64 k_scales_stride[3], v_scales_stride[3]; /* of batch (or page), KV head and row; 0 where all have the same scale */
};
#endif
