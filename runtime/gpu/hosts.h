/* hosts.h - a run's host arrays as what is copied to a device: which rows take part, and where they lie there. What it is not: the
 * copies, which each library of devices makes. */
#ifndef ATTNGEN_GPU_HOSTS_H
#define ATTNGEN_GPU_HOSTS_H

#include "launch.h"

/* Up to four sides of runs of elements in host memory. On the device they have the same strides when no byte lies
 * between them, so that one copy moves all; else they lie packed. */
enum { SIDES = 4 };
struct host {
    char *data;
    int64_t count[SIDES], stride[SIDES]; /* strides in elements; tensors have batch, heads and rows */
    int64_t width, element;              /* elements of a run; bytes of one */
    const int64_t *rows;                 /* of each batch, at most count[2], that are looked at; or NULL: all */
    const int32_t *at;                   /* where each batch is, if not in order; or NULL */
    bool dense;
};

/* A run's arrays, and what the kernel is told of them. */
struct gpu_hosts {
    struct host host[ARRAYS];
    struct attn_cl_args args;
    struct attn_cl_features features;
    struct used_pages *used; /* of paged kernels */
};

/* The arrays where they are, as buffers that are their own memory have them. 0, or -1 and what is wrong; gpu_hosts_free in
 * any case, when nothing reads them any more. */
int gpu_hosts_of(const struct gpu_source *source, const struct attn_args *args, struct gpu_hosts *out,
                 struct gen_error *err);
void gpu_hosts_free(struct gpu_hosts *hosts);
/* From there to how they lie on a device, pages in use alone: strides and table of what the kernel is told. */
void gpu_hosts_pack(const struct gpu_source *source, struct gpu_hosts *hosts);

/* Bytes on the device. 0, or -1 where they are too many. */
int gpu_host_size(const struct host *host, size_t *out, struct gen_error *err);
/* Between host rows and packed ones, all that there are, of an array that is not dense. */
void gpu_copy_rows(const struct host *host, char *packed, bool to_host);

#endif
