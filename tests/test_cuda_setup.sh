# What is said where GPUs cannot be used: SETUP makes a team with kernels of CUDA 13.1, BARE in a build without nvcc. FAKE and OLD
# are folders with a libcuda.so.1: all of the driver, and one of CUDA 11.
setup=$1 bare=$2 fake=$3 old=$4
nothing=$(mktemp -d) || exit 1
trap 'rm -rf "$nothing"' EXIT
unset PEAL_LOG PEAL_LOG_FILE PEAL_SCRATCH PEAL_P2P PEAL_TIMEOUT
result=0

# expect PROGRAM FOLDER STATUS LINE [VARIABLE=VALUE]...: the program ends with STATUS and logs LINE; nothing where that is empty.
expect() {
    program=$1 folder=$2 status=$3 line=$4
    shift 4
    said=$(env "$@" LD_LIBRARY_PATH="$folder" timeout 60 "$program" 2>&1)
    case $said in
    *"$line"*"$status"*) [ -n "$line" ] || [ "${said#"$status"}" != "$said" ] && return ;;
    esac
    printf 'with %s: not "%s" and "%s", but\n%s\n' "$*" "$line" "$status" "$said"
    result=1
}

if ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    echo 'this machine has a driver: what is said without one was not tested'
else
    expect "$setup" "$nothing" unsupported 'GPUs cannot be used: no NVIDIA driver: libcuda.so.1' A=
fi
expect "$setup" "$fake" ok '' FAKE_CUDA_VERSION=13010
expect "$setup" "$fake" ok 'the driver is of CUDA 13.0, and CUDA 13.1 built the kernels' FAKE_CUDA_VERSION=13000
older='the driver is of CUDA 12.8, and the kernels of this Peal were built by CUDA 13.1; install a driver of CUDA 13, or build Peal'
expect "$setup" "$fake" unsupported "$older with the nvcc of CUDA 12" FAKE_CUDA_VERSION=12080
expect "$setup" "$old" unsupported 'libcuda.so.1 is of CUDA 11.4 and has no cuLibraryLoadData; install a driver of CUDA 12.0' \
    FAKE_CUDA_VERSION=11040
expect "$setup" "$fake" unsupported 'the driver finds no GPU' FAKE_CUDA_VERSION=13010 FAKE_CUDA_DEVICES=0
expect "$setup" "$fake" unsupported 'the driver does not start: CUDA_ERROR_UNKNOWN' FAKE_CUDA_VERSION=13010 \
    FAKE_CUDA_FAIL=cuInit:1:999
arch='(Fake 0) is of compute capability 7.5, and this build has no kernels for it (CUDA_ERROR_NO_BINARY_FOR_GPU); build with'
expect "$setup" "$fake" unsupported "$arch -Dgpu_arch=75" \
    FAKE_CUDA_VERSION=13010 FAKE_CUDA_ARCH=75 FAKE_CUDA_DEVICES=2 FAKE_CUDA_LACKS=75
expect "$bare" "$fake" unsupported 'this Peal was built without nvcc' FAKE_CUDA_FAIL=cuLibraryLoadData:1:200
expect "$bare" "$fake" ok ''
far='device 0 (0000:0a:00.0) and that of rank 1 (0000:1a:00.0) do not reach each other:'
expect "$bare" "$fake" ok "$far PEAL_P2P=0 forbids it" PEAL_P2P=0
expect "$bare" "$fake" ok "$far CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" FAKE_CUDA_P2P=none
expect "$bare" "$fake" ok "$far a store was lost, though the driver allows it" FAKE_CUDA_P2P=lost
expect "$bare" "$fake" timeout 'storing to peers (PEAL_P2P=0 does without): device 0 has not done it after 0.25 s' \
    FAKE_CUDA_P2P=hang PEAL_TIMEOUT=0.5
expect "$bare" "$fake" memory 'PEAL_SCRATCH=100000: 100000 bytes of it are left' PEAL_SCRATCH=100000
expect "$bare" "$fake" ok '' PEAL_SCRATCH=128k
exit $result
