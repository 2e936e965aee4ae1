/* hint.h - what was probably meant by a word that is not known, for messages. What it is not: a reader; nothing is
 * accepted because of a hint. */
#ifndef ATTNGEN_GEN_HINT_H
#define ATTNGEN_GEN_HINT_H

/* The word in a NULL-terminated list that was probably meant, or NULL when none is near. */
const char *hint_nearest(const char *word, const char *const *words);

/* Where a caller gives what `key` names, when it is an argument of a run or a plan and so no key of a spec: "attn_run.scale,
 * or --scale". NULL when it is none. */
const char *hint_run_argument(const char *key);

/* Where a caller gives the numbers or arrays of a feature that a spec only turns on, in a sentence; NULL where there are
 * none. */
const char *hint_run_value(const char *key);

#endif
