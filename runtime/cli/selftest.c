/* selftest.c - `attngen selftest`: whether the kernels of this build are right on this machine. Each instruction set of
 * each device is a part in a process of its own; problems and features are drawn from a seed that is printed. What it
 * is not: the tests of the repository, which check every variant and the program itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attn.h"
#include "cli.h"
#include "gen/invariant.h"
#include "gen/space.h"
#include "devices/devices.h"
#include "devices/list.h"
#include "judge/trial.h"
#include "json.h"
#include "numerics/convert.h"
#include "options.h"
#include "print.h"
#include "system/files.h"
#include "system/process.h"
#include "system/timer.h"
#include "tune/tune.h"

const struct verb verb_selftest = {
    .name = "selftest",
    .doc = "check that kernels compute right results on this machine",
    .usage = "selftest [--device D] [--time-limit S] [--quiet | --json]",
    .text = "Runs for about a minute. Each instruction set of each device here computes random problems\n"
            "with each feature (masks, windows, biases, pages, ...) between inaccessible pages, and its\n"
            "results are compared with the definition in double precision. A winner is stored in a cache\n"
            "of its own and found again. No memory may ever be writable and executable at once. Prints\n"
            "one line for each part; a part that cannot run here is skipped, and its line says why.\n"
            "A device that --device names and that is not here counts as failed.",
    .example = "attngen selftest",
    .exits = "a part failed",
    .options =
        OPTION_BIT(OPTION_DEVICE) | OPTION_BIT(OPTION_TIME_LIMIT) | OPTION_BIT(OPTION_QUIET) | OPTION_BIT(OPTION_JSON),
    .own = (const struct own_words[]){
        {OPTION_DEVICE, "D", DEVICE_NAMES ":\ntest this device only; default: all"},
        {OPTION_TIME_LIMIT, "S", "draw problems for each part for S seconds; default: 5"},
        {.doc = NULL}},
};

enum {
    PART_SECONDS = 5,  /* of problems by default; each feature comes at least once */
    TIMEOUT = 120,     /* seconds of the processor after which a kernel counts as hanging */
    SPACE_MOST = 4096, /* variants from which one is drawn */
    TRIES = 64,        /* draws until one is legal */
    PROBLEMS = 2,      /* for each kernel */
};

/* The result of a part, in memory that it shares with us. */
struct outcome {
    bool done, skipped, no_device, absent; /* absent: no_device, and there should be one */
    int kernels, problems;
    double nearest; /* the largest share of its bound that an error reached */
    char at[GEN_NAME_MAX + 192];
    char why[640];
};

struct part {
    const char *device; /* as --device takes it */
    attn_compiler compiler;
    enum isa isa;
    double seconds;
    uint64_t seed;
};

/* ---- memory that is writable and executable ---- */

/* Whether a mapping of this process is both; the first such line is copied to `line`. */
static bool find_writable_code(char *line, size_t room)
{
    char *text = NULL;
    size_t size = 0;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && getline(&text, &size, maps) > 0) {
        const char *rights = strchr(text, ' ');
        found = rights && rights[2] == 'w' && rights[3] == 'x';
    }
    if (found)
        snprintf(line, room, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    if (maps)
        fclose(maps);
    return found;
}

/* ---- kernels of one instruction set of one device ---- */

/* No feature, all of them, and each one alone; for kernels that take seconds to compile: none, all, and every second
 * one. */
enum { FEATURES = F_TRANSPOSED - F_CAUSAL, CASES = FEATURES + 2, SLOW_CASES = 4 };

static int count_cases(enum isa isa)
{
    return isa_language(isa) == LANGUAGE_C ? CASES : SLOW_CASES;
}

static void set_case(struct variant *v, int i, uint64_t *state)
{
    const bool in_c = isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_C;
    for (int f = 0; f < FEATURES; f++) {
        bool on = i == 1 || (i > 1 && (in_c ? i == f + 2 : i % 2 == f % 2));
        enum field_id id = (enum field_id)(F_CAUSAL + f);
        v->field[id] = !on ? 0 : id == F_BIAS ? 1 + (int32_t)random_below(state, DTYPE_COUNT) : 1;
    }
}

/* A random legal variant for that case; false: no such kernel can run here, and `err` says why. Tuning fields are drawn
 * only for C: device drivers take minutes for some of them. */
