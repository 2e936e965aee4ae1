/* test_emit_cli.c - the verb `emit` as it is called: what it prints, writes and leaves alone, and with which exit code.
 * What it is not: a test of the kernels' text. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "gen.h"
#include "runtime/cli/cli.h"
#include "templates/opencl/args.h"
#include "templates/opencl/split.h"

static const char name_a[] = "attn_f32_d32_on_avx2_q96k128_r6x2u2";
static const char name_b[] = "attn_f32_d32_causal_on_avx2_q96k128_r6x2u2";
static const char spec_ab[] = "head_dim: 32\ncausal: [false, true]\nisa: avx2\n";
/* Of these, the second asks for more accumulators than there are registers. */
static const char spec_half[] = "head_dim: 32\nisa: avx2\nmicro: {rows: [6, 32], vecs: [2]}\n";
static const char spec_none[] = "head_dim: 32\nisa: avx2\nmicro: {rows: [31, 32], vecs: 8}\n";

/* One call: what it printed, in memory. */
struct call {
    int code;
    char *out, *err;
};

struct room {
    char dir[200];
    char path[8][300]; /* spec files in it, by number */
};

static char *read_whole(const char *path)
{
    struct buf b = {0};
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_put(&b, part, n);
    buf_put(&b, "", 0);
    fclose(f);
    return b.data;
}

/* Runs the verb here, its output in files of the room: a sanitizer then sees what it leaves. */
static struct call call(const struct room *room, const char *const *words)
{
    char *argv[16] = {"emit"}, path[2][300];
    int argc = 1, saved[2];
    for (; *words; words++)
        argv[argc++] = strdup(*words);
    char *given[16];
    memcpy(given, argv, sizeof given);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/.output%d", room->dir, i);
        fflush(i ? stderr : stdout);
        saved[i] = dup(1 + i);
        int fd = open(path[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0 && saved[i] >= 0);
        dup2(fd, 1 + i);
        close(fd);
    }
    struct call result = {.code = cli_emit(argc, argv)};
    for (int i = 0; i < 2; i++) {
        fflush(i ? stderr : stdout);
        dup2(saved[i], 1 + i);
        close(saved[i]);
    }
    result.out = read_whole(path[0]);
    result.err = read_whole(path[1]);
    unlink(path[0]);
    unlink(path[1]);
    for (int i = 1; i < argc; i++)
        free(given[i]);
    return result;
}

static void call_free(struct call *c)
{
    free(c->out);
    free(c->err);
}

#define CALL(room, ...) call(room, (const char *const[]){__VA_ARGS__, NULL})

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int open_room(void **state)
{
    struct room *room = calloc(1, sizeof *room);
    const char *tmp = getenv("TMPDIR");
    snprintf(room->dir, sizeof room->dir, "%s/attngen-emit-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(room->dir))
        return -1;
    const char *const texts[] = {spec_ab, spec_half, spec_none, "head_dim: 0\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(room->path[i], sizeof room->path[i], "%s/s%zu.yaml", room->dir, i);
        write_file(room->path[i], texts[i]);
    }
    *state = room;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int close_room(void **state)
{
    struct room *room = *state;
    nftw(room->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(room);
    return 0;
}

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d)
        closedir(d);
    return d ? n : -1;
}

static void check_says(const char *text, const char *piece)
{
    if (!text || !strstr(text, piece))
        fail_msg("\"%s\" stands not in:\n%s", piece, text ? text : "(nothing)");
}

static void test_writes(void **state)
{
    struct room *room = *state;
    char dir[300], path[600], names[300];
    snprintf(dir, sizeof dir, "%s/a/b", room->dir);
    struct call c = CALL(room, room->path[0], "-o", dir);
    assert_string_equal(c.err, "");
    assert_int_equal(c.code, CLI_OK);
    assert_string_equal(c.out, "");
    call_free(&c);
    assert_int_equal(count_entries(dir), 3); /* two kernels, the manifest, and no leavings */
    snprintf(path, sizeof path, "%s/%s.c", dir, name_a);
    char *kernel = read_whole(path);
    check_says(kernel, name_a);
    struct gen *gen;
    struct gen_error err;
    struct gen_text text;
    struct variant v;
    assert_int_equal(gen_open(&gen, &err), 0);
    assert_int_equal(variant_decode(name_a, &v, &err), 0);
    assert_int_equal(gen_emit(gen, &v, GEN_READABLE, &text, &err), 0);
    assert_string_equal(kernel, text.data);
    gen_text_free(&text);
    gen_close(gen);
    free(kernel);

    snprintf(path, sizeof path, "%s/manifest.json", dir);
    char *manifest = read_whole(path);
    check_says(manifest, "{\"generator\": \"attngen\", ");
    snprintf(names, sizeof names, "\n{\"name\": \"%s\", \"file\": \"%s.c\", \"symbol\": \"%s\", "
             "\"machine_code\": false, \"fields\": {\"op\": \"attn\", \"dtype\": \"f32\", \"head_dim.qk\": 32, "
             "\"isa\": \"avx2\", \"tile.q\": 96, ", name_a, name_a, name_a);
    check_says(manifest, names);
    check_says(manifest, "\"causal\": true, ");
    assert_null(strstr(manifest, "\"causal\": false"));
    assert_null(strstr(manifest, "head_dim.v"));

    /* Of an isa that has intrinsics alone there is no machine code, and nothing is written. */
    c = CALL(room, "--variant", "attn_f32_d32_on_neon_q64k64_r4x4u4", "-o", dir, "--machine-code");
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "error: isa neon has no machine code; expected no --machine-code");
    call_free(&c);
    assert_int_equal(count_entries(dir), 3);

    /* Again, with machine code, over what is there. */
    c = CALL(room, room->path[0], "-o", dir, "--machine-code");
    assert_int_equal(c.code, CLI_OK);
    call_free(&c);
    assert_int_equal(count_entries(dir), 3);
    char *again = read_whole(path);
    check_says(again, "\"machine_code\": true");
    free(again);
    c = CALL(room, room->path[0], "-o", dir);
    call_free(&c);
    again = read_whole(path);
    assert_string_equal(again, manifest);
    free(again);
    free(manifest);
}

