/*
 * An NCCL without GPUs, for tests: a libnccl.so.2 whose kernels run in the streams of the fake driver and fold on a CPU, in double.
 * Ranks are threads or processes of this host. With FAKE_NCCL_OLD it has no windows.
 *
 *     FAKE_NCCL_WRONG=3    the third collective that rank 0 runs gets its last byte wrong
 *
 * Buffers of a communicator that any were registered with must be within these.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../bench/nccl.h"
#include "fake_cuda.h"

#define API __attribute__((visibility("default")))
#define DECLARE(name, symbol, parameters) API peali_nccl_result symbol parameters;
PEALI_NCCL_FUNCTIONS(DECLARE)
#ifndef FAKE_NCCL_OLD
PEALI_NCCL_WINDOWS(DECLARE)
#endif
API const char *ncclGetErrorString(peali_nccl_result result);
API const char *ncclGetLastError(peali_nccl_comm comm);

enum { RANKS = 16, SYSTEM = 2, INVALID = 4, AREAS = 2, CTAS = 4 };

/* In memory that all ranks map. Its zeroes are how it begins. */
struct meeting {
    atomic_int arrived, round; /* the last to arrive raises it (release); the others see it raised (acquire) */
    struct {
        int pid;
        uint64_t in;
    } rank[RANKS];
};

struct ncclComm {
    struct meeting *meeting;
    int rank, n, calls;
    struct {
        const char *at;
        size_t bytes;
    } areas[AREAS];
    int nareas;
};

/* One call, in a stream. */
struct job {
    struct ncclComm *comm;
    peal_kind kind;
    const void *in;
    void *out;
    size_t count;
    peali_nccl_enum type, op;
    int root;
};

static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static void meet(struct ncclComm *c)
{
    struct meeting *m = c->meeting;
    int round = atomic_load_explicit(&m->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel) == c->n - 1) {
        atomic_store_explicit(&m->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&m->round, round + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&m->round, memory_order_acquire) == round)
        sched_yield();
}

static double get(peali_nccl_enum type, const void *at, size_t i)
{
    switch (type) {
    case 0: return ((const int8_t *)at)[i];
    case 1: return ((const uint8_t *)at)[i];
    case 2: return ((const int32_t *)at)[i];
    case 3: return ((const uint32_t *)at)[i];
    case 4: return (double)((const int64_t *)at)[i];
    case 5: return (double)((const uint64_t *)at)[i];
    case 7: return ((const float *)at)[i];
    default: return ((const double *)at)[i];
    }
}

static void put(peali_nccl_enum type, void *at, size_t i, double x)
{
    switch (type) {
    case 0: ((int8_t *)at)[i] = (int8_t)(int64_t)x; break;
    case 1: ((uint8_t *)at)[i] = (uint8_t)(int64_t)x; break;
    case 2: ((int32_t *)at)[i] = (int32_t)x; break;
    case 3: ((uint32_t *)at)[i] = (uint32_t)x; break;
    case 4: ((int64_t *)at)[i] = (int64_t)x; break;
    case 5: ((uint64_t *)at)[i] = (uint64_t)x; break;
    case 7: ((float *)at)[i] = (float)x; break;
    default: ((double *)at)[i] = x;
    }
}

static double fold(peali_nccl_enum op, double a, double b)
{
    switch (op) {
    case 1: return a * b;
    case 2: return a > b ? a : b;
    case 3: return a < b ? a : b;
    default: return a + b;
    }
}

/* What rank R gives. */
static void fetch(const struct job *j, int r, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)j->comm->meeting->rank[r].in, bytes};
    if (process_vm_readv(j->comm->meeting->rank[r].pid, &here, 1, &there, 1, 0) != (ssize_t)bytes) {
        perror("fake NCCL: memory of another rank");
        abort();
    }
}

