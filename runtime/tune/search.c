/* search.c - see search.h. First each candidate is tried once, the most promising first; then those near the best take
 * turns, so that whatever drifts (clock, neighbours) affects all of them alike. */
#include "search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/workload.h"

enum { SAMPLED_ROWS = 64, MARGINS = 4 };
static const uint64_t SEED = 20180508;

/* How many times the best's time a candidate may take and stay, after the first look and after each round; and how many
 * seconds a sample waits for a quiet core. Two quiet samples of one kernel differ by up to 1.07 (the gate) times 1.13
 * (two states of the clock seen with vectors): 1.21. The minimum of more samples differs by less. A patient search
 * takes as many samples at the first look as others take in all; we know of nothing that makes the minimum of eight
 * wrong by half. */
static const struct effort {
    int first, wanted; /* samples */
    double margin[MARGINS], wait_first, wait;
} efforts[] = {
    [ATTN_MEASURE] = {2, 8, {1.25, 1.15, 1.10, 1.07}, 20e-3, 50e-3},
    [ATTN_PATIENT] = {8, 32, {1.5, 1.5, 1.5, 1.5}, 50e-3, 200e-3},
};
/* Two samples that are both so far behind are enough. */
static const double FAR = 3;
/* On everything measured so far, the model was wrong by at most a factor of two; beyond this nothing is compiled. */
static const double MODEL_MARGIN = 6;
/* The share of the time limit for the first look at each candidate; the rest is for telling the best apart. */
static const double FIRST_SHARE = 0.7;
/* One run of the timed problem takes about this long at most, so that a search of two hundred fits into the time
 * limit. */
static const double RUN_MOST = 0.2;
/* The most memory that the timed problem takes, with a workspace and the check: several times what caches hold, and
 * little enough that its random data is made in a second. Each thread has keys and values in a workspace of its own. */
static const double BYTES_MOST = 0x1p29, THREAD_BYTES = 0x1p23;
/* The most multiply-adds for judging the timed problem: some tenths of a second if rows are long. */
static const double CHECK_MOST = 0x1p28;

struct search {
    struct device *device;
    const struct tune_settings *settings;
    const struct effort *effort;
    struct timer timer;
    struct workload work;  /* what is timed */
    struct candidate *now; /* the candidate whose kernel runs */
    double flops, best;    /* flops of work; seconds of the fastest so far, 0 if there is none */
    double known;          /* seconds of the best in the cache; 0: none */
    double peak;           /* GFLOP/s */
    double start, end, first_end;
    int threads, done, of;
    bool looked[ISA_COUNT]; /* whether a candidate of that isa was looked at: checked, or not compiled */
    bool timed; /* whether this search has timed one */
};

bool search_allows(const struct device *device, struct candidate *c)
{
    struct gen_error rule = {0};
    if (c->settled)
        return c->row.state == ROW_TIMED || c->row.state == ROW_DROPPED;
    if (gen_check(device->resources->gen, &c->row.variant, &rule) == 0 && tune_fits(device, &c->row.variant, &rule))
        return true;
    c->unknown = rule.no_memory;
    if (c->unknown)
        return false;
    c->row.state = ROW_REJECTED;
    c->settled = true;
    snprintf(c->row.note, sizeof c->row.note, "%.*s", (int)sizeof c->row.note - 1, rule.text);
    return false;
}

struct candidate *search_fastest(struct candidate *c, int n)
{
    struct candidate *best = NULL;
    for (int i = 0; i < n; i++)
        if (c[i].row.state == ROW_TIMED && c[i].row.min_s > 0 && (!best || c[i].row.min_s < best->row.min_s))
            best = &c[i];
    return best;
}

double search_flops(const struct tune_target *p)
{
    struct variant v = p->caller;
    struct attn_features features = {.softcap = 0};
    struct attn_args args = {.batch = p->batch,
                             .heads = p->heads,
                             .kv_heads = p->kv_heads,
                             .q_len = p->q_len,
                             .kv_len = p->kv_len,
                             .bottom_right = 1,
                             .features = &features};
    if (target_knows_window(p))
        memcpy(features.window, p->window, sizeof p->window);
    else
        draw_window(&v, features.window);
    if (!v.field[F_PACKED])
        return attention_flops(&v, &args);
    double flops = 0;
    v.field[F_PACKED] = 0; /* one sequence at a time */
    args.batch = 1;
    for (int64_t b = 0; b < p->batch; b++) {
        args.q_len = draw_length(p->q_len, b);
        args.kv_len = v.field[F_PAGED] ? p->kv_len : draw_length(p->kv_len, b);
        flops += attention_flops(&v, &args);
    }
    return flops;
}

