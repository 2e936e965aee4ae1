/* clang.c - see clang.h. */
#include "clang.h"

#include <stddef.h>

#include "child.h"

int run_clang(const char *const arguments[], const char *log)
{
    /* clang 14 hides vload_half without cl_khr_fp16, which OpenCL C 1.2 has without; nothing else here needs that. */
    static const char *const always[] = {"clang",   "-x",
                                         "cl",      "-cl-std=CL1.2",
                                         "-target", "nvptx64",
                                         "-Xclang", "-finclude-default-header",
                                         "-Xclang", "-cl-ext=+cl_khr_fp16"};
    enum { ALWAYS = sizeof always / sizeof *always, MOST = 31 };
    const char *all[ALWAYS + MOST + 1] = {NULL};
    for (int i = 0; i < ALWAYS; i++)
        all[i] = always[i];
    for (int i = 0; arguments[i]; i++) {
        if (i == MOST)
            return -1;
        all[ALWAYS + i] = arguments[i];
    }
    return run_program(all, log);
}
