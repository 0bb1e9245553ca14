# `peal` from outside, with ranks that are threads: what it prints, writes and refuses. $1: the command.
peal=$(realpath "$1") || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

die() {
    echo "$1"
    cat out err
    exit 1
}

# refuses CODE WORD ARGS: exits CODE and names WORD on stderr.
refuses() {
    code=$1 word=$2
    shift 2
    "$peal" "$@" > out 2> err
    [ $? = "$code" ] || die "exit code of: peal $*"
    grep -q -- "$word" err || die "stderr of peal $* does not name $word"
}
refuses 2 bench
refuses 2 "no subcommand 'race'" race
refuses 2 "no collective 'barrier'" bench barrier
refuses 2 stepfactor bench allreduce --step 2
refuses 2 "unknown flag '-z'" bench allreduce -z
refuses 2 "missing after '-b'" bench allreduce -b
refuses 2 "wrong value '12X'" bench allreduce -b 12X
refuses 2 bfloat bench allreduce -t bfloat
refuses 2 ring bench allreduce --algo rign
refuses 2 "below the first" bench allreduce -b 1M -e 16
refuses 2 mpirun bench allreduce --vs mpi --threads 2
refuses 2 ring show allreduce rign -n 4
refuses 2 4096 show allreduce ring -n 0
refuses 2 broadcast show barrier ring -n 4
refuses 2 "after '-n'" show allreduce ring -n
refuses 2 "unknown flag '-z'" show allreduce ring -z
refuses 2 "4+x" show allreduce ring --nodes 4+x
refuses 2 "nodes is missing" show allreduce ring
refuses 2 "not below" show allreduce ring -n 4 -r 4
refuses 2 "different numbers of ranks" show allreduce hierarchical --nodes 2+2 -n 8
refuses 2 "different numbers of ranks" show --why allreduce 1M -n 3 --nodes 2+2
refuses 2 ring check --algo rign
refuses 2 "missing after 'allreduce'" sim allreduce
refuses 2 rign sim allreduce -n 4 --algo rign
refuses 2 "wrong value '1;2'" sim allreduce -n 4 --near '1;2'
refuses 2 "wrong value 'inf,1'" sim allreduce -n 4 --near inf,1
refuses 2 "takes --topo, --rdma" info now
refuses 2 "no collective 'barrier'" tune barrier
refuses 2 "wrong value '12X'" tune -b 12X
refuses 2 "unknown flag '-z'" tune -z
refuses 2 "no size 'ring'" show --why allreduce ring -n 4
refuses 2 "wrong value 'tcp'" show --why allreduce 1M -n 4 --net tcp
refuses 2 "wrong value 'hosts'" show --why allreduce 1M -n 4 --net hosts
refuses 2 "sim: -n: wrong value '0'" sim allreduce -n 0
refuses 2 "bench: -b: wrong value '0'" bench allreduce -b 0
refuses 2 "bench: -b: wrong value '0'" bench allreduce -b0
refuses 2 "bench: --algo: wrong value 'rign'" bench allreduce --algo=rign
refuses 2 "tune: -f: wrong value '1'" tune -f 1
refuses 2 "unknown flag '-z'" bench allreduce ring -z
refuses 2 "unknown flag '-z'" tune -zb 4
refuses 2 "'64M < 1G'" bench allreduce -b 1G
refuses 2 "'4 < 16'" sim allreduce -n 2 -e 4
refuses 2 "bench: -f: wrong value '2x'" bench allreduce -f 2x
refuses 2 "bench: -n: wrong value '10000001'" bench allreduce -n 10000001
refuses 2 "sim: -f: wrong value 'inf'" sim allreduce -n 2 -f inf
refuses 2 "bench: -f: wrong value '1.005'" bench allreduce -f 1.005
refuses 2 "sim: -f: wrong value '1.005'" sim allreduce -n 2 -f 1.005
refuses 2 "tune: --mem: wrong value 'cuda'" tune --mem cuda
refuses 2 "sim: --reduce: wrong value '20GB'" sim allreduce -n 2 --reduce 20GB
refuses 2 "tune: -f: wrong value '4K'" tune -f 4K
refuses 2 "check: -n wants 1 to 4096, not '5x'" check -n 5x
refuses 2 "info: --root nowhere: there is no sys in it" info --rdma --root nowhere
for command in bench check info show sim tune; do
    "$peal" $command --help > out 2> err && grep -q "^usage: .*peal $command" out && [ ! -s err ] || die "peal $command --help"
