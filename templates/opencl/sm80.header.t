/* attngen emit --variant ${NAME}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023) on the tensor cores of
 * NVIDIA's Ampere and later. SPDX-License-Identifier: MIT-0: copy it, change it, keep no notice.
 * OpenCL C 1.2 with inline PTX for compute capability 8.0; arithmetic is f32, P is rounded to ${DTYPE} for the second product.
 *
 * Parameters: ${parameters()}.
 * A work-group of ${ITEMS} work-items, four warps, computes ${BQ} queries of one head, ${BK} keys at a time. A tile takes
 * ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*2} bytes of K and V; a work-item holds ${MT*NS} scores and ${MT*NO} elements of output; Q is in ${Q_HELD ? "registers" : "shared memory"}.
 * Local memory: ${LOCAL} bytes.
 *
 * Fragments: element n of a work-item's scores (or output) is row lane/4 + 8*(n/2%2), column 8*(n/4) + 2*(lane%4) + n%2 of its
 * warp's 16 rows${MT > 1 ? ", and so for 16 more" : ""}. Swizzle: 16 bytes c of row r of a box lie where 16 bytes c^(r%8) would.
 *
 * Contract: enqueue it with local size (${ITEMS}, 1, 1) and global size (${ITEMS} * ceil(q_len / ${BQ}), heads, batch); the struct below
 * says what the arguments are. Rows begin at multiples of 16 bytes; lengths are below 2^30. Where has_lse or has_lens is 0 any
 * buffer may stand for lse or kv_lens. O must not overlap the inputs. Keys past a sequence's length are not read. A row that
 * sees no key gives O = 0 and LSE = -inf. */
