#!/bin/sh
# Measures Peal between the hosts of a cluster, which are network namespaces of this machine (tests/cluster.sh; root):
#
#     sh bench/cluster.sh [--build DIR] [--out DIR] [--hosts 2,4,8] [--ranks 2,4] [--rounds 5] [--only race]     (--help lists all)
#
# goodput: what allreduce makes of a link, beside plain TCP in turns; the stages of levels alone; links: two links a host against
# one; overlap: the stages at rates of the links at which they take about as long, and at which the one between hosts takes 1.3
# times the other; race: against Open MPI's allreduce, or --collective, the best of its tuned and han, over ob1 and UCX. Tables on
# stdout, all figures as JSON.
cd "$(dirname "$0")/.." || exit 1
set -e
trap 'exit 1' INT TERM

build=$PWD/build count=$#
while [ "$count" -gt 0 ]; do
    case $1 in
    --build) build=$(realpath -m "$2"); shift; count=$((count - 1)) ;;
    -h|--help) exec python3 -B bench/cluster/cluster.py --help ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! { [ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=release; } > "$work/build.log" 2>&1 ||
    ! ninja -C "$build" bench/peal src/pmpi/libpeal_mpi.so >> "$work/build.log" 2>&1; then
    tail -n 20 "$work/build.log" >&2
    exit 1
fi
mpicc -O2 -std=gnu11 -D_GNU_SOURCE -Wall -Iinclude bench/cluster/goodput.c -o "$work/goodput" -L"$build/src/pmpi" -L"$build/src" \
    -lpeal_mpi -lpeal -Wl,-rpath,"$build/src/pmpi:$build/src" -lpthread
python3 -B bench/cluster/cluster.py --peal "$build/bench/peal" --goodput "$work/goodput" --work "$work" "$@"
