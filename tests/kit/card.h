/* card.h - an NVIDIA card for tests of single parts of its kernels: text of templates, rendered with a variant's fields and
 * built; buffers; a launch of one group. What it is not: attention's launch (runtime/opencl/run.c). */
#ifndef ATTNGEN_TESTS_CARD_H
#define ATTNGEN_TESTS_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "../../gen/gen.h"
#include "runtime/opencl/internal.h"

enum { CARD_PROGRAMS = 16 };

struct card {
    struct opencl *cl;
    struct opencl_target *target; /* NULL: there is no card of that capability, and why names what there is */
    cl_command_queue queue;
    char why[200], dir[200];
    cl_program built[CARD_PROGRAMS]; /* by card_build; card_close releases them */
    int builds;
    void (*begin)(const struct variant *v); /* where the card is emulated: before a program is built */
};

/* The first device, if its compute capability is between the two. Whatever else fails fails the test. */
void card_open(struct card *c, int least, int most);
/* The same, and if there is none, one that is emulated, where this processor can (emulated_card.c). */
void card_open_or_emulate(struct card *c, int least, int most);
void card_close(struct card *c);
int card_teardown(void **state);      /* a group's teardown, where *state points to a struct whose first member is a struct card */
void card_need(const struct card *c); /* skips the test where there is none. Not for a setup: one that skips is an error */

void card_need_real(const struct card *c); /* skips it also where the card is emulated */

/* Kernels of a template, for a level. The program is the card's, and lives until card_close. Where there is no card, clang compiles
 * their text for one, if it is installed, and without an emulated one the result is NULL. Text that does not compile fails the
 * test. */
cl_program card_build(struct card *c, const char *text, size_t size, const struct variant *v, enum gpu_level level);
/* The same for a variant by its name, which is also put into v. */
cl_program card_build_named(struct card *c, const char *text, size_t size, const char *name, enum gpu_level level,
                            struct variant *v);

/* A copy of data on the card, and back; card_read releases the buffer. */
cl_mem card_buffer(const struct card *c, const void *data, size_t size);
void card_read(const struct card *c, cl_mem m, void *out, size_t size);

struct card_argument {
    size_t size;
    const void *value;
};
/* So many groups of so many items, and waits; or one group. */
void card_run_groups(const struct card *c, cl_program program, const char *kernel, size_t groups, size_t items,
                     const struct card_argument *args, int count);
void card_run(const struct card *c, cl_program program, const char *kernel, size_t items, const struct card_argument *args,
              int count);

#endif
