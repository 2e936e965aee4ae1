%# The sizes that a tile of forward attention implies, what must hold of them, and the micro-kernels it is built of.
% include "c/types.sizes.t"
% let NR = NV*W
% let SQ = round_up(ceil_div(HD, PER), PARTS_K or ACROSS or INTEGRAL ? W : CHAINS*U)
% let LDQ = round_up(SQ, W)
% let LDX = LDQ
% let LDK = LDQ
% let CV = ceil_div(HDV, W)
% let LDO = CV*W
% let LDV = OPENS ? round_up(LDO, 2*W) : LDO
% let PANELS = ceil_div(CV, NV)
% let LAST = CV - (PANELS - 1)*NV
%# Where a lane of a vector can be multiplied by, a row brings all the elements of a step at once.
% let BY_LANE = has_op(PAIRS ? "dotlane" : "fmalane") and U == W
% let MAX = 0
% let SUM = W
% let FIX = 2*W
% let BASE = 3*W
%# Registers beside the accumulators of a score tile that are wanted where scores are changed behind their products. Kernels of many queries do that
%# there (INSIDE) if there is room for it; but with `invariant` distances are rounded as few queries round them.
% let ROOM_INSIDE = ALIBI ? 6 : SOFTCAP ? 5 : 4
%# Whether products leave the maxima of scores, too, while these are in registers; then softmax multiplies scores by their scale.
% let KNOWN = TABLE and PAIRS and not WOVEN and not SPLIT and not INVARIANT and NV % 2 == 0 and MR*NV + MR + NV + (MODIFY ? 5 : 2) <= REGISTERS ? 1 : 0
% let INSIDE = MODIFY and not (INVARIANT and ALIBI) and not SPLIT and not WOVEN and not ACROSS and not QUARTERED and not INTEGRAL and (not REGISTERS or MR*NV + KNOWN*(MR + 1) + ROOM_INSIDE <= REGISTERS) ? 1 : 0
%# Whether exponentials are by the table where bits are a promise, in kernels of few queries and in all others; and RAW: in either case scores
%# stay products until softmax multiplies them.
% let TABLED = TABLE and PAIRS and not WOVEN and INVARIANT and not MODIFY and NV % 2 == 0 ? 1 : 0
% let RAW = KNOWN or TABLED
%# What is done there: scores are multiplied by their scale (SCALES), and by the cap (CAPS), unless softmax multiplies them by either; a bias or else a
%# mask is read (READS, HIDES). FOLDS: one multiply-add serves scale and bias, which few queries with the same bits do not have. READ_LINES lines of
%# a row of that are fetched ahead for each panel.
% let SCALES = not KNOWN or SOFTCAP or BIAS != "none" or ALIBI
% let CAPS = not KNOWN or BIAS != "none" or ALIBI
% let READS = INSIDE and (BIAS != "none" or MASK)
% let HIDES = INSIDE and MASK and BIAS == "none"
% let FOLDS = BIAS != "none" and not SOFTCAP and not OPENS and not INVARIANT
%# What makes a tile's scores where keys are packed.
% let SCORES_OF = INSIDE ? (READS ? (HIDES ? "score_hidden" : "score_biased") : "score_changed") : INTEGRAL ? (RAW ? "sum_and_tops" : "sum_tile") : RAW ? "score_and_tops" : "score_tile"
% let READ_BYTES = BIAS != "none" ? type_bytes(BIAS) : 1
% let READ_LINES = ceil_div(NR*READ_BYTES, 64)
% let READ_LINE = 64/READ_BYTES
%# Where values were rounded, too, outputs are over sums of probabilities as they were rounded, so that these roundings mostly cancel.
% let TWO_SUMS = OPENS or TABLED
% let ROUNDED = 4*W
%# Minus what is subtracted, as softmax adds it.
% let LESS = TWO_SUMS ? 5*W : 4*W
%# Where bits are a promise, probabilities are times the scales of values, instead of values: few queries then multiply what is stored. So it
%# is with sinks, too: beside a sink an output is less than its value, and rounded as much again as that was.
%# LOGS: with a table and the promise exponents have the logarithms of these scales, so that one rounding serves both, and a row's sum is of what
%# was rounded times the inverses of the scales. Of each 32 keys there stand 128 times the logarithms, and then the inverses as sums of two bf16,
%# in pairs. A scale's sign, and what it is beyond 2**-60 and 2**60, multiplies the value. BEARS: otherwise rounded probabilities are times scales
%# and rounded again. Behind all else in a state (BORNE) is the sum of their sizes before that, and then as they are rounded.
% let WEIGHS = OPENS and has_op("couplef") and (INVARIANT ? not BLOCKS : SINK) ? 1 : 0
% let LOGS = WEIGHS and INVARIANT and TABLED ? 1 : 0
% let BEARS = WEIGHS and not LOGS ? 1 : 0
%# How many scales a value has then, each of its own columns. Of blocks each has probabilities of its own, which lie behind those of all.
% let WEIGHTS = BLOCKS ? HDV/VALUES : 1
% let BESIDE_VALUES = LOGS ? 2*BK : WEIGHS*WEIGHTS*BK
% let BORNE = (TWO_SUMS ? 5*W : 4*W) + (RAW ? W : 0)
% let STATE = BORNE + BEARS*WEIGHTS*2*W
% let LDP = BK/PER
%# Narrow keys that are pairs are bf16 without an error, as they are stored in blocks, or times a power of two. What is left of the
%# scales is a row of a panel, behind the BLOCK_SLOTS rows of slots that it belongs to (of int8 and fp8 one row behind all, from 1 up to 2
%# mostly), and multiplies sums of products. Values are times their scales, rounded to bf16 as outputs are: a row that sees one key
%# alone then has what it would have without. Probabilities that were times scales would be rounded beside (but WEIGHS).
% let KEY_SCALES = OPENS ? (BLOCKS ? HD/VALUES : 1) : 0
% let BLOCK_SLOTS = BLOCKS ? VALUES/PER : LDQ
% let KEY_ROWS = LDQ + KEY_SCALES
% let KTILE = BK*KEY_ROWS
%# Scales of values that probabilities are times lie behind a tile's values.
% let VTILE = PANELS*LDP*NR + BESIDE_VALUES
% let ROW = OPENS ? W*max(LDQ, LDV/2) : W*max(LDQ*PER, LDO)
% let STAGE = max(ROW + (NARROW ? ceil_div(max(LDQ*PER, LDV), 4) : 0), BIAS != "none" or MASK ? MR*BK : 0)
%# Whether few queries have micro-kernels of their own, which sum in another order.
% let FEW = SPLIT and not INVARIANT
%# Where the keys are split, R rows of queries by KB keys make a vector of scores, keys outside. No panels are made of K and V. Of these
%# rows the first LIVE are multiplied; lanes of the others, if any, have scores of some of them and are not looked at.
% let LIVE = MR
% let ROW_LANES = MR < 3 or MR > W ? MR : MR < 5 ? 4 : MR < 9 ? 8 : 16
% let R = FEW ? ROW_LANES : MR
%# Whether rows are no power of two where keys are split.
% let ODD = SPLIT and MR < ROW_LANES ? 1 : 0
% let KB = max(1, W/R)
%# Whether half a vector of pairs ends a row of keys; its other half is zeros when it is read.
% let HALF = FEW and PAIRS and HD % (2*W) == W ? 1 : 0
% let FILLED = HD == LDQ*PER - HALF*W and HDV == LDO
% let IN_PLACE = FILLED and not PAGED
%# Where numbers of fp8 are widened two vectors at a time. Registers that numbers of a narrow type pass through.
% let TOGETHER = TKV == "fp8" and has_op("allcodes") ? 1 : 0
%# Then kernels of few queries read numbers that are smaller by this than what is stored: scales of rows make up for it.
% let SHRUNK = FEW and TOGETHER ? 256 : 1
%# Where narrow values are multiplied as pairs (few_pairs.micro): all of what is stored in them are bf16 numbers.
% let COUPLES = FEW and NARROW and not TILES and has_op("couplef") and BK % (2*KB) == 0 and (not BLOCKS or R <= 8) and (not NIBBLES or BK % W == 0) and (TKV != "fp8" or HD % W == 0 and HDV % W == 0 and NV % 4 == 0) ? 1 : 0
%# Codes of fp8 become pairs by tables, 64 at a time, and of what is left of a row 32 or 16; of a key's three 16 are as four.
% let CODES = COUPLES and TKV == "fp8"
% let CODES_LEFT = HD % 64 - HD % 64/48*48
% let CODES_64 = ceil_div(HD - CODES_LEFT, 64)
% let P_PAIRS = PAIRS or COUPLES
%# What the blocks of values are times, and probabilities for each of them, where values in blocks are multiplied as pairs. A panel has
%# PROBS_STEP probabilities of its own, and FIX_STEP of what outputs and the tile's products are times.
% let QUARTERS = COUPLES and BLOCKS
% let P_BLOCKS = QUARTERS ? HDV/VALUES : 1
%# So many blocks have their probabilities made together, as registers hold the sums of so many.
% let P_TOGETHER = min(8, P_BLOCKS)
%# Of keys in blocks a vector has a quarter of each of four keys, and a trip has so many such vectors: whole vectors of scores, and more than one if
%# registers hold the sums of all rows.
% let FOURS_OF_KEYS = LIVE > 5 or R > 4 and BK % 8 != 0 ? 1 : max(2, 4/R)
%# Vectors of what the blocks of values are times for one of scores: from four rows on a quarter has four blocks of a key, and otherwise each
%# block has a vector in the order of scores.
% let TIMES = R >= 4 ? ceil_div(P_BLOCKS, 4) : P_BLOCKS
% let FIX_STEP = QUARTERS ? NR/VALUES*2*W : 0
%# And they widen numbers or the scales of blocks by way of memory where that is cheaper. For scales it always is. E4M3 takes 0.93 to 0.97
%# of the time that way on a Xeon under 4 rows, and 1.23 to 1.26 times as long under 8; fewer rows were not timed.
% let THROUGH = FEW and not CODES and (TOGETHER and R == 4 or BLOCKS) and has_op("halvesm") ? 1 : 0
% let SPARE = CODES ? 6 : TKV == "fp8" ? (has_op("codes") ? 2 : 4) : BLOCKS ? 2 : 0
% let ROOM = (REGISTERS ? REGISTERS - 3 : 29) - SPARE
%# Rows whose outputs are in registers together, with their probabilities; or without these (BY_PLACE), where a product takes them from memory.
%# Where not all of LIVE rows are, there are several passes, the last of fewer rows, if registers hold VR_MOST of them and a pair's rows stay together.
%# Kernels whose bits are a promise have no such passes.
% let PAIRS_HERE = SPLIT and (WEIGHS or QUARTERED) ? 1 : 0
% let ROOM_ODD = ROOM - 6*PAIRS_HERE
% let BY_PLACE = ODD and LIVE*(NV + 1) > ROOM_ODD and LIVE*NV <= ROOM_ODD and has_op(COUPLES or PAIRS_HERE ? "dotib" : PAIRS ? "dotb" : "fmab") ? 1 : 0
% let VR_MOST = max(1, ROOM/(NV + 1))
% let VR_PARTS = P_PAIRS and not COUPLES ? (VR_MOST < 4 ? min(2, VR_MOST) : 4) : ceil_div(LIVE, ceil_div(LIVE, VR_MOST))
% let VR_EVEN = LIVE % 8 == 0 and 8*(NV + 1) <= ROOM ? 8 : LIVE % 4 == 0 and 4*(NV + 1) <= ROOM ? 4 : LIVE % 2 == 0 and 2*(NV + 1) <= ROOM ? 2 : 1
% let VR_ELSE = FEW and FILLED and PANELS*ceil_div(LIVE, VR_PARTS) <= 8 ? VR_PARTS : INVARIANT and LIVE % 3 == 0 and 3*(NV + 1) <= ROOM_ODD ? 3 : VR_EVEN
% let VR = not ODD ? VR_EVEN : LIVE*(NV + 1) <= ROOM_ODD or BY_PLACE ? LIVE : VR_ELSE
% let VR_ROUNDS = ceil_div(LIVE, VR)
%# Whether values of q4_0 are multiplied two blocks at a time, whose probabilities then lie in turn; a block that is left over lies so, too.
% let TWO_BLOCKS = QUARTERS and NIBBLES and HDV >= 128 and NR/VALUES % 2 == 0 and (VR == LIVE or VR % 4 == 0) ? 1 : 0
% let P_PLACES = TWO_BLOCKS ? round_up(P_BLOCKS, 2) : P_BLOCKS
% let FIXES_HERE = COUPLES ? 2*P_PLACES*W : W
% let DQ = LDQ/W
%# Vectors of queries that stay in registers beside W accumulators. Vectors of a row that are two and two the even elements and the
%# odd ones of twice as many bf16, which is the cheaper way to widen them; where pairs are multiplied, those of outputs alone, which
%# are then the even fours of columns and the odd ones, as two rows of values are interleaved.
% let PARTED = FEW and REGISTERS and not PAIRS and TKV == "bf16" and (NV % 2 == 0 or PANELS == 1) ? 1 : 0
% let QUERY_PARTS = TQ == "bf16" ? 1 : 0
% let LOG_W = W == 16 ? 4 : W == 8 ? 3 : 2
% let HELD = max(0, min(DQ, (REGISTERS - LIVE*KB - 4 - 3*PARTED - SPARE)/LIVE))
% let PARTED_Q = max(PARTED, PARTS_K)*(DQ - DQ % 2)
%# Whether few queries make pairs of narrow numbers while they multiply them, in the order of prompts, which bits that are a promise want.
% let WIDENS = SPLIT and (WEIGHS or QUARTERED or INTEGRAL)
%# Whether few queries make values by tables too, in that order of columns.
% let EIGHTS_V = WIDENS and not BLOCKS and HDV % 64 == 0 and NV % 4 == 0 ? 1 : 0
%# Invariant kernels that split keys part the even and the odd elements of values only, and only where they read these in place.
% let DIRECT = SPLIT and INVARIANT and (not NARROW or WIDENS) and (not PAIRS or NV % 2 == 0 or PANELS == 1)
% let PARTED_V = PARTED or DIRECT and REGISTERS and not PAIRS and TKV == "bf16" and (NV % 2 == 0 or PANELS == 1) ? 1 : 0
% let PARTED_O = WIDENS ? 0 : (FEW or DIRECT) and PAIRS or PARTED_V ? CV - CV % 2 : 0
% let SIZE = type_bytes(TKV)
%# Lines of the cache that a row of keys takes (in plain C a fetch is only a call), and a pass over values fetches of a row: all passes together the whole.
%# A row of keys, and of values, in elements of their C type.
% let KEY = (LDQ*PER - HALF*W)/VALUES*BYTES
% let VALUE = LDO/VALUES*BYTES
%# Whether prompts fetch what comes after a tile of queries: what the next one reads and writes, and if it is of another head keys and
%# values, up to SOON_MOST bytes, which have to fit L2 beside the panels. A problem of at most SOON_LEAST bytes is thought to lie in caches.
% let SOON = REGISTERS and not SPLIT ? 1 : 0
% let SOON_MOST = 262144
% let SOON_LEAST = 1048576
% let SOON_VALUE = NARROW ? ceil_div(VALUE, 64) : ceil_div(HDV*SIZE, 64)
% let LINE = NARROW ? 64 : 64/SIZE
% let KEY_LINES = REGISTERS ? ceil_div(KEY, LINE) : 1
% let VALUE_LINES = REGISTERS ? ceil_div(ceil_div(VALUE, LINE), PANELS*VR_ROUNDS) : 1
%# A pass that fetches one line of each row leaves out every second line, or more. Where its share of the rows comes out even in a trip over its
%# keys, it fetches whole rows of these instead, PASS_ROWS in a trip: a processor's own fetching keeps up with that, in pairs of lines.
% let SWEEPS = PANELS*VR_ROUNDS
% let TRIP_KEYS = P_PAIRS ? 2*KB : U
% let PASS_ROWS = FEW and REGISTERS and SWEEPS > 1 and VALUE_LINES == 1 and TRIP_KEYS % SWEEPS == 0 ? TRIP_KEYS/SWEEPS : 0
%# Vectors of numbers in a block.
% let IN_BLOCK = max(1, VALUES/W)
%# A block of queries is R rows, the scale, and twice the scores of a tile with what they scale the output by; one of results R rows
%# of output and the state.
%# With chains, a vector has those of RV rows, and few queries have GROUP rows at a time, of which QROWS are a multiple. Where there are four
%# chains, each slot of a query stands there 4/RV times; 16 slots of a group are FOURS_OF_ROWS vectors. Where keys are in quarters, behind the
%# scale each four slots of queries stand four times beside each other, from AT_FOURS on.
%# Whether the chains of a vector of a key, or of its blocks, are lanes of it.
% let LANED = ACROSS or QUARTERED or INTEGRAL
% let RV = LANED ? (R == 1 or INTEGRAL and R == 2 ? R : max(1, W/4)) : min(2, R)
% let GROUP = LANED ? RV : min(4, R > 2 ? 4 : R)
% let QROWS = CHAINS > 1 or (QUARTERED or INTEGRAL) and SPLIT ? round_up(R, GROUP) : R
% let FOURS_OF_ROWS = 4*(GROUP/RV)
% let Q_SLOTS = QROWS*LDQ*(INTEGRAL and SPLIT ? 8 : CHAINS > 1 and not LANED ? 4/RV : 1)
% let AT_FOURS = Q_SLOTS + W
%# Where scores are sums of integers, words and rests of queries stand four times each before the scale, and the numbers of rows behind it
%# (integral.micro); then the largest of how far off words and rests leave a score of some row.
% let AT_NUMBERS = AT_FOURS
% let AT_WORST = AT_NUMBERS + 4*QROWS
% let SCORES = AT_FOURS + (ACROSS ? RV*W : 0) + (QUARTERED and SPLIT ? 4*QROWS*LDQ : 0) + (INTEGRAL and SPLIT ? round_up(4*QROWS + 2, W) : 0)
% let PROBS = round_up(R*BK + R*U, W)
%# Behind those, scales of the tile's keys and of its values, each for as many lanes as a key has; with room for what a store writes
%# beyond. Words that pass through memory on their way to floats have a place behind those, and so has a tile of probabilities, where
%# tiles are multiplied.
% let K_SCALES = PROBS + FIXES_HERE
% let V_SCALES = K_SCALES + R*BK + W
% let SCALES_END = SCALED ? V_SCALES + R*BK + W : PROBS + FIXES_HERE
% let PASSAGE = round_up(SCALES_END, W)
% let PASSAGE_END = THROUGH ? PASSAGE + 5*W : SCALES_END
%# Where tiles of bytes are multiplied, that is of integers of ${BK} keys, and before it stand sums of products of keys and the scores of rows, and
%# behind it factors of rows, and what softmax_bytes finds out: maxima, and what outputs and what the tile adds to them are times.
% let PROBS_AT = QUARTERS ? round_up(PASSAGE_END, W) + TIMES*R*BK : 0
% let VALUES_TIMES = QUARTERS ? round_up(PASSAGE_END, W) : V_SCALES
% let PROBS_STEP = QUARTERS ? NR/VALUES*(R*BK/2) : 0
% let BYTE_TILES = TILES and (TKV == "int8" or NIBBLES) ? 1 : 0
%# Of blocks, four make a piece of a row; a piece is two windows of 64 bytes. 64 columns of values, or two blocks, are a chunk.
% let KEY_PIECES = BLOCKS ? ceil_div(HD, 128) : 0
% let VALUE_PIECES = BLOCKS ? ceil_div(HDV, 128) : 0
% let WINDOWS = 2
% let BLOCK_LINES = max(1, KEY_LINES - 1)
% let CHUNKS = BLOCKS ? ceil_div(HDV, 64) : 1
% let AT_SUMS = round_up(PASSAGE_END, W)
% let AT_X = AT_SUMS + (BLOCKS ? KEY_PIECES*2048 : 8*BK + W)
% let P_TILE = BYTE_TILES ? AT_X + R*BK : round_up(PASSAGE_END, W)
% let FACTORS_OF = P_TILE + CHUNKS*256
% let TOPS = FACTORS_OF + W
% let FIXES = TOPS + W
% let HERE = FIXES + W
% let BUFFER = BYTE_TILES ? HERE + (BLOCKS ? CHUNKS*3*W : W) : TILES ? P_TILE + 16*BK : PROBS_AT ? PROBS_AT + P_PLACES*(R*BK/2) : PASSAGE_END
%# Each pass over 64 columns of values fetches its share of the rows to come, whole and in order, since a processor's own fetching keeps up
%# with that, and not with half of each row. OPENED_ROWS of the share are fetched by each of the four trips that open the columns, and the
%# others while outputs are added.
% let ROW_LINES = BLOCKS ? max(1, VALUE/64) : ceil_div(HDV, 64)
% let SHARE_ROWS = ceil_div(BK, ceil_div(HDV, 64))
% let OPENED_ROWS = BYTE_TILES ? SHARE_ROWS*3/16 : SHARE_ROWS/8
% let ADDED_ROWS = SHARE_ROWS - 4*OPENED_ROWS
%# Numbers of fp8 are opened 16 rows at a time, of values COLS columns in a pass, and CHUNK_ROWS rows of keys are fetched meanwhile. PLACE: slots
%# for 16 such rows. There are two places in turn, or, if more than one block of queries meets them, four and one for the first values;
%# APART: what is behind.
% let COLS = HDV % 128 == 0 ? 128 : 64
% let CHUNK_ROWS = HDV == COLS ? 16 : HDV <= 3*COLS ? 8 : HDV <= 7*COLS ? 4 : 2
% let PLACE = 8*max(HD, 2*BK)
% let FIRST_VALUES = 4*PLACE
% let APART = (BQ > R ? 5 : 2)*PLACE
%# What stands beside the tile for all rows: see weigh.
% let K_BESIDE = 0
% let V_BESIDE = BLOCKS ? KEY_PIECES*4*BK : BK
% let HEAVIEST = V_BESIDE + (BLOCKS ? VALUE_PIECES*4 : 1)*BK
% let CHECKS = HEAVIEST + W
% let HIGHEST = HEAVIEST + W
% let LIGHTEST = HIGHEST + W
% let INVERSES = LIGHTEST + W
% let WORTH = INVERSES + W
% let RESULTS = R*LDO + STATE
%# One micro-kernel has the values of a whole tile, as far as that does not become too large: one row has as many keys to a vector of scores as lanes.
% let TILED = FILLED and (TILES ? not MODIFY : PANELS*VR_ROUNDS <= (COUPLES and R == 1 and not CODES and not NIBBLES ? 6 : 8))
% let FP8_TILES = TILES and FEW and not BYTE_TILES
%# Where keys are in pages such a tile is PIECES pieces, each of which lies in one page if a page has a multiple of PIECE rows. The pieces of
%# values that are fetched stand AHEAD pieces further in a list; of blocks that is a tile more, as their scales are read a tile ahead. The
%# first STARTS lines of a piece are fetched yet another tile earlier (BEGUN).
% let PIECED = FEW and PAGED and TILED
% let PIECE = PIECED and BK % 16 == 0 and 16 % KB == 0 and 16 % U == 0 ? 16 : BK
% let PIECES = BK/PIECE
%# Whether it matters which keys a whole tile has, other than where they lie.
% let COUNTS = MODIFY or SCALED and not PIECED
%# Whether values are read by a list of pieces, as keys are.
% let LISTED = FEW and TILED and not TILES ? 1 : 0
% let AHEAD = PIECES*(COUPLES and BLOCKS ? 2 : 1)
% let BEGUN = AHEAD + PIECES
% let STARTS = 2
%# Whether the keys and values of a tile become pairs once where more than ONCE_OVER blocks of rows meet them (few_once.micro): for fewer it takes
%# longer than it saves. PANELS_ONCE panels of 16 keys are multiplied together. FIRST_BLOCKS: of so many blocks the scales are read at once.
% let ONCE_OVER = NIBBLES ? 3 : 2
% let ONCE = COUPLES and LISTED and LIVE == R and R == 4 and BQ > ONCE_OVER*R and PIECE % 16 == 0 and HD % 16 == 0 ? 1 : 0
% let PANEL_OF_KEYS = 16*(HD/2 + (BLOCKS ? HD/32 : 0))
% let PANELS_ONCE = BK % 32 == 0 ? 2 : 1
% let FIRST_BLOCKS = min(4, HD/32)
%# From how many of them a trip over pairs of values takes its rows.
% let SPANS = PIECES > 1 and KB == PIECE and P_PAIRS ? 2 : 1
%# Whether scores are made of the integers that keys are stored as, and queries in bf16 made integers of 16 bits: where products of these
%# cost less than widening. For blocks that is where a vector is less than one. A sum has 32 bits. FACTORS and what is behind them: few_tiles.t.
% let LDW = round_up(LDQ, 2*W)/2
% let INTEGERS = FEW and TILED and (BYTE_TILES or not TILES) and TQ == "bf16" and has_op("products") and (TKV == "int8" or BLOCKS and (W == 8 or BYTE_TILES or COUPLES and TKV == "q8_0")) and (HD % (2*W) == 0 or TKV == "int8" and has_op("halfwordsc") and HD % W == 0) and (HD <= 512 or COUPLES and BLOCKS)
%# Keys as vectors with 16 numbers of each of four keys, so that sums of these stand in its quarters; rows of queries have each eight of their
%# columns four times then. Under four rows that is fewer instructions than sums across lanes, if heads are not wide.
% let IN_FOURS = QUARTERS or COUPLES and R == 4 and (CODES or INTEGERS and HD <= 128) ? 1 : 0
%# What makes the scores of a tile, unless these are sums of integers that are exact enough.
% let SCORES_BY = CODES ? "score_codes" : QUARTERS and TILED and not INTEGERS ? "score_quarters" : "score_rows"
%# Whether the softmax is not one call with the scores, since something may come between.
% let ALONE = MODIFY or QUARTERS or INTEGERS
%# Keys of q4_0 have a lane each, 16 keys at a time, so that rows of queries stand there once.
% let IN_LANES = QUARTERS and NIBBLES
% let LDH = IN_FOURS and not IN_LANES ? 4*LDW : LDW
% let ADDS = has_op("dotwords")
%# Rows of queries are copied to so many elements each, with zeros behind them, before they are packed.
% let STAGED = INTEGERS or CODES ? 2*LDW : LDQ*PER
% let INTS = SCORES + 2*BUFFER
% let FACTORS = INTS + R*LDH
%# Where such rows stand once, before they are copied: the last of the places that they will take.
% let ROWS_ONCE = FACTORS - R*LDW
%# Where tiles are multiplied, the queries stand there as tiles; of bytes behind the integers, which are then half as large, so that each is
%# two signed bytes.
% let Q_TILES = BYTE_TILES ? FACTORS + 2*W : INTS
% let STEPS = ceil_div(HD, 32)
% let BYTE_STEPS = BLOCKS ? KEY_PIECES*WINDOWS*2 : ceil_div(HD, 64)
% let FALLS = FEW ? BYTE_TILES ? Q_TILES + BYTE_STEPS*256 : INTEGERS ? FACTORS + 2*W + (IN_FOURS ? R*LDW : 0) : QUARTERS and TILED or CODES ? FACTORS : TILES ? Q_TILES + STEPS*256 : INTS : SCORES
%# With ALiBi two vectors stand behind a block of rows (FALLS). They have for each lane minus its row's slope, and how far its key of a first
%# vector is from its row where keys begin.
%# Pairs of queries in the order of their columns stand behind that, or in that of nibbles where they are.
% let ONCE_FROM = FALLS + (FEW and ALIBI and not INVARIANT ? 2*W : 0)
% let ONCE_Q = IN_LANES ? INTS : ONCE_FROM
% let ONCE_LDQ = IN_LANES ? LDW : HD/2
% let QUERIES = ONCE_FROM + (ONCE and not IN_LANES ? round_up(R*HD/2, W) : 0)
%# How many KV heads go through their keys side by side, at most.
% let ABREAST = FEW and not TILES ? 8 : 1
% let FEW_PART = round_up(ceil_div(BQ, LIVE)*QUERIES*4, 64)
% let FEW_RESULT = ceil_div(BQ, LIVE)*RESULTS*4
% let FEW_O = FEW_PART + FEW_RESULT
% let FEW_K = round_up(FEW_O + FEW_RESULT, 64)
%# Where tiles are multiplied, keys or values in bf16 lie there, and behind these tiles of outputs; before values that are bytes what stands
%# beside the tile, and scales that did not lie side by side.
% let BESIDE = BLOCKS ? CHECKS + VALUE_PIECES*5*W : WORTH + W
% let ALONGSIDE = BESIDE + (BLOCKS ? 0 : 2*BK + 2*W)
% let OPENED = ALONGSIDE + 2048
% let OPEN = FEW_K/4
% let FEW_V = FEW_K + round_up(BYTE_TILES ? max(BK*KEY, ALONGSIDE*4 + BK*64 + 4096 + (BLOCKS ? BK*HD : 0)) : TILES ? max(BK*KEY, APART*4 + COLS*32) : BK*KEY*(NARROW ? 1 : SIZE), 64)
% let FEW_STAGE = FEW_V + round_up(BK*VALUE*(NARROW ? 1 : SIZE), 64)
%# Invariant kernels read or pack some keys, and some values, at a time, and have scores of all blocks of queries. Values that are floats
%# when they are read stay where they are. A page may have no more than 16 rows.
% let SOME = (ACROSS or WIDENS) and DIRECT and BK % 32 == 0 and (NARROW or not PAGED) ? 32 : max(W, 16)
%# Whether there is a whole panel of columns of values.
% let WHOLE = DIRECT and (PANELS > 1 or LAST == NV) ? 1 : 0
%# Whether values of a whole tile of keys can be met by one call.
% let AT_ONCE = WHOLE and IN_PLACE and LAST == NV and (not WIDENS or HDV == LDV) ? 1 : 0
%# Whether the scores of a tile are made while values of the tile before it are met: where there are four chains, if W keys are a page at most,
%# as f32 of 128 columns from memory takes 1.06 to 1.08 times as long so.
% let IN_TURN = AT_ONCE and not NARROW and (ACROSS or CHAINS > 1 and W*KEY*SIZE <= 4096)
%# While they multiply keys they fetch keys to come, so that memory is never idle.
% let FETCH_AHEAD = SPLIT and INVARIANT
%# With chains, W keys at a time are read in place. In each step of W slots so many lines are fetched.
% let FOURS = FETCH_AHEAD and (CHAINS > 1 or QUARTERED or INTEGRAL)
% let STEP_LINES = ceil_div(W/RV*KEY_LINES, LDQ/W)
%# Numbers of f16 become floats half a vector at a time there, which is less work for the ports of a Zen 4 that shuffle.
% let IN_HALVES = FOURS and TROW == "f16" and has_op("halfh") ? 1 : 0
%# Elsewhere a panel of keys is packed and multiplied: half of a panel to come is fetched in SCORE_ROUNDS steps of the product, each of
%# SCORE_STEPS products, and the rest in PACK_ROUNDS steps of packing. Columns of bf16 are packed two at a time and widened afterwards, which
%# takes half of the shuffles. Where words can be transposed, panels of f16 and bf16 stay as narrow as they are stored, and are widened when
%# they are multiplied. KT: slots from one column of a panel to the next.
% let WORDS = FETCH_AHEAD and not FOURS and (TROW == "f16" and has_op("fronth") or TROW == "bf16" and has_op("frontb")) and not PAIRS and NV % 2 == 0
% let KT = WORDS ? NR/2 : NR
% let TWOS = has_op("two") and TROW == "bf16" and not PAIRS and not WORDS
%# How many keys ahead: 64 rather than 128, which take 1.01 to 1.15 times as long on a Xeon. Keys in fours are fetched 16 ahead into the
%# nearest cache, and 64 ahead into L2: from L3 the first alone is faster, from memory the second alone. Values are fetched as many ahead
%# as are read at a time, CHUNK_LINES lines in each step; in pages twice as many, into L2 alone, as what is further on lies in others.
% let NEAR = FOURS and not NARROW and not PAGED and (ACROSS or not IN_TURN) and has_op("fetchnear")
% let AWAY = LANED ? 32 : NEAR ? 16 : FOURS ? 64 : (DIRECT and NR > 32 ? 1 : 2)*NR
% let FURTHER = 48
% let CHUNK_LINES = ceil_div(SOME*VALUE, LINE*max(1, PANELS - (LAST == NV ? 0 : 1))*(R/VR)*ceil_div(SOME, U*PER))
% let SCORE_STEPS = not NARROW and NR/2*KEY_LINES < SQ/U and SQ/U % 2 == 0 ? 2 : 1
% let SCORE_ROUNDS = SQ/U/SCORE_STEPS
% let SCORE_LINES = max(1, (NARROW ? NR : NR/2)*KEY_LINES/SCORE_ROUNDS)
% let PACK_ROUNDS = WORDS ? NV/2*(LDQ/8) : NV*ceil_div(LDQ/W, TWOS ? 2 : 1)
% let PACK_LINES = ceil_div(max(0, NR*KEY_LINES - SCORE_ROUNDS*SCORE_LINES), PACK_ROUNDS)
%# With as many chains as lanes, ACROSS_HELD vectors of each row stay in registers. Prompts have ACROSS_ROWS rows at a time, of which three chains
%# and the sum so far are in registers: no sum passes through memory. ACROSS_STEPS steps of a chain are written out.
% let ACROSS_HELD = max(0, min(DQ, (REGISTERS - W - (EIGHTS ? 9 : 4))/RV))
% let ACROSS_ROWS = MR % 4 == 0 and 17*NV + 1 <= REGISTERS ? 4 : MR % 2 == 0 and 9*NV + 1 <= REGISTERS ? 2 : 1
%# A chain is so many slots, each so many behind the last one in a row of queries.
% let CHAIN = QUARTERED ? 4 : LDQ/W
% let CHAIN_STEP = QUARTERED ? 4 : W
%# Rows that meet a panel of blocks together, with sums of a block and scores so far in registers.
% let ROWS_AT_ONCE = MR % 4 == 0 and 9*NV + 4 <= REGISTERS ? 4 : MR % 2 == 0 and 5*NV + 4 <= REGISTERS ? 2 : 1
% let ACROSS_STEPS = CHAIN % 4 == 0 ? 4 : CHAIN % 3 == 0 ? 3 : CHAIN % 2 == 0 ? 2 : 1
% let SOME_K = round_up(FEW_O + FEW_RESULT, 64)
% let SOME_V = SOME_K + round_up((not FOURS ? KT*KEY_ROWS : NARROW ? STAGE : W*LDQ)*4, 64)
% let SOME_S = SOME_V + round_up(WIDENS ? SOME*LDV*2 : DIRECT ? SOME*LDO*SIZE : PANELS*SOME/PER*NR*4, 64)
%# Of the last of these blocks some rows may be missing.
% let ROWS_OF_BLOCKS = round_up(BQ, MR)
% let SOME_P = SOME_S + round_up((ROWS_OF_BLOCKS*BK + (TABLED ? R*W + LOGS*W : 0))*4, 64)
%# Behind probabilities: the scales of a tile's keys and of its values, and these as LOGS wants them; of values in blocks those of some, four for each.
% let SOME_C = SOME_P + (PAIRS ? round_up(ROWS_OF_BLOCKS*BK*2, 64) : 0)
% let SOME_STAGE = SOME_C + (not WIDENS ? 0 : BLOCKS ? ceil_div(HDV, 4*VALUES)*SOME*16 : 8*BK + 8*BK*LOGS)
% let FEW_AT = FEW_STAGE + round_up(max(max(R*LDQ*4, LDO*4), BK*R*4), 64)
%# Whether scales that lie side by side are spread ${W} at a time.
% let SPREADS = FEW and SCALED and has_op("orderf") and R <= 8 ? 1 : 0
%# Of so many keys at a time biases or a mask are put into the order of scores in registers, where several rows share a vector of these.
% let SIDE_KEYS = FEW and REGISTERS and R > 1 and BK % W == 0 ? (BK % 64 == 0 ? 64 : W) : 0
%# Lists of the pieces of a split, of keys, values and the scales of both.
% let LIST = SPLIT/PIECE + BEGUN
% let FEW_LISTS = PIECED ? round_up((SCALED ? 6 : 4)*8*LIST, 64) : 0
%# What is widened once.
% let ONCE_K = FEW_AT + FEW_LISTS
% let ONCE_V = ONCE_K + ONCE*(BK/16*PANEL_OF_KEYS*4)
% let FEW_ALL = not FEW ? SOME_STAGE + round_up(max(max(STAGE, QROWS*LDQ*PER)*4, WIDENS ? max(NR*KEY, SOME*VALUE) : NARROW ? 0 : NR*LDQ*PER*SIZE), 64) : ONCE_V + ONCE*(PANELS*(BK/2)*NR*4)
%# Behind words of queries stand rests, the numbers of rows, and of each MR rows the largest of how far off either leaves a score.
% let Q_RESTS = round_up(BQ, W)*LDQ
% let Q_NUMBERS = 2*Q_RESTS
% let Q_WORST = Q_NUMBERS + 4*round_up(BQ, W)
% let AT_O = (INTEGRAL ? round_up(Q_WORST + 2*(BQ/MR), W) : Q_RESTS)*4
% let AT_S = AT_O + round_up(BQ*LDO*4, 64)
%# Behind scores are the largest ones of each row, and behind these (LOGS) what scores are times, or what changes them (inside.micro).
% let BEST = MR*BK
% let NUMBERS = BEST + RAW*MR*W
% let DISTANCES = NUMBERS + max(W, 8)
% let AT_P = AT_S + round_up((NUMBERS + LOGS*W + INSIDE*(DISTANCES - NUMBERS + ALIBI*MR*NR))*4, 64)
% let AT_ROW = AT_P + (PAIRS ? round_up(MR*BK*2*(BEARS and BLOCKS ? 2 : 1), 64) : 0)
% let AT_STAGE = AT_ROW + round_up(BQ/MR*STATE*4, 64)
% let AT_PART = AT_STAGE + round_up(STAGE*4, 64)
%# Where bits are a promise, so many keys are computed alone and joined to those before, as in kernels that split keys; what they
%# leave lies behind all else.
% let JOINS = INVARIANT and not SPLIT ? JOINT : 0
% let AT_PART_ROW = AT_PART + round_up(BQ*LDO*4, 64)
%# Behind all else: which KV head a part has packed for itself.
% let AT_KEPT = JOINS ? AT_PART_ROW + round_up(BQ/MR*STATE*4, 64) : AT_PART
% let WORKSPACE = AT_KEPT + 64
% assert GQ + GX + VW == 0, "group and vector belong to OpenCL; isa portable has them"
% assert ST + PINGPONG + LAZY == 0, "stages, pingpong and lazy belong to isas sm90 and sm80"
% assert COPY == "plain" and LOOP == "joint" and UNSWIZZLED + SHARED_Q == 0 and ORDER == "heavy" and not WIDENED, "copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80"
% assert not SERIAL, "serial belongs to isas sm90 and amx"
% assert not has_type("bf16x2") or TQ == "bf16" and (TKV == "bf16" or NARROW), "isas avx512bf16 and neonbf16 multiply pairs of bf16; dtype must be bf16, but keys and values may be narrow"
% assert not TABLE or TILES or has_op("lookup"), "table belongs to isas amx and avx512bf16"
% assert not TABLE or TILES or RAW, "on isa avx512bf16 table is for queries in bf16, with invariant if nothing modifies scores, and otherwise for prompts alone; where keys are narrow, outputs must be bf16; micro.vecs must be even, and without invariant micro.vecs, micro.rows and their product must add up to at most 30, or 27 where scores are modified"
% assert HD % VALUES == 0 and HDV % VALUES == 0, "q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32"
% assert BQ % MR == 0 or ODD, "tile.q must be a multiple of micro.rows"
% assert MR <= W, "micro.rows must be at most the vector's width"
% assert MR*NV <= 64, "micro.rows times micro.vecs must be at most 64"
% if INTEGRAL
% micro pack_words
% if not SPLIT or not BLOCKS
% micro largest_scale with N = SPLIT ? 1 : NV
% end
% else
% micro pack_q
% end
% if FEW
% assert BK % KB == 0 and BK % U == 0, "tile.k must be a multiple of the keys that a vector of scores holds, and of unroll, where keys are split"
% assert not PAIRS or BK % (2*KB) == 0, "tile.k must be a multiple of the keys that two vectors of scores hold, where pairs of keys are multiplied"
% assert not PAIRS or NV % 2 == 0 or PANELS == 1, "micro.vecs must be even where keys are split and pairs of them are multiplied"
% assert SPLIT % BK == 0, "split must be a multiple of tile.k"
% if TILES
% assert TQ == "bf16" and TKV != "q8_0", "of narrow keys isa amx splits those of int8, fp8 and q4_0 alone, under queries in bf16"
% assert not MODIFY and not PAGED, "isa amx splits narrow keys only where scores are not modified and keys are not in pages"
% assert IN_PLACE and HD % 64 == 0 and HDV % 64 == 0, "where isa amx splits narrow keys, head_dim must be a multiple of 64 and of unroll"
% assert MR == 4 and BK == 64, "where isa amx splits narrow keys, micro.rows must be 4, and tile.k 64"
% assert not BYTE_TILES or HD <= 512, "where isa amx splits keys of int8 or q4_0, head_dim must be at most 512"
% assert not BLOCKS or HD % 128 == 0 and HDV % 128 == 0, "where isa amx splits keys of q4_0, head_dim must be a multiple of 128"
% assert not TABLE, "where isa amx splits narrow keys, table must be left out"
% end
% assert not BLOCKS or NR % VALUES == 0, "micro.vecs times the vector's width must be a multiple of 32 where keys are split and numbers are in blocks of 32"
% if CODES and not IN_FOURS
% micro in_eights
% end
% if SCORES_BY == "score_codes"
% micro score_codes with MR = W
% elif SCORES_BY == "score_quarters"
% micro score_quarters
% else
% micro score_rows with MR = W
% end
% micro softmax_rows
% micro cut_rows
% if SCALED
% micro spread
% end
% if IN_FOURS and not IN_LANES and (TILED or CODES)
% micro four_times
% end
% if SPREADS
% micro spread_row
% end
% if PIECED
% micro fetch_starts
% end
% if SCALED and PIECED
% micro fetch_scales
% end
% if QUARTERS
% micro spread_blocks
% end
% if not LISTED and (PANELS > 1 or LAST == NV)
% micro value_rows with N = NV
% end
% if not LISTED and LAST != NV
% micro value_rows as value_rest with N = LAST
% end
% if TILES
% micro tiles_on
% micro tiles_off
% if BYTE_TILES and BLOCKS
% micro pack_integers
% micro weigh_blocks
% micro open_nibbles
% micro score_nibbles
% micro softmax_blocks
% micro mix_blocks
% micro add_blocks
% elif BYTE_TILES
% micro pack_integers
% micro spread as line_up with R = 1
% micro weigh
% micro score_bytes
% micro softmax_bytes
% micro mix_tile
% micro add_bytes
% else
% micro open_first_keys
% micro score_and_open with TURNS = 2
% micro score_and_turn with TURNS = 2
% micro softmax_keys
% if HDV > COLS
% micro open_first_values
% end
% micro add_and_open with TURNS = 2
% if BQ > R
% micro score_and_open as score_and_open_all with TURNS = 4
% micro score_and_turn as score_and_turn_all with TURNS = 4
% micro score_opened
% micro add_and_open as add_and_open_all with TURNS = 4
% micro add_opened
% end
% micro finite
% end
% elif TILED
% if not ALONE
% micro tile_scores
% end
% if QUARTERS or INTEGERS and IN_FOURS
% micro in_quarters
% end
% if INTEGERS
% micro pack_integers
% if IN_FOURS
% micro score_eights
% else
% micro score_integers with MR = W
% end
% end
% micro tile_values
% end
% micro join
% micro blend
% else
% if INVARIANT
% micro join
% micro blend
% end
% assert BK % NR == 0, "tile.k must be a multiple of micro.vecs times the vector's width"
% assert W % U == 0, "unroll must divide the vector's width"
% assert CHAINS == 1 or ACROSS or CHAINS*U <= W, "unroll must be at most a quarter of the vector's width where invariant is set and scores have four chains"
% assert NR % (U*PER) == 0, "unroll must be at most half of micro.vecs times the vector's width where the ISA multiplies pairs"
% assert not PAIRS or BK/W % 2 == 0, "tile.k must hold an even number of vectors where the ISA multiplies pairs"
% assert not WIDENS or DIRECT, "micro.vecs must be even where keys are split and narrow ones are pairs with invariant"
% if WIDENS
% if BLOCKS or INTEGRAL
% micro four_times
% end
% if INTEGRAL
% micro in_quarters
% end
% micro pair_values
% elif OPENS and BLOCKS
% if INTEGRAL
% micro open_blocks with BESIDE = (BLOCK_SLOTS + 1)*NR
% else
% micro open_stored with N = HD, BESIDE = (BLOCK_SLOTS + 1)*NR
% end
% if WEIGHS
% micro open_stored as open_value_numbers with N = HDV, BESIDE = BK
% else
% micro open_rows with N = HDV
% end
% elif OPENS
% if not INVARIANT
% micro split_scales
% end
% if INTEGRAL
% micro open_words
% else
% micro widen_rows as widen_keys with N = HD
% end
% micro widen_rows as widen_values with N = HDV
% elif BLOCKS
% micro open_row as open_key with N = HD
% if HD != HDV
% micro open_row as open_value with N = HDV
% end
% elif NARROW
% micro widen_row as widen_key with N = HD
% if HD != HDV
% micro widen_row as widen_value with N = HDV
% end
% end
% if FETCH_AHEAD
% micro fetch_rows
% end
% if SOON
% micro fetch_lines
% end
% if not FETCH_AHEAD or NARROW and not FOURS
% micro pack_k
% end
% if SPLIT and not DIRECT
% micro pack_v with LDP = SOME/PER
% elif not DIRECT
% micro pack_v
% end
% if FOURS and INTEGRAL
% if IN_PLACE
% micro sum_keys
% end
% micro sum_again
% micro rest_keys
% elif FOURS and QUARTERED
% if IN_PLACE
% micro score_quartered
% end
% micro quartered_again
% elif FOURS and ACROSS
% if IN_PLACE
% micro score_across
% end
% micro across_again
% elif FOURS
% micro pack_fours
% micro score_fours
% micro score_again
% elif WORDS
% micro score_words with N = NV
% else
% if INSIDE
% if BIAS != "none"
% micro score_biased with N = NV
% elif MASK
% micro score_hidden with N = NV
% else
% micro score_changed with N = NV
% end
% elif INTEGRAL
% if RAW
% micro sum_and_tops with N = NV
% else
% micro sum_tile with N = NV
% end
% micro rest_tile with N = NV
% elif RAW and not SPLIT
% micro score_and_tops with N = NV
% elif LANED
% micro tile_across as score_tile with N = NV
% else
% micro score_tile with N = NV
% end
% end
% if KNOWN
% micro tops_again
% end
% if IN_TURN
% micro add_and_score with N = NV
% end
% if WIDENS and WEIGHS and not INTEGRAL
% micro scale_keys
% elif FETCH_AHEAD and not FOURS and not OPENS
% if NARROW
% micro score_ahead with N = NV
% else
% micro score_panels with N = NV
% end
% end
% if TABLED
% micro tops_of
% micro softmax_words
% micro spoil
% micro add_unrounded
% elif KNOWN
% micro softmax_known
% micro softmax_words
% else
% micro softmax
% end
% if BEARS and BLOCKS
% assert NR % VALUES == 0, "micro.vecs times the vector's width must be a multiple of 32 where pairs of numbers in blocks of 32 are multiplied beside sinks"
% micro scale_block
% elif BEARS
% micro scale_probs
% end
% if LOGS
% micro log_scales
% end
% if LOGS and WIDENS
% micro times_rests
% end
% micro cut
% if DIRECT
% if PANELS > 1 or LAST == NV
% micro add_values with N = NV
% end
% if LAST != NV
% micro add_values as add_rest with N = LAST
% end
% if WHOLE
% micro add_some with N = NV
% if AT_ONCE and WIDENS and BLOCKS
% micro add_quartered with N = NV
% elif AT_ONCE and WIDENS
% micro add_narrow with N = NV
% elif AT_ONCE
% micro add_all
% end
% end
% micro rescale
% elif WEIGHS and BLOCKS
% micro value_tile as value_block with N = VALUES/W
% else
% if PANELS > 1 or LAST == NV
% micro value_tile with N = NV
% end
% if LAST != NV
% micro value_tile as value_last with N = LAST
% end
% end
% end
%# Where keys are split, all rows of a step lie in the lanes of one.
% let LINES = FEW ? 1 : MR
% if SOFTCAP and not INSIDE
% micro soften with MR = LINES
% end
% if BIAS != "none" and not INSIDE
% micro add_bias with MR = LINES
% if SIDE_KEYS
% micro add_biases
% end
% end
% if ALIBI and FEW
% micro alibi_rows
% elif ALIBI and not INSIDE
% micro alibi
% end
% if MASK and not HIDES
% micro hide with MR = LINES
% if SIDE_KEYS
% micro hide_all
% end
% end
% micro finish
% if ONCE
% micro open_keys
% if SCALED
% micro score_once
% else
% micro score_blocks_once
% end
% micro softmax_once
% micro open_values
% micro values_once
% end
