/* spec.c - see spec.h. Which keys there are, and what they take, is derived from the field table alone. */
#include "spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expand.h"
#include "hint.h"
#include "spec_words.h"
#include "yaml.h"

struct parse {
    struct yaml yaml;
    struct spec *spec;
    struct gen_error *err;
    const struct yaml_node *at[FIELD_COUNT]; /* where the values of each field are */
};

static bool is_nothing(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && !node->quoted &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

/* "expected ..." for a node that is not a value, or not one of that kind. */
static int refuse_kind(struct parse *p, const char *key, const struct yaml_node *node, const char *expected)
{
    char shown[48];
    if (is_nothing(node))
        return yaml_fail(&p->yaml, node, p->err, "%s has no value; expected %s", key, expected);
    if (node->kind == YAML_SCALAR)
        return yaml_fail(&p->yaml, node, p->err, "%s is %s'%s'; expected %s", key, node->quoted ? "the text " : "",
                         yaml_show(node->text, shown), expected);
    return yaml_fail(&p->yaml, node, p->err, "%s is a %s here; expected %s", key,
                     node->kind == YAML_LIST ? "list" : "mapping", expected);
}

/* Decimal digits, with one minus sign allowed so that -1 is out of range and not a word. Numbers that are too large
 * stop growing. */
static bool read_whole(const struct yaml_node *node, int64_t *out)
{
    const char *digits = node->text + (*node->text == '-');
    size_t n = strspn(digits, "0123456789");
    if (node->quoted || !n || digits[n] || (digits[0] == '0' && n > 1))
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < n && value < INT32_MAX; i++)
        value = value * 10 + (digits[i] - '0');
    *out = *node->text == '-' ? -value : value;
    return true;
}

static bool read_word(const struct field *field, const struct yaml_node *node, int32_t *out)
{
    for (int32_t i = field->paired; field->names[i]; i++) {
        if (!strcmp(node->text, field->names[i])) {
            *out = i;
            return true;
        }
    }
    return false;
}

static int read_value(struct parse *p, const struct field *field, const struct yaml_node *node, int32_t *out)
{
    struct words expected = expected_value(field);
    const char *value = field->type == FIELD_BOOL && !is_nothing(node) ? hint_run_value(field->key) : NULL;
    if (value)
        add_words(&expected, "; ", value);
    if (node->kind != YAML_SCALAR || is_nothing(node))
        return refuse_kind(p, field->key, node, expected.text);
    if (field->type == FIELD_NUMBER) {
        int64_t value = 0;
        char shown[48];
        if (!read_whole(node, &value))
            return refuse_kind(p, field->key, node, expected.text);
        if ((value < field->min || value > field->max) && (value || !field->or_none))
            return yaml_fail(&p->yaml, node, p->err, "%s is out of range: %s; expected %s", field->key,
                             yaml_show(node->text, shown), expected.text);
        *out = (int32_t)value;
        return 0;
    }
    if (field->type == FIELD_NAME) {
        if (read_word(field, node, out))
            return 0;
    } else if (!node->quoted) { /* the words of the core schema; YAML 1.1's yes, no, on and off are plain words to
                                 * others */
        static const char *const words[2][3] = {{"false", "False", "FALSE"}, {"true", "True", "TRUE"}};
        for (int i = 0; i < 6; i++) {
            if (!strcmp(node->text, words[i / 3][i % 3])) {
                *out = i / 3;
                return 0;
            }
        }
    }
    return refuse_kind(p, field->key, node, expected.text);
}

/* Adds values for f and the fields that belong with it. */
static int add_value(struct parse *p, enum field_id f, const int32_t *value, const struct yaml_node *node)
{
    int n = p->spec->field[f].count;
    unsigned width = together(f);
    for (int i = 0; i < n; i++) {
        bool same = true;
        for (unsigned w = 0; w < width; w++)
            same = same && p->spec->field[f + w].value[i] == value[w];
        if (same)
            return yaml_fail(&p->yaml, node, p->err, "%.*s has this value twice; expected each once",
                             width == 1 ? (int)strlen(fields[f].key) : (int)group_size(&fields[f]), fields[f].key);
    }
    if (n == SPEC_LIST_MAX)
        return yaml_fail(&p->yaml, node, p->err, "%s has more than %d values; expected fewer", fields[f].key, n);
    for (unsigned w = 0; w < width; w++) {
        struct spec_values *list = &p->spec->field[f + w];
        if (!(n & (n - 1))) { /* full at each power of two */
            int32_t *more = realloc(list->value, sizeof *more * (n ? 2 * (size_t)n : 1));
            if (!more)
                return yaml_fail(&p->yaml, NULL, p->err, "memory is out");
            list->value = more;
        }
        list->value[n] = value[w];
        list->count = n + 1;
        if (fields[f + w].or_none && !value[w]) { /* variants without the field come first */
            memmove(list->value + 1, list->value, (size_t)n * sizeof *list->value);
            list->value[0] = 0;
        }
    }
    return 0;
}

