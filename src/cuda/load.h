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
    uint32_t ctas; /* at least so many slices are made where there is work for them; */
    uint32_t most_ctas; /* and so many are used rather than several slices one after the other; below CTAS: CTAS */
    uint32_t longest; /* slice, in packs of a part: what peali_cuda_longest gives for any rank, at most; 0: for this one */
} peali_cuda_job;

/*
 * Where everything of a rank's scratch of BYTES lies, for NRANKS within reach; FAR: others are not. bytes of the result is 0:
 * that is too little.
 *
 * With messages, lanes are few, so that a slice is long: a message costs the proxy 10 us and more, over tcp as much as 30 KiB of
 * it.
 */
peali_cuda_layout peali_cuda_lay_out(size_t bytes, int nranks, bool far);

/*
 * The longest slice of PROGRAM that fits LAYOUT's areas, in packs of 16 bytes of a part. 0: none does, or the program is not for
 * kernels at all. Ranks out of reach have other programs, but slices must be the same.
 */
uint32_t peali_cuda_longest(const peali_program *program, const peali_cuda_job *job, const peali_cuda_layout *layout);

/*
 * Fills CALL, but for the buffers of a call (in, out, aligned) and what belongs to the communicator (scratch, lane, report, abort,
 * deadline, signature). The slices are as many as make the landings of one fit LAYOUT's areas. CTAS: of the launch, at least 1.
 * JOB's kind is that of the program's algorithm.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED the program is longer than a launch takes, has messages to ranks out of reach in lines of
 *          128 bytes, or reduces what the kernels do not (long double, products of complex numbers). Nothing is logged. The same on
 *          all ranks, if they give the same job and layout and all are within reach; else one rank's program may be longer.
 */
PEAL_MUST_CHECK peal_status peali_cuda_load(const peali_program *program, const peali_cuda_job *job,
                                            const peali_cuda_layout *layout, peali_cuda_call *call, uint32_t *ctas);

/*
 * Can calls by these programs (place, of all ranks, each in reach of all) be done where vectors lie? That is so where no rank waits
 * for another one's work: INs are read, and OUTs stored to, and in between all is one instruction.
 */
bool peali_cuda_one_round(peali_program *const *programs);

/*
 * Lets CALL, which peali_cuda_load filled for a launch of *CTAS, be done so where its ranks' vectors are mapped (call->views, which
 * are the caller's to fill), and as before where they are not. PROGRAM: this rank's, of such a set, by the same algorithm. MOST, up
 * to the layout's direct lanes: then the launch takes so many CTAs, if that is more; the same on all ranks.
 */
void peali_cuda_load_direct(const peali_program *program, uint32_t most, peali_cuda_call *call, uint32_t *ctas);

/* The kernel that runs CALL, by name. */
const char *peali_cuda_kernel(const peali_cuda_call *call);

/* Of a block: one for each unit of a slice, and a warp for each operation of a run of lines, up to a full block. */
uint32_t peali_cuda_threads(const peali_cuda_call *call);

/* Which operations go together, and which wait for the others, in blocks of THREADS, those of the board among them. */
void peali_cuda_order(peali_cuda_call *call, uint32_t threads);

/* 1 where BYTES bytes at AT, and all parts of the vector, begin at a multiple of 16. For CALL->aligned, of both buffers. */
static inline int peali_cuda_aligned(const peali_cuda_call *call, const void *in, const void *out)
{
    return (((uintptr_t)in | (uintptr_t)out | (call->parts > 1 ? call->part_bytes : 0)) & (PEALI_CUDA_PACK - 1)) == 0;
}

#endif
