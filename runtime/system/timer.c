/* timer.c - see timer.h. The method is FFTW's (doubling, minimum of several samples) with a gate in front. */
#define _GNU_SOURCE
#include "timer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "threads.h"

/* 60000 turns take 15 to 25 us: long compared with reading the clock, short compared with what disturbs us. */
enum { PROBE_TURNS = 60000 };
static const double QUIET = 0.93;
static const double LOWERED = 0.85;
static const double SPREAD = 1.21; /* of the median to the minimum; above it a result is noisy */
/* A thread that was put off its core waits for a millisecond or more; one that was woken waits for some microseconds. */
static const double LOST = 100e-6;
/* A sample takes at least this long, so that the two probes around it are only a small part of the work. */
static const double SAMPLE_FLOOR = 50e-6;
static const double RESOLUTIONS = 100;

double timer_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void turn(int64_t turns)
{
#if defined(__x86_64__)
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
#else
    /* The empty statement makes each turn depend on the previous one, whatever the optimiser does. */
    while (turns > 0) {
        turns--;
        __asm__ volatile("" : "+r"(turns));
    }
#endif
}

static double probe_here(void)
{
    double start = timer_now();
    turn(PROBE_TURNS);
    double seconds = timer_now() - start;
    return seconds > 0 ? PROBE_TURNS / seconds : 0;
}

static void probe_part(void *arg, int part)
{
    ((double *)arg)[part] = probe_here();
}

double timer_probe(struct timer *t)
{
    enum { MOST = 64 };
    double rate[MOST];
    int threads = t->pool ? t->threads < MOST ? t->threads : MOST : 1;
    if (threads > 1)
        pool_run(t->pool, threads, probe_part, rate);
    else
        rate[0] = probe_here();
    double worst = rate[0];
    for (int i = 0; i < threads; i++) {
        if (rate[i] > t->best)
            t->best = rate[i];
        if (rate[i] < worst)
            worst = rate[i];
    }
    return worst;
}

bool timer_is_quiet(const struct timer *t, double best_after, double rate)
{
    double best = best_after > LOWERED * t->best ? best_after : LOWERED * t->best;
    return rate >= QUIET * best;
}

/* The smallest step between two readings: the clock's own step, or the cost of a reading if that is larger. */
static double clock_step(void)
{
    double least = 1;
    for (int i = 0; i < 200; i++) {
        double start = timer_now(), next = timer_now();
        while (next <= start)
            next = timer_now();
        if (next - start < least)
            least = next - start;
    }
    return least;
}

void timer_start(struct timer *t, struct pool *pool, int threads)
{
    *t = (struct timer){.resolution = clock_step(), .pool = pool, .threads = threads};
    double end = timer_now() + 10e-3;
    while (timer_now() < end)
        timer_probe(t);
}

/* For how many seconds this thread has waited for a core although it had work to do; 0 where the system does not say. */
static double waited(void)
{
    char text[96];
    unsigned long long waited_ns = 0;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    return sscanf(text, "%*s %llu", &waited_ns) == 1 ? (double)waited_ns * 1e-9 : 0;
}

static double run(void (*work)(void *arg), void *arg, int64_t iterations)
{
    double start = timer_now();
    for (int64_t i = 0; i < iterations; i++)
        work(arg);
    return timer_now() - start;
}

static int64_t find_iterations(const struct timer *t, void (*work)(void *arg), void *arg)
{
    double least = RESOLUTIONS * t->resolution > SAMPLE_FLOOR ? RESOLUTIONS * t->resolution : SAMPLE_FLOOR;
    int64_t iterations = 1;
    work(arg); /* the first call pays for cold caches and pages, and is ignored */
    while (iterations < INT64_C(1) << 40 && run(work, arg, iterations) < least)
        iterations *= 2;
    return iterations;
}

