/*
 * A rank's side: scratch that peers store into and the marks behind it, in one allocation; the state of its lanes, in another that
 * no peer maps; and a page of host memory that kernels report to and are aborted by.
 */
#include "cuda/team.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "cuda/gpu.h"

enum { MARKS = PEALI_CUDA_RANKS * sizeof(uint64_t) };
#define WAIT_NS INT64_C(10000000000)

/* In host memory, mapped into the device. */
typedef struct page {
    peali_cuda_report report[2]; /* what kernels ended with, and for whom one waits */
    uint32_t abort __attribute__((aligned(64)));
    uint64_t given[PEALI_CUDA_RANKS] __attribute__((aligned(64))); /* marks for the others, and from them */
    uint64_t got[PEALI_CUDA_RANKS];
} page;

struct peali_team {
    peali_gpu *gpu;
    const peali_cuda_driver *cu;
    int rank, n, me;
    bool launched, parted;
    bool stuck; /* a copy never ended: nothing that it touches can be freed */
    peali_cu_strm stream; /* for set-up alone */
    size_t taken;         /* of the GPU's scratch */
    peali_cu_ptr mine, lanes;
    page *page;
    peali_cu_ptr page_there;
    peali_post *post;
    peali_cu_ptr post_there, mail_there;
    peali_team_mail mail; /* areas of what arrives, then (room for one that is too long) of what leaves */
    bool ordered;          /* kernels see what a network has written, without a flush */
    peali_gpu_visit visit; /* of the proxy */
    uint64_t least; /* scratch of any rank, */
    int within;     /* and ranks within reach of each other, anywhere */
    peali_cu_ptr scratch[PEALI_CUDA_RANKS]; /* as this device sees them */
    int32_t ranks[PEALI_CUDA_RANKS];        /* in the communicator */
    bool opened[PEALI_CUDA_RANKS];          /* by a handle */
    uint64_t expected[PEALI_CUDA_RANKS];    /* the mark of each rank here */
    bool lines;
    peali_cuda_layout layout;
};

/* A random name of this process: process numbers repeat between containers. */
static uint64_t process;
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void name_process(void)
{
    if (getrandom(&process, sizeof(process), 0) != (ssize_t)sizeof(process))
        process = (uint64_t)peali_clock_ns() ^ (uint64_t)getpid() << 40;
}

/* Waits for what was given to the set-up stream, WAIT_NS or PEAL_TIMEOUT at most. */
static peal_status settle(peali_team *t, const char *what)
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

static peal_status get_memory(peali_team *t, size_t bytes)
{
    const size_t lanes = PEALI_CUDA_LANES * sizeof(peali_cuda_lane) + PEALI_CUDA_PACK; /* and the token */
    const char *call = "cuMemAlloc";
    peali_cu_result result = t->cu->MemAlloc(&t->mine, bytes);
    if (result == 0)
        result = t->cu->MemAlloc(&t->lanes, lanes);
    if (result == 0) {
        call = "cuMemsetD8Async";
        result = t->cu->MemsetD8Async(t->mine, 0, bytes, t->stream);
    }
    if (result == 0)
        result = t->cu->MemsetD8Async(t->lanes, 0, lanes, t->stream);
    return result == 0 ? settle(t, "zeroing scratch") : peali_cuda_failed(t->rank, call, result);
}

/* Zeroed host memory AT, which the device has THERE. */
static peal_status get_host(const peali_team *t, size_t bytes, void **at, peali_cu_ptr *there)
{
    peali_cu_result result = t->cu->MemHostAlloc(at, bytes, PEALI_CU_HOST_PORTABLE | PEALI_CU_HOST_MAPPED);
    if (result != 0) {
        *at = NULL;
        return peali_cuda_failed(t->rank, "cuMemHostAlloc", result);
    }
    memset(*at, 0, bytes);
    result = t->cu->MemHostGetDevicePointer(there, *at, 0);
    return result == 0 ? PEAL_OK : peali_cuda_failed(t->rank, "cuMemHostGetDevicePointer", result);
}

/* Where it cannot be exported, ranks of other processes refuse it, which say why; those of this process need no handle. */
static void export(const peali_team *t, peali_team_card *card)
{
    peali_cu_result result = t->cu->IpcGetMemHandle(&card->handle, t->mine);
    card->exported = result == 0;
    if (result != 0)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, t->rank, "cuIpcGetMemHandle: %s: other processes cannot reach device %d",
                  peali_cuda_error(result), t->gpu->device);
}

