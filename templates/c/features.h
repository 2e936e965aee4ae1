#ifndef ATTN_FEATURES_DEFINED
#define ATTN_FEATURES_DEFINED
/* What kernels with features take beside struct attn_args. A kernel reads what its own features need; the rest may be
 * anything. Strides count elements; those of a bias or mask are of batch, head, query and key, 0 where it is the same. */
struct attn_features {
    int64_t window[2];      /* _window: query i sees keys from i + offset - window[0] to i + offset + window[1]; -1: no end */
    float softcap;          /* _softcap: c > 0 of score = c tanh(score / c) */
    const void *bias;       /* _bias: added to scores, [batch, heads, q_len, kv_len]; -inf masks */
    int64_t bias_stride[4];
    const uint8_t *mask;    /* _mask: [batch, heads, q_len, kv_len]; 0: the key does not take part */
    int64_t mask_stride[4];
    const float *slopes;    /* _alibi: [heads]; score = score - slope * |i + offset - j| */
    const float *sinks;     /* _sink: [heads]; exp(sink) joins a row's sum for O, not for LSE */
    const int64_t *q_starts, *kv_starts; /* _packed: [batch + 1]; sequence b has rows starts[b]..starts[b+1]-1 of the one
                                          * that there is; LSE is [heads, q_starts[batch]] */
    const int32_t *pages;   /* _paged: [batch, page_stride]; row j of sequence b is row j % page_size of page
                             * pages[b * page_stride + j / page_size]; k_stride[0] and v_stride[0] are from page to page */
    int64_t page_stride, page_size;
    const float *k_scales, *v_scales; /* _kvint8, _kvfp8: a key or value is the stored number times its scale */
    int64_t k_scales_stride[3], v_scales_stride[3]; /* of batch (or page), KV head and row: 0 where the scale is the same */
};
#endif
