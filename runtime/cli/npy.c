/* npy.c - see npy.h. The header is a Python dictionary of three entries; the reader accepts exactly those. */
#define _GNU_SOURCE
#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/buf.h"
#include "system/files.h"
#include "system/memory.h"
#include "signals.h"

static const struct npy_type_row {
    const char *descr, *name;
    size_t size;
} types[NPY_TYPES] = {
    [NPY_F32] = {"<f4", "float32", 4}, [NPY_F16] = {"<f2", "float16", 2}, [NPY_U16] = {"<u2", "uint16", 2},
    [NPY_I32] = {"<i4", "int32", 4},   [NPY_I64] = {"<i8", "int64", 8},   [NPY_BOOL] = {"|b1", "bool", 1},
    [NPY_U8] = {"|u1", "uint8", 1},    [NPY_I8] = {"|i1", "int8", 1},
    [NPY_F64] = {"<f8", "float64", 8}, /* which no array may have, so that each can say which ones it may have */
};
enum { MAGIC = 6, PREFIX_MAX = 12, HEADER_MAX = 65536 };
static const unsigned char magic[MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

const char *npy_type_name(enum npy_type t)
{
    return types[t].name;
}

size_t npy_type_size(enum npy_type t)
{
    return types[t].size;
}

struct npy_text npy_shape_text(int dims, const int64_t *shape)
{
    struct npy_text t = {"["};
    for (int i = 0; i < dims; i++) {
        size_t used = strlen(t.text);
        snprintf(t.text + used, sizeof t.text - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    size_t used = strlen(t.text);
    snprintf(t.text + used, sizeof t.text - used, "]");
    return t;
}

int npy_wrong(struct gen_error *err, const char *path, const char *format, ...)
{
    int used = snprintf(err->text, sizeof err->text, "%.400s: error: ", path);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text + used, sizeof err->text - (size_t)used, format, args);
    va_end(args);
    return -1;
}

/* ---- the header ---- */

struct cursor {
    const char *at, *end;
};

static void skip(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool take(struct cursor *c, char mark)
{
    skip(c);
    if (c->at == c->end || *c->at != mark)
        return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    skip(c);
    size_t size = strlen(word);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size))
        return false;
    c->at += size;
    return true;
}

/* A quoted string without escapes. */
static bool take_string(struct cursor *c, char *out, size_t room)
{
    skip(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (n + 1 >= room || !isprint((unsigned char)*c->at) || *c->at == '\\')
            return false;
        out[n++] = *c->at;
    }
    out[n] = 0;
    return take(c, quote);
}

static int parse_descr(const char *path, struct cursor *c, struct npy *out, struct gen_error *err)
{
    static const char expected[] = "expected bool, int8, uint8, uint16, int32, int64, float16 or float32, little-endian";
    char descr[32];
    if (!take_string(c, descr, sizeof descr))
        return npy_wrong(err, path, "the type is not a simple one; %s", expected);
    for (int t = 0; t < NPY_TYPES; t++)
        if (!strcmp(descr, types[t].descr)) {
            out->type = (enum npy_type)t;
            return 0;
        }
    return npy_wrong(err, path, "the type is '%s'; %s", descr, expected);
}

static int parse_order(const char *path, struct cursor *c, struct gen_error *err)
{
    if (take_word(c, "False"))
        return 0;
    if (take_word(c, "True"))
        return npy_wrong(err, path, "the array is in Fortran order; expected C order (numpy.ascontiguousarray)");
    return npy_wrong(err, path, "fortran_order is invalid; expected False");
}

static int parse_shape(const char *path, struct cursor *c, struct npy *out, struct gen_error *err)
{
    static const char broken[] = "the shape is invalid; expected a tuple of sizes";
    if (!take(c, '('))
        return npy_wrong(err, path, "%s", broken);
    while (!take(c, ')')) {
        if (out->dims == NPY_DIMS_MAX)
            return npy_wrong(err, path, "the shape has more than %d sides; expected at most that many", NPY_DIMS_MAX);
        int64_t side = 0;
        const char *start = c->at; /* take has skipped blanks */
        for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
            if (__builtin_mul_overflow(side, 10, &side) || __builtin_add_overflow(side, *c->at - '0', &side))
                return npy_wrong(err, path, "the shape overflows; expected sizes that fit in memory");
        if (c->at == start)
            return npy_wrong(err, path, "%s", broken);
        out->shape[out->dims++] = side;
        bool comma = take(c, ',');
        skip(c);
        if (!comma && (out->dims == 1 || c->at == c->end || *c->at != ')'))
            return npy_wrong(err, path, "%s", broken); /* (3) is not a tuple */
    }
    return 0;
}

/* Elements and bytes; also for shapes that contain a zero, whose other sides must not overflow later products
 * either. */
static int measure(const char *path, struct npy *out, struct gen_error *err)
{
    int64_t bytes = (int64_t)types[out->type].size;
    bool empty = false;
    for (int i = 0; i < out->dims; i++) {
        empty |= out->shape[i] == 0;
        if (out->shape[i] && __builtin_mul_overflow(bytes, out->shape[i], &bytes))
            return npy_wrong(err, path, "the shape %s overflows; expected an array that fits in memory",
                             npy_shape_text(out->dims, out->shape).text);
    }
    out->size = empty ? 0 : (size_t)bytes;
    out->count = empty ? 0 : bytes / (int64_t)types[out->type].size;
    return 0;
}

static int parse_dictionary(const char *path, struct cursor c, struct npy *out, struct gen_error *err)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    enum { KEYS = sizeof keys / sizeof *keys };
    unsigned seen = 0;
    if (!take(&c, '{'))
        return npy_wrong(err, path,
                         "the header is not a dictionary; expected {'descr': ..., 'fortran_order': ..., 'shape': ...}");
    while (!take(&c, '}')) {
        char key[32];
        if (!take_string(&c, key, sizeof key) || !take(&c, ':'))
            return npy_wrong(err, path, "the header is broken; expected a key and a colon");
        unsigned k = 0;
        while (k < KEYS && strcmp(key, keys[k]))
            k++;
        if (k == KEYS || (seen & 1u << k))
            return npy_wrong(err, path,
                             "the header has a key '%s' %s; expected descr, fortran_order and shape, once each", key,
                             k == KEYS ? "that is unknown" : "twice");
        seen |= 1u << k;
        int failed = k == 0   ? parse_descr(path, &c, out, err)
                     : k == 1 ? parse_order(path, &c, err)
                              : parse_shape(path, &c, out, err);
        if (failed)
            return -1;
        bool comma = take(&c, ',');
        skip(&c);
        if (!comma && (c.at == c.end || *c.at != '}'))
            return npy_wrong(err, path, "the header is broken; expected a comma or }");
    }
    skip(&c);
    if (c.at != c.end)
        return npy_wrong(err, path, "something follows the header's dictionary; expected spaces");
    if (seen != (1u << KEYS) - 1)
        return npy_wrong(err, path, "a key is missing from the header; expected descr, fortran_order and shape");
    return measure(path, out, err);
}

