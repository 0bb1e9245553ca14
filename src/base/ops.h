/* Operations as schedules and reductions see them. */
#ifndef PEALI_OPS_H
#define PEALI_OPS_H

#include <peal/peal.h>

/* What OP combines with: averages and premultiplied sums are sums, of which the result or the inputs are scaled. */
static inline peal_op peali_op_combines(peal_op op)
{
    return op == PEAL_AVG || op == PEAL_PREMUL_SUM ? PEAL_SUM : op;
}

#endif
