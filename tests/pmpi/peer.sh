#!/bin/sh
# The interposer and its programs, as they were built, under another MPI with the same ABI: peer.sh PEER WAY FOLDER BUILD
# PEER is openmpi5, mpich or intel in FOLDER, or in the one that TEST_PEERS names, as bench/peers.sh packs them. WAY is as run.sh has
# it, and BUILD the build folder. What a peer cannot do by itself is left out, and said here.
set -u
peer=$1 way=$2 prefix=$(realpath -m "${TEST_PEERS:-$3}")/$1 build=$4
here=$(dirname "$0")
if [ ! -e "$prefix/lib/libmpi.so" ]; then
    echo "skipped: no $prefix: sh bench/peers.sh fetch DIR && tar -C BUILD -xf DIR/peers.tar.xz"
    exit 77
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

flavour=mpich mpiexec=mpiexec.hydra shadows=32 many=2000 wrong=
case $peer in
openmpi5) flavour=mpi mpiexec=mpirun shadows=512 library=libmpi.so.40 ;;
mpich) wrong=trusting ;; # PyPI's build looks at no argument, and crashes
intel) many=200          # 500 communicators are too much for it
    export I_MPI_ROOT="$prefix" I_MPI_FABRICS=shm ;;
esac
if [ $flavour = mpich ]; then # Debian's name for what is libmpi.so.12 elsewhere
    library=libmpich.so.12
    ln -s "$prefix/lib/libmpi.so.12" "$dir/$library"
fi
export LD_LIBRARY_PATH="$dir:$prefix/lib:$prefix/lib/$peer" PATH="$prefix/bin:$PATH" TEST_MPIEXEC="$prefix/bin/$mpiexec"
peal=$build/src/pmpi/libpeal_$flavour.so tests=$build/tests/pmpi
ldd "$tests/${flavour}_plain" >"$dir/ldd"
if ! grep -q -e "$library => $prefix/lib/" -e "$library => $dir/" "$dir/ldd"; then
    echo "FAILED: the programs do not use the $library of $prefix"
    exit 1
fi

failed=0
# try NRANKS LIBRARIES [VARIABLE=VALUE...] PROGRAM [ARGUMENT...]: by run.sh.
try() {
    nranks=$1
    shift
    if sh "$here/run.sh" "$nranks" "$way" "$@" >"$dir/out" 2>&1; then
        echo "ok $nranks $*"
        return
    fi
    cat "$dir/out"
    echo "FAILED: $nranks $*"
    failed=1
}

p=$tests/${flavour}_
for n in 2 3 4; do
    try $n "$peal" "${p}allreduce"
    try $n "$peal" "${p}collectives"
    try $n "$peal" PEAL_SHM=off "${p}collectives"
done
try 3 "$peal" "${p}passon" $wrong
try 3 "$peal" "${p}types"
[ $flavour = mpi ] || try 3 "$peal" "${p}counts" # Open MPI has no such calls
try 3 "$peal" "${p}comms"
try 2 "$peal" "${p}many" $many $shadows
try 2 "$peal" "${p}threads"
[ "$peer" = intel ] || try 3 "$peal" "${p}threads" # by itself it does not end, on few cores
try 2 "$peal" "${p}late"
[ "$peer" = intel ] || try 2 "$peal" "${p}spawn" # Intel's launcher wants to be told beforehand
try 3 "$peal" "${p}limited" file 1
try 3 "$peal" "${p}limited" 0 1
for n in 2 3; do
    try $n "$peal" "${p}progress"
done
try 4 "$peal" PEAL_ALGO=ring "${p}allreduce"
try 4 "$peal" PEAL_NODES=1+3 "${p}collectives"
try 3 "$peal:$tests/libtool_noshadow_$flavour.so" "${p}noshadow"
try 2 - "${p}linked" 0
try 2 - PEAL_INTERPOSE=1 "${p}linked" 4
export TEST_WORDS='tool saw 0'
try 2 "$peal:$tests/libtool_count_$flavour.so" "${p}plain" 5 taken
TEST_WORDS='from rank 1'
for count in 1 262144; do
    try 2 "$peal" PEAL_TIMEOUT=1 PEAL_SHM=off "${p}failure" $count
done
TEST_WORDS=PEAL_NONSENSE
try 2 "$peal" PEAL_NONSENSE=1 "${p}config"
exit $failed
