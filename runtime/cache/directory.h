/* directory.h - files in the cache's directory, for the other files of this folder. What it is not: public, or
 * concerned with what the files hold. */
#ifndef ATTNGEN_CACHE_DIRECTORY_H
#define ATTNGEN_CACHE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "cache.h"

/* A file's name is the hash of the key, in hexadecimal, and an ending. */
enum { CACHE_HEX = 32, CACHE_NAME_MAX = CACHE_HEX + 16 };
#define CACHE_ENTRY ".tune"
#define CACHE_OBJECT ".object"
void cache_dir_name(const char *key, const char *ending, char name[CACHE_NAME_MAX]);

/* The directory, opened and found safe; -1: there is none to use, and *why says so unless it is NULL. */
int cache_dir_open(struct cache *cache, bool create, struct gen_error *why);

/* A whole file that is ours and that others may not write to; the caller frees it. Otherwise NULL and errno, which is
 * EBADMSG if something else is there. */
char *cache_dir_read(int dir, const char *name, size_t *size);

/* Takes the directory's lock, in the file of that name. Waits so many seconds while nobody else gets it, and a few
 * times as many in all. -1 and errno, which is EWOULDBLOCK if another held it for so long. */
extern const char CACHE_LOCK[];
int cache_dir_lock(int dir, double patience);
void cache_dir_unlock(int held); /* -1 is allowed; keeps errno */

/* Takes the lock with the cache's own patience. After a wait in vain, later stores wait only briefly until one gets the
 * lock. The first failure warns. */
int cache_lock(struct cache *cache, int dir);

/* Why something could not be written, by errno. */
const char *cache_why(int error);

/* Removes, under the lock, what killed writers left, which is then every file written beside another. What was moved
 * aside and never replaced comes back. */
void cache_dir_sweep(int dir);

/* The names beside a file's own under which this process writes it, and with `old` under which it keeps the previous
 * one. */
enum { CACHE_BESIDE_MAX = CACHE_NAME_MAX + 32 };
void cache_dir_beside(const char *name, bool old, char beside[CACHE_BESIDE_MAX]);

/* Makes a new file, under the lock. 0, or -1 and errno; there is no such file then. */
int cache_dir_write(int dir, const char *beside, const char *text, size_t size);

/* Writes beside and renames, under the lock. 0, or -1 and errno; the old file then stays intact. */
int cache_dir_replace(int dir, const char *name, const char *text, size_t size);

/* Adds the rows of another entry, as cache_store says, and sorts them by name. 0, or -1 if out of memory. */
int cache_merge(struct cache_entry *into, const struct cache_entry *from);

/* What the entry's file would hold after merging, under the lock. 0, or -1 and errno. */
int cache_dir_merged(int dir, const struct cache_entry *entry, struct buf *text);

#endif
