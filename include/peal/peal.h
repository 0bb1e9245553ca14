/*
 * The calls of Peal: communicators and collectives.
 *
 * A communicator comes from an MPI communicator (peal/mpi.h), or from the threads of one process
 * (peal_threads_create). A collective is called by every rank of its communicator, in the same order.
 *
 * Calls that differ between ranks end with PEAL_ERR_MISMATCH, and the log of every rank has both calls in full, about a second
 * after they were made at the latest. One that was refused on some rank differs, too, from what the others called: that rank's next
 * call ends so. A rank that gets nothing of others in its call (the root of a broadcast, a rank below the
 * root of a reduce, a call with count 0) may have left it before anybody could know. Such a rank gets PEAL_ERR_MISMATCH at its next
 * call on the communicator; where there is none, its log has both calls if they are known when the communicator is destroyed, and
 * else the logs of the others alone have them, if those could tell: each of two roots of a broadcast, say, may have left.
 *
 * After a call failed, its buffers are freed when all ranks of the host have destroyed the communicator: until then they may still
 * touch them, if only to the end of what they were at when they were told. Every later call on it ends as that one did. A rank that
 * comes back to a call which another has given up meanwhile gets an error, too.
 *
 * Device memory. STREAM is a CUstream (or cudaStream_t), for buffers of cudaMalloc and its relatives, on the device that was
 * current in the communicator's first such call. The call is enqueued on it and returns; NULL is the legacy default stream where
 * the buffers are device memory, and nothing where they are not: then the call is done on return, as ever. All buffers of all
 * ranks are of one kind, but in calls with count 0, which do nothing. A request of such a call says that it was enqueued, and no
 * more.
 *
 * On a device the calls of a communicator run one after the other, in one order on all ranks: where they are given to several
 * streams, replays of graphs too, the program has each wait for the one before (cudaEventRecord, cudaStreamWaitEvent).
 *
 * A stream may be captured into a graph: each call becomes one kernel node, or several and copies where copy engines move it,
 * which are replayed without any call of Peal; an edge to it from a kernel is a programmatic one. Whether a call is captured is
 * equal on all ranks. The first call on a communicator may be a captured one. What goes wrong on a device after a call has
 * returned is logged, and returned by peal_comm_error and by later calls.
 */
#ifndef PEAL_PEAL_H
#define PEAL_PEAL_H

#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>
#include <peal/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The collectives. */
typedef enum peal_kind {
    PEAL_ALLREDUCE,
    PEAL_ALLGATHER,
    PEAL_REDUCE_SCATTER,
    PEAL_BROADCAST,
    PEAL_REDUCE,
    PEAL_BARRIER, /* has no algorithms of its own: it takes those of PEAL_ALLREDUCE */
    PEAL_KIND_COUNT
} peal_kind;

/*
 * Element types.
 *
 * Sums, products and averages of the 8-bit types saturate: what is beyond the largest number, 448 or 57344, becomes that number,
 * infinity too; NaN becomes 0x7f. Min and max keep infinities.
 *
 * Source: OCP 8-bit Floating Point Specification (OFP8) 1.0. They saturate as CUDA's cuda_fp8.h with __NV_SATFINITE, which the
 *         sums and products of NCCL take (src/device/reduce_kernel.h).
 */
typedef enum peal_type {
    PEAL_INT8,
    PEAL_UINT8,
    PEAL_INT16,
    PEAL_UINT16,
    PEAL_INT32,
    PEAL_UINT32,
    PEAL_INT64,
    PEAL_UINT64,
    PEAL_BYTE,        /* 8 bits without a meaning: bitwise operations only */
    PEAL_BOOL,        /* C's bool in one byte: logical operations only, which give 0 or 1 */
    PEAL_FP8_E4M3,    /* OCP's 8-bit types. This one has no infinity, and one NaN of each sign, 0x7f and 0xff */
    PEAL_FP8_E5M2,
    PEAL_FP16,        /* IEEE half precision. Sums and products of this, the next and the last two are made in float and rounded */
    PEAL_BF16,        /* to nearest even, once for each result that is stored or sent: so their bits depend on the algorithm */
    PEAL_FLOAT,
    PEAL_DOUBLE,
    PEAL_LONG_DOUBLE, /* of this platform's C; results have zeros in its padding */
    PEAL_COMPLEX_FLOAT, /* real part first; products are made of four of their parts, without C's rescue of infinities */
    PEAL_COMPLEX_DOUBLE,
    PEAL_COMPLEX_LONG_DOUBLE,
    PEAL_TYPE_COUNT
} peal_type;

