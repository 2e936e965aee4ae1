#ifndef ATTN_CL_MAPS_DEFINED
#define ATTN_CL_MAPS_DEFINED
/* What a kernel of level sm90 takes beside args.h: tensor maps, which tell the copy engine how Q, K, V and O lie in memory.
 * Their first words, the addresses, are filled in by the kernel. */
struct attn_cl_maps {
    attn_cl_uint64 q[16], k[16], v[16], o[16];
    int together; /* for a causal run, where tiles with many keys come first: the number of heads whose tiles are done together */
    int box;  /* _paged: rows of a box of K and V, a divisor of those of a page; 0: rows are copied one by one, and the maps of K and V are not read */
};
#endif