static int read_single(struct parse *p, enum field_id f, const struct yaml_node *node)
{
    int32_t value = 0;
    return read_value(p, &fields[f], node, &value) ? -1 : add_value(p, f, &value, node);
}

/* Each key of a mapping is known, so this list is short. */
static int refuse_twice(struct parse *p, const struct yaml_node *map, const struct yaml_node *entry)
{
    char shown[48];
    for (const struct yaml_node *c = map->child; c != entry; c = c->next)
        if (!strcmp(c->key->text, entry->key->text))
            return yaml_fail(&p->yaml, entry->key, p->err, "duplicate key '%s'; expected it once, and line %d has it",
                             yaml_show(entry->key->text, shown), c->key->line);
    return 0;
}

static int refuse_key(struct parse *p, const struct yaml_node *key)
{
    char shown[48];
    const char *where = hint_run_argument(key->text);
    if (where)
        return yaml_fail(&p->yaml, key, p->err,
                         "'%s' is no key of a spec: a kernel serves every value of it, and each call gives its own (%s); "
                         "expected it left out",
                         yaml_show(key->text, shown), where);
    struct words near = near_key(key->text);
    if (near.size)
        return yaml_fail(&p->yaml, key, p->err, "unknown key '%s'; did you mean %s?", yaml_show(key->text, shown),
                         near.text);
    return yaml_fail(&p->yaml, key, p->err, "unknown key '%s'; expected %s", yaml_show(key->text, shown),
                     top_keys().text);
}

/* Finds the member of first's mapping that a key names. */
static int find_member(struct parse *p, enum field_id first, const struct yaml_node *map, const struct yaml_node *entry,
                       enum field_id *out)
{
    char shown[48];
    for (enum field_id f = first; f < FIELD_COUNT && same_group(f, first); f++) {
        if (!strcmp(member_key(&fields[f]), entry->key->text)) {
            *out = f;
            return refuse_twice(p, map, entry);
        }
    }
    return yaml_fail(&p->yaml, entry->key, p->err, "unknown key '%s' in %.*s; expected %s",
                     yaml_show(entry->key->text, shown), (int)group_size(&fields[first]), fields[first].key,
                     member_keys(first).text);
}

/* One value for all of them. */
static int read_shared(struct parse *p, enum field_id f, const char *key, const char *expected,
                       const struct yaml_node *node, int32_t *out)
{
    int64_t number = 0;
    char shown[48];
    if (is_nothing(node))
        return refuse_kind(p, key, node, expected);
    if (fields[f].type == FIELD_NAME)
        return read_word(&fields[f], node, out) ? 0 : refuse_kind(p, key, node, expected);
    if (!read_whole(node, &number))
        return refuse_kind(p, key, node, expected);
    for (enum field_id i = f; i < f + together(f); i++)
        if (number < fields[i].min || number > fields[i].max)
            return yaml_fail(&p->yaml, node, p->err, "%s is out of range: %s; expected %s", key,
                             yaml_show(node->text, shown), expected);
    *out = (int32_t)number;
    return 0;
}

/* A mapping with a value for each; names that are left out are the first's, which is their default. */
static int read_members(struct parse *p, enum field_id f, const char *key, const char *expected,
                        const struct yaml_node *node, int32_t *out)
{
    bool found[FIELD_COUNT] = {false};
    for (const struct yaml_node *c = node->child; c; c = c->next) {
        enum field_id member;
        if (find_member(p, f, node, c, &member) || read_value(p, &fields[member], c, &out[member - f]))
            return -1;
        found[member] = true;
    }
    for (enum field_id i = f; i < f + together(f); i++) {
        const bool needed = fields[i].type == FIELD_NUMBER || (i == f && (fields[i].required || !node->child));
        if (!found[i] && i == f && !needed)
            out[0] = fields[i].fallback;
        if (!found[i] && needed)
            return yaml_fail(&p->yaml, node, p->err, "%s lacks %s; expected %s", key, member_key(&fields[i]), expected);
        if (i > f && out[i - f] == out[0] + (fields[i].type == FIELD_NAME))
            out[i - f] = 0; /* one variant has one name */
    }
    return 0;
}

