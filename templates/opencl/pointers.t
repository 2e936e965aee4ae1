%# Pointers to where the rows of the group's sequence and head begin.
% if PACKED
    q += a.q_at + (f.has_q_starts ? q_from * a.q_stride[2] : b * a.q_stride[0]) + h * a.q_stride[1];
    o += a.o_at + (f.has_q_starts ? q_from * a.o_stride[2] : b * a.o_stride[0]) + h * a.o_stride[1];
% else
    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1];
% end
% if PAGED
    k += ${VALUES > 1 ? "(" : ""}a.k_at + g * a.k_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
    v += ${VALUES > 1 ? "(" : ""}a.v_at + g * a.v_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
    pages += f.pages_at + b * f.page_stride;
% elif PACKED
    k += ${VALUES > 1 ? "(" : ""}a.k_at + (f.has_kv_starts ? kv_from * a.k_stride[2] : b * a.k_stride[0]) + g * a.k_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
    v += ${VALUES > 1 ? "(" : ""}a.v_at + (f.has_kv_starts ? kv_from * a.v_stride[2] : b * a.v_stride[0]) + g * a.v_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
% else
    k += ${VALUES > 1 ? "(" : ""}a.k_at + b * a.k_stride[0] + g * a.k_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
    v += ${VALUES > 1 ? "(" : ""}a.v_at + b * a.v_stride[0] + g * a.v_stride[1]${VALUES > 1 ? ")" : ""}${VALUES > 1 ? " * " : ""}${VALUES > 1 ? UNIT : ""};
% end
% if SCALED
% for v in 0..2
% let X = v ? "v" : "k"
    ${X}_scales += f.${X}_scales_at + g * f.${X}_scales_stride[1]${PAGED ? "" : PACKED ? " + (f.has_kv_starts ? kv_from * " : " + b * "}${PAGED ? "" : PACKED ? (v ? "f.v_scales_stride[2] : b * f.v_scales_stride[0])" : "f.k_scales_stride[2] : b * f.k_scales_stride[0])") : v ? "f.v_scales_stride[0]" : "f.k_scales_stride[0]"};
% end
% end
% if not PACKED
    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1];
% end
% if BIAS != "none"
    bias += f.bias_at + b * f.bias_stride[0] + h * f.bias_stride[1];
% if VW == 2 or VW == 4
    const int bias_wide = f.bias_stride[3] == 1 && (f.bias_stride[2] & ${VW - 1}) == 0 && ((ulong)bias & ${VW*type_bytes(BIAS) - 1}) == 0;
% else
    const int bias_wide = f.bias_stride[3] == 1;
% end
% end
% if MASK
    mask += f.mask_at + b * f.mask_stride[0] + h * f.mask_stride[1];
% if VW == 2 or VW == 4
    const int mask_wide = f.mask_stride[3] == 1 && (f.mask_stride[2] & ${VW - 1}) == 0 && ((ulong)mask & ${VW - 1}) == 0;
% else
    const int mask_wide = f.mask_stride[3] == 1;
% end
% end
% if NARROW_KV and HD % U == 0
    const int wide = (a.q_stride[2] & 3) == 0 && ((ulong)q & ${4*type_bytes(DTYPE) - 1}) == 0; /* rows of queries can be read four elements at a time */
% elif not NARROW_KV and HD % U == 0 and HDV % 4 == 0
    const int wide = ((a.q_stride[2] | a.k_stride[2] | a.v_stride[2]${PAGED ? " | a.k_stride[0] | a.v_stride[0]" : ""}) & 3) == 0 &&
% if DTYPE == DTYPE_KV
        (((ulong)q | (ulong)k | (ulong)v) & ${4*type_bytes(DTYPE) - 1}) == 0; /* rows can be read four elements at a time */
% else
        ((ulong)q & ${4*type_bytes(DTYPE) - 1}) == 0 && (((ulong)k | (ulong)v) & ${4*type_bytes(DTYPE_KV) - 1}) == 0; /* rows can be read four elements at a time */
% end
% else
    const int wide = 0;
% end
