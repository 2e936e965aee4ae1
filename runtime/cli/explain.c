/* explain.c - `attngen explain NAME`: what a kernel's name says, what follows from it, whether it can be used here, and
 * what the cache knows about it. What it is not: a measurement; nothing is compiled. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/gen.h"
#include "cache/cache.h"
#include "devices/devices.h"
#include "cli.h"
#include "json.h"
#include "options.h"
#include "print.h"

const struct verb verb_explain = {
    .name = "explain",
    .doc = "say what a kernel's name means and what is known about it",
    .usage = "explain NAME [--json]",
    .text = "NAME is the name of a kernel, as emit, tune and run print it. Prints each parameter and its\n"
            "value; what a tile computes; registers, workspace or local memory; whether the kernel can be\n"
            "used on this machine, and how much of its cache or local memory it takes; and, for each\n"
            "entry of attngen's cache that knows the kernel, its rank and time, or why it was not timed.",
    .example = "attngen explain attn_f32_d64_causal_on_avx2_q96k128_r6x2u2",
    .exits = "NAME is not the name of a kernel, or a rule rejects the kernel",
    .options = OPTION_BIT(OPTION_JSON),
    .operand = "NAME",
    .min_operands = 1,
    .max_operands = 1,
};

struct explanation {
    bool json;
    const char *name;
    struct variant variant;
    struct gen_text text;
    struct buf out; /* of --json */
    int entries;    /* entries of the cache that know the kernel */
};

static void value_text(enum field_id f, int32_t value, char *out, size_t size)
{
    const char *word = field_value_name(f, value);
    if (fields[f].type == FIELD_BOOL)
        snprintf(out, size, "%s", value ? "true" : "false");
    else if (word)
        snprintf(out, size, "%s", word);
    else
        snprintf(out, size, "%d", value);
}

/* ---- what the name says ---- */

static void explain_fields(struct explanation *e)
{
    const char *separator = "";
    if (!e->json)
        printf("parameters\n");
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        char value[32];
        if (!variant_shows(&e->variant, f) || !field_of_op(f, (enum operation)e->variant.field[F_OP]))
            continue;
        value_text(f, e->variant.field[f], value, sizeof value);
        if (e->json) {
            buf_printf(&e->out, "%s\"%s\": \"%s\"", separator, fields[f].key, value);
            separator = ", ";
        } else
            printf("  %-12s %-10s %s\n", fields[f].key, value, fields[f].doc);
    }
}

/* ---- what follows ---- */

static void explain_micros(struct explanation *e)
{
    if (!e->json && e->text.micros)
        printf("\nmicro-kernels, each with the most registers that it needs at once\n"
               "  %-28s %8s %8s %8s %13s\n",
               "", "vectors", "masks", "integers", "instructions");
    for (int i = 0; i < e->text.micros; i++) {
        const struct gen_micro_use *m = &e->text.micro[i];
        if (e->json)
            buf_printf(&e->out, "%s{\"name\": \"%s\", \"vectors\": %d, \"masks\": %d, \"integers\": %d, \"instructions\": %d}",
                       i ? ", " : "", m->name, m->vec, m->mask, m->integer, m->instructions);
        else
            printf("  %-28s %8d %8d %8d %13d\n", m->name, m->vec, m->mask, m->integer, m->instructions);
    }
}

/* The sentences in the emitted file's head between its parameters and its contract. */
static void explain_text(struct explanation *e)
{
    const char *start = strstr(e->text.data, "\n * Parameters:"), *end = NULL;
    start = start ? strstr(start, ".\n * ") : NULL;
    end = start ? strstr(start, "\n *\n") : NULL;
    if (!start || !end) {
        buf_puts(&e->out, "null");
        return;
    }
    if (!e->json)
        printf("\nderived figures\n");
    struct buf line = {0};
    for (const char *at = start + 2; at < end;) {
        size_t size = strcspn(at, "\n");
        const char *text = size > 3 ? at + 3 : at;
        if (e->json) {
            buf_puts(&line, line.size ? " " : "");
            buf_put(&line, text, size - (size_t)(text - at));
        } else
            print_line(stdout, "  %.*s", (int)(size - (size_t)(text - at)), text);
        at += size + 1;
    }
    if (e->json && buf_ok(&line) && line.data)
        json_text(&e->out, line.data);
    buf_free(&line);
}

