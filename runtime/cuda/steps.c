/* steps.c - the steps of attention alone, a product or a softmax, on host arrays. What it is not: attention (run.c). */
#include <stdio.h>

#include "internal.h"

enum { BUFFERS = 3 };

static unsigned over(long n, int tile)
{
    return (unsigned)((n + tile - 1) / tile);
}

static int launch(const struct cuda_kernel *k, const struct step_args *s, const CUdeviceptr buffer[], int n,
                  CUstream stream, struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    const struct gpu_source *src = &k->source;
    const bool product = src->step == GPU_PRODUCT;
    void *at[BUFFERS + 1];
    const unsigned rows = over(product ? s->product.m : s->softmax.rows, src->tile_q);
    const unsigned columns = product ? over(s->product.n, src->tile_k) : 0;
    const long heads = product ? s->product.heads : s->softmax.heads, batch = product ? s->product.batch : s->softmax.batch;
    const long groups[3] = {product ? columns : rows, product ? rows : heads, product ? heads * batch : batch};
    if (groups[1] > ATTN_CL_MOST || groups[2] > ATTN_CL_MOST) {
        snprintf(err->text, sizeof err->text,
                 "%s: error: it needs %ld by %ld groups for rows, heads and batch; expected at most %d each", k->name,
                 groups[1], groups[2], ATTN_CL_MOST);
        return -1;
    }
    if (groups[0] * groups[1] * groups[2] == 0) /* nothing to write */
        return 0;
    for (int i = 0; i < n; i++)
        at[i] = (void *)&buffer[i];
    at[n] = (void *)(product ? (const void *)&s->product : (const void *)&s->softmax);
    return cuda_failed(api,
                       api->cuLaunchKernel(k->function, (unsigned)groups[0], (unsigned)groups[1], (unsigned)groups[2],
                                           (unsigned)src->group[0], (unsigned)src->group[1], 1, 0, stream, at, NULL),
                       "cuLaunchKernel", err);
}

int cuda_step(struct cuda_kernel *k, const struct step_args *step, void *const array[], const size_t size[],
              struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    const int n = k->source.step == GPU_PRODUCT ? 3 : 2;
    CUdeviceptr buffer[BUFFERS] = {0};
    const CUstream stream = k->target->quiet;
    bool pushed;
    int result = cuda_enter(k->target, &pushed, err);
    if (result != 0)
        return -1;
    for (int i = 0; i < n && result == 0; i++) {
        CUresult code = api->cuMemAlloc(&buffer[i], size[i] ? size[i] : 64);
        if (code == CUDA_SUCCESS)
            code = api->cuMemcpyHtoDAsync(buffer[i], array[i], size[i], stream);
        result = cuda_failed(api, code, "an array's copy", err);
    }
    if (result == 0)
        result = launch(k, step, buffer, n, stream, err);
    if (result == 0)
        result = cuda_failed(api, api->cuMemcpyDtoHAsync(array[n - 1], buffer[n - 1], size[n - 1], stream),
                             "cuMemcpyDtoHAsync", err);
    CUresult end = api->cuStreamSynchronize(stream);
    if (result == 0)
        result = cuda_failed(api, end, k->name, err);
    for (int i = 0; i < n; i++)
        if (buffer[i])
            api->cuMemFree(buffer[i]);
    cuda_leave(k->target, pushed);
    return result;
}
