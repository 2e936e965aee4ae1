/* quota.h - how much of the machine's cores the system grants the process: the quotas of its control groups, as containers
 * and services have them. What it is not: which cores it may run on (threads.h). */
#ifndef ATTNGEN_SYSTEM_QUOTA_H
#define ATTNGEN_SYSTEM_QUOTA_H

/* Cores' worth of time, rounded up, that the process's groups and all groups around them leave it: cpu.max of cgroup v2,
 * cpu.cfs_quota_us of v1. INT_MAX: no quota is known. `root` is put before the names of the system's files: "" but in
 * tests. */
int quota_cores(const char *root);

#endif
