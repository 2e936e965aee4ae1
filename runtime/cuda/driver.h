/* driver.h - what is used of CUDA's driver (libcuda.so.1) and of NVRTC, declared here so that no CUDA header is needed;
 * both are opened at run time. Names, types and numbers are those of NVIDIA's cuda.h and nvrtc.h. What it is not: for
 * anything outside this folder. */
#ifndef ATTNGEN_CUDA_DRIVER_H
#define ATTNGEN_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"

typedef int CUdevice, CUresult;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_EVENT_DEFAULT = 0,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

typedef struct CUlaunchAttribute_st {
    int id;
    char pad[4];
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig_st {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* X(name, symbol, parameters): the symbol belongs to the ABI that the parameters are of. */
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cuInit, cuInit, (unsigned))                                                                                      \
    X(cuDriverGetVersion, cuDriverGetVersion, (int *))                                                                 \
    X(cuGetErrorName, cuGetErrorName, (CUresult, const char **))                                                       \
    X(cuDeviceGetCount, cuDeviceGetCount, (int *))                                                                     \
    X(cuDeviceGet, cuDeviceGet, (CUdevice *, int))                                                                     \
    X(cuDeviceGetName, cuDeviceGetName, (char *, int, CUdevice))                                                       \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *, int, CUdevice))                                              \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                     \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                     \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                             \
    X(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext *))                                                                 \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext))                                                              \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext *))                                                              \
    X(cuModuleLoadData, cuModuleLoadData, (CUmodule *, const void *))                                                  \
    X(cuModuleUnload, cuModuleUnload, (CUmodule))                                                                      \
    X(cuModuleGetFunction, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                \
    X(cuFuncGetAttribute, cuFuncGetAttribute, (int *, int, CUfunction))                                                \
    X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))                                                  \
    X(cuLaunchKernel, cuLaunchKernel,                                                                                  \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))  \
    X(cuLaunchKernelEx, cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                      \
    X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                              \
    X(cuMemFree, cuMemFree_v2, (CUdeviceptr))                                                                          \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                          \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                \
    X(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                \
    X(cuStreamCreate, cuStreamCreate, (CUstream *, unsigned))                                                          \
    X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream))                                                                 \
    X(cuStreamSynchronize, cuStreamSynchronize, (CUstream))                                                            \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, (CUstream, int *, uint64_t *))                                   \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *))                                   \
    X(cuEventCreate, cuEventCreate, (CUevent *, unsigned))                                                             \
    X(cuEventRecord, cuEventRecord, (CUevent, CUstream))                                                               \
    X(cuEventSynchronize, cuEventSynchronize, (CUevent))                                                               \
    X(cuEventElapsedTime, cuEventElapsedTime, (float *, CUevent, CUevent))                                             \
    X(cuEventDestroy, cuEventDestroy_v2, (CUevent))

typedef struct _nvrtcProgram *nvrtcProgram;
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(nvrtcVersion, nvrtcVersion, (int *, int *))                                                                      \
    X(nvrtcCreateProgram, nvrtcCreateProgram,                                                                          \
      (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *))                     \
    X(nvrtcCompileProgram, nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                              \
    X(nvrtcDestroyProgram, nvrtcDestroyProgram, (nvrtcProgram *))                                                      \
    X(nvrtcGetProgramLogSize, nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                        \
    X(nvrtcGetProgramLog, nvrtcGetProgramLog, (nvrtcProgram, char *))                                                  \
    X(nvrtcGetPTXSize, nvrtcGetPTXSize, (nvrtcProgram, size_t *))                                                      \
    X(nvrtcGetPTX, nvrtcGetPTX, (nvrtcProgram, char *))                                                                \
    X(nvrtcGetCUBINSize, nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                                  \
    X(nvrtcGetCUBIN, nvrtcGetCUBIN, (nvrtcProgram, char *))
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1, NVRTC_ERROR_COMPILATION = 6 };

#define CUDA_MEMBER(name, symbol, parameters) int (*name) parameters;
struct cuda_api {
    CUDA_FUNCTIONS(CUDA_MEMBER)
};
struct nvrtc_api {
    NVRTC_FUNCTIONS(CUDA_MEMBER)
};

/* Opens the library, and finds the functions. 0, or -1 and what is missing; *library is then NULL. */
int cuda_load(struct cuda_api *api, void **library, struct gen_error *err);
int nvrtc_load(struct nvrtc_api *api, void **library, struct gen_error *err);

/* Fills err with `WHAT: CUDA_ERROR_... (number)` and returns -1; for CUDA_SUCCESS returns 0 and fills nothing. */
int cuda_failed(const struct cuda_api *api, CUresult code, const char *what, struct gen_error *err);

#endif
