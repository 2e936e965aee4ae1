/* test_cc.c - the system's compiler as the runtime runs it: results, messages, its folder, the cache of objects, and
 * hosts that do odd things with their children. The compiler is gcc behind a script that writes down how it was run. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../gen/buf.h"
#include "../kit/child.h"
#include "runtime/cpu/cc.h"

static char *source_of(const char *name, const char *body)
{
    struct buf b = {0};
    buf_printf(&b, "struct attn_args;\nint %s(const struct attn_args *a) { (void)a; %s }\n", name, body);
    buf_printf(&b, "long %s_workspace(const struct attn_args *a) { (void)a; return 64; }\n", name);
    assert_true(buf_ok(&b));
    return b.data;
}

/* ---- a place of its own: TMPDIR, a cache, and a compiler that keeps a diary ---- */

struct place {
    char dir[64], tmp[80], wrapper[80], diary[80];
    struct cpu cpu;
    struct cache *cache;
    struct cc *cc;
};

static void write_text(const char *path, mode_t mode, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int enter(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    char path[100], script[600];
    strcpy(p->dir, "/tmp/attn-test-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->tmp, sizeof p->tmp, "%s/tmp", p->dir);
    snprintf(p->wrapper, sizeof p->wrapper, "%s/compiler", p->dir);
    snprintf(p->diary, sizeof p->diary, "%s/diary", p->dir);
    assert_int_equal(mkdir(p->tmp, 0700), 0);
    snprintf(script, sizeof script,
             "#!/bin/sh\nfor last; do :; done\n"
             "echo \"$LC_ALL|$(stat -c %%a \"$TMPDIR\")|$(dirname -- \"$last\")|$TMPDIR|$*\" >> %s\n"
             "while [ $# -gt 0 ] && [ \"${1#-}\" = \"$1\" ]; do shift; done\nexec gcc \"$@\"\n",
             p->diary);
    write_text(p->wrapper, 0700, script);
    setenv("TMPDIR", p->tmp, 1);
    setenv("CC", p->wrapper, 1);
    snprintf(path, sizeof path, "%s/cache", p->dir);
    cpu_detect(&p->cpu);
    assert_int_equal(cache_open(path, NULL, NULL, &p->cache), 0);
    assert_int_equal(cc_open(p->cache, &p->cpu, &p->cc), 0);
    *state = p;
    return 0;
}

static int leave(void **state)
{
    struct place *p = *state;
    char command[100];
    cc_close(p->cc);
    cache_close(p->cache);
    unsetenv("TMPDIR");
    unsetenv("CC");
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    free(p);
    return system(command);
}

/* Compiles with a new cc, as another process would. */
static int compile_anew(struct place *p, const char *compiler, const char *source, const char *name, struct kernel *out,
                        struct gen_error *err)
{
    setenv("CC", compiler, 1);
    cc_close(p->cc);
    assert_int_equal(cc_open(p->cache, &p->cpu, &p->cc), 0);
    err->text[0] = 0;
    return cc_compile(p->cc, source, name, out, err);
}

/* Lines of the diary: runs of the compiler, those for --version too. */
static int runs(const struct place *p, char *last, size_t size)
{
    char line[1024];
    int n = 0;
    FILE *f = fopen(p->diary, "r");
    for (; f && fgets(line, sizeof line, f); n++)
        if (last)
            snprintf(last, size, "%s", line);
    if (f)
        fclose(f);
    return n;
}

static int count_files(const char *dir, const char *pattern)
{
    char command[200];
    int n = -1;
    snprintf(command, sizeof command, "find %s -mindepth 1 -name '%s' | wc -l", dir, pattern);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* ---- the compiler ---- */

static void compiles(void **state)
{
    struct place *p = *state;
    struct gen_error err = {0};
    struct kernel k;
    char *source = source_of("seven", "return 7;"), last[1024], expected[400];
    if (cc_compile(p->cc, source, "seven", &k, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(k.run(NULL), 7);
    assert_int_equal(k.workspace(NULL), 64);
    assert_true(k.compile_ms > 0);
    kernel_free(&k);
    kernel_free(&k);
    assert_int_equal(count_files(p->tmp, "*"), 0);

    /* Once for its version, once for this: in a folder of its own, which is the compiler's TMPDIR. */
    assert_int_equal(runs(p, last, sizeof last), 2);
    char *folder = strstr(last, "|700|");
    assert_non_null(folder);
    assert_int_equal(strncmp(last, "C|", 2), 0);
    folder += 5;
    int size = (int)strcspn(folder, "|");
    snprintf(expected, sizeof expected, "C|700|%.*s|%.*s|-std=c11 -O3 -fPIC -shared -o %.*s/seven.so %.*s/seven.c\n",
             size, folder, size, folder, size, folder, size, folder);
    assert_string_equal(last, expected);
    assert_int_equal(strncmp(folder, p->tmp, strlen(p->tmp)), 0);
    free(source);
}

/* Words of $CC stay words, whatever a shell would make of them. */
static void words(void **state)
{
    struct place *p = *state;
    struct gen_error err;
    struct kernel k;
    char *source = source_of("words", "return 1;"), last[1024], cc[200];
    snprintf(cc, sizeof cc, "  %s ;touch $HOME `id`  -DX=\"1\" ", p->wrapper);
    if (compile_anew(p, cc, source, "words", &k, &err) != 0)
        fail_msg("%s", err.text);
    kernel_free(&k);
    runs(p, last, sizeof last);
    assert_non_null(strstr(last, "|;touch $HOME `id` -DX=\"1\" -std=c11 -O3 "));
    const char *identity = cc_identity(p->cc, &err);
    assert_non_null(identity);
    assert_non_null(strstr(identity, "/compiler ;touch $HOME `id` -DX=\"1\" -std=c11 -O3 -fPIC -shared gcc "));
    assert_null(strchr(identity, '\n'));
    free(source);
}

static void ends_as(struct place *p, enum compiled how, const char *cc, const char *source, const char *name,
                    const char *begins, const char *has)
{
    struct gen_error err;
    struct kernel k;
    memset(&k, 0xff, sizeof k);
    assert_int_equal(compile_anew(p, cc, source, name, &k, &err), how);
    if (strncmp(err.text, begins, strlen(begins)) != 0 || !strstr(err.text, has))
        fail_msg("'%s'; expected '%s...%s'", err.text, begins, has);
    assert_null(k.run);
    kernel_free(&k);
    assert_int_equal(count_files(p->tmp, "*"), 0);
}

/* It read the text, and would say the same another time. */
static void refuse(struct place *p, const char *cc, const char *source, const char *name, const char *begins,
                   const char *has)
{
    ends_as(p, COMPILE_REFUSED, cc, source, name, begins, has);
}

/* It says nothing of the text. */
static void fail_at(struct place *p, const char *cc, const char *source, const char *name, const char *begins,
                    const char *has)
{
    ends_as(p, COMPILE_FAILED, cc, source, name, begins, has);
}

static void messages(void **state)
{
    struct place *p = *state;
    char *good = source_of("good", "return 1;"), *undefined = source_of("bad", "int x; return y;");
    char many[200] = "gcc";
    refuse(p, p->wrapper, undefined, "bad", "bad.c:2:", "error: 'y' undeclared");
    fail_at(p, p->wrapper, "#include <nothing.h>\n", "bad", "bad.c:1:10: fatal error: nothing.h", "");
    fail_at(p, p->wrapper, good, "other", "other.c: error: no function other; expected other and other_workspace", "");
    fail_at(p, p->wrapper, "int missing(void); int bad(void) { return missing(); } long bad_workspace(void) { return 0; }", "bad",
            "bad.c: error: the compiled kernel cannot be loaded: ", "missing");
    fail_at(p, "/nonexistent/cc", good, "good", "/nonexistent/cc: error: cannot be run: No such file",
            "expected a C compiler, gcc or clang, in $CC or as cc");
    fail_at(p, "false", good, "good", "false: error: exited with status 1; expected a C compiler", "");
    fail_at(p, "true", good, "good", "good.c: error: true wrote no object", "");
    for (int i = 0; i < 20; i++)
        strcat(many, " -DX");
    fail_at(p, many, good, "good", "CC: error: there are too many words; expected at most 16", "");
    write_text(p->wrapper, 0700,
               "#!/bin/sh\nfor last; do :; done\n" /* as gcc on a full disk */
               "[ \"$last\" = --version ] && echo full && exit\n"
               "echo \"$last:7:1: fatal error: error writing to x.s: No space left on device\"; exit 1\n");
    fail_at(p, p->wrapper, good, "good", "good.c:7:1: fatal error: error writing", "No space");
    setenv("TMPDIR", "/nonexistent", 1);
    fail_at(p, "gcc", good, "good", "good.c: error: /nonexistent", "No such file");
    free(good);
    free(undefined);
}

static void empty_means_cc(void **state)
{
    struct place *p = *state;
    struct gen_error err;
    struct kernel k;
    char *source = source_of("empty", "return 3;");
    assert_int_equal(compile_anew(p, " ", source, "empty", &k, &err), 0);
    assert_int_equal(strncmp(cc_identity(p->cc, &err), "cc -std=c11 ", 12), 0);
    assert_int_equal(k.run(NULL), 3);
    kernel_free(&k);
    free(source);
}

/* ---- the cache ---- */

static void is_7(struct place *p, const char *cc, const char *source, int compilations, const char *why)
{
    struct gen_error err;
    struct kernel k;
    int before = runs(p, NULL, 0);
    if (compile_anew(p, cc, source, "seven", &k, &err) != 0)
        fail_msg("%s: %s", why, err.text);
    assert_int_equal(k.run(NULL), 7);
    kernel_free(&k);
    int ran = runs(p, NULL, 0) - before - 1; /* one tells the version */
    if (ran != compilations)
        fail_msg("%s: compiled %d times; expected %d", why, ran, compilations);
}

static void object_path(const struct place *p, char path[200])
{
    char command[200];
    snprintf(command, sizeof command, "ls %s/cache/*.object", p->dir);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%199s", path), 1);
    pclose(f);
}

static void objects_are_kept(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;"), *other = source_of("seven", "return 3 + 4;"), path[200], cc[200];
    struct stat s;
    int removed;
    struct gen_error err;
    is_7(p, p->wrapper, source, 1, "first");
    object_path(p, path);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    is_7(p, p->wrapper, source, 0, "again");
    is_7(p, p->wrapper, other, 1, "other source");
    is_7(p, p->wrapper, source, 0, "the first again");
    snprintf(cc, sizeof cc, "%s -DX=1", p->wrapper);
    is_7(p, cc, source, 1, "other options");
    assert_int_equal(cache_clear(p->cache, &removed, &err), 0);
    assert_int_equal(removed, 3);
    is_7(p, p->wrapper, source, 1, "cleared");
    free(source);
    free(other);
}

static void bad_objects_are_built_anew(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;"), path[200], byte;
    is_7(p, p->wrapper, source, 1, "first");
    object_path(p, path);
    struct stat s;
    stat(path, &s);
    for (int i = 0; i < 6; i++) { /* a flipped bit wherever: in the object, its key, its sum */
        long at = i < 3 ? i * s.st_size / 3 : s.st_size - (i == 3 ? 1 : i == 4 ? 10 : 60);
        FILE *f = fopen(path, "r+");
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        assert_int_equal(fread(&byte, 1, 1, f), 1);
        byte ^= 4;
        fseek(f, at, SEEK_SET);
        fwrite(&byte, 1, 1, f);
        fclose(f);
        is_7(p, p->wrapper, source, 1, "flipped");
        is_7(p, p->wrapper, source, 0, "mended");
    }
    assert_int_equal(truncate(path, s.st_size / 2), 0);
    is_7(p, p->wrapper, source, 1, "cut");
    assert_int_equal(truncate(path, 0), 0);
    is_7(p, p->wrapper, source, 1, "empty");
    assert_int_equal(chmod(path, 0620), 0);
    is_7(p, p->wrapper, source, 1, "writable to others");
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, 1), 0);
        is_7(p, p->wrapper, source, 1, "another user's");
    }
    /* An object under another's name: a copy of one that is whole. */
    char *six = source_of("six", "return 6;"), command[900], theirs[200];
    struct kernel k;
    struct gen_error err;
    unlink(path);
    assert_int_equal(cc_compile(p->cc, six, "six", &k, &err), 0);
    kernel_free(&k);
    object_path(p, theirs);
    snprintf(command, sizeof command, "mv %s %s", theirs, path);
    assert_int_equal(system(command), 0);
    is_7(p, p->wrapper, source, 1, "another's object");
    free(source);
    free(six);
}

static void works_without_a_cache(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;"), path[200];
    struct cache *cache = p->cache;
    p->cache = NULL;
    is_7(p, p->wrapper, source, 1, "none");
    is_7(p, p->wrapper, source, 1, "none again");
    p->cache = cache;
    snprintf(path, sizeof path, "%s/cache", p->dir);
    write_text(path, 0600, "in the way of a directory\n");
    is_7(p, p->wrapper, source, 1, "cannot be made");
    is_7(p, p->wrapper, source, 1, "cannot be made again");
    free(source);
}

/* ---- others who can rename folders ---- */

/* The loader, just before it opens what it is given: somebody puts another folder in the place of the cache. */
void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);
static char swap_out[100], swap_in[100]; /* "": nobody does */

void *__wrap_dlopen(const char *file, int flags)
{
    char aside[110];
    if (swap_in[0]) {
        snprintf(aside, sizeof aside, "%s.aside", swap_out);
        assert_int_equal(rename(swap_out, aside), 0);
        assert_int_equal(rename(swap_in, swap_out), 0);
        swap_in[0] = 0;
    }
    return __real_dlopen(file, flags);
}

/* What was verified is what is loaded, not what lies under its name by then. */
static void loads_what_was_verified(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;"), *evil = source_of("seven", "return 666;"), path[200], command[900];
    is_7(p, p->wrapper, source, 1, "first");
    object_path(p, path);
    snprintf(command, sizeof command, "%s/evil.c", p->dir);
    write_text(command, 0600, evil);
    snprintf(command, sizeof command, "mkdir %s/evil && gcc -shared -fPIC -o %s/evil/%s %s/evil.c", p->dir, p->dir,
             strrchr(path, '/') + 1, p->dir);
    assert_int_equal(system(command), 0);
    snprintf(swap_out, sizeof swap_out, "%s/cache", p->dir);
    snprintf(swap_in, sizeof swap_in, "%s/evil", p->dir);
    is_7(p, p->wrapper, source, 0, "swapped");
    assert_string_equal(swap_in, "");
    free(source);
    free(evil);
}

/* A compiler that acts for somebody who may rename folders in TMPDIR: when it runs, another source lies under the path. */
static void compiles_what_was_written(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;"), *evil = source_of("seven", "return 666;"), path[200], script[900];
    snprintf(path, sizeof path, "%s/evil.c", p->dir);
    write_text(path, 0600, evil);
    snprintf(script, sizeof script,
             "#!/bin/sh\nmine=$(echo %s/attngen-tmp-*)\n"
             "[ -d \"$mine\" ] && mv \"$mine\" %s/aside && mkdir \"$mine\" && cp %s \"$mine\"/seven.c\n"
             "exec gcc \"$@\"\n",
             p->tmp, p->tmp, path);
    snprintf(path, sizeof path, "%s/swaps", p->dir);
    write_text(path, 0700, script);
    assert_int_equal(chmod(p->tmp, 0777), 0);
    struct gen_error err;
    struct kernel k;
    if (compile_anew(p, path, source, "seven", &k, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(k.run(NULL), 7);
    kernel_free(&k);
    free(source);
    free(evil);
}

/* Numbers of descriptors are used again, and the loader knows libraries by their names. */
static void objects_stay_apart(void **state)
{
    enum { KERNELS = 6 };
    struct place *p = *state;
    struct kernel k[KERNELS];
    struct gen_error err;
    char name[16], body[32];
    for (int i = 0; i < KERNELS; i++) {
        snprintf(name, sizeof name, "kernel%d", i % 2);
        snprintf(body, sizeof body, "return %d;", i);
        char *source = source_of(name, body);
        assert_int_equal(cc_compile(p->cc, source, name, &k[i], &err), 0);
        free(source);
    }
    for (int i = 0; i < KERNELS; i++)
        assert_int_equal(k[i].run(NULL), i);
    for (int i = 0; i < KERNELS; i++)
        kernel_free(&k[i]);
}

static int refuse_memory_files(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0;
}

static int compile_without_memory_files(void *arg)
{
    struct gen_error err;
    struct kernel k;
    char *source = source_of("seven", "return 7;");
    if (refuse_memory_files())
        return 77;
    if (cc_compile(((struct place *)arg)->cc, source, "seven", &k, &err) != 0 || k.run(NULL) != 7)
        return 1;
    kernel_free(&k);
    free(source);
    return 0;
}

static void works_without_memory_files(void **state)
{
    struct place *p = *state;
    char why[100] = "";
    int result = run_child(compile_without_memory_files, p, 60, why, sizeof why);
    if (result == 77)
        skip();
    if (result != 0)
        fail_msg("%d %s", result, why);
    assert_int_equal(count_files(p->tmp, "*"), 0);
}

/* ---- hosts ---- */

/* Killed while the compiler runs; the next one who compiles clears up, but not what others use. */
static int compile_for_ever(void *arg)
{
    struct gen_error err;
    struct kernel k;
    (void)compile_anew(arg, ((struct place *)arg)->wrapper, "", "slow", &k, &err);
    return 0;
}

static void folders_of_the_killed_are_removed(void **state)
{
    struct place *p = *state;
    char script[300], path[200], *source = source_of("seven", "return 7;");
    snprintf(path, sizeof path, "%s/waits", p->dir);
    snprintf(script, sizeof script,
             "#!/bin/sh\n[ \"$1\" = --version ] && exec gcc --version\ntouch %s/begun\nexec sleep 5\n", p->dir);
    write_text(path, 0700, script);
    snprintf(p->wrapper, sizeof p->wrapper, "%.70s", path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(compile_for_ever(p));
    snprintf(path, sizeof path, "%s/begun", p->dir);
    for (int i = 0; i < 2000 && access(path, F_OK) != 0; i++)
        usleep(5000);
    assert_int_equal(count_files(p->tmp, "attngen-tmp-*"), 1);
    struct kernel k;
    struct gen_error err;
    assert_int_equal(compile_anew(p, "gcc", source, "seven", &k, &err), 0); /* it is in use */
    kernel_free(&k);
    assert_int_equal(count_files(p->tmp, "attngen-tmp-*"), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    source[strlen(source) - 1] = ' '; /* other source */
    assert_int_equal(compile_anew(p, "gcc", source, "seven", &k, &err), 0);
    kernel_free(&k);
    assert_int_equal(count_files(p->tmp, "*"), 0);
    free(source);
}

static void children_of_the_host(void **state)
{
    struct place *p = *state;
    char *source = source_of("seven", "return 7;");
    sigset_t all, before;
    signal(SIGCHLD, SIG_IGN); /* the system reaps them, and tells nobody how they ended */
    is_7(p, p->wrapper, source, 1, "SIGCHLD ignored");
    refuse(p, p->wrapper, "int bad(void) { return y; }", "bad", "bad.c:1:", "error: 'y' undeclared");
    signal(SIGCHLD, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    source[strlen(source) - 1] = ' '; /* other source */
    is_7(p, p->wrapper, source, 1, "signals blocked");
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(source);
}

struct job {
    struct place *place;
    int number, result;
};

static void *compile_one(void *arg)
{
    struct job *job = arg;
    struct gen_error err;
    struct kernel k;
    char name[32], body[32];
    snprintf(name, sizeof name, "job%d", job->number / 2); /* two of each at once */
    snprintf(body, sizeof body, "return %d;", job->number / 2);
    char *source = source_of(name, body);
    job->result = -1;
    if (cc_compile(job->place->cc, source, name, &k, &err) == 0)
        job->result = k.run(NULL);
    kernel_free(&k);
    free(source);
    return NULL;
}

static void threads(void **state)
{
    enum { JOBS = 8 };
    struct job jobs[JOBS];
    pthread_t thread[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.place = *state, .number = i};
        assert_int_equal(pthread_create(&thread[i], NULL, compile_one, &jobs[i]), 0);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(jobs[i].result, i / 2);
    }
    assert_int_equal(count_files(((struct place *)*state)->dir, "*.object"), JOBS / 2);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(compiles),         IN_PLACE(words),
        IN_PLACE(messages),         IN_PLACE(empty_means_cc),
        IN_PLACE(objects_are_kept), IN_PLACE(bad_objects_are_built_anew),
        IN_PLACE(works_without_a_cache), IN_PLACE(children_of_the_host),
        IN_PLACE(threads),          IN_PLACE(loads_what_was_verified),
        IN_PLACE(compiles_what_was_written),
        IN_PLACE(objects_stay_apart), IN_PLACE(works_without_memory_files),
        IN_PLACE(folders_of_the_killed_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
