/* emulated.h - a card that is not here: kernels of isas sm80 and sm90 on this processor. clang compiles an emitted text for
 * it, with each function whose body is PTX left out; emulated_ptx.c and emulated_sm90.c have those functions. The work-items of
 * a group are fibers, which take turns where they wait for each other; two groups run at once. Whose turn is next is drawn, also
 * among the lanes of a warp, which meet at instructions that are documented to be aligned. What a card does by itself is done
 * late: copies some turns after they were asked for, products of the tensor cores as late as when they are waited for, or at
 * once; so that who does not wait for them mostly fails. Sums of these products are cut off, as on a card (emulated_sum), and
 * exponentials and reciprocals are off by as much as theirs may be. A load or store at an address that is not a multiple of its
 * size ends the process, as it ends a launch on a card.
 * Behind it stands a driver of OpenCL as far as libattn calls one, so that its own launches bring the arguments.
 * What it is not: a clock, or proof of what only hardware knows (registers, races of warps, the proxies of memory). */
#ifndef ATTNGEN_TESTS_EMULATED_H
#define ATTNGEN_TESTS_EMULATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../gen/gen.h"
#include "backend/backend.h"

/* Whether this processor and clang are here; else why not. */
const char *emulated_why_not(void);

/* Whether the first device of OpenCL here is a Hopper itself: 1 or 0. For run_child, since looking starts the driver. */
int emulated_is_here(void *unused);

/* Makes a kernel of that variant, for kernel_free, which runs on host arrays as a device's kernels do. A launch that does
 * not end, or whose work-items wait for each other forever, ends the process with a line that says so. dir: for files; it
 * stays the caller's. Returns 0, or -1 and what is wrong. */
int emulated_build(const struct gen *gen, const struct variant *v, const char *dir, struct kernel *out,
                   struct gen_error *err);

/* For what else is built by libattn's own functions: the card, whose files are in that directory; and what is called before a
 * program of that variant is built. */
struct opencl_target;
struct opencl_target *emulated_card(const char *dir);
void emulated_begin(const struct variant *v);

/* ---- between emulated.c, emulated_fibers.c, emulated_text.c, emulated_ptx.c and emulated_sm90.c ---- */

/* A kernel's text as clang compiles it here: functions with PTX are only declared, shared memory is the emulation's, and a function
 * emulated_entry(void **argument) is appended that calls the kernel with arguments given by pointers. The caller frees it. */
char *emulated_text(const char *original);

/* One launch at a time, of so many groups of so many items, at most EMULATED_ITEMS. What is drawn depends on all texts so far. */
enum { EMULATED_ITEMS = 512 };
typedef void emulated_entry(void **arguments);
bool emulated_open(void); /* memory for the items; false: there is none */
void emulated_reseed(const char *text);
void emulated_launch(emulated_entry *entry, void **arguments, int items, int groups);

enum { EMULATED_LANES = 32, EMULATED_SLOT = 8, EMULATED_SHARED = 1024 };
struct emulated_warp {
    uint32_t slot[EMULATED_LANES][EMULATED_SLOT]; /* what lanes show each other */
    int count, turn;
};
/* Of the fiber that runs: its number among those of all groups that run, 512 for each. */
struct emulated_item {
    int number, lane;
    struct emulated_warp *warp;
};
struct emulated_item *emulated_item(void);
void emulated_yield(void);    /* others go on first */
void emulated_progress(void); /* something happened that others may wait for */
void emulated_meet(int *count, int *turn, int all); /* waits until so many have come here */
void emulated_meet_warp(void);
char *emulated_at(uint32_t address, size_t size); /* in the group's shared memory; outside it ends the process */
int emulated_as(int number);                      /* what is done next is this fiber's; whose it was */
int emulated_group(bool count);                   /* number of the group that runs, or how many there are */
struct emulated_named {
    int count, turn, any, was;
};
struct emulated_named *emulated_named(uint32_t number);
/* Of the variant whose kernel runs. */
struct emulated_facts {
    enum dtype type, type_o, type_kv, type_scores; /* type_scores: of what scores are products of */
    int tile_k, columns; /* of O, that a product has */
    int products, bits;  /* see emulated_sum */
};
const struct emulated_facts *emulated_facts(void);
enum dtype emulated_type_of_p(void); /* that of V, or f16 where V is narrow or f32 */
/* sum += x[0] y[0] + ... as tensor cores do it, which round nothing, but cut off: products are exact; so many of them at a time
 * are added to the sum, each and the sum cut off where the largest has so many bits more than a float's; and the new sum is cut off
 * to a float. That is the model of Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores" (arXiv 2512.07004): 16 products
 * and two more bits on a Hopper, 8 and one more on an A100, which kernels of isa sm80 may meet; and half as many of tf32. */
float emulated_sum(float sum, const float *x, const float *y, int count);
uint32_t emulated_two(enum dtype t, float low, float high); /* both rounded, in one word */
void emulated_copy(uint32_t to, const void *from, int bytes, int size); /* to shared memory; zeros after `bytes` */
uint32_t emulated_random(uint32_t below); /* 0: any number */
void emulated_engine_begin(void);       /* of a group: nothing is under way */
bool emulated_engine_turn(bool all);    /* does some of the copies that are under way, or all; whether there were any */
extern const void *const emulated_ptx[]; /* which keeps the linker from leaving them out */

#endif