static bool draw_variant(struct device *device, enum isa isa, int which, struct variant *space, uint64_t *state,
                         struct variant *out, struct gen_error *err)
{
    static const int32_t dims[] = {8, 32, 40, 64, 96, 128};
    for (int i = 0; i < TRIES; i++) {
        struct variant caller = variant_default(isa);
        caller.field[F_DTYPE] = (int32_t)random_below(state, DTYPE_COUNT);
        caller.field[F_HEAD_DIM] = dims[random_below(state, sizeof dims / sizeof *dims)];
        set_case(&caller, which, state);
        const bool in_c = isa_language(isa) == LANGUAGE_C;
        int n = !in_c ? 1 : tuning_space(&caller, isa, space, SPACE_MOST);
        n = n > SPACE_MOST ? SPACE_MOST : n;
        if (n == 0)
            continue;
        *out = in_c ? space[random_below(state, n)] : caller;
        for (enum field_id f = F_ISA + 1; f < FIELD_COUNT; f++)
            if (f != F_SPLIT && invariant_value(out, f) >= 0)
                out->field[f] = invariant_value(out, f);
        struct gen_text text = {0};
        if (gen_check(device->resources->gen, out, err) != 0 || tune_emit(device, out, &text, err) != 0)
            continue;
        bool fits = !device->backend->fits || device->backend->fits(device, out, &text, err) == 0;
        gen_text_free(&text);
        if (fits)
            return true;
    }
    return false;
}

/* One kernel on a few problems. */
static int check_kernel(struct device *device, const struct variant *v, uint64_t *state, struct outcome *out)
{
    struct kernel kernel = {0};
    struct gen_error err = {0};
    struct trial *trial = NULL;
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    process_end_if_hanging(TIMEOUT);
    snprintf(out->at, sizeof out->at, "%s: compiling", name);
    int result = tune_compile(device, v, &kernel, NULL, &err);
    if (result == 0 && find_writable_code(out->why, sizeof out->why)) {
        snprintf(out->at, sizeof out->at, "%s: memory is writable and executable", name);
        kernel_free(&kernel);
        return -1;
    }
    for (int i = 0; i < PROBLEMS && result == 0; i++) {
        struct trial_shape shape;
        struct trial_result found;
        char what[160];
        trial_random(v, state, &shape);
        trial_describe(&shape, what, sizeof what);
        snprintf(out->at, sizeof out->at, "%s: %s", name, what);
        uint64_t seed = random_next(state);
        result = trial_create(v, &shape, seed, &trial, &err);
        if (result == 0)
            result = trial_run(trial, &kernel, kernel.run ? 2 : 1, 0, &found, &err);
        trial_free(trial);
        trial = NULL;
        if (result != 0)
            break;
        out->problems++;
        if (found.check.bound > 0 && found.check.error > out->nearest * found.check.bound)
            out->nearest = found.check.error / found.check.bound;
    }
    kernel_free(&kernel);
    out->kernels += result == 0;
    if (result != 0)
        snprintf(out->why, sizeof out->why, "%s", err.text);
    return result;
}

/* In a child: everything that is opened here ends with it. */
static int check_part(const struct part *p, struct outcome *out)
{
    struct gen_error err = {0};
    struct gen *gen;
    struct devices *devices;
    struct device *device;
    struct variant v, *space = malloc(SPACE_MOST * sizeof *space);
    uint64_t state = p->seed;
    if (!space || gen_open(&gen, &err) != 0) {
        snprintf(out->why, sizeof out->why, "%s", space ? err.text : "out of memory");
        return -1;
    }
    const struct resources resources = {.gen = gen};
    if (devices_open(&resources, &devices, &err) != 0 ||
        devices_find(devices, p->device, p->compiler, &device, &err) != 0) {
        snprintf(out->why, sizeof out->why, "%s", err.text);
        return out->skipped = out->no_device = out->absent = true;
    }
    const char *why = device->only ? "it computes by the definition itself" : device->backend->why_not(device, p->isa);
    if (why) {
        out->no_device = device->only;
        snprintf(out->why, sizeof out->why, "%s", why);
        return out->skipped = true;
    }
    double end = timer_now() + p->seconds;
    for (int i = 0, n = count_cases(p->isa); i < n || timer_now() < end; i++) {
        if (!draw_variant(device, p->isa, i % n, space, &state, &v, &err))
            continue; /* no kernel of this isa has that feature */
        if (check_kernel(device, &v, &state, out) != 0)
            return -1;
    }
    if (out->kernels)
        return 0;
    snprintf(out->why, sizeof out->why, "%s", err.text);
    return out->skipped = true;
}

