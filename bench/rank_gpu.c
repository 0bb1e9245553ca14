/* The link is measured by the copy engines, which are what moves most between two GPUs: no kernel of anybody is in that limit. */
#include "rank_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINK_BYTES = 64 << 20, LINK_COPIES = 4, LINK_ROUNDS = 3 };
enum { ULP_PIECES = 64, ULP_PIECE = 1 << 16 /* elements: together all of a vector of 4 Mi */ };

void peali_bench_must(const peali_bench_gpu *gpu, peali_cu_result result, const char *call)
{
    char why[160];
    if (result == 0)
        return;
    snprintf(why, sizeof why, "%s on GPU %d%s", peali_cuda_error(result), gpu->device,
             result == PEALI_CU_OUT_OF_MEMORY ? "; lower -e: a race takes 4 times that, and 6 times with --vs nccl" : "");
    peali_race_fail(gpu->team, call, why);
}

static void load(peali_bench_gpu *gpu)
{
    peali_cu_lib library;
    peali_cu_kern kernel;
    peali_bench_must(gpu, gpu->cu->LibraryLoadData(&library, peali_bench_differ, NULL, NULL, 0, NULL, NULL, 0),
                     "cuLibraryLoadData of the kernel that verifies");
    peali_bench_must(gpu, gpu->cu->LibraryGetKernel(&kernel, library, "peal_bench_differ"), "cuLibraryGetKernel");
    peali_bench_must(gpu, gpu->cu->KernelGetFunction(&gpu->differ, kernel), "cuKernelGetFunction");
}