/* The bytes of its tensors, of a copy of keys and values for each thread, and of what the check needs. */
double search_bytes(const struct tune_target *p)
{
    const struct variant *v = &p->caller;
    const double d = variant_head_dim(v), dv = variant_head_dim_v(v), keys = (double)p->kv_len;
    const double query = d * (double)dtype_size((enum dtype)v->field[F_DTYPE]) +
                         dv * (double)dtype_size(variant_dtype_o(v)) + (double)sizeof(float);
    const double key = (d + dv) * (double)dtype_size(variant_dtype_kv(v)) / dtype_values(variant_dtype_kv(v));
    const double heads = (double)p->batch * p->heads, kv_heads = (double)p->batch * p->kv_heads;
    return heads * (double)p->q_len * query + kv_heads * keys * key + p->threads * keys * (d + dv) * sizeof(float) +
           check_bytes(keys);
}

static double bytes_most(const struct tune_target *p)
{
    return fmax(BYTES_MOST, THREAD_BYTES * p->threads);
}

/* Halves the sequences or heads while every thread has one; false: there are too few. */
static bool halve_units(struct tune_target *p)
{
    if (p->batch > 1 && p->batch / 2 * p->kv_heads >= p->threads) {
        p->batch /= 2;
    } else if (p->kv_heads > 1 && p->batch * (p->kv_heads / 2) >= p->threads) {
        int group = p->heads / p->kv_heads;
        p->kv_heads /= 2;
        p->heads = group * p->kv_heads;
    } else
        return false;
    return true;
}

/* Halves the longer of two lengths down to the least; false: both are as short as that. */
static bool halve_longer(struct tune_target *p, int64_t q_least, int64_t kv_least)
{
    if (p->q_len > q_least && (p->q_len >= p->kv_len || p->kv_len <= kv_least))
        p->q_len /= 2;
    else if (p->kv_len > kv_least)
        p->kv_len /= 2;
    else
        return false;
    return true;
}

/* A smaller problem of the same kind: fewer sequences and heads while every thread has one, then shorter ones, but
 * still of several tiles; few tiles only if nothing else fits the memory. */
struct tune_target search_problem(const struct device *device, const struct tune_target *target)
{
    enum { Q_LEAST = 1024, KV_LEAST = 4096, LEAST = 256 };
    struct tune_target p = *target;
    const double gflops = device->backend->gflops(device, p.threads);
    while (search_flops(&p) > RUN_MOST * gflops * 1e9) {
        if (halve_units(&p))
            continue;
        if (p.heads > p.kv_heads)
            p.heads = p.heads / p.kv_heads / 2 * p.kv_heads;
        else if (p.q_len > Q_LEAST)
            p.q_len /= 2;
        else if (p.kv_len > KV_LEAST)
            p.kv_len /= 2;
        else
            break;
    }
    while (search_bytes(&p) > bytes_most(&p))
        if (!halve_units(&p) && !halve_longer(&p, Q_LEAST, KV_LEAST) && !halve_longer(&p, LEAST, LEAST))
            break;
    return p;
}

static bool is_stopped(const struct search *s)
{
    const volatile sig_atomic_t *stop = s->device->resources->stop;
    return stop && *stop;
}

static void settle(struct search *s, struct candidate *c)
{
    double left = s->end - timer_now();
    if (s->settings->progress)
        s->settings->progress(s->settings->user, &c->row, ++s->done, s->of, left > 0 ? left : 0);
}

static void work(void *arg)
{
    struct search *s = arg;
    /* A refusal is impossible here: the same arguments passed the check. */
    workload_run(&s->work, &s->now->kernel, s->device->resources->pool, s->threads);
}

static double work_by_clock(void *arg)
{
    struct search *s = arg;
    struct gen_error ignored;
    double seconds;
    return workload_time(&s->work, &s->now->kernel, &seconds, &ignored) == 0 ? seconds : -1;
}

