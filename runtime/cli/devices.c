/* devices.c - `attngen devices`: what there is to run on, one line a device. What it is not: a measurement. */
#include <stdio.h>
#include <string.h>

#include "cpu/processor.h"
#include "opencl/variants.h"
#include "opencl/opencl.h"
#include "cli.h"
#include "options.h"

static const struct verb verb = {
    .name = "devices",
    .usage = "devices",
    .text = "One line a device: its name as --device takes it, what it is, the instruction\n"
            "sets that kernels can use there and, of the others, what each would need.\n"
            "`--device opencl` is the first OpenCL device that is usable.",
    .example = "attngen devices",
    .exits = "the answer could not be written",
};

static void print_cpu(void)
{
    struct cpu cpu;
    cpu_detect(&cpu);
    printf("cpu  %s, %d %s:", cpu.model, cpu.cores, cpu.cores == 1 ? "thread" : "threads");
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_why_not(&cpu, (enum isa)isa))
            printf(" %s", field_value_name(F_ISA, isa));
    const char *before = " (not ", *after = "";
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const char *why = cpu_why_not(&cpu, (enum isa)isa);
        if (!why || isa_language((enum isa)isa) != LANGUAGE_C)
            continue;
        printf("%s%s: %s", before, field_value_name(F_ISA, isa), why);
        before = "; ";
        after = ")";
    }
    printf("%s\n", after);
}

static void print_device(int index, const struct opencl_device *d)
{
    printf("opencl:%d  %s %s, %s, driver %s, %s, %d compute %s, %lld KiB of local memory, work-groups to %lld:", index,
           opencl_type_name(d->type), d->name, d->platform_name, d->driver, d->c_version, d->units,
           d->units == 1 ? "unit" : "units", (long long)d->local_bytes / 1024, (long long)d->most_items);
    if (d->why_not[0])
        printf(" not usable: %s", d->why_not);
    for (int isa = 0; isa < ISA_COUNT && !d->why_not[0]; isa++)
        if (!device_isa_why_not(d, (enum isa)isa))
            printf(" %s", field_value_name(F_ISA, isa));
    printf("\n");
}

/* What is missing is told in the same place as what is there. */
static void print_opencl(void)
{
    struct opencl *cl;
    const struct opencl_device *devices;
    struct gen_error err = {""};
    if (opencl_open(&cl, &err) != 0) {
        printf("opencl  none: %s\n", err.text);
        return;
    }
    int n = opencl_devices(cl, &devices);
    for (int i = 0; i < n; i++)
        print_device(i, &devices[i]);
    if (n == 0)
        printf("opencl  none: no platform has a device; expected a driver, such as Debian's pocl-opencl-icd\n");
    opencl_close(cl);
}

int cli_devices(int argc, char **argv)
{
    struct options options;
    int code = CLI_OK;
    if (!options_begin(&verb, argc, argv, &options, &code))
        return code;
    print_cpu();
    print_opencl();
    return CLI_OK;
}
