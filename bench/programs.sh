#!/bin/sh
# Programs that nobody changes, LAMMPS and HPC Challenge, under Open MPI alone, with Peal in front, and with Peal's heap too: how
# long they are in the collectives that Peal takes. First the tests of these programs see that the results stay what they were.
#
#     sh bench/programs.sh [-r ROUNDS] [-n RANKS] [-x TIMES] [BUILD]      a Markdown table on stdout
#
# 3 rounds in turn; LAMMPS has 4 ranks for its melt and 2 for its salt, or RANKS for both, and takes its steps, or TIMES as many;
# BUILD is build.
rounds=3 ranks= times=1
case ${1:-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
while getopts r:n:x: flag; do
    case $flag in
    r) rounds=$OPTARG ;;
    n) ranks=$OPTARG ;;
    x) times=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
cd "$(dirname "$0")/.." || exit 1
tests=$PWD/tests/programs
build=$(cd "${1:-build}" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
export OMP_NUM_THREADS=1

# What is loaded before the program, by way.
front() {
    case $1 in
    peal) echo "$build/src/pmpi/libpeal_mpi.so" ;;
    heap) echo "$build/src/heap/libpeal_heap.so:$build/src/pmpi/libpeal_mpi.so" ;;
    esac
}

# try COMMAND...: its output only where it fails, and then that is all.
try() {
    "$@" >"$dir/out" 2>&1 || { cat "$dir/out"; echo "FAILED: $*"; exit 1; }
}

# race NAME NRANKS COMMAND...: all ways in turn, in the present folder. Figures go to $dir/figures.NAME.WAY.ROUND.RANK.
race() {
    name=$1 nranks=$2
    shift 2
    for round in $(seq "$rounds"); do
        for way in alone peal heap; do
            try timeout -k 5 300 mpirun --allow-run-as-root --oversubscribe -n "$nranks" \
                env "LD_PRELOAD=$dir/profile.so:$(front $way)" "PROFILE=$dir/figures.$name.$way.$round" "$@"
        done
    done
}

lammps() {
    for way in peal heap; do
        try sh "$tests/lammps.sh" "$(front $way)" "$tests/$1.lmp" "$2" "$3"
    done
    awk -v times="$times" '$1 == "run" { $2 *= times } { print }' "$tests/$1.lmp" >"$dir/$1.lmp"
    race "lammps-$1" "$2" lmp -in "$dir/$1.lmp" -log none -screen none
}

hpcc_suite() {
    for way in peal heap; do
        try sh "$tests/hpcc.sh" "$(front $way)"
    done
    cp "$tests/hpccinf.txt" "$dir" && cd "$dir" && race hpcc 4 hpcc
}

# The mean rank's calls and seconds; of these the median round.
table() {
    awk -v rounds="$rounds" '
    FNR == 1 {
        at = split(FILENAME, part, ".") - 3
        name = part[at]; way = part[at + 1]; round = part[at + 2]
        if (!ranks[name]) names[++nnames] = name
        ranks[name] += way == "alone" && round == 1
    }
    function add(kind) {
        s[name, kind, way, round] += $3
        if (way == "alone" && round == 1) calls[name, kind] += $2
    }
    $1 == "all" { add("whole program") }
    $1 != "all" { kinds[FNR] = $1; add($1); add("these together") }
    function median(name, kind, way,    i, j, t, of) {
        for (i = 1; i <= rounds; i++) {
            t = s[name, kind, way, i] / ranks[name]
            for (j = i; j > 1 && of[j - 1] > t; j--) of[j] = of[j - 1]
            of[j] = t
        }
        return of[int((rounds + 1) / 2)]
    }
    function row(name, kind) {
        n = calls[name, kind] ? int(calls[name, kind] / ranks[name]) : ""
        printf "| %s, %d ranks | %s | %s | %.3f | %.3f | %.3f |\n", name, ranks[name], kind, n,
               median(name, kind, "alone"), median(name, kind, "peal"), median(name, kind, "heap")
    }
    END {
        print "| program | in | calls | Open MPI, s | Peal, s | with its heap, s |\n|---|---|---:|---:|---:|---:|"
        for (p = 1; p <= nnames; p++) {
            for (k = 1; k < 8; k++) if (calls[names[p], kinds[k]]) row(names[p], kinds[k])
            row(names[p], "these together")
            row(names[p], "whole program")
        }
    }' "$dir"/figures.*
}

command -v lmp >/dev/null && command -v hpcc >/dev/null || { echo "needs lmp and hpcc: apt-get install lammps hpcc"; exit 1; }
try mpicc.openmpi -shared -fPIC -O2 -o "$dir/profile.so" bench/programs/profile.c
lammps lj "${ranks:-4}" 1e-7
lammps coul "${ranks:-2}" 1e-5
hpcc_suite
"$build/bench/peal" info | sed -n '1p; 2p; /^machine/p'
echo "The results of all are those of Open MPI alone; $rounds rounds in turn."
echo
table
