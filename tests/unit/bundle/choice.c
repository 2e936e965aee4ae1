/* choice.c - a bundle's own code, with kernels that only say their name, asked what it chooses. test_bundle.c makes b.c and b.h
 * and compiles this beside them; exits 1 after the first line that is not as expected. What it is not: a run of a kernel. */
#define ATTN_DECLARATIONS /* of the kernels alone */
#include "b.c"

#include <stdio.h>

#define KERNEL(name)                                                                                                   \
    int name(const struct attn_args *a)                                                                                \
    {                                                                                                                  \
        (void)a;                                                                                                       \
        return puts(#name) < 0;                                                                                        \
    }                                                                                                                  \
    int64_t name##_workspace(const struct attn_args *a)                                                                \
    {                                                                                                                  \
        return a->part == -1 ? 0 : (int64_t)sizeof #name;                                                              \
    }
KERNEL(b_f32_d64_c)
KERNEL(b_f32_d64_avx2)
KERNEL(b_f32_d64_avx512)
KERNEL(b_f32_d64_avx512_few)
KERNEL(b_bf16_d128_causal_avx512)
KERNEL(b_bf16_d128_causal_avx512bf16)
KERNEL(b_bf16_d128_causal_amx)
KERNEL(b_f32_kvf16_d64v32_window_avx2)
KERNEL(b_f32_d80_c)
KERNEL(b_f32_d80_c_few)

enum {
    AVX2 = B_HAS_avx2 | B_HAS_fma | B_HAS_f16c,
    AVX512 = AVX2 | B_HAS_avx512f | B_HAS_avx512dq | B_HAS_avx512bw | B_HAS_avx512vl,
    BF16 = AVX512 | B_HAS_avx512vbmi | B_HAS_avx512vnni | B_HAS_avx512bf16,
    AMX = BF16 | B_HAS_amxtile | B_HAS_amxbf16 | B_HAS_amxint8
};

const char *b_bf16_d128_causal_amx_prepare(void)
{
    return "no tiles";
}

static int wrong(const char *what, int number, const char *found)
{
    printf("%s %d: %s\n", what, number, found);
    return 1;
}

/* By problem, queries and processor. */
static int check_best(void)
{
    static const struct b_problem plain = {.head_dim = 64}, causal = {.dtype = B_BF16, .head_dim = 128, .causal = 7};
    static const struct b_problem mixed = {.dtype_kv = B_F16, .dtype_o = B_F32, .head_dim = 64, .head_dim_v = 32,
                                           .window = 1};
    static const struct b_problem same = {.dtype = B_F32, .dtype_kv = B_F32, .head_dim = 64, .head_dim_v = 64};
    static const struct b_problem only_c = {.head_dim = 80}, other_dim = {.head_dim = 63};
    static const struct b_problem other_type = {.dtype = B_F16, .head_dim = 64}, none = {0};
    static const struct {
        const struct b_problem *problem;
        int queries, usable;
        const char *symbol; /* NULL: none */
    } all[] = {
        {&plain, 0, 0, "b_f32_d64_c"},
        {&plain, 1, 0, "b_f32_d64_c"},
        {&plain, 0, AVX2 & ~B_HAS_fma, "b_f32_d64_c"},
        {&plain, 0, AVX2, "b_f32_d64_avx2"},
        {&plain, 1, AVX2, "b_f32_d64_avx2"}, /* vectors before a number of queries */
        {&plain, 0, AVX512 & ~B_HAS_avx512vl, "b_f32_d64_avx2"},
        {&plain, 0, AVX512, "b_f32_d64_avx512"},
        {&plain, 1, AVX512, "b_f32_d64_avx512_few"},
        {&plain, 63, AVX512, "b_f32_d64_avx512_few"},
        {&plain, 64, AVX512, "b_f32_d64_avx512"},
        {&same, 2048, BF16, "b_f32_d64_avx512"},
        {&causal, 0, BF16, "b_bf16_d128_causal_avx512bf16"},
        {&causal, 0, BF16 & ~B_HAS_avx512vbmi, "b_bf16_d128_causal_avx512"},
        {&causal, 0, BF16 | B_SLOW_PAIRS, "b_bf16_d128_causal_avx512"},
        {&causal, 1, AVX512, "b_bf16_d128_causal_avx512"},
        {&causal, 0, AMX | B_SLOW_PAIRS, "b_bf16_d128_causal_amx"},
        {&causal, 0, AMX & ~B_HAS_amxtile, "b_bf16_d128_causal_avx512bf16"},
        {&causal, 0, AVX2, NULL},
        {&mixed, 0, AVX2, "b_f32_kvf16_d64v32_window_avx2"},
        {&mixed, 0, 0, NULL},
        {&only_c, 0, BF16, "b_f32_d80_c"},
        {&only_c, 1, BF16, "b_f32_d80_c_few"},
        {&other_dim, 0, BF16, NULL},
        {&other_type, 0, BF16, NULL},
        {&none, 0, BF16, NULL},
    };
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
        int asked[B_FIELDS];
        b_read(all[i].problem, asked);
        const struct b_row *row = b_best(asked, all[i].queries, all[i].usable);
        struct attn_args args = {.part = 0};
        const int64_t bytes = row ? row->kernel.workspace(&args) : 0;
        if (bytes != (all[i].symbol ? (int64_t)strlen(all[i].symbol) + 1 : 0) || (row && row->kernel.run(&args) != 0))
            return wrong("best", i, row ? row->kernel.variant : "none");
        if (row)
            printf("= %s\n", all[i].symbol); /* the line before says the same; test_bundle.c compares them */
    }
    return 0;
}

