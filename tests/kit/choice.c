/* choice.c - see choice.h. */
#include "choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/space.h"
#include "../../runtime/numeric.h"

enum { CALLER_FIELDS = 3 };

static struct variant variant_of(const struct choice *c, const int *row)
{
    struct variant v = variant_default(c->isa);
    v.field[F_DTYPE] = row[0];
    v.field[F_HEAD_DIM] = c->dims[row[1]][0];
    v.field[F_HEAD_DIM_V] = c->dims[row[1]][1] == c->dims[row[1]][0] ? 0 : c->dims[row[1]][1];
    v.field[F_CAUSAL] = row[2];
    for (int f = CALLER_FIELDS; f < c->fields; f++)
        v.field[c->id[f]] = c->value[f][row[f]];
    return v;
}

static bool can_be(void *arg, const int *row)
{
    const struct choice *c = arg;
    struct variant v = variant_of(c, row);
    struct gen_error err;
    char name[GEN_NAME_MAX];
    const char *filter = getenv("ATTN_FILTER");
    variant_encode(&v, name);
    return (!filter || strstr(name, filter)) && gen_check(c->gen, &v, &err) == 0 && (!c->fits || c->fits(c->arg, &v));
}

void choice_begin(struct choice *c)
{
    const int counts[CALLER_FIELDS] = {DTYPE_COUNT, c->dim_count, 2};
    memcpy(c->count, counts, sizeof counts);
    c->fields = CALLER_FIELDS;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_TUNING && f != F_ISA) {
            c->id[c->fields] = (enum field_id)f;
            c->count[c->fields] = tuning_choices((enum field_id)f, c->isa, c->value[c->fields]);
            c->fields++;
        }
}

/* For people to see: a whole dtype or dim that is rejected is no accident. */
static void print_unseen(const struct choice *c, const struct pairwise *p)
{
    const char *isa = field_value_name(F_ISA, c->isa);
    for (int x = 0; x < DTYPE_COUNT; x++)
        if (!p->seen[0][x])
            print_message("# %s: no kernel for %s\n", isa, field_value_name(F_DTYPE, x));
    for (int x = 0; x < c->dim_count; x++)
        if (!p->seen[1][x])
            print_message("# %s: no kernel for head dims %d, %d\n", isa, c->dims[x][0], c->dims[x][1]);
}

int choice_pairwise(const struct choice *c, uint64_t seed, int max, struct variant **out)
{
    int(*rows)[PAIRWISE_FIELDS] = calloc((size_t)max, sizeof *rows);
    struct pairwise p = {.fields = c->fields, .legal = can_be, .arg = (void *)c, .rows = rows, .max = max};
    *out = calloc((size_t)max, sizeof **out);
    assert_non_null(rows);
    assert_non_null(*out);
    memcpy(p.count, c->count, sizeof p.count);
    int count = pairwise_rows(&p, seed);
    for (int i = 0; i < count; i++) {
        int at = (int)random_below(&seed, i + 1);
        (*out)[i] = (*out)[at];
        (*out)[at] = variant_of(c, rows[i]);
    }
    free(rows);
    print_unseen(c, &p);
    return count;
}

int choice_all(const struct choice *c, struct variant **out)
{
    int row[PAIRWISE_FIELDS] = {0}, count = 0, room = 1;
    for (int f = 0; f < c->fields; f++)
        room *= c->count[f];
    *out = calloc((size_t)room, sizeof **out);
    assert_non_null(*out);
    for (;;) {
        if (can_be((void *)c, row))
            (*out)[count++] = variant_of(c, row);
        int at = c->fields - 1;
        while (at >= 0 && ++row[at] == c->count[at])
            row[at--] = 0;
        if (at < 0)
            return count;
    }
}
