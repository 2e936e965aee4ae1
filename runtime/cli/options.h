/* options.h - command lines, for every verb: one table of all options, a parser, and the help text made from it. A verb
 * says which rows of the table it takes. What it is not: opening the files that options name. */
#ifndef ATTNGEN_CLI_OPTIONS_H
#define ATTNGEN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/gen.h"
#include "arrays/arrays.h"
#include "attn.h"

/* One for each row of the table in options.c, in the order in which help prints them; those of arrays are rows of
 * arrays/table.def. */
enum option_id {
    /* files of run; files and choices of emit */
#define ARRAY(id, name, about, option)
#define SHAPED(id, name, about, option) OPTION_##id,
#include "arrays/table.def"
#undef SHAPED
#undef ARRAY
    OPTION_COMPARE,
    OPTION_TOLERANCE,
    OPTION_OUT_DIR,
    OPTION_MACHINE_CODE,
    OPTION_LANGUAGE,
    OPTION_FILTER,
    OPTION_LIST,
    OPTION_WHY_NOT,
    OPTION_PTX,
    OPTION_CUBIN,
    OPTION_BUNDLE,
    OPTION_FROM_CACHE,
    /* attention */
    OPTION_SHAPE,
    OPTION_DTYPE,
    OPTION_CAUSAL,
    OPTION_Q_OFFSET,
    OPTION_WINDOW,
    OPTION_SCALE,
    OPTION_SOFTCAP,
    OPTION_INVARIANT,
#define ARRAY(id, name, about, option) OPTION_##id,
#define SHAPED(id, name, about, option)
#include "arrays/table.def"
#undef SHAPED
#undef ARRAY
    OPTION_LAYOUT,
    /* how and where */
    OPTION_DEVICE,
    OPTION_THREADS,
    OPTION_COMPILER,
    OPTION_VARIANT,
    OPTION_RIGOR,
    OPTION_TIME_LIMIT,
    OPTION_QUIET,
    OPTION_JSON,
    OPTION_COUNT
};
/* The option that names an array's file. */
static inline enum option_id option_of(enum array_id id)
{
    return (enum option_id)(id < ARRAY_KV_LENS ? (int)OPTION_Q + (int)id
                                               : (int)OPTION_KV_LENS + (int)id - (int)ARRAY_KV_LENS);
}
#define OPTION_BIT(id) (UINT64_C(1) << (id))
/* The attention options that tune and bench share with run: those on which kernels depend, and the rest; and where the
 * work is done. */
#define OPTIONS_FEATURE_ARRAYS (OPTION_BIT(OPTION_LAYOUT) - OPTION_BIT(OPTION_BIAS)) /* all between them */
#define OPTIONS_KERNEL                                                                                                 \
    (OPTION_BIT(OPTION_DTYPE) | OPTION_BIT(OPTION_CAUSAL) | OPTION_BIT(OPTION_WINDOW) | OPTION_BIT(OPTION_SOFTCAP) |   \
     OPTION_BIT(OPTION_INVARIANT) |                                                                                    \
     OPTIONS_FEATURE_ARRAYS)
#define OPTIONS_ATTENTION                                                                                              \
    (OPTIONS_KERNEL | OPTION_BIT(OPTION_Q_OFFSET) | OPTION_BIT(OPTION_SCALE) | OPTION_BIT(OPTION_KV_LENS) |            \
     OPTION_BIT(OPTION_LAYOUT))
#define OPTIONS_MACHINE (OPTION_BIT(OPTION_DEVICE) | OPTION_BIT(OPTION_THREADS) | OPTION_BIT(OPTION_COMPILER))

enum layout { LAYOUT_BHSD, LAYOUT_BSHD };

/* --shape B,Hq,Hkv,Sq,Skv,D[,Dv]; each is at least 1, heads a multiple of kv_heads, tensors below 2^40 elements. */
struct shape {
    char text[128]; /* as it was given */
    int64_t batch, heads, kv_heads, q_len, kv_len, head_dim, head_dim_v;
};