static void explain_launch(struct explanation *e)
{
    const struct gen_launch *l = &e->text.launch;
    if (!l->group[0])
        return;
    if (e->json)
        buf_printf(&e->out, ", \"work_group\": [%d, %d], \"local_bytes\": %lld", l->group[0], l->group[1],
                   (long long)l->local_bytes);
    else
        printf("  A work-group has %d by %d work-items.\n", l->group[0], l->group[1]);
}

/* ---- this machine ---- */

/* The kernel can be used on that device. */
static void explain_device(struct explanation *e, const struct device *device)
{
    struct buf uses = {0};
    if (device->backend->uses)
        device->backend->uses(device, &e->variant, &e->text, &uses);
    if (e->json) {
        buf_printf(&e->out, "{\"device\": \"%s\", \"usable\": true, \"uses\": ", device->name);
        json_text(&e->out, uses.data ? uses.data : "");
        buf_putc(&e->out, '}');
    } else {
        printf("\non this machine\n  It can be used on %s.\n", device->name);
        if (uses.data)
            print_line(stdout, "  %s", uses.data);
    }
    buf_free(&uses);
}

static int explain_here(struct explanation *e, struct gen_error *err)
{
    const struct resources none = {.gen = NULL};
    const enum isa isa = (enum isa)e->variant.field[F_ISA];
    struct devices *devices;
    struct device *device;
    struct gen_error reason = {0};
    const char *why = reason.text, *subject = ""; /* of why, where that is only what isas lack */
    if (devices_open(&none, &devices, err) != 0)
        return -1;
    if (devices_for(devices, isa_language(isa), &device, &reason) == 0) {
        const struct backend *b = device->backend;
        why = b->why_not(device, isa);
        subject = why ? isas[isa].name : "";
        if (!why && b->fits && b->fits(device, &e->variant, &e->text, &reason) != 0)
            why = reason.text;
        if (!why) {
            explain_device(e, device);
            goto done;
        }
    }
    if (e->json) {
        buf_puts(&e->out, "{\"usable\": false, \"reason\": ");
        json_text(&e->out, why);
        buf_putc(&e->out, '}');
    } else {
        printf("\non this machine\n");
        print_line(stdout, "  It cannot be used: %s%s%s%s.", subject[0] ? "isa " : "", subject, subject[0] ? " " : "",
                   why);
    }
done:
    devices_close(devices);
    return 0;
}

/* ---- the cache ---- */

static bool is_timed(const struct cache_row *row)
{
    return row->state == CACHE_TIMED && row->min_s > 0;
}

static void explain_rank(const struct cache_row *row, const struct cache_row *winner, int rank, int timed)
{
    const char *noisy = row->noisy ? "; the timing is noisy" : "";
    if (row == winner)
        print_line(stdout, "    rank %d of %d that were timed, with %.3f ms: the winner%s", rank, timed, row->min_s * 1e3, noisy);
    else
        print_line(stdout, "    rank %d of %d that were timed, with %.3f ms, %.2f times the time of the winner, %s%s", rank, timed,
                   row->min_s * 1e3, row->min_s / winner->min_s, winner->name, noisy);
}

