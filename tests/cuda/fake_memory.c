/* Memory of devices and of the host, and that of other processes. */
#include "fake_cuda_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static const size_t memory = (size_t)1 << 30; /* of a device */

/* What an IPC handle holds. */
typedef struct handle {
    int pid, fd, device;
    uint64_t serial; /* of the memory in its process, */
    uintptr_t at;    /* and where it lies there */
    size_t bytes;
} handle;
_Static_assert(sizeof(handle) <= sizeof(peali_cu_ipc), "a handle of 64 bytes");

typedef struct block {
    char *at;
    size_t bytes;
    int fd;       /* device memory; -1: none */
    int kind;     /* CUmemorytype */
    bool managed;
    bool registered; /* memory of the program */
    struct CUctx_st *context;
    uint64_t serial;
    int opens;    /* by handle, which is the next two */
    handle from;
    struct block *next;
} block;

static block *blocks;
static uint64_t serials;
static struct {
    void *at;
    size_t bytes;
} freed; /* the last, for fake_cuda_reuse */
static bool reuse;

void fake_cuda_reuse(bool so)
{
    reuse = so;
}

/* The lock is held in all functions that are static. */

static block *find(peali_cu_ptr at)
{
    block *b = blocks;
    while (b && !((char *)(uintptr_t)at >= b->at && (char *)(uintptr_t)at < b->at + b->bytes))
        b = b->next;
    return b;
}

/* The device that has it. */
static int where(const block *b)
{
    return b->opens ? b->from.device : b->context->device;
}

bool fake_reaches(const struct CUctx_st *context, peali_cu_ptr at, size_t bytes)
{
    const block *b = find(at);
    if (!b || (char *)(uintptr_t)at + bytes > b->at + b->bytes)
        return false;
    return b->kind == PEALI_CU_MEMORY_HOST || b->opens || b->managed || b->context == context ||
           context->reaches[b->context->device];
}

/* What was freed cannot be read. */
bool fake_pageable(peali_cu_ptr at)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)at, 1};
    return !find(at) && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

bool fake_foreign(const struct CUctx_st *context, peali_cu_ptr at)
{
    const block *b = find(at);
    return b && b->kind == PEALI_CU_MEMORY_DEVICE && where(b) != context->device;
}

static block *add(void *at, size_t bytes, int fd, int kind)
{
    block *b = calloc(1, sizeof *b);
    *b = (block){.at = at, .bytes = bytes, .fd = fd, .kind = kind, .context = fake_current(), .serial = ++serials, .next = blocks};
    blocks = b;
    return b;
}

