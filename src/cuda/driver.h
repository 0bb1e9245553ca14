/*
 * libcuda, opened at first use: the library loads where there is no driver, and one binary serves all drivers. What is needed of the
 * driver's interface is declared here with its documented layout (CUDA Driver API 12; a test compares it with cuda.h where that is
 * found), so nothing of CUDA is needed to build this.
 */
#ifndef PEALI_CUDA_DRIVER_H
#define PEALI_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

typedef int peali_cu_result; /* 0: success */
typedef int peali_cu_device;
typedef uint64_t peali_cu_ptr;
typedef struct peali_cu_context *peali_cu_ctx;
typedef struct peali_cu_stream *peali_cu_strm;
typedef struct peali_cu_function *peali_cu_func;
typedef struct peali_cu_library *peali_cu_lib;
typedef struct peali_cu_kernel *peali_cu_kern;
typedef struct { char bytes[64]; } peali_cu_ipc;
typedef struct { char bytes[16]; } peali_cu_uuid;

enum {
    PEALI_CU_CAPTURE_GLOBAL = 0, PEALI_CU_CAPTURE_THREAD = 1, PEALI_CU_CAPTURE_RELAXED = 2, /* CUstreamCaptureMode */
    PEALI_CU_HOST_PORTABLE = 1, PEALI_CU_HOST_MAPPED = 2, /* CU_MEMHOSTALLOC_* */
    PEALI_CU_IPC_LAZY_PEER = 1,
    PEALI_CU_MEMORY_HOST = 1, PEALI_CU_MEMORY_DEVICE = 2, /* CUmemorytype */
};

/* Functions by the names of the driver's, without "cu". */
typedef struct peali_cuda_driver {
    int version; /* of the driver: 1000 * major + 10 * minor */
    peali_cu_result (*GetErrorName)(peali_cu_result, const char **);
    peali_cu_result (*DeviceGetCount)(int *);
    peali_cu_result (*DeviceGet)(peali_cu_device *, int);
    peali_cu_result (*DeviceGetName)(char *, int, peali_cu_device);
    peali_cu_result (*DeviceGetAttribute)(int *, int, peali_cu_device);
    peali_cu_result (*DeviceGetUuid)(peali_cu_uuid *, peali_cu_device);
    peali_cu_result (*DeviceGetPCIBusId)(char *, int, peali_cu_device);
    peali_cu_result (*DeviceCanAccessPeer)(int *, peali_cu_device, peali_cu_device);
    peali_cu_result (*CtxGetCurrent)(peali_cu_ctx *);
    peali_cu_result (*CtxPushCurrent)(peali_cu_ctx);
    peali_cu_result (*CtxPopCurrent)(peali_cu_ctx *);
    peali_cu_result (*CtxGetDevice)(peali_cu_device *);
    peali_cu_result (*CtxEnablePeerAccess)(peali_cu_ctx, unsigned);
    peali_cu_result (*DevicePrimaryCtxRetain)(peali_cu_ctx *, peali_cu_device);
    peali_cu_result (*DevicePrimaryCtxRelease)(peali_cu_device);
    peali_cu_result (*MemAlloc)(peali_cu_ptr *, size_t);
    peali_cu_result (*MemFree)(peali_cu_ptr);
    peali_cu_result (*MemGetAddressRange)(peali_cu_ptr *, size_t *, peali_cu_ptr);
    peali_cu_result (*MemHostAlloc)(void **, size_t, unsigned);
    peali_cu_result (*MemFreeHost)(void *);
    peali_cu_result (*MemHostGetDevicePointer)(peali_cu_ptr *, void *, unsigned);
    peali_cu_result (*MemsetD8Async)(peali_cu_ptr, unsigned char, size_t, peali_cu_strm);
    peali_cu_result (*MemcpyAsync)(peali_cu_ptr, peali_cu_ptr, size_t, peali_cu_strm);
    peali_cu_result (*PointerGetAttributes)(unsigned, int *, void **, peali_cu_ptr);
    peali_cu_result (*IpcGetMemHandle)(peali_cu_ipc *, peali_cu_ptr);
    peali_cu_result (*IpcOpenMemHandle)(peali_cu_ptr *, peali_cu_ipc, unsigned);
    peali_cu_result (*IpcCloseMemHandle)(peali_cu_ptr);
    peali_cu_result (*StreamCreate)(peali_cu_strm *, unsigned);
    peali_cu_result (*StreamDestroy)(peali_cu_strm);
    peali_cu_result (*StreamSynchronize)(peali_cu_strm);
    peali_cu_result (*StreamQuery)(peali_cu_strm);
    peali_cu_result (*StreamIsCapturing)(peali_cu_strm, int *);
    peali_cu_result (*ThreadExchangeStreamCaptureMode)(int *);
    peali_cu_result (*LibraryLoadData)(peali_cu_lib *, const void *, void *, void **, unsigned, void *, void **, unsigned);
    peali_cu_result (*LibraryUnload)(peali_cu_lib);
    peali_cu_result (*LibraryGetKernel)(peali_cu_kern *, peali_cu_lib, const char *);
    peali_cu_result (*LaunchKernel)(peali_cu_func, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, peali_cu_strm,
                                    void **, void **);
} peali_cuda_driver;

/*
 * The driver, or NULL where there is none that can be used; WHY (may be NULL) then gets a constant text with what is missing and
 * what to do. The same answer for the whole life of the process. Threads: any.
 */
const peali_cuda_driver *peali_cuda_driver_get(const char **why);

/* Logs at warning that CALL of the driver failed with RESULT, and returns PEAL_ERR_CUDA (PEAL_ERR_MEMORY where it has no memory). */
peal_status peali_cuda_failed(int rank, const char *call, peali_cu_result result);

#endif
