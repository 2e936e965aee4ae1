/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * C = scale * A ${B} for each head, a step of attention by three launches: ${TRANSPOSED ? "scores of queries and keys" : "probabilities times values"}.
 * ${LANGUAGE_ALONE}. Arithmetic is f32${NARROW ? "; f16 and bf16 are storage" : ""}.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
% if TILED
 * A work-group of ${GX} x ${GQ} work-items computes ${BQ} rows by ${BK} columns of C, of which a work-item holds ${MR} by ${NV*VW}; ${DEPTH} columns of A
 * and as much of B lie in local memory at once.
% else
 * A work-item computes one element of C, and reads its row of A and ${TRANSPOSED ? "row" : "column"} of B from memory.
% end
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
 *
 * Contract: ${LAUNCH_IT} (${GX}, ${GQ}, 1) and ${GRID} (${GRID_X}${TIMES}ceil(n / ${COLUMNS}), ${GRID_Y}${TIMES}ceil(m / ${ROWS}), heads * batch); the
 * struct below says what the arguments are. B is ${TRANSPOSED ? "n x k" : "k x n"}. C must not overlap A or B. With k = 0 it is zero. */
