#!/bin/bash
# specs/README.md as a reader would follow it: its programs go into files by their first line, its commands are run in their order.
# Prints TAP. What it is not: a test that sources are clean (test_vendor.c).
set -u
cd "$(dirname "$0")/../.."
export SPECS=$PWD/specs
page=$SPECS/README.md
attngen=${ATTNGEN:-$PWD/out/bin/attngen}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
ln -s "$attngen" "$dir/bin/attngen"
PATH=$dir/bin:$PATH

# Each block of C is a file, which its first line names; each block of commands one too, by its number.
awk -v dir="$dir" '
    /^```/ { kind = kind == "" ? substr($0, 4) : ""; first = 1; next }
    kind == "c" && first { file = dir "/" $2 }
    kind == "sh" && first { file = sprintf("%s/%d.sh", dir, ++commands) }
    kind != "" { print > file; first = 0 }' "$page"
cd "$dir" || exit 1
number=$(ls [0-9].sh | wc -l)
echo "1..$((number + 1))"
for ((i = 1; i <= number; i++)); do
    if bash -eu $i.sh > said 2>&1; then
        echo "ok $i - $(tail -n 1 $i.sh)"
    else
        echo "not ok $i - $(tail -n 1 $i.sh)"
        tail -n 20 said | sed 's/^/# /'
    fi
done
[[ $number == 4 ]] && grep -qx 'the same' said && echo -n "ok $i" || echo -n "not ok $i"
echo ' - strides in place of copies give the same bits'
