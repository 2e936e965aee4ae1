#!/bin/bash
# libattn as others meet it: what its two forms export, `make install` into an empty place, programs built there with
# pkg-config against either form, a host whose names clash, dlopen, and `make uninstall`. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
root=$PWD
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
. tests/kit/tap.sh
place=$dir/place prefix=/usr/attn
lib=$place$prefix/lib

has() { grep -qE "$@"; }
make_() { make -s PREFIX=$prefix DESTDIR="$place" "$@"; }
config() { PKG_CONFIG_LIBDIR=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$place pkg-config "$@" attn; }
needed() { readelf -d "$1" | grep NEEDED; }
run_shared() { LD_LIBRARY_PATH=$lib "$@"; }

# The functions that the header declares, for a compiler: comments are gone.
declared() { gcc -E -P runtime/attn.h | grep -oE '\battn_[a-z_]+\(' | tr -d '(' | LC_ALL=C sort -u; }
exports() { nm "$@" --defined-only 2>/dev/null | awk 'NF == 3 { print $3 }' | LC_ALL=C sort; }
same_names() { diff <(declared) <(exports "$@") && [[ $(declared | wc -l) -gt 5 ]]; }

echo '1..35'
check 'libattn.so exports what attn.h declares' same_names -D out/lib/libattn.so
check 'libattn.a exports what attn.h declares' same_names -g out/lib/libattn.a
check 'its SONAME has the major version' has 'SONAME.*\[libattn\.so\.0\]' <(readelf -d out/lib/libattn.so)
check 'its code is position-independent' refuses has TEXTREL <(readelf -d out/lib/libattn.so)
check 'its stack is not executable' has 'GNU_STACK.* RW ' <(readelf -lW out/lib/libattn.so)
without() { [[ -n $(needed "$2") ]] && ! needed "$2" | grep -E "$1"; }
check 'it needs no libtcc' without 'libtcc|libcjson|libyaml' out/lib/libattn.so