/* Element types and features in the manifest: what is there, and nothing of what is not. */
static void test_features(void **state)
{
    struct room *room = *state;
    char dir[300], path[600], spec[600];
    snprintf(dir, sizeof dir, "%s/features", room->dir);
    snprintf(spec, sizeof spec, "%s/features.yaml", room->dir);
    write_file(spec, "head_dim: 32\nisa: c\ndtype: {q: f32, kv: f16}\nwindow: true\nbias: bf16\n"
                     "paged: [true, false]\n");
    struct call c = CALL(room, spec, "-o", dir);
    assert_string_equal(c.err, "");
    assert_int_equal(c.code, CLI_OK);
    call_free(&c);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    char *manifest = read_whole(path);
    check_says(manifest, "\"attn_f32_kvf16_d32_window_biasbf16_paged_on_c_q64k64_r4x2u1\"");
    check_says(manifest, "\"fields\": {\"op\": \"attn\", \"dtype\": \"f32\", \"dtype.kv\": \"f16\", "
                         "\"head_dim.qk\": 32, \"window\": true, \"bias\": \"bf16\", \"paged\": true, \"isa\": ");
    check_says(manifest, "\"window\": true, \"bias\": \"bf16\", \"isa\": \"c\", ");
    static const char *const absent[] = {"dtype.o", "same", "softcap", "\"mask\"", "packed", "d\": false", "none"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(strstr(manifest, absent[i]));
    free(manifest);
    assert_int_equal(count_entries(dir), 3);
}

/* A second emit into a folder: one manifest of both, in which a kernel that is written again keeps its place, and one whose
 * file is gone is no longer named. */
static void test_merges(void **state)
{
    struct room *room = *state;
    static const char name_c[] = "attn_f32_d32_on_c_q64k64_r4x2u1";
    char dir[300], both[300], path[600];
    snprintf(dir, sizeof dir, "%s/merged", room->dir);
    snprintf(both, sizeof both, "%s/at-once", room->dir);
    const char *const one_by_one[] = {name_a, name_b, name_a};
    struct call c;
    for (int i = 0; i < 3; i++) {
        c = CALL(room, "--variant", one_by_one[i], "-o", dir);
        assert_string_equal(c.err, "");
        assert_int_equal(c.code, CLI_OK);
        call_free(&c);
    }
    assert_int_equal(count_entries(dir), 3);
    c = CALL(room, room->path[0], "-o", both);
    call_free(&c);
    snprintf(path, sizeof path, "%s/manifest.json", both);
    char *expected = read_whole(path);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    char *manifest = read_whole(path);
    assert_string_equal(manifest, expected);
    free(manifest);
    free(expected);

    snprintf(path, sizeof path, "%s/%s.c", dir, name_a);
    unlink(path);
    c = CALL(room, "--variant", name_c, "-o", dir);
    assert_string_equal(c.err, "");
    call_free(&c);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    manifest = read_whole(path);
    check_says(manifest, name_b);
    check_says(manifest, name_c);
    assert_null(strstr(manifest, name_a));
    free(manifest);
}

/* What a manifest cannot be merged with is told, and what no emit wrote is kept. */
static void test_leaves_behind(void **state)
{
    struct room *room = *state;
    char dir[300], path[600];
    snprintf(dir, sizeof dir, "%s/behind", room->dir);
    struct call c = CALL(room, "--variant", name_a, "-o", dir);
    assert_int_equal(c.code, CLI_OK);
    call_free(&c);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    write_file(path,
               "{\"generator\": \"attngen\", \"version\": \"0.0\", \"kernels\": [\n{\"name\": \"k\", \"file\": \"k.c\"}\n]}\n");
    c = CALL(room, "--variant", name_b, "-o", dir);
    assert_int_equal(c.code, CLI_OK);
    check_says(c.err, "manifest.json: warning: it is of version 0.0, or was changed by hand; these files stay, but are "
                      "no longer in it: k.c\n");
    call_free(&c);
    char *manifest = read_whole(path);
    check_says(manifest, name_b);
    assert_null(strstr(manifest, "k.c"));
    free(manifest);

    static const char *const others[] = {"{\"name\": \"my web page\"}\n", "[]", "", "{\"generator\": \"attngen\", "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_file(path, others[i]);
        c = CALL(room, "--variant", name_a, "-o", dir);
        assert_int_equal(c.code, CLI_FAILED);
        check_says(
            c.err,
            "manifest.json: error: it is not a manifest that emit wrote; expected one, or a directory without one");
        call_free(&c);
        manifest = read_whole(path);
        assert_string_equal(manifest ? manifest : "", others[i]);
        free(manifest);
    }
}

/* A slice has this many words of counters, which the manifest has as bytes. */
_Static_assert(4 * ATTN_CL_COUNTERS == 16, "the manifest says so");

/* What a build system or a host asks a manifest for. */
static void test_facts(void **state)
{
    struct room *room = *state;
    static const struct {
        const char *name, *says[3];
    } all[] = {
        {"attn_f32_d32_on_c_q64k64_r4x2u1",
         {"\"requires\": [], \"args\": \"struct attn_args\", \"workspace\": {\"function\": "
          "\"attn_f32_d32_on_c_q64k64_r4x2u1_workspace\"}, "}},
        {"attn_f32_d64_alibi_on_avx2_q64k16_r4x4u2_s2048",
         {"\"requires\": [\"avx2\", \"fma\", \"f16c\"], ", "\"features\": \"struct attn_features\", ",
          "_s2048_workspace\", \"bytes\": "}},
        {"attn_f32_d64_on_portable_q64k64_r4x2u4",
         {"\"requires\": [], \"args\": \"struct attn_cl_args\", \"tile\": [64, 64], \"local_size\": [8, 16, 1], ",
          "\"global_size\": [\"local_size[0] * ceil(q_len / tile[0])\", \"local_size[1] * heads\", "
          "\"local_size[2] * batch\"], ",
          "\"local_memory\": 34816, \"workspace\": {}, "}},
        {"attn_bf16_d64_on_sm80_q64k32_r16",
         {"\"requires\": [\"sm_80\"], ", "\"local_size[0] * ceil(q_len / tile[0]) * heads * batch\""}},
        {"attn_bf16_d128_on_sm90_q64k64_s2048",
         {"\"requires\": [\"sm_90a\"], ", "\"workspace\": {\"room\": \"128 + 512 * units\", \"done\": \"16 * slices * kv_heads",
          "\"parts\": \"4 * slices * kv_heads * batch * splits * part\"}, "}},
        {"attn_bf16_d64_on_amx_q512k1024_r32x4u4",
         {"\"amxtile\", \"amxbf16\", \"amxint8\"], ",
          "\"prepare\": {\"function\": \"attn_bf16_d64_on_amx_q512k1024_r32x4u4_prepare\"}, "}},
        {"matmul_bf16_of32_on_portable", {"\"args\": \"struct matmul_cl_args\", ", "\"local_size[2] * heads * batch\""}},
    };
    char dir[300], path[600];
    snprintf(dir, sizeof dir, "%s/facts", room->dir);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct call c = CALL(room, "--variant", all[i].name, "-o", dir);
        assert_string_equal(c.err, "");
        call_free(&c);
    }
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    char *manifest = read_whole(path);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *line = strstr(manifest, all[i].name), *end = line ? strchr(line, '\n') : NULL;
        assert_non_null(end);
        *end = 0;
        for (int k = 0; k < 3 && all[i].says[k]; k++)
            check_says(line, all[i].says[k]);
        *end = '\n';
    }
    free(manifest);
}

