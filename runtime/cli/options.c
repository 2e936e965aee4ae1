/* options.c - see options.h. A new option is one row of `table`, its id and, for a value of a new kind, a reader. */
#include "devices/list.h"
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gen/hint.h"
#include "cli.h"
#include "options_read.h"
#include "print.h"

/* ---- the table ---- */

static const struct option table[OPTION_COUNT] = {
#define OPTION(name, meta, doc) name, meta, doc, VALUE_NEEDED, read_text
#define ARRAY(id, name, about, option) [OPTION_##id] = {OPTION_##id, option},
#define SHAPED ARRAY
#include "arrays/table.def"
#undef SHAPED
#undef ARRAY
    [OPTION_COMPARE] = {OPTION_COMPARE, "--compare", "REF.npy",
                        "print how far the output is from this array, of O's shape", VALUE_NEEDED, read_text},
    [OPTION_TOLERANCE] = {OPTION_TOLERANCE, "--tolerance", "X",
                          "with --compare: exit with 1 if the largest difference exceeds\nX; the output is written all the same",
                          VALUE_NEEDED, read_tolerance},
    [OPTION_OUT_DIR] = {OPTION_OUT_DIR, "-o", "DIR",
                        "the directory for the kernels and manifest.json, created if it\ndoes not exist",
                        VALUE_NEEDED, read_text},
    [OPTION_MACHINE_CODE] = {OPTION_MACHINE_CODE, "--machine-code", NULL,
                             "add machine code to kernels in C: the form that libtcc\ncompiles", VALUE_NONE, read_flag},
    [OPTION_LANGUAGE] = {OPTION_LANGUAGE, "--language", "LANGUAGE",
                         "cuda: kernels for devices are written in CUDA C++; their\n"
                         "names stay the same, and their files end in .cu; opencl:\n"
                         "in OpenCL C, as without this option",
                         VALUE_NEEDED, read_language},
    [OPTION_FILTER] = {OPTION_FILTER, "--filter", "GLOB", "only kernels whose name matches the pattern", VALUE_NEEDED,
                       read_text},
    [OPTION_LIST] = {OPTION_LIST, "--list", NULL, "print the names of the kernels, and write nothing", VALUE_NONE,
                     read_flag},
    [OPTION_WHY_NOT] = {OPTION_WHY_NOT, "--why-not", NULL,
                        "print each rejected combination and the rule that rejects it", VALUE_NONE, read_flag},
    [OPTION_PTX] = {OPTION_PTX, "--ptx", NULL,
                    "write beside each OpenCL kernel the PTX that NVIDIA's driver\n"
                    "makes of it for the device of --device, as NAME.ptx; with\n"
                    "--language cuda the PTX that NVRTC makes, for which no card is\nneeded",
                    VALUE_NONE, read_flag},
    [OPTION_CUBIN] = {OPTION_CUBIN, "--cubin", NULL,
                      "with --language cuda: write beside each kernel what NVRTC makes\n"
                      "of it for the lowest compute capability that its isa needs, as\nNAME.cubin; no card is needed",
                      VALUE_NONE, read_flag},
    [OPTION_BUNDLE] = {OPTION_BUNDLE, "--bundle", "NAME",
                       "write, instead of single kernels, sources that another project\n"
                       "can build: NAME.h, NAME.c, CMakeLists.txt, and NAME.cdx.json,\n"
                       "which lists the kernels with their hashes and licence",
                       VALUE_NEEDED, read_text},
    [OPTION_FROM_CACHE] = {OPTION_FROM_CACHE, "--from-cache", NULL,
                           "with --bundle: the winner of each problem in the cache, and\n"
                           "a kernel in plain C for each of them",
                           VALUE_NONE, read_flag},
    [OPTION_SHAPE] = {OPTION_SHAPE, "--shape", "SHAPE",
                      "B,Hq,Hkv,Sq,Skv,D[,Dv]: batch, query heads, key heads,\n"
                      "queries, keys, head dim of Q and K, of V and O",
                      VALUE_NEEDED, read_shape},
    [OPTION_DTYPE] = {OPTION_DTYPE, "--dtype", "TYPE",
                      "f32, f16 or bf16, or q=, kv= and o= with one each, as in\n"
                      "q=f32,kv=f16 (then o is as q); default: f32, or the types of\nthe arrays",
                      VALUE_NEEDED, read_dtype},
    [OPTION_CAUSAL] = {OPTION_CAUSAL, "--causal", "ALIGN",
                       "query i sees keys up to i + offset; the offset is Skv - Sq\n"
                       "with bottom-right (the default), and 0 with top-left",
                       VALUE_OPTIONAL, read_causal},
    [OPTION_Q_OFFSET] = {OPTION_Q_OFFSET, "--q-offset", "N",
                         "the position of query 0, which replaces an alignment; --causal,\n"
                         "--window and --alibi count from it",
                         VALUE_NEEDED, read_q_offset},
    [OPTION_WINDOW] = {OPTION_WINDOW, "--window", "L,R",
                       "query i sees keys from i + offset - L to i + offset + R;\n"
                       "-1 means no bound; with --causal, none after i + offset",
                       VALUE_NEEDED, read_window},
    [OPTION_SCALE] = {OPTION_SCALE, "--scale", "X", "scores are X * q.k; default: 1/sqrt(D)", VALUE_NEEDED, read_scale},
    [OPTION_SOFTCAP] = {OPTION_SOFTCAP, "--softcap", "C", "a score s becomes C tanh(s / C), after --scale",
                        VALUE_NEEDED, read_softcap},
    [OPTION_INVARIANT] = {OPTION_INVARIANT, "--invariant", NULL,
                          "a row's bits do not depend on what else is in the problem,\nnor on tuning", VALUE_NONE, read_flag},
    [OPTION_LAYOUT] = {OPTION_LAYOUT, "--layout", "LAYOUT",
                       "the order of the sides of Q, K, V and O: bhsd (default) or bshd,\n"
                       "as [B, Hq, Sq, D] or [B, Sq, Hq, D]",
                       VALUE_NEEDED, read_layout},
    [OPTION_DEVICE] = {OPTION_DEVICE, "--device", "D",
                       DEVICE_NAMES ";\n`attngen devices` lists them. Default: cpu", VALUE_NEEDED,
                       read_device},
    [OPTION_THREADS] = {OPTION_THREADS, "--threads", "N", "1 to 1024; default: as many as the process may use",
                        VALUE_NEEDED, read_threads},
    [OPTION_COMPILER] =
        {OPTION_COMPILER, "--compiler", "C",
         "what compiles kernels in C: tcc (default), which is built in, or\ncc, the gcc or clang that $CC names; "
         "tune also takes both",
         VALUE_NEEDED, read_compiler},
    [OPTION_VARIANT] = {OPTION_VARIANT, "--variant", "NAME", "use the kernel of this name and no other", VALUE_NEEDED,
                        read_text},
    [OPTION_RIGOR] = {OPTION_RIGOR, "--rigor", "RIGOR",
                      "measure (default): time promising candidates for up to 30 s;\n"
                      "patient: time all, four times as often, for up to 600 s;\n"
                      "estimate: let a model choose",
                      VALUE_NEEDED, read_rigor},
    [OPTION_TIME_LIMIT] = {OPTION_TIME_LIMIT, "--time-limit", "S",
                           "measure for up to S seconds", VALUE_NEEDED, read_time_limit},
    [OPTION_QUIET] = {OPTION_QUIET, "--quiet", NULL, "print nothing but warnings and errors", VALUE_NONE, read_flag},
    [OPTION_JSON] = {OPTION_JSON, "--json", NULL, "print one JSON object", VALUE_NONE, read_flag},
};

