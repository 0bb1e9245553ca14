/* For an address that it does not know the driver answers that all its attributes are 0, and calls that a success. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cuda/team.h"

/* Where a sandbox forbids to ask, what is not a device's is taken for host memory. */
static bool unreadable(const void *at)
{
    char byte;
    struct iovec here = {.iov_base = &byte, .iov_len = 1}, there = {.iov_base = (void *)at, .iov_len = 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

peali_memory peali_cuda_known(const void *at, int *device)
{
    peali_cu_enum attributes[] = {PEALI_CU_POINTER_MEMORY, PEALI_CU_POINTER_MANAGED, PEALI_CU_POINTER_DEVICE};
    peali_cu_enum memory = 0;
    int ordinal = 0;
    unsigned managed = 0; /* a boolean, of which the driver writes four bytes */
    void *values[] = {&memory, &managed, &ordinal};
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    *device = -1;
    if (!cu)
        return PEALI_MEMORY_HOST;
    if (cu->PointerGetAttributes(3, attributes, values, (peali_cu_ptr)(uintptr_t)at) != 0 || memory == 0)
        return PEALI_MEMORY_HOST;
    if (!managed && memory != PEALI_CU_MEMORY_DEVICE)
        return PEALI_MEMORY_HOST;
    *device = ordinal;
    return managed ? PEALI_MEMORY_MANAGED : PEALI_MEMORY_DEVICE;
}

peali_memory peali_cuda_memory(const void *at, int *device)
{
    peali_memory memory = peali_cuda_known(at, device);
    return memory == PEALI_MEMORY_HOST && peali_cuda_driver_get(NULL) && unreadable(at) ? PEALI_MEMORY_WRONG : memory;
}
