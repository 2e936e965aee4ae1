/* emulated_text.c - a kernel's text as clang compiles it for this processor, for emulated.c. What it is not: a compiler, or what
 * PTX does (emulated_ptx.c, emulated_sm90.c). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "gen/buf.h"

/* A function that calls the kernel with arguments given by pointers. */
static void add_entries(const char *text, struct buf *out)
{
    const char *kernel = strstr(text, "__kernel "), *name = kernel ? strstr(kernel, "\nvoid") : NULL;
    if (name)
        name += strlen("\nvoid"), name += strspn(name, " \n"); /* a long name has a line of its own */
    const char *open = name ? strchr(name, '(') : NULL, *at = open, *close = open ? strstr(open, ")\n{") : NULL;
    if (!close)
        return;
    const int length = (int)(open - name);
    buf_printf(out, "\nvoid emulated_entry_%.*s(void **argument)\n{\n    %.*s(", length, name, length, name);
    for (int i = 0; at < close; i++) {
        const char *from = at + 1, *end = from;
        while (end < close && *end != ',')
            end++;
        const char *word = end; /* the parameter's name, which ends it */
        while (word > from && (word[-1] == '_' || (word[-1] >= 'a' && word[-1] <= 'z') || (word[-1] >= '0' && word[-1] <= '9')))
            word--;
        buf_printf(out, "%s*(%.*s*)argument[%d]", i ? ", " : "", (int)(word - from), from, i);
        at = end;
    }
    buf_puts(out, ");\n}\n");
    add_entries(close, out);
}

static void put_replaced(const char *from, const char *to, struct buf *out)
{
    static const char *const words[][2] = {
        {"(uint)(ulong)memory", "1024u"},
        {"__local uint4 *)(ulong)to", "__local uint4 *)emulated_at(to, 16)"},
        {"get_local_id(0) % ", "(int)get_local_id(0) % "},
    };
    enum { WORDS = sizeof words / sizeof *words };
    while (from < to) {
        int w = 0;
        while (w < WORDS && strncmp(from, words[w][0], strlen(words[w][0])) != 0)
            w++;
        if (w < WORDS) {
            buf_puts(out, words[w][1]);
            from += strlen(words[w][0]);
        } else if (strncmp(from, "    __local uchar memory[", 25) == 0) {
            buf_puts(out, "    __local uchar *const memory = (__local uchar *)emulated_at(1024, 1);");
            from = strstr(from, ";") + 1;
        } else
            buf_put(out, from++, 1);
    }
}

/* Names that a kernel has made its own by a list of #define become what they are in templates. */
static char *without_own_names(const char *text)
{
    struct buf out = {0};
    while (*text) {
        char name[100], own[120];
        const size_t line = strcspn(text, "\n") + (strchr(text, '\n') != NULL);
        if (sscanf(text, "#define %99s %119s\n", name, own) != 2 || strncmp(own, name, strlen(name)) != 0 ||
            own[strlen(name)] != '_')
            buf_put(&out, text, line);
        text += line;
    }
    if (!buf_ok(&out))
        abort();
    return out.data;
}

/* Where warpgroups share out their registers anew: on a card they would wait forever for more than the launch has, which gives
 * every work-item as many of 65,536, in eights. */
static void check_registers(const char *text)
{
    const char *less = strstr(text, "setmaxnreg.dec.sync.aligned.u32 "), *more = strstr(text, "setmaxnreg.inc.sync.aligned.u32 ");
    const char *group = strstr(text, "reqd_work_group_size("), *feeders = strstr(text, ") { /* the producer's warpgroup");
    int each[2], items, feeding;
    if (!less || !more || !group || !feeders)
        return;
    while (feeders > text && feeders[-1] >= '0' && feeders[-1] <= '9')
        feeders--;
    if (sscanf(strchr(less, ' '), "%d", &each[0]) != 1 || sscanf(strchr(more, ' '), "%d", &each[1]) != 1 ||
        sscanf(strchr(group, '('), "(%d", &items) != 1 || sscanf(feeders, "%d", &feeding) != 1)
        abort();
    if (feeding * each[0] + (items - feeding) * each[1] > items * (65536 / items / 8 * 8)) {
        fprintf(stderr, "%d work-items want %d registers each and %d want %d, more than a launch has\n", feeding, each[0],
                items - feeding, each[1]);
        abort();
    }
}

char *emulated_text(const char *original)
{
    static const char word[] = "INLINED ";
    struct buf out = {0};
    char *text = without_own_names(original);
    const char *at = text;
    check_registers(original);
    for (const char *f; (f = strstr(at, "\nINLINED ")) != NULL;) {
        const char *body = strstr(f, "\n{\n"), *end = body ? strstr(body, "\n}\n") : NULL;
        if (!end)
            break;
        put_replaced(at, f + 1, &out);
        const char *ptx = strstr(body, "__asm__");
        if (ptx && ptx < end) {
            const char *from = f + 1 + strlen(word);
            for (; from < body; from++) /* a comment may stand behind the parameters */
                if (!strncmp(from, "/*", 2))
                    break;
                else
                    buf_put(&out, from, 1);
            buf_puts(&out, ";\n");
        } else
            put_replaced(f + 1, end + 3, &out);
        at = end + 2;
    }
    put_replaced(at, text + strlen(text), &out);
    add_entries(text, &out);
    free(text);
    if (!buf_ok(&out))
        abort();
    return out.data;
}
