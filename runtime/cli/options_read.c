/* options_read.c - see options_read.h: numbers, words, files, and options that say how and where. */
#include "devices/list.h"
#include "options_read.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int option_wrong(struct gen_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return -1;
}

/* A decimal integer at the start of text; where it ends, or NULL if there is none or it does not fit. */
const char *read_prefix(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9')
        return NULL;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno)
        return NULL;
    *out = value;
    return end;
}

int read_integer(const struct option *option, const char *value, int64_t min, int64_t max, int64_t *out, struct gen_error *err)
{
    const char *end = read_prefix(value, out);
    if (end && !*end && *out >= min && *out <= max)
        return 0;
    return option_wrong(err, "%s '%s' is invalid; expected an integer from %lld to %lld", option->name, value,
                        (long long)min, (long long)max);
}

/* Finite, without a blank before it. */
int read_number(const struct option *option, const char *value, const char *expected, float *out, struct gen_error *err)
{
    char *end;
    *out = strtof(value, &end);
    bool space = *value == ' ' || (*value >= '\t' && *value <= '\r');
    if (space || end == value || *end || !isfinite(*out))
        return option_wrong(err, "%s '%s' is invalid; expected %s", option->name, value, expected);
    return 0;
}

int read_word(const struct option *option, const char *value, const char *const *words, int *out, struct gen_error *err)
{
    char list[160] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(value, words[i])) {
            *out = i;
            return 0;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    return option_wrong(err, "%s '%s' is unknown; expected %s", option->name, value, list);
}

int read_text(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    (void)err;
    out->file[option->id] = value;
    return 0;
}

int read_flag(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    (void)value;
    (void)err;
    switch (option->id) {
    case OPTION_MACHINE_CODE: out->machine_code = true; break;
    case OPTION_LIST: out->list = true; break;
    case OPTION_WHY_NOT: out->why_not = true; break;
    case OPTION_PTX: out->ptx = true; break;
    case OPTION_CUBIN: out->cubin = true; break;
    case OPTION_FROM_CACHE: out->from_cache = true; break;
    case OPTION_QUIET: out->quiet = true; break;
    case OPTION_JSON: out->json = true; break;
    default: break;
    }
    return 0;
}

int read_device(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    if (!device_is_name(value))
        return option_wrong(err, "%s '%s' is unknown; expected " DEVICE_NAMES " (`attngen devices` lists them)",
                            option->name, value);
    out->file[option->id] = value;
    return 0;
}

int read_language(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    const char *const words[] = {language_names[LANGUAGE_OPENCL], language_names[LANGUAGE_CUDA], NULL};
    int language = 0;
    if (read_word(option, value, words, &language, err))
        return -1;
    out->cuda = language == 1;
    return 0;
}

int read_compiler(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    const char *const words[] = {"tcc", "cc", out->verb->every_compiler ? "both" : NULL, NULL};
    int compiler = 0;
    if (!out->verb->every_compiler && !strcmp(value, "both"))
        return option_wrong(err, "--compiler both is for tune; expected tcc or cc");
    if (read_word(option, value, words, &compiler, err))
        return -1;
    out->every_compiler = compiler == 2;
    out->compiler = compiler == 1 ? ATTN_CC : ATTN_TCC;
    return 0;
}

int read_threads(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    int64_t threads = 0;
    if (read_integer(option, value, 1, 1024, &threads, err))
        return -1;
    out->threads = (int)threads;
    return 0;
}

int read_rigor(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    static const char *const words[] = {
        [ATTN_ESTIMATE] = "estimate", [ATTN_MEASURE] = "measure", [ATTN_PATIENT] = "patient", NULL};
    int rigor = 0;
    if (read_word(option, value, words, &rigor, err))
        return -1;
    out->rigor = (attn_rigor)rigor;
    return 0;
}

int read_time_limit(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    char *end;
    out->time_limit = strtod(value, &end);
    const bool begins = (*value >= '0' && *value <= '9') || *value == '.';
    if (!begins || *end || !isfinite(out->time_limit) || !(out->time_limit > 0))
        return option_wrong(err, "%s '%s' is invalid; expected a number of seconds above 0", option->name, value);
    return 0;
}

int read_tolerance(const struct option *option, const char *value, struct options *out, struct gen_error *err)
{
    static const char expected[] = "a finite number, 0 or more";
    if (read_number(option, value, expected, &out->tolerance, err))
        return -1;
    if (out->tolerance < 0)
        return option_wrong(err, "%s '%s' is invalid; expected %s", option->name, value, expected);
    return 0;
}
