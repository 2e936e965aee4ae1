/* tables.h - the real ISA tables, each with rows added that move any vector between memory and registers, so that a
 * test can set up every op and see its result. What it is not: knowledge of any op. */
#ifndef ATTNGEN_TESTS_TABLES_H
#define ATTNGEN_TESTS_TABLES_H

#include "../../gen/micro.h"
#include "runtime/cpu/processor.h"

enum { TABLES_MAX = 12 };

/* To every type of vectors T but masks: `x = from m` loads one from T's own memory, `m = to x` stores it. */
struct tables {
    struct arena arena;
    struct names names;
    struct isa_table real[TABLES_MAX], test[TABLES_MAX]; /* test[i] extends real[i] */
    const char *why_not[TABLES_MAX];                     /* that processor has no such instructions; NULL: it has */
    int count;
};
/* All embedded tables that have ops. 0, or -1 and err. */
int tables_open(struct tables *out, const struct cpu *cpu, struct gen_error *err);
void tables_close(struct tables *t);

/* Whether what stands at that place of table i is a row of a base, which is tested by itself and lowered alike. */
bool tables_inherited(const struct tables *t, int i, struct place place);

/* Parses the text of one micro-kernel and writes it out for table i. The text may go. */
int tables_unroll(struct tables *t, int i, const char *text, const char *name, struct env *env, struct unrolled *out,
                  struct gen_error *err);

#endif
