%# The sizes that a tile of forward attention implies on NVIDIA's tensor cores from Ampere on, and what must hold of them.
%# Rows of K and V lie in shared memory in boxes of 64 columns, 128 bytes. A warp has 16 rows of queries.
% assert DTYPE != "f32", "isa sm80 multiplies f16 and bf16; dtype must be one of them"
% assert MR + NV + U + GQ + GX + VW == 0, "micro, unroll, group and vector belong to other isas; sm80 has tiles"
% assert ST + PINGPONG == 0, "stages and pingpong belong to isa sm90"
% assert HD % 8 == 0 and HDV % 8 == 0, "head_dim must be a multiple of 8: rows are copied 16 bytes at a time"
% assert HD <= 256 and HDV <= 256, "head_dim must be at most 256: a warp's registers hold no wider output"
% assert BQ % 16 == 0 and BQ >= 32 and BQ <= 256, "tile.q must be a multiple of 16 from 32 to 256: a warp has 16 rows"
% assert BK % 16 == 0 and BK <= 256, "tile.k must be a multiple of 16 and at most 256"
% let TYPE = "ushort"
% let T = DTYPE
% let ITEMS = 2*BQ
% let HB = ceil_div(HD, 64)
% let VB = ceil_div(HDV, 64)
% let NS = BK/2
% let NO = HDV/2
% let QN = ceil_div(HD, 16)
% let K_TILE = BK*HB*128
% let V_TILE = BK*VB*128
% let LOCAL = K_TILE + V_TILE
% assert LOCAL <= 49152, "K and V of a tile take more than 48 KiB of shared memory; tile.k must be smaller"
% assert NO + NS + BK/4 + 4*QN + 28 <= 255, "a work-item needs more than 255 registers; tile.k must be smaller"
