%# The loop of a warpgroup that multiplies: tile after tile of queries, and within each the keys from last to first, by the steps of
%# sm90.steps.t.
% let FIRST = FROM ? "from" : "0"
%# Maxima are of scores without the scale of their keys; the LSE wants them with it.
% let WHOLE_TOPS = K_TWO ? "rows.top[0] *= x->key_unit, rows.top[1] *= x->key_unit" : FOLDS ? "rows.top[0] *= unit[0], rows.top[1] *= unit[1]" : "rows.top[0] *= unit, rows.top[1] *= unit"
% let IN_SCORES = UNITS ? "s, unit, " : NARROW or HALVES ? "s, " : ""
% let AND_REST = RESTS ? ", rest" : ""
/* All tiles of this work-group, as one sequence of steps. A step begins the scores of its keys, and then the values of the
 * step before, which may belong to the tile before; ${SERIAL ? "when both have come" : "while these are under way"}, it
 * makes exponentials of the scores. Before the first tile there is an empty one: P = 0, and its output is not stored. */
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse${SINK ? ", __global const float *sinks" : ""}${MODIFIES or SCALED ? "," : ")"}
% if MODIFIES or SCALED
    const struct attn_cl_features *f${SCALED ? ", __global const float *k_scales, __global const float *v_scales)" : ")"}
% end
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[${HALVES ? 2*NS : NS}], out[${NO}], factor[2] = {1.0f, 1.0f}, fix[2];
    uint p[${NS/2}]${RESTS ? ", rest[" : ""}${RESTS ? NS/2 : ""}${RESTS ? "]" : ""};
    struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
% if K_TWO
% if TURNS
    float scale = fmax(x->scale * x->key_unit, FLT_MIN);
% end
% elif FITS
    float unit[2]${FOLDS ? ", scale[2]" : ""};
% elif TURNS
    float unit = 1.0f, scale; /* unit: the scale of the keys, where all have the same */
% end
    int pending = 0; /* whether the tile before still has values to multiply, and output to store */
% if LATER
    int due = NOTHING;