enum { DTYPES_Q = 1, DTYPES_KV = 2, DTYPES_O = 4, DTYPES_ONE = 8 };

struct verb;

/* Values, at their defaults if `given` lacks their bit. Strings are pieces of argv. */
struct options {
    const struct verb *verb;        /* whose they are */
    uint64_t given;                 /* OPTION_BIT of each option on the command line */
    const char *file[OPTION_COUNT]; /* of options whose value is plain text: file[OPTION_Q], file[OPTION_VARIANT] */
    struct shape shape;
    enum dtype dtype, dtype_kv, dtype_o; /* of Q, of K and V, of O; those not given are as Q's */
    unsigned dtypes;                     /* which were given; DTYPES_ONE: by one word for Q, K and V */
    bool causal;
    attn_align align; /* ATTN_Q_OFFSET when --q-offset was given */
    int64_t q_offset;
    int64_t window[2];    /* keys before and after; -1: no bound; read if given has OPTION_WINDOW */
    float scale, softcap; /* read if given has OPTION_SCALE, OPTION_SOFTCAP */
    enum layout layout;
    int threads; /* 0: as many as the process may use */
    attn_compiler compiler;
    bool every_compiler; /* --compiler both */
    attn_rigor rigor;    /* ATTN_MEASURE */
    double time_limit;   /* seconds; 0 if not given */
    float tolerance;     /* read if given has OPTION_TOLERANCE; 0 or more */
    bool machine_code, cuda, list, why_not, ptx, cubin, from_cache, quiet, json;
    bool version; /* only that was asked for */
    char *const *operand; /* the words that are not options, in order; points into argv, which is reordered */
    int operands;
};

/* What an option is for one verb, where the table's words are for others. */
struct own_words {
    enum option_id id;
    const char *meta, *doc; /* doc NULL: the end of a list */
};

/* A verb, as the parser and --help need it. */
struct verb {
    const char *name;    /* "run" */
    const char *doc;     /* what it does, in half a line */
    const char *usage;   /* what follows `attngen `; may be several lines */
    const char *text;    /* a sentence or two for --help */
    const char *example; /* whole command lines */
    const char *exits;   /* when it exits with 1, in a few words: "an array is missing or the kernel failed" */
    uint64_t options;    /* OPTION_BIT of each it takes */
    uint64_t required;   /* those of them that are required */
    const struct own_words *own; /* of some of its options; NULL: none */
    bool every_compiler; /* takes --compiler both */
    const char *operand; /* the name of an operand: "SPEC"; NULL: it takes none */
    int min_operands, max_operands;
    const char *const *words; /* what the first operand may be, with NULL after the last; NULL: a file, or a name */
};

const char *option_name(enum option_id id); /* as it is written: "--lse" */

enum options_result { OPTIONS_READ, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_WRONG };
/* Reads argv[1..]. OPTIONS_WRONG: err says why, without a place before it. */
enum options_result options_parse(const struct verb *verb, int argc, char **argv, struct options *out,
                                  struct gen_error *err);

/* The same for a verb's first lines: prints help on stdout or the error on stderr. True: go on; false: return
 * *exit_code. */
bool options_begin(const struct verb *verb, int argc, char **argv, struct options *out, int *exit_code);

/* The first given option on which kernels depend, or NULL. */
const char *options_kernel(const struct options *o);

/* Whether a window with a bound was given. */
bool options_window(const struct options *o);

/* The row of an option, for documents made from the table. */
enum value_kind { VALUE_NONE, VALUE_NEEDED, VALUE_OPTIONAL };
struct option_text {
    const char *name; /* "-o" or "--dtype" */
    const char *meta; /* its value, for people: "FILE"; NULL with VALUE_NONE */
    const char *doc;  /* what it does; here a newline is a blank */
    enum value_kind kind;
};
struct option_text option_text(const struct verb *verb, enum option_id id); /* NULL: of no verb */

/* The version and the hash of the templates, to stdout. */
void print_version(void);

/* Prints `attngen VERB: error: ...` and where help is; returns CLI_USAGE. */
int usage_error(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
