/*
 * NVLink SHARP stays off unless the user wants it: a race of protocols over point-to-point links is what this bench is for, and not
 * every machine that has multicast lets every process use it. The library is never closed: its threads outlive a dlclose.
 */
#include "nccl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/symbols.h"

/* What NCCL's enumerations have, and 1: 0 is what it does not have. */
static const int types[PEAL_TYPE_COUNT] = {
    [PEAL_INT8] = 1 + 0, [PEAL_UINT8] = 1 + 1, [PEAL_INT32] = 1 + 2, [PEAL_UINT32] = 1 + 3, [PEAL_INT64] = 1 + 4,
    [PEAL_UINT64] = 1 + 5, [PEAL_FP16] = 1 + 6, [PEAL_FLOAT] = 1 + 7, [PEAL_DOUBLE] = 1 + 8, [PEAL_BF16] = 1 + 9,
    [PEAL_FP8_E4M3] = 1 + 10, [PEAL_FP8_E5M2] = 1 + 11,
};

static const int ops[PEAL_OP_COUNT] = {
    [PEAL_SUM] = 1 + 0, [PEAL_PROD] = 1 + 1, [PEAL_MAX] = 1 + 2, [PEAL_MIN] = 1 + 3, [PEAL_AVG] = 1 + 4,
};

/* Filled once, constant afterwards. */
static peali_nccl nccl;
static char failure[400], nvls[64];

static const peali_symbol needed[] = {
    {"ncclGetErrorString", &nccl.GetErrorString}, {"ncclGetLastError", &nccl.GetLastError},
#define SYMBOL(name, symbol, parameters) {#symbol, &nccl.name},
    PEALI_NCCL_FUNCTIONS(SYMBOL)
};
static const peali_symbol windows[] = {PEALI_NCCL_WINDOWS(SYMBOL)};

static void keep_to_links(void)
{
    const char *set = getenv("NCCL_NVLS_ENABLE");
    snprintf(nvls, sizeof nvls, "%.20s, %s", set ? set : "0", set ? "from the environment" : "set by peal bench");
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    nccl.nvls = nvls;
}

static void load(void)
{
    keep_to_links();
    void *handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof failure, "no NCCL: %.200s; install it (PyPI: nvidia-nccl-cu13), and have LD_LIBRARY_PATH name its "
                                          "folder", dlerror());
        return;
    }
    const char *lacks = peali_symbols_find(handle, needed, sizeof needed / sizeof needed[0]);
    if (lacks) {
        snprintf(failure, sizeof failure, "libnccl.so.2 has no %s; install NCCL 2.19 or newer", lacks);
        return;
    }
    if (peali_symbols_find(handle, windows, sizeof windows / sizeof windows[0]))
        nccl.CommWindowRegister = NULL;
    if (nccl.GetVersion(&nccl.version) != 0)
        snprintf(failure, sizeof failure, "libnccl.so.2 does not tell its version");
}

const peali_nccl *peali_nccl_get(const char **why)
{
    static bool loaded;
    if (!loaded)
        load();
    loaded = true;
    *why = failure;
    return failure[0] ? NULL : &nccl;
}

int peali_nccl_type(peal_type type)
{
    return types[type] - 1;
}

int peali_nccl_op(peal_op op)
{
    return ops[op] - 1;
}

peali_nccl_result peali_nccl_run(const peali_nccl *n, const peali_nccl_call *c, peali_nccl_comm comm, peali_cu_strm stream)
{
    peali_nccl_enum type = (peali_nccl_enum)peali_nccl_type(c->type), op = (peali_nccl_enum)peali_nccl_op(c->op);
    switch (c->kind) {
    case PEAL_ALLREDUCE: return n->AllReduce(c->in, c->out, c->count, type, op, comm, stream);
    case PEAL_ALLGATHER: return n->AllGather(c->in, c->out, c->count, type, comm, stream);
    case PEAL_REDUCE_SCATTER: return n->ReduceScatter(c->in, c->out, c->count, type, op, comm, stream);
    case PEAL_BROADCAST: return n->Broadcast(c->in, c->out, c->count, type, 0, comm, stream);
    default: return n->Reduce(c->in, c->out, c->count, type, op, 0, comm, stream);
    }
}
