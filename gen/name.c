/* name.c - a variant's name, from its fields and back: the table in fields.c says what it contains.
 *
 * Strict on purpose: one variant has one name, so a readable name that is not the one that encode writes is refused. */
#include "gen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool variant_shows(const struct variant *v, enum field_id f)
{
    int32_t value = v->field[f];
    uint32_t isa = (uint32_t)v->field[F_ISA], op = (uint32_t)v->field[F_OP];
    if (op < OP_COUNT && !field_of_op(f, (enum operation)op))
        return false;
    if (fields[f].paired && value == v->field[field_first(f)] + (fields[f].type == FIELD_NAME))
        return false;
    if (value == 0 && isa < ISA_COUNT && field_is_absent(f, (enum isa)isa))
        return false;
    if (op != OP_ATTN && fields[f].type == FIELD_NUMBER)
        return value != 0;
    if (fields[f].type != FIELD_BOOL && !fields[f].elide)
        return true;
    return value != field_default(f, isa < ISA_COUNT ? (enum isa)isa : ISA_C);
}

void variant_encode(const struct variant *v, char name[GEN_NAME_MAX])
{
    size_t n = 0;
    name[0] = 0;
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        if (!variant_shows(v, f))
            continue;
        char value[32] = "";
        if (fields[f].type == FIELD_NUMBER) {
            snprintf(value, sizeof value, "%d", v->field[f]);
        } else if (fields[f].type == FIELD_NAME) {
            const char *word = field_value_name(f, v->field[f]);
            snprintf(value, sizeof value, "%s", word ? word : "?");
        }
        int more = snprintf(name + n, GEN_NAME_MAX - n, "%s%s", fields[f].tag, value);
        if (more < 0 || (size_t)more >= GEN_NAME_MAX - n)
            return; /* cut; none of our tables comes near, and decode would refuse it */
        n += (size_t)more;
    }
}

/* Where decode is. */
struct reading {
    const char *name, *at;
    struct gen_error *err;
};

static int refuse(const struct reading *r, const char *expected)
{
    int column = (int)(r->at - r->name) + 1;
    if (*r->at)
        snprintf(r->err->text, sizeof r->err->text, "variant '%.*s': error: found '%.16s' at column %d; expected %s",
                 GEN_NAME_MAX, r->name, r->at, column, expected);
    else
        snprintf(r->err->text, sizeof r->err->text, "variant '%.*s': error: the name ends at column %d; expected %s",
                 GEN_NAME_MAX, r->name, column, expected);
    return -1;
}

/* What stands before a field's value is not there. */
static int refuse_tag(const struct reading *r, const struct field *field)
{
    char expected[96];
    snprintf(expected, sizeof expected, field->type == FIELD_NUMBER ? "%sN, where N is its %s" : "%s and its %s", field->tag,
             field->key);
    return refuse(r, expected);
}

static int read_number(struct reading *r, const struct field *field, int32_t *out)
{
    char expected[96];
    snprintf(expected, sizeof expected, "%s %d..%d", field->key, field->min, field->max);
    int64_t value = 0;
    int digits = 0;
    while (isdigit((unsigned char)r->at[digits]) && digits < 9)
        value = value * 10 + (r->at[digits++] - '0');
    if (!digits || r->at[0] == '0' || value < field->min || value > field->max)
        return refuse(r, expected);
    r->at += digits;
    *out = (int32_t)value;
    return 0;
}

static int read_word(struct reading *r, const struct field *field, int32_t *out)
{
    size_t best = 0;
    for (int32_t i = field->paired; field->names[i]; i++) { /* a paired field's 0 is not a word */
        size_t size = strlen(field->names[i]);
        if (size > best && !strncmp(r->at, field->names[i], size)) { /* avx512bf16 before avx512 */
            best = size;
            *out = i;
        }
    }
    if (!best) {
        char expected[160];
        size_t n = (size_t)snprintf(expected, sizeof expected, "its %s:", field->key);
        const char *separator = " ";
        for (int32_t i = field->paired; field->names[i] && n < sizeof expected; i++) {
            n += (size_t)snprintf(expected + n, sizeof expected - n, "%s%s", separator, field->names[i]);
            separator = field->names[i + 1] && !field->names[i + 2] ? " or " : ", ";
        }
        return refuse(r, expected);
    }
    r->at += best;
    return 0;
}

