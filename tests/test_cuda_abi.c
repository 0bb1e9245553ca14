/* The driver's interface as Peal declares it is that of cuda.h. Without one, it is not compared. */
#include "cuda/driver.h"

#include <stdio.h>

#ifdef TEST_CUDA_H
#include <assert.h>
#include <string.h>

#include <cuda.h>

#ifdef cuEventElapsedTime /* to a function of CUDA 12.8, of the same type; Peal takes the one that all drivers have */
#undef cuEventElapsedTime
extern __typeof__(cuEventElapsedTime_v2) cuEventElapsedTime;
#endif

#ifdef cuStreamGetCaptureInfo /* from CUDA 13 on to one with edges; Peal takes that of CUDA 12, which all drivers have */
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
#endif

#define SAME(name, symbol, parameters)                                                                                            \
    static_assert(__builtin_types_compatible_p(__typeof__(((peali_cuda_driver *)0)->name), __typeof__(&symbol)), #symbol);

/* All but those whose parameters are structs, which C does not take for the same. */
#define cuDeviceGetUuid_v2 peali_uuid_call
#define cuIpcGetMemHandle peali_get_call
#define cuIpcOpenMemHandle_v2 peali_open_call
#define cuGraphKernelNodeGetParams_v2 peali_node_call
#define cuLaunchKernelEx peali_launch_call
peali_cu_result peali_uuid_call(peali_cu_uuid *, peali_cu_device);
peali_cu_result peali_get_call(peali_cu_ipc *, peali_cu_ptr);
peali_cu_result peali_open_call(peali_cu_ptr *, peali_cu_ipc, unsigned);
peali_cu_result peali_node_call(peali_cu_node, peali_cu_kernel_node *);
peali_cu_result peali_launch_call(const peali_cu_launch *, peali_cu_func, void **, void **);
PEALI_CUDA_FUNCTIONS(SAME)
#undef cuDeviceGetUuid_v2
#undef cuIpcGetMemHandle
#undef cuIpcOpenMemHandle_v2
#undef cuGraphKernelNodeGetParams_v2
#undef cuLaunchKernelEx

static_assert(__builtin_types_compatible_p(__typeof__(&cuDeviceGetUuid_v2), CUresult (*)(CUuuid *, CUdevice)), "");
static_assert(__builtin_types_compatible_p(__typeof__(&cuIpcGetMemHandle), CUresult (*)(CUipcMemHandle *, CUdeviceptr)), "");
typedef CUresult open_handle(CUdeviceptr *, CUipcMemHandle, unsigned);
static_assert(__builtin_types_compatible_p(__typeof__(&cuIpcOpenMemHandle_v2), open_handle *), "");
typedef CUresult get_node(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *);
static_assert(__builtin_types_compatible_p(__typeof__(&cuGraphKernelNodeGetParams_v2), get_node *), "");
static_assert(sizeof(peali_cu_kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2), "");
static_assert(offsetof(peali_cu_kernel_node, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX), "");
static_assert(offsetof(peali_cu_kernel_node, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx), "");
typedef CUresult launch_kernel(const CUlaunchConfig *, CUfunction, void **, void **);
static_assert(__builtin_types_compatible_p(__typeof__(&cuLaunchKernelEx), launch_kernel *), "");
static_assert(sizeof(peali_cu_launch) == sizeof(CUlaunchConfig), "");
static_assert(offsetof(peali_cu_launch, block) == offsetof(CUlaunchConfig, blockDimX), "");
static_assert(offsetof(peali_cu_launch, stream) == offsetof(CUlaunchConfig, hStream), "");
static_assert(offsetof(peali_cu_launch, nattributes) == offsetof(CUlaunchConfig, numAttrs), "");
static_assert(sizeof(peali_cu_launch_attribute) == sizeof(CUlaunchAttribute), "");
static_assert(_Alignof(peali_cu_launch_attribute) == _Alignof(CUlaunchAttribute), "");
static_assert(offsetof(peali_cu_launch_attribute, value) == offsetof(CUlaunchAttribute, value), "");
static_assert(PEALI_CU_LAUNCH_SERIALIZATION == (int)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "");
static_assert(PEALI_CU_FUNC_PTX == (int)CU_FUNC_ATTRIBUTE_PTX_VERSION, "");
static_assert(PEALI_CU_NODE_KERNEL == (int)CU_GRAPH_NODE_TYPE_KERNEL, "");
static_assert(sizeof(peali_cu_uuid) == sizeof(CUuuid) && sizeof(peali_cu_ipc) == sizeof(CUipcMemHandle), "");

static_assert(PEALI_CU_OUT_OF_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY && PEALI_CU_NO_DEVICE == (int)CUDA_ERROR_NO_DEVICE, "");
static_assert(PEALI_CU_INVALID_IMAGE == (int)CUDA_ERROR_INVALID_IMAGE, "");
static_assert(PEALI_CU_NO_BINARY == (int)CUDA_ERROR_NO_BINARY_FOR_GPU, "");
static_assert(PEALI_CU_NOT_FOUND == (int)CUDA_ERROR_NOT_FOUND && PEALI_CU_NOT_READY == (int)CUDA_ERROR_NOT_READY, "");
static_assert(PEALI_CU_PEER_ALREADY == (int)CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "");
static_assert(PEALI_CU_CAPTURE_GLOBAL == (int)CU_STREAM_CAPTURE_MODE_GLOBAL, "");
static_assert(PEALI_CU_CAPTURE_THREAD == (int)CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "");
static_assert(PEALI_CU_CAPTURE_RELAXED == (int)CU_STREAM_CAPTURE_MODE_RELAXED, "");
static_assert(PEALI_CU_CAPTURE_NONE == (int)CU_STREAM_CAPTURE_STATUS_NONE, "");
static_assert(PEALI_CU_CAPTURE_ACTIVE == (int)CU_STREAM_CAPTURE_STATUS_ACTIVE, "");
static_assert(PEALI_CU_CAPTURE_INVALID == (int)CU_STREAM_CAPTURE_STATUS_INVALIDATED, "");
static_assert(PEALI_CU_STREAM_NON_BLOCKING == (int)CU_STREAM_NON_BLOCKING, "");
static_assert(PEALI_CU_EVENT_NO_TIMING == (int)CU_EVENT_DISABLE_TIMING, "");
static_assert(PEALI_CU_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE && PEALI_CU_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP, "");
static_assert(PEALI_CU_P2P_ATOMICS == (int)CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, "");
static_assert(PEALI_CU_IPC_LAZY_PEER == (int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, "");
static_assert(PEALI_CU_LIBRARY_PRESERVED == (int)CU_LIBRARY_BINARY_IS_PRESERVED, "");
static_assert(PEALI_CU_MEMORY_HOST == (int)CU_MEMORYTYPE_HOST && PEALI_CU_MEMORY_DEVICE == (int)CU_MEMORYTYPE_DEVICE, "");
static_assert(PEALI_CU_POINTER_MEMORY == (int)CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "");
static_assert(PEALI_CU_POINTER_HOST == (int)CU_POINTER_ATTRIBUTE_HOST_POINTER, "");
static_assert(PEALI_CU_POINTER_BUFFER == (int)CU_POINTER_ATTRIBUTE_BUFFER_ID, "");
static_assert(PEALI_CU_POINTER_MANAGED == (int)CU_POINTER_ATTRIBUTE_IS_MANAGED, "");
static_assert(PEALI_CU_POINTER_BUFFER == (int)CU_POINTER_ATTRIBUTE_BUFFER_ID, "");
static_assert(PEALI_CU_POINTER_DEVICE == (int)CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "");
static_assert(PEALI_CU_DEVICE_MAJOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
static_assert(PEALI_CU_DEVICE_MINOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
static_assert(PEALI_CU_DEVICE_RDMA_FLUSHES == (int)CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, "");
static_assert(PEALI_CU_DEVICE_RDMA_ORDERING == (int)CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, "");
static_assert(PEALI_CU_RDMA_FLUSH_HOST == (int)CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, "");
static_assert(PEALI_CU_RDMA_OWNER == (int)CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, "");
static_assert(PEALI_CU_RDMA_OWNER == (int)CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, "");
static_assert(PEALI_CU_RDMA_CONTEXT == (int)CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, "");

/* cuda.h names by macros the version of each function that it declares. */
#define TEXT(name) #name
#define EXPANDED(name) TEXT(name)
#define NAMED(name, symbol, parameters) {EXPANDED(cu##name), #symbol},

int main(void)
{
    static const char *const names[][2] = {PEALI_CUDA_FUNCTIONS(NAMED)};
    int wrong = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], names[i][1]) != 0) {
            printf("cuda.h has %s, Peal %s\n", names[i][0], names[i][1]);
            wrong = 1;
        }
    return wrong;
}
#else
int main(void)
{
    puts("no cuda.h here: the driver's interface was not compared with it");
    return 77;
}
#endif
