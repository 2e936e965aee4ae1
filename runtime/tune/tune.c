/* tune.c - see tune.h: what is known (cache), what of that is believed (doubt.c), what to try first
 * (model), what to measure (search.c), what to keep. */
#include "tune.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/invariant.h"
#include "gen/space.h"
#include "doubt.h"
#include "remember.h"
#include "search.h"

/* Two hundred candidates of up to 0.2 s a run, most of which are dropped after two or three runs. A patient search
 * takes eight runs of each, and 32 of those near the best: about twenty times as long. */
static const double TIME_LIMIT = 30, PATIENT_LIMIT = 600;
/* ---- candidates ---- */

/* Where bits are a promise they are of one isa. ISA_COUNT: of any. */
static int space_size(const struct device *device, const struct tune_target *t, enum isa one, struct variant *out, int room)
{
    int n = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if ((one == ISA_COUNT ? !tune_is_twin(&t->caller, (enum isa)isa) : isa == (int)one) &&
            !device->backend->why_not(device, (enum isa)isa)) {
            int more = tuning_space(&t->caller, (enum isa)isa, out ? out + n : NULL, out ? room - n : 0);
            n += more;
        }
    return n;
}

/* Kernels of an isa that multiplies pairs which do not, since they split narrow keys, are those of the isa without. */
static int drop_twins(struct variant *all, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!tune_is_twin(&all[i], (enum isa)all[i].field[F_ISA]))
            all[kept++] = all[i];
    return kept;
}

static int64_t in_blocks(int64_t rows, int64_t of)
{
    return (rows + of - 1) / of * of;
}

/* Kernels in C that split keys have lanes for a power of two of rows, and multiply micro.rows of them. Fewer than the power of two
 * are worth a trial where all rows that share a KV head, in blocks of them, are fewer than in blocks of the power of two. */
static bool leaves_lanes(const struct variant *v, const struct tune_target *t)
{
    const int64_t mr = v->field[F_ROWS], lanes = variant_row_lanes(v);
    const int64_t rows = t->q_len * target_group(t);
    if (!v->field[F_SPLIT] || isas[v->field[F_ISA]].language != LANGUAGE_C)
        return false;
    return mr < lanes && in_blocks(rows, mr) >= in_blocks(rows, lanes);
}

static int drop_lanes(struct variant *all, int n, const struct tune_target *t)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!leaves_lanes(&all[i], t))
            all[kept++] = all[i];
    return kept;
}

static void init_candidate(struct candidate *c, const struct device *device, const struct tune_target *t,
                           const struct variant *v)
{
    *c = (struct candidate){.row.variant = *v};
    if (v->field[F_HEAD_DIM_V] == v->field[F_HEAD_DIM]) /* as variant_decode does, so that fields compare */
        c->row.variant.field[F_HEAD_DIM_V] = 0;
    variant_encode(v, c->row.name);
    const char *why = device->backend->why_not(device, (enum isa)v->field[F_ISA]);
    struct gen_error rule;
    if (!why && invariant_fits(v, t->kv_len, &rule) != 0)
        why = rule.text;
    if (!why && t->lean && v->field[F_WIDENED]) {
        snprintf(rule.text, sizeof rule.text,
                 "widened keys and values take more memory than the %d MiB that a plan may have for them", TARGET_WIDENED);
        why = rule.text;
    }
    /* A device's model knows its own isas alone; the others stand behind these. */
    c->cycles = why ? DBL_MAX : device->backend->cycles(device, v, t);
    if (why) {
        c->row.state = ROW_REJECTED;
        c->settled = c->foreign = true;
        snprintf(c->row.note, sizeof c->row.note, "%.*s", (int)sizeof c->row.note - 1, why);
    }
}

static int by_cycles(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->cycles != y->cycles ? (x->cycles > y->cycles) - (x->cycles < y->cycles)
                                  : strcmp(x->row.name, y->row.name);
}

