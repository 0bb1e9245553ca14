#!/bin/sh
# The tests of mpi4py, which loads MPI by dlopen: each ends under Peal as it ends without. mpi4py.sh LIBRARY FOLDER
# Debian's package has no tests: they come with the source of the same version, kept in FOLDER.
library=$1 folder=$2
. "$(dirname "$0")/common.sh"

try='from mpi4py import rc; rc.initialize = False; from mpi4py import MPI; import mpi4py
print(mpi4py.__version__ if "Open MPI" in MPI.Get_library_version() else "")'
for python in /usr/bin/python3 python3; do
    version=$("$python" -c "$try" 2>/dev/null) && break
done
[ -n "$version" ] || skip "no mpi4py for Open MPI: apt-get install python3-mpi4py"

tests=$folder/mpi4py-$version/test
if [ ! -e "$tests/runtests.py" ]; then
    for pip in "$python -m pip" "python3 -m pip" pip3; do
        $pip download --quiet --no-binary :all: --no-deps --dest "$folder" "mpi4py==$version" >"$dir/pip" 2>&1 && break
    done
    tar -xzf "$folder/mpi4py-$version.tar.gz" -C "$folder" 2>/dev/null ||
        skip "pip cannot get the source of mpi4py $version, which has its tests: $(tail -n 1 "$dir/pip")"
fi

# One file of outcomes for each rank: "testX (class) ... ok". Of tests that make collectives, or handles that these take.
only="-i cco -i comm -i test_op -i win -i rma -i request -i status -i attributes"
run() {
    name=$1
    shift
    "$@" sh -c 'exec "$0" "$1" -v '"$only"' >/dev/null 2>"$2.$OMPI_COMM_WORLD_RANK"' \
        "$python" "$tests/runtests.py" "$dir/$name" >"$dir/out" 2>&1
    rc=$?
    for rank in 0 1; do
        sed -n 's/^\(test[A-Za-z0-9_]* (.*) \.\.\. \).*\(ok\|FAIL\|ERROR\|skipped.*\|expected failure\)$/\1\2/p' \
            "$dir/$name.$rank" | sort >"$dir/$name.outcomes.$rank"
    done
    return $rc
}
cd "$folder" || exit 1
run plain ranks 2
plain=$?
rm -f "$dir"/log.*
run peal ranks_peal 2
rc=$?
[ $rc -eq $plain ] || { tail -n 40 "$dir/peal.0"; broke "exit status $rc, without Peal $plain"; }
for rank in 0 1; do
    [ "$(wc -l <"$dir/plain.outcomes.$rank")" -gt 500 ] || { tail -n 40 "$dir/plain.0"; fail "mpi4py ran too few tests"; }
    diff "$dir/plain.outcomes.$rank" "$dir/peal.outcomes.$rank" || fail "rank $rank: outcomes without Peal (<) and under it (>)"
done
sed 's/.*\.\.\. \([A-Za-z]*\).*/\1/' "$dir/peal.outcomes.0" | sort | uniq -c
want_taken allreduce allgather reduce_scatter broadcast reduce
