#define _GNU_SOURCE /* qsort_r, strndup */
/* emit_manifest.c - see emit_manifest.h. A kernel's line is taken over unchanged, so that the same kernels give the
 * same bytes whether they came at once or one after another. */
#include "emit_manifest.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "cli.h"
#include "json.h"
#include "print.h"

const char manifest_name[] = "manifest.json";
const char *const made_kinds[MADE_KINDS] = {[MADE_PTX] = "ptx", [MADE_CUBIN] = "cubin"};

/* ---- one kernel ---- */

static void json_fields(struct buf *out, const struct variant *v)
{
    const char *separator = "";
    buf_putc(out, '{');
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        if (!variant_shows(v, f))
            continue;
        buf_puts(out, separator);
        json_text(out, fields[f].key);
        buf_puts(out, ": ");
        if (fields[f].type == FIELD_NAME)
            json_text(out, field_value_name(f, v->field[f]));
        else if (fields[f].type == FIELD_BOOL)
            buf_puts(out, v->field[f] ? "true" : "false");
        else
            buf_int(out, v->field[f]);
        separator = ", ";
    }
    buf_putc(out, '}');
}

static void json_words(struct buf *out, const char *words)
{
    const char *separator = "";
    buf_putc(out, '[');
    while (*words) {
        size_t n = strcspn(words, " ");
        buf_printf(out, "%s\"%.*s\"", separator, (int)n, words);
        words += n + strspn(words + n, " ");
        separator = ", ";
    }
    buf_putc(out, ']');
}

static void json_registers(struct buf *out, const struct gen_text *text)
{
    int instructions = 0, vec = 0, mask = 0, integer = 0;
    for (int i = 0; i < text->micros; i++) {
        const struct gen_micro_use *use = &text->micro[i];
        instructions += use->instructions;
        vec = use->vec > vec ? use->vec : vec;
        mask = use->mask > mask ? use->mask : mask;
        integer = use->integer > integer ? use->integer : integer;
    }
    buf_printf(out,
               ", \"instructions\": %d, \"vector_registers\": %d, \"mask_registers\": %d, "
               "\"integer_registers\": %d",
               instructions, vec, mask, integer);
}

/* The bytes of the device's memory that suffice for a launch beside its tensors: formulas of members of struct
 * attn_cl_args and attn_cl_split, and of the card's multiprocessors, `units`. */
static void json_memory(struct buf *out, const struct gen_launch *l)
{
    buf_puts(out, ", \"workspace\": {");
    buf_puts(out, l->maps ? "\"room\": \"128 + 512 * units\"" : "");
    if (l->split)
        buf_printf(out, "%s\"done\": \"16 * slices * kv_heads * batch\", "
                        "\"parts\": \"4 * slices * kv_heads * batch * splits * part\"", l->maps ? ", " : "");
    buf_puts(out, "}");
}

/* The structs that it takes are declared in its file; a workspace whose size does not depend on lengths has this
 * size. */
static void json_call(struct buf *out, const struct manifest_kernel *k)
{
    const bool attention = k->variant->field[F_OP] == OP_ATTN, features = variant_has_features(k->variant);
    const struct gen_launch *l = &k->text->launch;
    if (isa_language((enum isa)k->variant->field[F_ISA]) == LANGUAGE_C) {
        buf_printf(out, ", \"args\": \"struct attn_args\"%s, \"workspace\": {\"function\": \"%s_workspace\"",
                   features ? ", \"features\": \"struct attn_features\"" : "", k->name);
        if (k->text->workspace)
            buf_printf(out, ", \"bytes\": %lld", (long long)k->text->workspace);
        buf_puts(out, "}");
        if (k->variant->field[F_ISA] == ISA_AMX)
            buf_printf(out, ", \"prepare\": {\"function\": \"%s_prepare\"}", k->name);
        return;
    }
    buf_printf(out, ", \"args\": \"struct %s_cl_args\"%s, \"tile\": [%d, %d], \"local_size\": [%d, %d, 1], ",
               attention ? "attn" : field_value_name(F_OP, k->variant->field[F_OP]),
               features ? ", \"features\": \"struct attn_cl_features\"" : "", l->rows, l->columns, l->group[0],
               l->group[1]);
    buf_puts(out, "\"global_size\": [");
    for (int i = 0; i < 3; i++)
        buf_printf(out, "%s\"local_size[%d] * %s\"", i ? ", " : "", i, l->groups[i]);
    buf_printf(out, "], \"local_memory\": %lld", (long long)l->local_bytes);
    json_memory(out, l);
}

