%# The sizes that a tile of forward attention implies on NVIDIA's Hopper, and what must hold of them. Rows of Q, K, V and O lie in
%# shared memory in boxes of 64 columns, 128 bytes, the width of a swizzle; a last, partial box is filled up with zeros. A warpgroup,
%# four warps, has 64 rows of queries.
% include "opencl/sm.sizes.t"
%# Where keys are narrow and split, a slice may have 16 rows: each warp multiplies them by keys of its own (sm90.few.t).
% let FEW = BQ == 16
% let SLICE = FEW ? 16 : 64
% let WG = FEW ? 1 : BQ/64
%# Of what splits have left: the warps that merge it, and its columns; and whether output may begin anywhere and have any number of columns.
% let MERGERS = 4
% let PART_ROW = HDV
% let SOME_COLUMNS = 0
%# For rows wider than 256: what sm90.shares.t and sm90.tiles.t describe. Two warpgroups share the columns of a wide output; keys and
%# values take turns in one ring of places, so that values that lie in keys are read once.
% let WIDE = HD > 256 or HDV > 256
% let SHARES = HDV > 256
% let INSIDE = WIDE and HDV <= HD
%# The warpgroups that compute; and, of arrays with a part for each warpgroup, the part of this one.
% let CW = SHARES or FEW and BK >= 128 ? 2 : WG
% let MINE = SHARES ? "x->part" : "x->w"
% assert DTYPE == "f16" or DTYPE == "bf16", "isa sm90 multiplies f16 and bf16; dtype must be one of them"
% assert MR + NV + U + GQ + GX + VW == 0, "micro, unroll, group and vector belong to other isas; sm90 has tiles and stages"
% assert HD % 8 == 0 and HDV % 8 == 0, "head_dim must be a multiple of 8: the copy engine moves rows of whole 16 bytes"
% assert FEW or BQ == 64 or BQ == 128 or BQ == 192, "tile.q must be 64, 128 or 192: one to three warpgroups of 64 rows; or 16, for few queries"
% assert not FEW or NARROW and SPLIT, "tile.q 16 is for narrow K and V whose keys are split; tile.q must be 64 or more"
% assert not FEW or BK == 64 or BK == 128 or BK == 256, "where tile.q is 16 tile.k must be 64, 128 or 256: 16 or 32 keys for each of four or eight warps"
% assert not FEW or not SERIAL and not INVARIANT, "where tile.q is 16 serial and invariant must be left out: each warp takes one step after another, and adds up keys of its own"
% assert not SHARES or BQ == 64, "tile.q must be 64 where head_dim.v is more than 256: two warpgroups share the columns of its output"
% assert not WIDE or not SCALED and not BLOCKS, "narrow K and V are widened for head_dim of at most 256"
% assert not WIDE or BQ < 192, "tile.q must be 64 or 128 where head_dim is more than 256"
% assert BK % 16 == 0 and BK <= 256, "tile.k must be a multiple of 16 and at most 256, as wgmma's sides are"
% assert not BLOCKS or WIDENED or FEW and not WIDE, "isa sm90 takes q8_0 and q4_0 widened, or for few queries; widened must be true, tile.q 16, or dtype.kv another type"
% assert COPY == "tma", "copy must be tma where one warp copies for all; plain and async go with loop joint"
% assert SPLIT == 0 or LOOP == "persistent", "split needs work-groups that stay; loop must be persistent"
% assert not UNSWIZZLED and not SHARED_Q, "unswizzled and shared_q belong to isa sm80: wgmma reads swizzled shared memory anyway"
% assert not PINGPONG or WG == 2, "pingpong needs two warpgroups; tile.q must be 128"
% assert SPLIT % BK == 0, "split must be a multiple of tile.k"
% assert not NARROW or LOOP == "persistent", "narrow K and V are widened in loop persistent; loop must be left out"
% assert not SCALED or HD % 16 == 0 and HDV % 16 == 0, "head_dim must be a multiple of 16 with narrow K and V: the copy engine moves rows of whole 16 bytes"
% assert not NARROW or WG < 3, "with narrow K and V tile.q must be 64 or 128: who widens them has too few registers beside three warpgroups"
% assert not SPLIT or WG < 3, "where keys are split tile.q must be 64 or 128: three warpgroups have too few registers to merge"
% let TYPE = "ushort"
%# Keys that are widened once come out of their pages then.
% let IN_PAGES = PAGED and WIDENED
% let PAGED = PAGED and not WIDENED
%# Narrow tiles come to a ring of places, as many as there are stages or twice as many, in the order in which they are wanted, and go
%# from there, widened, to two stages. A place has boxes of 128 columns, a message of what it is, and the scales of a tile's keys and
%# values. The scales, with the power of two that those of values were divided by, are kept until both tiles are used.
%# Few queries are multiplied by what is in the ring, which has twice as many places as there are stages.
% let RING = FEW ? 2*ST : NARROW ? (HD + HDV > 256 ? ST : 2*ST) : 0
% let ST = FEW ? 0 : NARROW ? 2 : ST
%# Warpgroups that feed those that compute: one warp copies, and the others widen.
% let FEEDERS = NARROW and not FEW ? 2 : 1
% let WIDENERS = 4*FEEDERS - 1
% let PERSISTENT = LOOP == "persistent"
%# Whether another warp brings values: where pages are small, what one warp has to do for both sides of a tile takes longer than all else.
%# Beside three warpgroups it depends on what these need whether producers have enough registers for that.
% let ROOMY = WG < 3 or HDV/2 + 3*BK/4 + 32 <= 156
% let VALUES_APART = FEW or PAGED and not NARROW and not INSIDE and PERSISTENT and ROOMY ? 1 : 0
% let HB = ceil_div(HD, 64)
% let VB = ceil_div(HDV, 64)
%# The warps that compute and, where each has keys of its own, how many keys of a tile; the scores of a work-item.
% let WARPS = 4*CW
% let STRIP = FEW ? BK/WARPS : BK
% let NS = STRIP/2
%# The columns of values that a warpgroup multiplies; the elements of output that a work-item has, and those that one of the second of
%# two sharing warpgroups has.
% let DV = SHARES ? 64*ceil_div(VB, 2) : HDV
% let NO = DV/2
%# Whether a score is two sums, of every other 16 columns each: see sm.sizes.t.
% let HALVES = SUMS > 1
% let NO_2 = SHARES ? (HDV - DV)/2 : 0
% let OB = ceil_div(DV, 64)
%# Shared memory, in bytes: Q (twice where there is room, for the next tile); the stages of K and of V; as many boxes of O as have room
%# (the rest follow later); the barriers; and which tiles the last four are.
% let Q_BOX = SLICE*128
% let Q_WG = HB*Q_BOX
% let K_TILE = BK*HB*128
% let V_TILE = BK*VB*128
% let O_BOX = 64*128
% let TILE_BYTES = PACKED ? (SPLIT ? 96 + 32*(WINDOW or ALIBI) : 64) : SPLIT and (WINDOW or ALIBI) ? 64 : FROM ? 48 : 32
% let TILES = SHARES ? (PACKED ? 6 : 8) : 4
% let ROOM = 232448
%# Rows in blocks are copied with what lies around them in the same 16 bytes, where they are not copied together; a place then has where
%# each row begins, and no scales. As floats the scales of the keys, or of the values, that a warp multiplies stand in a place of the warp's own.
% let UNIT = BLOCKS ? type_bytes(DTYPE_KV) : 1
% let K_BYTES = RAW ? HD/32*UNIT : 0
% let V_BYTES = RAW ? HDV/32*UNIT : 0
% let PLACE = RAW ? BK*16*((max(K_BYTES, V_BYTES) + 29)/16) : NARROW ? BK*128*ceil_div(max(HD, HDV), 128) : 0
% let PAIRS = NARROW ? (FEW ? 4 : 8)*BK : 0
% let STRIPS = RAW ? 4*BK*max(HD, HDV)/32 : 0
% let SCALES = NARROW ? PAIRS + 16 : 0
%# Where each warp has keys of its own: for its 16 rows two numbers, and 32 columns of output.
% let MEETING = WARPS*16*(8 + 4*32)
%# A tile of keys that were widened once brings their scales, and what its values are to be multiplied by; beside queries in f16 also the
%# scales of its values. Of blocks it has only units, and no scales. There is room for more of these
%# records than there are stages, so that keys are given back before their scales are read. Those who widen tell each other which tiles
%# they have taken, scales, and in which pages rows are.
% let RECORD = WIDENED ? (BLOCKS ? 0 : RESTS ? 8 : 4)*BK + 16 : 0
% let RECORDS = ST + 1
% let TOPS_BYTES = 2*128*(WG + 1)/8*(BLOCKS ? 2 : 1)
% let JOBS = WIDENED ? 16 + 16*PACKED + TOPS_BYTES + (BLOCKS ? 0 : 4*BK) + IN_PAGES*8*BK : 0
% let NOTES = RING*(PLACE + PAIRS + 16) + STRIPS + (FEW ? MEETING : 3*SCALES) + RECORDS*RECORD + JOBS
%# A place in the ring holds keys or values. The second warpgroup's product may read one box more than values have.
% let KV_PLACE = BK*128*max(HB, SHARES ? 2*OB : VB)
% let K_PLACE = INSIDE ? KV_PLACE : (1 + K_TWO)*K_TILE
% let V_PLACE = INSIDE ? KV_PLACE : SHARES ? 2*OB*BK*128 : (1 + V_TWO)*V_TILE
% let KV_RING = 2*ST
% let STAGES = ST*(K_PLACE + V_PLACE) + NOTES
%# What one warpgroup tells the other: P, and three numbers for each work-item.
% let P_BYTES = SHARES ? BK*128 + 3*512 : 0
%# Whether output may lack a place in shared memory, and go to memory from registers.
% let DOES_WITHOUT = SHARES or K_TWO and WG == 1
% let LEAST = WG*Q_WG + (DOES_WITHOUT or FEW ? 0 : WG*O_BOX) + STAGES + P_BYTES + (PACKED ? 1280 + 512*WIDENED : 1024)
% assert LEAST <= ROOM, "it needs more than 227 KiB of shared memory; tile.q, tile.k or stages must be smaller"
% let QS = PERSISTENT and LEAST + WG*Q_WG + (FEW ? 0 : SHARES ? 2*OB : WG*(VB - 1))*O_BOX <= ROOM ? 2 : 1
%# Room for output that the copy engine writes; a wide output without room goes to memory from registers.
% let OS = FEW ? 0 : min(OB, (ROOM - LEAST - (QS - 1)*WG*Q_WG)/(CW*O_BOX) + (DOES_WITHOUT ? 0 : 1))
% let DIRECT_O = PACKED and SPLIT or OS == 0
% let AT_K = QS*WG*Q_WG
% let AT_V = AT_K + ST*K_PLACE
% let AT_O = AT_V + ST*V_PLACE
% let AT_P = AT_O + CW*OS*O_BOX
% let AT_RING = AT_P + P_BYTES
% let AT_PAIRS = AT_RING + RING*PLACE
% let AT_SCALES = AT_PAIRS + RING*PAIRS
% let AT_NOTES = AT_SCALES + (FEW ? MEETING : 3*SCALES)
% let AT_STRIPS = AT_NOTES + RING*16
% let AT_RECORDS = AT_STRIPS + STRIPS
% let AT_JOBS = AT_RECORDS + RECORDS*RECORD
% let AT_BAR = AT_JOBS + JOBS
% let AT_TILE = AT_BAR + round_up(8*(2*QS*WG + 4*ST + 1 + 2*RING + 2*SHARES), TILE_BYTES)
% let LOCAL = AT_TILE + TILES*WG*TILE_BYTES
% assert LOCAL <= ROOM - 1024, "it needs more than 226 KiB of shared memory, beside 1 KiB that the driver keeps; tile.q, tile.k or stages must be smaller"
%# Registers of a consumer's work-item: output, scores, probabilities, and about 32 for all else. A launch gives all warpgroups the
%# same number: 168 for each work-item if there are three, 128 if there are four. The warpgroups then share these out anew, and would
%# wait forever for more than there are. A producer that looks for pages needs more registers than one that does not, and one that also
%# widens needs more still.
%# A warpgroup that has two sums of scores needs what a producer can do without.
% let REGS = FEW ? 208 : WG == 3 ? (WIDENED or VALUES_APART ? 152 : 160) : NARROW ? (WG == 1 ? 216 : 200) : WIDENED ? 208 : (PAGED or WIDE) and not HALVES ? 224 : 232
% let COPY_REGS = FEW ? 88 : WG == 3 ? (WIDENED or VALUES_APART ? 56 : 32) : NARROW ? (WG == 1 ? 144 : 56) : WIDENED ? 88 : (PAGED or WIDE) and not HALVES ? 56 : 40
%# Where each warp has keys of its own, all have the same queries: in registers, unless a wide output leaves too few of these. Then they are
%# in shared memory, in a part of what the warps need when they meet, and as many as two products take are in registers.
% let HELD = NO + NS + STRIP/4 + 48 + RESTS*NS/2
% let SHARED_FEW = FEW and not RAW and HELD + HD/4 > REGS
% assert NO + NS + (FEW ? (SHARED_FEW ? 8 : HD/4) + STRIP/4 + 48 : WIDE and SERIAL ? max(BK/4, HALVES*NS) + 32 : HALVES*NS + BK/4 + 32) + RESTS*NS/2 <= REGS + (WIDENED or WG == 3 and VALUES_APART ? 4 : 0), "a work-item needs more registers than it has; tile.k must be smaller, or tile.q at most 128"
% let ITEMS = 128*(CW + FEEDERS)
%# Where no product is under way beside exponentials, wide values are multiplied before the next scores, and their place is given back
%# early.
% let EARLY = WIDE and SERIAL
%# With three warpgroups, each skips the keys that only others of the tile see; with two, that would make them wait for each other
%# more. What depends on the work-item alone is then computed anew for each tile, for lack of registers.
% let UNEVEN = WG == 3 and (CAUSAL or WINDOW)
% let ITEM = UNEVEN ? "anew(get_local_id(0))" : "get_local_id(0)"
%# With two that take turns, what is due for a narrow output is done while the tensor cores multiply the next scores.
% let LATER = PINGPONG and HDV <= 128 and not SPLIT and not WIDE_O and not EARLY
%# Whether a warp first asks, by an instruction that takes three numbers, whether a score can have grown so far that the maximum matters.
%# Where scores may be hidden that costs more than it saves.
% let QUICK = LAZY and not CAUSAL and not WINDOW and not SKIPS and not FOLDS and not TURNS
%# Whether scores of most tiles become exponentials without a look for their maximum, since a bound allows it: see sm90.scale.t.
% let BOUNDED = TURNS and LAZY
%# What a launch needs to know: struct gen_launch in gen/gen.h says what each is.
% let LAUNCH_GROUP_0 = ITEMS
% let LAUNCH_GROUP_1 = 1
% let LAUNCH_ROWS = BQ
% let LAUNCH_COLUMNS = BK
% let LAUNCH_GROUPS_0 = SPLIT ? (WG > 1 ? "min(units, splits * ceil(slices / 2) * kv_heads * batch)" : "min(units, splits * slices * kv_heads * batch)") : PERSISTENT ? "min(units, ceil(q_len / tile[0]) * heads * batch)" : "ceil(q_len / tile[0]) * heads * batch"
% let LAUNCH_GROUPS_1 = "1"
% let LAUNCH_GROUPS_2 = "1"
% let LAUNCH_LOCAL = LOCAL
% let LAUNCH_SPLIT = SPLIT
% let LAUNCH_BEGIN = "mapped"
% let LAUNCH_ONE_TILE = not PERSISTENT
% let LAUNCH_MAPS = 1
% let LAUNCH_EARLY = 1