/* Reads one field; *found says whether it was there. */
static int read_field(struct reading *r, enum field_id f, const struct variant *v, int32_t *out, bool *found)
{
    const struct field *field = &fields[f];
    enum operation op = (enum operation)v->field[F_OP];
    size_t tag = strlen(field->tag);
    *found = field_of_op(f, op) && !strncmp(r->at, field->tag, tag);
    if (f < F_ISA && !strncmp(r->at, fields[F_ISA].tag, strlen(fields[F_ISA].tag)))
        *found = false; /* _on_ is no _o */
    bool elide = field->elide || (op != OP_ATTN && field->type == FIELD_NUMBER);
    if (elide && field->type == FIELD_NUMBER && *found && isalpha((unsigned char)r->at[tag]))
        *found = false; /* the beginning of a longer tag, such as _l of _lazy */
    if (!*found)
        return elide || field->type == FIELD_BOOL || !field_of_op(f, op) ||
                       field_is_absent(f, (enum isa)v->field[F_ISA])
                   ? 0
                   : refuse_tag(r, field);
    r->at += tag;
    if (field->type == FIELD_NUMBER)
        return read_number(r, field, out);
    return field->type == FIELD_NAME ? read_word(r, field, out) : 0;
}

/* The value of a field that left no trace, or, for a bool, of one that did. */
static int32_t implied(enum field_id f, bool found, const struct variant *v)
{
    int32_t fallback = v->field[F_OP] == OP_ATTN ? field_default(f, (enum isa)v->field[F_ISA]) : 0;
    return found ? !fallback : fallback;
}

/* A paired number that left no trace has the value of the one before it, which must be possible for it. */
static int check_pairs(struct reading *r, const struct variant *v)
{
    for (enum field_id f = 1; f < FIELD_COUNT; f++) {
        if (!fields[f].paired || fields[f].type != FIELD_NUMBER || v->field[f] || v->field[f - 1] <= fields[f].max)
            continue;
        snprintf(r->err->text, sizeof r->err->text,
                 "variant '%.*s': error: %s would be %d, which %s cannot be; expected %sN in it, N in %d..%d",
                 GEN_NAME_MAX, r->name, fields[f].key, v->field[f - 1], fields[f].key, fields[f].tag, fields[f].min,
                 fields[f].max);
        return -1;
    }
    return 0;
}

int variant_decode(const char *name, struct variant *out, struct gen_error *err)
{
    struct reading r = {.name = name, .at = name, .err = err};
    struct variant v = {{0}};
    bool found[FIELD_COUNT];
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        if (read_field(&r, f, &v, &v.field[f], &found[f]))
            return -1;
    if (*r.at)
        return refuse(&r, "the end");
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        if (!found[f] || fields[f].type == FIELD_BOOL)
            v.field[f] = implied(f, found[f], &v);
    if (check_pairs(&r, &v))
        return -1;
    char canonical[GEN_NAME_MAX];
    variant_encode(&v, canonical);
    if (strcmp(canonical, name)) { /* a default that is written out */
        size_t same = 0;
        while (name[same] == canonical[same])
            same++;
        r.at = name + same;
        char expected[GEN_NAME_MAX + 32];
        snprintf(expected, sizeof expected, "the default left out: %s", canonical);
        return refuse(&r, expected);
    }
    *out = v;
    return 0;
}

struct variant variant_default(enum isa isa)
{
    struct variant v;
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        v.field[f] = field_default(f, isa);
    v.field[F_ISA] = (int32_t)isa;
    return v;
}

const char *variant_suffix(const struct variant *v, enum gen_flags flags)
{
    if (flags == GEN_CUDA)
        return ".cu";
    return isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_OPENCL ? ".cl" : ".c";
}
