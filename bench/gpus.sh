#!/bin/sh
# All that Peal has to show on the GPUs of this machine, in one go of at most 8 minutes: builds, runs the tests that work on a real
# driver, races NCCL, and leaves logs, JSON and plots in OUT, with all of it in OUT/gpus.tar.gz.
#
#     sh bench/gpus.sh OUT                     builds in ./build-gpus
#     sh bench/gpus.sh -n 2 -e 1G -s 300 -b build OUT
#     sh bench/gpus.sh -c OUT                  small races and the tests under compute-sanitizer, in place of all that
#
# -n GPUS (all that nvidia-smi lists), -e SIZE longest vector of the tables (4G), -s SECONDS for all of it (480), -b BUILD. A step
# that fails, or takes too long, does not stop the next. Exit code: how many failed.
usage() {
    sed -n '5,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
gpus='' most=4G seconds=480 build=build-gpus what=figures
while getopts cn:e:s:b:h flag; do
    case $flag in
    c) what=sanitize ;;
    n) gpus=$OPTARG ;;
    e) most=$OPTARG ;;
    s) seconds=$OPTARG ;;
    b) build=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || usage
mkdir -p "$1/libraries" && out=$(cd "$1" && pwd) || exit 1
mkdir -p "$build" && build=$(cd "$build" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
start=$(date +%s)
[ -n "$gpus" ] || gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU')
[ "$gpus" -gt 0 ] || { echo "no GPU is listed by nvidia-smi; -n GPUS says how many there are" >&2; exit 2; }

# find_library NAME FOLDER...: where the loader would find it, and else in these. The tests bring a driver of their own, which they
# take where LD_LIBRARY_PATH names no other.
find_library() {
    library=$1
    shift
    {
        printf '%s\n' "$LD_LIBRARY_PATH" | tr : '\n' | sed "s|\$|/$library|"
        ldconfig -p 2> /dev/null | sed -n "s|.*$library .*x86-64.* => ||p"
        for folder; do echo "$folder/$library"; done
    } | while read -r file; do
        [ -e "$file" ] && ln -sf "$file" "$out/libraries/$library" && echo "$file" && break
    done
}
nccl_folder=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2> /dev/null)
cuda=$(find_library libcuda.so.1 /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu)
nccl=$(find_library libnccl.so.2 "$nccl_folder" /usr/local/cuda/lib64)
echo "libcuda: ${cuda:-not found}, NCCL: ${nccl:-not found}"
export LD_LIBRARY_PATH="$out/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}${cuda:+:$(dirname "$cuda")}"

failed=0
: > "$out/summary.txt"

# step NAME SECONDS COMMAND...: runs it for at most so long, or for what is left; its output goes to OUT/NAME.log.
step() {
    name=$1 limit=$2 before=$(date +%s)
    shift 2
    left=$((start + seconds - before))
    [ "$limit" -le "$left" ] || limit=$left
    result=left
    if [ "$limit" -ge 5 ]; then
        timeout -k 5 "$limit" "$@" > "$out/$name.log" 2>&1
        result=$?
    fi
    case $result in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124 | 137) verdict="FAILED: took more than $limit s" ;;
    left) verdict="FAILED: no time was left" ;;
    *) verdict="FAILED: exit code $result" ;;
    esac
    case $verdict in FAILED*) failed=$((failed + 1)) ;; esac
    printf '%-28s %4d s  %s\n' "$name" $(($(date +%s) - before)) "$verdict" | tee -a "$out/summary.txt"
}

facts='nvidia-smi; nvidia-smi topo -m; nvcc --version; cat /proc/driver/nvidia/version; true'

# $1: the folder. For the GPUs that are here alone, which takes a third of the time.
compile='
if ! command -v meson > /dev/null && [ -x "$1/bench/peal" ]; then
    echo "no meson: $1 stays as it is"
    exit 0
fi
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 | tr -d .)
[ -f "$1/build.ninja" ] || meson setup "$1" --buildtype=release ${arch:+-Dgpu_arch="$arch"} || exit 1
targets="bench/peal tests/test_device tests/test_device_wrong tests/test_device_overlap"
for test in test_device_mpi test_device_overlap_mpi; do
    ninja -C "$1" -t query "tests/$test" > /dev/null 2>&1 && targets="$targets tests/$test"
done
ninja -C "$1" $targets'

# table NAME SECONDS COMMAND...: a race, whose table, JSON and plot are OUT/NAME.*.
table() {
    name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$@" --vs nccl --json "$out/$name.json" --plot "$out/$name.svg"
}

