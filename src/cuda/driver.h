/*
 * libcuda, opened at first use: the library loads where there is no driver, and one binary serves all drivers. What is needed of
 * the driver's interface is declared here with its documented layout (CUDA Driver API 12; a test compares it with cuda.h where
 * that is found), so nothing of CUDA is needed to build this.
 */
#ifndef PEALI_CUDA_DRIVER_H
#define PEALI_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

/* Enumerations are unsigned, as the compiler makes those of cuda.h; handles point to the structs that cuda.h leaves open too. */
typedef unsigned peali_cu_result; /* 0: success */
typedef unsigned peali_cu_enum;
typedef int peali_cu_device;
typedef unsigned long long peali_cu_ptr;
typedef struct CUctx_st *peali_cu_ctx;
typedef struct CUstream_st *peali_cu_strm;
typedef struct CUfunc_st *peali_cu_func;
typedef struct CUlib_st *peali_cu_lib;
typedef struct CUkern_st *peali_cu_kern;
typedef struct CUevent_st *peali_cu_event;
typedef struct CUgraph_st *peali_cu_graph;
typedef struct CUgraphNode_st *peali_cu_node;
typedef struct CUgraphExec_st *peali_cu_exec;
typedef struct { char bytes[64]; } peali_cu_ipc;
typedef struct { char bytes[16]; } peali_cu_uuid;
typedef struct peali_cu_kernel_node {
    peali_cu_func func;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    peali_cu_kern kernel;
    peali_cu_ctx context;
} peali_cu_kernel_node;

typedef struct peali_cu_launch_attribute {
    peali_cu_enum id;
    char pad[4];
    union {
        int serialization;
        uint64_t room[8];
    } value;
} peali_cu_launch_attribute;
typedef struct peali_cu_launch {
    unsigned grid[3], block[3], shared_bytes;
    peali_cu_strm stream;
    peali_cu_launch_attribute *attributes;
    unsigned nattributes;
} peali_cu_launch;

enum {
    PEALI_CU_OUT_OF_MEMORY = 2, PEALI_CU_NO_DEVICE = 100, PEALI_CU_INVALID_IMAGE = 200, PEALI_CU_NO_BINARY = 209,
    PEALI_CU_NOT_FOUND = 500, PEALI_CU_NOT_READY = 600, PEALI_CU_PEER_ALREADY = 704, PEALI_CU_CAPTURE_IMPLICIT = 906, /* CUresult */
    PEALI_CU_CAPTURE_GLOBAL = 0, PEALI_CU_CAPTURE_THREAD = 1, PEALI_CU_CAPTURE_RELAXED = 2, /* CUstreamCaptureMode */
    PEALI_CU_CAPTURE_NONE = 0, PEALI_CU_CAPTURE_ACTIVE = 1, PEALI_CU_CAPTURE_INVALID = 2, /* CUstreamCaptureStatus */
    PEALI_CU_STREAM_NON_BLOCKING = 1,
    PEALI_CU_STREAM_PER_THREAD = 2, /* CU_STREAM_PER_THREAD; less is the legacy default stream */
    PEALI_CU_EVENT_NO_TIMING = 2, /* CU_EVENT_DISABLE_TIMING */
    PEALI_CU_P2P_ATOMICS = 3, /* CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED */
    PEALI_CU_HOST_PORTABLE = 1, PEALI_CU_HOST_MAPPED = 2, /* CU_MEMHOSTALLOC_* and CU_MEMHOSTREGISTER_* */
    PEALI_CU_IPC_LAZY_PEER = 1,
    PEALI_CU_LIBRARY_PRESERVED = 1, /* the image stays where it is */
    PEALI_CU_MEMORY_HOST = 1, PEALI_CU_MEMORY_DEVICE = 2, /* CUmemorytype */
    PEALI_CU_POINTER_MEMORY = 2, PEALI_CU_POINTER_HOST = 4, PEALI_CU_POINTER_BUFFER = 7, /* CUpointer_attribute */
    PEALI_CU_POINTER_MANAGED = 8, PEALI_CU_POINTER_DEVICE = 9,
    PEALI_CU_NODE_KERNEL = 0, /* CUgraphNodeType */
    PEALI_CU_FUNC_PTX = 5, /* CU_FUNC_ATTRIBUTE_PTX_VERSION: ten times the architecture that it was compiled for */
    PEALI_CU_LAUNCH_SERIALIZATION = 6, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
    PEALI_CU_DEVICE_SMS = 16, /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    PEALI_CU_DEVICE_MAJOR = 75, PEALI_CU_DEVICE_MINOR = 76, /* CUdevice_attribute: compute capability */
    PEALI_CU_DEVICE_RDMA_FLUSHES = 117, PEALI_CU_DEVICE_RDMA_ORDERING = 118, /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_* */
    PEALI_CU_RDMA_FLUSH_HOST = 1, /* CUflushGPUDirectRDMAWritesOptions */
    PEALI_CU_RDMA_OWNER = 100,    /* CUGPUDirectRDMAWritesOrdering, and CUflushGPUDirectRDMAWritesScope */
    PEALI_CU_RDMA_CONTEXT = 0,    /* CUflushGPUDirectRDMAWritesTarget */
};

