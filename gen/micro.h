/* micro.h - the micro-kernel language: straight text over named vectors, read once, written out for one variant, given
 * registers, and lowered to C (intrinsics or plain) or to x86-64 machine code. It knows loops, pointers and typed
 * vectors; an ISA table says what the ops are, and the templates say what is computed. */
#ifndef ATTNGEN_MICRO_H
#define ATTNGEN_MICRO_H

#include "buf.h"
#include "expr.h"
#include "lex.h"
#include "template.h"

enum { NAMES_MAX = 2048 };
/* Interned names: equal texts have equal pointers. */
struct names {
    struct arena *arena;
    const char *slot[NAMES_MAX];
    int count;
};
const char *name_intern(struct names *n, const char *text, size_t size); /* NULL if full or out of memory */

/* ---- what an ISA table declares (isa.c) ---- */

enum { TYPES_MAX = 14, OPERANDS_MAX = 9, ARGS_MAX = 5, CLASS_COUNT = 4, OPS_MAX = 288, OP_BUCKETS = 64, MICROS_MAX = 192,
       POOLS_MAX = 128, HELPERS_MAX = 56 };
enum reg_class { CLASS_VEC, CLASS_MASK, CLASS_INT, CLASS_TILE };

/* A type of vector values or of memory elements. */
struct vtype {
    const char *name; /* in the language: f32, i32, bf16x2, mask */
    bool vector;      /* it has vector values; else it is only an element type in memory */
    enum reg_class cls;
    const char *c_name;      /* in emitted C: vec */
    const char *c_intrinsic; /* its type under gcc and clang: __m512 */
    const char *c_element;   /* of a lane or element: float */
    int bytes;               /* of an element in memory */
};

enum operand_kind {
    OPERAND_VALUE,
    OPERAND_MEMORY,
    OPERAND_INT,
    OPERAND_REAL,
    OPERAND_LITERAL,
    OPERAND_POOL,
    OPERAND_COUNTER,
    OPERAND_ANY
};

/* One operand of a pattern, which says how an op or macro is written. The first letter says what may stand there: d x y
 * z vectors, k a mask, m memory, c a whole number, f a real number, v a vector of the pool, n an integer in a register;
 * a number stands for itself. In a macro's pattern longer names are OPERAND_ANY: whatever the caller writes there. */
struct operand {
    char letter;
    enum operand_kind kind;
    const char *type; /* interned name; for VALUE and MEMORY f32 unless given */
    int64_t literal;
};
struct pattern {
    const char *key; /* the statement with _ for each operand: "_ += _ * _" */
    int operands;
    struct operand operand[OPERANDS_MAX];
    int same[OPERANDS_MAX]; /* index of the earlier operand with the same letter, or -1 */
};

enum { MACHINE_MAX = 5 };
/* One operand of a machine instruction, as in "vblendmps d {k}, y, x" or "vpermilps d, x, 0x4e". */
struct machine_operand {
    enum { M_OPERAND, M_IMMEDIATE, M_ADDRESS } kind;
    int index;     /* which operand of the pattern; for an address, the base */
    int by, scale; /* ADDRESS: the index register's operand or -1; the operand that scales it, or is the displacement;
                    * -1: value */
    int bits;      /* of a register part (512, 256, 128) or of memory; 0: the ISA's vector */
    int mask;       /* the operand in {k}; -1: none */
    bool zeroing;   /* {z} */
    bool broadcast; /* {1to16}, on memory */
    int64_t value;
};
struct machine {
    bool present;
    int mnemonic; /* Zydis' number */
    const char *name;
    int operands;
    struct machine_operand operand[MACHINE_MAX];
    bool evex_k0; /* the encoder wants an explicit k0 as second operand (found by trying) */
};

/* What an op does: its operand 0 is a value, or memory that it writes, or memory that it names without =, as a hint. */
enum op_effect { EFFECT_VALUE, EFFECT_STORE, EFFECT_HINT };

struct op {
    const char *name;
    int id; /* unique among the ops of a table; below OPS_MAX */
    struct place place;
    struct pattern pattern;
    const char *intrinsic, *plain; /* NULL if the table has none */
    struct machine machine;
    enum op_effect effect;
    bool reads_first; /* it also reads the value that it gives */
    bool tiled;       /* it has an operand of CLASS_TILE, for which C has no type, so the op is a macro there */
    int strided;      /* the operand that is the distance between the rows of its memory, of which there are as many as
                       * lanes; or -1 */
};

struct macro; /* a composite, in the same language */

struct pool_vector {
    const char *name;
    const struct vtype *type;
    int32_t lane[16];
};

struct helper { /* a C function that plain rows use */
    const char *name, *text;
};

