/* bench_shapes.c - `attngen bench` over the shapes of specs/bench.shapes: a table, out/bench/bench.csv with all that it
 * says, and out/bench/bench.svg. Run it from the repository's root. What it is not: a comparison; points are measured
 * one after the other, and what shares the machine then is in them. Exits 1 when something does not work. */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../gen/yaml.h"
#include "runtime/attn.h"
#include "runtime/cpu/processor.h"
#include "runtime/system/process.h"
#include "runtime/system/timer.h"
#include "plot.h"

static const char LIST[] = "specs/bench.shapes", DIR[] = "out/bench", CSV[] = "out/bench/bench.csv",
                  SVG[] = "out/bench/bench.svg";
static const double PATIENCE = 120; /* seconds, for one call of attngen */
static const double RETRIES = 75;   /* seconds from the start in which noisy points are tried again */

enum key { HEADS, LENGTHS, HEAD_DIM, DTYPE, CAUSAL, DEVICE, THREADS, SECONDS, KEYS };
static const char *const key_names[KEYS] = {"heads",  "lengths", "head_dim", "dtype",
                                            "causal", "device",  "threads",  "seconds"};
enum { VALUES = 12 };
struct values {
    const char *text[VALUES]; /* as attngen takes them, and judges them */
    int count;
};

struct series {
    const char *device, *threads, *dtype;
    char name[48];
    double peak; /* the highest that any point tells */
};

struct bench {
    struct yaml yaml;
    bool open; /* yaml */
    struct values list[KEYS];
    struct series series[PLOT_LINES];
    int count;
    char program[4096];
    double retry_until;
    FILE *csv;
    struct plot_panel panel[PLOT_PANELS];
    int panels;
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_shapes: error: %s: %s\n", what, why);
    return -1;
}

/* ---- the list ---- */
static int add_value(struct bench *b, struct values *v, const struct yaml_node *node, struct gen_error *err)
{
    if (node->kind != YAML_SCALAR)
        return yaml_fail(&b->yaml, node, err, "a nested value; expected a number or a word");
    if (v->count == VALUES)
        return yaml_fail(&b->yaml, node, err, "more values than fit; expected at most %d", VALUES);
    v->text[v->count++] = node->text;
    return 0;
}

static int read_key(struct bench *b, const struct yaml_node *node, struct gen_error *err)
{
    char shown[48];
    int k = 0, status = 0;
    while (k < KEYS && strcmp(key_names[k], node->key->text) != 0)
        k++;
    if (k == KEYS || b->list[k].count)
        return yaml_fail(&b->yaml, node->key, err,
                         "key '%s'; expected each of heads, lengths, head_dim, dtype, causal, "
                         "device, threads, seconds once",
                         yaml_show(node->key->text, shown));
    if (node->kind == YAML_SCALAR)
        return add_value(b, &b->list[k], node, err);
    for (const struct yaml_node *item = node->child; item && status == 0; item = item->next)
        status = add_value(b, &b->list[k], item, err);
    return status;
}

static int read_list(struct bench *b)
{
    struct gen_error err;
    if (yaml_open(LIST, &b->yaml, &err) != 0)
        return fail("list", err.text);
    b->open = true;
    const struct yaml_node *root = b->yaml.root;
    int status = root && root->kind == YAML_MAP ? 0 : yaml_fail(&b->yaml, root, &err, "no mapping; expected keys");
    for (const struct yaml_node *n = root ? root->child : NULL; n && status == 0; n = n->next)
        status = read_key(b, n, &err);
    for (int k = 0; k < KEYS && status == 0; k++)
        if (!b->list[k].count)
            status = yaml_fail(&b->yaml, root, &err, "no value for '%s'; expected one", key_names[k]);
    if (status == 0 &&
        (b->list[LENGTHS].count > PLOT_POINTS || b->list[HEAD_DIM].count * b->list[CAUSAL].count > PLOT_PANELS))
        status = yaml_fail(&b->yaml, root, &err, "more panels or points than the drawing has room for");
    return status == 0 ? 0 : fail("list", err.text);
}

/* Whether the device is here; if not, says why. */
static bool has_device(const char *device)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    const struct attn_problem problem = {.size = sizeof problem,
                                         .head_dim = 64,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .max_batch = 1,
                                         .max_q_len = 128,
                                         .max_kv_len = 128,
                                         .device = device};
    struct attn_context *context = NULL;
    struct attn_error err;
    attn_status status = attn_context_create(&options, &context, &err);
    if (status == ATTN_OK)
        status = attn_supports(context, &problem, &err);
    attn_context_destroy(context);
    if (status != ATTN_OK)
        printf("%s is left out: %s\n", device, err.text);
    return status == ATTN_OK;
}

static void add_series(struct bench *b, const char *device, const char *threads)
{
    for (int t = 0; t < b->list[DTYPE].count && b->count < PLOT_LINES; t++) {
        struct series *s = &b->series[b->count++];
        *s = (struct series){.device = device, .threads = threads, .dtype = b->list[DTYPE].text[t]};
        snprintf(s->name, sizeof s->name, "%s%s%s%s, %s", device, threads ? ", " : "", threads ? threads : "",
                 !threads                    ? ""
                 : strcmp(threads, "1") == 0 ? " thread"
                                             : " threads",
                 s->dtype);
    }
}

