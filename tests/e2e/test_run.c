/* test_run.c - `attngen run`, from files to files: the attention layer of a language model against the model's own
 * output, every option against the definition in double precision, and what it refuses. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrays.h"
#include "runtime/numerics/convert.h"
#include "shell.h"

#define MODEL "$ROOT/tests/data/minilm-layer3"
#define MODEL_LENS "--kv-lens " MODEL "/kv_lens.npy "
#define RUN_MODEL "\"$ATTNGEN\" run -q " MODEL "/q.npy -k " MODEL "/k.npy -v " MODEL "/v.npy " MODEL_LENS
#define RUN_SMALL "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o.npy "

static struct npy load_model(const char *name)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/tests/data/minilm-layer3/%s", getenv("ROOT"), name);
    return array_load(path);
}

static struct npy array(enum npy_type type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return array_new(type, 4, (int64_t[]){a, b, c, d});
}

static struct npy random_array(int64_t a, int64_t b, int64_t c, int64_t d, uint64_t seed)
{
    struct npy out = array(NPY_F32, a, b, c, d);
    fill_normal(out.data, DTYPE_F32, (size_t)out.count, seed);
    return out;
}

static float *values(const struct npy *a)
{
    return a->data;
}

static double largest_difference(const struct npy *a, const struct npy *b)
{
    double worst = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        double d = fabs((double)values(a)[i] - values(b)[i]);
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

static void assert_same_bits(const char *one, const char *other)
{
    struct said said;
    shell(&said, "cmp %s %s", one, other);
    assert_string_equal(said.out, "");
    assert_int_equal(said.code, 0);
}

/* ---- the model ---- */

static void test_model(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, RUN_MODEL "-o o.npy --lse l.npy --compare " MODEL "/o.npy");
    assert_true(!strncmp(said.out, "attn_f32_d32_on_", 16));
    assert_non_null(strstr(said.out, " on cpu by tcc, by estimate: planned in "));
    const char *second = strchr(said.out, '\n') + 1;
    assert_non_null(strstr(second, "largest difference from /"));
    struct npy o = array_load("o.npy"), model = load_model("o.npy"), lse = array_load("l.npy");
    double difference = largest_difference(&o, &model), said_difference = -1;
    assert_true(difference < 4e-6); /* the model's own is 1.1e-6 from exact */
    assert_int_equal(sscanf(strstr(second, "o.npy: ") + 7, "%lf", &said_difference), 1);
    assert_true(fabs(difference - said_difference) <= 0.01 * difference);
    assert_true(o.type == NPY_F32 && lse.type == NPY_F32 && lse.dims == 3);
    assert_true(lse.shape[0] == 2 && lse.shape[1] == 12 && lse.shape[2] == 256);
    npy_free(&o);
    npy_free(&model);
    npy_free(&lse);
    assert_int_equal(shell_files("."), 2);
    shell_clean();
}

static void test_model_json(void **state)
{
    (void)state;
    struct said said;
    char variant[200], cached[8], rest[200];
    double plan_ms, execute_ms;
    shell_ok(&said, RUN_MODEL "-o o.npy --json --threads 1");
    assert_int_equal(
        sscanf(said.out,
               "{\"variant\": \"%199[^\"]\", \"device\": \"cpu\", \"compiler\": \"tcc\", \"cached\": %7[a-z], "
               "\"plan_ms\": %lf, \"execute_ms\": %lf%199[^\n]",
               variant, cached, &plan_ms, &execute_ms, rest),
        5);
    assert_string_equal(rest, "}");
    assert_string_equal(strchr(said.out, '\n'), "\n");
    assert_string_equal(cached, "false");
    assert_true(plan_ms > 0 && execute_ms > 0);
    /* Nothing was stored, so the second run is like the first; and naming its variant pins it. */
    shell_ok(&said, RUN_MODEL "-o o2.npy --json --threads 2");
    assert_non_null(strstr(said.out, "\"cached\": false"));
    shell_ok(&said, RUN_MODEL "-o o3.npy --json --threads 2 --variant %s", variant);
    assert_non_null(strstr(said.out, variant));
    assert_same_bits("o.npy", "o3.npy"); /* whatever the number of threads */
    shell_ok(&said, RUN_MODEL "-o o5.npy --quiet --compare " MODEL "/o.npy --tolerance 1e-5");
    assert_string_equal(said.out, "");
    assert_same_bits("o.npy", "o5.npy");
    shell_ok(&said, RUN_MODEL "-o o5.npy --json --compare " MODEL "/o.npy --tolerance 1e-5");
    assert_non_null(strstr(said.out, ", \"within_tolerance\": true}\n"));
    shell(&said, RUN_MODEL "-o o6.npy --quiet --compare " MODEL "/o.npy --tolerance 1e-12");
    assert_int_equal(said.code, 1);
    assert_string_equal(said.out, "");
    assert_true(!strncmp(said.err, "attngen run: error: o6.npy differs from /", 41));
    assert_non_null(strstr(said.err, "; expected at most 1e-12\n"));
    assert_same_bits("o.npy", "o6.npy"); /* it is written all the same */
    shell_ok(&said, RUN_MODEL "-o o4.npy --json --compare " MODEL "/o.npy");
    assert_non_null(strstr(said.out, ", \"difference\": "));
    assert_non_null(strstr(said.out, ", \"at\": ["));
    shell_clean();
}

