/* devices.c - `attngen devices`: what can run kernels here, one line for each device. What it is not: a measurement. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

#include "devices/devices.h"
#include "cli.h"
#include "json.h"
#include "options.h"
#include "print.h"

const struct verb verb_devices = {
    .name = "devices",
    .doc = "say what there is to run on",
    .usage = "devices [--json]",
    .text = "One line a device: its name as --device takes it, what it is, the instruction\n"
            "sets that kernels can use there and, of the others, what each would need.\n"
            "`--device opencl` is the first OpenCL device that is usable.",
    .options = OPTION_BIT(OPTION_JSON),
    .example = "attngen devices",
    .exits = "the answer could not be written",
};

static int fail(const char *text)
{
    print_line(stderr, "attngen devices: error: %s", text);
    return CLI_FAILED;
}

/* A line of the description: its name, two blanks, and what it is. */
static void print_json(char *lines)
{
    struct buf json = {0};
    char *rest = NULL;
    buf_puts(&json, "{\"devices\": [");
    for (char *line = strtok_r(lines, "\n", &rest), *first = line; line; line = strtok_r(NULL, "\n", &rest)) {
        size_t size = strcspn(line, " ");
        const char *text = line + size + strspn(line + size, " ");
        line[size] = 0;
        buf_puts(&json, line == first ? "{\"name\": " : ", {\"name\": ");
        json_text(&json, line);
        buf_puts(&json, ", \"description\": ");
        json_text(&json, text);
        buf_putc(&json, '}');
    }
    buf_puts(&json, "]}");
    if (buf_ok(&json))
        puts(json.data);
    buf_free(&json);
}

/* What is missing is printed in the same place as what is there. */
int cli_devices(int argc, char **argv)
{
    const struct resources none = {.gen = NULL};
    struct options options;
    struct devices *devices;
    struct gen_error err = {0};
    struct buf out = {0};
    int code = CLI_OK;
    if (!options_begin(&verb_devices, argc, argv, &options, &code))
        return code;
    if (devices_open(&none, &devices, &err) != 0)
        return fail(err.text);
    devices_describe(devices, &out);
    char *rest = NULL;
    if (buf_ok(&out) && options.json)
        print_json(out.data);
    else if (buf_ok(&out))
        for (char *line = strtok_r(out.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            print_line(stdout, "%s", line);
    else
        code = fail("out of memory");
    buf_free(&out);
    devices_close(devices);
    return code;
}
