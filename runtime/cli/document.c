/* document.c - see document.h. */
#include "document.h"

#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "options.h"

/* ---- the manual page, for man(7) ---- */

/* Text whose lines cannot be taken for requests, and whose hyphens may be copied into a shell. */
static void roff(const char *text, size_t size)
{
    bool first = true;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (first && (c == '.' || c == '\''))
            printf("\\&");
        first = c == '\n';
        if (c == '\\')
            printf("\\e");
        else if (c == '-')
            printf("\\-");
        else
            putchar(c);
    }
}

static void roff_text(const char *text)
{
    roff(text, strlen(text));
}

/* Lines as they are, each after a word. */
static void roff_lines(const char *before, const char *text)
{
    printf(".nf\n");
    while (*text) {
        size_t size = strcspn(text, "\n");
        size_t blanks = strspn(text, " ");
        roff_text(before);
        roff(text + blanks, size - blanks);
        putchar('\n');
        text += size + (text[size] == '\n');
    }
    printf(".fi\n");
}

static void man_option(const struct option_text *o)
{
    printf(".TP\n\\fB");
    roff_text(o->name);
    printf("\\fR");
    if (o->meta) {
        printf(o->kind == VALUE_OPTIONAL ? "[=\\fI" : " \\fI");
        roff_text(o->meta);
        printf("\\fR%s", o->kind == VALUE_OPTIONAL ? "]" : "");
    }
    putchar('\n');
    roff_text(o->doc);
    putchar('\n');
}

static void man_verb(const struct verb *v)
{
    printf(".SS \"attngen %s\"\n", v->name);
    roff_lines("attngen ", v->usage);
    printf(".PP\n");
    roff_text(v->text);
    putchar('\n');
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        if (!(v->options & OPTION_BIT(id)))
            continue;
        struct option_text o = option_text(v, id);
        man_option(&o);
    }
    printf(".PP\nExit code 1 means: ");
    roff_text(v->exits);
    printf(".\n.PP\nExample:\n.RS\n");
    roff_lines("", v->example);
    printf(".RE\n");
}

static void man(const struct verb *const *verbs, const char *about)
{
    printf(".TH ATTNGEN 1 \"\" \"attngen %d.%d\" \"User Commands\"\n", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR);
    printf(".SH NAME\nattngen \\- write, tune and run attention kernels\n.SH SYNOPSIS\n\\fBattngen\\fR \\fIVERB\\fR "
           "[\\fIoptions\\fR]\n.SH DESCRIPTION\n");
    roff_text(about);
    printf("\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        printf(".TP\n\\fB%s\\fR\n", (*v)->name);
        roff_text((*v)->doc);
        putchar('\n');
    }
    printf(".SH VERBS\n");
    for (const struct verb *const *v = verbs; *v; v++)
        man_verb(*v);
    printf(".SH EXIT STATUS\n0: success. 1: failure. 2: wrong command line. 128 plus the number of a signal: that\n"
           "signal ended it, as 130 by Ctrl-C.\n"
           ".SH ENVIRONMENT\n"
           ".TP\n.B ATTNGEN_CACHE\nThe directory where tuning stores its results; if it is not set, "
           "$XDG_CACHE_HOME/attngen, or\n"
           "~/.cache/attngen.\n"
           ".TP\n.B ATTNGEN_ISA\nThe only instruction sets that kernels may use, as a list such as c,avx2.\n"
           ".TP\n.B CC\nThe C compiler, gcc or clang, of \\fB\\-\\-compiler cc\\fR.\n");
}

/* ---- completions ---- */

