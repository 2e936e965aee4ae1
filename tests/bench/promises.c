/* promises.c - see promises.h. */
#include "promises.h"

void judge(struct bench *b, enum promise_id id, const char *what, double measured, const char *unit,
           const struct contender *one, const struct contender *other)
{
    struct promise *p = id == NO_PROMISE ? NULL : &b->promise[id];
    const struct timing *t = &one->timing, *u = &other->timing;
    char line[120];
    bool noisy = t->noisy || u->noisy, met = !p || measured >= p->floor;
    snprintf(line, sizeof line, "%s%s", what, noisy ? "~" : "");
    table_row(&b->table, line, measured, unit, p ? p->floor : 0, 0);
    fprintf(b->csv, "\"%s\",%.4g,%s,%.4g,%s,%s,%d,%.9f,%.9f,%d,%.9f,%.9f\n", what, measured, unit, p ? p->floor : 0,
            met ? "true" : "false", noisy ? "true" : "false", t->samples, t->min_s, t->median_s, u->samples, u->min_s,
            u->median_s);
    fflush(b->csv);
    if (!p)
        return;
    p->met += met;
    if (p->of++ == 0 || measured < p->least) {
        p->least = measured;
        snprintf(p->worst, sizeof p->worst, "%.80s%s", what, noisy ? "~" : "");
    }
}

void print_promises(const struct bench *b)
{
    for (int i = 0; i < PROMISES; i++) {
        const struct promise *p = &b->promise[i];
        if (p->of)
            printf("%s: %s, %d of %d reach %.4g %s; least %.4g (%s)\n", p->what, p->met == p->of ? "met" : "NOT MET",
                   p->met, p->of, p->floor, p->unit, p->least, p->worst);
    }
}
