/* plot.c - see plot.h. */
#include "plot.h"

#include <math.h>
#include <stdio.h>

enum {
    PANEL_W = 430,
    PANEL_H = 300,
    LEFT = 64,
    GAP_X = 56,
    GAP_Y = 64,
    LEGEND_ROW = 22,
    LEGEND_COLUMNS = 3,
    BOTTOM = 54
};
static const char INK[] = "#222222", GRID[] = "#e3e3e3", FAINT[] = "#666666";

/* The scales that all panels share, so that they can be compared. */
struct scales {
    double x_min, x_max, y_min, y_max, y_step;
    bool log; /* y: a GPU stands a thousand times above one core */
    int top;  /* where panels begin, below title and legend */
};

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        const char *special = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        if (special)
            fputs(special, f);
        else
            fputc(*text, f);
    }
}

/* With a white edge, so that it can be read over a line. */
static void label(FILE *f, double x, double y, const char *anchor, int size, const char *color, const char *text)
{
    fprintf(f,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" fill=\"%s\" stroke=\"white\" "
            "stroke-width=\"3\" paint-order=\"stroke\">",
            x, y, anchor, size, color);
    put_text(f, text);
    fputs("</text>\n", f);
}

static void stroke(FILE *f, double x1, double y1, double x2, double y2, const char *color, double width,
                   const char *dash)
{
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"", x1, y1, x2,
            y2, color, width);
    fprintf(f, *dash ? " stroke-dasharray=\"%s\"/>\n" : "%s/>\n", dash);
}

/* A step of 1, 2 or 5 times a power of ten, so that at most eight steps reach `most`. */
static double round_step(double most)
{
    static const double nice[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(most / 8)));
    for (int i = 0; i < 3; i++)
        if (nice[i] * power * 8 >= most)
            return nice[i] * power;
    return nice[3] * power;
}

/* Pixels from a panel's left and top. */
static double x_at(const struct scales *s, double x)
{
    enum { INSET = 14 }; /* marks do not stand on the axis */
    return INSET + (PANEL_W - 2 * INSET) * log2(x / s->x_min) / log2(s->x_max / s->x_min);
}

static double y_at(const struct scales *s, double y)
{
    double share = s->log ? log10(fmax(y, s->y_min) / s->y_min) / log10(s->y_max / s->y_min) : y / s->y_max;
    return PANEL_H * (1 - share);
}

static struct scales find_scales(const struct plot *p)
{
    struct scales s = {.x_min = INFINITY, .x_max = -INFINITY, .y_min = INFINITY, .y_max = 1e-9};
    for (int i = 0; i < p->levels; i++)
        s.y_max = fmax(s.y_max, p->level[i].y);
    for (int i = 0; i < p->panels; i++)
        for (int l = 0; l < p->panel[i].lines; l++)
            for (int k = 0; k < p->panel[i].line[l].points; k++) {
                const struct plot_line *line = &p->panel[i].line[l];
                s.x_min = fmin(s.x_min, line->x[k]);
                s.x_max = fmax(s.x_max, line->x[k]);
                s.y_min = fmin(s.y_min, line->y[k]);
                s.y_max = fmax(s.y_max, line->y[k]);
            }
    if (!(s.x_max > s.x_min)) /* one point, or none */
        s.x_min = s.x_max > 0 ? s.x_max / 2 : 1, s.x_max = s.x_min * 4;
    s.log = s.y_min > 0 && s.y_max > 100 * s.y_min;
    s.y_step = s.log ? 10 : round_step(1.08 * s.y_max);
    s.y_max = s.log ? pow(10, ceil(log10(1.08 * s.y_max))) : ceil(1.08 * s.y_max / s.y_step) * s.y_step;
    s.y_min = s.log ? pow(10, floor(log10(s.y_min))) : 0;
    int entries = p->panels ? p->panel[0].lines + (p->levels > 0) : 0;
    s.top = 74 + (entries + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS * LEGEND_ROW + 34;
    return s;
}

static void put_mark(FILE *f, const struct plot_line *line, double x, double y)
{
    if (line->hollow)
        fprintf(f,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" fill=\"white\" stroke=\"%s\" "
                "stroke-width=\"1.5\"/>\n",
                x - 3.5, y - 3.5, line->color);
    else
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, line->color);
}

