/* memory.c - see memory.h. Linux gives out memory that it has not got, and ends a process when that is written to; so
 * that malloc's answer says nothing. */
#include "memory.h"

#include <math.h>
#include <stdio.h>

/* The number behind `word` in a file of lines, or of one number where word is "". */
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
    const double container = read_number("/sys/fs/cgroup/memory.max", ""); /* "max", no number, where there is no limit */
    return fmin(machine, container);
}
