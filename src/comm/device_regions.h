/*
 * Buffers of a communicator's ranks that others map, so that calls can work where they lie. A rank offers an allocation of its
 * device, whole, in memory that its peers see; each peer answers where it has mapped it, when it comes by next; and a call votes to
 * work in place as soon as all have answered. Nobody waits for that: the ranks agree in the call itself (cuda/direct.cuh), and a
 * call that comes too early goes through scratch on all of them.
 *
 * An allocation is known by its buffer id, which each call compares: where another one has come to lie at the same address, the
 * offer is withdrawn, and peers let go of what they mapped when they come by. Until then freed memory stays taken.
 */
#ifndef PEALI_DEVICE_REGIONS_H
#define PEALI_DEVICE_REGIONS_H

#include "comm/comm_private.h"
#include "cuda/team.h"

enum { PEALI_REGIONS_OFFERS = 64, PEALI_REGIONS_REFUSED = 8 };

/* Zeroed memory holds none. */
typedef struct peali_offer {
    uint64_t state; /* the number of the offer, times 2; odd: it stands. Release by its owner, when the region is there */
    peali_team_region region;
    uint64_t at[PEALI_CUDA_RANKS];    /* where each rank has mapped it, 0: it cannot */
    uint64_t heard[PEALI_CUDA_RANKS]; /* the state that each rank has come after; release, when AT is there */
} peali_offer;

typedef struct peali_offers {
    uint32_t news; /* how often one of them changed; release */
    peali_offer of[PEALI_REGIONS_OFFERS];
} peali_offers;

/* What a rank keeps of its own and of its peers' offers. */
typedef struct peali_regions_desk {
    const peali_team *team;
    int rank, nranks;
    peali_offers *offers[PEALI_CUDA_RANKS]; /* of each rank */
    uint32_t news[PEALI_CUDA_RANKS];        /* of peers, as this rank last came by */
    uint64_t refused[PEALI_REGIONS_REFUSED]; /* ids of the last allocations that cannot be mapped; 0: none */
    unsigned nrefused;
} peali_regions_desk;

/* Maps what peers offer, and lets go of what they withdrew. */
void peali_regions_come_by(peali_regions_desk *desk);

/* Lets go of all that peers offered. No kernel runs that touches it. */
void peali_regions_leave(peali_regions_desk *desk);

/*
 * Where all ranks see the BYTES at AT, of this rank: false where some does not, or not yet. FRESH: what is not offered is offered,
 * if there is room: peers will come by.
 */
bool peali_regions_find(peali_regions_desk *desk, const void *at, size_t bytes, bool fresh, uint64_t *views);

/* Ends the offer that AT is in: false where there is none. */
bool peali_regions_withdraw(const peali_regions_desk *desk, const void *at);

#endif
