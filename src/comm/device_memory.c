/*
 * Which memory a call is on. A stream says it; without one the driver is asked, and a program without CUDA pays for that question
 * with a few compares: as long as its buffers are those of the last call, and were the host's, they have not become a device's.
 */
#include "comm/device.h"
#include "cuda/presence.h"

/* Are A and B other buffers than the last ones of the host? Then libcuda may have been loaded since. */
static bool look_again(peal_comm *comm, const void *a, const void *b)
{
    bool others = a != comm->buffers[0] || b != comm->buffers[1];
    comm->buffers[0] = a;
    comm->buffers[1] = b;
    if (others && !comm->cuda)
        comm->cuda = peali_presence_look();
    return others;
}

static bool on_device(const void *at)
{
    int device;
    return at && peali_cuda_known(at, &device) != PEALI_MEMORY_HOST;
}

static bool wrong(const void *at)
{
    int device;
    return at && peali_cuda_memory(at, &device) == PEALI_MEMORY_WRONG;
}

/* What device memory was may be freed, and is then asked for again. */
peali_found peali_comm_find(peal_comm *comm, const void *a, const void *b)
{
    peali_found found = {0};
    bool others = look_again(comm, a, b);
    if (!comm->cuda)
        return found;
    found.device[0] = on_device(a);
    found.device[1] = b == a ? found.device[0] : on_device(b);
    if (others)
        found.wrong = wrong(a) ? a : wrong(b) ? b : NULL;
    if (found.device[0] || found.device[1] || found.wrong)
        comm->buffers[0] = comm->buffers[1] = NULL;
    return found;
}

/* What nobody can read was device memory, as a rule: it is refused there. */
bool peali_device_finds(peal_comm *comm, const peali_call *c)
{
    if (c->kind == PEAL_BARRIER || comm->staged)
        return false;
    peali_found found = peali_comm_find(comm, c->in, c->out);
    return found.device[0] || found.device[1] || found.wrong;
}

/* A context that can copy from and to memory of DEVICE: the current one, or the device's own, which is HELD then. */
static peali_cu_result enter(const peali_cuda_driver *cu, int device, bool *held)
{
    peali_cu_ctx context = NULL;
    peali_cu_device current;
    *held = false;
    if (cu->CtxGetCurrent(&context) == 0 && context && cu->CtxGetDevice(&current) == 0 && current == device)
        return 0;
    peali_cu_result result = cu->DevicePrimaryCtxRetain(&context, device);
    if (result != 0)
        return result;
    result = cu->CtxPushCurrent(context);
    *held = result == 0;
    if (result != 0)
        (void)cu->DevicePrimaryCtxRelease(device);
    return result;
}

static void leave(const peali_cuda_driver *cu, int device)
{
    peali_cu_ctx popped;
    (void)cu->CtxPopCurrent(&popped);
    (void)cu->DevicePrimaryCtxRelease(device);
}

/* In the stream of the memory's own device that waits for what programs without streams have started there. */
peal_status peali_comm_copy(const peal_comm *comm, void *to, const void *from, size_t bytes)
{
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    int device;
    bool held;
    if (peali_cuda_known(to, &device) == PEALI_MEMORY_HOST)
        (void)peali_cuda_known(from, &device);
    peali_cu_result result = enter(cu, device > 0 ? device : 0, &held);
    if (result == 0)
        result = cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, NULL);
    if (result == 0)
        result = cu->StreamSynchronize(NULL);
    if (held)
        leave(cu, device > 0 ? device : 0);
    return result == 0 ? PEAL_OK : peali_cuda_failed(comm->rank, "copying between device and host memory", result);
}

/* A freed address looks to the driver like any of the host. */
static peal_status check_one(const peal_comm *comm, const peali_call *c, const void *at, const char *name)
{
    int device = -1;
    peali_memory memory = peali_cuda_memory(at, &device);
    if (memory == PEALI_MEMORY_HOST)
        return peali_coll_refuse(comm, c, "%s %p is memory of the host, or was freed, and %s; pass device memory, or host memory "
                                 "in all buffers and no stream", name, at,
                                 c->stream ? "the call has a stream" : "the other buffer is device memory");
    if (memory == PEALI_MEMORY_WRONG)
        return peali_coll_refuse(comm, c, "%s %p is no memory that a GPU of this process can reach", name, at);
    if (memory == PEALI_MEMORY_DEVICE && comm->device && device != peali_team_device(comm->device->team))
        return peali_coll_refuse(comm, c, "%s %p is memory of device %d, and this rank's calls run on device %d; pass memory of "
                                 "that one", name, at, device, peali_team_device(comm->device->team));
    return PEAL_OK;
}

peal_status peali_device_check(const peal_comm *comm, const peali_call *c)
{
    if (c->kind == PEAL_BARRIER)
        return PEAL_OK;
    peal_status status = check_one(comm, c, c->in, c->in == c->out ? "buffer" : "sendbuf");
    if (status == PEAL_OK && c->out != c->in)
        status = check_one(comm, c, c->out, "recvbuf");
    return status;
}
