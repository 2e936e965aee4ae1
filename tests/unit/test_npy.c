/* test_npy.c - .npy files: what is read and written, what is refused and in which words, and that no file, however
 * broken, does more than be refused. */
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cli/npy.h"
#include "runtime/numerics/convert.h"

/* A directory of the test's own; the test runs in it, so that paths in messages are short. */
static char scratch[256], start[4096];

static int enter(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/npy-XXXXXX", base ? base : "/tmp");
    return !getcwd(start, sizeof start) || !mkdtemp(scratch) || chdir(scratch);
}

static int leave(void **state)
{
    (void)state;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlink(e->d_name))
            rmdir(e->d_name);
    if (d)
        closedir(d);
    return chdir(start) || rmdir(scratch);
}

static int files_here(void)
{
    int n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* A file of version `major` with that dictionary, and `data` zero bytes. Returns its size. */
static size_t make(int major, const char *dictionary, size_t data, unsigned char out[1024])
{
    size_t prefix = major == 1 ? 10 : 12, length = strlen(dictionary);
    assert_true(prefix + length + data <= 1024);
    memset(out, 0, 1024);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[8] = (unsigned char)length;
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + prefix, dictionary, length);
    return prefix + length + data;
}

static void refuse_bytes(const void *bytes, size_t size, const char *message)
{
    struct npy a;
    struct gen_error err;
    char all[640];
    write_file("a.npy", bytes, size);
    assert_int_equal(npy_read("a.npy", &a, &err), -1);
    assert_null(a.data);
    snprintf(all, sizeof all, "a.npy: error: %s", message);
    assert_string_equal(err.text, all);
}

static void refuse(const char *dictionary, size_t data, const char *message)
{
    unsigned char bytes[1024];
    refuse_bytes(bytes, make(1, dictionary, data, bytes), message);
}

static struct npy accept(int major, const char *dictionary, size_t data)
{
    unsigned char bytes[1024];
    struct npy a;
    struct gen_error err;
    write_file("a.npy", bytes, make(major, dictionary, data, bytes));
    if (npy_read("a.npy", &a, &err))
        fail_msg("'%s' is refused: %s", dictionary, err.text);
    return a;
}

static void test_reads_all_versions_and_types(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        enum npy_type type;
        size_t size;
    } rows[] = {{"<f4", NPY_F32, 4}, {"<f2", NPY_F16, 2},  {"<u2", NPY_U16, 2}, {"<i4", NPY_I32, 4},
                {"<i8", NPY_I64, 8}, {"|b1", NPY_BOOL, 1}, {"|u1", NPY_U8, 1}};
    for (int major = 1; major <= 3; major++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char text[128];
            snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }   \n",
                     rows[i].descr);
            struct npy a = accept(major, text, 6 * rows[i].size);
            assert_int_equal(a.type, rows[i].type);
            assert_int_equal(a.dims, 2);
            assert_true(a.shape[0] == 2 && a.shape[1] == 3 && a.count == 6);
            assert_int_equal(a.size, 6 * rows[i].size);
            assert_int_equal((uintptr_t)a.data % 64, 0);
            npy_free(&a);
            npy_free(&a);
        }
}

static void test_reads_shapes_of_any_rank(void **state)
{
    (void)state;
    struct npy a = accept(1, "{\"shape\":(),\"descr\":\"<f4\",\"fortran_order\":False}", 4);
    assert_true(a.dims == 0 && a.count == 1);
    npy_free(&a);
    a = accept(1, "{'shape': (5,), 'fortran_order': False, 'descr': '<f4'}", 20);
    assert_true(a.dims == 1 && a.shape[0] == 5);
    npy_free(&a);
    a = accept(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 9000000000)}", 0);
    assert_true(a.dims == 3 && a.count == 0 && a.size == 0);
    npy_free(&a);
    a = accept(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1)}", 4);
    assert_true(a.dims == 8 && a.count == 1);
    npy_free(&a);
}

#define ORDER "'fortran_order': False, "
#define SIMPLE "expected bool, int8, uint8, uint16, int32, int64, float16 or float32, little-endian"
static void test_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    refuse("{'descr': '<c8', " ORDER "'shape': (1,)}", 8, "the type is '<c8'; " SIMPLE);
    refuse("{'descr': '<i2', " ORDER "'shape': (1,)}", 2, "the type is '<i2'; " SIMPLE);
    refuse("{'descr': '>f4', " ORDER "'shape': (1,)}", 4, "the type is '>f4'; " SIMPLE);
    refuse("{'descr': [('a', '<f4')], " ORDER "'shape': (1,)}", 4, "the type is not a simple one; " SIMPLE);
    refuse("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4,
           "the array is in Fortran order; expected C order (numpy.ascontiguousarray)");
    refuse("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "fortran_order is invalid; expected False");
    refuse("{'descr': '<f4', " ORDER "'shape': (1,1,1,1,1,1,1,1,1)}", 4,
           "the shape has more than 8 sides; expected at most that many");
    static const char *const shapes[] = {"(-1,)", "(1.5,)", "(3)", "3", "(,)", "(1,,2)", "(1 2)", "(1, 2", "(1L,)"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[128];
        snprintf(text, sizeof text, "{'descr': '<f4', " ORDER "'shape': %s}", shapes[i]);
        refuse(text, 8, "the shape is invalid; expected a tuple of sizes");
    }
}

