# `peal bench` with ranks that are MPI processes, beside the MPI's own. $1: the command; then mpirun and its flags.
peal=$(realpath "$1") || exit 1
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

die() {
    echo "$1"
    cat out
    exit 1
}

"$@" -n 4 "$peal" bench allreduce -b 16 -e 256K -f 128 -n 5 --algo all --vs mpi --json race.json > out 2>&1 || die "the race failed"
python3 - <<'P' || die "the peer is not beside Peal"
import json
rows = json.load(open("race.json"))["rows"]
assert {"peal", "openmpi"} == {row["impl"] for row in rows}
assert all(row["verified"] and row["transport"] == "shm" and row["nranks"] == 4 for row in rows)
P

for kind in allgather reduce_scatter broadcast reduce; do
    "$@" -n 3 "$peal" bench $kind -b 48 -e 48K -f 32 -n 2 --algo all --inplace both --vs mpi > out 2>&1 || die "bench $kind"
done
"$@" -n 2 "$peal" tune broadcast -e 64K -f 16 -n 5 -o table > out 2>&1 || die "tune"
grep -q '^broadcast *shm *2 *inf ' table || die "tune wrote no row"

# Ranks as threads of several processes are refused, once; what is the same in all processes is said once.
for how in "bench allreduce --threads 2" "bench allreduce --mem cuda -g 2" "tune --threads 2"; do
    # shellcheck disable=SC2086
    "$@" -n 3 "$peal" $how -e 64 > out 2>&1 && die "threads of three processes are not refused"
    [ "$(grep -c '2: ranks would be 2 threads of each of the 3 processes' out)" = 1 ] || die "threads are not refused once"
    grep -q '^# ' out && die "the ranks begin for all that"
done
"$@" -n 1 "$peal" bench allreduce --threads 2 -e 64 > out 2>&1 || die "threads of the only process are refused"
for how in "check -n 3 --algo ring" "show allreduce ring -n 3" "sim allreduce -n 4 -b 1K -e 1K" "bench --help" help; do
    # shellcheck disable=SC2086
    "$peal" $how > alone 2>&1 || die "$how"
    # shellcheck disable=SC2086
    "$@" -n 3 "$peal" $how > out 2>&1 || die "$how of three processes"
    [ "$(wc -l < out)" = "$(wc -l < alone)" ] || die "$how is not said once"
done
"$@" -n 3 "$peal" nonsense > out 2>&1 && die "a wrong subcommand of three processes is not refused"
[ "$(grep -c 'no subcommand' out)" = 1 ] || die "a wrong subcommand is not named once"

# Of a file that cannot be written one rank speaks, and all end.
for how in "tune -o" "bench allreduce --json"; do
    # shellcheck disable=SC2086
    "$@" -n 3 "$peal" $how nowhere/file -e 64K > out 2>&1 && die "a file that cannot be written is not refused"
    [ "$(grep -c 'nowhere/file.*No such file' out)" = 1 ] || die "a file that cannot be written is not named once"
    grep -q '^# ' out && die "the ranks begin before they look at the file"
done

# The MPI's own takes part in all that MPI has, and gives what Peal gives; what it has not is refused.
"$@" -n 2 "$peal" bench allreduce --vs mpi -t all -o all -b 64 -e 64 -n 2 > out 2>&1 || die "a race of all types with the MPI's"
grep -q ' bool *lxor *out openmpi' out && grep -q ' complex_double *prod *out openmpi' out || die "the MPI's own lacks a type"
"$@" -n 2 "$peal" bench allreduce --vs mpi -t bf16 > out 2>&1 && die "a race of a type that MPI has not is not refused"
grep -q "MPI, the peer, has no type 'bf16'" out || die "a type that MPI has not is not named"

# Ranks with different tables are told so.
small="bench allreduce -b 16 -e 16"
"$@" -n 1 env PEAL_TUNING=table "$peal" $small : -n 1 "$peal" $small > out 2>&1 &&
    die "different tables are not refused"
grep -q 'no communicator: the table of PEAL_TUNING differs on rank' out || die "different tables are not named"
"$@" -n 1 env PEAL_SLICE=64K PEAL_SHM=off "$peal" $small : -n 1 "$peal" $small > out 2>&1 &&
    die "different variables are not refused"
grep -q 'no communicator: PEAL_SLICE, PEAL_SHM differ on rank 1; set them alike' out || die "variables that differ are not named"

# Of other sources (of which the number in the program speaks) no libpeal understands another.
LC_ALL=C sed 's/sources [0-9]\{10\}/sources 0000000001/' "$peal" > other && chmod +x other &&
    ! cmp -s "$peal" other || die "no other peal"
"$@" -n 1 "$peal" $small : -n 1 ./other $small > out 2>&1 && die "another libpeal on a rank is not refused"
grep -q 'no communicator: rank [01] runs a libpeal of other sources than rank [01]' out || die "another libpeal is not named"

# A process alone: by nobody's launcher, and by another MPI's.
"$peal" bench allreduce -b 16 -e 16 > out 2>&1
[ $? = 2 ] && grep -q 'mpirun -n 4' out || die "a lone process is not told what to do"
PMI_SIZE=4 PMI_RANK=0 "$peal" bench allreduce -b 16 -e 16 > out 2>&1
[ $? = 2 ] && grep -q 'another MPI' out || die "a process of another MPI's launcher is not told so"
"$@" -n 2 "$peal" bench broadcast --vs mpi -t int8 -e 2G > out 2>&1 && die "more elements than MPI counts are not refused"
grep -q 'counts end at 2147483647, and -e 2147483648 has more elements of int8' out || die "what MPI does not count is not named"
LD_PRELOAD=libpeal_mpi.so "$peal" bench allreduce --vs mpi > out 2>&1
[ $? = 2 ] && grep -q 'against itself' out || die "a race against itself is not refused"
