%# The sizes of forward attention on tiles (woven.micro, woven_few.micro, woven_pack.micro, woven.t), what must hold of them, and the micro-kernels it is built of.
% include "c/types.sizes.t"
%# An f16 is the sum of two bf16 without an error, and so are a query in f16 and its probabilities. A number in a block, times the
%# block's scale, is the sum of two where it has four bits, and of three where it has eight. A packed row of queries or keys has its parts
%# behind one another. Scores are all products of parts: without that of the lower ones of f16, which is up to 2**-14 of a score, large
%# scores would miss the bound. But the third part of a key is at most 2**-17 of it: queries in bf16 go without its product where the lengths of
%# queries and keys say that no score is off by more than half of what an LSE may be (ROUGH). Of values there are two parts at most, and
%# outputs go without the product of the lower ones; where outputs are bf16, values in blocks are one bf16, rounded as these outputs are.
% let PARTS = TQ == "f16" ? 2 : 1
%# A number with a scale beside is a bf16 times the rest of its scale, from 1 up to 2: scores are multiplied by the rests of their
%# keys, and probabilities by those of their values. Sums are of probabilities as they are multiplied, over those rests, of which a tile
%# of columns behind the values has the inverses.
% let KEYED = type_scaled(TKV) ? 1 : 0
% let KEY_PARTS = BLOCKS ? (NIBBLES ? 2 : 3) : KEYED ? 1 : PARTS
% let ROUGH = KEY_PARTS == 3 and PARTS == 1 ? 1 : 0
% let MULTIPLIED = KEY_PARTS - ROUGH
%# So third parts lie apart, and are packed when a group first wants them; where keys are split, each block of them has all of its parts.
% let THIRDS = ROUGH and not SPLIT ? 1 : 0
% let STORED = KEY_PARTS - THIRDS
% let PLANES = KEYED ? 1 : BLOCKS and (TO != "bf16" or SINK) ? 2 : PARTS
% let TOGETHER = TKV == "fp8" and has_op("allcodes") ? 1 : 0
% let TROW = "bf16"
%# Slots of a row of queries or keys, once, and packed; elements of a row of values before it is packed.
% let LDX = round_up(ceil_div(HD, PER), W)
% let LDQ = PARTS*LDX
% let LDK = STORED*LDX
% let STEPS = LDX/W
% let CV = ceil_div(HDV, W)
% let LDO = CV*W
% let CT = CV + KEYED
% let LDV = KEYED ? LDO + W : PLANES == 2 ? round_up(LDO, PER*W) : LDO
%# From one vector of a row of outputs to the next: two tiles of rows lie in between. Vectors of it that become bf16 two and two.
% let COLUMN = 2*W*W
% let PAIRED_O = TO == "bf16" ? CV - CV % 2 : 0
% let NR = W
% let SIZE = type_bytes(TKV)
% let KEYS = NV*W
% let GROUPS = BQ/MR
%# What a kernel of the other algorithm has, and these micro-kernels ask about.
% let PARTED_Q = 0
% let PARTED_O = 0
% let QUERY_PARTS = 0
% let FEW = 0
% let WIDENS = 0
% let IN_BLOCK = max(1, VALUES/W)
% let TPART = NARROW ? "f32" : TKV
% let R = W
% let LIVE = R
% let QROWS = W
% let LOG_W = 4
%# A state: of 16 rows each four vectors as in attn.sizes.t, and the bias of their exponents.
% let MAX = 0
% let SUM = W
% let FIX = 2*W
% let BASE = 3*W
% let BIAS_AT = 4*W
% let STATE = 5*W
%# Of a space that the trips share, in slots.
% let AT_SCORES = 0
% let AT_PROBS = AT_SCORES + 8*W*W
% let ONES = AT_PROBS + PARTS*4*W*W
% let FACTOR = ONES + W*W
%# Keys that a row does not see are hidden among exponentials where these are words, but where bits are a promise, as scores are.
% let CUTS_WORDS = TABLE and not INVARIANT and not SPLIT ? 1 : 0
%# Where a table makes exponentials, what changes scores does so while these are read for it (INSIDE, woven_inside.micro), unless bits are a
%# promise: other kernels round in another order. One trip reads one tensor, so that beside a bias a mask has a pass of its own, and so has all else.
%# READS: which one, of how many lines for a row; V: rows whose words are computed side by side; BY_KEYS: each 16 keys have a summand of their own.
% let INSIDE = MODIFY and TABLE and not SPLIT and not INVARIANT and not SERIAL and not (MASK and BIAS != "none") ? 1 : 0
% let READS = INSIDE and (MASK or BIAS != "none") ? 1 : 0
% let TC = MASK ? "u8" : TB
% let READ_LINE = BIAS == "none" ? 64 : 64/type_bytes(TB)
% let READ_LINES = KEYS/READ_LINE
% let V = SOFTCAP and BIAS != "none" ? 1 : SOFTCAP or KEYED and ALIBI ? min(U, 2) : U
%# Whether scores under a softcap may be of any size there: other features beside need the registers.
% let REACHES = INSIDE and SOFTCAP and not ALIBI and not KEYED ? 1 : 0
% let BY_KEYS = KEYED or ALIBI and CAUSAL ? 1 : 0
% let CHANGES = FACTOR + W
% let TERMS = CHANGES + 6
% let FACTORS = 11
% let SUMMANDS = FACTORS + 4
% let DISTANCES = SUMMANDS + 4
% let PIECES = DISTANCES + 4
%# 128 to a power of two, times log2(e).
% let WORD_UNIT = "184.664965f"
% let AT_ROWS = CHANGES + W
% let AT_COLUMNS = AT_ROWS + MR
% let AT_PIECES = AT_ROWS
% let SPACE = INSIDE ? (ALIBI ? AT_COLUMNS + KEYS : REACHES ? AT_PIECES + 8*W : AT_ROWS) : FACTOR + W
%# Of a group of queries.
% let KBLOCK = KEYS*LDK
% let PLANE = CT*2*W*W
% let VBLOCK = PLANES*PLANE
% let TBLOCK = THIRDS*KEYS*LDX
%# How many blocks of keys, packed, are 1 MiB: half of what isa amx has of L2.
% let NEAR_BLOCKS = 1048576/(4*(KBLOCK + VBLOCK))
%# Of a block's keys: the rests of their scales, those of their values', and 128 times the logarithms of the latter.
% let SIDE = KEYED ? (TABLE ? 3 : 2)*KEYS : 0
% let GROUP_O = MR*LDQ
% let GROUP_Z = GROUP_O + CV*COLUMN
%# Sums of P as it is multiplied, in tiles, and before it was rounded.
% let GROUP_STATE = GROUP_Z + 2*COLUMN
%# Whether exponents are relative to 0, and each row answers for itself: where bits are a promise, and for few queries, of which each
%# thread sees too few keys to know a bound. So many blocks are then computed alone, and what they leave is added to what those before
%# them left, which lies there.
% let ROWWISE = INVARIANT or SPLIT
% let JOINS = SPLIT ? SPLIT/KEYS : INVARIANT ? JOINT/KEYS : 0
% let RESULT = GROUP_STATE - GROUP_O
% let GROUP_TOTAL = GROUP_STATE + 2*STATE
% let GROUP_ALL = GROUP_TOTAL + (JOINS ? RESULT : 0)
%# Where keys are split, rows of all heads of a group stand side by side, unless a feature has numbers of its own for each head or row.
%# KV heads do not go through their keys side by side.
% let ABREAST = 1
% let BESIDE = SPLIT and not (BIAS != "none" or MASK or ALIBI)
%# Up to 64 of them meet keys of bf16 where these lie, as the other side of the product, which is the same sum; for more it is worth
%# packing keys. Their queries lie behind what else a group has. Without the promise, up to 16 of them meet values where these lie, too: the even columns, and the odd ones.
% let ACROSS = BESIDE and TABLE and not MODIFY and TKV == "bf16"
% let PARTED_V = ACROSS and not INVARIANT and CV % 2 == 0
% let AT_PARTED = AT_SCORES + 4*W*W
%# With the promise up to CHAINED rows meet values where these lie, too: by vectors, which add in the order of tiles. So many rows of keys to
%# come are fetched with the scores and the probabilities of a block, and as many values as it has with its own, so that memory is never idle.
% let CHAINED = ACROSS and INVARIANT and CV % 2 == 0 ? 4 : 0
% let FEW_ROWS = 0
% let KEYS_WITH_SCORES = 32
% let KEYS_WITH_WORDS = 32
% let GROUP_ACROSS = GROUP_ALL
% let GROUP_ROOM = GROUP_ALL + (ACROSS ? 2*W*LDX : 0)
%# Lines of a row of keys and of values, which are fetched ahead.
% let LINE = 32
% let KEY_LINES = ceil_div(HD, LINE)
% let VALUE_LINES = ceil_div(HDV, LINE)
%# Of rows of queries and outputs that trips fetch ahead: lines of the longest, and how many rows a trip fetches. Trips that have
%# more in integer registers fetch none.
% let AHEAD_LINES = max(KEY_LINES, ceil_div(HDV*type_bytes(TO), 64))
% let AHEAD_ROWS = TABLE and not KEYED and not SERIAL ? max(1, 16/AHEAD_LINES) : 0
%# A copy of rows, and behind it those that are opened into parts.
% let ROW = W*max(LDX*PER, LDV)
% let COPIED = W*LDX + W*LDV
% let OPENED = max(max(KEYED ? COPIED + max(LDX*PER, round_up(HDV, 2*W))/4 : NARROW ? ROW + ceil_div(max(LDX*PER, LDV), 4) : W*max(LDX, LDV), LDO), MODIFY ? W*KEYS + W*KEYS/4 : 0)
% let STAGE = max(OPENED + (KEY_PARTS > 1 ? max(W*LDK, 2*W*LDV) : 0), SPLIT ? KEYS*max(LDX, LDO/PER) : 0)
%# A bias or a slope: scores are of any size then. The numbers that scores are modified by: of all, of keys, of rows.
% let UNBOUNDED = BIAS != "none" or ALIBI
% let KEY_NUMBERS = 5
% let ROW_NUMBERS = KEY_NUMBERS + KEYS
% let REST_NUMBERS = ROW_NUMBERS + W
%# Behind that space lie, in the nearest cache, the queries and outputs of the group under way, where one ends before the next begins.
% let AT_EXACT = SPACE + (SPLIT ? 0 : GROUP_STATE)
% let AT_GROUPS = AT_EXACT + SPACE
%# Parts that share memory pack so many keys at a time, of few keys fewer, and leave there what bounds need to know of them.
% let PIECE = 4*KEYS
% let FEW_KEYS = 1024
% let NOTES = 2*W
%# Which KV head a part has packed for itself, and what bounds need to know of its keys.
% let AT_NOTES = AT_GROUPS + (SPLIT ? GROUPS*GROUP_ROOM : (GROUPS + 2)*GROUP_ALL)
% let AT_STAGE = AT_NOTES + (SPLIT ? 0 : W + NOTES)
%# What a group has left, while some of its rows are computed again.
% let AT_KEPT = AT_STAGE + round_up(STAGE, W)
% let KEPT = ROWWISE ? RESULT + 2*STATE : 0
%# Where keys are split, a block of them is packed there.
% let AT_BLOCK = AT_KEPT + round_up(KEPT, W)
% let WORKSPACE = (ROWWISE ? AT_BLOCK + (SPLIT ? KBLOCK + VBLOCK + SIDE : 0) : AT_STAGE + STAGE)*4
% let FEW_ALL = WORKSPACE
%# Whether a bound on the products says that no exponent is too large, or numbers that are added to them are cut off themselves; and
%# whether values may be so large or small that products with probabilities leave f32.
% let BOUNDED = ROWWISE and not UNBOUNDED
% let WIDE_RANGE = ROWWISE and TKV != "f16"
% assert GQ + GX + VW == 0, "group and vector belong to OpenCL; isa portable has them"
% assert ST + PINGPONG + LAZY == 0, "stages, pingpong and lazy belong to isas sm90 and sm80"
% assert COPY == "plain" and LOOP == "joint" and UNSWIZZLED + SHARED_Q == 0 and ORDER == "heavy" and not WIDENED, "copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80"
% assert (TQ == TKV or NARROW) and (TQ == "bf16" or TQ == "f16"), "isa amx multiplies pairs of bf16; dtype must be bf16 or f16, of keys and values too, unless these are narrow"
% assert HD % VALUES == 0 and HDV % VALUES == 0, "q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32"
% assert not TABLE or PARTS == 1, "table makes exponentials that are bf16; dtype must be bf16"
% assert MR == 32 and NV == 4, "isa amx works on 32 rows by 64 keys; micro.rows must be 32, and micro.vecs 4"
% assert BQ % MR == 0, "tile.q must be a multiple of micro.rows"
% assert BK % KEYS == 0, "tile.k must be a multiple of micro.vecs times the vector's width"
% assert not SPLIT or INVARIANT or BK == KEYS, "where isa amx splits keys, tile.k must be 64"
% assert not SPLIT or SPLIT % KEYS == 0, "where isa amx splits keys, split must be a multiple of 64"
% assert U == 1 or U == 2 or U == 4, "unroll must be 1, 2 or 4 for isa amx"
% assert not INVARIANT or not NARROW, "isa amx has no kernel that is invariant and has narrow keys and values"
% micro tiles_on
% micro tiles_off
% if BLOCKS
% micro open_row as open_key with N = HD
% if HD != HDV
% micro open_row as open_value with N = HDV
% end
% elif KEYED
% micro open_scales
% micro widen_rows as widen_keys with N = HD
% micro widen_rows as widen_values with N = HDV
% end
% if PARTS == 2
% micro open_query
% else
% micro pack_q
% end
% if KEY_PARTS > 1
% micro part_key
% end
% if THIRDS
% micro third_key
% end
% if PLANES == 2
% micro part_value
% elif BLOCKS
% micro round_value
% end
% micro pack_k
% if not ACROSS
% micro pack_pairs
% end
% if not SPLIT
% micro key_norms
% micro query_norms with MR = W
% if not ROWWISE
% micro value_range
% end
% end
% if PARTS == 2
% micro lower_values
% end
% if not SERIAL and not SPLIT
% if AHEAD_ROWS
% micro trip_ahead as trip with SUMS = 0
% micro clear
% else
% micro trip with SUMS = 0
% end
% if READS
% if AHEAD_ROWS
% micro trip_beside_ahead as trip_changed with FAR = 0
% else
% micro trip_beside as trip_changed with FAR = 0
% end
% micro words_beside as words_changed with FAR = 0
% elif INSIDE
% if AHEAD_ROWS
% micro trip_changed_ahead as trip_changed with FAR = 0
% else
% micro trip_changed with FAR = 0
% end
% micro words_changed with FAR = 0
% end
% if REACHES and READS
% micro trip_beside_ahead as trip_far with FAR = 1
% micro words_beside as words_far with FAR = 1
% elif REACHES
% micro trip_changed_ahead as trip_far with FAR = 1
% micro words_changed as words_far with FAR = 1
% end
% if not TABLE or not ROWWISE
% micro trip as trip_lse with SUMS = 1
% end
% elif not TABLE and not SPLIT
% if KEYED
% micro keyed_exponentials as exponentials_alone with SUMS = 0
% else
% micro exponentials as exponentials_alone with SUMS = 0
% end
% end
% micro scores
% if THIRDS
% micro scores_apart as exact_scores
% elif ROUGH
% micro exact_scores
% end
% micro values
% if KEYED
% micro keyed_exponentials as exponentials with SUMS = 1
% if TABLE
% micro keyed_words as words
% end
% else
% micro exponentials with SUMS = 1
% if TABLE
% micro words
% end
% end
% if ROWWISE
% if TABLE
% micro add_exponentials with SUMS = 1
% end
% if BOUNDED
% micro keep_within
% end
% if WIDE_RANGE
% micro extents
% end
% micro fold
% if ACROSS
% micro pack_ahead
% micro scores_across
% micro scores_twice
% micro words_across
% if PARTED_V
% micro words_parted
% micro values_parted
% micro straighten
% else
% micro values_across
% end
% end
% if CHAINED
% micro flush
% micro flush_no_more
% micro scores_fourth
% micro words_fourth
% micro values_chained
% micro blocks_chained
% micro straighten as straighten_chained with R = CHAINED
% micro spread_sums
% micro fold as fold_chained with FEW_ROWS = CHAINED
% micro extents as extents_chained with MR = CHAINED
% end
% end
% micro begin
% micro sums_of with MR = W
% micro totals with MR = W
% if KEYED and not MODIFY
% micro keyed_tops as tops with MR = W
% else
% micro tops with MR = W
% end
% if SINK
% micro sink_shares
% else
% micro shares
% end
% micro logarithms with MR = W
% if BIAS != "none" and MASK
% micro modify_both
% elif BIAS != "none"
% micro modify_biased
% elif MASK
% micro modify_masked
% elif MODIFY
% micro modify_plain
% end
% if CUTS_WORDS
% micro cut_words
% end
% if WINDOW or SPLIT
% micro cut_block
% else
% micro cut_half
% end
% micro deliver
