/* told.c - see told.h. */
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

bool ladder_option(struct ladder_options *o, const char *name, const char *value)
{
    if (!strcmp(name, "--rungs"))
        o->rungs = value;
    else if (!strcmp(name, "--csv"))
        o->csv = value;
    else if (!strcmp(name, "--svg"))
        o->svg = value;
    else if (!strcmp(name, "--limit") && atof(value) > 0)
        o->limit = atof(value);
    else
        return false;
    return true;
}

/* How many times as fast as the last rung before it that ran; 0: there is none. */
static double gain(const struct ladder_told *t, int rung, int mask)
{
    int before = rung - 1;
    while (before >= 0 && (t->rung[before].aside || !(t->result[before][mask].flops > 0)))
        before--;
    return before >= 0 ? t->result[rung][mask].flops / t->result[before][mask].flops : 0;
}

static void put_number(const char *format, double value)
{
    if (value > 0)
        printf(format, value);
    fputs(" | ", stdout);
}

static void put_remarks(const struct climbed *r)
{
    if (r->state == RUNG_ELSEWHERE)
        fputs(r->unreached ? "not reached" : "skipped: not for this machine", stdout);
    else if (r->state == RUNG_FAILED)
        fputs("failed: see its log", stdout);
    else if (r->wrong)
        fputs("wrong", stdout);
    else if (r->noisy)
        fputs("noisy", stdout);
    else if (r->registers)
        printf("%d registers", r->registers);
    if (r->spill_bytes)
        printf(", %lld bytes spilled", (long long)r->spill_bytes);
    if (r->serialised)
        fputs(", products serialised", stdout);
}

static void print_rows(const struct ladder_told *t, bool aside)
{
    printf("\n| %s | what it adds | %s | times the one before | of the %s | causal | times the one before | "
           "|\n|---|---|---|---|---|---|---|---|\n",
           aside ? "tried and left" : "rung", t->unit, t->ceiling_name);
    for (int i = 0; i < t->rungs; i++) {
        const struct climbed *full = &t->result[i][0], *causal = &t->result[i][1];
        const double at = full->flops / t->per, causal_at = causal->flops / t->per;
        if (t->rung[i].aside != aside)
            continue;
        printf("| %s | %s | ", t->rung[i].title, t->rung[i].adds);
        put_number(at < 10 ? "%.2g" : "%.0f", at);
        put_number("%.2f", at > 0 ? gain(t, i, 0) : 0);
        put_number("%.1f%%", t->ceiling > 0 ? 100 * full->flops / t->ceiling : 0);
        put_number(causal_at < 10 ? "%.2g" : "%.0f", causal_at);
        put_number("%.2f", causal_at > 0 ? gain(t, i, 1) : 0);
        put_remarks(full);
        printf(" |\n");
    }
}

void ladder_print(const struct ladder_told *t, const char *problem)
{
    bool aside = false;
    printf("# %s; %s\n", t->machine, problem);
    if (t->ceiling > 0)
        printf("# %s: %.0f %s\n", t->ceiling_is, t->ceiling / t->per, t->unit);
    for (int i = 0; i < t->rungs; i++)
        aside |= t->rung[i].aside;
    print_rows(t, false);
    if (aside)
        print_rows(t, true);
    printf("\n");
    for (int i = 0; i < t->rungs; i++)
        for (int mask = 0; mask < LADDER_MASKS; mask++)
            if (t->result[i][mask].why[0] && (mask == 0 || strcmp(t->result[i][0].why, t->result[i][mask].why) != 0))
                printf("%s%s: %s\n", t->rung[i].title, mask ? ", causal" : "", t->result[i][mask].why);
}

static void put_quoted(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++)
        if (*text == '"')
            fputs("\"\"", f);
        else
            fputc(*text == '\n' ? ' ' : *text, f);
    fputc('"', f);
}

int ladder_csv(const struct ladder_told *t, const char *path)
{
    static const char *const states[] = {"timed", "elsewhere", "failed"};
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f,
            "rung,kernels,causal,state,noisy,%s,times_before,ceiling_%s,error,bound,registers,spill_bytes,serialised,why\n",
            t->column, t->column);
    for (int i = 0; i < t->rungs; i++)
        for (int mask = 0; mask < LADDER_MASKS; mask++) {
            const struct climbed *r = &t->result[i][mask];
            put_quoted(f, t->rung[i].title);
            fputc(',', f);
            for (int k = 0; k < t->rung[i].kernels; k++)
                fprintf(f, "%s%s", k ? " " : "", t->rung[i].name[k]);
            fprintf(f, ",%d,%s,%d,%.5g,%.4g,%.5g,%.3g,%.3g,%d,%lld,%d,", mask,
                    r->wrong       ? "wrong"
                    : r->unreached ? "unreached"
                                   : states[r->state],
                    r->noisy, r->flops / t->per, r->flops > 0 ? gain(t, i, mask) : 0, t->ceiling / t->per, r->error,
                    r->bound, r->registers, (long long)r->spill_bytes, r->serialised);
            put_quoted(f, r->why);
            fputc('\n', f);
        }
    bool bad = ferror(f) != 0;
    return fclose(f) != 0 || bad ? -1 : 0;
}

int ladder_draw(const struct ladder_told *t, const char *title, const char *note, const char *path)
{
    struct plot_bars plot = {.title = title,
                             .note = note,
                             .unit = t->unit,
                             .series = {"no mask", "causal"},
                             .color = {"#2b6cb0", "#ed8936"},
                             .level = {.y = t->ceiling / t->per}};
    snprintf(plot.level.name, sizeof plot.level.name, "%s, %.0f", t->ceiling_name, t->ceiling / t->per);
    for (int i = 0; i < t->rungs; i++) {
        struct plot_bar *bar = &plot.bar[plot.count];
        if (t->rung[i].aside)
            continue;
        snprintf(bar->name, sizeof bar->name, "%s", t->rung[i].title);
        for (int mask = 0; mask < LADDER_MASKS; mask++)
            bar->value[mask] = t->result[i][mask].flops / t->per;
        plot.count++;
    }
    return plot_bars_write(&plot, path);
}
