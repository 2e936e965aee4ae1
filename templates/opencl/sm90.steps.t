%# What a warpgroup that multiplies does in each step: it begins the scores of a tile of keys and the values of the tile before, ends
%# either, and passes over keys that none of its rows sees. In which order, and what happens to the scores, is said in sm90.consume.t.
%# LATER, EARLY: when output is stored or rescaled, and whether the values come before the scores; see sm90.sizes.t.
% let STORE = SPLIT ? (SINK ? "leave_output(x, x->nq - 1, 0, out, factor, a, lse, sinks)" : "leave_output(x, x->nq - 1, 0, out, factor, a, lse)") : "store_output(x, x->nq - 1, out, factor)"
% let STORE_LAST = SPLIT ? (SINK ? "leave_output(x, x->nq - 1, 1, out, factor, a, lse, sinks)" : "leave_output(x, x->nq - 1, 1, out, factor, a, lse)") : STORE
% let NEXT_K = INSIDE ? "x->nk += x->step" : "x->nk++"
% let NEXT_V = INSIDE ? "x->nv += x->step" : "x->nv++"
% let AND_SINKS = SINK ? ", sinks" : ""
% let AND_ITS_REST = RESTS ? ", const uint *rest" : ""

/* With ping-pong, one warpgroup's products run while the other makes exponentials. */
% if PINGPONG
#define TAKE_TURN(x) named_sync(1 + (x)->w, 256)
#define GIVE_TURN(x) named_arrive(2 - (x)->w, 256)
% else
#define TAKE_TURN(x)
#define GIVE_TURN(x)
% end
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void clear(float *out)
{
    #pragma unroll
    for (int n = 0; n < ${NO}; n++)
        out[n] = 0.0f;
}

% if SHARES
% include "opencl/sm90.shares.t"

% end
% if LATER
/* What is to be done with output before more is added to it: nothing; store it as that of tile n and begin anew; or multiply
 * it. */
enum due { NOTHING, STORING, RESCALING };

INLINED void settle(float *out, int due, const float *factor, const struct worker *x, uint n)
{
    if (due == STORING) {
        store_output(x, n, out, factor);
        clear(out);
    } else if (due == RESCALING)
        rescale(out, factor);
}

% end
% if EARLY
INLINED void end_values(struct worker *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    ${NEXT_V};
}

/* Multiplies the values of the keys before these, gives their place back, and begins the scores of these keys. It may have to wait for
 * these, and meanwhile the keys after them are on their way to the place that was given back. */
% else
/* Begins the scores of these keys, and then the values of those
 * before${LATER ? "; in between, while scores are multiplied, it does what is due" : ""}. */
% end
INLINED void begin_step(float *s, float *out, const uint *p${AND_ITS_REST}, struct worker *x${LATER ? ", int due, const float *factor, uint n" : ""})
{
    const uint shared = x->shared;
% if EARLY
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
    end_values(x);
% end
    await(K_FULL(x->nk), ROUND(x->nk));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    TAKE_TURN(x);
% if PACKED or PAGED or WIDE
    begin_scores(s, (uint)anew((int)Q_AT(x->w, x->nq)), K_AT(x->nk)); /* otherwise its descriptors would be kept, in memory for lack of registers */
% else
    begin_scores(s, Q_AT(x->w, x->nq), K_AT(x->nk));
% end
% if LATER
    settle(out, due, factor, x, n);
% end
% if not EARLY
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
% end
    GIVE_TURN(x);
}
% if EARLY
INLINED void end_scores(${HALVES ? "float *s, " : ""}struct worker *x, int last)
{
    const uint shared = x->shared;
    products_wait();
% if HALVES
    add_halves(s);
% end
% else
INLINED void end_scores(${UNITS ? "float *s, const float *unit, " : NARROW or HALVES ? "float *s, " : ""}struct worker *x, int last)
{
    const uint shared = x->shared;
    ${SERIAL ? "products_wait" : "products_wait_but_last"}();
% if HALVES
    add_halves(s);
% end
% if NARROW
    scale_scores(s, x${UNITS ? ", unit" : ""});
% end
% end
% if INSIDE
    if (x->step == 2) /* no values that are still to be multiplied lie in them */
        RELEASE(x, K_EMPTY(x->nk));
% else
    RELEASE(x, K_EMPTY(x->nk));
% end
    ${NEXT_K};
    if (last) /* these are the tile's last keys */
        RELEASE(x, Q_EMPTY(x->w, x->nq));
}
% if not EARLY
INLINED void end_values(struct worker *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    ${NEXT_V};
}
% end

/* Multiplies the last values of the tile before, by themselves. */
INLINED void finish(float *out, const uint *p${AND_ITS_REST}, struct worker *x, struct row_states *rows, float *factor,${LATER ? " int due," : ""}
    const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""})
{
    const uint shared = x->shared;
% if LATER
    settle(out, due, factor, x, x->nq - 2);
% end
    await(V_FULL(x->nv), ROUND(x->nv));
% if PAGED
    shared_written(); /* work-items may have copied them */
% end
    begin_values(out, p${RESTS ? ", rest, x->has_rest" : ""}, V_AT(x->nv));
    close_rows(x, rows, factor, 1, a, lse${AND_SINKS});
% if SHARES
    tell(x, p, factor, ENDS);
% end
    await_staging(x);
    end_values(x);
    ${STORE_LAST};
}

INLINED void no_values(uint *p)
{
    #pragma unroll
    for (int n = 0; n < ${NS/2}; n++)
        p[n] = 0;
}

% if UNEVEN
/* Passes over the first steps of a tile, whose keys no row of this warpgroup sees. The values of the last such step stay,
 * and are multiplied by P = 0. */
INLINED void skip(int steps, struct worker *x, int pending)
{
    const uint shared = x->shared;
    #pragma unroll 1
    for (; steps > 0; steps--, pending = 0) {
        await_by_all(K_FULL(x->nk), ROUND(x->nk));
        RELEASE(x, K_EMPTY(x->nk));
        x->nk++;
        if (pending) /* the last values of the tile before were multiplied without this tile's first scores */
            continue;
        await_by_all(V_FULL(x->nv), ROUND(x->nv));
        RELEASE(x, V_EMPTY(x->nv));
        x->nv++;
    }
}

% end