done

# What was printed and did not arrive is a failure.
for how in info "show allreduce ring -n 4" "sim allreduce -n 4 -e 16" "check -n 3 --algo ring" \
    "bench allreduce --threads 2 -e 16 -n 1"; do
    # shellcheck disable=SC2086
    "$peal" $how > /dev/full 2> err && die "peal $how: what it printed is lost, and nobody is told"
    grep -q 'standard output could not be written' err || die "peal $how does not say that its output is lost"
done

# Files that cannot be written are refused before there is anything to lose, and those that can be are left alone.
for how in "bench allreduce --json" "bench allreduce --plot" "tune -o"; do
    # shellcheck disable=SC2086
    refuses 2 "nowhere/file.* No such file" $how nowhere/file --threads 2 -e 16 -n 1
    [ ! -s out ] || die "peal $how begins before it looks at its file"
done
refuses 2 "json \. cannot be written: Is a directory" bench allreduce --threads 2 -e 16 -n 1 --json .
refuses 2 "tune: -o: wrong value ''" tune -o ''
mkfifo pipe
refuses 2 "pipe is no regular file" tune --threads 2 -o pipe
ln -s made link
"$peal" bench allreduce --threads 2 -e 16 -n 1 --json link > out 2> err || die "a race into a link"
[ -L link ] && [ -s made ] || die "a link to what was not there yet is gone"
refuses 2 "nothing to race.*8 (-b) to 8 (-e) has 4 of" bench allgather --threads 4 -b 8 -e 8
refuses 2 "nothing to race" bench allreduce --threads 2 -t bool -o sum -e 64 --plot race.svg
refuses 2 "nothing to measure.* each of 3 ranks" tune --threads 3 -b 4 -e 8 -o table
[ ! -e table ] || die "peal tune wrote a table of nothing"
echo kept > race.json
refuses 2 "nowhere/file" bench allreduce --threads 2 -e 16 --json race.json --plot nowhere/file
[ "$(cat race.json)" = kept ] || die "a race that did not begin wrote its file"
(
    trap '' XFSZ
    ulimit -f 1 # as a disk that is full
    "$peal" bench allreduce --threads 2 -e 64 -n 1 --json race.json > /dev/null 2> err
) && die "a race whose file has no room went well"
grep -q "race.json: File too large" err || die "the file that has no room is not named"
[ "$(cat race.json)" = kept ] && [ ! -e race.json.new ] || die "a file that has no room is no more what it was"

"$peal" bench allreduce --threads 3 -b 16 -e 64K -f 16 -n 5 -w 1 --algo all --inplace both -t double -o max \
    --json race.json --plot race.svg > out 2> err || die "the race failed"
grep -q '^# *size *count *type *redop' out || die "the table has no head"
grep -q 'winner' out || die "there are no winners"
if command -v gnuplot > gnuplot_path; then
    grep -q '<svg' race.svg || die "the plot is no SVG"
    "$peal" bench allreduce --threads 2 -e 16 -n 1 --plot "it's \"a\".svg" > out 2> err || die "a plot"
    grep -q '<svg' "it's \"a\".svg" || die "a plot's name that has quotes"
    (ulimit -f 4 && trap '' XFSZ && "$peal" bench allreduce --threads 2 -e 16 -n 1 --plot cut.svg; echo "exit $?") 2> err |
        cat > out
    grep -q 'exit 1' out || die "a plot that was cut is no failure"
    grep -q 'a full disk has cut cut.svg' err || die "nothing says that a plot was cut"
else
    grep -q 'gnuplot is not installed' err || die "nothing says that gnuplot is missing"
fi