static void test_padding_does_not_matter(void **state)
{
    (void)state;
    struct said said;
    struct npy k = load_model("k.npy"), v = load_model("v.npy");
    for (int64_t i = 0; i < k.count; i++)
        if (i / (12 * 256 * 32) == 1 && i / 32 % 256 >= 162)
            values(&k)[i] = values(&v)[i] = NAN;
    array_store("k.npy", &k);
    array_store("v.npy", &v);
    npy_free(&k);
    npy_free(&v);
    shell_ok(&said, RUN_MODEL "-o o.npy --json");
    const char *variant = strchr(said.out, ':') + 3;
    shell_ok(&said,
             "\"$ATTNGEN\" run -q " MODEL "/q.npy -k k.npy -v v.npy " MODEL_LENS "-o o2.npy "
             "--variant %.*s",
             (int)strcspn(variant, "\""), variant);
    assert_same_bits("o.npy", "o2.npy");
    shell_clean();
}

static void test_model_in_other_types(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype dtype;
        enum npy_type type;
        double limit;
    } rows[] = {{"f16", DTYPE_F16, NPY_F16, 4e-3}, {"bf16", DTYPE_BF16, NPY_U16, 3e-2}};
    struct npy model = load_model("o.npy");
    for (size_t i = 0; i < 2; i++) {
        struct said said;
        /* float32 arrays are rounded first, and the output is float32 ... */
        shell_ok(&said, RUN_MODEL "-o o.npy --dtype %s", rows[i].name);
        struct npy o = array_load("o.npy");
        assert_int_equal(o.type, NPY_F32);
        double difference = largest_difference(&o, &model);
        assert_true(difference > 1e-6 && difference < rows[i].limit);
        /* ... just as arrays of that type, but for the type of the output. */
        const char *const names[] = {"q.npy", "k.npy", "v.npy"};
        for (int n = 0; n < 3; n++) {
            struct npy wide = load_model(names[n]), narrow = array(rows[i].type, 2, 12, 256, 32);
            for (int64_t e = 0; e < wide.count; e++)
                dtype_store(rows[i].dtype, narrow.data, e, values(&wide)[e]);
            array_store(names[n], &narrow);
            npy_free(&wide);
            npy_free(&narrow);
        }
        shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy " MODEL_LENS "-o n.npy%s",
                 rows[i].dtype == DTYPE_BF16 ? " --dtype bf16" : "");
        struct npy n = array_load("n.npy");
        assert_int_equal(n.type, rows[i].type);
        for (int64_t e = 0; e < n.count; e++)
            assert_true(dtype_load(rows[i].dtype, n.data, e) == values(&o)[e]);
        npy_free(&o);
        npy_free(&n);
        shell_clean();
    }
    npy_free(&model);
}

/* ---- options, against the definition ---- */

struct problem {
    int64_t b, hq, hkv, sq, skv, d, dv;
    int64_t lens[4]; /* of each sequence */
    bool causal;
    int align; /* 0 bottom-right, 1 top-left, 2 offset */
    int64_t offset;
    double scale;
};

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

