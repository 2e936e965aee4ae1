/* run_arrays.h - the arrays of `attngen run`: read, checked against each other and the options, rounded if asked, and
 * written. What it is not: computing (run.c). */
#ifndef ATTNGEN_CLI_RUN_ARRAYS_H
#define ATTNGEN_CLI_RUN_ARRAYS_H

#include "features.h"
#include "npy.h"
#include "options.h"

/* One run, from files to files. */
struct run {
    struct options options;
    enum dtype dtype_q, dtype_kv, dtype_o; /* of the kernel */
    enum dtype written;                    /* of the array O: dtype_o, or f32 if Q was f32 and was rounded */
    struct npy q, k, v;                    /* as read, then rounded; always with four sides */
    bool flat_q, flat_k, flat_v;           /* packed arrays came without their batch of 1; O is written as Q came */
    struct npy reference;                  /* of --compare; without it no data */
    struct npy o, lse;                     /* o in dtype_o until it is written */
    struct features features;
    int64_t batch, heads, kv_heads, q_len, kv_len; /* lengths are those of the longest sequences */
    int64_t head_dim, head_dim_v;
};

int run_read(struct run *r, struct gen_error *err);    /* all inputs; the options must be set */
int run_prepare(struct run *r, struct gen_error *err); /* memory for O and LSE, and the array to compare O with */
int run_write(struct run *r, struct gen_error *err);   /* O and LSE, both or none */
void run_free(struct run *r);

#endif
