# What the tests of whole programs share: `.` it with $library set. Each test runs its program plain and under Peal in $dir.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export OMPI_MCA_mpi_yield_when_idle=1 # a core that others use too goes to the rank that has work
export OMP_NUM_THREADS=1 PEAL_LOG=info PEAL_LOG_FILE="$dir/log.%r"
unset MALLOC_PERTURB_ # of meson's making: LAMMPS reads what it freed, also without Peal

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "FAILED: $*"
    exit 1
}

# The same after what the program said.
broke() {
    cat "$dir/out"
    fail "$*"
}

# ranks NRANKS COMMAND...: under mpirun, in the folder we are in, bounded in time.
ranks() {
    nranks=$1
    shift
    timeout -k 5 "${TEST_SECONDS:-400}" mpirun --allow-run-as-root --oversubscribe -n "$nranks" "$@"
}

# The same with Peal in front of the program alone.
ranks_peal() {
    nranks=$1
    shift
    ranks "$nranks" env LD_PRELOAD="$library" "$@"
}

# want_taken KIND...: prints the table of the last program, and fails where Peal took none of a kind.
want_taken() {
    table=$(sed -n '/ \(taken\|passed on\) /s/^\[peal\] info rank 0: //p' "$dir/log.0" 2>/dev/null)
    echo "$table"
    for kind in "$@"; do
        echo "$table" | awk -v kind="$kind" '$1 == kind && $2 == "taken" { n += $NF } END { exit !(n > 0) }' ||
            fail "no $kind was taken"
    done
}
