/* Calls that are one exchange of words: for kernels that interpret no program (cuda/exchange.cuh). Pure. */
#ifndef PEALI_CUDA_EXCHANGE_H
#define PEALI_CUDA_EXCHANGE_H

#include <stdbool.h>

#include "cuda/call.h"

/* Notes in CALL, of which all else is loaded for a launch of CTAS, whether it is one, which, and the threads that it then takes. */
void peali_cuda_find_exchange(peali_cuda_call *call, uint32_t ctas);

/* Completes that, once, when CALL has its buffers and scratch. */
void peali_cuda_place(peali_cuda_call *call);

#endif
