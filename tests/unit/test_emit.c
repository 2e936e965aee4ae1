/* test_emit.c - what gen_emit promises: the same bytes always and everywhere, and a header whose numbers are true. What it is
 * not: what it refuses (test_rules.c), and what the kernels compute (tests/kernel). */
#define _GNU_SOURCE /* gethostname, mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/apart.h"
#include "gen/embed.h"
#include "gen/gen.h"
#include "gen/space.h"
#include "dialects.h"
#include "runtime/cpu/tcc.h"
#include "mutate.h"
#include "seed.h"
#include "opened.h"

static const enum gen_flags forms[] = {GEN_READABLE, GEN_MACHINE_CODE, GEN_MACHINE_CODE_JIT};
enum { FORMS = 3 };

static struct gen_text emit(const struct gen *g, const struct variant *v, enum gen_flags form)
{
    struct gen_text t;
    struct gen_error err;
    if (gen_emit(g, v, form, &t, &err))
        fail_msg("%s", err.text);
    assert_int_equal(strlen(t.data), t.size);
    return t;
}

/* Some that differ in all that a text depends on; all can be emitted. */
static int choose(struct variant out[32])
{
    int n = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
            for (int odd = 0; odd < 2; odd++) {
                struct variant v = variant_default((enum isa)isa);
                if (isa_language((enum isa)isa) != LANGUAGE_C || (isas[isa].pairs && dtype != DTYPE_BF16))
                    continue;
                v.field[F_DTYPE] = dtype;
                v.field[F_HEAD_DIM] = odd ? 80 : 64;
                v.field[F_HEAD_DIM_V] = odd ? 72 : 0;
                v.field[F_CAUSAL] = odd;
                out[n++] = v;
            }
    return n;
}

static void test_same_bytes(void **state)
{
    struct gen *one = open_gen(), *other = open_gen();
    struct variant v[32];
    int n = choose(v);
    (void)state;
    for (int i = 0; i < n; i++)
        for (int form = 0; form < FORMS; form++) {
            struct gen_text a = emit(one, &v[i], forms[form]), b = emit(one, &v[i], forms[form]);
            struct gen_text c = emit(other, &v[i], forms[form]);
            assert_string_equal(a.data, b.data);
            assert_string_equal(a.data, c.data);
            gen_text_free(&a);
            gen_text_free(&b);
            gen_text_free(&c);
        }
    gen_close(one);
    gen_close(other);
    gen_close(NULL);
}

/* ---- threads ---- */

struct job {
    const struct gen *g;
    const struct variant *v;
    char *const *expected; /* by variant and form */
    int n, first, wrong;
};

static void *emit_all(void *arg)
{
    struct job *job = arg;
    for (int k = 0; k < job->n * FORMS; k++) {
        int i = (k + job->first) % (job->n * FORMS);
        struct gen_text t;
        struct gen_error err;
        if (gen_emit(job->g, &job->v[i / FORMS], forms[i % FORMS], &t, &err)) {
            job->wrong++;
            continue;
        }
        job->wrong += strcmp(t.data, job->expected[i]) != 0;
        gen_text_free(&t);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct gen *g = open_gen();
    struct variant v[32];
    int n = choose(v);
    char *expected[32 * FORMS];
    struct job job[4];
    pthread_t thread[4];
    (void)state;
    for (int i = 0; i < n * FORMS; i++)
        expected[i] = emit(g, &v[i / FORMS], forms[i % FORMS]).data;
    for (int t = 0; t < 4; t++) {
        job[t] = (struct job){g, v, expected, n, t * 7, 0};
        assert_int_equal(pthread_create(&thread[t], NULL, emit_all, &job[t]), 0);
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(thread[t], NULL);
        assert_int_equal(job[t].wrong, 0);
    }
    for (int i = 0; i < n * FORMS; i++)
        free(expected[i]);
    gen_close(g);
}

/* ---- what stands in the text ---- */

static void test_no_place(void **state)
{
    struct gen *g = open_gen();
    struct variant v[32];
    char host[128] = "", here[512] = "";
    int n = choose(v);
    (void)state;
    gethostname(host, sizeof host - 1);
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 0; i < n; i++)
        for (int form = 0; form < FORMS; form++) {
            struct gen_text t = emit(g, &v[i], forms[form]);
            static const char *const never[] = {"/home", "/tmp", "/root", "/usr", __DATE__, "${", "%%"};
            for (size_t k = 0; k < sizeof never / sizeof *never; k++)
                if (strstr(t.data, never[k]))
                    fail_msg("%s stands in the text", never[k]);
            assert_null(strstr(t.data, here));
            if (strlen(host) > 3)
                assert_null(strstr(t.data, host));
            for (size_t k = 0; k < t.size; k++)
                assert_true((unsigned char)t.data[k] < 127 && (t.data[k] >= ' ' || t.data[k] == '\n'));
            gen_text_free(&t);
        }
    gen_close(g);
}

