/* test_context.c - what contexts share and what a system refuses: many of them cost little, come and go in threads, and
 * where no code can be made at run time a plan says so. What it is not: a test of plans (test_plan.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../kit/child.h"
#include "runtime/api/context.h"

static struct attn_context *new_context(void (*log)(void *user, attn_log_level level, const char *text), void *user)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = "", .log = log, .user = user};
    struct attn_context *c = NULL;
    struct attn_error err;
    if (attn_context_create(&options, &c, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return c;
}

static attn_status new_plan(struct attn_context *c, attn_compiler compiler, struct attn_plan **out,
                            struct attn_error *err)
{
    const struct attn_problem problem = {.size = sizeof problem, .head_dim = 16, .heads = 1, .kv_heads = 1,
                                         .max_batch = 1, .max_q_len = 4, .max_kv_len = 4, .compiler = compiler};
    return attn_plan_create(c, &problem, out, err);
}

/* Under sanitizers nothing is counted here; then nothing is noticed, and nothing fails. */
static void many_cost_little(void **state)
{
    enum { CONTEXTS = 300, MOST = 32 << 10 };
    (void)state;
    struct attn_context *c[CONTEXTS];
    c[0] = new_context(NULL, NULL);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 1; i < CONTEXTS; i++)
        c[i] = new_context(NULL, NULL);
    const size_t each = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / (CONTEXTS - 1);
    print_message("# %zu bytes a context\n", each);
    assert_in_range(each, 0, MOST);
    attn_context_destroy(c[0]); /* what is shared does not go with the one that was first */
    struct attn_plan *plan;
    struct attn_error err;
    if (new_plan(c[CONTEXTS - 1], ATTN_TCC, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    attn_plan_destroy(plan);
    for (int i = 1; i < CONTEXTS; i++)
        attn_context_destroy(c[i]);
}

static void *come_and_go(void *arg)
{
    for (int i = 0; i < 25; i++) {
        struct attn_context *c = NULL;
        struct attn_plan *plan = NULL;
        struct attn_error err;
        const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
        if (attn_context_create(&options, &c, &err) != ATTN_OK || new_plan(c, ATTN_TCC, &plan, &err) != ATTN_OK)
            *(int *)arg = 1;
        attn_plan_destroy(plan);
        attn_context_destroy(c);
    }
    return NULL;
}

static void threads_come_and_go(void **state)
{
    enum { THREADS = 4 };
    (void)state;
    pthread_t id[THREADS];
    int failed[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, come_and_go, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        assert_int_equal(failed[i], 0);
    }
}

/* ---- a system that lets no process make code ---- */

static void keep(void *user, attn_log_level level, const char *text)
{
    if (level == ATTN_LOG_WARNING)
        snprintf(user, 640, "%s", text);
}

/* Refuses code in memory that can be written or is shared; what is mapped from a file for itself alone, as by the
 * loader, may be code. */
static int refuse_new_code(void)
{
    const unsigned second = offsetof(struct seccomp_data, args[2]), third = offsetof(struct seccomp_data, args[3]);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED | MAP_ANONYMOUS, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0;
}

static int plan_without_new_code(void *arg)
{
    static const char advice[] = "expected one that does, or another compiler (ATTN_CC, --compiler cc)";
    char logged[640] = "";
    struct attn_context *c = new_context(keep, logged);
    struct attn_plan *plan;
    struct attn_error err = {""};
    (void)arg;
    if (refuse_new_code())
        return 77;
    if (new_plan(c, ATTN_TCC, &plan, &err) != ATTN_UNSUPPORTED || !strstr(err.text, advice))
        return 1;
    if (!strstr(logged, "no plan was created: ") || !strstr(logged, advice))
        return 2;
    if (new_plan(c, ATTN_CC, &plan, &err) != ATTN_OK)
        return 3;
    attn_plan_destroy(plan);
    attn_context_destroy(c);
    return 0;
}

static void says_what_helps_where_no_code_can_be_made(void **state)
{
    char why[100] = "";
    (void)state;
    int result = run_child(plan_without_new_code, NULL, 100, why, sizeof why);
    if (result == 77)
        skip();
    if (result != 0)
        fail_msg("%d %s", result, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_cost_little),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(says_what_helps_where_no_code_can_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
