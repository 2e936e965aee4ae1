/* ring_mpi.c - causal attention over a sequence that N processes share: K and V go round a ring of MPI messages while kernels
 * run, and attn_merge puts the results together (Ring Attention: Liu, Zaharia and Abbeel 2023).
 *
 * The sequence is cut into 2 N chunks, of which rank r has chunks r and 2 N - 1 - r, one after the other: so the mask costs
 * every rank the same. Of a block of keys that came from rank s, a rank r sees
 *   s = r  all, causally: positions rise along its rows and along its keys alike;
 *   s < r  the first half, with all its queries: that chunk is before both of its own, the second behind both;
 *   s > r  all, with the second half of its queries: both chunks lie between its two.
 *
 * Build: mpicc ring_mpi.c $(pkg-config --cflags --libs attn) -lm; run: mpirun -n 4 ./ring_mpi [rows of a chunk]
 * Rank 0 computes the whole by itself too, and prints how far the two are apart. */
#include <attn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, D = 64 };

static void must(attn_status status, const struct attn_error *err)
{
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "ring_mpi: %s\n", err->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *get(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "ring_mpi: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Element e of row `row` of a head: the same on every rank, as if it had been read from a model. */
static float value(int tensor, int head, int row, int e)
{
    unsigned x = (unsigned)(((tensor * 31 + head) * 100003 + row) * 577 + e) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return (float)((x ^ x >> 13) & 0xffff) / 32768.0f - 1;
}

/* Rows first.. of a tensor, `count` of them, to row `at` of [heads, rows, D]. */
static void fill(float *to, int tensor, int heads, int rows, int at, int first, int count)
{
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < count; i++)
            for (int e = 0; e < D; e++)
                to[((size_t)h * (size_t)rows + (size_t)(at + i)) * D + (size_t)e] = value(tensor, h, first + i, e);
}

static struct attn_plan *plan_for(struct attn_context *context, int causal, int rows)
{
    struct attn_error err;
    struct attn_plan *plan = NULL;
    struct attn_problem problem = {.size = sizeof problem, .dtype = ATTN_F32, .head_dim = D, .heads = HEADS,
                                   .kv_heads = KV_HEADS, .causal = causal, .max_batch = 1, .max_q_len = rows,
                                   .max_kv_len = rows, .threads = 1};
    must(attn_plan_create(context, &problem, &plan, &err), &err);
    return plan;
}

/* One process's part of the sequence: `rows` rows of Q, K and V, of two chunks. */
struct part {
    int rows;
    float *q, *kv; /* [HEADS, rows, D]; K and V behind it, [KV_HEADS, rows, D] each */
};

/* O and LSE of the queries from `first_query` on over the first `keys` keys of a block. Rows before are left empty. */
static void attend(struct attn_plan *plan, const struct part *p, const float *kv, int first_query, int keys, float *o,
                   float *lse)
{
    struct attn_error err;
    const int queries = p->rows - first_query;
    const int64_t head = (int64_t)p->rows * D;
    float *dense = get((size_t)(HEADS * queries) * sizeof *dense);
    struct attn_run run = {.size = sizeof run, .q = p->q + first_query * D, .k = kv, .v = kv + KV_HEADS * head,
                           .o = o + first_query * D, .lse = dense, .batch = 1, .q_len = queries, .kv_len = keys,
                           .q_stride = {0, head, D}, .k_stride = {0, head, D}, .v_stride = {0, head, D},
                           .o_stride = {0, head, D}};
    must(attn_execute(plan, &run, NULL, &err), &err);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < p->rows; i++)
            lse[h * p->rows + i] = i < first_query ? -INFINITY : dense[h * queries + i - first_query];
    free(dense);
}

/* O of this rank's queries over everybody's keys. */
static void ring(struct attn_context *context, const struct part *p, float *o, int rank, int ranks)
{
    struct attn_error err;
    struct attn_plan *causal = plan_for(context, 1, p->rows), *full = plan_for(context, 0, p->rows);
    const int count = 2 * KV_HEADS * p->rows * D, elements = HEADS * p->rows * D;
    float *now = p->kv, *next = get((size_t)count * sizeof *next);
    float **parts = get((size_t)ranks * sizeof *parts), **lses = get((size_t)ranks * sizeof *lses);
    for (int step = 0; step < ranks; step++) {
        MPI_Request messages[2];
        const int from = (rank - step + ranks) % ranks, moves = step + 1 < ranks;
        if (moves) { /* the next block comes, and this one goes on, while this one is used */
            MPI_Irecv(next, count, MPI_FLOAT, (rank - 1 + ranks) % ranks, step, MPI_COMM_WORLD, &messages[0]);
            MPI_Isend(now, count, MPI_FLOAT, (rank + 1) % ranks, step, MPI_COMM_WORLD, &messages[1]);
        }
        parts[step] = get((size_t)elements * sizeof *parts[step]);
        lses[step] = get((size_t)(HEADS * p->rows) * sizeof *lses[step]);
        attend(from == rank ? causal : full, p, now, from > rank ? p->rows / 2 : 0, from < rank ? p->rows / 2 : p->rows,
               parts[step], lses[step]);
        if (moves) {
            MPI_Waitall(2, messages, MPI_STATUSES_IGNORE);
            float *was = now;
            now = next;
            next = was;
        }
    }
    struct attn_partials all = {.size = sizeof all, .count = ranks, .part_o = (const void *const *)parts,
                                .part_lse = (const float *const *)lses, .part_dtype = ATTN_F32, .dtype = ATTN_F32,
                                .o = o, .batch = 1, .q_len = p->rows, .heads = HEADS, .head_dim_v = D};
    must(attn_merge(context, &all, &err), &err);
    for (int step = 0; step < ranks; step++) {
        free(parts[step]);
        free(lses[step]);
    }
    free(parts);
    free(lses);
    free(now == p->kv ? next : now);
    attn_plan_destroy(causal);
    attn_plan_destroy(full);
}

