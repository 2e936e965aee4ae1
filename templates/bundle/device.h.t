
% if CUDA
/* ---- for NVIDIA's cards, by CUDA ---- */

/* A kernel's code and the facts of its launch, which ${NAME}_load_cuda and ${NAME}_launch_cuda below know how to use. */
struct ${NAME}_cuda_kernel {
    const char *name;           /* stable, as ${NAME}_${problem(KERNELS)} */
    const char *variant;        /* what it is now, and the kernel's name in the module */
    const char *const *text;    /* CUDA C++, a string for each line, which ${NAME}_text_cuda puts together for NVRTC */
    unsigned lines;
    const unsigned char *cubin; /* machine code for cards of one generation, or NULL */
    size_t cubin_size;
    const unsigned char *ptx;   /* what the driver compiles for the card that it finds, ending with 0; or NULL */
    size_t ptx_size;            /* without that 0 */
% else
/* ---- for devices, by OpenCL ---- */

/* A kernel's source and the facts of its launch, which ${NAME}_launch_cl below knows how to use. */
struct ${NAME}_cl_kernel {
    const char *name;         /* stable, as ${NAME}_${problem(KERNELS)} */
    const char *variant;      /* what it is now, and the kernel's name in the program */
    const char *const *text;  /* for clCreateProgramWithSource, with lengths NULL ... */
    unsigned lines;           /* ... and this as count */
    const unsigned char *ptx; /* for clCreateProgramWithBinary, or NULL */
    size_t ptx_size;
% end
    int capability, most;     /* NVIDIA's compute capabilities times ten with which it runs; 0 and 999: any device */
    int group[2], rows, keys; /* ${CUDA ? "threads of a block" : "work-items of a work-group"}; queries and keys of its tile */
    int64_t local_bytes;      /* of ${CUDA ? "shared" : "local"} memory */
    unsigned takes;           /* features' buffers, a bit each: bias, mask, slopes, sinks, both starts, pages,
                               * both scales */
    int features;             /* 1: it takes struct attn_cl_features */
    int whole_rows;           /* strides and offsets: 0: any; 1: multiples of 16 bytes; 2: also none negative */
    int head_dim, head_dim_v;
    int bf16, o_differs;      /* of kernels that take maps: 1: Q is bf16; 1: elements of O have another size than Q's */
    int narrow;               /* of kernels that want whole rows: 1: elements of K and V have one byte */
    int maps, one_tile;       /* 1: it takes tensor maps, and memory for them; a ${CUDA ? "block" : "work-group"} ends with its tile */
    int widened;              /* 1: K and V are widened once for a launch, into memory that it brings; 2: and are blocks */
    int split;                /* keys that are computed alone, and joined after; or 0 */
    int window;               /* 1: keys outside a window are not seen */
};

% if CUDA
/* Finds the best kernel for a card; capability is its compute capability times ten (90 for 9.0).
% else
/* Finds the best kernel for a device; capability is NVIDIA's compute capability times ten (90 for 9.0), or 0 for devices of
 * other vendors.
% end
 * Returns 0; 1 if only a portable kernel fits, though the device has tensor cores; -1 if no kernel fits. */
int ${NAME}_find_${W}(const struct ${NAME}_problem *problem, int capability, struct ${NAME}_${W}_kernel *kernel);

/* The reason why ${NAME}_find_${W} does not return 0, in words, which is a constant; NULL where it returns 0. */
const char *${NAME}_supports_${W}(const struct ${NAME}_problem *problem, int capability);

% include "opencl/args.h"
% include "opencl/features.h"

/* Fills in arguments for tensors that lie [batch, head, row, element] without gaps, each from the start of its ${CUDA ? "memory" : "buffer"}. */
void ${NAME}_${W}_args(const struct ${NAME}_problem *problem, struct attn_cl_args *args);

% if CUDA
% include "bundle/cuda.h.t"
% else
#ifdef CL_VERSION_1_2 /* To have what follows, include CL/cl.h before this file. It calls functions of OpenCL 1.2. */
% include "bundle/launch_cl.h.t"
#endif
% end
