# `peal bench --mem cuda` from outside. $1: the command; $2: a folder with a libcuda.so.1 and a libnccl.so.2 that need no GPU;
# $3: one with a libnccl.so.2 that is old; further words: a command that starts three processes as ranks, which alone is tested.
peal=$(realpath "$1") fake=$(realpath "$2") old=$(realpath "$3")
shift 3
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export LD_LIBRARY_PATH="$fake" FAKE_CUDA_DEVICES=3
unset NCCL_NVLS_ENABLE PEAL_ALGO PEAL_PROTO PEAL_LOG

die() {
    echo "$1"
    cat out err
    exit 1
}

# refuses CODE WORDS ARGS: `peal bench allreduce` exits CODE and says WORDS on stderr.
refuses() {
    code=$1 words=$2
    shift 2
    timeout 60 "$peal" bench allreduce "$@" > out 2> err
    [ $? = "$code" ] || die "exit code of: peal bench allreduce $*"
    grep -q -- "$words" err || die "stderr of peal bench allreduce $* does not say $words"
}

# races ARGS: `peal bench` ends well.
races() {
    timeout 100 "$peal" bench "$@" > out 2> err || die "peal bench $*"
}
quick='-b 16 -e 16 -n 2 -w 1'

if [ $# -gt 0 ]; then
    timeout 100 "$@" "$peal" bench allreduce --mem cuda -b 16 -e 4K -f 256 -n 2 -w 1 --graph 2 --vs nccl > out 2> err ||
        die "over MPI"
    [ "$(grep -c ' 0 *2$' out)" = 16 ] || die "over MPI there are not 16 rows that are right"
    FAKE_CUDA_DEVICES=2 timeout 60 "$@" "$peal" bench allreduce --mem cuda $quick > out 2> err && die "over MPI, with too few GPUs"
    [ "$(grep -c '3 ranks on this host, which has 2 GPUs' err)" = 1 ] || die "not one process says that there are too few GPUs"
    FAKE_CUDA_DEVICES=0 timeout 60 "$@" "$peal" bench allreduce --mem cuda $quick > out 2> err && die "over MPI, without GPUs"
    [ "$(grep -c 'the driver finds no GPU' err)" = 1 ] || die "not one process says that there is no GPU"
    exit 0
fi

refuses 2 'give --mem cuda too' --vs nccl
refuses 2 'give --mem cuda too' -g 2
refuses 2 'give --mem cuda too' --register
refuses 2 'give --mem cuda too' --ulp
refuses 2 '--ulp is for sums and averages (-o) of fp8_e4m3' --mem cuda -g 2 --ulp -t int32
refuses 2 '--ulp is for sums and averages' --mem cuda -g 2 --ulp -t all
refuses 2 '--ulp is for sums and averages' --mem cuda -g 2 --ulp -o max
timeout 60 "$peal" bench allgather --mem cuda -g 2 --ulp > out 2> err && die "--ulp takes an allgather"
refuses 2 'give --vs nccl' --mem cuda --vs mpi
refuses 2 'give -g N' --mem cuda --threads 2
refuses 2 "wrong value 'gpu'" --mem gpu
refuses 2 '-g 4: this machine has 3 GPUs' --mem cuda -g 4
FAKE_CUDA_DEVICES=0 refuses 2 'the driver finds no GPU' --mem cuda -g 2
if ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    echo 'this machine has a driver: what is said without one was not tested'
else
    LD_LIBRARY_PATH='' refuses 2 'no NVIDIA driver: libcuda.so.1' --mem cuda -g 2
fi
mkdir broken && ln -s "$fake/libcuda.so.1" broken && : > broken/libnccl.so.2
LD_LIBRARY_PATH=$dir/broken refuses 2 'no NCCL: .*libnccl.so.2: .*nvidia-nccl' --mem cuda -g 2 --vs nccl
FAKE_CUDA_FAIL=cuMemAlloc_v2:3:2 refuses 1 'cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY on GPU .; lower -e' --mem cuda -g 2 $quick
FAKE_CUDA_FAIL=cuLibraryLoadData:1:200 refuses 1 'kernel that verifies: CUDA_ERROR_INVALID_IMAGE' --mem cuda -g 1 $quick
# Of fp16 the fake NCCL has no sums.
refuses 1 'nccl default: invalid argument; the fake knows no more' --mem cuda -g 2 --vs nccl -t fp16 $quick
refuses 1 'none of these types, ops and sizes' --mem cuda -g 2 -t long_double $quick

races allreduce --mem cuda -g 3 -b 16 -e 4K -f 16 -n 3 -w 1 -m 2 --graph 3 --inplace both --vs nccl --json race.json --plot race.svg
grep -q '^# Fake 0, CUDA 13.0' out || die "the head has no GPU"
grep -q '^# NCCL 2.28.9, NCCL_NVLS_ENABLE=0, set by peal bench$' out || die "the head has no NCCL"
grep -q '^# link: busbw over [0-9.]* GB/s' out || die "the head has no link"
grep -q '^ *4K *float *sum *in graph .* auto .* [0-9.]*$' out || die "there is no contest"
command -v gnuplot > gnuplot_path && { grep -q '<svg' race.svg || die "the plot is no SVG"; }

python3 - <<'P' || die "the JSON is not as it should be"
import json
race = json.load(open("race.json"))
assert {"gpu", "gpus", "link_gbps", "cpu", "cores", "memory_bytes", "kernel", "steal"} == set(race["machine"]), race["machine"]
assert race["machine"]["gpu"] == "Fake 0" and race["machine"]["gpus"] == 3 and race["machine"]["link_gbps"] > 0
versions = race["versions"]
assert versions["cuda"] == "13.0" and versions["nccl"] == "2.28.9" and versions["nccl_nvls_enable"] == "0, set by peal bench"
rows = race["rows"]
modes = [("peal", "auto", "plain", 0), ("nccl", "default", "plain", 4), ("nccl", "registered", "registered", 4),
         ("nccl", "symmetric", "symmetric", 4)]
want = [(size, place, impl, variant, buffers, mode) for size in (16, 256, 4096) for place in (False, True)
        for impl, variant, buffers, ctas in modes for mode in ("eager", "graph")]
assert [(r["bytes"], r["inplace"], r["impl"], r["variant"], r["buffers"], r["mode"]) for r in rows] == want
for r in rows:
    assert r["mem"] == "cuda" and r["verified"] is True and r["samples"] == 3 and r["nranks"] == 3, r
    assert r["calls"] == (3 if r["mode"] == "graph" else 2), r
    assert 0 < r["min_us"] <= r["median_us"] <= r["p99_us"] and 0 < r["enqueue_us"] and 0 < r["host_us"], r
    assert abs(r["busbw"] - r["algbw"] * 4 / 3) < 1e-6 * r["busbw"], r
    assert abs(r["algbw"] - r["bytes"] / r["median_us"] / 1e3) < 1e-6 * r["algbw"], r
    assert abs(r["link"] - r["busbw"] / race["machine"]["link_gbps"]) < 1e-6 * r["link"], r
    assert r["ctas"] == 4 if r["impl"] == "nccl" else r["ctas"] > 0, r
    assert r["chosen"] == (r["impl"] == "peal"), r
P

# One byte that is wrong in one call of one rank is seen, and told of the variant that made it: the fourth of each mode of NCCL,
# which is its last.
FAKE_NCCL_WRONG=4 timeout 60 "$peal" bench allreduce --mem cuda -g 2 -b 4K -e 4K -n 2 -w 1 --vs nccl --json wrong.json > out 2> err
[ $? = 1 ] || die "a wrong result does not fail the race"
FAKE_NCCL_WRONG=99 races allreduce --mem cuda -g 2 -b 4K -e 4K -n 2 -w 1 --vs nccl
FAKE_NCCL_WRONG=1 timeout 60 "$peal" bench reduce --mem cuda -g 2 -c 0 $quick --vs nccl > out 2> err || die "-c 0 checks"
grep -q ' N/A ' out || die "-c 0 does not say that nothing was checked"
python3 - <<'P' || die "the wrong result is not told of"
import json
told = {row["variant"]: row["verified"] for row in json.load(open("wrong.json"))["rows"]}
assert told == {"auto": True, "default": False, "registered": False, "symmetric": False}, told
P

# Errors: of two ranks' sums half a unit; of three, one and no more. The fifth call of each mode of NCCL is the one on data that
# rounds.
for kind in allreduce reduce_scatter reduce; do
    races $kind --mem cuda -g 3 -b 3600 -e 3600 -n 2 -w 1 --inplace both --graph 2 --ulp --vs nccl --json $kind.json
    [ "$(grep -c ' [01][.0-9]*  *0  *2$' out)" = 16 ] || die "--ulp: the table of $kind does not have 16 errors"
done
races allreduce --mem cuda -g 2 -b 3600 -e 3600 -n 2 -w 1 --ulp -t bf16 -o avg --json two.json
FAKE_NCCL_WRONG=5 races allreduce --mem cuda -g 2 $quick --ulp --vs nccl --json wrong.json
python3 - <<'P' || die "the errors are not as they should be"
import json
kinds = ("allreduce", "reduce_scatter", "reduce")
rows = {file: json.load(open(file + ".json"))["rows"] for file in kinds + ("two", "wrong", "race")}
for file in kinds:
    assert len(rows[file]) == 16 and all(0.4 < r["ulp"] <= 1 and r["verified"] for r in rows[file]), rows[file]
assert 0.4 < rows["two"][0]["ulp"] <= 0.5, rows["two"]
assert all((r["ulp"] > 1000) == (r["impl"] == "nccl") and r["verified"] for r in rows["wrong"]), rows["wrong"]
assert not any("ulp" in r for r in rows["race"])
P

for kind in allgather reduce_scatter broadcast reduce; do
    races $kind --mem cuda -g 3 -b 36 -e 3600 -f 100 -n 2 -w 1 -m 2 --graph 2 --inplace both --vs nccl -t double
    [ "$(grep -c ' 0 *2$' out)" = 32 ] || die "$kind is not right in 32 rows"
    FAKE_NCCL_WRONG=2 timeout 60 "$peal" bench $kind --mem cuda -g 3 $quick -t int8 --vs nccl > out 2> err &&
        die "$kind is not checked"
done
races allreduce --mem cuda -g 2 -b 1K -e 2M -f 2048 -n 2 -w 1 --graph 2 --vs nccl --register
[ "$(grep -c 'auto  *registered .* 0 *2$' out)" = 4 ] || die "Peal's buffers are not registered in 4 rows"
[ "$(grep -c 'default  *plain .* 0 *2$' out)" = 4 ] || die "--register registers NCCL's plain buffers"
races allreduce --mem cuda -g 2 -b 64 -e 64 -n 1 -w 0 -t all -o all --algo all
grep -q ' int8 *bxor .* ring .* 0 *1$' out || die "a type, op or algorithm is missing"
mkdir aged && ln -s "$old/libnccl.so.2" "$fake/libcuda.so.1" aged # an old libcuda lies beside the old libnccl
LD_LIBRARY_PATH="$dir/aged:$fake" NCCL_NVLS_ENABLE=1 races allreduce --mem cuda -g 2 $quick --vs nccl
grep -q '^# NCCL 2.22.3, NCCL_NVLS_ENABLE=1, from the environment$' out || die "NCCL_NVLS_ENABLE is not left alone"
grep -q registered out || die "old NCCL has no registered buffers"
! grep -q symmetric out || die "old NCCL has symmetric buffers"
