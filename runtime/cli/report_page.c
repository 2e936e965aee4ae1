/* report_page.c - see report_page.h. */
#include "report_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "svg.h"

enum { WIDTH = 860, HEIGHT = 400, MOST_TILES = 24 };

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 "
    "1rem;color:#1a1a1a;background:#fff}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}pre{white-space:pre-wrap;background:#f4f4f4;padding:."
    "7rem}\n"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid "
    "#ddd}\n"
    "td.l,th.l{text-align:left}code{font-size:12px}svg{max-width:100%;height:auto}svg text{font-size:12px;fill:#333}\n"
    "svg .axis{font-size:13px}svg .grid{stroke:#ddd}.key "
    "span{margin-right:1.2rem;white-space:nowrap}.wide{overflow-x:auto}\n"
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}pre{background:#22252b}td,th{border-color:#"
    "333}\n"
    "svg text{fill:#ccc}svg .grid{stroke:#333}}\n";

static const char *dtype_of(const struct report_entry *e)
{
    return field_value_name(F_DTYPE, (int32_t)e->dtype);
}

struct threads_text {
    char text[24];
};
static struct threads_text threads_text(int threads)
{
    struct threads_text t;
    snprintf(t.text, sizeof t.text, threads == 1 ? "1 thread" : "%d threads", threads);
    return t;
}

static double share_of(const struct report_entry *e)
{
    return e->peak > 0 ? e->gflops / e->peak : 0;
}

static void heading(struct buf *out, const char *title, const char *text)
{
    buf_printf(out, "<h2>%s</h2>\n<p>%s</p>\n", title, text);
}

static void key(struct buf *out, int colour, const char *text)
{
    buf_printf(out, "<span><b style='color:%s'>&#9679;</b> ", svg_colour(colour));
    svg_text(out, text);
    buf_puts(out, "</span>\n");
}

/* ---- the table ---- */

static void table(const struct report *r, struct buf *out)
{
    heading(out, "What was tuned",
            "One line for each problem: the fastest kernel that the cache knows, its best time, and its share of the "
            "rate of multiply-adds that was measured for this page. A noisy time was taken while the machine "
            "was disturbed; the next tune on a quiet machine takes it again.");
    buf_puts(out,
             "<div class='wide'><table><tr><th class='l'>problem<th class='l'>device<th>threads<th>batch,heads,lengths"
             "<th class='l'>winner<th>time, ms<th>GFLOP/s<th>of the peak<th>known</tr>\n");
    for (int i = 0; i < r->entries; i++) {
        const struct report_entry *e = &r->entry[i];
        const char *on = strstr(e->winner, "_on_");
        buf_puts(out, "<tr><td class='l'><code>");
        svg_text(out, e->problem);
        buf_puts(out, "</code><td class='l'>");
        svg_text(out, e->device);
        buf_printf(out, "<td>%d<td>%lld,%d,%d,%lld,%lld<td class='l'><code>", e->threads, (long long)e->batch, e->heads,
                   e->kv_heads, (long long)e->q_len, (long long)e->kv_len);
        svg_text(out, on ? on + 4 : e->winner);
        buf_printf(out, "</code><td>%.3f%s<td>%.1f<td>", e->seconds * 1e3, e->noisy ? " (noisy)" : "", e->gflops);
        if (e->peak > 0)
            buf_printf(out, "%.0f %%", 100 * share_of(e));
        buf_printf(out, "<td>%d</tr>\n", e->known);
    }
    buf_puts(out, "</table></div>\n");
}

/* ---- the roofline ---- */

static void roofline(const struct report *r, struct buf *out)
{
    double least = INFINITY, most = 0, low = INFINITY, high = 0;
    for (int i = 0; i < r->entries; i++) {
        const struct report_entry *e = &r->entry[i];
        least = fmin(least, e->intensity);
        most = fmax(most, e->intensity);
        low = fmin(low, e->gflops);
        high = fmax(high, fmax(e->gflops, e->peak));
    }
    const struct svg_plot p = {
        .out = out,
        .width = WIDTH,
        .height = HEIGHT,
        .x = {"flops for each byte of Q, K, V and O", exp2(floor(log2(least)) - 1), exp2(ceil(log2(most)) + 1), 2},
        .y = {"GFLOP/s", pow(10, floor(log10(low))), pow(10, ceil(log10(high * 1.01))), 10}};
    heading(
        out, "Roofline",
        "Each point is a problem. A flat line is the rate of multiply-adds that a device was measured to "
        "sustain, and the rising line is the rate at which the processor's threads read memory. Problems that fit into "
        "a cache may lie above the rising line.");
    buf_puts(out, "<p class='key'>");
    for (int i = 0; i < r->ceilings; i++) {
        char text[120];
        snprintf(text, sizeof text, "%s, %s, %s: %.0f GFLOP/s", r->ceiling[i].device,
                 field_value_name(F_DTYPE, (int32_t)r->ceiling[i].dtype), threads_text(r->ceiling[i].threads).text,
                 r->ceiling[i].gflops);
        key(out, i, text);
    }
    buf_puts(out, "</p>\n");
    svg_open(&p);
    for (int i = 0; i < r->ceilings; i++)
        if (r->ceiling[i].gflops > 0)
            svg_line(&p, (double[]){p.x.low, p.x.high}, (double[]){r->ceiling[i].gflops, r->ceiling[i].gflops}, 2,
                     svg_colour(i), true);
    if (r->read_gbs > 0) {
        double to = fmin(p.x.high, p.y.high / r->read_gbs), from = fmax(p.x.low, p.y.low / r->read_gbs);
        char text[48];
        snprintf(text, sizeof text, "reading memory: %.0f GB/s", r->read_gbs);
        if (from < to) {
            svg_line(&p, (double[]){from, to}, (double[]){from * r->read_gbs, to * r->read_gbs}, 2, "#888", false);
            from = sqrt(from * to);
            svg_label(&p, from, from * r->read_gbs, "#888", text);
        }
    }
    for (int i = 0; i < r->entries; i++) {
        const struct report_entry *e = &r->entry[i];
        char text[320];
        int c = 0;
        while (c < r->ceilings && (strcmp(r->ceiling[c].device, e->device) || r->ceiling[c].dtype != e->dtype ||
                                   r->ceiling[c].threads != e->threads))
            c++;
        snprintf(text, sizeof text, "%.120s on %s, %lld by %lld: %.0f GFLOP/s, %.0f %% of the peak", e->problem,
                 e->device, (long long)e->q_len, (long long)e->kv_len, e->gflops, 100 * share_of(e));
        svg_point(&p, e->intensity, e->gflops, svg_colour(c), text);
    }
    svg_close(&p);
}

/* ---- times over tile sizes ---- */

static int add_size(int32_t *list, int n, int32_t value)
{
    int at = 0;
    while (at < n && list[at] < value)
        at++;
    if ((at < n && list[at] == value) || n == MOST_TILES)
        return n;
    memmove(list + at + 1, list + at, (size_t)(n - at) * sizeof *list);
    list[at] = value;
    return n + 1;
}

/* The best time with these tiles; 0: none was timed. */
static double best_with(const struct report_entry *e, int32_t q, int32_t k)
{
    double best = 0;
    for (int i = 0; i < e->rows; i++)
        if (e->row[i].variant.field[F_TILE_Q] == q && e->row[i].variant.field[F_TILE_K] == k &&
            (!(best > 0) || e->row[i].seconds < best))
            best = e->row[i].seconds;
    return best;
}

static void heat_map(const struct report_entry *e, struct buf *out)
{
    int32_t q[MOST_TILES], k[MOST_TILES];
    int nq = 0, nk = 0;
    for (int i = 0; i < e->rows; i++) {
        nq = add_size(q, nq, e->row[i].variant.field[F_TILE_Q]);
        nk = add_size(k, nk, e->row[i].variant.field[F_TILE_K]);
    }
    buf_puts(out, "<p><code>");
    svg_text(out, e->problem);
    buf_printf(out, "</code>, %lld by %lld, on %s, %s</p>\n<div class='wide'><table><tr><th class='l'>queries \\ keys",
               (long long)e->q_len, (long long)e->kv_len, e->device, threads_text(e->threads).text);
    for (int j = 0; j < nk; j++)
        buf_printf(out, "<th>%d", k[j]);
    buf_puts(out, "</tr>\n");
    for (int i = 0; i < nq; i++) {
        buf_printf(out, "<tr><th class='l'>%d", q[i]);
        for (int j = 0; j < nk; j++) {
            double ratio = best_with(e, q[i], k[j]) / e->seconds;
            double light = fmin(1, fmax(0, ratio - 1)); /* twice the winner's time is white */
            if (ratio > 0)
                buf_printf(out, "<td style='background:rgba(0,158,115,%.2f)'>%.2f", 1 - 0.9 * light, ratio);
            else
                buf_puts(out, "<td>");
        }
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</table></div>\n");
}

static void heat_maps(const struct report *r, struct buf *out)
{
    enum { MAPS = 4 };
    const struct report_entry *shown[MAPS] = {NULL};
    heading(out, "Times over tile sizes",
            "For the problems with the most timings: the best time with a tile of so many queries and "
            "keys, as a multiple of the winner's time. A cell is empty if nothing was timed.");
    for (int m = 0; m < MAPS; m++) {
        for (int i = 0; i < r->entries; i++) {
            bool taken = false;
            for (int j = 0; j < m; j++)
                taken |= shown[j] == &r->entry[i];
            if (!taken && r->entry[i].rows > 1 && (!shown[m] || r->entry[i].rows > shown[m]->rows))
                shown[m] = &r->entry[i];
        }
        if (shown[m])
            heat_map(shown[m], out);
    }
    if (!shown[0])
        buf_puts(out, "<p>No problem has two candidates that were timed.</p>\n");
}

/* ---- shares of the peak ---- */

static bool same_series(const struct report_entry *a, const struct report_entry *b)
{
    return !strcmp(a->problem, b->problem) && !strcmp(a->device, b->device) && a->threads == b->threads;
}

static void by_length(const struct report *r, struct buf *out)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < r->entries; i++) {
        least = fmin(least, (double)r->entry[i].kv_len);
        most = fmax(most, (double)r->entry[i].kv_len);
    }
    const struct svg_plot p = {.out = out,
                               .width = WIDTH,
                               .height = HEIGHT,
                               .x = {"keys", exp2(floor(log2(least)) - 0.5), exp2(ceil(log2(most)) + 0.5), 2},
                               .y = {"% of the peak", 0, 100, 0}};
    heading(out, "Share of the peak by length",
            "Each line is one problem, device and number of threads; of several with the same "
            "number of keys, the best is shown.");
    buf_puts(out, "<p class='key'>");
    for (int i = 0, colour = 0; i < r->entries; i++) {
        char text[200];
        if (i && same_series(&r->entry[i], &r->entry[i - 1]))
            continue;
        snprintf(text, sizeof text, "%.100s, %s, %s", r->entry[i].problem, r->entry[i].device,
                 threads_text(r->entry[i].threads).text);
        key(out, colour++, text);
    }
    buf_puts(out, "</p>\n");
    svg_open(&p);
    for (int i = 0, end, colour = 0; i < r->entries; i = end) {
        double x[64], y[64];
        int n = 0;
        for (end = i; end < r->entries && same_series(&r->entry[i], &r->entry[end]); end++) {
            double keys = (double)r->entry[end].kv_len, share = 100 * share_of(&r->entry[end]);
            int at = 0;
            while (at < n && x[at] < keys)
                at++;
            if (at < n && x[at] == keys) {
                y[at] = fmax(y[at], share);
                continue;
            }
            if (n == 64)
                continue;
            memmove(x + at + 1, x + at, (size_t)(n - at) * sizeof *x);
            memmove(y + at + 1, y + at, (size_t)(n - at) * sizeof *y);
            x[at] = keys;
            y[at] = share;
            n++;
        }
        svg_line(&p, x, y, n, svg_colour(colour), false);
        for (int j = 0; j < n; j++) {
            char text[200];
            snprintf(text, sizeof text, "%.100s, %.0f keys: %.0f %%", r->entry[i].problem, x[j], y[j]);
            svg_point(&p, x[j], y[j], svg_colour(colour), text);
        }
        colour++;
    }
    svg_close(&p);
}

