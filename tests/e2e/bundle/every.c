/* every.c - every kernel of a bundle that works on this processor, against the definition in double precision; and that what
 * the bundle chooses, under each of its names, gives the same bits as the kernel itself. It reads the bundle's own table. What
 * it is not: how a user calls a bundle (five.c). */
#include "llm.c"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 37, KV_LEN = 53, ROWS = B * HEADS * Q_LEN, MOST = B * HEADS * KV_LEN * 128 };
enum { TYPE = 0, DIM = 3, DIM_V = 4, CAUSAL = 5 }; /* of a row's `has` */

struct tensors {
    unsigned char q[MOST * 4], k[MOST * 4], v[MOST * 4], o[MOST * 4], again[MOST * 4];
    float lse[ROWS];
};

static double get(int type, const unsigned char *tensor, int64_t i)
{
    uint32_t bits = 0;
    float f;
    if (type == LLM_BF16) {
        memcpy(&bits, tensor + 2 * i, 2);
        bits <<= 16;
    } else {
        memcpy(&bits, tensor + 4 * i, 4);
    }
    memcpy(&f, &bits, 4);
    return (double)f;
}

/* Multiples of 1/64 below 1, which every type holds exactly. */
static void fill(int type, unsigned char *tensor, uint32_t seed)
{
    for (int i = 0; i < MOST; i++) {
        seed = seed * 1664525 + 1013904223;
        const float f = (float)(int)(seed >> 25) / 64 - 1;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        if (type == LLM_BF16)
            bits >>= 16, memcpy(tensor + 2 * i, &bits, 2);
        else
            memcpy(tensor + 4 * i, &bits, 4);
    }
}

/* Where products are of bf16 alone, so are the probabilities, and an LSE may be off by half a unit of these. */
static double lse_limit(const struct llm_row *row)
{
    const char *isa = strstr(row->kernel.variant, "_on_");
    return strncmp(isa, "_on_amx_", 8) && !strstr(isa, "bf16_") ? 1e-5 : 1.0 / 512;
}

/* Of O; infinite where the LSE is wrong. */
static double difference(const struct llm_row *row, const struct tensors *t, int b, int h, int i, double *lse)
{
    const int type = row->has[TYPE], dim = row->has[DIM], dim_v = row->has[DIM_V];
    const int64_t at = (int64_t)(b * HEADS + h) * Q_LEN + i, kv = (int64_t)(b * KV_HEADS + h / (HEADS / KV_HEADS)) * KV_LEN;
    const int keys = row->has[CAUSAL] ? i + KV_LEN - Q_LEN + 1 : KV_LEN;
    double score[KV_LEN], out[128] = {0}, most = -INFINITY, sum = 0, worst = 0;
    for (int j = 0; j < keys; j++) {
        score[j] = 0;
        for (int d = 0; d < dim; d++)
            score[j] += get(type, t->q, at * dim + d) * get(type, t->k, (kv + j) * dim + d);
        score[j] /= sqrt(dim);
        most = fmax(most, score[j]);
    }
    for (int j = 0; j < keys; j++) {
        const double p = exp(score[j] - most);
        sum += p;
        for (int d = 0; d < dim_v; d++)
            out[d] += p * get(type, t->v, (kv + j) * dim_v + d);
    }
    for (int d = 0; d < dim_v; d++)
        worst = fmax(worst, fabs(out[d] / sum - get(type, t->o, at * dim_v + d)));
    *lse = fmax(*lse, fabs(most + log(sum) - (double)t->lse[at]));
    return *lse < lse_limit(row) ? worst : INFINITY;
}

static struct llm_problem problem_of(const struct llm_row *row)
{
    return (struct llm_problem){.dtype = row->has[TYPE], .head_dim = row->has[DIM], .head_dim_v = row->has[DIM_V],
                                .causal = row->has[CAUSAL], .batch = B, .heads = HEADS, .kv_heads = KV_HEADS,
                                .q_len = Q_LEN, .kv_len = KV_LEN};
}

/* 0 when the kernel is right, and so is what is called by the problem. */
static int check(const struct llm_row *row, struct tensors *t)
{
    const struct llm_problem p = problem_of(row);
    const int type = row->has[TYPE];
    struct attn_args a;
    struct llm_kernel kernel;
    double worst = 0, lse = 0;
    llm_args(&p, &a);
    fill(type, t->q, 1), fill(type, t->k, 2), fill(type, t->v, 3);
    memset(t->o, 0xff, sizeof t->o);
    a.q = t->q, a.k = t->k, a.v = t->v, a.o = t->o, a.lse = t->lse;
    a.workspace = aligned_alloc(64, (size_t)(row->kernel.workspace(&a) + 63) / 64 * 64);
    if (!a.workspace || row->kernel.run(&a) != 0)
        return 1;
    for (int r = 0; r < ROWS; r++)
        worst = fmax(worst, difference(row, t, r / (HEADS * Q_LEN), r / Q_LEN % HEADS, r % Q_LEN, &lse));
    free(a.workspace);
    const int found = llm_find(&p, &kernel);
    int same = found >= 0 && strncmp(kernel.name, row->kernel.name, strlen(kernel.name)) == 0;
    if (same && kernel.run == row->kernel.run) {
        void *workspace = aligned_alloc(64, (size_t)llm_workspace(&p));
        memset(t->again, 0xff, sizeof t->again);
        same = llm_run(&p, t->q, t->k, t->v, t->again, workspace, NULL) == found && !memcmp(t->o, t->again, sizeof t->o);
        free(workspace);
    }
    printf("%s: O is off by %g, LSE by %g\n", row->kernel.variant, worst, lse);
    return worst > (type == LLM_BF16 ? 1.6e-2 : 3e-6) || !same;
}

int main(void)
{
    struct tensors *t = malloc(sizeof *t);
    int wrong = !t, run = 0;
    for (int i = 0; t && i < LLM_ROWS; i++)
        if (!(llm_rows[i].needs & ~llm_processor())) {
            wrong += check(&llm_rows[i], t);
            run++;
        }
    free(t);
    printf("%d of %d kernels run here, %d wrong\n", run, (int)LLM_ROWS, wrong);
    return wrong || !run;
}