static void test_refuses_broken_headers(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    refuse_bytes("", 0, "it is not a .npy file; expected it to start with \\x93NUMPY");
    refuse_bytes("PK\3\4 an archive of arrays", 25, "it is not a .npy file; expected it to start with \\x93NUMPY");
    refuse_bytes("\x93NUMPY", 6, "the file ends within its header; expected more bytes");
    size_t size = make(1, "{'descr': '<f4', " ORDER "'shape': (1,)}", 4, bytes);
    refuse_bytes(bytes, 30, "the file ends within its header; expected more bytes");
    bytes[6] = 4;
    refuse_bytes(bytes, size, ".npy version 4.0 is unknown; expected 1.0, 2.0 or 3.0");
    size = make(2, "{'descr': '<f4', " ORDER "'shape': (1,)}", 4, bytes);
    memset(bytes + 8, 0xff, 4);
    refuse_bytes(bytes, size, "its header has 4294967295 bytes; expected at most 65536");
    refuse("", 4, "the header is not a dictionary; expected {'descr': ..., 'fortran_order': ..., 'shape': ...}");
    refuse("{'descr': '<f4', 'shape': (1,)}", 4,
           "a key is missing from the header; expected descr, fortran_order and shape");
    refuse("{'descr': '<f4', 'descr': '<f4'}", 4,
           "the header has a key 'descr' twice; expected descr, fortran_order and shape, once each");
    refuse("{'descr': '<f4', 'colour': 1}", 4,
           "the header has a key 'colour' that is unknown; expected descr, fortran_order and shape, once each");
    refuse("{'descr': '<f4' " ORDER "}", 4, "the header is broken; expected a comma or }");
    refuse("{'descr' '<f4'}", 4, "the header is broken; expected a key and a colon");
    refuse("{'descr': '<f4', ", 4, "the header is broken; expected a key and a colon");
    refuse("{'descr': '<f4', " ORDER "'shape': (1,)} + 1", 4,
           "something follows the header's dictionary; expected spaces");
}

static void test_refuses_sizes_that_do_not_fit(void **state)
{
    (void)state;
    refuse("{'descr': '<f4', " ORDER "'shape': (2, 3)}", 20,
           "it holds 20 bytes of data; expected 24 for float32 [2, 3]");
    refuse("{'descr': '<f4', " ORDER "'shape': (2, 3)}", 28,
           "it holds 28 bytes of data; expected 24 for float32 [2, 3]");
    refuse("{'descr': '<f4', " ORDER "'shape': (1000000000000000,)}", 4,
           "it holds 4 bytes of data; expected 4000000000000000 for float32 [1000000000000000]");
    refuse("{'descr': '<f4', " ORDER "'shape': (99999999999999999999,)}", 4,
           "the shape overflows; expected sizes that fit in memory");
    refuse("{'descr': '<f4', " ORDER "'shape': (4294967296, 4294967296)}", 4,
           "the shape [4294967296, 4294967296] overflows; expected an array that fits in memory");
    refuse("{'descr': '<f4', " ORDER "'shape': (4294967296, 0, 4294967296)}", 0,
           "the shape [4294967296, 0, 4294967296] overflows; expected an array that fits in memory");
}

static void test_refuses_what_is_no_file(void **state)
{
    (void)state;
    struct npy a;
    struct gen_error err;
    assert_int_equal(npy_read("absent.npy", &a, &err), -1);
    assert_string_equal(err.text,
                        "absent.npy: error: it cannot be opened: No such file or directory; expected a .npy file");
    assert_int_equal(npy_read(".", &a, &err), -1);
    assert_string_equal(err.text, ".: error: it cannot be read: Is a directory; expected a .npy file");
    assert_int_equal(npy_read("/dev/null", &a, &err), -1);
    assert_string_equal(err.text, "/dev/null: error: it is not a .npy file; expected it to start with \\x93NUMPY");
    assert_int_equal(npy_read("/dev/zero", &a, &err), -1);
}

