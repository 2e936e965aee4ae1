/* test_composites.c - every macro of every ISA table, in every lowering, against scalar models in double precision.
 * A macro without a model fails. Forms that round alike agree bit for bit; guard bytes lie behind every result.
 *     ATTN_SEED     where random inputs begin */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"
#include "composites.h"
#include "tables.h"

enum { UNITS = 64, SAMPLES = 1 << 17, GAP = 64, TOLD = 3, TIMEOUT = 300 };

struct unit {
    const struct composite *c;
    char name[32];
    enum dtype in, out;
    int rows, group, live; /* of every `group` vectors the first `live` are there */
};
struct bench {
    const struct isa_table *t;
    struct unit unit[UNITS];
    struct unrolled u[UNITS];
    int units;
};
struct suite {
    struct tables tables;
    struct bench bench[TABLES_MAX];
    struct batch batch[TABLES_MAX];
    char dir[200];
    uint64_t seed;
};
struct table_test {
    struct suite *s;
    int table;
};

static bool has_macro(const struct isa_table *t, const char *key)
{
    for (int i = 0; i < t->macros; i++)
        if (!strcmp(t->macro[i]->pattern.key, key))
            return true;
    return false;
}

static int add_some(struct tables *tables, int table, struct bench *b, const struct composite *c, enum dtype in,
                    enum dtype out, int rows, int group, int live, struct gen_error *err)
{
    struct buf text = {0};
    struct env env = {.entries = 0};
    struct unit *u = &b->unit[b->units];
    *u = (struct unit){.c = c, .in = in, .out = out, .rows = rows, .group = group, .live = live};
    snprintf(u->name, sizeof u->name, "%s_%s_%s_%d", c->name, dtypes[in].name, dtypes[out].name,
             live < group ? 100 * rows + live : rows);
    buf_printf(&text, "micro t(o: %s*, p: %s*)\n%s", dtypes[out].name, dtypes[in].name, c->text);
    env_set(&env, "MR", value_int(rows));
    env_set(&env, "R", value_int(group));
    env_set(&env, "LIVE", value_int(live));
    int result = buf_ok(&text) ? tables_unroll(tables, table, text.data, u->name, &env, &b->u[b->units], err) : -1;
    buf_free(&text);
    b->units += !result;
    return result;
}

static int add_unit(struct tables *tables, int table, struct bench *b, const struct composite *c, enum dtype in,
                    enum dtype out, int rows, struct gen_error *err)
{
    return add_some(tables, table, b, c, in, out, rows, rows, rows, err);
}

/* Whether table i has it of a base, which is tested by itself. */
static bool is_inherited(const struct tables *tables, int i, const struct composite *c)
{
    const struct isa_table *t = &tables->real[i];
    bool inherited = false;
    for (int k = 0; k < t->macros; k++) {
        if (c->key ? strcmp(t->macro_key[k], c->key) != 0 : !strstr(t->macro_key[k], c->name))
            continue;
        if (!tables_inherited(tables, i, t->macro[k]->place))
            return false;
        inherited = true;
    }
    return inherited;
}

/* The composite's forms in one table: by type or by number of rows. */
static int add_units(struct tables *tables, int table, struct bench *b, const struct composite *c,
                     struct gen_error *err)
{
    int width = b->t->width, counts[] = {1, 2, 3, 4, width / 2 + 1, width - 1, width}, result = 0;
    if (is_inherited(tables, table, c))
        return 0;
    if (!strcmp(c->name, "half")) /* of a block's first two bytes */
        return add_unit(tables, table, b, c, DTYPE_INT8, DTYPE_F32, 1, err);
    if (strstr(c->name, "columns"))
        return has_macro(b->t, c->key) && b->t->target
                   ? add_unit(tables, table, b, c, *c->name == 'p' ? DTYPE_BF16 : DTYPE_F16, DTYPE_F32, c->rows, err)
                   : 0;
    if (!strcmp(c->name, "together") || !strncmp(c->name, "shrunk", 6))
        return has_macro(b->t, c->key) && b->t->target
                   ? add_unit(tables, table, b, c, DTYPE_FP8, DTYPE_F32, c->rows, err)
                   : 0;
    if (!c->input) {
        bool widens = !strcmp(c->name, "widen");
        for (int d = 0; d < (widens ? (int)DTYPE_Q8_0 : (int)DTYPE_COUNT) && !result; d++)
            result = add_unit(tables, table, b, c, widens ? (enum dtype)d : DTYPE_F32,
                              widens ? DTYPE_F32 : (enum dtype)d, 1, err);
        return result;
    }
    if (!has_macro(b->t, c->key))
        return 0;
    if (c->rows >= 0)
        return add_unit(tables, table, b, c, strcmp(c->name, "parted") ? DTYPE_F32 : DTYPE_BF16, DTYPE_F32,
                        c->rows ? c->rows : width, err);
    for (size_t i = 0, most = 0; i < sizeof counts / sizeof *counts && !result; i++)
        if ((size_t)counts[i] > most) {
            most = (size_t)counts[i];
            result = add_unit(tables, table, b, c, DTYPE_F32, DTYPE_F32, counts[i], err);
        }
    for (int live = 3, group = 4; live < width && !strcmp(c->name, "sums") && !result; live++) {
        group *= live > group ? 2 : 1;
        result = live < group ? add_some(tables, table, b, c, DTYPE_F32, DTYPE_F32, width, group, live, err) : 0;
    }
    return result;
}

