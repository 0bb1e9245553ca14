# The kernel that verifies races, bench/differ.c, as CUDA's assembler sees it. $1: ptxas; further words: architectures.
ptxas=$1
shift
ptx=$(mktemp) || exit 1
trap 'rm -f "$ptx"' EXIT
sed -n 's/^ *"\(.*\)\\n";\{0,1\}$/\1/p' "$(dirname "$0")/../bench/differ.c" > "$ptx"
[ "$(grep -c '^\.visible \.entry peal_bench_differ' "$ptx")" = 1 ] || { echo "bench/differ.c has no kernel"; exit 1; }
for arch; do
    "$ptxas" -arch="sm_${arch%+PTX}" "$ptx" -o /dev/null || exit 1
done
