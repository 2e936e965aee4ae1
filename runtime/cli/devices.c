/* devices.c - `attngen devices`: what there is to run on, one line a device. What it is not: a measurement. */
#include <stdio.h>
#include <string.h>

#include "../cpu.h"
#include "cli.h"
#include "options.h"

static const struct verb verb = {
    .name = "devices",
    .usage = "devices",
    .text = "One line a device: its name as --device takes it, what it is, the instruction\n"
            "sets that kernels can use there and, of the others, what each would need.",
    .example = "attngen devices",
    .exits = "the answer could not be written",
};

int cli_devices(int argc, char **argv)
{
    struct options options;
    int code = CLI_OK;
    if (!options_begin(&verb, argc, argv, &options, &code))
        return code;
    struct cpu cpu;
    cpu_detect(&cpu);
    printf("cpu  %s, %d %s:", cpu.model, cpu.cores, cpu.cores == 1 ? "thread" : "threads");
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_why_not(&cpu, (enum isa)isa))
            printf(" %s", field_value_name(F_ISA, isa));
    const char *before = " (not ", *after = "";
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const char *why = cpu_why_not(&cpu, (enum isa)isa);
        if (!why)
            continue;
        printf("%s%s: %s", before, field_value_name(F_ISA, isa), why);
        before = "; ";
        after = ")";
    }
    printf("%s\n", after);
    return CLI_OK;
}
