
/* ---- for this processor ---- */

% include "c/args.h"
% include "c/features.h"

/* A kernel, and what it takes. It allocates nothing and keeps no state: it may run in any number of threads. */
struct ${NAME}_kernel {
    const char *name;    /* stable, as ${NAME}_${problem(0)} */
    const char *variant; /* what it is now: attngen emit --variant writes it alone */
    int (*run)(const struct attn_args *args);           /* 0, or 1 when it refuses args */
    int64_t (*workspace)(const struct attn_args *args); /* bytes for one part */
    int features;        /* 1: args->features must point to struct attn_features */
};

/* The best kernel for the problem on this processor. 0; 1 when only plain C fits, many times slower than vectors; -1
 * when none does, and kernel is left alone.
% if prepared() >= 0
 * Kernels of isa amx work in tiles. The first call of any function here asks Linux for these, on behalf of all threads of the
 * process; where Linux refuses, other kernels are chosen.
% end
 */
int ${NAME}_find(const struct ${NAME}_problem *problem, struct ${NAME}_kernel *kernel);

/* NULL where ${NAME}_find returns 0; else why it does not, in words. */
const char *${NAME}_supports(const struct ${NAME}_problem *problem);

/* Arguments for tensors that lie [batch, head, row, element] without gaps: strides, lengths, scale 1 / sqrt(head_dim),
 * the last query at the last key, all in one part. Pointers are NULL. Change what is otherwise, and call kernel.run. */
void ${NAME}_args(const struct ${NAME}_problem *problem, struct attn_args *args);

/* Finds a kernel and runs it on such tensors, in this thread. workspace has ${NAME}_workspace(problem) bytes, a multiple of
 * 64, and is aligned to 64; that is -1 where there is no kernel. features: NULL for problems without. Returns as
 * ${NAME}_find does, and -1 when the kernel refuses. */
int64_t ${NAME}_workspace(const struct ${NAME}_problem *problem);
int ${NAME}_run(const struct ${NAME}_problem *problem, const void *q, const void *k, const void *v, void *o,
    void *workspace, const struct attn_features *features);

/* The kernels by problem, under names that stay when tuning finds others. Each call chooses by the processor and by how
 * many queries there are; 1, or -1 bytes, where no kernel fits the processor. */
% for i in 0..KERNELS
% if i == 0 or problem_index(i) != problem_index(i - 1)
int ${NAME}_${problem(i)}(const struct attn_args *args);
int64_t ${NAME}_${problem(i)}_workspace(const struct attn_args *args);
% end
% end