/* Reductions, all commutative and associative but for rounding. Min and max order -0 below +0 and give one NaN. */
typedef enum peal_op {
    PEAL_SUM,
    PEAL_PROD,
    PEAL_MIN,
    PEAL_MAX,
    PEAL_LAND, /* integers and bool: 1 where both are non-zero, else 0 */
    PEAL_LOR,
    PEAL_LXOR,
    PEAL_BAND, /* integers and byte, bit by bit */
    PEAL_BOR,
    PEAL_BXOR,
    PEAL_AVG, /* the sum, divided by the number of ranks where it has become the result: by then an integer may have wrapped, */
              /* and a sum of 8 or 16 bits has been rounded to them. Integers are truncated toward zero */
    PEAL_OP_COUNT, /* of those that need nothing but the call's arguments */
    PEAL_PREMUL_SUM = PEAL_OP_COUNT /* the sum of what ranks give, each times a number of its own: peal_comm_premul */
} peal_op;

typedef struct peal_comm peal_comm;
typedef struct peal_threads peal_threads;
typedef struct peal_request peal_request;

/* Names as they stand in tables and configuration: "allreduce", "float", "sum". "?" for values out of range. Threads: any. */
PEAL_PUBLIC const char *peal_kind_name(peal_kind kind);
PEAL_PUBLIC const char *peal_type_name(peal_type type);
PEAL_PUBLIC const char *peal_op_name(peal_op op);

/* Bytes of one element of TYPE, 0 for a value out of range. Threads: any. */
PEAL_PUBLIC size_t peal_type_bytes(peal_type type);

/*
 * 1 where OP is defined for TYPE, else 0. Integers take all ops, bool the logical and byte the bitwise ones, complex types sum,
 * product, average and premultiplied sum, and the other floating-point types these, min and max. Threads: any.
 */
PEAL_PUBLIC int peal_op_takes(peal_op op, peal_type type);

/*
 * Makes the meeting place of NRANKS threads of this process, which become the ranks of one communicator.
 *
 * Shape:   nranks: 1 or more.
 * Returns: PEAL_OK; PEAL_ERR_INVALID nranks below 1, or THREADS is NULL; PEAL_ERR_MEMORY. *THREADS is written on success only.
 * Threads: any.    Blocks: no.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_threads_create(int nranks, peal_threads **threads);

/*
 * Ends the meeting place and writes NULL. Every communicator made on it has been destroyed before; else that is logged, and what
 * they need of it stays until they are.
 *
 * Threads: one, after all others have finished with it.
 */
PEAL_PUBLIC void peal_threads_destroy(peal_threads **threads);

/*
 * Makes the calling thread rank RANK of a communicator over THREADS.
 *
 * Shape:      rank: 0 to nranks-1, each taken by one thread.
 * Returns:    PEAL_OK; PEAL_ERR_INVALID rank out of range, or a pointer is NULL; PEAL_ERR_CONFIG a PEAL_* variable is wrong;
 *             PEAL_ERR_MEMORY; PEAL_ERR_TIMEOUT a rank did not come within PEAL_TIMEOUT, or two threads came as one rank
 *             (logged), and THREADS is of no more use. *COMM is written on success only.
 * Collective: yes, over all ranks of THREADS.
 * Threads:    one per rank.    Blocks: until all ranks have called.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_comm_create_threads(peal_threads *threads, int rank, peal_comm **comm);

/*
 * Ends a communicator and writes NULL; NULL in *COMM does nothing. A child of the process that made it only writes NULL.
 *
 * Collective: yes; no call on it is under way (one of this thread ends, with a warning; one of another is aborted, and what
 *             belongs to the communicator kept), and no graph that has calls on it is launched any more.
 * Threads:    one per COMM.    Blocks: no; after a call that failed, while MPI does not take its messages back: for 5 s at most,
 *             after which a warning says how many; after calls on device memory, until this rank's device is done, and all ranks
 *             have come: for 30 s at most, after which a warning says what memory is kept.
 */
PEAL_PUBLIC void peal_comm_destroy(peal_comm **comm);

/* The calling process's rank in COMM, and the number of ranks; where COMM is NULL, which is logged, -1 and 0. Threads: any. */
PEAL_PUBLIC int peal_comm_rank(const peal_comm *comm);
PEAL_PUBLIC int peal_comm_size(const peal_comm *comm);

