/* options.c - see options.h. A new option is one row of `table`, its id and, for a value of a new kind, a reader. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum value_kind { VALUE_NONE, VALUE_NEEDED, VALUE_OPTIONAL };
struct option {
    const char *name; /* "-o" or "--dtype" */
    const char *meta; /* its value, for people: "FILE" */
    const char *doc;  /* for --help; a newline goes on in the same column */
    enum value_kind kind;
    /* value is NULL where none was given. Returns 0, or -1 with what is wrong and what is expected. */
    int (*read)(enum option_id id, const char *value, struct options *out, struct gen_error *err);
};
static const struct option table[OPTION_COUNT];

static int wrong(struct gen_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct gen_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return -1;
}

/* ---- readers, one for each kind of value ---- */

/* A decimal integer from the start of text; where it ends, or NULL when there is none or it does not fit. */
static const char *integer(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9')
        return NULL;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno)
        return NULL;
    *out = value;
    return end;
}

static int read_integer(enum option_id id, const char *value, int64_t min, int64_t max, int64_t *out,
                        struct gen_error *err)
{
    const char *end = integer(value, out);
    if (end && !*end && *out >= min && *out <= max)
        return 0;
    return wrong(err, "%s '%s' is not right; expected an integer from %lld to %lld", table[id].name, value,
                 (long long)min, (long long)max);
}

static int read_word(enum option_id id, const char *value, const char *const *words, int *out, struct gen_error *err)
{
    char list[160] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(value, words[i])) {
            *out = i;
            return 0;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    return wrong(err, "%s '%s' is not known; expected %s", table[id].name, value, list);
}

static int read_text(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    if (!*value)
        return wrong(err, "%s has an empty value; expected %s", table[id].name, table[id].meta);
    out->file[id] = value;
    return 0;
}

static int read_flag(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    (void)value;
    (void)err;
    switch (id) {
    case OPTION_MACHINE_CODE: out->machine_code = true; break;
    case OPTION_LIST: out->list = true; break;
    case OPTION_WHY_NOT: out->why_not = true; break;
    case OPTION_JSON: out->json = true; break;
    default: break;
    }
    return 0;
}

static int read_dtype(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    int dtype = 0;
    if (read_word(id, value, fields[F_DTYPE].names, &dtype, err))
        return -1;
    out->dtype = (enum dtype)dtype;
    return 0;
}

static int read_causal(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {"bottom-right", "top-left", NULL};
    int align = 0;
    if (value && read_word(id, value, words, &align, err))
        return -1;
    out->causal = true;
    out->align = align ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
    return 0;
}

static int read_q_offset(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    const int64_t most = INT64_C(1) << 40; /* so that adding a length cannot overflow */
    return read_integer(id, value, -most, most, &out->q_offset, err);
}

static int read_scale(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    char *end;
    out->scale = strtof(value, &end);
    bool space = *value == ' ' || (*value >= '\t' && *value <= '\r');
    if (space || end == value || *end || !isfinite(out->scale))
        return wrong(err, "%s '%s' is not right; expected a finite number", table[id].name, value);
    return 0;
}

static int read_layout(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {"bhsd", "bshd", NULL};
    int layout = 0;
    if (read_word(id, value, words, &layout, err))
        return -1;
    out->layout = layout ? LAYOUT_BSHD : LAYOUT_BHSD;
    return 0;
}

/* Product of four sizes of a tensor, or -1 from 2^40 on. */
static int64_t elements(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t factor[] = {a, b, c, d}, most = INT64_C(1) << 40;
    int64_t product = 1;
    for (int i = 0; i < 4; i++) {
        if (product >= most / factor[i])
            return -1;
        product *= factor[i];
    }
    return product;
}

/* Integers from 1 on with commas between them: how many there are, or -1 when it is anything else. */
static int integers(const char *at, int64_t *const *out, int most)
{
    for (int n = 0; n < most; n++) {
        at = integer(at, out[n]);
        if (!at || *out[n] < 1)
            return -1;
        if (!*at)
            return n + 1;
        if (*at++ != ',')
            return -1;
    }
    return -1;
}