/* head_dim: 64 or {qk: 64, v: 32}; dtype: f32 or {q: f32, kv: f16}. */
static int read_pair(struct parse *p, enum field_id f, const struct yaml_node *node)
{
    int32_t value[FIELD_COUNT] = {0};
    char key[32];
    struct words expected = expected_pair(f);
    snprintf(key, sizeof key, "%.*s", (int)group_size(&fields[f]), fields[f].key);
    if (node->kind == YAML_LIST)
        return refuse_kind(p, key, node, expected.text);
    int failed = node->kind == YAML_SCALAR ? read_shared(p, f, key, expected.text, node, value)
                                           : read_members(p, f, key, expected.text, node, value);
    return failed ? -1 : add_value(p, f, value, node);
}

typedef int read_fn(struct parse *p, enum field_id f, const struct yaml_node *node);

/* A scalar, or a list that is not empty. */
static int read_values(struct parse *p, enum field_id f, const struct yaml_node *node, read_fn *read)
{
    p->at[f] = node;
    if (node->kind != YAML_LIST)
        return read(p, f, node);
    if (!node->child)
        return yaml_fail(&p->yaml, node, p->err, "%.*s is an empty list; expected at least one value",
                         in_pair(f) ? (int)group_size(&fields[f]) : (int)strlen(fields[f].key), fields[f].key);
    for (const struct yaml_node *c = node->child; c; c = c->next)
        if (read(p, f, c))
            return -1;
    return 0;
}

/* tile: {q: ..., k: ...} */
static int read_group(struct parse *p, enum field_id first, const struct yaml_node *node)
{
    char key[32], expected[400];
    snprintf(key, sizeof key, "%.*s", (int)group_size(&fields[first]), fields[first].key);
    snprintf(expected, sizeof expected, "a mapping with %s, as in %s: {%s: %d}", member_keys(first).text, key,
             member_key(&fields[first]), field_default(first, ISA_C));
    if (node->kind != YAML_MAP)
        return refuse_kind(p, key, node, expected);
    if (!node->child)
        return yaml_fail(&p->yaml, node, p->err, "%s is empty; expected %s", key, expected);
    for (const struct yaml_node *c = node->child; c; c = c->next) {
        enum field_id f;
        if (find_member(p, first, node, c, &f) || read_values(p, f, c, read_single))
            return -1;
    }
    return 0;
}

static bool is_built(enum language language)
{
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (isa_language((enum isa)isa) == language)
            return true;
    return false;
}

static struct words built_languages(void)
{
    const char *names[LANGUAGE_COUNT + 1] = {NULL};
    for (int i = 0, n = 0; i < LANGUAGE_COUNT; i++)
        if (is_built((enum language)i))
            names[n++] = language_names[i];
    return one_of(names);
}

static int read_language(struct parse *p, const struct yaml_node *node)
{
    if (node->kind == YAML_LIST && !node->child)
        return yaml_fail(&p->yaml, node, p->err, "%s is an empty list; expected at least one value", language_key);
    memset(p->spec->language, 0, sizeof p->spec->language);
    for (const struct yaml_node *c = node->kind == YAML_LIST ? node->child : node; c; c = c->next) {
        int found = LANGUAGE_COUNT;
        for (int i = 0; c->kind == YAML_SCALAR && i < LANGUAGE_COUNT; i++)
            if (!strcmp(c->text, language_names[i]))
                found = i;
        if (found == LANGUAGE_COUNT)
            return refuse_kind(p, language_key, c, built_languages().text);
        if (!is_built((enum language)found))
            return yaml_fail(&p->yaml, c, p->err, "%s %s is no isa's; expected %s, and emit --language for others",
                             language_key, language_names[found], built_languages().text);
        if (p->spec->language[found])
            return yaml_fail(&p->yaml, c, p->err, "%s has this value twice; expected each once", language_key);
        p->spec->language[found] = true;
        if (node->kind != YAML_LIST)
            break;
    }
    return 0;
}

