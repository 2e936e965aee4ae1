/* rules.c - see rules.h. */
#include "rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "opened.h"

void check_rules(const char *file, const struct rule_case *cases, size_t count)
{
    const struct embedded_file *f = embedded_find(file);
    struct gen *g = open_gen();
    int line = 1;
    size_t met = 0;
    for (const char *at = f->data; *at; at = strchr(at, '\n') + 1, line++) {
        if (strncmp(at, "% assert ", 9))
            continue;
        const char *rule = strchr(at, ',') + 3;
        bool covered = false;
        while (rule[-1] != '"')
            rule = strchr(rule, ',') + 3;
        for (size_t i = 0; i < count; i++) {
            struct variant v = variant_default(cases[i].isa);
            struct gen_error err = {0};
            char expected[400];
            size_t size = strlen(cases[i].rule);
            if (strncmp(rule, cases[i].rule, size) || rule[size] != '"')
                continue;
            for (int k = 0; k < 8 && cases[i].set[k].field; k++)
                v.field[cases[i].set[k].field] = cases[i].set[k].value;
            snprintf(expected, sizeof expected, "%s:%d: error: %s", file, line, cases[i].rule);
            assert_int_equal(gen_check(g, &v, &err), -1);
            const size_t length = strlen(expected); /* behind it may be values, which test_values_found looks at */
            if (strncmp(err.text, expected, length) || (err.text[length] && strncmp(err.text + length, " (", 2)))
                fail_msg("expected '%s', found '%s'", expected, err.text);
            covered = true;
            met++;
        }
        if (!covered)
            fail_msg("%s: no variant here breaks the rule of line %d", file, line);
    }
    assert_int_equal(met, count);
    gen_close(g);
}
