/* fold.c - see apart.h: lines that are short enough. The length of a template's line depends on what its holes are
 * filled with, so no template can break it. Strings are never broken. */
#include <ctype.h>
#include <string.h>

#include "apart.h"

enum { CONTINUED = 4, SHORT = 40 }; /* how far the rest is indented; a first part is longer than this */

static size_t indent_of(const char *line, size_t size)
{
    size_t n = 0;
    while (n < size && line[n] == ' ')
        n++;
    return n;
}

static void spaces(struct buf *out, size_t n)
{
    while (n--)
        buf_putc(out, ' ');
}

/* The text of a comment, continued after " * " on further lines. Returns where its last line begins, which remains. */
static size_t fold_words(struct buf *out, const char *text, size_t size, size_t indent)
{
    size_t used = indent, least = 3, done = 0; /* so that its beginning is not alone */
    while (used + size - done > COLUMNS) {
        size_t at = done + COLUMNS - used;
        if (size - at < sizeof " */") /* nor its end */
            at -= sizeof " */";
        while (at > done + least && text[at] != ' ')
            at--;
        if (at <= done + least) { /* a word that is longer than a line */
            const char *space = memchr(text + done + least, ' ', size - done - least);
            if (!space || !strncmp(space, " */", 3))
                break;
            at = (size_t)(space - text);
        }
        spaces(out, indent);
        buf_puts(out, done ? " * " : "");
        buf_put(out, text + done, at - done);
        buf_putc(out, '\n');
        done = at + 1;
        used = indent + 3, least = 0;
    }
    return done;
}

/* A comment's line: its remainder is put before the next line if that continues the sentence. */
static void fold_comment(struct buf *out, const char *text, size_t size, const char *end, struct buf *left)
{
    size_t indent = indent_of(text, size);
    if (text[indent] == '*')
        indent--;
    struct buf line = {0};
    if (left->size)
        buf_printf(&line, " * %s ", left->data);
    left->size = 0;
    size_t skip = line.size ? indent + 3 : indent;
    buf_put(&line, text + skip, size - skip);
    size_t done = buf_ok(&line) ? fold_words(out, line.data, line.size, indent) : 0;
    const char *next = text + size + 1;
    bool goes_on = done && next + indent + 3 < end && !memcmp(next + indent, " * ", 3) && next[indent + 3] > ' ' &&
                   (islower((unsigned char)next[indent + 3]) || !strchr(".:", line.data[line.size - 1]));
    if (goes_on && memcmp(line.data + line.size - 2, "*/", 2))
        buf_put(left, line.data + done, line.size - done);
    else {
        spaces(out, indent);
        buf_puts(out, done ? " * " : "");
        buf_put(out, line.data + done, line.size - done);
        buf_putc(out, '\n');
    }
    out->failed |= line.failed;
    buf_free(&line);
}

/* How closely what stands round a space belongs together: 0 behind a comma, more before an operator that binds more
 * strongly, and BOUND where a line must not end. */
enum { BOUND = 4 };
static int bond_of(const char *at)
{
    static const struct {
        const char *operator;
        int bond;
    } all[] = {{" ? ", 1}, {" : ", 1}, {" && ", 1}, {" || ", 1}, {" + ", 2}, {" - ", 2}, {" | ", 2}, {" & ", 2},
               {" == ", 2}, {" << ", 2}, {":: ", 2}, {" * ", 3}};
    if (strchr(",;{\"", at[-1]))
        return 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strncmp(at, all[i].operator, strlen(all[i].operator)))
            return all[i].bond;
    return BOUND;
}

/* The column of the space at which a line of code is best broken; 0: nowhere. The least nesting in brackets is best,
 * then the weakest bond, then the last space. ends: a statement ends there. */
static size_t break_of(const char *line, size_t size, size_t indent, size_t limit, bool *ends)
{
    size_t best = 0;
    int depth = 0, best_depth = 1 << 30;
    bool quoted = false;
    for (size_t at = indent; at < size && at <= limit; at++) {
        char c = line[at];
        if (c == '"' && line[at - 1] != '\\')
            quoted = !quoted;
        if (quoted)
            continue;
        if (c == '/' && line[at + 1] == '*')
            break;
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        const int bond = c == ' ' && at > indent ? bond_of(line + at) : BOUND;
        if (bond == BOUND)
            continue;
        int here = (line[at - 1] == '{' ? depth - 1 : depth) * BOUND + bond; /* a body may begin a line */
        if (at < indent + SHORT && here < best_depth && best == 0)
            best = at;
        else if (at >= indent + SHORT && (here <= best_depth || best < indent + SHORT))
            best = at, best_depth = here;
        else
            continue;
        *ends = depth == 0 && line[at - 1] == ';';
    }
    return best;
}

