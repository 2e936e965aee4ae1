/* invariant.c - the rule of the field `invariant`: on one isa, a row's bits follow from its query, the keys and values that it
 * sees and where they stand in their sequence, and from nothing else. What it is not: proof; tests/kernel/test_invariant.c
 * draws pairs of problems that differ in everything else.
 *
 * What makes a row's bits depend on more than that, and what excludes it:
 *
 *  1. Which keys are a tile. Maxima, sums and rescalings go tile by tile. Tiles begin at multiples of tile.k, counted from the
 *     sequence's first key: not where a window, a page, a packed row or a chunk begins (isa portable begins windows at any
 *     fourth key otherwise), and tile.k is fixed here.
 *  2. Which keys are computed alone and joined. A split has a maximum of its own. Those of C begin at multiples of a fixed
 *     number of keys, in kernels of few queries and in all others, and join in their order. Those of sm90 begin where a slice's
 *     first row sees a key; so all keys are one split there.
 *  3. The order in which a product is summed. Every kernel of an isa in C adds the elements of a row of Q and K one after
 *     another, in one chain for each score: micro.rows, micro.vecs and unroll only say how many chains go on at once. On
 *     avx512, and on avx512bf16 over narrow keys that are floats there, a score has four chains, each of every fourth
 *     element, which are added one after another: then four lanes of a vector can be one row's, and kernels of few queries need
 *     not transpose keys. Over int8, q8_0 and q4_0 avx512bf16 adds products of integers, exactly and so in any order, and blocks
 *     in theirs; whether a second word of a query takes part follows from the row and from the key, not from the tile. Where
 *     avx512bf16 multiplies pairs a score has 16, of which fours are added first: a vector of a key then meets one of a row as
 *     both lie. Over keys in blocks of more than 512 columns pairs are four chains for each block (on neonbf16 one), since
 *     a vector then has the same slots of four keys. Kernels that split keys sum across a vector otherwise; invariant ones
 *     of other isas pack keys as kernels of many queries do. On the tensor cores a product is steps of 16 elements, in order,
 *     whose own order is the hardware's, whatever the sides of the tile are; of how many sums it is follows from types and
 *     head_dim.
 *  4. How many shares a row's sum has. In C it is one for each lane of a vector, and tree and width are the isa's. In portable
 *     OpenCL C there would be one for each of group.lanes, and another order in vectors of another width: invariant kernels have
 *     32 shares, of the keys with the same remainder, joined in one order. On the tensor cores a lane has the same columns always.
 *  5. Whether output is rescaled. Lazy kernels ask whether a row of a warp has grown: here each row answers for itself, and a
 *     row that has not is multiplied by 1 when others are. lazy is fixed, since its bits are others.
 *  6. Keys that a row does not see, in tiles that are there for its neighbours: they score -inf, and the tile must change
 *     nothing. exp2(-inf) is 0 and exp2(0) is 1, exactly, and a row whose maximum did not grow is rescaled by exactly 1: where a
 *     maximum is multiplied by the scale inside of a multiply-add the two roundings differ, and there invariant kernels subtract
 *     first. A sum of products that is -0 becomes 0 by another 0: output is added to 0 in C, where numbers that small are kept.
 *  7. Distances of ALiBi beyond 2^24 are rounded: they count from the first key of a tile, not from a panel of it.
 *  8. Contractions of a multiplication and an addition by OpenCL's compilers, which may depend on what stands around: they are
 *     turned off, or a function stands there that is never contracted. In CUDA C++ an option turns them off, --fmad=false.
 *  9. What all rows of a group share. Kernels of isa amx have exponents relative to a bound of all queries of a group and all
 *     keys, and compute a whole group again where one row needs it. Invariant ones have exponents relative to 0, and each row
 *     answers for itself: by its sum, which is too small or too large, and by its largest output. Keys meet rows in blocks of 64
 *     always, whatever tile.k is; it is fixed all the same, since few queries have no use for another. An LSE makes them compute
 *     sums beside, where others compute other probabilities. Up to four rows of queries meet values by vectors, which add in the
 *     order of a product of tiles, and in a mode in which numbers below the normal ones are 0, as they are to tiles.
 * 10. Which isa. It is the first one, in a fixed order, that has kernels for the types, head dims and features, whatever tuning,
 *     packing or a model of speed says (tune/isa.c). Rows that a device's copy engine does not take as they lie must not go to
 *     another isa.
 * 11. What f16 loses of a small probability times the scale of its value, on the tensor cores. That depends on the power of two by
 *     which scales are divided, and that on the largest scale of a tile, which may be of a key that the row does not see: here each
 *     row has a power of its own, by the keys that it sees. Values of f32 have such scales, too, a power of two for each row.
 *     On sm80 narrow keys and values are always widened by all warps together, since warps that do so alone take columns in
 *     another order.
 *
 * 12. Exponentials by the table of isa avx512bf16. Kernels of few queries and all others have it on the same conditions, which
 *     are of the problem. What is too small becomes a number that products read as 0, and so does a key that a row does not
 *     see. A row with a score that is no number becomes NaN, and no other row is computed otherwise for that; nor is a row whose
 *     LSE is asked for.
 *
 * A NaN or an infinity in K or V reaches the rows whose tiles hold it, as always; so the promise is for finite ones. */