/* In a visit. */
static peal_status furnish(peali_team *t, peali_team_card *card)
{
    peali_cu_result result = t->cu->DeviceGetUuid(&card->device, t->gpu->device);
    if (result != 0)
        return peali_cuda_failed(t->rank, "cuDeviceGetUuid", result);
    result = t->cu->StreamCreate(&t->stream, PEALI_CU_STREAM_NON_BLOCKING);
    if (result != 0)
        return peali_cuda_failed(t->rank, "cuStreamCreate", result);
    t->taken = peali_gpu_take(t->gpu, t->rank);
    peal_status status = t->taken ? get_memory(t, t->taken) : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        status = get_host(t, sizeof(page), (void **)&t->page, &t->page_there);
    if (status == PEAL_OK)
        export(t, card);
    return status;
}

static peal_status open_device(peali_team *t, peali_team_card *card)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_open(t->rank, &t->gpu);
    if (status != PEAL_OK)
        return status;
    t->cu = t->gpu->cu;
    status = peali_gpu_enter(t->gpu, t->rank, &visit);
    if (status != PEAL_OK)
        return status;
    status = furnish(t, card);
    peali_gpu_leave(t->gpu, &visit);
    card->rank = t->rank;
    card->process = process;
    card->context = (uintptr_t)t->gpu->context;
    card->address = t->mine;
    card->scratch = t->taken - MARKS;
    return status;
}

peal_status peali_team_open(peali_team **team, int rank, peali_team_card *card)
{
    *team = NULL;
    memset(card, 0, sizeof *card);
    pthread_once(&named, name_process);
    peali_team *t = peali_alloc(1, sizeof *t);
    peal_status status = PEAL_ERR_MEMORY;
    if (t) {
        t->rank = rank;
        status = open_device(t, card);
    }
    card->status = status;
    if (status == PEAL_OK)
        *team = t;
    else
        peali_team_close(&t);
    return status;
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
    const bool here = cards[x].process == process;
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
        peali_cu_ptr from = t->page_there + offsetof(page, given) + (size_t)x * sizeof(uint64_t);
        peali_cu_ptr to = t->scratch[x] + cards[x].scratch + (size_t)t->me * sizeof(uint64_t);
        peali_cu_result result = t->cu->MemcpyAsync(to, from, sizeof(uint64_t), t->stream);
        if (result != 0)
            return refuse(t, x, peali_cuda_error(result));
    }
    return settle(t, "storing to peers");
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
    const peali_cu_ptr to = team->page_there + offsetof(page, got), from = team->mine + team->taken - MARKS;
    peali_cu_result result = team->cu->MemcpyAsync(to, from, MARKS, team->stream);
    status = result == 0 ? settle(team, "reading what peers stored") : peali_cuda_failed(team->rank, "cuMemcpyAsync", result);
    peali_gpu_leave(team->gpu, &visit);
    for (int x = 0; x < team->n && status == PEAL_OK; x++)
        if (team->page->got[x] != team->expected[x])
            status = refuse(team, x, "its stores do not arrive here, though the driver allows them; IOMMU and PCI access control "
                                     "must let GPUs through. PEAL_P2P=0 keeps to host memory");
    return status;
}

/* Of a lane's messages one way: two areas. */
static size_t mail_bytes(const peali_team *t)
{
    return 2 * t->layout.lanes * t->layout.area_bytes[PEALI_CUDA_BULK];
}

peal_status peali_team_make_post(peali_team *team)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    status = get_host(team, sizeof *team->post, (void **)&team->post, &team->post_there);
    peali_gpu_leave(team->gpu, &visit);
    return status;
}

peali_post *peali_team_post(const peali_team *team)
{
    return team->post;
}

/* In a visit. */
static peal_status get_device_mail(peali_team *t)
{
    peali_cu_enum attribute = PEALI_CU_POINTER_BUFFER;
    unsigned long long id = 0;
    void *value = &id;
    peali_cu_result result = t->cu->MemAlloc(&t->mail_there, t->mail.bytes);
    if (result != 0)
        return peali_cuda_failed(t->rank, "cuMemAlloc", result);
    t->mail.at = (unsigned char *)(uintptr_t)t->mail_there;
    result = t->cu->PointerGetAttributes(1, &attribute, &value, t->mail_there);
    t->mail.id = id;
    return result == 0 ? PEAL_OK : peali_cuda_failed(t->rank, "cuPointerGetAttributes", result);
}

