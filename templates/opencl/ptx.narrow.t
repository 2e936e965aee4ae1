%# Narrow numbers as the tensor cores multiply them, for every level: four of them become four of f16, exactly.
% if ISA == "sm90" and (NARROW and not RESTS and not FEW or K_TWO)
INLINED uint times(uint x, uint y) /* two products of f16 */
{
    uint z;
    __asm__("mul.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}
% end
%# What a stored number is divided by on its way; whoever multiplies by its scale multiplies by this, too. E4M3's exponents count from 7,
%# and those of f16 from 15: before compute capability 8.9, whose instruction that is, its bits are only put in their places.
% let NARROW_BY = DTYPE_KV == "fp8" and ISA == "sm80" ? 256 : 1
%# Where copy is any, ptx.sm80.t has it among other widths.
% if SCALED and COPY != "any" and not WIDENED
/* A copy of 4 bytes to shared memory that goes on by itself; zeros beyond the first so many bytes */
INLINED void copy4_async(uint to, __global const void *from, int bytes)
{
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
% end
% if K_TWO
INLINED uint left_of_products(uint x, uint y, uint z) /* what two numbers of f16 lack of two products, as f16 */
{
    uint w;
    __asm__("{.reg .b32 a; neg.f16x2 a, %3; fma.rn.f16x2 %0, %1, %2, a;}" : "=r"(w) : "r"(x), "r"(y), "r"(z));
    return w;
}
INLINED int add_squares_of_bytes(int sum, uint four) /* of four bytes with signs */
{
    int y;
    __asm__("dp4a.s32.s32 %0, %1, %1, %2;" : "=r"(y) : "r"(four), "r"(sum));
    return y;
}
% end
/* Four narrow numbers as four of f16, ${NARROW_BY > 1 ? "each divided by 256, which is exact" : "exactly"}. */
% if DTYPE_KV != "fp8"
INLINED void widened_bytes(uint *y, uint four, const uint low, const uint high) /* which bytes: 1024 and the number and 128, less both */
{
    __asm__("{.reg .b32 a, b, c, d; xor.b32 a, %2, 0x80808080; mov.b32 b, 0x64806480; prmt.b32 c, a, 0x64646464, %3;"
        "prmt.b32 d, a, 0x64646464, %4; sub.rn.f16x2 %0, c, b; sub.rn.f16x2 %1, d, b;}"
        : "=&r"(y[0]), "=r"(y[1]) : "r"(four), "r"(low), "r"(high));
}
INLINED void widened(uint *y, uint four)
{
    widened_bytes(y, four, 0x4140, 0x4342);
}
% elif NARROW_BY == 1
INLINED void widened(uint *y, uint four)
{
    __asm__("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b;}"
        : "=&r"(y[0]), "=r"(y[1]) : "r"(four));
}
% else
INLINED uint spread(uint four, const uint which) /* the bytes whose numbers are the last four digits, where 4 is a zero */
{
    uint y;
    __asm__("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(four), "r"(which));
    return y;
}
/* The upper bytes of two halves. Of all sizes only a NaN's, which are all ones, becomes 2**14 with one more in its last place; it
 * stays one. */
INLINED uint widened_upper(uint two)
{
    const uint size = two >> 1 & 0x3f803f80, more = size + 0x00800080;
    return size | (more & 0x40004000) | (two & 0x80008000);
}
INLINED void widened(uint *y, uint four)
{
    y[0] = widened_upper(spread(four, 0x1404)), y[1] = widened_upper(spread(four, 0x3424));
}
% end
% if ISA == "sm80" or FEW
% if RAW
/* Of a block, two bytes and two bytes: the numbers of the first of each, and those of the second, as f16, exactly.${DTYPE_KV == "q4_0" ? " Behind those of the lower" : ""}
% if DTYPE_KV == "q4_0"
 * halves of bytes come those of the upper halves, in the same order. 1024 and the number and 8, less both; or 16 times the number and 8, over 16. */
INLINED void open_bytes(uint *y, ushort low, ushort high)
{
    __asm__("{.reg .b32 a, b, c, d, e; prmt.b32 a, %4, %5, 0x6420; prmt.b32 b, %4, %5, 0x6521; lop3.b32 c, a, 0x000f000f, 0x64006400, 0xea;"
        "lop3.b32 d, b, 0x000f000f, 0x64006400, 0xea; lop3.b32 a, a, 0x00f000f0, 0x64006400, 0xea; lop3.b32 b, b, 0x00f000f0, 0x64006400, 0xea;"
        "mov.b32 e, 0x64086408; sub.rn.f16x2 %0, c, e; sub.rn.f16x2 %1, d, e; mov.b32 c, 0x2c002c00; mov.b32 d, 0xd480d480;"
        "fma.rn.f16x2 %2, a, c, d; fma.rn.f16x2 %3, b, c, d;}"
        : "=&r"(y[0]), "=&r"(y[1]), "=&r"(y[2]), "=r"(y[3]) : "r"((uint)low), "r"((uint)high));
}
% else
 * 1024 and the number and 128, less both. */
INLINED void open_bytes(uint *y, ushort low, ushort high)
{
    __asm__("{.reg .b32 a, b, c; prmt.b32 a, %2, %3, 0x6420; prmt.b32 b, %2, %3, 0x6521; mov.b32 c, 0x64806480; xor.b32 a, a, c; xor.b32 b, b, c;"
        "sub.rn.f16x2 %0, a, c; sub.rn.f16x2 %1, b, c;}" : "=&r"(y[0]), "=r"(y[1]) : "r"((uint)low), "r"((uint)high));
}
% end
% elif NARROW_BY > 1
INLINED void widened_apart(uint *y, uint four) /* the first and the third of them; and the other two */
{
    y[0] = widened_upper(four << 8), y[1] = widened_upper(four);
}
% elif DTYPE_KV == "fp8"
INLINED void widened_apart(uint *y, uint four) /* the first and the third of them; and the other two */
{
    uint x;
    __asm__("prmt.b32 %0, %1, %1, 0x3120;" : "=r"(x) : "r"(four));
    widened(y, x);
}
% else
INLINED void widened_apart(uint *y, uint four) /* the first and the third of them; and the other two */
{
    widened_bytes(y, four, 0x4240, 0x4341);
}
% end
% end
% if WIDENED
INLINED void wide_floats(float *y, uint two) /* of two numbers of f16 */
{
    __asm__("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(y[0]), "=f"(y[1]) : "r"(two));
}
% if BOUNDED
INLINED float root(float x)
{
    float y;
    __asm__("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINED float add_squares(float sum, uint two) /* of two numbers of ${T_SCORES} */
{
% if T_SCORES == "bf16"
    const float y[2] = {as_float((int)(two << 16)), as_float((int)(two & 0xffff0000u))};
% else
    float y[2];
    wide_floats(y, two);
% end
    return fma(y[0], y[0], fma(y[1], y[1], sum));
}
% if SCALED
/* Of eight numbers of ${DTYPE}, of the even and of the odd ones, the sum of their squares${DTYPE == "bf16" ? "" : " over 256"}, or what was the most before. */
INLINED uint larger_squares(uint most, const uint *y)
{
    uint z;
% if DTYPE == "bf16"
    __asm__("{.reg .b32 a; mul.rn.bf16x2 a, %2, %2; fma.rn.bf16x2 a, %3, %3, a; fma.rn.bf16x2 a, %4, %4, a; fma.rn.bf16x2 a, %5, %5, a;"
        "max.bf16x2 %0, %1, a;}" : "=r"(z) : "r"(most), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
% else
    __asm__("{.reg .b32 a, b; mul.rn.f16x2 b, %2, %6; mul.rn.f16x2 a, b, b; mul.rn.f16x2 b, %3, %6; fma.rn.f16x2 a, b, b, a; mul.rn.f16x2 b, %4, %6;"
        "fma.rn.f16x2 a, b, b, a; mul.rn.f16x2 b, %5, %6; fma.rn.f16x2 a, b, b, a; max.f16x2 %0, %1, a;}"
        : "=r"(z) : "r"(most), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(0x2c002c00));
% end
    return z;
}
% end
% end
% if T_SCORES == "bf16"
/* Four narrow numbers as four of bf16, exactly. */
% if DTYPE_KV != "fp8"
/* The last seven bits of a number and 128, less 128 or, if the number is negative, 256. */
INLINED void widened_keys(uint *y, uint four)
{
    __asm__("{.reg .b32 a, b, c, d; prmt.b32 a, %2, 0x43434343, 0x4140; prmt.b32 b, %2, 0x43434343, 0x4342; and.b32 c, a, 0xff80ff80; and.b32 d, b, 0xff80ff80;"
        "and.b32 a, a, 0xff7fff7f; and.b32 b, b, 0xff7fff7f; sub.rn.bf16x2 %0, a, c; sub.rn.bf16x2 %1, b, d;}" : "=&r"(y[0]), "=r"(y[1]) : "r"(four));
}
% else
INLINED void widened_keys(uint *y, uint four)
{
    uint two[2];
    float x[4];
    widened(two, four);
    wide_floats(x, two[0]), wide_floats(x + 2, two[1]);
    __asm__("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(y[0]) : "r"(as_uint(x[0])), "r"(as_uint(x[1])));
    __asm__("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(y[1]) : "r"(as_uint(x[2])), "r"(as_uint(x[3])));
}
% end
% end
% end
