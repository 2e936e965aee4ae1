/* emit_made.c - see emit_made.h. */
#define _POSIX_C_SOURCE 200809L
#include "emit_made.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "signals.h"

enum { STACK = 16 << 20, LOOK = 20000000 }; /* bytes, as for a compiler on the main thread; ns between looks for a signal */

/* A copy of all that the thread needs, since it may be left alone. */
struct work {
    const struct emit_driver *driver;
    void *opened;
    enum making how;
    struct variant v;
    struct gen_text text;
    char *made;
    size_t size;
    struct gen_error err;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ended;
};

static void *make(void *self)
{
    struct work *w = self;
    w->made = w->how == MAKE_PTX_BY_DRIVER ? w->driver->make(w->opened, &w->v, &w->text, &w->err)
                                           : w->driver->compile(&w->v, &w->text, w->how == MAKE_PTX, &w->size, &w->err);
    if (w->made && w->how != MAKE_CUBIN)
        w->size = strlen(w->made);
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->ends);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static bool start(struct work *w, pthread_t *thread)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    const bool started = pthread_attr_setstacksize(&attributes, STACK) == 0 && pthread_create(thread, &attributes, make, w) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* Whether the thread ended, and not a signal came first. */
static bool wait_for(struct work *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->ended && !signals_wait()) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->ends, &w->lock, &until);
    }
    const bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

static void free_work(struct work *w)
{
    pthread_cond_destroy(&w->ends);
    pthread_mutex_destroy(&w->lock);
    free(w->text.data);
    free(w);
}

char *emit_make(const struct emit_driver *driver, void *opened, enum making how, const struct variant *v,
                const struct gen_text *text, size_t *size, struct gen_error *err)
{
    pthread_t thread;
    char *data = strdup(text->data);
    struct work *w = data ? malloc(sizeof *w) : NULL;
    if (!w) {
        free(data);
        gen_out_of_memory(err, NULL);
        return NULL;
    }
    *w = (struct work){.driver = driver,
                       .opened = opened,
                       .how = how,
                       .v = *v,
                       .text = *text,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .ends = PTHREAD_COND_INITIALIZER};
    w->text.data = data;
    if (!start(w, &thread)) {
        make(w);
    } else if (wait_for(w)) {
        pthread_join(thread, NULL);
    } else {
        err->text[0] = 0;
        return NULL;
    }
    char *made = w->made;
    *size = w->size;
    *err = w->err;
    free_work(w);
    return made;
}
