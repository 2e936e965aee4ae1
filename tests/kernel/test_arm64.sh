#!/bin/bash
# Isa neon, and isa c, on AArch64: libattn with a plan; every op, composite and micro-kernel, and kernels of isa neon against the reference,
# compiled by the cross-compiler and run by qemu; and what the compiler makes of the inner loop of the score tile. Prints TAP. What it is
# not: kernels of isa c there, which test_vendor_matrix runs.
#     ATTN_VARIANTS   kernels of each isa, without features and with (1); of neonbf16, which differs in products alone, without
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
sysroot=/usr/aarch64-linux-gnu
export QEMU_CPU=max,sve=off # nothing here has SVE but the C library's copies, which take qemu longer
cc=aarch64-linux-gnu-gcc
export ATTN_ISAS=neon,neonbf16,c ATTN_VARIANTS=${ATTN_VARIANTS:-1}

emulated() { TMPDIR=$dir qemu-aarch64 -L "$sysroot" "out/bin/arm64/$1" "${@:2}"; }
# Of this library, by a compiler of this machine that an emulated process runs.
planned() { CC=$cc ATTNGEN_CACHE=$dir/cache LD_LIBRARY_PATH= emulated plan "$@"; }

# The same library with libtcc for that machine, where it could be had.
has_libtcc() {
    [[ -x out/bin/arm64/plan-tcc ]] || { echo 'libtcc for AArch64 is not here'; return 77; }
    ATTNGEN_CACHE=$dir/cache emulated plan-tcc _on_c_ tcc
}

# The shortest loop of the function score_tile that multiplies: its multiply-adds, its loads and stores, and how many of
# those are on the stack.
inner_loop() {
    aarch64-linux-gnu-objdump -d --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ </ { on = /<score_tile[_.>]/; next }
        on && /^ +[0-9a-f]+:/ {
            sub(":", "", $1); address[++n] = $1; line[$1] = n; op[n] = $2; text[n] = $0
            target = op[n] ~ /^cb/ ? $4 : $3
            if (op[n] ~ /^(b\.|cb|b$)/ && target in line) {
                multiplies = moves = stack = 0
                for (i = line[target]; i <= n; i++) {
                    multiplies += op[i] == "fmla"
                    moves += op[i] ~ /^(ld|st)/
                    stack += op[i] ~ /^(ld|st)/ && text[i] ~ /\[sp/
                }
                if (multiplies && (!best || n - line[target] < best)) {
                    best = n - line[target]
                    found = multiplies " " moves " " stack
                }
            }
        }
        END { print found }'
}
score_tile() {
    local name=attn_f32_d64_on_neon_q64k64_r4x4u4 multiplies moves stack
    "${ATTNGEN:-out/bin/attngen}" emit --variant $name -o "$dir" > /dev/null || return
    $cc -std=c11 -O2 -fno-inline-functions-called-once -c "$dir/$name.c" -o "$dir/$name.o" || return
    read -r multiplies moves stack < <(inner_loop "$dir/$name.o")
    echo "$multiplies multiply-adds, $moves loads and stores, $stack of them on the stack; expected 4 to 1, and none"
    [[ -n $stack ]] && ((multiplies >= 4 * moves && stack == 0))
}

# A bundle asks the system which of its kernels a processor can run: on one with products of bf16 pairs, and on one without.
bundled() {
    printf 'head_dim: 64\ndtype: bf16\ncausal: true\nisa: [c, neon, neonbf16]\n' > "$dir/arm.yaml"
    "${ATTNGEN:-out/bin/attngen}" emit "$dir/arm.yaml" --bundle arm -o "$dir/arm" > /dev/null &&
        $cc -std=c11 -O1 -Wall -Wextra -Werror -I "$dir/arm" tests/arm/bundle.c "$dir/arm/arm.c" -lm -o "$dir/bundled"
}
chooses() { qemu-aarch64 -cpu "$1" -L "$sysroot" "$dir/bundled" | tee "$dir/chosen" && grep -q "_on_$2_" "$dir/chosen"; }

for tool in $cc qemu-aarch64; do
    if ! command -v $tool > /dev/null; then
        echo "1..1"
        echo "ok 1 - AArch64 # SKIP $tool is not here"
        exit 0
    fi
done
check 'the inner loop of the score tile: 4 multiply-adds to a load, no spills' score_tile
sed 's/^/# /' "$dir/said"
export QEMU_SET_ENV=LD_LIBRARY_PATH=$PWD/out/lib/arm64
check 'libattn, built for it: a plan of isa neon, compiled by cc' planned _on_neon_
ATTNGEN_ISA=c check 'the same of isa c' planned _on_c_
unset QEMU_SET_ENV
check 'ATTN_TCC takes isa c there, and says so' has_libtcc
check 'a bundle, compiled for it' bundled
check 'chooses a kernel of isa neonbf16 where there is BFDOT' chooses max neonbf16
check 'chooses a kernel of isa neon where there is none' chooses cortex-a72 neon
check 'ops' emulated test_ops
check 'composites' emulated test_composites
check 'micro-kernels' emulated test_micros
check 'kernels against the reference' env ATTN_ISAS=neon qemu-aarch64 -L "$sysroot" out/bin/arm64/test_kernels
check 'kernels of isa neonbf16' env ATTN_PART=neonbf16 qemu-aarch64 -L "$sysroot" out/bin/arm64/test_kernels
echo "1..$number"