static int read_entry(struct parse *p, const struct yaml_node *root, const struct yaml_node *entry)
{
    const char *key = entry->key->text;
    if (!strcmp(key, language_key))
        return refuse_twice(p, root, entry) ? -1 : read_language(p, entry);
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        size_t size = group_size(&fields[f]);
        if (strncmp(key, fields[f].key, size) || key[size])
            continue;
        if (refuse_twice(p, root, entry))
            return -1;
        if (in_pair(f))
            return read_values(p, f, entry, read_pair);
        return member_key(&fields[f]) ? read_group(p, f, entry) : read_values(p, f, entry, read_single);
    }
    return refuse_key(p, entry->key);
}

/* An isa determines its language, so naming another language is a contradiction. */
static int check_language(struct parse *p)
{
    const struct spec_values *isas = &p->spec->field[F_ISA];
    const struct yaml_node *node = p->at[F_ISA];
    if (node && node->kind == YAML_LIST)
        node = node->child;
    for (int i = 0; i < isas->count; i++, node = node->next) {
        enum language language = isa_language((enum isa)isas->value[i]);
        if (!p->spec->language[language])
            return yaml_fail(&p->yaml, node, p->err,
                             "isa %s is of language %s, which the spec leaves out; expected "
                             "an isa of the spec's language",
                             field_value_name(F_ISA, isas->value[i]), language_names[language]);
    }
    for (int i = 0; i < p->spec->field[F_OP].count; i++)
        if (p->spec->field[F_OP].value[i] != OP_ATTN && !p->spec->language[LANGUAGE_OPENCL])
            return yaml_fail(&p->yaml, p->at[F_OP], p->err,
                             "op %s is of language opencl, which the spec leaves out; expected it there",
                             field_value_name(F_OP, p->spec->field[F_OP].value[i]));
    return 0;
}

/* Whether an operation of the spec has that field. */
static bool is_of_spec(const struct spec *s, enum field_id f)
{
    const struct spec_values *ops = &s->field[F_OP];
    bool found = ops->count == 0 && field_of_op(f, OP_ATTN);
    for (int i = 0; i < ops->count; i++)
        found = found || field_of_op(f, (enum operation)ops->value[i]);
    return found;
}

static struct words ops_of(enum field_id f)
{
    const char *names[OP_COUNT + 1] = {NULL};
    for (int op = 0, n = 0; op < OP_COUNT; op++)
        if (field_of_op(f, (enum operation)op))
            names[n++] = field_value_name(F_OP, op);
    return one_of(names);
}

static int check_whole(struct parse *p)
{
    double product = 1;
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        const struct spec_values *list = &p->spec->field[f];
        if (p->at[f] && !is_of_spec(p->spec, f))
            return yaml_fail(
                &p->yaml, p->at[f], p->err, "%.*s is of op %s, and the spec's is not; expected it left out",
                in_pair(f) ? (int)group_size(&fields[f]) : (int)strlen(fields[f].key), fields[f].key, ops_of(f).text);
        if (fields[f].required && !list->count && is_of_spec(p->spec, f))
            return yaml_fail(&p->yaml, p->yaml.root, p->err, "the spec has no %.*s; expected it, as in %.*s: %d",
                             (int)group_size(&fields[f]), fields[f].key, (int)group_size(&fields[f]), fields[f].key,
                             field_default(f, ISA_C));
        if (list->count && !fields[f].paired)
            product *= list->count;
    }
    if (product > SPEC_PRODUCT_MAX)
        return yaml_fail(&p->yaml, p->yaml.root, p->err,
                         "the lists multiply out to %.0f combinations; expected at most %d", product, SPEC_PRODUCT_MAX);
    return check_language(p);
}

static int read_root(struct parse *p)
{
    const struct yaml_node *root = p->yaml.root, start = {.line = 1, .col = 1};
    if (!root || is_nothing(root))
        return yaml_fail(&p->yaml, root ? root : &start, p->err, "the spec is empty; expected at least head_dim: 64");
    if (root->kind != YAML_MAP)
        return refuse_kind(p, "the spec", root, "a mapping of keys to values, as in head_dim: 64");
    for (const struct yaml_node *c = root->child; c; c = c->next)
        if (read_entry(p, root, c))
            return -1;
    return check_whole(p);
}

