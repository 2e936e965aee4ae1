/* lower_x86.c - micro-kernels as x86-64 machine code, for a compiler without vectors. The only user of Zydis. Each
 * instruction is a table row's machine column with registers, offsets and constants filled in. */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro.h"

/* A constant that the code reads relative to its own address. */
struct constant {
    int bytes; /* 4: one element, broadcast by the instruction; else a whole vector */
    int32_t lane[16];
    size_t at;
};
enum { CONSTANTS_MAX = 64, LOOPS_MAX = 16 };
struct encoder {
    struct code *code;
    const struct unrolled *u;
    struct constant constant[CONSTANTS_MAX];
    int constants;
    void (*note)(void *self, size_t at, size_t size, const char *text);
    void *self;
    struct buf text; /* of the instruction that note is told about */
    struct reals reals;
    struct gen_error *err;
};
/* The operands of one instruction: args of the statement, or plain registers and numbers of a control row. */
struct filling {
    const struct arg *arg;
    int reg[3];
    int64_t number;
};

/* ---- names and registers ---- */

static int find_mnemonic(const char *name)
{
    int low = 1, high = ZYDIS_MNEMONIC_MAX_VALUE; /* Zydis lists them by name */
    while (low <= high) {
        int middle = (low + high) / 2;
        const char *at = ZydisMnemonicGetString((ZydisMnemonic)middle);
        int order = at ? strcmp(name, at) : -1;
        if (!order)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    for (int i = 1; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++) {
        const char *at = ZydisMnemonicGetString((ZydisMnemonic)i);
        if (at && !strcmp(name, at))
            return i;
    }
    return ZYDIS_MNEMONIC_INVALID;
}

static ZydisRegister integer_register(int reg)
{
    return (ZydisRegister)(ZYDIS_REGISTER_RAX + reg);
}

static ZydisRegister vector_register(int reg, int bits)
{
    int base = bits == 512 ? ZYDIS_REGISTER_ZMM0 : bits == 256 ? ZYDIS_REGISTER_YMM0 : ZYDIS_REGISTER_XMM0;
    return (ZydisRegister)(base + reg);
}

/* ---- requests ---- */

static ZydisEncoderOperand *next_operand(ZydisEncoderRequest *q, ZydisOperandType type)
{
    ZydisEncoderOperand *o = &q->operands[q->operand_count++];
    o->type = type;
    return o;
}

static void put_register(ZydisEncoderRequest *q, ZydisRegister reg)
{
    next_operand(q, ZYDIS_OPERAND_TYPE_REGISTER)->reg.value = reg;
}

static void put_memory(ZydisEncoderRequest *q, ZydisRegister base, int64_t displacement, int bytes)
{
    ZydisEncoderOperand *o = next_operand(q, ZYDIS_OPERAND_TYPE_MEMORY);
    o->mem.base = base;
    o->mem.displacement = displacement;
    o->mem.size = (ZyanU16)bytes;
}

static int constant_index(const struct encoder *e, const struct arg *a, int bytes)
{
    for (int i = 0; i < e->constants; i++) {
        const struct constant *c = &e->constant[i];
        if (c->bytes != bytes)
            continue;
        if (a->kind == ARG_POOL ? !memcmp(c->lane, e->u->isa->pool[a->number]->lane, (size_t)bytes)
                                : !memcmp(c->lane, &a->real, 4))
            return i;
    }
    return -1;
}

static int memory_bytes(const struct encoder *e, const struct machine_operand *o)
{
    return (o->bits ? o->bits : e->u->isa->vector_bits) / 8;
}

static void put_operand(ZydisEncoderRequest *q, const struct encoder *e, const struct machine_operand *o,
                        const struct arg *a)
{
    switch (a->kind) {
    case ARG_MEMORY:
        put_memory(q, integer_register(e->u->val[a->value].reg), a->number * a->type->bytes, memory_bytes(e, o));
        if (o->broadcast)
            q->evex.broadcast = ZYDIS_BROADCAST_MODE_1_TO_16;
        break;
    case ARG_REAL:
    case ARG_POOL: /* the distance is filled in once the instruction's size is known */
        put_memory(q, ZYDIS_REGISTER_RIP, 0, memory_bytes(e, o));
        if (o->broadcast)
            q->evex.broadcast = ZYDIS_BROADCAST_MODE_1_TO_16;
        break;
    case ARG_VALUE:
        if (a->type->cls == CLASS_MASK)
            put_register(q, (ZydisRegister)(ZYDIS_REGISTER_K0 + e->u->val[a->value].reg));
        else if (a->type->cls == CLASS_TILE)
            put_register(q, (ZydisRegister)(ZYDIS_REGISTER_TMM0 + e->u->val[a->value].reg));
        else
            put_register(q, vector_register(e->u->val[a->value].reg, o->bits ? o->bits : e->u->isa->vector_bits));
        break;
    default: next_operand(q, ZYDIS_OPERAND_TYPE_IMMEDIATE)->imm.s = a->number; break;
    }
}

/* An op's memory whose rows are an integer times a number apart. */
static void put_rows(ZydisEncoderRequest *q, const struct encoder *e, const struct machine_operand *o,
                     const struct filling *f)
{
    const struct arg *a = &f->arg[o->index];
    put_memory(q, integer_register(e->u->val[a->value].reg), a->number * a->type->bytes, 0);
    ZydisEncoderOperand *m = &q->operands[q->operand_count - 1];
    m->mem.index = integer_register(e->u->val[f->arg[o->by].value].reg);
    m->mem.scale = (ZyanU8)o->value;
}

static void put_address(ZydisEncoderRequest *q, const struct machine_operand *o, const struct filling *f)
{
    ZydisEncoderOperand *m = next_operand(q, ZYDIS_OPERAND_TYPE_MEMORY);
    m->mem.base = integer_register(f->reg[o->index]);
    m->mem.size = 8;
    if (o->by < 0) {
        m->mem.displacement = f->number;
    } else {
        m->mem.index = integer_register(f->reg[o->by]);
        m->mem.scale = (ZyanU8)f->number;
    }
}

static void build(ZydisEncoderRequest *q, const struct encoder *e, const struct machine *m, const struct filling *f,
                  bool k0)
{
    memset(q, 0, sizeof *q);
    q->machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    q->allowed_encodings =
        ZYDIS_ENCODABLE_ENCODING_LEGACY | ZYDIS_ENCODABLE_ENCODING_VEX | ZYDIS_ENCODABLE_ENCODING_EVEX;
    q->mnemonic = (ZydisMnemonic)m->mnemonic;
    for (int i = 0; i < m->operands; i++) {
        const struct machine_operand *o = &m->operand[i];
        if (o->kind == M_IMMEDIATE)
            next_operand(q, ZYDIS_OPERAND_TYPE_IMMEDIATE)->imm.s = o->value;
        else if (o->kind == M_ADDRESS && f->arg)
            put_rows(q, e, o, f);
        else if (o->kind == M_ADDRESS)
            put_address(q, o, f);
        else if (f->arg) {
            put_operand(q, e, o, &f->arg[o->index]);
            q->operands[q->operand_count - 1].reg.is4 =
                i == 3; /* VEX has a fourth register, in the immediate (blendv) */
        } else if (o->index == 2)
            next_operand(q, ZYDIS_OPERAND_TYPE_IMMEDIATE)->imm.s = f->number;
        else
            put_register(q, integer_register(f->reg[o->index]));
        if (o->mask >= 0) {
            put_register(q, (ZydisRegister)(ZYDIS_REGISTER_K0 + e->u->val[f->arg[o->mask].value].reg));
            q->evex.zeroing_mask = o->zeroing;
        } else if (i == 0 && k0)
            put_register(q, ZYDIS_REGISTER_K0);
    }
}

/* ---- text ---- */

static void put_integer_name(struct buf *b, int reg)
{
    buf_puts(b, ZydisRegisterGetString(integer_register(reg)));
}

static void print_operand(struct buf *b, struct encoder *e, const struct machine_operand *o,
                          const struct filling *f)
{
    const struct arg *a = f->arg ? &f->arg[o->index] : NULL;
    if (o->kind == M_IMMEDIATE) {
        buf_int(b, o->value);
    } else if (o->kind == M_ADDRESS && a) {
        buf_putc(b, '[');
        put_integer_name(b, e->u->val[a->value].reg);
        buf_putc(b, '+');
        put_integer_name(b, e->u->val[f->arg[o->by].value].reg);
        buf_printf(b, "*%d", (int)o->value);
        if (a->number) {
            buf_puts(b, a->number > 0 ? "+" : "");
            buf_int(b, a->number * a->type->bytes);
        }
        buf_putc(b, ']');
    } else if (o->kind == M_ADDRESS) {
        buf_putc(b, '[');
        put_integer_name(b, f->reg[o->index]);
        buf_putc(b, '+');
        if (o->by >= 0) {
            put_integer_name(b, f->reg[o->by]);
            buf_putc(b, '*');
        }
        buf_int(b, f->number);
        buf_putc(b, ']');
    } else if (!a) {
        if (o->index == 2)
            buf_int(b, f->number);
        else
            put_integer_name(b, f->reg[o->index]);
    } else if (a->kind == ARG_MEMORY) {
        buf_putc(b, '[');
        put_integer_name(b, e->u->val[a->value].reg);
        if (a->number > 0)
            buf_putc(b, '+');
        if (a->number)
            buf_int(b, a->number * a->type->bytes);
        buf_putc(b, ']');
    } else if (a->kind == ARG_REAL) {
        buf_puts(b, "[=");
        buf_puts(b, real_text(&e->reals, a->real));
        buf_putc(b, ']');
    } else if (a->kind == ARG_POOL) {
        buf_puts(b, "[=");
        buf_puts(b, e->u->isa->pool[a->number]->name);
        buf_putc(b, ']');
    } else if (a->kind == ARG_VALUE) {
        int reg = e->u->val[a->value].reg;
        enum reg_class cls = a->type->cls;
        ZydisRegister z = cls == CLASS_MASK   ? (ZydisRegister)(ZYDIS_REGISTER_K0 + reg)
                          : cls == CLASS_TILE ? (ZydisRegister)(ZYDIS_REGISTER_TMM0 + reg)
                               : vector_register(reg, o->bits ? o->bits : e->u->isa->vector_bits);
        buf_puts(b, ZydisRegisterGetString(z));
    }
    if (o->broadcast)
        buf_puts(b, "{1to16}");
    if (o->mask >= 0)
        buf_printf(b, "{k%d}%s", e->u->val[f->arg[o->mask].value].reg, o->zeroing ? "{z}" : "");
}

static void tell(struct encoder *e, const struct machine *m, const struct filling *f, size_t at)
{
    struct buf *b = &e->text;
    if (!e->note)
        return;
    b->size = 0;
    buf_puts(b, m->name);
    for (int i = 0; i < m->operands; i++) {
        buf_puts(b, i ? ", " : " ");
        print_operand(b, e, &m->operand[i], f);
    }
    e->note(e->self, at, e->code->size - at, buf_ok(b) ? b->data : "");
}

/* ---- code ---- */

static uint8_t *reserve(struct encoder *e, size_t size)
{
    struct code *c = e->code;
    if (c->room - c->size < size) {
        size_t room = c->room ? c->room * 2 : 4096;
        while (room - c->size < size)
            room *= 2;
        uint8_t *bytes = realloc(c->bytes, room);
        if (!bytes)
            return NULL;
        c->bytes = bytes;
        c->room = room;
    }
    return c->bytes + c->size;
}

static void put32(uint8_t *at, int64_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)((uint64_t)value >> (8 * i));
}