/* A program of another locale gets the same bytes, and what is compiled in it reads its numbers aright. */
static void test_locale(void **state)
{
    static const char source[] = "typedef long int64_t; struct attn_args; int k(const struct attn_args *a) { (void)a; "
                                 "float x = 1.75f; return (int)(x * 4); } "
                                 "int64_t k_workspace(const struct attn_args *a) { (void)a; return 0; }";
    char dir[] = "/tmp/attngen-locale-XXXXXX", command[256];
    struct variant v[32];
    int n = choose(v);
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", dir);
    bool made = !system(command);
    struct gen *before = open_gen();
    setenv("LOCPATH", dir, 1);
    bool set = made && setlocale(LC_ALL, "de_DE.UTF-8") && !strcmp(localeconv()->decimal_point, ",");
    bool same = true;
    int compiled = 0, seven = 0;
    if (set) {
        struct gen *in = open_gen();
        struct kernel kernel;
        struct gen_error err;
        for (int i = 0; i < n * FORMS; i++) {
            setlocale(LC_ALL, "C");
            struct gen_text a = emit(before, &v[i / FORMS], forms[i % FORMS]);
            setlocale(LC_ALL, "de_DE.UTF-8");
            struct gen_text b = emit(before, &v[i / FORMS], forms[i % FORMS]);
            struct gen_text c = emit(in, &v[i / FORMS], forms[i % FORMS]);
            same = same && !strcmp(a.data, b.data) && !strcmp(a.data, c.data);
            gen_text_free(&a);
            gen_text_free(&b);
            gen_text_free(&c);
        }
        same = same && !strcmp(localeconv()->decimal_point, ","); /* which is the program's own still */
        compiled = jit_compile(source, "k", &kernel, &err);
        seven = compiled ? 0 : kernel.run(NULL);
        if (!compiled)
            kernel_free(&kernel);
        gen_close(in);
    }
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    gen_close(before);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    if (!set) {
        print_message("# no locale with another decimal point can be made here\n");
        skip();
    }
    assert_true(same);
    assert_int_equal(compiled, 0);
    assert_int_equal(seven, 7);
}

/* From the first line that is `from` on, whole lines. */
static const char *line_of(const char *text, const char *from)
{
    for (const char *c = text; (c = strstr(c, from)); c++)
        if (c == text || c[-1] == '\n')
            return c;
    return NULL;
}

/* The text for tcc and others at once holds the text for others, as it is: behind #else, up to its #endif. */
static void test_forms(void **state)
{
    struct gen *g = open_gen();
    struct variant v[32];
    int n = choose(v);
    (void)state;
    for (int i = 0; i < n; i++) {
        struct gen_text readable = emit(g, &v[i], GEN_READABLE), both = emit(g, &v[i], GEN_MACHINE_CODE);
        struct gen_text jit = emit(g, &v[i], GEN_MACHINE_CODE_JIT);
        if (!isas[v[i].field[F_ISA]].machine_code) {
            assert_string_equal(readable.data, both.data);
        } else {
            static const char names[] = "\n/* The end of this file's own names. */\n"; /* of which one has more */
            const char *begin = line_of(both.data, "#ifdef MACHINE_CODE\n"), *other = strstr(begin, "\n#else\n") + 7;
            char first[COLUMNS + 1];
            snprintf(first, sizeof first, "%.*s", (int)strcspn(other, "\n"), other);
            const char *alone = line_of(readable.data, first);
            size_t same = 0;
            while (other[same] && other[same] == alone[same])
                same++;
            assert_memory_equal(other + same, "#endif\n", 7);
            size_t rest = (size_t)(strstr(alone + same, names) - alone - same);
            assert_memory_equal(other + same + 7, alone + same, rest + strlen(names));
            assert_non_null(strstr(jit.data, "__asm__(\".text"));
            assert_null(strstr(jit.data, "immintrin"));
            assert_null(strstr(jit.data, "#include"));
            assert_null(strstr(readable.data, "__asm__(\".text"));
        }
        gen_text_free(&readable);
        gen_text_free(&both);
        gen_text_free(&jit);
    }
    gen_close(g);
}