% end
    clear(out);
    no_values(p);
    for (;; x->nq++) {
        await(Q_FULL(x->w, x->nq), Q_ROUND(x->nq));
% if PACKED and SPLIT
        shared_written(); /* the copy engine did not bring Q */
% end
% if FROM
        const int from = TILE_AT(x->w, x->nq)->from;
        int j = from + TILE_AT(x->w, x->nq)->count - 1;
% else
        int j = TILE_AT(x->w, x->nq)->count - 1;
% end
        if (j < ${FIRST})
            break;
% if UNEVEN
        const int last = last_seen(x, a);
        if (last < j) {
            if (pending) {
% if FOLDS or TURNS
                ${WHOLE_TOPS};
% end
                finish(out, p${AND_REST}, x, &rows, factor, a, lse${AND_SINKS});
            }
            skip(j - last, x, pending);
            clear(out);
            no_values(p);
            pending = 0, j = last;
        }
% end
% if SCALED
        const float key_scale = x->even_k ? even_scale(k_scales, f->k_scales_at, f->k_scales_stride, TILE_AT(x->w, x->nq)) : 1.0f;
        x->value_scale = x->even_v ? even_scale(v_scales, f->v_scales_at, f->v_scales_stride, TILE_AT(x->w, x->nq)) : 1.0f;
% end
% if K_TWO
% if TURNS
        if (pending)
            ${WHOLE_TOPS};
% end
% if FITS
        fit_queries(x);
% end
% elif FOLDS
        if (pending)
            ${WHOLE_TOPS};
        fit_queries(x, unit);
        unit[0] *= fabs(key_scale), unit[1] *= fabs(key_scale);
        scale[0] = fmax(x->scale * unit[0], FLT_MIN), scale[1] = fmax(x->scale * unit[1], FLT_MIN);
% elif FITS
        fit_queries(x, unit);
        unit[0] *= key_scale, unit[1] *= key_scale;
% elif TURNS
        if (pending)
            ${WHOLE_TOPS};
        unit = fmax(fabs(key_scale), FLT_MIN); /* not 0, since -inf * 0 would be NaN */
        scale = fmax(x->scale * unit, FLT_MIN);
% elif RESTS or WIDENED
        x->key_scale = key_scale;
% end
% if NEGATES
        if (${SCALED and (FOLDS or TURNS) ? "(a->scale < 0.0f) != (key_scale < 0.0f)" : "a->scale < 0.0f"})
            negate_q(x);
% end
        begin_step(s, out, p${AND_REST}, x${LATER ? ", due, factor, x->nq - 2" : ""});
        set_ends(x, TILE_AT(x->w, x->nq));
% if BOUNDED
        x->length = length_of_queries(x);
% end
        close_rows(x, &rows, factor, pending, a, lse${AND_SINKS});
% if SHARES
        if (pending)
            tell(x, p, factor, ENDS);
% end
        await_staging(x);
        end_scores(${IN_SCORES}x, j == ${FIRST});
% if WIDENED
        scale_scores(s, x);
% end
% if K_TWO and BOUNDED
        next_unit_of_keys(x, &rows, &scale, RECORD_AT(x->nk - 1)[2]);
% end
% if SOFTCAP
        cap(s, x->ratio${SMALL_CAPS ? ADDS ? ", f->softcap <= 128.0f" : ", x->scale <= 184.665f" : ""}${SPLIT ? ", rows_from_here(x)" : ""});
% end
% if MODIFIES
        modify_tile(s, x, j, a, f);
% end
        mask_edge(s, x, j);
        softmax(s, &rows, fix, ${FOLDS or TURNS ? "scale" : "x->scale"}${QUICK ? ", x->rise" : ""}${SKIPS ? ", rows_from_here(x)" : ""});
% if BOUNDED
        set_limit(x, &rows, scale);
% end
% if not EARLY
        end_values(x);
% end
% if NARROW and INVARIANT
        float first_by[2];
        x->unit[0] = x->unit[1] = 1.0f;
        scale_values(s, p${AND_REST}, x, first_by);
% elif RESTS
        scale_values(s, p, rest, x);
% else
        round_all(p, s);
% if WIDENED
        next_unit(x);
% elif NARROW
        scale_values(p, x);
% end
% end
% if SHARES
        tell(x, p, fix, BEGINS);
% end
% if LATER
        due = pending ? STORING : NOTHING;
        if (!pending)
            clear(out);
% else
        if (pending)
            ${STORE};
        clear(out);
% end
        pending = 1;
        while (--j >= ${FIRST}) {
            begin_step(s, out, p${AND_REST}, x${LATER ? ", due, factor, x->nq - 1" : ""});
% if BOUNDED and K_TWO
            const float4 record = *(__local const float4 *)RECORD_AT(x->nk);
% elif BOUNDED
            float2 end;
            float4 early[${SCALES_EARLY}];
            early_scales(&end, early, x);
% end
            end_scores(${IN_SCORES}x, j == ${FIRST});
% if K_TWO or WIDENED and not BOUNDED
            scale_scores(s, x);
% end
% if SOFTCAP
            cap(s, x->ratio${SMALL_CAPS ? ADDS ? ", f->softcap <= 128.0f" : ", x->scale <= 184.665f" : ""}${SPLIT ? ", rows_from_here(x)" : ""});
% end
% if MODIFIES
            modify_tile(s, x, j, a, f);
% end
% if BOUNDED and K_TWO
            const int grown = softmax_of_blocks(s, &rows, factor, &scale, record, x, j);
% elif BOUNDED
            int grown;
            if (!x->even_k)
                grown = softmax_of_rows(s, &rows, factor, end, early, x, j);
            else
                grown = softmax_of_head(s, &rows, factor, scale, end.y, x, j);
% else
% if CAUSAL or WINDOW
            mask_edge(s, x, j);
% end
            ${SCALED or K_TWO ? "int" : "const int"} grown = softmax(s, &rows, factor, ${FOLDS or TURNS ? "scale" : "x->scale"}${QUICK ? ", x->rise" : ""}${SKIPS ? ", rows_from_here(x)" : ""});
% end
% if not EARLY
            end_values(x);
% end
% if NARROW and INVARIANT
            float by[2];
            scale_values(s, p${AND_REST}, x, by);
% elif RESTS
            const float by = scale_values(s, p, rest, x);
% else
            round_all(p, s);
% if WIDENED and not BOUNDED
            const float by = next_unit(x);
% elif NARROW
            const float by = scale_values(p, x);
% end
% end
% if NARROW and INVARIANT
            factor[0] = grown ? factor[0] * by[0] : by[0], factor[1] = grown ? factor[1] * by[1] : by[1];
            grown = in_warp(grown || by[0] != 1.0f || by[1] != 1.0f); /* a row whose unit stays is multiplied by 1 */
% elif (SCALED or K_TWO) and (RESTS or not BOUNDED)
            if (by != 1.0f) { /* the scales of values were divided by another number */
                factor[0] = grown ? factor[0] * by : by, factor[1] = grown ? factor[1] * by : by;
                grown = 1;
            }
% end
% if SHARES
            tell(x, p, factor, grown ? RESCALES : GOES_ON);
% end
% if LATER
            due = grown ? RESCALING : NOTHING;
% else
            if (grown)
                rescale(out, factor);
% end
        }
    }
% if FOLDS or TURNS
    ${WHOLE_TOPS};
% end
    if (pending)
        finish(out, p${AND_REST}, x, &rows, factor,${LATER ? " due," : ""} a, lse${AND_SINKS});
% if SHARES
    tell(x, p, factor, NO_MORE);
% end
}
