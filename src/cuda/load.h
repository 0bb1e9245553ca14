/* A lowered program (push) and a job, laid out for the kernel: pure, no driver, so it is tested without a GPU. */
#ifndef PEALI_CUDA_LOAD_H
#define PEALI_CUDA_LOAD_H

#include "cuda/call.h"
#include "lower/lower.h"

/* What a call is made for. */
typedef struct peali_cuda_job {
    peal_kind kind;
    size_t count; /* as the user gives it */
    peal_type type;
    peal_op op;
    int32_t root;
    peali_cuda_proto proto;
    uint32_t ctas; /* at most; at least so many slices are made where there is work for them */
} peali_cuda_job;

/* Where everything of a rank's scratch of BYTES lies, for NRANKS within reach. bytes of the result is 0: that is too little. */
peali_cuda_layout peali_cuda_lay_out(size_t bytes, int nranks);

/*
 * Fills CALL, but for the buffers of a call (in, out, aligned) and what belongs to the communicator (scratch, lane, tmp, report,
 * abort, deadline, signature). The slices are as many as make the landings of one fit LAYOUT's areas. CTAS: of the launch.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED the program is longer than a launch takes, or has messages to ranks out of reach.
 */
PEAL_MUST_CHECK peal_status peali_cuda_load(const peali_program *program, const peali_cuda_job *job, const peali_cuda_layout *layout,
                                            peali_cuda_call *call, uint32_t *ctas);

#endif
