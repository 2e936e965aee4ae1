/* test_widened.c - how isa sm80 widens E4M3 bit by bit (templates/opencl/ptx.narrow.t), for every code beside every other: the
 * function is cut out of its template, which has no hole there, and compiled for this processor. What it is not: the rest of what
 * narrow numbers go through, which kernel/test_emulated.c runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
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

#include "../../gen/embed.h"
#include "../kit/child.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"

typedef uint32_t function(uint32_t two);

static void write_source(const char *path)
{
    const char *text = embedded_find("opencl/ptx.narrow.t")->data, *begin = strstr(text, "INLINED uint widened_upper(");
    const char *end = begin ? strstr(begin, "\n}\n") : NULL;
    FILE *f = fopen(path, "w");
    assert_non_null(end);
    assert_non_null(f);
    fprintf(f, "typedef unsigned uint;\n#define INLINED\n%.*s\n}\n", (int)(end - begin), begin);
    assert_int_equal(fclose(f), 0);
}

static void test_every_code(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char dir[200], source[240], library[240];
    (void)state;
    snprintf(dir, sizeof dir, "%s/attn-widened-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(source, sizeof source, "%s/widened.c", dir);
    snprintf(library, sizeof library, "%s/widened.so", dir);
    write_source(source);
    const char *const argv[] = {"cc", "-shared", "-fPIC", "-o", library, source, NULL};
    assert_int_equal(run_program(argv, "/dev/null"), 0);
    void *handle = dlopen(library, RTLD_NOW);
    assert_non_null(handle);
    function *widened = NULL;
    *(void **)&widened = dlsym(handle, "widened_upper");
    assert_non_null(widened);
    for (uint32_t code = 0; code < 256; code++)
        for (uint32_t other = 0; other < 256; other++) { /* in the other half, and in the bytes that are not read */
            const uint8_t byte = (uint8_t)code;
            float want, got;
            narrow_load(DTYPE_FP8, &byte, 1, &want);
            for (int high = 0; high < 2; high++) {
                const uint32_t two =
                    high ? code << 24 | other << 16 | other << 8 | other : code << 8 | other << 24 | other << 16 | other;
                const uint16_t half = (uint16_t)(widened(two) >> 16 * high);
                got = dtype_load(DTYPE_F16, &half, 0) * 256;
                if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
                    fail_msg("code %u beside %u: %g; expected %g", code, other, (double)got, (double)want);
            }
        }
    dlclose(handle);
    const char *const clear[] = {"rm", "-rf", dir, NULL};
    run_program(clear, "/dev/null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_code)};
    return cmocka_run_group_tests_name("widened", tests, NULL, NULL);
}
