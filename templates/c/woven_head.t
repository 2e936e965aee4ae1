%# What a share of the work begins with: ones to sum by, and what follows from the scale.
    for (int64_t i = 0; i < ${W}; i++)
        w.trip[${ONES} + i] = real_of(0x3f803f80u);
    for (int64_t n = ${W}; n < ${W*W}; n *= 2)
        memcpy(w.trip + ${ONES} + n, w.trip + ${ONES}, (size_t)n * sizeof(float));
    memcpy(w.exact + ${ONES}, w.trip + ${ONES}, ${4*W*W});
    head.a = a, head.w = &w${ROWWISE ? "" : ", head.room = 0.0f"};
% if MODIFY
    head.factor = ${NATURAL ? "1.44269504f" : "1.0f"};
    head.scale = a->scale${TIMES_SCALE_UNIT};
    head.steep = (a->scale < 0 ? -a->scale : a->scale) * ${KEYED ? "2.88539008f" : "1.44269504f"};
    head.hidden = MINUS_INFINITY;
% if INSIDE
    head.inside = !a->lse && head.steep > 1e-30f && head.steep < 1e30f;
% if READS
    head.inside = head.inside && a->features->${MASK ? "mask" : "bias"}_stride[3] == 1;
% end
% end
% else
    head.factor = a->scale${TIMES_UNIT};${WHY_UNIT}
    if (head.factor == 0.0f)
        head.factor = 1.17549435e-38f; /* times which a score is nothing, and minus infinity itself */
    head.steep = ${KEYED ? "2.0f * (" : ""}head.factor < 0 ? -head.factor : head.factor${KEYED ? ")" : ""};
    head.hidden = head.factor > 0 ? MINUS_INFINITY : -MINUS_INFINITY;
% end
% if ROWWISE
    head.exact = ${TABLE and not MODIFY ? "head.steep < 1e-30f" : "0"}; /* a scale that leaves words no room for scores that are not seen */
% end
% if BOUNDED
    head.ends[0] = head.factor > 0 ? ${TABLE ? "-1e7f / head.factor" : "MINUS_INFINITY"} : 100.0f / head.factor;
    head.ends[1] = head.factor > 0 ? 100.0f / head.factor : ${TABLE ? "-1e7f / head.factor" : "-MINUS_INFINITY"};
    head.ends[2] = head.ends[head.factor > 0];
% end
