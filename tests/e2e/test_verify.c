/* test_verify.c - the verb verify over what emit wrote, and over directories in which something was changed, replaced
 * or is missing: each has to be noticed and said. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../kit/devices.h"
#include "shell.h"

static void name_of(enum isa isa, enum dtype dtype, char name[GEN_NAME_MAX])
{
    struct variant v = variant_default(isa);
    v.field[F_DTYPE] = (int32_t)dtype;
    v.field[F_HEAD_DIM] = 40;
    v.field[F_CAUSAL] = 1;
    if (isa == ISA_AMX) /* as plain C, where a row costs as much as a tile of them */
        v.field[F_TILE_Q] = v.field[F_TILE_K] = 64;
    variant_encode(&v, name);
}

static void says(const struct said *said, int code, const char *out, const char *err)
{
    if (said->code != code || !strstr(said->out, out) || !strstr(said->err, err))
        fail_msg("exit %d\nstdout: %s\nstderr: %s", said->code, said->out, said->err);
}

/* An emitted directory k with one kernel of plain C. */
static void emit_one(char name[GEN_NAME_MAX])
{
    struct said said;
    name_of(ISA_C, DTYPE_F32, name);
    shell_ok(&said, "rm -rf k && \"$ATTNGEN\" emit --variant %s -o k > /dev/null", name);
}

static void test_what_emit_wrote_is_right(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int machine_code = 0; machine_code < 2 && isa_language((enum isa)isa) == LANGUAGE_C; machine_code++) {
            struct said said;
            char name[GEN_NAME_MAX], line[GEN_NAME_MAX + 32];
            if (machine_code && !isas[isa].machine_code)
                continue;
            name_of((enum isa)isa, isas[isa].pairs ? DTYPE_BF16 : DTYPE_F16, name);
            shell_ok(&said, "rm -rf k && \"$ATTNGEN\" emit --variant %s %s -o k > /dev/null", name,
                     machine_code ? "--machine-code" : "");
            shell(&said, "\"$ATTNGEN\" verify k");
            if (machine_code && strstr(said.out, "skipped")) {
                print_message("%s", said.out);
                assert_int_equal(said.code, 1); /* nothing could be checked */
                continue;
            }
            snprintf(line, sizeof line, "%s: ok (error ", name);
            says(&said, 0, line, "");
            assert_string_equal(said.err, "");
        }
    shell_clean();
}

static void test_opencl_kernels(void **state)
{
    (void)state;
    struct said said;
    char name[GEN_NAME_MAX], line[GEN_NAME_MAX + 64];
    name_of(ISA_PORTABLE, DTYPE_BF16, name);
    shell_ok(&said, "rm -rf k && \"$ATTNGEN\" emit --variant %s -o k > /dev/null", name);
    shell(&said, "\"$ATTNGEN\" verify k");
    snprintf(line, sizeof line, "%s: ok (error ", name);
    says(&said, 0, line, "");
    shell(&said, "OCL_ICD_VENDORS=/nonexistent \"$ATTNGEN\" verify k");
    snprintf(line, sizeof line, "%s: skipped: no platform has a device", name);
    says(&said, 1, line, "none of its kernels runs here");
    shell(&said, "sed -i.whole 's/Local memory: /&9999999/' k/%s.cl; \"$ATTNGEN\" verify k", name);
    snprintf(line, sizeof line, "%s: skipped: it needs 9999999", name);
    says(&said, 1, line, "none of its kernels runs here");
    shell(&said, "sed 's/1.44269504f/1.5f/' k/%s.cl.whole > k/%s.cl; \"$ATTNGEN\" verify k", name, name);
    says(&said, 1, ": failed", "wrong: error");
    shell(&said, "sed 's/wide && n >= 4/wide/' k/%s.cl.whole > k/%s.cl; \"$ATTNGEN\" verify k", name, name);
    says(&said, 1, ": failed", "crashed (Segmentation fault)"); /* reads behind V */
    shell(&said, "echo 'int x = ;' | cat k/%s.cl.whole - > k/%s.cl; \"$ATTNGEN\" verify k", name, name);
    says(&said, 1, ": failed", ".cl: error: compiling: ");
    shell_clean();
}