/* One row of O, and its LSE, by the definition; arrays in bhsd. */
static double reference(const struct problem *p, const struct npy *q, const struct npy *k, const struct npy *v,
                        int64_t row, double *o)
{
    int64_t b = row / (p->hq * p->sq), h = row / p->sq % p->hq, i = row % p->sq, len = p->lens[b];
    int64_t kv = b * p->hkv + h / (p->hq / p->hkv);
    int64_t off = p->align == 0 ? len - p->sq : p->align == 1 ? 0 : p->offset;
    double most = -INFINITY, sum = 0;
    memset(o, 0, (size_t)p->dv * sizeof *o);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < len && (!p->causal || j <= i + off); j++) {
            double s = p->scale * dot(values(q) + row * p->d, values(k) + (kv * p->skv + j) * p->d, p->d);
            if (pass == 0) {
                most = s > most ? s : most;
                continue;
            }
            sum += exp(s - most);
            for (int64_t e = 0; e < p->dv; e++)
                o[e] += exp(s - most) * values(v)[(kv * p->skv + j) * p->dv + e];
        }
    for (int64_t e = 0; e < p->dv && sum > 0; e++)
        o[e] /= sum;
    return sum > 0 ? most + log(sum) : -INFINITY;
}

/* The same array as [B, S, H, D]. */
static struct npy swapped(const struct npy *a)
{
    const int64_t *s = a->shape;
    struct npy out = array(a->type, s[0], s[2], s[1], s[3]);
    for (int64_t i = 0; i < a->count; i++) {
        int64_t e = i % s[3], row = i / s[3] % s[2], h = i / s[3] / s[2] % s[1], b = i / s[3] / s[2] / s[1];
        values(&out)[((b * s[2] + row) * s[1] + h) * s[3] + e] = values(a)[i];
    }
    return out;
}

static void compare_with_reference(const struct problem *p, const struct npy *q, const struct npy *k,
                                   const struct npy *v, const char *options)
{
    struct npy o = array_load("o.npy"), lse = array_load("l.npy");
    assert_true(o.dims == 4 && lse.dims == 3 && o.shape[3] == p->dv);
    if (strstr(options, "bshd")) {
        struct npy back = swapped(&o);
        npy_free(&o);
        o = back;
    }
    assert_int_equal(o.count, p->b * p->hq * p->sq * p->dv);
    double want[64];
    assert_true(p->dv <= 64);
    for (int64_t row = 0; row < p->b * p->hq * p->sq; row++) {
        double want_lse = reference(p, q, k, v, row, want), got_lse = values(&lse)[row];
        if (want_lse != got_lse && !(fabs(want_lse - got_lse) < 1e-5))
            fail_msg("%s: LSE of row %lld is %g; expected %g", options, (long long)row, got_lse, want_lse);
        for (int64_t e = 0; e < p->dv; e++) {
            double got = values(&o)[row * p->dv + e];
            if (isinf(want_lse) ? got != 0 : !(fabs(got - want[e]) < 1e-5))
                fail_msg("%s: O of row %lld is %g at %lld; expected %g", options, (long long)row, got, (long long)e,
                         want[e]);
        }
    }
    npy_free(&o);
    npy_free(&lse);
}

/* Runs with these options, both layouts, and compares every row. */
static void check_problem(const struct problem *given, const char *options)
{
    struct problem p = *given;
    struct npy in[3] = {random_array(p.b, p.hq, p.sq, p.d, 11), random_array(p.b, p.hkv, p.skv, p.d, 12),
                        random_array(p.b, p.hkv, p.skv, p.dv, 13)};
    static const char *const names[] = {"q.npy", "k.npy", "v.npy"};
    p.scale = p.scale != 0 ? p.scale : 1 / sqrt((double)p.d);
    bool whole = true;
    struct npy lens;
    struct gen_error err;
    assert_int_equal(npy_new("lens", NPY_I64, 1, &p.b, &lens, &err), 0);
    for (int64_t b = 0; b < p.b; b++) {
        ((int64_t *)lens.data)[b] = p.lens[b];
        whole &= p.lens[b] == p.skv;
    }
    array_store("lens.npy", &lens);
    npy_free(&lens);
    for (int bshd = 0; bshd < 2; bshd++) {
        struct said said;
        char all[200];
        for (int n = 0; n < 3; n++) {
            struct npy turned = swapped(&in[n]);
            array_store(names[n], bshd ? &turned : &in[n]);
            npy_free(&turned);
        }
        snprintf(all, sizeof all, "%s%s%s", options, whole ? "" : " --kv-lens lens.npy", bshd ? " --layout bshd" : "");
        shell_ok(&said, RUN_SMALL "--lse l.npy %s", all);
        compare_with_reference(&p, &in[0], &in[1], &in[2], all);
        assert_int_equal(unlink("o.npy"), 0);
    }
    for (int n = 0; n < 3; n++)
        npy_free(&in[n]);
    shell_clean();
}

