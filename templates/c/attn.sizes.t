%# The sizes that a tile of forward attention implies, what must hold of them, and the micro-kernels it is built of.
%# A slot is 32 bits: one f32, or two bf16 where the ISA multiplies pairs.
% let PAIRS = has_type("bf16x2")
% let PER = PAIRS ? 2 : 1
% let E = PAIRS ? "bf16x2" : "f32"
% let T = DTYPE
% let TYPE = DTYPE == "f32" ? "float" : "uint16_t"
% let NR = NV*W
% let SQ = round_up(ceil_div(HD, PER), U)
% let LDQ = round_up(SQ, W)
% let CV = ceil_div(HDV, W)
% let LDO = CV*W
% let PANELS = ceil_div(CV, NV)
% let LAST = CV - (PANELS - 1)*NV
% let MAX = 0
% let SUM = W
% let FIX = 2*W
% let BASE = 3*W
% let STATE = 4*W
% let LDP = BK/PER
% let KTILE = BK*LDQ
% let VTILE = PANELS*LDP*NR
% let STAGE = W*max(LDQ*PER, LDO)
% let AT_O = round_up(BQ, W)*LDQ*4
% let AT_S = AT_O + round_up(BQ*LDO*4, 64)
% let AT_P = AT_S + round_up(MR*BK*4, 64)
% let AT_ROW = AT_P + (PAIRS ? round_up(MR*BK*2, 64) : 0)
% let AT_STAGE = AT_ROW + round_up(BQ/MR*STATE*4, 64)
% let WORKSPACE = AT_STAGE + round_up(STAGE*4, 64)
% assert GQ + GX + VW == 0, "group and vector belong to OpenCL; isa portable has them"
% assert ST + PINGPONG + LAZY == 0, "stages, pingpong and lazy belong to isas sm90 and sm80"
% assert not PAIRS or DTYPE == "bf16", "isa avx512bf16 multiplies pairs of bf16; dtype must be bf16"
% assert BK % NR == 0, "tile.k must be a multiple of micro.vecs times the vector's width"
% assert BQ % MR == 0, "tile.q must be a multiple of micro.rows"
% assert W % (U*PER) == 0, "unroll must divide the vector's width, and half of it where the ISA multiplies pairs"
% assert not PAIRS or BK/W % 2 == 0, "tile.k must hold an even number of vectors where the ISA multiplies pairs"
% assert MR <= W, "micro.rows must be at most the vector's width"
% assert MR*NV <= 64, "micro.rows times micro.vecs must be at most 64"
% micro pack_q
% micro pack_k
% micro pack_v
% micro score_tile with N = NV
% micro softmax
% micro softmax_edge
% if PANELS > 1 or LAST == NV
% micro value_tile with N = NV
% end
% if LAST != NV
% micro value_tile as value_last with N = LAST
% end
% micro finish