static void json_kernel(struct buf *out, const struct manifest_kernel *k)
{
    buf_puts(out, "{\"name\": ");
    json_text(out, k->name);
    buf_puts(out, ", \"file\": ");
    json_text(out, k->file);
    buf_puts(out, ", \"symbol\": ");
    json_text(out, k->name);
    if (k->form == GEN_CUDA)
        buf_puts(out, ", \"language\": \"cuda\"");
    for (int kind = 0; kind < MADE_KINDS; kind++)
        if (k->made[kind]) {
            buf_printf(out, ", \"%s\": ", made_kinds[kind]);
            json_text(out, k->made[kind]);
        }
    buf_printf(out, ", \"machine_code\": %s, \"fields\": ", k->form == GEN_MACHINE_CODE ? "true" : "false");
    json_fields(out, k->variant);
    buf_puts(out, ", \"requires\": ");
    json_words(out, isas[k->variant->field[F_ISA]].needs);
    json_call(out, k);
    json_registers(out, k->text);
    buf_putc(out, '}');
}

/* ---- all of them ---- */

static void begin(struct buf *out)
{
    buf_printf(out, "{\"generator\": \"attngen\", \"version\": \"%d.%d\", \"kernels\": [", ATTN_VERSION_MAJOR,
               ATTN_VERSION_MINOR);
}

static struct manifest_line *more(struct manifest *m)
{
    if (m->lines == m->room) {
        int room = m->room ? 2 * m->room : 64;
        struct manifest_line *line = realloc(m->line, (size_t)room * sizeof *line);
        if (!line)
            return NULL;
        m->line = line;
        m->room = room;
    }
    return &m->line[m->lines++];
}

/* One line `{...}` of a manifest, whose file is in the folder. False if it is not such a line. */
static bool take_over(struct manifest *m, const struct staging *s, const char *text, size_t size)
{
    cJSON *kernel = cJSON_ParseWithLength(text, size);
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "name"));
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "file"));
    bool good = name && file && strlen(file) < sizeof m->line->file && !strchr(file, '/');
    if (good && staging_has(s, file)) {
        struct manifest_line *line = more(m);
        if (line && (line->text = strndup(text, size)))
            snprintf(line->file, sizeof line->file, "%s", file);
        m->failed |= !line || !line->text;
    }
    cJSON_Delete(kernel);
    return good;
}

/* The lines between the first and the last, one for each kernel. */
static bool take_over_all(struct manifest *m, const struct staging *s, const char *at)
{
    while (*at++ == '\n' && strcmp(at, "]}\n") != 0) {
        size_t size = strcspn(at, "\n");
        if (size == 0 || !take_over(m, s, at, at[size - 1] == ',' ? size - 1 : size))
            return false;
        at += size;
    }
    return !strcmp(at, "]}\n");
}

static int compare_files(const void *a, const void *b, void *lines)
{
    const struct manifest_line *line = lines;
    int i = *(const int *)a, k = *(const int *)b, order = strcmp(line[i].file, line[k].file);
    return order ? order : i - k;
}

