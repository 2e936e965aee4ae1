%# Storage types, and the vector functions of the tile loop.
/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
% for kv in 0..(DTYPE_KV == DTYPE or NARROW_KV ? 1 : 2)
% let WAY = kv ? WIDENING_KV : WIDENING
% assert WAY == "none" or WAY == "half" or WAY == "upper", "a product of isa portable widens f32, f16 and bf16 alone; dtype must be one of them"
${FUNCTION} float4 get4${kv ? "_kv" : ""}(__global const ${kv ? TYPE_KV : TYPE} *from, int n, const int wide)
{
% if WAY == "none"
    if (wide && n >= 4)
        return *(__global const float4 *)from;
    return n >= 4 ? vload4(0, from) : ${FLOAT4}(n > 0 ? from[0] : 0.0f, n > 1 ? from[1] : 0.0f, n > 2 ? from[2] : 0.0f, 0.0f);
% elif WAY == "half"
    if (wide && n >= 4)
        return vloada_half4(0, (__global const half *)from);
    return n >= 4 ? vload_half4(0, (__global const half *)from) : ${FLOAT4}(n > 0 ? vload_half(0, (__global const half *)from) : 0.0f,
        n > 1 ? vload_half(1, (__global const half *)from) : 0.0f, n > 2 ? vload_half(2, (__global const half *)from) : 0.0f, 0.0f);
% elif WAY == "upper"
    if (wide && n >= 4)
        return as_float4(convert_uint4(*(__global const ushort4 *)from) << 16);
    return as_float4((n >= 4 ? convert_uint4(vload4(0, from)) : ${UINT4}(n > 0 ? from[0] : 0, n > 1 ? from[1] : 0, n > 2 ? from[2] : 0, 0)) << 16);
% end
}
% end
% if NARROW_KV

% include "opencl/narrow.t"
% elif OP == "attn"
% if DV % 4 != 0
${FUNCTION} void put4(float4 f, __local float *to, int n)
{
    to[0] = f.x;
    if (n > 1) to[1] = f.y;
    if (n > 2) to[2] = f.z;
    if (n > 3) to[3] = f.w;
}
% end

/* The columns of n keys from `from` on, transposed to [${DC}][${BK}]; and n values, as [${KC}][${DV}]. Both have zeros
 * beyond. */
${FUNCTION} void fill_k(__local float *kt, __global const ${TYPE_KV} *k, ${PAGED ? "__local const long2 *place" : "long ld"}, int n, int from, int item, const int wide)
{
    for (int t = item; t < ${BK*DC/4}; t += ${ITEMS}) {
        const int key = t % ${BK}, d = t / ${BK} * 4;
        const float4 f = key < n ? ${GET_KV}(k + ${PAGED ? "place[key].x" : "key * ld"} + d, ${HD} - from - d, wide) : (float4)(0.0f);
        kt[d * ${BK} + key] = f.x, kt[(d + 1) * ${BK} + key] = f.y;
        kt[(d + 2) * ${BK} + key] = f.z, kt[(d + 3) * ${BK} + key] = f.w;
    }
}
${FUNCTION} void fill_v(__local float *vt, __global const ${TYPE_KV} *v, ${PAGED ? "__local const long2 *place" : "long ld"}, int n, int item, const int wide)
{
    for (int t = item; t < ${KC*ceil_div(DV, 4)}; t += ${ITEMS}) {
        const int key = t / ${ceil_div(DV, 4)}, d = t % ${ceil_div(DV, 4)} * 4;
        const float4 f = key < n ? ${GET_KV}(v + ${PAGED ? "place[key].y" : "key * ld"} + d, ${HDV} - d, wide) : (float4)(0.0f);
% if DV % 4 == 0
        *(__local float4 *)(vt + key * ${DV} + d) = f;
% else
        put4(f, vt + key * ${DV} + d, ${DV} - d);
% end
    }
}
% end
% if OP == "attn" or BQ > 0 and VW > 1
${FUNCTION} ${VEC} load(__local const float *from) /* it is aligned: columns are counted in whole vectors */
{
    return *(__local const ${VEC} *)from;
}
% end
% if OP == "attn"
${FUNCTION} void store(${VEC} e, __local float *to)
{
    *(__local ${VEC} *)to = e;
}
% end