static void test_lists(void **state)
{
    struct room *room = *state;
    char expected[400];
    snprintf(expected, sizeof expected, "%s\n%s\n", name_a, name_b);
    int before = count_entries(room->dir);
    struct call c = CALL(room, "--list", room->path[0], room->path[0]); /* the second adds nothing new */
    assert_string_equal(c.out, expected);
    assert_int_equal(c.code, CLI_OK);
    call_free(&c);
    c = CALL(room, "--list", room->path[0], "--filter", "*_causal_*");
    snprintf(expected, sizeof expected, "%s\n", name_b);
    assert_string_equal(c.out, expected);
    call_free(&c);
    c = CALL(room, "--list", room->path[0], "--filter", "attn_f16_*");
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "no kernel's name matches --filter; expected");
    call_free(&c);
    c = CALL(room, "--list", "--variant", name_b);
    assert_string_equal(c.out, expected);
    call_free(&c);
    assert_int_equal(count_entries(room->dir), before);
}

static void test_why_not(void **state)
{
    struct room *room = *state;
    char dir[300];
    snprintf(dir, sizeof dir, "%s/half", room->dir);
    struct call c = CALL(room, room->path[1], "--why-not");
    assert_int_equal(c.code, CLI_OK);
    assert_ptr_equal(strstr(c.out, "attn_f32_d32_on_avx2_q96k128_r32x2u2: "), c.out);
    assert_null(strstr(c.out, name_a));
    call_free(&c);
    c = CALL(room, room->path[1], "-o", dir);
    assert_int_equal(c.code, CLI_OK);
    assert_string_equal(c.out, "");
    assert_string_equal(c.err, "");
    call_free(&c);
    assert_int_equal(count_entries(dir), 2);

    /* All of them: an error that tells the rules, and no directory. */
    snprintf(dir, sizeof dir, "%s/none", room->dir);
    c = CALL(room, room->path[2], "-o", dir);
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "attn_f32_d32_on_avx2_q96k128_r31x8u2: ");
    check_says(c.err, "attn_f32_d32_on_avx2_q96k128_r32x8u2: ");
    check_says(c.err, "rules reject every combination; expected");
    call_free(&c);
    c = CALL(room, room->path[2], "--why-not");
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.out, "attn_f32_d32_on_avx2_q96k128_r32x8u2: ");
    call_free(&c);
    c = CALL(room, "--variant", "attn_f32_d32_on_avx2_q96k128_r32x8u2", "-o", dir);
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "attn_f32_d32_on_avx2_q96k128_r32x8u2: ");
    call_free(&c);
    assert_int_equal(count_entries(dir), -1);
}

