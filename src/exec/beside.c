/*
 * What the ranks within reach show each other of calls that run elsewhere, on GPUs: such a call has no messages that could be
 * compared, and its rank is not here to be asked. Another thread may look, and tell.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"

static_assert(sizeof(peali_quarrel) == PEALI_REACH_QUARREL * sizeof(uint64_t), "a quarrel is told word by word");

bool peali_runner_shown(const peali_runner *r, int32_t x, peali_signature *call)
{
    uint64_t last = peali_load_relaxed(&r->shown[x]->front.call);
    for (int k = 0; k < PEALI_SIGNATURE_PAST; k++)
        if (peali_signature_look(&r->shown[x]->past[k], call) && peali_signature_hash(call) == last)
            return true;
    return false;
}

void peali_runner_tell(const peali_runner *r, const peali_quarrel *quarrel)
{
    for (int32_t x = 0; x < r->nreach; x++) {
        peali_public *p = r->shown[x];
        if (x == r->me || peali_add_relaxed(&p->tellers, 1) > 0)
            continue;
        memcpy(p->quarrel, quarrel, sizeof *quarrel);
        peali_store_release(&p->told, 1); /* pairs with peali_runner_told */
        peali_store_relaxed(&p->alarm, 1);
    }
}

bool peali_runner_told(const peali_runner *r, peali_quarrel *quarrel)
{
    if (!peali_load_acquire(&r->mine->told))
        return false;
    memcpy(quarrel, r->mine->quarrel, sizeof *quarrel);
    return true;
}

bool peali_runner_quarrel(const peali_runner *r, peali_quarrel *quarrel)
{
    if (peali_load_acquire(&r->failed) == PEAL_OK) /* pairs with fail() */
        return false;
    *quarrel = r->quarrel;
    return quarrel->one_rank >= 0;
}

void *peali_runner_theirs(const peali_runner *r, int32_t x, uint64_t address)
{
    return (void *)(uintptr_t)(address + (uint64_t)(x == r->me ? 0 : r->shift[x]));
}

peal_status peali_runner_failure(const peali_runner *r)
{
    const peal_status failed = peali_load_acquire(&r->failed);
    return failed == PEAL_OK && peali_load_relaxed(&r->aborted) ? PEAL_ERR_ABORTED : failed;
}
