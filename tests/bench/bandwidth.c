/* bandwidth.c - see bandwidth.h. A round has eight loads, whose results are combined so that none can be left out. */
#include "bandwidth.h"

#include <stdint.h>

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static uint64_t read_avx512(const char *at, const char *end)
{
    __m512i x[8];
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_setzero_si512();
    for (; at < end; at += 512)
        for (int i = 0; i < 8; i++)
            x[i] = _mm512_or_si512(x[i], _mm512_load_si512(at + 64 * i));
    for (int i = 1; i < 8; i++)
        x[0] = _mm512_or_si512(x[0], x[i]);
    return (uint64_t)_mm512_reduce_or_epi64(x[0]);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const char *at, const char *end)
{
    __m256i x[8];
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_setzero_si256();
    for (; at < end; at += 256)
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_or_si256(x[i], _mm256_load_si256((const __m256i *)(at + 32 * i)));
    for (int i = 1; i < 8; i++)
        x[0] = _mm256_or_si256(x[0], x[i]);
    return (uint64_t)_mm256_extract_epi64(x[0], 0) | (uint64_t)_mm256_extract_epi64(x[0], 1) |
           (uint64_t)_mm256_extract_epi64(x[0], 2) | (uint64_t)_mm256_extract_epi64(x[0], 3);
}
#endif

static uint64_t read_words(const uint64_t *at, const uint64_t *end)
{
    uint64_t x[8] = {0};
    for (; at < end; at += 8)
        for (int i = 0; i < 8; i++)
            x[i] |= at[i];
    for (int i = 1; i < 8; i++)
        x[0] |= x[i];
    return x[0];
}

void read_memory(enum isa isa, const void *from, size_t bytes)
{
    const char *end = (const char *)from + bytes;
    volatile uint64_t seen = 0;
#ifdef __x86_64__
    if (isa == ISA_AVX512)
        seen = read_avx512(from, end);
    else if (isa == ISA_AVX2)
        seen = read_avx2(from, end);
#endif
    if (isa != ISA_AVX512 && isa != ISA_AVX2)
        seen = read_words(from, (const uint64_t *)end);
    (void)seen;
}
