/* code.c - CUDA C++ to a cubin or to PTX, by NVRTC. What it is not: loading it (kernel.c). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cubin.h"
#include "gpu/ptx.h"
#include "internal.h"

static char *log_of(const struct nvrtc_api *nvrtc, nvrtcProgram program)
{
    size_t size = 0;
    char *log = NULL;
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 0)
        log = calloc(1, size + 1);
    if (log && nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
        log[0] = 0;
    return log;
}

/* The first line of the form `NAME.cu(line): error: what`. */
static enum compiled refused(const char *log, const char *name, int code, struct gen_error *err)
{
    const char *error = log ? strstr(log, "): error") : NULL, *from = error;
    while (from && from > log && from[-1] != '\n')
        from--;
    if (from)
        snprintf(err->text, sizeof err->text, "%.*s", (int)strcspn(from, "\n"), from);
    else
        snprintf(err->text, sizeof err->text, "%s.cu: error: it does not compile (%d): %.400s", name, code,
                 log && log[0] ? log : "NVRTC did not say why");
    return from && code == NVRTC_ERROR_COMPILATION ? COMPILE_REFUSED : COMPILE_FAILED;
}

/* PTX is a text, whose size counts the 0 at its end. */
static int take_code(const struct nvrtc_api *nvrtc, nvrtcProgram program, bool ptx, const char *name, void **out, size_t *size,
                     struct gen_error *err)
{
    *size = 0;
    int code = ptx ? nvrtc->nvrtcGetPTXSize(program, size) : nvrtc->nvrtcGetCUBINSize(program, size);
    if (code == NVRTC_SUCCESS && *size > ptx) {
        *out = malloc(*size);
        if (!*out)
            return gen_out_of_memory(err, NULL);
        code = ptx ? nvrtc->nvrtcGetPTX(program, *out) : nvrtc->nvrtcGetCUBIN(program, *out);
        *size -= ptx;
        if (code == NVRTC_SUCCESS)
            return 0;
        free(*out);
        *out = NULL;
    }
    snprintf(err->text, sizeof err->text, "%s.cu: error: NVRTC gave no %s (%d)", name, ptx ? "PTX" : "cubin", code);
    return -1;
}

/* Whether a kernel's multiplications and additions must stay apart, as gen/invariant.c says why. */
static bool is_invariant(const char *name)
{
    struct variant v;
    struct gen_error ignored;
    return variant_decode(name, &v, &ignored) == 0 && v.field[F_INVARIANT];
}

/* architecture: such as "sm_90a", or "compute_90a" for PTX. Returns an enum compiled. */
static int compile(const struct nvrtc_api *nvrtc, const char *architecture, const char *name, const char *text, void **out,
                   size_t *size, struct cuda_report *report, struct gen_error *err)
{
    char file[GEN_NAME_MAX + 8], target[48];
    const char *const options[] = {target, "--std=c++20", "--ptxas-options=-v", "--fmad=false"};
    const int count = sizeof options / sizeof *options - !is_invariant(name);
    nvrtcProgram program;
    *out = NULL;
    snprintf(file, sizeof file, "%s.cu", name);
    snprintf(target, sizeof target, "--gpu-architecture=%.20s", architecture);
    int code = nvrtc->nvrtcCreateProgram(&program, text, file, 0, NULL, NULL);
    if (code != NVRTC_SUCCESS) {
        snprintf(err->text, sizeof err->text, "nvrtcCreateProgram: error %d", code);
        err->no_memory |= code == NVRTC_ERROR_OUT_OF_MEMORY;
        return COMPILE_FAILED;
    }
    code = nvrtc->nvrtcCompileProgram(program, count, options);
    char *log = log_of(nvrtc, program);
    int result;
    if (code != NVRTC_SUCCESS)
        result = refused(log, name, code, err);
    else
        result = take_code(nvrtc, program, architecture[0] == 'c', name, out, size, err) == 0 ? COMPILE_OK : COMPILE_FAILED;
    if (result == COMPILE_OK && log) {
        const struct ptx_report said = ptx_report(log);
        *report = (struct cuda_report){said.registers, said.spill_bytes, said.serialised};
    }
    free(log);
    nvrtc->nvrtcDestroyProgram(&program);
    return result;
}

int cuda_make_cubin(const struct cuda *cu, int capability, enum gpu_level level, const char *name, const char *text,
                    void **cubin, size_t *size, struct cuda_report *report, struct gen_error *err)
{
    char architecture[24];
    *cubin = NULL;
    if (!cu->compiler) {
        *err = cu->no_compiler;
        return COMPILE_FAILED;
    }
    snprintf(architecture, sizeof architecture, "sm_%d%s", capability, level == GPU_SM90 ? "a" : "");
    return compile(&cu->nvrtc, architecture, name, text, cubin, size, report, err);
}

char *cuda_code(const char *architecture, bool ptx, const char *name, const char *text, size_t *size, struct gen_error *err)
{
    struct nvrtc_api nvrtc;
    struct cuda_report report;
    char target[32];
    void *library, *out = NULL;
    if (nvrtc_load(&nvrtc, &library, err) != 0)
        return NULL;
    snprintf(target, sizeof target, "%s%.20s", ptx ? "compute_" : "sm_", architecture + strlen("sm_"));
    if (compile(&nvrtc, target, name, text, &out, size, &report, err) != COMPILE_OK)
        out = NULL;
    dlclose(library);
    return out;
}
