/* ${NAME}.h - attention kernels of attngen ${VERSION}, chosen at run time.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed. ${NAME}.cdx.json says what each kernel is.
 *
 * O = softmax(scale * Q K^T, masked) V. To call a kernel:
 *
% if KERNELS
 *     struct ${NAME}_problem p = {0};
 *     p.head_dim = ${head_dim(0)}, p.batch = 1, p.heads = 8, p.kv_heads = 8, p.q_len = n, p.kv_len = n;
 *     void *workspace = aligned_alloc(64, (size_t)${NAME}_workspace(&p)); // Windows: _aligned_malloc
 *     if (${NAME}_run(&p, q, k, v, o, workspace, NULL) < 0)
 *         puts(${NAME}_supports(&p));
% elif CUDA
 *     struct ${NAME}_cuda_kernel kernel;
 *     int found = ${NAME}_find_cuda(&problem, capability, &kernel);
 *     ${NAME}_open_cuda(&driver, dlsym, dlopen("libcuda.so.1", RTLD_NOW));
 *     code = ${NAME}_load_cuda(&driver, &kernel, NULL, &module, &run.function); ... a struct ${NAME}_cuda_run filled in ...
 *     code = ${NAME}_launch_cuda(&driver, &kernel, &run);
% else
 *     struct ${NAME}_cl_kernel kernel;
 *     int found = ${NAME}_find_cl(&problem, capability, &kernel);
 *     program = clCreateProgramWithSource(context, kernel.lines, (const char **)kernel.text, NULL, &code);
 *     ... clBuildProgram, clCreateKernel(program, kernel.entry, &code), a struct ${NAME}_cl_run filled in ...
 *     code = ${NAME}_launch_cl(&kernel, &run);
% end
 *
 * Nothing here allocates memory or opens a file. */
#ifndef ${UPPER}_H
#define ${UPPER}_H

#include <stddef.h>
#include <stdint.h>
% if ALL > KERNELS
#include <string.h>
% end

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, for the members of a problem that are types. The last four are for K and V alone. */
enum ${NAME}_type { ${UPPER}_F32 = 1, ${UPPER}_F16, ${UPPER}_BF16, ${UPPER}_INT8, ${UPPER}_FP8, ${UPPER}_Q8_0, ${UPPER}_Q4_0 };

/* What is asked for. Everything but head_dim may be 0. By the lengths the faster kernel is chosen${KERNELS ? ", and they are what " : ""}${KERNELS ? NAME : ""}${KERNELS ? "_run runs" : ""}. */
struct ${NAME}_problem {
% for f in 0..FIELDS
% if kind(f) == "type" and stage(f) == 0
    int ${member(f)}; /* ${field_doc(f)}; 0: ${first(f) == f ? "f32" : "as dtype"} */
% elif kind(f) == "type"
    int ${member(f)}; /* ${field_doc(f)}; 0: none */
% elif kind(f) == "size"
    int ${member(f)}; /* ${field_doc(f)}${first(f) == f ? "" : ", or 0"} */
% else
    int ${member(f)}; /* 1: ${field_doc(f)} */
% end
% end
    int64_t batch, heads, kv_heads, q_len, kv_len;
};
% if KERNELS
% include "bundle/cpu.h.t"
% end
% if ALL > KERNELS
% include "bundle/device.h.t"
% end

#ifdef __cplusplus
}
#endif
#endif
