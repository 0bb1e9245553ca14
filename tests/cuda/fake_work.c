/* Kernels that are not Peal's: the bench's, a test's, and those of other libraries. */
#include "fake_cuda_parts.h"

#include <string.h>

peali_cu_result fake_cuda_work(peali_cu_strm stream, unsigned grid, fake_work *work, const void *parameters, size_t bytes)
{
    fake_op o = {.kind = KERNEL, .grid = grid, .block = 1, .work = work};
    if (bytes > sizeof o.parameters)
        return INVALID_VALUE;
    memcpy(o.parameters, parameters, bytes);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = fake_put(fake_find(stream), &o);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* The parameters of peal_bench_differ. */
struct differ {
    const unsigned char *have, *want;
    uint64_t bytes, have_stride, want_stride, *count;
    uint64_t slots;
};

static void differ(const void *parameters)
{
    struct differ d;
    uint64_t found = 0;
    memcpy(&d, parameters, sizeof d);
    for (uint64_t s = 0; s < d.slots; s++)
        for (uint64_t i = 0; i < d.bytes; i++)
            found += d.have[s * d.have_stride + i] != d.want[s * d.want_stride + i];
    *d.count += found;
}

/* The parameters of peal_test_gemm (test_device_overlap.c). */
struct gemm {
    float *at;
    uint64_t n;
    uint64_t rounds;
};

static void gemm(const void *parameters)
{
    struct gemm g;
    memcpy(&g, parameters, sizeof g);
    for (uint64_t i = 0; i < g.n; i++)
        for (uint64_t k = 0; k < g.rounds; k++)
            g.at[i] += 1;
}

static const struct {
    const char *name;
    fake_work *work;
    int nparameters; /* of 8 bytes */
} others[] = {{"peal_bench_differ", differ, 7}, {"peal_test_gemm", gemm, 3}};

bool fake_other(fake_op *o, void **parameters)
{
    size_t k = 0;
    while (k < sizeof others / sizeof others[0] && strcmp(o->kernel, others[k].name) != 0)
        k++;
    if (k == sizeof others / sizeof others[0])
        return false;
    for (int i = 0; i < others[k].nparameters; i++)
        memcpy(o->parameters + 8 * i, parameters[i], 8);
    o->work = others[k].work;
    return true;
}
