#!/bin/bash
# --device on the command line: the reference as what others are compared with, and what tune says of a device's peak. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
attngen=${ATTNGEN:-$PWD/out/bin/attngen} data=$PWD/tests/data/minilm-layer3
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
export ATTNGEN_CACHE=$dir/cache
cd "$dir" || exit 1

run() { "$attngen" run -q "$data/q.npy" -k "$data/k.npy" -v "$data/v.npy" --kv-lens "$data/kv_lens.npy" "$@"; }
shape='--shape 1,2,2,64,64,32'
# Prints how far the output is from the exact one, and fails from 1e-5 on.
near() { "$@" --compare exact.npy --json | sed -n 's/.*"difference": \([0-9.e+-]*\).*/\1/p' | awk '{ print; exit !($1 < 1e-5) }'; }

echo '1..11'
check 'devices lists all backends' says '^reference  ' "$attngen" devices
check 'the exact answer' says '"variant": "reference", "device": "reference", "compiler": "reference", "cached": false' \
    run -o exact.npy --device reference --json
check 'what the model computed is near it' says '"difference": [0-9.]+e-0[6-9]' \
    run -o again.npy --device reference --compare "$data/o.npy" --json
check 'in the same bits again' cmp exact.npy again.npy
check 'kernels are near it' near run -o kernel.npy
check 'nothing is cached for it' test ! -e "$ATTNGEN_CACHE"
check 'nothing is tuned' fails 1 'there is nothing to tune: device reference has one kernel' "$attngen" tune $shape --device reference
check 'nothing is pinned' fails 1 'expected none, since device reference has one kernel' \
    run -o no.npy --device reference --variant attn_f32_d32_on_c_q64k64_r4x2u1
check 'it can be timed' says '"variant": "reference", .*"peak_gflops": 0' "$attngen" bench $shape --device reference --time-limit 0.1 --json
check 'it makes no PTX' fails 1 'reference makes no PTX' "$attngen" emit --variant attn_f32_d64_on_portable_q64k64_r4x2u4 \
    --ptx --device reference -o no
check 'a peak is of a type' says '^peak: [0-9.]+ GFLOP/s, .* in bf16, measured just now$' \
    "$attngen" tune $shape --dtype bf16 --threads 1 --time-limit 1