/* ---- one unit ---- */

struct run {
    const struct unit *u;
    int width, calls;
    size_t in_bytes, out_bytes, stride; /* of a call; calls' results lie apart */
    uint8_t *in, *out, *first;
};

static int open_run(struct run *r, const struct unit *u, int width, uint64_t seed)
{
    int per_call = u->rows * width;
    int64_t samples = u->c->input ? SAMPLES / (u->rows > 1 ? 4 : 1) : 4 * 65536 + 4096;
    *r = (struct run){.u = u, .width = width, .calls = (int)(samples / per_call)};
    r->in_bytes = (size_t)per_call * dtype_size(u->in);
    r->out_bytes = (size_t)(u->c->writes_rows ? per_call : width) * dtype_size(u->out);
    r->stride = r->out_bytes + GAP;
    r->in = malloc(r->in_bytes * (size_t)r->calls);
    r->out = malloc(r->stride * (size_t)r->calls + GAP);
    r->first = malloc(r->stride * (size_t)r->calls + GAP);
    if (!r->in || !r->out || !r->first)
        return -1;
    composite_inputs(u->c, u->in, u->out, width, seed, r->in, (int64_t)per_call * r->calls);
    return 0;
}

static void close_run(struct run *r)
{
    free(r->in);
    free(r->out);
    free(r->first);
}

static void call_all(const struct run *r, const struct lowered *f, int index)
{
    memset(r->out, 0xa5, r->stride * (size_t)r->calls + GAP);
    for (int i = 0; i < r->calls; i++) {
        int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)(r->out + GAP + r->stride * (size_t)i),
                                      (int64_t)(intptr_t)(r->in + r->in_bytes * (size_t)i)};
        lowered_call(f, index, args);
    }
}

static bool gap_is_whole(const uint8_t *gap)
{
    for (int i = 0; i < GAP; i++)
        if (gap[i] != 0xa5)
            return false;
    return true;
}

static bool same_elements(const struct run *r, const uint8_t *a, const uint8_t *b)
{
    int n = (int)(r->out_bytes / dtype_size(r->u->out));
    for (int i = 0; i < n; i++)
        if (memcmp(a + (size_t)i * dtype_size(r->u->out), b + (size_t)i * dtype_size(r->u->out),
                   dtype_size(r->u->out)) &&
            !(isnan(dtype_load(r->u->out, a, i)) && isnan(dtype_load(r->u->out, b, i))))
            return false;
    return true;
}

static int tell(const struct run *r, const struct bench *b, const char *form, const struct call *c, int l,
                const char *what)
{
    printf("# %s, %s as %s, lane %d: %s: in %.9g (%a), out %.9g (%a)\n", b->t->name, r->u->name, form, l, what,
           (double)call_in(c, l), (double)call_in(c, l), call_out(c, l), call_out(c, l));
    return 1;
}

static int judge(const struct run *r, const struct bench *b, const struct lowering *form, bool has_first)
{
    int wrong = 0;
    if (!gap_is_whole(r->out))
        wrong += printf("# %s, %s as %s writes in front of its result\n", b->t->name, r->u->name, form->name) > 0;
    for (int i = 0; i < r->calls && wrong < TOLD; i++) {
        const uint8_t *out = r->out + GAP + r->stride * (size_t)i, *first = r->first + GAP + r->stride * (size_t)i;
        struct call c = {r->u->c, r->u->in, r->u->out, r->in + r->in_bytes * (size_t)i, out, r->width,
                         r->u->rows, r->u->group, r->u->live};
        if (!gap_is_whole(out + r->out_bytes))
            wrong += tell(r, b, form->name, &c, 0, "writes beyond its result");
        for (int l = 0; l < r->width && wrong < TOLD; l++)
            if (!r->u->c->right(&c, l))
                wrong += tell(r, b, form->name, &c, l, "wrong");
        bool alike = has_first && (!(form->plain && r->u->c->rounds) || form->width == WIDE);
        if (alike && memcmp(out, first, r->out_bytes) && !same_elements(r, out, first))
            wrong += tell(r, b, form->name, &c, 0, "other bits than the first form's, in some lane");
    }
    return wrong;
}

