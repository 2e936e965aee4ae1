/* verify.c - `attngen verify`: every kernel that a manifest names, from the text in its file, compiled for the first
 * device that takes its language and run on awkward shapes in guarded memory against the double-precision reference, in
 * a process of its own so that a crash is reported too. What it is not: a proof that another compiler produces the
 * same. */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/buf.h"
#include "devices/devices.h"
#include "judge/steps.h"
#include "judge/trial.h"
#include "cli.h"
#include "json.h"
#include "options.h"
#include "print.h"
#include "system/process.h"

enum {
    FILE_MAX = 16 << 20,
    NODES_MAX = 1 << 20,  /* of a manifest's JSON, each of which takes a hundred bytes: fifty thousand kernels */
    BAD_ENTRIES_SHOWN = 20,
    TIMEOUT = 120,        /* seconds of the processor for one kernel */
    SAMPLED = 64,         /* rows judged in a larger problem */
    LARGE = 2000000,      /* a problem is larger from so many flops on */
    PLAIN_MOST = 60000000 /* flops of the largest problem for plain C, of which libtcc makes slow code */
};

const struct verb verb_verify = {
    .name = "verify",
    .doc = "check emitted kernels against the reference",
    .usage = "verify DIR [--quiet | --json]",
    .text = "Compiles every kernel that DIR/manifest.json names, from the text in its file, and\n"
            "checks it on awkward shapes with all its features (windows, biases, pages, ...)\n"
            "against a double-precision reference. It prints one line for each kernel.\n"
            "Kernels in OpenCL C run on the first device that `attngen devices` lists as usable.\n"
            "Kernels in machine code for an instruction set that this processor lacks are skipped,\n"
            "and so are kernels for devices if there is no device, if they exceed its limits, or, in\n"
            "CUDA C++, without NVRTC. The code in those files is run with your rights: verify only\n"
            "what you would run anyway.",
    .example = "attngen verify kernels",
    .exits = "a kernel is wrong or missing, or none could be checked here",
    .options = OPTION_BIT(OPTION_QUIET) | OPTION_BIT(OPTION_JSON),
    .operand = "DIR",
    .min_operands = 1,
    .max_operands = 1,
};

/* One kernel of the manifest. */
struct entry {
    const char *name;
    struct variant v;
    bool machine_code;
    enum gen_flags form; /* which identifies its language */
    char path[4096];
};

/* What the child found; in shared memory. */
struct verdict {
    bool done, pass, skipped; /* skipped: err says why */
    double error, bound; /* where the error came nearest to the bound */
    int shapes;
    char at[320]; /* the shape in progress */
    struct gen_error err;
};

static int fail(const char *path, const char *what)
{
    print_line(stderr, "%s: error: %s", path, what);
    return -1;
}

/* ---- files ---- */
static int read_file(const char *path, char **out, size_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block us */
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!f || fstat(fd, &st) != 0) {
        print_line(stderr, "%s: error: %s; expected a file that emit wrote", path, strerror(errno));
        if (f)
            fclose(f);
        else if (fd >= 0)
            close(fd);
        return -1;
    }
    int result = -1;
    char *text = NULL;
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        fail(path, "it is not a regular file, or larger than 16 MB; expected a file that emit wrote");
    else if (!(text = malloc((size_t)st.st_size + 1)))
        fail(path, "out of memory");
    else if (fread(text, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        fail(path, "it cannot be read to its end");
    else if (memchr(text, 0, (size_t)st.st_size))
        fail(path, "it contains a zero byte; expected text");
    else
        result = 0;
    fclose(f);
    if (result != 0) {
        free(text);
        return -1;
    }
    text[st.st_size] = 0;
    *out = text;
    *size = (size_t)st.st_size;
    return 0;
}

/* libtcc opens no file, so system headers must not be included: their lines become empty, and what emitted files use of
 * them is declared before. Lines keep their numbers. */
static char *without_headers(const char *text, size_t size)
{
    static const char declared[] =
        "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; "
        "typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; "
        "typedef unsigned long uint64_t; typedef long intptr_t; typedef unsigned long uintptr_t; "
        "typedef unsigned long size_t; void *memcpy(void *, const void *, size_t); "
        "void *memset(void *, int, size_t);\n"
        "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n"
        "#define INT64_MAX 9223372036854775807L\n#define INT64_MIN (-INT64_MAX - 1)\n#line 1\n";
    struct buf out = {0};
    bool found = false;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        line = line ? line + 1 : end;
        const char *word = at + strspn(at, " \t");
        bool include = strncmp(word, "#include <", 10) == 0;
        found = found || include;
        if (!include)
            buf_put(&out, at, (size_t)(line - at));
        else
            buf_putc(&out, '\n');
        at = line;
    }
    struct buf whole = {0};
    if (found)
        buf_puts(&whole, declared);
    buf_put(&whole, out.data ? out.data : "", out.size);
    bool good = buf_ok(&out) && buf_ok(&whole);
    buf_free(&out);
    if (good)
        return whole.data;
    buf_free(&whole);
    return NULL;
}

