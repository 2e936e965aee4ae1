/* single.h - one kernel compiled as a user would, from its emitted file by a compiler's plain call, and one head for it to run on.
 * What it is not: a plan; nothing of libattn is between the caller and the kernel. */
#ifndef ATTNGEN_TESTS_BENCH_SINGLE_H
#define ATTNGEN_TESTS_BENCH_SINGLE_H

#include "gen.h"
#include "templates/c/features.h"
#include "templates/c/args.h"

struct single {
    struct variant v;
    void *object; /* of dlopen */
    int (*run)(const struct attn_args *args);
    int64_t (*workspace)(const struct attn_args *args);
    struct attn_args a;
    void *memory[6]; /* q, k, v, o, lse, workspace */
};

/* Compiles a file into a shared object and loads it; files that are needed meanwhile lie in dir. extra ends with NULL, or
 * is NULL. Returns NULL and what is wrong, in the compiler's first words. */
void *single_load(const char *path, const char *compiler, const char *const *extra, const char *dir, struct gen_error *err);

/* Emits a variant and loads it, by -std=c11 -O2. 0, or -1 and what is wrong. single_close in any case. */
int single_compile(const struct gen *gen, const struct variant *v, const char *compiler, const char *const *extra, const char *dir,
                   struct single *out, struct gen_error *err);
/* Allocates one head of so many queries and keys, random and contiguous. workspace: its size in bytes, for a function that
 * does not say it. */
int single_memory(struct single *s, int length, int64_t workspace, struct gen_error *err);
void single_close(struct single *s);
double single_flops(const struct single *s);

#endif
