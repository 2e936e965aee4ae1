/* stubbed.h - what tests of CUDA's host side share: a stub of its libraries (cuda/stub.h), whose launches compute attention by the
 * parameters that they get, plans for it, and arrays on the host and on the stub's card. What goes wrong on the way fails the test.
 * What it is not: a card. */
#ifndef ATTNGEN_TESTS_STUBBED_H
#define ATTNGEN_TESTS_STUBBED_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/stub.h"
#include "runtime/api/plan.h"
#include "runtime/cuda/internal.h"
#include "runtime/gpu/quantise.h"

enum { B = 2, H = 4, KV = 2, Q = 66, K = 70, D = 64 };
enum { QN = B * H * Q * D, KN = B * KV * K * D, LN = B * H * Q };
#define PLAIN "attn_bf16_d64_causal_on_sm90_q128k64"
#define SPLIT "attn_bf16_d64_causal_on_sm90_q64k64_s64"
#define JOINT "attn_bf16_d64_causal_on_sm90_q128k64_loopjoint"
#define SM80 "attn_bf16_d64_causal_on_sm80_q64k32_r16"
#define SM80_SPLIT "attn_bf16_d64_causal_on_sm80_q64k64_r16_s64"

struct stubbed_arrays {
    uint16_t q[QN], k[KN], v[KN], o[QN];
    float lse[LN];
};

extern struct stub *stub; /* that the process has loaded */

/* The last launch. */
extern struct stubbed_seen {
    int launches; /* up to now */
    unsigned grid, block, shared;
    void *stream;
    uint64_t room, done, parts;
    bool zeros; /* the room's counters, when the launch began */
    const void *keys, *values;
    int64_t key_strides[3], value_strides[3];
} seen;
extern struct stubbed {
    struct attn_cuda_maps maps;           /* of the last launch */
    struct attn_cl_quantise quantised[8]; /* what launches of that kernel took */
    bool computes;                        /* launches of attention do; true, unless a test says otherwise */
} stubbed;

void stubbed_begin(void); /* skips where the driver is a real one */
void stubbed_end(void);   /* nothing is held any more, and no call was wrong */

struct attn_context *stubbed_context(const char *cache);
struct attn_problem stubbed_problem(const char *variant, const char *device);
struct attn_plan *stubbed_plan(struct attn_context *context, const char *variant, const char *device);

struct stubbed_arrays *stubbed_arrays(void); /* random ones; to free */
struct attn_run stubbed_host_run(struct stubbed_arrays *x);
struct attn_run stubbed_card_run(const struct stubbed_arrays *x); /* on copies, which stubbed_free_run frees */
void stubbed_free_run(const struct attn_run *run);
void stubbed_compare(const struct stubbed_arrays *a, const struct stubbed_arrays *b); /* O and LSE */

#endif
