#ifndef ATTN_CL_MAPS_DEFINED
#define ATTN_CL_MAPS_DEFINED
/* What a kernel of level sm90 takes beside args.h: tensor maps, which tell the copy engine how Q, K, V and O lie in
 * memory, but for their first words, the addresses; those the kernel fills in. */
struct attn_cl_maps {
    attn_cl_uint64 q[16], k[16], v[16], o[16];
    int near; /* causal, where heavy tiles come first: as many heads have their tiles done together */
    int box;  /* _paged: rows of a box of K and V, which are a divisor of a page's; 0: rows are copied one by one, and the maps are not read */
};
#endif
