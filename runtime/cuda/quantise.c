/* quantise.c - attn_quantise_cuda: converts rows to a narrow type on the card, by the kernel of
 * templates/opencl/quantise.cl.t. What it is not: the checks of what a caller gives (api/quantise.c). */
#include "gpu/quantise.h"
#include "internal.h"
#include "system/status.h"

static int need_kernel(struct cuda_target *t, struct gen_error *err)
{
    struct gen_text text;
    pthread_mutex_lock(&t->lock);
    const bool there = t->quantise.module != NULL;
    pthread_mutex_unlock(&t->lock);
    if (there)
        return 0;
    if (gpu_quantise_text(true, &text, err) != 0)
        return -1;
    int result = cuda_need_helper(t, &t->quantise, GPU_QUANTISE, text.data, text.size, err);
    gen_text_free(&text);
    return result;
}

attn_status cuda_quantise(struct device *device, const struct quantise_work *work, const void *on, struct attn_error *err)
{
    struct cuda_target *t = (struct cuda_target *)device;
    const struct cuda_api *api = &t->cu->api;
    const struct attn_quantisation *p = &work->p;
    struct gen_error gen_err = {0};
    bool pushed;
    if (work->nothing)
        return ATTN_OK;
    struct gpu_quantise q = gpu_quantise_of(work);
    void *parameters[] = {(void *)&p->in, (void *)&p->out, (void *)&p->scales, (void *)&p->slots, &q.args};
    if (cuda_enter(t, &pushed, &gen_err) != 0)
        return status_because(&gen_err, ATTN_FAILED, err);
    int result = need_kernel(t, &gen_err);
    for (int i = 0; i < q.launches && result == 0; i++) {
        q.args.phase = q.phase[i];
        result = cuda_failed(api,
                             api->cuLaunchKernel(t->quantise.function, (unsigned)q.groups, 1, 1, GPU_QUANTISE_GROUP, 1, 1, 0,
                                                 *(CUstream const *)on, parameters, NULL),
                             "cuLaunchKernel", &gen_err);
    }
    cuda_leave(t, pushed);
    return result == 0 ? ATTN_OK : status_because(&gen_err, ATTN_FAILED, err);
}