static int index_files(struct manifest *m)
{
    m->earlier = m->lines;
    m->by_file = calloc((size_t)m->lines + 1, sizeof *m->by_file);
    m->failed |= !m->by_file;
    for (int i = 0; i < m->lines && !m->failed; i++)
        m->by_file[i] = i;
    if (!m->failed)
        qsort_r(m->by_file, (size_t)m->earlier, sizeof *m->by_file, compare_files, m->line);
    if (m->failed)
        print_line(stderr, "attngen emit: error: out of memory");
    return m->failed ? CLI_FAILED : CLI_OK;
}

/* From another version: what it says about a kernel may mean something else, so none of it is taken over. */
static bool leave_behind(const struct staging *s, const char *text)
{
    struct buf names = {0};
    cJSON *root = cJSON_Parse(text);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(root, "kernels"), *kernel;
    const char *by = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "generator"));
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "version"));
    bool ours = by && !strcmp(by, "attngen") && version && cJSON_IsArray(kernels);
    cJSON_ArrayForEach(kernel, kernels)
    {
        const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "file"));
        buf_printf(&names, " %.240s", file ? file : "one without a name");
    }
    if (ours)
        print_line(stderr,
                   "%s/%s: warning: it is of version %.20s, or was changed by hand; these files stay, but are no "
                   "longer in it:%s",
                   s->path, manifest_name, version, names.data ? names.data : " none");
    buf_free(&names);
    cJSON_Delete(root);
    return ours;
}

static void drop_lines(struct manifest *m)
{
    for (int i = 0; i < m->lines; i++)
        free(m->line[i].text);
    m->lines = 0;
}

int manifest_read(const struct staging *s, struct manifest *out)
{
    struct buf first = {0};
    size_t size;
    bool absent;
    *out = (struct manifest){.failed = false};
    char *text = staging_read(s, manifest_name, &size, &absent);
    if (!text)
        return absent ? index_files(out) : CLI_FAILED;
    begin(&first);
    bool known = buf_ok(&first) && !strncmp(text, first.data, first.size) && take_over_all(out, s, text + first.size);
    buf_free(&first);
    if (!known) {
        drop_lines(out);
        known = leave_behind(s, text);
    }
    free(text);
    if (known)
        return index_files(out);
    print_line(stderr, "%s/%s: error: it is not a manifest that emit wrote; expected one, or a directory without one",
               s->path, manifest_name);
    return CLI_FAILED;
}

void manifest_free(struct manifest *m)
{
    drop_lines(m);
    free(m->line);
    free(m->by_file);
}

static struct manifest_line *find_earlier(const struct manifest *m, const char *file)
{
    int low = 0, high = m->earlier;
    while (low < high) {
        int middle = (low + high) / 2;
        struct manifest_line *line = &m->line[m->by_file[middle]];
        int order = strcmp(file, line->file);
        if (order == 0)
            return line;
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}

void manifest_add(struct manifest *m, const struct staging *s, const struct manifest_kernel *k)
{
    struct buf text = {0};
    struct manifest_line *line = find_earlier(m, k->file);
    for (int kind = 0; kind < MADE_KINDS && line; kind++) {
        char member[16];
        snprintf(member, sizeof member, "\"%s\": ", made_kinds[kind]);
        if (!k->made[kind] && strstr(line->text, member))
            print_line(stderr, "%s/%s.%s: warning: it stays, although it was made from an older version of the kernel", s->path,
                       k->name, made_kinds[kind]);
    }
    json_kernel(&text, k);
    if (line)
        free(line->text);
    else
        line = more(m);
    if (line)
        line->text = text.data;
    else
        buf_free(&text);
    m->failed |= !line || !buf_ok(&text);
}

void manifest_text(const struct manifest *m, struct buf *out)
{
    begin(out);
    for (int i = 0; i < m->lines && !m->failed; i++)
        buf_printf(out, "%s%s", i ? ",\n" : "\n", m->line[i].text);
    buf_puts(out, "\n]}\n");
    out->failed |= m->failed;
}