/* Every prefix of a good file, and thousands of damaged ones: refused, or read as an array that fits the file. */
static void test_no_damage_does_more_than_be_refused(void **state)
{
    (void)state;
    unsigned char good[1024], bytes[1024];
    struct npy a;
    struct gen_error err;
    size_t size = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }  \n", 96, good);
    for (size_t cut = 0; cut < size; cut++) {
        write_file("a.npy", good, cut);
        assert_int_equal(npy_read("a.npy", &a, &err), -1);
        assert_true(strlen(err.text) > 10);
    }
    uint64_t seed = 20240607;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const char alphabet[] = "{}()[]',:0123456789 \n<|fiub\"\\L-TrueFalse";
    int read = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        memcpy(bytes, good, size);
        int damages = 1 + (int)random_below(&seed, 4);
        for (int j = 0; j < damages; j++) {
            size_t at = (size_t)random_below(&seed, (int64_t)(size - 96));
            bool any = random_below(&seed, 3) == 0;
            bytes[at] = any ? (unsigned char)random_below(&seed, 256)
                            : (unsigned char)alphabet[random_below(&seed, sizeof alphabet - 1)];
        }
        /* The bytes of the header alone, in an allocation that ends with them, so that ASan sees a read beyond. */
        size_t room = 1 + (size_t)random_below(&seed, (int64_t)size);
        unsigned char *exact = malloc(room);
        assert_non_null(exact);
        memcpy(exact, bytes, room);
        int64_t data = npy_parse_header("x", exact, room, &a, &err);
        assert_true(data < 0 || (data <= (int64_t)room && a.dims <= NPY_DIMS_MAX && a.count >= 0));
        free(exact);
        if (i % 10)
            continue;
        write_file("a.npy", bytes, size);
        if (npy_read("a.npy", &a, &err)) {
            refused++;
        } else {
            assert_true(a.size <= size);
            read++;
        }
        npy_free(&a);
    }
    assert_true(read > 0 && refused > 0);
}

static struct npy ramp(int64_t n)
{
    struct npy a;
    struct gen_error err;
    assert_int_equal(npy_new("ramp", NPY_F32, 2, (int64_t[]){n, 3}, &a, &err), 0);
    for (int64_t i = 0; i < a.count; i++)
        ((float *)a.data)[i] = (float)i / 7;
    return a;
}

static void test_writes_what_it_reads(void **state)
{
    (void)state;
    struct npy a = ramp(5), b;
    struct npy_staged out;
    struct gen_error err;
    int before = files_here();
    const int64_t scalar[1] = {1}, seven[1] = {7};
    assert_int_equal(npy_stage("w.npy", &a, &out, &err), 0);
    assert_int_not_equal(access("w.npy", F_OK), 0); /* not before the commit */
    assert_int_equal(npy_commit(&out, 1, &err), 0);
    npy_discard(&out, 1);
    assert_int_equal(npy_read("w.npy", &b, &err), 0);
    assert_true(b.type == a.type && b.dims == 2 && b.shape[0] == 5 && b.shape[1] == 3);
    assert_memory_equal(a.data, b.data, a.size);
    npy_free(&a);
    npy_free(&b);
    for (int dims = 0; dims < 2; dims++) {
        assert_int_equal(npy_new("x", NPY_I64, dims, dims ? seven : scalar, &a, &err), 0);
        assert_int_equal(npy_stage("w.npy", &a, &out, &err), 0);
        assert_int_equal(npy_commit(&out, 1, &err), 0);
        npy_discard(&out, 1);
        assert_int_equal(npy_read("w.npy", &b, &err), 0);
        assert_true(b.dims == dims && b.count == (dims ? 7 : 1));
        npy_free(&a);
        npy_free(&b);
    }
    struct stat st;
    assert_int_equal(stat("w.npy", &st), 0);
    assert_int_equal(st.st_size % 64, 56); /* the data starts at a multiple of 64 */
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(files_here(), before + 1);
}

static void test_discard_leaves_nothing(void **state)
{
    (void)state;
    struct npy a = ramp(5);
    struct npy_staged out[2] = {{0}};
    struct gen_error err;
    int before = files_here();
    assert_int_equal(npy_stage("one.npy", &a, &out[0], &err), 0);
    assert_int_equal(npy_stage("absent/two.npy", &a, &out[1], &err), -1);
    assert_string_equal(err.text,
                        "absent/two.npy: error: it cannot be written: No such file or directory; expected a place "
                        "for the output");
    npy_discard(out, 2);
    assert_int_equal(files_here(), before);
    assert_int_equal(npy_stage(".", &a, &out[0], &err), -1);
    assert_string_equal(err.text, ".: error: it is a directory; expected a file to write");
    npy_discard(out, 2);
    npy_free(&a);
}

