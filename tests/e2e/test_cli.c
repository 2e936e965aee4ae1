/* test_cli.c - the command line as a whole: verbs, help, exit codes, and where words go. */
#define _GNU_SOURCE /* setenv */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "seed.h"
#include "shell.h"

static const char *const verbs[] = {"emit", "run", "tune", "bench", "verify", "cache", "devices", "explain",
                                    "report", "selftest"};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void expect(const char *command, int code, const char *out, const char *err)
{
    struct said said;
    shell(&said, "%s", command);
    assert_string_equal(said.err, err);
    assert_string_equal(said.out, out);
    assert_int_equal(said.code, code);
}

static void test_verbs(void **state)
{
    (void)state;
    struct said said;
    expect("\"$ATTNGEN\"", 2, "", "attngen: error: there is no verb; `attngen --help` lists them\n");
    expect("\"$ATTNGEN\" rnu", 2, "", "attngen: error: unknown verb 'rnu'; did you mean run?\n");
    expect("\"$ATTNGEN\" frobnicate", 2, "",
           "attngen: error: unknown verb 'frobnicate'; `attngen --help` lists them\n");
    expect("\"$ATTNGEN\" ''", 2, "", "attngen: error: unknown verb ''; `attngen --help` lists them\n");
    shell_ok(&said, "\"$ATTNGEN\" --version");
    unsigned long long hash = 0;
    int end = 0;
    assert_true(sscanf(said.out, "attngen %*d.%*d, templates %16llx%n", &hash, &end) == 1 && hash);
    assert_string_equal(said.out + end, "\n");
    for (int i = 0; i < 3; i++) { /* each names every verb */
        static const char *const documents[] = {"man", "bash", "zsh"};
        shell_ok(&said, "\"$ATTNGEN\" --document %s", documents[i]);
        for (int j = 0; j < VERBS; j++)
            assert_non_null(strstr(said.out, verbs[j]));
    }
    expect("\"$ATTNGEN\" --document html", 2, "",
           "attngen: error: --document html is unknown; expected man, bash or zsh\n");
    expect("\"$ATTNGEN\" --document", 2, "", "attngen: error: --document needs a word; expected man, bash or zsh\n");
    shell_ok(&said, "\"$ATTNGEN\" --help");
    for (int i = 0; i < VERBS; i++)
        assert_non_null(strstr(said.out, verbs[i]));
}

static void test_help_of_every_verb(void **state)
{
    (void)state;
    for (int i = 0; i < VERBS; i++) {
        struct said said;
        char usage[64];
        snprintf(usage, sizeof usage, "usage: attngen %s", verbs[i]);
        shell_ok(&said, "\"$ATTNGEN\" %s --help", verbs[i]);
        assert_true(!strncmp(said.out, usage, strlen(usage)));
        assert_non_null(strstr(said.out, "\noptions:\n"));
        assert_non_null(strstr(said.out, "\nexample:\n  attngen "));
        assert_non_null(strstr(said.out, "\nexit codes: 0 success; 1 "));
        for (const char *line = said.out; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            size_t size = strcspn(line, "\n");
            if (size > 120)
                fail_msg("%s --help has a line of %zu columns: %.*s", verbs[i], size, (int)size, line);
        }
    }
}

static void test_version_of_every_verb(void **state)
{
    (void)state;
    struct said program, said;
    shell_ok(&program, "\"$ATTNGEN\" --version");
    assert_non_null(strstr(program.out, ", templates "));
    for (int i = 0; i < VERBS; i++) {
        shell_ok(&said, "\"$ATTNGEN\" %s --version", verbs[i]);
        assert_string_equal(said.out, program.out);
    }
    shell_ok(&said, "\"$ATTNGEN_EMIT\" emit --version");
    assert_string_equal(said.out, program.out);
}

static void test_usage_errors_of_every_verb(void **state)
{
    (void)state;
    for (int i = 0; i < VERBS; i++) {
        char command[64], message[160];
        snprintf(command, sizeof command, "\"$ATTNGEN\" %s --no-such-option", verbs[i]);
        snprintf(message, sizeof message,
                 "attngen %s: error: unknown option '--no-such-option'\n`attngen %s --help` says more\n", verbs[i],
                 verbs[i]);
        expect(command, 2, "", message);
    }
    expect("\"$ATTNGEN\" run --dropout 0.1", 2, "",
           "attngen run: error: --dropout is not implemented yet\n`attngen run --help` says more\n");
    assert_int_equal(shell_files("."), 0);
}

