/* clang.h - clang as a compiler of OpenCL C for NVIDIA's cards, none of which need be here. What it is not: a card's own
 * compiler. */
#ifndef ATTNGEN_TESTS_CLANG_H
#define ATTNGEN_TESTS_CLANG_H

/* Runs clang with the arguments that each such compilation needs, and then these, of which the last is NULL; there are at most 31.
 * Its output goes to the file `log`. Returns its exit status, or -1. */
int run_clang(const char *const arguments[], const char *log);

#endif