/* The candidates, those that the model likes best first. */
static int list_candidates(const struct device *device, const struct tune_target *t, const struct tune_settings *s,
                           struct candidate **out, struct gen_error *err)
{
    const enum isa one = t->caller.field[F_INVARIANT] && !s->only ? tune_invariant_isa(device, &t->caller) : ISA_COUNT;
    int n = s->only ? s->only_count : space_size(device, t, one, NULL, 0);
    struct variant *all = calloc((size_t)n + 1, sizeof *all);
    *out = calloc((size_t)n + 1, sizeof **out);
    if (!all || !*out) {
        free(all);
        free(*out);
        *out = NULL;
        return gen_out_of_memory(err, "tune");
    }
    if (s->only)
        memcpy(all, s->only, (size_t)n * sizeof *all);
    else
        n = space_size(device, t, one, all, n);
    if (!s->only && one == ISA_COUNT)
        n = drop_twins(all, n);
    if (!s->only)
        n = drop_lanes(all, n, t);
    for (int i = 0; i < n; i++)
        init_candidate(&(*out)[i], device, t, &all[i]);
    free(all);
    qsort(*out, (size_t)n, sizeof **out, by_cycles);
    return n;
}

static bool is_candidate(const struct candidate *c, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(c[i].row.name, name))
            return true;
    return false;
}

/* Adds what earlier searches timed although tuning does not try it by itself: somebody named it. Returns how many
 * candidates there are then, or -1. */
static int add_timed(const struct device *device, const struct tune_target *t, const struct cache_entry *entry,
                     struct candidate **c, int n, struct gen_error *err)
{
    const int space = n;
    for (int i = 0; i < entry->n; i++) {
        struct variant v, caller = t->caller;
        struct gen_error ignored;
        const struct cache_row *r = &entry->rows[i];
        if (r->state != CACHE_TIMED || is_candidate(*c, space, r->name) || variant_decode(r->name, &v, &ignored) != 0)
            continue;
        if (caller.field[F_HEAD_DIM_V] == caller.field[F_HEAD_DIM])
            caller.field[F_HEAD_DIM_V] = 0;
        if (memcmp(v.field, caller.field, F_ISA * sizeof *v.field) != 0 ||
            (v.field[F_INVARIANT] && tune_invariant_isa(device, &t->caller) != (enum isa)v.field[F_ISA]))
            continue;
        struct candidate *more = realloc(*c, ((size_t)n + 2) * sizeof *more);
        if (!more)
            return gen_out_of_memory(err, "tune");
        *c = more;
        init_candidate(&more[n++], device, t, &v);
    }
    return n;
}

/* Passing over a candidate for lack of memory would favour others. One that was already tried may be too large for this
 * machine, and the others go on. */
static int check_memory(const struct candidate *c, int n, struct gen_error *err)
{
    for (int i = 0; i < n; i++)
        if (c[i].unknown)
            return gen_out_of_memory(err, "tune");
    return 0;
}

/* How much of a note says which rule refuses: what follows are the values that it refuses. */
static size_t rule_size(const char *note)
{
    const char *values = strrchr(note, '(');
    return values ? (size_t)(values - note) : strlen(note);
}

/* A candidate that is refused by the rule which refuses most of them: other rules may be those of a single isa. */
static const struct candidate *most_refused(const struct candidate *c, int n)
{
    const struct candidate *most = c;
    for (int i = 0, best = 0; i < n; i++) {
        const size_t size = rule_size(c[i].row.note);
        int alike = 0;
        for (int k = i; k < n; k++)
            alike += rule_size(c[k].row.note) == size && !memcmp(c[k].row.note, c[i].row.note, size);
        if (alike > best) {
            best = alike;
            most = &c[i];
        }
    }
    return most;
}

static int nothing_legal(const struct candidate *c, int n, struct gen_error *err)
{
    const struct candidate *most = most_refused(c, n);
    if (n == 0)
        snprintf(err->text, sizeof err->text,
                 "tune: error: there is no candidate; expected an isa that can be used here (ATTNGEN_ISA, if it is set, lists the "
                 "only ones)");
    else
        snprintf(err->text, sizeof err->text, "%s: error: none of %d candidates can be used: %s", most->row.name, n,
                 most->row.note);
    return -1;
}

/* ---- what the cache knows ---- */

