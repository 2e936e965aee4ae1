%# The sizes that a tile of forward attention implies on NVIDIA's tensor cores from Ampere on, and what must hold of them.
%# Rows of K and V lie in shared memory in boxes of 64 columns, 128 bytes. Each of four warps has MT times 16 rows of queries: what it reads of K and V serves all of them.
% assert DTYPE != "f32", "isa sm80 multiplies f16 and bf16; dtype must be one of them"
% assert MR + NV + U + GQ + GX + VW == 0, "micro, unroll, group and vector belong to other isas; sm80 has tiles"
% assert ST + PINGPONG == 0, "stages and pingpong belong to isa sm90"
% assert HD % 8 == 0 and HDV % 8 == 0, "head_dim must be a multiple of 8: rows are copied 16 bytes at a time"
% assert HD <= 256 and HDV <= 256, "head_dim must be at most 256: a warp's registers hold no wider output"
% assert BQ == 64 or BQ == 128, "tile.q must be 64 or 128: four warps have 16 or 32 rows each"
% assert BK % 16 == 0 and BK <= 256, "tile.k must be a multiple of 16 and at most 256"
% let TYPE = "ushort"
% let T = DTYPE
% let ITEMS = 128
% let MT = BQ/64
% let HB = ceil_div(HD, 64)
% let VB = ceil_div(HDV, 64)
% let NS = BK/2
% let NO = HDV/2
% let QN = ceil_div(HD, 16)
%# Registers: output, scores and probabilities, and 28 for all else; Q too if it has room, else it is in shared memory.
% let HELD = MT*(NO + NS + BK/4) + 28
% let Q_HELD = HELD + MT*4*QN <= 255
% assert HELD + 4*MT <= 255, "a work-item needs more than 255 registers; tile.q or tile.k must be smaller"
% let Q_TILE = Q_HELD ? 0 : BQ*HB*128
% let K_TILE = BK*HB*128
% let V_TILE = BK*VB*128
% let LOCAL = Q_TILE + K_TILE + V_TILE
% assert LOCAL <= 49152, "a tile takes more than 48 KiB of shared memory; tile.q or tile.k must be smaller"
