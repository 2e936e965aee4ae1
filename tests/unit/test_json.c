/* test_json.c - what the verbs print as JSON can be parsed, whatever bytes a path or a message has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "runtime/cli/json.h"

static void text_is(const char *text, const char *expected)
{
    struct buf out = {0};
    json_text(&out, text);
    assert_true(buf_ok(&out));
    assert_string_equal(out.data, expected);
    buf_free(&out);
}

static void test_text(void **state)
{
    (void)state;
    text_is("", "\"\"");
    text_is("a/b c", "\"a/b c\"");
    text_is("\"\\", "\"\\\"\\\\\"");
    text_is("a\nb\x01", "\"a\\u000ab\\u0001\"");
    text_is("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    text_is("\xff", "\"?\"");
    text_is("\xc3", "\"?\"");         /* cut short by the end */
    text_is("\xe2\x82x", "\"??x\"");  /* cut short by another character */
    text_is("\x80\xc0\xaf", "\"???\""); /* stray, and an overlong slash */
}

static void number_is(double value, const char *expected)
{
    struct buf out = {0};
    json_number(&out, value);
    assert_string_equal(out.data, expected);
    buf_free(&out);
}

static void test_number(void **state)
{
    (void)state;
    number_is(0, "0");
    number_is(-1.5, "-1.5");
    number_is(1e-9, "1e-09");
    number_is(INFINITY, "null");
    number_is(NAN, "null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
