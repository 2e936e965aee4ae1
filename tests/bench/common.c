/* common.c - see common.h. */
#include "common.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../runtime/numeric.h"

void table_head(void)
{
    printf("%-66s %10s %-9s %-10s\n", "what", "measured", "", "asked for");
}

void table_row(struct table *t, const char *what, double measured, const char *unit, double floor, double ceiling)
{
    bool good = !(floor > 0 && measured < floor) && !(ceiling > 0 && measured > ceiling);
    char asked[32] = "";
    if (floor > 0)
        snprintf(asked, sizeof asked, ">= %.4g", floor);
    else if (ceiling > 0)
        snprintf(asked, sizeof asked, "<= %.4g", ceiling);
    printf("%-66s %10.4g %-9s %-10s %s\n", what, measured, unit, asked, !asked[0] ? "" : good ? "ok" : "BELOW");
    fflush(stdout);
    t->below += !good;
}

int table_error(struct table *t, const char *what, const char *why)
{
    fprintf(stderr, "%s: error: %s\n", what, why);
    t->errors++;
    return -1;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    return x[n / 2];
}

struct attn_problem work_problem(attn_dtype dtype, int dim, int heads, int64_t n, int threads)
{
    return (struct attn_problem){.size = sizeof(struct attn_problem),
                                 .dtype = dtype,
                                 .head_dim = dim,
                                 .heads = heads,
                                 .kv_heads = heads,
                                 .max_batch = 1,
                                 .max_q_len = n,
                                 .max_kv_len = n,
                                 .threads = threads,
                                 .rigor = ATTN_ESTIMATE};
}

attn_status work_create(struct attn_context *context, const struct attn_problem *problem, struct work *out)
{
    const struct attn_problem *p = problem;
    enum dtype dtype = (enum dtype)p->dtype;
    size_t elements = (size_t)(p->heads * p->max_q_len * p->head_dim);
    *out = (struct work){0};
    out->status = attn_plan_create(context, p, &out->plan, &out->err);
    for (int i = 0; i < 4 && out->status == ATTN_OK; i++) {
        out->memory[i] = aligned_alloc(64, (elements * dtype_size(dtype) + 63) / 64 * 64);
        if (!out->memory[i]) {
            snprintf(out->err.text, sizeof out->err.text, "memory for this shape is out");
            out->status = ATTN_NO_MEMORY;
        } else {
            fill_normal(out->memory[i], dtype, elements, (uint64_t)i + 1);
        }
    }
    out->run = (struct attn_run){.size = sizeof out->run,
                                 .q = out->memory[0],
                                 .k = out->memory[1],
                                 .v = out->memory[2],
                                 .o = out->memory[3],
                                 .batch = 1,
                                 .q_len = p->max_q_len,
                                 .kv_len = p->max_kv_len};
    return out->status;
}

void work_destroy(struct work *w)
{
    attn_plan_destroy(w->plan);
    for (int i = 0; i < 4; i++)
        free(w->memory[i]);
}

void work_execute(void *work)
{
    struct work *w = work;
    struct attn_error err;
    attn_status status = attn_execute(w->plan, &w->run, NULL, &err);
    if (status != ATTN_OK) {
        w->status = status;
        w->err = err;
    }
}
