/* doubt.c - see doubt.h. */
#include "doubt.h"

#include <time.h>

#include "remember.h"

/* For so many seconds a search believes the cache that a candidate is wrong: its cause may have been repaired since. */
static const int64_t BELIEVED = 24 * 3600;
/* For so many seconds it takes a noisy timing as it is: whoever disturbed it is hardly gone sooner. */
static const int64_t NOISE_RESTS = 600;

bool doubt_holds(const struct device *device, struct candidate *c)
{
    struct gen_text text = {0};
    struct gen_error why = {0};
    if (tune_emit(device, &c->row.variant, &text, &why) != 0) {
        c->unknown = why.no_memory;
        return false;
    }
    bool same = cache_hash(text.data, text.size) == c->source;
    gen_text_free(&text);
    return same;
}

/* The cache's winner whose source is still what would be emitted; others are forgotten and measured again. Without a
 * winner, those that were dropped for being behind one are forgotten too. */
static struct candidate *cached_winner(const struct device *device, struct candidate *c, int n)
{
    for (;;) {
        struct candidate *best = search_fastest(c, n);
        for (int i = 0; !best && i < n; i++)
            if (c[i].from_cache && c[i].row.state == ROW_DROPPED)
                remember_not(&c[i]);
        if (!best || doubt_holds(device, best))
            return best;
        remember_not(best);
    }
}

/* ---- what the cache calls bad ---- */

static bool is_bad(const struct candidate *c)
{
    return c->settled && (c->row.state == ROW_WRONG || c->row.state == ROW_REJECTED);
}

/* Whether the cache's claim that a candidate is bad can be confirmed: a rule still rejects it, or exactly the text that
 * would be emitted was found wrong, later than `since`. What cannot be confirmed is forgotten. */
static bool confirm(const struct device *device, struct candidate *c, int64_t since)
{
    if (!c->from_cache || !is_bad(c))
        return true;
    if (c->row.state == ROW_WRONG && c->when > since && doubt_holds(device, c))
        return true;
    bool rejected = c->row.state == ROW_REJECTED;
    remember_not(c);
    c->from_cache = rejected && !search_allows(device, c);
    return c->from_cache;
}

static void confirm_all(const struct device *device, struct candidate *c, int n, int64_t since)
{
    for (int i = 0; i < n; i++)
        confirm(device, &c[i], since);
}

/* If nothing is good, the cache must not be the reason: then check whether its claims still hold. */
static void doubt_all(const struct device *device, struct candidate *c, int n, int64_t since)
{
    confirm_all(device, c, n, since);
    for (int i = 0; i < n; i++)
        if (!is_bad(&c[i]))
            return;
    for (int i = 0; i < n; i++)
        if (c[i].from_cache && c[i].row.state == ROW_WRONG)
            remember_not(&c[i]);
}

/* Whether a fallback is the cache's winner only because everything else is called bad there without confirmation, or
 * was not reached: all of that may have been temporary. The most promising candidate of each kind of bad stands for the
 * rest, because every plan asks this. */
static bool doubt_fallback(const struct device *device, struct candidate *c, int n, int32_t isa, int64_t since)
{
    struct candidate *first[2] = {NULL, NULL};
    bool left = false;
    for (int i = 0; i < n; i++) {
        if (c[i].row.variant.field[F_ISA] == isa)
            continue;
        if (c[i].from_cache && !is_bad(&c[i]))
            return false; /* it was slower */
        struct candidate **called = &first[c[i].row.state == ROW_WRONG];
        if (!c[i].from_cache)
            left = left || (c[i].left && search_allows(device, &c[i]));
        else if (!*called)
            *called = &c[i];
    }
    for (int i = 0; i < 2; i++)
        if (first[i] && !confirm(device, first[i], since)) {
            confirm_all(device, c, n, since);
            return true;
        }
    return left;
}

const struct candidate *doubt_winner(const struct device *device, const struct tune_settings *settings, struct candidate *c,
                                     int n)
{
    const char *why;
    const int64_t since = settings->rigor == ATTN_ESTIMATE ? 0 : (int64_t)time(NULL) - BELIEVED;
    const struct candidate *best = cached_winner(device, c, n);
    if (!best)
        doubt_all(device, c, n, since);
    else if (settings->extend)
        confirm_all(device, c, n, since);
    else if (!settings->only && device->backend->expected(device, &best->row.variant, &why) != ISA_COUNT &&
             doubt_fallback(device, c, n, best->row.variant.field[F_ISA], since))
        return NULL;
    return best;
}

/* ---- what was noisy ---- */

bool tune_is_quiet(void *user, const struct device *device, int threads)
{
    struct timer timer;
    struct pool *pool = device->resources->pool;
    (void)user;
    if (!device->on_cores)
        return true;
    timer_start(&timer, pool, device->units == 0 ? threads : pool ? pool_threads(pool) : 1);
    return timer_stays_quiet(&timer);
}

static bool is_doubtful(const struct candidate *c, int64_t now)
{
    const bool timed = c->row.state == ROW_TIMED || c->row.state == ROW_DROPPED;
    return c->from_cache && timed && c->row.noisy && c->row.samples > 0 && (c->when <= now - NOISE_RESTS || c->when > now);
}

void doubt_noisy(const struct device *device, const struct tune_settings *settings, int threads,
                 const struct cache_entry *entry, struct candidate *c, int n)
{
    const int64_t now = time(NULL);
    bool quiet = false;
    if (!settings->extend || !settings->quiet || settings->rigor == ATTN_ESTIMATE)
        return;
    for (int i = 0; i < n; i++) {
        if (!is_doubtful(&c[i], now))
            continue;
        if (!quiet && !(quiet = settings->quiet(settings->user, device, threads)))
            return;
        remember_not(&c[i]);
        c[i].before = cache_find(entry, c[i].row.name);
    }
}
