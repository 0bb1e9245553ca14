# bench/peers.sh on the MPI that is here: its table, its file, and what it makes of candidates that err. $1: the build folder;
# $2: peers_fault.so.
fault=$(realpath "$2") && build=$(realpath "$1") || exit 1
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

die() {
    echo "$1"
    cat "$dir/out"
    exit 1
}

# race FLAGS: two ranks, sizes around the 64 floats of the fault.
race() {
    sh bench/peers.sh run -n 2 --build "$build" --out "$dir" --budget 0.003 "$@" > "$dir/out" 2>&1
}

for wrong in "-n 0" "-n -1" "--seconds 0" "--budget x"; do
    # shellcheck disable=SC2086
    race $wrong
    [ $? = 2 ] && grep -q "argument ${wrong% *}: invalid .* above 0 value: '${wrong#* }'" "$dir/out" || die "$wrong is not refused"
done

race --only openmpi4,peal --sizes 64:64 || die "the race failed"
grep -q 'ordinary .*allreduce against the best peer, geometric mean' "$dir/out" || die "no acceptance lines"
python3 - "$dir/peers-2.json" <<'P' || die "the file is not whole"
import json, sys
file = json.load(open(sys.argv[1]))
rows = file["rows"]
assert not file["trouble"] and not file["missing"] and len(file["acceptance"]) >= 20
assert all(row["verified"] and row["samples"] >= 9 and 0 < row["min_us"] <= row["median_us"] <= row["p99_us"] for row in rows)
shapes = {(row["type"], row["inplace"], row["buffers"]) for row in rows if row["collective"] == "allreduce"}
assert len(shapes) == 8, shapes
assert {row["collective"] for row in rows} == {"allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "barrier"}
assert {("openmpi4", "mpi", "ordinary"), ("peal", "interposer", "shared"), ("peal", "api", "shared")} <= \
    {(row["impl"], row["way"], row["mem"]) for row in rows}
P

PEERS_FAULT=wrong LD_PRELOAD=$fault race --only openmpi4,peal-api --sizes 64:1K --quick && die "wrong results are not noticed"
grep -q '^peers: openmpi4: allreduce 1K: .* are wrong' "$dir/out" || die "wrong results are not named"
grep -q '^ *64 .*openmpi4' "$dir/out" && ! grep -q '^ *1K .*openmpi4' "$dir/out" || die "wrong results take part"

PEERS_FAULT=dies LD_PRELOAD=$fault race --only openmpi4,peal-api --sizes 64:1K --quick && die "a dead rank is not noticed"
grep -q '^peers: openmpi4: allreduce 1K: a rank ended' "$dir/out" || die "a dead rank is not named"
grep -q '^ *64 .*openmpi4' "$dir/out" && grep -q '^ *1K *- .*[0-9]' "$dir/out" || die "others do not go on"
