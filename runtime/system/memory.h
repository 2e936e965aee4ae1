/* memory.h - how much memory is left, so that a request for more is refused before the system ends a process. What it
 * is not: a promise; others use memory too. */
#ifndef ATTNGEN_SYSTEM_MEMORY_H
#define ATTNGEN_SYSTEM_MEMORY_H

/* In bytes; infinite if the system does not say. */
double memory_left(void);

#endif
