/* A vector of eight lanes is made of pieces as wide as the target's registers. EACH(...) does something for every
 * piece l. Results do not depend on that width. They do depend on whether the target has fma: with it a product and a sum
 * may be rounded once, without it each is rounded. */
#if defined(__AVX__)
#define LANES 8
#define ALL(e) {e, e, e, e, e, e, e, e}
#define EACH(...) { enum { l = 0 }; __VA_ARGS__; }
#define OF(i) ((i) < 4 ? (i) : (i) + 4)
#define INSIDE(x, y, a, b, c, d) SHUFFLE(x, y, OF(a), OF(b), OF(c), OF(d), OF(a) + 4, OF(b) + 4, OF(c) + 4, OF(d) + 4)
#define FOURS(x, p, y, q) SHUFFLE(AT(x, 0), AT(y, 0), \
    4 * (p), 4 * (p) + 1, 4 * (p) + 2, 4 * (p) + 3, 4 * (q) + 8, 4 * (q) + 9, 4 * (q) + 10, 4 * (q) + 11)
#else
#define LANES 4
#define ALL(e) {e, e, e, e}
#define EACH(...) { enum { l = 0 }; __VA_ARGS__; } { enum { l = 1 }; __VA_ARGS__; }
#define INSIDE(x, y, a, b, c, d) SHUFFLE(x, y, a, b, c, d)
#define FOURS(x, p, y, q) (l == 0 ? AT(x, p) : AT(y, q))
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(x, y, ...) __builtin_shuffle(x, y, __extension__ (ivec_piece){__VA_ARGS__})
#endif
#define VEC(e) (__extension__ (vec_piece)ALL(e))
#define IVEC(e) (__extension__ (ivec_piece)ALL(e))
#define PICK(k, x, y) (vec_piece)(((ivec_piece)(x) & (k)) | ((ivec_piece)(y) & ~(k)))
#define AT(x, i) (x).at[i]
#define GET(type, m) (*(const type *)(const void *)((m) + l * LANES))
#define PUT(type, m) (*(type *)(void *)((m) + l * LANES))
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PAIRS(m) (uvec_piece)GET(ivec_u, (m) + l * LANES)
#define WORDS(m) (ivec_piece)(PAIRS(m) >> 16 | PAIRS(m) << 16)
#else
#define WORDS(m) GET(ivec_u, (m) + l * LANES)
#endif
#define OP static inline __attribute__((always_inline))
#if !defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define KERNEL static __attribute__((optimize("fp-contract=fast"))) /* -std=c11 alone has no fma */
#else
#define KERNEL static
#endif