/* The constant that one of the operands reads, or NULL. */
static const struct constant *constant_of(const struct encoder *e, const struct machine *m, const struct filling *f)
{
    for (int i = 0; i < m->operands && f->arg; i++) {
        const struct machine_operand *o = &m->operand[i];
        if (o->kind != M_OPERAND)
            continue;
        const struct arg *a = &f->arg[o->index];
        if (a->kind == ARG_REAL || a->kind == ARG_POOL)
            return &e->constant[constant_index(e, a, memory_bytes(e, o))];
    }
    return NULL;
}

static int encode(struct encoder *e, const struct machine *m, const struct filling *f, struct place place)
{
    ZydisEncoderRequest q;
    ZyanUSize size = ZYDIS_MAX_INSTRUCTION_LENGTH;
    uint8_t *at = reserve(e, ZYDIS_MAX_INSTRUCTION_LENGTH);
    if (!at)
        return gen_out_of_memory(e->err, "generator");
    if (!m->present)
        return fail_at(e->err, place, "isa %s has no machine form of this; expected its table's machine column",
                       e->u->isa->name);
    build(&q, e, m, f, m->evex_k0);
    if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&q, at, &size))) {
        size = ZYDIS_MAX_INSTRUCTION_LENGTH; /* only EVEX wants k0, and low registers choose VEX */
        build(&q, e, m, f, !m->evex_k0);
        if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&q, at, &size)))
            return fail_at(e->err, place,
                           "'%s' cannot be encoded with these operands; expected operands that the processor has",
                           m->name);
    }
    const struct constant *c = constant_of(e, m, f);
    size_t start = e->code->size;
    e->code->size += size;
    e->code->instructions++;
    if (c) { /* the distance stands before an immediate, which takes a byte */
        const int behind = m->operand[m->operands - 1].kind == M_IMMEDIATE;
        put32(at + size - 4 - behind, (int64_t)c->at - (int64_t)e->code->size);
    }
    tell(e, m, f, start);
    return 0;
}

