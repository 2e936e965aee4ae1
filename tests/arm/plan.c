/* plan.c - somebody's program for another machine, which links libattn as it was built for that machine: one plan, executed and
 * compared with the definition in double precision. `plan ISA`: by the compiler that $CC names, a kernel of that isa; the library
 * has no libtcc, and says so. `plan ISA tcc`: by libtcc, which the library has; there is a faster isa, so the log says why it is
 * not taken. Prints TAP. What it is not: a test of every kernel. */
#include <attn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, Q_LEN = 37, KV_LEN = 53, D = 40 };
static float q[HEADS * Q_LEN * D], k[KV_HEADS * KV_LEN * D], v[KV_HEADS * KV_LEN * D], o[HEADS * Q_LEN * D];
static float lse[HEADS * Q_LEN];

static const struct attn_problem problem = {.size = sizeof problem, .head_dim = D, .heads = HEADS, .kv_heads = KV_HEADS,
                                            .causal = 1, .max_batch = 1, .max_q_len = Q_LEN, .max_kv_len = KV_LEN,
                                            .threads = 2, .compiler = ATTN_CC};

static void fill(float *x, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
}

/* Of one row, O and LSE together. */
static double difference(int h, int i)
{
    const int kv = h / (HEADS / KV_HEADS), seen = i + KV_LEN - Q_LEN + 1;
    double score[KV_LEN], out[D] = {0}, sum = 0, worst = 0;
    for (int j = 0; j < seen; j++) {
        score[j] = 0;
        for (int d = 0; d < D; d++)
            score[j] += (double)q[(h * Q_LEN + i) * D + d] * k[(kv * KV_LEN + j) * D + d];
        const double p = exp(score[j] / sqrt(D));
        sum += p;
        for (int d = 0; d < D; d++)
            out[d] += p * v[(kv * KV_LEN + j) * D + d];
    }
    for (int d = 0; d < D; d++)
        worst = fmax(worst, fabs(out[d] / sum - o[(h * Q_LEN + i) * D + d]));
    return fmax(worst, fabs(log(sum) - lse[h * Q_LEN + i]));
}

/* Creates a plan and checks its output. Returns NULL if all is right, else what is wrong. */
static const char *plans(struct attn_context *context, attn_compiler compiler, const char *isa)
{
    static char said[900];
    struct attn_problem p = problem;
    struct attn_plan *plan = NULL;
    struct attn_error err = {""};
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_run run = {.size = sizeof run, .q = q, .k = k, .v = v, .o = o, .lse = lse, .batch = 1, .q_len = Q_LEN,
                           .kv_len = KV_LEN};
    double worst = 0;
    p.compiler = compiler;
    if (attn_plan_create(context, &p, &plan, &err) || attn_plan_describe(plan, &info, &err) ||
        attn_execute(plan, &run, NULL, &err)) {
        snprintf(said, sizeof said, "%s", err.text);
        return said;
    }
    for (int row = 0; row < HEADS * Q_LEN; row++)
        worst = fmax(worst, difference(row / Q_LEN, row % Q_LEN));
    printf("# %s by %s, in %g ms: an error of %g\n", info.variant, info.compiler, info.compile_ms, worst);
    const char *why = worst < 3e-6 ? NULL : "it computes wrong";
    if (!strstr(info.variant, isa))
        why = "the kernel is of another isa";
    if (strcmp(info.compiler, compiler == ATTN_TCC ? "tcc" : "cc") != 0)
        why = "it is of another compiler";
    attn_plan_destroy(plan);
    return why;
}

static const char *refuses_libtcc(struct attn_context *context)
{
    struct attn_problem p = problem;
    struct attn_plan *plan = NULL;
    struct attn_error err = {""};
    p.compiler = ATTN_TCC;
    const attn_status status = attn_plan_create(context, &p, &plan, &err);
    printf("# %s\n", err.text);
    return status == ATTN_UNSUPPORTED && !plan && strstr(err.text, "libtcc is not in this build") &&
                   strstr(err.text, "; expected ") && strstr(err.text, "ATTN_CC")
               ? NULL
               : "ATTN_TCC is not refused in words";
}

/* The log's warnings, one behind another. */
static char warned[2000];
static void keep(void *user, attn_log_level level, const char *text)
{
    size_t size = strlen(warned);
    (void)user;
    if (level == ATTN_LOG_WARNING)
        snprintf(warned + size, sizeof warned - size, "%s\n", text);
}

static const char *says_why_not_faster(void)
{
    printf("# %s", warned);
    return strstr(warned, "plain C, many times slower than vectors, is the only choice: isa neon has only intrinsics, which libtcc "
                          "cannot compile; expected another compiler (ATTN_CC")
               ? NULL
               : "the log does not say why isa c is taken";
}

static int tell(int number, const char *what, const char *why)
{
    printf("%s %d - %s%s%s\n", why ? "not ok" : "ok", number, what, why ? ": " : "", why ? why : "");
    fflush(stdout);
    return why != NULL;
}

int main(int argc, char **argv)
{
    const struct attn_options options = {.size = sizeof options, .log = keep};
    struct attn_context *context;
    struct attn_error err;
    const bool tcc = argc == 3 && !strcmp(argv[2], "tcc");
    int wrong = 0;
    if (argc != 2 + tcc || attn_context_create(&options, &context, &err)) {
        printf("Bail out! %s\n", argc == 2 + tcc ? err.text : "usage: plan ISA, which its kernel must be of, [tcc]");
        return 1;
    }
    fill(q, HEADS * Q_LEN * D, 1), fill(k, KV_HEADS * KV_LEN * D, 2), fill(v, KV_HEADS * KV_LEN * D, 3);
    wrong += tell(1, tcc ? "a plan that libtcc compiles" : "a plan that the cross-compiler compiles",
                  plans(context, tcc ? ATTN_TCC : ATTN_CC, argv[1]));
    if (tcc)
        wrong += tell(2, "what the log says of that", says_why_not_faster());
    else
        wrong += tell(2, "libtcc, which is not in this library", refuses_libtcc(context));
    attn_context_destroy(context);
    printf("1..2\n");
    return wrong != 0;
}
