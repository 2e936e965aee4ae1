
/* ---- the choice ---- */

#ifdef __cplusplus
extern "C" {
#endif
% for i in 0..KERNELS
int ${symbol(i)}(const struct attn_args *args);
int64_t ${symbol(i)}_workspace(const struct attn_args *args);
% end
#ifdef __cplusplus
}
#endif

struct ${NAME}_row {
    struct ${NAME}_kernel kernel;
    short has[${UPPER}_FIELDS];
    int needs, rank; /* features that it needs, and how fast its isa is */
    int few;         /* 1: it is for few queries */
};
static const struct ${NAME}_row ${NAME}_rows[] = {
% for i in 0..KERNELS
    {{"${NAME}_${problem(i)}",
      "${variant(i)}",
      ${symbol(i)},
      ${symbol(i)}_workspace, ${has_features(i)}},
     {${values(i)}},
     ${UPPER}_NEEDS_${isa(i)}, ${UPPER}_RANK_${isa(i)}, ${few(i)}},
% end
};
enum { ${UPPER}_ROWS = sizeof ${NAME}_rows / sizeof *${NAME}_rows };

/* The best kernel that works with these features of a processor: vectors come before plain C, then a kernel for so many queries
 * before others, then faster instructions before slower ones. queries: how many share a KV head, fewer than ${FEW} being few; 0: it is
 * not known. */
static const struct ${NAME}_row *${NAME}_best(const int *asked, int64_t queries, int usable)
{
    const struct ${NAME}_row *best = NULL;
    int most = -1, i;
    for (i = 0; i < ${UPPER}_ROWS; i++) {
        const struct ${NAME}_row *row = &${NAME}_rows[i];
        int few = queries > 0 && queries < ${FEW}, rank = row->rank, value;
        if (${NAME}_fits(row->has, asked) < 3 || (row->needs & ~usable))
            continue;
% for f in 0..FEATURES
% if feature_used(f) and feature(f) == "avx512bf16"
        if ((row->needs & ${UPPER}_HAS_avx512bf16) && (usable & ${UPPER}_SLOW_PAIRS))
            rank -= 3; /* then no better than avx512, which lacks three of its features */
% end
% end
        value = (rank > 0 ? 128 : 0) + (few == row->few ? 64 : 0) + rank;
        if (value > most) {
            most = value;
            best = row;
        }
    }
    return best;
}

/* Queries that share a KV head. */
static int64_t ${NAME}_queries(int64_t q_len, int64_t heads, int64_t kv_heads)
{
    return kv_heads > 0 ? q_len * (heads / kv_heads) : 0;
}

/* The best kernel for a problem on this processor, or NULL. */
static const struct ${NAME}_row *${NAME}_row_of(const struct ${NAME}_problem *p)
{
    int asked[${UPPER}_FIELDS];
    ${NAME}_read(p, asked);
    return ${NAME}_best(asked, ${NAME}_queries(p->q_len, p->heads, p->kv_heads), ${NAME}_processor());
}

int ${NAME}_find(const struct ${NAME}_problem *problem, struct ${NAME}_kernel *kernel)
{
    const struct ${NAME}_row *row = ${NAME}_row_of(problem);
    if (!row)
        return -1;
    *kernel = row->kernel;
    return row->rank == 0;
}

const char *${NAME}_supports(const struct ${NAME}_problem *problem)
{
    const struct ${NAME}_row *row = ${NAME}_row_of(problem);
    const char *why = NULL;
    int asked[${UPPER}_FIELDS], fits = 0, present, usable, i;
    if (row && row->rank > 0)
        return NULL;
    usable = ${NAME}_ask(&present);
    ${NAME}_read(problem, asked);
    for (i = 0; i < ${UPPER}_ROWS; i++) {
        int n = ${NAME}_fits(${NAME}_rows[i].has, asked);
        fits = n > fits ? n : fits;
        if (n == 3 && !why)
            why = ${NAME}_lacks(${NAME}_rows[i].needs, usable, present);
    }
    if (fits < 3)
        return ${NAME}_why(fits);
    return why ? why : "every kernel for it is plain C here; expected one of an isa that this compiler knows";
}

/* ---- calls ---- */

void ${NAME}_args(const struct ${NAME}_problem *problem, struct attn_args *args)
{
    const int width = problem->head_dim > 0 ? problem->head_dim : 1;
    const int width_v = problem->head_dim_v ? problem->head_dim_v : width;
    memset(args, 0, sizeof *args);
    args->size = (int64_t)sizeof *args;
% include "bundle/args.t"
    args->parts = 1;
}

int64_t ${NAME}_workspace(const struct ${NAME}_problem *problem)
{
    const struct ${NAME}_row *row = ${NAME}_row_of(problem);
    struct attn_args args;
    ${NAME}_args(problem, &args);
    return row ? (row->kernel.workspace(&args) + 63) / 64 * 64 : -1;
}

int ${NAME}_run(const struct ${NAME}_problem *problem, const void *q, const void *k, const void *v, void *o,
    void *workspace, const struct attn_features *features)
{
    const struct ${NAME}_row *row = ${NAME}_row_of(problem);
    struct attn_args args;
    ${NAME}_args(problem, &args);
    args.q = q, args.k = k, args.v = v, args.o = o, args.workspace = workspace, args.features = features;
    return row && row->kernel.run(&args) == 0 ? row->rank == 0 : -1;
}

/* The best kernel for the problem of row `index`. */
static const struct ${NAME}_row *${NAME}_like(int index, const struct attn_args *args)
{
    int asked[${UPPER}_FIELDS], i;
    for (i = 0; i < ${UPPER}_FIELDS; i++)
        asked[i] = ${NAME}_rows[index].has[i];
    return ${NAME}_best(asked, ${NAME}_queries(args->q_len, args->heads, args->kv_heads),
        ${NAME}_processor());
}

static int ${NAME}_call(int index, const struct attn_args *args)
{
    const struct ${NAME}_row *row = ${NAME}_like(index, args);
    return row ? row->kernel.run(args) : 1;
}

static int64_t ${NAME}_bytes(int index, const struct attn_args *args)
{
    const struct ${NAME}_row *row = ${NAME}_like(index, args);
    return row ? row->kernel.workspace(args) : -1;
}

% for i in 0..KERNELS
% if i == 0 or problem_index(i) != problem_index(i - 1)
int ${NAME}_${problem(i)}(const struct attn_args *args)
{
    return ${NAME}_call(${i}, args);
}

int64_t ${NAME}_${problem(i)}_workspace(const struct attn_args *args)
{
    return ${NAME}_bytes(${i}, args);
}
% end
% end