/* ---- the cache ---- */

/* A winner is stored, and a second context finds it. If this process is killed meanwhile, the next one that makes such a folder
 * removes this one. */
static int check_cache(const struct part *ignored, struct outcome *out)
{
    (void)ignored;
    struct folder folder;
    struct attn_error err = {""};
    int result = -1;
    if (folder_create(&folder) != 0) {
        snprintf(out->why, sizeof out->why, "%.500s: %s; expected a place for a cache", folder.made, strerror(errno));
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        const struct attn_options options = {.size = sizeof options, .cache_dir = folder.path};
        const struct attn_problem problem = {.size = sizeof problem,
                                             .head_dim = 32,
                                             .heads = 1,
                                             .kv_heads = 1,
                                             .max_batch = 1,
                                             .max_q_len = 32,
                                             .max_kv_len = 32,
                                             .threads = 1,
                                             .rigor = ATTN_MEASURE,
                                             .time_limit = 2};
        struct attn_context *context = NULL;
        struct attn_plan *plan = NULL;
        struct attn_plan_info info = {.size = sizeof info};
        snprintf(out->at, sizeof out->at, i ? "looking it up" : "tuning");
        result = -1;
        if (attn_context_create(&options, &context, &err) == ATTN_OK &&
            attn_plan_create(context, &problem, &plan, &err) == ATTN_OK &&
            attn_plan_describe(plan, &info, &err) == ATTN_OK)
            result = info.cached == i ? 0 : -1;
        if (result != 0 && !err.text[0])
            snprintf(err.text, sizeof err.text,
                     i ? "the winner was not found again" : "a new cache already has a winner");
        attn_plan_destroy(plan);
        attn_context_destroy(context);
        if (result != 0)
            break;
    }
    folder_remove(&folder);
    snprintf(out->why, sizeof out->why, "%s", result ? err.text : "");
    return result;
}

/* ---- parts ---- */

typedef int part_function(const struct part *p, struct outcome *out);

static void in_child(part_function *function, const struct part *p, struct outcome *out)
{
    memset(out, 0, sizeof *out);
    fflush(NULL);
    const pid_t parent = getpid();
    pid_t child = fork();
    int status = 0;
    if (child < 0) {
        snprintf(out->why, sizeof out->why, "cannot fork: %s", strerror(errno));
        return;
    }
    if (child == 0) {
        process_end_with(parent);
        process_end_if_hanging(TIMEOUT);
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC); /* where drivers' remarks go; failures go to `out` */
        if (null >= 0)
            dup2(null, STDERR_FILENO);
        int result = function(p, out);
        out->done = result == 0;
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!process_hung(status, TIMEOUT, out->why, sizeof out->why) && WIFSIGNALED(status))
        snprintf(out->why, sizeof out->why, "it crashed (%s)", strsignal(WTERMSIG(status)));
}

struct session {
    struct options options;
    struct outcome *out;
    struct buf json;
    int failed, parts;
};

static void report(struct session *s, const char *label)
{
    const struct outcome *o = s->out;
    const char *state = o->done ? "right" : o->skipped ? "skipped" : "failed";
    s->failed += !o->done && !o->skipped;
    if (s->options.json) {
        buf_puts(&s->json, s->parts ? ", {\"part\": " : "{\"part\": ");
        json_text(&s->json, label);
        buf_printf(&s->json, ", \"state\": \"%s\"", state);
        if (o->done)
            buf_printf(&s->json, ", \"kernels\": %d, \"problems\": %d", o->kernels, o->problems);
        else {
            buf_puts(&s->json, ", \"reason\": ");
            json_text(&s->json, o->why);
        }
        buf_putc(&s->json, '}');
    } else if (o->done && o->kernels)
        print_line(stdout, "%-24s right    %d kernels, %d problems; the largest error is %.0f %% of its bound", label,
                   o->kernels, o->problems, 100 * o->nearest);
    else if (o->done)
        print_line(stdout, "%-24s right", label);
    else if (o->skipped)
        print_line(stdout, "%-24s skipped  %s", label, o->why);
    else
        print_line(stdout, "%-24s failed", label);
    s->parts++;
    if (!o->done && !o->skipped)
        print_line(stderr, "attngen selftest: error: %s: %s: %s", label, o->at, o->why);
}

