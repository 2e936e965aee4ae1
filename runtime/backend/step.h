/* step.h - the arguments of a step of attention that runs alone. The structs are the emitted kernels' own. */
#ifndef ATTNGEN_BACKEND_STEP_H
#define ATTNGEN_BACKEND_STEP_H

#include "templates/opencl/matmul.args.h"
#include "templates/opencl/softmax.args.h"

/* Only the one for the kernel's kind is read. */
struct step_args {
    struct matmul_cl_args product;
    struct softmax_cl_args softmax;
};

#endif