/*
 * Memory for the buffers of calls, which other processes of this host reach in place: calls on it need no copies between them.
 * Where there is no such memory it is plain memory, and calls on it are only slower. It begins at a page and is zeroed. Blocks from
 * 2 MiB to half of a core's share of what lies idle on the host are taken at once, in huge pages where Linux (6.1 and newer) has
 * any. After a fork, parent and child have their own copies, as of all memory; in calls, those are plain memory until they are
 * freed.
 *
 * Units:      BYTES; 0 is a block too.
 * Returns:    NULL where there is no memory.
 * Collective: no.
 * Threads:    any.
 */
PEAL_PUBLIC void *peal_mem_alloc(size_t bytes);

/* Frees what peal_mem_alloc returned; NULL does nothing. No call on it is under way. Threads: any. */
PEAL_PUBLIC void peal_mem_free(void *at);

/*
 * Lets the other ranks of COMM map this rank's device memory at AT, so that large calls on it read and write it in place, without
 * scratch between. All of the allocation that AT lies in is mapped. Ranks register buffers of their own, of any sizes and at any
 * addresses; calls may be on any parts of them.
 *
 * When: all ranks have mapped it when this returns. What is not registered gets mapped too, by large calls: such a call that
 * is not captured offers its buffers, and maps what other ranks have offered, and waits for none of them; so the third call on a
 * buffer is in place where ranks keep step. To map is, as to allocate, a call that may wait for work on the device. A captured call
 * maps nothing: it is in place in every replay, or in none, by what was mapped when it was captured.
 *
 * A call works in place where all buffers of all ranks are mapped, and else through scratch: the devices agree on it in the call.
 * In place are all five collectives, of ranks on one host, where buffers begin at multiples of 16 bytes, and so do the parts of
 * each rank. Memory that has no IPC handle (of cuMemCreate, of cudaMallocAsync, managed) cannot be mapped.
 *
 * Deregister before the memory is freed, and when calls on it are done; graphs that have such calls are not replayed afterwards.
 * Memory that is freed without it stays taken at peers until this rank makes another large call, or COMM is destroyed. Of a rank 64
 * allocations at a time are mapped, registered or not: calls on others go through scratch.
 *
 * Shape:      bytes: 1 or more, in the allocation that AT lies in. peal_deregister: any AT in it.
 * Returns:    PEAL_OK; PEAL_ERR_UNSUPPORTED some rank's memory cannot be mapped by all others, or is its 65th allocation,
 *             which calls do without; PEAL_ERR_INVALID some rank gave what is no memory of its device, or is not registered; or
 *             what the first call on device memory returns. All but the last are the same on all ranks, and logged with that rank.
 * Collective: yes, in one order with the other calls on COMM.
 * Threads:    one per COMM.    Blocks: until all ranks have come.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_register(peal_comm *comm, void *at, size_t bytes);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_deregister(peal_comm *comm, void *at);

/*
 * Combines COUNT elements of every rank's SENDBUF with OP and gives all ranks the result, the same bits on each.
 *
 * Shape:      sendbuf, recvbuf: count elements of type. sendbuf == recvbuf: in place. Any other overlap is an error.
 * Units:      count in elements.
 * Returns: PEAL_OK; PEAL_ERR_INVALID a buffer, type, op or count breaks its rule, COMM is NULL or has a call in flight, or a
 *             premultiplied sum has no scalar of TYPE (peal_comm_premul), nothing started; PEAL_ERR_UNSUPPORTED this is
 *             a child of the process that made COMM; PEAL_ERR_MEMORY none for the plan of a first call, nothing started;
 *             PEAL_ERR_NET, PEAL_ERR_TIMEOUT, PEAL_ERR_MISMATCH, PEAL_ERR_ABORTED: COMM is of no more use. On
 *             device memory also PEAL_ERR_UNSUPPORTED it cannot be had here, nothing started; PEAL_ERR_CAPTURE not while a stream
 *             is captured, and the capture is still valid; PEAL_ERR_CUDA, PEAL_ERR_MEMORY: a rank's call could not be launched, and
 *             but for a captured one COMM is of no more use.
 * Collective: yes; same count, type and op on every rank.
 * Threads:    one per COMM.    Blocks: until recvbuf is complete here and every message sent was delivered; on device memory no,
 *             but for the first such call, and the first that copy engines move, until all ranks have called.
 * Source:     MPI 4.1, section 6.9.6.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_allreduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type,
                                                       peal_op op, peal_comm *comm, void *stream);

/*
 * Gathers SENDCOUNT elements of every rank into RECVBUF of all ranks, in rank order.
 *
 * Shape:      sendbuf: sendcount elements; recvbuf: nranks * sendcount. sendbuf == recvbuf + rank * sendcount elements: in place.
 *             Any other overlap is an error.
 * Units, Returns, Threads, Blocks: as peal_allreduce.
 * Collective: yes; same sendcount and type on every rank.
 * Source:     MPI 4.1, section 6.7.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, peal_type type,
                                                       peal_comm *comm, void *stream);

/*
 * Combines nranks * RECVCOUNT elements of every rank with OP and gives rank r the r-th RECVCOUNT of the result.
 *
 * Shape:      sendbuf: nranks * recvcount elements; recvbuf: recvcount. recvbuf == sendbuf + rank * recvcount elements: in place.
 *             Any other overlap is an error.
 * Units, Returns, Threads, Blocks: as peal_allreduce.
 * Collective: yes; same recvcount, type and op on every rank.
 * Source:     MPI 4.1, section 6.10.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, peal_type type,
                                                            peal_op op, peal_comm *comm, void *stream);

/*
 * Gives COUNT elements of ROOT's BUFFER to all ranks.
 *
 * Shape:      buffer: count elements.
 * Units, Returns, Threads, Blocks: as peal_allreduce; PEAL_ERR_INVALID also where root is no rank.
 * Collective: yes; same count, type and root on every rank.
 * Source:     MPI 4.1, section 6.4.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_broadcast(void *buffer, size_t count, peal_type type, int root, peal_comm *comm,
                                                       void *stream);

/*
 * Combines COUNT elements of every rank's SENDBUF with OP and gives ROOT the result.
 *
 * Shape:      sendbuf: count elements; recvbuf: count at root, elsewhere not used and may be NULL. sendbuf == recvbuf: in place.
 *             Any other overlap at root is an error.
 * Units, Returns, Threads, Blocks: as peal_allreduce; PEAL_ERR_INVALID also where root is no rank.
 * Collective: yes; same count, type, op and root on every rank.
 * Source:     MPI 4.1, section 6.9.1.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_reduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op,
                                                    int root, peal_comm *comm, void *stream);

/*
 * Waits until every rank of COMM has called.
 *
 * Returns, Threads: as peal_allreduce.
 * Collective: yes.
 * Blocks:     until all ranks have called.
 * Source:     MPI 4.1, section 6.3.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_barrier(peal_comm *comm, void *stream);

/*
 * The collectives, started and not waited for: the buffers are Peal's until peal_test or peal_wait says that the call ended. One
 * call can be in flight on a communicator, and several on different ones.
 *
 * Returns: as the blocking calls; PEAL_ERR_INVALID also where REQUEST is NULL. *REQUEST is written on success only.
 * Collective, Threads: as the blocking calls; the request is the starting thread's.
 * Blocks:  no, but for making the plan of a first call, which talks to nobody; on device memory as the blocking calls.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_iallreduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type,
                                                        peal_op op, peal_comm *comm, void *stream, peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount, peal_type type,
                                                        peal_comm *comm, void *stream, peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_ireduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, peal_type type,
                                                             peal_op op, peal_comm *comm, void *stream, peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_ibroadcast(void *buffer, size_t count, peal_type type, int root, peal_comm *comm,
                                                        void *stream, peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_ireduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op,
                                                     int root, peal_comm *comm, void *stream, peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_ibarrier(peal_comm *comm, void *stream, peal_request **request);

/*
 * Asks whether a call ended (peal_test), or waits until it did (peal_wait). Both drive all calls that the calling thread has in
 * flight. What a program does between two of these is no wait: to PEAL_TIMEOUT it counts as a second at most.
 *
 * Returns: the call's outcome, and writes NULL to *REQUEST; peal_test PEAL_IN_PROGRESS while there is none. PEAL_ERR_INVALID: no
 *          request, or another thread's. PEAL_ERR_UNSUPPORTED: this is a child of the process that started the call.
 * Threads: the one that started the call.    Blocks: peal_test no; peal_wait until the call ended.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_test(peal_request **request);
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_wait(peal_request **request);

/*
 * The algorithm that a call on host memory with these arguments (of a barrier KIND alone; OP where the call has one) takes on COMM,
 * as `peal show` names it.
 *
 * Returns: a constant text; NULL where no algorithm fits.
 * Threads: one per COMM.    Blocks: no.
 */
