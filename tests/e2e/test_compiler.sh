#!/bin/bash
# --compiler on the command line: run, bench and tune by libtcc, by cc, by both, and what they say of it. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
attngen=${ATTNGEN:-$PWD/out/bin/attngen} data=$PWD/tests/data/minilm-layer3
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
export ATTNGEN_CACHE=$dir/cache TMPDIR=$dir/tmp
mkdir "$TMPDIR"
cd "$dir" || exit 1

run() { "$attngen" run -q "$data/q.npy" -k "$data/k.npy" -v "$data/v.npy" --kv-lens "$data/kv_lens.npy" "$@"; }
shape='--shape 1,2,2,64,64,32 --threads 1'

echo '1..14'
check 'run by cc' says '"compiler": "cc", "cached": false' run -o cc.npy --compiler cc --json
check 'run by tcc' says '"compiler": "tcc", "cached": false' run -o tcc.npy --compiler tcc --json
check 'they give the same' cmp cc.npy tcc.npy
check 'TMPDIR is as it was' test -z "$(ls -A "$TMPDIR")"
check 'the object is kept' test "$(ls "$ATTNGEN_CACHE"/*.object | wc -l)" = 1
bench() { "$attngen" bench $shape --time-limit 0.2 "$@"; }
check 'bench says which' says '"compiler": "cc", .*"compile_ms": [0-9]' bench --compiler cc --json
check 'and in words' says 'compiled by cc in' bench --compiler cc
check 'both is no way to run' fails 2 '--compiler both is for tune; expected tcc or cc' bench --compiler both

printf 'head_dim: 32\nisa: c\ntile: {q: 64, k: 64}\nmicro: {rows: 4, vecs: [1, 2]}\nunroll: 1\nsplit: 0\n' > some.yaml
tune() { "$attngen" tune some.yaml $shape --time-limit 10 "$@"; }
check 'tune by both' says '^compiler (cc|tcc): its winner runs at [0-9.]+ times the speed of the winner compiled by (tcc|cc)$' \
    tune --compiler both
both() {
    tune --compiler both --json | tr -d '\n' |
        grep -E '"compiler": "tcc".*"cached": true.*"compiler": "cc".*"cached": true'
}
check 'and each is remembered' both
check 'bench takes the one of its compiler' says '"compiler": "cc", .*"cached": true' bench --compiler cc --json
check 'cache clear takes objects, too' says 'removed [0-9]+ entries' "$attngen" cache clear
check 'nothing of them is left' test -z "$(ls "$ATTNGEN_CACHE"/*.object 2> /dev/null)"
missing() { CC=/nonexistent/cc bench --compiler cc; }
check 'no compiler: no silent libtcc' fails 1 '/nonexistent/cc: error: cannot be run' missing