static int encode_control(struct encoder *e, enum control c, int d, int x, int64_t number, struct place place)
{
    struct filling f = {.reg = {d, x, 0}, .number = number};
    return encode(e, &e->u->isa->control[c], &f, place);
}

/* A jump back to the loop's start, in the short form if it reaches. */
static int encode_back(struct encoder *e, size_t target)
{
    uint8_t *at = reserve(e, 6);
    int64_t distance = (int64_t)target - (int64_t)e->code->size;
    size_t start = e->code->size;
    if (!at)
        return -1;
    const struct machine *m = &e->u->isa->control[CONTROL_BACK];
    ZydisEncoderRequest q;
    ZyanUSize size = ZYDIS_MAX_INSTRUCTION_LENGTH;
    bool near = distance - 2 < -128;
    struct filling f = {.number = distance - (near ? 6 : 2)};
    build(&q, e, m, &f, false);
    q.branch_type = near ? ZYDIS_BRANCH_TYPE_NEAR : ZYDIS_BRANCH_TYPE_SHORT;
    q.branch_width = near ? ZYDIS_BRANCH_WIDTH_32 : ZYDIS_BRANCH_WIDTH_8;
    if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&q, at, &size)) || size != (near ? 6 : 2))
        return fail_at(e->err, e->u->micro->place, "'%s' cannot be encoded as a jump back", m->name);
    e->code->size += size;
    e->code->instructions++;
    tell(e, m, &f, start);
    return 0;
}

