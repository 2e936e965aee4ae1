/* Whether so many heads, which have their tiles done together, leave units idle while the first and heaviest of these goes on. */
static inline int attn_cl_too_few(int64_t heads, int64_t tiles, int64_t units)
{
    return 2 * heads * tiles < 3 * units;
}

/* The order of the tiles of a causal run, for levels sm80 and sm90: how many heads have their tiles done together. They are
 * as many as have room for their keys and values in L2, but enough that every unit gets two tiles, and always whole groups
 * of heads that share a KV head. The heads that are left over come last, and must not be too few; where they are, fewer heads
 * are done together, or more where that does not help. */
static inline int attn_cl_near(int64_t batch, int64_t heads, int64_t kv_heads, int64_t kv_len, int64_t tiles, int head_dims,
    int64_t units)
{
    const double room = 24 << 20; /* bytes of keys and values that should stay in L2: half of what Hopper has */
    const double bytes = 2.0 * head_dims * (double)kv_len, fit = bytes > 0 ? room / bytes : 1;
    const int64_t group = heads / kv_heads, all = heads * batch;
    int64_t together = (fit < 1 ? 1 : fit > (double)all ? all : (int64_t)fit) * group, other;
    while (together < all && together * tiles < 2 * units)
        together += group;
    if (together >= all)
        return (int)all;
    if (tiles < 8) /* short ones: the heaviest tile is soon done */
        return (int)together;
    for (other = together; !attn_cl_too_few(other, tiles, units); other -= group)
        if (all % other == 0 || !attn_cl_too_few(all % other, tiles, units))
            return (int)other;
    for (other = together; other < all; other += group)
        if (all % other == 0 || !attn_cl_too_few(all % other, tiles, units))
            return (int)other;
    return (int)all;
}
