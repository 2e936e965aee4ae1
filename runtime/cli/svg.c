/* svg.c - see svg.h. */
#include "svg.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 64, RIGHT = 16, TOP = 16, BOTTOM = 44 };

const char *
svg_colour(int i) /* distinguishable by most people with colour blindness: Okabe and Ito, "Color Universal Design",
                   * 2008 */
{
    static const char *const colours[SVG_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#7a6f00", "#555555"};
    return colours[(unsigned)i % SVG_COLOURS];
}

void svg_text(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&': buf_puts(out, "&amp;"); break;
        case '<': buf_puts(out, "&lt;"); break;
        case '>': buf_puts(out, "&gt;"); break;
        case '"': buf_puts(out, "&quot;"); break;
        default:
            if ((unsigned char)*c >= ' ' || *c == '\n')
                buf_putc(out, *c);
        }
    }
}

/* 0 at the low end, 1 at the high one. */
static double share(const struct svg_axis *a, double value)
{
    double s = a->base ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
    return s > 0 ? s < 1 ? s : 1 : 0; /* of a NaN, too */
}

static double at_x(const struct svg_plot *p, double x)
{
    return LEFT + share(&p->x, x) * (p->width - LEFT - RIGHT);
}

static double at_y(const struct svg_plot *p, double y)
{
    return p->height - BOTTOM - share(&p->y, y) * (p->height - TOP - BOTTOM);
}

/* A step of 1, 2 or 5 times a power of ten, so that there are a few ticks. */
static double linear_step(const struct svg_axis *a)
{
    double rough = (a->high - a->low) / 5, power = pow(10, floor(log10(rough)));
    double part = rough / power;
    return power * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
}

static double next_tick(const struct svg_axis *a, double tick)
{
    return a->base ? tick * a->base : tick + linear_step(a);
}

static double first_tick(const struct svg_axis *a)
{
    if (a->base)
        return pow(a->base, ceil(log(a->low) / log(a->base) - 1e-9));
    double step = linear_step(a);
    return ceil(a->low / step - 1e-9) * step + 0.0; /* -0 is 0 */
}

static void tick(const struct svg_plot *p, bool vertical, double value)
{
    double x = vertical ? LEFT : at_x(p, value), y = vertical ? at_y(p, value) : p->height - BOTTOM;
    if (vertical)
        buf_printf(p->out, "<path class='grid' d='M%d %.1fH%d'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>\n",
                   LEFT, y, p->width - RIGHT, LEFT - 6, y + 4, value);
    else
        buf_printf(p->out, "<path class='grid' d='M%.1f %dV%d'/><text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
                   x, TOP, p->height - BOTTOM, x, p->height - BOTTOM + 16, value);
}

void svg_open(const struct svg_plot *p)
{
    buf_printf(p->out, "<svg viewBox='0 0 %d %d' width='%d' height='%d' role='img'>\n", p->width, p->height, p->width,
               p->height);
    for (double t = first_tick(&p->x); t <= p->x.high * (1 + 1e-9); t = next_tick(&p->x, t))
        tick(p, false, t);
    for (double t = first_tick(&p->y); t <= p->y.high * (1 + 1e-9); t = next_tick(&p->y, t))
        tick(p, true, t);
    buf_printf(p->out, "<text class='axis' x='%d' y='%d' text-anchor='middle'>", (LEFT + p->width - RIGHT) / 2,
               p->height - 8);
    svg_text(p->out, p->x.title);
    int middle = (TOP + p->height - BOTTOM) / 2;
    buf_printf(p->out, "</text>\n<text class='axis' x='14' y='%d' text-anchor='middle' transform='rotate(-90 14 %d)'>",
               middle, middle);
    svg_text(p->out, p->y.title);
    buf_puts(p->out, "</text>\n");
}

void svg_close(const struct svg_plot *p)
{
    buf_puts(p->out, "</svg>\n");
}

void svg_point(const struct svg_plot *p, double x, double y, const char *colour, const char *title)
{
    buf_printf(p->out, "<circle cx='%.1f' cy='%.1f' r='4' fill='%s'><title>", at_x(p, x), at_y(p, y), colour);
    svg_text(p->out, title);
    buf_puts(p->out, "</title></circle>\n");
}

void svg_line(const struct svg_plot *p, const double *x, const double *y, int n, const char *colour, bool dashed)
{
    buf_printf(p->out, "<polyline fill='none' stroke='%s' stroke-width='2'%s points='", colour,
               dashed ? " stroke-dasharray='6 4'" : "");
    for (int i = 0; i < n; i++)
        buf_printf(p->out, "%.1f,%.1f ", at_x(p, x[i]), at_y(p, y[i]));
    buf_puts(p->out, "'/>\n");
}

void svg_label(const struct svg_plot *p, double x, double y, const char *colour, const char *text)
{
    buf_printf(p->out, "<text x='%.1f' y='%.1f' fill='%s'>", at_x(p, x) + 6, at_y(p, y) - 6, colour);
    svg_text(p->out, text);
    buf_puts(p->out, "</text>\n");
}