/* The whole vector that all ranks make. */
static void gather(const struct job *j, char *to, char *room)
{
    size_t bytes = j->count * sizes[j->type], n = (size_t)j->comm->n, all = j->kind == PEAL_REDUCE_SCATTER ? n : 1;
    if (j->kind == PEAL_BROADCAST) {
        fetch(j, j->root, to, bytes);
        return;
    }
    for (int r = 0; r < j->comm->n; r++) {
        if (j->kind == PEAL_ALLGATHER) {
            fetch(j, r, to + (size_t)r * bytes, bytes);
            continue;
        }
        fetch(j, r, r == 0 ? to : room, all * bytes);
        for (size_t i = 0; i < all * j->count && r > 0; i++)
            put(j->type, to, i, fold(j->op, get(j->type, to, i), get(j->type, room, i)));
    }
    for (size_t i = 0; i < all * j->count && j->op == 4 && j->kind != PEAL_ALLGATHER; i++)
        put(j->type, to, i, get(j->type, to, i) / (double)n);
}

static void work(const void *parameters)
{
    struct job j;
    memcpy(&j, parameters, sizeof j);
    struct ncclComm *c = j.comm;
    size_t bytes = j.count * sizes[j.type], out_bytes = j.kind == PEAL_ALLGATHER ? bytes * (size_t)c->n : bytes;
    char *to = malloc((size_t)c->n * bytes), *room = malloc((size_t)c->n * bytes);
    const char *wrong = getenv("FAKE_NCCL_WRONG");
    c->meeting->rank[c->rank].pid = getpid();
    c->meeting->rank[c->rank].in = (uintptr_t)j.in;
    meet(c);
    gather(&j, to, room);
    meet(c); /* nobody reads what others write */
    if (j.kind != PEAL_REDUCE || c->rank == j.root)
        memcpy(j.out, to + (j.kind == PEAL_REDUCE_SCATTER ? (size_t)c->rank * bytes : 0), out_bytes);
    if (++c->calls == (wrong ? atoi(wrong) : 0) && c->rank == 0)
        ((char *)j.out)[out_bytes - 1] ^= 1;
    free(to);
    free(room);
}

static bool registered(const struct ncclComm *c, const void *at)
{
    bool any = c->nareas == 0;
    for (int i = 0; i < c->nareas; i++)
        any |= (const char *)at >= c->areas[i].at && (const char *)at < c->areas[i].at + c->areas[i].bytes;
    return any;
}

static peali_nccl_result start(const struct job *j, peali_cu_strm stream)
{
    bool folds = j->kind != PEAL_ALLGATHER && j->kind != PEAL_BROADCAST;
    if (j->type > 9 || (folds && (j->type == 6 || j->type == 9)) || !registered(j->comm, j->in) || !registered(j->comm, j->out))
        return INVALID;
    return fake_cuda_work(stream, CTAS, work, j, sizeof *j) == 0 ? 0 : 1;
}

peali_nccl_result ncclAllReduce(const void *in, void *out, size_t count, peali_nccl_enum type, peali_nccl_enum op,
                                peali_nccl_comm comm, peali_cu_strm stream)
{
    return start(&(struct job){comm, PEAL_ALLREDUCE, in, out, count, type, op, 0}, stream);
}

peali_nccl_result ncclAllGather(const void *in, void *out, size_t count, peali_nccl_enum type, peali_nccl_comm comm,
                                peali_cu_strm stream)
{
    return start(&(struct job){comm, PEAL_ALLGATHER, in, out, count, type, 0, 0}, stream);
}

peali_nccl_result ncclReduceScatter(const void *in, void *out, size_t count, peali_nccl_enum type, peali_nccl_enum op,
                                    peali_nccl_comm comm, peali_cu_strm stream)
{
    return start(&(struct job){comm, PEAL_REDUCE_SCATTER, in, out, count, type, op, 0}, stream);
}

