#!/bin/sh
# A cluster on one machine: runs COMMAND as MPI ranks on hosts that are network namespaces.
#
#     sh tests/cluster.sh -N HOSTS -r RANKS [--rate 1gbit] [--links 1|2] [--counters] -- COMMAND...
#
#     -N HOSTS      how many
#     -r RANKS      of each host; or of each host in turn, as 3+1+2
#     --rate RATE   of each link, either way, as tc has it (1gbit)
#     --links 1|2   of each host: eth0, or eth0 and eth1, each to a switch of its own (1)
#     --counters    prints the bytes that each link has carried
#
# A host has its own name (of 50 characters, as Open MPI takes few more, which end on peal, the number of this process, - and that
# of the host), network, processes, shared memory and /dev/shm, and its share of the cores (one at least, which other hosts may have
# too), so that nothing but its links leads to another; files are those of this machine. Links have an MTU of 9000. MPI's launcher
# has a network of its own, boot. COMMAND's environment is this one's, and CLUSTER_HOST, the number of the host; CLUSTER_DATA, what
# its addresses begin with: host h has $CLUSTER_DATA.L.h+1 on link L; and CLUSTER_SWITCH, the namespace at the other end, where host
# h's link L is called hHlL. All of it goes when COMMAND ends or this script gets a signal.
hosts=2 ranks=2 rate=1gbit links=1 counters=
mpirun=${MPIRUN:-mpirun}

lack() {
    echo "skipped: cluster.sh: $1"
    exit 77
}

# usage WHY
usage() {
    echo "cluster.sh: $1" >&2
    sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in -N | -r | --rate | --links) [ $# -gt 1 ] || usage "$1 wants a value" ;; esac
    case $1 in
    -N) hosts=$2; shift ;;
    -r) ranks=$2; shift ;;
    --rate) rate=$2; shift ;;
    --links) links=$2; shift ;;
    --counters) counters=1 ;;
    --) shift; break ;;
    *) usage "$1 is none of its flags" ;;
    esac
    shift
done
[ $# -gt 0 ] || usage "there is no command behind --"
case $hosts in '' | 0* | *[!0-9]* | ????*) usage "-N $hosts: this is no number of hosts" ;; esac
[ "$hosts" -le 254 ] || usage "-N $hosts: there are addresses for 254 hosts"
case +$ranks+ in *[!0-9+]* | *++* | *+0*) usage "-r $ranks: these are no numbers of ranks" ;; esac
# shellcheck disable=SC2086
sizes=$(IFS=+; set -- $ranks; echo $#)
[ "$sizes" = 1 ] || [ "$sizes" = "$hosts" ] || usage "-r $ranks: this is not one number for each of $hosts hosts"
case $links in 1 | 2) ;; *) usage "--links $links: it is 1 or 2" ;; esac
unit=${rate##*[0-9]}
case ${rate%"$unit"} in '' | 0* | *[!0-9]*) unit= ;; esac
case $unit in bit | kbit | mbit | gbit) ;; *) usage "--rate $rate: it is as 100mbit, or 1gbit" ;; esac

for tool in ip tc unshare "$mpirun"; do
    command -v "$tool" > /dev/null || lack "no $tool: apt-get install iproute2 util-linux openmpi-bin"
done
[ "$(id -u)" = 0 ] || lack "only root can make network namespaces"

name=peal$$ dir=
last=$((hosts - 1))
switch=$name-switch

# Processes of a namespace, by what it is and not by what they are called.
end_all() {
    for signal in TERM KILL; do
        pids=$(for h in $(seq 0 $last); do ip netns pids "$name-$h"; done 2> /dev/null)
        # shellcheck disable=SC2086
        [ -z "$pids" ] || kill -$signal $pids 2> /dev/null
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            # shellcheck disable=SC2086
            kill -0 $pids 2> /dev/null || break
            sleep 0.1
        done
    done
}

remove() {
    trap '' INT TERM HUP
    end_all
    for h in $(seq 0 $last) switch; do
        ip netns del "$name-$h" 2> /dev/null
    done
    [ -z "$dir" ] || rm -rf "$dir"
}
trap remove EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

dir=$(mktemp -d) || exit 1
ip netns add "$switch" 2> "$dir/why" || lack "no network namespace: $(cat "$dir/why")"

