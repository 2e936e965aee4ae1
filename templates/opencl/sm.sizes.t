%# What both of NVIDIA's levels share: whether features change scores one by one and need the struct of their numbers; whether tiles of
%# keys may begin at a key of their own, as with a window or where keys are split; and the order of tiles.
% let MODIFIES = BIAS != "none" or ALIBI or MASK
%# Whether masks are read before scores are made, since few queries over narrow keys would wait for them.
% let MASKS_AHEAD = MASK and ISA == "sm90" and BQ == 16
%# Narrow keys and values (int8, fp8) are widened to f16 on their way to the tensor cores, which is exact; their scales multiply scores and
%# probabilities. Queries in bf16 become f16, too, where each row is multiplied by a power of two. Beside queries in f16 a probability
%# times a scale would need more digits than f16 has: so it is two numbers, what f16 has of it and the rest. Neither can a value take
%# its scale with it then: what f16 would lose of it is twice what the error bound has for that. Blocks of 32 (q8_0, q4_0) have their
%# scales among their numbers.
% let SCALED = type_scaled(DTYPE_KV)
% let BLOCKS = type_values(DTYPE_KV) > 1
%# Where they are widened once for a launch (sm90.once.t), what is copied and multiplied is not narrow any more.
% let NARROW = (SCALED or BLOCKS) and not WIDENED
%# On isa sm90 rows in blocks come to shared memory as they lie, and a warp takes what it multiplies from there, two bytes at a time.
% let RAW = NARROW and BLOCKS and ISA == "sm90"
% assert not WIDENED or ISA == "sm90", "widened belongs to isa sm90"
% assert not WIDENED or SCALED or BLOCKS, "widened is for K and V of int8, fp8, q8_0 and q4_0; dtype.kv must be one of them"
% assert not WIDENED or LOOP == "persistent" and not SPLIT, "widened goes with loop persistent, and not with split"
%# Of f16 beside bf16, which isa sm80 takes, scores are products of tf32, which holds both exactly; P has the type of V.
% let MIXED = ISA == "sm80" and DTYPE_KV != DTYPE and (DTYPE_KV == "f16" or DTYPE_KV == "bf16")
%# Numbers of f32 are two of f16 each, which isa sm80 has (sm80.twofold.t).
% let TWOFOLD = ISA == "sm80" and DTYPE == "f32"
% assert NARROW or WIDENED or MIXED or DTYPE_KV == DTYPE, "the tensor cores multiply K and V of Q's type, and widen narrow ones; dtype.kv must be one of these, or left out"
%# T is the type of what the tensor cores multiply, except that scores of keys that were widened once are products of Q's type.
% let T = MIXED ? DTYPE_KV : NARROW or WIDENED or TWOFOLD ? "f16" : DTYPE
% let T_SCORES = WIDENED and SCALED ? DTYPE : T
%# Numbers of blocks are widened once together with their scales, and then have more digits than f16: a key is two numbers, what f16 has
%# of it and the rest, and so is a value beside queries in f16. Each of the two is multiplied.
% let K_TWO = WIDENED and BLOCKS
% let V_TWO = K_TWO and DTYPE == "f16"
% let FITS = (NARROW or K_TWO) and DTYPE == "bf16"
% let RESTS = (NARROW or WIDENED and SCALED) and DTYPE == "f16" or TWOFOLD
%# Whether queries, keys and values come to the tensor cores as f16 that is times a power of two; and whether keys and values have a scale
%# for each row, which scores and probabilities are multiplied by.
% let FITTED = NARROW or TWOFOLD
% let WEIGHED = SCALED or TWOFOLD
%# Of how many sums a score is. Tensor cores do not round: they add 16 products at a time to a sum, on a Hopper (8 on an A100, and of
%# tf32 half as many), after they have cut off of each what lies more than 25 bits (24) behind the leading one of the largest, and of
%# the new sum what a float has no room for (Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv 2512.07004; Xie et
%# al., "MMA-Sim", arXiv 2511.10909; tests/kit/emulated.h has the model). So a long sum comes out too small, and large scores miss the
%# bound on the LSE, whose share for the type of probabilities is 8 times as large with bf16 as with f16.
%# A sum of up to EXACT columns is taken as it is. Where sums are longer, scores are multiplied by 1 + 2**-22 more: that is somewhat less
%# than what they lost on average, and the bound allows it where they lost nothing. Where one sum would have more than ALONE columns
%# there are several, of at most BESIDE columns each, which are added as floats are, rounded: hardly ever all of them are as wrong as one
%# can be.
%#                                    f16: EXACT, ALONE, BESIDE     bf16: EXACT, ALONE, BESIDE
%#                      isa sm90           144    256    288              384    576      -
%#                      isa sm80            64    128    128              256      -      -
%#                      of tf32             32     64     64              128    128    128
%# By that model, of rows with 16 keys and a scale of 2048/sqrt(head_dim), the largest that random trials draw, up to 5 of 10000 miss
%# the bound. Of those whose scores were one sum, taken as it is, 100 (f16, 256 columns, on a Hopper) to 1800 (576 columns) did. On an
%# H200, of 16384 such rows f16 of 256 columns missed it 202 times and misses it 9 times; bf16 of 576 columns, taken as one sum, 109
%# times. Where each block of q8_0 and q4_0 has a sum of its own nothing is long; where they were widened once, the rests come first.
% let SUM_TYPE = MIXED ? DTYPE_KV : DTYPE
% let STEPS = ceil_div(HD, 16)
% let EXACT = SUM_TYPE == "bf16" ? (ISA == "sm90" ? 384 : MIXED ? 128 : 256) : ISA == "sm90" ? 144 : MIXED ? 32 : 64
% let ALONE = SUM_TYPE == "bf16" ? (ISA == "sm90" ? 576 : EXACT) : ISA == "sm90" ? 256 : 2*EXACT
% let BESIDE = SUM_TYPE == "bf16" ? ALONE : ISA == "sm90" ? 288 : 2*EXACT
% let SUMS = BLOCKS and NARROW or TWOFOLD or 16*STEPS <= ALONE ? 1 : ceil_div(16*STEPS, BESIDE)
% let MAKES_UP = not (BLOCKS and NARROW) and not TWOFOLD and ceil_div(16*STEPS, SUMS) > EXACT
% let TYPE_KV = NARROW or WIDENED ? type_opencl(DTYPE_KV) : TWOFOLD ? "float" : "ushort"
% let FEATURES = WINDOW or SOFTCAP or SINK or MODIFIES or PACKED or PAGED or SCALED
%# Where something is added to scores, they are scaled first and become exponentials with base e. Otherwise they stay as the product
%# makes them, and become exponentials with base two, by one multiplication with the scale times log2(e). A finite bias may be as large
%# as floats get, so the maximum is subtracted before log2(e) multiplies.
% let ADDS = BIAS != "none" or ALIBI
%# Where nothing else is done to scores of narrow keys, exponentials take a row's scale with the power of two of its query in it.
% let FOLDS = FITS and NARROW and ISA == "sm90" and not SOFTCAP and not MODIFIES and BQ != 16
% let UNITS = FITS and NARROW and not FOLDS
%# In the same way they take a scale that all keys of a head share, where these were widened once; or, of blocks, the unit of a tile.
% let TURNS = WIDENED and not SOFTCAP and not MODIFIES and (SCALED or LAZY)
%# O may have another type than Q: f32 goes to memory from registers, and 16 bits by way of shared memory.
% let TYPE_O = type_opencl(DTYPE_O)
% let WIDE_O = DTYPE_O == "f32"
%# Where keys are split a tile has few rows, mostly. Beside narrow keys, which take half of the time, work on rows that are not
%# there counts.
% let SKIPS = FITTED and SPLIT
% let ROUNDED_O = DTYPE_O == T ? "rounded" : "rounded_o"
% let TYPE_BIAS = BIAS == "none" ? "" : type_opencl(BIAS)
%# What scores are multiplied by is the scale times MADE_UP; or, where they become exponentials with base two, times BY_LOG2E.
% let MADE_UP = MAKES_UP ? " * 1.00000024f" : ""
% let BY_LOG2E = MAKES_UP ? " * 1.44269538f" : " * 1.44269504f"
% let LOG2E = ADDS ? "" : " * 1.44269504f"
% let TO_TWO = ADDS ? " * 1.44269504f" : ""
%# Where nothing is done to scores before the softmax, Q takes the sign of their scale.
% let NEGATES = not SOFTCAP and not ADDS
% let FROM = WINDOW or SPLIT
%# Where sequences are packed, a tile says how many queries its sequence has. Groups that stay look for the sequence of each tile
%# (sm.walk.t).
% let WALKS = PACKED and (LOOP == "persistent" or SPLIT)
% let HOW_MANY = PACKED ? "x.queries" : "(int)a.q_len"
% assert COPY != "tma" or LOOP != "joint" or not (PACKED or PAGED), "packed and paged do not go with copy tma where loop is joint; copy must be async or plain"
% assert LOOP != "specialised" or not (PACKED or PAGED), "packed and paged do not go with loop specialised; loop must be persistent"
% assert ORDER == "heavy" or CAUSAL and not SPLIT, "order: straight says something of causal runs alone, and not of splits; it must be left out"
% let NEAR_HEAVY = ISA == "sm90" ? "In a causal run the tiles of maps.together heads (1 or more) are done together, those with the most keys first." : "In a causal run the tiles of so many heads as near says (1 or more) are done together, those with the most keys first."
% let NEAR = ORDER == "heavy" ? NEAR_HEAVY : ISA == "sm90" ? "maps.together is not read." : "near is not read."
