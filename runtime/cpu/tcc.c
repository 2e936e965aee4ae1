/* tcc.c - libtcc, and the memory that its code lives in: written once, then read and executed, never both at a time. */
#define _GNU_SOURCE
#include "tcc.h"

#include "execute.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <libtcc.h>
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Releases of libtcc after 0.9.27 dropped the form of tcc_relocate that writes to the caller's memory, and with it this
 * macro. With those, code lives on libtcc's own heap pages until its state is deleted: still never writable and
 * executable at once, since libtcc protects it when it is complete, but not under a system that forbids turning
 * written pages into code (PR_SET_MDWE), and each kernel keeps a state of some hundred KB. */
#ifdef TCC_RELOCATE_AUTO
#define OWN_MEMORY 1
#else
#define OWN_MEMORY 0
#endif

/* The build renames libtcc's reference to mprotect to this. tcc_relocate would make even the caller's memory writable
 * and executable at once and, where that is forbidden, print a message and exit the process. */
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int attn_tcc_mprotect(void *memory, size_t size, int protection);
int attn_tcc_mprotect(void *memory, size_t size, int protection)
{
    return OWN_MEMORY ? 0 : mprotect(memory, size, protection);
}

/* The build renames three variables of libc in libtcc to these: libtcc.a is not position-independent, and a shared
 * library cannot hold code that reads another's variables at a fixed distance. State at file scope, then, written under
 * the compiler's lock. */
HIDDEN FILE *attn_tcc_stdout;
HIDDEN FILE *attn_tcc_stderr;
HIDDEN char **attn_tcc_environ;

/* The compiler's state is global: libtcc has a lock inside, but two first uses at once both make it. */
static pthread_mutex_t compiler = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_guard = PTHREAD_ONCE_INIT;

static void compiler_lock(void)
{
    pthread_mutex_lock(&compiler);
}

static void compiler_unlock(void)
{
    pthread_mutex_unlock(&compiler);
}

/* So that a child never inherits a compiler that another thread was in the middle of using. */
static void guard_fork(void)
{
    pthread_atfork(compiler_lock, compiler_unlock, compiler_unlock);
}

struct messages {
    const char *name; /* of the kernel; stands for the file in messages */
    struct gen_error *err;
    bool found; /* an error; until then a warning may stand there */
    bool placed; /* it is at a line of the text */
};

/* libtcc calls its input <string> and itself tcc, and may say on lines before how it got there. The first error is the
 * one that tells. */
static void keep_message(void *opaque, const char *text)
{
    struct messages *m = opaque;
    bool error = strstr(text, "error:") != NULL;
    if (m->found || (!error && m->err->text[0]))
        return;
    m->found = error;
    if (strrchr(text, '\n'))
        text = strrchr(text, '\n') + 1;
    m->placed = error && strncmp(text, "<string>:", 9) == 0 && !strstr(text, "memory full");
    if (strncmp(text, "<string>:", 9) == 0)
        text += 9;
    else if (strncmp(text, "tcc: ", 5) == 0)
        text += 4;
    snprintf(m->err->text, sizeof m->err->text, "%s.c:%s", m->name, text);
}

static TCCState *state_create(struct messages *m)
{
    TCCState *s = tcc_new();
    if (!s)
        return NULL;
    tcc_set_error_func(s, m, keep_message);
    tcc_set_lib_path(s, "/nonexistent"); /* and nothing is looked for there either */
    tcc_set_options(s, "-nostdlib -nostdinc");
    tcc_set_output_type(s, TCC_OUTPUT_MEMORY);
    tcc_add_symbol(s, "memcpy", (const void *)(uintptr_t)memcpy); /* struct copies too */
    tcc_add_symbol(s, "memset", (const void *)(uintptr_t)memset); /* and zeroed locals */
    tcc_add_symbol(s, "memmove", (const void *)(uintptr_t)memmove);
    return s;
}

#if OWN_MEMORY
/* A mapping to write to. *fd is -1 when the system gives no memory files: then this mapping becomes executable. */
static void *memory_create(size_t size, int *fd)
{
    *fd = memfd_create("attn kernel", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, (off_t)size) == 0) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
        if (p != MAP_FAILED)
            return p;
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Replaces the writable mapping by an executable one at the same address, for which the code was relocated. A new
 * mapping of the same file rather than a change of the old one, because there are systems that forbid making written
 * pages executable. */
