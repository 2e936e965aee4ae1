/* main.c - the program `attngen`: finds the verb and calls it. With ATTNGEN_EMIT_ONLY it knows only `emit` and needs
 * neither libattn nor libtcc. What it is not: a verb's work, or its options. */
#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "gen/hint.h"
#include "cli.h"
#include "document.h"
#include "emit.h"
#include "options.h"
#include "print.h"

#ifdef ATTNGEN_EMIT_ONLY
int cli_emit(int argc, char **argv)
{
    return emit_main(argc, argv, NULL);
}
#endif

static const struct command {
    const struct verb *verb;
    int (*main)(int argc, char **argv);
} commands[] = {
    {&verb_emit, cli_emit},
#ifndef ATTNGEN_EMIT_ONLY
    {&verb_run, cli_run},
    {&verb_tune, cli_tune},
    {&verb_bench, cli_bench},
    {&verb_verify, cli_verify},
    {&verb_cache, cli_cache},
    {&verb_devices, cli_devices},
    {&verb_explain, cli_explain},
    {&verb_report, cli_report},
    {&verb_selftest, cli_selftest},
#endif
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char about[] = "attngen writes, tunes and runs attention kernels.";

static void print_help(void)
{
    printf("usage: attngen VERB [options]\n\n%s\n\nverbs:\n", about);
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].verb->name, commands[i].verb->doc);
    printf("\n`attngen VERB --help` says more about a verb; `attngen --version` prints the version\n"
           "\nexample:\n  attngen %s --help\n\nexit codes: 0 success; 1 failure; 2 wrong command line\n",
           commands[0].verb->name);
}

static int unknown_verb(const char *word)
{
    static const char *const options[] = {"--help", "--version", NULL};
    const char *names[COMMANDS + 1] = {NULL}, *what = word[0] == '-' ? "option" : "verb";
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].verb->name;
    const char *near = hint_nearest(word, word[0] == '-' ? options : names);
    print_line(stderr, near ? "attngen: error: unknown %s '%s'; did you mean %s?"
                            : "attngen: error: unknown %s '%s'; `attngen --help` lists them", what, word, near);
    return CLI_USAGE;
}

/* `--document man|bash|zsh`, which the installation calls. */
static int document(int words, char **word)
{
    const struct verb *verbs[COMMANDS + 1] = {NULL};
    for (int i = 0; i < COMMANDS; i++)
        verbs[i] = commands[i].verb;
    if (words == 1 && document_print(word[0], verbs, about))
        return CLI_OK;
    if (!words)
        print_line(stderr, "attngen: error: --document needs a word; expected man, bash or zsh");
    else
        print_line(stderr, "attngen: error: --document %s is unknown; expected man, bash or zsh", word[0]);
    return CLI_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_line(stderr, "attngen: error: there is no verb; `attngen --help` lists them");
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help();
        return CLI_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        print_version();
        return CLI_OK;
    }
    if (!strcmp(argv[1], "--document"))
        return document(argc - 2, argv + 2);
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].verb->name))
            return commands[i].main(argc - 1, argv + 1);
    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    int code = dispatch(argc, argv);
    /* A full disk or a closed pipe shows only here; a script must not take half an answer for a whole one. */
    if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK) {
        print_line(stderr, "attngen: error: cannot write to standard output");
        code = CLI_FAILED;
    }
    return code;
}
