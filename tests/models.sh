#!/bin/sh
# The flag protocols as SPIN models: each holds, for every interleaving, and each mutation of it is refuted. Without arguments all
# of tests/models; models.sh holds|briefly|refuted MODEL FLAGS: one. What holds "briefly" is searched as what is refuted is, before
# a compiler has optimized the search for it.
models=$(cd "$(dirname "$0")" && pwd)/models
: "${CC:=cc}"

all() {
    cat <<'LIST'
holds lines -DN=2 -DTHREADS=2 -DSLIDES
holds credits -DN=3 -DPROMPT
holds pull -DN=3 -DCALLS=2
holds stamps -DN=3 -DSLICES=1
holds stamps -DN=2 -DCALLS=2 -DSLICES=3 -DWINDOW=2
holds lines -DN=2 -DTHREADS=2
holds abort -DN=2 -DTHREADS=2 -DCALLS=2
holds abort -DN=2 -DTHREADS=2 -DCALLS=2 -DLAUNCHES
holds credits -DN=2
holds lines -DN=3
briefly abort -DN=3 -DCALLS=2
briefly abort -DN=2
briefly abort -DN=2 -DLAUNCHES
briefly lines -DN=2
briefly shares -DN=2
briefly bulk -DN=2 -DTHREADS=2
briefly bulk -DN=3
briefly stamps -DN=2
briefly pull -DN=2 -DCALLS=3
briefly pull -DN=2 -DCALLS=2 -DSLICES=2
holds pull -DN=2 -DCALLS=2 -DSLICES=2 -DWINDOW=2
refuted lines -DBUG_ONE_AREA
refuted lines -DBUG_SILENT
refuted lines -DBUG_NO_CLEAN
refuted lines -DBUG_ZERO
refuted lines -DBUG_SKIP_ZERO
refuted lines -DBUG_LATE_CLEAN
refuted lines -DBUG_NO_BARRIER -DTHREADS=2
refuted lines -DBUG_OVERLAP -DTHREADS=2
refuted lines -DBUG_EARLY_RECORD -DTHREADS=2
refuted lines -DBUG_ONE_AREA -DTHREADS=2 -DSLIDES
refuted lines -DBUG_OVERLAP -DTHREADS=2 -DSLIDES
refuted lines -DBUG_NO_DUE -DTHREADS=2 -DSLIDES
refuted lines -DBUG_SLIDES_ON -DTHREADS=2 -DSLIDES
refuted lines -DBUG_SHRINKS -DTHREADS=2 -DSLIDES
refuted shares -DBUG_ONE_AREA
refuted shares -DBUG_FAR
refuted shares -DBUG_NO_WORDS
refuted shares -DBUG_UNEVEN
refuted bulk -DBUG_ONE_AREA
refuted bulk -DBUG_FLAG_FIRST
refuted bulk -DBUG_NO_RELEASE
refuted bulk -DBUG_NO_ACQUIRE
refuted bulk -DBUG_NO_BARRIER -DTHREADS=2
refuted credits -DBUG_NO_CREDIT
refuted credits -DBUG_LATE_CREDIT
refuted credits -DBUG_EARLY_LEFT
refuted credits -DBUG_OLD_LEFT
refuted credits -DBUG_OLD_HEARD
refuted stamps -DBUG_NO_RELEASE
refuted stamps -DBUG_NO_CREDIT
refuted stamps -DBUG_OPEN
refuted stamps -DBUG_LEARN
refuted stamps -DBUG_NEWEST -DCALLS=2 -DSLICES=3 -DWINDOW=2
refuted pull -DBUG_NO_RELEASE
refuted pull -DBUG_NO_ENTER
refuted pull -DBUG_EXIT
refuted pull -DBUG_SCRATCH
refuted pull -DBUG_NO_TURN -DSLICES=2 -DWINDOW=2
refuted abort -DBUG_NO_DEADLINE
refuted abort -DBUG_NO_BARRIER -DTHREADS=2
refuted abort -DBUG_GO_ON
refuted abort -DBUG_AGAIN
refuted abort -DBUG_GO_ON -DLAUNCHES
refuted abort -DBUG_FREE
LIST
}

# What the search says in LOG: a search that stopped short says neither.
verdict() {
    if grep -q '^pan:1: \(assertion violated\|invalid end state\)' "$1"; then
        echo refuted
    elif grep -q 'errors: 0' "$1" && ! grep -q 'max search depth\|not completed' "$1"; then
        echo holds
    else
        echo open
    fi
}

one() {
    want=$1 model=$2
    shift 2
    compile="$CC -O1"
    if [ "$want" != holds ]; then
        compile="$CC -O0"
        command -v tcc > /dev/null && compile=tcc
    fi
    [ "$want" = refuted ] || want=holds
    depth=200000
    case $model in credits | lines) depth=800000 ;; esac
    dir=$(mktemp -d) && cd "$dir" || return 1
    # shellcheck disable=SC2086
    spin -a "$@" "$models/$model.pml" > log 2>&1 && $compile -w -DSAFETY -DMEMLIM=1000 -o pan pan.c >> log 2>&1 &&
        timeout 400 ./pan -n -w22 -m$depth >> log 2>&1
    found=$(verdict log)
    echo "$model $*: $found, $(awk '/states, stored/ { print $1 }' log) states"
    [ "$found" = "$want" ] || { echo "it should be: $want"; tail -n 20 log; }
    cd / && rm -rf "$dir"
    [ "$found" = "$want" ]
}

if [ $# -gt 0 ]; then
    one "$@"
    exit
fi
command -v spin > /dev/null || { echo "skipped: no spin: apt-get install spin"; exit 77; }
all | CC=$CC xargs -P "$(nproc)" -L 1 sh "$0"
