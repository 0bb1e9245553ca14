#!/bin/sh
# Ranks are killed while they work in shared memory, one of them or all: the others wait, or end with PEAL_TIMEOUT's error, and
# crash in no case; and nothing is left of the memory. shm_kill.sh PROGRAM MPIRUN OPTION...: of shm_endless.c and a launcher that
# lets the others live.
set -u
program=$1 ranks=4
shift
dir=$(mktemp -d) || exit 1
launcher=
trap 'end_all; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

end_all() {
    # shellcheck disable=SC2046
    kill -9 $launcher $(cat "$dir"/rank.* 2>/dev/null) 2>/dev/null
}

die() {
    echo "FAILED: $1 ($what, $victims)"
    cat "$dir/out"
    exit 1
}

# wait_for SECONDS COMMAND...: until it is true.
wait_for() {
    tenths=$(($1 * 10))
    shift
    while ! "$@"; do
        [ $tenths -gt 0 ] || return 1
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

all_work() { [ "$(ls "$dir" | grep -c '^rank\.')" -eq $ranks ]; }

# The processes that still run; one that was killed may not have been waited for yet.
running() {
    for pid in "$@"; do
        grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" 2>/dev/null && echo "$pid"
    done
}

none_run() { [ -z "$(running "$@")" ]; }

# Pools that the processes of the given folders of /proc have open, and those that they have mapped.
pools_open() {
    for proc in "$@"; do
        find "$proc/fd" -lname '*memfd:peal*' -exec stat -Lc '%i' {} + 2>/dev/null
    done | sort -u
}

pools_mapped() {
    for proc in "$@"; do awk '/memfd:peal/ { print $5 }' "$proc/maps" 2>/dev/null; done | sort -u
}

sockets() { awk '$NF ~ /^@peal-/ { print $NF }' /proc/net/unix | sort -u; }

# Sockets of others who are just meeting go by themselves.
sockets_gone() { sockets | comm -12 - "$dir/sockets" >"$dir/left" && mv "$dir/left" "$dir/sockets" && [ ! -s "$dir/sockets" ]; }

nothing_left() {
    wait_for 10 none_run $pids || die "ranks are left"
    { pools_open /proc/[0-9]*; pools_mapped /proc/[0-9]*; } | sort -u | comm -12 - "$dir/pools" >"$dir/left"
    [ ! -s "$dir/left" ] || die "memory is left"
    [ -z "$(find /dev/shm -name '*peal*')" ] || die "files are left in /dev/shm"
    sockets >"$dir/sockets"
    wait_for 60 sockets_gone || die "sockets are left: $(cat "$dir/sockets")"
    rm -f "$dir"/rank.*
    wait_for 10 none_run $launcher || kill $launcher
    wait $launcher
    launcher=
}

# start VARIABLE...: the ranks, at work.
start() {
    rm -f "$dir"/rank.*
    env "$@" $run "$program" "$dir" "$what" >"$dir/out" 2>&1 &
    launcher=$!
    wait_for 60 all_work || die "the ranks do not begin"
    pids=$(cat "$dir"/rank.*)
    # shellcheck disable=SC2046
    set -- $(printf '/proc/%s ' $pids)
    pools_open "$@" >"$dir/pools"
    pools_mapped "$@" >"$dir/mapped"
    [ "$(wc -l <"$dir/pools")" -eq $ranks ] || die "each rank has a pool, and not $(wc -l <"$dir/pools")"
    cmp -s "$dir/pools" "$dir/mapped" || [ "$what" = comms ] || die "not all pools are mapped"
    sleep "0.$(($(date +%N | sed 's/^0*//') % 10))"
}

run="$* -n $ranks"
for what in calls comms; do
    victims=one
    start PEAL_LOG=warn
    kill -9 "$(cat "$dir/rank.1")"
    others=$(cat "$dir/rank.0" "$dir/rank.2" "$dir/rank.3")
    sleep 2.5 # they look round after 1 s
    [ "$(running $others | wc -l)" -eq 3 ] || die "others crashed"
    # shellcheck disable=SC2086
    kill -9 $others
    nothing_left

    victims=all
    start PEAL_LOG=warn
    # shellcheck disable=SC2086
    kill -9 $pids
    nothing_left
done

what=calls victims="one, with a deadline"
start PEAL_TIMEOUT=2
victim=$(cat "$dir/rank.1")
kill -9 "$victim"
nothing_left
[ "$(grep -c '^rank [023] ends: timeout' "$dir/out")" -eq 3 ] || die "the others did not end in order"
told=$(grep -c "no word from rank 1.* process $victim of rank 1 has ended" "$dir/out")
[ "$told" -ge 3 ] || die "$told said what became of rank 1"