static void put_legend(FILE *f, const struct plot *p)
{
    int entries = p->panels ? p->panel[0].lines : 0, width = LEFT + PANEL_W * p->columns + GAP_X * (p->columns - 1);
    int rows = (entries + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    for (int i = 0; i <= entries; i++) {
        double x = LEFT + i / (rows ? rows : 1) * (width - LEFT) / LEGEND_COLUMNS,
               y = 80 + i % (rows ? rows : 1) * LEGEND_ROW;
        if (i == entries) { /* the dashed lines are named where they are; here is what they have in common */
            x = LEFT, y = 80 + rows * LEGEND_ROW;
            if (p->levels)
                stroke(f, x, y, x + 34, y, FAINT, 1.5, "7 4");
            if (p->levels)
                label(f, x + 42, y + 4, "start", 13, INK, p->levels_are);
            return;
        }
        const struct plot_line *line = &p->panel[0].line[i];
        stroke(f, x, y, x + 34, y, line->color, line->hollow ? 1.3 : 2.2, "");
        put_mark(f, line, x + 17, y);
        label(f, x + 42, y + 4, "start", 13, INK, line->name);
    }
}

static void put_axes(FILE *f, const struct plot *p, const struct scales *s, double left, double top)
{
    char text[32];
    for (double v = s->y_min; v <= s->y_max * 1.0001; v = s->log ? v * s->y_step : v + s->y_step) {
        double y = top + y_at(s, v);
        stroke(f, left, y, left + PANEL_W, y, v > s->y_min ? GRID : INK, 1, "");
        snprintf(text, sizeof text, "%g", v);
        label(f, left - 8, y + 4, "end", 12, INK, text);
    }
    for (double x = pow(2, ceil(log2(s->x_min) - 1e-9)); x <= s->x_max * 1.0001; x *= 2) {
        double at = left + x_at(s, x);
        stroke(f, at, top + PANEL_H, at, top + PANEL_H + 5, INK, 1, "");
        snprintf(text, sizeof text, "%g", x);
        label(f, at, top + PANEL_H + 19, "middle", 12, INK, text);
    }
    stroke(f, left, top, left, top + PANEL_H, INK, 1, "");
    label(f, left + PANEL_W / 2.0, top + PANEL_H + 38, "middle", 13, INK, p->x_name);
    fprintf(f,
            "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" font-size=\"13\" fill=\"%s\">",
            left - 42, top + PANEL_H / 2.0, INK);
    put_text(f, p->y_name);
    fputs("</text>\n", f);
}

static void put_panel(FILE *f, const struct plot *p, const struct scales *s, int index)
{
    const struct plot_panel *panel = &p->panel[index];
    double left = LEFT + index % p->columns * (PANEL_W + GAP_X);
    double top = s->top + index / p->columns * (PANEL_H + GAP_Y + 20);
    put_axes(f, p, s, left, top);
    label(f, left, top - 10, "start", 14, INK, panel->title);
    for (int i = 0; i < p->levels; i++) {
        double y = top + y_at(s, p->level[i].y);
        stroke(f, left, y, left + PANEL_W, y, FAINT, 1.5, "7 4");
    }
    fputs("<g paint-order=\"stroke\" stroke=\"white\" stroke-width=\"3\">\n", f); /* readable across the grid */
    for (int i = 0; i < p->levels; i++)
        label(f, left + 6, top + y_at(s, p->level[i].y) - 6, "start", 11, FAINT, p->level[i].name);
    fputs("</g>\n", f);
    for (int i = 0; i < panel->lines; i++) {
        const struct plot_line *line = &panel->line[i];
        double x[PLOT_POINTS], y[PLOT_POINTS];
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" points=\"", line->color,
                line->hollow ? 1.3 : 2.2);
        for (int k = 0; k < line->points; k++) {
            x[k] = left + x_at(s, line->x[k]);
            y[k] = top + y_at(s, line->y[k]);
            fprintf(f, "%s%.1f,%.1f", k ? " " : "", x[k], y[k]);
        }
        fputs("\"/>\n", f);
        for (int k = 0; k < line->points; k++)
            put_mark(f, line, x[k], y[k]);
    }
}

