/* attngen emit --variant ${NAME}${LANGUAGE_OPTION}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after ${SPLIT ? "Flash-Decoding (Dao, Haziza, Massa, Sizov 2023) and " : ""}FlashAttention-3 (Shah et
 * al. 2024, sections 3.1 and 3.2): one warp copies, ${CW} warpgroup${CW > 1 ? "s" : ""} compute${CW > 1 ? "" : "s"}.
 * ${LANGUAGE} with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to ${T} for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
% if SPLIT
 * A work-group of ${ITEMS} work-items computes ${BQ} rows, queries of heads that share a KV head, over ${SPLIT} keys, ${BK} keys at a time,
 * then takes the next such unit; the group that is last to finish with a row's keys merges the results of all. A tile
% else
 * A work-group of ${ITEMS} work-items computes ${BQ} queries of one head, ${BK} keys at a time${PERSISTENT ? ", then takes the next tile" : ""}. A tile
% end
 * takes ${2*BQ*BK*(HD + HDV)} flops and ${RAW ? BK*(K_BYTES + V_BYTES) : BK*(HD + HDV)*(NARROW ? 1 : 2)} bytes of K and V; a consumer's work-item holds ${NS} scores and ${NO} elements of output.
% if SHARES
 * The two warpgroups share the columns of output: the first multiplies ${DV} of them and makes all scores and probabilities, which it
 * tells the second.
% end
% if INSIDE
 * Where values are the first columns of keys (they begin at the same place, and have the same strides) they are read with these,
 * and not again.
% end
 * Local memory: ${LOCAL} bytes${LOCAL_COMES}.
 *
% let WITHIN = FEW ? "the slice's 16               " : "the warpgroup's 64           "
% include "opencl/fragments.t"
 *
 * ${BUILDING_1}
 * ${BUILDING_2}
 *
 * Contract: ${LAUNCH_IT} ${ITEMS} and ${GRID} ${GRID_X}${TIMES}${PERSISTENT ? "(as many groups as the device has units, at most one for" : "(a group for"}
% if SPLIT
 * each of splits * ${WG > 1 ? "ceil(slices / 2)" : "slices"} * kv_heads * batch units, of struct attn_cl_split). The structs below say what the arguments are.
 * Maps are made by cuTensorMapEncodeTiled with 128 bytes of swizzle: of K and V over [batch, head, row, element], of boxes of
 * 64 elements by ${BK} rows; of Q and O over [batch, KV head, head of its group, row, element], of 64 by split.rows by split.heads.
 * room is 128 bytes${MAPS_WHOLE ? "" : " and 512 a group"}, and done 16 bytes for each of slices * kv_heads * batch, all zeros before the first launch;
 * parts is, for each of these, splits * part floats, or anything where splits is 1; they are for one launch at a time. Rows
% else
 * each of ceil(q_len / ${BQ}) * heads * batch tiles). The structs below say what the arguments are; maps are made by
 * cuTensorMapEncodeTiled over [batch, head, row, element], of boxes of 64 elements by 64 rows (Q, O) or ${BK} (K, V), with
 * 128 bytes of swizzle; room is ${MAPS_WHOLE ? "128 bytes, all zeros before the first launch" : PERSISTENT ? "128 bytes and 512 a group, all zeros before the first launch" : "640 bytes"}, and for one launch at a time. Rows
% end
 * lie whole 16 bytes apart; lengths are below 2^30. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not overlap the inputs. A row that sees no key gives O = 0 and LSE = -inf.${FEATURES or RAW or WIDENED ? "" : " */"}
% if PACKED
 * Packed sequences: q_len and kv_len are those of the longest ones, or more; only the kernel reads where sequences begin. It finds
 * a tile's sequence by itself, those with many keys first, so that groups may be fewer than tiles, or more. Maps of a packed side have a batch of 1; how many rows there are the kernel puts in.${MAPS_WHOLE ? " room has 512 bytes more a group." : ""}
% if SPLIT
 * Rows of Q and O are read and written one by one, and their maps not at all; slices are those of the longest sequence, and part is
 * ${SLICE} * ${HDV + 2}.
