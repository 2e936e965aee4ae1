/* quota.h - how many cores the system grants the process by the quotas of its control groups, which containers and
 * services have. What it is not: the cores that it may run on (threads.h). */
#ifndef ATTNGEN_SYSTEM_QUOTA_H
#define ATTNGEN_SYSTEM_QUOTA_H

/* The cores' worth of time, rounded up, that the process's group and all groups around it allow: cpu.max of cgroup v2,
 * cpu.cfs_quota_us of v1. INT_MAX: there is no known quota. `root` is put before the names of the system's files; it is
 * "" except in tests. */
int quota_cores(const char *root);

#endif