static int read_shape(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    struct shape *s = &out->shape;
    int64_t *const side[] = {&s->batch, &s->heads, &s->kv_heads, &s->q_len, &s->kv_len, &s->head_dim, &s->head_dim_v};
    const int sides = sizeof side / sizeof *side;
    int n = integers(value, side, sides);
    if (n < sides - 1 || strlen(value) >= sizeof s->text)
        return wrong(err,
                     "%s '%s' is not right; expected B,Hq,Hkv,Sq,Skv,D or B,Hq,Hkv,Sq,Skv,D,Dv, integers from 1 on",
                     table[id].name, value);
    if (n == sides - 1)
        s->head_dim_v = s->head_dim;
    if (s->head_dim > fields[F_HEAD_DIM].max || s->head_dim_v > fields[F_HEAD_DIM_V].max)
        return wrong(
            err, "%s '%s' has head dims %lld and %lld; expected D from 1 to %d and Dv (D when not given) from 1 to %d",
            table[id].name, value, (long long)s->head_dim, (long long)s->head_dim_v, (int)fields[F_HEAD_DIM].max,
            (int)fields[F_HEAD_DIM_V].max);
    if (s->heads % s->kv_heads)
        return wrong(err, "%s '%s' has %lld query heads for %lld key heads; expected a multiple", table[id].name, value,
                     (long long)s->heads, (long long)s->kv_heads);
    int64_t d = s->head_dim > s->head_dim_v ? s->head_dim : s->head_dim_v;
    if (elements(s->batch, s->heads, s->q_len, d) < 0 || elements(s->batch, s->kv_heads, s->kv_len, d) < 0)
        return wrong(err, "%s '%s' is too large; expected tensors of fewer than 2^40 elements", table[id].name, value);
    memcpy(s->text, value, strlen(value) + 1);
    return 0;
}

static int read_device(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    /* As opencl_is_name has it, which the program that only emits does without. */
    size_t digits = strncmp(value, "opencl:", 7) ? 0 : strspn(value + 7, "0123456789");
    bool numbered = digits > 0 && digits < 6 && !value[7 + digits];
    if (strcmp(value, "cpu") && strcmp(value, "opencl") && !numbered)
        return wrong(err, "%s '%s' is not known; expected cpu, opencl or opencl:N (`attngen devices` lists them)",
                     table[id].name, value);
    out->file[id] = value;
    return 0;
}

static int read_compiler(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {"tcc", "cc", "both", NULL};
    int compiler = 0;
    if (read_word(id, value, words, &compiler, err))
        return -1;
    out->every_compiler = compiler == 2;
    out->compiler = compiler == 1 ? ATTN_CC : ATTN_TCC;
    return 0;
}

static int read_threads(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    int64_t threads = 0;
    if (read_integer(id, value, 1, 1024, &threads, err))
        return -1;
    out->threads = (int)threads;
    return 0;
}

static int read_rigor(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {
        [ATTN_ESTIMATE] = "estimate", [ATTN_MEASURE] = "measure", [ATTN_PATIENT] = "patient", NULL};
    int rigor = 0;
    if (read_word(id, value, words, &rigor, err))
        return -1;
    out->rigor = (attn_rigor)rigor;
    return 0;
}

static int read_time_limit(enum option_id id, const char *value, struct options *out, struct gen_error *err)
{
    char *end;
    out->time_limit = strtod(value, &end);
    if (*value < '0' || *value > '9' || *end || !isfinite(out->time_limit) || !(out->time_limit > 0))
        return wrong(err, "%s '%s' is not right; expected seconds, more than 0", table[id].name, value);
    return 0;
}

/* ---- the table ---- */

