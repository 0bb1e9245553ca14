# Kernels that are written in PTX, as CUDA's assembler sees them. $1: ptxas; further words: architectures.
ptxas=$1
shift
ptx=$(mktemp) || exit 1
trap 'rm -f "$ptx"' EXIT

# assembles FILE KERNEL: of the tree.
assembles() {
    sed -n 's/^ *"\(.*\)\\n";\{0,1\}$/\1/p' "$(dirname "$0")/../$1" > "$ptx"
    [ "$(grep -c "^\.visible \.entry $2" "$ptx")" = 1 ] || { echo "$1 has no kernel"; exit 1; }
    for arch in $archs; do
        "$ptxas" -arch="sm_${arch%+PTX}" "$ptx" -o /dev/null || exit 1
    done
}
archs=$*
assembles bench/differ.c peal_bench_differ
assembles tests/test_device_overlap.c peal_test_gemm
