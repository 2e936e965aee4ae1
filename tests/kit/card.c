/* card.c - see card.h. */
#define _GNU_SOURCE
#include "card.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/embed.h"
#include "../../gen/micro.h"
#include "../../gen/template.h"
#include "child.h"
#include "clang.h"

void card_open(struct card *c, int least, int most)
{
    struct gen_error err = {0};
    cl_int code;
    *c = (struct card){0};
    int index = opencl_open(&c->cl, &err) == 0 ? opencl_find(c->cl, "opencl", &err) : -1;
    if (index < 0 || opencl_own(c->cl, index, &c->target, &err) != 0) {
        snprintf(c->why, sizeof c->why, "%.190s", err.text);
        return;
    }
    const struct opencl_device *d = opencl_target_device(c->target);
    if (d->capability < least || d->capability > most) {
        snprintf(c->why, sizeof c->why, "the first device, %s, has not the compute capability", d->name);
        c->target = NULL;
        return;
    }
    c->queue = c->cl->api.clCreateCommandQueue(c->target->context, c->target->device.id, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
}

void card_need(const struct card *c)
{
    if (c->target)
        return;
    print_message("# %s\n", c->why);
    skip();
}

void card_need_real(const struct card *c)
{
    card_need(c);
    if (!c->begin)
        return;
    print_message("# the card is emulated\n");
    skip();
}

void card_close(struct card *c)
{
    for (int i = 0; i < c->builds; i++)
        c->cl->api.clReleaseProgram(c->built[i]);
    if (c->queue)
        c->cl->api.clReleaseCommandQueue(c->queue);
    if (c->begin)
        rmdir(c->dir); /* an emulated card is nobody's to close */
    else
        opencl_close(c->cl);
}

int card_teardown(void **state)
{
    card_close(*state);
    return 0;
}

static int no_directive(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out, struct gen_error *err)
{
    (void)self, (void)env, (void)out, (void)err;
    return lex_fail(l, "unknown directive '%s'", word);
}

/* Shared memory that the template says it takes. */
static int64_t local_bytes(const struct env *env)
{
    for (int i = env->entries - 1; i >= 0; i--)
        if (!strcmp(env->entry[i].name, "LOCAL"))
            return env->entry[i].value.number;
    return 0;
}

/* As a card's own compiler would take it, as far as clang can tell. */
static void compile_alone(const char *text, size_t size)
{
    const char *const version[] = {"clang", "--version", NULL}, *tmp = getenv("TMPDIR");
    char path[2][200], said[1500];
    if (run_program(version, "/dev/null") != 0)
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%.150s/attn-parts-%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", i ? "log" : "text");
        const int file = mkstemp(path[i]);
        assert_true(file >= 0);
        if (i == 0)
            assert_int_equal(write(file, text, size), size);
        close(file);
    }
    const char *const arguments[] = {"-fsyntax-only", "-Werror", path[0], NULL};
    const int status = run_clang(arguments, path[1]);
    FILE *log = fopen(path[1], "r");
    said[log ? fread(said, 1, sizeof said - 1, log) : 0] = 0;
    if (log)
        fclose(log);
    unlink(path[0]);
    unlink(path[1]);
    if (status != 0)
        fail_msg("clang: exit %d: %s", status, said);
}

cl_program card_build(struct card *c, const char *text, size_t size, const struct variant *v, enum gpu_level level)
{
    struct arena arena = {0};
    struct env env = {.call = type_function};
    struct buf out = {0};
    struct gen_error err = {0};
    for (int f = 0; f < FIELD_COUNT; f++) {
        const enum field_id from = v->field[f] ? (enum field_id)f : field_first((enum field_id)f);
        env_set(&env, fields[f].var,
                fields[f].type == FIELD_NAME ? value_text(field_value_name(from, v->field[from])) : value_int(v->field[from]));
    }
    const struct template_host host = {NULL, no_directive};
    const struct template *t = template_parse(&arena, "parts", text, size, embedded_load, NULL, &err);
    if (!t || template_render(t, &env, &host, &out, &err) != 0 || !buf_ok(&out))
        fail_msg("%s", err.text);
    if (!c->target || c->begin)
        compile_alone(out.data, out.size);
    if (!c->target) {
        buf_free(&out);
        arena_free(&arena);
        return NULL;
    }
    if (c->begin)
        c->begin(v);
    const struct gpu_source source = {
        .name = "parts", .text = out.data, .size = out.size, .level = level, .local_bytes = local_bytes(&env)};
    assert_in_range(c->builds, 0, CARD_PROGRAMS - 1);
    cl_program program = c->built[c->builds] = opencl_build_program(c->target, &source, &err);
    if (!program)
        fail_msg("%s", err.text);
    c->builds++;
    buf_free(&out);
    arena_free(&arena);
    return program;
}

cl_program card_build_named(struct card *c, const char *text, size_t size, const char *name, enum gpu_level level,
                            struct variant *v)
{
    struct gen_error err = {0};
    if (variant_decode(name, v, &err) != 0)
        fail_msg("%s", err.text);
    return card_build(c, text, size, v, level);
}

cl_mem card_buffer(const struct card *c, const void *data, size_t size)
{
    cl_int code;
    cl_mem m = c->cl->api.clCreateBuffer(c->target->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, (void *)data, &code);
    assert_int_equal(code, CL_SUCCESS);
    return m;
}

void card_read(const struct card *c, cl_mem m, void *out, size_t size)
{
    assert_int_equal(c->cl->api.clEnqueueReadBuffer(c->queue, m, CL_TRUE, 0, size, out, 0, NULL, NULL), CL_SUCCESS);
    c->cl->api.clReleaseMemObject(m);
}

void card_run_groups(const struct card *c, cl_program program, const char *kernel, size_t groups, size_t items,
                     const struct card_argument *args, int count)
{
    const size_t all = groups * items;
    const struct opencl_api *api = &c->cl->api;
    cl_int code;
    cl_kernel k = api->clCreateKernel(program, kernel, &code);
    assert_int_equal(code, CL_SUCCESS);
    for (int i = 0; i < count; i++)
        assert_int_equal(api->clSetKernelArg(k, (cl_uint)i, args[i].size, args[i].value), CL_SUCCESS);
    assert_int_equal(api->clEnqueueNDRangeKernel(c->queue, k, 1, NULL, &all, &items, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(api->clFinish(c->queue), CL_SUCCESS);
    api->clReleaseKernel(k);
}

void card_run(const struct card *c, cl_program program, const char *kernel, size_t items, const struct card_argument *args,
              int count)
{
    card_run_groups(c, program, kernel, 1, items, args, count);
}