#include "invariant.h"

#include <stdio.h>

enum { ANY = 577, SPLIT_C = 2048, SPLIT_SM90 = 1 << 20, ROWS_AMX = 32 };

/* The isas in the order in which plans prefer them. Intel's processors multiply pairs of bf16 at half of the rate of f32, all
 * others at twice that rate; and of those that have pairs, Intel's alone have isa amx. */
static const struct preferred {
    enum isa isa, unless; /* unless the device has that one; ISA_COUNT: always */
} order[] = {
    {ISA_SM90, ISA_COUNT},     {ISA_SM80, ISA_COUNT},       {ISA_PORTABLE, ISA_COUNT}, {ISA_AMX, ISA_COUNT},
    {ISA_AVX512BF16, ISA_AMX}, {ISA_AVX512, ISA_COUNT},     {ISA_AVX2, ISA_COUNT},     {ISA_NEONBF16, ISA_COUNT},
    {ISA_NEON, ISA_COUNT},     {ISA_C, ISA_COUNT},
};

enum isa invariant_isa(int place, enum isa *unless)
{
    const bool is_last = place < 0 || place >= (int)(sizeof order / sizeof *order);
    *unless = is_last ? ISA_COUNT : order[place].unless;
    return is_last ? ISA_COUNT : order[place].isa;
}

/* Rows of an isa, by the wider of a row of K and a row of V. 0 of split: its kernels have none. */
static const struct fixed {
    enum isa isa;
    int widest;
    int32_t tile_k, split, lazy;
    enum { ALL, NARROW, F32 } of; /* for narrow K and V alone, or for f32 */
} rules[] = {
    {ISA_C, ANY, 64, SPLIT_C, 0, ALL},
    {ISA_AVX2, ANY, 128, SPLIT_C, 0, ALL},
    {ISA_AVX512, ANY, 256, SPLIT_C, 0, ALL},
    {ISA_AVX512BF16, ANY, 256, SPLIT_C, 0, ALL},
    {ISA_AMX, ANY, 1024, SPLIT_C, 0, ALL},
    {ISA_NEON, ANY, 64, SPLIT_C, 0, ALL},
    {ISA_NEONBF16, ANY, 64, SPLIT_C, 0, ALL},
    {ISA_PORTABLE, ANY, 64, 0, 0, ALL},
    {ISA_SM90, 64, 128, SPLIT_SM90, 1, NARROW}, /* more keys of wider rows do not fit the registers */
    {ISA_SM90, 128, 64, SPLIT_SM90, 1, NARROW},
    {ISA_SM90, ANY, 32, SPLIT_SM90, 1, NARROW},
    {ISA_SM90, 128, 128, SPLIT_SM90, 1, ALL},
    {ISA_SM90, ANY, 64, SPLIT_SM90, 1, ALL},
    {ISA_SM80, ANY, 32, 0, 1, NARROW},
    {ISA_SM80, 128, 64, 0, 1, ALL},
    {ISA_SM80, ANY, 32, 0, 1, F32}, /* which takes twice the shared memory */
    {ISA_SM80, ANY, 64, 0, 1, ALL},
};