enum control {
    CONTROL_TAKE,
    CONTROL_COPY,
    CONTROL_SET,
    CONTROL_BUMP,
    CONTROL_STEP,
    CONTROL_DOWN,
    CONTROL_BACK,
    CONTROL_SAVE,
    CONTROL_RESTORE,
    CONTROL_CLEAN,
    CONTROL_RETURN,
    CONTROL_COUNT
};

struct isa_table {
    const char *name, *target; /* target: gcc's function attribute, or nothing; NULL: only plain C */
    const struct isa_facts *facts; /* NULL: a base of others, not an isa itself */
    int width;                 /* lanes of 32 bits */
    int vector_bits;
    int registers[CLASS_COUNT];
    int types, ops, op_ids, macros, pools, helpers;
    const struct vtype *type[TYPES_MAX];
    const struct op *op[OPS_MAX];
    int last_op[OP_BUCKETS], op_before[OPS_MAX]; /* the ops whose keys share a bucket, as a list from the last one
                                                  * back */
    const struct macro *macro[MICROS_MAX];
    const char *macro_key[MICROS_MAX]; /* macro[i]->pattern.key, side by side for the search */
    const struct pool_vector *pool[POOLS_MAX];
    const struct helper *helper[HELPERS_MAX];
    struct machine control[CONTROL_COUNT];
};
/* Reads a table. `isa NAME BITS [extends BASE]` takes over what BASE, one of the n tables read before, declares. */
int isa_parse(struct isa_table *t, struct arena *a, struct names *names, const char *file, const char *text,
              size_t size, const struct isa_table *const *before, int n, struct gen_error *err);
/* The BASE that must be read before a table; NULL if it extends none. */
const char *isa_base(struct arena *a, const char *file, const char *text, size_t size);
/* Where a table's lists begin for an op that is written like that. */
static inline int isa_bucket(const char *key)
{
    return (int)((uintptr_t)key / 16 % OP_BUCKETS); /* interned, and in an arena of 16-byte steps */
}
const struct vtype *isa_type(const struct isa_table *t, const char *name, size_t size);
bool isa_has_op(const struct isa_table *t, const char *name);

/* ---- the text, read (parse.c, parse_key.c) ---- */

enum node_kind {
    NODE_STATEMENT,
    NODE_UNROLL,
    NODE_LOOP,
    NODE_IF,
    NODE_LET,
    NODE_ASSERT,
    NODE_BUMP,
    NODE_POINTER,
    NODE_TAKE,
    NODE_ALIAS,
    NODE_INTEGER,
    NODE_WEAVE
};

/* An operand as written: a name with its indices, or a number. */
struct term {
    const char *name; /* interned; NULL for a number */
    struct place place;
    int indices;
    const struct expr *index[2];
    bool is_real;
    int64_t number;
    double real;
};
struct node {
    enum node_kind kind;
    struct place place;
    struct node *next, *body, *otherwise;
    /* STATEMENT */
    const char *key;   /* interned */
    const char *sugar; /* `a *= b` read as `a = a * b`, if no op is written the first way; or NULL */
    bool declares;     /* vec or mask stands before it */
    const char *type;  /* the declared type's name, or an env name whose text it is; NULL: f32, or mask */
    int terms;
    struct term term[OPERANDS_MAX];
    /* UNROLL, LOOP, LET, ASSERT, IF, BUMP, POINTER, TAKE, ALIAS, INTEGER; WEAVE: body is the first stream, otherwise the
     * second */
    const char *name;  /* loop variable, let's name, bumped pointer; WEAVE: the op whose statements count, or NULL:
                        * all */
    const char *other; /* POINTER, TAKE, ALIAS: source; BUMP, LOOP: the name, if the expression is just that; or NULL */
    const struct expr *expr; /* WEAVE: statements of the first stream for each that counts; NULL: so that both end
                              * together */
    const char *message;
    bool also; /* an IF written as `also EXPR`, for statements that are an addition to what stands before them: weave keeps them
                * there, and does not count them; and micro-kernels that differ by them alone share one function of C */
};
struct parameter {
    const char *name, *type; /* type NULL: int */
    bool list;               /* of pointers, */
    const struct expr *when; /* where this holds; elsewhere it is a pointer. NULL: always */
};
enum { PARAMETERS_MAX = 6 };
struct macro {
    struct pattern pattern;
    const char *name[OPERANDS_MAX]; /* of each operand */
    struct place place;
    struct node *body;
    bool part; /* its statements are lines of their own in C, as if they stood in its caller; others share one */
};
struct micro {
    const char *name;
    const struct template *comment; /* the lines with # right above it, each as one line of C; NULL: none */
    struct place place;
    int parameters;
    struct parameter parameter[PARAMETERS_MAX];
    struct node *body;
};

