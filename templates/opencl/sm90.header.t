/* attngen emit --variant ${NAME}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-3 (Shah et al. 2024): one warp
 * copies, ${WG} warpgroup${WG > 1 ? "s" : ""} compute${WG > 1 ? "" : "s"}. SPDX-License-Identifier: MIT-0: copy it, change it, keep no notice.
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to ${DTYPE} for the second product.
 *
 * Parameters: ${parameters()}.
 * A work-group of ${ITEMS} work-items computes ${BQ} queries of one head, ${BK} keys at a time${PERSISTENT ? ", then takes the next tile" : ""}. A tile
 * takes ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*2} bytes of K and V; a consumer's work-item holds ${NS} scores and ${NO} elements of output.
 * Local memory: ${LOCAL} bytes.
 *
 * Fragments: element n of a work-item's scores (or output) is row 16*warp + lane/4 + 8*(n/2%2), column 8*(n/4) + 2*(lane%4) +
 * n%2 of its warpgroup's 64 rows. Swizzle: 16 bytes c of row r of a box lie where 16 bytes c^(r%8) would.
 *
 * Building: a driver that compiles for sm_90 refuses wgmma, but gives out the PTX; in it, make `.target sm_90` `.target
 * sm_90a`, add `.minnctapersm 1` behind `.reqntid`, and build that (clCreateProgramWithBinary).
 *
 * Contract: enqueue it with local size ${ITEMS} and global size ${ITEMS} * ${PERSISTENT ? "(as many groups as the device has units, at most one for" : "(a group for"}
 * each of ceil(q_len / ${BQ}) * heads * batch tiles). The structs below say what the arguments are; maps are made by
 * cuTensorMapEncodeTiled over [batch, head, row, element], of boxes of 64 elements by 64 rows (Q, O) or ${BK} (K, V), with
 * 128 bytes of swizzle; room is ${PERSISTENT ? "128 bytes and 512 a group, all zeros before the first launch" : "640 bytes"}, and for one launch at a time. Rows
 * lie whole 16 bytes apart; lengths are below 2^30. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not overlap the inputs. A row that sees no key gives O = 0 and LSE = -inf.${FEATURES ? "" : " */"}
% if FEATURES
 * Scores are scaled${SOFTCAP ? ", capped" : ""} and masked, in this order. struct attn_cl_features stands before what this level takes alone. */
% end
