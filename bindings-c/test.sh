#!/bin/sh
# Builds libquorlock, installs it below target/ as a user would, and runs the C programs of tests/ against it through
# pkg-config. Arguments: names of steps, such as `exports faults`; all of them without.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
built=$target/ci
work=$target/c-test
prefix=$work/prefix
tests=bindings-c/tests

rm -rf "$work"
mkdir -p "$work/panic"
cargo build --quiet --profile ci -p quorlock-tests --bin quorlock-testbed
cargo build --quiet --profile ci -p quorlock-c --features test-panic
cp "$built/libquorlock.so" "$work/panic/libquorlock.so.0"
cargo build --quiet --profile ci -p quorlock-c
PREFIX=$prefix bindings-c/install.sh "$built"

export QUORLOCK_TESTBED="${QUORLOCK_TESTBED:-$built/quorlock-testbed}"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
export LD_LIBRARY_PATH="$prefix/lib"
strict="-Wall -Wextra -Wpedantic -Werror"
flags="$(pkg-config --cflags --libs quorlock) -pthread"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Compiles tests/NAME.c and runs it with the arguments.
program() {
    name=$1
    shift
    # shellcheck disable=SC2086
    gcc -std=c11 -g $strict "$tests/$name.c" -o "$work/$name" $flags -lm
    timeout 240 "$work/$name" "$@"
}

# The functions that the header declares.
declared() {
    grep -o '\bquorlock_[a-z_]*(' include/quorlock.h | tr -d '(' | sort -u
}

exports() {
    library=$prefix/lib/libquorlock.so.0
    nm -D --defined-only "$library" | awk '{ print $3 }' | sort -u >"$work/exported"
    declared >"$work/declared"
    diff "$work/declared" "$work/exported" || fail "the library exports (>) other names than the header has (<)"
    readelf -d "$library" | grep -q 'SONAME.*\[libquorlock.so.0\]' || fail "soname"
    readelf -d "$library" | grep -q NODELETE || fail "-z nodelete"
    for name in $(declared); do
        grep -q "$name(" "$tests/null.c" || fail "$name is missing in null.c"
    done
    grep -q . "$work/exported" && echo "ok exports: $(wc -l <"$work/exported") functions, all of them quorlock_"
}

header() {
    cflags=$(pkg-config --cflags quorlock)
    for std in c99 c11; do
        # shellcheck disable=SC2086
        gcc -std=$std $strict $cflags -c "$tests/header.c" -o "$work/header.o"
    done
    for std in c++11 c++20; do
        # shellcheck disable=SC2086
        g++ -x c++ -std=$std $strict $cflags -c "$tests/header.c" -o "$work/header.o"
    done
    echo "ok header: C99, C11, C++11, C++20"
}

# The program in README.md compiles as it stands there.
readme() {
    sed -n '/^```c$/,/^```$/p' bindings-c/README.md | grep -v '^```' >"$work/readme.c"
    # shellcheck disable=SC2086
    gcc -std=c11 $strict "$work/readme.c" -o "$work/readme" $flags
    echo "ok readme"
}

behaviour() { program behaviour; }
faults() { program faults; }
process() { program process; }
null() {
    program null
    LD_LIBRARY_PATH=$work/panic "$work/null" panic 2>"$work/panics" || { cat "$work/panics" && fail "null panic"; }
}
conformance() { program conformance tests/conformance/*.scenario; }

# The static library, in a program that needs no libquorlock.so.
static() {
    # shellcheck disable=SC2046
    gcc -std=c11 $strict "$tests/cycle.c" -o "$work/static" $(pkg-config --cflags quorlock) \
        "$prefix/lib/libquorlock.a" $(pkg-config --static --libs-only-l quorlock | sed 's/-lquorlock//')
    ldd "$work/static" | grep -q quorlock && fail "the static program needs libquorlock.so"
    LD_LIBRARY_PATH='' timeout 60 "$work/static"
}

leaks() {
    program cycle
    timeout 300 valgrind --quiet --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        --error-exitcode=9 "$work/cycle" || fail "valgrind"
    echo "ok leaks: none by valgrind"
}

for step in ${*:-exports header readme behaviour faults process null conformance static leaks}; do
    $step
done
echo "bindings-c: all steps passed"