PEAL_PUBLIC const char *peal_comm_choice(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op);

/*
 * What carries the data of COMM, as the table of `peal tune` names it: "shm" where all ranks share memory, else what its messages
 * travel over ("mpi", "ucx", "loop"). Threads: any.
 */
PEAL_PUBLIC const char *peal_comm_transport(const peal_comm *comm);

/*
 * Into how many nodes COMM's ranks are divided for algorithms in levels: hosts; on a single host the sockets, NUMA nodes or caches
 * (PEAL_LEVEL) that ranks are bound to; or as PEAL_NODES has it. Threads: any.
 */
PEAL_PUBLIC int peal_comm_nodes(const peal_comm *comm);

/*
 * Makes COMM take ALGO for every following call of KIND; NULL returns the choice to Peal, and so to PEAL_ALGO. It runs in one
 * slice, whatever carries it, for an element's sum may depend on where slices begin; peal_comm_force_slice() has it pipelined.
 *
 * Returns:    PEAL_OK; PEAL_ERR_INVALID no algorithm of that name, or it does not fit this communicator. The log lists those that
 *             do.
 * Collective: every rank gives the same name between the same two calls; else the next call ends with PEAL_ERR_MISMATCH.
 * Threads:    one per COMM.    Blocks: no.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_comm_force(peal_comm *comm, peal_kind kind, const char *algo);

/*
 * Makes COMM cut every following call into slices of BYTES, which are then pipelined; 0 returns the choice to Peal, and
 * so to PEAL_SLICE. Where all ranks are of one host, what they do not see of each other's buffers goes in slices of 16 MiB at most,
 * but for the first such call behind one whose buffers they saw.
 *
 * Units:      BYTES of the vector; of allgather and reduce_scatter: of all ranks together.
 * Collective: every rank gives the same size between the same two calls; else the next call ends with PEAL_ERR_MISMATCH.
 * Threads:    one per COMM.    Blocks: no.
 */