# bridge NAME
bridge() { ip -n "$switch" link add "$1" mtu 9000 type bridge && ip -n "$switch" link set "$1" up; }

# cable HOST NAME BRIDGE ADDRESS
cable() {
    end=h$1${3#net}
    ip -n "$switch" link add "$end" mtu 9000 type veth peer name "$2" mtu 9000 netns "$name-$1" &&
        ip -n "$switch" link set "$end" master "$3" up &&
        ip -n "$name-$1" address add "$4/24" dev "$2" &&
        ip -n "$name-$1" link set "$2" up
}

# limit NAMESPACE DEVICE: a burst is what the network stack hands over at once, and the queue holds what a few senders may have on
# the way, so that nothing is lost as long as nothing is cut.
limit() { tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 80kb limit 16mb; }

# ordinary NAMESPACE: congestion control as Linux has it by default, or else as any namespace may, whatever this machine has:
# BBR probes, and waits, by its own clock.
ordinary() {
    # shellcheck disable=SC2016
    ip netns exec "$1" sh -c 'cd /proc/sys/net/ipv4 && for c in cubic reno; do echo $c > tcp_congestion_control && break; done' \
        2> /dev/null
}

build() {
    bridge boot || return 1
    for l in $(seq 0 $((links - 1))); do bridge "netl$l" || return 1; done
    for h in $(seq 0 $last); do
        ip netns add "$name-$h" && ip -n "$name-$h" link set lo up && cable "$h" boot boot "10.77.255.$((h + 1))" || return 1
        ordinary "$name-$h"
        for l in $(seq 0 $((links - 1))); do
            cable "$h" "eth$l" "netl$l" "10.77.$l.$((h + 1))" && limit "$name-$h" "eth$l" && limit "$switch" "h${h}l$l" || return 1
        done
    done
}
build 2> "$dir/why" || lack "no veth, bridge or tbf: $(cat "$dir/why")"

# Enters the host whose boot address is $1, as ssh would: the words that follow are for a shell.
cat > "$dir/enter" << E
#!/bin/sh
h=\$((\${1##*.} - 1))
shift
export CLUSTER_HOST=\$h CLUSTER_DATA=10.77 CLUSTER_SWITCH=$switch
cores=$(nproc)
first=\$((h * cores / $hosts)) end=\$(((h + 1) * cores / $hosts))
[ \$end -gt \$first ] || end=\$((first + 1))
exec ip netns exec $name-\$h unshare --uts --ipc --pid --fork --kill-child --mount-proc taskset -c \$first-\$((end - 1)) sh -c "
    hostname \$(printf '%50s' $name-\$h | tr ' ' x)
    mount -t tmpfs -o mode=1777 shm /dev/shm
    \$*"
E
chmod +x "$dir/enter"

map='' rest=$ranks total=0
for h in $(seq 0 $last); do
    size=${rest%%+*}
    rest=${rest#*+}
    map=$map${map:+,}10.77.255.$((h + 1)):$size
    total=$((total + size))
done

nets=$(for l in $(seq 0 $((links - 1))); do printf ',eth%d' "$l"; done)
nets=${nets#,}
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$dir/enter" OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_orte_leave_session_attached=1
export OMPI_MCA_oob_tcp_if_include=boot OMPI_MCA_btl_tcp_if_include="$nets" OMPI_MCA_mpi_yield_when_idle=1
export UCX_NET_DEVICES="${UCX_NET_DEVICES:-$nets}"

# The words of COMMAND, quoted for the shell that gets them.
words=
for word; do
    words="$words '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done

"$dir/enter" 10.77.255.1 exec "$mpirun" --allow-run-as-root --bind-to none --host "$map" -n "$total" "$words" &
wait $!
code=$?

# What a link has carried, as its host counts.
count() { ip netns exec "$name-$1" cat "/sys/class/net/eth$2/statistics/$3_bytes"; }

if [ -n "$counters" ]; then
    for h in $(seq 0 $last); do
        for l in $(seq 0 $((links - 1))); do
            echo "host $h eth$l sent $(count "$h" "$l" tx) received $(count "$h" "$l" rx)"
        done
    done
fi
exit $code
