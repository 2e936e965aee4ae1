/* options_read.h - readers of the values that options have, for the table in options.c. Each returns 0, or -1 with what
 * is wrong and what is expected; value is NULL where none was given. What it is not: the verbs' business. */
#ifndef ATTNGEN_CLI_OPTIONS_READ_H
#define ATTNGEN_CLI_OPTIONS_READ_H

#include "options.h"

typedef int option_reader(enum option_id id, const char *value, struct options *out, struct gen_error *err);

const char *option_name(enum option_id id); /* "--dtype" */
const char *option_meta(enum option_id id); /* "TYPE"; what its value is, for people */
int option_wrong(struct gen_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Pieces of readers. read_prefix: a decimal integer from the start of text; where it ends, or NULL when there is none or
 * it does not fit. read_word: the index in a NULL-terminated list. */
const char *read_prefix(const char *text, int64_t *out);
int read_integer(enum option_id id, const char *value, int64_t min, int64_t max, int64_t *out, struct gen_error *err);
int read_number(enum option_id id, const char *value, float *out, struct gen_error *err);
int read_word(enum option_id id, const char *value, const char *const *words, int *out, struct gen_error *err);

/* options_read.c: of any program. */
option_reader read_text, read_flag, read_device, read_compiler, read_threads, read_rigor, read_time_limit;
/* options_attention.c: of attention. */
option_reader read_shape, read_dtype, read_causal, read_q_offset, read_window, read_scale, read_softcap, read_layout;

#endif