/* Every feature at once, in both languages and in machine code; and a kernel that gets one of them a little wrong. */
static void test_features(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "s/->window.0./& + 1/",         "s/->softcap/& * 1.1f/",
        "s/[a-z>-]*->slopes/0.5f * &/", "s/->bias_stride.1./->bias_stride[2]/",
        "s/->sinks.h/->sinks[0 * h/",   "s/->mask_stride.2./->mask_stride[1]/",
        "s/->kv_starts/->q_starts/",    "s/->page_stride/->page_size/",
    };
    static const char all[] =
        "head_dim: 40\ncausal: true\nwindow: true\nsoftcap: true\nbias: f16\nmask: true\nalibi: true\n"
        "sink: true\npacked: true\npaged: true\ndtype: {q: f32, kv: f16}\n";
    struct said said;
    shell_ok(&said, "printf '%sisa: [c, avx2, portable]\n' > all.yaml && \"$ATTNGEN\" emit all.yaml -o k > /dev/null",
             all);
    shell_ok(&said, "\"$ATTNGEN\" verify k > said && test $(grep -c ': ok (error ' said) = 3");
    shell_ok(&said, "\"$ATTNGEN\" emit all.yaml --machine-code --filter '*_avx2_*' -o m > /dev/null");
    shell(&said, "\"$ATTNGEN\" verify m");
    if (!strstr(said.out, "skipped"))
        says(&said, 0, ": ok (error ", "");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        shell_ok(&said, "rm -rf k && \"$ATTNGEN\" emit all.yaml --filter '*_on_c_*' -o k > /dev/null");
        shell(&said, "sed -i.right '%s' k/*.c && cmp -s k/*.c k/*.right", wrong[i]);
        if (said.code != 1)
            fail_msg("'%s' changes nothing", wrong[i]);
        shell(&said, "\"$ATTNGEN\" verify k");
        if (said.code != 1 || !strstr(said.out, ": failed"))
            fail_msg("'%s' is not noticed: %s%s", wrong[i], said.out, said.err);
    }
    shell_clean();
}

static void test_files_that_are_not_right(void **state)
{
    (void)state;
    struct said said;
    char name[GEN_NAME_MAX];
    emit_one(name);
    shell(&said, "sed -i '/attngen emit/d' k/%s.c; \"$ATTNGEN\" verify k", name);
    says(&said, 1, "", ".c: error: its header does not name this kernel; expected `attngen emit --variant ");
    emit_one(name);
    shell(&said,
          "sed -i 's/int64_t batch, heads, kv_heads;/int64_t batch, heads, kv_heads, more;/' k/%s.c; "
          "\"$ATTNGEN\" verify k",
          name);
    says(&said, 1, ": failed", "refused good arguments");
    emit_one(name);
    shell(&said, "echo 'int x = ;' >> k/%s.c; \"$ATTNGEN\" verify k", name);
    says(&said, 1, ": failed", "compiling");
    emit_one(name);
    shell(&said, "rm k/%s.c; \"$ATTNGEN\" verify k", name);
    says(&said, 1, "", ".c: error: No such file or directory; expected a file that emit wrote");
    shell_clean();
}

/* Replaces the kernel by one whose body is given; the header and the struct are right. */
static void replace(const char *name, const char *body)
{
    struct said said;
    shell_ok(&said,
             "{ echo '/* attngen emit --variant %s */'; echo '#include <stdint.h>'; cat \"$ROOT/templates/c/args.h\"; "
             "echo 'int64_t %s_workspace(const struct attn_args *a) { return a->size * 0; }'; "
             "echo 'int %s(const struct attn_args *a)'; "
             "echo '{ if (a->size != sizeof *a || a->part < 0 || a->part >= a->parts) return 1; %s return 0; }'; } > "
             "k/%s.c",
             name, name, name, body, name);
}

static void test_wrong_kernels(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "wrong: error inf"}, /* what is not written stays NaN */
        {"for (int64_t i = 0; i < a->batch * a->heads * a->q_len * 40; i++) ((float *)a->o)[i] = 0;", "wrong: error "},
        {"*(volatile float *)a->k = 0;", "crashed (Segmentation fault)"},
        {"*(volatile char *)0 = 0;", "crashed (Segmentation fault)"},
        {"return 1;", "refused good arguments"},
    };
    struct said said;
    char name[GEN_NAME_MAX];
    emit_one(name);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replace(name, cases[i][0]);
        shell(&said, "\"$ATTNGEN\" verify k");
        says(&said, 1, ": failed\n", cases[i][1]);
        says(&said, 1, "0 right, 1 failed, 0 skipped\n", "k/");
    }
    shell_clean();
}

/* Products and softmaxes apart; tune takes none. */
static void test_steps(void **state)
{
    static const struct {
        const char *name, *change, *says;
    } cases[] = {
        {"matmul_f32_on_portable", "s/p.scale [*]/2.0f */", "wrong by "},
        {"matmul_f32_on_portable", "s/x >= n/x > n/", "it wrote where no element is"},
        {"matmul_f32_on_portable_q8k8", "s/d < depth/d <= depth/", "wrong by inf"},
        {"softmax_f32_causal_on_portable_l4", "s/a.keys, a.offset/a.keys, 0L/", "wrong by "},
    };
    (void)state;
    struct said said;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[GEN_NAME_MAX];
        shell_ok(&said, "rm -rf k && \"$ATTNGEN\" emit --variant %s -o k > /dev/null", cases[i].name);
        if (i == 0) {
            snprintf(line, sizeof line, "%s: ok (error ", cases[i].name);
            shell(&said, "\"$ATTNGEN\" verify k");
            says(&said, 0, line, "");
        }
        shell(&said, "sed -i '%s' k/*.cl && \"$ATTNGEN\" verify k", cases[i].change);
        says(&said, 1, ": failed", cases[i].says);
    }
    shell(&said, "echo 'op: softmax' > s.yaml; \"$ATTNGEN\" tune s.yaml");
    says(&said, 1, "", "s.yaml: error: op softmax cannot be tuned, only emitted and verified; expected op attn");
    shell_clean();
}

