/* print_x86.c - the machine code of a micro-kernel as text that tcc takes: bytes, with what each instruction is beside it, or words
 * of eight bytes. What it is not: the encoder (lower_x86.c). */
#include <stdio.h>

#include "apart.h"
#include "micro.h"

struct printer {
    struct buf *out;
    const struct code *code;
    const char *name, *tag;
    bool begun; /* what precedes the first instruction is already printed */
};

/* A readable line holds only a few of them. */
static void print_quads(struct buf *out, const struct code *c, size_t from, size_t to, bool readable)
{
    for (size_t at = from; at < to; at += 8) {
        if (readable && at > from && (at - from) % 32 == 0)
            buf_puts(out, "\\n\"\n    \".quad 0x");
        else
            buf_puts(out, at == from ? ".quad 0x" : ",0x");
        for (int i = 7; i >= 0; i--) {
            static const char digits[] = "0123456789abcdef";
            uint8_t byte = at + (size_t)i < to ? c->bytes[at + (size_t)i] : 0x90;
            char text[2] = {digits[byte >> 4], digits[byte & 15]};
            buf_put(out, text, 2);
        }
    }
    buf_puts(out, to > from ? "\\n" : "");
}

/* The constants, and the label. */
static void print_head(struct printer *p)
{
    p->begun = true;
    bool readable = *p->tag;
    buf_puts(p->out, "__asm__(\".text\\n.p2align 6\\n");
    buf_puts(p->out, readable && p->code->entry ? "\"\n    \"" : "");
    print_quads(p->out, p->code, 0, p->code->entry, readable);
    buf_puts(p->out, readable ? "\"\n    \"" : "");
    buf_printf(p->out, ".type %s%s,@function\\n%s%s:\\n", p->name, p->tag, p->name, p->tag);
}

static void print_line(void *self, size_t at, size_t size, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    struct printer *p = self;
    if (!p->begun) {
        print_head(p);
        buf_puts(p->out, "\"\n");
    }
    for (size_t i = 0; i < size; i++) {
        if (i && i % 16 == 0) /* padding; an instruction has at most 15 bytes */
            buf_puts(p->out, "\\n\"\n");
        uint8_t byte = p->code->bytes[at + i];
        char hex[5] = {',', '0', 'x', digits[byte >> 4], digits[byte & 15]};
        if (i % 16)
            buf_put(p->out, hex, 5);
        else {
            buf_puts(p->out, "    \".byte ");
            buf_put(p->out, hex + 1, 4);
        }
    }
    buf_puts(p->out, "\\n\" /* ");
    buf_puts(p->out, text);
    buf_puts(p->out, " */\n");
}

int lower_x86(struct buf *out, const struct unrolled *u, const char *symbol, struct gen_error *err)
{
    bool readable = symbol;
    struct code code;
    char tag[APART_TAG + 1] = "";
    struct printer p = {out, &code, u->name, tag, false};
    if (readable) {
        tag[0] = '_';
        apart_tag(symbol, tag + 1);
    }
    int result = encode_x86(&code, u, readable ? print_line : NULL, &p, err);
    if (!result && readable) {
        buf_printf(out, "    \".size %s%s,.-%s%s\\n\");\n", u->name, tag, u->name, tag);
    } else if (!result) {
        print_head(&p);
        print_quads(out, &code, code.entry, code.size, false);
        buf_puts(out, "\");\n");
    }
    if (!result && !buf_ok(out))
        result = gen_out_of_memory(err, "generator");
    code_free(&code);
    return result;
}
