/* quantise.h - the kernel that converts rows to a narrow type, for those who launch it, with whichever library. */
#ifndef ATTNGEN_GPU_QUANTISE_H
#define ATTNGEN_GPU_QUANTISE_H

#include "templates/opencl/quantise.args.h"
#include "backend/quantise.h"
#include "gen/gen.h"

#define GPU_QUANTISE "attn_quantise_rows"
enum { GPU_QUANTISE_GROUP = 128, GPU_QUANTISE_ROWS = 4, GPU_QUANTISE_LOCAL = 8 * GPU_QUANTISE_GROUP };

struct gpu_quantise {
    struct attn_cl_quantise args; /* but for phase and offsets, which are 0 */
    int64_t groups;
    int launches, phase[4]; /* one after another; each with its phase in args */
};
/* There is at least one row. */
struct gpu_quantise gpu_quantise_of(const struct quantise_work *work);

/* The kernel's text, for gen_text_free. It takes the input, the output, scales (or anything), slots (or anything) and args. */
int gpu_quantise_text(bool cuda, struct gen_text *out, struct gen_error *err);

#endif
