#!/bin/bash
# The tables that all else follows from: a row with a gap does not compile, and a new row shifts nothing. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh

compiles() { gcc -std=c11 -Wall -Wextra -Werror -fsyntax-only "$dir/$1" 2> "$dir/message"; }

# fresh: the real tables, to be damaged.
fresh() { cp gen/*.[ch] gen/*.inc "$dir"; }

# rows TABLE NAME: the numbers of the lines with a column in the row that begins with NAME.
rows() { awk -v name="($2," 'index($0, name) { on = 1 } /^END/ { on = 0 } on && /^    (FACT|FIELD)/ { print NR }' "gen/$1"; }

# damaged TABLE NAME CODE COMMAND: whether CODE is refused for each line of a row on which sed does COMMAND.
damaged() {
    local line none=1
    for line in $(rows "$1" "$2"); do
        fresh
        sed -i "$line$4" "$dir/$1"
        if compiles "$3"; then
            echo "# $1:$line: $4"
            return 1
        fi
        none=0
    done
    return $none
}

echo '1..11'
fresh
check 'the table of ISAs compiles' compiles isas.c
check 'an ISA that lacks a fact or a field does not' damaged isas.inc SM90 isas.c d
check 'nor one that has it twice' damaged isas.inc AVX2 isas.c p
check 'nor one with a field that lacks a column' damaged isas.inc AVX2 isas.c 's/, [^,]*)$/)/'
check 'nor one with a column that no one knows' damaged isas.inc AVX2 isas.c 's/(/(X/'

fresh
check 'the table of storage types compiles' compiles dtypes.c
check 'a type that lacks a fact does not' damaged dtypes.inc BF16 dtypes.c d
check 'nor one that has it twice' damaged dtypes.inc F16 dtypes.c p
check 'nor one with a fact that says nothing' damaged dtypes.inc F32 dtypes.c 's/, [^,]*)$/)/'
check 'nor one with a fact that no one knows' damaged dtypes.inc BF16 dtypes.c 's/(/(X/'

cat > "$dir/print.c.txt" <<'END'
#include <stdio.h>
#include "fields.h"
int main(void)
{
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (enum field_id f = F_ISA + 1; f < FIELD_COUNT; f++) {
            printf("%s %s %d:", isas[isa].name, fields[f].key, field_default(f, isa));
            for (int i = 0; i < 2 * FIELD_CHOICES; i++)
                printf(" %d", field_choices(f, isa, i >= FIELD_CHOICES)[i % FIELD_CHOICES]);
            printf(" %d\n", isa_language(isa));
        }
}
END
# print TO: what the table in $dir says.
print() {
    cp "$dir/print.c.txt" "$dir/print.c"
    gcc -std=c11 "$dir/print.c" "$dir/isas.c" "$dir/dtypes.c" "$dir/fields.c" -o "$dir/print" && "$dir/print" > "$dir/$1"
}
shifts_nothing() {
    fresh
    print before || return 1
    sed -n '/^ISA(AVX512,/,/^END/p' gen/isas.inc | sed 's/AVX512, "avx512"/NEW, "new"/' > "$dir/new"
    awk -v new="$dir/new" '/^ISA\(AVX2,/ { while ((getline line < new) > 0) print line } { print }' gen/isas.inc \
        > "$dir/isas.inc"
    print after && grep -q '^new ' "$dir/after" && cmp -s "$dir/before" <(grep -v '^new ' "$dir/after")
}
check 'an ISA in the middle shifts nothing' shifts_nothing
