/* hint.h - what somebody probably meant by an unknown word, for messages. What it is not: a reader; nothing is accepted
 * because of a hint. */
#ifndef ATTNGEN_GEN_HINT_H
#define ATTNGEN_GEN_HINT_H

/* The word in a NULL-terminated list that was probably meant, or NULL if none is near. */
const char *hint_nearest(const char *word, const char *const *words);

/* Where a caller gives what `key` names, if it is an argument of a run or a plan and so not a key of a spec:
 * "attn_run.scale, or --scale". NULL if it is not. */
const char *hint_run_argument(const char *key);

/* Where a caller gives the numbers or arrays of a feature that a spec only turns on, as a sentence; NULL if there are
 * none. */
const char *hint_run_value(const char *key);

#endif