/* F(name here, name in the library, parameters): all return a CUresult. */
#define PEALI_CUDA_FUNCTIONS(F)                                                                                                   \
    F(Init, cuInit, (unsigned))                                                                                                   \
    F(GetErrorName, cuGetErrorName, (peali_cu_result, const char **))                                                             \
    F(DeviceGetCount, cuDeviceGetCount, (int *))                                                                                  \
    F(DeviceGet, cuDeviceGet, (peali_cu_device *, int))                                                                           \
    F(DeviceGetName, cuDeviceGetName, (char *, int, peali_cu_device))                                                             \
    F(DeviceGetAttribute, cuDeviceGetAttribute, (int *, peali_cu_enum, peali_cu_device))                                          \
    F(DeviceGetUuid, cuDeviceGetUuid_v2, (peali_cu_uuid *, peali_cu_device))                                                      \
    F(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *, int, peali_cu_device))                                                     \
    F(DeviceGetP2PAttribute, cuDeviceGetP2PAttribute, (int *, peali_cu_enum, peali_cu_device, peali_cu_device))                   \
    F(CtxGetCurrent, cuCtxGetCurrent, (peali_cu_ctx *))                                                                           \
    F(CtxPushCurrent, cuCtxPushCurrent_v2, (peali_cu_ctx))                                                                        \
    F(CtxPopCurrent, cuCtxPopCurrent_v2, (peali_cu_ctx *))                                                                        \
    F(CtxGetDevice, cuCtxGetDevice, (peali_cu_device *))                                                                          \
    F(CtxEnablePeerAccess, cuCtxEnablePeerAccess, (peali_cu_ctx, unsigned))                                                       \
    F(CtxSynchronize, cuCtxSynchronize, (void))                                                                                   \
    F(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (peali_cu_ctx *, peali_cu_device))                                        \
    F(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (peali_cu_device))                                                   \
    F(MemAlloc, cuMemAlloc_v2, (peali_cu_ptr *, size_t))                                                                          \
    F(MemFree, cuMemFree_v2, (peali_cu_ptr))                                                                                      \
    F(MemGetAddressRange, cuMemGetAddressRange_v2, (peali_cu_ptr *, size_t *, peali_cu_ptr))                                      \
    F(MemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))                                                                  \
    F(MemFreeHost, cuMemFreeHost, (void *))                                                                                       \
    F(MemHostRegister, cuMemHostRegister_v2, (void *, size_t, unsigned))                                                          \
    F(MemHostUnregister, cuMemHostUnregister, (void *))                                                                           \
    F(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (peali_cu_ptr *, void *, unsigned))                                  \
    F(MemsetD8Async, cuMemsetD8Async, (peali_cu_ptr, unsigned char, size_t, peali_cu_strm))                                       \
    F(MemcpyAsync, cuMemcpyAsync, (peali_cu_ptr, peali_cu_ptr, size_t, peali_cu_strm))                                            \
    F(FlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, (peali_cu_enum, peali_cu_enum))                                       \
    F(PointerGetAttributes, cuPointerGetAttributes, (unsigned, peali_cu_enum *, void **, peali_cu_ptr))                           \
    F(IpcGetMemHandle, cuIpcGetMemHandle, (peali_cu_ipc *, peali_cu_ptr))                                                         \
    F(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, (peali_cu_ptr *, peali_cu_ipc, unsigned))                                          \
    F(IpcCloseMemHandle, cuIpcCloseMemHandle, (peali_cu_ptr))                                                                     \
    F(StreamCreate, cuStreamCreate, (peali_cu_strm *, unsigned))                                                                  \
    F(StreamDestroy, cuStreamDestroy_v2, (peali_cu_strm))                                                                         \
    F(StreamSynchronize, cuStreamSynchronize, (peali_cu_strm))                                                                    \
    F(StreamQuery, cuStreamQuery, (peali_cu_strm))                                                                                \
    F(StreamIsCapturing, cuStreamIsCapturing, (peali_cu_strm, peali_cu_enum *))                                                   \
    F(StreamGetCaptureInfo, cuStreamGetCaptureInfo_v2,                                                                            \
      (peali_cu_strm, peali_cu_enum *, uint64_t *, peali_cu_graph *, const peali_cu_node **, size_t *))                           \
    F(StreamWaitEvent, cuStreamWaitEvent, (peali_cu_strm, peali_cu_event, unsigned))                                              \
    F(StreamBeginCapture, cuStreamBeginCapture_v2, (peali_cu_strm, peali_cu_enum))                                                \
    F(StreamEndCapture, cuStreamEndCapture, (peali_cu_strm, peali_cu_graph *))                                                    \
    F(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (peali_cu_enum *))                                      \
    F(EventCreate, cuEventCreate, (peali_cu_event *, unsigned))                                                                   \
    F(EventRecord, cuEventRecord, (peali_cu_event, peali_cu_strm))                                                                \
    F(EventElapsedTime, cuEventElapsedTime, (float *, peali_cu_event, peali_cu_event))                                            \
    F(EventDestroy, cuEventDestroy_v2, (peali_cu_event))                                                                          \
    F(GraphGetNodes, cuGraphGetNodes, (peali_cu_graph, peali_cu_node *, size_t *))                                                \
    F(GraphNodeGetType, cuGraphNodeGetType, (peali_cu_node, peali_cu_enum *))                                                     \
    F(GraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, (peali_cu_node, peali_cu_kernel_node *))                           \
    F(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (peali_cu_exec *, peali_cu_graph, unsigned long long))              \
    F(GraphLaunch, cuGraphLaunch, (peali_cu_exec, peali_cu_strm))                                                                 \
    F(GraphDestroy, cuGraphDestroy, (peali_cu_graph))                                                                             \
    F(GraphExecDestroy, cuGraphExecDestroy, (peali_cu_exec))                                                                      \
    F(LibraryLoadData, cuLibraryLoadData,                                                                                         \
      (peali_cu_lib *, const void *, peali_cu_enum *, void **, unsigned, peali_cu_enum *, void **, unsigned))                     \
    F(LibraryGetKernel, cuLibraryGetKernel, (peali_cu_kern *, peali_cu_lib, const char *))                                        \
    F(KernelGetFunction, cuKernelGetFunction, (peali_cu_func *, peali_cu_kern))                                                   \
    F(FuncGetAttribute, cuFuncGetAttribute, (int *, peali_cu_enum, peali_cu_func))                                                \
    F(LaunchKernel, cuLaunchKernel,                                                                                               \
      (peali_cu_func, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, peali_cu_strm, void **, void **))     \
    F(LaunchKernelEx, cuLaunchKernelEx, (const peali_cu_launch *, peali_cu_func, void **, void **))

typedef struct peali_cuda_driver {
    int version; /* of CUDA, as the driver has it: 1000 * major + 10 * minor */
#define PEALI_CUDA_MEMBER(name, symbol, parameters) peali_cu_result(*name) parameters;
    PEALI_CUDA_FUNCTIONS(PEALI_CUDA_MEMBER)
#undef PEALI_CUDA_MEMBER
} peali_cuda_driver;

/*
 * The driver, initialised, or NULL where there is none that can be used; WHY (may be NULL) then gets a constant text with what is
 * missing and what to do. The same answer for the whole life of the process. The first call may take a second. Threads: any.
 */
const peali_cuda_driver *peali_cuda_driver_get(const char **why);

/*
 * Logs at warning that CALL of the driver failed with RESULT, and returns PEAL_ERR_CUDA (PEAL_ERR_MEMORY where it has no memory).
 */
peal_status peali_cuda_failed(int rank, const char *call, peali_cu_result result);

/* The driver's name of RESULT. */
const char *peali_cuda_error(peali_cu_result result);

#endif