static int memory_seal(void *memory, size_t size, int fd)
{
    if (fd >= 0)
        return mmap(memory, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ? -1 : 0;
    return mprotect(memory, size, PROT_READ | PROT_EXEC);
}

static int relocate(TCCState *s, struct kernel *out, struct gen_error *err)
{
    int fd = -1;
    void *memory = NULL;
    int size = tcc_relocate(s, NULL);
    if (size < 0)
        return -1; /* libtcc has said why */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = ((size_t)size + page - 1) / page * page + (size == 0) * page;
    memory = memory_create(mapped, &fd);
    if (!memory) {
        snprintf(err->text, sizeof err->text, "jit: error: no memory for %zu bytes of code", mapped);
        return -1;
    }
    int result = tcc_relocate(s, memory);
    if (result == 0 && memory_seal(memory, mapped, fd) != 0) {
        snprintf(err->text, sizeof err->text, "jit: error: this system lets no process make code at run time");
        result = -1;
    }
    if (fd >= 0)
        close(fd);
    if (result != 0) {
        munmap(memory, mapped);
        return -1;
    }
    out->code = memory;
    out->code_size = mapped;
    return 0;
}
#else
static int relocate(TCCState *s, struct kernel *out, struct gen_error *err)
{
    (void)err; /* libtcc says why */
    out->owner = s;
    return tcc_relocate(s);
}
#endif

static int find_exports(TCCState *s, const char *name, struct kernel *out, struct gen_error *err)
{
    char workspace[GEN_NAME_MAX + 16];
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    void *run = tcc_get_symbol(s, name), *size = tcc_get_symbol(s, workspace);
    if (!run || !size) {
        snprintf(err->text, sizeof err->text, "%s.c: error: no function %s; expected %s and %s_workspace", name,
                 run ? workspace : name, name, name);
        return -1;
    }
    memcpy(&out->run, &run, sizeof run); /* ISO C converts no object pointer to a function's */
    memcpy(&out->workspace, &size, sizeof size);
    return 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    struct messages m = {.name = name, .err = err};
    int result = COMPILE_FAILED;
    attn_tcc_stdout = stdout;
    attn_tcc_stderr = stderr;
    attn_tcc_environ = environ;
    TCCState *s = state_create(&m);
    if (!s)
        goto cleanup;
    if (tcc_compile_string(s, source) != 0) {
        result = m.placed ? COMPILE_REFUSED : COMPILE_FAILED;
        goto cleanup;
    }
    if (relocate(s, out, err) != 0 || find_exports(s, name, out, err) != 0)
        goto cleanup;
    result = COMPILE_OK;
cleanup:
    if (result != 0 && !err->text[0])
        snprintf(err->text, sizeof err->text, "%s.c: error: libtcc failed and did not say why", name);
    if (s && (result != 0 || !out->owner))
        tcc_delete(s);
    if (result != 0)
        out->owner = NULL;
    return result;
}

static void release(struct kernel *kernel)
{
    if (kernel->code)
        munmap(kernel->code, kernel->code_size);
    if (kernel->owner) {
        compiler_lock();
        tcc_delete(kernel->owner);
        compiler_unlock();
    }
}

int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    *out = (struct kernel){.functions = &cpu_kernel_functions, .release = release};
    err->text[0] = 0;
    double start = now_ms();
    pthread_once(&fork_guard, guard_fork);
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* libtcc reads 1.5 as the program around would */
    if (!c) {
        snprintf(err->text, sizeof err->text, "%s.c: error: out of memory; expected room for a locale", name);
        return -1;
    }
    locale_t before = uselocale(c);
    compiler_lock();
    int result = compile(source, name, out, err);
    compiler_unlock();
    uselocale(before);
    freelocale(c);
    if (result != 0) {
        kernel_free(out);
        return result;
    }
    out->compile_ms = now_ms() - start;
    return 0;
}

#else

int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    (void)source;
    memset(out, 0, sizeof *out);
    snprintf(err->text, sizeof err->text,
             "%s.c: error: unsupported: kernels are compiled at run time on x86-64 Linux only; expected an emitted "
             "file and the system's own compiler here",
             name);
    return -1;
}
#endif
