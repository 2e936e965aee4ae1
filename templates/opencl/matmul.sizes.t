%# The sizes of a product's tile, and what must hold of them. A number that a name leaves out is 0 here.
% assert VW == 0 or VW == 4 or VW == 8 or VW == 16, "vector must be 4, 8 or 16, or left out: rows are read four elements at a time"
% assert (BQ > 0) == (BK > 0), "tile.q and tile.k go together: a tile of the product has rows and columns"
% assert BQ > 0 or MR + NV + VW == 0, "micro.rows, micro.vecs and vector need a tile; without one a work-item computes one element"
% let TILED = BQ > 0
% let MR = max(MR, 1)
% let NV = max(NV, 1)
% let VW = max(VW, 1)
% include "opencl/types.sizes.t"
% let GET_KV = DTYPE_KV == DTYPE ? "get4" : "get4_kv"
% let B = TRANSPOSED ? "B^T" : "B"
% assert BQ % MR == 0, "tile.q must be a multiple of micro.rows"
% assert BK % (NV*VW) == 0, "tile.k must be a multiple of micro.vecs times vector"
% let GX = TILED ? BK/(NV*VW) : 16
% let GQ = TILED ? BQ/MR : 16
% let ITEMS = GX*GQ
% let ROWS = TILED ? BQ : 16
% let COLUMNS = TILED ? BK : 16
% assert ITEMS <= 1024, "a work-group has at most 1024 work-items; micro.rows, micro.vecs or vector must be larger"
% assert MR*NV*VW <= 256, "a work-item holds too much: micro.rows, micro.vecs or vector must be smaller"
%# How many columns of A, and rows of B, lie in local memory at once. Rows of B are padded, so that stores down a column of it go to
%# different banks.
% let DEPTH = 16
% let READ = VW == 1 ? 1 : 4
% let STEP = GX*VW
% let LDB = BK + VW
% let LOCAL = TILED ? (BQ*DEPTH + DEPTH*LDB)*4 : 0
%# What a launch needs to know: struct gen_launch in gen/gen.h says what each is.
% let LAUNCH_GROUP_0 = GX
% let LAUNCH_GROUP_1 = GQ
% let LAUNCH_ROWS = ROWS
% let LAUNCH_COLUMNS = COLUMNS
% let LAUNCH_GROUPS_0 = "ceil(n / tile[1])"
% let LAUNCH_GROUPS_1 = "ceil(m / tile[0])"
% let LAUNCH_GROUPS_2 = "heads * batch"
% let LAUNCH_LOCAL = LOCAL
% include "opencl/launch.sizes.t"