/* A field at its default appears nowhere, and neither does one that is set to what the default means. */
static void test_elided(void **state)
{
    struct gen *g = open_gen();
    struct variant v = variant_default(ISA_AVX2), same = v, other = v;
    (void)state;
    same.field[F_HEAD_DIM_V] = same.field[F_HEAD_DIM];
    same.field[F_DTYPE_KV] = same.field[F_DTYPE_O] = OTHER_F32; /* query's own, said twice */
    struct gen_text a = emit(g, &v, GEN_READABLE), b = emit(g, &same, GEN_READABLE);
    assert_string_equal(a.data, b.data);
    assert_non_null(strstr(a.data, "\n * Parameters: op attn, dtype f32, head_dim.qk 64, isa avx2, tile.q 96, tile.k 128, "
                                   "micro.rows 6, micro.vecs 2,\n * unroll 2.\n"));
    gen_text_free(&b);
    other.field[F_HEAD_DIM_V] = 32;
    other.field[F_CAUSAL] = 1;
    b = emit(g, &other, GEN_READABLE);
    assert_non_null(strstr(b.data, ", dtype f32, head_dim.qk 64, head_dim.v 32, causal, isa avx2, "));
    assert_non_null(strstr(b.data, "attn_f32_d64v32_causal_on_avx2_q96k128_r6x2u2_workspace("));
    gen_text_free(&b);
    variant_set_dtypes(&other, DTYPE_F16, DTYPE_F16, DTYPE_F32);
    other.field[F_WINDOW] = other.field[F_SINK] = 1;
    other.field[F_BIAS] = BIAS_BF16;
    b = emit(g, &other, GEN_READABLE);
    assert_non_null(strstr(b.data, " * Parameters: op attn, dtype f16, dtype.o f32, head_dim.qk 64, head_dim.v 32, "
                                   "causal, window, bias bf16, sink, isa\n * avx2, "));
    gen_text_free(&a);
    gen_text_free(&b);
    gen_close(g);
}

/* ---- the header ---- */

/* The numbers of a sentence of the header that ends a line, in order. */
static int numbers_of(const char *text, const char *line, long long out[8])
{
    const char *c = strstr(text, line);
    int n = 0;
    assert_non_null(c);
    for (; *c && !(*c == '\n' && c[-1] == '.') && n < 8; c++)
        if (isdigit((unsigned char)*c) && !isalnum((unsigned char)c[-1])) {
            char *end;
            out[n++] = strtoll(c, &end, 10);
            c = end - 1;
        }
    return n;
}

static const struct gen_micro_use *use_of(const struct gen_text *t, const char *name)
{
    for (int i = 0; i < t->micros; i++)
        if (!strcmp(t->micro[i].name, name))
            return &t->micro[i];
    return NULL;
}

static void check_header(const struct gen_text *t, const struct variant *v)
{
    static const int widths[] = {8, 8, 16, 16, 16, 4, 4}, registers[] = {0, 16, 32, 32, 32, 32, 32};
    const int32_t *f = v->field;
    int isa = f[F_ISA];
    long long n[8], hd = f[F_HEAD_DIM], hdv = f[F_HEAD_DIM_V] ? f[F_HEAD_DIM_V] : hd,
                    size = f[F_DTYPE] == DTYPE_F32 ? 4 : 2;
    long long flops = 0, bytes = 0;
    for (int q = 0; q < f[F_TILE_Q]; q++)
        flops += f[F_TILE_K] * (2 * hd + 2 * hdv);
    for (int k = 0; k < f[F_TILE_K]; k++)
        bytes += size * (hd + hdv);
    assert_int_equal(numbers_of(t->data, "A tile of ", n), 5);
    assert_int_equal(n[0], f[F_TILE_Q]);
    assert_int_equal(n[1], f[F_TILE_K]);
    assert_int_equal(n[2], flops);
    assert_int_equal(n[3], bytes);
    assert_int_equal(n[4], flops / bytes);
    if (isa == ISA_AMX) {
        assert_int_equal(numbers_of(t->data, "Within it groups of ", n), 6);
        assert_int_equal(n[2], use_of(t, "trip")->vec);
        assert_int_equal(n[3], registers[isa]);
        assert_true(n[2] <= n[3] && n[4] <= n[5] && n[5] == 8);
        return;
    }
    if (isa == ISA_C) { /* whose registers the compiler gives out */
        assert_null(strstr(t->data, "Vector registers of "));
        return;
    }
    assert_int_equal(numbers_of(t->data, "Vector registers of ", n), 5);
    const struct gen_micro_use *value = use_of(t, "value_tile") ? use_of(t, "value_tile") : use_of(t, "value_last");
    assert_int_equal(n[0], widths[isa] * 32);
    assert_int_equal(n[1], use_of(t, "score_tile")->vec);
    assert_int_equal(n[2], value->vec);
    assert_int_equal(n[3], use_of(t, "softmax")->vec);
    assert_int_equal(n[4], registers[isa]);
    /* accumulators, a row's element, and keys beside it, are all there at once */
    assert_true(n[1] >= f[F_ROWS] * f[F_VECS] + f[F_VECS] + 1 && n[1] <= registers[isa]);
}