/* Whether only timings of a patient search count: not if such a search has been made and only a winner is wanted. */
static bool wants_patience(const struct tune_settings *s, const struct cache_entry *entry)
{
    for (int i = 0; i < entry->n && !s->extend; i++)
        if (entry->rows[i].patient && entry->rows[i].state == CACHE_TIMED)
            return false;
    return s->rigor == ATTN_PATIENT;
}

static bool all_settled(const struct candidate *c, int n)
{
    for (int i = 0; i < n; i++)
        if (!c[i].settled)
            return false;
    return true;
}

/* ---- the rigors ---- */

/* How many faster isas one would expect there before this one. */
static int steps_behind(const struct device *device, struct variant v)
{
    const char *why;
    int n = 0;
    for (enum isa isa; n < ISA_COUNT && (isa = device->backend->expected(device, &v, &why)) != ISA_COUNT; n++)
        v.field[F_ISA] = (int32_t)isa;
    return n;
}

/* What is taken without a search; NULL: none is legal. A fallback is taken only if there is nothing faster, however good the model
 * thinks it is: it knows too little about small problems. */
static struct candidate *estimated(const struct device *device, struct candidate *c, int n)
{
    for (int behind = 0; behind < ISA_COUNT; behind++)
        for (int i = 0; i < n; i++)
            if (steps_behind(device, c[i].row.variant) == behind && search_allows(device, &c[i]))
                return &c[i];
    return NULL;
}

static int estimate(const struct device *device, struct candidate *c, int n, struct tune_result *out,
                    struct gen_error *err)
{
    const struct candidate *taken = estimated(device, c, n);
    if (!taken)
        return nothing_legal(c, n, err);
    out->winner = taken->row.variant;
    return 0;
}

/* A search begins with what would be taken without it, so that it does not end behind that for want of time. */
static void begin_with_estimated(const struct device *device, struct candidate *c, int n)
{
    struct candidate *at = estimated(device, c, n), first;
    if (!at)
        return;
    first = *at;
    first.estimated = true;
    memmove(c + 1, c, (size_t)(at - c) * sizeof *c);
    c[0] = first;
}

static void store(const struct device *device, const char *key, const struct candidate *c, int n, double limit,
                  bool patient, struct tune_result *out)
{
    struct gen_error why = {0};
    struct cache_entry entry = {.key = (char *)key, .rows = calloc((size_t)n + 1, sizeof *entry.rows)};
    const int64_t now = time(NULL);
    for (int i = 0; entry.rows && i < n; i++)
        if (!c[i].foreign && !c[i].from_cache && !c[i].interrupted)
            remember_row(&c[i], limit, patient, now, &entry.rows[entry.n++]);
    if (!entry.rows)
        snprintf(why.text, sizeof why.text, "out of memory");
    else if (!device->resources->cache)
        snprintf(why.text, sizeof why.text, "there is no cache");
    else if (entry.n == 0)
        snprintf(why.text, sizeof why.text, "nothing was found out that would hold another time");
    else
        out->stored = cache_store(device->resources->cache, &entry, &why) == 0;
    snprintf(out->not_stored, sizeof out->not_stored, "%.*s", (int)sizeof out->not_stored - 1, why.text);
    free(entry.rows);
}

static bool any_unreached(const struct candidate *c, int n)
{
    for (int i = 0; i < n; i++)
        if (c[i].unreached)
            return true;
    return false;
}

static int nothing_right(const struct candidate *c, int n, bool interrupted, struct gen_error *err)
{
    const struct candidate *bad = NULL;
    for (int i = 0; i < n && !(bad && bad->row.state == ROW_WRONG); i++)
        if (c[i].row.state == ROW_WRONG || (c[i].row.state == ROW_FAILED && !bad))
            bad = &c[i];
    if (bad && bad->row.state == ROW_FAILED && bad->starved)
        return gen_out_of_memory(err, bad->row.name);
    if (interrupted)
        snprintf(err->text, sizeof err->text, "tune: error: interrupted before a candidate was timed");
    else
        snprintf(err->text, sizeof err->text, "%s: error: no candidate %s%s here: %s", bad ? bad->row.name : "tune",
                 any_unreached(c, n) ? "that was reached within the time limit " : "",
                 bad && bad->row.state == ROW_FAILED ? "could be tried" : "computes right",
                 bad ? bad->row.note : "none was reached");
    return -1;
}

