/* cli.h - the verbs of the program `attngen`, and the exit codes that all of them share. One file for each verb; main.c
 * has their table, and options.h what their command lines have in common. What it is not: computing; see ../attn.h. */
#ifndef ATTNGEN_CLI_CLI_H
#define ATTNGEN_CLI_CLI_H

struct verb;

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_SIGNALLED = 128 /* plus the signal, as in shells: 130 is SIGINT, which Ctrl-C sends, and 143 SIGTERM */
};

/* argv[0] is the verb's own name. Each prints its own errors and returns an exit code; none calls exit(). */
int cli_emit(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_cache(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_selftest(int argc, char **argv);

/* What each is called and takes: options.h. */
extern const struct verb verb_emit, verb_run, verb_tune, verb_bench, verb_verify, verb_cache, verb_devices,
    verb_explain, verb_report, verb_selftest;

#endif
