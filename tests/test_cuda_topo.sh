# peal info --topo on machines of tests/cuda: PEAL is the command, FAKE the folder of their libnvidia-ml.so.1 and libcuda.so.1.
peal=$1 fake=$2
result=0
nothing=$(mktemp -d) || exit 1
trap 'rm -rf "$nothing"' EXIT

# expect MACHINE LINE...: each is a line of what is printed, apart from spaces.
expect() {
    machine=$1
    shift
    said=$(LD_LIBRARY_PATH=$fake FAKE_CUDA_DEVICES=0 FAKE_NVML=$machine "$peal" info --topo 2>&1 | tr -s ' ')
    for line; do
        printf '%s\n' "$said" | grep -qxF "$line" && continue
        printf 'on %s no line "%s" in\n%s\n' "$machine" "$line" "$said"
        result=1
    done
}
expect none 'gpus: none, because NVML finds no GPU'
expect switch4 ' 3 00000000:3A:00.0 Fake GPU' ' 0 - nvlink 18 nvlink 18 nvlink 18' ' 2 nvlink 18 nvlink 18 - nvlink 18'
expect hidden2 ' 0 - nvlink 18' ' 1 nvlink 18 -'
expect bridge4 ' 0 - nvlink 4 host host' ' 1 nvlink 4 - host host' ' 3 host host nvlink 4 -'
expect refused2 ' 0 - pcie!' ' 1 pcie! -'

# warns MACHINE COUNT TEXT [VARIABLE=VALUE]...: of so many paths it says so. A fake GPU copies no faster than a host.
warns() {
    machine=$1 count=$2 text=$3
    shift 3
    said=$(env LD_LIBRARY_PATH="$fake" FAKE_NVML="$machine" "$@" "$peal" info --topo 2>&1)
    [ "$(printf '%s\n' "$said" | grep -cF "$text")" = "$count" ] && return
    printf 'on %s with %s not %s times "%s" in\n%s\n' "$machine" "$*" "$count" "$text" "$said"
    result=1
}
warns hidden2 2 'NVML says 18 NVLinks, but a copy runs at' A=
warns hidden2 1 'warning: GPU 0 to 1: NVML says that they access each other' FAKE_CUDA_P2P=lost
warns hidden2 2 "memory, but a copy does not arrive: IOMMU" FAKE_CUDA_P2P=lost
warns hidden2 2 'a copy is refused: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED' FAKE_CUDA_P2P=none
warns refused2 0 'warning' FAKE_CUDA_P2P=none
warns hidden2 1 'copies between them are not measured: PEAL_P2P=0 forbids it' PEAL_P2P=0
warns hidden2 2 ' unseen' FAKE_CUDA_DEVICES=1

if ldconfig -p 2> /dev/null | grep -q 'libnvidia-ml\.so\.1'; then
    echo 'this machine has NVML: what is said without it was not tested'
else
    said=$(LD_LIBRARY_PATH=$nothing "$peal" info --topo 2>&1)
    case $said in
    *'gpus: none, because no NVIDIA driver: libnvidia-ml.so.1'*) ;;
    *) printf 'without NVML it said\n%s\n' "$said"; result=1 ;;
    esac
fi
exit $result
