%# What features do to scores, as functions of vectors of them.
% let LANES = VW == 1 ? "0.0f" : VW == 2 ? "(0, 1)" : VW == 4 ? "(0, 1, 2, 3)" : VW == 8 ? "(0, 1, 2, 3, 4, 5, 6, 7)" : "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)"
% if SOFTCAP

/* tanh x = e / (e + 2), where e = exp(2|x|) - 1 = 2**y - 1. With y = n + r that is 2**n * (2**r - 1) + (2**n - 1), a sum
 * without cancellation. 2**r - 1 is r times a polynomial (relative error 1.1e-8), so that tanh x is close to x near 0. NaN
 * stays NaN. */
${FUNCTION} ${VEC} tanh_v(${VEC} x)
{
    const ${INT} sign = as_${INT}(x) & (int)0x80000000;
    const ${VEC} y = as_${VEC}(as_${INT}(x) ^ sign) * 2.88539008f; /* on the bits, since fabs and copysign are slow in PoCL */
    const ${VEC} far = ${IF}y > 30.0f${THEN}(${VEC})(30.0f)${ELSE}y${END_IF};            /* beyond this tanh is 1 */
    const ${VEC} n = floor(far + 0.5f), r = far - n;
    const ${VEC} two_n = as_${VEC}((convert_int${SUFFIX}(n) + 127) << 23);
    ${VEC} p = fma((${VEC})(0.000154035124f), r, (${VEC})(0.00133907355f));
    p = fma(p, r, (${VEC})(0.00961823749f)), p = fma(p, r, (${VEC})(0.0555035743f));
    p = fma(p, r, (${VEC})(0.240226498f)), p = fma(p, r, (${VEC})(0.693147188f));
    const ${VEC} e = fma(p * r, two_n, two_n - 1.0f);
    return as_${VEC}(as_${INT}(e / (e + 2.0f)) ^ sign);
}
% end
% if BIAS != "none"

/* The biases of n keys, `stride` elements apart, as f32; nothing is read beyond n. wide: they are ${VW} side by
 * side${VW == 2 or VW == 4 ? ", aligned as one vector" : ""}. */
% let WAY = type_widening(BIAS)
% assert WAY == "none" or WAY == "half" or WAY == "upper", "a bias is widened from f32, f16 and bf16 alone; bias must be one of them"
${FUNCTION} float bias_1(__global const ${TYPE_BIAS} *from, long at)
{
% if WAY == "none"
    return from[at];
% elif WAY == "half"
    return vload_half(at, (__global const half *)from);
% elif WAY == "upper"
    return as_float((uint)from[at] << 16);
% end
}
${FUNCTION} ${VEC} bias_v(__global const ${TYPE_BIAS} *from, long stride, int n, const int wide)
{
% if VW == 1
    return n > 0 ? bias_1(from, 0) : 0.0f;
% else
    float f[${VW}];
    if (wide)
% if WAY == "none" and VW <= 4
        return *(__global const ${VEC} *)from;
% elif WAY == "none"
        return vload${VW}(0, from);
% elif WAY == "half"
        return ${VW <= 4 ? "vloada" : "vload"}_half${VW}(0, (__global const half *)from);
% elif WAY == "upper" and VW <= 4
        return as_${VEC}(convert_uint${VW}(*(__global const ushort${VW} *)from) << 16);
% elif WAY == "upper"
        return as_${VEC}(convert_uint${VW}(vload${VW}(0, from)) << 16);
% end
    for (int i = 0; i < ${VW}; i++)
        f[i] = i < n ? bias_1(from, i * stride) : 0.0f;
    return vload${VW}(0, f);
% end
}

/* The ${MR} by ${NV} vectors of scores += the biases from row[r] on. */
${FUNCTION} void add_biases(${VEC} *s, __global const ${TYPE_BIAS} *const *row, long stride, int n, const int wide)
{
% for r in 0..MR
% for c in 0..NV
    s[${r*NV + c}] += bias_v(row[${r}] + ${c*STEP} * stride, stride, n - ${c*STEP}, wide);
% end
% end
}
% end
% if MASK

/* e where the mask is not 0, else -inf. The masks of n keys are `stride` bytes apart; nothing is read beyond n. */
${FUNCTION} ${VEC} kept(${VEC} e, __global const uchar *mask, long stride, int n, const int wide)
{
% if VW == 1
    return n > 0 && mask[0] ? e : -INFINITY;
% else
    int m[${VW}];
    if (wide)
% if VW <= 4
        return ${IF}convert_int${VW}(*(__global const uchar${VW} *)mask) != 0${THEN}e${ELSE}(${VEC})(-INFINITY)${END_IF};
% else
        return ${IF}convert_int${VW}(vload${VW}(0, mask)) != 0${THEN}e${ELSE}(${VEC})(-INFINITY)${END_IF};
% end
    for (int i = 0; i < ${VW}; i++)
        m[i] = i < n ? mask[i * stride] : 0;
    return ${IF}vload${VW}(0, m) != 0${THEN}e${ELSE}(${VEC})(-INFINITY)${END_IF};
% end
}

/* Of the ${MR} by ${NV} vectors of scores keeps those whose masks, from row[r] on, are not 0. */
${FUNCTION} void keep(${VEC} *s, __global const uchar *const *row, long stride, int n, const int wide)
{
% for r in 0..MR
% for c in 0..NV
    s[${r*NV + c}] = kept(s[${r*NV + c}], row[${r}] + ${c*STEP} * stride, stride, n - ${c*STEP}, wide);
% end
% end
}
% end
% if WINDOW

/* e where its position is at least `from` and below n, else -inf. */
${FUNCTION} ${VEC} between(${VEC} e, int from, int n)
{
% if VW == 1
    return from <= 0 && n > 0 ? e : -INFINITY;
% else
    const ${INT} at = convert_int${VW}(${VECTOR}${LANES});
    return ${IF}at >= from && at < n${THEN}e${ELSE}(${VEC})(-INFINITY)${END_IF};
% end
}
% end
