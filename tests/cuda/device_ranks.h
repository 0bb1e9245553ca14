/*
 * Ranks that have a device each (or share them): threads of this process, or with TEST_MPI the processes of mpirun. Device
 * memory is touched through the driver alone, so that this runs on GPUs as it does on the fake driver.
 */
#ifndef DEVICE_RANKS_H
#define DEVICE_RANKS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "fake_cuda.h"
#ifdef TEST_MPI
#include "../world.h"
#else
#include "../team.h"
#include "comm/device.h"
#include "net/net_fault.h"
#endif

/* One rank. */
typedef struct seat {
    peal_comm *comm;
    int rank, n;
    void *ctx;
    const peali_cuda_driver *cu;
    int device;
    peali_cu_strm stream;
    int wrong; /* so far */
} seat;

typedef void seat_body(seat *s);

/* Counts a mistake, and prints the first few. */
__attribute__((format(printf, 2, 3))) static inline void seat_wrong(seat *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (s->wrong++ < 3) {
        fprintf(stderr, "rank %d of %d: ", s->rank, s->n);
        vfprintf(stderr, format, args);
        fprintf(stderr, "\n");
    }
    va_end(args);
}

#define SEAT_CHECK(s, so)                                                                                                         \
    do {                                                                                                                          \
        if (!(so))                                                                                                                \
            seat_wrong(s, "%s:%d: not so: %s", __FILE__, __LINE__, #so);                                                          \
    } while (0)

static inline void seat_must(peali_cu_result result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s: %s\n", what, peali_cuda_error(result));
        abort();
    }
}

/* How many there are here. */
static inline int devices_here(void)
{
    int devices = 0;
    seat_must(peali_cuda_driver_get(NULL)->DeviceGetCount(&devices), "cuDeviceGetCount");
    return devices;
}

/* Zeroed device memory. */
static inline void *seat_alloc(const seat *s, size_t bytes)
{
    peali_cu_ptr at = 0;
    seat_must(s->cu->MemAlloc(&at, bytes + 64), "cuMemAlloc");
    seat_must(s->cu->MemsetD8Async(at, 0, bytes + 64, s->stream), "cuMemsetD8Async");
    seat_must(s->cu->StreamSynchronize(s->stream), "cuStreamSynchronize");
    return (void *)(uintptr_t)at;
}

static inline void seat_free(const seat *s, void *at)
{
    seat_must(s->cu->MemFree((uintptr_t)at), "cuMemFree");
}

/* What this rank's device has left. */
static inline size_t seat_left(void)
{
    size_t bytes, all;
    seat_must(cuMemGetInfo_v2(&bytes, &all), "cuMemGetInfo");
    return bytes;
}

/*
 * When the calls are over. In a copy to pageable memory a thread keeps others out of CUDA until what lies before it has ended,
 * which may wait for a call that another thread is to make after such a copy of its own; or for a message that UCX copies by a call
 * of CUDA's.
 */
static inline void seat_copy(const seat *s, void *to, const void *from, size_t bytes)
{
    seat_must(s->cu->StreamSynchronize(s->stream), "cuStreamSynchronize");
    if (bytes > 0)
        seat_must(s->cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, s->stream), "cuMemcpyAsync");
    seat_must(s->cu->StreamSynchronize(s->stream), "cuStreamSynchronize");
}

static inline void seat_sync(const seat *s)
{
    seat_must(s->cu->StreamSynchronize(s->stream), "cuStreamSynchronize");
}

/*
 * What CAPTURE asks for becomes a graph, which has NODES nodes, all of them kernels, or is wrong; MANY: any number of kernels and
 * copies. Ranks that are threads wait for each other: a capture of mode global forbids much to other threads too.
 */
