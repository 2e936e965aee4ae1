/* driver.c - see driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t at; /* in the struct of pointers */
};

#define CUDA_SYMBOL(name, symbol, parameters) {#symbol, offsetof(struct cuda_api, name)},
#define NVRTC_SYMBOL(name, symbol, parameters) {#symbol, offsetof(struct nvrtc_api, name)},
static const struct symbol cuda_symbols[] = {CUDA_FUNCTIONS(CUDA_SYMBOL)};
static const struct symbol nvrtc_symbols[] = {NVRTC_FUNCTIONS(NVRTC_SYMBOL)};

static int find_all(void *library, const char *name, const struct symbol *symbol, size_t count, void *api,
                    struct gen_error *err)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, symbol[i].name);
        memcpy((char *)api + symbol[i].at, &found, sizeof found);
        if (found)
            continue;
        snprintf(err->text, sizeof err->text, "%s has no %s; expected one of CUDA 12 or later", name, symbol[i].name);
        return -1;
    }
    return 0;
}

int cuda_load(struct cuda_api *api, void **library, struct gen_error *err)
{
    static const char name[] = "libcuda.so.1";
    *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        snprintf(err->text, sizeof err->text, "there is no %s; expected NVIDIA's driver", name);
        return -1;
    }
    if (find_all(*library, name, cuda_symbols, sizeof cuda_symbols / sizeof *cuda_symbols, api, err) == 0)
        return 0;
    dlclose(*library);
    *library = NULL;
    return -1;
}

/* If the host has already opened one, by whatever path, it also has one of these names. */
int nvrtc_load(struct nvrtc_api *api, void **library, struct gen_error *err)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (*library &&
            find_all(*library, names[i], nvrtc_symbols, sizeof nvrtc_symbols / sizeof *nvrtc_symbols, api, err) == 0)
            return 0;
        if (*library)
            dlclose(*library);
    }
    *library = NULL;
    snprintf(err->text, sizeof err->text,
             "there is no libnvrtc.so.13 or libnvrtc.so.12 on the loader's path; expected CUDA's compiler, as "
             "PyPI's nvidia-cuda-nvrtc has it");
    return -1;
}

int cuda_failed(const struct cuda_api *api, CUresult code, const char *what, struct gen_error *err)
{
    const char *name = NULL;
    if (code == CUDA_SUCCESS)
        return 0;
    if (api->cuGetErrorName(code, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    snprintf(err->text, sizeof err->text, "%s: %s (%d)", what, name, code);
    err->no_memory |= code == CUDA_ERROR_OUT_OF_MEMORY;
    return -1;
}
