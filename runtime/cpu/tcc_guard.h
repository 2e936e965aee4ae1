/* tcc_guard.h - what stands between libtcc and the process: its memory, which may run out, and its way to end all. For
 * tcc.c. What it is not: it knows nothing of what libtcc compiles. */
#ifndef ATTNGEN_CPU_TCC_GUARD_H
#define ATTNGEN_CPU_TCC_GUARD_H

/* Where libtcc's code can run in the process. ATTN_NO_TCC: a build without it. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__) && !defined(ATTN_NO_TCC)
#define TCC_IS_HERE 1
#else
#define TCC_IS_HERE 0
#endif

/* All that libtcc allocated and has not freed: a ring of blocks, each in front of what libtcc sees of it. */
struct guard_block {
    struct guard_block *next, *before;
};
struct guard_memory {
    struct guard_block ring;
};
void guard_begin(struct guard_memory *memory);
void guard_free(struct guard_memory *memory); /* whatever libtcc left */

/* Calls work, in which alone libtcc is called, and counts what it allocates to memory. Where libtcc runs out of memory,
 * or would end the process, work is left at once, its blocks are freed, and libtcc is as it was when the program began.
 * Under the compiler's lock: libtcc has one state for all. */
enum guard_end { GUARD_RETURNED, GUARD_NO_MEMORY, GUARD_GAVE_UP };
enum guard_end guard_call(struct guard_memory *memory, void (*work)(void *arg), void *arg);

#endif