python3 - <<'P' || die "the JSON is not as the documentation has it"
import json
race = json.load(open("race.json"))
keys = {"run", "collective", "bytes", "type", "op", "nranks", "mem", "buffers", "mode", "inplace", "transport", "impl", "variant",
        "chosen", "samples", "min_us", "median_us", "p99_us", "algbw", "busbw", "predicted_us", "verified"}
assert set(race) == {"machine", "versions", "commit", "rows"}, set(race)
assert set(race["machine"]) == {"cpu", "cores", "memory_bytes", "kernel", "steal"}
assert 0 <= race["machine"]["steal"] <= 1
rows = race["rows"]
variants = {row["variant"] for row in rows}
assert {"ring", "recursive_doubling", "binomial"} <= variants, variants
assert len(rows) == 4 * 2 * len(variants), len(rows)
for row in rows:
    assert set(row) == keys, set(row) ^ keys
    assert row["verified"] is True and row["samples"] == 5 and row["nranks"] == 3, row
    assert 0 < row["min_us"] <= row["median_us"] <= row["p99_us"], row
    assert abs(row["busbw"] - row["algbw"] * 4 / 3) < 1e-6 * row["busbw"], row
    assert abs(row["algbw"] - row["bytes"] / row["median_us"] / 1e3) < 1e-6 * row["algbw"], row
assert sum(row["chosen"] for row in rows) == 4 * 2, "one variant of each problem is Peal's choice"
P

"$peal" bench allreduce --threads 2 -b 1K -e 1K -n 3 -t all -o all > out 2> err || die "types and ops"
grep -q ' int8 *bxor ' out || die "a type and op is missing"
"$peal" show allreduce ring -n 4 > out 2> err || die "show"
[ "$(grep -c '^round' out)" = 6 ] || die "show draws no six rounds"
grep -q '^schedule rank 0 of 4' out || die "show has no schedule"
grep -q '^program allreduce ring rank 0 of 4' out || die "show has no program"
"$peal" show allreduce two_shot --nodes 3+2 --reach pull -r all > out 2> err || die "show of nodes"
[ "$(grep -c '^reach . of 3 pull' out)" = 3 ] || die "show of nodes has no three programs of the first node"
"$peal" check --algo ring -n 8 > out 2> err || die "check"
"$peal" check --programs --algo ring -n 8 > out 2> err || die "check of programs"
tail -n 1 out | grep -q '^[0-9]* programs$' || die "check of programs does not end on its total"
"$peal" sim allreduce -n 32 -b 16 -e 64M -f 8 --algo all > out 2> err || die "sim"
[ "$(grep -c 'winner$' out)" = 8 ] || die "sim has no winner for each of 8 sizes"
grep -q '^ *16 recursive_doubling .*winner$' out || die "sim: 16 bytes are not won by the fewest rounds"

# Tables: made by a sweep, merged, read, explained, and refused.
"$peal" tune --threads 2 allreduce reduce -e 256K -f 16 -n 5 -o table > out 2> err || die "tune"
grep -q '^allreduce *shm *2 *inf ' table && grep -q '^reduce *shm *2 *inf ' table || die "the table lacks a collective"
"$peal" tune --threads 3 allreduce -e 16 -n 5 -o table > out 2> err || die "tune for 3 ranks"
"$peal" tune --threads 2 allreduce -e 16 -n 5 -o table > out 2> err || die "tune for 2 ranks again"
[ "$(grep -c '^allreduce *shm *3 *inf ' table)" = 1 ] || die "rows of 3 ranks are not kept"
[ "$(grep -c '^allreduce *shm *2 ' table)" = 1 ] || die "rows of 2 ranks are not replaced"
grep -q '^reduce *shm *2 *inf ' table || die "rows of reduce are not kept"
"$peal" tune --threads 2 allreduce -e 16 -n 1 --mem shared -o table > out 2> err || die "tune on memory of peal_mem_alloc"
grep -q '^allreduce *direct *2 *inf ' table && grep -q '^allreduce *shm *2 ' table || die "rows of direct are not added"
PEAL_NODES=1+1 "$peal" tune --threads 2 allreduce -b 4M -e 4M -n 1 -o table > out 2> err || die "tune between nodes, of many slices"
grep -q '^allreduce *hosts *2 *inf ' table || die "tune between nodes wrote no row"
PEAL_NODES=1+2 "$peal" tune --threads 3 -b 64 -e 64 -n 1 > out 2> err || die "tune on nodes of different sizes"
for kind in allreduce allgather reduce_scatter; do
    PEAL_NODES=1+2 "$peal" bench $kind --threads 3 --algo all -b 12 -e 12 -n 1 > out 2> err || die "$kind on uneven nodes"
    grep -q ' hierarchical ' out && ! grep -q ' hierarchical_grid ' out || die "$kind on uneven nodes races others"
