/* Of level sm80 and sm90, in which order a causal run's tiles are done: how many heads have theirs done together. As many as have
 * their keys and values in L2, but enough that every unit has two tiles, and whole groups of heads that share them. */
static inline int attn_cl_near(int64_t batch, int64_t heads, int64_t kv_heads, int64_t kv_len, int64_t tiles, int head_dims,
    int64_t units)
{
    const double room = 24 << 20; /* bytes of keys and values that should stay in L2, half of Hopper's */
    const double bytes = 2.0 * head_dims * (double)kv_len, fit = bytes > 0 ? room / bytes : 1;
    const int64_t group = heads / kv_heads, all = heads * batch;
    int64_t near = (fit < 1 ? 1 : fit > (double)all ? all : (int64_t)fit) * group;
    while (near < all && near * tiles < 2 * units)
        near += group;
    return (int)(near > all ? all : near);
}