static void test_emit_only_program(void **state)
{
    (void)state;
    struct said said;
    expect("\"$ATTNGEN_EMIT\" run", 2, "", "attngen: error: unknown verb 'run'; `attngen --help` lists them\n");
    shell_ok(&said, "\"$ATTNGEN_EMIT\" --help");
    assert_non_null(strstr(said.out, "  emit "));
    assert_null(strstr(said.out, "  run "));
}

static void test_devices(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, "\"$ATTNGEN\" devices");
    assert_true(!strncmp(said.out, "cpu  ", 5));
    assert_non_null(strstr(said.out, ": c"));
    const char *second = strchr(said.out, '\n') + 1; /* a line for each device, or one that says why there is none */
    assert_memory_equal(second, "opencl", 6);
    assert_true(said.out[strlen(said.out) - 1] == '\n');
    shell_ok(&said, "ATTNGEN_ISA=c \"$ATTNGEN\" devices");
    assert_non_null(strstr(said.out, ": c (not avx2: "));
    expect("\"$ATTNGEN\" devices all", 2, "",
           "attngen devices: error: 'all' is one word too many\n`attngen devices --help` says more\n");
}

static void test_output_that_cannot_be_written_is_a_failure(void **state)
{
    (void)state;
    struct said said;
    shell(&said, "test -w /dev/full");
    if (said.code)
        skip();
    expect("\"$ATTNGEN\" devices > /dev/full", 1, "", "attngen: error: cannot write to standard output\n");
}

/* Whatever comes from outside is printed without anything that a terminal obeys: a verb, an option, a file's name, a spec,
 * the header of an array, a cache. */
static void test_no_escape_reaches_the_terminal(void **state)
{
    (void)state;
#define ESCAPE "$(printf '\\033]0;x\\007\\033[2J')"
    static const char *const commands[] = {
        "\"$ATTNGEN\" " ESCAPE,
        "\"$ATTNGEN\" run --" ESCAPE,
        "\"$ATTNGEN\" run -q " ESCAPE " -k k -v v -o o",
        "\"$ATTNGEN\" bench --shape " ESCAPE,
        "\"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --device " ESCAPE,
        "\"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --dtype " ESCAPE,
        "\"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --variant " ESCAPE,
        "\"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --softcap " ESCAPE,
        "CC=" ESCAPE " \"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --compiler cc",
        "ATTNGEN_ISA=" ESCAPE " \"$ATTNGEN\" bench --shape 1,1,1,1,1,8 --time-limit 0.01; \"$ATTNGEN\" x",
        "\"$ATTNGEN\" emit --variant " ESCAPE " -o k",
        "\"$ATTNGEN\" emit " ESCAPE " -o k",
        "\"$ATTNGEN\" verify " ESCAPE,
        "\"$ATTNGEN\" cache import " ESCAPE,
        "\"$ATTNGEN\" cache " ESCAPE,
        "printf 'head_dim: \"\\\\e]0;x\\\\a\"' > s.yaml; \"$ATTNGEN\" emit s.yaml -o k",
        "printf '\"\\\\e]0;x\\\\n\": 3' > s.yaml; \"$ATTNGEN\" emit s.yaml -o k",
        "printf '\\223NUMPY\\001\\000\\050\\000{\\047\\033[2J\\047: 1}%28s' '' > a.npy; \"$ATTNGEN\" run -q a.npy -k k -v v -o o",
        "ATTNGEN_CACHE=" ESCAPE " \"$ATTNGEN\" cache show; \"$ATTNGEN\" x",
    };
#undef ESCAPE
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct said said;
        shell(&said, "%s", commands[i]);
        for (const char *c = said.out; *c; c++)
            if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
                fail_msg("%s: byte %d on stdout", commands[i], *c);
        for (const char *c = said.err; *c; c++)
            if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
                fail_msg("%s: byte %d on stderr", commands[i], *c);
        if (said.code == 0 || !said.err[0])
            fail_msg("%s: exit code %d, and said %s", commands[i], said.code, said.err);
    }
    shell_clean();
}

