%# A tile of the tensor WHAT, a bias or a mask, for the vectors of scores: read where its keys lie side by side and a vector has the keys
%# of one row, or else copied to the stage in the order of the scores. An element has TYPE; where all rows have the same ones, IN_WORD of
%# them are stored at once, as a WORD.
%# Where a whole tile and all rows are there, COPIED keys of each row are copied at a time.
% let COPIED = BK % 4 == 0 ? 4 : 1
% let COPIES = WHAT == "bias" ? "biases" : "masks"
    int64_t ${WHAT}_step = f->${WHAT}_stride[3];
    const ${TYPE} *${WHAT} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t] + j * ${WHAT}_step;
    ${TYPE} *${COPIES} = (${TYPE} *)w->stage;
% if R == 1
    if (n < ${BK})
        memset(${COPIES}, 0, ${BK} * sizeof *${COPIES});
    if (n < ${BK} || ${WHAT}_step != 1) {
        for (int64_t c = 0; c < n; c++)
            ${COPIES}[c] = ${WHAT}[c * ${WHAT}_step];
        ${WHAT} = ${COPIES};
    }
% else
    if (n < ${BK} || t + ${R} > x->count)
        memset(${COPIES}, 0, ${BK*R} * sizeof *${COPIES});
    if (alike(x, f->${WHAT}_stride)) {
        ${WORD} *to = (${WORD} *)w->stage;
        for (int64_t c = 0; c < n; c++, to += ${R/IN_WORD}, ${WHAT} += ${WHAT}_step) {
            const ${WORD} one = ${WHAT}[0]${IN_WORD > 1 ? " * 0x1010101u" : ""};
% for r in 0..R/IN_WORD
            to[${r}] = one;
% end
        }
    } else if (n == ${BK} && t + ${R} <= x->count && ${WHAT}_step == 1) {
        ${TYPE} *to = ${COPIES};
% for r in 0..R
        const ${TYPE} *of_${r} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t + ${r}] + j;
% end
        for (int64_t c = 0; c < ${BK}; c += ${COPIED}, to += ${COPIED*R}) {
% for r in 0..R
% for c in 0..COPIED
            to[${c*R + r}] = of_${r}[${c}];
% end
            of_${r} += ${COPIED};
% end
        }
    } else
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
            ${TYPE} *to = ${COPIES} + r;
            ${WHAT} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t + r] + j * ${WHAT}_step;
            for (int64_t c = 0; c < n; c++, to += ${R}, ${WHAT} += ${WHAT}_step)
                *to = *${WHAT};
        }
% end