peali_nccl_result ncclBroadcast(const void *in, void *out, size_t count, peali_nccl_enum type, int root, peali_nccl_comm comm,
                                peali_cu_strm stream)
{
    return start(&(struct job){comm, PEAL_BROADCAST, in, out, count, type, 0, root}, stream);
}

peali_nccl_result ncclReduce(const void *in, void *out, size_t count, peali_nccl_enum type, peali_nccl_enum op, int root,
                             peali_nccl_comm comm, peali_cu_strm stream)
{
    return start(&(struct job){comm, PEAL_REDUCE, in, out, count, type, op, root}, stream);
}

/* Communicators: the id is the name of a file. */

peali_nccl_result ncclGetVersion(int *version)
{
#ifdef FAKE_NCCL_OLD
    *version = 22203;
#else
    *version = 22809;
#endif
    return 0;
}

peali_nccl_result ncclGetUniqueId(peali_nccl_id *id)
{
    static int made;
    snprintf(id->bytes, sizeof id->bytes, "/fake_nccl.%d.%d", (int)getpid(), ++made);
    return 0;
}

peali_nccl_result ncclCommInitRank(peali_nccl_comm *comm, int n, peali_nccl_id id, int rank)
{
    int fd = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
    struct ncclComm *c = calloc(1, sizeof *c);
    if (fd < 0 || !c || n > RANKS || ftruncate(fd, sizeof *c->meeting) != 0)
        return SYSTEM;
    c->meeting = mmap(NULL, sizeof *c->meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->meeting == MAP_FAILED)
        return SYSTEM;
    c->rank = rank;
    c->n = n;
    meet(c);
    if (rank == 0)
        shm_unlink(id.bytes);
    *comm = c;
    return 0;
}

peali_nccl_result ncclCommDestroy(peali_nccl_comm comm)
{
    munmap(comm->meeting, sizeof *comm->meeting);
    free(comm);
    return 0;
}

const char *ncclGetErrorString(peali_nccl_result result)
{
    return result == 0 ? "no error" : result == INVALID ? "invalid argument" : "another error";
}

const char *ncclGetLastError(peali_nccl_comm comm)
{
    return "the fake knows no more";
}

/* Memory. */

peali_nccl_result ncclMemAlloc(void **at, size_t bytes)
{
    peali_cu_ptr memory = 0;
    peali_cu_result result = cuMemAlloc_v2(&memory, bytes);
    *at = (void *)(uintptr_t)memory;
    return result == 0 ? 0 : 1;
}

peali_nccl_result ncclMemFree(void *at)
{
    return cuMemFree_v2((uintptr_t)at) == 0 ? 0 : 1;
}

peali_nccl_result ncclCommRegister(const peali_nccl_comm comm, void *at, size_t bytes, void **handle)
{
    if (comm->nareas == AREAS)
        return INVALID;
    comm->areas[comm->nareas].at = at;
    comm->areas[comm->nareas++].bytes = bytes;
    *handle = at;
    return 0;
}

peali_nccl_result ncclCommDeregister(const peali_nccl_comm comm, void *handle)
{
    bool last = comm->nareas > 0 && registered(comm, handle);
    comm->nareas -= last;
    comm->areas[0] = comm->areas[1]; /* what is left, where the first went first */
    return last ? 0 : INVALID;
}

#ifndef FAKE_NCCL_OLD
/* Collective. */
peali_nccl_result ncclCommWindowRegister(peali_nccl_comm comm, void *at, size_t bytes, peali_nccl_window *window, int flags)
{
    void *handle;
    if (flags != PEALI_NCCL_SYMMETRIC)
        return INVALID;
    meet(comm);
    peali_nccl_result result = ncclCommRegister(comm, at, bytes, &handle);
    *window = handle;
    return result;
}

peali_nccl_result ncclCommWindowDeregister(peali_nccl_comm comm, peali_nccl_window window)
{
    return ncclCommDeregister(comm, window);
}
#endif
