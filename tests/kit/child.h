/* child.h - work in processes of its own, so that a crash or a hang is a failure and not the end of the test. */
#ifndef ATTNGEN_TESTS_CHILD_H
#define ATTNGEN_TESTS_CHILD_H

#include <stddef.h>

/* Memory that children share with their parent, zeroed; NULL when there is none. */
void *shared_memory(size_t size);
void shared_free(void *memory, size_t size);

/* Runs work in a child. Returns its result (0..255), or says in `why` how it ended and returns -1. timeout_s: of the processor, as
 * runtime/system/process.h has it, so that a machine with much else to do does not make it fail. */
int run_child(int (*work)(void *arg), void *arg, int timeout_s, char *why, size_t why_size);

/* Runs job(arg, 0..jobs-1) in as many processes as there are cores. Returns how many jobs did not return 0; one that
 * ends its process counts. */
int run_jobs(int jobs, int (*job)(void *arg, int index), void *arg);

/* Called before fork() in a process whose pool has begun to start threads. In a build with AddressSanitizer it waits until all of
 * them run: a thread that starts holds a lock of the sanitizer's allocator, which a fork would copy as locked, and the child would
 * wait for it for ever. In other builds it does nothing, so that forks meet threads in any state. */
struct pool;
void before_fork(struct pool *pool);

/* Runs a program with its output in the file `log`; returns its exit status, or -1. */
int run_program(const char *const argv[], const char *log);

#endif