static void explain_entry(void *user, const char *path, const struct cache_entry *entry)
{
    struct explanation *e = user;
    const struct cache_row *row = cache_find(entry, e->name), *winner = cache_winner(entry);
    int rank = 1, timed = 0;
    if (!row)
        return;
    for (int i = 0; i < entry->n; i++) {
        timed += is_timed(&entry->rows[i]);
        rank += is_timed(&entry->rows[i]) && entry->rows[i].min_s < row->min_s;
    }
    const char *bucket = strstr(entry->key, "\nbucket "), *threads = strstr(entry->key, "\nthreads ");
    bucket = bucket ? bucket + strlen("\nbucket ") : "";
    threads = threads ? threads + strlen("\nthreads ") : "";
    if (e->json) {
        buf_puts(&e->out, e->entries ? ", {\"file\": " : "{\"file\": ");
        json_text(&e->out, path);
        if (is_timed(row)) {
            buf_printf(&e->out, ", \"rank\": %d, \"timed\": %d, \"ms\": ", rank, timed);
            json_number(&e->out, row->min_s * 1e3);
            buf_puts(&e->out, ", \"of_winner\": ");
            json_number(&e->out, row->min_s / winner->min_s);
            buf_printf(&e->out, ", \"noisy\": %s", row->noisy ? "true" : "false");
        } else {
            buf_puts(&e->out, ", \"reason\": ");
            json_text(&e->out, row->note);
            if (row->samples > 0)
                buf_printf(&e->out, ", \"noisy\": %s", row->noisy ? "true" : "false");
        }
        buf_putc(&e->out, '}');
    } else {
        if (!e->entries)
            printf("\nin the cache\n");
        print_line(stdout, "  batch,heads,lengths %.*s%s%.*s, in %s", (int)strcspn(bucket, "\n"), bucket,
                   threads[0] ? ", threads " : "", (int)strcspn(threads, "\n"), threads, path);
        if (is_timed(row))
            explain_rank(row, winner, rank, timed);
        else
            print_line(stdout, "    %s%s", row->note, row->noisy && row->samples > 0 ? "; the timing is noisy" : "");
    }
    e->entries++;
}

static int explain_cache(struct explanation *e, struct gen_error *err)
{
    struct cache *cache = NULL;
    if (cache_open(NULL, print_cache_warning, "explain", &cache) != 0)
        return gen_out_of_memory(err, NULL);
    cache_list(cache, explain_entry, e);
    if (!e->entries && !e->json)
        printf("\nin the cache\n  no entry knows this kernel\n");
    cache_close(cache);
    return 0;
}

/* ---- the verb ---- */

static int explain(struct explanation *e, struct gen_error *err)
{
    struct gen *gen;
    if (variant_decode(e->name, &e->variant, err) != 0 || gen_open(&gen, err) != 0)
        return -1;
    int result = gen_emit(gen, &e->variant, GEN_READABLE, &e->text, err);
    gen_close(gen);
    if (result != 0)
        return -1;
    buf_printf(&e->out, "{\"variant\": \"%s\", \"fields\": {", e->name);
    explain_fields(e);
    buf_puts(&e->out, "}, \"micro_kernels\": [");
    explain_micros(e);
    buf_puts(&e->out, "], \"follows\": ");
    explain_text(e);
    explain_launch(e);
    buf_puts(&e->out, ", \"here\": ");
    result = explain_here(e, err);
    buf_puts(&e->out, ", \"cache\": [");
    if (result == 0)
        result = explain_cache(e, err);
    buf_puts(&e->out, "]}");
    if (result == 0 && !buf_ok(&e->out))
        result = gen_out_of_memory(err, NULL);
    return result;
}

int cli_explain(int argc, char **argv)
{
    struct options options;
    struct gen_error err = {0};
    int code = CLI_OK;
    if (!options_begin(&verb_explain, argc, argv, &options, &code))
        return code;
    struct explanation e = {.json = options.json, .name = options.operand[0]};
    if (explain(&e, &err) != 0) {
        print_failure("explain", err.text);
        code = CLI_FAILED;
    } else if (e.json)
        puts(e.out.data);
    buf_free(&e.out);
    gen_text_free(&e.text);
    return code;
}
