/* test_tcc.c - the JIT on hand-written sources: results, messages, page rights, threads, fork, strict W^X, no files. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../gen/buf.h"
#include "runtime/cpu/tcc.h"

/* What an emitted file looks like to the compiler, as little of it as shows that everything arrives: %s are the name,
 * the body of the kernel and the name. */
static const char prelude[] =
    "typedef long int64_t;\n"
    "void *memcpy(void *, const void *, unsigned long);\n"
    "void *memset(void *, int, unsigned long);\n"
    "struct attn_args { int64_t size; const void *q, *k, *v; void *o; float *lse; void *workspace;\n"
    "  int64_t batch, heads, kv_heads, q_len, kv_len, qs[3], ks[3], vs[3], os[3];\n"
    "  const int64_t *kv_lens; int64_t offset, bottom_right; float scale; int64_t part, parts;\n"
    "  void *shared; int64_t phase; const void *features; };\n";

static char *source_of(const char *name, const char *extra, const char *body)
{
    struct buf b = {0};
    buf_puts(&b, prelude);
    buf_puts(&b, extra);
    buf_printf(&b, "int %s(const struct attn_args *a) { %s }\n", name, body);
    buf_printf(&b, "int64_t %s_workspace(const struct attn_args *a) { return a->q_len * 4 + %d; }\n", name, 7);
    assert_true(buf_ok(&b));
    return b.data;
}

static char *big_source; /* for a child */

static const char scale_body[] = "if (a->size != sizeof *a) return 1;\n"
                                 "const float *q = a->q; float *o = a->o; float copy[64];\n"
                                 "memcpy(copy, q, sizeof copy); memset(o, 0, a->q_len * 4);\n"
                                 "for (int64_t i = 0; i < a->q_len; i++) o[i] = copy[i] * a->scale + a->part;\n"
                                 "return 0;";

static void check_scale(const struct kernel *k)
{
    float q[64], o[64];
    for (int i = 0; i < 64; i++)
        q[i] = (float)i - 20, o[i] = -1;
    struct attn_args a = {.size = sizeof a, .q = q, .o = o, .q_len = 60, .scale = 0.5f, .part = 3, .parts = 4};
    assert_int_equal(k->run(&a), 0);
    for (int i = 0; i < 64; i++)
        assert_true(o[i] == (i < 60 ? q[i] * 0.5f + 3 : -1));
    assert_int_equal(k->workspace(&a), 247);
    a.size--;
    assert_int_equal(k->run(&a), 1);
}

static void runs(void **state)
{
    (void)state;
    struct kernel k;
    struct gen_error err;
    char *source = source_of("scaled", "", scale_body);
    assert_int_equal(jit_compile(source, "scaled", &k, &err), 0);
    memset(source, 'x', strlen(source)); /* nothing of it is kept */
    free(source);
    assert_true(k.compile_ms > 0 && k.compile_ms < 60000);
    check_scale(&k);
    kernel_free(&k);
    kernel_free(&k);
    kernel_free(NULL);
}

/* Bytes between labels, aligned constants, a call from C: the shape of what micro-kernels are handed over in. */
static void takes_machine_code(void **state)
{
    (void)state;
    static const char extra[] = "int64_t micro(const void *);\n"
                                "__asm__(\".text\\n.p2align 6\\n.type micro,@function\\nmicro:\\n\"\n"
                                "\".byte 0x48,0x8b,0x05\\n.long constant-.-4\\n\" /* mov rax, [rip + constant] */\n"
                                "\".byte 0x48,0x03,0x07,0xc3\\n\" /* add rax, [rdi]; ret */\n"
                                "\".p2align 6\\nconstant:\\n.quad 1000\\n\");\n";
    struct kernel k;
    struct gen_error err;
    char *source = source_of("bytes", extra, "*(int64_t *)a->o = micro(a->q); return 0;");
    assert_int_equal(jit_compile(source, "bytes", &k, &err), 0);
    int64_t q = 234, o = 0;
    struct attn_args a = {.q = &q, .o = &o};
    assert_int_equal(k.run(&a), 0);
    assert_int_equal(o, 1234);
    kernel_free(&k);
    free(source);
}

