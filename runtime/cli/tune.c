/* tune.c - `attngen tune`: times the candidates for a shape, or of a spec, and stores the fastest. Reads the command
 * line and shows the result; tune/tune.h decides what is tried and how it is timed. */
#define _GNU_SOURCE
#include "tune/tune.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/expand.h"
#include "devices/devices.h"
#include "cli.h"
#include "features.h"
#include "options.h"
#include "print.h"
#include "signals.h"
#include "tune_table.h"

const struct verb verb_tune = {
    .name = "tune",
    .doc = "check and time candidates, and remember the fastest",
    .usage = "tune SPEC... [--shape SHAPE] [options]\ntune --shape SHAPE [attention options] [options]",
    .text = "Compiles the candidates for a shape, checks each against the reference, times those\n"
            "that are right, and stores the fastest in the cache, where `run`, `bench` and\n"
            "libattn find it. With a spec, its variants are the candidates, and a tuning field\n"
            "that it leaves out takes all its values. Without a spec, all variants that can run here\nare candidates.\n"
            "Without --shape, a spec is tuned for 1,8,8,1024,1024,D. Candidates that the cache knows\n"
            "are not timed again. Options that no kernel depends on (--scale, --layout, ...) are\n"
            "allowed. Of --softcap and of arrays, only their presence and a bias's type matter:\n"
            "candidates are timed with typical values. Of --window, only the number of its keys\n"
            "matters, rounded up to a power of two.",
    .example = "attngen tune --shape 1,8,8,2048,2048,64 --causal --threads 1",
    .exits = "no candidate can be used here; 130 interrupted; 143 ended by SIGTERM",
    .options = OPTIONS_ATTENTION | OPTIONS_MACHINE | OPTION_BIT(OPTION_SHAPE) | OPTION_BIT(OPTION_RIGOR) |
               OPTION_BIT(OPTION_TIME_LIMIT) | OPTION_BIT(OPTION_WHY_NOT) | OPTION_BIT(OPTION_QUIET) |
               OPTION_BIT(OPTION_JSON),
    .every_compiler = true,
    .operand = "SPEC",
    .max_operands = 64,
};

/* At file scope because a handler has no argument. The library's own calls read it through the device's resources. */
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

/* The first Ctrl-C ends the search and keeps what it found; the next one ends the program. So do the signals of `timeout`, of a
 * service that is stopped and of a terminal that is closed. If the program was started with a signal ignored, as by nohup, it stays
 * ignored. */
static void heed_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND}, before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals_of_end[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals_of_end[i], &action, NULL);
}

/* Candidates that share the caller's fields; `all` if every legal one of the field table is meant. */
struct problem {
    struct variant caller; /* tuning fields are those of the first candidate */
    struct variant *only;
    int count, room;
    bool all;
};

struct session {
    struct options options;
    struct gen *gen;
    struct cache *cache;
    struct pool *pool;
    struct resources resources; /* the three */
    struct devices *devices;
    struct problem *problem;
    int problems, threads;
    bool terminal; /* progress is wanted */
    char best_name[GEN_NAME_MAX];
    double best_gflops;
    struct buf json;
    int reports; /* number printed so far */
    int done, of; /* number of candidates in the search that is running */
};

static int fail(const char *text)
{
    print_failure("tune", text);
    return CLI_FAILED;
}

static bool same_problem(const struct variant *a, const struct variant *b)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER && a->field[f] != b->field[f])
            return false;
    return true;
}

static int add_candidate(struct session *s, const struct variant *v)
{
    struct problem *p = NULL;
    for (int i = 0; i < s->problems && !p; i++)
        if (same_problem(&s->problem[i].caller, v))
            p = &s->problem[i];
    if (!p) {
        struct problem *more = realloc(s->problem, (size_t)(s->problems + 1) * sizeof *more);
        if (!more)
            return fail("out of memory");
        s->problem = more;
        p = &more[s->problems++];
        *p = (struct problem){.caller = *v};
    }
    for (int i = 0; i < p->count; i++)
        if (memcmp(&p->only[i], v, sizeof *v) == 0) /* two specs may name it */
            return CLI_OK;
    if (p->count == p->room) {
        int room = p->room ? 2 * p->room : 64;
        struct variant *more = realloc(p->only, (size_t)room * sizeof *more);
        if (!more)
            return fail("out of memory");
        p->only = more;
        p->room = room;
    }
    p->only[p->count++] = *v;
    return CLI_OK;
}

static bool fits_shape(const struct options *o, const struct variant *v)
{
    return !(o->given & OPTION_BIT(OPTION_SHAPE)) ||
           (v->field[F_HEAD_DIM] == o->shape.head_dim && variant_head_dim_v(v) == o->shape.head_dim_v);
}