static void test_options_against_the_definition(void **state)
{
    (void)state;
    check_problem(&(struct problem){1, 1, 1, 1, 1, 16, 16, {1}, .causal = false}, "");
    check_problem(&(struct problem){2, 4, 2, 19, 31, 24, 40, {31, 31}, .causal = false}, "--threads 2");
    check_problem(&(struct problem){2, 4, 1, 19, 31, 33, 33, {31, 7}, .causal = false}, "--device cpu --compiler tcc");
    check_problem(&(struct problem){2, 4, 1, 19, 31, 33, 33, {31, 7}, .scale = 0.3}, "--scale 0.3 --threads 1");
    check_problem(&(struct problem){2, 4, 2, 19, 31, 33, 33, {31, 7}, .causal = false},
                  "--device opencl --variant attn_f32_d33_on_portable_q16k16_r4x1u4_g4_l4_w2");
}

static void test_causal_against_the_definition(void **state)
{
    (void)state;
    /* More keys than queries, fewer, and sequences whose first rows see none. */
    const struct problem long_kv = {2, 2, 1, 19, 31, 16, 16, {31, 31}, .causal = true};
    const struct problem long_q = {3, 2, 2, 40, 23, 16, 16, {23, 0, 11}, .causal = true};
    const struct problem *const both[] = {&long_kv, &long_q};
    for (int i = 0; i < 2; i++) {
        struct problem p = *both[i];
        check_problem(&p, "--causal");
        check_problem(&p, "--causal=bottom-right");
        p.align = 1;
        check_problem(&p, "--causal=top-left");
        p.align = 2;
        p.offset = 5;
        check_problem(&p, "--causal --q-offset 5");
        p.offset = -7;
        check_problem(&p, "--q-offset=-7 --causal");
    }
}

/* ---- what it refuses ---- */

static void write_inputs(void)
{
    struct npy q = random_array(2, 4, 5, 16, 1), k = random_array(2, 2, 7, 16, 2), v = random_array(2, 2, 7, 8, 3);
    array_store("q.npy", &q);
    array_store("k.npy", &k);
    array_store("v.npy", &v);
    npy_free(&q);
    npy_free(&k);
    npy_free(&v);
}

/* The command must exit with that code and message, and leave neither O nor LSE nor anything beside them. */
static void refuse(int code, const char *message, const char *command)
{
    struct said said;
    int before = shell_files(".");
    shell(&said, "%s", command);
    if (said.code != code || strcmp(said.err, message) || said.out[0] || shell_files(".") != before)
        fail_msg("%s\nexits %d with\n%sexpected %d with\n%sand %d files; there are %d", command, said.code, said.err,
                 code, message, before, shell_files("."));
}

