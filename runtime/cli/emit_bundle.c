/* emit_bundle.c - see emit_bundle.h. */
#define _GNU_SOURCE
#include "emit_bundle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "print.h"

/* A bundle's file is known by how it begins: a person's own must not be lost. */
enum { BEGINNING = 24 };

static int check_place(const struct staging *s, const struct bundle_file *f)
{
    size_t size;
    bool absent;
    char *text = staging_read(s, f->name, &size, &absent);
    if (!text)
        return absent ? CLI_OK : CLI_FAILED;
    bool ours = !strncmp(text, f->data, BEGINNING);
    free(text);
    if (ours)
        return CLI_OK;
    print_line(stderr, "%s/%s: error: a file of that name is there, and not this bundle's; expected another directory",
            s->path, f->name);
    return CLI_FAILED;
}

static bool in_bundle(const struct bundle *b, const char *file)
{
    for (int i = 0; i < b->files; i++)
        if (!strcmp(b->file[i].name, file))
            return true;
    return false;
}

/* A build of all .c files there would take it in. */
static void tell_left_behind(const struct bundle *b, const char *name, const struct staging *s)
{
    char begins[BUNDLE_NAME_MAX + 40];
    int fd = dup(s->dir);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    snprintf(begins, sizeof begins, "/* A kernel of the bundle %s,", name);
    if (d)
        rewinddir(d);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t size = strlen(e->d_name);
        bool absent;
        if (size < 2 || strcmp(e->d_name + size - 2, ".c") != 0 || in_bundle(b, e->d_name))
            continue;
        char *text = staging_read(s, e->d_name, &size, &absent);
        if (text && !strncmp(text, begins, strlen(begins)))
            print_line(stderr, "%s/%s: warning: it is left behind, a kernel that the bundle has no longer", s->path,
                    e->d_name);
        free(text);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

int bundle_write(const struct bundle *bundle, const char *name, const struct staging *s)
{
    int code = CLI_OK, staged = 0;
    for (int i = 0; i < bundle->files && code == CLI_OK; i++)
        code = check_place(s, &bundle->file[i]);
    for (; staged < bundle->files && code == CLI_OK; staged++)
        code = stage_file(s, bundle->file[staged].name, bundle->file[staged].data, bundle->file[staged].size);
    for (int i = 0; i < staged; i++)
        code = finish_file(s, bundle->file[i].name, code);
    if (code == CLI_OK)
        tell_left_behind(bundle, name, s);
    return code;
}