static const struct option table[OPTION_COUNT] = {
    [OPTION_Q] = {"-q", "Q.npy", "query, [B, Hq, Sq, D]", VALUE_NEEDED, read_text},
    [OPTION_K] = {"-k", "K.npy", "key, [B, Hkv, Skv, D]; Hq is a multiple of Hkv", VALUE_NEEDED, read_text},
    [OPTION_V] = {"-v", "V.npy", "value, [B, Hkv, Skv, Dv]", VALUE_NEEDED, read_text},
    [OPTION_O] = {"-o", "O.npy", "where the output goes, [B, Hq, Sq, Dv], of Q's array type", VALUE_NEEDED, read_text},
    [OPTION_LSE] = {"--lse", "L.npy", "where the log of each row's sum of exponentials goes,\nfloat32 [B, Hq, Sq]",
                    VALUE_NEEDED, read_text},
    [OPTION_COMPARE] = {"--compare", "REF.npy", "say how far the output is from this array of O's shape", VALUE_NEEDED,
                        read_text},
    [OPTION_OUT_DIR] = {"-o", "DIR", "directory for the kernels and manifest.json; made when absent", VALUE_NEEDED,
                        read_text},
    [OPTION_MACHINE_CODE] = {"--machine-code", NULL, "add the form that libtcc compiles", VALUE_NONE, read_flag},
    [OPTION_FILTER] = {"--filter", "GLOB", "only kernels whose name matches", VALUE_NEEDED, read_text},
    [OPTION_LIST] = {"--list", NULL, "print names, write nothing", VALUE_NONE, read_flag},
    [OPTION_WHY_NOT] = {"--why-not", NULL, "print each rejected combination and the rule that rejects it", VALUE_NONE,
                        read_flag},
    [OPTION_SHAPE] = {"--shape", "SHAPE",
                      "B,Hq,Hkv,Sq,Skv,D[,Dv]: batch, query heads, key heads,\n"
                      "queries, keys, head dim of Q and K, of V and O",
                      VALUE_NEEDED, read_shape},
    [OPTION_DTYPE] = {"--dtype", "TYPE", "f32, f16 or bf16; default: f32, or the arrays' own type", VALUE_NEEDED,
                      read_dtype},
    [OPTION_CAUSAL] = {"--causal", "ALIGN",
                       "query i sees keys up to i + offset; the offset is Skv - Sq\n"
                       "with bottom-right (the default), 0 with top-left",
                       VALUE_OPTIONAL, read_causal},
    [OPTION_Q_OFFSET] = {"--q-offset", "N", "causal: the position of query 0, in place of an alignment", VALUE_NEEDED,
                         read_q_offset},
    [OPTION_SCALE] = {"--scale", "X", "scores are X * q.k; default 1/sqrt(D)", VALUE_NEEDED, read_scale},
    [OPTION_KV_LENS] = {"--kv-lens", "F.npy", "keys that take part in each sequence, int32 or int64 [B]", VALUE_NEEDED,
                        read_text},
    [OPTION_LAYOUT] = {"--layout", "LAYOUT", "bhsd (default) or bshd: the order of the arrays' sides", VALUE_NEEDED,
                       read_layout},
    [OPTION_DEVICE] = {"--device", "D", "cpu (default), opencl or opencl:N; `attngen devices` lists\nthem", VALUE_NEEDED, read_device},
    [OPTION_THREADS] = {"--threads", "N", "1 to 1024; default: as many as the process may run on", VALUE_NEEDED,
                        read_threads},
    [OPTION_COMPILER] = {"--compiler", "C", "what compiles kernels: tcc (default), which is built in, or\ncc, which is $CC, gcc or clang; tune takes both, too", VALUE_NEEDED, read_compiler},
    [OPTION_VARIANT] = {"--variant", "NAME", "this kernel, by name, and no other", VALUE_NEEDED, read_text},
    [OPTION_RIGOR] = {"--rigor", "RIGOR", "measure (default): time the candidates, for 30 s at most;\n"
                                            "patient: all, four times as often, for 600 s at most;\n"
                                            "estimate: a model", VALUE_NEEDED, read_rigor},
    [OPTION_TIME_LIMIT] = {"--time-limit", "S", "stop measuring after S seconds, with the best so far", VALUE_NEEDED,
                           read_time_limit},
    [OPTION_JSON] = {"--json", NULL, "print one JSON object", VALUE_NONE, read_flag},
};

