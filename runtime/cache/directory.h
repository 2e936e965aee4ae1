/* directory.h - files in the cache's directory, for those who keep something there: this folder.
 * What it is not: public, nor a choice of what the files hold. */
#ifndef ATTNGEN_CACHE_DIRECTORY_H
#define ATTNGEN_CACHE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "cache.h"

/* A file's name is the key's hash, in hexadecimal, and an ending. */
enum { CACHE_HEX = 32, CACHE_NAME_MAX = CACHE_HEX + 16 };
#define CACHE_ENTRY ".tune"
#define CACHE_OBJECT ".object"
void cache_dir_name(const char *key, const char *ending, char name[CACHE_NAME_MAX]);

/* The directory, open and found to be safe; -1: there is none to use. */
int cache_dir_open(struct cache *cache, bool create);

/* A whole file that is ours and that others may not write to, to free; else NULL and errno: EBADMSG when something else
 * is there. */
char *cache_dir_read(int dir, const char *name, size_t *size);

/* The directory's lock, in the file of that name. Waits so many seconds while nobody else gets it, and a few times as
 * many in all. -1 and errno, EWOULDBLOCK when another held it for so long. */
extern const char CACHE_LOCK[];
int cache_dir_lock(int dir, double patience);
void cache_dir_unlock(int held); /* -1 is allowed; leaves errno as it is */

/* The lock with the cache's own patience, which ends with a deadline that was missed: the next stores only glance at
 * it, until one gets it. The first of them warns. */
int cache_lock(struct cache *cache, int dir);

/* Why something could not be written, by errno. */
const char *cache_why(int error);

/* Removes what killed writers left, under the lock: all that is beside another file is theirs then. What was there
 * before and has no other place comes back. */
void cache_dir_sweep(int dir);

/* The name beside a file's own under which this process writes it; `old`, under which it keeps what was there. */
enum { CACHE_BESIDE_MAX = CACHE_NAME_MAX + 32 };
void cache_dir_beside(const char *name, bool old, char beside[CACHE_BESIDE_MAX]);

/* A new file, under the lock. 0, or -1 and errno; there is no such file then. */
int cache_dir_write(int dir, const char *beside, const char *text, size_t size);

/* Writes beside and renames, under the lock. 0, or -1 and errno; the old file stays whole then. */
int cache_dir_replace(int dir, const char *name, const char *text, size_t size);

/* Adds to an entry the rows of another, as cache_store says, and sorts them by name. 0, or -1 when memory ran out. */
int cache_merge(struct cache_entry *into, const struct cache_entry *from);

/* What the entry's file would hold with it merged, under the lock. 0, or -1 and errno. */
int cache_dir_merged(int dir, const struct cache_entry *entry, struct buf *text);

#endif
