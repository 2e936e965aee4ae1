/* test_embed.c - the embedded templates are the files under templates/, byte for byte, and the hash is theirs. Runs in
 * the repository's root. What it is not: what the templates mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/gen.h"

static void test_bytes(void **state)
{
    (void)state;
    assert_true(embedded_count > 0);
    for (int i = 0; i < embedded_count; i++) {
        const struct embedded_file *e = &embedded_files[i];
        char path[4096];
        assert_true(snprintf(path, sizeof path, "templates/%s", e->path) < (int)sizeof path);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        char *data = malloc(e->size + 1);
        assert_non_null(data);
        size_t size = fread(data, 1, e->size + 1, file);
        fclose(file);
        assert_int_equal(size, e->size);
        assert_memory_equal(data, e->data, size);
        assert_int_equal(e->data[size], 0);
        free(data);
    }
}

static void test_sorted(void **state)
{
    (void)state;
    for (int i = 1; i < embedded_count; i++)
        assert_true(strcmp(embedded_files[i - 1].path, embedded_files[i].path) < 0);
}

static void test_find(void **state)
{
    (void)state;
    for (int i = 0; i < embedded_count; i++)
        assert_ptr_equal(embedded_find(embedded_files[i].path), &embedded_files[i]);
    assert_non_null(embedded_find("c/args.h"));
    assert_null(embedded_find(""));
    assert_null(embedded_find("c"));
    assert_null(embedded_find("templates/c/args.h"));
    assert_null(embedded_find("~"));
}

static void test_hash(void **state)
{
    (void)state;
    assert_true(gen_hash() == embedded_hash);
    assert_true(embedded_hash != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