/* Promised for later; a command line that names one is told so, not that it does not exist. */
static const char *const not_built[] = {
    "--window",       "--softcap",     "--bias",    "--mask",    "--alibi", "--sinks",      "--cu-seqlens-q",
    "--cu-seqlens-k", "--block-table", "--kv-type", "--dropout", "--seed",  "--block-mask", NULL,
};

/* ---- the parser ---- */

/* The row of `argument`, which starts with `-`, among those the verb takes, and the value that is attached to it. */
static int find(const struct verb *verb, const char *argument, const char **attached)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (!(verb->options & OPTION_BIT(id)))
            continue;
        const char *name = table[id].name;
        size_t size = strlen(name);
        if (strncmp(argument, name, size))
            continue;
        bool is_long = name[1] == '-';
        if (argument[size] && is_long && argument[size] != '=')
            continue;
        *attached = !argument[size] ? NULL : argument + size + is_long;
        return id;
    }
    return -1;
}

static int unknown(const struct verb *verb, const char *argument, struct gen_error *err)
{
    int size = (int)strcspn(argument, "=");
    for (int i = 0; not_built[i]; i++)
        if (!strncmp(argument, not_built[i], (size_t)size) && !not_built[i][size])
            return wrong(err, "%s is not built yet", not_built[i]);
    const char *names[OPTION_COUNT + 1] = {NULL};
    int n = 0;
    bool elsewhere = false;
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (verb->options & OPTION_BIT(id))
            names[n++] = table[id].name;
        else if (!strncmp(argument, table[id].name, (size_t)size) && !table[id].name[size])
            elsewhere = true;
    }
    if (elsewhere)
        return wrong(err, "%s takes no %.*s", verb->name, size, argument);
    char word[64];
    snprintf(word, sizeof word, "%.*s", size, argument);
    const char *near = nearest_word(word, names);
    return wrong(err, "unknown option '%.*s'%s%s", size, argument, near ? "; did you mean " : "", near ? near : "");
}

/* The option at argv[*at], and its value there or in the next word. */
static enum options_result read_option(const struct verb *verb, int argc, char **argv, int *at, struct options *out,
                                       struct gen_error *err)
{
    const char *argument = argv[*at], *value = NULL;
    if (!strcmp(argument, "--help") || !strcmp(argument, "-h"))
        return OPTIONS_HELP;
    int id = find(verb, argument, &value);
    if (id < 0) {
        unknown(verb, argument, err);
        return OPTIONS_WRONG;
    }
    const struct option *o = &table[id];
    if (out->given & OPTION_BIT(id)) {
        wrong(err, "%s is given twice", o->name);
        return OPTIONS_WRONG;
    }
    if (o->kind == VALUE_NONE && value) {
        wrong(err, "%s takes no value", o->name);
        return OPTIONS_WRONG;
    }
    if (o->kind == VALUE_NEEDED && !value) {
        if (*at + 1 >= argc) {
            wrong(err, "%s has no value; expected %s", o->name, o->meta);
            return OPTIONS_WRONG;
        }
        value = argv[++*at];
    }
    out->given |= OPTION_BIT(id);
    return o->read((enum option_id)id, value, out, err) ? OPTIONS_WRONG : OPTIONS_READ;
}

