/* tcc.c - libtcc, and the memory that its code lives in: written once, then read and executed, never writable and
 * executable at once. */
#define _GNU_SOURCE
#include "tcc.h"

#include "execute.h"
#include "tcc_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TCC_IS_HERE
#include <libtcc.h>
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Releases of libtcc after 0.9.27 dropped the form of tcc_relocate that writes to the caller's memory, and with it this
 * macro. With those, code lives on libtcc's own heap pages until its state is deleted. It is still never writable and
 * executable at once, since libtcc protects it when it is complete; but it does not work on a system that forbids
 * turning written pages into code (PR_SET_MDWE), and each kernel keeps a state of some hundred KB. */
#ifdef TCC_RELOCATE_AUTO
#define OWN_MEMORY 1
#else
#define OWN_MEMORY 0
#endif

/* The build renames libtcc's reference to mprotect to this, and others to what tcc_guard.c has. tcc_relocate would make
 * even the caller's memory writable and executable at once and, where that is forbidden, print a message and exit the
 * process. */
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int attn_tcc_mprotect(void *memory, size_t size, int protection);
int attn_tcc_mprotect(void *memory, size_t size, int protection)
{
    return OWN_MEMORY ? 0 : mprotect(memory, size, protection);
}

/* The build renames three libc variables in libtcc to these: libtcc.a is not position-independent, and a shared library
 * cannot hold code that reads another library's variables at a fixed distance. They are state at file scope, written
 * under the compiler's lock. */
HIDDEN FILE *attn_tcc_stdout;
HIDDEN FILE *attn_tcc_stderr;
HIDDEN char **attn_tcc_environ;

/* The compiler's state is global. libtcc has a lock inside, but two simultaneous first uses would both create it. */
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

/* A child must never inherit a compiler that another thread was using. */
static void guard_fork(void)
{
    pthread_atfork(compiler_lock, compiler_unlock, compiler_unlock);
}

struct messages {
    const char *name; /* of the kernel; messages show it instead of the file */
    struct gen_error *err;
    bool found; /* an error; before that, there may be a warning */
    bool placed; /* it is at a line of the text */
};

/* libtcc calls its input <string> and itself tcc, and lines before the error may say how it got there. The first error
 * is the one to report. */
static void keep_message(void *opaque, const char *text)
{
    struct messages *m = opaque;
    bool error = strstr(text, "error:") != NULL;
    if (m->found || (!error && m->err->text[0]))
        return;
    m->found = error;
    if (strrchr(text, '\n'))
        text = strrchr(text, '\n') + 1;
    m->placed = error && strncmp(text, "<string>:", 9) == 0;
    if (strncmp(text, "<string>:", 9) == 0)
        text += 9;
    else if (strncmp(text, "tcc: ", 5) == 0)
        text += 4;
    snprintf(m->err->text, sizeof m->err->text, "%s.c:%s", m->name, text);
}

/* A compilation in progress, as the argument of a function called under guard. A state that outlives it, with the
 * memory that it consists of, belongs to a kernel. */
struct owner {
    struct guard_memory memory;
    TCCState *state;
};
struct job {
    const char *source, *name;
    struct owner *owner;
    struct kernel *out;
    struct gen_error *err;
    struct messages messages;
    void *mapping; /* of mapped bytes that are not yet the kernel's; NULL: none */
    size_t mapped;
    int fd; /* of the mapping; -1: none */
    enum compiled result;
};

static void state_create(struct job *j)
{
    TCCState *s = j->owner->state = tcc_new();
    if (!s)
        return;
    tcc_set_error_func(s, &j->messages, keep_message);
    tcc_set_lib_path(s, "/nonexistent"); /* and nothing is searched for there either */
    tcc_set_options(s, "-nostdlib -nostdinc");
    tcc_set_output_type(s, TCC_OUTPUT_MEMORY);
    tcc_add_symbol(s, "memcpy", (const void *)(uintptr_t)memcpy); /* it also copies structs */
    tcc_add_symbol(s, "memset", (const void *)(uintptr_t)memset); /* and zeroes locals */
    tcc_add_symbol(s, "memmove", (const void *)(uintptr_t)memmove);
}

#if OWN_MEMORY
/* Makes a mapping to write to. The descriptor is -1 if the system has no memory files: then this mapping itself becomes
 * executable. */
static int memory_create(struct job *j, size_t size)
{
    void *p = MAP_FAILED;
    j->fd = memfd_create("attn kernel", MFD_CLOEXEC);
    if (j->fd >= 0 && ftruncate(j->fd, (off_t)size) == 0)
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, j->fd, 0);
    if (p == MAP_FAILED) {
        if (j->fd >= 0)
            close(j->fd);
        j->fd = -1;
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (p == MAP_FAILED)
        return -1;
    j->mapping = p;
    j->mapped = size;
    return 0;
}

/* Replaces the writable mapping by an executable one at the same address, for which the code was relocated. This is a
 * new mapping of the same file rather than a change of the old one, because some systems forbid making written pages
 * executable. */
static int memory_seal(struct job *j)
{
    if (j->fd >= 0)
        return mmap(j->mapping, j->mapped, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, j->fd, 0) == j->mapping ? 0 : -1;
    return mprotect(j->mapping, j->mapped, PROT_READ | PROT_EXEC);
}

