/*
 * Copies between two GPUs' memories arrive by whatever way the driver finds, if need be through the host; so it is asked first for
 * access, and what comes out is compared.
 */
#include "links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/config.h"
#include "cuda/driver.h"

enum { BYTES = 64 << 20 };

/* An NVLink that gives less than this is not one: the first generation gave 20, and 10 on one side of a shared one. */
#define LEAST_GB_A_LINK 8.0

#define PATIENCE_NS INT64_C(3000000000)

typedef struct gpu {
    peali_cu_ctx context;
    peali_cu_strm stream;
    peali_cu_ptr at;
} gpu;

/* The first text is NULL where all went well. */
typedef struct path {
    const char *wrong, *why;
    double rate; /* GB/s */
} path;

static bool enter(const peali_cuda_driver *cu, const gpu *g)
{
    return g->context && cu->CtxPushCurrent(g->context) == 0;
}

static void leave(const peali_cuda_driver *cu)
{
    peali_cu_ctx popped;
    (void)cu->CtxPopCurrent(&popped);
}

/* The device of that bus address; -1: CUDA does not see it. NVML's domains have eight digits, CUDA's four. */
static peali_cu_device device_at(const peali_cuda_driver *cu, const char *bus)
{
    char its[32];
    int n = 0;
    (void)cu->DeviceGetCount(&n);
    for (peali_cu_device d = 0; d < n; d++)
        if (cu->DeviceGetPCIBusId(its, sizeof its, d) == 0 && strcasecmp(strlen(bus) > 12 ? bus + 4 : bus, its) == 0)
            return d;
    return -1;
}

static void open_gpu(const peali_cuda_driver *cu, const char *bus, gpu *g)
{
    const peali_cu_device device = device_at(cu, bus);
    *g = (gpu){0};
    if (device < 0 || cu->DevicePrimaryCtxRetain(&g->context, device) != 0 || !enter(cu, g))
        return;
    if (cu->StreamCreate(&g->stream, PEALI_CU_STREAM_NON_BLOCKING) != 0 || cu->MemAlloc(&g->at, BYTES) != 0)
        g->at = 0;
    leave(cu);
}

/* Waits for STREAM of the current context; false where it takes too long. */
static bool settle(const peali_cuda_driver *cu, peali_cu_strm stream)
{
    const int64_t end_ns = peali_clock_ns() + PATIENCE_NS;
    while (cu->StreamQuery(stream) == PEALI_CU_NOT_READY)
        if (peali_clock_ns() > end_ns)
            return false;
    return cu->StreamQuery(stream) == 0;
}

/* Its first and its last word become, or are. */
static bool words(const peali_cuda_driver *cu, const gpu *g, uint64_t word[2], bool store)
{
    const peali_cu_ptr places[2] = {g->at, g->at + BYTES - sizeof *word};
    bool fine = true;
    if (!enter(cu, g))
        return false;
    for (int k = 0; k < 2 && fine; k++) {
        const peali_cu_ptr here = (uintptr_t)&word[k];
        fine = cu->MemcpyAsync(store ? places[k] : here, store ? here : places[k], sizeof *word, g->stream) == 0;
    }
    fine = fine && settle(cu, g->stream);
    leave(cu);
    return fine;
}

/* In FROM's context: the second copy is timed. */
static bool copy(const peali_cuda_driver *cu, const gpu *from, const gpu *to, double *rate)
{
    bool fine = true;
    for (int k = 0; k < 2 && fine; k++) {
        const int64_t start_ns = peali_clock_ns();
        fine = cu->MemcpyAsync(to->at, from->at, BYTES, from->stream) == 0 && settle(cu, from->stream);
        *rate = (double)BYTES / (double)(peali_clock_ns() - start_ns);
    }
    return fine;
}

static path measure(const peali_cuda_driver *cu, const gpu *from, const gpu *to)
{
    uint64_t want[2] = {UINT64_C(0x0123456789abcdef) + from->at, UINT64_C(0xfedcba9876543210) - to->at}, got[2] = {0, 0};
    path p = {0};
    if (!words(cu, from, want, true) || !words(cu, to, got, true) || !enter(cu, from))
        return (path){.wrong = "is not known", .why = "the GPU does not answer"};
    peali_cu_result result = cu->CtxEnablePeerAccess(to->context, 0);
    bool allowed = result == 0 || result == PEALI_CU_PEER_ALREADY, done = allowed && copy(cu, from, to, &p.rate);
    leave(cu);
    if (!allowed)
        return (path){.wrong = "is refused", .why = peali_cuda_error(result)};
    if (!done)
        return (path){.wrong = "does not end", .why = "look at the kernel's log"};
    if (!words(cu, to, got, false) || memcmp(got, want, sizeof got) != 0)
        return (path){.wrong = "does not arrive", .why = "IOMMU and PCI access control must let GPUs through"};
    return p;
}

static void warn(const peali_gpus *gpus, int a, int b, const path *p)
{
    const int links = gpus->between[a][b].nvlinks;
    if (gpus->between[a][b].no_peers || (!p->wrong && p->rate >= links * LEAST_GB_A_LINK))
        return;
    printf("warning: GPU %d to %d: NVML says ", a, b);
    if (p->wrong)
        printf("that they access each other's memory, but a copy %s: %s\n", p->wrong, p->why);
    else
        printf("%d NVLinks, but a copy runs at %.1f GB/s; look at nvidia-smi nvlink --status\n", links, p->rate);
}

static void print_all(const peali_cuda_driver *cu, const peali_gpus *gpus, const gpu *g)
{
    path paths[PEALI_GPUS][PEALI_GPUS];
    printf("\ncopies, GB/s:\n\n    ");
    for (int b = 0; b < gpus->n; b++)
        printf(" %10d", b);
    for (int a = 0; a < gpus->n; a++) {
        printf("\n  %2d", a);
        for (int b = 0; b < gpus->n; b++) {
            const bool both = a != b && g[a].at && g[b].at;
            paths[a][b] = both ? measure(cu, &g[a], &g[b]) : (path){.wrong = ""};
            if (paths[a][b].wrong)
                printf(" %10s", a == b ? "-" : both ? "none" : "unseen");
            else
                printf(" %10.1f", paths[a][b].rate);
        }
    }
    printf("\n\n");
    for (int a = 0; a < gpus->n; a++)
        for (int b = 0; b < gpus->n; b++)
            if (a != b && g[a].at && g[b].at)
                warn(gpus, a, b, &paths[a][b]);
}

void peali_links_print(const peali_gpus *gpus)
{
    const char *why = "PEAL_P2P=0 forbids it";
    const peali_cuda_driver *cu = peali_config_get()->p2p ? peali_cuda_driver_get(&why) : NULL;
    gpu g[PEALI_GPUS];
    if (!cu) {
        printf("\ncopies between them are not measured: %s\n", why);
        return;
    }
    for (int i = 0; i < gpus->n; i++)
        open_gpu(cu, gpus->gpus[i].bus, &g[i]);
    print_all(cu, gpus, g);
}
