#!/bin/sh
# LAMMPS under Peal against LAMMPS under Open MPI alone: in its thermodynamic output words and integers are equal, and reals (what
# has a point) within TOLERANCE of their size, or of 1 where they are smaller. lammps.sh LIBRARY INPUT NRANKS TOLERANCE
library=$1 input=$2 nranks=$3 tolerance=$4
. "$(dirname "$0")/common.sh"
command -v lmp >/dev/null || skip "no lmp: apt-get install lammps"
lmp -h 2>/dev/null | grep -q 'Open MPI' || skip "this lmp was not built for Open MPI"

ranks "$nranks" lmp -in "$input" -log "$dir/plain" -screen none >"$dir/out" 2>&1 || broke "plain LAMMPS ended with $?"
rm -f "$dir"/log.*
ranks_peal "$nranks" lmp -in "$input" -log "$dir/peal" -screen none >"$dir/out" 2>&1 || broke "LAMMPS ended with $?"

# What the run computed, without its times: the thermodynamic tables and the counts.
for run in plain peal; do
    awk '/^ *Step /{ on = 1 } /^Loop time/ { on = 0 } on; /neighbors =|builds =|evaluations =|^Created|Histogram:/' "$dir/$run" \
        >"$dir/$run.words"
done
rows=$(grep -c '^ *[0-9]' "$dir/plain.words")
[ "$rows" -gt 5 ] || fail "LAMMPS printed $rows rows"

paste -d '|' "$dir/plain.words" "$dir/peal.words" | awk -F '|' -v tolerance="$tolerance" '
    function size(x) { return x < 0 ? -x : x }
    function number(x) { return x ~ /^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$/ }
    {
        n = split($1, a, " ")
        same = n == split($2, b, " ")
        for (i = 1; i <= n && same; i++) {
            if (!number(a[i]) || !number(b[i]) || a[i] b[i] !~ /[.e]/) { same = a[i] == b[i]; continue }
            limit = size(a[i]) > 1 ? size(a[i]) : 1
            off = size(a[i] - b[i]) / limit
            worst = off > worst ? off : worst
            same = off <= tolerance
            reals++
        }
        if (!same) { print "differs: " $0; wrong = 1 }
    }
    END { printf "%d reals, the worst off by %.3g\n", reals, worst; exit wrong || !reals }' || fail "the output differs"
want_taken allreduce broadcast
