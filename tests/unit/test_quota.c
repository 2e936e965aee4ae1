/* test_quota.c - quotas of control groups, read from trees of files like those that the kernel shows: both versions, groups
 * within groups, containers, and what no quota can be read from. What it is not: a test of the kernel. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/system/quota.h"
#include "runtime/system/threads.h"

#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
#define OTHERS                                                                                                         \
    "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"                                                                            \
    "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"

static void write_file(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Pairs of names and texts; NULL ends them. */
static int cores_of(const char *const files[])
{
    char root[] = "/tmp/attn-quota-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    for (int i = 0; files[i]; i += 2)
        write_file(root, files[i], files[i + 1]);
    int cores = quota_cores(root);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    return cores;
}
#define CORES(...) cores_of((const char *const[]){__VA_ARGS__, NULL})
#define GROUPS "/proc/self/cgroup"
#define MOUNTS "/proc/self/mountinfo"

static void version_2(void **state)
{
    (void)state;
#define IN(path, ...) CORES(GROUPS, "0::" path "\n", MOUNTS, OTHERS V2, __VA_ARGS__)
    assert_int_equal(IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n"), 2);
    assert_int_equal(IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"), 2);
    assert_int_equal(IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "1000 100000\n"), 1);
    assert_int_equal(IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"), INT_MAX);
    assert_int_equal(
        IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n", "/sys/fs/cgroup/a/cpu.max", "300000 100000\n"), 3);
    assert_int_equal(IN("/a/b", "/sys/fs/cgroup/a/b/cpu.max", "500000 50000\n", "/sys/fs/cgroup/a/cpu.max", "4 1\n"),
                     4);
    assert_int_equal(IN("/", "/sys/fs/cgroup/cpu.max", "700000 100000\n"), 7);
    assert_int_equal(IN("/a", "/sys/fs/cgroup/b/cpu.max", "100000 100000\n"), INT_MAX); /* another's */
#undef IN
    /* A container whose group is all that it sees of the tree, and one that is told the whole path all the same. */
    assert_int_equal(CORES(GROUPS, "0::/\n", MOUNTS, V2, "/sys/fs/cgroup/cpu.max", "250000 100000\n"), 3);
    assert_int_equal(CORES(GROUPS, "0::/docker/c1/x\n", MOUNTS,
                           "30 23 0:26 /docker/c1 /groups\\040here rw - cgroup2 c rw\n", "/groups here/x/cpu.max",
                           "400000 100000\n", "/groups here/cpu.max", "200000 100000\n"),
                     2);
    assert_int_equal(CORES(GROUPS, "0::/../other\n", MOUNTS, "30 23 0:26 /docker/c1 /sys/fs/cgroup rw - cgroup2 c rw\n",
                           "/sys/fs/cgroup/cpu.max", "200000 100000\n"),
                     2);
}

static void version_1(void **state)
{
    (void)state;
#define IN(...) CORES(GROUPS, "12:cpuset:/q\n4:cpu,cpuacct:/s/t\n0::/u\n", MOUNTS, OTHERS V1, __VA_ARGS__)
#define AT "/sys/fs/cgroup/cpu,cpuacct"
    assert_int_equal(IN(AT "/s/t/cpu.cfs_quota_us", "200000\n", AT "/s/t/cpu.cfs_period_us", "100000\n"), 2);
    assert_int_equal(IN(AT "/s/t/cpu.cfs_quota_us", "-1\n", AT "/s/t/cpu.cfs_period_us", "100000\n"), INT_MAX);
    assert_int_equal(IN(AT "/s/cpu.cfs_quota_us", "450000\n", AT "/s/cpu.cfs_period_us", "100000\n",
                        AT "/s/t/cpu.cfs_quota_us", "-1\n", AT "/s/t/cpu.cfs_period_us", "100000\n"),
                     5);
    assert_int_equal(IN(AT "/s/t/cpu.cfs_quota_us", "200000\n", AT "/s/t/cpu.cfs_period_us", "0\n"), INT_MAX);
    assert_int_equal(IN("/sys/fs/cgroup/cpuset/q/cpu.cfs_quota_us", "1\n"), INT_MAX);
#undef AT
#undef IN
}

static void nothing_to_read(void **state)
{
    (void)state;
    assert_int_equal(CORES(NULL), INT_MAX);
    assert_int_equal(CORES(GROUPS, "0::/a\n"), INT_MAX);
    assert_int_equal(CORES(MOUNTS, V2, "/sys/fs/cgroup/cpu.max", "100000 100000\n"), INT_MAX);
    assert_int_equal(CORES(GROUPS, "", MOUNTS, ""), INT_MAX);
    assert_int_equal(CORES(GROUPS, "0\n:\n0:\n::\n", MOUNTS, " - \n1 2 3 - cgroup2 x y\n - cgroup2\n1 2 3 4 5 6 -\n"),
                     INT_MAX);
    for (int i = 0; i < 5; i++) {
        static const char *const odd[] = {"", "max", "0 0\n", "-5 100000\n", "99999999999999999999 1\n"};
        assert_int_equal(CORES(GROUPS, "0::/\n", MOUNTS, V2, "/sys/fs/cgroup/cpu.max", odd[i]), INT_MAX);
    }
    char *path = malloc(20000);
    assert_non_null(path);
    memset(path, 'x', 20000);
    memcpy(path, "0::/", 4);
    path[19998] = '\n', path[19999] = 0;
    assert_int_equal(CORES(GROUPS, path, MOUNTS, V2, "/sys/fs/cgroup/cpu.max", "100000 100000\n"), INT_MAX);
    free(path);
}

/* What counts here is the process's own. */
static void this_process(void **state)
{
    (void)state;
    assert_true(quota_cores("") >= 1);
    assert_true(cores() >= 1 && cores() <= quota_cores(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),
        cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