/* The address stays taken, as the driver keeps it, so that nothing else comes to lie where freed memory was, but for what asks. */
static void drop(block *b)
{
    block **at = &blocks;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    (void)mmap(b->at, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (b->fd >= 0) {
        freed.at = b->at;
        freed.bytes = b->bytes;
        close(b->fd);
    }
    free(b);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static peali_cu_result make(peali_cu_ptr *out, size_t bytes, bool managed)
{
    struct CUctx_st *context = fake_current();
    if (!context || bytes == 0)
        return context ? INVALID_VALUE : INVALID_CONTEXT;
    if (context->used + whole_pages(bytes) > memory)
        return OUT_OF_MEMORY;
    int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
    bool again = reuse && freed.at && freed.bytes == whole_pages(bytes);
    void *at = fd >= 0 && ftruncate(fd, (off_t)whole_pages(bytes)) == 0
                   ? mmap(again ? freed.at : NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | (again ? MAP_FIXED : 0), fd,
                          0) : MAP_FAILED;
    if (again)
        freed.at = NULL;
    if (at == MAP_FAILED)
        return OUT_OF_MEMORY;
    memset(at, 0xa5, bytes); /* new memory holds anything */
    add(at, whole_pages(bytes), fd, PEALI_CU_MEMORY_DEVICE)->managed = managed;
    context->used += whole_pages(bytes);
    *out = (uintptr_t)at;
    return 0;
}

peali_cu_result cuMemAlloc_v2(peali_cu_ptr *out, size_t bytes)
{
    ENTER_UNSAFE(cuMemAlloc_v2);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = make(out, bytes, false);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuMemAllocManaged(peali_cu_ptr *out, size_t bytes, unsigned flags)
{
    ENTER_UNSAFE(cuMemAllocManaged);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = make(out, bytes, true);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Does not wait for what runs; the driver "may". */
peali_cu_result cuMemFree_v2(peali_cu_ptr at)
{
    ENTER_UNSAFE(cuMemFree_v2);
    pthread_mutex_lock(&fake_lock);
    block *b = find(at);
    bool ours = b && b->kind == PEALI_CU_MEMORY_DEVICE && !b->opens && (uintptr_t)b->at == at;
    if (ours) {
        b->context->used -= b->bytes;
        drop(b);
    }
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : INVALID_VALUE;
}

peali_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER(cuMemGetInfo_v2);
    if (!fake_current())
        return INVALID_CONTEXT;
    *total = memory;
    *left = memory - fake_current()->used;
    return 0;
}

peali_cu_result cuMemGetAddressRange_v2(peali_cu_ptr *base, size_t *bytes, peali_cu_ptr at)
{
    ENTER(cuMemGetAddressRange_v2);
    pthread_mutex_lock(&fake_lock);
    const block *b = find(at);
    if (b) {
        *base = (uintptr_t)b->at;
        *bytes = b->bytes;
    }
    pthread_mutex_unlock(&fake_lock);
    return b ? 0 : NOT_FOUND;
}

peali_cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    ENTER_UNSAFE(cuMemHostAlloc);
    if (!fake_current())
        return INVALID_CONTEXT;
    void *at = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return OUT_OF_MEMORY;
    memset(at, 0xa5, bytes);
    pthread_mutex_lock(&fake_lock);
    add(at, whole_pages(bytes), -1, PEALI_CU_MEMORY_HOST);
    pthread_mutex_unlock(&fake_lock);
    *out = at;
    return 0;
}

peali_cu_result cuMemFreeHost(void *at)
{
    ENTER_UNSAFE(cuMemFreeHost);
    pthread_mutex_lock(&fake_lock);
    block *b = find((uintptr_t)at);
    bool ours = b && b->kind == PEALI_CU_MEMORY_HOST && !b->registered && b->at == at;
    if (ours)
        drop(b);
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : INVALID_VALUE;
}

/* Whole pages that are there already. */
peali_cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    ENTER_UNSAFE(cuMemHostRegister_v2);
    if (!fake_current() || bytes == 0 || (uintptr_t)at % 4096 != 0)
        return fake_current() ? INVALID_VALUE : INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    bool twice = find((uintptr_t)at) || find((uintptr_t)at + bytes - 1);
    if (!twice)
        add(at, whole_pages(bytes), -1, PEALI_CU_MEMORY_HOST)->registered = true;
    pthread_mutex_unlock(&fake_lock);
    return twice ? REGISTERED : 0;
}

/* The memory itself stays. */
peali_cu_result cuMemHostUnregister(void *at)
{
    ENTER_UNSAFE(cuMemHostUnregister);
    pthread_mutex_lock(&fake_lock);
    block **b = &blocks;
    while (*b && !((*b)->registered && (*b)->at == at))
        b = &(*b)->next;
    block *found = *b;
    if (found)
        *b = found->next;
    pthread_mutex_unlock(&fake_lock);
    free(found);
    return found ? 0 : NOT_REGISTERED;
}

peali_cu_result cuMemHostGetDevicePointer_v2(peali_cu_ptr *out, void *at, unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer_v2);
    pthread_mutex_lock(&fake_lock);
    const block *b = find((uintptr_t)at);
    bool ours = b && b->kind == PEALI_CU_MEMORY_HOST;
    pthread_mutex_unlock(&fake_lock);
    *out = (uintptr_t)at;
    return ours ? 0 : INVALID_VALUE;
}