static int check_unit(const struct suite *s, const struct bench *b, const struct batch *batch, int index)
{
    struct run r;
    int wrong = 0;
    bool has_first = false;
    if (open_run(&r, &b->unit[index], b->t->width, s->seed + (uint64_t)index))
        wrong = 1;
    for (int f = 0; f < LOWERINGS && !wrong; f++) {
        if (!batch->open[f])
            continue;
        call_all(&r, &batch->form[f], index);
        wrong += judge(&r, b, &lowerings[f], has_first);
        if (!has_first)
            memcpy(r.first, r.out, r.stride * (size_t)r.calls + GAP);
        has_first = true;
    }
    close_run(&r);
    return wrong != 0;
}

/* ---- the suite ---- */

static int check_table(void *arg)
{
    const struct table_test *test = arg;
    struct suite *s = test->s;
    struct gen_error err = {0};
    int failed = batch_open(&s->batch[test->table], s->dir, &err) != 0;
    if (failed)
        printf("# %s\n", err.text);
    for (int i = 0; i < s->bench[test->table].units && !err.text[0]; i++)
        failed += check_unit(s, &s->bench[test->table], &s->batch[test->table], i);
    batch_close(&s->batch[test->table]);
    return failed;
}

static void test_table(void **state)
{
    struct table_test *test = *state;
    const struct bench *b = &test->s->bench[test->table];
    char why[200] = "";
    for (int m = 0; m < b->t->macros; m++) {
        int model = 0;
        while (model < composite_count && strcmp(composites[model].key, b->t->macro[m]->pattern.key))
            model++;
        if (model == composite_count)
            fail_msg("%s:%d: macro '%s' has no model here", b->t->macro[m]->place.file, b->t->macro[m]->place.line,
                     b->t->macro[m]->pattern.key);
    }
    int failed = run_child(check_table, test, TIMEOUT, why, sizeof why);
    if (failed < 0)
        fail_msg("%s: %s", b->t->name, why);
    print_message("# %s: %d composites\n", b->t->name, b->units);
    assert_int_equal(failed, 0);
}

static void close_suite(struct suite *s)
{
    for (int t = 0; t < s->tables.count; t++)
        for (int i = 0; i < s->bench[t].units; i++)
            unrolled_free(&s->bench[t].u[i]);
    if (s->dir[0])
        batches_remove(s->dir);
    tables_close(&s->tables);
}

static int open_suite(struct suite *s)
{
    struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    memset(s, 0, sizeof *s);
    s->seed = test_seed();
    int failed = tables_open(&s->tables, &cpu, &err);
    for (int t = 0; t < s->tables.count && !failed; t++) {
        struct bench *b = &s->bench[t];
        b->t = &s->tables.real[t];
        for (int c = 0; c < composite_count && !failed; c++)
            failed = add_units(&s->tables, t, b, &composites[c], &err);
        s->batch[t] = (struct batch){.name = b->t->name, .u = b->u, .count = b->units, .why_not = s->tables.why_not[t]};
    }
    if (failed)
        printf("# %s\n", err.text);
    return failed ? -1 : batches_compile(s->batch, s->tables.count, s->dir);
}

int main(void)
{
    struct suite *s = malloc(sizeof *s);
    struct table_test state[TABLES_MAX];
    struct CMUnitTest tests[TABLES_MAX];
    if (!s || open_suite(s)) {
        printf("Bail out! no composites to test\n");
        return 1;
    }
    for (int t = 0; t < s->tables.count; t++) {
        state[t] = (struct table_test){s, t};
        tests[t] = (struct CMUnitTest){s->bench[t].t->name, test_table, NULL, NULL, &state[t]};
    }
    int failed = _cmocka_run_group_tests("composites", tests, (size_t)s->tables.count, NULL, NULL);
    close_suite(s);
    free(s);
    return failed;
}
