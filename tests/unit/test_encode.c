#define _GNU_SOURCE /* mkstemp, popen */
/* test_encode.c - machine code is what its text says: decoded again, instruction by instruction, by Zydis and, where it
 * is installed, objdump; jumps, alignment, constants; and the same bytes in both printed forms. What it is not: what the
 * code computes (tests/micro). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ctype.h>
#include <unistd.h>

#include <Zydis/Zydis.h>
#include <cmocka.h>

#include "gen/embed.h"
#include "gen/gen.h"
#include "dialects.h"

enum { LINES_MAX = 16384, TEXT_MAX = 96 };

/* What encode_x86 tells, an instruction a line. */
struct listing {
    struct line {
        size_t at, size;
        char text[TEXT_MAX];
    } line[LINES_MAX];
    int lines;
};

static void note(void *self, size_t at, size_t size, const char *text)
{
    struct listing *l = self;
    assert_true(l->lines < LINES_MAX && strlen(text) < TEXT_MAX);
    l->line[l->lines] = (struct line){.at = at, .size = size};
    strcpy(l->line[l->lines++].text, text);
}

/* One way of writing for both: no spaces, sizes of memory, or signs of a displacement that is positive anyway; every
 * number in decimal; no broadcast, which one of the two writes as a size. */
static void normal(const char *from, char out[TEXT_MAX * 2])
{
    static const char *const noise[] = {"zmmword", "ymmword", "xmmword", "qword",  "dword",
                                        "word",    "ptr",     "{1to16}", "{k0}"};
    char *to = out;
    for (const char *c = from; *c;) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof noise / sizeof *noise && !skip; i++)
            if (!strncmp(c, noise[i], strlen(noise[i])) && (c == from || !isalnum((unsigned char)c[-1])))
                skip = strlen(noise[i]);
        if (skip || *c == ' ') {
            c += skip ? skip : 1;
        } else if (isdigit((unsigned char)*c) && (c == from || !isalnum((unsigned char)c[-1]))) {
            char *end;
            to += sprintf(to, "%lld", (long long)strtoull(c, &end, 0)); /* Zydis writes -1 as 2^64 - 1 */
            c = end;
        } else {
            *to++ = *c++;
        }
    }
    *to = 0;
    char *plus = strstr(out, "*1+0]"); /* [rdi+rcx*1+0] and [rdi+rcx] */
    if (plus)
        memmove(plus, plus + 4, strlen(plus + 4) + 1);
    plus = strstr(out, "+0]"); /* [rdi+rcx*4+0] */
    if (plus)
        memmove(plus, plus + 2, strlen(plus + 2) + 1);
    plus = strstr(out, "*1]");
    if (plus)
        memmove(plus, plus + 2, strlen(plus + 2) + 1);
}

struct decoder {
    ZydisDecoder decoder;
    ZydisFormatter formatter;
};

