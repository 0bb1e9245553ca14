/*
 * All kernels are loaded when the first communicator comes to a GPU, none later: the driver may wait for what runs on a GPU before
 * it loads a kernel there, and a kernel of Peal that runs may wait for a launch that this very thread is to make next.
 */
#include "cuda/gpu.h"

#include <assert.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/log.h"
#include "cuda/image.h"
#include "cuda/load.h"

enum { SCRATCH_UNIT = 64 << 10 }; /* what is taken is a multiple of it */

/* The GPUs in use and the kernels, which stay loaded: a graph may hold them for longer than any communicator lives. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static peali_gpu *gpus;
static peali_cu_lib library;

/* The image lacks this GPU's architecture, or there is no image. */
static peal_status refuse_image(const peali_gpu *g, int rank, peali_cu_result result)
{
    int major = 0, minor = 0;
    char name[96] = "";
    (void)g->cu->DeviceGetAttribute(&major, PEALI_CU_DEVICE_MAJOR, g->device);
    (void)g->cu->DeviceGetAttribute(&minor, PEALI_CU_DEVICE_MINOR, g->device);
    (void)g->cu->DeviceGetName(name, sizeof(name), g->device);
    if (peali_cuda_toolkit == 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank,
                  "this Peal was built without nvcc, so it has no kernels for GPUs; build it where nvcc is (meson -Dcuda=enabled)");
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank,
                  "device %d (%s) is of compute capability %d.%d, and this build has no kernels for it (%s); build with "
                  "-Dgpu_arch=%d%d",
                  g->device, name, major, minor, peali_cuda_error(result), major, minor);
    return PEAL_ERR_UNSUPPORTED;
}

static peal_status load_library(const peali_gpu *g, int rank)
{
    peali_cu_enum option = PEALI_CU_LIBRARY_PRESERVED;
    void *yes = (void *)1;
    if (library)
        return PEAL_OK;
    peali_cu_result result = g->cu->LibraryLoadData(&library, peali_cuda_image, NULL, NULL, 0, &option, &yes, 1);
    if (result == PEALI_CU_OUT_OF_MEMORY)
        return peali_cuda_failed(rank, "cuLibraryLoadData", result);
    return result == 0 ? PEAL_OK : refuse_image(g, rank, result);
}

peali_cu_func peali_gpu_kernel(const peali_gpu *gpu, const char *name)
{
    for (int i = 0; i < gpu->nkernels; i++)
        if (gpu->kernels[i].name == name)
            return gpu->kernels[i].function;
    return NULL;
}

static peal_status load_kernel(peali_gpu *g, int rank, const char *name)
{
    peali_cu_kern kernel;
    peali_cu_func function = NULL;
    const char *call = "cuLibraryGetKernel";
    peali_cu_result result = g->cu->LibraryGetKernel(&kernel, library, name);
    if (result == 0) {
        call = "cuKernelGetFunction";
        result = g->cu->KernelGetFunction(&function, kernel);
    }
    if (result == PEALI_CU_NO_BINARY)
        return refuse_image(g, rank, result);
    if (result != 0)
        return peali_cuda_failed(rank, call, result);
    assert(g->nkernels < PEALI_GPU_KERNELS);
    g->kernels[g->nkernels].name = name;
    g->kernels[g->nkernels++].function = function;
    return PEAL_OK;
}

/*
 * Kernels that begin where the ones before them end, without a full stop in between: 1.1 us from kernel to kernel in place of 2.0
 * in a stream, 0.8 of 1.1 in a graph (H100, CUDA 13.0, kernels that do nothing). What was compiled for less than 9.0 has no such
 * wait, though its device may be newer. Graphs have such edges since CUDA 12.3. Source: CUDA C++ Programming Guide, "Programmatic
 * Dependent Launch".
 */