enum { SEAT_MANY = 1024 };
static inline fake_exec seat_capture(seat *s, peali_cu_enum mode, void (*capture)(seat *s, void *what), void *what, size_t nodes)
{
    fake_graph graph;
    fake_exec exec = NULL;
    fake_node found[SEAT_MANY];
    size_t n = sizeof found / sizeof found[0];
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_must(cuStreamBeginCapture_v2(s->stream, mode), "cuStreamBeginCapture");
    capture(s, what);
    seat_must(cuStreamEndCapture(s->stream, &graph), "cuStreamEndCapture");
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_must(cuGraphGetNodes(graph, found, &n), "cuGraphGetNodes");
    if (nodes == SEAT_MANY ? n >= nodes : n != nodes)
        seat_wrong(s, "%zu nodes instead of %zu", n, nodes);
    for (size_t k = 0; k < n; k++) {
        peali_cu_enum type;
        seat_must(cuGraphNodeGetType(found[k], &type), "cuGraphNodeGetType");
        SEAT_CHECK(s, type == FAKE_NODE_KERNEL || (nodes == SEAT_MANY && type == FAKE_NODE_MEMCPY));
    }
    seat_must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    seat_must(cuGraphDestroy(graph), "cuGraphDestroy");
    return exec;
}

typedef struct seats {
    seat_body *body;
    void *ctx;
    int devices; /* 0: one for each rank, as far as there are any */
    int wrong;
} seats;

static inline void seat_take(peal_comm *comm, int rank, void *ctx)
{
    seats *all = ctx;
    seat s = {comm, rank, peal_comm_size(comm), all->ctx, peali_cuda_driver_get(NULL), 0, NULL, 0};
    peali_cu_ctx context, popped;
    int devices = devices_here();
    if (all->devices > 0 && all->devices < devices)
        devices = all->devices;
    s.device = rank % devices;
    seat_must(s.cu->DevicePrimaryCtxRetain(&context, s.device), "cuDevicePrimaryCtxRetain");
    seat_must(s.cu->CtxPushCurrent(context), "cuCtxPushCurrent");
    seat_must(s.cu->StreamCreate(&s.stream, PEALI_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    all->body(&s);
    seat_must(s.cu->StreamDestroy(s.stream), "cuStreamDestroy");
    seat_must(s.cu->CtxPopCurrent(&popped), "cuCtxPopCurrent");
    __atomic_add_fetch(&all->wrong, s.wrong, __ATOMIC_SEQ_CST);
}

#ifndef TEST_MPI
/* Of communicators to come: when ranks that wait ask each other; 0: as always. */
static int seats_parley_ms;
#endif

/* BODY on N ranks, on DEVICES devices (0: as many as ranks, if there are); how much went wrong on any of them. */
static inline int seats_run_on(int n, int devices, seat_body *body, void *ctx)
{
    seats all = {body, ctx, devices, 0};
#ifdef TEST_MPI
    peal_comm *comm = NULL;
    int wrong;
    if (world_comm(NULL, n, world_rank, &comm) != PEAL_OK)
        exit(2);
    if (comm)
        seat_take(comm, world_rank, &all);
    peal_comm_destroy(&comm);
    MPI_Allreduce(&all.wrong, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
#else
    peali_layout layouts[PEALI_DEVICE_RANKS] = {{0}};
    for (int r = 0; r < n; r++)
        layouts[r].parley_ms = seats_parley_ms;
    if (team_run_in((unsigned)n, layouts, seat_take, &all) != PEAL_OK)
        exit(2);
    return all.wrong;
#endif
}

#ifndef TEST_MPI
enum { SEAT_DIVISIONS = 4 };
static const char *const seat_divisions[SEAT_DIVISIONS] = {"1+1", "2+2", "3+1", "1+2+1"};

/* Likewise in nodes of sizes as NODES has them, "2+1", by transports that do FAULTS (NULL: nothing) wrong. */
static inline int seats_run_in(const char *nodes, const peali_fault *faults, seat_body *body, void *ctx)
{
    peali_layout layouts[PEALI_DEVICE_RANKS] = {{0}};
    seats all = {body, ctx, 0, 0};
    int n = 0;
    for (char *at = (char *)nodes; *at; at += *at == '+')
        n += (int)strtol(at, &at, 10);
    for (int r = 0; r < n; r++) {
        layouts[r].nodes = nodes;
        layouts[r].parley_ms = seats_parley_ms;
        layouts[r].fault = faults ? &faults[r] : NULL;
    }
    if (team_run_in((unsigned)n, layouts, seat_take, &all) != PEAL_OK)
        exit(2);
    return all.wrong;
}
#endif

static inline int seats_run(int n, seat_body *body, void *ctx)
{
    return seats_run_on(n, 0, body, ctx);
}

#endif