static void errors_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *source, *name, *text; /* with the place of what it refuses, or it only failed */
    } cases[] = {
        {"int f(void) { return x; }\n", "f", "f.c:1: error: 'x' undeclared"},
        {"int f(void) {\n return 1;\n", "f", "f.c:3: error: identifier expected"},
        {"#include <stdint.h>\nint f(void) { return 0; }", "f", "f.c:1: error: include file 'stdint.h' not found"},
        {"int g(void); int f(void) { return g(); } long f_workspace(void) { return 0; }", "f",
         "f.c: error: undefined symbol 'g'"},
        {"double cos(double); double f(double x) { return cos(x); } long f_workspace(void) { return 0; }", "f",
         "f.c: error: undefined symbol 'cos'"},
        {"int f(void) { return 0; }", "f", "f.c: error: no function f_workspace; expected f and f_workspace"},
        {"long f_workspace(void) { return 0; }", "f", "f.c: error: no function f; expected f and f_workspace"},
        {"", "empty", "empty.c: error: no function empty; expected empty and empty_workspace"},
        {"int g(int *p) { return p; }\nint f(void) { return x; }\n", "f", "f.c:2: error: 'x' undeclared"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel k;
        struct gen_error err;
        memset(&k, 0xff, sizeof k);
        bool placed =
            strstr(cases[i].text, ".c:1:") || strstr(cases[i].text, ".c:2:") || strstr(cases[i].text, ".c:3:");
        assert_int_equal(jit_compile(cases[i].source, cases[i].name, &k, &err),
                         placed ? COMPILE_REFUSED : COMPILE_FAILED);
        if (strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("case %zu: '%s'; expected '%s'", i, err.text, cases[i].text);
        assert_null(k.run);
        assert_null(k.code);
        kernel_free(&k);
    }
}

/* The rights of every mapping between from and to; true when there was one and all were as expected. */
static int rights_are(const void *at, const char *expected)
{
    char line[512], rights[8];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && (uintptr_t)at >= from && (uintptr_t)at < to)
            found = strncmp(rights, expected, 3) == 0 ? 1 : -1;
    }
    fclose(maps);
    return found == 1;
}

static void code_is_read_only(void **state)
{
    (void)state;
    struct kernel k;
    struct gen_error err;
    char *source = source_of("scaled", "", scale_body);
    assert_int_equal(jit_compile(source, "scaled", &k, &err), 0);
    void *run;
    memcpy(&run, &k.run, sizeof run);
    assert_true(rights_are(run, "r-x"));
    void *code = k.code;
    kernel_free(&k);
    if (code)
        assert_false(rights_are(code, "r-x"));
    free(source);
}