int64_t npy_parse_header(const char *path, const unsigned char *bytes, size_t size, struct npy *out,
                         struct gen_error *err)
{
    *out = (struct npy){0};
    if (size < MAGIC || memcmp(bytes, magic, MAGIC))
        return npy_wrong(err, path, "it is not a .npy file; expected it to start with \\x93NUMPY");
    if (size < MAGIC + 4)
        return npy_wrong(err, path, "the file ends within its header; expected more bytes");
    int version = bytes[MAGIC];
    if (version < 1 || version > 3 || bytes[MAGIC + 1] != 0)
        return npy_wrong(err, path, ".npy version %d.%d is unknown; expected 1.0, 2.0 or 3.0", version,
                         bytes[MAGIC + 1]);
    size_t prefix = version == 1 ? MAGIC + 4 : MAGIC + 6, length = 0;
    if (size < prefix)
        return npy_wrong(err, path, "the file ends within its header; expected more bytes");
    for (size_t i = prefix; i-- > MAGIC + 2;)
        length = length << 8 | bytes[i];
    if (length > HEADER_MAX)
        return npy_wrong(err, path, "its header has %zu bytes; expected at most %d", length, HEADER_MAX);
    if (size - prefix < length)
        return npy_wrong(err, path, "the file ends within its header; expected more bytes");
    const char *text = (const char *)bytes + prefix;
    if (parse_dictionary(path, (struct cursor){text, text + length}, out, err))
        return -1;
    return (int64_t)(prefix + length);
}

/* ---- reading ---- */

