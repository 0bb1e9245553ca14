/*
 * A CUDA driver without a GPU, for tests: a libcuda.so.1 whose devices are shares of host memory and whose kernels run on threads.
 * The functions have the driver's names and parameters, so what is tested here runs on a real driver too. How it behaves follows
 * the CUDA Driver API's documentation; where it knows less than that, the function says so.
 *
 *     FAKE_CUDA_DEVICES=2       how many; 0: none
 *     FAKE_CUDA_VERSION=13000   of CUDA
 *     FAKE_CUDA_ARCH=90         of all devices
 *     FAKE_CUDA_PTX=90          that kernels were compiled for
 *     FAKE_CUDA_LACKS=75        an architecture that no image has
 *     FAKE_CUDA_P2P=none        devices cannot access each other; lost: stores to another are lost; hang: they never end;
 *                               pci: it goes over PCI, so without atomics
 *     FAKE_CUDA_HOST=1          the host has addresses for device memory, too
 *     FAKE_CUDA_FLUSHES=0       nobody can flush what a network writes to a device, which kernels are not sure to see
 *     CUDA_DEVICE_MAX_CONNECTIONS=1    kernels and waits of all streams of a device begin in the order in which they came
 *     FAKE_CUDA_FAIL=cuMemAlloc_v2:2:999    the second call of it from now on fails with 999
 *
 * Pointers are addresses of the process, on devices too. The only kernel parameter is a peali_cuda_call, but for the kernels that
 * verify races (bench/differ.c) and that compute beside calls (test_device_overlap.c).
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>

#include "cuda/driver.h"

typedef peali_cu_graph fake_graph;
typedef peali_cu_exec fake_exec;
typedef peali_cu_node fake_node;
typedef peali_cu_event fake_event;

enum { FAKE_NODE_KERNEL, FAKE_NODE_MEMCPY, FAKE_NODE_MEMSET, FAKE_NODE_HOST }; /* CUgraphNodeType */

/* What tests call and Peal does not. */
#define FAKE_FUNCTIONS(F)                                                                                                         \
    F(cuDriverGetVersion, (int *))                                                                                                \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                                      \
    F(cuMemAllocManaged, (peali_cu_ptr *, size_t, unsigned))                                                                      \
    F(cuCtxSetCurrent, (peali_cu_ctx))                                                                                            \
    F(cuEventSynchronize, (fake_event))

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_DECLARE(symbol, parameters) FAKE_API peali_cu_result symbol parameters;
#define FAKE_DECLARE_TOO(name, symbol, parameters) FAKE_DECLARE(symbol, parameters)
FAKE_FUNCTIONS(FAKE_DECLARE)
PEALI_CUDA_FUNCTIONS(FAKE_DECLARE_TOO)

/* The N-th call of SYMBOL from now on fails with RESULT; 0: none does. As FAKE_CUDA_FAIL. */
FAKE_API void fake_cuda_fail(const char *symbol, int n, peali_cu_result result);

/* Kernels that were launched so far with leave to begin before what stands before them is over. */
FAKE_API int fake_cuda_early(void);

/* From now on memory may come to lie where the last was freed, if it is as long. At first it does not. */
FAKE_API void fake_cuda_reuse(bool so);

/*
 * What kernels do; NULL, and at first: the emulation of Peal's, where there is one. False: there is none, and kernels do nothing.
 * PARAMETERS is a peali_cuda_call.
 */
typedef void fake_emulation(const char *kernel, unsigned grid, unsigned block, const void *parameters);
FAKE_API bool fake_cuda_emulate(fake_emulation *emulation);

/* A kernel of GRID CTAs on STREAM that does WORK with a copy of the BYTES, at most 128, at PARAMETERS. */
typedef void fake_work(const void *parameters);
FAKE_API peali_cu_result fake_cuda_work(peali_cu_strm stream, unsigned grid, fake_work *work, const void *parameters, size_t bytes);

#endif
