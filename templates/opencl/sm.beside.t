%# How a kernel fills in struct beside at its beginning.
    struct beside beside;
% if BIAS != "none"
    beside.bias = bias + f.bias_at, beside.bias_wide = in_pairs((ulong)beside.bias, f.bias_stride, ${type_bytes(BIAS)});
% end
% if MASK
    beside.mask = mask + f.mask_at, beside.mask_wide = in_pairs((ulong)beside.mask, f.mask_stride, 1);
% end
% if ALIBI
    beside.slopes = slopes + f.slopes_at;
% end
% if ADDS
    beside.unit = ${SOFTCAP ? "f.softcap" : "a.scale"}${SOFTCAP ? "" : MADE_UP};
% end
