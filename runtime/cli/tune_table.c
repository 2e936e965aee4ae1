/* tune_table.c - see tune_table.h. */
#define _GNU_SOURCE
#include "print.h"
#include "tune_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { BAR = 24, SHOWN_TIMED = 20, SHOWN = 6 };

/* The part after `_on_`, which tuning chose. */
static const char *chosen(const char *name)
{
    const char *on = strstr(name, "_on_");
    return on ? on + 4 : name;
}

static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (int i = 0; i < 3 && !(value && value[0]); i++)
        value = getenv(names[i]);
    return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

/* As many BAR characters as share says, in eighths of one if the terminal can draw them. */
static void bar(double share, bool utf8, char out[3 * BAR + 1])
{
    static const char *const part[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int eighths = (int)((share < 0 ? 0 : share > 1 ? 1 : share) * BAR * 8 + 0.5);
    out[0] = 0;
    for (int i = 0; i < eighths / 8; i++)
        strcat(out, utf8 ? "█" : "#");
    if (utf8)
        strcat(out, part[eighths % 8]);
}

struct time_text {
    char text[24];
};
static struct time_text time_text(double s)
{
    struct time_text t;
    if (s < 1e-3)
        snprintf(t.text, sizeof t.text, "%.1f us", s * 1e6);
    else
        snprintf(t.text, sizeof t.text, "%.3f ms", s * 1e3);
    return t;
}

static void print_problem(const struct tune_report *report)
{
    const struct tune_result *r = report->result;
    const struct tune_target *t = &r->timed;
    char name[GEN_NAME_MAX];
    variant_encode(&r->winner, name);
    printf("%.*s for %s on %s, %d %s%s, compiled by %s\n", (int)(chosen(name) - name - 4), name, report->shape,
           report->device->name, t->threads, report->device->workers, t->threads == 1 ? "" : "s",
           report->device->compiler);
    if (r->n && !r->from_cache)
        printf("timed as %lld,%d,%d,%lld,%lld\n", (long long)t->batch, t->heads, t->kv_heads, (long long)t->q_len,
               (long long)t->kv_len);
}

static void print_timed(const struct device *device, const struct tune_result *r)
{
    bool utf8 = is_utf8();
    char blocks[3 * BAR + 1];
    const bool known = r->peak_gflops > 0;
    if (!known)
        printf("peak: it could not be measured on %s\n\n", device->units ? "the device" : "the core");
    else
        printf("peak: %.1f GFLOP/s, the sustained multiply-add rate of %s in %s, measured just now\n\n", r->peak_gflops,
               device->units           ? "the device"
               : r->timed.threads == 1 ? "the core"
                                       : "the core, times the number of threads,",
               field_value_name(F_DTYPE, (int32_t)r->peak_dtype));
    printf("  %-28s %9s %9s %12s %9s %8s\n", "variant", "error", "bound", "time", "GFLOP/s", "of peak");
    int timed = 0;
    while (timed < r->n && r->rows[timed].state == ROW_TIMED)
        timed++;
    for (int i = 0; i < timed && i < SHOWN_TIMED; i++) {
        const struct tune_row *row = &r->rows[i];
        char share[16] = "-", mark = memcmp(&row->variant, &r->winner, sizeof row->variant) == 0 ? '*' : ' ';
        if (known)
            snprintf(share, sizeof share, "%.1f%%", 100 * row->gflops / r->peak_gflops);
        bar(row->gflops / (known ? r->peak_gflops : r->rows[0].gflops), utf8, blocks);
        printf("%c %-28s %9.1e %9.1e %12s %9.1f %8s %s%s\n", mark, chosen(row->name), row->error, row->bound,
               time_text(row->min_s).text, row->gflops, share, blocks, row->noisy ? " noisy" : "");
    }
    if (timed > SHOWN_TIMED)
        printf("  and %d more, up to %s\n", timed - SHOWN_TIMED, time_text(r->rows[timed - 1].min_s).text);
}

/* The first few of one state; for rejected ones the rules repeat, so one for each note is enough. */
static void print_others(const struct tune_result *r, int state, const char *what)
{
    int n = 0, shown = 0;
    const char *last = "";
    for (int i = 0; i < r->n; i++)
        n += (int)r->rows[i].state == state;
    if (!n)
        return;
    printf("\n%d %s\n", n, what);
    for (int i = 0; i < r->n && shown < SHOWN; i++) {
        const struct tune_row *row = &r->rows[i];
        if ((int)row->state != state || strcmp(row->note, last) == 0)
            continue;
        print_line(stdout, "  %-28s %s", chosen(row->name), row->note);
        last = row->note;
        shown++;
    }
    if (shown < n)
        printf("  and %d more\n", n - shown);
}

/* They are no worse than others, so they are only counted. */
static void print_unreached(const struct tune_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += r->rows[i].state == ROW_UNREACHED;
    if (n)
        printf("\n%d not reached %s; the next tune of this problem %s\n", n,
               r->interrupted ? "before the interrupt" : "within the time limit",
               r->interrupted ? "continues with them" : "continues with them if --time-limit is longer");
}

static int count_noisy(const struct tune_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += (r->rows[i].state == ROW_TIMED || r->rows[i].state == ROW_DROPPED) && r->rows[i].samples > 0 && r->rows[i].noisy;
    return n;
}

static void print_noisy(const struct tune_result *r)
{
    int n = count_noisy(r);
    if (n)
        printf("\n%d noisy: the machine was disturbed while %s timed; a tune that is made at least ten minutes later, on a quiet "
               "machine, times %s again\n",
               n, n == 1 ? "it was" : "they were", n == 1 ? "it" : "them");
}

static void print_winner(const struct tune_report *report)
{
    const struct tune_result *r = report->result;
    char name[GEN_NAME_MAX];
    variant_encode(&r->winner, name);
    if (r->from_cache) {
        const struct tune_row *row = &r->rows[0]; /* the fastest comes first */
        print_line(stdout, "winner %s, from the cache (%s): %s, %.1f GFLOP/s when it was timed%s", name, r->path,
               time_text(row->min_s).text, row->gflops, row->noisy ? " (noisy)" : "");
        return;
    }
    if (report->rigor == ATTN_ESTIMATE) {
        printf("winner %s, by estimate; nothing was timed or stored\n", name);
        return;
    }
    putchar('\n');
    if (r->stored)
        print_line(stdout, "winner %s, stored in %s", name, r->path);
    else
        print_line(stdout, "winner %s, not stored: %s", name, r->not_stored);
}

void tune_print_table(const struct tune_report *report)
{
    const struct tune_result *r = report->result;
    print_problem(report);
    if (!r->from_cache && report->rigor != ATTN_ESTIMATE) {
        print_timed(report->device, r);
        print_others(r, ROW_DROPPED, "dropped because they are slower");
        print_unreached(r);
        print_others(r, ROW_WRONG, "wrong");
        print_others(r, ROW_FAILED, "failed, and will be tried again next time");
        if (report->why_not)
            print_others(r, ROW_REJECTED, "rejected by a rule");
    }
    print_noisy(r);
    print_winner(report);
}

static const char *const states[] = {[ROW_TIMED] = "timed",
                                     [ROW_DROPPED] = "dropped",
                                     [ROW_UNREACHED] = "unreached",
                                     [ROW_REJECTED] = "rejected",
                                     [ROW_WRONG] = "wrong",
                                     [ROW_FAILED] = "failed"};

static void key_number(struct buf *out, const char *key, double value)
{
    buf_printf(out, ", \"%s\": ", key);
    json_number(out, value);
}

static void row_json(struct buf *out, const struct tune_row *row)
{
    buf_puts(out, "{\"variant\": ");
    json_text(out, row->name);
    buf_printf(out, ", \"state\": \"%s\"", states[row->state]);
    if (row->samples > 0) {
        key_number(out, "error", row->error);
        key_number(out, "bound", row->bound);
        buf_puts(out, ", \"ms\": {\"min\": ");
        json_number(out, row->min_s * 1e3);
        key_number(out, "median", row->median_s * 1e3);
        buf_putc(out, '}');
        key_number(out, "gflops", row->gflops);
        buf_printf(out, ", \"samples\": %d, \"noisy\": %s", row->samples, row->noisy ? "true" : "false");
    }
    if (row->note[0]) {
        buf_puts(out, ", \"note\": ");
        json_text(out, row->note);
    }
    buf_putc(out, '}');
}

void tune_print_json(const struct tune_report *report, struct buf *out)
{
    const struct tune_result *r = report->result;
    const struct tune_target *t = &r->timed;
    char name[GEN_NAME_MAX];
    variant_encode(&r->winner, name);
    buf_puts(out, "{\"variant\": ");
    json_text(out, name);
    buf_printf(out, ", \"device\": \"%s\", \"compiler\": \"%s\", \"shape\": \"%s\", \"timed\": \"%lld,%d,%d,%lld,%lld\"",
               report->device->name, report->device->compiler, report->shape, (long long)t->batch, t->heads, t->kv_heads,
               (long long)t->q_len, (long long)t->kv_len);
    buf_printf(out, ", \"dtype\": \"%s\", \"threads\": %d, \"cached\": %s, \"stored\": %s, \"path\": ",
               field_value_name(F_DTYPE, t->caller.field[F_DTYPE]), t->threads, r->from_cache ? "true" : "false",
               r->stored ? "true" : "false");
    json_text(out, r->path);
    if (r->peak_gflops > 0)
        key_number(out, "peak_gflops", r->peak_gflops);
    buf_printf(out, ", \"noisy\": %d, \"candidates\": [", count_noisy(r));
    for (int i = 0; i < r->n; i++) {
        if (i > 0)
            buf_puts(out, ", ");
        row_json(out, &r->rows[i]);
    }
    buf_puts(out, "]}");
}
