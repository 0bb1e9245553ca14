/* What all communicators of this process share on one GPU: its kernels, and the scratch that they may take (PEAL_SCRATCH). */
#ifndef PEALI_CUDA_GPU_H
#define PEALI_CUDA_GPU_H

#include <stdbool.h>

#include "cuda/driver.h"

enum { PEALI_GPU_KERNELS = 74 };

typedef struct peali_gpu {
    const peali_cuda_driver *cu;
    peali_cu_ctx context;
    peali_cu_device device;
    int uses;      /* the rest is gpu.c's */
    bool retained; /* a primary context that is held for this */
    bool early;    /* kernels wait for what stands before them in their stream by themselves (cuda/memory.cuh) */
    size_t taken;  /* bytes of scratch */
    int nkernels;
    struct {
        const char *name; /* as peali_cuda_kernel gives it */
        peali_cu_func function;
    } kernels[PEALI_GPU_KERNELS];
    struct peali_gpu *next;
} peali_gpu;

/*
 * The GPU of the calling thread's current context; where it has none, that of device 0's primary context, as the CUDA runtime does
 * it. RANK is for messages. Legal while a stream of this thread is captured.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED no driver, no device, or no kernels for it in this build (logged); PEAL_ERR_CUDA (logged);
 *          PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_gpu_open(int rank, peali_gpu **gpu);
void peali_gpu_close(peali_gpu **gpu);

/* The function of the kernel that peali_cuda_kernel names so, by the address of NAME. Threads: any. */
peali_cu_func peali_gpu_kernel(const peali_gpu *gpu, const char *name);

/*
 * Half of what is left of this GPU's scratch, so that later communicators get some too; 0 (logged) where too little is left.
 * What was taken is given back. Threads: any.
 */
size_t peali_gpu_take(peali_gpu *gpu, int rank);
void peali_gpu_give(peali_gpu *gpu, size_t bytes);

/*
 * What cuStreamIsCapturing says of STREAM. A default stream is the current context's: where the thread has none, nothing captures
 * it. Threads: any.
 */
peali_cu_result peali_gpu_capturing(peali_cu_strm stream, peali_cu_enum *state);

/*
 * Between these two the context is current, and the thread may do what a capture of its streams forbids, which does not end up in
 * the capture. Do not nest.
 */
typedef struct peali_gpu_visit {
    peali_cu_enum mode; /* from before */
} peali_gpu_visit;
PEAL_MUST_CHECK peal_status peali_gpu_enter(const peali_gpu *gpu, int rank, peali_gpu_visit *visit);
void peali_gpu_leave(const peali_gpu *gpu, peali_gpu_visit *visit);

#endif