static void look_at_kernels(peali_gpu *g)
{
    enum { LEAST_ARCH = 90, LEAST_DRIVER = 12030 };
    int arch = 0;
    const bool known = g->nkernels > 0 && g->cu->FuncGetAttribute(&arch, PEALI_CU_FUNC_PTX, g->kernels[0].function) == 0;
    g->early = peali_config_get()->early && known && arch >= LEAST_ARCH && g->cu->version >= LEAST_DRIVER;
}

/* Those that any call can name. */
static peal_status load_kernels(peali_gpu *g, int rank)
{
    enum { WAYS = 2 + PEALI_CUDA_SHAPES - 1, KINDS = WAYS * PEALI_CUDA_PROTOS, ALL = KINDS * PEAL_TYPE_COUNT * PEAL_OP_COUNT };
    peal_status status = load_library(g, rank);
    for (int i = 0; i < ALL && status == PEAL_OK; i++) {
        const int way = i % WAYS; /* by protocols, rare or not, or a shape */
        peali_cuda_call call = {.rare = way == 1,
                                .exchanges = (uint8_t)(way > 1 ? way - 1 : PEALI_CUDA_NO_EXCHANGE),
                                .proto = (uint8_t)(i / WAYS % PEALI_CUDA_PROTOS),
                                .type = (uint8_t)(i / KINDS % PEAL_TYPE_COUNT),
                                .op = (uint8_t)(i / KINDS / PEAL_TYPE_COUNT)};
        const char *name = peali_cuda_kernel(&call);
        if (!peali_gpu_kernel(g, name))
            status = load_kernel(g, rank, name);
    }
    look_at_kernels(g);
    return status;
}

static peal_status relax(const peali_cuda_driver *cu, int rank, peali_gpu_visit *visit)
{
    visit->mode = PEALI_CU_CAPTURE_RELAXED;
    peali_cu_result result = cu->ThreadExchangeStreamCaptureMode(&visit->mode);
    return result == 0 ? PEAL_OK : peali_cuda_failed(rank, "cuThreadExchangeStreamCaptureMode", result);
}

static void restore(const peali_cuda_driver *cu, peali_gpu_visit *visit)
{
    (void)cu->ThreadExchangeStreamCaptureMode(&visit->mode);
}

peal_status peali_gpu_enter(const peali_gpu *gpu, int rank, peali_gpu_visit *visit)
{
    peal_status status = relax(gpu->cu, rank, visit);
    if (status != PEAL_OK)
        return status;
    peali_cu_result result = gpu->cu->CtxPushCurrent(gpu->context);
    if (result == 0)
        return PEAL_OK;
    restore(gpu->cu, visit);
    return peali_cuda_failed(rank, "cuCtxPushCurrent", result);
}

void peali_gpu_leave(const peali_gpu *gpu, peali_gpu_visit *visit)
{
    peali_cu_ctx popped;
    (void)gpu->cu->CtxPopCurrent(&popped);
    restore(gpu->cu, visit);
}

peali_cu_result peali_gpu_capturing(peali_cu_strm stream, peali_cu_enum *state)
{
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    peali_cu_ctx current = NULL;
    *state = PEALI_CU_CAPTURE_NONE;
    if ((uintptr_t)stream <= PEALI_CU_STREAM_PER_THREAD && (cu->CtxGetCurrent(&current) != 0 || !current))
        return 0;
    return cu->StreamIsCapturing(stream, state);
}

/* The context to use into G, which is new. */
static peal_status find_context(peali_gpu *g, int rank)
{
    const char *call = "cuCtxGetCurrent";
    peali_cu_result result = g->cu->CtxGetCurrent(&g->context);
    if (result == 0 && g->context) {
        call = "cuCtxGetDevice";
        result = g->cu->CtxGetDevice(&g->device);
    } else if (result == 0) {
        call = "cuDevicePrimaryCtxRetain";
        result = g->cu->DeviceGet(&g->device, 0);
        if (result == 0)
            result = g->cu->DevicePrimaryCtxRetain(&g->context, g->device);
        g->retained = result == 0;
    }
    return result == 0 ? PEAL_OK : peali_cuda_failed(rank, call, result);
}

