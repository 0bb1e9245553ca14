/*
 * Ranks map each other's scratch, and prove that what they store there arrives; where some cannot, the scratch of all of them moves
 * into memory of the host.
 *
 * Scratch in host memory is the same to kernels, only slower: their flags, and the loads and stores that these order, are of system
 * scope, and each half of a line of 16 bytes arrives whole there too. That lines of 128 bytes do is known of NVLink only.
 */
#include "cuda/team_private.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#define WAIT_NS INT64_C(10000000000)

peal_status peali_team_settle(peali_team *t, const char *what)
{
    const int64_t half = peali_config_get()->timeout_ns / 2, most = half > 0 && half < WAIT_NS ? half : WAIT_NS;
    const int64_t end = peali_clock_ns() + most;
    for (;;) {
        peali_cu_result result = t->cu->StreamQuery(t->stream);
        if (result == 0)
            return PEAL_OK;
        if (result != PEALI_CU_NOT_READY)
            return peali_cuda_failed(t->rank, what, result);
        if (peali_clock_ns() > end)
            break;
        peali_clock_sleep(20000);
    }
    t->stuck = true;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, t->rank,
              "%s: device %d has not done it after %g s; look at nvidia-smi and the kernel's log", what, t->gpu->device,
              (double)most * 1e-9);
    return PEAL_ERR_TIMEOUT;
}

static bool same(const peali_cu_uuid *a, const peali_cu_uuid *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The mark of the rank of card FROM in the scratch of the rank of card TO; never 0. */
static uint64_t mark(const peali_team_card *from, const peali_team_card *to)
{
    return ((from->process + from->address) * UINT64_C(0x9e3779b97f4a7c15) ^ (to->process + to->address)) | 1;
}

/* The first one is told. */
static void too_far(peali_team *t, int x, const char *why)
{
    if (!t->far[0])
        snprintf(t->far, sizeof t->far, "device %d (%s) and that of rank %d (%s) do not reach each other: %s", t->gpu->device,
                 t->bus[t->me], t->ranks[x], t->bus[x], why);
}

/* The scratch of a rank of this process. */
static void reach_here(peali_team *t, const peali_team_card *card, int x)
{
    t->scratch[x] = card->address;
    if (card->context == (uintptr_t)t->gpu->context)
        return;
    peali_cu_result result = t->cu->CtxEnablePeerAccess((peali_cu_ctx)(uintptr_t)card->context, 0);
    if (result != 0 && result != PEALI_CU_PEER_ALREADY)
        too_far(t, x, peali_cuda_error(result));
}

static void reach_there(peali_team *t, const peali_team_card *card, int x)
{
    peali_cu_result result = 0;
    if (card->exported)
        result = t->cu->IpcOpenMemHandle(&t->scratch[x], card->handle, PEALI_CU_IPC_LAZY_PEER);
    t->opened[x] = card->exported && result == 0;
    if (!t->opened[x])
        too_far(t, x, card->exported ? peali_cuda_error(result) : "that rank's driver gave no handle for its memory");
}

static void reach(peali_team *t, const peali_team_card *cards, int x)
{
    const bool own = same(&cards[x].device, &cards[t->me].device);
    if (!own && !peali_config_get()->p2p)
        too_far(t, x, "PEAL_P2P=0 forbids it");
    else if (t->here[x])
        reach_here(t, &cards[x], x);
    else
        reach_there(t, &cards[x], x);
    if (!t->far[0] && x != t->me)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, t->rank, "device %d -> rank %d via %s, %s", t->gpu->device, cards[x].rank,
                  own ? "the same device" : "p2p", t->here[x] ? "this process" : "ipc");
}

/* Atomics go over NVLink, and not over PCI. */
static bool linked(const peali_cuda_driver *cu, peali_cu_device mine, const peali_cu_uuid *peer)
{
    int n = 0, atomics = 0;
    if (cu->DeviceGetCount(&n) != 0)
        return false;
    for (int i = 0; i < n; i++) {
        peali_cu_device device;
        peali_cu_uuid uuid;
        if (cu->DeviceGet(&device, i) != 0 || cu->DeviceGetUuid(&uuid, device) != 0 || !same(&uuid, peer))
            continue;
        return device == mine || (cu->DeviceGetP2PAttribute(&atomics, PEALI_CU_P2P_ATOMICS, mine, device) == 0 && atomics);
    }
    return false;
}

void peali_team_limit(peali_team *team, uint64_t scratch, int within, bool apart)
{
    team->least = scratch;
    team->within = within;
    team->apart = apart;
}

/* The least scratch of all, cut for N ranks. */
static peal_status lay_out(peali_team *t, const peali_team_card *cards)
{
    uint64_t least = t->within ? t->least : UINT64_MAX;
    for (int x = 0; x < t->n; x++)
        least = cards[x].scratch < least ? cards[x].scratch : least;
    t->layout = peali_cuda_lay_out(least, t->within ? t->within : t->n, t->within && t->apart);
    if (t->layout.bytes)
        return PEAL_OK;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, t->rank,
              "%d ranks need more than the %zu bytes of scratch that one of them has left; raise PEAL_SCRATCH", t->n,
              (size_t)least);
    return PEAL_ERR_UNSUPPORTED;
}

