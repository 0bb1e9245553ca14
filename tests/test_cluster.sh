# cluster.sh itself: what hosts see of each other, two clusters at once, counters, what it says that it lacks, and that nothing is
# left, also after a signal.
cd "$(dirname "$0")" || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

die() {
    echo "$1"
    cat "$dir"/out* 2> /dev/null
    exit 1
}

# left PID: what there is of the cluster whose script was that process.
left() {
    ip netns list | grep "^peal$1-"
    ps -eo pid,args | grep "[p]eal$1-"
}

PATH=/nonexistent /bin/sh cluster.sh -N 2 -r 1 -- true > "$dir/out" 2>&1
[ $? = 77 ] && grep -q '^skipped: cluster.sh: no ip: apt-get install' "$dir/out" || die "no ip is not said"
if command -v setpriv > /dev/null && [ "$(id -u)" = 0 ]; then
    setpriv --reuid=65534 --clear-groups sh < cluster.sh -s -- -N 2 -r 1 -- true > "$dir/out" 2>&1
    [ $? = 77 ] && grep -q '^skipped: cluster.sh: only root' "$dir/out" || die "no root is not said"
fi

for wrong in '-N 0' '-N x' '-r x' '-r 1++1' '-r 1+1+1' '--links 3' '--rate much' '--rate 1gbits' '--rate 0' \
    '--rate 1mkbit' '-N 255' '--bogus'; do
    # shellcheck disable=SC2086
    sh cluster.sh -N 2 $wrong -- true > "$dir/out" 2>&1
    [ $? = 2 ] && grep -q "^cluster.sh: $wrong" "$dir/out" || die "$wrong is not refused"
done
sh cluster.sh -N 2 -r > "$dir/out" 2>&1
[ $? = 2 ] && grep -q "^cluster.sh: -r wants a value" "$dir/out" || die "a flag without its value"

# shellcheck disable=SC2016
look='echo "$CLUSTER_HOST $(hostname) $(hostname -I) $(ls /dev/shm | wc -l) $(cat /sys/class/net/eth0/mtu)"; touch /dev/shm/$$'
sh cluster.sh -N 3 -r 1+2+1 --links 2 --counters -- sh -c "$look" > "$dir/out1" 2>&1 &
one=$!
sh cluster.sh -N 2 -r 1 -- sh -c "$look" > "$dir/out2" 2>&1 &
two=$!
wait $one
code=$?
[ $code = 77 ] && cat "$dir/out1" && exit 77
[ $code = 0 ] || die "three hosts: exit $code"
wait $two || die "two hosts: exit $?"
for h in 0 1 2; do
    grep -q "^$h x*peal$one-$h 10.77.255.$((h + 1)) 10.77.0.$((h + 1)) 10.77.1.$((h + 1)) *[01] 9000$" "$dir/out1" || die "host $h"
    grep -q "^host $h eth1 sent [0-9]* received [0-9]*$" "$dir/out1" || die "counters of host $h"
done
[ "$(grep -c '^1 ' "$dir/out1")" = 2 ] || die "host 1 has not two ranks"
[ "$(grep -c "^[01] x*peal$two-[01] " "$dir/out2")" = 2 ] || die "the second cluster"
[ -z "$(left $one)$(left $two)" ] || die "left: $(left $one; left $two)"

sh cluster.sh -N 2 -r 2 -- sh -c 'exit 3' > "$dir/out" 2>&1
[ $? = 3 ] || die "the exit code is not the command's"

sh cluster.sh -N 2 -r 2 -- sh -c 'echo begun; sleep 1000' > "$dir/out" 2>&1 &
one=$!
for _ in $(seq 600); do
    [ "$(grep -c begun "$dir/out")" = 4 ] && break
    sleep 0.1
done
[ "$(grep -c begun "$dir/out")" = 4 ] || die "four ranks do not begin"
kill -TERM $one
wait $one
[ $? = 143 ] || die "a signal does not end it"
[ -z "$(left $one)" ] || die "left after a signal: $(left $one)"

(cd .. && python3 -B bench/cluster/cluster.py --goodput false --hosts 2 --ranks 1 --only goodput --out "$dir") > "$dir/out" 2>&1 &&
    die "a measurement of bench/cluster.sh that failed counts as one"

# What runs in a cluster of bench/cluster.sh ends with that, and so does the cluster.
printf '#!/bin/sh\necho "$CLUSTER_SWITCH" > %s/switch\nsleep 1000\n' "$dir" > "$dir/goodput"
chmod +x "$dir/goodput"
(cd .. && exec env --default-signal=INT python3 -B bench/cluster/cluster.py --goodput "$dir/goodput" --hosts 2 --ranks 1 \
    --only goodput --out "$dir") > "$dir/out" 2>&1 &
one=$!
for _ in $(seq 600); do
    [ -s "$dir/switch" ] && break
    sleep 0.1
done
kill -INT $one
wait $one
[ -s "$dir/switch" ] || die "no cluster of bench/cluster.sh"
ip netns list | grep "^$(cat "$dir/switch")" && die "left of a cluster of bench/cluster.sh"
exit 0
