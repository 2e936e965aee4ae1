#!/bin/bash
# Runs test programs, as many at once as there are cores, each in a cache of its own, and adds up what they say in TAP.
# Fails when a test failed, a program crashed, hung, ended early or ran nothing. What it is not: a builder of them (see
# tests.mk).
#
#     tests/run.sh PROGRAM|SCRIPT...      TEST_TIMEOUT: seconds for each, 0 for none (600)
#                                         TEST_JOBS: how many at once
set -u
cd "$(dirname "$0")/.."
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export CMOCKA_MESSAGE_OUTPUT=TAP
export POCL_CACHE_DIR=$scratch/pocl # PoCL keeps what it compiled; shared by all tests, gone with them
export LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$PWD/tests/kit/leaks.supp:print_suppressions=0}
export TSAN_OPTIONS=${TSAN_OPTIONS-die_after_fork=0 exitcode=66} # children of the tests start threads
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1} UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
TIMEFORMAT='%U %S' # what a test and its children took of the processors; others may have been at work beside it
passed=0 failed=0 skipped=0 failures=()

# Prints passed, failed, skipped and planned tests of the TAP on standard input. cmocka 1.1.5 says `not ok 2 # SKIP`.
count() {
    awk '/^(not )?ok [0-9]+.*# SKIP/ { s++; next }
         /^ok [0-9]+/ { p++; next }
         /^not ok [0-9]+/ { f++; next }
         /^1\.\.[0-9]+/ { n += substr($1, 4) }
         END { print p + 0, f + 0, s + 0, n + 0 }'
}

# Prints what the TAP on standard input says beside its verdicts: seeds, and how many tests were skipped for which reason.
remarks() {
    awk '/^ok [0-9]+ - .*# SKIP ./ { sub(/.*# SKIP /, ""); if (!skipped[$0]++) reasons[++count] = $0; next }
         /^(ok [0-9]+ - .*|1\.\.[0-9]+|TAP version.*|# ok - .*)$/ { next }
         { print "    " $0 }
         END { for (i = 1; i <= count; i++) print "    " skipped[reasons[i]] " skipped: " reasons[i] }'
}

# One program, in a folder of its own: its verdict in a file there, and what to print about it.
run_one() {
    local test=$1 room=$2 status took busy p f s n why='' name bin=out/bin
    mkdir -p "$room/tmp"
    # A program of another build, out/obj/sanitized/bin/tests/..., tests that build's attngen.
    [[ $test == */bin/tests/* ]] && bin=${test%%/tests/*}
    export ATTNGEN=$PWD/$bin/attngen ATTNGEN_EMIT=$PWD/$bin/attngen-emit
    export ATTNGEN_CACHE=$room/cache TMPDIR=$room/tmp

    local start=$EPOCHREALTIME
    { time timeout --foreground "${TEST_TIMEOUT:-600}" "$test" > "$room/output" 2>&1 < /dev/null; } 2> "$room/busy"
    status=$?
    took=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }")
    busy=$(awk 'END { printf "%.1f", $1 + $2 }' "$room/busy")
    read -r p f s n < <(count < "$room/output")

    [[ $status == 124 ]] && why="hung for more than ${TEST_TIMEOUT:-600} s"
    [[ -z $why && $status -gt 128 ]] && why="killed by signal $((status - 128))"
    [[ -z $why && $f == 0 && $status != 0 ]] && why="exit status $status"
    [[ -z $why && $n == 0 ]] && why='ran no test'
    [[ -z $why && $((p + f + s)) != "$n" ]] && why="ran $((p + f + s)) of $n tests"
    [[ -n $why ]] && f=$((f + 1))

    name=${test#"$PWD"/}
    name=${name#out/bin/}
    {
        echo "$name: $p passed, $f failed, $s skipped, $took s, of processors $busy s${why:+ ($why)}"
        if [[ $f != 0 ]]; then
            sed 's/^/    /' "$room/output"
        else
            remarks < "$room/output"
        fi
    } > "$room/report"
    rm -rf "$room/cache" "$room/tmp"
    cat "$room/report"
    echo "$p $f $s $name" > "$room/verdict"
}

jobs=${TEST_JOBS:-$(nproc 2>/dev/null || echo 2)} at=0
for test in "$@"; do
    while (($(jobs -rp | wc -l) >= jobs)); do
        wait -n
    done
    run_one "$test" "$scratch/$at" &
    at=$((at + 1))
done
wait
for ((i = 0; i < at; i++)); do
    p=0 f=1 s=0 name="test $i, which left no verdict"
    [[ -f $scratch/$i/verdict ]] && read -r p f s name < "$scratch/$i/verdict"
    ((f)) && failures+=("$name")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done

[[ ${#failures[@]} == 0 ]] || echo "failed: ${failures[*]}"
echo "$SECONDS s in all"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $passed != 0 ]]
