/* Kernels: all that have a name of Peal's. A driver of CUDA 11 has not got this. */
#include "fake_cuda_parts.h"

#include <stdlib.h>
#include <string.h>

struct CUkern_st {
    char name[64];
    struct CUkern_st *next;
};

static struct CUkern_st *kernels;

peali_cu_result cuLibraryLoadData(peali_cu_lib *library, const void *code, peali_cu_enum *jit, void **jit_values, unsigned njit,
                                  peali_cu_enum *options, void **values, unsigned noptions)
{
    ENTER_UNSAFE(cuLibraryLoadData);
    *library = (peali_cu_lib)(uintptr_t)code;
    return 0;
}

peali_cu_result cuLibraryGetKernel(peali_cu_kern *kernel, peali_cu_lib library, const char *name)
{
    ENTER(cuLibraryGetKernel);
    if (strncmp(name, "peal_", 5) != 0 || strlen(name) >= sizeof kernels->name)
        return NOT_FOUND;
    pthread_mutex_lock(&fake_lock);
    struct CUkern_st *k = kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    if (!k) {
        k = calloc(1, sizeof *k);
        strcpy(k->name, name);
        k->next = kernels;
        kernels = k;
    }
    pthread_mutex_unlock(&fake_lock);
    *kernel = k;
    return 0;
}

/* A function is its name, the same in all contexts. The image lacks the architecture FAKE_CUDA_LACKS. */
peali_cu_result cuKernelGetFunction(peali_cu_func *function, peali_cu_kern kernel)
{
    ENTER_UNSAFE(cuKernelGetFunction);
    if (!fake_current())
        return INVALID_CONTEXT;
    if (fake_number("FAKE_CUDA_LACKS", 0) == fake_number("FAKE_CUDA_ARCH", 90))
        return PEALI_CU_NO_BINARY;
    *function = (peali_cu_func)kernel->name;
    return 0;
}

peali_cu_result cuFuncGetAttribute(int *value, peali_cu_enum attribute, peali_cu_func f)
{
    ENTER(cuFuncGetAttribute);
    if (!f || attribute != PEALI_CU_FUNC_PTX)
        return INVALID_VALUE;
    *value = fake_number("FAKE_CUDA_PTX", 90);
    return 0;
}
