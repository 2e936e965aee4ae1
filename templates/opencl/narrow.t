%# Keys and values of narrow types: where those of a tile lie, and how they become numbers in local memory. This file takes the place
%# of those functions of types.t that read other types.
/* Where a key and its value begin, in elements of their type in C${SCALED ? ", and their scales" : ""}. */
struct place {
    long k, v;
% if SCALED
    float k_scale, v_scale;
% end
};

% if WIDENING_KV == "q8_0" or WIDENING_KV == "q4_0"
/* Number d of a row of blocks of 32, in ggml's layout of ${DTYPE_KV}: an f16 scale, followed by
 * ${WIDENING_KV == "q4_0" ? "halves of bytes, all low ones first" : "signed bytes"}. */
${FUNCTION} float number(__global const ${TYPE_KV} *row, int d)
{
    __global const ${TYPE_KV} *block = row + d / 32 * ${type_bytes(DTYPE_KV)};
    const float scale = vload_half(0, (__global const half *)block);
% if WIDENING_KV == "q4_0"
    const int both = block[2 + d % 16];
    return scale * (float)((d % 32 < 16 ? both & 15 : both >> 4) - 8);
% else
    return scale * (float)block[2 + d % 32];
% end
}
% elif WIDENING_KV == "e4m3"
/* A number of OCP's E4M3. Those with an exponent of 0 are multiples of 2^-9, up to 7 of them; read as others are, they would
 * be 2^-7 and a fraction of it. */
${FUNCTION} float number(__global const ${TYPE_KV} *row, int d)
{
    const uint code = row[d], size = code & 127;
    const float usual = as_float((size << 20) + 0x3c000000), x = size == 127 ? as_float(0x7fc00000) : fmin(usual, 2.0f * usual - 0.015625f);
    return code & 128 ? -x : x;
}
% else
${FUNCTION} float number(__global const ${TYPE_KV} *row, int d)
{
    return (float)row[d];
}
% end

/* The columns of n keys from `from` on, transposed to [${DC}][${BK}]; and n values, as [${KC}][${DV}]. Both have zeros
 * beyond. */
${FUNCTION} void fill_k(__local float *kt, __global const ${TYPE_KV} *k, __local const struct place *place, int n, int from, int item)
{
    for (int t = item; t < ${BK*DC}; t += ${ITEMS}) {
        const int key = t % ${BK}, d = t / ${BK};
        kt[d * ${BK} + key] = key < n && from + d < ${HD} ? number(k + place[key].k, from + d)${SCALED ? " * place[key].k_scale" : ""} : 0.0f;
    }
}
${FUNCTION} void fill_v(__local float *vt, __global const ${TYPE_KV} *v, __local const struct place *place, int n, int item)
{
    for (int t = item; t < ${KC*DV}; t += ${ITEMS}) {
        const int key = t / ${DV}, d = t % ${DV};
        vt[key * ${DV} + d] = key < n && d < ${HDV} ? number(v + place[key].v, d)${SCALED ? " * place[key].v_scale" : ""} : 0.0f;
    }
}
