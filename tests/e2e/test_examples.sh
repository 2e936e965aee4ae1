#!/bin/bash
# tests/examples as people would use them: ten lines against the library that was just built, and a foreign tree with an
# emitted file in it, in a copy of its own, by its own Makefile. Prints TAP. (test_install.sh has what is installed.)
set -u
cd "$(dirname "$0")/../.."
root=$PWD
attngen=${ATTNGEN:-$PWD/out/bin/attngen}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh


echo '1..8'
cp -r tests/examples "$dir/examples"
cd "$dir/examples" || exit 1
check 'ten lines compile' gcc -std=c11 -Wall -Wextra -Werror -I"$root/runtime" ten_lines.c \
    -L"$root/out/lib" -lattn -o ten_lines
run_ten_lines() { LD_LIBRARY_PATH=$root/out/lib ./ten_lines; }
check 'and run' prints '0 0.5 49.5' run_ten_lines

cd vendored || exit 1
expected='0: 0.000 1.000
77: 77.000 1.000
199: 199.000 1.000'
# Nothing of this tree but the emitted file, and no path that leads out of it.
check 'the foreign tree knows no header of ours' refuses grep -rnE 'attn\.h|args\.h|\.\./' .
check 'it builds' make -s CC=gcc
check 'and runs' prints "$expected" ./similar
fresh() {
    local name
    name=$(sed -n '1s/^.*--variant //p' src/attention.c)
    "$attngen" emit --variant "$name" -o "$dir/emitted" && cp "$dir/emitted/$name.c" src/attention.c
}
check 'its first line says how to emit it anew' fresh
check 'what is emitted now fits in its place' make -s CC="$(command -v clang || echo gcc)"
check 'and gives the same' prints "$expected" ./similar
