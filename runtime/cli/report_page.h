/* report_page.h - what `attngen report` knows, and the page that shows it. What it is not: gathering the data
 * (report.c). */
#ifndef ATTNGEN_CLI_REPORT_PAGE_H
#define ATTNGEN_CLI_REPORT_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/buf.h"
#include "gen/gen.h"

/* A candidate that was timed, perhaps only until it fell behind. */
struct report_row {
    struct variant variant;
    double seconds;
};

/* One problem that was tuned here. */
struct report_entry {
    char problem[GEN_NAME_MAX], winner[GEN_NAME_MAX], device[48]; /* "attn_f32_d64", a kernel, "cpu by tcc" */
    int64_t batch, q_len, kv_len;
    int heads, kv_heads, threads;
    int known;        /* candidates that the cache knows */
    enum dtype dtype; /* the type of the factors */
    bool noisy, on_processor;
    double seconds, gflops, intensity, peak; /* flops per byte; GFLOP/s, 0: it could not be measured */
    struct report_row *row;
    int rows;
};

/* The rate of multiply-adds that was measured on a device. */
struct report_ceiling {
    char device[48];
    enum dtype dtype;
    int threads;
    double gflops;
};

enum { REPORT_CEILINGS = 64 };
struct report {
    struct buf machine; /* lines of `attngen devices` */
    int threads;
    struct report_entry *entry; /* by problem, device, threads, lengths */
    int entries, foreign;       /* of this machine; of others or of other versions */
    struct report_ceiling ceiling[REPORT_CEILINGS];
    int ceilings;
    double read_gbs; /* from memory by all threads of the processor; 0: not measured */
    bool lost;       /* memory ran out */
};

/* Appends the page: one HTML file, without scripts and without anything from elsewhere. */
void report_page(const struct report *r, struct buf *out);

#endif
