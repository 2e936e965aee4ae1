/* plot.h - panels of lines over a logarithmic axis, or bars along one, as one SVG that needs no font or script of its own.
 * What it is not: general; it knows what bench_shapes, gpu_plot and bench_ladder want to draw. */
#ifndef ATTNGEN_TESTS_BENCH_PLOT_H
#define ATTNGEN_TESTS_BENCH_PLOT_H

#include <stdbool.h>

enum { PLOT_POINTS = 16, PLOT_LINES = 12, PLOT_PANELS = 12, PLOT_LEVELS = 4 };

struct plot_line {
    char name[48]; /* in the legend; lines of one name look the same in all panels */
    const char *color;
    bool hollow; /* squares that are white inside, and thin lines; else filled circles */
    int points;
    double x[PLOT_POINTS], y[PLOT_POINTS];
};
struct plot_panel {
    char title[48];
    int lines;
    struct plot_line line[PLOT_LINES]; /* the first panel has all that the legend names, in its order */
};
/* A dashed line across every panel. */
struct plot_level {
    char name[48];
    double y;
};
struct plot {
    const char *title, *note; /* above, and below it in small print */
    const char *x_name, *y_name;
    int panels, columns;
    struct plot_panel *panel;
    int levels;
    const char *levels_are; /* in the legend, of all of them */
    struct plot_level level[PLOT_LEVELS];
};
/* 0, or -1 when the file cannot be written. */
int plot_write(const struct plot *p, const char *path);

/* Bars one below the other, of two series, along a logarithmic axis; what is 0 has none. */
enum { PLOT_BARS = 32, PLOT_SERIES = 2 };
struct plot_bars {
    const char *title, *note, *unit;
    const char *series[PLOT_SERIES], *color[PLOT_SERIES];
    int count;
    struct plot_bar {
        char name[48];
        double value[PLOT_SERIES];
    } bar[PLOT_BARS];
    struct plot_level level; /* a dashed line; y 0: none */
};
int plot_bars_write(const struct plot_bars *p, const char *path);

#endif
