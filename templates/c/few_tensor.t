%# A tile of the tensor WHAT, a bias or a mask, for the vectors of scores: read where its keys lie side by side, if all keys of a tile are there,
%# or else copied to the stage in the order of the scores. An element has TYPE; ONE does what it says by an array in that order, and ALL by where
%# the elements of each row begin.
% let COPIES = WHAT == "bias" ? "biases" : "masks"
    int64_t ${WHAT}_step = f->${WHAT}_stride[3];
% if R == 1
    const ${TYPE} *${WHAT} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t] + j * ${WHAT}_step;
    ${TYPE} *${COPIES} = (${TYPE} *)w->stage;
    if (n < ${BK})
        memset(${COPIES}, 0, ${BK} * sizeof *${COPIES});
    if (n < ${BK} || ${WHAT}_step != 1) {
        for (int64_t c = 0; c < n; c++)
            ${COPIES}[c] = ${WHAT}[c * ${WHAT}_step];
        ${WHAT} = ${COPIES};
    }
    ${ONE}(s, ${WHAT}, 0, ${BK/KB/PER});
% else
% if SIDE_KEYS
    if (n == ${BK} && ${WHAT}_step == 1) {
        const ${TYPE} *rows[${R}];
        for (int64_t c = 0; c < ${BK}; c += ${SIDE_KEYS}) {
            for (int64_t r = 0; r < ${R}; r++)
                rows[r] = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[least(t + r, x->count - 1)] + j + c;
            ${ALL}(s + c * ${R}, rows);
        }
    } else
% end
    {
        ${TYPE} *${COPIES} = (${TYPE} *)w->stage;
        if (n < ${BK} || t + ${R} > x->count)
            memset(${COPIES}, 0, ${BK*R} * sizeof *${COPIES});
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
            const ${TYPE} *${WHAT} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t + r] + j * ${WHAT}_step;
            for (int64_t c = 0; c < n; c++, ${WHAT} += ${WHAT}_step)
                ${COPIES}[c * ${R} + r] = *${WHAT};
        }
        ${ONE}(s, ${COPIES}, 0, ${BK/KB/PER});
    }
% end