static void test_refuses_arrays_that_do_not_fit(void **state)
{
    (void)state;
    write_inputs();
    struct npy k3 = random_array(2, 3, 7, 16, 1), d24 = random_array(2, 2, 7, 24, 1), v6 = random_array(2, 2, 6, 8, 1);
    struct npy wide = random_array(2, 4, 5, 577, 1), flat = random_array(2, 4, 5, 16, 1);
    flat.dims = 3;
    flat.shape[2] = 5 * 16;
    array_store("k3.npy", &k3);
    array_store("d24.npy", &d24);
    array_store("v6.npy", &v6);
    array_store("wide.npy", &wide);
    array_store("flat.npy", &flat);
    refuse(1, "absent.npy: error: it cannot be opened: No such file or directory; expected a .npy file\n",
           RUN_SMALL "--compare absent.npy");
    refuse(1, "k3.npy: error: it has 3 heads; expected a divisor of the 4 heads of q.npy\n",
           "\"$ATTNGEN\" run -q q.npy -k k3.npy -v k3.npy -o o.npy --lse l.npy");
    refuse(1, "d24.npy: error: its shape is [2, 2, 7, 24]; expected [2, Hkv, Skv, 16], to match q.npy\n",
           "\"$ATTNGEN\" run -q q.npy -k d24.npy -v v.npy -o o.npy");
    refuse(1, "v6.npy: error: its shape is [2, 2, 6, 8]; expected [2, 2, 7, Dv], to match k.npy\n",
           "\"$ATTNGEN\" run -q q.npy -k k.npy -v v6.npy -o o.npy");
    refuse(1, "wide.npy: error: its shape is [2, 4, 5, 577]; expected a head dim, the last side, of 1 to 576\n",
           "\"$ATTNGEN\" run -q wide.npy -k k.npy -v v.npy -o o.npy");
    refuse(1, "flat.npy: error: its shape is [2, 4, 80]; expected four sides, [batch, heads, length, dim]\n",
           "\"$ATTNGEN\" run -q flat.npy -k k.npy -v v.npy -o o.npy");
    refuse(1, "q.npy: error: it is float32 [2, 4, 5, 16]; expected float32 [2, 4, 5, 8], as the output has\n",
           RUN_SMALL "--compare q.npy");
    refuse(1, "q.npy: error: it is float32 [2, 4, 5, 16]; expected int32 or int64 [2]\n", RUN_SMALL "--kv-lens q.npy");
    struct said said;
    shell(&said, RUN_SMALL "--kv-lens " MODEL "/kv_lens.npy");
    assert_non_null(strstr(said.err, "/kv_lens.npy: error: length 256 at [0] is invalid; expected 0 to 7\n"));
    assert_true(said.code == 1 && access("o.npy", F_OK) != 0);
    npy_free(&k3);
    npy_free(&d24);
    npy_free(&v6);
    npy_free(&wide);
    npy_free(&flat);
    shell_clean();
}

static void test_refuses_types_that_do_not_fit(void **state)
{
    (void)state;
    write_inputs();
    struct npy h = array(NPY_F16, 2, 4, 5, 16), u = array(NPY_U16, 2, 4, 5, 16), i = array(NPY_I32, 2, 4, 5, 16),
               wide = array(NPY_F64, 2, 4, 5, 16), bias = array(NPY_F64, 1, 1, 5, 7);
    array_store("h.npy", &h);
    array_store("u.npy", &u);
    array_store("i.npy", &i);
    array_store("wide.npy", &wide);
    array_store("bias.npy", &bias);
#define RUN_SAME(name) "\"$ATTNGEN\" run -q " name " -k " name " -v " name " -o o.npy "
    refuse(1, "u.npy: error: its type is uint16; expected --dtype bf16 for it\n", RUN_SAME("u.npy"));
    refuse(1, "u.npy: error: its type is uint16; expected --dtype bf16 for it\n", RUN_SAME("u.npy") "--dtype f16");
    refuse(1, "h.npy: error: its type is float16; expected --dtype f16 for it, or no --dtype\n",
           RUN_SAME("h.npy") "--dtype f32");
    refuse(1, "h.npy: error: its type is float16; expected --dtype f16 for it, or no --dtype\n",
           RUN_SAME("h.npy") "--dtype bf16");
    refuse(1, "i.npy: error: its type is int32; expected float32, float16 or uint16\n", RUN_SAME("i.npy"));
    refuse(1, "wide.npy: error: its type is float64; expected float32, float16 or uint16\n", RUN_SAME("wide.npy"));
    refuse(1, "bias.npy: error: its type is float64; expected float32 or float16, or uint16 that holds bf16\n",
           RUN_SMALL "--bias bias.npy");
    refuse(1, "v.npy: error: its type is float32; expected float16, as in h.npy\n",
           "\"$ATTNGEN\" run -q q.npy -k h.npy -v v.npy -o o.npy");
    npy_free(&h);
    npy_free(&u);
    npy_free(&i);
    npy_free(&wide);
    npy_free(&bias);
    shell_clean();
}

