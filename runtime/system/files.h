/* files.h - files in places that others may change too: a folder for another program, which nobody else can enter or take
 * the place of, and files that are what they were found to be. What it is not: the cache (cache/). */
#ifndef ATTNGEN_SYSTEM_FILES_H
#define ATTNGEN_SYSTEM_FILES_H

#include <stddef.h>

#include "gen/gen.h"

enum { FOLDER_ROOM = 1024 };

/* TMPDIR, else /tmp. */
const char *temporary_base(void);

/* All of it; 0, or -1 and errno. */
int file_write(int fd, const void *data, size_t size);

/* A whole regular file of this user's, of up to `most` bytes, to free; NULL and errno. */
void *file_read_at(int dir, const char *file, size_t most, size_t *size);

/* Opens a pipe, a terminal or what else is there and no regular file, to be written as it is: -1 and EEXIST where a file
 * has taken its place since that was found. */
int file_open_in_place(const char *path);

/* A new folder in TMPDIR, of mode 0700. It is flat. Those that killed processes left there are removed. */
struct folder {
    int dir;                /* the folder itself, whatever becomes of its path; -1: none */
    char path[FOLDER_ROOM]; /* for other programs; nobody but this user and root can make it lead elsewhere */
    char made[FOLDER_ROOM]; /* as it was made */
};
int folder_create(struct folder *out); /* 0, or -1 and errno, with the path that failed in out->made */
void folder_remove(struct folder *folder);

#endif