static void test_wrong_spec(void **state)
{
    struct room *room = *state;
    char dir[300], expected[400];
    snprintf(dir, sizeof dir, "%s/out", room->dir);
    struct call c = CALL(room, room->path[0], room->path[3], "-o", dir);
    assert_int_equal(c.code, CLI_FAILED);
    snprintf(expected, sizeof expected, "%s:1:11: error: head_dim is out of range: 0; expected ", room->path[3]);
    check_says(c.err, expected);
    call_free(&c);
    c = CALL(room, room->dir, "-o", dir);
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, ": error: it is a directory; expected a YAML file");
    call_free(&c);
    assert_int_equal(count_entries(dir), -1);
}

static void test_usage(void **state)
{
    struct room *room = *state;
    const char *const cases[][3] = {
        {"-o", "x", NULL},
        {"s.yaml", "--variant", name_a},
        {"--variant", "attn_f32", NULL},
        {"--filter", NULL, NULL},
        {"--lists", "s.yaml", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call c = CALL(room, cases[i][0], cases[i][1], cases[i][2]);
        assert_int_equal(c.code, CLI_USAGE);
        check_says(c.err, "error: ");
        assert_string_equal(c.out, "");
        call_free(&c);
    }
    struct call c = CALL(room, "--help");
    assert_int_equal(c.code, CLI_OK);
    assert_string_equal(c.err, "");
    check_says(c.out, "usage: attngen emit SPEC...");
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        check_says(c.out, fields[f].key);
    call_free(&c);
}

/* Where files cannot go, nothing is left behind. */
static void test_no_room(void **state)
{
    struct room *room = *state;
    char dir[300], path[600];
    struct call c = CALL(room, room->path[0], "-o", room->path[1]); /* a file */
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err,
               "s1.yaml: error: a file of that name exists; expected a directory, or a place where one can be created");
    call_free(&c);
    snprintf(path, sizeof path, "%s/below", room->path[1]);
    c = CALL(room, room->path[0], "-o", path);
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "below: error: Not a directory; expected");
    call_free(&c);
    snprintf(dir, sizeof dir, "%s/taken", room->dir); /* a directory has the first kernel's name */
    snprintf(path, sizeof path, "%s/taken/%s.c", room->dir, name_a);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    c = CALL(room, room->path[0], "-o", dir);
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, ".c: error: it cannot be written: Is a directory; expected");
    call_free(&c);
    assert_int_equal(count_entries(dir), 1);
    snprintf(path, sizeof path, "%s/locked", room->dir);
    assert_int_equal(mkdir(path, 0500), 0);
    if (geteuid()) { /* root writes everywhere */
        c = CALL(room, room->path[0], "-o", path);
        assert_int_equal(c.code, CLI_FAILED);
        check_says(c.err, "Permission denied");
        call_free(&c);
    }
    assert_int_equal(count_entries(path), 0);
}