peal_status peali_team_make_mail(peali_team *team, bool device, const peali_team_mail **mail)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    team->mail = (peali_team_mail){.bytes = 2 * mail_bytes(team), .device = device};
    status = device ? get_device_mail(team) : get_host(team, team->mail.bytes, (void **)&team->mail.at, &team->mail_there);
    peali_gpu_leave(team->gpu, &visit);
    *mail = &team->mail;
    return status;
}

/* In a visit. */
static void free_mail(peali_team *t)
{
    if (t->mail.at && t->mail.device)
        (void)t->cu->MemFree(t->mail_there);
    else if (t->mail.at)
        (void)t->cu->MemFreeHost(t->mail.at);
    t->mail.at = NULL;
}

void peali_team_drop_mail(peali_team *team)
{
    peali_gpu_visit visit;
    if (peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return;
    free_mail(team);
    peali_gpu_leave(team->gpu, &visit);
}

bool peali_team_host_reads(const peali_team *team)
{
    peali_cu_enum attribute = PEALI_CU_POINTER_HOST;
    void *host = NULL, *value = &host;
    return team->cu->PointerGetAttributes(1, &attribute, &value, team->mine) == 0 && (uintptr_t)host == team->mine;
}

bool peali_team_takes_writes(peali_team *team)
{
    int flushes = 0, ordering = 0;
    (void)team->cu->DeviceGetAttribute(&flushes, PEALI_CU_DEVICE_RDMA_FLUSHES, team->gpu->device);
    (void)team->cu->DeviceGetAttribute(&ordering, PEALI_CU_DEVICE_RDMA_ORDERING, team->gpu->device);
    team->ordered = ordering >= PEALI_CU_RDMA_OWNER;
    return team->ordered || (flushes & PEALI_CU_RDMA_FLUSH_HOST);
}

peal_status peali_team_enter(peali_team *team)
{
    return peali_gpu_enter(team->gpu, team->rank, &team->visit);
}

void peali_team_leave(peali_team *team)
{
    peali_gpu_leave(team->gpu, &team->visit);
}

peal_status peali_team_flush(const peali_team *team)
{
    if (team->ordered)
        return PEAL_OK;
    peali_cu_result result = team->cu->FlushGPUDirectRDMAWrites(PEALI_CU_RDMA_CONTEXT, PEALI_CU_RDMA_OWNER);
    return result == 0 ? PEAL_OK : peali_cuda_failed(team->rank, "cuFlushGPUDirectRDMAWrites", result);
}

peal_status peali_team_copy(peali_team *team, void *to, const void *from, size_t bytes)
{
    peali_cu_result result = team->cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, team->stream);
    return result == 0 ? settle(team, "copying messages") : peali_cuda_failed(team->rank, "cuMemcpyAsync", result);
}

const peali_cuda_layout *peali_team_layout(const peali_team *team)
{
    return &team->layout;
}

int peali_team_device(const peali_team *team)
{
    return team->gpu->device;
}

bool peali_team_lines(const peali_team *team)
{
    return team->lines;
}

void *peali_team_token(const peali_team *team)
{
    return (void *)(uintptr_t)(team->lanes + PEALI_CUDA_LANES * sizeof(peali_cuda_lane));
}

/* CALL with what belongs to the communicator and to this very call. */
static void address(const peali_team *t, peali_cuda_call *call, const void *in, void *out)
{
    call->in = in;
    call->out = out;
    call->aligned = (uint8_t)peali_cuda_aligned(call, in, out);
    for (int x = 0; x < t->n; x++)
        call->scratch[x] = (unsigned char *)(uintptr_t)t->scratch[x];
    if (t->post) {
        peali_cu_ptr arrives = t->mail_there - t->layout.areas[PEALI_CUDA_BULK];
        call->scratch[PEALI_CUDA_ARRIVES - PEALI_CUDA_SLOT] = (unsigned char *)(uintptr_t)arrives;
        call->scratch[PEALI_CUDA_LEAVES - PEALI_CUDA_SLOT] = (unsigned char *)(uintptr_t)(arrives + mail_bytes(t));
        call->post = (peali_post *)(uintptr_t)t->post_there;
    }
    call->layout = t->layout;
    call->lane = (peali_cuda_lane *)(uintptr_t)t->lanes;
    call->report = (peali_cuda_report *)(uintptr_t)(t->page_there + offsetof(page, report));
    call->abort = (const uint32_t *)(uintptr_t)(t->page_there + offsetof(page, abort));
}