/* The file's first lines name the command that wrote it; a file of another name's kernel, or one whose header was taken
 * off, is not what the manifest speaks of. */
static int check_header(const struct entry *e, const char *text)
{
    static const char command[] = "attngen emit --variant";
    char what[2 * GEN_NAME_MAX];
    const size_t size = strlen(e->name);
    const char *at = strstr(text, command), *body = strstr(text, "\n#");
    const char *name = at ? at + strlen(command) : "";
    name += strspn(name, " \r\n*"); /* a long name stands on a line of its own */
    char after = strncmp(name, e->name, size) == 0 ? name[size] : 0;
    if (after && (!body || at < body) && (after == ' ' || after == '\n' || after == '\r'))
        return 0;
    snprintf(what, sizeof what, "its header does not name this kernel; expected `%s %s` in the first comment", command,
             e->name);
    return fail(e->path, what);
}

/* ---- the manifest ---- */
static int json_error(const char *path, const char *text, const char *at)
{
    int line = 1, column = 1;
    for (const char *c = text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    print_line(stderr, "%s:%d:%d: error: it is not JSON; expected the manifest that emit writes", path, line, column);
    return -1;
}

/* Not fewer than a parser makes of it: each begins behind one of these. */
static bool has_too_many_nodes(const char *text)
{
    size_t nodes = 0;
    for (const char *c = text; (c = strpbrk(c, ",[{")); c++)
        nodes++;
    return nodes > NODES_MAX;
}

static int read_manifest(const char *dir, char path[4096], cJSON **out)
{
    char *text;
    size_t size;
    const char *end = NULL;
    if (snprintf(path, 4096, "%s/manifest.json", dir) >= 4096)
        return fail(dir, "the path is too long");
    if (read_file(path, &text, &size) != 0)
        return -1;
    if (has_too_many_nodes(text)) {
        free(text);
        return fail(path, "there are more than a million values; expected the manifest that emit writes");
    }
    cJSON *root = cJSON_ParseWithLengthOpts(text, size + 1, &end, 1);
    int result = root ? 0 : json_error(path, text, end ? end : text);
    free(text);
    *out = root;
    return result;
}

static int wrong_entry(struct gen_error *err, const char *what)
{
    snprintf(err->text, sizeof err->text, "%s", what);
    return -1;
}

/* A manifest may come from elsewhere: it names files in its own directory, and nothing else. */
static int read_entry(const char *dir, const cJSON *item, struct entry *out, struct gen_error *err)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "file"));
    const cJSON *machine_code = cJSON_GetObjectItemCaseSensitive(item, "machine_code");
    char encoded[GEN_NAME_MAX], expected[GEN_NAME_MAX + 8];
    const char *language = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "language"));
    if (!name || !file || !cJSON_IsBool(machine_code))
        return wrong_entry(err, "it is incomplete; expected name, file and machine_code");
    if (variant_decode(name, &out->v, err) != 0)
        return -1;
    variant_encode(&out->v, encoded);
    out->form = language && !strcmp(language, "cuda") ? GEN_CUDA : GEN_READABLE;
    snprintf(expected, sizeof expected, "%s%s", encoded, variant_suffix(&out->v, out->form));
    if (strcmp(encoded, name) != 0 || strcmp(expected, file) != 0)
        return wrong_entry(err, "name and file do not match; expected the file to be the name and its ending");
    if (snprintf(out->path, sizeof out->path, "%s/%s", dir, file) >= (int)sizeof out->path)
        return wrong_entry(err, "the path is too long");
    out->name = name;
    out->machine_code = cJSON_IsTrue(machine_code);
    return 0;
}

