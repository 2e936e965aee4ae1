/* emulated_fibers.c - see emulated.h: the work-items of the groups that run at once, as fibers, whose turns are drawn. */
#define _GNU_SOURCE
#include "emulated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 256 << 10, SHARED_MOST = 232448, NAMED = 16, TOGETHER = 2 }; /* TOGETHER: groups that run at once */

struct fiber {
    void *sp;
    struct emulated_item item;
    bool done;
};
static struct {
    struct fiber fiber[TOGETHER * EMULATED_ITEMS]; /* of the groups that run, EMULATED_ITEMS for each */
    struct emulated_warp warp[TOGETHER * EMULATED_ITEMS / EMULATED_LANES];
    struct {
        struct emulated_named named[NAMED];
        int barrier_count, barrier_turn;
    } of[TOGETHER];
    char *stacks, *shared;
    void *scheduler;
    int items, now, first, groups; /* of a group; the fiber that runs; the first group that does; all groups */
    uint64_t progress, random;
    emulated_entry *entry;
    void **arguments;
} on; /* one launch at a time, in one thread: what a test runs in a process of its own */

#ifdef __x86_64__
/* Saves the registers that a call preserves, and goes on where the other fiber stopped. */
void emulated_switch(void **from, void *to);
__asm__(".text\n.globl emulated_switch\nemulated_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
static void emulated_switch(void **from, void *to)
{
    (void)from, (void)to;
}
#endif

struct emulated_item *emulated_item(void)
{
    return &on.fiber[on.now].item;
}
void emulated_yield(void)
{
    emulated_switch(&on.fiber[on.now].sp, on.scheduler);
}
void emulated_progress(void)
{
    on.progress++;
}
void emulated_meet(int *count, int *turn, int all)
{
    const int mine = *turn;
    if (++*count == all) {
        *count = 0;
        ++*turn;
        emulated_progress();
    } else
        while (*turn == mine)
            emulated_yield();
}
void emulated_meet_warp(void)
{
    struct emulated_warp *w = emulated_item()->warp;
    emulated_meet(&w->count, &w->turn, EMULATED_LANES);
}
void emulated_barrier(void);
void emulated_barrier(void)
{
    emulated_meet(&on.of[on.now / EMULATED_ITEMS].barrier_count, &on.of[on.now / EMULATED_ITEMS].barrier_turn, on.items);
}
size_t emulated_local_id(void);
size_t emulated_local_id(void)
{
    return (size_t)(on.now % EMULATED_ITEMS);
}
float emulated_log(float x);
float emulated_log(float x)
{
    return logf(x);
}
int emulated_group(bool count)
{
    return count ? on.groups : on.first + on.now / EMULATED_ITEMS;
}
struct emulated_named *emulated_named(uint32_t number)
{
    if (number == 0 || number >= NAMED) {
        fprintf(stderr, "named barrier %u; there are 1 to %d\n", number, NAMED - 1);
        abort();
    }
    return &on.of[on.now / EMULATED_ITEMS].named[number];
}
char *emulated_at(uint32_t address, size_t size)
{
    if (address < EMULATED_SHARED || address + size > EMULATED_SHARED + SHARED_MOST) {
        fprintf(stderr, "address %u is not in shared memory\n", address);
        abort();
    }
    return on.shared + on.now / EMULATED_ITEMS * SHARED_MOST + address - EMULATED_SHARED;
}
int emulated_as(int number)
{
    const int before = on.now;
    on.now = number;
    return before;
}

uint32_t emulated_random(uint32_t below)
{
    on.random = on.random * 6364136223846793005u + 1442695040888963407u;
    return below ? (uint32_t)(on.random >> 33) % below : (uint32_t)(on.random >> 32);
}

static void begin_fiber(void)
{
    on.entry(on.arguments);
    on.fiber[on.now].done = true;
    emulated_progress();
    emulated_yield();
    abort();
}

static void begin_group(int slot)
{
    for (int i = slot * EMULATED_ITEMS; i < slot * EMULATED_ITEMS + on.items; i++) {
        void **top = (void **)(void *)(on.stacks + (size_t)(i + 1) * STACK) - 8;
        memset(top - 8, 0, 8 * sizeof *top);
        *top = (void *)begin_fiber; /* the address to return to, at a multiple of 16 as a call has it; six registers lie below */
        on.fiber[i] = (struct fiber){.sp = top - 6,
                                     .item = {i, i % EMULATED_LANES, &on.warp[i / EMULATED_LANES]}};
    }
}

/* So many groups from that one on, at once: what one waits for may be another's. */
static void run_groups(int first, int count)
{
    enum { WARPS = EMULATED_ITEMS / EMULATED_LANES, BEHIND = 64, BEHIND_TURNS = 32 };
    on.first = first;
    memset(on.of, 0, sizeof on.of);
    memset(on.warp, 0, sizeof on.warp);
    memset(on.shared, 0xff, (size_t)count * SHARED_MOST); /* NaN, so that use of anything that was not written is noticed */
    for (int g = 0; g < count; g++)
        begin_group(g);
    emulated_engine_begin();
    bool rest = false; /* a warp now and then, or a copy, unless nothing else goes on */
    struct {
        uint32_t lanes;
        int turns;
    } behind[TOGETHER * WARPS] = {{0}}; /* lanes of a warp that stay behind the others for some turns */
    for (int left = count * on.items; left > 0;) {
        const uint64_t before = on.progress;
        const int each = (on.items + EMULATED_LANES - 1) / EMULATED_LANES, warps = count * each;
        int order[TOGETHER * WARPS];
        for (int w = 0; w < warps; w++) {
            const int at = (int)emulated_random((uint32_t)w + 1);
            order[w] = order[at], order[at] = w;
        }
        left = 0;
        for (int w = 0; w < warps; w++) {
            const uint32_t drawn = rest ? emulated_random(8) : 7;
            uint32_t rests = drawn < 2 ? UINT32_MAX : drawn == 2 ? emulated_random(0) : 0; /* lanes: all, some or none */
            if (behind[order[w]].turns > 0)
                rests |= rest ? behind[order[w]].lanes : 0, behind[order[w]].turns--;
            else if (rest && emulated_random(BEHIND) == 0)
                behind[order[w]].lanes = emulated_random(0), behind[order[w]].turns = (int)emulated_random(BEHIND_TURNS);
            const int slot = order[w] / each, item = order[w] % each * EMULATED_LANES;
            const int end = item + EMULATED_LANES < on.items ? item + EMULATED_LANES : on.items;
            const int up = emulated_random(2) ? -1 : 1; /* which of a warp's lanes comes first is not said anywhere */
            for (int i = up > 0 ? item : end - 1; i >= item && i < end; i += up) {
                on.now = slot * EMULATED_ITEMS + i;
                if (!on.fiber[on.now].done && !(rests >> (i - item) & 1))
                    emulated_switch(&on.scheduler, on.fiber[on.now].sp);
                left += !on.fiber[on.now].done;
            }
        }
        const bool copied = emulated_engine_turn(on.progress == before);
        if (rest && on.progress == before) {
            rest = false;
            continue;
        }
        rest = on.progress != before;
        if (left > 0 && on.progress == before && !copied) {
            fprintf(stderr, "%d work-items of the groups from %d on wait for each other\n", left, first);
            abort();
        }
    }
}

void emulated_launch(emulated_entry *entry, void **arguments, int items, int groups)
{
    on.items = items;
    on.groups = groups;
    on.entry = entry;
    on.arguments = arguments;
    for (int g = 0; g < groups; g += TOGETHER)
        run_groups(g, groups - g < TOGETHER ? groups - g : TOGETHER);
}

void emulated_reseed(const char *text)
{
    for (const char *at = text; *at; at++)
        on.random = (on.random ^ (unsigned char)*at) * 0x100000001b3u;
}

bool emulated_open(void)
{
    if (!on.stacks) {
        on.stacks = mmap(NULL, (size_t)TOGETHER * EMULATED_ITEMS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
        on.shared = aligned_alloc(1024, (size_t)TOGETHER * SHARED_MOST);
    }
    return on.stacks != MAP_FAILED && on.shared;
}