static bool sample(struct search *s, struct candidate *c, double patience)
{
    s->now = c;
    double left = s->end - timer_now();
    patience = patience < left ? patience : left > 0 ? left : 0;
    return s->device->has_clock
               ? timer_sample_device(&s->timer, work_by_clock, s, s->device->on_cores, patience, &c->samples)
               : timer_sample(&s->timer, work, s, patience, &c->samples);
}

static void summarise(const struct search *s, struct candidate *c)
{
    struct timing t;
    timer_summary(&c->samples, s->effort->wanted, &t);
    c->row.min_s = t.min_s;
    c->row.median_s = t.median_s;
    c->row.samples = t.samples;
    c->row.noisy = t.noisy;
    c->row.gflops = t.min_s > 0 ? s->flops / t.min_s * 1e-9 : 0;
}

/* What a candidate is dropped by: a quiet sample may have been disturbed all the same, and then another was shorter. */
static double least_time(const struct candidate *c)
{
    struct timing t;
    timer_summary(&c->samples, 1, &t);
    return t.least_s;
}

/* So few samples are noisy unless two quiet ones agree. */
static void drop(struct search *s, struct candidate *c)
{
    struct timing two;
    timer_summary(&c->samples, 2, &two);
    c->row.state = ROW_DROPPED;
    c->row.noisy = two.noisy;
    snprintf(c->row.note, sizeof c->row.note, "took %.2f times as long as the best, after %d %s",
             c->row.min_s / s->best, c->row.samples, c->row.samples == 1 ? "sample" : "samples");
    kernel_free(&c->kernel);
}

/* Whether to stop in the middle: the time is over, and this search has found something to take. */
static bool is_over(const struct search *s)
{
    return s->timed && timer_now() > s->end;
}

/* Whether to stop in the middle, and why. */
static bool is_cut_short(const struct search *s, struct gen_error *err)
{
    if (!is_stopped(s) && !is_over(s))
        return false;
    snprintf(err->text, sizeof err->text, is_stopped(s) ? "interrupted" : "the time limit is over");
    return true;
}

/* Fewer rows if they are long, but always the first and the last. */
static int64_t sampled_rows(const struct search *s)
{
    const double rows = CHECK_MOST / check_work(&s->work.caller, (double)s->work.shape.kv_len);
    return rows >= SAMPLED_ROWS ? SAMPLED_ROWS : rows > 2 ? (int64_t)rows : 2;
}

/* Checks awkward shapes as a whole, then the problem that is timed. */
static enum verdict check(struct search *s, struct candidate *c, struct gen_error *err)
{
    struct workload_shape shape[WORKLOAD_AWKWARD];
    struct check result;
    int n = workload_awkward(&c->row.variant, shape);
    for (int i = 0; i < n; i++) {
        struct workload small;
        if (is_cut_short(s, err))
            return VERDICT_NONE;
        if (workload_create(&s->work.caller, &shape[i], SEED + (uint64_t)i, &small) != 0) {
            gen_out_of_memory(err, NULL);
            return VERDICT_NONE;
        }
        enum verdict verdict =
            workload_check(&small, &c->kernel, s->device->resources->pool, s->threads, 0, &result, err);
        workload_free(&small);
        if (verdict != VERDICT_RIGHT) {
            c->row.error = result.error;
            c->row.bound = result.bound;
            return verdict;
        }
    }
    if (is_cut_short(s, err))
        return VERDICT_NONE;
    enum verdict verdict = workload_check(&s->work, &c->kernel, s->device->resources->pool, s->threads,
                                          sampled_rows(s), &result, err);
    c->row.error = result.error;
    c->row.bound = result.bound;
    return verdict;
}

/* Whether it may be dropped after so many rounds. What would be taken without a search is looked at first, when processor, caches
 * and neighbours are not yet as they are for the others: a search that drops it by those samples may end behind what it began
 * with. So it takes as many beside the others first. */
static bool is_behind(const struct search *s, const struct candidate *c, int round)
{
    const double margin = s->effort->margin[round < MARGINS ? round : MARGINS - 1];
    return !(c->estimated && round < s->effort->first) && s->best > 0 && least_time(c) > margin * s->best;
}

