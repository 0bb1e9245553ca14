#!/bin/sh
# Hosts by name, the transport between them, and its network devices: hosts.sh PEAL MPIRUN [OPTION...]
set -u
peal=$1
shift
run=$*
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset PEAL_NET PEAL_NET_DEVICES PEAL_NODES PEAL_HOST_ID PEAL_SHM UCX_NET_DEVICES
export PEAL_LOG=info UCX_TLS=tcp,self

die() {
    cat "$dir/out"
    echo "FAILED: $1"
    exit 1
}

# two A B: a race of two ranks, with settings A and B.
two() {
    # shellcheck disable=SC2086
    timeout 100 $run -n 1 env $1 "$peal" bench allreduce -b 64K -e 64K -n 2 : \
        -n 1 env $2 "$peal" bench allreduce -b 64K -e 64K -n 2 > "$dir/out" 2>&1
}

# says TEXT...: each is in the log.
says() {
    for text; do
        grep -q -- "$text" "$dir/out" || die "the log does not say: $text"
    done
}

two PEAL_HOST_ID=one PEAL_HOST_ID=one || die "one host"
says 'rank 1: lanes: 1 -> 0 via shm, within reach' 'node 0 of 1'

two PEAL_HOST_ID=one PEAL_HOST_ID=two || die "two hosts"
says 'rank 0: messages between hosts go over ucx: all ranks have it' 'rank 1: init rank 1 of 2 .* node 1 of 2' \
    'rank 1: lanes: 1 -> 0 via ucx, on other nodes' 'rank 0: ucx rails: ' 'via ucx by tcp/'

two PEAL_HOST_ID=one 'PEAL_HOST_ID=two UCX_TLS=nothing' || die "a rank without UCX"
says 'rank 0: messages between hosts go over mpi: no UCX, on another rank' 'rank 1: messages between hosts go over mpi: no UCX, ' \
    'rank 1: lanes: 1 -> 0 via mpi, on other nodes'
[ "$(grep -c '^.peal. warn' "$dir/out")" = 1 ] || die "not one warning of UCX that does not start"
says 'warn rank 1: no transport over UCX: No such device'

# One port for both: UCX opens on the rank that comes first.
port=UCX_TCP_PORT_RANGE=$((20000 + $$ % 10000))
port=$port-${port#*=}
two "PEAL_HOST_ID=one $port" "PEAL_HOST_ID=two $port" || die "UCX that does not open on one rank"
says 'messages between hosts go over mpi: no UCX, on another rank' 'over mpi: no UCX, it did not work on this rank' \
    'rank 0: lanes: 0 -> 1 via mpi, on other nodes' 'rank 1: lanes: 1 -> 0 via mpi, on other nodes'
[ "$(grep -c '^.peal. warn' "$dir/out")" = 1 ] || die "not one warning of UCX that does not open"
says 'warn rank .: no transport over UCX'
two "PEAL_HOST_ID=one PEAL_NET=ucx $port" "PEAL_HOST_ID=two PEAL_NET=ucx $port" && die "PEAL_NET=ucx is not had, and not refused"
says 'warn rank .: no transport over UCX' 'no communicator: rank . has config'

# A rank that is not the first of its host has no descriptors for connections, in some of these.
for most in 33 36 38 40 42 45; do
    # shellcheck disable=SC2016
    timeout 100 $run -n 1 env PEAL_HOST_ID=one "$peal" bench allreduce -b 64K -e 64K -n 2 : -n 2 env PEAL_HOST_ID=two \
        sh -c '[ "${OMPI_COMM_WORLD_RANK:-2}" = 1 ] || ulimit -n "$1"; exec "$0" bench allreduce -b 64K -e 64K -n 2' "$peal" $most \
        > "$dir/out" 2>&1 || die "a rank of $most descriptors"
done

two 'PEAL_HOST_ID=one PEAL_NET=mpi' 'PEAL_HOST_ID=two PEAL_NET=mpi' || die "PEAL_NET=mpi"
says 'rank 1: lanes: 1 -> 0 via mpi, on other nodes'

two PEAL_HOST_ID=one 'PEAL_HOST_ID=two PEAL_NET=mpi' && die "PEAL_NET on one rank alone is not refused"
says 'rank 0: no communicator: the transport (PEAL_NET) differs on rank 1; set it alike on all ranks'

two 'PEAL_HOST_ID=one PEAL_NET_DEVICES=lo' 'PEAL_HOST_ID=two PEAL_NET_DEVICES=lo' || die "PEAL_NET_DEVICES=lo"
says 'rank 1: ucx rails: lo (1 here, 1 on all ranks)' 'by tcp/lo, rail 0, lo of host .* to lo of host '

two PEAL_HOST_ID=one 'PEAL_HOST_ID=two PEAL_NET_DEVICES=lo,nosuch0' && die "a wrong PEAL_NET_DEVICES is not refused"
says 'rank 1: PEAL_NET_DEVICES lo,nosuch0: nosuch0 is none; UCX can use .*lo'