static int check_words(void)
{
    static const struct {
        struct b_problem problem;
        const char *says;
    } all[] = {
        {{.dtype = B_F16, .head_dim = 64}, "no kernel has these element types; expected those of one in b.h"},
        {{.head_dim = 72}, "no kernel of these element types has this head_dim; expected that of one in b.h"},
        {{.head_dim = 64, .softcap = 1}, "no kernel of these types and this head_dim has just these features; expected "
                                         "those of one in b.h"},
        {{.head_dim = 80}, "every kernel for it is plain C here; expected one of an isa that this compiler knows"},
    };
    struct b_kernel kernel = {.name = "untouched"};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
        const char *why = b_supports(&all[i].problem);
        if (!why || strcmp(why, all[i].says) != 0)
            return wrong("words", i, why ? why : "NULL");
        if (b_find(&all[i].problem, &kernel) != (i == 3 ? 1 : -1) || (i < 3 && strcmp(kernel.name, "untouched") != 0))
            return wrong("find", i, kernel.name);
        if (i < 3 && (b_workspace(&all[i].problem) != -1 || b_run(&all[i].problem, "", "", "", &kernel, &kernel, NULL) != -1))
            return wrong("run", i, "0");
    }
    if (strcmp(b_lacks(AVX512, AVX2, AVX2), "the kernels need avx512f, which this processor lacks") != 0 ||
        strcmp(b_lacks(AVX2, 0, AVX2), "the kernels need avx2, whose registers this system does not save") != 0 ||
        strcmp(b_lacks(AMX, BF16, AMX), "the kernels need amxtile, for which this system gives no permission")
            != 0 ||
        b_lacks(AVX2, BF16, BF16))
        return wrong("lacks", 0, "otherwise");
    return strcmp(kernel.name, "b_f32_d80") != 0 ? wrong("name", 0, kernel.name) : 0;
}

