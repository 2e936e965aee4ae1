/* kernel.c - frees a kernel of any backend. */
#include <string.h>

#include "backend.h"

void kernel_free(struct kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->release)
        kernel->release(kernel);
    memset(kernel, 0, sizeof *kernel);
}