/* The largest distance of everybody's rows, [ranks, HEADS, 2 chunk, D], from what one process computes alone. */
static double distance(struct attn_context *context, const float *everybody, int chunk, int ranks)
{
    struct attn_error err;
    const int rows = 2 * ranks * chunk;
    const size_t head = (size_t)rows * D;
    float *q = get(HEADS * head * sizeof *q), *k = get(KV_HEADS * head * sizeof *k);
    float *v = get(KV_HEADS * head * sizeof *v), *o = get(HEADS * head * sizeof *o);
    fill(q, 0, HEADS, rows, 0, 0, rows);
    fill(k, 1, KV_HEADS, rows, 0, 0, rows);
    fill(v, 2, KV_HEADS, rows, 0, 0, rows);
    struct attn_plan *plan = plan_for(context, 1, rows);
    struct attn_run run = {.size = sizeof run, .q = q, .k = k, .v = v, .o = o, .batch = 1, .q_len = rows, .kv_len = rows};
    must(attn_execute(plan, &run, NULL, &err), &err);
    attn_plan_destroy(plan);
    double most = 0;
    for (int r = 0; r < ranks; r++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < 2 * chunk; i++)
                for (int e = 0; e < D; e++) {
                    const int row = i < chunk ? r * chunk + i : (2 * ranks - 1 - r) * chunk + i - chunk;
                    const double own = o[(size_t)h * head + (size_t)row * D + (size_t)e];
                    const size_t at = (((size_t)r * HEADS + (size_t)h) * 2 * (size_t)chunk + (size_t)i) * D + (size_t)e;
                    const double apart = fabs(own - everybody[at]);
                    most = apart > most || isnan(apart) ? apart : most;
                }
    free(q);
    free(k);
    free(v);
    free(o);
    return most;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    struct attn_context *context = NULL;
    struct attn_error err;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int chunk = argc > 1 ? atoi(argv[1]) : 128;
    if (chunk < 1 || chunk > 1 << 16) {
        fprintf(stderr, "ring_mpi: %s rows of a chunk; expected 1..65536\n", argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    must(attn_context_create(NULL, &context, &err), &err);

    struct part p = {.rows = 2 * chunk};
    const int elements = HEADS * p.rows * D, first[2] = {rank * chunk, (2 * ranks - 1 - rank) * chunk};
    p.q = get((size_t)elements * sizeof *p.q);
    p.kv = get((size_t)(2 * KV_HEADS * p.rows * D) * sizeof *p.kv);
    for (int i = 0; i < 2; i++) {
        fill(p.q, 0, HEADS, p.rows, i * chunk, first[i], chunk);
        fill(p.kv, 1, KV_HEADS, p.rows, i * chunk, first[i], chunk);
        fill(p.kv + KV_HEADS * p.rows * D, 2, KV_HEADS, p.rows, i * chunk, first[i], chunk);
    }
    float *o = get((size_t)elements * sizeof *o), *all = rank ? NULL : get((size_t)ranks * (size_t)elements * sizeof *all);
    ring(context, &p, o, rank, ranks);
    MPI_Gather(o, elements, MPI_FLOAT, all, elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
    int failed = 0;
    if (rank == 0) {
        /* Values are within -1..1, and each of the two is within some units in the last place of the exact result. */
        const double apart = distance(context, all, chunk, ranks);
        failed = !(apart <= 4e-6);
        printf("%d ranks, %d rows: at most %.1e apart from one process: %s\n", ranks, ranks * p.rows, apart,
               failed ? "wrong" : "right");
    }
    free(p.q);
    free(p.kv);
    free(o);
    free(all);
    attn_context_destroy(context);
    MPI_Finalize();
    return failed;
}
