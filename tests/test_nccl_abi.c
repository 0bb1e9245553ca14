/* NCCL's interface as the bench declares it is that of nccl.h. Without one, it is not compared. */
#include "../bench/nccl.h"

#include <stdio.h>

#ifdef TEST_NCCL_H
#include <assert.h>

#include <nccl.h>

#define SAME(name, symbol, parameters)                                                                                            \
    static_assert(__builtin_types_compatible_p(__typeof__(((peali_nccl *)0)->name), __typeof__(&symbol)), #symbol);

/* All but those whose parameters are structs, which C does not take for the same. */
#define ncclGetUniqueId peali_id_call
#define ncclCommInitRank peali_init_call
peali_nccl_result peali_id_call(peali_nccl_id *);
peali_nccl_result peali_init_call(peali_nccl_comm *, int, peali_nccl_id, int);
PEALI_NCCL_FUNCTIONS(SAME)
#undef ncclGetUniqueId
#undef ncclCommInitRank

typedef ncclResult_t get_id(ncclUniqueId *);
typedef ncclResult_t init_rank(ncclComm_t *, int, ncclUniqueId, int);
static_assert(__builtin_types_compatible_p(__typeof__(&ncclGetUniqueId), get_id *), "");
static_assert(__builtin_types_compatible_p(__typeof__(&ncclCommInitRank), init_rank *), "");
static_assert(sizeof(peali_nccl_id) == sizeof(ncclUniqueId), "");
static_assert(__builtin_types_compatible_p(__typeof__(((peali_nccl *)0)->GetErrorString), __typeof__(&ncclGetErrorString)), "");
static_assert(__builtin_types_compatible_p(__typeof__(((peali_nccl *)0)->GetLastError), __typeof__(&ncclGetLastError)), "");
#ifdef NCCL_WIN_COLL_SYMMETRIC
PEALI_NCCL_WINDOWS(SAME)
static_assert(PEALI_NCCL_SYMMETRIC == NCCL_WIN_COLL_SYMMETRIC, "");
#endif

static int wrong;

static void expect(const char *what, int have, int want)
{
    if (have == want)
        return;
    printf("%s: %d, and in nccl.h %d\n", what, have, want);
    wrong = 1;
}

int main(void)
{
    expect("int8", peali_nccl_type(PEAL_INT8), ncclInt8);
    expect("uint8", peali_nccl_type(PEAL_UINT8), ncclUint8);
    expect("int32", peali_nccl_type(PEAL_INT32), ncclInt32);
    expect("uint32", peali_nccl_type(PEAL_UINT32), ncclUint32);
    expect("int64", peali_nccl_type(PEAL_INT64), ncclInt64);
    expect("uint64", peali_nccl_type(PEAL_UINT64), ncclUint64);
    expect("fp16", peali_nccl_type(PEAL_FP16), ncclFloat16);
    expect("bf16", peali_nccl_type(PEAL_BF16), ncclBfloat16);
    expect("float", peali_nccl_type(PEAL_FLOAT), ncclFloat32);
    expect("double", peali_nccl_type(PEAL_DOUBLE), ncclFloat64);
    expect("e4m3", peali_nccl_type(PEAL_FP8_E4M3), ncclFloat8e4m3);
    expect("e5m2", peali_nccl_type(PEAL_FP8_E5M2), ncclFloat8e5m2);
    expect("int16", peali_nccl_type(PEAL_INT16), -1);
    expect("bxor", peali_nccl_op(PEAL_BXOR), -1);
    expect("sum", peali_nccl_op(PEAL_SUM), ncclSum);
    expect("prod", peali_nccl_op(PEAL_PROD), ncclProd);
    expect("min", peali_nccl_op(PEAL_MIN), ncclMin);
    expect("max", peali_nccl_op(PEAL_MAX), ncclMax);
    expect("avg", peali_nccl_op(PEAL_AVG), ncclAvg);
    return wrong;
}
#else
int main(void)
{
    puts("no nccl.h here: NCCL's interface was not compared with it");
    return 77;
}
#endif