static void decoder_open(struct decoder *d)
{
    ZydisDecoderInit(&d->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisFormatterInit(&d->formatter, ZYDIS_FORMATTER_STYLE_INTEL);
}

/* What an operand of the text that begins with [= stands for: 4 bytes of a real, or as many of a pool's vector as are read. */
static void check_constant(const struct unrolled *u, const struct code *code, const struct line *line, int64_t target, size_t bytes)
{
    const char *is = strstr(line->text, "[=") + 2;
    char *end;
    float real = strtof(is, &end);
    assert_true(target >= 0 && target + 4 <= (int64_t)code->entry);
    if (*end == ']') {
        assert_memory_equal(code->bytes + target, &real, 4);
        return;
    }
    for (int i = 0; i < u->isa->pools; i++) {
        const struct pool_vector *p = u->isa->pool[i];
        size_t n = strlen(p->name);
        if (strncmp(p->name, is, n) || is[n] != ']')
            continue;
        assert_int_equal(target % (int64_t)bytes, 0); /* they are aligned */
        assert_true(target + (int64_t)bytes <= (int64_t)code->entry);
        if (!memcmp(code->bytes + target, p->lane, bytes))
            return;
    }
    fail_msg("%s: '%s' reads another constant", u->name, line->text);
}

static void check_line(const struct unrolled *u, const struct code *code, const struct line *line, struct decoder *d)
{
    ZydisDecodedInstruction i;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    char text[TEXT_MAX * 2], mine[TEXT_MAX * 2], theirs[TEXT_MAX * 2];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d->decoder, code->bytes + line->at, line->size, &i, operands)))
        fail_msg("%s: '%s' cannot be decoded", u->name, line->text);
    assert_int_equal(i.length, line->size);
    ZydisFormatterFormatInstruction(&d->formatter, &i, operands, i.operand_count_visible, text, sizeof text,
                                    ZYDIS_RUNTIME_ADDRESS_NONE, NULL);
    normal(line->text, mine);
    normal(text, theirs);
    char *hole = strstr(mine, "[="), *rip = strstr(theirs, "[rip");
    if (hole) { /* cut the address out of both, and look at what lies there */
        assert_non_null(rip);
        for (int k = 0; k < i.operand_count_visible; k++)
            if (operands[k].type == ZYDIS_OPERAND_TYPE_MEMORY)
                check_constant(u, code, line, (int64_t)(line->at + line->size) + operands[k].mem.disp.value,
                               operands[k].size / 8);
        memmove(hole + 1, strchr(hole, ']'), strlen(strchr(hole, ']')) + 1);
        memmove(rip + 1, strchr(rip, ']'), strlen(strchr(rip, ']')) + 1);
    } else {
        assert_null(rip);
    }
    if (!strncmp(mine, "jnz", 3)) { /* Zydis writes the distance with a sign */
        assert_int_equal(atoi(mine + 3), operands[0].imm.value.s);
        return;
    }
    if (strcmp(mine, theirs))
        fail_msg("%s, %s: told '%s', decoded '%s' (%s and %s)", u->isa->name, u->name, line->text, text, mine, theirs);
}

/* How many lines from number `from` on name a register of the caller's that is not among the first `saved` lines, which save
 * some. */
