/*
 * The driver of tests/cuda behaves as the documentation of CUDA says. Nothing here is of the fake alone, so a real driver with two
 * devices passes too: LD_LIBRARY_PATH then leads to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/fake_cuda.h"

static peali_cu_ctx contexts[2];

static int set_up(void **state)
{
    peali_cu_device device;
    if (cuInit(0) != 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (cuDeviceGet(&device, i) != 0 || cuDevicePrimaryCtxRetain(&contexts[i], device) != 0)
            return -1;
    return cuCtxSetCurrent(contexts[0]) == 0 ? 0 : -1;
}

static void what_is_mine(void **state)
{
    peali_cu_ptr at, base;
    size_t bytes;
    peali_cu_ipc handle;
    assert_int_equal(cuMemAlloc_v2(&at, 0), 1);
    assert_int_equal(cuMemAlloc_v2(&at, 5000), 0);
    assert_int_equal(cuMemGetAddressRange_v2(&base, &bytes, at + 4999), 0);
    assert_true(base == at && bytes >= 5000);
    assert_int_equal(cuIpcGetMemHandle(&handle, at), 0);
    assert_int_equal(cuIpcOpenMemHandle_v2(&base, handle, PEALI_CU_IPC_LAZY_PEER), 201); /* this process has it already */
    assert_int_equal(cuMemFree_v2(at + 256), 1);
    assert_int_equal(cuMemFree_v2(at), 0);
    assert_int_equal(cuMemFree_v2(at), 1);
}

