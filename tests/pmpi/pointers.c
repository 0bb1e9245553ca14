/*
 * Device pointers of all sorts: of another device than the current one, or without one; of managed memory, within an allocation, and
 * where a type says that data lies; freed ones, and what then comes to lie at their addresses.
 */
#include "pmpi.h"

#include <sys/mman.h>

#include "fake_cuda.h"

#pragma weak fake_cuda_reuse /* a real driver has not got it */

enum { N = 1000, PAGE = 4096 };

static long calls;
static int devices, got[N];
static peali_cu_ctx contexts[2]; /* of this rank's GPU, which is current, and of another one */

static void enter(int which)
{
    CHECK(cuCtxPushCurrent_v2(contexts[which]) == 0);
}

static void leave(void)
{
    peali_cu_ctx popped;
    CHECK(cuCtxPopCurrent_v2(&popped) == 0);
}

static int *alloc(int which, size_t bytes)
{
    peali_cu_ptr at = 0;
    enter(which);
    CHECK(cuMemAlloc_v2(&at, bytes) == 0);
    leave();
    return (int *)(uintptr_t)at;
}

static void drop(int which, int *at)
{
    enter(which);
    CHECK(cuMemFree_v2((uintptr_t)at) == 0);
    leave();
}

static void copy(int which, void *to, const void *from, size_t bytes)
{
    enter(which);
    CHECK(cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, NULL) == 0 && cuStreamSynchronize(NULL) == 0);
    leave();
}

/* An allreduce of N numbers from IN, memory of context IN_OF (-1: of the host), to OUT. */
static void allreduce(int *in, int in_of, int *out, int out_of)
{
    for (int i = 0; i < N; i++)
        got[i] = share_of(rank, i, calls);
    if (in_of < 0)
        memcpy(in, got, sizeof got);
    else
        copy(in_of, in, got, sizeof got);
    CHECK(MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (out_of < 0)
        memcpy(got, out, sizeof got);
    else
        copy(out_of, got, out, sizeof got);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == sum_of(i, calls));
    calls++;
}

/* Every pair of buffers: of the host, of this rank's GPU, of the other one, and within an allocation; a context is current or not. */
static void everywhere(void)
{
    int *host[2] = {malloc(sizeof got), malloc(sizeof got)};
    int *here[2] = {alloc(0, 2 * sizeof got), alloc(0, 2 * sizeof got)}, *there[2] = {alloc(1, sizeof got), alloc(1, sizeof got)};
    for (int pair = 0; pair < 16; pair++) {
        int a = pair % 4, b = pair / 4;
        int *in = a == 0 ? host[0] : a == 1 ? here[0] : a == 2 ? there[0] : here[0] + 3 + N / 2;
        int *out = b == 0 ? host[1] : b == 1 ? here[1] : b == 2 ? there[1] : here[1] + 5 + N / 2;
        allreduce(in, a == 0 ? -1 : a == 2, out, b == 0 ? -1 : b == 2);
        allreduce(out, b == 0 ? -1 : b == 2, out, b == 0 ? -1 : b == 2);
    }
    for (int i = 0; i < 2; i++) {
        free(host[i]);
        drop(0, here[i]);
        drop(1, there[i]);
    }
}

static void managed(void)
{
    peali_cu_ptr at = 0;
    CHECK(cuMemAllocManaged(&at, sizeof got, 1) == 0); /* CU_MEM_ATTACH_GLOBAL */
    allreduce((int *)(uintptr_t)at, 0, (int *)(uintptr_t)at, 0);
    CHECK(cuMemFree_v2(at) == 0);
}

/* Where data begins a type says alone: behind the buffer's address, which is of nobody, or counted from 0. */
static void by_type(int from_bottom)
{
    int *at = alloc(1, sizeof got), root = nranks - 1, length = N;
    char *before = from_bottom ? NULL : (char *)at - (1 << 30);
    MPI_Aint where = (char *)at - before;
    MPI_Datatype behind;
    MPI_Type_create_hindexed(1, &length, &where, MPI_INT, &behind);
    MPI_Type_commit(&behind);
    for (int i = 0; i < N; i++)
        got[i] = share_of(rank, i, calls);
    copy(1, at, got, sizeof got);
    CHECK(MPI_Bcast(from_bottom ? MPI_BOTTOM : before, 1, behind, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    copy(1, got, at, sizeof got);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == share_of(root, i, calls));
    MPI_Type_free(&behind);
    drop(1, at);
    calls++;
}

static void refused(int *in, int *out)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(error_class(MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Bcast(in == got || in == MPI_IN_PLACE ? out : in, N, MPI_INT, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* On all ranks, after calls on other memory, and on this; nothing is started, and the next call is right. */
static void freed(void)
{
    int *at = alloc(0, sizeof got), *other = alloc(1, sizeof got);
    drop(0, at);
    refused(at, got);
    refused(got, at);
    refused(MPI_IN_PLACE, at);
    at = alloc(0, sizeof got);
    allreduce(at, 0, other, 1);
    drop(0, at);
    refused(at, other);
    refused(at, other);
    drop(1, other);
    at = alloc(0, sizeof got);
    allreduce(at, 0, at, 0);
    drop(0, at);
}

/* The same address: of another device, of another length, and of the host. */
static void at_one_address(void)
{
    int *at = alloc(0, sizeof got), *out = alloc(0, sizeof got), *again;
    if (!fake_cuda_reuse)
        return;
    fake_cuda_reuse(true);
    allreduce(at, 0, out, 0);
    drop(0, at);
    CHECK((again = alloc(1, sizeof got)) == at);
    allreduce(at, 1, out, 0);
    drop(1, at);
    CHECK((again = alloc(0, sizeof got + 64)) == at);
    allreduce(at + 16, 0, out, 0);
    drop(0, at);
    fake_cuda_reuse(false);
    CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    allreduce(at, -1, out, 0);
    allreduce(at, -1, at, -1);
    munmap(at, PAGE);
    drop(0, out);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    setenv("FAKE_CUDA_DEVICES", "2", 0);
    CHECK(cuInit(0) == 0 && cuDeviceGetCount(&devices) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], (rank + i) % devices) == 0);
    everywhere(); /* no context is current */
    by_type(0);
    by_type(1);
    enter(0);
    everywhere();
    managed();
    by_type(0);
    by_type(1);
    freed();
    at_one_address();
    leave();
    expect("taken", calls);
    MPI_Finalize();
    return 0;
}