/* A message with what is asked for and what there is, instead of a process that the system ends. */
static void test_shapes_larger_than_memory(void **state)
{
    (void)state;
    struct said said;
    shell(&said, "\"$ATTNGEN\" bench --shape 1,1,1,1,2147483647,128");
    assert_int_equal(said.code, 1);
    assert_non_null(
        strstr(said.err, "attngen bench: error: the shape needs 2199.0 GB of memory (Q 0.0, K and V 2199.0, O 0.0), and "));
    assert_non_null(strstr(said.err, " GB are left; expected a smaller one\n"));
    shell(&said, "{ printf '\\223NUMPY\\001\\000\\166\\000'; printf '%%-118s' \"{'descr': '<f4', 'fortran_order': False, "
                 "'shape': (1, 1, 10000000000, 128)}\"; } > q.npy && truncate -s 5120000000128 q.npy && "
                 "\"$ATTNGEN\" run -q q.npy -k q.npy -v q.npy -o o.npy");
    assert_int_equal(said.code, 1);
    if (!strstr(said.err, "File too large")) /* of this file system */
        assert_non_null(strstr(said.err, "q.npy: error: it needs 5120.0 GB of memory, and "));
    shell_clean();
}

/* What a verb prints with --json, which must be one object on one line. For cJSON_Delete. */
static cJSON *object(const char *words)
{
    struct said said;
    shell_ok(&said, "\"$ATTNGEN\" %s --json", words);
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithOpts(said.out, &end, 0);
    assert_true(cJSON_IsObject(root));
    assert_string_equal(end, "\n");
    return root;
}

static int list_size(const cJSON *root, const char *key)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key);
    assert_true(cJSON_IsArray(list));
    return cJSON_GetArraySize(list);
}

static double number(const cJSON *root, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(root, key);
    assert_true(cJSON_IsNumber(value));
    return value->valuedouble;
}

static const char *text(const cJSON *root, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));
    assert_non_null(value);
    return value;
}

static void test_json_of_every_verb(void **state)
{
    (void)state;
    struct said said;
    cJSON *root = object("devices");
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "devices");
    assert_true(cJSON_GetArraySize(devices) >= 2);
    assert_string_equal(text(cJSON_GetArrayItem(devices, 0), "name"), "cpu");
    assert_non_null(strstr(text(cJSON_GetArrayItem(devices, 0), "description"), " c"));
    cJSON_Delete(root);

    shell_ok(&said, "printf 'head_dim: [32, 64]\nisa: c\n' > two.yaml");
    root = object("emit two.yaml --list");
    assert_int_equal(list_size(root, "kernels"), 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "directory")));
    cJSON_Delete(root);
    root = object("emit two.yaml -o two");
    assert_int_equal(list_size(root, "kernels"), 2);
    assert_string_equal(text(root, "directory"), "two");
    cJSON_Delete(root);

    root = object("verify two");
    assert_int_equal(list_size(root, "kernels"), 2);
    assert_true(number(root, "right") == 2 && number(root, "failed") == 0 && number(root, "skipped") == 0);
    const cJSON *kernel = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "kernels"), 1);
    assert_true(!strncmp(text(kernel, "kernel"), "attn_f32_d64_on_c_", 18));
    assert_string_equal(text(kernel, "state"), "right");
    assert_true(number(kernel, "error") <= number(kernel, "bound") && number(kernel, "shapes") > 0);
    cJSON_Delete(root);
    shell_ok(&said, "\"$ATTNGEN\" verify two --quiet");
    assert_string_equal(said.out, "");
    shell(&said, "sed -i s/.*// two/attn_f32_d32_*.c; \"$ATTNGEN\" verify two --json");
    assert_int_equal(said.code, 1);
    assert_non_null(strstr(said.out, ", \"state\": \"failed\"}"));
    assert_non_null(strstr(said.out, "\"right\": 1, \"failed\": 1, \"skipped\": 0}\n"));

    root = object("cache show");
    assert_int_equal(list_size(root, "entries"), 0);
    cJSON_Delete(root);
    shell_ok(&said, "\"$ATTNGEN\" tune two.yaml --shape 1,1,1,32,32,64 --threads 1 --time-limit 2 --quiet");
    assert_string_equal(said.out, "");
    root = object("cache show");
    assert_int_equal(list_size(root, "entries"), 1);
    const cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "entries"), 0);
    assert_string_equal(text(entry, "problem"), "attn_f32_d64");
    assert_true(number(entry, "ms") > 0 && number(entry, "known") > 0);
    assert_true(!strncmp(text(entry, "winner"), "attn_f32_d64_on_c_", 18));
    cJSON_Delete(root);
    static const char *const counts[][2] = {
        {"export tuned.txt", "exported"}, {"import tuned.txt", "imported"}, {"clear", "removed"}};
    for (int i = 0; i < 3; i++) {
        char words[64];
        snprintf(words, sizeof words, "cache %s", counts[i][0]);
        root = object(words);
        assert_true(number(root, counts[i][1]) == 1);
        cJSON_Delete(root);
    }
    cJSON_Delete(object("cache path"));
    shell_clean();
}

