/* Four functions of CUDA's driver, with types that need no header of CUDA's: CUmodule, CUfunction and CUstream are pointers, and
 * CUresult is an int. Nothing of CUDA is linked. */
struct ${NAME}_cuda_driver {
    int (*cuModuleLoadData)(void **module, const void *image);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuFuncSetAttribute)(void *function, int attribute, int value);
    int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
        unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra);
};

/* Finds them: `find` is dlsym, and `library` what dlopen("libcuda.so.1", RTLD_NOW) returned, or what else they take. 0; -1 where
 * one of them is not there. */
int ${NAME}_open_cuda(struct ${NAME}_cuda_driver *driver, void *(*find)(void *library, const char *name), void *library);

/* A kernel's text, ending with 0, for nvrtcCreateProgram; written to `out` unless that is NULL. Returns its bytes, with the 0. */
size_t ${NAME}_text_cuda(const struct ${NAME}_cuda_kernel *kernel, char *out);

/* Loads a kernel into the thread's current context. image: a cubin or PTX that the host made of the text; or NULL for those of
 * the bundle: the cubin, or the PTX where the card takes no such cubin. The host unloads *module when no launch runs any more, also
 * after a failure that leaves one. 0, or CUDA's error; 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) where there is no code for the card. */
int ${NAME}_load_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel, const void *image,
    void **module, void **function);

struct ${NAME}_cuda_run {
    void *function;                        /* of ${NAME}_load_cuda */
    void *stream;                          /* CUstream or cudaStream_t; NULL: the default one */
    int units;                             /* the card's multiprocessors: its attribute 16 */
    uint64_t q, k, v, o, lse, kv_lens;     /* addresses of the card's memory (CUdeviceptr); lse and kv_lens: or 0 */
    uint64_t bias, mask, slopes, sinks;    /* those that the kernel takes, and of the next: */
    uint64_t q_starts, kv_starts, pages;   /* starts: or 0, of a side that is not packed */
    uint64_t k_scales, v_scales;
    struct attn_cl_args args;              /* but for has_lse and has_lens */
    struct attn_cl_features features;      /* but for q_end_at, has_q_starts and has_kv_starts */
    uint64_t room, done, parts;            /* as ${NAME}_memory_cuda says; for one launch at a time */
};

/* Bytes of the card's memory that a launch takes beside its tensors, in the order of run->room, run->done and run->parts; 0: none.
 * The first two are all zeros before the first launch, and each leaves them as the next needs them. 0, or 1 as ${NAME}_launch_cuda. */
int ${NAME}_memory_cuda(const struct ${NAME}_cuda_kernel *kernel, const struct ${NAME}_cuda_run *run, size_t bytes[3]);

/* Puts the kernel on the stream, tensor maps and all, and returns; a graph may capture it. Any number of threads may call it at once.
 * 0, or CUDA's error; 1 (CUDA_ERROR_INVALID_VALUE) for lengths, strides, offsets or addresses that the kernel does not take, or
 * where it takes memory that is not given. */
int ${NAME}_launch_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel,
    const struct ${NAME}_cuda_run *run);