static int measure(struct device *device, const struct tune_settings *settings, double limit, const char *key,
                   struct candidate *c, int n, struct tune_result *out, struct gen_error *err)
{
    int legal = 0;
    for (int i = 0; i < n; i++)
        legal += search_allows(device, &c[i]);
    if (check_memory(c, n, err) != 0)
        return -1;
    if (!legal)
        return nothing_legal(c, n, err);
    begin_with_estimated(device, c, n);
    if (search_measure(device, &out->timed, settings, limit, c, n, out, err) != 0)
        return -1;
    for (int i = 0; i < n; i++) /* what was not timed again is still known */
        if ((c[i].unreached || c[i].row.state == ROW_FAILED) && c[i].before) {
            c[i].source = c[i].before->source;
            if (doubt_holds(device, &c[i]))
                remember_take(&c[i], c[i].before);
        }
    store(device, key, c, n, limit, settings->rigor == ATTN_PATIENT, out);
    const struct candidate *best = search_fastest(c, n);
    if (best) {
        out->winner = best->row.variant;
        return 0;
    }
    return nothing_right(c, n, out->interrupted, err);
}

int tune_anywhere(const struct device *device, const struct tune_target *target, struct variant *out,
                  struct gen_error *err)
{
    const struct tune_settings settings = {.rigor = ATTN_ESTIMATE};
    struct candidate *c = NULL;
    const int n = list_candidates(device, target, &settings, &c, err);
    int found = -1;
    /* Of the fastest isa; there, first those that copy rows as they lie. */
    for (int turn = 0; turn < 2 * ISA_COUNT && found < 0; turn++)
        for (int i = 0; i < n && found < 0; i++) {
            const struct variant *v = &c[i].row.variant;
            if (variant_takes_any_rows(v) && (v->field[F_COPY] != COPY_ANY) == turn % 2 && steps_behind(device, *v) == turn / 2 &&
                search_allows(device, &c[i]))
                found = i;
        }
    if (found >= 0)
        *out = c[found].row.variant;
    else if (n >= 0)
        snprintf(err->text, sizeof err->text,
                 "tune: error: no kernel takes rows at any address and with any strides; expected one that does");
    free(c);
    return found >= 0 ? 0 : -1;
}

/* A fallback is many times slower, so the log says when it is taken for lack of others, but not if somebody asked for
 * it, by naming candidates or otherwise, nor if it won against them. */
static void tell_fallback(const struct device *device, const struct tune_target *t, struct candidate *c, int n,
                          struct tune_result *out)
{
    const char *why = NULL;
    const enum isa expected = device->backend->expected(device, &out->winner, &why);
    struct gen_error rule;
    if (expected == ISA_COUNT)
        return;
    const bool isa_lacks = why != NULL;
    for (int i = 0; i < n; i++)
        if (c[i].row.variant.field[F_ISA] != out->winner.field[F_ISA]) {
            const enum isa isa = (enum isa)c[i].row.variant.field[F_ISA];
            if (isa_slow(isa) && isa != expected) /* that slower ones exist is no news */
                continue;
            if (c[i].row.state != ROW_WRONG && c[i].row.state != ROW_FAILED && search_allows(device, &c[i]))
                return;
            if (!why && c[i].row.variant.field[F_ISA] == (int32_t)expected)
                why = c[i].row.note;
        }
    if (!isa_lacks && tune_refuses(device, &t->caller, expected, &rule))
        why = rule.text;
    snprintf(out->fallback, sizeof out->fallback, "%s%s%s%.220s", isa_lacks ? "isa " : "", isa_lacks ? isas[expected].name : "",
             isa_lacks ? " " : "", why ? why : "there is no other candidate");
}

