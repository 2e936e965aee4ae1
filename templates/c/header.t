/* attngen emit --variant ${NAME}
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after ${SPLIT and not WOVEN ? "Flash-Decoding (Dao, Haziza, Massa, Sizov 2023)" : "FlashAttention-2 (Dao 2023, algorithm 1)"}${WOVEN ? ", without its running maximum: exponentials are relative to " : " with the online softmax of Milakov and Gimelshein (2018, algorithm 3)"}${WOVEN ? ROWWISE ? "0" : "a bound that no score passes" : ""}${WOVEN ? ", and rows for which that is too far off are computed again" : ""}.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: ${parameters()}.
% if WOVEN and SPLIT
 * Groups of ${MR} rows of queries of the heads that share a KV head meet blocks of ${KEYS} keys, in parts of ${SPLIT} that are added in order. ${TABLE ? "Words" : "Exponentials"} need ${vectors(TABLE ? "words" : "exponentials")} of ${REGISTERS} vector registers, values ${tiles("values")} of 8 tiles.
 * Workspace: ${WORKSPACE} bytes.
 *
 * The system lets a process use tiles only if it has asked: call ${NAME}_prepare once before the first ${NAME}.
% elif WOVEN
 * A tile of ${BQ} queries by ${BK} keys takes ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*SIZE} bytes of K and V: ${2*BQ*(HD + HDV)/((HD + HDV)*SIZE)} flops a byte.
 * Within it groups of ${MR} queries meet blocks of ${KEYS} keys. ${SERIAL ? "Exponentials need" : "A trip of the pipeline needs"} ${vectors(SERIAL ? "exponentials" : INSIDE ? "trip_changed" : "trip")} of ${REGISTERS} vector registers${SERIAL ? ", values" : ""} ${SERIAL ? "" : "and "}${tiles(SERIAL ? "values" : INSIDE ? "trip_changed" : "trip")} of 8 tiles.
 * Workspace: ${WORKSPACE} bytes and ${(KBLOCK + VBLOCK + SIDE)*4} for every ${KEYS} keys, which parts may share.
 *
 * The system lets a process use tiles only if it has asked: call ${NAME}_prepare once before the first ${NAME}.
% elif SPLIT
 * ${BQ} rows of queries of the heads that share a KV head walk its keys together, ${BK} at a time, in parts of ${SPLIT} that are joined in order.
% if REGISTERS
 * Vector registers of ${W*32} bits: ${vectors(FEW ? SCORES_BY : INTEGRAL ? "sum_again" : ACROSS ? "across_again" : QUARTERED ? "quartered_again" : FOURS ? "score_fours" : WORDS ? "score_words" : "score_tile")} in the scores, ${LISTED ? vectors("tile_values") : LAST == NV or PANELS > 1 ? vectors(FEW ? "value_rows" : DIRECT ? "add_values" : "value_tile") : vectors(FEW ? "value_rest" : DIRECT ? "add_rest" : "value_last")} in the values, ${vectors(FEW ? "softmax_rows" : RAW ? "softmax_words" : "softmax")} in the softmax step, of ${REGISTERS}.
% end
 * Workspace: ${FEW_ALL} bytes${ABREAST > 1 ? "; where heads lie side by side, " : ""}${ABREAST > 1 ? FEW_PART + 2*FEW_RESULT + FEW_LISTS : ""}${ABREAST > 1 ? " more for each of up to " : ""}${ABREAST > 1 ? ABREAST : ""}${ABREAST > 1 ? " of them" : ""}.
% if TILES
 *
 * The system lets a process use tiles only if it has asked: call ${NAME}_prepare once before the first ${NAME}.
% end
% else
 * A tile of ${BQ} queries by ${BK} keys takes ${2*BQ*BK*(HD + HDV)} flops and ${BK*(HD + HDV)*SIZE/VALUES} bytes of K and V: ${2*BQ*(HD + HDV)*VALUES/((HD + HDV)*SIZE)} flops a byte.
% if REGISTERS
 * Vector registers of ${W*32} bits: ${vectors(SCORES_OF)} in the score tile, ${WEIGHS and BLOCKS ? vectors("value_block") : LAST == NV or PANELS > 1 ? vectors("value_tile") : vectors("value_last")} in the value tile, ${vectors(RAW ? "softmax_words" : "softmax")} in the softmax step, of ${REGISTERS}.
% end
 * Workspace: ${WORKSPACE} bytes and ${KTILE*4 + VTILE*4} for every ${BK} keys, which parts may share.
% end
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * ${NAME} returns 0, or 1 if it refuses args: size is not sizeof(struct attn_args), part is not one of parts, ${FEATURES ? "features is NULL, " : ""}or there is no KV head. It allocates nothing and keeps no state: any number of threads may call it at once, each with a workspace of its own. O must not overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives an O of 0 and an LSE of minus infinity. The result has the same bits for any number of parts.
% if NEEDS != ""
 *
 * It must not be called on a processor that lacks one of these features: ${NEEDS}. It does not check that.
 * Where the compiler knows no vectors of that kind, or ATTN_PLAIN_C is defined, it is plain C, which runs on any processor and is many times slower.
% end
% if FEATURES
 * What the features take is in struct attn_features, which args->features must point to.${MODIFY ? " Scores are scaled" : ""}${SOFTCAP ? ", capped" : ""}${BIAS != "none" ? ", biased" : ""}${ALIBI ? ", lowered by distance" : ""}${MASK ? ", masked" : ""}${MODIFY ? ", in this order." : ""}
% end
 *
 * To declare it in another file, define ATTN_DECLARATIONS there and include this file. */
% if JIT
typedef unsigned long size_t; ${NARROW ? "typedef signed char int8_t; " : ""}typedef short int16_t; typedef int int32_t; typedef long int64_t; typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
void *memcpy(void *, const void *, unsigned long);
void *memset(void *, int, unsigned long);
% else
#include <stdint.h>
#include <string.h>
% end
% if FEATURES
% include "c/features.h"
% end
% include "c/args.h"
% if not JIT
#ifdef __cplusplus
extern "C" {
#endif
% end
/* The bytes of one part's workspace, or of memory to share if part is -1; or, if it is -2 or -3, into how many pieces the work of phase 0
 * or 1 can be divided where memory is shared: more parts have nothing to do; or, if it is -4, how many KV heads of a sequence a part is best
 * given together. It reads batch, heads, lengths, part${SPLIT ? "" : " and shared"}${ABREAST > 1 ? ", and strides of K and V" : ""} alone. */
int64_t ${NAME}_workspace(const struct attn_args *args);
int ${NAME}(const struct attn_args *args);
% if TILES and not JIT
/* Asks the system for tiles, for all threads of this process: 0, or the reason why there are none, which is a constant. */
const char *${NAME}_prepare(void);
% end
% if not JIT
#ifdef __cplusplus
}
#endif
% end

#ifndef ATTN_DECLARATIONS
% if not JIT
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "scores may be infinite; expected -fno-finite-math-only behind -ffast-math or -Ofast"
#endif
% end
