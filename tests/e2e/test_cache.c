/* test_cache.c - the cache as a user meets it: moved to another place, raced for, its writers killed, its disk full or
 * read-only, its directory somebody else's. Tuning and running work in each case. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutate.h"
#include "seed.h"
#include "shell.h"

#define SHAPE "--shape 1,1,1,16,16,16 --threads 1"
#define TUNE "$ATTNGEN tune some.yaml " SHAPE

static void contains(const char *text, const char *piece)
{
    if (!strstr(text, piece))
        fail_msg("there is no '%s' in: %s", piece, text);
}

static int setup(void **state)
{
    (void)state;
    struct said said;
    shell_clean();
    shell_ok(&said,
             "rm -rf \"$ATTNGEN_CACHE\"; for v in 1 2; do printf 'head_dim: 16\\nisa: c\\ntile: {q: 64, k: 64}\\n"
             "micro: {rows: 4, vecs: %%s}\\nunroll: 1\\nsplit: 0\\n' $v > $v.yaml; done; cp 1.yaml some.yaml");
    return 0;
}

/* Small specs and plain C: the tests are about files. */
static void runs(void)
{
    struct said said;
    const char *data = "\"$ROOT\"/tests/data/minilm-layer3";
    shell(&said, "$ATTNGEN run -q %s/q.npy -k %s/k.npy -v %s/v.npy -o \"$SCRATCH\"/o.npy --threads 1", data, data,
          data);
    assert_int_equal(said.code, 0);
    shell(&said, "$ATTNGEN bench " SHAPE " --time-limit 0.05");
    assert_int_equal(said.code, 0);
}

/* ---- export and import ---- */

static void test_moved(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, TUNE);
    contains(said.out, "stored in");
    shell_ok(&said, "$ATTNGEN cache export moved.txt");
    contains(said.out, "exported 1 entry from ");
    shell_ok(&said, "$ATTNGEN cache export /dev/stdout | cmp - moved.txt; test $(ls | wc -l) = 4");
    shell_ok(&said, "export ATTNGEN_CACHE=$PWD/second; $ATTNGEN cache import moved.txt; " TUNE "; ls -a second; "
                    "$ATTNGEN cache export again.txt; cmp moved.txt again.txt");
    contains(said.out, "imported 1 entry into ");
    contains(said.out, "from the cache (");
}

static void test_refused(void **state)
{
    (void)state;
    struct said said;
    static const char *const broken[] = {
        "head -n 5 good.txt",    "head -c 100 good.txt",   "sed 's/threads 1/threads 2/' good.txt",
        "cat some.yaml",         "cat $ATTNGEN",           ":",
        "cat good.txt good.txt", "tr -d '\\n' < good.txt", "sed 's/$/\\r/' good.txt"};
    shell_ok(&said, TUNE "; $ATTNGEN cache export good.txt; $ATTNGEN cache clear");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        shell(&said, "%s > broken.txt; $ATTNGEN cache import broken.txt", broken[i]);
        assert_int_equal(said.code, 1);
        assert_int_equal(strncmp(said.err, "broken.txt:", 11), 0);
        contains(said.err, ": error: ");
        contains(said.err, "; expected ");
        shell_ok(&said, "$ATTNGEN cache show");
        contains(said.out, "nothing is cached in");
    }
    shell(&said, "$ATTNGEN cache import .");
    assert_int_equal(said.code, 1);
    contains(said.err,
             ".: error: it cannot be read: Is a directory; expected a file that `attngen cache export` wrote");
    shell(&said, "$ATTNGEN cache import /dev/zero");
    assert_int_equal(said.code, 1);
    contains(said.err, "/dev/zero: error: the file is larger than 256 MiB; expected ");
    shell(&said, "$ATTNGEN cache export nowhere/x");
    assert_int_equal(said.code, 1);
    shell(&said, "$ATTNGEN cache export");
    assert_int_equal(said.code, 2);
    contains(said.err, "export needs one more word; expected the name of a file");
    shell(&said, "$ATTNGEN cache import a b");
    assert_int_equal(said.code, 2);
    contains(said.err, "'b' is one word too many");
}

/* ---- several processes ---- */