done
printf 'reduce shm 9 inf binomial 0' > plain # and no end of its line
ln -s plain link_to_table
"$peal" tune --threads 2 allreduce -e 16 -n 1 -o link_to_table > out 2> err || die "tune into a link"
[ -L link_to_table ] && [ ! -L plain ] || die "tune replaced a link"
PEAL_TUNING=plain "$peal" show --why reduce 16 -n 9 --net shm > out 2> err || die "a table whose last line had no end is broken"
grep -q '^  by line 1 of plain' out && grep -q '^allreduce *shm *2 *inf ' plain || die "a merged table lacks a row"
ln -s nowhere/table link_to_nothing
refuses 2 "cannot read link_to_nothing" tune --threads 2 -o link_to_nothing
chmod 600 plain
rows=$((1024 - $(grep -c '^[a-z]' "${0%/*}/../src/sched/tuning.txt") - $(grep -c '^[a-z]' plain))) # as many as fit
for n in $(seq 10 $((9 + rows))); do echo "reduce shm $n inf binomial 0"; done >> plain
cp plain before
"$peal" tune --threads 2 -e 64K -n 1 -o plain > out 2> err && die "peal tune made a table that nobody can read"
grep -q 'plain stays as it was: with these rows, its [0-9]* rows and the built-in ones are more than 1024' err ||
    die "too many rows are not named"
