/* files.h - files in places that others may change too: a folder for another program, which nobody else can enter or
 * replace, and files that are checked to be what they are taken for. What it is not: the cache (cache/). */
#ifndef ATTNGEN_SYSTEM_FILES_H
#define ATTNGEN_SYSTEM_FILES_H

#include <stddef.h>

#include "gen/gen.h"

enum { FOLDER_ROOM = 1024 };

/* TMPDIR, else /tmp. */
const char *temporary_base(void);

/* Writes all of it; 0, or -1 and errno. */
int file_write(int fd, const void *data, size_t size);

/* Reads a whole regular file of this user's, of up to `most` bytes. The caller frees it. NULL and errno on failure. */
void *file_read_at(int dir, const char *file, size_t most, size_t *size);

/* Opens a pipe, a terminal or anything else that exists and is no regular file, for writing in place. -1 and EEXIST if
 * a regular file has taken its place since it was looked at. */
int file_open_in_place(const char *path);

/* Makes a new folder in TMPDIR, of mode 0700, for files only. Folders that killed processes left there are removed. */
struct folder {
    int dir;                /* the folder itself, whatever happens to its path; -1: none */
    char path[FOLDER_ROOM]; /* the path for other programs; only this user and root can make it lead elsewhere */
    char made[FOLDER_ROOM]; /* the path as it was made */
};
int folder_create(struct folder *out); /* 0, or -1 and errno, with the path that failed in out->made */
void folder_remove(struct folder *folder);

#endif