/* Stores this rank's mark behind the scratch of every rank. */
static peal_status leave_marks(peali_team *t, const peali_team_card *cards)
{
    for (int x = 0; x < t->n; x++) {
        t->page->given[x] = mark(&cards[t->me], &cards[x]);
        t->expected[x] = mark(&cards[x], &cards[t->me]);
        peali_cu_ptr from = t->page_there + offsetof(peali_team_page, given) + (size_t)x * sizeof(uint64_t);
        peali_cu_ptr to = t->scratch[x] + cards[x].scratch + (size_t)t->me * sizeof(uint64_t);
        peali_cu_result result = t->cu->MemcpyAsync(to, from, sizeof(uint64_t), t->stream);
        if (result != 0 && x == t->me)
            return peali_cuda_failed(t->rank, "cuMemcpyAsync", result);
        if (result != 0)
            too_far(t, x, peali_cuda_error(result));
    }
    return peali_team_settle(t, "storing to peers (PEAL_P2P=0 does without)");
}

/* Those of all ranks, until one is out of reach. */
static peal_status reach_all(peali_team *t, const peali_team_card *cards)
{
    t->lines = true;
    for (int x = 0; x < t->n && !t->far[0]; x++) {
        reach(t, cards, x);
        t->lines &= linked(t->cu, t->gpu->device, &cards[x].device);
    }
    return t->far[0] ? PEAL_OK : leave_marks(t, cards);
}

/* What is known of the others by their cards. */
static void know(peali_team *t, const peali_team_card *cards)
{
    for (int x = 0; x < t->n; x++) {
        t->ranks[x] = cards[x].rank;
        t->here[x] = cards[x].process == cards[t->me].process;
        memcpy(t->bus[x], cards[x].bus, sizeof t->bus[x]);
    }
}

peal_status peali_team_meet(peali_team *team, const peali_team_card *cards, int n, int me)
{
    peali_gpu_visit visit;
    for (int x = 0; x < n; x++)
        if (cards[x].status != PEAL_OK)
            return (peal_status)cards[x].status;
    team->n = n;
    team->me = me;
    if (n > PEALI_CUDA_RANKS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, team->rank, "%d GPUs: kernels take %d at most", n, PEALI_CUDA_RANKS);
        return PEAL_ERR_UNSUPPORTED;
    }
    know(team, cards);
    peal_status status = lay_out(team, cards);
    if (status == PEAL_OK)
        status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    status = reach_all(team, cards);
    peali_gpu_leave(team->gpu, &visit);
    return status;
}

peal_status peali_team_prove(peali_team *team)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    const peali_cu_ptr to = team->page_there + offsetof(peali_team_page, got);
    peali_cu_result result = team->cu->MemcpyAsync(to, team->mine + team->taken - PEALI_TEAM_MARKS, PEALI_TEAM_MARKS, team->stream);
    if (result == 0)
        status = peali_team_settle(team, "reading what peers stored");
    else
        status = peali_cuda_failed(team->rank, "cuMemcpyAsync", result);
    peali_gpu_leave(team->gpu, &visit);
    for (int x = 0; x < team->n && status == PEAL_OK; x++)
        if (team->page->got[x] != team->expected[x])
            too_far(team, x, "a store was lost, though the driver allows it; IOMMU and PCI access control must let GPUs through");
    return status;
}

const char *peali_team_far(const peali_team *team)
{
    return team->far[0] ? team->far : NULL;
}

void peali_team_unpin(peali_team *t, int x)
{
    if (t->staged[x])
        (void)t->cu->MemHostUnregister(t->staged[x]);
    t->staged[x] = NULL;
}

/* In a visit. Memory of another rank of this process, that rank has pinned. */
static peal_status pin(peali_team *t, int x, void *scratch)
{
    if (x == t->me || !t->here[x]) {
        const unsigned flags = PEALI_CU_HOST_PORTABLE | PEALI_CU_HOST_MAPPED;
        peali_cu_result result = t->cu->MemHostRegister(scratch, t->layout.bytes, flags);
        if (result != 0)
            return peali_cuda_failed(t->rank, "cuMemHostRegister", result);
        t->staged[x] = scratch;
    }
    peali_cu_result result = t->cu->MemHostGetDevicePointer(&t->scratch[x], scratch, 0);
    return result == 0 ? PEAL_OK : peali_cuda_failed(t->rank, "cuMemHostGetDevicePointer", result);
}

peal_status peali_team_stage(peali_team *team, int x, void *scratch)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    if (team->opened[x])
        (void)team->cu->IpcCloseMemHandle(team->scratch[x]);
    team->opened[x] = false;
    status = pin(team, x, scratch);
    team->lines = false;
    peali_gpu_leave(team->gpu, &visit);
    return status;
}
