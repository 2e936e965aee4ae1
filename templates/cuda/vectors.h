#ifndef ATTN_CUDA_VECTORS_DEFINED
#define ATTN_CUDA_VECTORS_DEFINED
/* OpenCL C's vectors: operators go by elements, and comparisons give vectors of numbers that are 0 or not. */
template <class T, int N> struct attn_elements {
    T e[N];
};
template <class T> struct attn_elements<T, 2> {
    union {
        T e[2];
        struct {
            T x, y;
        };
    };
};
template <class T> struct attn_elements<T, 4> {
    union {
        T e[4];
        struct {
            T x, y, z, w;
        };
        struct {
            T s0, s1, s2, s3;
        };
    };
};
template <class T, int N> struct alignas(N * sizeof(T)) attn_vector : attn_elements<T, N> {
    attn_vector() = default;
    __device__ attn_vector(T all)
    {
        for (int i = 0; i < N; i++)
            this->e[i] = all;
    }
    template <class... Rest> __device__ attn_vector(T first, T second, Rest... rest)
    {
        const T all[] = {first, second, (T)rest...};
        static_assert(sizeof all == N * sizeof(T), "as many elements as the vector has");
        for (int i = 0; i < N; i++)
            this->e[i] = all[i];
    }
    __device__ attn_vector<T, N / 2> lo() const
    {
        attn_vector<T, N / 2> y;
        for (int i = 0; i < N / 2; i++)
            y.e[i] = this->e[i];
        return y;
    }
    __device__ attn_vector<T, N / 2> hi() const
    {
        attn_vector<T, N / 2> y;
        for (int i = 0; i < N / 2; i++)
            y.e[i] = this->e[N / 2 + i];
        return y;
    }
};
template <class T> struct attn_same {
    typedef T type;
};
#define ATTN_OPERATOR(sign, result)                                                                                    \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(attn_vector<T, N> a, attn_vector<T, N> b)  \
    {                                                                                                                  \
        attn_vector<result, N> y;                                                                                      \
        for (int i = 0; i < N; i++)                                                                                    \
            y.e[i] = a.e[i] sign b.e[i];                                                                               \
        return y;                                                                                                      \
    }                                                                                                                  \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(attn_vector<T, N> a,                       \
        typename attn_same<T>::type b)                                                                                 \
    {                                                                                                                  \
        return a sign attn_vector<T, N>(b);                                                                            \
    }                                                                                                                  \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(typename attn_same<T>::type a,             \
        attn_vector<T, N> b)                                                                                           \
    {                                                                                                                  \
        return attn_vector<T, N>(a) sign b;                                                                            \
    }
ATTN_OPERATOR(+, T)
ATTN_OPERATOR(-, T)
ATTN_OPERATOR(*, T)
ATTN_OPERATOR(/, T)
ATTN_OPERATOR(&, T)
ATTN_OPERATOR(|, T)
ATTN_OPERATOR(^, T)
ATTN_OPERATOR(<<, T)
ATTN_OPERATOR(<, int)
ATTN_OPERATOR(>, int)
ATTN_OPERATOR(>=, int)
ATTN_OPERATOR(!=, int)
ATTN_OPERATOR(&&, int)
#undef ATTN_OPERATOR
#define ATTN_ASSIGNMENT(sign)                                                                                          \
    template <class T, int N, class B>                                                                                 \
    static __device__ __forceinline__ attn_vector<T, N> &operator sign##=(attn_vector<T, N> &a, B b)                  \
    {                                                                                                                  \
        return a = a sign b;                                                                                           \
    }
ATTN_ASSIGNMENT(+)
ATTN_ASSIGNMENT(-)
ATTN_ASSIGNMENT(*)
#undef ATTN_ASSIGNMENT
/* Functions of vectors, by elements, of those that CUDA has for one. */
template <int N>
static __device__ __forceinline__ attn_vector<float, N> fma(attn_vector<float, N> a, attn_vector<float, N> b,
    attn_vector<float, N> c)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fma(a.e[i], b.e[i], c.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> max(attn_vector<float, N> a, attn_vector<float, N> b)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fmaxf(a.e[i], b.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> floor(attn_vector<float, N> a)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = floorf(a.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> fabs(attn_vector<float, N> a)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fabsf(a.e[i]);
    return y;
}
/* x where the condition holds, else y. */
template <class T> static __device__ __forceinline__ T attn_choose(bool condition, T x, T y)
{
    return condition ? x : y;
}
template <class T, int N>
static __device__ __forceinline__ attn_vector<T, N> attn_choose(attn_vector<int, N> condition, attn_vector<T, N> x,
    attn_vector<T, N> y)
{
    for (int i = 0; i < N; i++)
        y.e[i] = condition.e[i] ? x.e[i] : y.e[i];
    return y;
}
/* Elements converted to another type, or their bits taken for one. */
template <class To> struct attn_to {
    template <class T> static __device__ __forceinline__ To convert(T x)
    {
        return (To)x;
    }
    template <class T> static __device__ __forceinline__ To bits(T x)
    {
        union {
            T from;
            To to;
        } u;
        u.from = x;
        return u.to;
    }
    template <class T, int N> static __device__ __forceinline__ attn_vector<To, N> convert(attn_vector<T, N> x)
    {
        attn_vector<To, N> y;
        for (int i = 0; i < N; i++)
            y.e[i] = (To)x.e[i];
        return y;
    }
    template <class T, int N> static __device__ __forceinline__ attn_vector<To, N> bits(attn_vector<T, N> x)
    {
        attn_vector<To, N> y;
        for (int i = 0; i < N; i++)
            y.e[i] = bits(x.e[i]);
        return y;
    }
};
/* The vector of number `at` from there on, wherever it lies; elements that are f16, as f32. */
template <int N, class T> static __device__ __forceinline__ attn_vector<T, N> attn_load(long at, const T *from)
{
    attn_vector<T, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = from[N * at + i];
    return y;
}
template <int N, class T> static __device__ __forceinline__ void attn_store(attn_vector<T, N> x, long at, T *to)
{
    for (int i = 0; i < N; i++)
        to[N * at + i] = x.e[i];
}
static __device__ __forceinline__ __attribute__((unused)) float attn_load_half(long at, const unsigned short *from)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(from[at]));
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> attn_load_halves(long at, const unsigned short *from)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = attn_load_half(N * at + i, from);
    return y;
}
static __device__ __forceinline__ __attribute__((unused)) void attn_store_half(float x, long at, unsigned short *to)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[at]) : "f"(x));
}
#endif
