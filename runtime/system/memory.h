/* memory.h - how much memory there is left to take, so that who is asked for more says so before the system ends
 * somebody. What it is not: a promise; others take of it too. */
#ifndef ATTNGEN_SYSTEM_MEMORY_H
#define ATTNGEN_SYSTEM_MEMORY_H

/* Bytes; infinite where the system does not say. */
double memory_left(void);

#endif
