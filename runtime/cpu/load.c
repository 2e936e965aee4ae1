/* load.c - see load.h. The bytes go into a file without a name, which no other user can reach, and the loader gets it
 * through its descriptor. */
#define _GNU_SOURCE
#include "load.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execute.h"
#include "system/files.h"

/* From newer kernels; some refuse a memory file unless its maker says whether it is a program. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int wrong(struct gen_error *err, const char *name, const char *what, const char *why)
{
    snprintf(err->text, sizeof err->text, "%s.c: error: %s: %s", name, what, why);
    return -1;
}

/* If the system has no memory files, or does not execute them: a file in TMPDIR whose name is removed before anything
 * is written to it. */
static int unnamed_file(void)
{
    char path[FOLDER_ROOM];
    if (snprintf(path, sizeof path, "%s/attngen-object-XXXXXX", temporary_base()) >= (int)sizeof path)
        return -1;
    int fd = mkostemp(path, O_CLOEXEC); /* mode 0600, and it did not exist */
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int memory_file(void)
{
    int fd = memfd_create("attn kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create("attn kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

/* The loader takes a library whose name it knows for the one that it has, and descriptor numbers are used again. So the
 * path to the descriptor encodes the file's own number in bits, which another file can have only after this one is
 * gone. */
static int spell(int fd, char out[FOLDER_ROOM])
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return -1;
    const unsigned long long numbers[] = {s.st_dev, s.st_ino};
    size_t used = (size_t)snprintf(out, FOLDER_ROOM, "/proc/self/fd/");
    for (int i = 0; i < 2; i++)
        for (int bit = 63; bit >= 0; bit--)
            used += (size_t)snprintf(out + used, FOLDER_ROOM - used, numbers[i] >> bit & 1 ? "./" : "/");
    snprintf(out + used, FOLDER_ROOM - used, "%d", fd);
    return 0;
}

static void release(struct kernel *kernel)
{
    dlclose(kernel->owner);
}

static int find_exports(void *library, const char *name, struct kernel *out, struct gen_error *err)
{
    char workspace[GEN_NAME_MAX + 16];
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    void *run = dlsym(library, name), *size = dlsym(library, workspace);
    if (!run || !size) {
        snprintf(err->text, sizeof err->text, "%s.c: error: no function %s; expected %s and %s_workspace", name,
                 run ? workspace : name, name, name);
        return -1;
    }
    memcpy(&out->run, &run, sizeof run); /* ISO C does not convert an object pointer to a function pointer */
    memcpy(&out->workspace, &size, sizeof size);
    return 0;
}

/* NULL, and err says why. Closes the descriptor. */
static void *load_from(int fd, const void *object, size_t size, const char *name, struct gen_error *err)
{
    char path[FOLDER_ROOM];
    void *library = NULL;
    if (fd < 0 || file_write(fd, object, size) != 0 || spell(fd, path) != 0) {
        if (errno == ENOMEM)
            gen_out_of_memory(err, name);
        else
            wrong(err, name, "the compiled kernel cannot be held in a file", strerror(errno));
    } else {
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE); /* of memory files */
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *why = library ? NULL : dlerror();
        if (!library)
            wrong(err, name, "the compiled kernel cannot be loaded", why ? why : "expected /proc");
    }
    if (fd >= 0)
        close(fd);
    return library;
}

int load_object(const void *object, size_t size, const char *name, struct kernel *out, struct gen_error *err)
{
    void *library = load_from(memory_file(), object, size, name, err);
    if (!library) /* some systems execute only what lies on a disk */
        library = load_from(unnamed_file(), object, size, name, err);
    if (!library)
        return -1;
    if (find_exports(library, name, out, err) != 0) {
        dlclose(library);
        return -1;
    }
    out->owner = library;
    out->release = release;
    out->functions = &cpu_kernel_functions;
    return 0;
}
