
/* ---- for devices, by OpenCL ---- */

/* A kernel's source and the facts of its launch, which ${NAME}_launch_cl below knows how to use. */
struct ${NAME}_cl_kernel {
    const char *name;         /* stable, as ${NAME}_${problem(KERNELS)} */
    const char *variant;      /* what it is now, and the kernel's name in the program */
    const char *const *text;  /* for clCreateProgramWithSource, with lengths NULL ... */
    unsigned lines;           /* ... and this as count */
    const unsigned char *ptx; /* for clCreateProgramWithBinary, or NULL */
    size_t ptx_size;
    int capability;           /* NVIDIA's compute capability times ten from which on it runs; 0: any device */
    int group[2], rows;       /* work-items of a work-group; queries of its tile */
    int64_t local_bytes;      /* of local memory */
    unsigned takes;           /* features' buffers, a bit each: bias, mask, slopes, sinks, both starts, pages */
    int features;             /* 1: it takes struct attn_cl_features */
    int whole_rows;           /* 1: strides and offsets are multiples of 8 elements, which are 16 bytes */
    int head_dims;            /* of key and value together */
};

/* The best kernel for a device, of which capability is NVIDIA's compute capability times ten (90 for 9.0), and 0 for
 * devices of others. 0; 1 when only a portable one fits where tensor cores are; -1 when none does. */
int ${NAME}_find_cl(const struct ${NAME}_problem *problem, int capability, struct ${NAME}_cl_kernel *kernel);

/* Why ${NAME}_find_cl does not return 0, in words; NULL where it does. */
const char *${NAME}_supports_cl(const struct ${NAME}_problem *problem, int capability);

% include "opencl/args.h"
% include "opencl/features.h"

/* As ${NAME}_args: tensors [batch, head, row, element] without gaps, each from the start of its buffer. */
void ${NAME}_cl_args(const struct ${NAME}_problem *problem, struct attn_cl_args *args);

#ifdef CL_VERSION_1_2 /* include CL/cl.h before this file to have the following; it calls five functions of OpenCL 1.2 */
% include "bundle/launch.h.t"
#endif