/* Each finds candidates that the other does not look at, for one key. */
static void test_race(void **state)
{
    (void)state;
    struct said said;
    for (int round = 0; round < 6; round++) {
        shell_ok(&said, "rm -rf \"$ATTNGEN_CACHE\"; $ATTNGEN tune 1.yaml " SHAPE " > 1.said & "
                        "$ATTNGEN tune 2.yaml " SHAPE " > 2.said; wait $! && grep -h stored 1.said 2.said | wc -l");
        assert_string_equal(said.out, "2\n");
        shell_ok(&said, "$ATTNGEN cache export /dev/stdout");
        contains(said.out, "_r4x1u1 ");
        contains(said.out, "_r4x2u1 ");
        shell_ok(&said, "cat 1.yaml > some.yaml; " TUNE "; cat 2.yaml > some.yaml; " TUNE);
        assert_null(strstr(said.out, "stored"));
        shell_ok(&said, "ls \"$ATTNGEN_CACHE\" | wc -l");
        assert_string_equal(said.out, "2\n"); /* the entry, the lock */
    }
}

static void test_killed(void **state)
{
    (void)state;
    struct said said;
    uint64_t seed = test_seed();
    int killed = 0;
    for (int i = 0; i < 25; i++) {
        shell_ok(&said,
                 "{ timeout -s KILL 0.%03d $ATTNGEN tune %d.yaml --shape 1,1,1,16,%d,16 --threads 1 > said; echo $?; "
                 "} 2> said",
                 1 + (int)dice(&seed, 150), 1 + i % 2, 16 << i % 3);
        assert_true(!strcmp(said.out, "0\n") || !strcmp(said.out, "137\n"));
        killed += said.out[0] != '0';
        assert_true(shell_files(getenv("ATTNGEN_CACHE")) <= 3 + 1 + 1); /* three problems, the lock, one left beside */
    }
    print_message("# %d of 25 killed\n", killed);
    shell_ok(&said, TUNE "; $ATTNGEN tune 1.yaml --shape 1,1,1,16,128,16 --threads 1; $ATTNGEN cache show");
    shell_ok(&said, "ls \"$ATTNGEN_CACHE\" | grep -v '\\.tune$' | tr '\\n' ' '");
    assert_string_equal(said.out, "lock ");
}

/* ---- disks and directories ---- */

/* The command that gives a shell a mount table of its own, in which it may mount; NULL: no such command works here. */
static const char *own_mounts(void)
{
    static const char *const ways[] = {"unshare -m", "unshare -rm"};
    struct said said;
    for (int i = 0; i < 2; i++) {
        shell(&said,
              "mkdir -p disk; %s sh -c 'mount -t tmpfs -o size=64k,mode=0700 none disk && touch disk/x' && test ! -e "
              "disk/x",
              ways[i]);
        if (said.code == 0)
            return ways[i];
    }
    return NULL;
}

static void tunes_without_storing(const struct said *said)
{
    assert_int_equal(said->code, 0);
    contains(said->out, "winner attn_f32_d16_on_c_q64k64_r4x1u1, not stored: ");
}

static void test_full_disk(void **state)
{
    (void)state;
    struct said said;
    const char *mounts = own_mounts();
    if (mounts) {
        shell(&said,
              "%s sh -c 'mount -t tmpfs -o size=64k,mode=0700 none disk; export ATTNGEN_CACHE=$PWD/disk; "
              "$ATTNGEN tune 2.yaml " SHAPE "; cat /dev/zero > disk/filler; cp 1.yaml some.yaml; echo FULL; " TUNE
              "; echo code $?; " TUNE " --quiet; ls disk; $ATTNGEN tune 2.yaml " SHAPE "; $ATTNGEN bench " SHAPE
              " --time-limit 0.05 --json; "
              "$ATTNGEN cache export out.txt; $ATTNGEN cache import out.txt; echo code $?; rm disk/filler; " TUNE "'",
              mounts);
        contains(said.out, "not stored: ");
        contains(said.out, "No space left on device\ncode 0\n");
        contains(said.err, "attngen tune: warning: the winner was not stored: ");
        contains(said.out, "from the cache ("); /* what was there before */
        contains(said.out, "\"cached\": true");
        contains(said.err, ": error: nothing was imported: No space left on device");
        contains(said.out, "code 1\n");
        const char *after = strstr(said.out, "code 1\n");
        contains(after, "stored in");                            /* when there is room again */
        assert_null(strstr(strstr(said.out, "FULL"), ".tune.")); /* nothing is left beside */
    } else {
        print_message("# no tmpfs can be mounted here: a limit on the size of files stands in for it\n");
        shell(&said, "trap '' XFSZ; (ulimit -f 0; " TUNE ") | cat");
        tunes_without_storing(&said);
        assert_int_equal(shell_files(getenv("ATTNGEN_CACHE")), 1); /* the lock */
    }
    runs();
}