/* Planned for later; a command line that names one is told so, not that it does not exist. */
static const char *const not_built[] = {"--kv-type", "--dropout", "--seed", "--block-mask", NULL};

/* ---- the parser ---- */

/* The row of `argument`, which starts with `-`, among those that the verb takes, and the value attached to it. */
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
            return option_wrong(err, "%s is not implemented yet", not_built[i]);
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
        return option_wrong(err, "%s has no option %.*s", verb->name, size, argument);
    char word[64];
    snprintf(word, sizeof word, "%.*s", size, argument);
    const char *near = hint_nearest(word, names);
    return option_wrong(err, "unknown option '%.*s'%s%s%s", size, argument, near ? "; did you mean " : "",
                        near ? near : "", near ? "?" : "");
}

/* The option at argv[*at], and its value there or in the next word. */
static enum options_result read_option(const struct verb *verb, int argc, char **argv, int *at, struct options *out,
                                       struct gen_error *err)
{
    const char *argument = argv[*at], *value = NULL;
    if (!strcmp(argument, "--help") || !strcmp(argument, "-h"))
        return OPTIONS_HELP;
    if (!strcmp(argument, "--version")) {
        out->version = true;
        return OPTIONS_VERSION;
    }
    int id = find(verb, argument, &value);
    if (id < 0) {
        unknown(verb, argument, err);
        return OPTIONS_WRONG;
    }
    const struct option *o = &table[id];
    if (out->given & OPTION_BIT(id)) {
        option_wrong(err, "%s is given twice", o->name);
        return OPTIONS_WRONG;
    }
    if (o->kind == VALUE_NONE && value) {
        option_wrong(err, "%s takes no value", o->name);
        return OPTIONS_WRONG;
    }
    if (o->kind == VALUE_NEEDED && !value) {
        if (*at + 1 >= argc) {
            option_wrong(err, "%s has no value; expected %s", o->name, option_text(verb, o->id).meta);
            return OPTIONS_WRONG;
        }
        value = argv[++*at];
    }
    if (o->read == read_text && !*value) {
        option_wrong(err, "%s has an empty value; expected %s", o->name, option_text(verb, o->id).meta);
        return OPTIONS_WRONG;
    }
    out->given |= OPTION_BIT(id);
    return o->read(o, value, out, err) ? OPTIONS_WRONG : OPTIONS_READ;
}

