#!/bin/sh
# Builds and runs every test: as it is, under ASan and UBSan, under TSan, and the quick ones under valgrind.
# Ends on one line: N passed, N failed, N skipped. Exit 1 where anything failed, 2 where packages are missing.
cd "$(dirname "$0")/.." || exit 1
. bench/need.sh
need gcc libc6-dev python3 meson ninja-build pkg-config libopenmpi-dev openmpi-bin libcjson-dev libcmocka-dev libhwloc-dev \
    libxxhash-dev
like g++ gfortran valgrind gnuplot-nox libucx-dev hpcc lammps python3-mpi4py python3-numpy python3-pip scalapack-mpi-test spin tcc

logs=$(mktemp) || exit 1
trap 'rm -f "$logs"' EXIT

# With the lines of a backtrace, and nothing else for a debugger: that took a fifth of the time. Of a build with a sanitizer, what
# the tests of its suites need, and nothing else.
calmly=
# shellcheck disable=SC2086 # lists of words
compile() {
    [ -f "$1/build.ninja" ] || CFLAGS="$CFLAGS -g1" CXXFLAGS="$CXXFLAGS -g1" $calmly \
        meson setup "$@" --buildtype=debugoptimized -Ddebug=false -Dwerror=true || return
    $calmly ninja -C "$1" build.ninja || return # as meson.build is now
    case $1 in
    build-asan) suites=$asan_suites ;;
    build-tsan) suites=$tsan_suites ;;
    *) suites= ;;
    esac
    needs=all
    [ -z "$suites" ] || needs=$(python3 tests/needs.py "$1" $suites) || return
    $calmly ninja -C "$1" $needs
}

# build DIR OPTIONS: a build that fails is a failure by itself.
build() {
    printf '\n== %s\n' "$1"
    compile "$@" && return 0
    echo "$1/does-not-build" >> "$logs"
    return 1
}

# check DIR NAME OPTIONS: runs tests of DIR, many of which wait more than they compute, and keeps their log as NAME. What failed
# runs once more, alone, by the same options, and has its second log as NAME-again.
busy=$(($(nproc) * 3 / 2))
check() {
    dir=$1 name=$2
    shift 2
    rm -f "$dir/meson-logs/$name"*.json
    meson test -C "$dir" --no-rebuild --print-errorlogs --logbase "$name" --num-processes "$busy" "$@"
    first=$(ls "$dir/meson-logs/$name"*.json) || first=$dir/$name
    failed=$(python3 tests/tally.py --failed "$first")
    if [ -n "$failed" ]; then
        printf '\n== once more, alone: %s\n' "$(echo "$failed" | tr '\n' ' ')"
        # shellcheck disable=SC2086 # a list of names
        meson test -C "$dir" --no-rebuild --print-errorlogs --logbase "$name-again" "$@" --num-processes 1 $failed
    fi
    echo "$first" "$(ls "$dir/meson-logs/$name-again"*.json 2> /dev/null)" >> "$logs"
}

# Open MPI leaks by itself, and an interposer cannot stand before ASan. With -O1 gcc 12 compiles this in 56 s on two cores, with
# -O2 in 207, and the tests take as long.
asan='build-asan -Doptimization=1 -Dcuda=disabled -Dmpich=disabled -Db_sanitize=address,undefined -Db_lundef=false'
tsan='build-tsan -Doptimization=1 -Dcuda=disabled -Dmpi=disabled -Dmpich=disabled -Db_sanitize=thread -Db_lundef=false'
asan_suites='--suite unit --suite sums --suite exec --suite bench --suite mpi'
tsan_suites='--suite unit --suite exec --no-suite mpi --no-suite single'

# ahead DIR OPTIONS: tests leave a fifth of the cores idle, which is for the build that comes next: it has ended when those come
# that want to know what is idle. What goes wrong with it is found, and said, when it is its turn.
ahead() {
    (calmly='nice -n 19'; compile "$@") > /dev/null 2>&1 &
}

# The kernels of one architecture: those of others are compiled from the same text.
# shellcheck disable=SC2086 # a list of words
if build build-test -Dgpu_arch=90; then
    ahead $asan
    check build-test normal
    if command -v valgrind > /dev/null; then
        check build-test quick --setup valgrind --suite unit --no-suite long
    fi
    wait
fi

# Memory of up to 1 MiB that is freed and had again keeps the pages that TSan has for it: to touch those anew was a third of its
# time.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:clear_shadow_mmap_threshold=1048576
# shellcheck disable=SC2086
if build $asan; then
    ahead $tsan
    check build-asan threads $asan_suites --no-suite mpi -t 4
    ASAN_OPTIONS=detect_leaks=0 check build-asan processes --suite mpi -t 4
    wait
fi

# shellcheck disable=SC2086
if build $tsan; then
    check build-tsan threads $tsan_suites -t 4
fi

python3 tests/tally.py < "$logs"
