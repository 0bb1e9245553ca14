/* Devices and contexts. */
#include "fake_cuda_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 16 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static int owner; /* process that called cuInit: the driver does not work in its children */
static struct CUctx_st contexts[DEVICES];
static __thread struct CUctx_st *stack[DEPTH];
static __thread int depth;
static struct {
    char symbol[64];
    int n;
    peali_cu_result result;
} failing;

int fake_number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int devices(void)
{
    return fake_number("FAKE_CUDA_DEVICES", 2);
}

bool fake_p2p(const char *word)
{
    const char *text = getenv("FAKE_CUDA_P2P");
    return text && strcmp(text, word) == 0;
}

bool fake_barred(void)
{
    return fake_p2p("none") || fake_p2p("lost") || fake_p2p("hang");
}

void fake_cuda_fail(const char *symbol, int n, peali_cu_result result)
{
    pthread_mutex_lock(&fake_lock);
    snprintf(failing.symbol, sizeof failing.symbol, "%s", symbol);
    failing.n = n;
    failing.result = result;
    pthread_mutex_unlock(&fake_lock);
}

__attribute__((constructor)) static void read_failure(void)
{
    const char *text = getenv("FAKE_CUDA_FAIL");
    char symbol[64];
    int n = 0;
    unsigned result = 999;
    if (text && sscanf(text, "%63[^:]:%d:%u", symbol, &n, &result) >= 2)
        fake_cuda_fail(symbol, n, result);
}

peali_cu_result fake_enter(const char *symbol)
{
    pthread_mutex_lock(&fake_lock);
    bool fails = failing.n > 0 && strcmp(symbol, failing.symbol) == 0 && --failing.n == 0;
    peali_cu_result result = fails ? failing.result : !initialised || owner != getpid() ? NOT_INITIALIZED : 0;
    pthread_mutex_unlock(&fake_lock);
    return !fails && strcmp(symbol, "cuInit") == 0 ? 0 : result;
}

