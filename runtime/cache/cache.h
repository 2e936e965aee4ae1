/* cache.h - what tuning found, kept on disk for the next process: one file for each key, with one line for each
 * candidate. What it is not: necessary. Whatever is missing, damaged, foreign or not writable is a miss, or a timing
 * that is not kept, and never a failed run. It knows nothing about kernels: a key is text, and so is a candidate's
 * name. */
#ifndef ATTNGEN_CACHE_CACHE_H
#define ATTNGEN_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/buf.h"
#include "gen/gen.h"

enum cache_state {
    CACHE_TIMED,     /* right, and timed to the end */
    CACHE_DROPPED,   /* right, but so much slower than others that timing it was not finished */
    CACHE_REJECTED,  /* cannot be emitted; note is the rule */
    CACHE_WRONG,     /* its compiler refused it or it computes wrong results; note says where */
    CACHE_UNREACHED, /* the time limit (limit_s) was over first */
    CACHE_STATE_COUNT
};
struct cache_row {
    char name[GEN_NAME_MAX];
    uint64_t source; /* cache_hash of the text that was compiled; 0 if none was */
    enum cache_state state;
    int64_t when; /* when it was found, in seconds since 1970, UTC; 0: not known */
    double min_s, median_s, error, bound;
    double limit_s; /* CACHE_UNREACHED: the limit of the search that did not reach it */
    int samples;
    bool noisy;     /* it was timed while the machine was disturbed: see struct tune_row */
    bool patient;   /* a patient search has finished with it */
    char note[160]; /* one line */
};
struct cache_entry {
    char *key; /* lines `name value
                * `: everything that the timings depend on, and thus the entry's identity */
    struct cache_row *rows;
    int n;
};
void cache_entry_free(struct cache_entry *entry); /* NULL and a zeroed entry are allowed */
const struct cache_row *cache_find(const struct cache_entry *entry, const char *name); /* NULL: there is no such row */
const struct cache_row *cache_winner(const struct cache_entry *entry); /* the fastest timed row; NULL: none */
uint64_t cache_hash(const char *text, size_t size);

/* The directory is dir, or if dir is NULL $ATTNGEN_CACHE, else $XDG_CACHE_HOME/attngen, else ~/.cache/attngen. "" means
 * no cache: every load is a miss and nothing is kept. Opening touches nothing; the first store creates the directory,
 * for its owner only. A directory that belongs to another user, or that others may write to, is not used; warn, which
 * may be NULL, is told at most once. 0, or -1 if out of memory. */
struct cache;
int cache_open(const char *dir, void (*warn)(void *user, const char *text), void *user, struct cache **out);
void cache_close(struct cache *cache); /* NULL is allowed */
const char *cache_path(const struct cache *cache); /* "" if there is none */

/* The path of the file that holds a key's entry; "" if there is no cache. */
enum { CACHE_PATH_MAX = 1200 };
void cache_file(const struct cache *cache, const char *key, char path[CACHE_PATH_MAX]);

/* True and an entry, which the caller frees, if the key is there and intact; else a miss. */
bool cache_load(struct cache *cache, const char *key, struct cache_entry *out);

/* Merges the entry with what is on disk and writes it under a lock, beside and renamed, so that two processes at once
 * lose nothing. Of two rows with the same name and source, a finished timing wins, then a quiet one, then the faster
 * one; but a noisy timing loses against a later and quiet one that fell behind. Between a timing and a wrong result the
 * later one wins, and the wrong result if both are equally old. With different sources the later one wins too, except
 * that what was measured wins over what was not. Removes what killed writers left. 0, or -1 and why nothing was kept,
 * for example because another process held the lock for 2 seconds; that does no other harm. Readers never wait. */
int cache_store(struct cache *cache, const struct cache_entry *entry, struct gen_error *why);

/* Compiled objects, beside the entries. One is loaded only if its file is ours, nobody else may write to it, and it is
 * intact and stored under exactly this key, which names everything that the object depends on. Returns the object's
 * *size bytes, which the caller frees; NULL: a miss. It returns no path, since the file may be replaced before it is
 * used. Storing fails as cache_store does. */
void *cache_object_load(struct cache *cache, const char *key, size_t *size);
int cache_object_store(struct cache *cache, const char *key, const void *object, size_t size, struct gen_error *why);

/* Calls `each` for every intact entry, in the order of file names. Returns how many files have an entry's name and cannot be read
 * as one: damaged, of another version of this program, or not ours. */
int cache_list(struct cache *cache, void (*each)(void *user, const char *path, const struct cache_entry *entry),
               void *user);

/* All intact entries as one text, with the same bytes for the same entries; and how many are in it, and how many could not be
 * read. It contains no compiled objects, which are quickly made again. 0, or -1 and the reason. */
int cache_export(struct cache *cache, struct buf *out, int *entries, int *unreadable, struct gen_error *err);

/* Merges such a text into the cache as cache_store does, all of it or nothing: first every line is checked, then every
 * file is written beside, then all are renamed. A process that is killed between two renames leaves intact entries, and
 * importing again completes the work. `name` is what messages call the text. 0, or -1 and the reason. */
enum { CACHE_EXPORT_MOST = 256 << 20 }; /* bytes */
int cache_import(struct cache *cache, const char *name, const char *text, size_t size, int *entries,
                 struct gen_error *err);

/* Removes entries and objects, damaged or not, and what killed writers left, but no other file. 0, or -1 and the
 * reason. */
int cache_clear(struct cache *cache, int *removed, struct gen_error *err);

#endif
