/* tcc_guard.c - see tcc_guard.h. The build renames libtcc's references to these libc functions. Its own answer to a
 * failed allocation is a message and exit(1), or the use of a null pointer. */
#include "tcc_guard.h"

#if TCC_IS_HERE
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* State at file scope, since libtcc's calls carry nothing that it could be attached to; under the compiler's lock. */
static struct {
    struct guard_memory *memory;
    jmp_buf back;
    enum guard_end end; /* why work is abandoned */
} now;

/* Where libtcc's variables are, according to tcc.ld. */
#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN char attn_tcc_data[], attn_tcc_data_end[], attn_tcc_bss[], attn_tcc_bss_end[];

HIDDEN void *attn_tcc_malloc(size_t size);
HIDDEN void *attn_tcc_calloc(size_t count, size_t size);
HIDDEN void *attn_tcc_realloc(void *old, size_t size);
HIDDEN void attn_tcc_free(void *memory);
HIDDEN void attn_tcc_exit(int status) __attribute__((noreturn));
HIDDEN void attn_tcc_abort(void) __attribute__((noreturn));
HIDDEN void attn_tcc_assert_fail(const char *what, const char *file, unsigned line, const char *function)
    __attribute__((noreturn));

static void leave(enum guard_end end) __attribute__((noreturn));
static void leave(enum guard_end end)
{
    now.end = end;
    longjmp(now.back, 1);
}

/* ---- memory ---- */

static void *link_block(struct guard_block *b)
{
    struct guard_block *ring = &now.memory->ring;
    b->next = ring;
    b->before = ring->before;
    b->before->next = ring->before = b;
    return b + 1;
}

static struct guard_block *unlink_block(void *memory)
{
    struct guard_block *b = (struct guard_block *)memory - 1;
    b->next->before = b->before;
    b->before->next = b->next;
    return b;
}

void *attn_tcc_malloc(size_t size)
{
    struct guard_block *b = size > SIZE_MAX - sizeof *b ? NULL : malloc(sizeof *b + size);
    if (!b)
        leave(GUARD_NO_MEMORY);
    return link_block(b);
}

void *attn_tcc_calloc(size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all))
        leave(GUARD_NO_MEMORY);
    return memset(attn_tcc_malloc(all), 0, all);
}

void attn_tcc_free(void *memory)
{
    if (memory)
        free(unlink_block(memory));
}

void *attn_tcc_realloc(void *old, size_t size)
{
    if (!old)
        return attn_tcc_malloc(size);
    if (size == 0) {
        attn_tcc_free(old);
        return NULL;
    }
    struct guard_block *b = unlink_block(old);
    struct guard_block *more = size > SIZE_MAX - sizeof *b ? NULL : realloc(b, sizeof *b + size);
    if (!more) {
        link_block(b);
        leave(GUARD_NO_MEMORY);
    }
    return link_block(more);
}

void guard_begin(struct guard_memory *memory)
{
    memory->ring.next = memory->ring.before = &memory->ring;
}

void guard_free(struct guard_memory *memory)
{
    for (struct guard_block *b = memory->ring.next, *next; b != &memory->ring; b = next) {
        next = b->next;
        free(b);
    }
    guard_begin(memory);
}

/* ---- ends ---- */

void attn_tcc_exit(int status)
{
    (void)status;
    leave(GUARD_GAVE_UP);
}

void attn_tcc_abort(void)
{
    leave(GUARD_GAVE_UP);
}

void attn_tcc_assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
    (void)what, (void)file, (void)line, (void)function;
    leave(GUARD_GAVE_UP);
}

enum guard_end guard_call(struct guard_memory *memory, void (*work)(void *arg), void *arg)
{
    const size_t size = (size_t)(attn_tcc_data_end - attn_tcc_data);
    char *const data = malloc(size + 1);
    if (!data)
        return GUARD_NO_MEMORY;
    memcpy(data, attn_tcc_data, size);
    now.memory = memory;
    now.end = GUARD_RETURNED;
    if (setjmp(now.back) == 0)
        work(arg);
    if (now.end != GUARD_RETURNED) {
        memcpy(attn_tcc_data, data, size);
        memset(attn_tcc_bss, 0, (size_t)(attn_tcc_bss_end - attn_tcc_bss));
        guard_free(memory);
    }
    free(data);
    return now.end;
}

#endif
