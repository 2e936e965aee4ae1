/* report.c - `attngen report -o FILE.html`: one page about what the cache knows of this machine, with measured ceilings
 * beside it. It gathers the data; report_page.c writes the page. What it is not: a tuning; it times nothing but
 * ceilings. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/gen.h"
#include "cache/cache.h"
#include "devices/devices.h"
#include "devices/list.h"
#include "system/threads.h"
#include "system/timer.h"
#include "tune/search.h"
#include "tune/tune.h"
#include "cli.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "print.h"
#include "report_page.h"

const struct verb verb_report = {
    .name = "report",
    .doc = "write a page about what tuning found on this machine",
    .usage = "report -o FILE.html [--quiet | --json]",
    .text = "Writes one HTML file that needs no other: the devices here, a table of all that was tuned, a\n"
            "roofline whose ceilings are measured now, times by tile size, and shares of\n"
            "the peak by length and by device. Entries of other machines are only counted.",
    .example = "attngen report -o tuned.html",
    .exits = "the cache has no entry of this machine, or FILE cannot be\nwritten",
    .options = OPTION_BIT(OPTION_OUT_DIR) | OPTION_BIT(OPTION_QUIET) | OPTION_BIT(OPTION_JSON),
    .required = OPTION_BIT(OPTION_OUT_DIR),
    .own = (const struct own_words[]){{OPTION_OUT_DIR, "FILE", "the file to write"}, {.doc = NULL}},
};

enum { MOST_DEVICES = 32, READ_BYTES = 256 << 20, READ_TIMES = 5 };

/* A device with one compiler, and the lines that it adds to a tuning's key. */
struct known_device {
    struct device *device;
    char label[48];
};

struct session {
    struct options options;
    struct gen *gen;
    struct cache *cache;
    struct pool *pool;
    struct resources resources;
    struct devices *devices;
    struct known_device known[MOST_DEVICES];
    int knowns;
    struct timer timer;
    struct report report;
};

/* ---- devices ---- */

static void add_device(struct session *s, const char *name, attn_compiler compiler)
{
    struct gen_error ignored = {0};
    struct known_device *k = &s->known[s->knowns];
    if (s->knowns == MOST_DEVICES || devices_find(s->devices, name, compiler, &k->device, &ignored) != 0 ||
        k->device->only)
        return;
    snprintf(k->label, sizeof k->label, "%s%s%s", k->device->name, k->device->units ? "" : " by ",
             k->device->units ? "" : k->device->compiler);
    s->knowns++;
}

static void add_backend(struct session *s, const char *name, bool numbered)
{
    if (!numbered) {
        add_device(s, name, ATTN_TCC);
        add_device(s, name, ATTN_CC);
        return;
    }
    for (int i = 0, n = devices_count(s->devices, name); i < n; i++) {
        char one[32];
        snprintf(one, sizeof one, "%s:%d", name, i);
        add_device(s, one, ATTN_TCC);
    }
}

/* The one on which an entry was tuned, with so many threads; NULL: another machine, another version, or none here. */
static const struct known_device *device_of(const struct session *s, const struct cache_entry *entry, int threads)
{
    char generator[40];
    snprintf(generator, sizeof generator, "\ngenerator %016llx\n", (unsigned long long)gen_hash());
    if (!strstr(entry->key, generator))
        return NULL;
    for (int i = 0; i < s->knowns; i++) {
        struct buf lines = {0};
        struct gen_error ignored = {0};
        const struct device *d = s->known[i].device;
        bool same = d->backend->key(d, tune_threads(d, threads), &lines, &ignored) == 0 && buf_ok(&lines) &&
                    lines.size && strstr(entry->key, lines.data);
        buf_free(&lines);
        if (same)
            return &s->known[i];
    }
    return NULL;
}

/* ---- ceilings ---- */

struct reading {
    const uint64_t *data;
    size_t words;
    int parts;
    uint64_t sum[1024];
};

static void read_part(void *arg, int part)
{
    struct reading *r = arg;
    size_t from = r->words / (size_t)r->parts * (size_t)part, to = from + r->words / (size_t)r->parts;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = from; i + 4 <= to; i += 4) {
        a += r->data[i];
        b ^= r->data[i + 1];
        c += r->data[i + 2];
        d ^= r->data[i + 3];
    }
    r->sum[part] = a + b + c + d;
}