/* Runs check in a child; returns its exit status, or -1 when it was killed. */
static int in_child(int (*check)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(check());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int compile_and_run(void)
{
    struct kernel k;
    struct gen_error err;
    int64_t o = 0;
    struct attn_args a = {.o = &o};
    char *source = source_of("child", "", "*(int64_t *)a->o = 42; return 0;");
    int result = jit_compile(source, "child", &k, &err);
    free(source);
    if (result != 0)
        return 10;
    result = k.run(&a) == 0 && o == 42 ? 0 : 11;
    kernel_free(&k);
    return result;
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
static int strict_compile(void)
{
    struct kernel k;
    struct gen_error err;
    char *source = source_of("probe", "", "return 0;");
    int result = jit_compile(source, "probe", &k, &err);
    bool theirs = k.owner != NULL;
    free(source);
    kernel_free(&k);
    if (result != 0)
        return 9;
    if (theirs)
        return 77;
    if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
        return 77;
    return compile_and_run();
}

/* Linux before 6.3 has no such setting; libtcc after 0.9.27 keeps the code where it breaks the rule. */
static void works_under_strict_w_xor_x(void **state)
{
    (void)state;
    int result = in_child(strict_compile);
    if (result == 77) {
        print_message("this system or this libtcc has no strict W^X: skipped\n");
        skip();
    }
    assert_int_equal(result, 0);
}

/* Any attempt to open a file kills the process. */
static int compile_or_die_opening(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 77;
    return compile_and_run();
}

static int open_or_die(void)
{
    int result = compile_or_die_opening();
    return result != 0 ? result : open("/dev/null", O_RDONLY) >= 0;
}

static void opens_no_file(void **state)
{
    (void)state;
    int result = in_child(compile_or_die_opening);
    if (result == 77) {
        print_message("this system lets no process filter its system calls: skipped\n");
        skip();
    }
    assert_int_equal(result, 0);
    assert_int_equal(in_child(open_or_die), -1); /* the filter does filter */
}

/* If the process may have no more descriptors there can be no memory file, and plain memory must do. */
static int compile_without_descriptors(void)
{
    struct rlimit none = {3, 3};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 12;
    return compile_and_run();
}

static void works_without_memory_files(void **state)
{
    (void)state;
    assert_int_equal(in_child(compile_without_descriptors), 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Allows ever more memory until there is enough; libtcc's own answer to a failed allocation would be to end the process. */
static int compile_in_ever_more_room(void)
{
    enum { STEP = 8192, MOST = 16 << 20 };
    int failed = 0;
    for (rlim_t room = 0; room < MOST; room += STEP) {
        struct rlimit limit = {address_space() + room, RLIM_INFINITY};
        struct kernel k;
        struct gen_error err = {0};
        int64_t o = 0;
        struct attn_args a = {.o = &o};
        setrlimit(RLIMIT_AS, &limit);
        int result = jit_compile(big_source, "big", &k, &err);
        limit.rlim_cur = RLIM_INFINITY;
        setrlimit(RLIMIT_AS, &limit);
        if (result == 0)
            return k.run(&a) == 0 && o == 42 && failed > 1 ? 0 : 11;
        failed++;
        if (!err.no_memory || strcmp(err.text, "jit: error: out of memory") != 0)
            return 12;
        malloc_trim(0);
    }
    return 13;
}

static void outlives_the_end_of_memory(void **state)
{
    (void)state;
    if (SANITIZED) /* which take more room than there is */
        skip();
    struct buf b = {0};
    for (int i = 0; i < 20000; i++)
        buf_printf(&b, "static int value_%d; /* a name that takes room */\n", i);
    big_source = source_of("big", b.data, "*(int64_t *)a->o = 42; return 0;");
    buf_free(&b);
    assert_int_equal(in_child(compile_in_ever_more_room), 0);
    free(big_source);
}

enum { COMPILES = 30 };
static void *compile_many(void *arg)
{
    int64_t *wrong = arg;
    for (int i = 0; i < COMPILES; i++) {
        char body[96], name[32];
        snprintf(name, sizeof name, "kernel_%d", i % 7);
        snprintf(body, sizeof body, "*(int64_t *)a->o = a->offset * %d + a->batch; return 0;", i + 2);
        char *source = source_of(name, "", body);
        struct kernel k;
        struct gen_error err;
        int64_t o = 0;
        struct attn_args a = {.o = &o, .offset = 100, .batch = i};
        *wrong += jit_compile(source, name, &k, &err) != 0 || k.run(&a) != 0 || o != 100 * (i + 2) + i;
        kernel_free(&k);
        struct kernel none; /* an error in between must leave the others alone */
        *wrong +=
            jit_compile("int f(void) { return x; }\n", "f", &none, &err) != COMPILE_REFUSED || !strstr(err.text, "'x'");
        free(source);
    }
    return NULL;
}

enum { THREADS = 4 };
static void works_from_several_threads(void **state)
{
    (void)state;
    pthread_t ids[THREADS];
    int64_t wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, compile_many, &wrong[i]), 0);
    for (int i = 0; i < 5 && !SANITIZED;
         i++) /* while the others are in the middle; sanitizers' heaps do not stand it */
        assert_int_equal(in_child(compile_and_run), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(wrong[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, so that threads meet a compiler that was never used. */
        cmocka_unit_test(outlives_the_end_of_memory), cmocka_unit_test(works_from_several_threads),
        cmocka_unit_test(runs),
        cmocka_unit_test(takes_machine_code),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(code_is_read_only),
        cmocka_unit_test(works_under_strict_w_xor_x),
        cmocka_unit_test(opens_no_file),
        cmocka_unit_test(works_without_memory_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
