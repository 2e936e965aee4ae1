/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * P = softmax(S) along the keys of each row, a step of attention by three launches.
 * ${LANGUAGE_ALONE}. Arithmetic is f32${NARROW ? "; f16 and bf16 are storage" : ""}.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
 * ${LANES > 1 ? "A work-group" : "A work-item"} computes a row, in three passes: its maximum, the sum of its exponentials, the quotients.
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
 *
 * Contract: ${LAUNCH_IT} (${GROUP}, 1, 1) and ${GRID} (${GRID_X}${TIMES}${LANES > 1 ? "rows" : "ceil(rows / 64)"}, heads, batch); the struct
 * below says what the arguments are. P must not overlap S. A row without keys, or of -inf alone, is 0.${CAUSAL ? "" : " */"}
% if CAUSAL
 * Behind the keys that a row sees P is 0, and S is not read. */
% end