#define MORE "`attngen run --help` says more\n"
static void test_refuses_command_lines(void **state)
{
    (void)state;
    write_inputs();
    refuse(2, "attngen run: error: -v V.npy is missing\n" MORE, "\"$ATTNGEN\" run -q q.npy -k k.npy -o o.npy");
    refuse(2, "attngen run: error: --dropout is not implemented yet\n" MORE, RUN_SMALL "--dropout 0.1");
    refuse(2,
           "attngen run: error: --device 'gpu' is unknown; expected cpu, opencl, opencl:N, cuda, cuda:N or reference "
           "(`attngen devices` "
           "lists them)\n" MORE,
           RUN_SMALL "--device gpu");
    refuse(2, "attngen run: error: 'q.npy' is one word too many\n" MORE, RUN_SMALL "q.npy");
    refuse(2, "attngen run: error: run has no option --shape\n" MORE, RUN_SMALL "--shape 1,1,1,1,1,1");
    refuse(2, "attngen run: error: -o and --lse name the same file; expected different files\n" MORE,
           RUN_SMALL "--lse o.npy");
    refuse(2, "attngen run: error: -k and --lse name the same file; expected an output that replaces no input\n" MORE,
           RUN_SMALL "--lse ./k.npy");
    refuse(2, "attngen run: error: --compare and -o name the same file; expected an output that replaces no input\n" MORE,
           "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o absent.npy --compare absent.npy");
    shell_clean();
}

static void test_refuses_variants_that_do_not_fit(void **state)
{
    (void)state;
    static const char *const names[] = {"no_such_kernel", "attn_f32_d64_on_c_q64k64_r4x2u1",
                                        "attn_f32_d16v8_causal_on_c_q64k64_r4x2u1",
                                        "attn_f32_d16v8_on_portable_q64k64_r4x2u4"};
    write_inputs();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct said said;
        shell(&said, RUN_SMALL "--lse l.npy --variant %s", names[i]);
        assert_int_equal(said.code, 1);
        assert_string_equal(said.out, "");
        const char *begin = i ? "attngen run: error: variant '" : "variant 'no_such_kernel': error: ";
        assert_int_equal(strncmp(said.err, begin, strlen(begin)), 0);
        assert_non_null(strstr(said.err, i < 3 ? "; expected" : "cannot run: isa portable is not for processors"));
        assert_ptr_equal(strchr(said.err, '\n'), said.err + strlen(said.err) - 1); /* it is said once */
        assert_int_equal(shell_files("."), 3);
    }
    shell_clean();
}

static void test_failed_writes_leave_nothing(void **state)
{
    (void)state;
    struct said said;
    write_inputs();
    refuse(1, "absent/l.npy: error: it cannot be written: No such file or directory; expected a place for the output\n",
           RUN_SMALL "--lse absent/l.npy");
    refuse(1, ".: error: it is a directory; expected a file to write\n", RUN_SMALL "--lse .");
    shell(&said, "test -w /dev/full");
    if (!said.code)
        refuse(1, "/dev/full: error: it cannot be written: No space left on device; expected a place for the output\n",
               RUN_SMALL "--lse /dev/full");
    /* An older output stays what it was. */
    shell_ok(&said, "echo old > o.npy && cp o.npy old.npy");
    refuse(1, ".: error: it is a directory; expected a file to write\n", RUN_SMALL "--lse .");
    assert_same_bits("o.npy", "old.npy");
    shell_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_model_json),
        cmocka_unit_test(test_padding_does_not_matter),
        cmocka_unit_test(test_model_in_other_types),
        cmocka_unit_test(test_options_against_the_definition),
        cmocka_unit_test(test_causal_against_the_definition),
        cmocka_unit_test(test_refuses_arrays_that_do_not_fit),
        cmocka_unit_test(test_refuses_types_that_do_not_fit),
        cmocka_unit_test(test_refuses_command_lines),
        cmocka_unit_test(test_refuses_variants_that_do_not_fit),
        cmocka_unit_test(test_failed_writes_leave_nothing),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