static int read_spec(struct session *s, const char *path)
{
    struct spec spec;
    struct gen_error err = {0};
    if (spec_read(path, &spec, &err) != 0)
        return fail(err.text);
    for (int i = 0; i < spec.field[F_OP].count; i++)
        if (spec.field[F_OP].value[i] != OP_ATTN) {
            print_line(stderr, "%s: error: op %s cannot be tuned, only emitted and verified; expected op attn", path,
                       field_value_name(F_OP, spec.field[F_OP].value[i]));
            spec_free(&spec);
            return CLI_FAILED;
        }
    struct spec_cursor cursor = {.tuning = true};
    struct variant v;
    int code = CLI_OK, fitting = 0;
    while (code == CLI_OK && spec_next(&spec, &cursor, &v))
        if (fits_shape(&s->options, &v)) {
            fitting++;
            code = add_candidate(s, &v);
        }
    spec_free(&spec);
    if (code != CLI_OK || fitting)
        return code;
    print_line(stderr, "%s: error: no variant has the head dims of --shape %s; expected %lld, and %lld for V", path,
               s->options.shape.text, (long long)s->options.shape.head_dim, (long long)s->options.shape.head_dim_v);
    return CLI_FAILED;
}

/* Problems from the specs, or the one that the options describe. */
static int collect(struct session *s)
{
    struct options *o = &s->options;
    if (o->operands == 0) {
        struct variant v = variant_default(ISA_C);
        struct gen_error err = {0};
        v.field[F_HEAD_DIM] = (int32_t)o->shape.head_dim;
        v.field[F_HEAD_DIM_V] = o->shape.head_dim_v == o->shape.head_dim ? 0 : (int32_t)o->shape.head_dim_v;
        if (features_variant(o, &v, &err) != 0)
            return fail(err.text);
        s->problem = calloc(1, sizeof *s->problem);
        if (!s->problem)
            return fail("out of memory");
        s->problems = 1;
        s->problem[0] = (struct problem){.caller = v, .all = true};
        return CLI_OK;
    }
    for (int i = 0; i < o->operands; i++) {
        int code = read_spec(s, o->operand[i]);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static struct shape shape_of(const struct session *s, const struct problem *p)
{
    if (s->options.given & OPTION_BIT(OPTION_SHAPE))
        return s->options.shape;
    int d = p->caller.field[F_HEAD_DIM], dv = variant_head_dim_v(&p->caller);
    struct shape shape = {.batch = 1, .heads = 8, .kv_heads = 8, .q_len = 1024, .kv_len = 1024, .head_dim = d,
                          .head_dim_v = dv};
    snprintf(shape.text, sizeof shape.text, dv == d ? "1,8,8,1024,1024,%d" : "1,8,8,1024,1024,%d,%d", d, dv);
    return shape;
}

static void show_progress(void *user, const struct tune_row *row, int done, int of, double left)
{
    struct session *s = user;
    s->done = done;
    s->of = of;
    if (row->state == ROW_TIMED && row->gflops > s->best_gflops) {
        s->best_gflops = row->gflops;
        memcpy(s->best_name, row->name, sizeof s->best_name);
    }
    if (s->terminal && s->best_gflops > 0)
        fprintf(stderr, "\r\033[K%d of %d candidates tried, at most %.0f s left; best so far %s, %.1f GFLOP/s", done,
                of, left, s->best_name, s->best_gflops);
}

/* What an interrupt left, on a line of its own. The best so far is in the table too. */
static void say_interrupted(const struct session *s, const struct tune_result *r)
{
    char name[GEN_NAME_MAX] = "", tried[64] = "no new candidate was tried";
    variant_encode(&r->winner, name);
    if (s->done > 0)
        snprintf(tried, sizeof tried, "%d of %d candidates were tried", s->done, s->of);
    print_line(stderr, "attngen tune: interrupted; %s; the best so far is %s; %s%s", tried, name,
               r->stored ? "the timings were stored in " : "nothing was stored: ", r->stored ? r->path : r->not_stored);
}

/* *fastest is the winner's time in seconds, 0 if none was timed. */
static int tune_with(struct session *s, const struct problem *p, struct device *device, double *fastest)
{
    struct shape shape = shape_of(s, p);
    struct gen_error err = {0};
    struct tune_result result;
    struct tune_target target = {.caller = p->caller, .heads = (int)shape.heads, .kv_heads = (int)shape.kv_heads,
                                 .batch = shape.batch, .q_len = shape.q_len, .kv_len = shape.kv_len,
                                 .threads = tune_threads(device, s->threads)};
    const struct tune_settings settings = {.rigor = s->options.rigor, .time_limit = s->options.time_limit,
                                           .only = p->all ? NULL : p->only, .only_count = p->count, .extend = true,
                                           .quiet = tune_is_quiet,
                                           .progress = show_progress, .user = s};
    if (options_window(&s->options))
        memcpy(target.window, s->options.window, sizeof target.window);
    tune_bucket(&target);
    s->best_gflops = 0;
    s->done = s->of = 0;
    int failed = tune(device, &target, &settings, &result, &err);
    if (s->terminal)
        fprintf(stderr, "\r\033[K");
    if (failed)
        return fail(err.text);
    struct tune_report report = {.shape = shape.text, .rigor = s->options.rigor, .device = device, .result = &result,
                                 .why_not = s->options.why_not};
    if (result.fallback[0])
        print_line(stderr, "attngen tune: warning: %s is the only choice: %s",
                   isa_slow((enum isa)result.winner.field[F_ISA]), result.fallback);
    if (s->options.json && s->reports > 0)
        buf_puts(&s->json, ", ");
    if (s->options.json)
        tune_print_json(&report, &s->json);
    else
        tune_print_table(&report);
    if (s->options.quiet && result.not_stored[0])
        print_line(stderr, "attngen tune: warning: the winner was not stored: %s", result.not_stored);
    s->reports++;
    if (result.interrupted)
        say_interrupted(s, &result);
    *fastest = result.n > 0 && result.rows[0].state == ROW_TIMED ? result.rows[0].min_s : 0;
    tune_result_free(&result);
    return CLI_OK;
}

static int tune_by(struct session *s, const struct problem *p, attn_compiler compiler, const char **name,
                   double *fastest)
{
    struct gen_error err = {0};
    struct device *device;
    if (devices_find(s->devices, s->options.file[OPTION_DEVICE], compiler, &device, &err) != 0)
        return fail(err.text);
    *name = device->compiler;
    int code = tune_with(s, p, device, fastest);
    device_release(device);
    return code;
}

static int tune_problem(struct session *s, const struct problem *p)
{
    double time[2] = {0};
    const char *name[2];
    int code = CLI_OK;
    if (!s->options.every_compiler)
        return tune_by(s, p, s->options.compiler, &name[0], &time[0]);
    for (int i = ATTN_TCC; i <= ATTN_CC && code == CLI_OK && !stop; i++) {
        code = tune_by(s, p, (attn_compiler)i, &name[i], &time[i]);
        if (!s->options.json)
            putchar('\n');
    }
    if (code == CLI_OK && !s->options.json && time[ATTN_TCC] > 0 && time[ATTN_CC] > 0) {
        int best = time[ATTN_CC] < time[ATTN_TCC] ? ATTN_CC : ATTN_TCC;
        printf("compiler %s: its winner runs at %.3f times the speed of the winner compiled by %s\n", name[best],
               time[!best] / time[best], name[!best]);
    }
    return code;
}

/* Whether standard error is a terminal that understands the escape codes of progress. */
static bool moves_cursor(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

static int open_session(struct session *s)
{
    struct gen_error err = {0};
    s->threads = s->options.threads ? s->options.threads : cores();
    s->terminal = !s->options.quiet && moves_cursor();
    if (gen_open(&s->gen, &err) != 0)
        return fail(err.text);
    if (cache_open(NULL, print_cache_warning, "tune", &s->cache) != 0 || pool_create(s->threads, &s->pool) != 0)
        return fail("out of memory");
    s->resources = (struct resources){.gen = s->gen, .cache = s->cache, .pool = s->pool, .stop = &stop};
    return devices_open(&s->resources, &s->devices, &err) ? fail(err.text) : CLI_OK;
}

static void close_session(struct session *s)
{
    for (int i = 0; i < s->problems; i++)
        free(s->problem[i].only);
    free(s->problem);
    devices_close(s->devices);
    pool_destroy(s->pool);
    cache_close(s->cache);
    gen_close(s->gen);
    buf_free(&s->json);
}

int cli_tune(int argc, char **argv)
{
    struct session s = {0};
    int code = CLI_OK;
    if (!options_begin(&verb_tune, argc, argv, &s.options, &code))
        return code;
    if (s.options.operands == 0 && !(s.options.given & OPTION_BIT(OPTION_SHAPE)))
        return usage_error(&verb_tune, "there is nothing to tune; expected a SPEC or --shape");
    const char *by_spec = s.options.operands > 0 ? options_kernel(&s.options) : NULL;
    if (by_spec)
        return usage_error(&verb_tune, "%s cannot be combined with a spec; expected it in the spec", by_spec);
    heed_signals();
    code = collect(&s);
    if (code == CLI_OK)
        code = open_session(&s);
    if (code == CLI_OK && s.options.json)
        buf_puts(&s.json, "{\"results\": [");
    for (int i = 0; i < s.problems && code == CLI_OK && !stop; i++)
        code = tune_problem(&s, &s.problem[i]);
    if (code == CLI_OK && s.options.json) {
        buf_puts(&s.json, "]}\n");
        if (buf_ok(&s.json))
            fputs(s.json.data, stdout);
        else
            code = fail("out of memory");
    }
    close_session(&s);
    return stop ? CLI_SIGNALLED + stop : code;
}