printf '%s GPUs, at most %s s\n' "$gpus" "$seconds"
step facts 20 sh -c "$facts"
step build 240 sh -c "$compile" sh "$build"
peal=$build/bench/peal
step topology 20 "$peal" info --topo
threads="$peal bench"
ranks=$threads per_gpu="-g $gpus" mpi=''
if command -v mpirun > /dev/null && [ -x "$build/tests/test_device_mpi" ] && [ "$gpus" -gt 1 ]; then
    root=''
    [ "$(id -u)" != 0 ] || root=--allow-run-as-root
    mpi="mpirun $root --oversubscribe -n $gpus"
    ranks="$mpi $peal bench" per_gpu=''
fi

# One process for each GPU where there is an MPI, else one thread.
# shellcheck disable=SC2086
figures() {
    step quick 30 $threads allreduce --mem cuda -g "$gpus" -b 16 -e 1M -f 256 -n 5 --graph 5 --inplace both
    step test_device 45 env PEAL_SCRATCH=256M "$build/tests/test_device" 1 20 # where ranks share GPUs they need more
    [ -z "$per_gpu" ] &&
        step test_device_mpi 45 mpirun $root --oversubscribe -n 4 env PEAL_SCRATCH=256M "$build/tests/test_device_mpi" 2 20
    table allreduce 110 $ranks allreduce --mem cuda $per_gpu -b 16 -e "$most" -f 4 --graph 50
    table allreduce_in_place 60 $ranks allreduce --mem cuda $per_gpu -b 16 -e "$most" -f 16 --graph 50 --inplace yes
    table allreduce_eager 40 $ranks allreduce --mem cuda $per_gpu -b 16 -e 1M -f 4 -m 20
    table allreduce_bf16 40 $ranks allreduce --mem cuda $per_gpu -b 1K -e "$most" -f 32 --graph 20 -t bf16 --ulp
    for kind in allgather reduce_scatter broadcast reduce; do
        table $kind 40 $ranks $kind --mem cuda $per_gpu -b 1K -e "$most" -f 32 --graph 20
    done
    [ -z "$per_gpu" ] && table allreduce_threads 60 $threads allreduce --mem cuda -g "$gpus" -b 16 -e "$most" -f 16 --graph 50
    for proto in ll ll128 bulk; do
        step "test_device_$proto" 30 env PEAL_SCRATCH=256M PEAL_PROTO=$proto "$build/tests/test_device" 1 10
    done
    for connections in '' 1; do
        overlap="env ${connections:+CUDA_DEVICE_MAX_CONNECTIONS=$connections} $build/tests/test_device_overlap"
        step "test_device_overlap$connections" 30 $overlap
        [ -z "$per_gpu" ] && step "test_device_overlap_mpi$connections" 30 $mpi ${overlap}_mpi
    done
    step test_device_wrong 60 "$build/tests/test_device_wrong"
}

# What the tools find is in the logs, and makes their exit code 9. Errors that the driver only returns are no finding: Peal asks it
# about memory that it does not know. A kernel takes up to 100 times as long, so calls are few and short.
# shellcheck disable=SC2086
sanitize() {
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | head -n 1)
    if [ -z "$sanitizer" ]; then
        step compute-sanitizer 5 sh -c 'echo "no compute-sanitizer: it comes with CUDA"; false'
        return
    fi
    under="$sanitizer --error-exitcode 9 --target-processes all --report-api-errors no --tool"
    small="--mem cuda $per_gpu -b 16 -e 256K -f 128 -n 1 -w 1 --graph 2 --inplace both"
    for tool in memcheck racecheck synccheck; do
        for proto in auto ll ll128 bulk; do
            step "${tool}_$proto" 60 env PEAL_PROTO=$proto $mpi $under $tool "$peal" bench allreduce $small
        done
        step "${tool}_register" 60 $mpi $under $tool "$peal" bench allreduce $small --register
        step "${tool}_allgather" 60 $mpi $under $tool "$peal" bench allgather $small
    done
    for tool in memcheck racecheck synccheck; do
        if [ -n "$mpi" ]; then
            set -- mpirun $root --oversubscribe -n 4 $under $tool "$build/tests/test_device_mpi"
        else
            set -- $under $tool "$build/tests/test_device"
        fi
        step "${tool}_test_device" 120 env PEAL_SCRATCH=256M "$@" 1 5 2
    done
}
$what

rm -rf "$out/libraries"
(cd "$out" && tar czf gpus.tar.gz --exclude=./gpus.tar.gz ./*)
printf '\n%s\n' "what is not ok: $failed"
for file in "$out"/*.log; do
    grep -q 'and of NCCL at its best' "$file" || continue
    printf '\n== %s\n' "$(basename "$file" .log)"
    sed -n '/and of NCCL at its best/,$p' "$file"
done
exit $failed
