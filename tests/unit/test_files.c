/* test_files.c - files in places that others may change: folders for other programs, and what is opened in place. What
 * it is not: the compiler that works in such a folder (test_cc.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/system/files.h"

static char base[64], before[500];

static int enter(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/attngen-test-files-XXXXXX");
    snprintf(before, sizeof before, "%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(base) ? setenv("TMPDIR", base, 1) : -1;
}

static int leave(void **state)
{
    char command[100];
    (void)state;
    setenv("TMPDIR", before, 1);
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

static void opens_in_place_what_is_no_file(void **state)
{
    char path[100];
    (void)state;
    snprintf(path, sizeof path, "%s/pipe", base);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK), fd = file_open_in_place(path);
    assert_true(reader >= 0 && fd >= 0);
    close(reader);
    close(fd);
    assert_int_equal(unlink(path), 0);
    fd = open(path, O_WRONLY | O_CREAT, 0600); /* takes its place */
    assert_int_equal(write(fd, "kept", 4), 4);
    close(fd);
    errno = 0;
    assert_int_equal(file_open_in_place(path), -1);
    assert_int_equal(errno, EEXIST);
}

/* By its path if only this user and root can rename what is on the way, else by the descriptor. */
static void ways_to_folders(void **state)
{
    struct folder f;
    char path[FOLDER_ROOM + 20];
    struct stat s;
    (void)state;
    for (int unsafe = 0; unsafe < 3; unsafe++) {
        assert_int_equal(chmod(base, unsafe == 0 ? 0700 : unsafe == 1 ? 0777 : 01777), 0);
        assert_int_equal(folder_create(&f), 0);
        assert_int_equal(strncmp(f.path, unsafe == 1 ? "/proc/" : base, unsafe == 1 ? 6 : strlen(base)), 0);
        assert_int_equal(stat(f.path, &s), 0);
        assert_int_equal(s.st_mode & 07777, 0700);
        snprintf(path, sizeof path, "%s/file", f.path);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
        folder_remove(&f);
        assert_int_equal(access(f.made, F_OK), -1);
    }
}

/* A folder that took the place of ours keeps what is in it. */
static void removes_no_other_folder(void **state)
{
    struct folder f;
    char path[FOLDER_ROOM + 20], aside[100];
    (void)state;
    assert_int_equal(folder_create(&f), 0);
    snprintf(aside, sizeof aside, "%s/aside", base);
    assert_int_equal(rename(f.made, aside), 0);
    assert_int_equal(mkdir(f.made, 0700), 0);
    snprintf(path, sizeof path, "%s/precious", f.made);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    folder_remove(&f);
    assert_int_equal(access(path, F_OK), 0);
}

/* Of 9 bytes or less, ours, and a file. */
static void reads_whole_files(void **state)
{
    struct folder f;
    size_t size = 0;
    (void)state;
    assert_int_equal(folder_create(&f), 0);
    int fd = openat(f.dir, "file", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(file_write(fd, "nine byte", 9), 0);
    close(fd);
    char *data = file_read_at(f.dir, "file", 9, &size);
    assert_non_null(data);
    assert_int_equal(size, 9);
    assert_memory_equal(data, "nine byte", 9);
    free(data);
    assert_null(file_read_at(f.dir, "file", 8, &size));
    assert_int_equal(symlinkat("file", f.dir, "link"), 0);
    assert_null(file_read_at(f.dir, "link", 9, &size));
    assert_int_equal(mkfifoat(f.dir, "pipe", 0600), 0);
    assert_null(file_read_at(f.dir, "pipe", 9, &size));
    folder_remove(&f);
}

static void *create_folders(void *arg)
{
    (void)arg;
    for (int i = 0; i < 400; i++) {
        struct folder f;
        if (folder_create(&f) != 0)
            return strdup(strerror(errno));
        if (f.dir < 0 || access(f.made, F_OK) != 0)
            return strdup("another one removed the folder while it was in use");
        folder_remove(&f);
    }
    return NULL;
}

/* Between the making of a folder and its lock, another one may take it for one that was left, and remove it. */
static void many_at_once(void **state)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    char why[200] = "";
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, create_folders, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        char *said = NULL;
        pthread_join(thread[i], (void **)&said);
        if (said)
            snprintf(why, sizeof why, "%s", said);
        free(said);
    }
    assert_string_equal(why, "");
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(opens_in_place_what_is_no_file),
        IN_PLACE(ways_to_folders),
        IN_PLACE(removes_no_other_folder),
        IN_PLACE(reads_whole_files),
        IN_PLACE(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
