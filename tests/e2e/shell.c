/* shell.c - see shell.h. Output goes to files beside the working directory, which stays the command's own. */
#define _GNU_SOURCE
#include "shell.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int set_path(const char *name, const char *root, const char *fallback)
{
    char path[4400];
    const char *given = getenv(name);
    if (given && *given == '/')
        return 0;
    snprintf(path, sizeof path, "%s/%s", root, given ? given : fallback);
    return setenv(name, path, 1);
}

int shell_enter(void **state)
{
    (void)state;
    char root[4096], scratch[4096], path[4400];
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/attngen-e2e-XXXXXX", base ? base : "/tmp");
    if (!getcwd(root, sizeof root) || !mkdtemp(scratch))
        return -1;
    snprintf(path, sizeof path, "%s/cache", scratch);
    if (setenv("ROOT", root, 1) || setenv("SCRATCH", scratch, 1) || setenv("ATTNGEN_CACHE", path, 1) ||
        set_path("ATTNGEN", root, "out/bin/attngen") || set_path("ATTNGEN_EMIT", root, "out/bin/attngen-emit"))
        return -1;
    snprintf(path, sizeof path, "%s/work", scratch);
    return mkdir(path, 0700) || chdir(path);
}

int shell_leave(void **state)
{
    (void)state;
    return chdir(getenv("ROOT")) || system("rm -rf \"$SCRATCH\"");
}

static void read_text(const char *name, char *out, size_t room)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", getenv("SCRATCH"), name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    out[fread(out, 1, room - 1, f)] = 0;
    fclose(f);
}

/* "168 warnings generated." is what PoCL's compiler says, on some processors, of loops that it did not unroll. It writes to
 * the process's standard error itself. */
static void drop_remarks(char *text)
{
    char *to = text, *from = text;
    while (*from) {
        size_t size = strcspn(from, "\n") + (from[strcspn(from, "\n")] == '\n');
        int count, end = 0;
        sscanf(from, "%d warnings generated.%n", &count, &end);
        if (end == 0)
            sscanf(from, "%d warning generated.%n", &count, &end);
        if (end == 0) {
            memmove(to, from, size);
            to += size;
        }
        from += size;
    }
    *to = 0;
}

static void run(struct said *out, const char *format, va_list args)
{
    char *command = NULL, *line = NULL;
    assert_true(vasprintf(&command, format, args) > 0);
    assert_true(asprintf(&line, "(%s) > \"$SCRATCH/out\" 2> \"$SCRATCH/err\" < /dev/null", command) > 0);
    int status = system(line);
    out->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_text("out", out->out, sizeof out->out);
    read_text("err", out->err, sizeof out->err);
    drop_remarks(out->err);
    free(command);
    free(line);
}

void shell(struct said *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    run(out, format, args);
    va_end(args);
}

void shell_ok(struct said *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    run(out, format, args);
    va_end(args);
    if (out->code || out->err[0])
        fail_msg("'%s' exits %d and says: %s", format, out->code, out->err);
}

bool shell_has(const char *program)
{
    struct said said;
    shell(&said, "command -v %s", program);
    return said.code == 0;
}

int shell_files(const char *directory)
{
    int n = 0;
    DIR *d = opendir(directory);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

void shell_clean(void)
{
    struct said said;
    shell_ok(&said, "rm -rf \"$SCRATCH\"/work/* \"$SCRATCH\"/work/.[!.]*");
}
