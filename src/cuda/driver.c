/* The library is never closed: the driver has threads and exit handlers that outlive a dlclose. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/symbols.h"
#include "cuda/image.h"

enum { OLDEST = 12000 }; /* what has all functions of the table: cuLibraryLoadData came with CUDA 12.0 */

/* Filled once, constant afterwards. */
static peali_cuda_driver driver;
static char failure[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const peali_symbol symbols[] = {
#define SYMBOL(name, symbol, parameters) {#symbol, &driver.name},
    PEALI_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* MAJOR.MINOR of a version as CUDA writes it, for printf. */
#define DOTTED(version) (version) / 1000, (version) / 10 % 100

static void find_version(void *handle)
{
    peali_cu_result (*get)(int *) = NULL;
    void *found = dlsym(handle, "cuDriverGetVersion");
    memcpy(&get, &found, sizeof(found));
    if (get)
        (void)get(&driver.version);
}

/* False where the driver lacks one. */
static bool find_functions(void *handle)
{
    const char *lacks = peali_symbols_find(handle, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (lacks)
        snprintf(failure, sizeof(failure), "libcuda.so.1 is of CUDA %d.%d and has no %s; install a driver of CUDA %d.%d or newer",
                 DOTTED(driver.version), lacks, DOTTED(OLDEST));
    return !lacks;
}

/* False where the driver is older than the kernels by more than CUDA's compatibility between minor versions covers. */
static bool new_enough(void)
{
    const int kernels = peali_cuda_toolkit;
    if (driver.version / 1000 < kernels / 1000) {
        snprintf(failure, sizeof(failure),
                 "the driver is of CUDA %d.%d, and the kernels of this Peal were built by CUDA %d.%d; install a driver of CUDA %d, "
                 "or build Peal with the nvcc of CUDA %d",
                 DOTTED(driver.version), DOTTED(kernels), kernels / 1000, driver.version / 1000);
        return false;
    }
    if (driver.version < kernels)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1,
                  "the driver is of CUDA %d.%d, and CUDA %d.%d built the kernels: no GPU that is newer than the driver can be used",
                  DOTTED(driver.version), DOTTED(kernels));
    return true;
}

static void start(void)
{
    int devices = 0;
    peali_cu_result result = driver.Init(0);
    if (result == 0)
        result = driver.DeviceGetCount(&devices);
    if (result == PEALI_CU_NO_DEVICE || (result == 0 && devices == 0))
        snprintf(failure, sizeof(failure), "the driver finds no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES");
    else if (result != 0)
        snprintf(failure, sizeof(failure), "the driver does not start: %s; look at nvidia-smi", peali_cuda_error(result));
    else
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, -1, "cuda %d.%d, devices %d", DOTTED(driver.version), devices);
}

static void load(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof(failure), "no NVIDIA driver: %.300s; install one, or keep to host memory", dlerror());
        return;
    }
    find_version(handle);
    if (find_functions(handle) && new_enough())
        start();
}

const peali_cuda_driver *peali_cuda_driver_get(const char **why)
{
    pthread_once(&once, load);
    if (why)
        *why = failure;
    return failure[0] ? NULL : &driver;
}

const char *peali_cuda_error(peali_cu_result result)
{
    const char *name = NULL;
    return driver.GetErrorName && driver.GetErrorName(result, &name) == 0 && name ? name : "an error without a name";
}

peal_status peali_cuda_failed(int rank, const char *call, peali_cu_result result)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "%s: %s (%u)", call, peali_cuda_error(result), result);
    return result == PEALI_CU_OUT_OF_MEMORY ? PEAL_ERR_MEMORY : PEAL_ERR_CUDA;
}