static int check_args(void)
{
    const struct b_problem p = {.head_dim = 64, .head_dim_v = 32, .batch = 2, .heads = 6, .kv_heads = 3, .q_len = 5, .kv_len = 7};
    struct attn_args a;
    b_args(&p, &a);
    if (a.size != (int64_t)sizeof a || a.q_stride[0] != 6 * 5 * 64 || a.k_stride[0] != 3 * 7 * 64 || a.k_stride[1] != 7 * 64 ||
        a.v_stride[0] != 3 * 7 * 32 || a.o_stride[1] != 5 * 32 || a.v_stride[2] != 32 || a.scale != 0.125f || a.parts != 1 ||
        !a.bottom_right || a.offset || a.lse)
        return wrong("args", 0, "otherwise");
    for (int d = 1; d <= 576; d++) {
        const double error = (double)b_scale(d) * (double)b_scale(d) * d - 1;
        if (error > 1.3e-7 || error < -1.3e-7)
            return wrong("scale", d, "otherwise");
    }
    return 0;
}

/* Of devices: the highest level that there is, and no other. */
static int check_devices(void)
{
    static const struct {
        struct b_problem problem;
        int capability, found;
        const char *variant;
    } all[] = {
        {{.dtype = B_BF16, .head_dim = 64}, 100, 0, "attn_bf16_d64_on_sm80_q64k32_r16"}, /* sm90 is for 9.0 alone */
        {{.dtype = B_BF16, .head_dim = 64}, 80, 0, "attn_bf16_d64_on_sm80_q64k32_r16"},
        {{.dtype = B_BF16, .head_dim = 64}, 75, 0, "attn_bf16_d64_on_portable_q64k64_r4x2u4"},
        {{.dtype = B_BF16, .head_dim = 64}, 0, 0, "attn_bf16_d64_on_portable_q64k64_r4x2u4"},
        {{.head_dim = 64, .bias = B_F32, .packed = 1}, 90, 1, "attn_f32_d64_biasf32_packed_on_portable_q64k64_r4x2u4"},
        {{.dtype = B_BF16, .head_dim = 32}, 80, 0, "attn_bf16_d32_on_sm80_q64k32_r16"},
        {{.dtype = B_BF16, .head_dim = 32}, 75, -1, ""},
        {{.dtype = B_BF16, .head_dim = 96}, 90, -1, ""},
        {{.dtype = B_BF16, .head_dim = 64}, 90, 0, "attn_bf16_d64_on_sm90_q128k128_pingpong_lazy"},
        {{.dtype = B_BF16, .head_dim = 128}, 90, 0, "attn_bf16_d128_on_sm90_q128k128_pingpong_lazy"},
        {{.dtype = B_BF16, .head_dim = 128, .heads = 8, .kv_heads = 2, .q_len = 3}, 90, 0, "attn_bf16_d128_on_sm90_q64k64_s2048"},
        {{.dtype = B_BF16, .head_dim = 128}, 89, -1, ""},
        {{.dtype = B_BF16, .head_dim = 128}, 120, -1, ""},
    };
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
        struct b_cl_kernel k = {.variant = ""};
        const int found = b_find_cl(&all[i].problem, all[i].capability, &k);
        const char *why = b_supports_cl(&all[i].problem, all[i].capability);
        if (found != all[i].found || strcmp(k.variant, all[i].variant) != 0 || !why != !found)
            return wrong("device", i, k.variant);
        if (found >= 0 && (k.lines < 50 || strncmp(k.text[0], "/* attngen emit --variant ", 26) != 0 || k.group[0] < 1))
            return wrong("text", i, k.text[0]);
        if (i < 2 && (k.ptx_size != 8 || memcmp(k.ptx, "// \"ptx\"", 8) != 0 || !k.whole_rows))
            return wrong("ptx", i, "otherwise");
        if (found < 0 && i > 7 && !strstr(why, "compute capability 9.0"))
            return wrong("words of devices", i, why);
        if (i == 4 && (k.takes != (1 | 16 | 32) || !k.features || k.ptx || k.rows != 64 || k.local_bytes < 1000))
            return wrong("facts", i, "otherwise");
    }
    return 0;
}

int main(void)
{
    return check_best() || check_words() || check_args() || check_devices();
}
