/* child.c - see child.h. */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/system/process.h"
#include "runtime/system/threads.h"

void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void shared_free(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Handlers of the test library must not run in a child: it would go on with the parent's tests. */
static void default_signals(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

int run_child(int (*work)(void *arg), void *arg, int timeout_s, char *why, size_t why_size)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        snprintf(why, why_size, "cannot fork: %s", strerror(errno));
        return -1;
    }
    if (child == 0) {
        default_signals();
        process_end_if_hanging(timeout_s);
        int result = work(arg);
        fflush(NULL);
        _exit(result);
    }
    int status = wait_for(child);
    if (status >= 0 && WIFEXITED(status))
        return WEXITSTATUS(status);
    int sig = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (status < 0 || !process_hung(status, timeout_s, why, why_size))
        snprintf(why, why_size, "crashed: %s", sig ? strsignal(sig) : "unknown");
    return -1;
}

struct jobs {
    atomic_int next, failed, done;
};

static void work_on(struct jobs *shared, int jobs, int (*job)(void *arg, int index), void *arg)
{
    for (int i; (i = atomic_fetch_add(&shared->next, 1)) < jobs;) {
        if (job(arg, i) != 0)
            atomic_fetch_add(&shared->failed, 1);
        atomic_fetch_add(&shared->done, 1);
    }
}

int run_jobs(int jobs, int (*job)(void *arg, int index), void *arg)
{
    enum { WORKERS = 64 };
    pid_t worker[WORKERS];
    cpu_set_t cores;
    int workers = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1, started = 0;
    struct jobs *shared = shared_memory(sizeof *shared);
    if (!shared)
        return jobs;
    fflush(NULL);
    for (; started < workers && started < WORKERS && started < jobs; started++) {
        worker[started] = fork();
        if (worker[started] < 0)
            break;
        if (worker[started] == 0) {
            default_signals();
            work_on(shared, jobs, job, arg);
            fflush(NULL);
            _exit(0);
        }
    }
    for (int i = 0; i < started; i++)
        wait_for(worker[i]);
    int failed = shared->failed + (jobs - shared->done);
    shared_free(shared, sizeof *shared);
    return failed;
}

#if defined(__SANITIZE_ADDRESS__)
static void meet(void *arg, int part)
{
    (void)part;
    pthread_barrier_wait(arg);
}

void before_fork(struct pool *pool)
{
    pthread_barrier_t all;
    pthread_barrier_init(&all, NULL, (unsigned)pool_threads(pool));
    pool_run(pool, pool_threads(pool), meet, &all);
    pthread_barrier_destroy(&all);
}
#else
void before_fork(struct pool *pool)
{
    (void)pool;
}
#endif

int run_program(const char *const argv[], const char *log)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd >= 0) {
            dup2(fd, 1);
            dup2(fd, 2);
        }
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status = wait_for(child);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