/* After the name of a function, or before it, if a long name leaves no room for either. */
static size_t last_resort(const char *line, size_t size, size_t indent)
{
    const char *name = memchr(line + indent, '(', size - indent);
    size_t at = name ? (size_t)(name - line) + 1 : 0;
    if (!name || at <= COLUMNS)
        return at < size ? at : 0;
    while (at > indent && line[at] != ' ')
        at--;
    return at > indent ? at : 0;
}

/* How much of the text behind a line that was broken goes on in its last part: a line, where it is indented as that
 * part is, and fits beside it. */
static size_t joined(struct buf *out, const char *part, size_t size, size_t indent, const char *next, const char *end)
{
    const char *newline = next < end ? memchr(next, '\n', (size_t)(end - next)) : NULL;
    const size_t n = newline ? (size_t)(newline - next) : 0;
    if (n <= indent || indent_of(next, n) != indent || next[indent] == '"' || strchr(";{}\"", part[size - 1]) ||
        memchr(part, '"', size) || size + 1 + n > COLUMNS)
        return 0;
    buf_putc(out, ' ');
    buf_put(out, next + indent, n - indent);
    return n + 1;
}

/* Returns how much of the text from `next` on was put beside its last part. */
static size_t fold_code(struct buf *out, const char *line, size_t size, const char *next, const char *end)
{
    size_t indent = indent_of(line, size), more = 0;
    bool macro = line[0] == '#';
    const size_t columns = COLUMNS - (macro ? 2 : 0);
    while (more + size > columns) {
        bool ends = false;
        size_t at = break_of(line, size, more ? 0 : indent, columns - more, &ends);
        if (at == 0 && (at = last_resort(line, size, more ? 0 : indent)) == 0)
            break;
        buf_put(out, line, at);
        buf_puts(out, macro ? " \\\n" : "\n");
        more = ends ? indent : indent + CONTINUED;
        spaces(out, more);
        at += line[at] == ' ';
        line += at, size -= at;
    }
    buf_put(out, line, size);
    const size_t used = more && !macro ? joined(out, line, size, more, next, end) : 0;
    buf_putc(out, '\n');
    return used;
}

/* Code with a trailing comment: the comment goes before it. Returns what fold_code does. */
static size_t fold_line(struct buf *out, const char *line, size_t size, const char *end)
{
    const char *next = line + size + 1;
    size_t indent = indent_of(line, size), rest = size >= 2 && !memcmp(line + size - 2, "*/", 2) ? size - 2 : 0;
    while (rest > indent && memcmp(line + rest, "/*", 2))
        rest--;
    if (rest > indent && line[indent] != '"') {
        size_t done = fold_words(out, line + rest, size - rest, indent);
        spaces(out, indent);
        buf_puts(out, done ? " * " : "");
        buf_put(out, line + rest + done, size - rest - done);
        buf_putc(out, '\n');
        for (size = rest; line[size - 1] == ' ';)
            size--;
    }
    return fold_code(out, line, size, next, end);
}

void fold_lines(struct buf *out, const char *text, size_t size)
{
    struct buf left = {0};
    bool comment = false;
    for (const char *end = text + size; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = newline ? (size_t)(newline - text) : (size_t)(end - text), indent = indent_of(text, n);
        size_t used = 0;
        bool words = comment || (n - indent >= 2 && !memcmp(text + indent, "/*", 2));
        if (words && (n > COLUMNS || left.size))
            fold_comment(out, text, n, end, &left);
        else if (n > COLUMNS)
            used = fold_line(out, text, n, end);
        else {
            buf_put(out, text, n);
            buf_putc(out, '\n');
        }
        for (size_t i = 1; i < n; i++)
            if (text[i - 1] == '*' && text[i] == '/')
                comment = false;
            else if (text[i - 1] == '/' && text[i] == '*')
                comment = true;
        text += n + 1 + used;
    }
    out->failed |= left.failed;
    buf_free(&left);
}
