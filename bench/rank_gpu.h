/*
 * One rank's GPU in a race: memory, a stream, its clock, and the check of results in place. What fails is printed with rank, GPU
 * and call, and ends all ranks.
 */
#ifndef PEALI_RANK_GPU_H
#define PEALI_RANK_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/driver.h"
#include "race.h"
#include "ulp.h"

typedef struct peali_bench_gpu {
    peali_team *team;
    const peali_cuda_driver *cu;
    peali_cu_device device;
    peali_cu_ctx context;
    peali_cu_strm stream;
    peali_cu_event before, after;
    peali_cu_func differ;
} peali_bench_gpu;

/* Makes DEVICE that of the calling thread. There is a driver, and this device. */
void peali_bench_gpu_open(peali_bench_gpu *gpu, peali_team *team, int device);

/* The device stays the thread's: the rank's communicator is still to be destroyed. */
void peali_bench_gpu_close(peali_bench_gpu *gpu);

/* Ends all ranks where RESULT, of CALL, is an error. */
void peali_bench_must(const peali_bench_gpu *gpu, peali_cu_result result, const char *call);

peali_cu_ptr peali_bench_gpu_alloc(const peali_bench_gpu *gpu, size_t bytes);
void peali_bench_gpu_free(const peali_bench_gpu *gpu, peali_cu_ptr at);

/* BYTES at AT become the TABLE of so many bytes, over and over. AT has been waited for. */
void peali_bench_gpu_tile(const peali_bench_gpu *gpu, peali_cu_ptr at, size_t bytes, const void *table, size_t table_bytes);

void peali_bench_gpu_copy(const peali_bench_gpu *gpu, peali_cu_ptr to, peali_cu_ptr from, size_t bytes);
void peali_bench_gpu_wait(const peali_bench_gpu *gpu);

/* Enqueues the kernel of differ.c; *COUNT is a uint64_t of this GPU's memory. */
typedef struct peali_bench_places {
    peali_cu_ptr have, want;
    size_t bytes, stride; /* of both */
    size_t slots;
} peali_bench_places;
void peali_bench_gpu_differ(const peali_bench_gpu *gpu, const peali_bench_places *places, peali_cu_ptr count);

/* The largest error of COUNT results at HAVE, the first of which is element FIRST; after all that was enqueued. */
double peali_bench_gpu_ulp(const peali_bench_gpu *gpu, const peali_ulp *ulp, peali_cu_ptr have, size_t first, size_t count);

/* CTAs of the largest kernel in GRAPH: a call may be several, one after the other. */
long peali_bench_gpu_ctas(const peali_bench_gpu *gpu, peali_cu_graph graph);

/*
 * What the links give, in GB/s each way: each GPU copies to that of the next rank, all at once, so that every one sends and
 * receives. The slowest rank's; 0 where there is no other rank, or it cannot be reached. Collective.
 */
double peali_bench_gpu_link(const peali_bench_gpu *gpu);

/* The kernel's PTX. */
extern const char peali_bench_differ[];

#endif
