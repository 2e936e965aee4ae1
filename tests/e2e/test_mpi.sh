#!/bin/bash
# tests/examples/ring_mpi.c, built with mpicc against the library and run by mpirun: a sequence that 1 to 4 processes share. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
# As root in a container, with fewer processors than processes, without ssh; processes that wait let others run.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated
export LD_LIBRARY_PATH=$PWD/out/lib

right() { # ranks, rows of a chunk
    mpirun --oversubscribe --bind-to none -n "$1" "$dir/ring_mpi" "$2" > "$dir/out" 2> "$dir/err" < /dev/null &&
        grep -q "^$1 ranks, $((2 * $1 * $2)) rows: .*: right$" "$dir/out" || { cat "$dir/out" "$dir/err"; return 1; }
}

echo '1..5'
check 'it compiles without a warning' env OMPI_CC="${CC:-gcc}" mpicc -std=c11 -O2 -Wall -Wextra -Werror -Iruntime \
    tests/examples/ring_mpi.c -Lout/lib -lattn -lm -o "$dir/ring_mpi"
check 'one process' right 1 100
check 'two processes' right 2 128
check 'three, with chunks of 37 rows' right 3 37
check 'four processes' right 4 64
