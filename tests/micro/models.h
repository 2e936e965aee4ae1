/* models.h - what each micro-kernel of forward attention does, as its comment says, element by element in double
 * precision. What it is not: fast, or shared with the templates. */
#ifndef ATTNGEN_TESTS_MODELS_H
#define ATTNGEN_TESTS_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../gen/fields.h"
#include "../../gen/micro.h"

/* The numbers that attn.sizes.t computes, by the names that it gives them. */
#define MODEL_SIZES(X)                                                                                                 \
    X(W)                                                                                                               \
    X(SCALED) X(K_SCALES) X(V_SCALES) X(BUFFER) X(SHRUNK) X(HALF) X(THROUGH) X(PASSAGE) X(P_TILE) X(STEPS)                     \
    X(BYTE_TILES) X(BYTE_STEPS) X(AT_SUMS) X(AT_X) X(FACTORS_OF) X(TOPS) X(FIXES) X(HERE) X(HEAVIEST)                  \
    X(HIGHEST) X(LIGHTEST) X(INVERSES) X(WORTH) X(KEY_PIECES) X(VALUE_PIECES) X(CHUNKS)                                \
    X(K_BESIDE) X(V_BESIDE) X(CHECKS)                                                                                  \
    X(BEST) X(NUMBERS) X(DISTANCES) X(SCALES) X(CAPS) X(SOFTCAP) X(ALIBI) X(INVARIANT)                                 \
    X(PAIRS) X(PER) X(HD) X(HDV) X(MR) X(NV) X(U) X(BK) X(NR) X(SQ) X(LDQ) X(CV) X(LDO) X(PANELS) X(LAST) X(LDP)       \
        X(MAX) X(SUM) X(FIX) X(BASE) X(STATE) X(WINDOW) X(SINK) X(NATURAL) X(SPLIT) X(R) X(LIVE) X(KB) X(VR) X(DQ)             \
        X(PARTED) X(PARTED_V) X(PROBS) X(FEW) X(SOME) X(SOME_K) X(WORDS) X(KT)                                         \
        X(WIDENS) X(EIGHTS) X(EIGHTS_V) X(LDV) X(BEARS) X(LOGS) X(BORNE) X(QUARTERED) X(AT_FOURS) \
        X(INTEGRAL) X(AT_NUMBERS)                             \
        X(OPENS) X(KEY_SCALES) X(BLOCK_SLOTS) X(KEY_ROWS) X(ROUNDED) X(TWO_SUMS) X(LESS) X(KNOWN) X(TABLED)            \
        X(CHAINS) X(ACROSS) X(QROWS) X(RV) X(GROUP) X(FOURS_OF_ROWS) X(Q_SLOTS) X(PARTS_K)                             \
        X(PARTED_O) X(COUPLES) X(CODES) X(FIXES_HERE) X(P_PAIRS) X(SIDE_KEYS) X(WEIGHTS)                             \
        X(P_BLOCKS) X(PROBS_AT) X(VALUES_TIMES) X(INTS) X(LDW) X(COLS) X(PLACE) X(FIRST_VALUES) X(APART) X(OPEN)       \
        X(Q_TILES) X(SCORES) X(PIECE) X(PIECES) X(IN_FOURS) X(LDH) X(CODES_64) X(TIMES)           \
        X(TWO_BLOCKS) X(P_PLACES) X(P_TOGETHER) X(IN_LANES) X(ONCE_Q) X(ONCE_LDQ) X(PANEL_OF_KEYS)
struct sizes {
#define MEMBER(name) int64_t name;
    MODEL_SIZES(MEMBER)
#undef MEMBER
};
/* NULL, or the name that the templates do not know any more. */
const char *sizes_read(struct sizes *out, const struct emission *e);

struct want {
    /* KEPT: the byte pattern from before; PAIR: two bf16 in an f32's place; BITS: those of an integer there; DIGITS: four bytes
     * there, and behind them their lower ones */
    enum { KEPT, NEAR, ANYTHING, PAIR, BITS, DIGITS } kind;
    double value, tolerance, upper; /* upper: of a pair the second */
    uint32_t bits;
    int behind; /* so many elements */
    int32_t digits[4];
    bool is_signed; /* digits */
};
/* One argument of a call: memory seen as elements of one type, or an integer. */
struct argument {
    bool is_integer;
    int alias; /* the argument whose memory this is, or -1 */
    int64_t integer, count;
    enum dtype view; /* i32: f32's bits */
    bool bytes;      /* elements are bytes, whatever the view */
    int64_t rows;    /* so many rows, one after another, of which a list has one entry each; 0: a list is of pieces */
    uint8_t *before;
    struct want *want; /* as many as elements */
};
/* One call and what must come of it. */
struct job {
    struct sizes z;
    enum dtype q, kv, o, bias; /* of tensors */
    enum dtype slot;           /* what a slot is made of */
    int64_t columns;    /* vectors of value columns: N */
    int64_t turns;      /* places for opened rows: TURNS */
    int64_t beside;     /* from the scale of a block to that of the next one: BESIDE */
    int kind;           /* varies the data; 0..JOB_KINDS-1 */
    uint64_t random;
    struct argument arg[PARAMETERS_MAX];
};
enum { JOB_KINDS = 6 };

/* Makes arguments and expectations for one micro-kernel. False when there is no model of that name. */
bool job_make(struct job *j, const char *micro);
void job_free(struct job *j);

#endif
