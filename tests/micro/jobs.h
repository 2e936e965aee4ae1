/* jobs.h - what models make their calls of: arguments, elements of them, and what is wanted of each. What it is not: a
 * model of anything. */
#ifndef ATTNGEN_TESTS_JOBS_H
#define ATTNGEN_TESTS_JOBS_H

#include "models.h"

#define LOWEST (-0x1.fffffep127)
#define TINY 0x1p-126 /* what is smaller may become 0 */

struct model {
    const char *name;
    void (*make)(struct job *j);
};
/* models_few.c, models_lanes.c, models_panels.c, models_tiles.c, models_blocks.c, models_pairs.c, models_words.c,
 * models_inside.c, models_integral.c; NULL ends them */
extern const struct model few_models[], lane_models[], panel_models[], tile_models[], block_models[], pair_models[], word_models[],
    inside_models[], integral_models[];

/* Argument p: an integer, or count random elements; out of memory ends the test. */
void integer(struct job *j, int p, int64_t value);
void memory(struct job *j, int p, enum dtype view, int64_t count);
float get(const struct job *j, int p, int64_t i);
/* Keys and values may be of narrow types: the units that so many values take, what a micro-kernel counts those by, and value d
 * of the row that begins at a unit. */
int64_t units(const struct job *j, int64_t values);
int64_t step(const struct job *j, int64_t units);
float number(const struct job *j, int p, int64_t unit, int64_t d);
/* The same without its block's scale. */
float stored_number(const struct job *j, int p, int64_t unit, int64_t d);
void set(struct job *j, int p, int64_t i, float value);
void want(struct job *j, int p, int64_t i, double value, double tolerance);
void want_anything(struct job *j, int p, int64_t i);

/* Slots: as memory, but of pairs of bf16 where those are multiplied, which are then elements 2*slot and 2*slot + 1. */
void slots(struct job *j, int p, int64_t count);
float get_element(const struct job *j, int p, int64_t e);
void want_element(struct job *j, int p, int64_t e, double value, double tolerance); /* of both of a pair */

/* The same of probabilities, which may be pairs where nothing else is. */
void probs(struct job *j, int p, int64_t count);
float get_prob(const struct job *j, int p, int64_t e);
void want_prob(struct job *j, int p, int64_t e, double value, double tolerance);

/* How many of at most `limit`, of any kind. */
int64_t up_to(struct job *j, int64_t limit);
/* Zeros, infinities, the ends of the range, and NaN among numbers that are only moved. */
void add_specials(struct job *j, int p);

/* Where element c of a row stands, in which even and odd elements of vectors in turn are parted, or of a row of output even
 * fours of columns and odd ones; and which element of a row of output stands there. */
int64_t in_eights_at(int64_t c);
int64_t in_quarters_at(const struct job *j, int64_t c);
int64_t first_of_four(int64_t i);
int64_t paired_at(const struct job *j, int64_t c);
int64_t part_of(const struct job *j, int64_t c, int64_t vectors);
int64_t output_of(const struct job *j, int64_t c, int64_t vectors);
int64_t whole_of(const struct job *j, int64_t at);
/* The row of queries that a lane of scores has: for one that is missing, what takes its place in the first step of a sum that
 * lacks it. */
int64_t scored_row(const struct sizes *z, int64_t i);
/* Column d of a row of queries over fp8, where it stands as one of the pairs behind all else. */
void set_coded_query(struct job *j, int64_t row, int64_t d, float value);

/* e or 2 to the power of a difference of scores, and how exactly: a bias keeps scores in natural units. */
double power(const struct sizes *z, double x);
double power_error(const struct sizes *z, double x);

/* One element of left[.][slots] * right[slots][NR], and the sum of its terms' sizes. They are arguments 0 and 1; right starts
 * with row `from`, and is a panel of keys or of values. In models.c. */
double dot(const struct job *j, int64_t left, int64_t from, int64_t column, int64_t slots, bool keys, double *size);

/* Argument 1 as n panels of keys with the scales of each block (OPENS); where the scale of a key's block is there; and a
 * score of row i of argument 0, in which the sums of each block of a key are times its scale. In models.c. */
void opened_panels(struct job *j, int64_t n);
float *scale_beside(const struct job *j, int64_t key, int64_t block);
double opened_dot(const struct job *j, int64_t i, int64_t c, double *size);

/* Arguments 0 to 2: outputs go on with so many keys, whose values are ld units apart, in all whole panels of columns, for all rows
 * of a block. is_raw: values are as they are stored, and their scales stand behind the probabilities. In models_few.c. */
void add_keys(struct job *j, int64_t keys, int64_t ld, bool is_raw);

/* Memory of integers, seen as floats, or of bytes, four to an integer. digit: byte b, with a sign or plain. Which four
 * keys a lane of a tile of bytes is of. */
void integers(struct job *j, int p, int64_t count);
int32_t whole_number(const struct job *j, int p, int64_t i);
void set_integer(struct job *j, int p, int64_t i, int32_t n);
void want_integer(struct job *j, int p, int64_t i, int32_t n);
int digit(const struct job *j, int p, int64_t b, bool plain);
int64_t keys_of_lane(int64_t lane);
/* 64 columns of output, which products of tiles of bytes join: of a tile whose probabilities have one scale for all columns and no
 * sign, or one for each of two blocks, with a sign. In models_tiles.c. */
void add_products(struct job *j, int blocks);
/* Argument 1: bytes of 64 columns of values as products of tiles have them, four keys to an integer. byte says what a key's
 * number in a column is stored as, where rows are ld apart. In models_tiles.c. */
void want_mixed(struct job *j, int64_t ld, uint8_t (*byte)(const struct job *j, int64_t key, int64_t column, int64_t ld));

#endif