/* Of these attributes alone. */
static bool attribute_of(const block *b, peali_cu_ptr at, peali_cu_enum attribute, void *value)
{
    switch (attribute) {
    case PEALI_CU_POINTER_MEMORY: *(unsigned *)value = b ? (unsigned)b->kind : 0; return true;
    case PEALI_CU_POINTER_MANAGED: *(unsigned *)value = b && b->managed; return true; /* a boolean of four bytes */
    case PEALI_CU_POINTER_DEVICE: *(int *)value = b ? where(b) : -2; return true;
    case PEALI_CU_POINTER_BUFFER: *(unsigned long long *)value = b ? b->serial : 0; return b != NULL;
    case PEALI_CU_POINTER_HOST: *(void **)value = (void *)(uintptr_t)(fake_number("FAKE_CUDA_HOST", 0) ? at : 0); return b != NULL;
    default: return false;
    }
}

peali_cu_result cuPointerGetAttributes(unsigned n, peali_cu_enum *attributes, void **values, peali_cu_ptr at)
{
    ENTER(cuPointerGetAttributes);
    bool all = true;
    pthread_mutex_lock(&fake_lock);
    const block *b = find(at);
    for (unsigned i = 0; i < n; i++)
        all = attribute_of(b, at, attributes[i], values[i]) && all;
    pthread_mutex_unlock(&fake_lock);
    return all ? 0 : INVALID_VALUE;
}

/* Memory of other processes, which is found by the number of its descriptor there. */

peali_cu_result cuIpcGetMemHandle(peali_cu_ipc *out, peali_cu_ptr at)
{
    ENTER_UNSAFE(cuIpcGetMemHandle);
    pthread_mutex_lock(&fake_lock);
    const block *b = find(at);
    bool ours = b && b->kind == PEALI_CU_MEMORY_DEVICE && !b->managed && !b->opens && (uintptr_t)b->at == at;
    if (ours) {
        handle h = {.pid = getpid(), .fd = b->fd, .device = b->context->device, .serial = b->serial, .at = at, .bytes = b->bytes};
        memset(out, 0, sizeof *out);
        memcpy(out, &h, sizeof h);
    }
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : INVALID_VALUE;
}

static block *opened(const handle *h)
{
    block *b = blocks;
    while (b && !(b->opens && b->from.pid == h->pid && b->from.serial == h->serial))
        b = b->next;
    return b;
}

/* Some drivers refuse what lies where freed memory lay that is still mapped here; 580 does not. */
static bool outlived(const handle *h)
{
    block *b = blocks;
    while (b && !(b->opens && b->from.pid == h->pid && b->from.at == h->at && b->from.serial != h->serial))
        b = b->next;
    return b != NULL;
}

static peali_cu_result map(peali_cu_ptr *out, const handle *h)
{
    char path[64];
    block *b = opened(h);
    if (outlived(h))
        return ALREADY_MAPPED;
    if (b) {
        b->opens++;
        *out = (uintptr_t)b->at;
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd >= 0 ? mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return MAP_REFUSED;
    b = add(at, h->bytes, -1, PEALI_CU_MEMORY_DEVICE);
    b->opens = 1;
    b->from = *h;
    *out = (uintptr_t)at;
    return 0;
}

/* The process that exported it cannot open it. */
peali_cu_result cuIpcOpenMemHandle_v2(peali_cu_ptr *out, peali_cu_ipc from, unsigned flags)
{
    ENTER_UNSAFE(cuIpcOpenMemHandle_v2);
    handle h;
    memcpy(&h, &from, sizeof h);
    const struct CUctx_st *context = fake_current();
    if (!context || h.pid == getpid())
        return INVALID_CONTEXT;
    if (flags != PEALI_CU_IPC_LAZY_PEER || h.pid == 0)
        return INVALID_VALUE;
    if (h.device != context->device && fake_p2p("none"))
        return PEER_UNSUPPORTED;
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = map(out, &h);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuIpcCloseMemHandle(peali_cu_ptr at)
{
    ENTER_UNSAFE(cuIpcCloseMemHandle);
    pthread_mutex_lock(&fake_lock);
    block *b = find(at);
    bool open = b && b->opens;
    if (open && --b->opens == 0)
        drop(b);
    pthread_mutex_unlock(&fake_lock);
    return open ? 0 : INVALID_VALUE;
}
