/* half.c - see half.h. In integer arithmetic, so that tests do not trust the instructions that they test. */
#include "half.h"

/* Denormals are read as a difference of normal numbers, so that a host that flushes denormals reads them too. */
float f16_to_f32(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t rebias = 112u << 23, smallest = 113u << 23; /* 2^-14 */
    if (magnitude >= 0x7c00u << 13)
        return float_of(sign | 0x7f800000u | magnitude);
    if (magnitude >= 1u << 23)
        return float_of(sign | (magnitude + rebias));
    return float_of(sign | bits_of(float_of(magnitude | smallest) - float_of(smallest)));
}

uint16_t f32_to_f16(float f)
{
    uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffffu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x477ff000u) /* 65520: halfway to the number after the largest one */
        return sign | 0x7c00;
    if (magnitude < 0x38800000u) /* below 2^-14: adding 0.5 moves the bits of 2^-24 to the end of the mantissa */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
    magnitude += 0xfffu + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((magnitude >> 13) - (112u << 10)));
}

float bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