void peali_bench_gpu_open(peali_bench_gpu *gpu, peali_team *team, int device)
{
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    *gpu = (peali_bench_gpu){.team = team, .cu = cu, .device = device};
    peali_bench_must(gpu, cu->DevicePrimaryCtxRetain(&gpu->context, device), "cuDevicePrimaryCtxRetain");
    peali_bench_must(gpu, cu->CtxPushCurrent(gpu->context), "cuCtxPushCurrent");
    peali_bench_must(gpu, cu->StreamCreate(&gpu->stream, PEALI_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    peali_bench_must(gpu, cu->EventCreate(&gpu->before, 0), "cuEventCreate");
    peali_bench_must(gpu, cu->EventCreate(&gpu->after, 0), "cuEventCreate");
    load(gpu);
}

void peali_bench_gpu_close(peali_bench_gpu *gpu)
{
    const peali_cuda_driver *cu = gpu->cu;
    peali_bench_must(gpu, cu->EventDestroy(gpu->before), "cuEventDestroy");
    peali_bench_must(gpu, cu->EventDestroy(gpu->after), "cuEventDestroy");
    peali_bench_must(gpu, cu->StreamDestroy(gpu->stream), "cuStreamDestroy");
}

peali_cu_ptr peali_bench_gpu_alloc(const peali_bench_gpu *gpu, size_t bytes)
{
    peali_cu_ptr at = 0;
    peali_bench_must(gpu, gpu->cu->MemAlloc(&at, bytes), "cuMemAlloc");
    return at;
}

void peali_bench_gpu_free(const peali_bench_gpu *gpu, peali_cu_ptr at)
{
    peali_bench_must(gpu, gpu->cu->MemFree(at), "cuMemFree");
}

void peali_bench_gpu_copy(const peali_bench_gpu *gpu, peali_cu_ptr to, peali_cu_ptr from, size_t bytes)
{
    peali_bench_must(gpu, gpu->cu->MemcpyAsync(to, from, bytes, gpu->stream), "cuMemcpyAsync");
}

void peali_bench_gpu_wait(const peali_bench_gpu *gpu)
{
    peali_bench_must(gpu, gpu->cu->StreamSynchronize(gpu->stream), "cuStreamSynchronize");
}

void peali_bench_gpu_tile(const peali_bench_gpu *gpu, peali_cu_ptr at, size_t bytes, const void *table, size_t table_bytes)
{
    size_t done = table_bytes < bytes ? table_bytes : bytes;
    peali_bench_gpu_copy(gpu, at, (uintptr_t)table, done);
    while (done < bytes) {
        size_t some = done < bytes - done ? done : bytes - done;
        peali_bench_gpu_copy(gpu, at + done, at, some);
        done += some;
    }
    peali_bench_gpu_wait(gpu);
}

void peali_bench_gpu_differ(const peali_bench_gpu *gpu, const peali_bench_places *p, peali_cu_ptr count)
{
    uint64_t have = p->have, want = p->want, bytes = p->bytes, stride = p->stride, slots = p->slots;
    void *parameters[] = {&have, &want, &bytes, &stride, &stride, &count, &slots};
    size_t ctas = bytes / 4096 + 1;
    unsigned x = ctas < 1024 ? (unsigned)ctas : 1024, y = slots < 64 ? (unsigned)slots : 64;
    peali_bench_must(gpu, gpu->cu->LaunchKernel(gpu->differ, x, y, 1, 512, 1, 1, 0, gpu->stream, parameters, NULL),
                     "cuLaunchKernel of the kernel that verifies");
}

/* Of long vectors so many pieces: each block of a ring is summed in an order of its own. */
double peali_bench_gpu_ulp(const peali_bench_gpu *gpu, const peali_ulp *ulp, peali_cu_ptr have, size_t first, size_t count)
{
    size_t elem = peal_type_bytes(ulp->type);
    char *room = malloc(ULP_PIECE * elem);
    double worst = 0;
    if (!room)
        peali_race_fail(gpu->team, "--ulp", "no memory");
    for (size_t p = 0; p < ULP_PIECES; p++) {
        size_t at = p * count / ULP_PIECES, n = (p + 1) * count / ULP_PIECES - at;
        n = n < ULP_PIECE ? n : ULP_PIECE;
        peali_bench_gpu_copy(gpu, (uintptr_t)room, have + at * elem, n * elem);
        peali_bench_gpu_wait(gpu);
        worst = fmax(worst, peali_ulp_error(ulp, first + at, room, n));
    }
    free(room);
    return worst;
}

static long ctas_of(const peali_bench_gpu *gpu, peali_cu_node node)
{
    peali_cu_enum type;
    peali_cu_kernel_node kernel;
    peali_bench_must(gpu, gpu->cu->GraphNodeGetType(node, &type), "cuGraphNodeGetType");
    if (type != PEALI_CU_NODE_KERNEL)
        return 0;
    peali_bench_must(gpu, gpu->cu->GraphKernelNodeGetParams(node, &kernel), "cuGraphKernelNodeGetParams");
    return (long)kernel.grid[0] * kernel.grid[1] * kernel.grid[2];
}

long peali_bench_gpu_ctas(const peali_bench_gpu *gpu, peali_cu_graph graph)
{
    long ctas = 0;
    size_t n = 0;
    peali_bench_must(gpu, gpu->cu->GraphGetNodes(graph, NULL, &n), "cuGraphGetNodes");
    peali_cu_node *nodes = calloc(n + 1, sizeof(*nodes));
    if (!nodes)
        peali_race_fail(gpu->team, "nodes of a graph", "no memory");
    peali_bench_must(gpu, gpu->cu->GraphGetNodes(graph, nodes, &n), "cuGraphGetNodes");
    for (size_t i = 0; i < n; i++)
        if (ctas_of(gpu, nodes[i]) > ctas)
            ctas = ctas_of(gpu, nodes[i]);
    free(nodes);
    return ctas;
}

/* What the rank before needs to copy to this one's GPU. */
typedef struct card {
    int64_t process;
    uint64_t context, address;
    peali_cu_ipc handle;
} card;

/* 0 where the GPU cannot be reached. *OPENED: it was another process's memory. */
static peali_cu_ptr reach(const peali_bench_gpu *gpu, const card *next, bool *opened)
{
    peali_cu_ptr at = 0;
    *opened = next->process != getpid();
    if (*opened)
        return gpu->cu->IpcOpenMemHandle(&at, next->handle, PEALI_CU_IPC_LAZY_PEER) == 0 ? at : 0;
    peali_cu_result result = gpu->cu->CtxEnablePeerAccess((peali_cu_ctx)(uintptr_t)next->context, 0);
    return result == 0 || result == PEALI_CU_PEER_ALREADY ? next->address : 0;
}

/* Milliseconds of this rank's copies, while all copy. */
static float copy_once(const peali_bench_gpu *gpu, peali_cu_ptr to, peali_cu_ptr from)
{
    float ms = 0;
    gpu->team->barrier(gpu->team);
    peali_bench_must(gpu, gpu->cu->EventRecord(gpu->before, gpu->stream), "cuEventRecord");
    for (int i = 0; i < LINK_COPIES && to; i++)
        peali_bench_gpu_copy(gpu, to, from, LINK_BYTES);
    peali_bench_must(gpu, gpu->cu->EventRecord(gpu->after, gpu->stream), "cuEventRecord");
    peali_bench_gpu_wait(gpu);
    peali_bench_must(gpu, gpu->cu->EventElapsedTime(&ms, gpu->before, gpu->after), "cuEventElapsedTime");
    return ms;
}

static void exchange(const peali_bench_gpu *gpu, peali_cu_ptr land, card *all)
{
    card mine = {.process = getpid(), .context = (uintptr_t)gpu->context, .address = land};
    (void)gpu->cu->IpcGetMemHandle(&mine.handle, land); /* who cannot open it has no link */
    if (peal_allgather(&mine, all, sizeof mine, PEAL_BYTE, gpu->team->comm, NULL) != PEAL_OK)
        peali_race_fail(gpu->team, "measuring the links", "the ranks cannot meet");
}

double peali_bench_gpu_link(const peali_bench_gpu *gpu)
{
    peali_team *team = gpu->team;
    if (team->nranks == 1)
        return 0;
    card *all = calloc((size_t)team->nranks, sizeof *all);
    peali_cu_ptr land = peali_bench_gpu_alloc(gpu, LINK_BYTES), from = peali_bench_gpu_alloc(gpu, LINK_BYTES);
    bool opened;
    if (!all)
        peali_race_fail(team, "measuring the links", "no memory");
    exchange(gpu, land, all);
    peali_cu_ptr to = reach(gpu, &all[(team->rank + 1) % team->nranks], &opened);
    double worst[2] = {0, to ? 0 : 1}, best = 0; /* milliseconds; somebody is out of reach */
    for (int i = 0; i < LINK_ROUNDS; i++) {
        worst[0] = copy_once(gpu, to, from);
        team->max(team, worst, 2);
        double rate = (double)LINK_BYTES * LINK_COPIES / worst[0] / 1e6;
        best = rate > best ? rate : best;
    }
    if (opened && to)
        peali_bench_must(gpu, gpu->cu->IpcCloseMemHandle(to), "cuIpcCloseMemHandle");
    team->barrier(team);
    peali_bench_gpu_free(gpu, land);
    peali_bench_gpu_free(gpu, from);
    free(all);
    return worst[1] > 0 ? 0 : best;
}
