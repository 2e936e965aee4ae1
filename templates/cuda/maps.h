#ifndef ATTN_CUDA_MAPS_DEFINED
#define ATTN_CUDA_MAPS_DEFINED
/* What a kernel of level sm90 takes beside args.h: tensor maps (CUtensorMap), which tell the copy engine how Q, K, V and O lie
 * in memory, addresses and all. It reads them where the launch's parameters are. */
struct __attribute__((aligned(64))) attn_cuda_maps {
    attn_cl_uint64 q[16], k[16], v[16], o[16];
    int together; /* causal, where heavy tiles come first: as many heads have their tiles done together */
    int box;  /* _paged: rows of a box of K and V, a divisor of a page's and a multiple of 8; 0: rows are copied one by one, and these maps are not read */
    int unused[14];
};
#endif