/* A spec that says no more than it must has kernels of all isas, and those of other devices are told of, not chosen. */
static void test_tune_shortest_spec(void **state)
{
    (void)state;
    static const char *const estimated[] = {"head_dim: 64", "head_dim: 64\ndtype: bf16", "head_dim: 128\ninvariant: true",
                                            "head_dim: 64\ndtype: {q: bf16, kv: fp8, o: bf16}"};
    struct said said;
    for (size_t i = 0; i < sizeof estimated / sizeof *estimated; i++) {
        shell(&said, "printf '%s\\n' > short.yaml; \"$ATTNGEN\" tune short.yaml --rigor estimate", estimated[i]);
        if (said.code != 0 || !strstr(said.out, ", by estimate; nothing was timed or stored"))
            fail_msg("%s: exits with %d and says %s%s", estimated[i], said.code, said.out, said.err);
    }
    shell_ok(&said, "printf 'head_dim: 32\nisa: [c, portable]\ntile: {q: 64, k: 64}\nmicro: {rows: 4, vecs: 2}\nunroll: 1\n"
                    "split: 0\n' > short.yaml; \"$ATTNGEN\" tune short.yaml --shape 1,1,1,32,32,32 --threads 1 --time-limit 60 "
                    "--why-not");
    assert_non_null(strstr(said.out, "winner attn_f32_d32_on_c_q64k64_r4x2u1"));
    assert_non_null(strstr(said.out, "is not for processors; `attngen devices` lists the devices that it is for"));
    shell_ok(&said, "\"$ATTNGEN\" cache clear");
    shell_clean();
}

static void test_explain(void **state)
{
    (void)state;
    static const char name[] = "attn_f32_d64_causal_on_c_q64k64_r4x2u1";
    struct said said;
    char words[128];
    shell_ok(&said, "\"$ATTNGEN\" explain %s", name);
    assert_non_null(strstr(said.out, "  tile.q       64         query rows in a tile\n"));
    assert_non_null(strstr(said.out, "  A tile of 64 queries by 64 keys takes 1048576 flops and "));
    assert_non_null(strstr(said.out,
                           "\non this machine\n  It can be used on cpu.\n  A tile's keys and values, 32768 bytes as they are "
                                     "stored, are "));
    assert_non_null(strstr(said.out, "\nin the cache\n  no entry knows this kernel\n"));
    shell_ok(&said, "printf 'head_dim: 64\ncausal: true\nisa: c\ntile: {q: 64, k: 64}\nmicro: {rows: 4, vecs: 2}\nunroll: 1\n"
                    "split: 0\n' > s.yaml; \"$ATTNGEN\" tune s.yaml --shape 1,1,1,32,32,64 --threads 1 --time-limit 60 --quiet");
    snprintf(words, sizeof words, "explain %s", name);
    cJSON *root = object(words);
    assert_string_equal(text(root, "variant"), name);
    assert_string_equal(text(cJSON_GetObjectItemCaseSensitive(root, "fields"), "isa"), "c");
    assert_true(list_size(root, "micro_kernels") > 3 && strstr(text(root, "follows"), "Workspace: "));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "here"), "usable")));
    assert_int_equal(list_size(root, "cache"), 1);
    const cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "cache"), 0);
    assert_true(number(entry, "timed") == 1 && number(entry, "rank") == 1 && number(entry, "of_winner") == 1);
    cJSON_Delete(root);
    shell_ok(&said, "\"$ATTNGEN\" explain %s", name);
    assert_non_null(strstr(said.out, "\n  batch,heads,lengths 1,1,1,32,32, threads 1, in "));
    assert_non_null(strstr(said.out, "rank 1 of 1 that were timed, with "));
    assert_non_null(strstr(said.out, " ms: the winner"));
    root = object("report -o page.html");
    assert_true(number(root, "entries") == 1 && number(root, "of_other_machines") == 0);
    cJSON_Delete(root);
    shell_ok(&said, "cat page.html");
    assert_true(!strncmp(said.out, "<!doctype html>", 15) && strstr(said.out, "</html>\n"));
    assert_non_null(strstr(said.out, "<code>attn_f32_d64_causal</code>"));
    assert_non_null(strstr(said.out, "<svg "));
    assert_null(strstr(said.out, "<script"));
    assert_null(strstr(said.out, "http")); /* nothing from elsewhere */
    shell(&said, "cp page.html before.html; trap '' XFSZ; ulimit -f 1; \"$ATTNGEN\" report -o page.html"); /* a full disk */
    assert_true(said.code == 1 && strstr(said.err, "page.html: error: File too large; expected a file to write the page to\n"));
    shell_ok(&said, "cmp page.html before.html; rm before.html");
    shell(&said, "ATTNGEN_CACHE=$PWD/empty \"$ATTNGEN\" report -o none.html; test -e none.html");
    assert_int_equal(said.code, 1);
    assert_non_null(strstr(said.err, "attngen report: error: the cache has no entry of this machine and version; expected one that "
                                     "`attngen tune` stored\n"));
    shell(&said, "\"$ATTNGEN\" report -o nowhere/page.html");
    assert_true(said.code == 1 && strstr(said.err, "nowhere/page.html: error: No such file or directory; expected a file"));
    cJSON_Delete(object("explain attn_bf16_d128_on_sm90_q128k128_pingpong_lazy"));
    shell_ok(&said, "\"$ATTNGEN\" explain attn_f32_d64_on_portable_q64k64_r4x2u4");
    assert_true(!strstr(said.out, "It can be used on opencl") || strstr(said.out, "\n  A work-group takes "));
    shell(&said, "\"$ATTNGEN\" explain attn_f32_d64_on_nowhere");
    assert_true(said.code == 1 && !strncmp(said.err, "variant 'attn_f32_d64_on_nowhere': error: ", 42));
    shell_ok(&said, "\"$ATTNGEN\" cache clear");
    shell_clean();
}

