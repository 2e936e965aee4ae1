%# A tile of the tensor WHAT, a bias or a mask, for the vectors of scores: read where its keys lie side by side and a vector has the keys
%# of one row, or else copied to the stage in the order of the scores. An element has TYPE; where all rows have the same ones, IN_WORD of
%# them are stored at once, as a WORD.
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
    if (alike(x, f->${WHAT}_stride))
        for (int64_t c = 0; c < n; c++) {
            ${WORD} one = ${WHAT}[c * ${WHAT}_step]${IN_WORD > 1 ? " * 0x1010101u" : ""}, *to = (${WORD} *)w->stage + c * ${R/IN_WORD};
% for r in 0..R/IN_WORD
            to[${r}] = one;
% end
        }
    else
        for (int64_t r = 0; r < ${R} && t + r < x->count; r++) {
            ${TYPE} *to = ${COPIES} + r;
            ${WHAT} = (const ${TYPE} *)f->${WHAT} + x->${WHAT}_at[t + r] + j * ${WHAT}_step;
            for (int64_t c = 0; c < n; c++, to += ${R}, ${WHAT} += ${WHAT}_step)
                *to = *${WHAT};
        }
% end
