/* Ranks map each other's scratch, and prove that what they store there arrives. */
#include "cuda/team_private.h"

#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#define WAIT_NS INT64_C(10000000000)

peal_status peali_team_settle(peali_team *t, const char *what)
{
    const int64_t timeout = peali_config_get()->timeout_ns, most = timeout > 0 && timeout < WAIT_NS ? timeout : WAIT_NS;
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

static peal_status refuse(const peali_team *t, int x, const char *why)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, t->rank, "device %d does not reach the GPU of rank %d: %s", t->gpu->device,
              t->ranks[x], why);
    return PEAL_ERR_UNSUPPORTED;
}

/* The scratch of a rank of this process. */
static peal_status reach_here(peali_team *t, const peali_team_card *card, int x)
{
    t->scratch[x] = card->address;
    if (card->context == (uintptr_t)t->gpu->context)
        return PEAL_OK;
    peali_cu_result result = t->cu->CtxEnablePeerAccess((peali_cu_ctx)(uintptr_t)card->context, 0);
    return result == 0 || result == PEALI_CU_PEER_ALREADY ? PEAL_OK : refuse(t, x, peali_cuda_error(result));
}

static peal_status reach_there(peali_team *t, const peali_team_card *card, int x)
{
    if (!card->exported)
        return refuse(t, x, "that rank's driver gave no handle for its memory");
    peali_cu_result result = t->cu->IpcOpenMemHandle(&t->scratch[x], card->handle, PEALI_CU_IPC_LAZY_PEER);
    t->opened[x] = result == 0;
    return result == 0 ? PEAL_OK : refuse(t, x, peali_cuda_error(result));
}

static peal_status reach(peali_team *t, const peali_team_card *cards, int x)
{
    if (!same(&cards[x].device, &cards[t->me].device) && !peali_config_get()->p2p)
        return refuse(t, x, "PEAL_P2P=0 forbids it");
    const bool here = cards[x].process == cards[t->me].process;
    peal_status status = here ? reach_here(t, &cards[x], x) : reach_there(t, &cards[x], x);
    if (status == PEAL_OK && x != t->me)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, t->rank, "device %d -> rank %d via %s, %s", t->gpu->device, cards[x].rank,
                  same(&cards[x].device, &cards[t->me].device) ? "the same device" : "p2p", here ? "this process" : "ipc");
    return status;
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

void peali_team_limit(peali_team *team, uint64_t scratch, int within)
{
    team->least = scratch;
    team->within = within;
}

/* The least scratch of all, cut for N ranks. */
static peal_status lay_out(peali_team *t, const peali_team_card *cards)
{
    uint64_t least = t->within ? t->least : UINT64_MAX;
    for (int x = 0; x < t->n; x++)
        least = cards[x].scratch < least ? cards[x].scratch : least;
    t->layout = peali_cuda_lay_out(least, t->within ? t->within : t->n);
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
        if (result != 0)
            return refuse(t, x, peali_cuda_error(result));
    }
    return peali_team_settle(t, "storing to peers");
}

peal_status peali_team_meet(peali_team *team, const peali_team_card *cards, int n, int me)
{
    peali_gpu_visit visit;
    for (int x = 0; x < n; x++)
        if (cards[x].status != PEAL_OK)
            return (peal_status)cards[x].status;
    team->n = n;
    team->me = me;
    for (int x = 0; x < n && n <= PEALI_CUDA_RANKS; x++)
        team->ranks[x] = cards[x].rank;
    if (n > PEALI_CUDA_RANKS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, team->rank, "%d GPUs: kernels take %d at most", n, PEALI_CUDA_RANKS);
        return PEAL_ERR_UNSUPPORTED;
    }
    peal_status status = lay_out(team, cards);
    if (status == PEAL_OK)
        status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    team->lines = true;
    for (int x = 0; x < n && status == PEAL_OK; x++) {
        status = reach(team, cards, x);
        team->lines &= linked(team->cu, team->gpu->device, &cards[x].device);
    }
    if (status == PEAL_OK)
        status = leave_marks(team, cards);
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
            status = refuse(team, x, "its stores do not arrive here, though the driver allows them; IOMMU and PCI access control "
                                     "must let GPUs through. PEAL_P2P=0 keeps to host memory");
    return status;
}