static int of_the_caller(const struct listing *l, int from, int saved)
{
    static const char *const callers[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
    int n = 0;
    for (int i = from; i < l->lines; i++)
        for (size_t r = 0; r < sizeof callers / sizeof *callers; r++) {
            bool is_saved = false;
            for (int k = 0; k < saved; k++)
                is_saved |= strstr(l->line[k].text, callers[r]) != NULL;
            n += !is_saved && strstr(l->line[i].text, callers[r]) != NULL;
        }
    return n;
}

/* Each jump goes to where its loop's body begins, which is aligned and follows the setting of the counter. What uses
 * registers of the caller's saves them first and brings them back at last. */
static void check_loops(const struct unrolled *u, const struct code *code, const struct listing *l)
{
    size_t start[16];
    int depth = 0, saved = 0;
    while (!strncmp(l->line[saved].text, "push ", 5))
        saved++;
    assert_int_equal(of_the_caller(l, 0, saved), 0);
    int at = saved;
    for (int k = 0; k < u->insts; k++) {
        const struct inst *i = &u->inst[k];
        if (i->kind == INST_LOOP) {
            assert_true(!strncmp(l->line[at].text, "mov ", 4));
            at++;
            if (!strcmp(l->line[at].text, "nop"))
                at++;
            start[depth++] = l->line[at].at;
            assert_int_equal(l->line[at].at % 32, 0);
        } else if (i->kind == INST_END) {
            assert_true(!strncmp(l->line[at].text, "dec ", 4));
            assert_true(!strncmp(l->line[at + 1].text, "jnz ", 4));
            const struct line *jump = &l->line[at + 1];
            assert_int_equal((int64_t)(jump->at + jump->size) + atoi(jump->text + 4), start[--depth]);
            assert_int_equal(jump->size, (int64_t)(jump->at + 2 - start[depth]) <= 128 ? 2 : 6);
            at += 2;
        } else {
            at += i->kind == INST_POINTER && i->arg[2].number ? 2 : 1;
        }
    }
    assert_int_equal(depth, 0);
    for (int k = saved - 1; k >= 0; k--) {
        assert_true(!strncmp(l->line[at].text, "pop ", 4));
        assert_string_equal(l->line[at++].text + 4, l->line[k].text + 5);
    }
    assert_int_equal(of_the_caller(l, at, 0), 0);
    assert_int_equal(at, l->lines - 2);
    assert_string_equal(l->line[at].text, "vzeroupper");
    assert_string_equal(l->line[at + 1].text, "ret");
    (void)code;
}

static void check_code(const struct unrolled *u, struct decoder *d, struct listing *l)
{
    struct code code;
    struct gen_error err = {0};
    int nops = 0;
    l->lines = 0;
    if (encode_x86(&code, u, note, l, &err))
        fail_msg("%s", err.text);
    assert_int_equal(code.entry % 64, 0);
    size_t at = code.entry;
    for (int k = 0; k < l->lines; k++) { /* they follow each other without a gap, to the end */
        assert_int_equal(l->line[k].at, at);
        at += l->line[k].size;
        if (strcmp(l->line[k].text, "nop")) {
            check_line(u, &code, &l->line[k], d);
        } else {
            assert_true(l->line[k].size < 32);
            nops++;
        }
    }
    assert_int_equal(at, code.size);
    assert_int_equal(code.instructions, l->lines - nops);
    check_loops(u, &code, l);
    code_free(&code);
}

enum { CHOSEN_MOST = 128 };
/* Variants that differ in what their code is made of. */
static int choose(struct variant out[CHOSEN_MOST])
{
    static const int dims[] = {64, 80, 8};
    int n = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int dtype = 0; dtype < DTYPE_COUNT && isas[isa].machine_code; dtype++)
            for (int dim = 0; dim < 3; dim++)
                for (int small = 0; small < 2; small++) {
                    struct variant v = variant_default((enum isa)isa);
                    v.field[F_DTYPE] = dtype;
                    v.field[F_HEAD_DIM] = dims[dim];
                    v.field[F_ROWS] = small && isa != ISA_AMX ? 4 : v.field[F_ROWS];
                    v.field[F_TABLE] = small && (isa == ISA_AMX || isa == ISA_AVX512BF16);
                    v.field[F_UNROLL] = small ? 1 : 4;
                    out[n++] = v;
                }
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int narrow = DTYPE_INT8; narrow < DTYPE_ALL && isas[isa].machine_code; narrow++) {
            struct variant v = variant_default((enum isa)isa);
            variant_set_dtypes(&v, DTYPE_BF16, (enum dtype)narrow, DTYPE_BF16);
            v.field[F_SPLIT] = isa == ISA_AMX ? 0 : 2048;
            out[n++] = v;
        }
    return n;
}

static void each(void (*look)(struct unrolled *u, void *self), void *self, int step)
{
    struct dialects l;
    struct gen_error err = {0};
    struct variant v[CHOSEN_MOST];
    int count = choose(v), legal = 0;
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    assert_int_equal(dialects_micros(&l, NULL, NULL, 0, &err), 0);
    for (int i = 0; i < count; i += step) {
        struct unrolled u[GEN_MICROS_MAX];
        int n;
        legal += !dialects_variant(&l, &v[i], GEN_MICROS_MAX, u, &n, &err);
        for (int k = 0; k < n; k++) {
            look(&u[k], self);
            unrolled_free(&u[k]);
        }
    }
    assert_true(legal > count / step / 3);
    dialects_close(&l);
}

struct tools {
    struct decoder decoder;
    struct listing *listing;
    int seen;
};

static void look_decoded(struct unrolled *u, void *self)
{
    struct tools *t = self;
    check_code(u, &t->decoder, t->listing);
    t->seen++;
}

static void test_decoded(void **state)
{
    struct tools t = {.listing = calloc(1, sizeof *t.listing)};
    (void)state;
    assert_non_null(t.listing);
    decoder_open(&t.decoder);
    each(look_decoded, &t, 1);
    free(t.listing);
    print_message("# %d micro-kernels decoded\n", t.seen);
    assert_true(t.seen > 100);
}

/* ---- the printed forms ---- */

/* The bytes that .byte and .quad lines tell, in order; from .byte 0x12,0x34 and .quad 0x1122334455667788. */
static size_t bytes_of(const char *text, uint8_t *out)
{
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        bool quad = !strncmp(c, ".quad ", 6), byte = !strncmp(c, ".byte ", 6);
        if (!strncmp(c, "/*", 2))
            c = strstr(c, "*/");
        if (!quad && !byte)
            continue;
        char *end = (char *)c + 5;
        do {
            uint64_t value = strtoull(end + 1, &end, 16);
            for (int i = 0; i < (quad ? 8 : 1); i++)
                out[n++] = (uint8_t)(value >> 8 * i);
        } while (*end == ',');
        c = end - 1;
    }
    return n;
}

