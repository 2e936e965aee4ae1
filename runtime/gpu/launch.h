/* launch.h - what a launch of a device's kernel computes, whichever library launches it: the structs that kernels take,
 * tensor maps, how rows and keys are divided, and what lengths and strides must satisfy. What it is not: the launch. */
#ifndef ATTNGEN_GPU_LAUNCH_H
#define ATTNGEN_GPU_LAUNCH_H

#include <stdint.h>

#include "templates/c/features.h"
#include "templates/c/args.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "templates/opencl/split.h"
#include "templates/opencl/pieces.h"
#include "source.h"

/* Whether a launch is given what its kernel takes, as a compiled C kernel says it. There are no parts on a device: one call is all
 * of the work. 0, or -1 and what it expects. */
int gpu_check_args(const struct gpu_source *source, const char *name, const struct attn_args *args, struct gen_error *err);

/* Fills the structs, except where anything begins and which arrays there are. */
void gpu_set_structs(const struct gpu_source *source, const struct attn_args *args, struct attn_cl_args *out,
                     struct attn_cl_features *features);
/* Makes an array begin so many elements later. */
void gpu_move(struct attn_cl_args *args, struct attn_cl_features *features, enum array_id id, long by);
/* Tells the kernel whether there is that array, if it asks. */
void gpu_set_has(struct attn_cl_args *args, struct attn_cl_features *features, enum array_id id, bool has);

/* Kernels bring the first tile of keys before they know that no row sees any. Of a run without keys what would hold some may lie
 * nowhere: its strides and beginnings become 0, and whoever launches gives it GPU_NOTHING bytes of zeros, which are not used. */
enum { GPU_NOTHING = 4096 }; /* a row of any type, and a page's number */
bool gpu_holds_keys(enum array_id id);
void gpu_lie_nowhere(struct attn_cl_args *args, struct attn_cl_features *features);

/* For the launches of a portable kernel, which are pieces (templates/opencl/pieces.h): makes `piece`, which is all zeros before the
 * first, the next one, and the structs those that it is launched with. Returns 1; 0 if there is no further piece; or -1, and why
 * the run cannot be launched. */
int gpu_next_piece(const struct gpu_source *source, const struct attn_cl_args *whole, const struct attn_cl_features *all,
                   struct attn_cl_piece *piece, struct attn_cl_args *args, struct attn_cl_features *features,
                   struct gen_error *err);

/* How many tiles the rows of a head make. */
long gpu_tiles_of(const struct gpu_source *source, const struct attn_cl_args *args);

/* For NVIDIA's levels: how many heads' tiles are done together in a causal run, and whether rows begin where they may. */
int gpu_heads_near(const struct gpu_source *source, const struct attn_cl_args *args, int units);
int gpu_check_rows(const struct gpu_source *source, const struct attn_cl_args *args,
                   const struct attn_cl_features *features, struct gen_error *err);

/* For kernels that split keys: how rows and keys are divided. window: as in struct attn_cl_features; NULL: none. 0, or
 * -1 and what is too large. */
int gpu_divide(const struct gpu_source *source, const struct attn_cl_args *args, const int64_t window[2],
               struct attn_cl_split *out, long *units, struct gen_error *err);
/* For NVIDIA's levels, whose positions have 32 bits: how many units of work groups may take. These are tiles or, for a kernel that
 * splits keys, what gpu_divide says, which goes to split. 0, or -1 and what is too large. */
int gpu_units_of_work(const struct gpu_source *source, const struct attn_cl_args *args, const struct attn_cl_features *features,
                      struct attn_cl_split *split, long *units, struct gen_error *err);

/* For kernels that widen K and V once for a launch: the bytes of their memory, and of the numbers that say what is there; where V
 * begins in it; and the arguments of a run whose K and V lie there. 0, or -1 and what is too large. */
struct gpu_widened {
    int64_t bytes, done, v_behind;
    struct attn_cl_args args;
};
int gpu_widen(const struct gpu_source *source, const struct attn_cl_args *args, struct gpu_widened *out, struct gen_error *err);

/* How many batches and rows tensors have for maps and checks. Packed, there is one batch; in pages, one for each page.
 * How many rows or pages there really are only the device knows, so these sides are larger than any. */
struct gpu_sides {
    long batch, rows;
};
struct gpu_sides gpu_sides_of_kv(const struct gpu_source *source, const struct attn_cl_args *args,
                                 const struct attn_cl_features *features);

/* The tensor maps of Q, K, V and O, with 0 for the addresses, which are their first words. split: for kernels that
 * split keys, else NULL. *box: the rows of a box of K and V; 0 if pages allow none, and then K and V have no maps. 0,
 * or -1 and the stride or beginning that a map cannot have. */
int gpu_make_maps(const struct gpu_source *source, const struct attn_cl_args *args,
                  const struct attn_cl_features *features, const struct attn_cl_split *split,
                  unsigned long *const out[4], int *box, struct gen_error *err);
/* Whether rows lie as the kernel takes them, by their strides and where they begin in their buffers. */
bool gpu_takes_rows(const struct gpu_source *source, const struct attn_cl_args *args,
                    const struct attn_cl_features *features);

/* How many launches one sample of a kernel's time has, where a single one takes so many seconds: enough for two milliseconds. */
enum { GPU_SAMPLE_MOST = 256 };
static inline int gpu_sample_launches(double seconds)
{
    const double fit = seconds > 0 ? 2e-3 / seconds : GPU_SAMPLE_MOST;
    return fit < 1 ? 1 : fit > GPU_SAMPLE_MOST ? GPU_SAMPLE_MOST : (int)fit;
}

#endif