cmp plain before || die "a table does not stay as it was"
sed -i '20,$d' plain
"$peal" tune --threads 2 reduce -e 16 -n 1 -o plain > out 2> err || die "tune into a long table"
[ "$(stat -c %a plain)" = 600 ] || die "a merged table has lost its mode"
PEAL_TUNING=plain "$peal" show --why reduce 1M -n 9 --net direct > out 2> err || die "show --why of buffers that are seen"
grep -q '^  by line 1 of plain$' out || die "rows of shm do not hold for buffers that are seen"
"$peal" show --why broadcast 64M -n 4 --net direct > out 2> err || die "show --why of a long broadcast"
grep -q ' K 4, W 4$' out || die "a long broadcast is not staged in slices"
PEAL_TUNING=table "$peal" show --why allreduce 1M -n 2 --net shm > out 2> err || die "show --why by a table"
grep -q '^  by line [0-9]* of table$' out || die "show --why does not name the table"
"$peal" show --why allreduce 1M -n 16 > out 2> err || die "show --why"
grep -q '^  by line [0-9]* of the built-in table$' out || die "show --why does not name the built-in table"
[ "$(grep -c '^ -> ' out)" = 1 ] && grep -q '^->' out || die "show --why marks no row, or no price"
"$peal" show --why allreduce 64M --nodes 4+4+3 --net mpi > out 2> err || die "show --why on nodes"
grep -q '11 ranks on 3 nodes: hierarchical' out || die "levels are not chosen on several nodes"
PEAL_SLICE=1 "$peal" show --why allreduce 8G -n 4 > out 2> err || die "show --why of many slices"
grep -q ', K 32768, W 4$' out && ! grep -q nan out || die "show --why does not cut as calls are cut"
"$peal" show --why allreduce 8M -n 4 --net shm > out 2> err || die "show --why of what lands"
grep -q ', K 16, W 2$' out || die "show --why has other slices in flight than calls"
"$peal" show --why allreduce 1M --nodes 2+2 --net direct > out 2> err || die "show --why of buffers that all see"
grep -q '^rows of allreduce over direct' out || die "ranks that share memory are taken for several hosts"
echo 'allreduce shm 2 inf one_shot 4k' > mine
PEAL_TUNING=mine "$peal" bench allreduce --threads 2 -b 1M -e 1M -n 1 > out 2> err || die "bench by a table"
grep -q ' one_shot \*' out || die "the table's algorithm is not taken"
echo 'allreduce shm 2 inf one_shot' > broken
refused_table() {
    PEAL_TUNING=$1 "$peal" bench allreduce --threads 2 -b 16 -e 16 > out 2> err && die "PEAL_TUNING=$1 is not refused"
    grep -q "PEAL_TUNING $1: $2" err || die "PEAL_TUNING=$1 is refused in other words"
}
refused_table broken "line 1: it has not the 6 words"
refused_table nowhere/table "it cannot be read"
refuses 2 "line 1" tune --threads 2 -o broken
echo 'allreduce shm 2 17179869184g ring 0' > broken
refused_table broken "line 1: bytes 17179869184g is no number"
PEAL_NODES=2+2 "$peal" bench allreduce --threads 4 -b 64K -e 64K -n 2 --algo hierarchical > out 2> err || die "PEAL_NODES"
PEAL_NODES=2+1 "$peal" bench allreduce --threads 4 -b 16 -e 16 > out 2> err && die "a wrong PEAL_NODES is not refused"
grep -q 'nodes 2+1 (PEAL_NODES) are not the 4 ranks' err || die "a wrong PEAL_NODES is not named"
PEAL_NODES=2,2 "$peal" bench allreduce --threads 4 -b 16 -e 16 > out 2> err && die "PEAL_NODES=2,2 is not refused"
grep -q 'wrong value PEAL_NODES=2,2' err || die "PEAL_NODES=2,2 is not named"
PEAL_ALGO=ring "$peal" bench allreduce --threads 2 -e 16 -n 1 > out 2> err || die "PEAL_ALGO"
grep -q ' ring \*' out || die "PEAL_ALGO is not what auto takes"
PEAL_ALGO=hierarchical_grid PEAL_NODES=1+2 "$peal" bench broadcast --threads 3 -e 16 -n 1 > out 2> err || die "PEAL_ALGO of others"
grep -q 'PEAL_ALGO hierarchical_grid does not fit allreduce among 3 ranks on 2 nodes' err || die "what PEAL_ALGO does not fit"
PEAL_NODES=1+2 refuses 2 "none of --algo hierarchical_grid fits 3 ranks on 2 nodes" bench allreduce --threads 3 -e 16 \
    --algo hierarchical_grid
refuses 2 "wrong value '1e-320'" sim allreduce -n 4 --reduce 1e-320
"$peal" bench allgather --threads 1 -b 64 -e 64 -n 1 -d double > out 2> err || die "a race of one rank"
tail -n 1 out | grep -q ' 0.000 *0 *1$' || die "one rank has a bus"
for kind in allgather reduce_scatter broadcast reduce; do
    "$peal" bench $kind --threads 3 -b 48 -e 48K -f 32 -n 2 --algo all --inplace both -t double > out 2> err || die "bench $kind"
done

"$peal" info > out 2> err || die "info"
grep -q PEAL_ALGO out || die "info has no variables"
grep -q '^levels: .*\(core [0-9]\|not known\)' out || die "info has no levels"
for wrong in PEAL_SLICE=much PEAL_NONSENSE=1 PEAL_TUNING=nowhere/table PEAL_ALGO=rign; do
    for how in info "show --why allreduce 1M -n 2"; do
        # shellcheck disable=SC2086
        env "$wrong" "$peal" $how > out 2> err && die "$how has nothing against $wrong"
        grep -q "${wrong%=*}" err || die "$how does not name $wrong"
    done
done
"$peal" info --rdma > out 2> err || die "info --rdma"
grep -q '^network ports$' out || die "info --rdma has no ports"
"$peal" help > out 2> err || die "help"
