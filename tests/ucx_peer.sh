#!/bin/sh
# The transport over another UCX: ucx_peer.sh FOLDER TEST_NET TEST_TRANSPORTS MPIRUN [OPTION...]
# That UCX is PyPI's in FOLDER/ucx, or so in the folder that TEST_PEERS names.
set -u
prefix=$(realpath -m "${TEST_PEERS:-$1}")/ucx/libucx net=$2 transports=$3
shift 3
if [ ! -e "$prefix/lib/libucp.so.0" ]; then
    echo "skipped: no $prefix: python3 -m pip install --no-deps --target ${prefix%/libucx} libucx-cu13"
    exit 77
fi
version=$(sed -n 's/^Version: //p' "$prefix/lib/pkgconfig/ucx.pc")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH="$prefix/lib" PEAL_LOG=info PEAL_LOG_FILE="$dir/log.%r" UCX_TLS
for UCX_TLS in all tcp,self posix,self; do
    if ! timeout 100 "$@" "$net" ucx >"$dir/out" 2>&1 || ! timeout 100 "$@" "$transports" >>"$dir/out" 2>&1; then
        cat "$dir/out"
        echo "FAILED: ucx $version, UCX_TLS=$UCX_TLS"
        exit 1
    fi
done
if ! UCX_TLS=tcp,self timeout 100 "$@" "$net" ucx rails >"$dir/out" 2>&1; then
    cat "$dir/out"
    echo "FAILED: ucx $version, rails"
    exit 1
fi
grep -h 'via ucx by' "$dir"/log.* | sort | uniq
if ! grep -q "ucx $version\$" "$dir/log.0"; then
    echo "FAILED: not by ucx $version"
    exit 1
fi