static int read_tree(struct parse *p)
{
    *p->spec = (struct spec){0};
    for (int i = 0; i < LANGUAGE_COUNT; i++)
        p->spec->language[i] = true;
    int rc = read_root(p);
    if (rc)
        spec_free(p->spec);
    yaml_close(&p->yaml);
    return rc;
}

int spec_read(const char *path, struct spec *out, struct gen_error *err)
{
    struct parse p = {.spec = out, .err = err};
    return yaml_open(path, &p.yaml, err) ? -1 : read_tree(&p);
}

int spec_parse(const char *name, const void *text, size_t size, struct spec *out, struct gen_error *err)
{
    struct parse p = {.spec = out, .err = err};
    return yaml_parse(name, text, size, &p.yaml, err) ? -1 : read_tree(&p);
}

void spec_free(struct spec *s)
{
    for (enum field_id f = 0; s && f < FIELD_COUNT; f++) {
        free(s->field[f].value);
        s->field[f] = (struct spec_values){0};
    }
}

/* "64", "c 64, avx2 96", "c 64, avx512/avx512bf16 128": one default, or one for each isa. */
static struct words default_value(enum field_id f)
{
    struct words w = {.text = ""};
    bool same = true;
    for (int isa = 1; isa < ISA_COUNT; isa++)
        same = same && field_default(f, (enum isa)isa) == field_default(f, (enum isa)0);
    if (fields[f].required || fields[f].paired) {
        add_words(&w, "", fields[f].required ? "none, it must be given" : member_key(&fields[field_first(f)]));
        return w;
    }
    bool joined = false; /* to the previous isa, whose default is the same */
    for (int isa = 0; isa < (same ? 1 : ISA_COUNT); isa++) {
        char one[64];
        int32_t value = field_default(f, (enum isa)isa);
        const char *word = fields[f].type == FIELD_BOOL ? (value ? "true" : "false") : field_value_name(f, value);
        if (word)
            snprintf(one, sizeof one, "%s", word);
        else
            snprintf(one, sizeof one, "%d", value);
        if (!same)
            add_words(&w, joined ? "/" : ", ", field_value_name(F_ISA, isa));
        joined = !same && isa + 1 < ISA_COUNT && field_default(f, (enum isa)(isa + 1)) == value;
        if (!joined)
            add_words(&w, same ? "" : " ", one);
    }
    return w;
}

void spec_document(struct buf *out)
{
    struct spec all = {.language = {false}};
    for (int i = 0; i < LANGUAGE_COUNT; i++)
        all.language[i] = true;
    buf_puts(out, "A spec is a YAML mapping. Each key takes a value or a list of them; the lists multiply\n"
                  "out in the order given here, the last one fastest. tile.q is written tile: {q: 64}.\n"
                  "One value of head_dim or of dtype stands for all its parts; apart they are written\n"
                  "head_dim: {qk: 192, v: 128} and dtype: {q: f32, kv: f16, o: f32}.\n"
                  "Keys are of op attn where they name no other. In others a number is left out by default,\n"
                  "and what it brings with it, and their isa is portable.\n");
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        struct words value = expected_value(&fields[f]), fallback = default_value(f);
        buf_printf(out, "  %-12s %s\n", fields[f].key, fields[f].doc);
        const char *text = f == F_ISA ? field_value_name(f, (int32_t)spec_default_isa(&all)) : fallback.text;
        bool wide = value.size + strlen(text) > 90; /* then the default stands below */
        buf_printf(out, wide ? "  %-12s   %s;\n  %-12s   default: %s\n" : "  %-12s   %s%.0s; default: %s\n", "",
                   value.text, "", text);
        for (int isa = 0; f == F_ISA && isa < ISA_COUNT; isa++)
            buf_printf(out, "  %-12s   %s: %s\n", "", isas[isa].name, isas[isa].doc);
        if (fields[f].ops && f != F_OP)
            buf_printf(out, "  %-12s   of op %s\n", "", ops_of(f).text);
    }
    buf_printf(out, "  %-12s %s\n", language_key, "which languages isa may be of");
    buf_printf(out, "  %-12s   %s; default: all\n", "", built_languages().text);
}
