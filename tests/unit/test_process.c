/* test_process.c - other programs, as the runtime runs them: how they end, what they say, and what they get of us. What it
 * is not: the compiler (test_cc.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/system/process.h"

static void processes(void **state)
{
    (void)state;
    struct gen_error err = {0};
    char said[16];
    char *const hangs[] = {"sh", "-c", "echo before; sleep 60 & sleep 60", NULL};
    assert_int_equal(process_run(hangs, NULL, 0.3, said, sizeof said, &err), -1);
    assert_string_equal(err.text, "sh: error: took more than 0.3 seconds and was ended");
    assert_string_equal(said, "before\n");
    char *const leaves[] = {"sh", "-c", "echo hi; sleep 60 & exit 0", NULL}; /* somebody who holds the pipe open */
    assert_int_equal(process_run(leaves, NULL, 30, said, sizeof said, &err), 0);
    assert_string_equal(said, "hi\n");
    char *const killed[] = {"sh", "-c", "kill -11 $$", NULL};
    assert_int_equal(process_run(killed, NULL, 30, said, sizeof said, &err), -1);
    assert_string_equal(err.text, "sh: error: was ended by signal 11");
    char *const talks[] = {"sh", "-c", "yes | head -n 100000; exit 3", NULL}; /* more than fits */
    assert_int_equal(process_run(talks, NULL, 30, said, sizeof said, &err), -1);
    assert_string_equal(err.text, "sh: error: exited with status 3");
    assert_string_equal(said, "y\ny\ny\ny\ny\ny\ny\ny");
    char *const mute[] = {"sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4", NULL};
    assert_int_equal(process_run(mute, NULL, 30, said, sizeof said, &err), -1);
    assert_string_equal(err.text, "sh: error: exited with status 4");
    char *const files[] = {"sh", "-c", "ls /proc/self/fd | wc -l; cat", NULL}; /* 0, 1, 2 and ls's own; no input */
    int extra = dup(0);
    assert_int_equal(process_run(files, NULL, 30, said, sizeof said, &err), 0);
    close(extra);
    assert_string_equal(said, "4\n");
}

static void spin(void)
{
    for (volatile unsigned long i = 0;; i++)
        ;
}
static void wait_in_vain(void)
{
    raise(SIGALRM); /* as the clock would, later */
}
static void crash(void)
{
    raise(SIGSEGV);
}

/* A child that hangs is told from one that crashes, and what it did is said. */
static void children(void **state)
{
    (void)state;
    static const struct {
        void (*work)(void);
        const char *why;
    } cases[] = {{spin, "it took more than 1 s of the processor"}, {wait_in_vain, "it did not end within 5 s"}, {crash, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[80] = "";
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            process_end_if_hanging(1);
            cases[i].work();
            _exit(0);
        }
        struct rusage used;
        assert_int_equal(wait4(child, &status, 0, &used), child);
        assert_int_equal(process_hung(status, 1, why, sizeof why), cases[i].why != NULL);
        assert_true(WIFSIGNALED(status));
        /* On a machine with very much else to do, five seconds may pass before the child has had one second of a processor. */
        const double spent = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                             1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
        const bool starved = cases[i].work == spin && spent < 1.1 && !strcmp(why, "it did not end within 5 s");
        if (!starved)
            assert_string_equal(why, cases[i].why ? cases[i].why : "");
    }
}

/* A child does not outlive the one that forked it, however that one ends. */
static void end_with_the_parent(void **state)
{
    (void)state;
    int ends[2], status;
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        const pid_t own = getpid();
        if (fork() == 0) {
            process_end_with(own);
            alarm(60);
            if (write(ends[1], "x", 1) != 1)
                _exit(1);
        }
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 30000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody has the other end */
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes), cmocka_unit_test(children), cmocka_unit_test(end_with_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
