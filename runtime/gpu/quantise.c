/* quantise.c - see quantise.h. */
#include "quantise.h"

#include <string.h>

#include "gen/dtypes.h"

/* Enough groups for every unit of a large device, and few enough for the limits of every device. */
enum { MOST_GROUPS = 1 << 15 };

struct gpu_quantise gpu_quantise_of(const struct quantise_work *w)
{
    const struct attn_quantisation *p = &w->p;
    struct gpu_quantise q = {.args = {.all = p->batch * p->heads * p->rows,
                                      .heads = p->heads,
                                      .rows = p->rows,
                                      .page_size = p->slots ? p->page_size : 1,
                                      .slots = p->slots ? p->pages * p->page_size : 0,
                                      .width = p->width,
                                      .from = (int)p->from,
                                      .to = (int)p->to},
                             .launches = 1};
    memcpy(q.args.in_stride, p->in_stride, sizeof q.args.in_stride);
    memcpy(q.args.out_stride, p->out_stride, sizeof q.args.out_stride);
    memcpy(q.args.scales_stride, p->scales_stride, sizeof q.args.scales_stride);
    q.groups = (q.args.all + GPU_QUANTISE_ROWS - 1) / GPU_QUANTISE_ROWS;
    q.groups = q.groups < MOST_GROUPS ? q.groups : MOST_GROUPS;
    q.args.step = q.groups * GPU_QUANTISE_ROWS;
    q.phase[0] = w->finds ? WHOLE : GIVEN_SCALES;
    for (int i = 0; w->shared && i < 4; i++)
        q.phase[i] = CLEARING + i, q.launches = i + 1;
    return q;
}

int gpu_quantise_text(bool cuda, struct gen_text *out, struct gen_error *err)
{
    const struct gen_number numbers[] = {{"CUDA", cuda}};
    return gen_render("opencl/quantise.cl.t", numbers, 1, out, err);
}