/* Where the thread's current context is another one, this one is made current for the launch. */
static peali_cu_result launch(const peali_team *t, peali_cuda_call *call, uint32_t ctas, peali_cu_strm stream)
{
    peali_cu_func kernel = peali_gpu_kernel(t->gpu, peali_cuda_kernel(call));
    void *parameters[] = {call};
    peali_cu_ctx current = NULL;
    peali_cu_result result = t->cu->CtxGetCurrent(&current);
    bool push = current != t->gpu->context;
    if (result == 0 && push)
        result = t->cu->CtxPushCurrent(t->gpu->context);
    if (result != 0)
        return result;
    result = t->cu->LaunchKernel(kernel, ctas, 1, 1, peali_cuda_threads(call), 1, 1, 0, stream, parameters, NULL);
    if (push)
        (void)t->cu->CtxPopCurrent(&current);
    return result;
}

peal_status peali_team_launch(peali_team *team, const peali_cuda_call *call, uint32_t ctas, const void *in, void *out,
                              peali_cu_strm stream)
{
    peali_cuda_call mine = *call;
    address(team, &mine, in, out);
    team->launched = true;
    peali_cu_result result = launch(team, &mine, ctas, stream);
    return result == 0 ? PEAL_OK : peali_cuda_failed(team->rank, "cuLaunchKernel", result);
}

/* Acquire: the rest of the report was written before its kind, by a kernel. */
const peali_cuda_report *peali_team_report(const peali_team *team)
{
    return peali_load_acquire(&team->page->report[0].kind) == PEALI_CUDA_FINE ? NULL : &team->page->report[0];
}

/* Acquires likewise. */
const peali_cuda_report *peali_team_notice(const peali_team *team)
{
    return peali_load_acquire(&team->page->report[1].kind) == PEALI_CUDA_FINE ? NULL : &team->page->report[1];
}

/* The next one is written when this one was read. */
void peali_team_heed(peali_team *team)
{
    peali_store_release(&team->page->report[1].kind, PEALI_CUDA_FINE);
}

void peali_team_abort(peali_team *team)
{
    peali_store_relaxed(&team->page->abort, 1);
}

/* Kernels run in streams that may have been destroyed since, and graphs: only the whole context can be waited for. */
void peali_team_part(peali_team *team)
{
    peali_gpu_visit visit;
    if (team->parted || team->stuck || peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return;
    team->parted = true;
    peali_cu_result result = team->launched ? team->cu->CtxSynchronize() : team->cu->StreamSynchronize(team->stream);
    if (result != 0)
        (void)peali_cuda_failed(team->rank, "waiting for the device", result);
    for (int x = 0; x < team->n; x++)
        if (team->opened[x])
            (void)team->cu->IpcCloseMemHandle(team->scratch[x]);
    peali_gpu_leave(team->gpu, &visit);
}

/* In a visit. Where set-up failed, its last copies may be under way. */
static void clear(peali_team *t)
{
    if (t->stream) {
        (void)t->cu->StreamSynchronize(t->stream);
        (void)t->cu->StreamDestroy(t->stream);
    }
    if (t->mine)
        (void)t->cu->MemFree(t->mine);
    if (t->lanes)
        (void)t->cu->MemFree(t->lanes);
    if (t->page)
        (void)t->cu->MemFreeHost(t->page);
    if (t->post)
        (void)t->cu->MemFreeHost(t->post);
    free_mail(t);
}

void peali_team_close(peali_team **team)
{
    peali_team *t = *team;
    peali_gpu_visit visit;
    *team = NULL;
    if (!t)
        return;
    if (t->n)
        peali_team_part(t);
    if (t->gpu && !t->stuck && peali_gpu_enter(t->gpu, t->rank, &visit) == PEAL_OK) {
        clear(t);
        peali_gpu_leave(t->gpu, &visit);
        peali_gpu_give(t->gpu, t->taken);
    }
    if (t->gpu)
        peali_gpu_close(&t->gpu);
    peali_free(t);
}