/* Dropped before it is timed, but looked at again if there is nothing else. */
static bool is_flawed(const struct search *s, struct candidate *c)
{
    if (!c->kernel.flaw[0] || (c->flawed && !(s->best > 0)))
        return false;
    c->flawed = true;
    c->row.state = ROW_DROPPED;
    snprintf(c->row.note, sizeof c->row.note, "not timed: %s", c->kernel.flaw);
    kernel_free(&c->kernel);
    return true;
}

/* An interrupted search has learned nothing about it; the row must not say that a limit came first. */
static void not_reached(struct candidate *c, bool stopped)
{
    c->unreached = true;
    c->interrupted = stopped;
    c->row.state = ROW_DROPPED;
    snprintf(c->row.note, sizeof c->row.note,
             stopped ? "not reached before the interrupt" : "not reached within the time limit");
}

static void set_bad(struct search *s, struct candidate *c, bool own_doing, const struct gen_error *why)
{
    c->row.state = own_doing ? ROW_WRONG : ROW_FAILED;
    snprintf(c->row.note, sizeof c->row.note, "%.*s", (int)sizeof c->row.note - 1, why->text);
    c->starved = why->no_memory;
    if (!own_doing && (is_stopped(s) || is_over(s)))
        not_reached(c, is_stopped(s));
    kernel_free(&c->kernel);
}

/* Whether it compiles and computes right results; if not, its row says so. */
static bool is_right(struct search *s, struct candidate *c)
{
    struct gen_error err = {0};
    int made = tune_compile(s->device, &c->row.variant, &c->kernel, &c->source, &err);
    if (made == COMPILE_OK && is_flawed(s, c))
        return false;
    s->looked[c->row.variant.field[F_ISA]] = true;
    enum verdict verdict = made == COMPILE_OK ? check(s, c, &err) : VERDICT_NONE;
    if (verdict != VERDICT_RIGHT)
        set_bad(s, c, made == COMPILE_REFUSED || verdict == VERDICT_WRONG, &err);
    return verdict == VERDICT_RIGHT;
}

/* The first look at a candidate: is it right, and is it anywhere near the best? */
static void look(struct search *s, struct candidate *c)
{
    static const struct gen_error untimed = {.text = "it could not be timed"};
    if (!is_right(s, c))
        return;
    for (int i = 0; i < s->effort->first && !(i > 0 && is_stopped(s)); i++) {
        sample(s, c, s->effort->wait_first);
        summarise(s, c);
        if (timer_now() > s->end || (i > 0 && s->best > 0 && least_time(c) > FAR * s->best))
            break;
    }
    if (!(c->row.min_s > 0)) {
        set_bad(s, c, false, &untimed);
        return;
    }
    s->timed = true;
    c->row.state = ROW_TIMED;
    c->row.note[0] = 0;
    if (is_behind(s, c, 0))
        drop(s, c);
    else if (!(s->best > 0) || c->row.min_s < s->best)
        s->best = c->row.min_s;
}

/* Hopeless according to the model. Candidates that a caller named, and all in a patient search, are timed nevertheless
 * if one run takes at most a second. */
static bool is_hopeless(const struct search *s, double times)
{
    double run_s = s->flops * times / (0.5e9 * s->peak);
    bool soon = s->settings->only || s->settings->rigor == ATTN_PATIENT;
    return times > MODEL_MARGIN && (!soon || run_s > 1);
}

/* Whether to leave the next one alone, since the rest of the time is for those that are already there. While none
 * computes right results, one of each instruction set is tried nevertheless, since a failure often affects a whole
 * set. */
static bool is_late(const struct search *s, const struct candidate *next)
{
    const bool looked = s->looked[next->row.variant.field[F_ISA]];
    return timer_now() > (s->best > 0 ? s->first_end : looked ? s->end : INFINITY);
}

static void first_look(struct search *s, struct candidate *c, int n)
{
    double least = 0;
    for (int i = 0; i < n; i++)
        if (c[i].row.state != ROW_REJECTED && (least <= 0 || c[i].cycles < least))
            least = c[i].cycles;
    for (int i = 0; i < n; i++) {
        if (c[i].settled)
            continue;
        double times = least > 0 ? c[i].cycles / least : 1;
        if (is_stopped(s)) {
            not_reached(&c[i], true);
            continue; /* these are not reported as progress */
        } else if (!c[i].estimated && is_hopeless(s, times)) {
            c[i].row.state = ROW_DROPPED;
            snprintf(c[i].row.note, sizeof c[i].row.note,
                     "not timed: the model expects it to take %.0f times as long as the best", times);
        } else if (is_late(s, &c[i]))
            not_reached(&c[i], false);
        else
            look(s, &c[i]);
        settle(s, &c[i]);
    }
    for (int i = 0; i < n && !(s->best > 0) && !is_stopped(s); i++)
        if (c[i].flawed && !is_late(s, &c[i]))
            look(s, &c[i]);
}

