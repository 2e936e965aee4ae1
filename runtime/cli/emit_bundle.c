/* emit_bundle.c - see emit_bundle.h. */
#include "emit_bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "print.h"

/* A bundle's file is recognised by its beginning: a person's own file must not be lost. */
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

int bundle_write(const struct bundle *bundle, const struct staging *s)
{
    int code = CLI_OK, staged = 0;
    for (int i = 0; i < bundle->files && code == CLI_OK; i++)
        code = check_place(s, &bundle->file[i]);
    for (; staged < bundle->files && code == CLI_OK; staged++)
        code = stage_file(s, bundle->file[staged].name, bundle->file[staged].data, bundle->file[staged].size);
    for (int i = 0; i < staged; i++)
        code = finish_file(s, bundle->file[i].name, code);
    return code;
}
