/* told.h - what became of a ladder's rungs, as a table, as CSV and drawn. What it is not: the climbing (bench_ladder.c on a device,
 * bench_ladder_cpu.c on a processor). */
#ifndef ATTNGEN_TESTS_BENCH_TOLD_H
#define ATTNGEN_TESTS_BENCH_TOLD_H

#include "../kit/ladder.h"

enum { LADDER_MASKS = 2 }; /* without a causal mask, and with one */

/* What became of a rung, with one of the masks. */
struct climbed {
    enum rung_state state;
    char why[640];
    bool wrong, unreached, noisy; /* unreached: time was over before it was begun */
    double flops, error, bound;   /* a second; 0: not timed */
    int registers;                /* of what a device's compiler says; 0: it says nothing */
    int64_t spill_bytes;
    bool serialised;
};

struct ladder_told {
    const struct rung *rung;
    int rungs;
    const struct climbed (*result)[LADDER_MASKS];
    const char *machine;
    const char *unit, *column; /* in the table, and in the CSV */
    double per;                /* flops a second in that unit */
    double ceiling;            /* flops a second that rungs are compared with; 0: none */
    const char *ceiling_name, *ceiling_is; /* short, and in full */
};

/* Options that both ladders have: --rungs FILE, --csv FILE, --svg FILE and --limit SECONDS. */
struct ladder_options {
    const char *rungs, *csv, *svg;
    double limit;
};
bool ladder_option(struct ladder_options *o, const char *name, const char *value); /* whether it is one of them */

void ladder_print(const struct ladder_told *t, const char *problem); /* to stdout */
int ladder_csv(const struct ladder_told *t, const char *path);       /* 0, or -1 when it cannot be written */
int ladder_draw(const struct ladder_told *t, const char *title, const char *note, const char *path);

#endif