static void test_manifests(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "k/manifest.json:1:1: error: it is not JSON"},
        {"{\"kernels\": [\\n  {]}", "k/manifest.json:2:"},
        {"{\"kernels\": []} x", "error: it is not JSON"},
        {"[]", "k/manifest.json: error: it has no list of kernels"},
        {"{\"kernels\": 3}", "k/manifest.json: error: it has no list of kernels"},
        {"{\"kernels\": []}", "k/manifest.json: error: it has no kernel; expected at least one"},
        {"{\"kernels\": [7]}", "error: kernel 0: it is incomplete; expected name, file and machine_code"},
        {"{\"kernels\": [{\"name\": \"x\", \"file\": \"x.c\", \"machine_code\": false}]}", "error: kernel 0: "},
        {"{\"kernels\": [{\"name\": \"%s\", \"file\": \"../%s.c\", \"machine_code\": false}]}", "do not match"},
    };
    struct said said;
    char name[GEN_NAME_MAX], text[600];
    name_of(ISA_C, DTYPE_F32, name);
    shell_ok(&said, "mkdir k");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strstr(cases[i][0], "%s"))
            snprintf(text, sizeof text,
                     "{\"kernels\": [{\"name\": \"%s\", \"file\": \"../%s.c\", \"machine_code\": false}]}", name, name);
        else
            snprintf(text, sizeof text, "%s", cases[i][0]);
        shell(&said, "printf '%s' > k/manifest.json; \"$ATTNGEN\" verify k", text);
        says(&said, 1, "", cases[i][1]);
    }
    shell(&said, "rm k/manifest.json; \"$ATTNGEN\" verify k");
    says(&said, 1, "", "k/manifest.json: error: No such file or directory; expected a file that emit wrote");
    shell(&said, "\"$ATTNGEN\" verify");
    says(&said, 2, "", "error: ");
    shell(&said, "mkfifo k/manifest.json; \"$ATTNGEN\" verify k < /dev/null & sleep 1; kill $! 2> /dev/null; wait $!");
    says(&said, 1, "", "k/manifest.json: error: it is not a regular file");
    shell_clean();
}

/* However large and wrong a manifest is, little is read and little printed, and no name in it reaches the terminal as it
 * is: a title, a colour, a line that looks like a verdict. */
static void test_hostile_manifests(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, "mkdir k && { printf '{\"kernels\": [7'; yes ',7' | head -n 200000 | tr -d '\\n'; printf ']}'; } "
                    "> k/manifest.json");
    shell(&said, "\"$ATTNGEN\" verify k 2> said; code=$?; wc -l < said; tail -n 1 said; exit $code");
    says(&said, 1, "21\nk/manifest.json: error: 199981 more kernels are wrong\n", "");
    shell_ok(&said, "{ printf '{\"kernels\": [7'; yes ',7' | head -n 2000000 | tr -d '\\n'; printf ']}'; } "
                    "> k/manifest.json");
    shell(&said, "\"$ATTNGEN\" verify k");
    says(&said, 1, "",
         "k/manifest.json: error: there are more than a million values; expected the manifest that emit writes\n");
    shell_ok(&said, "truncate -s 66M k/manifest.json");
    shell(&said, "\"$ATTNGEN\" verify k");
    says(&said, 1, "",
         "k/manifest.json: error: it is not a regular file, or larger than 16 MB; expected a file that emit wrote\n");
    shell_ok(&said, "printf '%%s' '{\"kernels\": [{\"name\": \"a\\u001b]0;b\\u0007\\nk: ok\\u009b\\u202e\", "
                    "\"file\": \"x.c\", \"machine_code\": false}]}' > k/manifest.json");
    shell(&said, "\"$ATTNGEN\" verify k");
    says(&said, 1, "", "error: kernel 0: ");
    says(&said, 1, "", "a\\x1b]0;b\\x07\\x0ak: ok\\xc2\\x9b\\xe2\\x80\\xae");
    assert_null(strchr(said.err, 27));
    shell_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_emit_wrote_is_right),
        cmocka_unit_test(test_opencl_kernels),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_files_that_are_not_right),
        cmocka_unit_test(test_wrong_kernels),
        cmocka_unit_test(test_manifests),
        cmocka_unit_test(test_hostile_manifests),
    };
    devices_compile_fast();
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