% end
% end
% if PAGED
 * Pages: K's and V's maps have a page where others have a sequence, and boxes of maps.box rows, which divide those of a page and ${BK}
 * and are a multiple of 8. Where there is no such number box is 0, and rows are copied one by one. Rows of a page that are no
 * keys may be read.
% end
% if RAW
 * K and V are ${DTYPE_KV}, in ggml's layout of blocks of 32 numbers behind a scale in f16, and may begin and lie anywhere; strides count blocks.
 * Each of ${WARPS} warps takes ${STRIP} keys of a tile and widens them to f16, exactly, in registers; sums over the columns of a block of keys, and
 * probabilities for each block of values, are multiplied by these scales. The warps put together what they have when a unit ends. Rows of
 * O are written one by one. Maps of K, V and O are not read. What lies in the same 16 bytes as a row of K or V may be read.${FEATURES ? "" : " */"}
% elif FEW
 * K and V are ${DTYPE_KV}, and a number is the stored one times its row's scale: each of ${WARPS} warps takes ${STRIP} keys of a tile and widens them
 * to f16, exactly, in registers; scores are multiplied by the scales of keys and probabilities by those of values. The warps put
 * together what they have when a unit ends. Rows of O are written one by one, and its map is not read. Maps of K and V are of
 * elements of 16 bits, half as many as there are numbers, in boxes of 64: two numbers are one of these. Rows of K and V lie whole
 * 16 bytes apart, which are 16 numbers.
% elif K_TWO
 * K and V are ${DTYPE_KV}, in ggml's layout; strides and offsets count blocks. Three warps of each group, and all warps for its first tile, widen
 * them together with their scales before they are wanted, once for a launch: a key to two numbers of f16, whose sum it is, over a power of two
 * for each tile${V_TWO ? "; and a value likewise" : "; a value to one, rounded, over another"}. wide is memory for that: for every head of every batch two times kv_len rows of ${2*HD} bytes,
 * then ${V_TWO ? "two times kv_len" : "as many as kv_len"} rows of ${2*HDV} for each, then ${RECORD} bytes for each tile of ${BK} keys, at least one. done has 4 bytes for each of these tiles, all zeros
 * before the first launch; both are for one launch at a time. Maps of K and V describe the rows in wide${IN_PAGES ? ", which are out of their pages," : ""}${PACKED ? ", where each sequence has kv_len rows," : ""} as
 * [batch, head, row, element] without gaps, where K${V_TWO ? " and V have" : " has"} two heads for each of its heads. K and V begin at whole 2 bytes.${FEATURES ? "" : " */"}
% elif WIDENED
 * K and V are ${DTYPE_KV}, and a number is the stored one times its row's scale. Three warps of each group, and all warps for its first tile,
 * widen them before they are wanted, once for a launch: keys to ${DTYPE}, exactly, whose scales multiply scores; values${RESTS ? " to f16, exactly, whose scales multiply probabilities" : ", with their scales, to f16"}. wide is memory for that: for
 * every head of every batch kv_len rows of ${2*HD} bytes, then as many of ${2*HDV}, then ${RECORD} bytes for each tile of ${BK} keys, at least one. done has 4
 * bytes for each of these tiles, all zeros before the first launch; both are for one launch at a time. Maps of K and V describe the
 * rows in wide${IN_PAGES ? ", which are out of their pages," : ""}${PACKED ? ", where each sequence has kv_len rows," : ""} as [batch, head, row, element] without gaps. Rows of K and V lie whole 16 bytes apart, which are 16 numbers.
% elif NARROW
 * K and V are ${DTYPE_KV}, and a number is the stored one times its row's scale: ${WIDENERS} warps widen tiles to f16, exactly, scores are multiplied
 * by the scales of keys and probabilities by those of values. Maps of K and V are of elements of 16 bits, half as many as there are
 * numbers, in boxes of 64: two numbers are one of these. Rows of K and V lie whole 16 bytes apart, which are 16 numbers.
% end
% if FEATURES
 * Scores are scaled${SOFTCAP ? ", capped" : ""}${BIAS != "none" ? ", biased" : ""}${ALIBI ? ", lowered by distance" : ""} and masked, in this order. struct attn_cl_features stands before what this level takes alone. */
% end