static int align(struct encoder *e, size_t to)
{
    size_t pad = (to - e->code->size % to) % to;
    uint8_t *at = reserve(e, pad);
    if (!at || (pad && !ZYAN_SUCCESS(ZydisEncoderNopFill(at, pad))))
        return -1;
    if (pad && e->note)
        e->note(e->self, e->code->size, pad, "nop");
    e->code->size += pad;
    return 0;
}

static int registers_of(const struct encoder *e, const struct arg *a)
{
    return a->kind == ARG_VALUE ? e->u->val[a->value].reg : 0;
}

static int encode_loop(struct encoder *e, const struct inst *i, size_t start[LOOPS_MAX], int *depth)
{
    if (*depth == LOOPS_MAX)
        return fail_at(e->err, i->place, "loops are nested %d deep; expected fewer", LOOPS_MAX);
    int counter = registers_of(e, &i->arg[0]);
    bool copy = i->arg[1].kind == ARG_VALUE;
    if (encode_control(e, copy ? CONTROL_COPY : CONTROL_SET, counter, registers_of(e, &i->arg[1]), i->arg[1].number,
                       i->place) ||
        align(e, 32))
        return -1;
    start[(*depth)++] = e->code->size;
    return 0;
}

static int encode_inst(struct encoder *e, const struct inst *i, size_t start[LOOPS_MAX], int *depth)
{
    int d = i->args ? registers_of(e, &i->arg[0]) : 0;
    int64_t bytes = 1;
    if (i->kind == INST_BUMP || i->kind == INST_STEP || i->kind == INST_POINTER)
        bytes = e->u->val[i->arg[0].value].list ? 8 : e->u->val[i->arg[0].value].type->bytes;
    switch (i->kind) {
    case INST_OP: return encode(e, &i->op->machine, &(struct filling){.arg = i->arg}, i->place);
    case INST_LOOP: return encode_loop(e, i, start, depth);
    case INST_END:
        return encode_control(e, CONTROL_DOWN, d, 0, 0, i->place) || encode_back(e, start[--*depth]) ? -1 : 0;
    case INST_SET: return encode_control(e, CONTROL_SET, d, 0, i->arg[1].number, i->place);
    case INST_TAKE: /* a pointer has eight bytes */
        return encode_control(e, CONTROL_TAKE, d, registers_of(e, &i->arg[1]), i->arg[2].number * 8, i->place);
    case INST_BUMP: return encode_control(e, CONTROL_BUMP, d, 0, i->arg[1].number * bytes, i->place);
    case INST_STEP: return encode_control(e, CONTROL_STEP, d, registers_of(e, &i->arg[1]), bytes, i->place);
    default:
        if (encode_control(e, CONTROL_COPY, d, registers_of(e, &i->arg[1]), 0, i->place))
            return -1;
        return i->arg[2].number ? encode_control(e, CONTROL_BUMP, d, 0, i->arg[2].number * bytes, i->place) : 0;
    }
}