/* The keys of a sequence may be given in one place only. */
static int check_keys(const struct options *o, struct gen_error *err)
{
    bool packed = o->given & OPTION_BIT(OPTION_KV_STARTS);
    if (packed && (o->given & OPTION_BIT(OPTION_KV_LENS)))
        return option_wrong(err, "--kv-lens excludes --cu-seqlens-k, which has lengths; expected one of them");
    if (packed && (o->given & OPTION_BIT(OPTION_BLOCK_TABLE)))
        return option_wrong(err,
                            "--block-table excludes --cu-seqlens-k; expected one of them, and --kv-lens with pages");
    return 0;
}

const char *option_name(enum option_id id)
{
    return table[id].name;
}

/* What no single option can know: what is missing, and which options exclude each other. */
static int check(const struct verb *verb, struct options *out, struct gen_error *err)
{
    for (int id = 0; id < OPTION_COUNT; id++)
        if ((verb->required & OPTION_BIT(id)) && !(out->given & OPTION_BIT(id)))
            return option_wrong(err, "%s %s is missing", table[id].name, option_text(verb, id).meta);
    if (out->given & OPTION_BIT(OPTION_Q_OFFSET)) {
        if (out->align == ATTN_TOP_LEFT)
            return option_wrong(err, "--q-offset excludes --causal=top-left; expected one of them");
        out->align = ATTN_Q_OFFSET;
    }
    if (check_keys(out, err))
        return -1;
    if (out->quiet && out->json)
        return option_wrong(err, "--quiet excludes --json; expected one of them");
    if ((out->given & OPTION_BIT(OPTION_TOLERANCE)) && !(out->given & OPTION_BIT(OPTION_COMPARE)))
        return option_wrong(err, "--tolerance is for --compare; expected both or neither");
    const char *device = out->file[OPTION_DEVICE];
    if (device && !device_compiles_c(device) && (out->given & OPTION_BIT(OPTION_COMPILER)))
        return option_wrong(err, "--compiler is for kernels in C; expected none with --device %s", device);
    for (int i = 0; i < out->operands; i++)
        if (!*out->operand[i]) /* as of a variable that is not set; a folder of that name would be the root */
            return option_wrong(err, "word %d is empty; expected %s", i + 1, verb->operand ? verb->operand : "none");
    if (out->operands < verb->min_operands)
        return option_wrong(err, "%s is missing", verb->operand);
    if (out->operands > verb->max_operands)
        return option_wrong(err, "'%s' is one word too many", out->operand[verb->max_operands]);
    return 0;
}

