/* lines.h - what holds of the lines of every text that is emitted: kernels, and all files of a bundle. What it is not: a
 * compiler. */
#ifndef ATTNGEN_TESTS_LINES_H
#define ATTNGEN_TESTS_LINES_H

/* Fails where a line is longer than 120 columns and could be broken, where one ends in a space, and where a comment has a
 * name that templates know and readers do not, such as BQ. */
void lines_check(const char *name, const char *text);

/* The same, and that a line says the licence in the form that tools look for. */
void lines_check_source(const char *name, const char *text);

/* The most lines, one after another, that stand in the text twice; empty ones and those of the preprocessor do not count. */
int lines_repeated(const char *text);

#endif