/* The registers that values have and that belong to the caller; returns how many. */
static int callers(const struct unrolled *u, int reg[16])
{
    int n = 0;
    for (int r = 0; r < 16; r++) {
        bool used = false;
        for (int v = 0; v < u->vals && !used; v++)
            used = u->val[v].cls == CLASS_INT && u->val[v].reg == r && is_callers(r);
        if (used)
            reg[n++] = r;
    }
    return n;
}

/* All instructions, and the return to the caller. */
static int encode_all(struct encoder *e)
{
    const struct place end = e->u->micro->place;
    int reg[16], depth = 0;
    const int saved = callers(e->u, reg);
    size_t start[LOOPS_MAX];
    for (int i = 0; i < saved; i++)
        if (encode_control(e, CONTROL_SAVE, reg[i], 0, 0, end))
            return -1;
    for (int i = 0; i < e->u->insts; i++)
        if (encode_inst(e, &e->u->inst[i], start, &depth))
            return -1;
    for (int i = saved - 1; i >= 0; i--)
        if (encode_control(e, CONTROL_RESTORE, reg[i], 0, 0, end))
            return -1;
    return encode_control(e, CONTROL_CLEAN, 0, 0, 0, end) || encode_control(e, CONTROL_RETURN, 0, 0, 0, end) ? -1 : 0;
}

/* ---- constants ---- */

static int add_constant(struct encoder *e, const struct arg *a, int bytes, struct place place)
{
    if (constant_index(e, a, bytes) >= 0)
        return 0;
    if (e->constants == CONSTANTS_MAX)
        return fail_at(e->err, place, "there are more than %d constants; expected fewer", CONSTANTS_MAX);
    struct constant *c = &e->constant[e->constants++];
    c->bytes = bytes;
    for (int l = 0; l < bytes / 4; l++)
        memcpy(&c->lane[l], a->kind == ARG_POOL ? (const void *)&e->u->isa->pool[a->number]->lane[l] : &a->real, 4);
    return 0;
}

static int collect_constants(struct encoder *e)
{
    for (int k = 0; k < e->u->insts; k++) {
        const struct inst *i = &e->u->inst[k];
        for (int j = 0; i->kind == INST_OP && j < i->op->machine.operands; j++) {
            const struct machine_operand *o = &i->op->machine.operand[j];
            const struct arg *a = o->kind == M_OPERAND ? &i->arg[o->index] : NULL;
            if (a && (a->kind == ARG_REAL || a->kind == ARG_POOL) && add_constant(e, a, memory_bytes(e, o), i->place))
                return -1;
        }
    }
    return 0;
}

/* Whole vectors first, and then what is shorter, so that each is aligned; the code follows at the next cache line. */
static int put_constants(struct encoder *e)
{
    for (int bytes = e->u->isa->vector_bits / 8; bytes >= 4; bytes /= 2)
        for (int i = 0; i < e->constants; i++) {
            struct constant *c = &e->constant[i];
            uint8_t *at = c->bytes == bytes ? reserve(e, (size_t)bytes) : NULL;
            if (c->bytes != bytes)
                continue;
            if (!at)
                return -1;
            c->at = e->code->size;
            memcpy(at, c->lane, (size_t)c->bytes);
            e->code->size += (size_t)c->bytes;
        }
    while (e->code->size % 64) {
        uint8_t *at = reserve(e, 1);
        if (!at)
            return -1;
        *at = 0;
        e->code->size++;
    }
    e->code->entry = e->code->size;
    return 0;
}

int encode_x86(struct code *out, const struct unrolled *u,
               void (*note)(void *self, size_t at, size_t size, const char *text), void *self, struct gen_error *err)
{
    struct encoder e = {.code = out, .u = u, .note = note, .self = self, .err = err};
    *out = (struct code){0};
    if (collect_constants(&e))
        return -1;
    if (put_constants(&e))
        return gen_out_of_memory(err, "generator");
    const int failed = encode_all(&e);
    buf_free(&e.text);
    return failed;
}

void code_free(struct code *c)
{
    free(c->bytes);
    *c = (struct code){0};
}

/* ---- resolving a table ---- */

int machine_resolve(struct machine *m, const struct isa_table *t, struct place place, struct gen_error *err)
{
    if ((m->mnemonic = find_mnemonic(m->name)) == ZYDIS_MNEMONIC_INVALID)
        return fail_at(err, place, "unknown instruction '%s'; expected an x86-64 mnemonic", m->name);
    m->evex_k0 = t->vector_bits == 512; /* a first guess, which encode() reverses if it is wrong */
    for (int i = 0; i < m->operands; i++)
        m->evex_k0 &= m->operand[i].mask < 0 && m->operand[i].kind == M_OPERAND;
    return 0;
}
