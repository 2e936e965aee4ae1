/* generator.c - see generator.h. It has state at file scope because what all contexts share cannot belong to one of
 * them: a generator parsed from constants, counted, and freed with the last context. There is no lock, so that a
 * process forked in the middle never waits: a thread that finds it busy uses a generator of its own. */
#include "generator.h"

#include <stdatomic.h>
#include <stddef.h>

enum { FREE = 0, IN_USE = -1 }; /* instead of a number of users: there is none; somebody is creating or destroying it */
static atomic_int users;
static _Atomic(struct gen *) shared; /* while there are users */

/* Adds a user to the existing one, or returns NULL. */
static struct gen *join(void)
{
    int n = atomic_load(&users);
    while (n > 0)
        if (atomic_compare_exchange_weak(&users, &n, n + 1))
            return atomic_load(&shared);
    return NULL;
}

int generator_acquire(struct gen **out, struct gen_error *err)
{
    int none = FREE;
    *out = join();
    if (*out)
        return 0;
    if (gen_open(out, err) != 0)
        return -1;
    if (atomic_compare_exchange_strong(&users, &none, IN_USE)) {
        atomic_store(&shared, *out);
        atomic_store(&users, 1);
        return 0;
    }
    struct gen *theirs = join(); /* who was first */
    if (theirs) {
        gen_close(*out);
        *out = theirs;
    }
    return 0;
}

void generator_release(struct gen *g)
{
    if (!g || g != atomic_load(&shared)) {
        gen_close(g);
        return;
    }
    int n = atomic_load(&users);
    while (!atomic_compare_exchange_weak(&users, &n, n == 1 ? IN_USE : n - 1))
        ;
    if (n > 1)
        return;
    atomic_store(&shared, NULL);
    atomic_store(&users, FREE);
    gen_close(g);
}