struct micro_file {
    int micros, macros;
    struct micro *micro[MICROS_MAX];
    struct macro *macro[MICROS_MAX];
    const char *macro_key[MICROS_MAX]; /* macro[i]->pattern.key, side by side for the search */
};
/* Reads text that holds `micro`, `macro` and `part` blocks, which indentation delimits. Types in macro patterns are names until
 * they are compared, so t may be NULL. line is the first line's number. */
int micro_parse(struct micro_file *f, struct arena *a, struct names *names, const char *file, int line,
                const char *text, size_t size, struct gen_error *err);
const struct micro *micro_find(const struct micro_file *f, const char *name);
/* The pattern by which a table row or macro is written. Also gives each operand's name if names is not NULL. */
int pattern_parse(struct pattern *p, const char *operand[OPERANDS_MAX], struct arena *a, struct names *names,
                  struct lexer *l);

/* The # lines above a micro-kernel, for template_render; and their C text with the names that env has, which the caller
 * frees, NULL if there is nothing to say. */
const struct template *comment_parse(struct arena *a, struct place place, const char *text, size_t size,
                                     struct gen_error *err);
int comment_write(char **out, const struct micro *m, struct env *env, struct gen_error *err);

/* ---- written out for one variant (unroll.c), and given registers (registers.c) ---- */

enum arg_kind { ARG_VALUE, ARG_MEMORY, ARG_REAL, ARG_INTEGER, ARG_POOL, ARG_UNKNOWN };
struct arg {
    enum arg_kind kind;
    int value; /* index into values: a vector, mask, the pointer of memory, or an integer */
    const struct vtype *type;
    bool integer;   /* VALUE: an integer in a register */
    int64_t number; /* memory: offset in elements; INTEGER: the number itself; POOL: which of the table's vectors */
    float real;
};
/* OP: an op over args. LOOP, END: arg[0] the counter, arg[1] the count. BUMP: arg[0] += arg[1], a number; STEP: an
 * integer. POINTER: arg[0] = arg[1] + arg[2], a number. TAKE: arg[0] is number arg[2] of the list arg[1]. SET: arg[0] =
 * arg[1], a number. */
enum inst_kind { INST_OP, INST_LOOP, INST_END, INST_BUMP, INST_STEP, INST_POINTER, INST_TAKE, INST_SET };
struct inst {
    enum inst_kind kind;
    const struct op *op;
    struct place place;
    int args;
    struct arg arg[ARGS_MAX];
    int partner;      /* LOOP: its END, and vice versa */
    int group; /* C prints the instructions of one group on one line */
    bool also; /* it stands under an also */
};
/* A named value: a vector, mask, pointer or integer, from its definition to its last use. */
struct val {
    const char *base; /* the name as written; with the indices it is the C name */
    int index[2], indices;
    const struct vtype *type; /* for vectors and masks; for a pointer its element type; NULL for an integer */
    enum reg_class cls;
    bool pointer, parameter, written; /* written: a pointer stored through */
    bool list;                        /* of pointers; and a pointer itself */
    int list_of;                      /* for a pointer: the list that it was taken from, or -1 */
    bool known;                       /* an integer that has this value: */
    int64_t number;
    int first, last;                  /* instructions */
    int parent;                       /* for a pointer: the one that it was copied from, or -1 */
    int reg;
    int twin; /* C names: a number that is appended if another live value, or a pool vector, has the same name */
    bool again; /* an earlier value is the same variable in C */
};
enum { C_NAME_MAX = 48 };
struct c_text {
    char text[C_NAME_MAX];
    size_t size;
};
/* A call of another micro-kernel. Its instructions stand here too, from `first` up to but not including `end`, so that machine code
 * needs no call; C prints the call in their place. */
struct micro_call {
    int first, end;
    int back; /* the callee is so many places before its caller in their array */
    int args;
    struct arg arg[OPERANDS_MAX];
};
/* What a template set for one micro-kernel alone. */
struct own_value {
    char name[16];
    int64_t number;
};
enum { OWN_VALUES_MAX = 4 };
struct unrolled {
    const struct micro *micro;
    const struct isa_table *isa;
    const char *name; /* as emitted */
    char *comment;    /* with this variant's numbers, as in C; NULL: none */
    struct inst *inst;
    int insts, inst_room;
    struct val *val;
    int vals, val_room;
    struct c_text *c_name; /* of each value, once it has a register */
    int used[CLASS_COUNT]; /* registers at the widest point */
    struct micro_call *call;
    int calls;
    struct own_value own[OWN_VALUES_MAX];
    int owns;
};
/* Whether a value is a callee's, so that C has it there. */
static inline bool is_called(const struct unrolled *u, const struct val *x)
{
    for (int i = 0; i < u->calls; i++)
        if (x->first >= u->call[i].first && x->first < u->call[i].end)
            return true;
    return false;
}
/* out[-before] to out[-1] are those that it may call. Of env what is in from entry `own` on was set for it alone. */
int micro_unroll(struct unrolled *out, int before, const struct isa_table *t, const struct micro_file *f, const struct micro *m,
                 const char *name, struct env *env, int own, struct gen_error *err);