static int relocate(struct job *j)
{
    int size = tcc_relocate(j->owner->state, NULL);
    if (size < 0)
        return -1; /* libtcc has said why */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (memory_create(j, ((size_t)size + page - 1) / page * page + (size == 0) * page) != 0)
        return gen_out_of_memory(j->err, "jit");
    if (tcc_relocate(j->owner->state, j->mapping) != 0)
        return -1;
    if (memory_seal(j) == 0)
        return 0;
    if (errno == ENOMEM || errno == EAGAIN)
        return gen_out_of_memory(j->err, "jit");
    snprintf(j->err->text, sizeof j->err->text,
             "jit: error: this system lets no process create code at run time, as libtcc does; expected one that does, "
             "or another compiler (ATTN_CC, --compiler cc), whose kernels are loaded from files");
    return -1;
}
#else
static int relocate(struct job *j)
{
    return tcc_relocate(j->owner->state); /* libtcc says what is wrong */
}
#endif

static int find_exports(struct job *j)
{
    char workspace[GEN_NAME_MAX + 16];
    snprintf(workspace, sizeof workspace, "%s_workspace", j->name);
    void *run = tcc_get_symbol(j->owner->state, j->name), *size = tcc_get_symbol(j->owner->state, workspace);
    if (!run || !size) {
        snprintf(j->err->text, sizeof j->err->text, "%s.c: error: no function %s; expected %s and %s_workspace",
                 j->name, run ? workspace : j->name, j->name, j->name);
        return -1;
    }
    memcpy(&j->out->run, &run, sizeof run); /* ISO C does not convert an object pointer to a function pointer */
    memcpy(&j->out->workspace, &size, sizeof size);
    return 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void compile_guarded(void *arg)
{
    struct job *j = arg;
    state_create(j);
    if (!j->owner->state)
        return;
    if (tcc_compile_string(j->owner->state, j->source) != 0) {
        j->result = j->messages.placed ? COMPILE_REFUSED : COMPILE_FAILED;
        return;
    }
    if (relocate(j) == 0 && find_exports(j) == 0)
        j->result = COMPILE_OK;
}

static void delete_guarded(void *arg)
{
    struct owner *o = arg;
    tcc_delete(o->state);
}

/* What libtcc leaves behind is freed too. */
static void owner_free(struct owner *o)
{
    if (!o)
        return;
    if (o->state)
        guard_call(&o->memory, delete_guarded, o);
    guard_free(&o->memory);
    free(o);
}

/* What the code lives in: our own mapping, or libtcc's state. */
static void keep_code(struct job *j)
{
    if (OWN_MEMORY) {
        j->out->code = j->mapping;
        j->out->code_size = j->mapped;
        j->mapping = NULL;
    } else {
        j->out->owner = j->owner;
        j->owner = NULL;
    }
}

static int compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    struct job j = {.source = source, .name = name, .out = out, .err = err, .fd = -1, .result = COMPILE_FAILED};
    j.messages = (struct messages){.name = name, .err = err};
    j.owner = calloc(1, sizeof *j.owner);
    if (!j.owner)
        return gen_out_of_memory(err, "jit");
    guard_begin(&j.owner->memory);
    attn_tcc_stdout = stdout;
    attn_tcc_stderr = stderr;
    attn_tcc_environ = environ;
    enum guard_end end = guard_call(&j.owner->memory, compile_guarded, &j);
    if (end != GUARD_RETURNED) { /* its state is gone with its memory */
        j.owner->state = NULL;
        j.result = COMPILE_FAILED;
    }
    if (end == GUARD_NO_MEMORY)
        gen_out_of_memory(err, "jit");
    else if (j.result != COMPILE_OK && !err->text[0])
        snprintf(err->text, sizeof err->text, "%s.c: error: libtcc failed and did not say why", name);
    if (j.result == COMPILE_OK)
        keep_code(&j);
    owner_free(j.owner);
    if (j.fd >= 0)
        close(j.fd);
    if (j.mapping)
        munmap(j.mapping, j.mapped);
    return j.result;
}

static void release(struct kernel *kernel)
{
    if (kernel->code)
        munmap(kernel->code, kernel->code_size);
    if (kernel->owner) {
        compiler_lock();
        owner_free(kernel->owner);
        compiler_unlock();
    }
}

int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    *out = (struct kernel){.functions = &cpu_kernel_functions, .release = release};
    err->text[0] = 0;
    double start = now_ms();
    pthread_once(&fork_guard, guard_fork);
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* libtcc reads 1.5 by the locale of the host program */
    if (!c) /* the C locale always exists */
        return gen_out_of_memory(err, "jit");
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

const char *jit_why_not(void)
{
    return NULL;
}

#else

const char *jit_why_not(void)
{
#ifdef ATTN_NO_TCC
    return "libtcc is not in this build of libattn";
#else
    return "libtcc can create code that runs in the process only on x86-64 and AArch64 under Linux";
#endif
}

int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    (void)source;
    memset(out, 0, sizeof *out);
    snprintf(err->text, sizeof err->text, "%s.c: error: %s; expected a compiler (ATTN_CC, --compiler cc)", name,
             jit_why_not());
    return -1;
}
#endif