/* In a visit's mode. */
static void drop(peali_gpu *g)
{
    if (g->retained)
        (void)g->cu->DevicePrimaryCtxRelease(g->device);
    peali_free(g);
}

/* G, which is new, becomes one of the GPUs in use. The context is current while its kernels are loaded. */
static peal_status add(peali_gpu *g, int rank)
{
    peali_cu_ctx popped;
    peali_cu_result result = g->cu->CtxPushCurrent(g->context);
    if (result != 0)
        return peali_cuda_failed(rank, "cuCtxPushCurrent", result);
    peal_status status = load_kernels(g, rank);
    (void)g->cu->CtxPopCurrent(&popped);
    if (status == PEAL_OK) {
        g->next = gpus;
        gpus = g;
    }
    return status;
}

/* FRESH has nothing but the driver. *OUT is the GPU in use with the context of this thread, which may be FRESH from now on. */
static peal_status find(peali_gpu *fresh, int rank, peali_gpu **out)
{
    peal_status status = find_context(fresh, rank);
    if (status != PEAL_OK)
        return status;
    pthread_mutex_lock(&lock);
    peali_gpu *g = gpus;
    while (g && g->context != fresh->context)
        g = g->next;
    if (!g) {
        g = fresh;
        status = add(fresh, rank);
    }
    if (status == PEAL_OK) {
        g->uses++;
        *out = g;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

peal_status peali_gpu_open(int rank, peali_gpu **gpu)
{
    const char *why;
    peali_gpu_visit visit;
    const peali_cuda_driver *cu = peali_cuda_driver_get(&why);
    *gpu = NULL;
    if (!cu) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "GPUs cannot be used: %s", why);
        return PEAL_ERR_UNSUPPORTED;
    }
    peal_status status = relax(cu, rank, &visit);
    if (status != PEAL_OK)
        return status;
    peali_gpu *fresh = peali_alloc(1, sizeof *fresh);
    status = PEAL_ERR_MEMORY;
    if (fresh) {
        fresh->cu = cu;
        status = find(fresh, rank, gpu);
        if (*gpu != fresh)
            drop(fresh);
    }
    restore(cu, &visit);
    return status;
}

void peali_gpu_close(peali_gpu **gpu)
{
    peali_gpu *g = *gpu;
    peali_gpu_visit visit;
    *gpu = NULL;
    pthread_mutex_lock(&lock);
    bool last = --g->uses == 0;
    if (last) {
        peali_gpu **at = &gpus;
        while (*at != g)
            at = &(*at)->next;
        *at = g->next;
    }
    pthread_mutex_unlock(&lock);
    if (last && relax(g->cu, -1, &visit) == PEAL_OK) {
        const peali_cuda_driver *cu = g->cu;
        drop(g);
        restore(cu, &visit);
    }
}

size_t peali_gpu_take(peali_gpu *gpu, int rank)
{
    const size_t all = (size_t)peali_config_get()->scratch_bytes;
    pthread_mutex_lock(&lock);
    size_t left = all - gpu->taken, bytes = left / 2 / SCRATCH_UNIT * SCRATCH_UNIT;
    gpu->taken += bytes;
    int uses = gpu->uses;
    pthread_mutex_unlock(&lock);
    if (bytes == 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank,
                  "PEAL_SCRATCH=%zu: %zu bytes of it are left on device %d for this communicator, number %d there; give more, or "
                  "use fewer communicators", all, left, gpu->device, uses);
    return bytes;
}

void peali_gpu_give(peali_gpu *gpu, size_t bytes)
{
    pthread_mutex_lock(&lock);
    gpu->taken -= bytes;
    pthread_mutex_unlock(&lock);
}
