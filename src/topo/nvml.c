/* The library stays open and initialised: another user of it in this process may have done the same, and NVML counts them. */
#include "topo/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/symbols.h"

/* Filled once, constant afterwards. */
static peali_nvml nvml;
static char failure[400];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const peali_symbol symbols[] = {
#define SYMBOL(name, symbol, parameters) {#symbol, &nvml.name},
    PEALI_NVML_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static void load(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof(failure), "no NVIDIA driver: %.300s", dlerror());
        return;
    }
    const char *lacks = peali_symbols_find(handle, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (lacks) {
        snprintf(failure, sizeof(failure), "libnvidia-ml.so.1 has no %s: the driver is too old", lacks);
        return;
    }
    peali_nvml_result result = nvml.Init();
    if (result != 0)
        snprintf(failure, sizeof(failure), "NVML does not start (error %d); look at nvidia-smi", result);
}

const peali_nvml *peali_nvml_get(const char **why)
{
    pthread_once(&once, load);
    *why = failure;
    return failure[0] ? NULL : &nvml;
}
