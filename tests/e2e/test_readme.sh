#!/bin/bash
# README.md against what is here: its spec emits kernels, its commands and options exist, so do the files that it names,
# and attn.h has what its tables say. Prints TAP. What it is not: a test that what they do is as told; others are.
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
attngen=${ATTNGEN:-out/bin/attngen}
number=0

# check WHAT: one test, which passes when standard input is empty; it says what is missing.
check() {
    number=$((number + 1))
    cat > "$dir/missing"
    if [[ -s $dir/missing ]]; then
        echo "not ok $number - $1"
        head -n 20 "$dir/missing" | sed 's/^/# /'
    else
        echo "ok $number - $1"
    fi
}
block() { awk -v kind="$1" '/^```/ { on = $0 == "```" kind; next } on' README.md; }

echo '1..7'
emits() {
    block yaml > "$dir/readme.yaml"
    "$attngen" emit "$dir/readme.yaml" --list > "$dir/names" 2>&1 || echo 'emit fails'
    grep -vE '^attn_[a-z0-9_]+$' "$dir/names"
    [[ $(wc -l < "$dir/names") -gt 5 ]] || echo 'hardly a kernel'
}
check 'its spec emits kernels' < <(emits)

verbs=$("$attngen" --help | sed -n '/^verbs:$/,/^$/s/^  \([a-z]*\) .*/\1/p' | xargs)
{ for verb in $verbs; do "$attngen" $verb --help; done; grep -ohE '"--[a-z][-a-z]*"' tests/bench/*.py; } > "$dir/help" 2>&1
unknown_verbs() {
    block '' | grep -oE '^attngen [a-z]+' | sort -u | while read -r _ verb; do
        [[ " $verbs " == *" $verb "* ]] || echo "attngen $verb"
    done
}
check 'its commands are verbs' < <(unknown_verbs)

unknown_options() {
    grep -v pkg-config README.md | grep -oE '(^|[^-a-z])--[a-z][-a-z]*' | grep -oE -- '--[-a-z]+' | sort -u > "$dir/options"
    [[ $(wc -l < "$dir/options") -gt 20 ]] || echo 'hardly an option'
    while read -r option; do
        grep -qE -- "(^|[^-a-z])$option([^-a-z]|\$)" "$dir/help" || echo "$option"
    done < "$dir/options"
}
check 'its options are in help' < <(unknown_options)

untold_options() {
    "$attngen" run --help | grep -oE '^  --[a-z][-a-z]*' | tr -d ' ' | while read -r option; do
        case $option in
        --compare | --threads | --variant | --json | --help) ;; # not of attention
        *) grep -q -- "$option" README.md || echo "$option" ;;
        esac
    done
}
check 'all that run takes of attention is in it' < <(untold_options)

absent_files() {
    sed 's|out/bin/[^ `]*||g' README.md | grep -oE '(specs|tests|runtime|templates|gen)/[A-Za-z0-9_./-]*[A-Za-z0-9_/]' | sort -u | while read -r path; do
        [[ -e $path ]] || echo "$path"
    done
}
check 'files that it names are there' < <(absent_files)

unknown_names() {
    grep -oE '\b(attn_[a-z_]+|ATTN_[A-Z0-9_]+)\b' README.md | grep -vE '^attn_(f32|f16|bf16|mask$)|_$|^ATTN_DECLARATIONS$' |
        sort -u | while read -r name; do
        grep -qw "$name" runtime/attn.h templates/c/*.h || echo "$name"
    done
}
check 'functions and structs that it names are in attn.h' < <(unknown_names)

# The fourth column of the table of features: fields of attn_problem; of attn_run.
unknown_fields() {
    awk -F'|' '/^\| feature \|/ { on = 1; next } on && !/^\|/ { exit } on && !/^\|---/ { print $5 }' README.md > "$dir/fields"
    [[ $(wc -l < "$dir/fields") -gt 10 ]] || echo 'hardly a field'
    for side in 1 2; do
        struct=$([[ $side == 1 ]] && echo attn_problem || echo attn_run)
        sed -n "/^struct $struct {/,/^};/p" runtime/attn.h > "$dir/struct"
        awk -F';' -v side=$side '{ print $side }' "$dir/fields" | grep -oE '`[a-z_]+`' | tr -d '`' | while read -r field; do
            grep -qE "\b$field\b[,;[]" "$dir/struct" || echo "$struct.$field"
        done
    done
}
check 'the table of features names fields' < <(unknown_fields)