peali_cu_result cuInit(unsigned flags)
{
    ENTER(cuInit);
    if (devices() == 0)
        return NO_DEVICE;
    pthread_mutex_lock(&fake_lock);
    initialised = true;
    owner = getpid();
    for (int i = 0; i < DEVICES; i++)
        contexts[i].device = i;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* Needs no cuInit. */
peali_cu_result cuDriverGetVersion(int *version)
{
    *version = fake_number("FAKE_CUDA_VERSION", 13000);
    return 0;
}

peali_cu_result cuGetErrorName(peali_cu_result result, const char **name)
{
    static const struct {
        peali_cu_result result;
        const char *name;
    } names[] = {
        {0, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {PEALI_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {MAP_REFUSED, "CUDA_ERROR_MAP_FAILED"},
        {PEALI_CU_NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {PEER_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].result == result) {
            *name = names[i].name;
            return 0;
        }
    *name = NULL;
    return INVALID_VALUE;
}

/* Devices. */

static bool exists(peali_cu_device device)
{
    return device >= 0 && device < devices();
}

peali_cu_result cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount);
    *count = devices();
    return 0;
}

peali_cu_result cuDeviceGet(peali_cu_device *device, int ordinal)
{
    ENTER(cuDeviceGet);
    if (!exists(ordinal))
        return INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

peali_cu_result cuDeviceGetName(char *name, int bytes, peali_cu_device device)
{
    ENTER(cuDeviceGetName);
    if (!exists(device))
        return INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "Fake %d", device);
    return 0;
}

/* Of the architecture alone. */
peali_cu_result cuDeviceGetAttribute(int *value, peali_cu_enum attribute, peali_cu_device device)
{
    ENTER(cuDeviceGetAttribute);
    int arch = fake_number("FAKE_CUDA_ARCH", 90);
    if (!exists(device))
        return INVALID_DEVICE;
    switch (attribute) {
    case PEALI_CU_DEVICE_SMS: *value = fake_number("FAKE_CUDA_SMS", 132); return 0;
    case PEALI_CU_DEVICE_MAJOR: *value = arch / 10; return 0;
    case PEALI_CU_DEVICE_MINOR: *value = arch % 10; return 0;
    case PEALI_CU_DEVICE_RDMA_ORDERING: *value = 0; return 0;
    case PEALI_CU_DEVICE_RDMA_FLUSHES: *value = fake_number("FAKE_CUDA_FLUSHES", PEALI_CU_RDMA_FLUSH_HOST); return 0;
    default: return INVALID_VALUE;
    }
}

peali_cu_result cuFlushGPUDirectRDMAWrites(peali_cu_enum target, peali_cu_enum scope)
{
    ENTER(cuFlushGPUDirectRDMAWrites);
    if (!fake_current())
        return INVALID_CONTEXT;
    return target == PEALI_CU_RDMA_CONTEXT && scope == PEALI_CU_RDMA_OWNER ? 0 : INVALID_VALUE;
}

peali_cu_result cuDeviceGetUuid_v2(peali_cu_uuid *uuid, peali_cu_device device)
{
    ENTER(cuDeviceGetUuid_v2);
    if (!exists(device))
        return INVALID_DEVICE;
    memset(uuid, 'a' + device, sizeof *uuid);
    return 0;
}

peali_cu_result cuDeviceGetPCIBusId(char *id, int bytes, peali_cu_device device)
{
    ENTER(cuDeviceGetPCIBusId);
    if (!exists(device))
        return INVALID_DEVICE;
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", 0x0a + 0x10 * device); /* as fake_nvml.c has it */
    return 0;
}

/* Of atomics alone, which go between devices except over PCI. */
peali_cu_result cuDeviceGetP2PAttribute(int *value, peali_cu_enum attribute, peali_cu_device device, peali_cu_device peer)
{
    ENTER(cuDeviceGetP2PAttribute);
    if (!exists(device) || !exists(peer) || device == peer)
        return INVALID_DEVICE;
    if (attribute != PEALI_CU_P2P_ATOMICS)
        return INVALID_VALUE;
    *value = !fake_p2p("none") && !fake_p2p("pci");
    return 0;
}

/* Contexts. */

struct CUctx_st *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

peali_cu_result cuCtxGetCurrent(peali_cu_ctx *context)
{
    ENTER(cuCtxGetCurrent);
    *context = fake_current();
    return 0;
}

/* Other threads retain and release it. */
static bool lives(const struct CUctx_st *context)
{
    return context && __atomic_load_n(&context->retained, __ATOMIC_RELAXED) > 0;
}

peali_cu_result cuCtxPushCurrent_v2(peali_cu_ctx context)
{
    ENTER(cuCtxPushCurrent_v2);
    if (!lives(context) || depth == DEPTH)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}

peali_cu_result cuCtxPopCurrent_v2(peali_cu_ctx *context)
{
    ENTER(cuCtxPopCurrent_v2);
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return 0;
}

peali_cu_result cuCtxSetCurrent(peali_cu_ctx context)
{
    ENTER(cuCtxSetCurrent);
    depth -= depth > 0;
    if (context)
        stack[depth++] = context;
    return 0;
}

peali_cu_result cuCtxGetDevice(peali_cu_device *device)
{
    ENTER(cuCtxGetDevice);
    if (!fake_current())
        return INVALID_CONTEXT;
    *device = fake_current()->device;
    return 0;
}

peali_cu_result cuDevicePrimaryCtxRetain(peali_cu_ctx *context, peali_cu_device device)
{
    ENTER_UNSAFE(cuDevicePrimaryCtxRetain);
    if (!exists(device))
        return INVALID_DEVICE;
    *context = &contexts[device];
    (void)__atomic_fetch_add(&(*context)->retained, 1, __ATOMIC_RELAXED);
    return 0;
}

/* The last release ends the context; what was in it stays, here. */
peali_cu_result cuDevicePrimaryCtxRelease_v2(peali_cu_device device)
{
    ENTER_UNSAFE(cuDevicePrimaryCtxRelease_v2);
    if (!exists(device) || !lives(&contexts[device]))
        return INVALID_CONTEXT;
    (void)__atomic_fetch_add(&contexts[device].retained, -1, __ATOMIC_RELAXED);
    return 0;
}

peali_cu_result cuCtxEnablePeerAccess(peali_cu_ctx peer, unsigned flags)
{
    ENTER_UNSAFE(cuCtxEnablePeerAccess);
    struct CUctx_st *mine = fake_current();
    if (!mine || !lives(peer) || mine == peer)
        return INVALID_CONTEXT;
    if (fake_p2p("none"))
        return PEER_UNSUPPORTED;
    pthread_mutex_lock(&fake_lock);
    bool already = mine->reaches[peer->device];
    mine->reaches[peer->device] = true;
    pthread_mutex_unlock(&fake_lock);
    return already ? PEER_ALREADY : 0;
}
