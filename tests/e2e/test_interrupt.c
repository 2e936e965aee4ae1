/* test_interrupt.c - Ctrl-C in `attngen tune`, typed on a terminal: what was found is kept and said, and a second one
 * ends the program at once; other signals that end a program, also while emit writes, and several emits at once. What it is
 * not: the search that is interrupted (tests/unit/test_tune_faults.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shell.h"

/* A search that takes far longer than a test. */
#define LONG "\"$ATTNGEN\" tune --shape 1,8,8,2048,2048,64 --threads 1 --rigor patient --time-limit 300"
enum { PATIENCE = 120 }; /* seconds, on a busy machine and under sanitizers */

/* A command on a terminal of its own, its standard output in a file. */
struct session {
    pid_t pid;
    int terminal;
    char said[65536]; /* on the terminal */
    size_t size;
    int status;
    double typed; /* when Ctrl-C was */
    double took;  /* from then to its end */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void start(struct session *s, const char *command)
{
    char text[600];
    *s = (struct session){.terminal = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(s->terminal >= 0 && grantpt(s->terminal) == 0 && unlockpt(s->terminal) == 0);
    const char *name = ptsname(s->terminal);
    assert_non_null(name);
    snprintf(text, sizeof text, "exec %s > out.txt", command);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        setsid();
        setenv("TERM", "xterm", 1); /* whatever terminal the tests are run from, or none */
        int own = open(name, O_RDWR);
        if (own < 0 || ioctl(own, TIOCSCTTY, 0) != 0)
            _exit(126);
        signal(SIGINT, SIG_DFL);
        dup2(own, 0);
        dup2(own, 2);
        execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
}

/* Reads what is there, for so long at most; false when that was nothing. */
static bool listen_on(struct session *s, int ms)
{
    struct pollfd p = {.fd = s->terminal, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0 || s->size + 1 >= sizeof s->said)
        return false;
    ssize_t got = read(s->terminal, s->said + s->size, sizeof s->said - 1 - s->size);
    if (got <= 0)
        return false;
    s->size += (size_t)got;
    return true;
}

static void wait_for(struct session *s, const char *text)
{
    double end = now() + PATIENCE;
    while (!strstr(s->said, text)) {
        listen_on(s, 100);
        if (now() > end)
            fail_msg("'%s' was not said, but '%s'", text, s->said);
    }
}

static void type_interrupt(struct session *s)
{
    s->typed = now();
    assert_int_equal(write(s->terminal, "\003", 1), 1);
}

static void wait_end(struct session *s)
{
    double end = now() + PATIENCE;
    while (waitpid(s->pid, &s->status, WNOHANG) == 0) {
        listen_on(s, 20);
        if (now() > end) {
            kill(s->pid, SIGKILL);
            fail_msg("it does not end; it said '%s'", s->said);
        }
    }
    s->took = now() - s->typed;
    while (listen_on(s, 100))
        ;
    close(s->terminal);
    print_message("# ended %.2f s after Ctrl-C\n", s->took);
}

static void is_ended_by(const struct session *s, int number)
{
    if (!WIFEXITED(s->status) || WEXITSTATUS(s->status) != 128 + number)
        fail_msg("status %x, not exit code %d: '%s'", (unsigned)s->status, 128 + number, s->said);
}

static void is_interrupted(const struct session *s)
{
    is_ended_by(s, SIGINT);
}

static void test_keeps(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    shell(&said, "rm -rf \"$ATTNGEN_CACHE\"");
    start(&s, LONG);
    wait_for(&s, "best so far attn_");
    type_interrupt(&s);
    wait_end(&s);
    is_interrupted(&s);
    assert_non_null(strstr(s.said, "attngen tune: interrupted; "));
    assert_non_null(strstr(s.said, "the best so far is attn_f32_d64_on_"));
    assert_non_null(strstr(s.said, "the timings were stored in "));
    shell_ok(&said, "grep -c '^winner attn_f32_d64_on_' out.txt"); /* the table is there all the same */
    shell_ok(&said, "\"$ATTNGEN\" cache show");
    assert_non_null(strstr(said.out, "attn_f32_d64 "));
    shell_ok(&said, "grep -c ' timed 20[0-9-]*T[0-9:]*Z ' \"$ATTNGEN_CACHE\"/*.tune");
    assert_true(atoi(said.out) > 0);
    shell_ok(&said, "\"$ATTNGEN\" bench --shape 1,8,8,2048,2048,64 --threads 1 --json | grep -c attn_f32_d64_on_");
}

static void test_json(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    shell(&said, "rm -rf \"$ATTNGEN_CACHE\"");
    start(&s, LONG " --json");
    wait_for(&s, "best so far attn_");
    type_interrupt(&s);
    wait_end(&s);
    is_interrupted(&s);
    shell_ok(&said, "head -c 300 out.txt; echo; tail -c 10 out.txt");
    assert_non_null(strstr(said.out, "{\"results\": [{\"variant\": \"attn_f32_d64_on_"));
    assert_non_null(strstr(said.out, "]}]}"));
}

/* A compiler that takes long is not waited for, nor what it began left behind. */
static void test_compiler(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    shell_ok(&said, "mkdir tmp; printf '#!/bin/sh\\n[ \"$1\" = --version ] && echo slow && exit\\n"
                    ": > compiling; sleep 77\\n' > slow; chmod +x slow");
    start(&s, "env CC=./slow TMPDIR=tmp " LONG " --compiler cc");
    for (double end = now() + PATIENCE; access("compiling", F_OK) != 0 && now() < end;)
        usleep(20000);
    type_interrupt(&s);
    wait_end(&s);
    is_interrupted(&s);
    assert_non_null(strstr(s.said, "interrupted before a candidate was timed"));
    assert_true(s.took < 30);
    assert_int_equal(shell_files("tmp"), 0);
}

static void test_twice(void **state)
{
    (void)state;
    static struct session s;
    start(&s, LONG);
    wait_for(&s, "best so far attn_");
    type_interrupt(&s);
    usleep(1000);
    if (write(s.terminal, "\003", 1) != 1)
        fail();
    wait_end(&s);
    if (!WIFSIGNALED(s.status)) /* by the signal; or it was done before */
        is_interrupted(&s);
    else
        assert_int_equal(WTERMSIG(s.status), SIGINT);
}

/* As `timeout` ends a program, a service that is stopped, or a terminal that is closed. */
static void test_other_signals(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    static const int numbers[] = {SIGTERM, SIGHUP};
    for (int i = 0; i < 2; i++) {
        shell(&said, "rm -rf \"$ATTNGEN_CACHE\"");
        start(&s, LONG);
        wait_for(&s, "best so far attn_");
        s.typed = now();
        kill(s.pid, numbers[i]);
        wait_end(&s);
        is_ended_by(&s, numbers[i]);
        assert_non_null(strstr(s.said, "the timings were stored in "));
        shell_ok(&said, "grep -c ' timed 20[0-9-]*T[0-9:]*Z ' \"$ATTNGEN_CACHE\"/*.tune");
        assert_true(atoi(said.out) > 0);
    }
}

/* Nothing half-written stays, nor the folder that was made for it; and what an earlier emit wrote does. */
static void test_emit(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static const char *const commands[] = {"emit many.yaml -o k", "emit many.yaml --bundle many -o k", "emit many.yaml -o old"};
    shell_ok(&said, "printf 'isa: [c, avx2]\nhead_dim: [16, 32, 48, 64, 80, 96, 112, 128]\ncausal: [false, true]\n"
                    "window: [false, true]\ntile: {q: [64, 128], k: [64, 128]}\n' > many.yaml; mkdir old; : > old/mine");
    for (int i = 0; i < 9; i++) {
        char command[128], staged[64];
        const char *folder = i / 3 == 2 ? "old" : "k";
        snprintf(command, sizeof command, "\"$ATTNGEN\" %s", commands[i / 3]);
        start(&s, command);
        snprintf(staged, sizeof staged, "%s/.attngen-%ld-0", folder, (long)s.pid);
        for (double end = now() + PATIENCE; access(staged, F_OK) != 0 && now() < end;)
            usleep(100);
        s.typed = now();
        kill(s.pid, numbers[i % 3]);
        wait_end(&s);
        if (!WIFSIGNALED(s.status) || WTERMSIG(s.status) != numbers[i % 3])
            fail_msg("%s: status %x, not signal %d", command, (unsigned)s.status, numbers[i % 3]);
        assert_true(access("k", F_OK) != 0);
        assert_int_equal(shell_files("old"), 1);
    }
}

/* In place of CUDA's compiler. */
static const char slow_nvrtc[] =
    "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\ntypedef const char *const *texts;\n"
    "int nvrtcVersion(int *major, int *minor) { *major = 13, *minor = 0; return 0; }\n"
    "int nvrtcCreateProgram(void **p, const char *t, const char *n, int i, texts a, texts b) { *p = p; return 0; }\n"
    "int nvrtcCompileProgram(void *p, int n, texts t) { close(creat(\"compiling\", 0600)); sleep(atoi(getenv(\"SLOW\"))); return "
    "0; }\n"
    "int nvrtcDestroyProgram(void **p) { return 0; }\n"
    "int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = 1; return 0; }\n"
    "int nvrtcGetProgramLog(void *p, char *text) { *text = 0; return 0; }\n"
    "int nvrtcGetPTXSize(void *p, size_t *n) { *n = 2; return 0; }\n"
    "int nvrtcGetPTX(void *p, char *text) { text[0] = 120, text[1] = 0; return 0; }\n"
    "int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 2; return 0; }\n"
    "int nvrtcGetCUBIN(void *p, char *text) { text[0] = 120, text[1] = 0; return 0; }\n";

static void start_slow(struct session *s, int seconds, const char *with, const char *arguments)
{
    char command[400];
    unlink("compiling");
    snprintf(command, sizeof command,
             "env LD_LIBRARY_PATH=. SLOW=%d %s \"$ATTNGEN\" emit --variant attn_bf16_d64_on_sm80_q128k64_r16 --language cuda %s",
             seconds, with, arguments);
    start(s, command);
    for (double end = now() + PATIENCE; access("compiling", F_OK) != 0 && now() < end;)
        usleep(1000);
    s->typed = now();
}

/* Nor is a compiler waited for that is a library. */
static void test_library(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    static const char *const arguments[] = {"--cubin -o made", "--ptx -o old", "--cubin --ptx --bundle one -o made"};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    FILE *f = fopen("slow.c", "w");
    assert_true(f && fputs(slow_nvrtc, f) >= 0 && fclose(f) == 0);
    shell_ok(&said, "cc -shared -fPIC -o libnvrtc.so.13 slow.c; rm -rf old; mkdir old; : > old/mine");
    for (int i = 0; i < 9; i++) {
        start_slow(&s, 77, "", arguments[i / 3]);
        kill(s.pid, numbers[i % 3]);
        wait_end(&s);
        if (!WIFSIGNALED(s.status) || WTERMSIG(s.status) != numbers[i % 3])
            fail_msg("%s: status %x, not signal %d: '%s'", arguments[i / 3], (unsigned)s.status, numbers[i % 3], s.said);
        assert_true(s.took < 30);
        assert_true(access("made", F_OK) != 0);
        assert_int_equal(shell_files("old"), 1);
    }
}

/* One that the program was started to ignore changes nothing. */
static void test_ignored(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    start_slow(&s, 1, "nohup", "--cubin -o made");
    kill(s.pid, SIGHUP);
    wait_end(&s);
    assert_true(WIFEXITED(s.status) && WEXITSTATUS(s.status) == 0);
    shell_ok(&said, "cat made/*.cubin | wc -c; rm -rf made");
    assert_string_equal(said.out, "2\n");
}

/* What no program can do anything about: the next emit removes what is left, and nothing else. */
static void test_killed_emit(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    char staged[64];
    shell_ok(&said, "rm -rf old; mkdir old; mkdir -m 700 old/.attngen-1-x old/.attngen-mine; : > old/.attngen-1-2; "
                    "mkdir -m 755 old/.attngen-2-0");
    start(&s, "\"$ATTNGEN\" emit many.yaml -o old");
    snprintf(staged, sizeof staged, "old/.attngen-%ld-0", (long)s.pid);
    for (double end = now() + PATIENCE; access(staged, F_OK) != 0 && now() < end;)
        usleep(100);
    kill(s.pid, SIGKILL);
    wait_end(&s);
    assert_int_equal(access(staged, F_OK), 0);
    shell_ok(&said, "\"$ATTNGEN\" emit --variant attn_f32_d16_on_c_q64k64_r4x2u1 -o old");
    assert_int_equal(access(staged, F_OK), -1);
    assert_int_equal(shell_files("old"), 6);
}

/* As `make -j` starts them: the manifest has the kernels of all. */
/* Its cache, too, is in a folder that the next one removes. */
static void test_killed_selftest(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    shell_clean();
    shell_ok(&said, "mkdir tmp");
    start(&s, "env TMPDIR=tmp \"$ATTNGEN\" selftest --device reference");
    for (double end = now() + PATIENCE; shell_files("tmp") == 0 && now() < end;)
        listen_on(&s, 5);
    kill(s.pid, SIGKILL);
    s.typed = now();
    wait_end(&s);
    for (int i = 0; i < 2; i++) { /* the first may come before the killed one's child has ended */
        shell(&said, "TMPDIR=tmp \"$ATTNGEN\" selftest --device reference");
        assert_int_equal(said.code, 0);
    }
    assert_int_equal(shell_files("tmp"), 0);
}

static void test_emits_at_once(void **state)
{
    (void)state;
    static struct said said;
    for (int i = 0; i < 5; i++) {
        shell_ok(&said, "rm -rf k; for d in 16 24 32 40 48 56; do \"$ATTNGEN\" emit --variant attn_f32_d${d}_on_c_q64k64_r4x2u1 "
                        "-o k & done; wait; grep -c '\"name\": ' k/manifest.json; ls -A k | wc -l");
        assert_string_equal(said.out, "6\n7\n");
    }
}

/* Whether the process is that program by now, and has that directory open. */
static bool has_open(pid_t pid, const char *program, const struct stat *dir)
{
    char path[64], runs[PATH_MAX] = "";
    struct stat s;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    bool found = false, is_program = readlink(path, runs, sizeof runs - 1) > 0 && strcmp(strrchr(runs, '/') + 1, program) == 0;
    for (int fd = 0; fd < 64 && is_program && !found; fd++) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
        found = stat(path, &s) == 0 && s.st_dev == dir->st_dev && s.st_ino == dir->st_ino;
    }
    return found;
}

/* While one waits for its turn, the one before it fails, and removes the directory that it made. */
static void test_removed_while_waiting(void **state)
{
    (void)state;
    static struct session s;
    static struct said said;
    struct stat dir;
    shell_clean();
    assert_int_equal(mkdir("k", 0777), 0);
    const int fd = open("k", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &dir) == 0 && flock(fd, LOCK_EX) == 0);
    start(&s, "\"$ATTNGEN\" emit --variant attn_f32_d16_on_c_q64k64_r4x2u1 -o k");
    for (double end = now() + PATIENCE; !has_open(s.pid, "attngen", &dir) && now() < end;)
        listen_on(&s, 5);
    assert_int_equal(rmdir("k"), 0);
    close(fd);
    s.typed = now();
    wait_end(&s);
    if (!WIFEXITED(s.status) || WEXITSTATUS(s.status) != 0)
        fail_msg("status %x: '%s'", (unsigned)s.status, s.said);
    shell_ok(&said, "ls -A k");
    assert_string_equal(said.out, "attn_f32_d16_on_c_q64k64_r4x2u1.c\nmanifest.json\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_compiler),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_other_signals),
        cmocka_unit_test(test_emit),
        cmocka_unit_test(test_killed_emit),
        cmocka_unit_test(test_killed_selftest),
        cmocka_unit_test(test_emits_at_once),
        cmocka_unit_test(test_removed_while_waiting),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_ignored),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