static void check_device(struct session *s, const char *device, attn_compiler compiler, uint64_t seed)
{
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        char label[64];
        const struct part p = {.device = device,
                               .compiler = compiler,
                               .isa = (enum isa)isa,
                               .seed = seed + (uint64_t)isa,
                               .seconds = s->options.time_limit > 0 ? s->options.time_limit : PART_SECONDS};
        bool in_c = isa_language((enum isa)isa) == LANGUAGE_C;
        if (in_c != device_compiles_c(device))
            continue;
        snprintf(label, sizeof label, "%s %s%s", device, isas[isa].name, compiler == ATTN_CC ? " by cc" : "");
        in_child(check_part, &p, s->out);
        if (s->out->absent && s->options.file[OPTION_DEVICE]) {
            snprintf(s->out->at, sizeof s->out->at, "this device cannot be used here");
            s->out->skipped = false;
        }
        if (s->out->no_device) /* the same for every isa */
            snprintf(label, sizeof label, "%s%s", device, compiler == ATTN_CC ? " by cc" : "");
        report(s, label);
        if (s->out->no_device)
            return;
    }
}

/* The names of the devices: for a numbered backend those that exist, or one line that says that there is none. */
static int count_devices(const struct part *p, struct outcome *out)
{
    const struct resources none = {.gen = NULL};
    struct devices *devices;
    struct gen_error err = {0};
    if (devices_open(&none, &devices, &err) == 0)
        out->kernels = devices_count(devices, p->device);
    return 0;
}

static void check_backend(struct session *s, const char *name, bool numbered, uint64_t seed)
{
    char device[32];
    const char *wanted = s->options.file[OPTION_DEVICE];
    int index = -1;
    if (wanted && device_parse(wanted, &index) != device_parse(name, &(int){0}))
        return;
    if (wanted && index >= 0) {
        check_device(s, wanted, ATTN_TCC, seed);
        return;
    }
    if (!numbered) {
        check_device(s, name, ATTN_TCC, seed);
        if (device_compiles_c(name))
            check_device(s, name, ATTN_CC, seed);
        return;
    }
    in_child(count_devices, &(struct part){.device = name}, s->out);
    int n = s->out->kernels;
    for (int i = 0; i < n; i++) {
        snprintf(device, sizeof device, "%s:%d", name, i);
        check_device(s, device, ATTN_TCC, seed);
    }
    if (n == 0)
        check_device(s, name, ATTN_TCC, seed);
}

int cli_selftest(int argc, char **argv)
{
    struct session s = {.failed = 0};
    int code = CLI_OK;
    if (!options_begin(&verb_selftest, argc, argv, &s.options, &code))
        return code;
    s.out = mmap(NULL, sizeof *s.out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.out == MAP_FAILED) {
        print_line(stderr, "attngen selftest: error: out of memory");
        return CLI_FAILED;
    }
    const char *given = getenv("ATTN_SEED");
    uint64_t seed = given && *given ? strtoull(given, NULL, 10) : (uint64_t)(timer_now() * 1e6);
    if (s.options.json)
        buf_printf(&s.json, "{\"seed\": %llu, \"parts\": [", (unsigned long long)seed);
    else
        printf("seed %llu (ATTN_SEED sets another)\n", (unsigned long long)seed);
#define CHECK(name, numbered, in_c) check_backend(&s, #name, numbered, seed);
    BACKENDS(CHECK)
#undef CHECK
    in_child(check_cache, NULL, s.out);
    report(&s, "cache");
    if (s.options.json) {
        buf_printf(&s.json, "], \"failed\": %d}", s.failed);
        if (buf_ok(&s.json))
            puts(s.json.data);
        buf_free(&s.json);
    }
    munmap(s.out, sizeof *s.out);
    return s.failed ? CLI_FAILED : CLI_OK;
}
