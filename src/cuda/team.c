/*
 * A rank's side: scratch that peers store into and the marks behind it, in one allocation; the state of its lanes, in another that
 * no peer maps; and a page of host memory that kernels report to and are aborted by.
 */
#include "cuda/engines.h"
#include "cuda/exchange.h"
#include "cuda/team_private.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"

/* A random name of this process: process numbers repeat between containers. */
static uint64_t process;
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void name_process(void)
{
    if (getrandom(&process, sizeof(process), 0) != (ssize_t)sizeof(process))
        process = (uint64_t)peali_clock_ns() ^ (uint64_t)getpid() << 40;
}

static peal_status get_memory(peali_team *t, size_t bytes)
{
    const size_t lanes = PEALI_CUDA_DIRECT_LANES * sizeof(peali_cuda_lane) + PEALI_CUDA_PACK; /* and the token */
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
    return result == 0 ? peali_team_settle(t, "zeroing scratch") : peali_cuda_failed(t->rank, call, result);
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

/* Where it cannot be exported, it is far from ranks of other processes, which say why; those of this process need no handle. */
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
    (void)t->cu->DeviceGetPCIBusId(card->bus, sizeof card->bus, t->gpu->device);
    (void)t->cu->DeviceGetAttribute(&card->sms, PEALI_CU_DEVICE_SMS, t->gpu->device);
    result = t->cu->StreamCreate(&t->stream, PEALI_CU_STREAM_NON_BLOCKING);
    if (result != 0)
        return peali_cuda_failed(t->rank, "cuStreamCreate", result);
    t->taken = peali_gpu_take(t->gpu, t->rank);
    peal_status status = t->taken ? get_memory(t, t->taken) : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        status = get_host(t, sizeof(peali_team_page), (void **)&t->page, &t->page_there);
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
    card->scratch = t->taken - PEALI_TEAM_MARKS;
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

/* Of messages one way: two areas for each lane. */
static size_t way_bytes(const peali_team *t, int proto)
{
    return 2 * t->layout.lanes * t->layout.area_bytes[proto];
}

size_t peali_team_lines_bytes(const peali_team *team)
{
    return 2 * way_bytes(team, PEALI_CUDA_LL);
}

peal_status peali_team_make_post(peali_team *team)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    status = get_host(team, sizeof *team->post + peali_team_lines_bytes(team), (void **)&team->post, &team->post_there);
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
    team->mail = (peali_team_mail){.bytes = 2 * way_bytes(team, PEALI_CUDA_BULK), .device = device};
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

void peali_team_keep_mail(peali_team *team)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, team->rank, "%zu bytes of messages of device %d are kept: a transport may "
              "still touch them", team->mail.bytes, team->gpu->device);
    team->mail.at = NULL;
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

peal_status peali_team_enter(const peali_team *team, uint32_t *visit)
{
    peali_gpu_visit now = {0};
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &now);
    *visit = now.mode;
    return status;
}

void peali_team_leave(const peali_team *team, const uint32_t *visit)
{
    peali_gpu_leave(team->gpu, &(peali_gpu_visit){*visit});
}

peal_status peali_team_flush(const peali_team *team)
{
    peali_gpu_visit visit;
    if (team->ordered)
        return PEAL_OK;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    peali_cu_result result = team->cu->FlushGPUDirectRDMAWrites(PEALI_CU_RDMA_CONTEXT, PEALI_CU_RDMA_OWNER);
    peali_gpu_leave(team->gpu, &visit);
    return result == 0 ? PEAL_OK : peali_cuda_failed(team->rank, "cuFlushGPUDirectRDMAWrites", result);
}

peal_status peali_team_copy(peali_team *team, void *to, const void *from, size_t bytes)
{
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    peali_cu_result result = team->cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, team->stream);
    status = result == 0 ? peali_team_settle(team, "copying messages") : peali_cuda_failed(team->rank, "cuMemcpyAsync", result);
    peali_gpu_leave(team->gpu, &visit);
    return status;
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
    return (void *)(uintptr_t)(team->lanes + PEALI_CUDA_DIRECT_LANES * sizeof(peali_cuda_lane));
}

void peali_team_address(const peali_team *t, peali_cuda_call *call, const void *in, void *out)
{
    call->in = in;
    call->out = out;
    call->aligned = (uint8_t)peali_cuda_aligned(call, in, out);
    for (int x = 0; x < t->n; x++)
        call->scratch[x] = (unsigned char *)(uintptr_t)t->scratch[x];
    if (t->post) {
        const bool bulk = call->proto == PEALI_CUDA_BULK;
        peali_cu_ptr arrives = (bulk ? t->mail_there : t->post_there + sizeof *t->post) - t->layout.areas[call->proto];
        call->scratch[PEALI_CUDA_ARRIVES - PEALI_CUDA_SLOT] = (unsigned char *)(uintptr_t)arrives;
        call->scratch[PEALI_CUDA_LEAVES - PEALI_CUDA_SLOT] = (unsigned char *)(uintptr_t)(arrives + way_bytes(t, call->proto));
        call->post = (peali_post *)(uintptr_t)t->post_there;
    }
    call->layout = t->layout;
    peali_cuda_place(call);
    call->lane = (peali_cuda_lane *)(uintptr_t)t->lanes;
    call->report = (peali_cuda_report *)(uintptr_t)(t->page_there + offsetof(peali_team_page, report));
    call->abort = (const uint32_t *)(uintptr_t)(t->page_there + offsetof(peali_team_page, abort));
}

