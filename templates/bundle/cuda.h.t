/* The four functions of CUDA's driver that are called, in types that need no header of CUDA's: CUmodule, CUfunction and CUstream are
 * pointers, and CUresult is an int. */
struct ${NAME}_cuda_driver {
    int (*cuModuleLoadData)(void **module, const void *image);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuFuncSetAttribute)(void *function, int attribute, int value);
    int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
        unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra);
};

/* Looks these functions up by their names. find may be dlsym, and library what dlopen("libcuda.so.1", RTLD_NOW) returned. Returns 0,
 * or -1 if a function is missing. */
int ${NAME}_open_cuda(struct ${NAME}_cuda_driver *driver, void *(*find)(void *library, const char *name), void *library);

/* Writes a kernel's text, which nvrtcCreateProgram takes, with a 0 at its end, to out, unless that is NULL. Returns how many bytes that
 * is. */
size_t ${NAME}_text_cuda(const struct ${NAME}_cuda_kernel *kernel, char *out);

/* Loads a kernel into the calling thread's current context. image is a cubin or PTX that the host made of the text; if it is NULL, the
 * bundle's cubin is taken, or its PTX if the card does not take that cubin. Returns 0, or CUDA's error: 209
 * (CUDA_ERROR_NO_BINARY_FOR_GPU) if there is no code for the card. The host unloads *module, unless it is NULL, when no launch runs any
 * more. */
int ${NAME}_load_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel, const void *image,
    void **module, void **function);

/* What a launch takes. Members that the kernel does not need may be 0. */
struct ${NAME}_cuda_run {
    void *function;                        /* as ${NAME}_load_cuda gave it */
    void *stream;                          /* CUstream or cudaStream_t; NULL: the default one */
    int units;                             /* how many multiprocessors the card has: its attribute 16 */
    uint64_t q, k, v, o, lse, kv_lens;     /* addresses in the card's memory (CUdeviceptr); lse and kv_lens may be 0 */
    uint64_t bias, mask, slopes, sinks;    /* of its features */
    uint64_t q_starts, kv_starts, pages;   /* the starts of a side that is not packed are 0 */
    uint64_t k_scales, v_scales;
    struct attn_cl_args args;              /* has_lse and has_lens are filled in by the launch */
    struct attn_cl_features features;      /* and so are q_end_at, has_q_starts and has_kv_starts */
    uint64_t room, done, parts;            /* as ${NAME}_memory_cuda says; for one launch at a time */
};

/* The bytes of the card's memory that a launch takes beside its tensors, in the order of run->room, run->done and run->parts; 0 where it
 * takes none. The first two are all zeros before the first launch, and each launch leaves them as the next one needs them. Returns what
 * ${NAME}_launch_cuda would return for that run's lengths and strides. */
int ${NAME}_memory_cuda(const struct ${NAME}_cuda_kernel *kernel, const struct ${NAME}_cuda_run *run, size_t bytes[3]);

/* Makes the tensor maps, puts the kernel on the stream, and returns without waiting; a graph may capture the launch. Any number of
 * threads may call it at once. Returns 0, or CUDA's error: 1 (CUDA_ERROR_INVALID_VALUE) for lengths, strides, offsets or addresses
 * that the kernel does not take, and if memory that it needs is not given. */
int ${NAME}_launch_cuda(const struct ${NAME}_cuda_driver *driver, const struct ${NAME}_cuda_kernel *kernel,
    const struct ${NAME}_cuda_run *run);
