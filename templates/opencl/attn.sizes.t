%# The sizes that a tile of forward attention implies in OpenCL, and what must hold of them.
% include "opencl/types.sizes.t"
%# Where a row's bits must not depend on tuning, its sum always has so many shares, each of the keys with the same remainder, whatever
%# the vectors and lanes are.
% let SHARES = INVARIANT ? 32 : 0
% let TYPE_BIAS = BIAS == "none" ? "" : type_opencl(BIAS)
% assert VW == 1 or VW == 2 or VW == 4 or VW == 8 or VW == 16, "vector must be 1, 2, 4, 8 or 16, the widths that OpenCL C has"
% assert ST + PINGPONG + LAZY == 0, "stages, pingpong and lazy belong to isas sm90 and sm80"
% assert not SPLIT, "isa portable does not split keys; split must be left out"
% assert COPY == "plain" and LOOP == "joint" and UNSWIZZLED + SHARED_Q == 0 and ORDER == "heavy" and not WIDENED, "copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80"
% assert not SERIAL, "serial belongs to isas sm90 and amx"
% assert U % 4 == 0, "unroll must be a multiple of 4: queries are read four elements at a time"
% let ITEMS = GQ*GX
% let LANE = NV*VW
% let BLOCK = GX*LANE
% assert BK % BLOCK == 0, "tile.k must be a multiple of group.lanes times micro.vecs times vector"
% assert BQ % (GQ*MR) == 0, "tile.q must be a multiple of group.rows times micro.rows"
% assert BK % 4 == 0, "tile.k must be a multiple of 4: probabilities are read four keys at a time"
% let BLOCKS = BK/BLOCK
% assert not INVARIANT or GX*VW <= SHARES and SHARES % (GX*VW) == 0, "a row's sum has 32 shares where invariant is set; group.lanes times vector must divide 32"
%# The vectors that hold a work-item's shares of a row's sum.
% let SV = INVARIANT ? SHARES/(GX*VW) : 0
% let TURNS = BQ/(GQ*MR)
% let ROWS = GQ*MR
% let DP = round_up(HD, U)
% let STEP = GX*VW
% let DV = round_up(HDV, STEP)
% let CV = DV/STEP
%# With one turn, keys and values pass through one buffer, a chunk at a time; with more turns, whole tiles stay in local memory for all
%# of them.
% let CHUNKED = TURNS == 1
% let DC = CHUNKED and DP > 64 ? 64 : DP
% let KC = CHUNKED ? min(BK, max(4, DC*BK/DV/4*4)) : BK
% let KTILE = CHUNKED ? max(DC*BK, KC*DV) : DP*BK
% let VTILE = CHUNKED ? 0 : BK*DV
% let LOCAL = (KTILE + VTILE + ROWS*BK + (GX > 1 ? ROWS*GX : 0))*4 + (NARROW_KV ? 24*BK : PAGED ? 16*BK : 0)
%# Names that the features change: that of the number of this sequence's queries, and that of the exponential. Scores to which
%# something is added are not multiplied by log2(e), since a finite bias may be as large as floats get; all others are, together with
%# their scale.
% include "features.sizes.t"
% let QUERIES = PACKED ? "queries" : "a.q_len"
% let EXP = BIAS != "none" ? "exp" : "exp2"
% let LOG2E = BIAS != "none" ? "" : " * 1.44269504f"
% let GET_KV = DTYPE_KV == DTYPE ? "get4" : "get4_kv"
% assert MR*NV*BLOCKS <= 512 and MR*CV*TURNS <= 4096, "a work-item holds too much: micro.rows, tile.q or tile.k must be smaller"
%# What is written out in full: products of a turn's rows with four rows of values, and with unroll columns of keys. NVRTC's time grows
%# with the square of it: 256 vectors of output take it up to 47 s, and with 1280 it does not end within ten minutes.
% assert MR*CV <= 128, "a work-item's rows have more than 128 vectors of output, over which compilers take minutes; micro.rows must be smaller, or group.lanes or vector larger"
% assert MR*NV*U <= 1024, "unroll times the vectors of a work-item's scores is above 1024; unroll, micro.rows or micro.vecs must be smaller"
% let VALUES = type_values(DTYPE_KV)
% let UNIT = VALUES > 1 ? type_bytes(DTYPE_KV) : 1
% assert HD % VALUES == 0 and HDV % VALUES == 0, "q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32"
% assert ITEMS <= 1024, "a work-group has at most 1024 work-items; group.rows times group.lanes must be smaller"
%# What a launch needs to know: struct gen_launch in gen/gen.h says what each is.
% let LAUNCH_GROUP_0 = GX
% let LAUNCH_GROUP_1 = GQ
% let LAUNCH_ROWS = BQ
% let LAUNCH_COLUMNS = BK
% let LAUNCH_GROUPS_0 = "ceil(q_len / tile[0])"
% let LAUNCH_GROUPS_1 = "heads"
% let LAUNCH_GROUPS_2 = "batch"
% let LAUNCH_LOCAL = LOCAL
% include "opencl/launch.sizes.t"