peali_cu_result peali_team_kernel(peali_team *t, peali_cuda_call *call, uint32_t ctas, peali_cu_strm stream)
{
    peali_cu_func kernel = peali_gpu_kernel(t->gpu, peali_cuda_kernel(call));
    void *parameters[] = {call};
    peali_cu_launch_attribute early = {.id = PEALI_CU_LAUNCH_SERIALIZATION, .value = {.serialization = 1}};
    const peali_cu_launch launch = {{ctas, 1, 1}, {call->threads, 1, 1}, 0, stream, &early, t->gpu->early};
    t->launched = true;
    return t->cu->LaunchKernelEx(&launch, kernel, parameters, NULL);
}

peali_cu_result peali_team_push(const peali_team *t, bool *pushed)
{
    peali_cu_ctx current = NULL;
    peali_cu_result result = t->cu->CtxGetCurrent(&current);
    const bool other = result == 0 && current != t->gpu->context;
    if (other)
        result = t->cu->CtxPushCurrent(t->gpu->context);
    *pushed = other && result == 0;
    return result;
}

void peali_team_pop(const peali_team *t, bool pushed)
{
    peali_cu_ctx current;
    if (pushed)
        (void)t->cu->CtxPopCurrent(&current);
}

peali_cu_result peali_team_capturing(const peali_team *team, peali_cu_strm stream, peali_cu_enum *state)
{
    bool pushed;
    peali_cu_result result = peali_team_push(team, &pushed);
    if (result == 0)
        result = peali_gpu_capturing(stream, state);
    peali_team_pop(team, pushed);
    return result;
}

static peali_cu_result launch(peali_team *t, peali_cuda_call *call, uint32_t ctas, peali_cu_strm stream)
{
    bool pushed;
    peali_cu_result result = peali_team_push(t, &pushed);
    if (result == 0)
        result = peali_team_kernel(t, call, ctas, stream);
    peali_team_pop(t, pushed);
    return result;
}

peal_status peali_team_launch(peali_team *team, const peali_cuda_call *call, uint32_t ctas, const void *in, void *out,
                              peali_cu_strm stream)
{
    peali_cuda_call mine = *call;
    peali_team_address(team, &mine, in, out);
    peali_cu_result result = launch(team, &mine, ctas, stream);
    return result == 0 ? PEAL_OK : peali_cuda_failed(team->rank, "cuLaunchKernelEx", result);
}

uint64_t peali_team_buffer(const peali_team *team, const void *at)
{
    peali_cu_enum attribute = PEALI_CU_POINTER_BUFFER;
    unsigned long long id = 0;
    void *value = &id;
    return team->cu->PointerGetAttributes(1, &attribute, &value, (peali_cu_ptr)(uintptr_t)at) == 0 ? id : 0;
}

bool peali_team_export(const peali_team *team, const void *at, peali_team_region *region)
{
    peali_gpu_visit visit;
    peali_cu_ptr base = 0;
    size_t bytes = 0;
    memset(region, 0, sizeof *region);
    region->id = peali_team_buffer(team, at);
    if (region->id == 0 || peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return false;
    bool known = team->cu->MemGetAddressRange(&base, &bytes, (peali_cu_ptr)(uintptr_t)at) == 0;
    const bool staged = team->staged[team->me]; /* then nobody reaches it */
    region->exported = known && !staged && team->cu->IpcGetMemHandle(&region->handle, base) == 0;
    peali_gpu_leave(team->gpu, &visit);
    region->base = base;
    region->bytes = bytes;
    return known;
}

/* What ranks of this process have is where it is for all of them: their devices reach each other. */
uint64_t peali_team_map(const peali_team *team, int x, const peali_team_region *region)
{
    peali_gpu_visit visit;
    peali_cu_ptr at = 0;
    if (!team->opened[x] || !region->exported)
        return region->exported ? region->base : 0;
    if (peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return 0;
    peali_cu_result result = team->cu->IpcOpenMemHandle(&at, region->handle, PEALI_CU_IPC_LAZY_PEER);
    peali_gpu_leave(team->gpu, &visit);
    if (result != 0)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_COLL, team->rank, "%zu bytes of rank %d's memory cannot be mapped: %s",
                  (size_t)region->bytes, x, peali_cuda_error(result));
    return result == 0 ? at : 0;
}

void peali_team_unmap(const peali_team *team, int x, uint64_t at)
{
    peali_gpu_visit visit;
    if (!team->opened[x] || peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return;
    (void)team->cu->IpcCloseMemHandle(at);
    peali_gpu_leave(team->gpu, &visit);
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
    for (int x = 0; x < team->n; x++) {
        if (team->opened[x])
            (void)team->cu->IpcCloseMemHandle(team->scratch[x]);
        if (x != team->me)
            peali_team_unpin(team, x);
    }
    peali_engines_part(team);
    peali_gpu_leave(team->gpu, &visit);
}

/* In a visit. Where set-up failed, its last copies may be under way. */
static void clear(peali_team *t)
{
    if (t->stream) {
        (void)t->cu->StreamSynchronize(t->stream);
        (void)t->cu->StreamDestroy(t->stream);
    }
    peali_team_unpin(t, t->me);
    if (t->mine)
        (void)t->cu->MemFree(t->mine);
    if (t->lanes)
        (void)t->cu->MemFree(t->lanes);
    if (t->page)
        (void)t->cu->MemFreeHost(t->page);
    if (t->post)
        (void)t->cu->MemFreeHost(t->post);
    free_mail(t);
    peali_engines_close(t);
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