static void test_selftest(void **state)
{
    (void)state;
    struct said said;
    const cJSON *part;
    int right = 0;
    if (TEST_IS_SANITIZED) /* which sees no kernel: without it there are those of every instruction set */
        setenv("ATTNGEN_ISA", "c", 1);
    cJSON *root = object("selftest --device cpu --time-limit 0.1");
    assert_true(number(root, "failed") == 0 && number(root, "seed") > 0);
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(root, "parts"))
    {
        bool skipped = !strcmp(text(part, "state"), "skipped");
        right += !skipped;
        if (!skipped)
            assert_string_equal(text(part, "state"), "right");
        else
            assert_true(strlen(text(part, "reason")) > 0);
        if (!skipped && strcmp(text(part, "part"), "cache")) /* each feature at least, none and all */
            assert_true(number(part, "kernels") >= 11 && number(part, "problems") >= 22);
    }
    assert_true(right >= 3); /* plain C by tcc and by cc, and the cache */
    cJSON_Delete(root);
    unsetenv("ATTNGEN_ISA");
    shell(&said, "ATTN_SEED=7 TMPDIR=/nonexistent \"$ATTNGEN\" selftest --device reference");
    assert_int_equal(said.code, 1);
    assert_string_equal(said.out, "seed 7 (ATTN_SEED sets another)\n"
                                  "reference                skipped  it computes by the definition itself\n"
                                  "cache                    failed\n");
    assert_non_null(strstr(said.err, "attngen selftest: error: cache: "));
    assert_non_null(strstr(said.err, "; expected a place for a cache\n"));
    shell(&said, "\"$ATTNGEN\" selftest --device opencl:4711");
    assert_int_equal(said.code, 1);
    assert_non_null(strstr(said.out, "\nopencl:4711              failed\n"));
    assert_non_null(strstr(said.err, "attngen selftest: error: opencl:4711: this device cannot be used here: "));
}

static void test_what_excludes_each_other(void **state)
{
    (void)state;
    struct said said;
    static const char *const wrong[][2] = {
        {"tune --shape 1,1,1,1,1,64 --quiet --json", "--quiet excludes --json; expected one of them"},
        {"run -q q -k k -v v -o o --tolerance 1", "--tolerance is for --compare; expected both or neither"},
        {"run -q q -k k -v v -o o --compare c --tolerance -1", "--tolerance '-1' is invalid; expected a finite number, 0 or more"},
        {"emit s.yaml --json --why-not", "--json excludes --why-not; expected one of them"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        shell(&said, "\"$ATTNGEN\" %s", wrong[i][0]);
        assert_int_equal(said.code, 2);
        assert_non_null(strstr(said.err, wrong[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verbs),
        cmocka_unit_test(test_help_of_every_verb),
        cmocka_unit_test(test_version_of_every_verb),
        cmocka_unit_test(test_usage_errors_of_every_verb),
        cmocka_unit_test(test_emit_only_program),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_output_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(test_no_escape_reaches_the_terminal),
        cmocka_unit_test(test_shapes_larger_than_memory),
        cmocka_unit_test(test_json_of_every_verb),
        cmocka_unit_test(test_tune_shortest_spec),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_selftest),
        cmocka_unit_test(test_what_excludes_each_other),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