static void by_device(const struct report *r, struct buf *out)
{
    heading(out, "By device", "The problem of each device and type that came nearest to the peak.");
    buf_puts(out,
             "<table><tr><th class='l'>device<th class='l'>type<th>threads<th>best GFLOP/s<th>of the peak<th class='l'>"
             "kernel</tr>\n");
    for (int c = 0; c < r->ceilings; c++) {
        const struct report_entry *best = NULL;
        for (int i = 0; i < r->entries; i++) {
            const struct report_entry *e = &r->entry[i];
            if (!strcmp(e->device, r->ceiling[c].device) && e->dtype == r->ceiling[c].dtype &&
                e->threads == r->ceiling[c].threads && (!best || e->gflops > best->gflops))
                best = e;
        }
        if (!best)
            continue;
        buf_puts(out, "<tr><td class='l'>");
        svg_text(out, best->device);
        buf_printf(out, "<td class='l'>%s<td>%d<td>%.1f<td>%.0f %%<td class='l'><code>", dtype_of(best), best->threads,
                   best->gflops, 100 * share_of(best));
        svg_text(out, best->winner);
        buf_puts(out, "</code></tr>\n");
    }
    buf_puts(out, "</table>\n");
}

void report_page(const struct report *r, struct buf *out)
{
    buf_printf(
        out,
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width'><title>attngen: what was tuned here</title>\n<style>%s</style></head><body>\n"
        "<h1>What attngen has tuned on this machine</h1>\n<p>Made by attngen %d.%d, templates %016llx. Of the cache's "
        "entries, %d are of this machine and version and are shown here; %d others are left "
        "out.</p>\n<h2>Devices</h2>\n<pre>",
        style, ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, (unsigned long long)gen_hash(), r->entries, r->foreign);
    svg_text(out, r->machine.data ? r->machine.data : "");
    buf_puts(out, "</pre>\n");
    table(r, out);
    roofline(r, out);
    heat_maps(r, out);
    by_length(r, out);
    by_device(r, out);
    buf_puts(out, "</body></html>\n");
}
