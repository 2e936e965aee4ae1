#ifndef ATTN_FEATURES_DEFINED
#define ATTN_FEATURES_DEFINED
/* What kernels with features take beside struct attn_args. The feature that a member belongs to stands before the colon,
 * as in the kernel's name. A kernel reads the members of its own features; the others may hold anything. Strides count
 * elements; those of a bias or mask lead from one batch, head, query and key to the next, and a stride of 0 means that
 * all have the same. */
struct attn_features {
    int64_t window[2];      /* _window: query i sees keys i + offset - window[0] to i + offset + window[1]; -1: no
                             * bound */
    float softcap;          /* _softcap: score = softcap * tanh(score / softcap); more than 0 */
    const void *bias;       /* _bias: added to scores, [batch, heads, q_len, kv_len]; -inf masks */
    int64_t bias_stride[4];
    const uint8_t *mask;    /* _mask: [batch, heads, q_len, kv_len]; a key whose byte is 0 takes no part */
    int64_t mask_stride[4];
    const float *slopes;    /* _alibi: [heads]; score = score - slope * |i + offset - j| */
    const float *sinks;     /* _sink: [heads]; exp(sink) joins a row's sum for O, not for LSE */
    const int64_t *q_starts, *kv_starts; /* _packed: [batch + 1]; sequence b is rows starts[b]..starts[b + 1] - 1 of a
                                          * tensor that has no batches; LSE is then [heads, q_starts[batch]]. NULL:
                                          * that side is not packed */
    const int32_t *pages;   /* _paged: [batch, page_stride]; row j of sequence b is row j % page_size of page
                             * pages[b * page_stride + j / page_size]; k_stride[0] and v_stride[0] lead from page to
                             * page */
    int64_t page_stride, page_size;
    const float *k_scales, *v_scales; /* _kvint8, _kvfp8: a key or value is its scale times the stored number */
    int64_t k_scales_stride[3], v_scales_stride[3]; /* from one batch (or page), KV head and row to the next; 0: shared */
};
#endif
