/* main.c - the program `attngen`: finds the verb and calls it. With ATTNGEN_EMIT_ONLY it knows `emit` alone and needs
 * neither libattn nor libtcc. What it is not: any verb's work, nor its options. */
#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "gen/hint.h"
#include "cli.h"
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
    const char *name;
    int (*main)(int argc, char **argv);
    const char *doc;
} commands[] = {
    {"emit", cli_emit, "write the kernels of a spec, as C files that compile alone"},
#ifndef ATTNGEN_EMIT_ONLY
    {"run", cli_run, "attention over arrays in .npy files"},
    {"tune", cli_tune, "check and time candidates, remember the fastest"},
    {"bench", cli_bench, "time one shape"},
    {"verify", cli_verify, "check emitted kernels against the reference"},
    {"cache", cli_cache, "show, move or clear what tuning remembers"},
    {"devices", cli_devices, "what there is to run on"},
#endif
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void)
{
    printf("usage: attngen VERB [options]\n\nattngen writes attention kernels, tunes and runs them.\n\nverbs:\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].doc);
    printf("\n`attngen VERB --help` tells more; `attngen --version` prints the version\n"
           "\nexample:\n  attngen %s --help\n\nexit codes: 0 done; 1 failed; 2 the command line is wrong\n",
           commands[0].name);
}

static int unknown_verb(const char *word)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = hint_nearest(word, names);
    print_line(stderr, near ? "attngen: error: unknown verb '%s'; did you mean %s?"
                            : "attngen: error: unknown verb '%s'; `attngen --help` lists them", word, near);
    return CLI_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_line(stderr, "attngen: error: no verb; `attngen --help` lists them");
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help();
        return CLI_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("attngen %d.%d\n", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR);
        return CLI_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
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
