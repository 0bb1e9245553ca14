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
assert all(row["verified"] and row["transport"] == "mpi" and row["nranks"] == 4 for row in rows)
P

# A process alone: by nobody's launcher, and by another MPI's.
"$peal" bench allreduce -b 16 -e 16 > out 2>&1
[ $? = 2 ] && grep -q 'mpirun -n 4' out || die "a lone process is not told what to do"
PMI_SIZE=4 PMI_RANK=0 "$peal" bench allreduce -b 16 -e 16 > out 2>&1
[ $? = 2 ] && grep -q 'another MPI' out || die "a process of another MPI's launcher is not told so"
LD_PRELOAD=libpeal_mpi.so "$peal" bench allreduce --vs mpi > out 2>&1
[ $? = 2 ] && grep -q 'against itself' out || die "a race against itself is not refused"
