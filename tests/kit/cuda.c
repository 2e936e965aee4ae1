/* cuda.c - see cuda.h. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cuda_compiler(struct nvrtc_api *out, struct gen_error *why)
{
    void *library;
    dlopen("/usr/local/cuda/lib64/libnvrtc.so", RTLD_NOW); /* a toolkit's; then it has the name that is asked for next */
    return nvrtc_load(out, &library, why) == 0;
}

bool cuda_compiles(const struct nvrtc_api *nvrtc, enum isa isa, const char *name, const char *text, enum cuda_depth depth,
                   char *said,
                   size_t size)
{
    enum { MOST = 3 };
    char architecture[40];
    const char *const last[] = {[CUDA_READ] = "--fdevice-syntax-only", [CUDA_PTX] = "--device-debug"};
    const char *const options[MOST] = {architecture, "--std=c++20", depth == CUDA_CODE ? NULL : last[depth]};
    nvrtcProgram program;
    size_t length = 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%s", depth == CUDA_PTX ? "compute" : "sm",
             isa == ISA_SM90 ? "90a" : "80");
    snprintf(said, size, "%s: NVRTC makes no program", name);
    if (nvrtc->nvrtcCreateProgram(&program, text, name, 0, NULL, NULL) != NVRTC_SUCCESS)
        return false;
    const int code = nvrtc->nvrtcCompileProgram(program, MOST - (depth == CUDA_CODE), options);
    nvrtc->nvrtcGetProgramLogSize(program, &length);
    char *log = calloc(1, length + 1);
    if (log && length)
        nvrtc->nvrtcGetProgramLog(program, log);
    const bool good = code == NVRTC_SUCCESS && log && !strstr(log, "warning");
    snprintf(said, size, "%s.cu (%d): %.1500s", name, code, log ? log : "out of memory");
    free(log);
    nvrtc->nvrtcDestroyProgram(&program);
    return good;
}

bool cuda_too(const struct gen *gen, const struct variant *v, char *said, size_t size)
{
    const enum isa isa = (enum isa)v->field[F_ISA];
    char name[GEN_NAME_MAX];
    struct nvrtc_api nvrtc;
    struct gen_error err;
    struct gen_text text;
    if (!cuda_compiler(&nvrtc, &err))
        return true;
    if (gen_emit(gen, v, GEN_CUDA, &text, &err) != 0) {
        snprintf(said, size, "%s", err.text);
        return isa == ISA_PORTABLE && strstr(err.text, "48 KiB");
    }
    variant_encode(v, name);
    const bool good = cuda_compiles(&nvrtc, isa, name, text.data, getenv("ATTNGEN_SOAK") ? CUDA_CODE : CUDA_PTX, said, size);
    gen_text_free(&text);
    return good;
}