/* ---- one kernel, in a child ---- */
static double flops_of(const struct variant *v, const struct trial_shape *s)
{
    return 2.0 * (variant_head_dim(v) + variant_head_dim_v(v)) * (double)(s->batch * s->heads * s->q_len * s->kv_len);
}

/* Of the file's header; 0 when it does not say, which leaves the refusal to the driver. */
static int64_t local_bytes_of(const char *text)
{
    static const char words[] = "\n * Local memory: ";
    const char *at = strstr(text, words), *end = strstr(text, "*/");
    return at && end && at < end ? atoll(at + strlen(words)) : 0;
}

/* What a launch on a device needs to know is the variant's, but that the file itself tells of its local memory. */
static int launch_of(const struct variant *v, enum gen_flags form, const char *source, struct gen_launch *out,
                     struct gen_error *err)
{
    struct gen *gen;
    struct gen_text text;
    *out = (struct gen_launch){.rows = 0};
    if (isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_C)
        return 0;
    if (gen_open(&gen, err) != 0)
        return -1;
    int result = gen_emit(gen, v, form, &text, err);
    gen_close(gen);
    if (result != 0)
        return -1;
    *out = text.launch;
    out->local_bytes = local_bytes_of(source);
    gen_text_free(&text);
    return 0;
}

/* On the first device that takes the language. What is beyond its limits is no fault of the kernel's, and skipped. */
static int load(const struct entry *e, const char *source, struct kernel *out, struct verdict *verdict)
{
    struct gen_text text = {.data = (char *)source, .size = strlen(source)};
    const enum language language = e->form == GEN_CUDA ? LANGUAGE_CUDA : isa_language((enum isa)e->v.field[F_ISA]);
    static const struct resources none = {.gen = NULL};
    struct devices *devices; /* with its devices it ends with the process */
    struct device *device;
    if (launch_of(&e->v, e->form, source, &text.launch, &verdict->err) != 0)
        return -1;
    verdict->skipped = true;
    if (devices_open(&none, &devices, &verdict->err) != 0 || devices_for(devices, language, &device, &verdict->err) != 0)
        return -1;
    const struct backend *b = device->backend;
    const char *why = e->machine_code ? b->why_not(device, (enum isa)e->v.field[F_ISA]) : NULL;
    if (why)
        snprintf(verdict->err.text, sizeof verdict->err.text, "%s", why);
    if (why || (b->fits && b->fits(device, &e->v, &text, &verdict->err) != 0))
        return -1;
    verdict->skipped = false;
    return b->compile(device, &e->v, &text, out, &verdict->err);
}

/* Keeps the error that came nearest to its bound. */
static void note(double error, double bound, struct verdict *out)
{
    if (bound > 0 && error * out->bound >= out->error * bound) {
        out->error = error;
        out->bound = bound;
    }
    out->shapes++;
}