static void test_read_only_disk(void **state)
{
    (void)state;
    struct said said;
    const char *mounts = own_mounts();
    if (!mounts) {
        print_message("# skipped: nothing can be mounted here\n");
        skip();
    }
    shell(&said,
          "%s sh -c 'mount -t tmpfs -o mode=0700 none disk; export ATTNGEN_CACHE=$PWD/disk; $ATTNGEN tune 2.yaml " SHAPE
          "; mount -o remount,bind,ro disk; " TUNE "; echo code $?; $ATTNGEN tune 2.yaml " SHAPE
          "; $ATTNGEN cache export "
          "out.txt; $ATTNGEN cache import out.txt; $ATTNGEN cache clear; $ATTNGEN cache show'",
          mounts);
    contains(said.out, "not stored: ");
    contains(said.out, "Read-only file system\ncode 0\n");
    contains(said.out, "from the cache (");
    contains(said.out, "exported 1 entry");
    contains(said.err, "nothing was imported: Read-only file system");
    contains(said.err, "not cleared: Read-only file system");
    contains(said.out, "c_q64k64_r4x2u1"); /* still there */
}

/* A directory that may not be written to. Root would not notice that, so another user tries, in a place that this user can
 * reach. */
static void test_read_only_directory(void **state)
{
    (void)state;
    struct said said;
    bool root = geteuid() == 0;
    const char *as = root ? "setpriv --reuid=65534 --regid=65534 --clear-groups" : "";
    shell_ok(&said, "mktemp -d /tmp/attngen-e2e-XXXXXX | tr -d '\\n'");
    setenv("ELSEWHERE", said.out, 1);
    shell_ok(&said,
             "chmod 755 \"$ELSEWHERE\"; cp \"$ATTNGEN\" ?.yaml \"$ELSEWHERE\"; cd \"$ELSEWHERE\"; chmod 755 attngen; "
             "chmod 644 *.yaml; mkdir -m 0700 mine");
    shell(&said, "cd \"$ELSEWHERE\" && { test -z '%s' || { chown 65534:65534 mine && %s ./attngen --version; }; }", as,
          as);
    if (said.code == 0) {
        shell_ok(&said,
                 "cd \"$ELSEWHERE\"; export ATTNGEN_CACHE=$PWD/mine; %s ./attngen tune 2.yaml " SHAPE
                 " && rm mine/lock && chmod 0500 mine",
                 as);
        shell_ok(&said, "cd \"$ELSEWHERE\"; export ATTNGEN_CACHE=$PWD/mine; %s ./attngen tune 1.yaml " SHAPE, as);
        contains(said.out, "not stored: ");
        contains(said.out, "Permission denied");
        shell_ok(&said,
                 "cd \"$ELSEWHERE\"; export ATTNGEN_CACHE=$PWD/mine; %s ./attngen tune 2.yaml " SHAPE
                 " && %s ./attngen bench " SHAPE " --time-limit 0.05 --json",
                 as, as);
        contains(said.out, "from the cache (");
        contains(said.out, "\"cached\": true");
        shell_ok(&said, "cd \"$ELSEWHERE\"; ls mine | wc -l; chmod 0700 mine");
        assert_string_equal(said.out, "1\n");
    }
    bool could = said.code == 0;
    shell_ok(&said, "rm -rf \"$ELSEWHERE\"");
    if (!could) {
        print_message("# skipped: root cannot become another user here\n");
        skip();
    }
}

static void is_not_used(const char *why)
{
    struct said said;
    shell(&said, TUNE);
    tunes_without_storing(&said);
    contains(said.err, "attngen tune: warning: ");
    contains(said.err, ": the cache is not used: ");
    contains(said.err, why);
    assert_null(strstr(strstr(said.err, "warning: ") + 1, "warning: ")); /* once */
    shell(&said, "$ATTNGEN cache show");
    assert_int_equal(said.code, 1);
    contains(said.err, why);
    shell(&said, "$ATTNGEN explain attn_f32_d16_on_c_q64k64_r4x1u1; $ATTNGEN report -o page.html");
    contains(said.err, "attngen explain: warning: ");
    contains(strstr(said.err, "attngen report: warning: "), why); /* and not only that there is no entry */
    shell(&said, "$ATTNGEN cache export out.txt || $ATTNGEN cache import good.txt");
    assert_int_equal(said.code, 1);
    assert_int_equal(access("out.txt", F_OK), -1);
    runs();
}

