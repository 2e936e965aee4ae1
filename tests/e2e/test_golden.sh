#!/bin/bash
# The specs of the gallery give the bytes that are committed: out/gallery/ as it stands, also in CUDA C++, and the longer files with
# machine code by their checksums. `test_golden.sh --update` (make golden) writes both anew. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
attngen=${ATTNGEN:-$PWD/out/bin/attngen}
specs=(specs/gallery*.yaml)
coded=($(ls specs/gallery*.yaml | grep -v arm)) # isas of AArch64 have intrinsics alone
cuda=(specs/gallery-sm80.yaml specs/gallery-features-sm90.yaml specs/gallery-portable.yaml) # these in CUDA C++ too
sums=tests/e2e/golden-machine-code.sums

machine_code_sums() {
    "$attngen" emit "${coded[@]}" --machine-code -o "$1" && (cd "$1" && sha256sum -- *.c)
}

# gallery DIR ROOT: what is committed, of the specs below ROOT.
gallery() {
    "$attngen" emit "${specs[@]/#/$2/}" -o "$1" && "$attngen" emit "${cuda[@]/#/$2/}" --language cuda -o "$1"
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
if [[ ${1-} == --update ]]; then
    set -e
    machine_code_sums "$scratch" > "$scratch/sums"
    mkdir -p out/gallery
    rm -f out/gallery/*
    gallery out/gallery "$PWD"
    cp "$scratch/sums" "$sums"
    exit
fi

number=0
# check WHAT FILE FILE: one test, which passes when the files are alike.
check() {
    number=$((number + 1))
    if diff -u "$2" "$3" > "$scratch/diff" 2>&1; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1 (make golden writes the set anew)"
        head -n 20 "$scratch/diff" | sed 's/^/# /'
    fi
}

gallery "$scratch/emitted" "$PWD" || exit 1
names=$( (ls out/gallery; ls "$scratch/emitted") | sort -u)
echo "1..$(($(wc -l <<< "$names") + 2))"
for name in $names; do
    check "$name is as in the gallery" "out/gallery/$name" "$scratch/emitted/$name"
done

machine_code_sums "$scratch/machine" > "$scratch/sums"
check 'machine code is as it was' "$sums" "$scratch/sums"

# The same bytes come out when it is started from another directory, with another locale and at another time.
root=$PWD
(cd / && LC_ALL=C.UTF-8 LANG=de_DE.UTF-8 TZ=Asia/Tokyo && export LC_ALL LANG TZ && gallery "$scratch/again" "$root") || exit 1
number=$((number + 1))
if diff -r "$scratch/emitted" "$scratch/again" > /dev/null; then
    echo "ok $number - the same again"
else
    echo "not ok $number - the same again"
fi
