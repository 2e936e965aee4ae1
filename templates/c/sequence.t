%# Which keys a query sees, and where the rows of a sequence lie. Masks are intervals: causal masks of every alignment, windows,
%# offsets and lengths are one [first, end) of keys for each query; neither bound falls from a query to the next.
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
% if CAUSAL or WINDOW or SPLIT or WOVEN
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
% end
% if not SPLIT

/* Into how many shares a unit of work is cut, so that all parts get equally many: parts over the greatest common divisor
 * of both. */
static int64_t cuts_of(int64_t units, int64_t parts)
{
    int64_t x = units, y = parts;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return x ? parts / x : 1;
}
% end

/* One sequence: its lengths, the key that query 0 stands at, and where its rows begin, in ${BLOCKS ? "elements and blocks" : "elements"}. */
struct sequence { int64_t b, q_len, keys, offset${WINDOW ? ", left, right" : ""}, q_at, k_at, v_at, o_at, lse_at, lse_ld${SCALED ? ", k_scales_at, v_scales_at" : ""}; };
static struct sequence sequence_of(const struct attn_args *a, int64_t b)
{
% if PACKED
    const int64_t *qs = a->features->q_starts, *ks = a->features->kv_starts;
    int64_t q_len = qs ? qs[b + 1] - qs[b] : a->q_len;
    int64_t keys = ks ? ks[b + 1] - ks[b] : a->kv_lens ? a->kv_lens[b] : a->kv_len;
% else
    int64_t q_len = a->q_len, keys = a->kv_lens ? a->kv_lens[b] : a->kv_len;
% end
    struct sequence s;
    s.b = b, s.q_len = q_len, s.keys = keys, s.offset = a->offset + (a->bottom_right ? keys - q_len : 0);
% if WINDOW
    s.left = a->features->window[0], s.right = ${CAUSAL ? "0" : "a->features->window[1]"};
% end
    s.q_at = b * a->q_stride[0], s.k_at = b * a->k_stride[0], s.v_at = b * a->v_stride[0], s.o_at = b * a->o_stride[0];
    s.lse_at = b * a->heads * q_len, s.lse_ld = q_len;
% if SCALED
    s.k_scales_at = b * a->features->k_scales_stride[0], s.v_scales_at = b * a->features->v_scales_stride[0];
% end
% if PACKED
    if (qs)
        s.q_at = qs[b] * a->q_stride[2], s.o_at = qs[b] * a->o_stride[2], s.lse_at = qs[b], s.lse_ld = qs[a->batch];
    if (ks)
        s.k_at = ks[b] * a->k_stride[2], s.v_at = ks[b] * a->v_stride[2];
% if SCALED
    if (ks)
        s.k_scales_at = ks[b] * a->features->k_scales_stride[2], s.v_scales_at = ks[b] * a->features->v_scales_stride[2];
% end
% end
% if PAGED
    s.k_at = s.v_at = ${SCALED ? "s.k_scales_at = s.v_scales_at = " : ""}0; /* keys are found by their pages */
% end
    return s;
}

/* Query i sees keys first_key to end_key - 1. */
static int64_t first_key(const struct sequence *s, int64_t i)
{
% if WINDOW
    return s->left < 0 ? 0 : most(0, i + s->offset - s->left);
% else
    (void)s, (void)i;
    return 0;
% end
}
static int64_t end_key(const struct sequence *s, int64_t i)
{
% if WINDOW
    return s->right < 0 ? s->keys : most(0, least(s->keys, i + s->offset + s->right + 1));
% elif CAUSAL
    return most(0, least(s->keys, i + s->offset + 1));
% else
    (void)i;
    return s->keys;
% end
}
