%# Which blocks have scores that features change while a table makes words of them (woven_inside.micro), and by what numbers. The
%# others are changed by a pass of their own before (woven_modify.t): where a bound leaves too much to tanh, where slopes are
%# below 0, and where biases or bytes do not lie as they are read.

/* What makes words of the scores of a block. */
struct reading {
    float **at;          /* what trips take */
    int inside;          /* whether it changes them, too */
% if REACHES
    int far;             /* and by which terms of tanh */
% end
% if READS
    const ${MASK ? "uint8_t" : CB} *beside; /* the first row's ${MASK ? "bytes" : "biases"} for the block */
    int64_t ld;          /* and from there to the next row's */
% end
};

/* Finds which blocks of a group are changed while they are read.${SOFTCAP ? " bound: no score, before it is capped, is a larger power of two." : ""} */
static void find_changed(const struct head *x, struct group *g${SOFTCAP ? ", float bound" : ""})
{
    const struct attn_features *f = x->a->features;
    int inside = x->inside;
    g->changed = g->begin, g->unchanged = g->end;
% if SOFTCAP
    /* Five terms of tanh are for numbers up to 1, and what they are off by grows with scores.${REACHES ? " What the others are off by grows with the cap." : ""} */
    int near = bound < f->softcap * 1.4426f && bound < 144.0f${KEYED ? "" : " && x->steep > 1e-4f * f->softcap && x->steep < 1e3f * f->softcap"};
% if REACHES
    g->far = !near;
    inside = inside && (near || f->softcap < 100.0f);
% else
    inside = inside && near;
% end
% end
% if READS
    inside = inside && (g->rows == ${MR} || f->${MASK ? "mask" : "bias"}_stride[2] == 0);
    g->unchanged = least(g->unchanged, x->s->keys / ${KEYS});
% end
% if ALIBI
    inside = inside && f->slopes[g->h] >= 0.0f && f->slopes[g->h] < 1e30f; /* no score is above what it was */
% end
% if not SOFTCAP and not READS and not ALIBI
    (void)f;
% end
    if (!inside)
        g->unchanged = g->changed;
}

/* Whether a block's scores are changed while they are read. */
static int is_changed(const struct group *g, int64_t block) { return block >= g->changed && block < g->unchanged; }

/* Trips, or words alone, of a block that is read so. */
static void trip_inside(const struct reading *r, int64_t n, int64_t step, int64_t pitch)
{
% let AHEAD = AHEAD_ROWS ? ", step, pitch" : ""
% if not AHEAD_ROWS
    (void)step, (void)pitch;
% end
% if REACHES
    if (r->far)
        trip_far(r->at, n${AHEAD}${READS ? ", r->beside, r->ld" : ""});
    else
% end
    trip_changed(r->at, n${AHEAD}${READS ? ", r->beside, r->ld" : ""});
}
static void words_inside(const struct reading *r)
{
% if REACHES
    if (r->far)
        words_far(r->at${READS ? ", r->beside, r->ld" : ""});
    else
% end
    words_changed(r->at${READS ? ", r->beside, r->ld" : ""});
}

/* The numbers of all blocks. */
static void begin_changes(const struct head *x, float *space)
{
% if SOFTCAP
    /* Times x, x^3 ... x^9: 6.9e-6 of tanh off at most, for x up to 1. */
    static const float tanh_terms[5] = {0.999993089f, -0.332980653f, 0.130368113f, -0.0448175552f, 0.00903642452f};
    const float cap = x->a->features->softcap, of_cap = x->a->scale / cap;
    float factor = cap * ${WORD_UNIT}${KEYED ? "" : " * of_cap"};
    for (int64_t t = 0; t < 5; t++${KEYED ? "" : ", factor *= of_cap * of_cap"})
        space[${TERMS} + t] = factor * tanh_terms[t];
% if KEYED
    space[${CHANGES}] = of_cap;
% end
% if REACHES
    /* Terms about n times 0.368, for n from 0 to 16; below 0 it is the same, with other signs of every other term: 2.4e-5 off at most. */
    static const float pieces[4][17] = {
        {0.0f, 0.352217f, 0.626707f, 0.80193f, 0.899962f, 0.950798f, 0.976125f, 0.988492f, 0.994471f, 0.997348f, 0.998729f, 0.999391f,
         0.999708f, 0.99986f, 0.999933f, 0.999968f, 0.999985f},
        {0.367993f, 0.32234f, 0.22346f, 0.131343f, 0.0699478f, 0.0353236f, 0.0173631f, 0.00842176f, 0.00405854f, 0.00194976f,
         0.000935276f, 0.000448319f, 0.000214825f, 0.000102922f, 4.9306e-05f, 2.36197e-05f, 1.13146e-05f},
        {0.0f, -0.0410252f, -0.0510592f, -0.0387268f, -0.0232769f, -0.0124587f, -0.00629764f, -0.00309588f, -0.00150157f,
         -0.000723597f, -0.000347615f, -0.000166745f, -7.99277e-05f, -3.82995e-05f, -1.83492e-05f, -8.7904e-06f, -4.21098e-06f},
        {-0.0163897f, -0.00909774f, 0.00169235f, 0.00545162f, 0.00450774f, 0.00273742f, 0.00146368f, 0.000738539f, 0.000362643f,
         0.000175781f, 8.46813e-05f, 4.06745e-05f, 1.95094e-05f, 9.35134e-06f, 4.48087e-06f, 2.14676e-06f, 1.02842e-06f}};
    for (int64_t t = 0; t < 4; t++)
        for (int64_t n = -16; n < 16; n++) /* entry 31 is that of -1 */
            space[${AT_PIECES} + t * ${2*W} + (n & 31)] = pieces[t][n < 0 ? -n : n] * (n < 0 && t % 2 == 0 ? -cap : cap) * ${WORD_UNIT};
    space[${CHANGES}] = of_cap / 0.368f;
% end
% else
    space[${CHANGES}] = x->a->scale * ${WORD_UNIT};
% end
% if BIAS != "none"
    space[${CHANGES + 4}] = ${WORD_UNIT}, space[${CHANGES + 5}] = 128.0f * 227.0f - 11.0f;
% end
}

/* The numbers of a block. */
static void read_block(const struct head *x, const struct group *g, int64_t block, float *space, struct reading *r)
{
% if REACHES
    r->far = g->far;
% end
    space[${CHANGES + 1}] = 128.0f * (127.0f - g->base${NATURAL ? " * 1.44269504f" : ""}) - 11.0f;
% if ALIBI
    space[${CHANGES + 2}] = x->a->features->slopes[g->h] * -${WORD_UNIT};
    space[${CHANGES + 3}] = (float)(g->i0 + x->s->offset - block * ${KEYS});
% end
% if READS
% let WHAT = MASK ? "mask" : "bias"
    const struct attn_features *f = x->a->features;
    r->ld = f->${WHAT}_stride[2];
    r->beside = (const ${MASK ? "uint8_t" : CB} *)f->${WHAT} + x->s->b * f->${WHAT}_stride[0] + g->h * f->${WHAT}_stride[1] + g->i0 * r->ld + block * ${KEYS};
% elif not ALIBI
    (void)x, (void)block, (void)r;
% end
}