static const struct fixed *rule_of(const struct variant *v)
{
    const int32_t *f = v->field, widest = f[F_HEAD_DIM_V] > f[F_HEAD_DIM] ? f[F_HEAD_DIM_V] : f[F_HEAD_DIM];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if ((int32_t)rules[i].isa == f[F_ISA] && widest <= rules[i].widest &&
            (rules[i].of == ALL || (rules[i].of == NARROW ? variant_is_narrow(v) : f[F_DTYPE] == DTYPE_F32)))
            return &rules[i];
    return NULL;
}

/* Without tiles, where outputs are rounded to bf16 and nothing but keys makes scores and their sums. */
static bool has_table(const struct variant *v)
{
    const int32_t *f = v->field;
    return f[F_ISA] == ISA_AVX512BF16 && f[F_DTYPE] == DTYPE_BF16 && variant_in_pairs(v, ISA_AVX512BF16) &&
           variant_dtype_o(v) == DTYPE_BF16 && !f[F_SINK] && !variant_modifies(v);
}

int32_t invariant_value(const struct variant *v, enum field_id f)
{
    const struct fixed *r = v->field[F_INVARIANT] ? rule_of(v) : NULL;
    if (!r)
        return -1;
    switch (f) {
    case F_TILE_K: return r->tile_k;
    case F_SPLIT: return r->split;
    case F_LAZY: return r->lazy;
    case F_ROWS: return r->isa == ISA_AMX ? ROWS_AMX : -1;
    case F_TABLE: return (r->isa == ISA_AMX && v->field[F_DTYPE] == DTYPE_BF16) || has_table(v);
    case F_WIDENED: return 0;
    default: return -1;
    }
}

void invariant_set(struct variant *v)
{
    for (enum field_id f = F_ISA + 1; f < FIELD_COUNT; f++) {
        const int32_t fixed = invariant_value(v, f);
        if (fixed >= 0 && (f != F_SPLIT || v->field[f]))
            v->field[f] = fixed;
    }
}

bool invariant_is_one_split(const struct variant *v)
{
    return v->field[F_INVARIANT] && v->field[F_ISA] == ISA_SM90 && v->field[F_SPLIT];
}

int invariant_check(const struct variant *v, struct gen_error *err)
{
    for (enum field_id f = F_ISA; f < FIELD_COUNT; f++) {
        const int32_t fixed = invariant_value(v, f), value = v->field[f];
        if (fixed < 0 || value == fixed || (f == F_SPLIT && value == 0))
            continue;
        char name[GEN_NAME_MAX], expected[24];
        variant_encode(v, name);
        snprintf(expected, sizeof expected, fields[f].type == FIELD_BOOL ? "set" : "%d", (int)fixed);
        snprintf(err->text, sizeof err->text, "%s: error: %s must be %s where invariant is set, as it orders sums", name,
                 fields[f].key, fixed ? expected : "left out");
        return -1;
    }
    return 0;
}

int invariant_fits(const struct variant *v, int64_t kv_len, struct gen_error *err)
{
    const int32_t *f = v->field;
    char name[GEN_NAME_MAX];
    if (!invariant_is_one_split(v) || kv_len <= f[F_SPLIT])
        return 0;
    variant_encode(v, name);
    snprintf(err->text, sizeof err->text, "%s: error: it is for %d keys at most, and max_kv_len is %lld; expected split left out",
             name,
             (int)f[F_SPLIT], (long long)kv_len);
    return -1;
}