/* PTX is the work of NVIDIA's driver: where there is one it is there, and else nothing is. */
static void test_ptx(void **state)
{
    struct room *room = *state;
    static const char name[] = "attn_bf16_d64_on_sm80_q64k32_r16";
    char dir[300], path[600];
    snprintf(dir, sizeof dir, "%s/p", room->dir);
    struct call c = CALL(room, room->path[0], "-o", dir, "--ptx");
    assert_int_equal(c.code, CLI_FAILED);
    check_says(c.err, "every kernel is in C; expected a kernel for a device");
    call_free(&c);
    c = CALL(room, "--variant", name, "-o", dir, "--ptx", "--language", "cuda", "--device", "opencl");
    assert_int_equal(c.code, CLI_USAGE);
    check_says(c.err, "--device is for the driver's own PTX; expected no --language cuda");
    call_free(&c);
    c = CALL(room, "--variant", name, "-o", dir, "--cubin", "--bundle", "b");
    assert_int_equal(c.code, CLI_USAGE);
    check_says(c.err, "--cubin is for CUDA C++; expected --language cuda too");
    call_free(&c);
    c = CALL(room, "--variant", name, "-o", dir, "--device", "opencl");
    assert_int_equal(c.code, CLI_USAGE);
    check_says(c.err, "--device is for --ptx; expected both or neither");
    call_free(&c);
    c = CALL(room, "--variant", name, "-o", dir, "--ptx", "--device", "cpu");
    assert_int_equal(c.code, CLI_USAGE);
    check_says(c.err, "--device cpu makes no PTX; expected opencl or opencl:N");
    call_free(&c);
    assert_int_equal(count_entries(dir), -1);

    c = CALL(room, "--variant", name, "-o", dir, "--ptx");
    if (c.code != CLI_OK) {
        assert_int_equal(c.code, CLI_FAILED);
        print_message("# %s", c.err);
        call_free(&c);
        assert_int_equal(count_entries(dir), -1);
        c = CALL(room, "--variant", name, "-o", dir, "--ptx", "--device", "opencl");
        assert_int_equal(c.code, CLI_FAILED);
        call_free(&c);
        assert_int_equal(count_entries(dir), -1);
        return;
    }
    call_free(&c);
    assert_int_equal(count_entries(dir), 3);
    snprintf(path, sizeof path, "%s/%s.ptx", dir, name);
    char *ptx = read_whole(path);
    check_says(ptx, "// attngen emit --variant attn_bf16_d64_on_sm80_q64k32_r16 --ptx\n");
    check_says(ptx, "\n.target sm_");
    check_says(ptx, ".entry attn_bf16_d64_on_sm80_q64k32_r16(");
    free(ptx);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    char *manifest = read_whole(path);
    check_says(manifest, "\"ptx\": \"attn_bf16_d64_on_sm80_q64k32_r16.ptx\"");
    free(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),     cmocka_unit_test(test_features),
        cmocka_unit_test(test_merges),     cmocka_unit_test(test_leaves_behind),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_lists),      cmocka_unit_test(test_why_not),
        cmocka_unit_test(test_wrong_spec), cmocka_unit_test(test_usage), cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_ptx),
    };
    return cmocka_run_group_tests(tests, open_room, close_room);
}
