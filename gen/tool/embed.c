/* embed - a program of the build: writes files as C arrays, with a hash of them and of further files.
 *
 *     embed OUT.c PREFIX FILE... -- HASHED...
 *
 * The same files give the same bytes, whatever the order of the arguments. What it is not: a part of attngen or
 * libattn. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a, 64 bit: enough to tell one state of the sources from another. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The whole file, which the caller frees; NULL after a message. */
static char *read_file(const char *path, size_t *size)
{
    char *data = NULL;
    size_t capacity = 0;
    *size = 0;
    FILE *file = fopen(path, "rb");
    while (file) {
        if (*size == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *larger = realloc(data, capacity);
            if (!larger)
                break;
            data = larger;
        }
        size_t got = fread(data + *size, 1, capacity - *size, file);
        *size += got;
        if (got == 0)
            break;
    }
    bool good = file && feof(file) && !ferror(file);
    if (file)
        fclose(file);
    if (good)
        return data;
    fprintf(stderr, "%s: error: cannot be read\n", path);
    free(data);
    return NULL;
}

/* One string literal for each line. `?` is escaped because of trigraphs, which -std=c11 knows. */
static void write_literal(FILE *out, const char *data, size_t size)
{
    fputs("    \"", out);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '\n')
            fputs(i + 1 < size ? "\\n\"\n    \"" : "\\n", out);
        else if (c == '"' || c == '\\' || c == '?')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~')
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fputs("\"", out);
}

static void hash_file(const char *name, const char *data, size_t size, uint64_t *hash)
{
    uint64_t length = size;
    *hash = hash_bytes(*hash, name, strlen(name) + 1);
    for (int i = 0; i < 8; i++) {
        unsigned char byte = (unsigned char)(length >> 8 * i);
        *hash = hash_bytes(*hash, &byte, 1);
    }
    *hash = hash_bytes(*hash, data, size);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int write_files(FILE *out, const char *prefix, char **files, int n, uint64_t *hash)
{
    size_t skip = strlen(prefix);
    fputs("/* Written by gen/tool/embed.c. */\n#include \"gen/embed.h\"\n\n", out);
    fputs("const struct embedded_file embedded_files[] = {\n", out);
    for (int i = 0; i < n; i++) {
        size_t size;
        const char *name = strncmp(files[i], prefix, skip) == 0 ? files[i] + skip : files[i];
        char *data = read_file(files[i], &size);
        if (!data)
            return -1;
        fprintf(out, "    {\"%s\",\n", name);
        write_literal(out, data, size);
        fprintf(out, ",\n     %zu},\n", size);
        hash_file(name, data, size, hash);
        free(data);
    }
    /* An array of no elements is not C. */
    fprintf(out, "    {\"\", \"\", 0}};\nconst int embedded_count = %d;\n", n);
    return 0;
}

int main(int argc, char **argv)
{
    int separator = 3, status = 1;
    while (separator < argc && strcmp(argv[separator], "--") != 0)
        separator++;
    if (separator >= argc) {
        fputs("usage: embed OUT.c PREFIX FILE... -- HASHED...\n", stderr);
        return 2;
    }
    char **hashed = argv + separator + 1;
    int files = separator - 3, sources = argc - separator - 1;
    qsort(argv + 3, (size_t)files, sizeof *argv, by_name);
    qsort(hashed, (size_t)sources, sizeof *hashed, by_name);

    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *out = fopen(argv[1], "wb");
    if (!out) {
        fprintf(stderr, "%s: error: cannot be written\n", argv[1]);
        return 1;
    }
    if (write_files(out, argv[2], argv + 3, files, &hash) < 0)
        goto cleanup;
    for (int i = 0; i < sources; i++) {
        size_t size;
        char *data = read_file(hashed[i], &size);
        if (!data)
            goto cleanup;
        hash_file(hashed[i], data, size, &hash);
        free(data);
    }
    fprintf(out, "const uint64_t embedded_hash = UINT64_C(0x%016llx);\n", (unsigned long long)hash);
    status = 0;
cleanup:
    if (ferror(out) | fclose(out)) {
        fprintf(stderr, "%s: error: cannot be written\n", argv[1]);
        status = 1;
    }
    if (status)
        remove(argv[1]);
    return status;
}
