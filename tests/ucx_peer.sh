#!/bin/sh
# The transport over other UCX: ucx_peer.sh FOLDER TEST_NET TEST_TRANSPORTS MPIRUN [OPTION...]
# They are PyPI's (libucx-cu13, or libucx-cu12 of any version) in FOLDER/ucx*, or so in the folder that TEST_PEERS names.
set -u
peers=$(realpath -m "${TEST_PEERS:-$1}") net=$2 transports=$3
shift 3
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH PEAL_LOG=info PEAL_LOG_FILE="$dir/log.%r" UCX_TLS

fail() {
    cat "$dir/out"
    echo "FAILED: ucx $version, $1"
    exit 1
}

# A configuration that UCX does not know is one that another version knows.
run() {
    timeout 100 "$@" > "$dir/out" 2>&1 || fail "UCX_TLS=$UCX_TLS"
    ! grep 'invalid configuration' "$dir/out" || fail "UCX_TLS=$UCX_TLS"
}

some=
for prefix in "$peers"/ucx*/libucx; do
    [ -e "$prefix/lib/libucp.so.0" ] || continue
    some=1
    version=$(sed -n 's/^Version: //p' "$prefix/lib/pkgconfig/ucx.pc")
    LD_LIBRARY_PATH=$prefix/lib
    rm -f "$dir"/log.*
    for UCX_TLS in all tcp,self posix,self; do
        run "$@" "$net" ucx
        run "$@" "$transports"
    done
    UCX_TLS=tcp,self
    case $version in
        1.20.*) ;; # finds no way from lo to lo, which one of the rails is (openucx/ucx#11202)
        *) run "$@" "$net" ucx rails ;;
    esac
    grep -h 'via ucx by' "$dir"/log.* | sort | uniq
    grep -q "ucx $version\$" "$dir/log.0" || fail "it is another one"
    echo "ucx $version: all pass"
done
[ "$some" ] && exit
echo "skipped: no $peers/ucx: python3 -m pip install --no-deps --target $peers/ucx libucx-cu13"
exit 77