/* A product or a softmax apart. */
static void check_step(const struct entry *e, const struct kernel *kernel, struct verdict *out)
{
    struct step_shape shapes[STEP_SHAPES];
    int count = step_shapes(&e->v, shapes);
    for (int i = 0; i < count; i++) {
        struct step_check check;
        step_describe(&e->v, &shapes[i], out->at, sizeof out->at);
        if (step_judge(&e->v, kernel, &shapes[i], (uint64_t)i, &check, &out->err) != 0)
            return;
        note(check.error, check.bound, out);
    }
    out->pass = true;
}

static void check_kernel(const struct entry *e, const char *source, struct verdict *out)
{
    struct trial_shape shapes[TRIAL_SHAPES];
    struct kernel kernel;
    snprintf(out->at, sizeof out->at, "compiling");
    if (load(e, source, &kernel, out) != 0)
        return;
    if (e->v.field[F_OP] != OP_ATTN) {
        check_step(e, &kernel, out);
        kernel_free(&kernel);
        return;
    }
    int count = trial_shapes(&e->v, shapes);
    for (int i = 0; i < count; i++) {
        struct trial_result result;
        double flops = flops_of(&e->v, &shapes[i]);
        if (!e->machine_code && kernel.run && flops > PLAIN_MOST)
            continue;
        trial_describe(&shapes[i], out->at, sizeof out->at);
        if (trial_all(&e->v, &shapes[i], &kernel, flops > LARGE ? SAMPLED : 0, (uint64_t)i, &result, &out->err) != 0)
            return;
        note(result.check.error, result.check.bound, out);
    }
    kernel_free(&kernel);
    out->pass = true;
}

