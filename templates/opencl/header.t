/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1) with the
 * online softmax of Milakov and Gimelshein (2018, algorithm 3).
 * ${LANGUAGE_ALONE}. Arithmetic is f32${NARROW ? "; f16 and bf16 are storage" : ""}.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
 * A work-group of ${GX} x ${GQ} work-items computes ${BQ} queries of one head, ${BK} keys at a time; a work-item holds ${MR} rows by
 * ${NV*BLOCKS*VW} scores and ${MR*TURNS} rows by ${CV*VW} columns of output. A tile takes ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*type_bytes(DTYPE_KV)/VALUES} bytes of K and V.
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
 *
 * Contract: ${LAUNCH_IT} (${GX}, ${GQ}, 1) and ${GRID} (${GRID_X}${TIMES}ceil(q_len / ${BQ}), ${GRID_Y}${TIMES}heads, batch); the struct
 * below says what the arguments are. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not
 * overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE = -inf.${FEATURES ? "" : " */"}
% if FEATURES
 * Scores are scaled${SOFTCAP ? ", capped" : ""}${BIAS != "none" ? ", biased" : ""}${ALIBI ? ", lowered by distance" : ""}${MASK ? ", masked" : ""}, in this order.${PACKED ? " q_len is the longest sequence's." : ""} */
% end