/* Waits until the core is quiet or patience is over. It sleeps, because a busy loop would itself disturb the core. */
static bool wait_for_quiet(struct timer *t, double best_after, double patience)
{
    double end = timer_now() + patience;
    for (;;) {
        if (timer_is_quiet(t, best_after, timer_probe(t)) || timer_is_quiet(t, best_after, timer_probe(t)))
            return true;
        if (timer_now() >= end)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        /* A sleeping core may have lowered its clock: let it rise before judging it. */
        timer_probe(t);
    }
}

bool timer_stays_quiet(struct timer *t)
{
    enum { LOOKS = 10 };
    for (int i = 0; i < LOOKS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        timer_probe(t); /* a sleeping core may have lowered its clock: let it rise before it is judged */
        if (!timer_is_quiet(t, t->best, timer_probe(t)) && !timer_is_quiet(t, t->best, timer_probe(t)))
            return false;
    }
    return true;
}

/* Probes after some work, and keeps its time as quiet or busy. */
static bool keep_sample(struct timer *t, struct samples *s, double seconds, bool quiet)
{
    double after = timer_probe(t);
    if (after > s->best_after)
        s->best_after = after;
    quiet = quiet && timer_is_quiet(t, s->best_after, after);
    if (quiet)
        s->quiet[s->quiets++ % TIMER_SAMPLES] = seconds;
    else
        s->busy[s->busies++ % TIMER_SAMPLES] = seconds;
    return quiet;
}

bool timer_sample_device(struct timer *t, double (*measure)(void *arg), void *arg, bool gate, double patience,
                         struct samples *s)
{
    bool quiet = gate && wait_for_quiet(t, s->best_after, patience);
    double seconds = measure(arg);
    if (seconds < 0)
        return false;
    if (gate)
        return keep_sample(t, s, seconds, quiet);
    s->quiet[s->quiets++ % TIMER_SAMPLES] = seconds;
    return true;
}

bool timer_sample(struct timer *t, void (*work)(void *arg), void *arg, double patience, struct samples *s)
{
    if (!s->iterations)
        s->iterations = find_iterations(t, work, arg);
    bool quiet = wait_for_quiet(t, s->best_after, patience);
    double before = waited(), seconds = run(work, arg, s->iterations), lost = waited() - before;
    quiet = quiet && !(lost > LOST && lost > (1 - QUIET) * seconds);
    return keep_sample(t, s, seconds / (double)s->iterations, quiet);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least of so many times, of which the last ones are there; `least` if none is less. */
static double least_of(const double *seconds, int taken, double least)
{
    for (int i = 0; i < taken && i < TIMER_SAMPLES; i++)
        if (seconds[i] < least)
            least = seconds[i];
    return least;
}

void timer_summary(const struct samples *s, int wanted, struct timing *out)
{
    double seen[TIMER_SAMPLES];
    int taken = s->quiets ? s->quiets : s->busies;
    int n = taken < TIMER_SAMPLES ? taken : TIMER_SAMPLES;
    *out = (struct timing){.samples = n, .noisy = s->quiets < wanted};
    if (!n)
        return;
    memcpy(seen, s->quiets ? s->quiet : s->busy, (size_t)n * sizeof seen[0]);
    qsort(seen, (size_t)n, sizeof seen[0], compare);
    out->min_s = seen[0];
    out->least_s = least_of(s->busy, s->busies, seen[0]);
    out->median_s = n % 2 ? seen[n / 2] : 0.5 * (seen[n / 2 - 1] + seen[n / 2]);
    out->noisy = out->noisy || out->median_s > SPREAD * out->min_s;
}

void timer_measure(struct timer *t, void (*work)(void *arg), void *arg, int wanted, double limit, struct timing *out)
{
    struct samples s = {0};
    double end = timer_now() + limit;
    if (wanted > TIMER_SAMPLES)
        wanted = TIMER_SAMPLES;
    do {
        double left = end - timer_now();
        /* The first few samples are always taken: otherwise a busy machine would have nothing to report. */
        timer_sample(t, work, arg, s.busies < wanted || left < 0 ? 0 : left, &s);
    } while (s.quiets < wanted && timer_now() < end);
    timer_summary(&s, wanted, out);
}