/* What no single option can know: what is missing, and what excludes each other. */
static int check(const struct verb *verb, struct options *out, struct gen_error *err)
{
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((verb->required & OPTION_BIT(id)) && !(out->given & OPTION_BIT(id)))
            return wrong(err, "%s %s is missing", table[id].name, table[id].meta ? table[id].meta : "");
    if (out->given & OPTION_BIT(OPTION_Q_OFFSET)) {
        if (out->align == ATTN_TOP_LEFT)
            return wrong(err, "--q-offset excludes --causal=top-left; expected one of them");
        out->align = ATTN_Q_OFFSET;
    }
    const char *device = out->file[OPTION_DEVICE];
    if (device && strcmp(device, "cpu") && (out->given & OPTION_BIT(OPTION_COMPILER)))
        return wrong(err, "--compiler is for kernels in C; expected none with --device %s", device);
    if (out->every_compiler && !verb->every_compiler)
        return wrong(err, "--compiler both is for tune; expected tcc or cc");
    if (out->operands < verb->min_operands)
        return wrong(err, "%s is missing", verb->operand);
    if (out->operands > verb->max_operands)
        return wrong(err, "'%s' is one word too many", out->operand[verb->max_operands]);
    return 0;
}

enum options_result options_parse(const struct verb *verb, int argc, char **argv, struct options *out,
                                  struct gen_error *err)
{
    *out = (struct options){.rigor = ATTN_MEASURE, .operand = argv + 1};
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (only_operands || argv[i][0] != '-' || !argv[i][1]) {
            argv[1 + out->operands++] = argv[i];
        } else if (!strcmp(argv[i], "--")) {
            only_operands = true;
        } else {
            enum options_result r = read_option(verb, argc, argv, &i, out, err);
            if (r != OPTIONS_READ)
                return r;
        }
    }
    return check(verb, out, err) ? OPTIONS_WRONG : OPTIONS_READ;
}

/* ---- for people ---- */

static void print_option(const char *name, const char *meta, enum value_kind kind, const char *doc)
{
    char head[64];
    const char *gap = kind == VALUE_OPTIONAL ? "[=" : " ";
    snprintf(head, sizeof head, "%s%s%s%s", name, meta ? gap : "", meta ? meta : "", kind == VALUE_OPTIONAL ? "]" : "");
    printf("  %-18s ", head);
    for (const char *c = doc; *c; c++) {
        putchar(*c);
        if (*c == '\n')
            printf("%21s", "");
    }
    putchar('\n');
}

static void print_help(const struct verb *verb)
{
    printf("usage: attngen ");
    for (const char *c = verb->usage; *c; c++) {
        putchar(*c);
        if (*c == '\n')
            printf("       attngen ");
    }
    printf("\n\n%s\n\noptions:\n", verb->text);
    for (int id = 0; id < OPTION_COUNT; id++)
        if (verb->options & OPTION_BIT(id))
            print_option(table[id].name, table[id].meta, table[id].kind, table[id].doc);
    print_option("--help", NULL, VALUE_NONE, "this text");
    printf("\nexample:\n  %s\n\nexit codes: 0 done; 1 %s; 2 the command line is wrong\n", verb->example, verb->exits);
}

int usage_error(const struct verb *verb, const char *format, ...)
{
    fprintf(stderr, "attngen %s: error: ", verb->name);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n`attngen %s --help` tells more\n", verb->name);
    return CLI_USAGE;
}

bool options_begin(const struct verb *verb, int argc, char **argv, struct options *out, int *exit_code)
{
    struct gen_error err = {""};
    switch (options_parse(verb, argc, argv, out, &err)) {
    case OPTIONS_READ: return true;
    case OPTIONS_HELP:
        print_help(verb);
        *exit_code = CLI_OK;
        return false;
    case OPTIONS_WRONG: break;
    }
    *exit_code = usage_error(verb, "%s", err.text);
    return false;
}

/* Insertions, deletions, replacements and swaps of neighbours that make b of a. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[3][LONGEST + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (int j = 0; j <= n; j++)
        row[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *nearest_word(const char *word, const char *const *words)
{
    const char *best = NULL;
    int least = 2 * (2 + (int)strlen(word) / 3); /* farther is no typing error */
    for (; *words; words++) {
        int d = distance(word, *words);
        if (d >= (int)strlen(*words))
            continue;
        d = 2 * d + (word[0] != (*words)[0]); /* of two as near, the one that begins alike */
        if (d < least) {
            least = d;
            best = *words;
        }
    }
    return best;
}
