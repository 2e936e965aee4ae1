/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after ${SPLIT ? "Flash-Decoding (Dao, Haziza, Massa, Sizov 2023) and " : ""}FlashAttention-2 (Dao 2023, algorithm 1).
 * ${LANGUAGE} with inline PTX for NVIDIA's sm_80 and later; arithmetic is f32, ${TWOFOLD ? "numbers are multiplied as two of f16 each." : "P is rounded to "}${TWOFOLD ? "" : T}${TWOFOLD ? "" : " for the second product."}
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
% if SPLIT
 * A work-group of ${ITEMS} work-items computes ${BQ} rows, queries of heads that share a KV head, over ${SPLIT} keys, ${BK} keys at a time;
 * each warp has ${MR} rows. The group that is last to finish with a row's keys merges the results of all. A tile takes
% else
 * A work-group of ${ITEMS} work-items computes ${BQ} queries of one head, ${BK} keys at a time; each warp has ${MR} rows. A tile takes
% end
 * ${2*BQ*BK*(HD + HDV)} flops and ${BLOCKS ? BK*(HD + HDV)/32*UNIT : BK*(HD + HDV)*(NARROW ? 1 : 2*FOLD)} bytes of K and V; a work-item holds ${FR*NS} scores, ${FR*NO} elements of output${Q_STAYS ? " and " : ""}${Q_STAYS ? 2*FR*NQ/FOLD : ""}${Q_STAYS ? " of Q" : ""}.
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
% if NARROW
 * K and V are ${DTYPE_KV}, and a number is the stored one times its ${BLOCKS ? "block's" : "row's"} scale. They are widened to f16, exactly, ${WIDENS ? "by all warps together" : "by each warp in registers"}${FITS ? ", and queries" : ";"}
% if FITS
 * become f16, too, each row times a power of two;
% else
 * a probability times a scale is two numbers of f16, what one has of it and the rest;
% end
% if BLOCKS
 * products of 32 columns are multiplied by the scales of their blocks, and probabilities by those of each 32 columns of values.
% else
 * scores are multiplied by the scales of keys, and probabilities by those of values, ${IN_FOURS ? "in whose boxes a row has one byte for each column." : "whose boxes are as those of f16."}
% end
% end
% if TWOFOLD
 * Rows of Q, K and V are multiplied by powers of two, so that both parts of their numbers fit f16; their inverses multiply scores and
 * probabilities. A product is three: of the upper parts, and of either with the lower one of the other side.
% end
% if MIXED
 * Q is ${DTYPE}, K and V are ${DTYPE_KV}: Q and K are multiplied as tf32, which holds both exactly.
% end
 *
% let WITHIN = "a fragment's 16              "
% include "opencl/fragments.t"
 *
% if SPLIT
 * Contract: ${LAUNCH_IT} ${ITEMS} and ${GRID} ${GRID_X}${TIMES}splits * slices * kv_heads * batch, of struct attn_cl_split. The structs below say
 * what the arguments are. near is not read. done is 16 bytes for each of slices * kv_heads * batch, all zeros before the first launch;
 * parts is, for each of these, splits * part floats, or anything where splits is 1; they are for one launch at a time.
% else
 * Contract: ${LAUNCH_IT} ${ITEMS} and ${GRID} ${GRID_X}${TIMES}ceil(q_len / ${BQ}) * heads * batch. The struct below says
 * what the arguments are. ${NEAR}
% end
 * ${ANYWHERE ? "Rows may begin anywhere." : "Rows begin at multiples of 16 bytes."} Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must
 * not overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE = -inf.${FEATURES ? "" : " */"}
% if PACKED
 * Packed sequences: q_len and kv_len are those of the longest ones, or more; a group whose ${SPLIT ? "unit of work" : "tile"} its sequence does not have ends.
% end
% if PAGED
 * Pages of any number of rows are found by the kernel, row by row.
% end
% if FEATURES
 * Scores are scaled${SOFTCAP ? ", capped" : ""}${BIAS != "none" ? ", biased" : ""}${ALIBI ? ", lowered by distance" : ""} and masked, in this order. struct attn_cl_features stands before what this level takes alone. */
% end
