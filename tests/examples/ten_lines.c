/* ten_lines.c - causal attention of 8 heads over 4 key heads, as a program that links libattn asks for it.
 * Build: cc ten_lines.c $(pkg-config --cflags --libs attn) */
#include <attn.h>
#include <stdio.h>

static float q[8 * 100 * 64], k[4 * 100 * 64], v[4 * 100 * 64], o[8 * 100 * 64]; /* [heads, rows, head dim] */

int main(void)
{
    struct attn_context *context = NULL;
    struct attn_plan *plan = NULL;
    struct attn_error err;
    struct attn_problem problem = {.size = sizeof problem, .dtype = ATTN_F32, .head_dim = 64, .heads = 8, .kv_heads = 4,
                                   .causal = 1, .max_batch = 1, .max_q_len = 100, .max_kv_len = 100};
    struct attn_run run = {.size = sizeof run, .q = q, .k = k, .v = v, .o = o, .batch = 1, .q_len = 100, .kv_len = 100};
    for (int i = 0; i < 4 * 100 * 64; i++)
        v[i] = (float)(i / 64 % 100); /* the row's number; all scores are 0, so row i of o is the mean of 0..i */
    int failed = attn_context_create(NULL, &context, &err) || attn_plan_create(context, &problem, &plan, &err) ||
                 attn_execute(plan, &run, NULL, &err);
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    else
        printf("%g %g %g\n", o[0], o[1 * 64], o[99 * 64]);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return failed;
}