enum options_result options_parse(const struct verb *verb, int argc, char **argv, struct options *out,
                                  struct gen_error *err)
{
    *out = (struct options){.verb = verb, .rigor = ATTN_MEASURE, .operand = argv + 1};
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

const char *options_kernel(const struct options *o)
{
    for (int id = 0; id < OPTION_COUNT; id++)
        if (o->given & OPTIONS_KERNEL & OPTION_BIT(id))
            return table[id].name;
    return NULL;
}

bool options_window(const struct options *o)
{
    return (o->given & OPTION_BIT(OPTION_WINDOW)) && (o->window[0] >= 0 || o->window[1] >= 0);
}

/* ---- for people ---- */

struct option_text option_text(const struct verb *verb, enum option_id id)
{
    const struct option *o = &table[id];
    struct option_text text = {.name = o->name, .meta = o->meta, .doc = o->doc, .kind = o->kind};
    for (const struct own_words *w = verb ? verb->own : NULL; w && w->doc; w++)
        if (w->id == id) {
            text.meta = w->meta;
            text.doc = w->doc;
        }
    return text;
}

static void print_option(struct option_text o)
{
    const char *name = o.name, *meta = o.meta, *doc = o.doc;
    const enum value_kind kind = o.kind;
    char head[64];
    const char *gap = kind == VALUE_OPTIONAL ? "[=" : " ";
    snprintf(head, sizeof head, "%s%s%s%s", name, meta ? gap : "", meta ? meta : "", kind == VALUE_OPTIONAL ? "]" : "");
    printf("  %-22s ", head);
    for (const char *c = doc; *c; c++) {
        putchar(*c);
        if (*c == '\n')
            printf("%25s", "");
    }
    putchar('\n');
}

void print_version(void)
{
    printf("attngen %d.%d, templates %016llx\n", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, (unsigned long long)gen_hash());
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
            print_option(option_text(verb, (enum option_id)id));
    print_option((struct option_text){.name = "--help", .doc = "this text"});
    print_option((struct option_text){.name = "--version", .doc = "the version, and the hash of the templates"});
    printf("\nexample:\n  %s\n\nexit codes: 0 success; 1 %s; 2 wrong command line\n", verb->example, verb->exits);
}

int usage_error(const struct verb *verb, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_line(stderr, "attngen %s: error: %s", verb->name, text);
    print_line(stderr, "`attngen %s --help` says more", verb->name);
    return CLI_USAGE;
}

bool options_begin(const struct verb *verb, int argc, char **argv, struct options *out, int *exit_code)
{
    struct gen_error err = {0};
    switch (options_parse(verb, argc, argv, out, &err)) {
    case OPTIONS_READ:
        if (out->quiet && !freopen("/dev/null", "w", stdout)) {
            print_line(stderr, "attngen %s: error: /dev/null cannot be opened; expected it for --quiet", verb->name);
            *exit_code = CLI_FAILED;
            return false;
        }
        return true;
    case OPTIONS_HELP:
        print_help(verb);
        *exit_code = CLI_OK;
        return false;
    case OPTIONS_VERSION:
        print_version();
        *exit_code = CLI_OK;
        return false;
    case OPTIONS_WRONG: break;
    }
    *exit_code = usage_error(verb, "%s", err.text);
    return false;
}
