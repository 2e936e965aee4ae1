%# Which blocks have scores that features change while a table makes words of them (woven_inside.micro), and by what numbers. The
%# others are changed by a pass of their own before (woven_modify.t): where a bound leaves too much to tanh, where slopes are
%# below 0, and where biases or bytes do not lie as they are read.

/* What makes words of the scores of a block. */
struct reading {
    float **at;          /* what trips take */
    int inside;          /* whether it changes them, too */
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
    /* Terms of tanh are for numbers up to 1, and what they are off by grows with scores. */
    inside = inside && bound < f->softcap * 1.4426f && bound < 144.0f;
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

/* The numbers of all blocks. */
static void begin_changes(const struct head *x, float *space)
{
% if SOFTCAP
    static const float tanh_terms[5] = {0.999993089f, -0.332980653f, 0.130368113f, -0.0448175552f, 0.00903642452f}; /* times x, x^3 ... x^9: 6.9e-6 off at most, for x up to 1 */
    const float cap = x->a->features->softcap, of_cap = x->a->scale / cap;
    float factor = cap * ${WORD_UNIT}${KEYED ? "" : " * of_cap"};
    for (int64_t t = 0; t < 5; t++${KEYED ? "" : ", factor *= of_cap * of_cap"})
        space[${TERMS} + t] = factor * tanh_terms[t];
% if KEYED
    space[${CHANGES}] = of_cap;
% end
% else
    space[${CHANGES}] = x->a->scale * ${WORD_UNIT};
% end
% if BIAS != "none"
    space[${CHANGES + 4}] = ${WORD_UNIT}, space[${CHANGES + 5}] = 128.0f * 227.0f - 11.0f;
% end
}

/* The numbers of a block. */
static void read_block(const struct head *x, const struct group *g, int64_t block, float *space${READS ? ", struct reading *r" : ""})
{
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
    (void)x, (void)block;
% end
}
