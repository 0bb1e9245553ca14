/* A team from inside: what opening, meeting and launching share. */
#ifndef PEALI_TEAM_PRIVATE_H
#define PEALI_TEAM_PRIVATE_H

#include "cuda/gpu.h"
#include "cuda/team.h"

enum { PEALI_TEAM_MARKS = PEALI_CUDA_RANKS * sizeof(uint64_t) };

/* In host memory, mapped into the device. */
typedef struct peali_team_page {
    peali_cuda_report report[2]; /* what kernels ended with, and for whom one waits */
    uint32_t abort __attribute__((aligned(64)));
    uint64_t given[PEALI_CUDA_RANKS] __attribute__((aligned(64))); /* marks for the others, and from them */
    uint64_t got[PEALI_CUDA_RANKS];
} peali_team_page;

enum { PEALI_TEAM_BESIDES = 4 };

/* For calls by copy engines (cuda/engines.h). */
typedef struct peali_team_engines {
    peali_cu_ptr mine;
    peali_cu_ptr areas[PEALI_CUDA_RANKS]; /* as this device sees them */
    uint64_t room_bytes;                  /* of a piece */
    peali_cu_event event;
    peali_cu_strm beside[PEALI_TEAM_BESIDES];
} peali_team_engines;

struct peali_team {
    peali_gpu *gpu;
    const peali_cuda_driver *cu;
    int rank, n, me;
    bool launched, parted;
    bool stuck; /* a copy never ended: nothing that it touches can be freed */
    peali_cu_strm stream; /* for set-up alone */
    size_t taken;         /* of the GPU's scratch */
    peali_cu_ptr mine, lanes;
    peali_team_page *page;
    peali_cu_ptr page_there;
    peali_post *post;
    peali_cu_ptr post_there, mail_there;
    peali_team_mail mail; /* areas of what arrives, then (room for one that is too long) of what leaves */
    bool ordered;          /* kernels see what a network has written, without a flush */
    uint64_t least; /* scratch of any rank, */
    int within;     /* and ranks within reach of each other, anywhere; 0: as the cards say */
    bool apart;
    peali_cu_ptr scratch[PEALI_CUDA_RANKS]; /* as this device sees them */
    int32_t ranks[PEALI_CUDA_RANKS];        /* in the communicator */
    bool opened[PEALI_CUDA_RANKS];          /* by a handle */
    bool here[PEALI_CUDA_RANKS];            /* of this process */
    char bus[PEALI_CUDA_RANKS][PEALI_TEAM_BUS];
    char far[256];                          /* why not all devices reach each other; empty: they do */
    void *staged[PEALI_CUDA_RANKS];         /* scratch in host memory that this rank has pinned */
    uint64_t expected[PEALI_CUDA_RANKS];    /* the mark of each rank here */
    bool lines;
    peali_cuda_layout layout;
    peali_team_engines engines;
};

/* CALL with what belongs to the communicator and to this very call. */
void peali_team_address(const peali_team *t, peali_cuda_call *call, const void *in, void *out);

/* One launch of CALL's kernel. The context is current. */
peali_cu_result peali_team_kernel(peali_team *t, peali_cuda_call *call, uint32_t ctas, peali_cu_strm stream);

/* Makes T's context current for launches, where the thread's current one is another: PUSHED, for pop. */
peali_cu_result peali_team_push(const peali_team *t, bool *pushed);
void peali_team_pop(const peali_team *t, bool pushed);

/*
 * Waits for what was given to the set-up stream, 10 s at most, or half of PEAL_TIMEOUT: the others still wait then. PEAL_OK;
 * PEAL_ERR_TIMEOUT (logged): it is stuck; PEAL_ERR_CUDA (logged).
 */
PEAL_MUST_CHECK peal_status peali_team_settle(peali_team *t, const char *what);

/* In a visit: what this rank has pinned of the scratch of rank X is let go. */
void peali_team_unpin(peali_team *t, int x);

#endif
