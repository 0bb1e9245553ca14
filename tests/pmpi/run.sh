#!/bin/sh
# Runs an MPI program with libraries in front of it, and compares the calls that it expects to be taken and passed on with
# the table that Peal prints: run.sh NRANKS WAY LIBRARIES [VARIABLE=VALUE...] PROGRAM [ARGUMENT...]
# LIBRARIES is a colon list, or - for none. WAY is ob1 or ucx (Open MPI's two transports), mpich, or none (no mpirun). TEST_RC: the
# exit status that is right; TEST_WORDS: what must be said; TEST_SILENCE: what must not; TEST_MPIEXEC: the MPI's own.
set -u
nranks=$1 way=$2 libraries=$3
shift 3

if [ "$way" = ucx ] && [ -z "${TEST_MPIEXEC:-}" ] && ! ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
    echo "skipped: this Open MPI has no pml ucx"
    exit 77
fi

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export PEAL_LOG="${PEAL_LOG:-info}" PEAL_LOG_FILE="$dir/log.%r"
[ "$libraries" = - ] || set -- "LD_PRELOAD=$libraries" "$@"
set -- env "$@"
any_device="--mca pml_ucx_tls any --mca pml_ucx_devices any" # without a fast network too
case $way in
none) ;;
mpich) set -- "${TEST_MPIEXEC:-mpiexec.mpich}" -n "$nranks" "$@" ;;
# shellcheck disable=SC2086
*) set -- "${TEST_MPIEXEC:-mpirun}" --allow-run-as-root --oversubscribe --mca pml "$way" $any_device -n "$nranks" "$@" ;;
esac
timeout -k 5 "${TEST_SECONDS:-60}" "$@" >"$dir/out" 2>&1
rc=$?
cat "$dir/out"
cat "$dir"/log.* 2>/dev/null
[ $rc -ne 77 ] || exit 77
if [ $rc -ne "${TEST_RC:-0}" ]; then
    echo "FAILED: exit status $rc"
    exit 1
fi
if [ -n "${TEST_WORDS:-}" ] && ! cat "$dir/out" "$dir"/log.* 2>/dev/null | grep -q -e "$TEST_WORDS"; then
    echo "FAILED: not said: $TEST_WORDS"
    exit 1
fi
if [ -n "${TEST_SILENCE:-}" ] && grep -e "$TEST_SILENCE" "$dir/out"; then
    echo "FAILED: said: $TEST_SILENCE"
    exit 1
fi

# "taken 12", "passed on pair type 1": what the program expects, and what the table has, as sorted sums.
sums='{ n = $NF; $NF = ""; sub(/ +$/, ""); sum[$0] += n } END { for (what in sum) print what, sum[what] }'
sed -n 's/^expect //p' "$dir/out" | awk "$sums" | sort >"$dir/expected"
cat "$dir"/log.* 2>/dev/null | sed -n 's/^\[peal\] info rank 0: [a-z_]*  *\(taken\|passed on\)  */\1 /p' |
    awk '$1 == "taken" { $0 = "taken " $NF } { $1 = $1; print }' | awk "$sums" | sort >"$dir/found"
if ! diff "$dir/expected" "$dir/found" >"$dir/diff"; then
    echo "FAILED: calls expected (<) and counted (>):"
    cat "$dir/diff"
    exit 1
fi