PEAL_PUBLIC void peal_comm_force_slice(peal_comm *comm, size_t bytes);

/*
 * Makes calls on device memory take at most CTAS thread blocks each, from the next one on; 0 returns the choice to Peal
 * (PEAL_MAX_CTAS), which takes 64 at most, and of some calls of 8 MiB and more 128, but leaves 4 SMs. Graphs keep what they were
 * captured with.
 *
 * Shape:      ctas: 0 to 128.
 * Returns:    PEAL_OK; PEAL_ERR_INVALID.
 * Collective: every rank gives the same number between the same two calls.
 * Threads:    one per COMM.    Blocks: no.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_comm_max_ctas(peal_comm *comm, int ctas);

/*
 * Says what calls with PEAL_PREMUL_SUM on COMM multiply this rank's elements by, from the next one on. Each product is rounded to
 * TYPE before it is added, as PEAL_PROD rounds it. Graphs keep what they were captured with.
 *
 * Shape:      scalar: one element of type, in host memory, which is copied.
 * Returns:    PEAL_OK; PEAL_ERR_INVALID scalar is NULL, the op is not defined for type, or a call is in flight on COMM.
 * Collective: no; ranks may have different numbers. Calls with that op are of this type.
 * Threads:    one per COMM.    Blocks: no.
 * Source:     NCCL, ncclRedOpCreatePreMulSum with ncclScalarHostImmediate.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_comm_premul(peal_comm *comm, const void *scalar, peal_type type);

/*
 * What a call on COMM failed with, on a device too: PEAL_OK as long as nothing is known to be wrong. Once it is an error, it stays.
 *
 * Returns: PEAL_OK; PEAL_ERR_MISMATCH; PEAL_ERR_TIMEOUT; PEAL_ERR_ABORTED; PEAL_ERR_NET; PEAL_ERR_CUDA, PEAL_ERR_MEMORY a rank's
 *          call on device memory could not be launched.
 * Threads: any, while COMM lives.    Blocks: no; no stream is waited for.
 */
PEAL_PUBLIC peal_status peal_comm_error(const peal_comm *comm);

/*
 * Makes the call that COMM is in, and every later one, end with PEAL_ERR_ABORTED on this rank. When it is in one, or makes one, the
 * other ranks hear of it, and that call ends so on them, too: on its host at once, elsewhere within 2 s.
 *
 * Threads: any, while COMM lives.    Blocks: no.
 */
PEAL_PUBLIC void peal_comm_abort(peal_comm *comm);

/*
 * One entry of the PEAL_* configuration table.
 *
 * Returns: 1 and fills the texts (constant, but VALUE, which lives until the environment changes) for INDEX 0, 1, ...; 0 past the
 *          last.
 * Threads: any.
 */
typedef struct peal_config_entry {
    const char *name;    /* "PEAL_LOG" */
    const char *value;   /* as set, or the default */
    const char *choices; /* what it takes, for people */
    const char *meaning; /* one sentence */
} peal_config_entry;
PEAL_PUBLIC int peal_config_list(int index, peal_config_entry *entry);

#ifdef __cplusplus
}
#endif
#endif
