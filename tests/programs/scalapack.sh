#!/bin/sh
# ScaLAPACK's own tests, which call on communicators of rows and columns: under Peal they print what they print without, but for
# reals, which are times and residuals. scalapack.sh LIBRARY
library=$1
. "$(dirname "$0")/common.sh"
tests=$(find /usr/lib/*/scalapack/openmpi-tests -maxdepth 0 2>/dev/null) && data=/usr/share/scalapack && [ -d "$data" ] ||
    skip "no ScaLAPACK for Open MPI: apt-get install scalapack-mpi-test"

# said FILE: its words and integers.
said() {
    sed -E 's/-?[0-9]+\.[0-9]*(E[-+]?[0-9]+)?//g; s/ +/ /g' "$dir/$1"
}

cp "$data"/*.dat "$dir" && cd "$dir" || exit 1
for program in xzqr xdgsep; do
    ranks 4 "$tests/$program" >out 2>err || broke "plain $program ended with $?"
    said out >plain
    [ "$(grep -c PASSED plain)" -gt 50 ] || broke "plain $program passed too few tests"
    rm -f log.*
    ranks_peal 4 "$tests/$program" >out 2>err || broke "$program ended with $?"
    said out >peal
    diff plain peal || fail "$program prints other words than without Peal (<)"
    want_taken allreduce broadcast reduce
done
