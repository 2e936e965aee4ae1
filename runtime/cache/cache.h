/* cache.h - what tuning found, kept on disk for the next process: one file a key, one line a candidate.
 * What it is not: needed. Whatever is missing, damaged, foreign or not writable is a miss or a timing not kept, never a
 * failed run. It knows nothing of kernels: a key is text, and so is a candidate's name. */
#ifndef ATTNGEN_CACHE_CACHE_H
#define ATTNGEN_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/buf.h"
#include "gen/gen.h"

enum cache_state {
    CACHE_TIMED,     /* right, and timed to the end */
    CACHE_DROPPED,   /* right, and slower than others by so much that it was not timed to the end */
    CACHE_REJECTED,  /* cannot be emitted; note is the rule */
    CACHE_WRONG,     /* refused by its compiler, or computes wrong, both of its own doing; note says where */
    CACHE_UNREACHED, /* the time limit (limit_s) came first */
    CACHE_STATE_COUNT
};
struct cache_row {
    char name[GEN_NAME_MAX];
    uint64_t source; /* cache_hash of the text that was compiled; 0 where none was */
    enum cache_state state;
    int64_t when; /* it was found: seconds since 1970, UTC; 0: not known */
    double min_s, median_s, error, bound;
    double limit_s; /* CACHE_UNREACHED: of the search that did not come to it */
    int samples;
    bool noisy;
    bool patient;   /* a patient search has seen it to the end */
    char note[160]; /* one line */
};
struct cache_entry {
    char *key; /* lines `name value\n`, all that the timings depend on; the entry's identity */
    struct cache_row *rows;
    int n;
};
void cache_entry_free(struct cache_entry *entry); /* NULL and a zeroed entry are allowed */
const struct cache_row *cache_find(const struct cache_entry *entry, const char *name); /* NULL: not there */
const struct cache_row *cache_winner(const struct cache_entry *entry); /* fastest of the timed; NULL: none */
uint64_t cache_hash(const char *text, size_t size);

/* The directory: dir, or when that is NULL $ATTNGEN_CACHE, else $XDG_CACHE_HOME/attngen, else ~/.cache/attngen.
 * "" is no cache: all misses, nothing kept. Opening touches nothing; the first store creates the directory, for its
 * owner alone. A directory that is not ours, or that others may write to, is not used; that is told to warn, which may
 * be NULL, at most once. 0, or -1 when memory ran out. */
struct cache;
int cache_open(const char *dir, void (*warn)(void *user, const char *text), void *user, struct cache **out);
void cache_close(struct cache *cache); /* NULL is allowed */
const char *cache_path(const struct cache *cache); /* "" when there is none */

/* The file that holds a key's entry, as a path; "" when there is no cache. */
enum { CACHE_PATH_MAX = 1200 };
void cache_file(const struct cache *cache, const char *key, char path[CACHE_PATH_MAX]);

/* True and an entry to free when the key is there and intact, else a miss. */
bool cache_load(struct cache *cache, const char *key, struct cache_entry *out);

/* Merges the entry with what is on disk and writes it, under a lock, beside and renamed: two processes at once lose
 * nothing. Of two rows with one name and source a finished timing stands, then a quiet one, then the faster; of a
 * timing and a wrong result the later, and the wrong result when both are as old. With different sources the later too,
 * but that what was measured stands against what was not. Removes what killed writers left. 0, or -1 and why nothing
 * was kept: the lock was held by another for 2 seconds, for one. There is no other harm. Reading waits for nobody. */
int cache_store(struct cache *cache, const struct cache_entry *entry, struct gen_error *why);

/* Compiled objects, beside the entries: loaded only when the file is ours, writable to nobody else, whole, and stored
 * under that very key, which names all that the object depends on. The object's *size bytes, to free; NULL: a miss. There
 * is no path to it: the file there may be another by the time it is used. Storing fails as cache_store does. */
void *cache_object_load(struct cache *cache, const char *key, size_t *size);
int cache_object_store(struct cache *cache, const char *key, const void *object, size_t size, struct gen_error *why);

/* Calls each for every intact entry, in the order of file names. Returns how many there were. */
int cache_list(struct cache *cache, void (*each)(void *user, const char *path, const struct cache_entry *entry),
               void *user);

/* All intact entries as one text, the same bytes for the same entries. Compiled objects, which are soon made anew, are
 * not in it. 0, or -1 and the reason. */
int cache_export(struct cache *cache, struct buf *out, int *entries, struct gen_error *err);

/* Merges such a text into the cache, as cache_store does, all of it or nothing: first every line is judged, then every
 * file is written beside, then all are renamed. A process killed between two renames leaves whole entries, and
 * importing again does the rest. `name` is the text's in messages. 0, or -1 and the reason. */
enum { CACHE_EXPORT_MOST = 256 << 20 }; /* bytes */
int cache_import(struct cache *cache, const char *name, const char *text, size_t size, int *entries,
                 struct gen_error *err);

/* Removes entries and objects, damaged or not, and what a killed writer left; no other file. 0, or -1 and the
 * reason. */
int cache_clear(struct cache *cache, int *removed, struct gen_error *err);

#endif
