%# The sizes that a tile of forward attention implies on NVIDIA's cards from compute capability 8.0 on, and what must hold of them.
%# Rows of Q, K, V and O lie in shared memory in boxes of 64 columns, 128 bytes, the width of a swizzle; the last box has 16 or 32
%# columns where that is enough. A warp has MR rows of queries: one or two fragments of 16.
% let WGMMA = ISA == "sm90"
% include "opencl/sm.sizes.t"
%# Narrow keys and values are widened in registers, by each warp for itself; their rows have boxes of 128 columns, which are as wide. Where
%# a group has many warps all of them together put f16 into boxes instead: WIDENS. Such rows, those that begin anywhere, and blocks come
%# to a stage as they lie in memory, and go to boxes from there: SETTLES (sm80.settle.t).
% assert not NARROW or not WGMMA, "loop joint does not widen K and V; dtype.kv must be left out"
% assert not NARROW or COPY != "plain", "narrow K and V are copied as they lie; copy must be async or any"
% assert not BLOCKS or COPY != "any", "blocks of q8_0 and q4_0 are copied as they lie anyway; copy must be left out"
% let COPY = BLOCKS ? "any" : COPY
% assert not NARROW or COPY == "any" or HD % 16 == 0 and HDV % 16 == 0, "head_dim must be a multiple of 16 with narrow K and V: rows are copied by whole 16 bytes; copy any takes others"
%# One of the two orders the columns of a product and the parts of a probability otherwise, and so has other bits.
% let WIDENS = NARROW and (BQ >= 4*MR or INVARIANT)
% let SETTLES = NARROW and (COPY == "any" or WIDENS)
%# Whether a work-item has four columns of output that follow each other, of every 16 columns.
% let IN_FOURS = NARROW and not WIDENS
% let UNIT = BLOCKS ? type_bytes(DTYPE_KV) : 1
% assert not TWOFOLD or DTYPE_KV == "f32" and DTYPE_O == "f32", "isa sm80 takes f32 where Q, K, V and O all are; dtype.kv and dtype.o must be left out"
% assert not TWOFOLD or COPY != "plain", "f32 becomes f16 where copies have come to; copy must be async or any"
% assert NV + U + GQ + GX + VW + PINGPONG == 0, "micro.vecs, unroll, group, vector and pingpong belong to other isas; sm80 has tiles, micro.rows and stages"
% assert not SPLIT or not WGMMA, "with loop joint keys are not split; split must be left out"
% assert not SPLIT or BQ <= 64, "where keys are split tile.q must be at most 64: a slice of the rows of queries that share a KV head"
% assert not SPLIT or HDV <= 256, "where keys are split head_dim.v must be at most 256: a slice's output is one part"
% assert SPLIT % BK == 0, "split must be a multiple of tile.k"
% assert COPY == "any" or COPY == "plain" or HD % 8 == 0 and HDV % 8 == 0, "head_dim must be a multiple of 8: rows are copied by whole 16 bytes; copy any takes others"
% assert HD <= 256, "head_dim.qk must be at most 256: a warp has no registers for more beside its output"
% assert MR == 16 or MR == 32, "micro.rows must be 16 or 32: one or two fragments of the tensor cores"
% assert BQ == MR or BQ == 2*MR or BQ == 4*MR or BQ == 8*MR, "tile.q must be 1, 2, 4 or 8 times micro.rows: so many warps"
% assert BK % 16 == 0 and BK <= 256, "tile.k must be a multiple of 16, as a product's sides are, and at most 256"
% assert ST >= 2 or COPY == "plain", "stages must be at least 2: the next keys are copied while these are multiplied"
% assert ST == 1 or COPY != "plain", "stages must be 1 where copy is plain: its work-items wait for what they load"
% assert COPY != "tma" or WGMMA, "copy must be plain, async or any: sm80 has no copy engine"
% assert LOOP == "joint", "loop must be joint: on sm80 all warps copy and multiply"
% assert not SERIAL, "serial must be left out where loop is joint: each product is waited for anyway"
% let TYPE = TWOFOLD ? "float" : "ushort"
% let ITEMS = 32*BQ/MR
% let FR = MR/16
%# Where keys are split: the slices of a tile, and their rows; the warps that merge what splits have left; the columns of that; and
%# whether output may begin anywhere and have any number of columns.
% let WG = 1
% let SLICE = BQ
% let MERGERS = BQ/MR
% let PART_ROW = round_up(HDV, 8)
% let SOME_COLUMNS = COPY == "plain" or COPY == "any"
%# Columns of values that a group works on at once: all of them or, if there are more than 256, one part after another. A fragment has
%# a multiple of eight columns; of narrow values, of 16.
% let PARTS_V = ceil_div(HDV, 256)
% let PART_V = PARTS_V == 1 ? HDV : round_up(ceil_div(HDV, PARTS_V), BLOCKS ? 32 : FITTED ? 16 : 8)
% let DV = round_up(PART_V, FITTED ? 16 : 8)
% assert PARTS_V == 1 or COPY != "tma", "head_dim.v must be at most 256 where copy is tma; copy async and any take more"
%# The scores of a fragment, and its elements of output, that a work-item holds.
% let NS = BK/2
% let NO = DV/2
% let HB = ceil_div(HD, 64)
% let VB = ceil_div(DV, 64)
%# A tile of f32 becomes f16 while the one before it is multiplied, where there are three stages; where there are two, before that. AHEAD
%# says the first. LATE: half of the warps do that before their products, and half after them, so that there is always something to multiply.
% let AHEAD = TWOFOLD and ST > 2
% let LATE = AHEAD and not SPLIT and BQ > MR
%# Bytes of a row in the last box, and in all boxes. wgmma needs whole boxes. A row of f32 is two rows of f16, and has as many boxes for its
%# lower parts behind those for the upper ones; it comes to them as it lies in memory, by FOLD words of 16 bits for each number.
% let FOLD = TWOFOLD ? 2 : 1
% let HW = WGMMA or TWOFOLD ? 128 : 2*round_up(HD - 64*(HB - 1), HD - 64*(HB - 1) > 32 ? 64 : HD - 64*(HB - 1) > 16 ? 32 : 16)
% let LW = WGMMA or TWOFOLD ? 128 : 2*round_up(DV - 64*(VB - 1), DV - 64*(VB - 1) > 32 ? 64 : DV - 64*(VB - 1) > 16 ? 32 : 16)
%# Boxes of keys and of values, and bytes of a row in the last ones.
% let K_BOXES = IN_FOURS ? ceil_div(HD, 128) : HB
% let V_BOXES = IN_FOURS ? ceil_div(DV, 128) : VB
% let K_LAST = IN_FOURS ? (HD - 128*(K_BOXES - 1) > 64 ? 128 : HD - 128*(K_BOXES - 1) > 32 ? 64 : 32) : HW
% let V_LAST = IN_FOURS ? (DV - 128*(V_BOXES - 1) > 64 ? 128 : DV - 128*(V_BOXES - 1) > 32 ? 64 : 32) : LW
% let K_TILE = FOLD*BK*(128*(K_BOXES - 1) + K_LAST)
% let V_TILE = FOLD*BK*(128*(V_BOXES - 1) + V_LAST)
%# Behind f32 queries stand their units.
% let AT_UNITS = FOLD*BQ*(128*(HB - 1) + HW)
% let Q_TILE = AT_UNITS + (TWOFOLD ? 4*BQ : 0)
% let O_TILE = BQ*(128*(VB - 1) + LW)
%# The steps of 16 columns of a sum of scores, in pairs, as narrow keys are read.
% let SUM_STEPS = 2*ceil_div(STEPS, 2*SUMS)
%# Registers of a work-item: scores (and a sum that is to be added to them), output, Q where there is room, and about 48 for all
%# else; with f32 also sums of 16 columns, and both parts of some keys. If Q stays in registers, its place in shared memory serves the
%# last stage of keys and values.
% let NQ = FOLD*4*ceil_div(HD, 16)
% let HELD = FR*(NS + NO + (SUMS > 1 ? NS : TWOFOLD ? 16 : 0)) + (TWOFOLD ? 16 : 0)
% assert HELD + 48 <= 255, "a work-item needs more registers than it has; tile.k or micro.rows must be smaller"
% let Q_FITS = not WGMMA and HELD + FR*NQ + 48 <= 255
% assert not SHARED_Q or Q_FITS, "registers have no room for queries anyway; shared_q must be left out"
% let Q_STAYS = Q_FITS and not SHARED_Q
% let AT_STAGES = Q_STAYS ? 0 : Q_TILE
%# Narrow rows as they lie in memory: their bytes, and as many 16 as have room for them wherever they begin.
% let K_BYTES = BLOCKS ? HD/32*UNIT : round_up(HD, 16)
% let V_BYTES = BLOCKS ? DV/32*UNIT : DV
% let K_RAW = not SETTLES ? 0 : COPY == "any" ? 16*ceil_div(K_BYTES + 16, 16) : K_BYTES
% let V_RAW = not SETTLES ? 0 : COPY == "any" ? 16*ceil_div(V_BYTES + 16, 16) : V_BYTES
%# A stage: boxes, or rows and where within 16 bytes each begins; then the scales of keys and of values. Settled boxes stand behind the
%# stages, with the scales of blocks.
% let AT_SHIFTS = BK*(K_RAW + V_RAW)
% let AT_SCALES = SETTLES ? AT_SHIFTS + 2*BK : K_TILE + V_TILE
% let STAGE = FITTED ? round_up(AT_SCALES + WEIGHED*8*BK, 128) : K_TILE + V_TILE
% let AT_SETTLED = AT_STAGES + ST*STAGE
% let K_BLOCKS = BLOCKS ? HD/32 : 0
% let V_BLOCKS = BLOCKS ? DV/32 : 0
% let SETTLED = SETTLES ? K_TILE + V_TILE + 4*BK*(K_BLOCKS + V_BLOCKS) : 0
% let AT_Q = Q_STAYS ? (ST - 1)*STAGE : 0
% let AT_BAR = max(max(AT_SETTLED + SETTLED, AT_Q + Q_TILE), WIDE_O ? 0 : O_TILE)
% let AT_PLACES = AT_BAR
% let AT_TILE = AT_PLACES + (PAGED ? 16*BK : 0)
%# The tile, and whether this group is the last one with a part of its slice.
% let LOCAL = SPLIT ? AT_TILE + 128 : AT_BAR + (COPY == "tma" ? 8*(ST + 1) : 0) + (PAGED ? 16*BK : 0)
% assert LOCAL <= 232448, "it needs more than 227 KiB of shared memory; tile.q, tile.k or stages must be smaller"
%# Where rows may begin anywhere, they are copied and stored in pieces.
% let ANYWHERE = COPY == "plain" or COPY == "any"
% let QUICK = 0
% let BOUNDED = 0
%# What a launch needs to know: struct gen_launch in gen/gen.h says what each is.
% let LAUNCH_GROUP_0 = ITEMS
% let LAUNCH_GROUP_1 = 1
% let LAUNCH_ROWS = BQ
% let LAUNCH_COLUMNS = BK
% let LAUNCH_GROUPS_0 = SPLIT ? "splits * slices * kv_heads * batch" : "ceil(q_len / tile[0]) * heads * batch"
% let LAUNCH_GROUPS_1 = "1"
% let LAUNCH_GROUPS_2 = "1"
% let LAUNCH_LOCAL = LOCAL
% let LAUNCH_SPLIT = SPLIT
% let LAUNCH_BEGIN = COPY == "plain" or COPY == "any" ? "anywhere" : COPY == "async" ? "whole" : "mapped"
% let LAUNCH_ONE_TILE = 1
% let LAUNCH_MAPS = WGMMA
% let LAUNCH_EARLY = 0
