/* lowered.h - micro-kernels as functions that a test can call: each way of lowering them, compiled and loaded.
 * What it is not: a judge of what they compute. */
#ifndef ATTNGEN_TESTS_LOWERED_H
#define ATTNGEN_TESTS_LOWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../gen/micro.h"

enum { LOWERED_ARGS = PARAMETERS_MAX };

/* Where a table without a target is lowered to pieces of what width: WIDE ones have no others, and give the same bits as
 * narrow ones do, unless there is fma. */
enum piece_width { ANY_WIDTH, WIDE, WIDE_FMA };

struct lowering {
    const char *name, *compiler; /* compiler NULL: machine code, which needs none */
    const char *flags[5], *quick; /* the latter instead of -O2, unless ATTNGEN_SOAK is set */
    bool plain; /* plain C: runs on any machine, and may round otherwise than the rest */
    bool slow;  /* to compile */
    enum piece_width width;
};
extern const struct lowering lowerings[];
enum { LOWERINGS = 10 };

struct lowered {
    void *handle; /* of a shared object */
    void *code;   /* or pages of machine code */
    size_t code_size;
    void **entry;
};
/* Encodes machine code, or loads the shared object STEM.so. 0, or -1 and what is wrong. */
int lowered_open(struct lowered *out, const struct lowering *l, const struct unrolled *u, int n, const char *stem,
                 struct gen_error *err);
void lowered_close(struct lowered *f);
/* Calls micro-kernel i with pointers and integers, as many as it takes. */
void lowered_call(const struct lowered *f, int i, const int64_t args[LOWERED_ARGS]);

/* Micro-kernels of one table, by all lowerings that this machine has. */
struct batch {
    const char *name; /* part of file names */
    const struct unrolled *u;
    int count, slow_count; /* slow lowerings: only the first so many, unless ATTNGEN_SOAK is set; 0: all */
    const char *why_not;   /* the processor cannot run the table; they are compiled all the same */
    struct lowered form[LOWERINGS];
    bool open[LOWERINGS];
};
/* Copies a kernel's micro-kernels of these names, at most `most` or up to NULL, into u, and makes them the batch's. 0, or -1 after
 * printing which of them there is none of. */
int batch_choose(struct batch *b, const struct emission *e, const char *kernel, const char *const *names, int most,
                 struct unrolled *u);
/* Calls the micro-kernel of that name, which must be there. */
void batch_call(const struct batch *b, int form, const char *name, const int64_t args[LOWERED_ARGS]);
/* Compiles them in a new directory below TMPDIR, and returns how many lowerings failed. Prints what a compiler complains
 * about, and which compilers are missing. -1 if there is no directory. */
int batches_compile(struct batch *b, int count, char dir[200]);
void batches_remove(const char *dir);
/* The same, and closes what the batches were made from: so many kernels, and their generator. */
void batches_end(const char *dir, struct emission *const *e, int kernels, struct gen *gen);
int batch_count(const struct batch *b, int form);
/* Loads what is compiled. 0, or -1 and what is wrong; batch_close either way. */
int batch_open(struct batch *b, const char *dir, struct gen_error *err);
void batch_close(struct batch *b);

#endif
