# tap.sh - what the test scripts share that print TAP. A script sources it when it has made its scratch folder, $dir.
number=0

# check WHAT COMMAND...: one test, which passes when the command does, and is skipped when that exits with 77. What a failing one
# says is printed, but for tests of its own that passed; the last line of a skipped one is the reason.
check() {
    local what=$1
    shift
    number=$((number + 1))
    "$@" > "$dir/said" 2>&1
    case $? in
    0) echo "ok $number - $what" ;;
    77) echo "ok $number - $what # SKIP $(tail -n 1 "$dir/said")" ;;
    *)
        echo "not ok $number - $what"
        grep -v '^ok' "$dir/said" | head -n 40 | sed 's/^/# /'
        ;;
    esac
}
refuses() { ! "$@"; }

# says PATTERN COMMAND...: exits with 0 and prints it. fails CODE WORDS COMMAND...: exits so and prints them on stderr.
# prints TEXT COMMAND...: prints that and nothing else.
says() { "${@:2}" > "$dir/out" 2>&1; [[ $? == 0 ]] && grep -E -- "$1" "$dir/out" || { cat "$dir/out"; return 1; }; }
fails() { "${@:3}" > /dev/null 2> "$dir/err"; [[ $? == "$1" ]] && grep -F -- "$2" "$dir/err" || { cat "$dir/err"; return 1; }; }
prints() { [[ $("${@:2}") == "$1" ]] || { "${@:2}"; return 1; }; }