/* A stream keeps its order, and waits for what an event tells of another. */
static void in_order(void **state)
{
    peali_cu_strm a, b;
    fake_event event;
    peali_cu_ptr at;
    void *host;
    assert_int_equal(cuStreamCreate(&a, PEALI_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuStreamCreate(&b, PEALI_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuEventCreate(&event, 0), 0);
    assert_int_equal(cuMemAlloc_v2(&at, 1 << 20), 0);
    assert_int_equal(cuMemHostAlloc(&host, 1 << 20, PEALI_CU_HOST_MAPPED), 0);
    for (int i = 1; i <= 20; i++)
        assert_int_equal(cuMemsetD8Async(at, (unsigned char)i, 1 << 20, a), 0);
    assert_int_equal(cuEventRecord(event, a), 0);
    assert_int_equal(cuStreamWaitEvent(b, event, 0), 0);
    assert_int_equal(cuMemcpyAsync((uintptr_t)host, at, 1 << 20, b), 0);
    assert_int_equal(cuStreamSynchronize(b), 0);
    assert_int_equal(cuEventSynchronize(event), 0);
    assert_int_equal(((char *)host)[0], 20);
    assert_int_equal(((char *)host)[(1 << 20) - 1], 20);
    assert_int_equal(cuStreamQuery(b), 0);
    assert_int_equal(cuStreamDestroy_v2(a), 0);
    assert_int_equal(cuStreamDestroy_v2(b), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuMemFree_v2(at), 0);
    assert_int_equal(cuMemFreeHost(host), 0);
}

/* What a capture forbids, it forbids; and is over then. */
static void forbidden(void **state)
{
    peali_cu_strm stream;
    peali_cu_enum mode, status;
    peali_cu_ptr at;
    fake_graph graph;
    for (int m = PEALI_CU_CAPTURE_GLOBAL; m <= PEALI_CU_CAPTURE_RELAXED; m++) {
        const bool relaxed = m == PEALI_CU_CAPTURE_RELAXED;
        assert_int_equal(cuStreamCreate(&stream, PEALI_CU_STREAM_NON_BLOCKING), 0);
        assert_int_equal(cuStreamBeginCapture_v2(stream, (peali_cu_enum)m), 0);
        mode = PEALI_CU_CAPTURE_RELAXED;
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
        assert_int_equal(mode, PEALI_CU_CAPTURE_GLOBAL);
        assert_int_equal(cuMemAlloc_v2(&at, 100), 0);
        assert_int_equal(cuMemFree_v2(at), 0);
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
        assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
        assert_int_equal(status, PEALI_CU_CAPTURE_ACTIVE);
        assert_int_equal(cuMemAlloc_v2(&at, 100), relaxed ? 0 : 900);
        assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
        assert_int_equal(status, relaxed ? PEALI_CU_CAPTURE_ACTIVE : PEALI_CU_CAPTURE_INVALID);
        assert_int_equal(cuStreamEndCapture(stream, &graph), relaxed ? 0 : 901);
        assert_true(relaxed == (graph != NULL));
        if (relaxed) {
            assert_int_equal(cuGraphDestroy(graph), 0);
            assert_int_equal(cuMemFree_v2(at), 0);
        }
        assert_int_equal(cuStreamDestroy_v2(stream), 0);
    }
}

/* The legacy stream would wait for a blocking one that is captured; who waits for a captured stream waits for nothing. */
static void in_conflict(void **state)
{
    peali_cu_strm stream;
    peali_cu_enum status, mode = PEALI_CU_CAPTURE_RELAXED;
    peali_cu_ptr at;
    fake_graph graph;
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(cuMemAlloc_v2(&at, 100), 0);
    for (int way = 0; way < 3; way++) {
        assert_int_equal(cuStreamCreate(&stream, 0), 0);
        assert_int_equal(cuStreamBeginCapture_v2(stream, PEALI_CU_CAPTURE_RELAXED), 0);
        assert_int_equal(cuStreamIsCapturing(NULL, &status), 906);
        assert_int_equal(cuMemsetD8Async(at, 1, 100, stream), 0);
        peali_cu_result result = way == 0   ? cuMemsetD8Async(at, 1, 100, NULL)
                                 : way == 1 ? cuStreamQuery(stream) : cuCtxSynchronize();
        assert_int_equal(result, way == 0 ? 906 : 900);
        assert_int_equal(cuStreamEndCapture(stream, &graph), 901);
        assert_null(graph);
        assert_int_equal(cuStreamDestroy_v2(stream), 0);
    }
    assert_int_equal(cuStreamBeginCapture_v2(NULL, PEALI_CU_CAPTURE_RELAXED), 900);
    assert_int_equal(cuMemFree_v2(at), 0);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
}

/* Two streams of one capture: the second forks off the first, and must be joined. What they hold runs with the graph. */
static void fork_and_join(void **state)
{
    peali_cu_strm a, b;
    fake_event forked, joined;
    fake_graph graph;
    fake_exec exec;
    peali_cu_ptr at;
    unsigned char *host;
    size_t n = 0;
    assert_int_equal(cuStreamCreate(&a, PEALI_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuStreamCreate(&b, PEALI_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuEventCreate(&forked, 0), 0);
    assert_int_equal(cuEventCreate(&joined, 0), 0);
    assert_int_equal(cuMemAlloc_v2(&at, 200), 0);
    assert_int_equal(cuMemHostAlloc((void **)&host, 200, PEALI_CU_HOST_MAPPED), 0);
    memset(host, 9, 200);
    for (int join = 0; join < 2; join++) {
        assert_int_equal(cuStreamBeginCapture_v2(a, PEALI_CU_CAPTURE_GLOBAL), 0);
        assert_int_equal(cuEventRecord(forked, a), 0);
        assert_int_equal(cuStreamWaitEvent(b, forked, 0), 0);
        assert_int_equal(cuMemsetD8Async(at, 1, 100, a), 0);
        assert_int_equal(cuMemsetD8Async(at + 100, 2, 100, b), 0);
        assert_int_equal(cuEventRecord(joined, b), 0);
        if (join)
            assert_int_equal(cuStreamWaitEvent(a, joined, 0), 0);
        assert_int_equal(cuMemcpyAsync((uintptr_t)host, at, 200, a), 0);
        assert_int_equal(cuStreamEndCapture(a, &graph), join ? 0 : 904);
    }
    assert_int_equal(cuGraphGetNodes(graph, NULL, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(host[0], 9);
    assert_int_equal(cuGraphLaunch(exec, b), 0);
    assert_int_equal(cuStreamSynchronize(b), 0);
    assert_int_equal(host[0], 1);
    assert_int_equal(host[199], 2);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuEventDestroy_v2(forked), 0);
    assert_int_equal(cuEventDestroy_v2(joined), 0);
    assert_int_equal(cuStreamDestroy_v2(a), 0);
    assert_int_equal(cuStreamDestroy_v2(b), 0);
    assert_int_equal(cuMemFree_v2(at), 0);
    assert_int_equal(cuMemFreeHost(host), 0);
}

static void peers(void **state)
{
    assert_int_equal(cuCtxEnablePeerAccess(contexts[1], 0), 0);
    assert_int_equal(cuCtxEnablePeerAccess(contexts[1], 0), 704);
    assert_int_equal(cuCtxEnablePeerAccess(contexts[0], 0), 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_mine), cmocka_unit_test(in_order), cmocka_unit_test(forbidden),
        cmocka_unit_test(in_conflict), cmocka_unit_test(fork_and_join), cmocka_unit_test(peers),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
