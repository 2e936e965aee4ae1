/* lines.c - see lines.h. */
#include "lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "apart.h"

static int is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int has_word(const char *line, size_t size, const char *word)
{
    const size_t n = strlen(word);
    for (size_t at = 0; at + n <= size; at++)
        if (!memcmp(line + at, word, n) && (at == 0 || !is_of_name(line[at - 1])) && (at + n == size || !is_of_name(line[at + n])))
            return 1;
    return 0;
}

void lines_check(const char *name, const char *text)
{
    static const char *const hidden[] = {"BQ", "BK", "MR", "NR", "KB", "LDQ", "LDO", "LDX", "LDP", "VR", "UNIT"};
    for (const char *line = text; *line;) {
        const size_t size = strcspn(line, "\n"), indent = strspn(line, " "), word = strcspn(line + indent, " \n");
        if (size > COLUMNS && indent + word < size)
            fail_msg("%s: a line of %zu columns: %.*s", name, size, (int)size, line);
        if (size && line[size - 1] == ' ')
            fail_msg("%s: a line ends in a space: %.*s", name, (int)size, line);
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
            if (has_word(line, size, hidden[i]))
                fail_msg("%s: %s is a name of templates: %.*s", name, hidden[i], (int)size, line);
        line += size + (line[size] == '\n');
    }
}

void lines_check_source(const char *name, const char *text)
{
    lines_check(name, text);
    if (!strstr(text, "SPDX-License-Identifier: MIT-0\n"))
        fail_msg("%s: there is no line that ends in SPDX-License-Identifier: MIT-0", name);
}

int lines_repeated(const char *text)
{
    enum { MOST = 4096 };
    struct line { const char *at; size_t size; } line[MOST];
    int n = 0, best = 0;
    for (const char *at = text; *at && n < MOST; at += strspn(at, "\n")) {
        at += strspn(at, " ");
        const size_t size = strcspn(at, "\n");
        if (size && *at != '#')
            line[n++] = (struct line){at, size};
        at += size;
    }
    for (int i = 0; i < n; i++)
        for (int j = i + best + 1; j < n; j++) {
            int k = 0;
            while (i + k < j && j + k < n && line[i + k].size == line[j + k].size &&
                   !memcmp(line[i + k].at, line[j + k].at, line[i + k].size))
                k++;
            best = k > best ? k : best;
        }
    return best;
}
