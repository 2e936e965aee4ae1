/* process.c - see process.h. posix_spawnp rather than fork: the host may have threads and gigabytes. */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int wrong(struct gen_error *err, const char *program, const char *what)
{
    snprintf(err->text, sizeof err->text, "%.200s: error: %s", program, what);
    return -1;
}

/* The host's environment with two variables of ours; all strings but these two remain the host's. */
static char **make_environment(const char *temporary_folder, char **tmpdir)
{
    size_t n = 0, used = 0;
    while (environ && environ[n])
        n++;
    char **out = calloc(n + 3, sizeof *out);
    *tmpdir = NULL;
    if (!out || (temporary_folder && asprintf(tmpdir, "TMPDIR=%s", temporary_folder) < 0)) {
        free(out);
        *tmpdir = NULL;
        return NULL;
    }
    out[used++] = (char *)"LC_ALL=C"; /* C, so that messages can be recognised */
    if (*tmpdir)
        out[used++] = *tmpdir;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0 && !(*tmpdir && strncmp(environ[i], "TMPDIR=", 7) == 0))
            out[used++] = environ[i];
    return out;
}

/* The program inherits neither the host's signal handlers and masks nor its files. */
static int spawn(char *const argv[], char **environment, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (failed) {
        posix_spawn_file_actions_destroy(&files);
        return failed;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    failed = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&files, output, 1);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&files, output, 2);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (!failed)
        failed = posix_spawn_file_actions_addclosefrom_np(&files, 3);
#endif
    if (!failed)
        failed = posix_spawnp(pid, argv[0], &files, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

struct child {
    pid_t pid;
    int output; /* its output, read without waiting */
    bool ended;
    int status; /* once ended */
};

/* If the host ignores SIGCHLD or reaps every child, there is no status: it counts as 0, and the result must be checked
 * instead. */
static void look_after(struct child *c, int options)
{
    pid_t got;
    do
        got = waitpid(c->pid, &c->status, options);
    while (got < 0 && errno == EINTR);
    c->ended = got != 0;
    if (got < 0)
        c->status = 0;
}

/* Appends the available output to out; false at the end of all output. */
static bool read_some(struct child *c, char *out, size_t size, size_t *used)
{
    char rest[4096];
    for (;;) {
        bool full = *used + 1 >= size;
        ssize_t got = read(c->output, full ? rest : out + *used, full ? sizeof rest : size - 1 - *used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        *used += full ? 0 : (size_t)got;
        out[*used] = 0;
    }
}

/* Reads until the program has ended; children that it left (a compiler cache's server) may still hold the pipe. Returns
 * false if it had to be killed. */
static bool attend(struct child *c, double deadline, const volatile sig_atomic_t *stop, char *out, size_t size)
{
    enum { GLANCE_MS = 20 };
    size_t used = 0;
    bool open = true;
    while (!c->ended) {
        if (now() > deadline || (stop && *stop)) {
            kill(-c->pid, SIGKILL);
            look_after(c, 0);
            return false;
        }
        struct pollfd p = {.fd = c->output, .events = POLLIN};
        if (open)
            poll(&p, 1, GLANCE_MS);
        else
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        open = open && read_some(c, out, size, &used);
        look_after(c, WNOHANG);
    }
    if (open)
        read_some(c, out, size, &used);
    return true;
}

int process_run(char *const argv[], const char *temporary_folder, double limit, char *output, size_t size,
                struct gen_error *err)
{
    return process_run_until(argv, temporary_folder, limit, NULL, output, size, err);
}

int process_run_until(char *const argv[], const char *temporary_folder, double limit, const volatile sig_atomic_t *stop,
                      char *output, size_t size, struct gen_error *err)
{
    struct child child = {0};
    int pipe_of[2], result = -1, failed;
    char *tmpdir = NULL, **environment = NULL, text[120];
    double deadline = now() + limit;
    output[0] = 0;
    if (pipe2(pipe_of, O_CLOEXEC) != 0)
        return wrong(err, argv[0], strerror(errno));
    child.output = pipe_of[0];
    fcntl(child.output, F_SETFL, O_NONBLOCK); /* only at our end */
    environment = make_environment(temporary_folder, &tmpdir);
    failed = environment ? spawn(argv, environment, pipe_of[1], &child.pid) : ENOMEM;
    close(pipe_of[1]);
    if (failed == ENOMEM) {
        gen_out_of_memory(err, argv[0]);
        goto cleanup;
    }
    if (failed) {
        snprintf(text, sizeof text, "cannot be run: %s", strerror(failed));
        wrong(err, argv[0], text);
        goto cleanup;
    }
    bool in_time = attend(&child, deadline, stop, output, size);
    if (!in_time && stop && *stop)
        snprintf(text, sizeof text, "was interrupted");
    else if (!in_time)
        snprintf(text, sizeof text, "took more than %g seconds and was ended", limit);
    else if (WIFSIGNALED(child.status))
        snprintf(text, sizeof text, "was ended by signal %d", WTERMSIG(child.status));
    else
        snprintf(text, sizeof text, "exited with status %d", WEXITSTATUS(child.status));
    if (in_time && child.status == 0)
        result = 0;
    else
        wrong(err, argv[0], text);
cleanup:
    close(pipe_of[0]);
    free(environment);
    free(tmpdir);
    return result;
}

/* Both signals end a process that does not handle them. */
void process_end_if_hanging(int seconds)
{
    const struct itimerval busy = {.it_value = {.tv_sec = seconds}};
    signal(SIGPROF, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_PROF, &busy, NULL);
    alarm((unsigned)(PROCESS_WAITS * seconds));
}

void process_end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

bool process_hung(int status, int seconds, char *why, size_t size)
{
    const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGPROF)
        snprintf(why, size, "it took more than %d s of the processor", seconds);
    else if (sig == SIGALRM)
        snprintf(why, size, "it did not end within %d s", PROCESS_WAITS * seconds);
    return sig == SIGPROF || sig == SIGALRM;
}
