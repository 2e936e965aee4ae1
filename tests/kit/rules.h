/* rules.h - rules of a template, each with a variant that breaks it. */
#ifndef ATTN_TESTS_RULES_H
#define ATTN_TESTS_RULES_H

#include <stddef.h>

#include "../../gen/gen.h"

/* A variant for each rule; it breaks that one first. */
struct rule_case {
    const char *rule;
    enum isa isa;
    struct {
        enum field_id field;
        int value;
    } set[8];
};
/* Every rule of the file has a case, and is what that variant is refused with; every case has a rule. */
void check_rules(const char *file, const struct rule_case *cases, size_t count);

#endif