static void make_series(struct bench *b)
{
    for (int d = 0; d < b->list[DEVICE].count; d++) {
        const char *device = b->list[DEVICE].text[d];
        if (!has_device(device))
            continue;
        if (strcmp(device, "cpu") != 0)
            add_series(b, device, NULL);
        else
            for (int i = 0; i < b->list[THREADS].count; i++)
                add_series(b, device, b->list[THREADS].text[i]);
    }
}

/* ---- one point ---- */
static double number(const cJSON *object, const char *group, const char *name)
{
    const cJSON *at = group ? cJSON_GetObjectItemCaseSensitive(object, group) : object;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(at, name);
    return cJSON_IsNumber(value) ? value->valuedouble : -1;
}

static const char *word(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static bool is_noisy(const cJSON *json)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "noisy"));
}

/* What bench says of the point, for cJSON_Delete; NULL when it fails. */
static cJSON *run_bench(const struct bench *b, const struct series *s, const char *shape, bool causal)
{
    char said[8192], *argv[20];
    const char *const fixed[] = {b->program,
                                 "bench",
                                 "--json",
                                 "--shape",
                                 shape,
                                 "--dtype",
                                 s->dtype,
                                 "--device",
                                 s->device,
                                 "--time-limit",
                                 b->list[SECONDS].text[0]};
    int n = 0;
    struct gen_error err;
    for (; n < (int)(sizeof fixed / sizeof *fixed); n++)
        argv[n] = (char *)fixed[n];
    if (s->threads) {
        argv[n++] = "--threads";
        argv[n++] = (char *)s->threads;
    }
    if (causal)
        argv[n++] = "--causal";
    argv[n] = NULL;
    if (process_run(argv, NULL, PATIENCE, said, sizeof said, &err) != 0) {
        fail(shape, err.text);
        fputs(said, stderr);
        return NULL;
    }
    const char *object = strchr(said, '{'); /* warnings may stand before it */
    cJSON *json = cJSON_Parse(object ? object : said);
    if (!json || number(json, "gflops", "max") < 0 || number(json, "ms", "min") < 0) {
        fail(shape, "bench --json did not print the object that it should");
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

static void write_csv(FILE *f, const cJSON *json, const struct series *s, const char *shape, bool causal)
{
    fprintf(f, "\"%s\",%s,%s,%s,%s,%s,%.0f,%.0f,%s,%.6f,%.6f,%.2f,%.2f,%.3f,%.2f\n", shape, s->dtype,
            causal ? "causal" : "full", word(json, "variant"), word(json, "device"), word(json, "compiler"),
            number(json, NULL, "threads"), number(json, NULL, "samples"), is_noisy(json) ? "true" : "false",
            number(json, "ms", "min"), number(json, "ms", "median"), number(json, "gflops", "max"),
            number(json, "gflops", "median"), number(json, NULL, "gbps"), number(json, NULL, "peak_gflops"));
    fflush(f);
}

/* Tries again if the first try was noisy and there is time, and takes the better of the two. */
static cJSON *run_point(const struct bench *b, const struct series *s, const char *shape, bool causal)
{
    cJSON *first = run_bench(b, s, shape, causal);
    if (!first || !is_noisy(first) || timer_now() > b->retry_until)
        return first;
    cJSON *second = run_bench(b, s, shape, causal);
    bool better = !second || number(second, "gflops", "max") > number(first, "gflops", "max");
    cJSON_Delete(better ? first : second);
    return better ? second : first;
}

static int measure_point(struct bench *b, struct plot_line *line, struct series *s, const char *n, const char *dim,
                         bool causal)
{
    char shape[160];
    const char *heads = b->list[HEADS].text[0];
    snprintf(shape, sizeof shape, "1,%s,%s,%s,%s,%s", heads, heads, n, n, dim);
    cJSON *json = run_point(b, s, shape, causal);
    if (!json)
        return -1;
    double gflops = number(json, "gflops", "max"), peak = number(json, NULL, "peak_gflops");
    printf(" %12.1f%s", gflops, is_noisy(json) ? "~" : " ");
    fflush(stdout);
    write_csv(b->csv, json, s, shape, causal);
    line->x[line->points] = atof(n);
    line->y[line->points++] = gflops;
    s->peak = peak > s->peak ? peak : s->peak;
    cJSON_Delete(json);
    return 0;
}

/* ---- all of them ---- */
static const char *color_of(const struct bench *b, int series)
{
    static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};
    int dtypes = b->list[DTYPE].count;
    return colors[series / dtypes % (int)(sizeof colors / sizeof *colors)];
}

static int measure_panel(struct bench *b, const char *dim, bool causal)
{
    struct plot_panel *p = &b->panel[b->panels++];
    const char *mask = causal ? "causal" : "full";
    snprintf(p->title, sizeof p->title, "D = %s, %s", dim, mask);
    p->lines = b->count;
    for (int i = 0; i < b->count; i++) {
        p->line[i].color = color_of(b, i);
        p->line[i].hollow = i % b->list[DTYPE].count != 0;
        memcpy(p->line[i].name, b->series[i].name, sizeof p->line[i].name);
    }
    for (int k = 0; k < b->list[LENGTHS].count; k++) {
        const char *n = b->list[LENGTHS].text[k];
        printf("%6s %5s %-6s", n, dim, mask);
        for (int i = 0; i < b->count; i++)
            if (measure_point(b, &p->line[i], &b->series[i], n, dim, causal) != 0)
                return -1;
        printf("\n");
    }
    return 0;
}

/* Peaks that are nearly the same share a line. */
static void add_levels(const struct bench *b, struct plot *plot)
{
    for (int i = 0; i < b->count; i++) {
        const struct series *s = &b->series[i];
        bool seen = s->peak <= 0 || plot->levels == PLOT_LEVELS;
        for (int l = 0; l < plot->levels; l++)
            seen |= s->peak > 0.93 * plot->level[l].y && s->peak < 1.07 * plot->level[l].y;
        if (seen)
            continue;
        struct plot_level *level = &plot->level[plot->levels++];
        level->y = s->peak;
        /* the first type need not be named */
        int length = (int)(i % b->list[DTYPE].count ? strlen(s->name) : strlen(s->name) - strlen(s->dtype) - 2);
        snprintf(level->name, sizeof level->name, "peak: %.*s", length < 40 ? length : 40, s->name);
    }
}

static int draw(const struct bench *b)
{
    struct cpu cpu;
    char title[160], note[160];
    cpu_detect(&cpu);
    snprintf(title, sizeof title, "Attention forward, %s", cpu.model);
    snprintf(note, sizeof note,
             "attngen bench, kernels by estimate or from the cache; batch 1, %s heads, best sample of "
             "at most %s s a point",
             b->list[HEADS].text[0], b->list[SECONDS].text[0]);
    struct plot plot = {.title = title,
                        .note = note,
                        .x_name = "sequence length N (queries and keys)",
                        .y_name = "GFLOP/s",
                        .panels = b->panels,
                        .columns = b->list[CAUSAL].count,
                        .levels_are = "sustained rate of multiply-adds alone, measured in the same run",
                        .panel = (struct plot_panel *)b->panel};
    add_levels(b, &plot);
    return plot_write(&plot, SVG) == 0 ? 0 : fail(SVG, "cannot be written");
}

static int measure_all(struct bench *b)
{
    mkdir("out", 0777);
    mkdir(DIR, 0777);
    b->csv = fopen(CSV, "w");
    if (!b->csv)
        return fail(CSV, "cannot be written");
    fputs(
        "shape,dtype,mask,variant,device,compiler,threads,samples,noisy,ms_min,ms_median,gflops_max,gflops_median,gbps,"
        "peak_gflops\n",
        b->csv);
    printf("GFLOP/s, best sample; ~ marks what never became quiet\n%6s %5s %-6s", "N", "D", "mask");
    for (int i = 0; i < b->count; i++) {
        char head[80];
        const struct series *s = &b->series[i];
        snprintf(head, sizeof head, "%s%s%s %s", s->device, s->threads ? "/" : "", s->threads ? s->threads : "",
                 s->dtype);
        printf(" %12s ", head);
    }
    printf("\n");
    for (int d = 0; d < b->list[HEAD_DIM].count; d++)
        for (int c = 0; c < b->list[CAUSAL].count; c++)
            if (measure_panel(b, b->list[HEAD_DIM].text[d], strcmp(b->list[CAUSAL].text[c], "true") == 0) != 0)
                return -1;
    bool bad = ferror(b->csv) != 0;
    bad |= fclose(b->csv) != 0;
    b->csv = NULL;
    return bad ? fail(CSV, "cannot be written") : draw(b);
}

/* attngen is two directories above: out/bin/tests/bench/bench_shapes. */
static int find_program(struct bench *b)
{
    ssize_t n = readlink("/proc/self/exe", b->program, sizeof b->program - 16);
    for (int up = 0; up < 3 && n > 0; up++)
        while (n > 0 && b->program[--n] != '/')
            ;
    if (n <= 0)
        return fail("attngen", "not found from this program's own path");
    strcpy(b->program + n, "/attngen");
    return access(b->program, X_OK) == 0 ? 0 : fail(b->program, "cannot be run");
}

int main(void)
{
    struct bench *b = calloc(1, sizeof *b);
    int status = -1;
    setenv("POCL_AFFINITY", "1", 0); /* PoCL too binds its threads to a core each, as bench does */
    if (!b || find_program(b) != 0 || read_list(b) != 0)
        goto cleanup;
    make_series(b);
    b->retry_until = timer_now() + RETRIES;
    status = measure_all(b);
    if (status == 0)
        printf("%s and %s are written\n", CSV, SVG);
cleanup:
    if (b && b->csv)
        fclose(b->csv);
    if (b && b->open)
        yaml_close(&b->yaml);
    free(b);
    return status == 0 ? 0 : 1;
}