static void in_child(const struct entry *e, const char *source, struct verdict *out)
{
    fflush(NULL);
    const pid_t parent = getpid();
    pid_t child = fork();
    int status = 0;
    if (child < 0) {
        snprintf(out->err.text, sizeof out->err.text, "cannot fork: %s", strerror(errno));
        return;
    }
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would report what is not ours */
        process_end_with(parent);
        process_end_if_hanging(TIMEOUT);
        check_kernel(e, source, out);
        out->done = true;
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (out->done)
        return;
    if (!process_hung(status, TIMEOUT, out->err.text, sizeof out->err.text))
        snprintf(out->err.text, sizeof out->err.text, "crashed (%s)",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the process ended");
}

/* What stands behind `NAME: error: `, where it begins so. */
static const char *bare(const char *text, const char *name)
{
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && strncmp(text + n, ": error: ", 9) == 0 ? text + n + 9 : text;
}

enum outcome { RIGHT, FAILED, SKIPPED };

static enum outcome outcome_of(const struct verdict *verdict)
{
    return verdict->pass ? RIGHT : verdict->skipped && verdict->done ? SKIPPED : FAILED;
}

/* One kernel's object; verdict is NULL where it could not be looked at, which is told on stderr. */
static void report_json(struct buf *json, const char *name, const struct verdict *verdict)
{
    static const char *const states[] = {[RIGHT] = "right", [FAILED] = "failed", [SKIPPED] = "skipped"};
    enum outcome outcome = verdict ? outcome_of(verdict) : FAILED;
    buf_puts(json, json->size && json->data[json->size - 1] == '}' ? ", {\"kernel\": " : "{\"kernel\": ");
    json_text(json, name);
    buf_printf(json, ", \"state\": \"%s\"", states[outcome]);
    if (outcome == RIGHT) {
        buf_puts(json, ", \"error\": ");
        json_number(json, verdict->error);
        buf_puts(json, ", \"bound\": ");
        json_number(json, verdict->bound);
        buf_printf(json, ", \"shapes\": %d", verdict->shapes);
    } else if (verdict) {
        buf_puts(json, ", \"reason\": ");
        json_text(json, bare(verdict->err.text, name));
    }
    buf_putc(json, '}');
}

static enum outcome report(const struct entry *e, const struct verdict *verdict, struct buf *json)
{
    if (json) {
        report_json(json, e->name, verdict);
        return outcome_of(verdict);
    }
    if (verdict->pass) {
        print_line(stdout, "%s: ok (error %.2g, bound %.2g; %d shapes)", e->name, verdict->error, verdict->bound,
               verdict->shapes);
        return RIGHT;
    }
    if (verdict->skipped && verdict->done) {
        print_line(stdout, "%s: skipped: %s", e->name, bare(verdict->err.text, e->name));
        return SKIPPED;
    }
    print_line(stdout, "%s: failed", e->name);
    fflush(stdout);
    print_line(stderr, "%s: error: %s: %s", e->path, verdict->at, verdict->err.text);
    return FAILED;
}

static enum outcome verify_kernel(const struct entry *e, struct buf *json)
{
    char *text = NULL, *source = NULL;
    size_t size;
    enum outcome result = FAILED;
    bool reported = false;
    struct verdict *verdict = mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (verdict == MAP_FAILED) {
        fail(e->path, "out of memory");
        return FAILED;
    }
    if (read_file(e->path, &text, &size) != 0 || check_header(e, text) != 0)
        goto cleanup;
    const bool c = isa_language((enum isa)e->v.field[F_ISA]) == LANGUAGE_C; /* other compilers know their headers */
    source = c ? without_headers(text, size) : strdup(text);
    if (!source) {
        fail(e->path, "out of memory");
        goto cleanup;
    }
    in_child(e, source, verdict);
    result = report(e, verdict, json);
    reported = true;
cleanup:
    if (json && !reported)
        report_json(json, e->name, NULL);
    free(source);
    free(text);
    munmap(verdict, sizeof *verdict);
    return result;
}

/* json: NULL, or where the kernels' objects go. */
static int verify_all(const char *dir, const char *manifest, const cJSON *root, struct buf *json)
{
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(root, "kernels"), *item;
    struct entry entry;
    int index = 0, bad = 0, count[] = {[RIGHT] = 0, [FAILED] = 0, [SKIPPED] = 0};
    if (!cJSON_IsArray(kernels))
        return fail(manifest, "it has no list of kernels; expected the manifest that emit writes");
    cJSON_ArrayForEach(item, kernels)
    {
        struct gen_error err = {.text = ""};
        bool read = read_entry(dir, item, &entry, &err) == 0;
        if (!read && bad++ < BAD_ENTRIES_SHOWN)
            print_line(stderr, "%s: error: kernel %d: %s", manifest, index, err.text);
        index++;
        count[read ? verify_kernel(&entry, json) : FAILED]++;
    }
    if (bad > BAD_ENTRIES_SHOWN)
        print_line(stderr, "%s: error: %d more kernels are wrong", manifest, bad - BAD_ENTRIES_SHOWN);
    if (json)
        buf_printf(json, "], \"right\": %d, \"failed\": %d, \"skipped\": %d}", count[RIGHT], count[FAILED], count[SKIPPED]);
    else if (count[FAILED] || count[SKIPPED])
        printf("%d right, %d failed, %d skipped\n", count[RIGHT], count[FAILED], count[SKIPPED]);
    if (!count[RIGHT] && !count[FAILED])
        return fail(manifest, count[SKIPPED] ? "none of its kernels runs here; expected one that does"
                                             : "it has no kernel; expected at least one");
    return count[FAILED] ? -1 : 0;
}

int cli_verify(int argc, char **argv)
{
    struct options options;
    int code = CLI_OK;
    char manifest[4096];
    cJSON *root = NULL;
    if (!options_begin(&verb_verify, argc, argv, &options, &code))
        return code;
    const char *dir = options.operand[0];
    struct buf json = {0};
    buf_puts(&json, "{\"kernels\": [");
    if (read_manifest(dir, manifest, &root) != 0)
        code = CLI_FAILED;
    else if (verify_all(dir, manifest, root, options.json ? &json : NULL) != 0)
        code = CLI_FAILED;
    if (options.json && root && buf_ok(&json) && json.data[json.size - 1] == '}')
        puts(json.data);
    buf_free(&json);
    cJSON_Delete(root);
    return code;
}
