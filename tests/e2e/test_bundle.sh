#!/bin/bash
# Bundles in a foreign tree: 24 kernels built by a plain cc line and by CMake, called in five lines, every kernel right; started
# where there is no other file; for OpenCL; and of what the cache holds. Prints TAP. What it is not: what is chosen on other
# processors (unit/test_bundle.c).
set -u
cd "$(dirname "$0")/../.."
root=$PWD
attngen=${ATTNGEN:-$root/out/bin/attngen}
emit=${ATTNGEN_EMIT:-$root/out/bin/attngen-emit}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
export ATTNGEN_CACHE=$dir/cache
strict='-std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Wstrict-prototypes -Wmissing-prototypes -Werror'


echo '1..15'
cd "$dir" || exit 1
check 'a bundle of 24 kernels' "$emit" emit "$root/specs/bundle.yaml" --bundle llm -o tree/llm
kernels() {
    [[ $(ls tree/llm) == $'CMakeLists.txt\nllm.c\nllm.cdx.json\nllm.h' && $(grep -c 'attngen emit --variant' tree/llm/llm.c) == 24 ]]
}
check 'four files' kernels
again() { (cd / && LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$attngen" emit "$root/specs/bundle.yaml" --bundle llm -o "$dir/again") && diff -r tree/llm again; }
check 'the same bytes by the other program, elsewhere' again

# On one core, as a make job would have.
plain() {
    mkdir objects
    local TIMEFORMAT=%U
    { time (cd objects && cc $strict -c ../tree/llm/*.c); } 2> seconds &&
        cc -std=c11 -O2 -Wall -Wextra -Werror -Itree/llm five.c objects/*.o -lm -o five || { cat seconds; return 1; }
}
cp "$root"/tests/e2e/bundle/*.c .
check 'a plain cc line builds it' plain
echo "# built in $(tail -n 1 seconds) s of one core"
exports() { nm -g --defined-only objects/*.o | awk 'NF == 3 && $3 !~ /^llm_/ { print; found = 1 } END { exit found }'; }
check 'every name that it gives out begins with its own' exports
check 'five lines call it' ./five
every() { cc -std=c11 -O2 -Wall -Wextra -Werror -Itree/llm every.c -lm -o every && ./every; }
check 'every kernel is right' every
tail -n 1 "$dir/said" | sed 's/^/# /'

cmake_build() {
    command -v cmake > /dev/null || { echo 'cmake is not here'; return 77; }
    mkdir user && cp five.c user && cat > user/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.10)
project(user C)
add_subdirectory(../tree/llm llm)
add_executable(five five.c)
target_link_libraries(five PRIVATE llm m)
END
    # With -O1: the question here is whether CMake builds it, not how fast the result is.
    cmake -S user -B build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS='-O1 -Wall -Wextra -Werror' &&
        cmake --build build && build/five
}
check 'CMake builds it into another project' cmake_build

# Nothing but the program: no compiler, no library, no file.
alone() {
    mkdir empty && cc -std=gnu11 -O2 -static -Itree/llm five.c objects/*.o -lm -o empty/five || { echo 'no static libc'; return 77; }
    local enter=chroot best= took from to i
    [[ $(id -u) == 0 ]] || enter='unshare -r chroot'
    $enter empty /five > /dev/null 2>&1 || { echo 'no chroot here'; return 77; }
    for i in 1 2 3 4 5; do
        from=$(date +%s%N)
        to=$($enter empty /five) && [[ $to == right* ]] || return 1
        took=$(((${to#right } - from) / 1000))
        [[ -z $best || $took -lt $best ]] && best=$took
    done
    echo "$best us from starting chroot to the first right result, the best of 5"
}
check 'it works in an empty chroot' alone
tail -n 1 "$dir/said" | sed 's/^/# /'

# A file that somebody else wrote is kept.
foreign() {
    mkdir other && echo 'project(mine)' > other/CMakeLists.txt
    ! "$emit" emit --variant attn_f32_d64_on_c_q64k64_r4x2u1 --bundle llm -o other 2> other.err &&
        grep -q 'other/CMakeLists.txt: error: a file of that name exists' other.err && [[ $(ls other) == CMakeLists.txt ]]
}
check 'a file that is not its own is an error' foreign

narrow() {
    printf 'head_dim: 64\ndtype: [{q: f32, kv: int8}, {q: f32, kv: q8_0}]\nisa: c\n' > narrow.yaml
    "$emit" emit narrow.yaml --bundle narrow -o narrow &&
        cc -std=c11 -O1 -Wall -Wextra -Werror -Inarrow narrow.c narrow/narrow.c -lm -o narrows && ./narrows
}
check 'narrow keys and values' narrow

device() {
    printf 'head_dim: 64\ncausal: true\nbias: f32\nisa: portable\n' > device.yaml
    "$emit" emit device.yaml --bundle llm -o device &&
        cc -std=c11 -O1 -Wall -Wextra -Werror -Idevice device.c device/llm.c -l:libOpenCL.so.1 -lm -o on-device && ./on-device ||
        { local code=$?; [[ $code == 77 ]] && echo 'no OpenCL device is here'; return $code; }
}
check 'an OpenCL host launches a kernel of its text' device

# Code is NVRTC's if it is here, in the bundle; else its text alone is there.
on_card() {
    printf 'head_dim: 64\ndtype: bf16\ncausal: true\nisa: sm90\ntile: {q: 128, k: 128}\n' > card-1.yaml
    printf 'head_dim: 128\ndtype: bf16\nisa: sm90\ntile: {q: 64, k: 64}\nsplit: 2048\n' > card-2.yaml
    printf 'head_dim: 96\ndtype: bf16\ncausal: true\nisa: sm80\n' > card-3.yaml
    printf 'head_dim: 64\ncausal: true\nisa: portable\n' > card-4.yaml
    "$emit" emit card-?.yaml --language cuda --bundle llm -o card &&
        cc $strict -Icard -c card/llm.c -o card.o && cc -std=c11 -O1 -Wall -Wextra -Werror -Icard cuda.c card.o -ldl -lm -o on-card ||
        return 1
    if "$attngen" emit card-?.yaml --language cuda --bundle llm --cubin --ptx -o made 2> made.err; then
        cc -std=c11 -O1 -Wall -Wextra -Werror -Imade cuda.c made/llm.c -ldl -lm -o on-card-made || return 1
    else
        grep 'there is no libnvrtc' made.err && [[ ! -e made ]] || return 1
    fi
    ./on-card || return
    [[ ! -e on-card-made ]] || ./on-card-made
}
check 'a CUDA host launches kernels of its code' on_card

# What was tuned, on this machine or on another.
cached() {
    "$attngen" emit --from-cache --bundle llm -o none && return 1
    "$attngen" tune --shape 1,2,2,256,256,32 --time-limit 0.5 --compiler tcc --threads 1 > /dev/null &&
        "$attngen" tune --shape 1,2,2,1,4096,32 --time-limit 0.5 --compiler tcc --threads 1 > /dev/null &&
        "$attngen" emit --from-cache --bundle llm -o cached && ls cached &&
        grep -q llm_f32_d32_c cached/llm.c && [[ $(grep -c "^#define attn_.*_workspace" cached/llm.c) -ge 2 ]] &&
        cc $strict -O1 -c cached/llm.c -o cached.o
}
check 'a bundle of what was tuned' cached
imported() {
    "$attngen" cache export tuned.txt && ATTNGEN_CACHE=$dir/imported-cache "$attngen" cache import tuned.txt &&
        ATTNGEN_CACHE=$dir/imported-cache "$attngen" emit --from-cache --bundle llm -o imported && diff -r cached imported
}
check 'and the same of an imported cache' imported
