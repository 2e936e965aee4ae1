/* vendored.h - for tests that take emitted kernels into somebody else's tree: which kernels, for which machines they are
 * compiled, and how their objects are looked at, linked with a tiny caller (vendor/caller.c) and run. What it is not: the
 * ways in which they are compiled; each test has its own. */
#ifndef ATTNGEN_TESTS_VENDORED_H
#define ATTNGEN_TESTS_VENDORED_H

#include <stdbool.h>

#include "gen/gen.h"

/* As many at most in one tree. */
enum { VENDORED_MOST = 20 };
struct vendored {
    struct variant variant;
    char name[GEN_NAME_MAX];
    bool runs; /* the caller knows its types, and its features, which are none */
};

/* A machine, by the words that bring it about. */
struct vendored_machine {
    const char *name;
    const char *tools;     /* what names of gcc and nm begin with */
    const char *gcc_flags; /* for it */
    const char *clang_flags;
    const char *run;       /* in front of a program; "": it runs here */
    bool x86;              /* so that an instruction set may be missing */
    const char *family;    /* of instruction sets that have vectors there; "": none */
    bool may_not_run;      /* programs for it may be compiled where none can be run */
};
extern const struct vendored_machine vendored_machines[];
enum { VENDORED_HERE, VENDORED_I386, VENDORED_AARCH64, VENDORED_S390X, VENDORED_WINDOWS, VENDORED_MACHINES };

/* Whether kernels of that instruction set are vectors on that machine, which can run them. */
bool vendored_has_vectors(const struct vendored_machine *m, enum isa isa);

/* Together they have every type, every instruction set, both masks, an odd head dim, a head dim of V's own, split keys and
 * all features. They are emitted into kernels/, and all are included by kernels/unit.c. With --machine-code those are left
 * out that have none. Returns how many there are. */
int vendored_emit(const char *options, struct vendored out[VENDORED_MOST]);

/* Whether a program that this command compiles can be run there; or, of a machine where none may be, be compiled. */
bool vendored_is_here(const struct vendored_machine *m, const char *command);
bool vendored_can_run(const struct vendored_machine *m);

/* Fails unless objects define the kernels, their workspace functions and what asks for tiles, no other name, and need nothing
 * that a libc does not give every C program. */
void vendored_check_names(const struct vendored_machine *m, const char *objects, const struct vendored *all, int n);

/* Makes ./NAME.o, the caller of those kernels among them that this processor has the instructions for. plain: they are
 * compiled to none that it might lack. */
void vendored_caller(const struct vendored_machine *m, const char *name, const struct vendored *all, int n, bool plain);

/* Links it with their objects, and runs it. way: how they were compiled, for messages. */
void vendored_call(const struct vendored_machine *m, const char *caller, const char *objects, const char *way);

#endif