/* As many bytes as there are, up to size; -1 with a message if the file cannot be read. */
static int64_t read_some(const char *path, int fd, void *to, size_t size, struct gen_error *err)
{
    size_t have = 0;
    while (have < size) {
        size_t want = size - have < (1u << 30) ? size - have : 1u << 30;
        ssize_t n = read(fd, (char *)to + have, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return npy_wrong(err, path, "it cannot be read: %s; expected a .npy file", strerror(errno));
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (int64_t)have;
}

static int allocate(const char *path, struct npy *out, struct gen_error *err)
{
    const double left = memory_left();
    if ((double)out->size > left)
        return npy_wrong(err, path, "it needs %.1f GB of memory, and %.1f GB are left; expected a smaller array",
                         (double)out->size * 1e-9, left * 1e-9);
    if (out->size > SIZE_MAX / 2 || !(out->data = aligned_alloc(64, (out->size + 64) / 64 * 64)))
        return npy_wrong(err, path, "out of memory for its %zu bytes; expected a smaller array", out->size);
    return 0;
}

static int read_data(const char *path, int fd, int64_t start, struct npy *out, struct gen_error *err)
{
    struct stat st;
    bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
    /* Before the allocation: a header of a few bytes can ask for any amount of memory. */
    if (regular && st.st_size - start != (int64_t)out->size)
        return npy_wrong(err, path, "it holds %lld bytes of data; expected %zu for %s %s",
                         (long long)(st.st_size - start), out->size, types[out->type].name,
                         npy_shape_text(out->dims, out->shape).text);
    if (allocate(path, out, err))
        return -1;
    int64_t have = read_some(path, fd, out->data, out->size, err);
    if (have < 0)
        return -1;
    if (have != (int64_t)out->size)
        return npy_wrong(err, path, "it holds %lld bytes of data; expected %zu for %s %s", (long long)have, out->size,
                         types[out->type].name, npy_shape_text(out->dims, out->shape).text);
    char more;
    have = read_some(path, fd, &more, 1, err);
    if (have > 0)
        return npy_wrong(err, path, "it holds more than the %zu bytes of %s %s; expected no more", out->size,
                         types[out->type].name, npy_shape_text(out->dims, out->shape).text);
    return have < 0 ? -1 : 0;
}

/* Reads as many bytes as the header has and no more, since the source may be a pipe. */
static int64_t read_header(const char *path, int fd, struct npy *out, struct gen_error *err)
{
    int64_t start = -1;
    size_t length = 0;
    unsigned char *bytes = malloc(PREFIX_MAX + HEADER_MAX);
    if (!bytes)
        return npy_wrong(err, path, "out of memory for its header; expected a few kilobytes");
    int64_t have = read_some(path, fd, bytes, MAGIC + 4, err);
    if (have < 0)
        goto cleanup;
    if (have == MAGIC + 4 && bytes[MAGIC] > 1) {
        int64_t more = read_some(path, fd, bytes + have, 2, err);
        if (more < 0)
            goto cleanup;
        have += more;
    }
    for (int64_t i = have; i-- > MAGIC + 2;)
        length = length << 8 | bytes[i];
    if (!memcmp(bytes, magic, MAGIC < have ? MAGIC : (size_t)have) && length <= HEADER_MAX) {
        int64_t more = read_some(path, fd, bytes + have, length, err);
        if (more < 0)
            goto cleanup;
        have += more;
    }
    start = npy_parse_header(path, bytes, (size_t)have, out, err);
cleanup:
    free(bytes);
    return start;
}

int npy_read(const char *path, struct npy *out, struct gen_error *err)
{
    *out = (struct npy){0};
    int result = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return npy_wrong(err, path, "it cannot be opened: %s; expected a .npy file", strerror(errno));
    int64_t start = read_header(path, fd, out, err);
    if (start >= 0)
        result = read_data(path, fd, start, out, err);
    close(fd);
    if (result)
        npy_free(out);
    return result;
}

int npy_new(const char *path, enum npy_type type, int dims, const int64_t *shape, struct npy *out,
            struct gen_error *err)
{
    *out = (struct npy){.type = type, .dims = dims};
    memcpy(out->shape, shape, (size_t)dims * sizeof *shape);
    if (measure(path, out, err) || allocate(path, out, err))
        return -1;
    memset(out->data, 0, out->size);
    return 0;
}

void npy_free(struct npy *a)
{
    free(a->data);
    *a = (struct npy){0};
}

int npy_read_lengths(const char *path, int64_t batch, int64_t kv_len, int64_t **out, struct gen_error *err)
{
    struct npy a;
    int64_t *lengths = NULL;
    int result = -1;
    if (npy_read(path, &a, err))
        return -1;
    if ((a.type != NPY_I32 && a.type != NPY_I64) || a.dims != 1 || a.shape[0] != batch) {
        npy_wrong(err, path, "it is %s %s; expected int32 or int64 [%lld]", types[a.type].name,
                  npy_shape_text(a.dims, a.shape).text, (long long)batch);
        goto cleanup;
    }
    if (!(lengths = malloc(a.size * 2 + 8))) {
        npy_wrong(err, path, "out of memory for its lengths; expected a smaller array");
        goto cleanup;
    }
    for (int64_t i = 0; i < batch; i++) {
        lengths[i] = a.type == NPY_I32 ? ((const int32_t *)a.data)[i] : ((const int64_t *)a.data)[i];
        if (lengths[i] < 0 || lengths[i] > kv_len) {
            npy_wrong(err, path, "length %lld at [%lld] is invalid; expected 0 to %lld", (long long)lengths[i],
                      (long long)i, (long long)kv_len);
            goto cleanup;
        }
    }
    *out = lengths;
    lengths = NULL;
    result = 0;
cleanup:
    free(lengths);
    npy_free(&a);
    return result;
}

/* ---- writing ---- */

/* A large array takes seconds, which a signal that is held back ends. */
static int write_pieces(int fd, const char *data, size_t size)
{
    enum { PIECE = 64 << 20 };
    for (size_t at = 0; at < size; at += PIECE) {
        if (signals_wait()) {
            errno = EINTR;
            return -1;
        }
        if (file_write(fd, data + at, size - at < PIECE ? size - at : PIECE) != 0)
            return -1;
    }
    return 0;
}

/* As numpy writes it: version 1.0, with the data at a multiple of 64. */
static int write_array(int fd, const struct npy *a)
{
    struct buf text = {0};
    buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[a->type].descr);
    for (int i = 0; i < a->dims; i++)
        buf_printf(&text, a->dims == 1 ? "%lld," : i ? ", %lld" : "%lld", (long long)a->shape[i]);
    buf_puts(&text, "), }");
    while ((MAGIC + 4 + text.size + 1) % 64 && buf_ok(&text))
        buf_putc(&text, ' ');
    buf_putc(&text, '\n');
    int result = -1;
    if (buf_ok(&text)) {
        unsigned char prefix[MAGIC + 4] = {[MAGIC] = 1, 0, (unsigned char)text.size, (unsigned char)(text.size >> 8)};
        memcpy(prefix, magic, MAGIC);
        result = file_write(fd, prefix, sizeof prefix) || file_write(fd, text.data, text.size) ||
                 write_pieces(fd, a->data, a->size);
    } else {
        errno = ENOMEM;
    }
    buf_free(&text);
    return result ? -1 : 0;
}

/* A new file in the target's directory, with the rights that the umask leaves, which mkstemp would not give. */
static int create_beside(const char *target, char **beside)
{
    for (int try = 0; try < 100; try++) {
        if (asprintf(beside, "%s.%ld.%d.tmp", target, (long)getpid(), try) < 0) {
            *beside = NULL;
            return -1;
        }
        int fd = open(*beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        free(*beside);
        *beside = NULL;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

int npy_stage(const char *path, const struct npy *array, struct npy_staged *out, struct gen_error *err)
{
    *out = (struct npy_staged){.array = *array};
    struct stat st;
    bool there = !stat(path, &st);
    if (there && S_ISDIR(st.st_mode))
        return npy_wrong(err, path, "it is a directory; expected a file to write");
    out->in_place = there && !S_ISREG(st.st_mode);
    /* Follows a link to the file, so that it remains a link. What is written in place may have no name of its own. */
    out->target = there && !out->in_place ? realpath(path, NULL) : strdup(path);
    if (!out->target)
        return npy_wrong(err, path, "it cannot be written: %s; expected a place for the output", strerror(errno));
    if (out->in_place)
        return 0;
    int fd = create_beside(out->target, &out->beside);
    if (fd < 0) {
        npy_wrong(err, path, "it cannot be written: %s; expected a place for the output", strerror(errno));
        npy_discard(out, 1);
        return -1;
    }
    int failed = write_array(fd, &out->array), why = errno;
    if (close(fd) && !failed) {
        failed = -1;
        why = errno;
    }
    if (failed) {
        npy_wrong(err, path, "it cannot be written: %s; expected room for %zu bytes", strerror(why), out->array.size);
        npy_discard(out, 1);
    }
    return failed;
}

static int commit_one(struct npy_staged *f)
{
    if (!f->in_place) {
        if (rename(f->beside, f->target))
            return -1;
        free(f->beside);
        f->beside = NULL;
        return 0;
    }
    int fd = file_open_in_place(f->target);
    if (fd < 0)
        return -1;
    int failed = write_array(fd, &f->array);
    return close(fd) || failed ? -1 : 0;
}

int npy_commit(struct npy_staged *files, int n, struct gen_error *err)
{
    /* What is written in place comes first, since only that can run out of space. */
    for (int i = 0; i < 2 * n; i++) {
        struct npy_staged *f = &files[i % n];
        if (f->in_place != (i < n) || !commit_one(f))
            continue;
        npy_wrong(err, f->target, "it cannot be written: %s; expected a place for the output", strerror(errno));
        for (int j = 0; j < n; j++) /* together or not at all */
            if (!files[j].in_place && !files[j].beside)
                unlink(files[j].target);
        return -1;
    }
    return 0;
}

void npy_discard(struct npy_staged *files, int n)
{
    for (int i = 0; i < n; i++) {
        if (files[i].beside)
            unlink(files[i].beside);
        free(files[i].beside);
        free(files[i].target);
        files[i] = (struct npy_staged){0};
    }
}
