/*
 * Chooses the reduction for the CPU it runs on. Ranks on different CPUs agree, because all instruction sets give the same bits.
 */
#include <stddef.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/atomics.h"
#include "base/ops.h"
#include "exec/reduce.h"
#include "exec/reduce_isa.h"

#if defined(__x86_64__)
/* clang 14 has no name for it. Asked once: a virtual machine leaves its guest for the answer, 15 us on one. */
static bool has_f16c(void)
{
    enum { UNKNOWN, NO, YES };
    static int known = UNKNOWN;
    unsigned eax, ebx, ecx = 0, edx;
    int answer = peali_load_relaxed(&known);
    if (answer == UNKNOWN) {
        answer = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) ? YES : NO;
        peali_store_relaxed(&known, answer);
    }
    return answer == YES;
}
#endif

static const peali_reduce_table *table_of(peali_isa isa)
{
#if defined(__x86_64__)
    if (isa == PEALI_ISA_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &peali_reduce_avx512;
    if (isa == PEALI_ISA_AVX2 && __builtin_cpu_supports("avx2") && has_f16c())
        return &peali_reduce_avx2;
#endif
    return isa == PEALI_ISA_PLAIN ? &peali_reduce_plain : NULL;
}

peali_reduce_fn peali_reduce_find_isa(peal_type type, peal_op op, peali_isa isa)
{
    const peali_reduce_table *table = table_of(isa);
    if (!table)
        return NULL;
    op = peali_op_combines(op);
    return table->reduce[type][op] ? table->reduce[type][op] : peali_reduce_plain.reduce[type][op];
}

peali_divide_fn peali_divide_find_isa(peal_type type, peali_isa isa)
{
    const peali_reduce_table *table = table_of(isa);
    if (!table)
        return NULL;
    return table->divide[type] ? table->divide[type] : peali_reduce_plain.divide[type];
}

static peali_isa best(void)
{
    int isa = PEALI_ISA_COUNT - 1;
    while (!table_of((peali_isa)isa))
        isa--;
    return (peali_isa)isa;
}

/* Without it a flag could be seen before what was streamed, because its release is a plain store on these CPUs. */
void peali_reduce_settle(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

peali_reduce_fn peali_reduce_find(peal_type type, peal_op op)
{
    return peali_reduce_find_isa(type, op, best());
}

peali_divide_fn peali_divide_find(peal_type type)
{
    return peali_divide_find_isa(type, best());
}