/* GB per second that all threads read from memory; 0: there was no memory for the test. */
static double measure_reading(const struct session *s)
{
    struct reading r = {.words = READ_BYTES / sizeof(uint64_t), .parts = pool_threads(s->pool)};
    uint64_t *data = malloc(READ_BYTES);
    double best = 0;
    volatile uint64_t kept = 0;
    if (!data)
        return 0;
    r.parts = r.parts > 1024 ? 1024 : r.parts;
    for (size_t i = 0; i < r.words; i++)
        data[i] = i;
    r.data = data;
    for (int i = 0; i < READ_TIMES; i++) {
        double start = timer_now();
        pool_run(s->pool, r.parts, read_part, &r);
        double rate = READ_BYTES / (timer_now() - start) * 1e-9;
        best = rate > best ? rate : best;
        kept = kept + r.sum[0];
    }
    free(data);
    return best;
}

/* Measured when it is first needed; 0: it cannot be. */
static double ceiling(struct session *s, const struct known_device *k, enum dtype dtype, int threads)
{
    struct report *r = &s->report;
    for (int i = 0; i < r->ceilings; i++)
        if (r->ceiling[i].dtype == dtype && r->ceiling[i].threads == threads && !strcmp(r->ceiling[i].device, k->label))
            return r->ceiling[i].gflops;
    if (r->ceilings == REPORT_CEILINGS || !k->device->backend->peak)
        return 0;
    struct report_ceiling *c = &r->ceiling[r->ceilings++];
    *c = (struct report_ceiling){.dtype = dtype, .threads = threads};
    snprintf(c->device, sizeof c->device, "%s", k->label);
    c->gflops = k->device->backend->peak(k->device, &s->timer, threads, dtype);
    return c->gflops;
}

/* ---- entries ---- */

static bool key_number(const char *key, const char *word, int *out)
{
    char line[32];
    snprintf(line, sizeof line, "\n%s ", word);
    const char *at = strstr(key, line);
    return at && sscanf(at + strlen(line), "%d", out) == 1;
}

static bool read_target(const struct cache_entry *entry, const struct cache_row *winner, struct tune_target *out)
{
    struct gen_error ignored = {0};
    const char *bucket = strstr(entry->key, "\nbucket ");
    long long batch, q, kv;
    memset(out, 0, sizeof *out);
    if (!bucket || variant_decode(winner->name, &out->caller, &ignored) != 0 ||
        sscanf(bucket, "\nbucket %lld,%d,%d,%lld,%lld", &batch, &out->heads, &out->kv_heads, &q, &kv) != 5)
        return false;
    out->batch = batch;
    out->q_len = q;
    out->kv_len = kv;
    key_number(entry->key, "threads", &out->threads);
    return true;
}

/* Of Q, K, V and O, each once. */
static double bytes_of(const struct tune_target *t)
{
    const struct variant *v = &t->caller;
    double d = variant_head_dim(v), dv = variant_head_dim_v(v);
    double query = d * (double)dtype_size((enum dtype)v->field[F_DTYPE]) + dv * (double)dtype_size(variant_dtype_o(v));
    double key = (d + dv) * (double)dtype_size(variant_dtype_kv(v));
    return (double)t->batch * (t->heads * (double)t->q_len * query + t->kv_heads * (double)t->kv_len * key);
}

static void gather(void *user, const char *path, const struct cache_entry *entry)
{
    struct session *s = user;
    struct report *r = &s->report;
    const struct cache_row *winner = cache_winner(entry);
    struct tune_target target;
    (void)path;
    if (!winner || !read_target(entry, winner, &target)) {
        r->foreign++;
        return;
    }
    const struct known_device *k = device_of(s, entry, target.threads);
    if (!k) {
        r->foreign++;
        return;
    }
    struct report_entry *more = realloc(r->entry, (size_t)(r->entries + 1) * sizeof *more);
    if (!more) {
        r->lost = true;
        return;
    }
    r->entry = more;
    struct report_entry *e = &r->entry[r->entries];
    target.threads = target.threads ? target.threads : tune_threads(k->device, s->report.threads);
    struct tune_target timed = search_problem(k->device, &target);
    *e = (struct report_entry){.batch = target.batch,
                               .heads = target.heads,
                               .kv_heads = target.kv_heads,
                               .q_len = target.q_len,
                               .kv_len = target.kv_len,
                               .threads = target.threads,
                               .known = entry->n,
                               .seconds = winner->min_s,
                               .noisy = winner->noisy};
    snprintf(e->device, sizeof e->device, "%s", k->label);
    snprintf(e->winner, sizeof e->winner, "%s", winner->name);
    snprintf(e->problem, sizeof e->problem, "%.*s",
             (int)(strstr(winner->name, "_on_") ? strstr(winner->name, "_on_") - winner->name : 0), winner->name);
    e->gflops = search_flops(&timed) / winner->min_s * 1e-9;
    e->intensity = search_flops(&timed) / bytes_of(&timed);
    e->dtype = variant_dtype_kv(&target.caller) == (enum dtype)target.caller.field[F_DTYPE]
                   ? (enum dtype)target.caller.field[F_DTYPE]
                   : DTYPE_F32; /* mixed types are multiplied as f32 */
    e->on_processor = k->device->on_cores && !k->device->units;
    e->row = calloc((size_t)entry->n + 1, sizeof *e->row);
    for (int i = 0; e->row && i < entry->n; i++) {
        struct gen_error ignored = {0};
        if (!(entry->rows[i].min_s > 0) || entry->rows[i].state == CACHE_WRONG ||
            variant_decode(entry->rows[i].name, &e->row[e->rows].variant, &ignored) != 0)
            continue;
        e->row[e->rows++].seconds = entry->rows[i].min_s;
    }
    r->lost |= !e->row;
    r->entries++;
}

