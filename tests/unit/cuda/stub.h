/* stub.h - a libcuda.so.1 and libnvrtc.so.13 for tests where no card is: memory is the host's, a cubin is its text, and a launch
 * calls back. It counts what is held, notes calls in order, and fails where it is told to. What it is not: a card. */
#ifndef ATTNGEN_TESTS_CUDA_STUB_H
#define ATTNGEN_TESTS_CUDA_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_launch {
    const char *kernel; /* the function's name */
    unsigned grid[3], block[3], shared;
    void *stream;
    void **parameters;
};

struct stub {
    /* ---- what a test sets ---- */
    const char *fails; /* the symbol of a function that fails; NULL: none does */
    int after;         /* calls of it that go well before */
    int code;          /* with which it fails then; 0: 999 */
    void (*launched)(void *user, const struct stub_launch *launch);
    void *user;
    const void *capturing; /* a stream under capture, and the capture's number */
    uint64_t capture;
    int cards;
    /* ---- what it has seen ---- */
    int contexts, modules, streams, events, programs; /* held now */
    int arrays;                                       /* pieces of memory held now */
    int compiled, launches, early, waits, allocations; /* so far; early: of those launches, with leave to begin before others end */
    char wrong[160];                                  /* a call that CUDA's rules forbid; "": none */
    int set_shared;                                   /* of the function that was asked about last */
};
struct stub *stub_state(void);

#endif
