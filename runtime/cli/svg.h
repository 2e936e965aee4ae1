/* svg.h - small drawings for a page: axes with ticks, points, lines and cells, as SVG text. What it is not: a choice of
 * what to draw (report.c). */
#ifndef ATTNGEN_CLI_SVG_H
#define ATTNGEN_CLI_SVG_H

#include <stdbool.h>

#include "gen/buf.h"

/* One side of a plot. A logarithmic one has a tick at each power of two or ten. */
struct svg_axis {
    const char *title;
    double low, high; /* the range that is shown; low < high, and positive if logarithmic */
    int base;         /* of the logarithm: 2 or 10; 0: linear */
};

struct svg_plot {
    struct buf *out;
    int width, height; /* of the whole, in pixels */
    struct svg_axis x, y;
};

enum { SVG_COLOURS = 8 };
const char *svg_colour(int i); /* of the i-th series; they repeat */

void svg_open(const struct svg_plot *p); /* the frame, ticks and titles */
void svg_close(const struct svg_plot *p);

/* All take values of the axes; what lies outside is drawn at the edge. `title` is shown when a pointer rests on the
 * mark. */
void svg_point(const struct svg_plot *p, double x, double y, const char *colour, const char *title);
void svg_line(const struct svg_plot *p, const double *x, const double *y, int n, const char *colour, bool dashed);
void svg_label(const struct svg_plot *p, double x, double y, const char *colour, const char *text);

/* Text between tags and in attributes. */
void svg_text(struct buf *out, const char *text);

#endif
