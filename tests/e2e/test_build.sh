#!/bin/bash
# What the build promises beside its programs: what links what, and the embedding tool's bytes. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
embed=$PWD/out/obj/gen/tool/embed
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh

has_no_symbol() { refuses grep -qE "$1" <(nm "$2" 2>/dev/null); }
exports_no_symbol() { refuses grep -qE "$1" <(nm -g --defined-only "$2" 2>/dev/null); }
same_hash() { cmp -s <(grep embedded_hash "$1") <(grep embedded_hash "$2"); }

echo '1..11'
check 'libattn.a parses no YAML' has_no_symbol ' yaml_' out/lib/libattn.a
check "libattn.a shows none of libtcc's names" exports_no_symbol ' (tcc_new|tcc_compile_string|vtop|next|skip)$' \
    out/lib/libattn.a
check 'libattn.a brings libtcc' grep -q ' t tcc_compile_string$' <(nm out/lib/libattn.a 2>/dev/null)
check 'attngen-emit has no libtcc' has_no_symbol ' tcc_' "$ATTNGEN_EMIT"
check 'make says that there is no compiler, before headers' fails 2 'missing: the compiler no-compiler:' make have-deps CC=no-compiler

cd "$dir" || exit 1
mkdir t
printf 'a??/b "quoted" \\ 50%% \001\377\n1' > t/odd
: > t/empty
printf 'int x;\n' > code.c
"$embed" 1.c t/ t/odd t/empty -- code.c
"$embed" 2.c t/ t/empty t/odd -- code.c
check 'embedding ignores the order of files' cmp -s 1.c 2.c

cat > read.c <<'END'
#include <stdio.h>
#include <string.h>
#include "gen/embed.h"
int main(void)
{
    const struct embedded_file *odd = &embedded_files[1];
    fwrite(odd->data, 1, odd->size, stdout);
    return !(embedded_count == 2 && embedded_files[0].size == 0 && strcmp(odd->path, "odd") == 0);
}
END
gcc -std=c11 -Wall -Werror -iquote "$OLDPWD" 1.c read.c -o read
check 'any bytes survive embedding' cmp -s t/odd <(./read)
paths_hold() { ./read > /dev/null; }
check 'paths are below the prefix' paths_hold

printf 'int y;\n' > code.c
"$embed" 2.c t/ t/odd t/empty -- code.c
check 'the hash changes with a source' refuses same_hash 1.c 2.c
printf 'int x;\n' > code.c
printf '1' > t/empty
"$embed" 2.c t/ t/odd t/empty -- code.c
check 'the hash changes with a template' refuses same_hash 1.c 2.c

"$embed" 3.c t/ t/missing -- code.c 2> message
check 'a missing file leaves no output' test ! -e 3.c -a -s message
