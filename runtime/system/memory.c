/* memory.c - see memory.h. Linux grants more memory than it has, and ends a process when that memory is written to, so
 * the success of malloc means nothing. */
#include "memory.h"

#include <math.h>
#include <stdio.h>

/* The number after `word` in a file of lines, or the only number in it if word is "". */
static double read_number(const char *path, const char *word)
{
    char line[256], format[64];
    double number = INFINITY;
    FILE *file = fopen(path, "re");
    if (!file)
        return INFINITY;
    snprintf(format, sizeof format, "%s%%lf", word);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1)
            break;
    fclose(file);
    return number;
}

double memory_left(void)
{
    const double machine = 1024 * read_number("/proc/meminfo", "MemAvailable: ");
    const double container = read_number("/sys/fs/cgroup/memory.max", ""); /* "max", not a number: no limit */
    return fmin(machine, container);
}
