
/* ---- for this processor ---- */

% include "c/args.h"
% include "c/features.h"

/* A kernel. It allocates nothing and keeps no state: any number of threads may run it at once. */
struct ${NAME}_kernel {
    const char *name;    /* of its problem, as ${NAME}_${problem(0)}; it stays when tuning finds another kernel */
    const char *variant; /* which kernel it is: attngen emit --variant writes it alone */
    int (*run)(const struct attn_args *args);           /* 0, or 1 if it refuses args */
    int64_t (*workspace)(const struct attn_args *args); /* the bytes that one part needs */
    int features;        /* 1: args->features must point to struct attn_features */
};

% if prepared() >= 0
/* Finds the best kernel for the problem on this processor. Returns 0; 1 if only plain C fits, which is many times slower than
 * vectors; -1 if no kernel fits, and then *kernel is not written.
 * Kernels of isa amx work in tiles. The first call of any function here asks Linux for these, for all threads of the
 * process; where Linux refuses, other kernels are chosen. */
% else
/* Finds the best kernel for the problem on this processor. Returns 0; 1 if only plain C fits, which is many times slower than
 * vectors; -1 if no kernel fits, and then *kernel is not written. */
% end
int ${NAME}_find(const struct ${NAME}_problem *problem, struct ${NAME}_kernel *kernel);

/* NULL where ${NAME}_find returns 0; else the reason why it does not, in words, which is a constant. */
const char *${NAME}_supports(const struct ${NAME}_problem *problem);

/* Fills in arguments for tensors that lie [batch, head, row, element] without gaps: their strides and lengths, a scale of
 * 1 / sqrt(head_dim), the last query at the last key, all work in one part. Pointers are NULL. Change what is different, and
 * call kernel.run. */
void ${NAME}_args(const struct ${NAME}_problem *problem, struct attn_args *args);

/* The bytes of workspace that ${NAME}_run needs for the problem, a multiple of 64; -1 if no kernel fits. */
int64_t ${NAME}_workspace(const struct ${NAME}_problem *problem);

/* Finds a kernel and runs it on such tensors, in this thread. workspace has ${NAME}_workspace(problem) bytes and is aligned
 * to 64. features: NULL for problems without features. Returns what ${NAME}_find does, and -1 if the kernel refuses. */
int ${NAME}_run(const struct ${NAME}_problem *problem, const void *q, const void *k, const void *v, void *o,
    void *workspace, const struct attn_features *features);

/* A function for each problem, under a name that stays when tuning finds other kernels. Each call chooses the kernel by the
 * processor and by how many queries there are. They return 1, and -1 bytes, if no kernel fits the processor. */
% for i in 0..KERNELS
% if i == 0 or problem_index(i) != problem_index(i - 1)
int ${NAME}_${problem(i)}(const struct attn_args *args);
int64_t ${NAME}_${problem(i)}_workspace(const struct attn_args *args);
% end
% end
