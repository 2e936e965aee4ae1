/* tcc_guard.h - what stands between libtcc and the process: its memory, which may run out, and its ways to end the
 * process. For tcc.c. What it is not: it knows nothing about what libtcc compiles. */
#ifndef ATTNGEN_CPU_TCC_GUARD_H
#define ATTNGEN_CPU_TCC_GUARD_H

/* Whether libtcc's code can run in the process. ATTN_NO_TCC: a build without it. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__) && !defined(ATTN_NO_TCC)
#define TCC_IS_HERE 1
#else
#define TCC_IS_HERE 0
#endif

/* Everything that libtcc allocated and has not freed: a ring of blocks, each header in front of the memory that libtcc
 * sees. */
struct guard_block {
    struct guard_block *next, *before;
};
struct guard_memory {
    struct guard_block ring;
};
void guard_begin(struct guard_memory *memory);
void guard_free(struct guard_memory *memory); /* whatever libtcc left */

/* Calls work, the only place where libtcc is called, and adds its allocations to memory. If libtcc runs out of memory
 * or would end the process, work is abandoned at once, its blocks are freed, and libtcc is as it was when the program
 * began. Under the compiler's lock, since libtcc has one state for all. */
enum guard_end { GUARD_RETURNED, GUARD_NO_MEMORY, GUARD_GAVE_UP };
enum guard_end guard_call(struct guard_memory *memory, void (*work)(void *arg), void *arg);

#endif
