/*
 * NCCL, the peer on GPUs, by dlopen at first use. What is needed of it is declared here as nccl.h of NCCL 2.28 has it (a test
 * compares the two where that is found; https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html), so that the bench
 * builds without.
 */
#ifndef PEALI_BENCH_NCCL_H
#define PEALI_BENCH_NCCL_H

#include <stddef.h>

#include <peal/peal.h>

#include "cuda/driver.h"

typedef unsigned peali_nccl_result; /* 0: success */
typedef unsigned peali_nccl_enum;
typedef struct ncclComm *peali_nccl_comm;
typedef struct ncclWindow_vidmem *peali_nccl_window;
typedef struct { char bytes[128]; } peali_nccl_id;

enum { PEALI_NCCL_SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC */

/* Of NCCL 2.19 and newer. */
#define PEALI_NCCL_FUNCTIONS(F)                                                                                                   \
    F(GetVersion, ncclGetVersion, (int *))                                                                                        \
    F(GetUniqueId, ncclGetUniqueId, (peali_nccl_id *))                                                                            \
    F(CommInitRank, ncclCommInitRank, (peali_nccl_comm *, int, peali_nccl_id, int))                                               \
    F(CommDestroy, ncclCommDestroy, (peali_nccl_comm))                                                                            \
    F(MemAlloc, ncclMemAlloc, (void **, size_t))                                                                                  \
    F(MemFree, ncclMemFree, (void *))                                                                                             \
    F(CommRegister, ncclCommRegister, (const peali_nccl_comm, void *, size_t, void **))                                           \
    F(CommDeregister, ncclCommDeregister, (const peali_nccl_comm, void *))                                                        \
    F(AllReduce, ncclAllReduce,                                                                                                   \
      (const void *, void *, size_t, peali_nccl_enum, peali_nccl_enum, peali_nccl_comm, peali_cu_strm))                           \
    F(AllGather, ncclAllGather, (const void *, void *, size_t, peali_nccl_enum, peali_nccl_comm, peali_cu_strm))                  \
    F(ReduceScatter, ncclReduceScatter,                                                                                           \
      (const void *, void *, size_t, peali_nccl_enum, peali_nccl_enum, peali_nccl_comm, peali_cu_strm))                           \
    F(Broadcast, ncclBroadcast, (const void *, void *, size_t, peali_nccl_enum, int, peali_nccl_comm, peali_cu_strm))             \
    F(Reduce, ncclReduce,                                                                                                         \
      (const void *, void *, size_t, peali_nccl_enum, peali_nccl_enum, int, peali_nccl_comm, peali_cu_strm))

/* Of NCCL 2.27 and newer: both or none. */
#define PEALI_NCCL_WINDOWS(F)                                                                                                     \
    F(CommWindowRegister, ncclCommWindowRegister, (peali_nccl_comm, void *, size_t, peali_nccl_window *, int))                    \
    F(CommWindowDeregister, ncclCommWindowDeregister, (peali_nccl_comm, peali_nccl_window))

typedef struct peali_nccl {
    int version; /* 22809: 2.28.9 */
    const char *nvls; /* what NCCL_NVLS_ENABLE is, and by whom */
    const char *(*GetErrorString)(peali_nccl_result);
    const char *(*GetLastError)(peali_nccl_comm);
#define PEALI_NCCL_MEMBER(name, symbol, parameters) peali_nccl_result(*name) parameters;
    PEALI_NCCL_FUNCTIONS(PEALI_NCCL_MEMBER)
    PEALI_NCCL_WINDOWS(PEALI_NCCL_MEMBER) /* NULL: this NCCL has none */
#undef PEALI_NCCL_MEMBER
} peali_nccl;

/*
 * NCCL; or NULL, and WHY gets a constant text with what is missing and what to do. The first call sets NCCL_NVLS_ENABLE=0 where the
 * user has not set it. Threads: one, before there are others.
 */
const peali_nccl *peali_nccl_get(const char **why);

/* What TYPE, and OP, are to NCCL; -1: it has none of that. */
int peali_nccl_type(peal_type type);
int peali_nccl_op(peal_op op);

/* A collective as the bench calls it, root 0. */
typedef struct peali_nccl_call {
    peal_kind kind;
    const void *in;
    void *out;
    size_t count;
    peal_type type;
    peal_op op;
} peali_nccl_call;
peali_nccl_result peali_nccl_run(const peali_nccl *nccl, const peali_nccl_call *c, peali_nccl_comm comm, peali_cu_strm stream);

#endif
