# `peal bench` with a rank whose clock is 15 minutes ahead, as on another host. $1: the command; then mpirun and its flags.
peal=$(realpath "$1") || exit 1
shift
away="unshare -T --monotonic 900"
# shellcheck disable=SC2086
$away true 2> /dev/null || { echo "skipped: no clock of its own can be had ($away)"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# Rank 1's clock, then rank 0's.
for first in "" "$away"; do
    second=$([ "$first" ] || echo "$away")
    # shellcheck disable=SC2086
    timeout 60 "$@" -n 1 $first "$peal" bench allreduce -b 64 -e 4K -f 64 --json race.json : -n 1 $second "$peal" bench allreduce \
        -b 64 -e 4K -f 64 --json race.json > out 2>&1 || { cat out; echo "the race failed, or hung"; exit 1; }
    python3 - <<'P' || { cat out; exit 1; }
import json
rows = json.load(open("race.json"))["rows"]
assert len(rows) == 2 and all(row["verified"] for row in rows), rows
assert all(0 < row["min_us"] <= row["median_us"] < 1e6 for row in rows), rows
P
done
