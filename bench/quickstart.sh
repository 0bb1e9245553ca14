#!/bin/sh
# From a bare Debian 12 to a race: builds Peal, runs MPI programs that know nothing of it on its schedules, then races its
# algorithms against the MPI's own on this machine. Leaves build/race.json and build/race.svg.
cd "$(dirname "$0")/.." || exit 1
. bench/need.sh
set -e
need gcc libc6-dev meson ninja-build pkg-config libopenmpi-dev openmpi-bin libcjson-dev libcmocka-dev libhwloc-dev libxxhash-dev
like gnuplot-nox lammps

ranks=4
flags=$(mpirun_flags $ranks)
say() {
    printf '\n== %s\n' "$1"
}

say "build"
[ -f build/build.ninja ] || meson setup build --buildtype=release
ninja -C build bench/peal bench/example_mpi_only src/pmpi/libpeal_mpi.so

# The environment is set behind mpirun, so that mpirun itself is left alone.
interposed="env LD_PRELOAD=$PWD/build/src/pmpi/libpeal_mpi.so PEAL_LOG=info PEAL_LOG_SUBSYS=coll"
say "an MPI program, unmodified, on Peal's schedules (bench/examples/mpi_only.c)"
mpirun $flags -n $ranks $interposed build/bench/example_mpi_only
if command -v lmp > /dev/null; then
    say "Debian's LAMMPS, unmodified, on Peal's schedules (a Lennard-Jones melt)"
    mpirun $flags -n $ranks $interposed lmp -in tests/programs/lj.lmp -log none
fi

say "the race: $ranks ranks, every algorithm and the MPI's own"
mpirun $flags -n $ranks build/bench/peal bench allreduce -b 16 -e 16M -f 4 -t float -o sum --algo all --vs mpi \
    --json build/race.json --plot build/race.svg
say "done"
echo "the figures are in build/race.json"
[ ! -f build/race.svg ] || echo "the plot is build/race.svg"
