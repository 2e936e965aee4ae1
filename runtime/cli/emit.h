/* emit.h - what the verb `emit` asks of devices and of the cache, so that the program that only emits can be built
 * without them. What it is not: the verb (emit.c). */
#ifndef ATTNGEN_CLI_EMIT_H
#define ATTNGEN_CLI_EMIT_H

#include "gen/bundle.h"

/* A driver that makes PTX from kernels. open takes --device, or NULL: the first NVIDIA device. make returns a text that
 * the caller frees, or NULL and why there is none. close takes what open gave, or NULL. */
struct emit_driver {
    int (*open)(const char *device, void **out, struct gen_error *err);
    char *(*make)(void *opened, const struct variant *v, const struct gen_text *text, struct gen_error *err);
    void (*close)(void *opened);
    /* What NVRTC makes of a text in CUDA C++, of *size bytes, which the caller frees: PTX, which ends with a 0 that is not
     * counted, or a cubin; or NULL and why there is none. It needs no device. */
    char *(*compile)(const struct variant *v, const struct gen_text *text, bool ptx, size_t *size, struct gen_error *err);
    /* The winners of the cache, and a kernel in plain C for each problem of a processor, which the caller frees; 1 or
     * more. */
    int (*winners)(const struct gen *g, struct bundle_kernel **out, int *count, struct gen_error *err);
};
int emit_winners(const struct gen *g, struct bundle_kernel **out, int *count, struct gen_error *err); /* emit_cache.c */

/* The verb, with a driver for --ptx or NULL. */
int emit_main(int argc, char **argv, const struct emit_driver *driver);

#endif
