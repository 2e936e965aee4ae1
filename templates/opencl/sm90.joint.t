%# Hopper's products in the loop of sm80.cl.t: a work-group for each tile, whose warps all copy, multiply, and wait for both. A
%# comparison with it shows what the producer, overlap and persistent work-groups of sm90.cl.t gain. This file says what must hold of
%# its sizes.
% assert DTYPE == "f16" or DTYPE == "bf16", "isa sm90 multiplies f16 and bf16; dtype must be one of them"
% assert MR + NV + U + GQ + GX + VW == 0, "micro, unroll, group and vector belong to other isas; sm90 has tiles and stages"
% assert BQ == 64 or BQ == 128, "tile.q must be 64 or 128 where loop is joint: one or two warpgroups of 64 rows"
% assert not PINGPONG, "pingpong needs warps that do not copy; loop must be specialised or persistent"
% assert not UNSWIZZLED and not SHARED_Q, "unswizzled and shared_q belong to isa sm80: wgmma reads swizzled shared memory anyway"
% assert not WINDOW and not SOFTCAP and not SINK and not MASK and not ALIBI and BIAS == "none", "features do not go with loop joint"
%# A warp has 16 of its warpgroup's rows; registers are not shared out anew. Heads are not wide.
% let MR = 16
% let WG = 1
% let CW = 1
% let Q_BOX = BQ*128
% let HALVES = 0
% include "opencl/sm80.cl.t"