static bool is_there(const struct candidate *c)
{
    return c->kernel.functions != NULL;
}

/* Drops what exceeds this round's margin; returns how many still need samples. The best is determined again, since a
 * candidate's minimum rises when its first quiet sample replaces busy ones, and must not drop the candidate itself. */
static int prune(struct search *s, struct candidate *c, int n, int round)
{
    int open = 0;
    s->best = s->known;
    for (int i = 0; i < n; i++)
        if (is_there(&c[i]) && (s->best <= 0 || c[i].row.min_s < s->best))
            s->best = c[i].row.min_s;
    for (int i = 0; i < n; i++) {
        if (!is_there(&c[i]))
            continue;
        if (is_behind(s, &c[i], round))
            drop(s, &c[i]);
        else
            open += c[i].samples.quiets < s->effort->wanted;
    }
    return open;
}

/* Takes one sample of each in turn. A kernel that is still there was neither dropped nor taken from the cache. */
static void compare(struct search *s, struct candidate *c, int n)
{
    for (int round = 0; prune(s, c, n, round) > 0 && timer_now() < s->end && !is_stopped(s); round++)
        for (int i = 0; i < n && timer_now() < s->end && !is_stopped(s); i++) {
            if (!is_there(&c[i]) || c[i].samples.quiets >= s->effort->wanted)
                continue;
            sample(s, &c[i], s->effort->wait);
            summarise(s, &c[i]);
        }
    for (int i = 0; i < n && is_stopped(s); i++)
        c[i].unfinished = is_there(&c[i]) && c[i].samples.quiets < s->effort->wanted;
}

/* The type of the instructions that do the products: mixed types are widened first. */
static enum dtype fastest_dtype(const struct variant *v)
{
    enum dtype q = (enum dtype)v->field[F_DTYPE];
    return variant_dtype_kv(v) == q || variant_is_narrow(v) ? q : DTYPE_F32;
}

int search_measure(struct device *device, const struct tune_target *problem, const struct tune_settings *settings,
                   double limit, struct candidate *c, int n, struct tune_result *out, struct gen_error *err)
{
    struct pool *pool = device->resources->pool;
    struct search s = {.device = device,
                       .settings = settings,
                       .threads = problem->threads,
                       .effort = &efforts[settings->rigor],
                       .start = timer_now()};
    s.end = s.start + limit;
    s.first_end = s.start + FIRST_SHARE * limit;
    timer_start(&s.timer, pool, device->units == 0 ? problem->threads : pool ? pool_threads(pool) : 1);
    out->peak_dtype = fastest_dtype(&problem->caller);
    out->peak_gflops = device->backend->peak(device, &s.timer, problem->threads, out->peak_dtype);
    struct workload_shape shape = {.batch = problem->batch,
                                   .heads = problem->heads,
                                   .kv_heads = problem->kv_heads,
                                   .q_len = problem->q_len,
                                   .kv_len = problem->kv_len,
                                   .typical = true,
                                   .windowed = target_knows_window(problem),
                                   .window = {problem->window[0], problem->window[1]}};
    if (workload_create(&problem->caller, &shape, SEED, &s.work) != 0)
        return gen_out_of_memory(err, "tune");
    s.flops = search_flops(problem);
    s.peak = out->peak_gflops;
    for (int i = 0; i < n; i++) {
        s.of += !c[i].settled;
        struct tune_row *row = &c[i].row;
        if (!c[i].settled || row->state != ROW_TIMED)
            continue;
        if (s.best <= 0 || row->min_s < s.best)
            s.best = row->min_s;
    }
    s.known = s.best;
    first_look(&s, c, n);
    compare(&s, c, n);
    out->interrupted = is_stopped(&s);
    for (int i = 0; i < n; i++)
        kernel_free(&c[i].kernel);
    workload_free(&s.work);
    return 0;
}
