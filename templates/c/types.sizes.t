%# What a kernel in C calls the types of its arrays, and a slot of 32 bits: one f32, or two bf16 where the ISA multiplies pairs.
%# Which kernels do, the generator says: PAIRS is what variant_in_pairs in gen/fields.h returns.
%# OPENS: where vectors of pairs are multiplied, panels of narrow keys and values hold pairs, too, and scales beside them.
% let TILES = has_type("tile") ? 1 : 0
% let NARROW = type_scaled(DTYPE_KV) or type_values(DTYPE_KV) > 1
% let WOVEN = TILES and PAIRS
% let OPENS = PAIRS and NARROW and not TILES ? 1 : 0
% let PER = PAIRS ? 2 : 1
% let E = PAIRS ? "bf16x2" : "f32"
% let TQ = DTYPE
% let TKV = DTYPE_KV
% let TO = DTYPE_O
% let TB = BIAS
% let CQ = type_c(TQ)
% let CKV = type_c(TKV)
% let CO = type_c(TO)
%# Narrow keys and values are bytes, each times a scale of its row, or blocks of VALUES numbers in BYTES bytes, which are read as
%# signed bytes or, where two numbers share one, as bytes. Packing makes rows of floats, or of bf16, of them first.
% let VALUES = type_values(TKV)
% let BLOCKS = VALUES > 1
% let NIBBLES = TKV == "q4_0"
% let BYTES = BLOCKS ? type_bytes(TKV) : 1
% let TK = NIBBLES ? "u8" : BLOCKS ? "int8" : TKV
% let TROW = OPENS ? "bf16" : NARROW ? "f32" : TKV
% let CB = TB == "none" ? "" : type_c(TB)
% let NATURAL = BIAS != "none"
%# Exponentials are powers of two, so that what adds to scores is times log2(e); powers of e where there is a bias.
% let TIMES_UNIT = NATURAL ? "" : " * 1.44269504f"
% let TIMES_SCALE_UNIT = SOFTCAP ? " * (1 / a->features->softcap)" : TIMES_UNIT
% let WHY_UNIT = NATURAL ? "" : " /* exponentials are powers of two */"
%# Where bits are a promise, a score is the sum of four chains, each of every fourth slot: few queries then have keys as they lie. Where pairs
%# are multiplied it is the sum of as many as a vector has lanes (ACROSS): a vector of a key then meets one of a row as both lie.
%# Over int8 and blocks a score is made of sums of products of integers then, which have no order (INTEGRAL), as far as those of int8 have room in 32
%# bits; of blocks, one for each block.
% let INTEGRAL = INVARIANT and OPENS and (TKV == "int8" or BLOCKS) and has_op("dotwordsr") and HD <= 512 ? 1 : 0
% let CHAINS = INVARIANT and has_op("fours") and not TILES and not (OPENS and BLOCKS) and not INTEGRAL ? (PAIRS ? W : 4) : 1
% let ACROSS = CHAINS > 4 ? 1 : 0
%# Of keys in blocks four keys share a vector then, a quarter for each: a block's sum has four chains, and slots are in the order in which
%# few queries open a block.
% let QUARTERED = INVARIANT and OPENS and BLOCKS and has_op("couplef") and not INTEGRAL ? 1 : 0
%# Pairs of int8 and fp8 that few queries make by tables are of the first eight columns of every 16, and of the others; prompts have slots in
%# that order, too.
% let EIGHTS = ACROSS and OPENS and HD % 64 == 0 and has_op("someentries") ? 1 : 0
%# Of rows of bf16 the even and the odd elements of two vectors are then parted, which is the cheaper way to widen them, in kernels for few
%# queries and in all others.
% let PARTS_K = CHAINS > 1 and not PAIRS and DTYPE_KV == "bf16" ? 1 : 0
% include "features.sizes.t"
