/* gpu_plot.c - see gpu_plot.h. */
#include "gpu_plot.h"

#include <stdio.h>
#include <string.h>

#include "plot.h"

static const char head[] = "dtype,dim,length,causal,variant,attngen,cudnn,fa2";
enum { CONTENDERS = 3 };
static const struct {
    const char *name, *color;
    bool hollow;
} contenders[CONTENDERS] = {
    {"attngen", "#c0392b", false}, {"cuDNN", "#2471a3", true}, {"FlashAttention-2", "#7f8c8d", true}};

/* The panel of that title, made if it is new. NULL: there is no room. */
static struct plot_panel *panel_of(struct plot *p, const char *title)
{
    for (int i = 0; i < p->panels; i++)
        if (strcmp(p->panel[i].title, title) == 0)
            return &p->panel[i];
    if (p->panels == PLOT_PANELS)
        return NULL;
    struct plot_panel *panel = &p->panel[p->panels++];
    *panel = (struct plot_panel){.lines = CONTENDERS};
    snprintf(panel->title, sizeof panel->title, "%s", title);
    for (int i = 0; i < CONTENDERS; i++) {
        snprintf(panel->line[i].name, sizeof panel->line[i].name, "%s", contenders[i].name);
        panel->line[i].color = contenders[i].color;
        panel->line[i].hollow = contenders[i].hollow;
    }
    return panel;
}

/* One line of the CSV; a contender that was not measured stands there as 0. */
static bool add_row(struct plot *p, const char *line)
{
    char dtype[8], variant[GEN_NAME_MAX], title[48];
    int dim, length, causal;
    double speed[CONTENDERS];
    if (sscanf(line, "%7[^,],%d,%d,%d,%159[^,],%lf,%lf,%lf", dtype, &dim, &length, &causal, variant, &speed[0], &speed[1],
               &speed[2]) != 8 ||
        length < 1)
        return false;
    snprintf(title, sizeof title, "%s, D = %d, %s", dtype, dim, causal ? "causal" : "full");
    struct plot_panel *panel = panel_of(p, title);
    for (int i = 0; panel && i < CONTENDERS; i++) {
        struct plot_line *l = &panel->line[i];
        if (speed[i] <= 0)
            continue;
        if (l->points == PLOT_POINTS)
            return false;
        l->x[l->points] = length;
        l->y[l->points++] = speed[i];
    }
    return panel != NULL;
}

int gpu_plot(const char *csv, const char *svg, const char *device, double dense, struct gen_error *err)
{
    static struct plot_panel panels[PLOT_PANELS];
    char line[512], title[200];
    int number = 1;
    snprintf(title, sizeof title, "Attention forward, %s", device);
    struct plot plot = {.title = title,
                        .note = "tests/bench/bench_gpu.py: 16k tokens in all, 2048/D heads; medians, in one run",
                        .x_name = "sequence length N (queries and keys)",
                        .y_name = "TFLOP/s",
                        .columns = 2,
                        .levels_are = "a dense bf16 product of 8192 cubed on a rested card, in the same run",
                        .panel = panels};
    FILE *f = fopen(csv, "r");
    if (!f || !fgets(line, sizeof line, f) || strncmp(line, head, sizeof head - 1) != 0) {
        snprintf(err->text, sizeof err->text, "%s:1: error: not a table; expected %s", csv, head);
        goto failed;
    }
    while (fgets(line, sizeof line, f)) {
        number++;
        if (!add_row(&plot, line)) {
            snprintf(err->text, sizeof err->text, "%s:%d: error: no row of it, or one too many; expected %s", csv, number,
                     head);
            goto failed;
        }
    }
    fclose(f);
    if (dense > 0) {
        plot.levels = 1;
        plot.level[0].y = dense;
        snprintf(plot.level[0].name, sizeof plot.level[0].name, "dense product");
    }
    if (plot_write(&plot, svg) == 0)
        return 0;
    snprintf(err->text, sizeof err->text, "%s: error: it cannot be written", svg);
    return -1;
failed:
    if (f)
        fclose(f);
    return -1;
}