static void look_printed(struct unrolled *u, void *self)
{
    struct buf readable = {0}, packed = {0};
    struct gen_error err = {0};
    struct code code;
    int *seen = self;
    assert_int_equal(lower_x86(&readable, u, "symbol", &err), 0);
    assert_int_equal(lower_x86(&packed, u, NULL, &err), 0);
    assert_int_equal(encode_x86(&code, u, NULL, NULL, &err), 0);
    uint8_t *one = malloc(readable.size), *other = malloc(packed.size);
    assert_true(one && other);
    size_t size = bytes_of(readable.data, one), size2 = bytes_of(packed.data, other);
    assert_int_equal(size, code.size);
    assert_int_equal(size2, (code.size + 7) / 8 * 8);
    assert_memory_equal(one, code.bytes, size);
    assert_memory_equal(other, code.bytes, size);
    for (size_t i = size; i < size2; i++)
        assert_int_equal(other[i], 0x90); /* nops behind the return */
    assert_non_null(strstr(readable.data, ".p2align 6\\n"));
    assert_non_null(strstr(packed.data, ".p2align 6\\n"));
    assert_null(strstr(packed.data, "/*"));
    assert_true(packed.size < readable.size / 2 || code.instructions < 8);
    free(one);
    free(other);
    code_free(&code);
    buf_free(&readable);
    buf_free(&packed);
    ++*seen;
}

static void test_printed(void **state)
{
    int seen = 0;
    (void)state;
    each(look_printed, &seen, 3);
    assert_true(seen > 30);
}

/* ---- another disassembler ---- */

static void look_objdump(struct unrolled *u, void *self)
{
    struct tools *t = self;
    struct code code;
    struct gen_error err = {0};
    char path[] = "/tmp/attngen-encode-XXXXXX", command[128], line[512];
    int file = mkstemp(path), at = 0;
    t->listing->lines = 0;
    assert_int_equal(encode_x86(&code, u, note, t->listing, &err), 0);
    assert_true(file >= 0);
    assert_int_equal(write(file, code.bytes + code.entry, code.size - code.entry), code.size - code.entry);
    close(file);
    snprintf(command, sizeof command, "objdump -D -b binary -mi386:x86-64 -Mintel --insn-width=16 %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe)) {
        char *end, name[32];
        size_t offset = strtoull(line, &end, 16);
        if (*end != ':' || !strchr(end, '\t'))
            continue;
        const struct line *mine = &t->listing->line[at];
        offset += code.entry;
        if (!strcmp(mine->text, "nop") && offset < mine->at + mine->size)
            continue; /* one of those that fill it */
        if (!strcmp(mine->text, "nop"))
            mine = &t->listing->line[++at];
        assert_int_equal(offset, mine->at);
        const char *text = strrchr(line, '\t') + 1; /* {evex}: VEX would do as well */
        assert_int_equal(sscanf(text + (strncmp(text, "{evex} ", 7) ? 0 : 7), "%31s", name), 1);
        if (!strcmp(name, "jne"))
            strcpy(name, "jnz");
        if (strncmp(name, mine->text, strcspn(mine->text, " ")) && strncmp(name, "vcmp", 4) &&
            strncmp(name, "movabs", 6))
            fail_msg("%s: told '%s', objdump says '%s'", u->name, mine->text, line);
        at++;
    }
    pclose(pipe);
    unlink(path);
    code_free(&code);
    assert_int_equal(at, t->listing->lines);
    t->seen++;
}

static void test_objdump(void **state)
{
    struct tools t = {.listing = calloc(1, sizeof *t.listing)};
    (void)state;
    if (system("objdump --version >/dev/null 2>&1")) {
        print_message("# no objdump here\n");
        free(t.listing);
        skip();
    }
    each(look_objdump, &t, 7);
    free(t.listing);
    assert_true(t.seen > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_objdump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
