/* NVIDIA's drivers take at most ATTN_CL_MOST groups along the second and the third side of a launch. A portable kernel has a
 * group for each tile of each head of each sequence, so a large run is launched in pieces. A piece is some sequences with
 * all their heads or, where there are more heads than that, some heads of one sequence: whole groups that share a KV head,
 * or a part of one group. */
enum { ATTN_CL_MOST = 65535 };
struct attn_cl_piece { int64_t h, heads, b, batch; }; /* `heads` heads from h on, of `batch` sequences from b on */

/* Sets *p to the piece after it, or to the first one if *p is all zeros. Returns 0 if there is none. */
static inline int attn_cl_next_piece(const struct attn_cl_args *a, struct attn_cl_piece *p)
{
    const int64_t most = ATTN_CL_MOST, group = a->heads / a->kv_heads, left = group - (p->h + p->heads) % group;
    p->h += p->heads;
    if (p->h >= a->heads)
        p->h = 0;
    if (p->h == 0)
        p->b += p->batch;
    if (p->b >= a->batch || a->heads < 1)
        return 0;
    p->heads = a->heads <= most ? a->heads : group > most ? most : most / group * group;
    p->heads = a->heads - p->h < p->heads ? a->heads - p->h : p->heads;
    p->heads = group > most && left < p->heads ? left : p->heads;
    p->batch = a->heads > most ? 1 : a->batch - p->b < most ? a->batch - p->b : most;
    return 1;
}

/* Whether p is the last piece. */
static inline int attn_cl_last_piece(const struct attn_cl_args *a, const struct attn_cl_piece *p)
{
    return p->h + p->heads >= a->heads && p->b + p->batch >= a->batch;
}

/* Turns the arguments of a whole run into those of the piece. paged: a table of pages says where keys are. The LSE of packed
 * queries needs pieces with all heads, because only the kernel knows how far apart its heads are. */
static inline void attn_cl_cut(const struct attn_cl_piece *p, int paged, struct attn_cl_args *a, struct attn_cl_features *f)
{
    const int64_t h = p->h, b = p->b, group = a->heads / a->kv_heads, g = h / group;
    const int64_t q_b = f->has_q_starts ? 0 : b, kv_b = f->has_kv_starts || paged ? 0 : b; /* rows of these are found by starts and tables */
    a->lse_at += (q_b * a->heads + h) * a->q_len;
    a->q_at += q_b * a->q_stride[0] + h * a->q_stride[1], a->o_at += q_b * a->o_stride[0] + h * a->o_stride[1];
    a->k_at += kv_b * a->k_stride[0] + g * a->k_stride[1], a->v_at += kv_b * a->v_stride[0] + g * a->v_stride[1];
    a->lens_at += b;
    f->q_starts_at += b, f->kv_starts_at += b, f->pages_at += b * f->page_stride;
    f->bias_at += b * f->bias_stride[0] + h * f->bias_stride[1], f->mask_at += b * f->mask_stride[0] + h * f->mask_stride[1];
    f->slopes_at += h, f->sinks_at += h;
    f->k_scales_at += kv_b * f->k_scales_stride[0] + g * f->k_scales_stride[1];
    f->v_scales_at += kv_b * f->v_scales_stride[0] + g * f->v_scales_stride[1];
    a->batch = p->batch, a->heads = p->heads, a->kv_heads = p->heads < group ? 1 : p->heads / group;
}
