/* hosts.h - which parts of a run's host arrays are copied to a device: which rows take part, and where they lie there.
 * What it is not: the copies, which each device library makes. */
#ifndef ATTNGEN_GPU_HOSTS_H
#define ATTNGEN_GPU_HOSTS_H

#include "launch.h"

/* Up to four sides of runs of elements in host memory. On the device they have the same strides if no byte lies between
 * them, so that one copy moves all; otherwise they are packed. */
enum { SIDES = 4 };
struct host {
    char *data;
    int64_t count[SIDES], stride[SIDES]; /* strides in elements; tensors have batch, heads and rows */
    int64_t width, element;              /* elements in a run; bytes of an element */
    const int64_t *rows;                 /* how many of each batch take part, at most count[2]; or NULL: all */
    const int32_t *at;                   /* where each batch is, if they are not in order; or NULL */
    bool dense;
};

/* A run's arrays, and what the kernel is told about them. */
struct gpu_hosts {
    struct host host[ARRAYS];
    struct attn_cl_args args;
    struct attn_cl_features features;
    struct used_pages *used; /* for paged kernels */
    bool v_in_k;             /* V is the first columns of K: there is one copy of both, and the host of V is that of K */
};

/* The arrays in place, for buffers that are their own memory. 0, or -1 and what is wrong; call gpu_hosts_free in any
 * case, when nothing reads them any more. */
int gpu_hosts_of(const struct gpu_source *source, const struct attn_args *args, struct gpu_hosts *out,
                 struct gen_error *err);
void gpu_hosts_free(struct gpu_hosts *hosts);
/* From there to how they lie on a device, with only the pages in use: changes the strides and the table that the kernel
 * is told. */
void gpu_hosts_pack(const struct gpu_source *source, struct gpu_hosts *hosts);

/* The bytes on the device. 0, or -1 if there are too many. */
int gpu_host_size(const struct host *host, size_t *out, struct gen_error *err);
/* Copies all that there are of an array that is not dense, between host rows and packed ones. */
void gpu_copy_rows(const struct host *host, char *packed, bool to_host);

#endif
