/* dialects.h - micro-kernels from text to instructions, for tests that look at those: the real ISA tables, and texts of
 * a test's own or the embedded ones. What it is not: a caller of what they become (lowered.h). */
#ifndef ATTNGEN_TESTS_DIALECTS_H
#define ATTNGEN_TESTS_DIALECTS_H

#include "../../gen/micro.h"
#include "../../gen/fields.h"

enum { DIALECTS = 8 };
struct dialects {
    struct arena arena;
    struct names names;
    struct isa_table table[DIALECTS];
    struct micro_file micros; /* of dialects_micros */
};
extern const char *const dialects_files[DIALECTS]; /* bases first */
enum { DIALECTS_MICROS = 16 };
extern const char *const dialects_micro_files[DIALECTS_MICROS];

/* The embedded tables, but table number `damaged` (-1: none) from text[0, size). 0, or -1 and err. */
int dialects_open(struct dialects *out, int damaged, const char *text, size_t size, struct gen_error *err);
void dialects_close(struct dialects *l);
const struct isa_table *dialects_table(const struct dialects *l, const char *isa); /* NULL when there is none */

/* Writes out micro-kernel `micro` of a text, which is called t.micro in messages. Frees nothing on failure that the
 * caller must; on success the caller frees with unrolled_free. The text may go. */
int dialects_unroll(struct dialects *l, const char *isa, const char *text, const char *micro, struct env *env,
                    struct unrolled *out, struct gen_error *err);

/* Reads the micro-kernels of attention. If file is not NULL, the text is read in place of that one of dialects_micro_files,
 * as a damaged copy of it. 0, or -1 and err. */
int dialects_micros(struct dialects *l, const char *file, const char *text, size_t size, struct gen_error *err);
/* Writes out those that a variant consists of, by the names that its template gives them; at most max. The caller frees
 * *n of them also on failure. 0, or -1 and err. */
int dialects_variant(struct dialects *l, const struct variant *v, int max, struct unrolled *out, int *n,
                     struct gen_error *err);

#endif
