%# The order of products with `ahead`: the scores of the next keys are begun before the exponentials of these, and the values of the
%# keys before these are multiplied meanwhile, too. So a warpgroup waits for no product that it has just begun, as it does in
%# sm90.cl.t, and the tensor cores have work while it makes exponentials, whether or not another warpgroup gives them some. That
%# takes registers for twice as many scores, which small head dims leave free. The assembler must see which products are under way:
%# it gives up, and makes each wait for the one before, where one depends on a condition, where the output is cleared beside scores
%# that are being multiplied, or where two ways out of the loop meet. That is why the text below is as it is.
/* Where a warpgroup is: of the keys whose exponentials are next, and of those whose scores were begun last, one step ahead. */
struct front {
    uint nk; /* tiles of keys whose scores were begun so far */
    int j;   /* the last one's number within its tile of queries */
    int is;  /* whether it was one: behind the last tile of queries there is none */
    int first; /* whether the next exponentials are those of a tile's first keys */
};

/* Begins the scores of the next keys. Where there are none it begins some that nobody looks at, since products must not depend on a
 * condition. */
INLINED void begin_next(float *s, const struct worker *x, uint nq, struct front *y${NEGATES ? ", const struct attn_cl_args *a" : ""})
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    if (nq != x->nq || !y->nk) { /* a new tile of queries */
        await(Q_FULL(x->w, nq), Q_ROUND(nq));
        y->is = TILE_AT(x->w, nq)->count > 0;
        y->j = ${FROM ? "TILE_AT(x->w, nq)->from + " : ""}TILE_AT(x->w, nq)->count;
% if NEGATES
        if (y->is && a->scale < 0.0f)
            negate_q(x, nq);
% end
    }
    y->j--;
    if (y->is)
        await(K_FULL(y->nk), ROUND(y->nk));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = anything(); /* what they were need not be kept until now */
    begin_scores(s, (uint)anew((int)Q_AT(x->w, nq)), K_AT(y->nk));
    y->nk++;
}

/* The step of some keys, whose scores s were begun in the step before: begins the scores `next` of the keys behind them, turns s
 * into exponentials, and begins their values. Where these are a tile's first keys it stores the output of the tile before. */
INLINED void take_step(float *s, float *next, float *out, uint *p, struct worker *x, struct front *y, struct row_states *rows,
    const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""}${MODIFIES ? ", const struct attn_cl_features *f" : ""})
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    const int j = y->j, first = y->first;
    float inverse[2], fix[2];
    const int last = j == ${FROM ? "TILE_AT(x->w, x->nq)->from" : "0"};
    begin_next(next, x, x->nq + last, y${NEGATES ? ", a" : ""});
    products_wait_but_two();
    RELEASE(x, K_EMPTY(x->nk));
    x->nk++;
    if (last)
        RELEASE(x, Q_EMPTY(x->w, x->nq));
    if (first) {
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, rows, inverse, x->nq > 0, a, lse${SINK ? ", sinks" : ""});
        await_staging(x);
    }
% if SOFTCAP
    cap(s, x->ratio);
% end
% if MODIFIES
    modify_tile(s, x, j, a, f);
% end
% if CAUSAL or WINDOW
    mask_edge(s, x, j);
% else
    if (first)
        mask_edge(s, x, j);
% end
    const int grown = softmax(s, rows, fix, x->scale);
    /* Sums before the wait, and probabilities behind it: so these can have the registers of those that were multiplied. */
    rows->sum[0] = now(rows->sum[0]), rows->sum[1] = now(rows->sum[1]);
    products_wait_but_last();
    #pragma unroll
    for (int n = 0; n < ${NS}; n++)
        s[n] = now(s[n]);
    round_all(p, s);
    RELEASE(x, V_EMPTY(x->nv));
    x->nv++;
    if (first) {
        if (x->nq > 0)
            store_output(x, x->nq - 1, out, inverse);
        #pragma unroll
        for (int n = 0; n < ${NO}; n++)
            out[n] = anything();
    } else if (grown)
        rescale(out, fix);
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p, V_AT(x->nv), !first);
    x->nq += last, y->first = last;
}

/* Stores the output of the last tile, whose last values are being multiplied. */
INLINED void finish(const float *out, const struct worker *x, struct row_states *rows, const struct attn_cl_args *a,
    __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    float inverse[2];
    products_wait();
    close_rows(x, rows, inverse, 1, a, lse${SINK ? ", sinks" : ""});
    await_staging(x);
    store_output(x, x->nq - 1, out, inverse);
}

/* All tiles of this work-group, as one sequence of steps. */
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""}${MODIFIES ? ", const struct attn_cl_features *f" : ""})
{
    const uint shared = x->shared;
    float s[2][${NS}], out[${NO}];
    uint p[${NS/2}];
    struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    struct front y = {.first = 1};
    begin_next(s[0], x, 0, &y${NEGATES ? ", a" : ""});
    await(V_FULL(x->nv), ROUND(x->nv)); /* of none */
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        p[n] = 0;
    begin_values(out, p, V_AT(x->nv), 0); /* whatever lies there: the first step expects these products */
    if (!y.is) {
        products_wait();
        return;
    }
    for (;;) {
        take_step(s[0], s[1], out, p, x, &y, &rows, a, lse${SINK ? ", sinks" : ""}${MODIFIES ? ", f" : ""});
        if (!y.is) {
            finish(out, x, &rows, a, lse${SINK ? ", sinks" : ""});
            return;
        }
        take_step(s[1], s[0], out, p, x, &y, &rows, a, lse${SINK ? ", sinks" : ""}${MODIFIES ? ", f" : ""});
        if (!y.is) {
            finish(out, x, &rows, a, lse${SINK ? ", sinks" : ""});
            return;
        }
    }
}