static void test_header(void **state)
{
    struct gen *g = open_gen();
    struct variant v[32];
    int n = choose(v);
    (void)state;
    for (int i = 0; i < n; i++) {
        struct gen_text t = emit(g, &v[i], GEN_READABLE), jit = emit(g, &v[i], GEN_MACHINE_CODE_JIT);
        char name[GEN_NAME_MAX], first[GEN_NAME_MAX + 40];
        struct kernel kernel;
        struct gen_error err;
        long long space[8];
        variant_encode(&v[i], name);
        snprintf(first, sizeof first, "/* attngen emit --variant %s\n", name);
        assert_memory_equal(t.data, first, strlen(first));
        check_header(&t, &v[i]);
        assert_int_equal(numbers_of(t.data, "Workspace: ", space), 3);
        assert_int_equal(space[2], v[i].field[F_ISA] == ISA_AMX ? 64 : v[i].field[F_TILE_K]);
        if (jit_compile(jit.data, name, &kernel, &err))
            fail_msg("%s: %s", name, err.text);
        static const int lengths[] = {0, 1, 63, 64, 256, 257, 100000};
        for (int k = 0; k < 7; k++) {
            struct attn_args args = {.size = sizeof args, .kv_len = lengths[k]};
            int64_t tiles = lengths[k] / space[2] + (lengths[k] % space[2] != 0);
            assert_int_equal(kernel.workspace(&args), space[0] + tiles * space[1]);
        }
        kernel_free(&kernel);
        gen_text_free(&t);
        gen_text_free(&jit);
    }
    gen_close(g);
}

/* Registers and instructions that are reported are those of the code itself. */
static void test_uses(void **state)
{
    struct gen *g = open_gen();
    struct variant v[32];
    struct dialects l;
    struct gen_error err;
    int n = choose(v);
    (void)state;
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    assert_int_equal(dialects_micros(&l, NULL, NULL, 0, &err), 0);
    for (int i = 0; i < n; i++) {
        struct gen_text t = emit(g, &v[i], GEN_READABLE);
        struct unrolled u[GEN_MICROS_MAX];
        int units;
        assert_int_equal(dialects_variant(&l, &v[i], GEN_MICROS_MAX, u, &units, &err), 0);
        assert_int_equal(units, t.micros);
        for (int k = 0; k < units; k++) {
            struct code code = {0};
            assert_string_equal(t.micro[k].name, u[k].name);
            assert_int_equal(t.micro[k].vec, u[k].used[CLASS_VEC]);
            assert_int_equal(t.micro[k].mask, u[k].used[CLASS_MASK]);
            assert_int_equal(t.micro[k].integer, u[k].used[CLASS_INT]);
            if (u[k].isa->facts->machine_code) {
                assert_int_equal(encode_x86(&code, &u[k], NULL, NULL, &err), 0);
                assert_int_equal(t.micro[k].instructions, code.instructions);
            }
            code_free(&code);
            unrolled_free(&u[k]);
        }
        gen_text_free(&t);
    }
    dialects_close(&l);
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_threads), cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_locale),     cmocka_unit_test(test_forms),   cmocka_unit_test(test_elided),
        cmocka_unit_test(test_header),     cmocka_unit_test(test_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
