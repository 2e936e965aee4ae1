#!/bin/bash
# What tests/run.sh makes of tests that pass, skip, fail, crash, hang, end early or say nothing. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh

# test_says NAME TEXT...: a test of that name that runs the lines.
test_says() { printf '%s\n' '#!/bin/bash' "${@:2}" > "$dir/$1" && chmod +x "$dir/$1"; }
# fails_for REASON TEST: run.sh fails, says the reason, and names the test at its end.
fails_for() {
    TEST_TIMEOUT=$patience tests/run.sh "$dir/passes" "$dir/$2" > "$dir/out" && return 1
    grep -E -- "$1" "$dir/out" && grep -E "^failed: .*/$2\$" "$dir/out" && return 0
    cat "$dir/out"
    return 1
}

test_says passes 'echo "# seed 7"' 'echo "ok 1 - it"' 'echo 1..1'
test_says skips 'echo "ok 1 - one # SKIP there is no card"' 'echo "ok 2 - two # SKIP there is no card"' 'echo "ok 3 - it"' 'echo 1..3'
test_says wrong 'echo "ok 1 - it"' 'echo "not ok 2 - that"' 'echo "# 3 is not 4"' 'echo 1..2' 'exit 1'
test_says crashes 'echo 1..1' 'echo "ok 1 - it"' 'kill -SEGV $$'
test_says hangs 'echo 1..1' 'echo "ok 1 - it"' 'exec sleep 60'
test_says early 'echo 1..2' 'echo "ok 1 - it"'
test_says silent ':'
test_says ends 'echo 1..1' 'echo "ok 1 - it"' 'exit 3'

echo '1..11'
patience=60
check 'a test that passes passes' says '^1 passed, 0 failed, 0 skipped$' tests/run.sh "$dir/passes"
check 'its seed is shown' says '^    # seed 7$' tests/run.sh "$dir/passes"
check 'skipped tests fail nothing' says '^2 passed, 0 failed, 2 skipped$' tests/run.sh "$dir/passes" "$dir/skips"
check 'the reason is shown, with the number of tests' says '^    2 skipped: there is no card$' tests/run.sh "$dir/skips"
check 'a wrong result is a failure, shown with what the test said' fails_for '^    # 3 is not 4$' wrong
check 'so is a crash' fails_for 'killed by signal 11' crashes
patience=1
check 'and a test that hangs' fails_for 'hung for more than 1 s' hangs
patience=60
check 'and one that ends early' fails_for 'ran 1 of 2 tests' early
check 'and one that says nothing' fails_for 'ran no test' silent
check 'and one that only exits so' fails_for 'exit status 3' ends
check 'running nothing is a failure' refuses tests/run.sh
