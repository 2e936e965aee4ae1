/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1).
 * ${LANGUAGE} with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to ${DTYPE} for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
 * A work-group of ${ITEMS} work-items computes ${BQ} queries of one head, ${BK} keys at a time; each warpgroup has 64 rows. A tile takes
 * ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*2} bytes of K and V; a work-item holds ${NS} scores and ${NO} elements of output.
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
 *
% let WITHIN = "the warp's 16                "
% include "opencl/fragments.t"
 *
 * ${BUILDING_1}
 * ${BUILDING_2}
 *
 * Contract: ${LAUNCH_IT} ${ITEMS} and ${GRID} ${GRID_X}${TIMES}ceil(q_len / ${BQ}) * heads * batch. The structs below say
 * what the arguments are; ${COPY == "tma" ? "maps are made by cuTensorMapEncodeTiled over [batch, head, row, element], of boxes of 64 elements by" : "of maps only `together` is read, and room not at all."}${COPY == "async" ? " Rows begin at multiples of 16 bytes." : ANYWHERE ? " Rows may begin anywhere." : ""}
% if COPY == "tma"
 * 64 rows (Q) or ${BK} (K, V), with 128 bytes of swizzle; room is ${MAPS_WHOLE ? "not read." : "640 bytes, and for one launch at a time."} Rows lie whole 16
 * bytes apart; lengths are below 2^30.
% end
 * ${NEAR} Where has_lse or
 * has_lens is 0 any buffer may stand for lse or kv_lens. O must not overlap the inputs. Keys past a sequence's length ${COPY == "tma" ? "may be" : "are not"}
 * read. A row that sees no key gives O = 0 and LSE = -inf. */