int plot_write(const struct plot *p, const char *path)
{
    struct scales s = find_scales(p);
    int rows = (p->panels + p->columns - 1) / p->columns;
    int width = LEFT + PANEL_W * p->columns + GAP_X * (p->columns - 1) + 20;
    int height = s.top + rows * PANEL_H + (rows - 1) * (GAP_Y + 20) + BOTTOM;
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", width,
            height, width, height);
    fputs("font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n", f);
    fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height);
    label(f, LEFT, 28, "start", 17, INK, p->title);
    label(f, LEFT, 50, "start", 12, FAINT, p->note);
    put_legend(f, p);
    for (int i = 0; i < p->panels; i++)
        put_panel(f, p, &s, i);
    fputs("</svg>\n", f);
    bool bad = ferror(f) != 0;
    return fclose(f) != 0 || bad ? -1 : 0;
}

/* ---- bars ---- */
enum { NAMES_W = 150, BARS_W = 620, BAR_H = 13, BAR_STEP = 2 * BAR_H + 12, BARS_TOP = 112 };

static void put_bar(FILE *f, const struct plot_bars *p, int index, double low, double high)
{
    double top = BARS_TOP + 8 + index * BAR_STEP;
    char text[32];
    label(f, NAMES_W - 8, top + BAR_H + 4, "end", 13, INK, p->bar[index].name);
    for (int s = 0; s < PLOT_SERIES; s++) {
        double value = p->bar[index].value[s];
        if (!(value > 0)) {
            label(f, NAMES_W + 5, top + s * BAR_H + 10, "start", 11, FAINT, "not here");
            continue;
        }
        double width = BARS_W * log10(value / low) / log10(high / low);
        fprintf(f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", NAMES_W, top + s * BAR_H,
                width, BAR_H - 1, p->color[s]);
        snprintf(text, sizeof text, value < 10 ? "%.2g" : "%.0f", value);
        label(f, NAMES_W + width + 5, top + s * BAR_H + 10, "start", 11, INK, text);
    }
}

/* Powers of ten, from below the least value to above the largest. */
static void find_decades(const struct plot_bars *p, double *low, double *high)
{
    double least = INFINITY, most = p->level.y;
    for (int i = 0; i < p->count; i++)
        for (int s = 0; s < PLOT_SERIES; s++)
            if (p->bar[i].value[s] > 0) {
                least = fmin(least, p->bar[i].value[s]);
                most = fmax(most, p->bar[i].value[s]);
            }
    *low = isfinite(least) ? pow(10, floor(log10(least) - 1e-9)) : 1;
    *high = fmax(pow(10, ceil(log10(fmax(most, *low)))), 10 * *low);
}

int plot_bars_write(const struct plot_bars *p, const char *path)
{
    double low, high;
    int bottom = BARS_TOP + p->count * BAR_STEP + 8, width = NAMES_W + BARS_W + 60, height = bottom + 44;
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    find_decades(p, &low, &high);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", width,
            height, width, height);
    fputs("font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n", f);
    fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height);
    label(f, 20, 28, "start", 17, INK, p->title);
    label(f, 20, 50, "start", 12, FAINT, p->note);
    for (int s = 0; s < PLOT_SERIES; s++) {
        fprintf(f, "<rect x=\"%d\" y=\"70\" width=\"26\" height=\"12\" fill=\"%s\"/>\n", NAMES_W + s * 140,
                p->color[s]);
        label(f, NAMES_W + s * 140 + 32, 80, "start", 13, INK, p->series[s]);
    }
    for (double v = low; v <= high * 1.0001; v *= 10) {
        char text[32];
        double x = NAMES_W + BARS_W * log10(v / low) / log10(high / low);
        stroke(f, x, BARS_TOP, x, bottom, v > low ? GRID : INK, 1, "");
        snprintf(text, sizeof text, "%g", v);
        label(f, x, bottom + 18, "middle", 12, INK, text);
    }
    label(f, NAMES_W + BARS_W / 2.0, bottom + 36, "middle", 13, INK, p->unit);
    if (p->level.y > 0) {
        double x = NAMES_W + BARS_W * log10(p->level.y / low) / log10(high / low);
        stroke(f, x, BARS_TOP - 6, x, bottom, FAINT, 1.5, "7 4");
        label(f, x, BARS_TOP - 10, "middle", 11, FAINT, p->level.name);
    }
    for (int i = 0; i < p->count; i++)
        put_bar(f, p, i, low, high);
    fputs("</svg>\n", f);
    bool bad = ferror(f) != 0;
    return fclose(f) != 0 || bad ? -1 : 0;
}