/* The languages that devices compile, separated by blanks. */
static const char *device_languages(void)
{
    static char words[64];
    words[0] = 0;
    for (int i = LANGUAGE_C + 1; i < LANGUAGE_COUNT; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", words[0] ? " " : "", language_names[i]);
    return words;
}

/* The words that complete the value of an option, as shells take them; NULL: a file. */
static const char *value_words(enum option_id id)
{
    switch (id) {
    case OPTION_CAUSAL: return "bottom-right top-left";
    case OPTION_LAYOUT: return "bhsd bshd";
    case OPTION_COMPILER: return "tcc cc both";
    case OPTION_RIGOR: return "estimate measure patient";
    case OPTION_DTYPE: return "f32 f16 bf16";
    case OPTION_LANGUAGE: return device_languages();
    default: return NULL;
    }
}

/* Options whose value is neither a file nor one of a few words. */
static bool is_free(enum option_id id)
{
    switch (id) {
    case OPTION_FILTER:
    case OPTION_BUNDLE:
    case OPTION_SHAPE:
    case OPTION_Q_OFFSET:
    case OPTION_WINDOW:
    case OPTION_SCALE:
    case OPTION_SOFTCAP:
    case OPTION_DEVICE:
    case OPTION_THREADS:
    case OPTION_VARIANT:
    case OPTION_TIME_LIMIT:
    case OPTION_TOLERANCE: return true;
    default: return false;
    }
}

static void print_verbs(const struct verb *const *verbs)
{
    for (const struct verb *const *v = verbs; *v; v++)
        printf("%s%s", v == verbs ? "" : " ", (*v)->name);
}

/* What the first operand of a verb may be, with a space between two; nothing where it is a file or a name. */
static void print_words(const struct verb *verb)
{
    for (const char *const *word = verb->words; word && *word; word++)
        printf("%s%s", word == verb->words ? "" : " ", *word);
}

static void bash(const struct verb *const *verbs)
{
    printf("# Completion of attngen for bash, made from its table of options.\n"
           "_attngen()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]} options=\n"
           "    if [[ $COMP_CWORD == 1 ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '");
    print_verbs(verbs);
    printf(" --help --version' -- \"$word\")\n        return\n    fi\n    case $last in\n");
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        struct option_text o = option_text(NULL, id);
        const char *words = o.kind == VALUE_NEEDED ? value_words(id) : NULL;
        if (words)
            printf("    %s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\"); return ;;\n", o.name, words);
        else if (o.kind == VALUE_NEEDED && is_free(id))
            printf("    %s) COMPREPLY=(); return ;;\n", o.name);
        else if (o.kind == VALUE_NEEDED)
            printf("    %s) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n", o.name);
    }
    printf("    esac\n    case ${COMP_WORDS[1]} in\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        printf("    %s) options='--help --version", (*v)->name);
        for (enum option_id id = 0; id < OPTION_COUNT; id++)
            if ((*v)->options & OPTION_BIT(id))
                printf(" %s", option_text(*v, id).name);
        printf("'");
        if ((*v)->words) {
            printf("\n        if [[ $COMP_CWORD == 2 && $word != -* ]]; then mapfile -t COMPREPLY < <(compgen -W '");
            print_words(*v);
            printf("' -- \"$word\"); return; fi");
        }
        printf(" ;;\n");
    }
    printf("    esac\n    if [[ $word == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
           "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n    fi\n}\n"
           "complete -o filenames -F _attngen attngen\n");
}

/* A description in zsh's brackets and quotes: its first sentence, without characters that would end them. */
static void zsh_text(const char *text)
{
    for (; *text && *text != ';' && !(*text == '\n' && text[1] == '\n'); text++) {
        if (*text == '\'')
            printf("'\\''");
        else if (*text == '[' || *text == ']' || *text == ':')
            printf("\\%c", *text);
        else
            putchar(*text == '\n' ? ' ' : *text);
    }
}

static void zsh_option(const struct verb *verb, enum option_id id)
{
    struct option_text o = option_text(verb, id);
    const char *words = value_words(id);
    printf(" \\\n            '%s%s[", o.name, o.kind == VALUE_OPTIONAL ? "=-" : "");
    zsh_text(o.doc);
    printf("]");
    if (o.kind != VALUE_NONE) {
        printf("%s", o.kind == VALUE_OPTIONAL ? "::" : ":");
        zsh_text(o.meta);
        if (words)
            printf(":(%s)", words);
        else
            printf("%s", is_free(id) ? ": " : ":_files");
    }
    printf("'");
}

static void zsh(const struct verb *const *verbs)
{
    printf("#compdef attngen\n# Completion of attngen for zsh, made from its table of options.\n"
           "_attngen() {\n    local -a verbs\n    verbs=(\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        printf("        '%s:", (*v)->name);
        zsh_text((*v)->doc);
        printf("'\n");
    }
    printf("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n    fi\n"
           "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $verb in\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        printf("    %s)\n        _arguments '--help[this text]' '--version[the version]'", (*v)->name);
        for (enum option_id id = 0; id < OPTION_COUNT; id++)
            if ((*v)->options & OPTION_BIT(id))
                zsh_option(*v, id);
        if ((*v)->words) {
            printf(" '1:word:(");
            print_words(*v);
            printf(")'");
        }
        printf(" '*:file:_files'\n        ;;\n");
    }
    printf("    esac\n}\n_attngen \"$@\"\n");
}

bool document_print(const char *name, const struct verb *const *verbs, const char *about)
{
    if (!strcmp(name, "man"))
        man(verbs, about);
    else if (!strcmp(name, "bash"))
        bash(verbs);
    else if (!strcmp(name, "zsh"))
        zsh(verbs);
    else
        return false;
    return true;
}