static int by_speed(const void *a, const void *b)
{
    const struct tune_row *x = a, *y = b;
    static const int order[] = {
        [ROW_TIMED] = 0, [ROW_DROPPED] = 1, [ROW_UNREACHED] = 2, [ROW_WRONG] = 3, [ROW_FAILED] = 4, [ROW_REJECTED] = 5};
    if (x->state != y->state)
        return order[x->state] - order[y->state];
    if ((x->min_s > 0) != (y->min_s > 0))
        return x->min_s > 0 ? -1 : 1;
    if (x->min_s != y->min_s)
        return x->min_s > y->min_s ? 1 : -1;
    return strcmp(x->name, y->name);
}

static int give_rows(const struct candidate *c, int n, struct tune_result *out, struct gen_error *err)
{
    out->rows = calloc((size_t)n + 1, sizeof *out->rows);
    if (!out->rows) {
        return gen_out_of_memory(err, "tune");
    }
    double flops = search_flops(&out->timed);
    for (int i = 0; i < n; i++)
        if (!out->from_cache || c[i].from_cache) {
            struct tune_row *row = &out->rows[out->n++];
            *row = c[i].row;
            row->gflops = row->min_s > 0 ? flops / row->min_s * 1e-9 : 0;
            if (c[i].unreached)
                row->state = ROW_UNREACHED;
        }
    qsort(out->rows, (size_t)out->n, sizeof *out->rows, by_speed);
    return 0;
}

/* What was timed when the device had a compiler that is missing now. For choosing alone: nothing is stored there. */
static int load_former(const struct device *device, const struct tune_target *target, struct cache_entry *entry,
                       struct gen_error *err)
{
    struct buf key = {0};
    int result = tune_former_key(device, target, &key, err);
    if (result == 0)
        cache_load(device->resources->cache, key.data, entry);
    buf_free(&key);
    return result;
}

int tune(struct device *device, const struct tune_target *target, const struct tune_settings *settings,
         struct tune_result *out, struct gen_error *err)
{
    struct candidate *c = NULL;
    struct cache_entry entry = {0};
    struct buf key = {0};
    double limit = settings->rigor == ATTN_PATIENT ? PATIENT_LIMIT : TIME_LIMIT;
    int result = -1;
    *out = (struct tune_result){0};
    if (device->only) {
        snprintf(err->text, sizeof err->text, "there is nothing to tune: device %s has one kernel", device->name);
        return -1;
    }
    if (settings->time_limit > 0)
        limit = settings->time_limit;
    *out = (struct tune_result){.timed = search_problem(device, target)};
    int n = list_candidates(device, target, settings, &c, err);
    if (n < 0 || tune_key(device, target, &key, err) != 0)
        goto cleanup;
    if (device->resources->cache) {
        if (!cache_load(device->resources->cache, key.data, &entry) && settings->rigor == ATTN_ESTIMATE && device->formerly &&
            load_former(device, target, &entry, err) != 0)
            goto cleanup;
        cache_file(device->resources->cache, key.data, out->path);
        if (!settings->only && (n = add_timed(device, target, &entry, &c, n, err)) < 0)
            goto cleanup;
    }
    remember_all(c, n, &entry, limit, wants_patience(settings, &entry));
    const struct candidate *known = doubt_winner(device, settings, c, n);
    if (check_memory(c, n, err) != 0)
        goto cleanup;
    doubt_noisy(device, settings, target->threads, &entry, c, n);
    /* A search that is to be extended may already be complete; then nothing is timed either. */
    if (known && (settings->rigor == ATTN_ESTIMATE || !settings->extend || all_settled(c, n))) {
        out->winner = known->row.variant;
        out->from_cache = true;
        result = 0;
    } else if (settings->rigor == ATTN_ESTIMATE)
        result = estimate(device, c, n, out, err);
    else
        result = measure(device, settings, limit, key.data, c, n, out, err);
    if (check_memory(c, n, err) != 0)
        result = -1;
    if (result == 0 && !settings->only)
        tell_fallback(device, target, c, n, out);
    if (result == 0 && (out->from_cache || settings->rigor != ATTN_ESTIMATE))
        result = give_rows(c, n, out, err);
cleanup:
    if (result != 0)
        tune_result_free(out);
    cache_entry_free(&entry);
    buf_free(&key);
    free(c);
    return result;
}

void tune_result_free(struct tune_result *result)
{
    if (!result)
        return;
    free(result->rows);
    result->rows = NULL;
    result->n = 0;
}