static int by_problem(const void *a, const void *b)
{
    const struct report_entry *x = a, *y = b;
    int order = strcmp(x->problem, y->problem);
    order = order ? order : strcmp(x->device, y->device);
    order = order ? order : (x->threads > y->threads) - (x->threads < y->threads);
    order = order ? order : (x->q_len > y->q_len) - (x->q_len < y->q_len);
    return order ? order : (x->kv_len > y->kv_len) - (x->kv_len < y->kv_len);
}

/* ---- the verb ---- */

static int fail(const char *text)
{
    print_failure("report", text);
    return CLI_FAILED;
}

static int write_page(const struct session *s)
{
    const char *path = s->options.file[OPTION_OUT_DIR];
    struct buf page = {0};
    char text[4300];
    int code = CLI_FAILED;
    report_page(&s->report, &page);
    if (!buf_ok(&page))
        fail("out of memory");
    else if (output_write(path, page.data, page.size) != 0) {
        snprintf(text, sizeof text, "%.4096s: error: %s; expected a file to write the page to", path, strerror(errno));
        fail(text);
    } else
        code = CLI_OK;
    buf_free(&page);
    return code;
}

static int print_done(const struct session *s)
{
    const char *path = s->options.file[OPTION_OUT_DIR];
    if (!s->options.json) {
        print_line(stdout, "%s: %d %s of this machine, %d of others", path, s->report.entries,
                   s->report.entries == 1 ? "entry" : "entries", s->report.foreign);
        return CLI_OK;
    }
    struct buf json = {0};
    buf_puts(&json, "{\"file\": ");
    json_text(&json, path);
    buf_printf(&json, ", \"entries\": %d, \"of_other_machines\": %d}", s->report.entries, s->report.foreign);
    int code = buf_ok(&json) ? CLI_OK : fail("out of memory");
    if (code == CLI_OK)
        puts(json.data);
    buf_free(&json);
    return code;
}

static int make(struct session *s)
{
    struct report *r = &s->report;
    struct gen_error err = {0};
    r->threads = cores();
    if (gen_open(&s->gen, &err) != 0)
        return fail(err.text);
    if (cache_open(NULL, print_cache_warning, "report", &s->cache) != 0 || pool_create(r->threads, &s->pool) != 0)
        return fail("out of memory");
    s->resources = (struct resources){.gen = s->gen, .cache = s->cache, .pool = s->pool};
    if (devices_open(&s->resources, &s->devices, &err) != 0)
        return fail(err.text);
#define ADD(name, numbered, in_c) add_backend(s, #name, numbered);
    BACKENDS(ADD)
#undef ADD
    cache_list(s->cache, gather, s);
    if (r->lost)
        return fail("out of memory");
    if (r->entries == 0)
        return fail("the cache has no entry of this machine and version; expected one that `attngen tune` stored");
    qsort(r->entry, (size_t)r->entries, sizeof *r->entry, by_problem);
    timer_start(&s->timer, s->pool, r->threads);
    for (int i = 0; i < r->entries; i++)
        for (int k = 0; k < s->knowns; k++)
            if (!strcmp(s->known[k].label, r->entry[i].device))
                r->entry[i].peak = ceiling(s, &s->known[k], r->entry[i].dtype, r->entry[i].threads);
    r->read_gbs = measure_reading(s);
    devices_describe(s->devices, &r->machine);
    if (!buf_ok(&r->machine))
        return fail("out of memory");
    int code = write_page(s);
    return code == CLI_OK ? print_done(s) : code;
}

int cli_report(int argc, char **argv)
{
    struct session s = {.knowns = 0};
    int code = CLI_OK;
    if (!options_begin(&verb_report, argc, argv, &s.options, &code))
        return code;
    code = make(&s);
    for (int i = 0; i < s.report.entries; i++)
        free(s.report.entry[i].row);
    free(s.report.entry);
    buf_free(&s.report.machine);
    for (int i = 0; i < s.knowns; i++)
        device_release(s.known[i].device);
    devices_close(s.devices);
    pool_destroy(s.pool);
    cache_close(s.cache);
    gen_close(s.gen);
    return code;
}
