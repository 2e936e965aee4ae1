/* quota.c - see quota.h. /proc/self/cgroup lists the groups of the process, and /proc/self/mountinfo says where they
 * are mounted; a container sees its own group as the root of the mount. */
#define _GNU_SOURCE
#include "quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096, LINE_SIZE = 8192 };

static FILE *open_below(const char *root, const char *name)
{
    char path[PATH_SIZE];
    int n = snprintf(path, sizeof path, "%s%s", root, name);
    return n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* The next line without its newline, cut to the size of the buffer. getline would allocate, but not with this library's
 * own malloc, whose failures are tested. */
static bool next_line(FILE *f, char line[LINE_SIZE])
{
    if (!fgets(line, LINE_SIZE, f))
        return false;
    size_t size = strcspn(line, "\n");
    bool whole = line[size] == '\n';
    line[size] = 0;
    for (int c = 0; !whole && c != '\n' && c != EOF;)
        c = getc(f);
    return true;
}

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, n) && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

/* The group's path in the hierarchy of that version: for v2 from the line "0::PATH", for v1 from that with controller
 * cpu. */
static bool find_group(const char *root, bool v2, char out[PATH_SIZE])
{
    FILE *f = open_below(root, "/proc/self/cgroup");
    char line[LINE_SIZE];
    bool found = false;
    while (f && !found && next_line(f, line)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        found = strlen(path) < PATH_SIZE && (v2 ? !strcmp(line, "0:") : is_listed(controllers + 1, "cpu"));
        if (found)
            strcpy(out, path);
    }
    if (f)
        fclose(f);
    return found;
}

/* The kernel writes some characters as \040 and the like. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else
            *to++ = *s;
    *to = 0;
}

/* A line of mountinfo is: id, parent, device, root, mount point, options, optional fields, "-", type, source, options. */
static bool read_mount(char *line, bool v2, char **from, char **at)
{
    char *field[6], *rest = NULL, *end = strstr(line, " - ");
    int n = 0;
    if (!end)
        return false;
    *end = 0;
    for (char *word = strtok_r(line, " ", &rest); word && n < 6; word = strtok_r(NULL, " ", &rest))
        field[n++] = word;
    char *type = strtok_r(end + 3, " \n", &rest), *source = strtok_r(NULL, " \n", &rest);
    char *options = source ? strtok_r(NULL, " \n", &rest) : NULL;
    if (n < 5 || !options || strcmp(type, v2 ? "cgroup2" : "cgroup") != 0 || (!v2 && !is_listed(options, "cpu")))
        return false;
    unescape(*from = field[3]);
    unescape(*at = field[4]);
    return true;
}

/* The group's directory, and how much of its path belongs to the mount, above which nothing is visible. */
static bool find_directory(const char *root, bool v2, char out[PATH_SIZE], size_t *top)
{
    char group[PATH_SIZE], line[LINE_SIZE], *from, *at;
    bool found = false;
    FILE *f = find_group(root, v2, group) ? open_below(root, "/proc/self/mountinfo") : NULL;
    while (f && !found && next_line(f, line)) {
        if (!read_mount(line, v2, &from, &at))
            continue;
        size_t n = !strcmp(from, "/") ? 0 : strlen(from);
        bool inside = !strncmp(group, from, n) && (group[n] == '/' || group[n] == 0);
        int length = snprintf(out, PATH_SIZE, "%s%s%s", root, at, inside ? group + n : "");
        found = length > 0 && length < PATH_SIZE;
        *top = strlen(root) + strlen(at);
    }
    if (f)
        fclose(f);
    return found;
}

/* Reads up to two numbers from a file; a word that is not a number ends them. Returns how many. */
static int read_numbers(const char *directory, const char *name, int64_t out[2])
{
    FILE *f = open_below(directory, name);
    long long x[2] = {0};
    int n = f ? fscanf(f, "%lld %lld", &x[0], &x[1]) : 0;
    if (f)
        fclose(f);
    out[0] = x[0], out[1] = x[1];
    return n < 0 ? 0 : n;
}

static int directory_cores(const char *directory, bool v2)
{
    int64_t quota[2], period[2];
    if (v2) { /* "max" is not a number */
        if (read_numbers(directory, "/cpu.max", quota) != 2)
            return INT_MAX;
        period[0] = quota[1];
    } else if (read_numbers(directory, "/cpu.cfs_quota_us", quota) < 1 ||
               read_numbers(directory, "/cpu.cfs_period_us", period) < 1)
        return INT_MAX;
    if (quota[0] <= 0 || period[0] <= 0 || quota[0] / period[0] >= INT_MAX - 1)
        return INT_MAX;
    return (int)(quota[0] / period[0] + (quota[0] % period[0] != 0));
}

int quota_cores(const char *root)
{
    int least = INT_MAX;
    for (int v2 = 0; v2 < 2; v2++) {
        char path[PATH_SIZE];
        size_t top;
        if (!find_directory(root, v2, path, &top))
            continue;
        for (;;) {
            int cores = directory_cores(path, v2);
            least = cores < least ? cores : least;
            char *last = strlen(path) > top ? strrchr(path + top, '/') : NULL;
            if (!last)
                break;
            *last = 0;
        }
    }
    return least;
}