static void test_unsafe_directory(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, "$ATTNGEN tune 2.yaml " SHAPE " && $ATTNGEN cache export good.txt");
    shell_ok(&said, "chmod 0770 \"$ATTNGEN_CACHE\"; cd \"$ATTNGEN_CACHE\" && ls -l > \"$SCRATCH\"/before");
    is_not_used("others may write to it; expected a directory of mode 0700 that belongs to this user\n");
    if (geteuid() == 0) {
        shell_ok(&said, "chmod 0700 \"$ATTNGEN_CACHE\"; chown 12345 \"$ATTNGEN_CACHE\"");
        is_not_used("it belongs to another user");
    } else
        print_message("# not root: no directory can be made somebody else's\n");
    shell_ok(&said, "cd \"$ATTNGEN_CACHE\" && ls -l | cmp - \"$SCRATCH\"/before");
    if (geteuid() == 0)
        shell_ok(&said, "chown root \"$ATTNGEN_CACHE\"");
    shell_ok(&said, "chmod 0700 \"$ATTNGEN_CACHE\"; $ATTNGEN tune 2.yaml " SHAPE);
    contains(said.out, "from the cache (");
}

/* A place where no directory can be made: why not is said, and that of the first that could not. */
static void test_cannot_be_made(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, "echo kept > file");
    static const char *const cases[][2] = {
        {"/proc/attngen/cache", "No such file or directory"},
        {"$PWD/file/cache", "Not a directory"},
        {"$PWD/file", "Not a directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[160];
        shell(&said, "ATTNGEN_CACHE=%s; export ATTNGEN_CACHE; " TUNE, cases[i][0]);
        tunes_without_storing(&said);
        snprintf(expected, sizeof expected,
                 ": it cannot be used as a cache: %s; expected a directory of mode 0700 that belongs to this user\n", cases[i][1]);
        contains(said.out, expected);
    }
    shell_ok(&said, "cat file");
    assert_string_equal(said.out, "kept\n");
    shell(&said, "ATTNGEN_CACHE=$(printf %%01024d 0) $ATTNGEN cache path");
    assert_int_equal(said.code, 1);
    contains(said.err, "ATTNGEN_CACHE to name one, in less than 1024 bytes\n");
}

/* What cannot be read is not taken for absent without a word. */
static void test_unreadable(void **state)
{
    (void)state;
    struct said said;
    shell_ok(&said, "$ATTNGEN tune 2.yaml " SHAPE " && $ATTNGEN cache show");
    assert_string_equal(said.err, "");
    shell(&said, "cd \"$ATTNGEN_CACHE\"; sed -i '1s/cache 3/cache 2/' *.tune; "
                 "cp *.tune 0123456789abcdef0123456789abcdef.tune; "
                    "$ATTNGEN cache show; $ATTNGEN cache export out.txt; $ATTNGEN cache show --json");
    assert_int_equal(said.code, 0);
    contains(said.out, "nothing is cached in ");
    contains(said.err, ": 2 entries cannot be read and are left out: damaged, or of another version; `attngen cache clear` ");
    assert_non_null(strstr(strstr(said.err, "2 entries") + 1, "2 entries")); /* export too */
    contains(said.out, "\"entries\": [], \"unreadable\": 2}\n");
    shell_ok(&said, "$ATTNGEN cache clear; $ATTNGEN cache show --json");
    contains(said.out, "removed 2 entries");
    contains(said.out, "\"unreadable\": 0}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_moved, setup),
        cmocka_unit_test_setup(test_refused, setup),
        cmocka_unit_test_setup(test_race, setup),
        cmocka_unit_test_setup(test_killed, setup),
        cmocka_unit_test_setup(test_full_disk, setup),
        cmocka_unit_test_setup(test_read_only_disk, setup),
        cmocka_unit_test_setup(test_read_only_directory, setup),
        cmocka_unit_test_setup(test_unsafe_directory, setup),
        cmocka_unit_test_setup(test_cannot_be_made, setup),
        cmocka_unit_test_setup(test_unreadable, setup),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