static void test_a_commit_that_fails_leaves_none(void **state)
{
    (void)state;
    struct npy a = ramp(5);
    struct npy_staged out[2] = {{0}};
    struct gen_error err;
    int before = files_here();
    assert_int_equal(npy_stage("one.npy", &a, &out[0], &err), 0);
    assert_int_equal(npy_stage("two.npy", &a, &out[1], &err), 0);
    assert_int_equal(mkdir("two.npy", 0700), 0); /* came in between; no file can be renamed to it */
    assert_int_equal(npy_commit(out, 2, &err), -1);
    assert_non_null(strstr(err.text, "two.npy: error: it cannot be written: Is a directory;"));
    npy_discard(out, 2);
    assert_int_equal(rmdir("two.npy"), 0);
    assert_int_equal(files_here(), before);
    npy_free(&a);
}

static void test_writes_through_links_and_into_devices(void **state)
{
    (void)state;
    struct npy a = ramp(2);
    struct npy_staged out;
    struct gen_error err;
    struct stat st;
    write_file("file.npy", "old", 3);
    assert_int_equal(symlink("file.npy", "link.npy"), 0);
    assert_int_equal(npy_stage("link.npy", &a, &out, &err), 0);
    assert_int_equal(npy_commit(&out, 1, &err), 0);
    npy_discard(&out, 1);
    assert_int_equal(lstat("link.npy", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat("file.npy", &st), 0);
    assert_true(st.st_size > 24);
    assert_int_equal(npy_stage("/dev/null", &a, &out, &err), 0);
    assert_int_equal(npy_commit(&out, 1, &err), 0);
    npy_discard(&out, 1);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    if (!access("/dev/full", W_OK)) {
        assert_int_equal(npy_stage("/dev/full", &a, &out, &err), 0);
        assert_int_equal(npy_commit(&out, 1, &err), -1);
        npy_discard(&out, 1);
    }
    npy_free(&a);
}

static void store_lengths(enum npy_type type, const int64_t *value, int64_t n)
{
    struct npy a;
    struct npy_staged out;
    struct gen_error err;
    assert_int_equal(npy_new("x", type, 1, &n, &a, &err), 0);
    for (int64_t i = 0; i < n; i++)
        if (type == NPY_I32)
            ((int32_t *)a.data)[i] = (int32_t)value[i];
        else
            ((int64_t *)a.data)[i] = value[i];
    assert_int_equal(npy_stage("lens.npy", &a, &out, &err), 0);
    assert_int_equal(npy_commit(&out, 1, &err), 0);
    npy_discard(&out, 1);
    npy_free(&a);
}

static void test_lengths(void **state)
{
    (void)state;
    struct gen_error err;
    int64_t *got = NULL;
    const int64_t good[3] = {0, 7, 9}, low[3] = {1, -1, 9}, high[3] = {1, 2, 10};
    for (int t = NPY_I32; t <= NPY_I64; t++) {
        store_lengths((enum npy_type)t, good, 3);
        assert_int_equal(npy_read_lengths("lens.npy", 3, 9, &got, &err), 0);
        assert_memory_equal(got, good, sizeof good);
        free(got);
        assert_int_equal(npy_read_lengths("lens.npy", 2, 9, &got, &err), -1);
        store_lengths((enum npy_type)t, low, 3);
        assert_int_equal(npy_read_lengths("lens.npy", 3, 9, &got, &err), -1);
        assert_string_equal(err.text, "lens.npy: error: length -1 at [1] is invalid; expected 0 to 9");
        store_lengths((enum npy_type)t, high, 3);
        assert_int_equal(npy_read_lengths("lens.npy", 3, 9, &got, &err), -1);
        assert_string_equal(err.text, "lens.npy: error: length 10 at [2] is invalid; expected 0 to 9");
    }
    store_lengths(NPY_I32, good, 3);
    assert_int_equal(npy_read_lengths("lens.npy", 4, 9, &got, &err), -1);
    assert_string_equal(err.text, "lens.npy: error: it is int32 [3]; expected int32 or int64 [4]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_all_versions_and_types),
        cmocka_unit_test(test_reads_shapes_of_any_rank),
        cmocka_unit_test(test_refuses_what_it_does_not_know),
        cmocka_unit_test(test_refuses_broken_headers),
        cmocka_unit_test(test_refuses_sizes_that_do_not_fit),
        cmocka_unit_test(test_refuses_what_is_no_file),
        cmocka_unit_test(test_no_damage_does_more_than_be_refused),
        cmocka_unit_test(test_writes_what_it_reads),
        cmocka_unit_test(test_discard_leaves_nothing),
        cmocka_unit_test(test_a_commit_that_fails_leaves_none),
        cmocka_unit_test(test_writes_through_links_and_into_devices),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
