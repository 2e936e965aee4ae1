/* status.c - see status.h. */
#include "status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

attn_status status_fail(struct attn_error *err, attn_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

attn_status status_because(const struct gen_error *why, attn_status otherwise, struct attn_error *err)
{
    return status_fail(err, why->no_memory ? ATTN_NO_MEMORY : otherwise, "%s", why->text);
}

/* At first, the structs of problems and runs had no features, runs had no scales, and quantisations no slots. */
const struct status_struct status_options = {"attn_options", {sizeof(struct attn_options)}};
const struct status_struct status_problem = {"attn_problem",
                                             {sizeof(struct attn_problem), offsetof(struct attn_problem, invariant),
                                              offsetof(struct attn_problem, tune_window_left),
                                              offsetof(struct attn_problem, mixed)}};
const struct status_struct status_plan_info = {"attn_plan_info", {sizeof(struct attn_plan_info)}};
const struct status_struct status_run = {
    "attn_run",
    {sizeof(struct attn_run), offsetof(struct attn_run, k_scales), offsetof(struct attn_run, window_left)}};
const struct status_struct status_partials = {"attn_partials", {sizeof(struct attn_partials)}};
const struct status_struct status_cl_run = {"attn_cl_run",
                                            {sizeof(struct attn_cl_run), offsetof(struct attn_cl_run, k_scales),
                                             offsetof(struct attn_cl_run, bias)}};
const struct status_struct status_quantisation = {
    "attn_quantisation", {sizeof(struct attn_quantisation), offsetof(struct attn_quantisation, slots)}};
const struct status_struct status_cl_quantisation = {"attn_cl_quantisation", {sizeof(struct attn_cl_quantisation)}};

/* No header has a size that ends inside a member; one far beyond ours is uninitialised memory. */
attn_status status_check_size(const struct status_struct *s, size_t size, struct attn_error *err)
{
    enum { GROWTH = 4096 };
    const size_t known = s->size[0];
    for (int i = 0; i < STATUS_VERSIONS && s->size[i]; i++)
        if (s->size[i] == size)
            return ATTN_OK;
    if (size > known && size - known <= GROWTH && size % _Alignof(int64_t) == 0)
        return ATTN_OK;
    return status_fail(err, ATTN_INVALID, "size of struct %s is %zu; expected sizeof(struct %s), which is %zu here",
                       s->name, size, s->name, known);
}

attn_status status_read_struct(const struct status_struct *s, void *ours, const void *theirs, struct attn_error *err)
{
    size_t size;
    const size_t known = s->size[0];
    memcpy(&size, theirs, sizeof size);
    if (size == known) { /* nearly always, and before every run */
        memcpy(ours, theirs, known);
        return ATTN_OK;
    }
    attn_status status = status_check_size(s, size, err);
    if (status != ATTN_OK)
        return status;
    memcpy(ours, theirs, size < known ? size : known);
    if (size < known)
        memset((char *)ours + size, 0, known - size);
    const unsigned char *bytes = theirs;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return status_fail(
                err, ATTN_UNSUPPORTED,
                "struct %s has %zu bytes, and byte %zu is not 0; expected zeros after the %zu that this version "
                "of libattn knows",
                s->name, size, i, known);
    return ATTN_OK;
}