check 'make install' make_ install
manual() {
    local page=$place$prefix/share/man/man1/attngen.1 verb
    for verb in emit run tune bench verify cache devices explain report selftest; do grep -q "^.SS \"attngen $verb\"" "$page" || return 1; done
    command -v man >/dev/null || return 0
    ! LC_ALL=C.UTF-8 man -l --warnings "$page" 2>&1 >/dev/null | grep .
}
completes() {
    bash -u -c 'source "$1"; COMP_WORDS=(attngen tune --rig); COMP_CWORD=2; _attngen; [[ ${COMPREPLY[*]} == --rigor ]] || exit 1
        COMP_WORDS=(attngen tune --rigor p); COMP_CWORD=3; _attngen; [[ ${COMPREPLY[*]} == patient ]] || exit 1
        COMP_WORDS=(attngen cache ex); COMP_CWORD=2; _attngen; [[ ${COMPREPLY[*]} == export ]]' \
        - "$place$prefix/share/bash-completion/completions/attngen"
}
cat > "$dir/expected" <<END
bin/attngen
bin/attngen-emit
include/attn.h
lib/cmake/attn/attn-config-version.cmake
lib/cmake/attn/attn-config.cmake
lib/libattn.a
lib/libattn.so
lib/libattn.so.0
lib/libattn.so.0.1
lib/pkgconfig/attn.pc
share/bash-completion/completions/attngen
share/doc/attngen/LICENSE
share/man/man1/attngen.1
share/zsh/site-functions/_attngen
END
installed() { (cd "$place$prefix" 2>/dev/null && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort); }
check 'all is there' diff "$dir/expected" <(installed | grep -vE 'share/doc/attngen/.*\.(md|svg)$|share/attngen/specs|doc/attngen/examples')
# each FOLDER PLACE: every file of the folder is there.
each() { (cd "$1" && find . -type f -name "$3") | while read -r file; do cmp "$1/$file" "$place$prefix/share/$2/$file" || exit 1; done; }
pages() { for page in *.md */README.md */*/README.md runtime/install/*.md tests/bench/*.md; do cmp "$page" "$place$prefix/share/doc/attngen/$page" || return 1; done; }
check 'pages are there, each in its place' pages
check 'specs are there' each specs attngen/specs '*'
check 'examples are there' each tests/examples doc/attngen/examples ten_lines.c
check 'the manual page names every verb' manual
check 'bash completes options, their values and words' completes
zsh_words() { grep -q "'1:word:(show path clear export import)'" "$place$prefix/share/zsh/site-functions/_attngen"; }
check 'zsh is told the words of cache' zsh_words
only_there() { [[ -d $place$prefix && $(find "$place" ! -type d | wc -l) == $(installed | wc -l) ]]; }
check 'and nothing elsewhere' only_there
no_destdir() { [[ -s $lib/pkgconfig/attn.pc ]] && ! grep -rF "$place" "$lib/pkgconfig" "$place$prefix/share"; }
check 'no file names DESTDIR' no_destdir
check 'the program runs' has '^attngen ' <("$place$prefix/bin/attngen" --version)
check 'pkg-config knows the version' has '^[0-9]+\.[0-9]+$' <(config --modversion)
libs() { config --libs | xargs; }
check 'with -lattn comes nothing else' prints "-L$lib -lattn" libs

cp tests/examples/ten_lines.c "$dir"
cd "$dir" || exit 1
expected='0 0.5 49.5'
strict='-std=c11 -Wall -Wextra -Werror'
check 'ten lines, built with -lattn' gcc $strict ten_lines.c $(config --cflags --libs) -o shared
check 'ten lines run' prints "$expected" run_shared ./shared
check 'and use the library' has 'libattn\.so\.0' <(needed shared)
check 'ten lines, built with libattn.a' gcc $strict ten_lines.c $(config --cflags) -Wl,-Bstatic $(config --libs) \
    -Wl,-Bdynamic $(config --libs --static | tr ' ' '\n' | grep -v attn) -o static
check 'ten lines run without the library' prints "$expected" ./static
check 'and do not use it' without libattn static

# Names that libattn and libtcc use inside are defined by the host too: neither may take the other's place.
cat > names.c <<'END'
int tune, fields, vtop, next, skip, cache_open, pool_run, gen_emit, kernel_free;
int buf_put(void) { return 1; }
int jit_compile(void) { return 1; }
int tcc_new(void) { return 1; }
END
check 'names of a host, statically' gcc $strict ten_lines.c names.c $(config --cflags) "$lib/libattn.a" \
    $(config --libs --static | tr ' ' '\n' | grep -v attn) -o names-static
check 'are its own' prints "$expected" ./names-static
check 'names of a host, dynamically' gcc $strict -rdynamic ten_lines.c names.c $(config --cflags --libs) -o names-shared
check 'are its own, too' prints "$expected" run_shared ./names-shared

cat > host.c <<'END'
#include <dlfcn.h>
int main(int n, char **word)
{
    int (*ten_lines)(void), failed = 0;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(word[n - 1], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return 2;
        *(void **)&ten_lines = dlsym(library, "ten_lines");
        failed |= !ten_lines || ten_lines();
        failed |= dlclose(library);
    }
    return failed;
}
END
plugin() {
    gcc $strict -Dmain=ten_lines -fPIC -shared ten_lines.c $(config --cflags) "$@" -o plugin.so &&
        gcc -std=gnu11 host.c -ldl -o host && prints "$expected
$expected" run_shared ./host ./plugin.so
}
cat > CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(ten C)
find_package(attn 0.1 REQUIRED)
foreach(kind attn static)
  add_executable(ten_${kind} ten_lines.c)
  target_link_libraries(ten_${kind} attn::${kind})
endforeach()
END
cmake_() { cmake -S . -B build -DCMAKE_PREFIX_PATH="$place$prefix" && cmake --build build; }
if command -v cmake > "$dir/said"; then
    check 'find_package(attn) in CMake' cmake_
    check 'the shared target runs' prints "$expected" run_shared build/ten_attn
    check 'the static target runs' prints "$expected" build/ten_static
else
    for what in 'find_package(attn) in CMake' 'the shared target runs' 'the static target runs'; do
        number=$((number + 1))
        echo "ok $number - $what # SKIP there is no cmake here"
    done
fi
check 'opened and closed at run time, twice' plugin $(config --libs)
check 'inside a shared library of a host' plugin "$lib/libattn.a" $(config --libs --static | tr ' ' '\n' | grep -v attn)

cd "$root" || exit 1
gone() { make_ uninstall && [[ -z $(find "$place" ! -type d) && ! -e $place$prefix/share/doc/attngen ]]; }
check 'make uninstall leaves nothing' gone