/* Whether an integer register is the caller's: rbx, rbp, r12 to r15. Those are taken last, and brought back. */
static inline bool is_callers(int reg)
{
    return reg == 3 || reg == 5 || reg > 11;
}
int registers_assign(struct unrolled *u, struct gen_error *err);
/* Merges instructions first..middle-1 and middle..end-1 into one stream (weave.c), which computes what the first and
 * then the second would. `by` names the op whose instructions count in the second (NULL: all do), one of which follows
 * `every` of the first (0: so that both end together). */
int weave(struct unrolled *u, int first, int middle, const char *by, int64_t every, struct place place, struct gen_error *err);
void unrolled_free(struct unrolled *u);

/* A value's name in C: a0_1 for a[0][1], with a number after it if two of a name live at once. Returns its length. */
size_t c_name(const struct val *v, char name[C_NAME_MAX]);

/* ---- the micro-kernels of one variant (emit.c) ---- */

/* What the variant's template asks for, written out, and the numbers that it computes for that: NR, LDQ, ... Variant
 * and generator must outlive it. */
struct emission;
int emission_open(const struct gen *g, const struct variant *v, struct emission **out, struct gen_error *err);
void emission_close(struct emission *e); /* NULL is allowed */
const struct unrolled *emission_units(const struct emission *e, int *count);
int emission_number(const struct emission *e, const char *name, int64_t *out); /* -1: there is no such number */

/* What templates may ask about a storage type (dtypes.h): type_bytes, type_c, type_opencl, type_widening; the call of
 * an env. */
int type_function(void *self, const char *function, const struct value *args, int n, struct value *out,
                  struct gen_error *err);

/* ---- lowered ---- */

/* What precedes a file's ops: the macros MACHINE_CODE and INTRINSICS if they apply, and headers. */
void lower_c_head(struct buf *out, const struct isa_table *t, bool machine_code);
/* What ops, micro-kernels and templates use alike: real_of and MINUS_INFINITY. */
void lower_c_bits(struct buf *out);
/* C: the micro-kernels as calls of one function for each op, and those functions, once with intrinsics and once as
 * plain C. */
void lower_c_ops(struct buf *out, const struct isa_table *t, const struct unrolled *u, int n);
void lower_c_body(struct buf *out, const struct unrolled *u);
/* All of n; two that differ by what stands under an also alone become one function, which both call. */
void lower_c_bodies(struct buf *out, const struct unrolled *u, int n);
/* `void NAME(const float *q, ...)`, no semicolon */
void lower_c_prototype(struct buf *out, const struct unrolled *u, const char *name);

/* Whether operand i is a parameter of the op's function: not if it is only written, not a literal, and each letter
 * once. */
bool op_takes(const struct op *op, int i);
static inline bool real_is_infinite(float real)
{
    return real > 3.4028235e38f || real < -3.4028235e38f;
}

/* Real numbers as text that reads back as the same float: printing one takes longer than an instruction, and a
 * micro-kernel has few, each many times. */
struct reals {
    int count;
    struct {
        float real;
        char text[24];
    } seen[16];
};
const char *real_text(struct reals *r, float real);

/* Machine code for x86-64 System V, as an __asm__ block that tcc takes. If a symbol is given, it is for people to read,
 * and the symbol's digits (apart.h) are appended to the label: one instruction a line, with its text; if NULL it is
 * packed. The label is local; a static prototype before it gives its type. Tests also use it: code and text only. */
int lower_x86(struct buf *out, const struct unrolled *u, const char *symbol, struct gen_error *err);
struct code {
    uint8_t *bytes;
    size_t size, room, entry; /* the function starts at entry; before it are its constants */
    int instructions;
};
/* note is called after each instruction with its offset and size, and with its text if text is wanted. */
int encode_x86(struct code *out, const struct unrolled *u,
               void (*note)(void *self, size_t at, size_t size, const char *text), void *self, struct gen_error *err);
void code_free(struct code *c);
/* Resolves a table's machine column; fails on an unknown mnemonic. Does nothing in a build without the encoder. */
int machine_resolve(struct machine *m, const struct isa_table *t, struct place place, struct gen_error *err);

#endif