/* The first n elements of e, rounded to the storage type. */
% if ROUNDING == "upper"
${FUNCTION} ushort round1(float f)
{
    const uint u = as_uint(f); /* to nearest, ties to even; a NaN stays one */
    return (ushort)(isnan(f) ? u >> 16 | 64 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
% end
${FUNCTION} void put(${VEC} e, __global ${TYPE_O} *to, int n)
{
    float f[${VW}];
% if ROUNDING == "none" and VW > 1
    if (n >= ${VW}) {
        vstore${SUFFIX}(e, 0, to);
        return;
    }
% end
% if VW == 1
    f[0] = e;
% else
    vstore${SUFFIX}(e, 0, f);
% end
    for (int i = 0; i < ${VW} && i < n; i++)
% if ROUNDING == "none"
        to[i] = f[i];
% elif ROUNDING == "half"
        vstore_half_rte(f[i], i, (__global half *)to);
% elif ROUNDING == "upper"
        to[i] = round1(f[i]);
% end
}
% if OP != "matmul"

% if EXP == "exp"
/* e**x = 2**y, with y = x log2(e): 2**(y - floor(y)) by a polynomial (relative error 8.2e-8, exact at 0), times 2**floor(y),
 * which is made from its bits. Where y is below -126 the result is 0, and so it is for -inf; NaN stays NaN. */
% else
/* 2**x: 2**(x - floor(x)) by a polynomial (relative error 8.2e-8, exact at 0), times 2**floor(x), which is made from its
 * bits. Below -126 the result is 0, and so it is for -inf; NaN stays NaN. */
% end
% for k in 0..(VW == 1 ? 1 : 2)
${FUNCTION} ${k ? VEC : "float"} ${EXP}_${k ? "v" : "1"}(${k ? VEC : "float"} x)
{
% if EXP == "exp"
    x *= 1.44269504f;
% end
    x = ${IF}x < -127.0f${THEN}(${k ? VEC : "float"})(-127.0f)${ELSE}x${END_IF};
    const ${k ? VEC : "float"} f = floor(x), r = x - f;
    ${k ? VEC : "float"} y = fma((${k ? VEC : "float"})(0.001867130636f), r, (${k ? VEC : "float"})(0.009017028745f));
    y = fma(y, r, (${k ? VEC : "float"})(0.05579991466f)), y = fma(y, r, (${k ? VEC : "float"})(0.2401644495f));
    y = fma(y, r, (${k ? VEC : "float"})(0.6931513119f)), y = fma(y, r, (${k ? VEC : "float"})(1.0f));
    return y * as_float${k ? SUFFIX : ""}((convert_int${k ? SUFFIX : ""}(f) + 127) << 23);
}
% end
% if VW == 1
#define ${EXP}_v ${EXP}_1
% end

/* Reductions across the elements of a vector, half by half. */
${FUNCTION} float highest(${VEC} e)
{
% if VW >= 16
    const float8 e8 = max(e${LO}, e${HI});
% end
% if VW >= 8
    const float4 e4 = max(${VW == 8 ? "e" : "e8"}${LO}, ${VW == 8 ? "e" : "e8"}${HI});
% end
% if VW >= 4
    const float2 e2 = max(${VW == 4 ? "e" : "e4"}${LO}, ${VW == 4 ? "e" : "e4"}${HI});
% end
    return ${VW == 1 ? "e" : VW == 2 ? "max(e.x, e.y)" : "max(e2.x, e2.y)"};
}
% if not (defined(INVARIANT) ? INVARIANT : 0)
${FUNCTION} float total(${VEC} e)
{
% if VW >= 16
    const float8 e8 = e${LO} + e${HI};
% end
% if VW >= 8
    const float4 e4 = ${VW == 8 ? "e" : "e8"}${LO} + ${VW == 8 ? "e" : "e8"}${HI};
% end
% if VW >= 4
    const float2 e2 = ${VW == 4 ? "e" : "e4"}${LO} + ${VW == 4 ? "e" : "e4"}${HI};
% end
    return ${VW == 1 ? "e" : VW == 2 ? "e.x + e.y" : "e2.x + e2.y"};
}
% end
% if not WINDOW and (OP == "attn" or VW > 1)

/* e where its position is below n, else -inf. */
${FUNCTION} ${VEC} masked(${VEC} e, int n)
{
% if VW == 1
    return n > 0 ? e : -INFINITY;
% else
    const ${INT} at = ${INTS}(0${VW > 1 ? ", 1" : ""}${VW > 2 ? ", 2, 3" : ""}${VW > 4 ? ", 4, 5, 6, 7" : ""}${VW > 8 ? ", 8, 9, 10, 11, 12, 13, 14, 15" : ""});
    return ${IF}at < n${THEN}e${ELSE}(${VEC})(-INFINITY)${END_IF};
% end
}
% end
% end
