/* options_read.h - readers for the values of options, for the table in options.c. Each returns 0, or -1 with what is
 * wrong and what is expected; value is NULL if none was given. What it is not: the verbs' business. */
#ifndef ATTNGEN_CLI_OPTIONS_READ_H
#define ATTNGEN_CLI_OPTIONS_READ_H

#include "options.h"

/* A row of the table in options.c. */
struct option;
typedef int option_reader(const struct option *option, const char *value, struct options *out, struct gen_error *err);
struct option {
    enum option_id id;
    const char *name; /* "-o" or "--dtype" */
    const char *meta; /* its value, for people: "FILE" */
    const char *doc;  /* for --help; a newline continues in the same column */
    enum value_kind kind;
    option_reader *read;
};

int option_wrong(struct gen_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Parts of readers. read_prefix: a decimal integer at the start of text; where it ends, or NULL if there is none or it
 * does not fit. read_word: the index in a NULL-terminated list. */
const char *read_prefix(const char *text, int64_t *out);
int read_integer(const struct option *option, const char *value, int64_t min, int64_t max, int64_t *out, struct gen_error *err);
int read_number(const struct option *option, const char *value, const char *expected, float *out, struct gen_error *err);
int read_word(const struct option *option, const char *value, const char *const *words, int *out, struct gen_error *err);

/* options_read.c: for any program. */
option_reader read_text, read_flag, read_device, read_language, read_compiler, read_threads, read_rigor,
    read_time_limit, read_tolerance;
/* options_attention.c: for attention. */
option_reader read_shape, read_dtype, read_causal, read_q_offset, read_window, read_scale, read_softcap, read_layout;

#endif
