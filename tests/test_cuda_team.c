/*
 * Teams of GPUs on the driver of tests/cuda: ranks as threads and as processes, on one device and on several, in captures and out
 * of them. A process that is a rank is this program again: --rank R DEVICES CAPTURE SUMS FD.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "cuda/fake_cuda.h"
#include "cuda/image.h"
#include "cuda/team_world.h"
#include "sched/sched.h"

static const peali_cuda_driver *cu;

/*
 * What kernels do here: each rank raises its flag at all others, and waits for theirs, 10 s at most; OUT gets how many came.
 * Slices, which are no slices here: by how much the flags that it waits for are above its own.
 */
static void all_meet(const char *kernel, unsigned grid, unsigned block, const void *parameters)
{
    const peali_cuda_call *call = parameters;
    int64_t end = peali_clock_ns() + INT64_C(10000000000);
    const uint32_t awaited = call->signature + call->slices;
    int came = 0;
    for (int x = 0; x < call->nranks; x++)
        peali_store_release((uint32_t *)(call->scratch[x] + call->layout.flags) + call->me, call->signature);
    for (int x = 0; x < call->nranks; x++) {
        const uint32_t *flag = (uint32_t *)(call->scratch[call->me] + call->layout.flags) + x;
        while (peali_load_acquire(flag) < awaited && peali_clock_ns() < end && peali_load_relaxed(call->abort) == 0)
            peali_clock_sleep(10000);
        came += peali_load_acquire(flag) >= awaited;
    }
    *(int *)call->out = came;
    call->lane[grid - 1].epoch++;
    if (peali_load_relaxed(call->abort)) {
        call->report->rank = 1;
        peali_store_release(&call->report->kind, PEALI_CUDA_ABORTED);
    }
}

static peali_cuda_call a_call(int me, int n, uint32_t signature)
{
    return (peali_cuda_call){.me = (uint8_t)me, .nranks = (uint8_t)n, .signature = signature, .parts = 1, .part_bytes = 4,
                             .proto = PEALI_CUDA_LL, .type = PEAL_FLOAT, .op = PEAL_SUM, .threads = 2 * PEALI_CUDA_BOARD};
}

/* How a rank goes about it. */
typedef struct plan {
    int devices;
    int capture; /* a CUstreamCaptureMode: all from open on is in a capture that is replayed; -1: none */
    int rounds;
    bool sums;   /* by Peal's kernels, in place of the calls that meet */
} plan;

/* Launches, and what they leave; false where a rank was missing. */
static bool calls(team_world *w, int rank, peali_team *team, peali_cu_strm stream, int *out, fake_graph *graph)
{
    const int n = w->n;
    fake_exec exec = NULL;
    peali_cuda_call call = a_call(rank, n, 1);
    bool right = peali_team_launch(team, &call, 2, out, out, stream) == PEAL_OK;
    right = right && (!graph || cuStreamEndCapture(stream, graph) == 0);
    pthread_barrier_wait(&w->barrier); /* what follows would harm captures of others that go on */
    right = right && (!graph || cuGraphInstantiateWithFlags(&exec, *graph, 0) == 0);
    for (int i = 0; i < 3 && right; i++) {
        call.signature = (uint32_t)i + 2;
        right = right && (!exec || cuGraphLaunch(exec, stream) == 0);
        right = right && peali_team_launch(team, &call, 2, out, out, stream) == PEAL_OK;
        right = right && cu->StreamSynchronize(stream) == 0 && *out == n;
    }
    if (exec)
        cuGraphExecDestroy(exec);
    return right && peali_team_report(team) == NULL;
}

/* A graph of exactly one kernel. */
static bool one_kernel(fake_graph graph)
{
    fake_node node = NULL;
    size_t n = 1;
    peali_cu_enum type = FAKE_NODE_HOST;
    bool one = cuGraphGetNodes(graph, &node, &n) == 0 && n == 1 && cuGraphNodeGetType(node, &type) == 0 && type == FAKE_NODE_KERNEL;
    cuGraphDestroy(graph);
    return one;
}

/* One call of ALGO by Peal's own kernels: every rank's sum is right. */
static bool sum_by(const char *algo, team_world *w, int rank, peali_team *team, peali_cu_strm stream)
{
    enum { COUNT = 5000 };
    int32_t ranks[PEALI_CUDA_RANKS];
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .op = PEAL_SUM, .nranks = w->n, .nnodes = 1};
    peali_reach reach = {w->n, ranks, PEALI_PUSH};
    peali_cuda_job job = {.kind = PEAL_ALLREDUCE, .count = COUNT, .type = PEAL_FLOAT, .op = PEAL_SUM, .ctas = 2};
    peali_program *program;
    peali_cuda_call call = {0};
    uint32_t ctas;
    peali_cu_ptr at;
    for (int r = 0; r < w->n; r++)
        ranks[r] = r;
    if (peali_lower(peali_algo_find(PEAL_ALLREDUCE, algo), &problem, &reach, rank, &program) != PEAL_OK)
        return false;
    bool right = peali_cuda_load(program, &job, peali_team_layout(team), &call, &ctas) == PEAL_OK &&
                 cu->MemAlloc(&at, 2 * COUNT * sizeof(float)) == 0;
    float *in = (float *)(uintptr_t)at, *out = in + COUNT;
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(i % 100 + rank);
    call.signature = 5;
    right = right && peali_team_launch(team, &call, ctas, in, out, stream) == PEAL_OK && cu->StreamSynchronize(stream) == 0;
    for (int i = 0; i < COUNT; i++)
        right = right && out[i] == (float)(w->n * (i % 100) + w->n * (w->n - 1) / 2);
    peali_program_free(&program);
    return cu->MemFree(at) == 0 && right && peali_team_report(team) == NULL;
}

static bool sums(team_world *w, int rank, peali_team *team, peali_cu_strm stream)
{
    return sum_by("one_shot", w, rank, team, stream) && sum_by("two_shot", w, rank, team, stream) &&
           sum_by("ring", w, rank, team, stream);
}

static bool one_round(team_world *w, int rank, const plan *p)
{
    peali_team *team;
    peali_cu_strm stream;
    peali_cu_ptr out;
    fake_graph graph = NULL;
    bool right = cu->StreamCreate(&stream, 0) == 0 && cu->MemAlloc(&out, sizeof(int)) == 0;
    pthread_barrier_wait(&w->barrier);
    right = right && (p->capture < 0 || cuStreamBeginCapture_v2(stream, (peali_cu_enum)p->capture) == 0);
    pthread_barrier_wait(&w->barrier);
    right = team_world_meet(w, rank, &team) == PEAL_OK && right;
    bool called = p->sums ? sums(w, rank, team, stream)
                          : calls(w, rank, team, stream, (int *)(uintptr_t)out, p->capture < 0 ? NULL : &graph);
    right = called && right;
    right = right && (p->capture < 0 || one_kernel(graph));
    team_world_close(w, rank, &team);
    return cu->MemFree(out) == 0 && cu->StreamDestroy(stream) == 0 && right;
}

/* A rank's life; true where all was as it should be. */
static bool live(team_world *w, int rank, const plan *p)
{
    if (!team_world_device(cu, rank % p->devices))
        return false;
    size_t before = 0, after = 1, total;
    bool right = cuMemGetInfo_v2(&before, &total) == 0;
    pthread_barrier_wait(&w->barrier);
    for (int i = 0; i < p->rounds; i++)
        right = one_round(w, rank, p) && right;
    pthread_barrier_wait(&w->barrier);
    right = right && cuMemGetInfo_v2(&after, &total) == 0 && before == after;
    peali_cu_ctx popped;
    return cu->CtxPopCurrent(&popped) == 0 && cu->DevicePrimaryCtxRelease(rank % p->devices) == 0 && right;
}

typedef struct member {
    team_world *world;
    int rank;
    const plan *plan;
    bool right;
} member;

static void *member_thread(void *arg)
{
    member *m = arg;
    m->right = live(m->world, m->rank, m->plan);
    return NULL;
}

static void run_threads(int n, plan p)
{
    team_world world;
    member members[PEALI_CUDA_RANKS];
    pthread_t threads[PEALI_CUDA_RANKS];
    team_world_begin(&world, n);
    for (int r = 0; r < n; r++) {
        members[r] = (member){&world, r, &p, false};
        assert_int_equal(pthread_create(&threads[r], NULL, member_thread, &members[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(threads[r], NULL);
        assert_true(members[r].right);
    }
    pthread_barrier_destroy(&world.barrier);
}

static void on_threads(void **state)
{
    run_threads(1, (plan){1, -1, 1, false});
    run_threads(2, (plan){2, -1, 2, false});
    run_threads(4, (plan){4, -1, 1, false});
    run_threads(4, (plan){2, -1, 1, false}); /* two ranks on each device */
    run_threads(3, (plan){1, -1, 1, false});
}

/* The first communicator is made, and its first call is, while the rank's stream is captured. */
static void in_captures(void **state)
{
    const int early = fake_cuda_early();
    for (int mode = PEALI_CU_CAPTURE_GLOBAL; mode <= PEALI_CU_CAPTURE_RELAXED; mode++) {
        run_threads(2, (plan){2, mode, 1, false});
        run_threads(2, (plan){1, mode, 1, false});
    }
    assert_int_equal(fake_cuda_early(), early + 3 * 2 * 2 * 4); /* modes, plans, ranks, launches: all of them */
}

static int descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void memory_flat(void **state)
{
    int before = descriptors();
    run_threads(2, (plan){2, -1, 100, false});
    assert_int_equal(descriptors(), before);
}

static team_world *shared_world(int *fd)
{
    *fd = memfd_create("world", 0);
    assert_int_equal(ftruncate(*fd, sizeof(team_world)), 0);
    team_world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    assert_true(w != MAP_FAILED);
    return w;
}

static void run_processes(int n, plan p)
{
    int fd;
    pid_t pids[PEALI_CUDA_RANKS];
    team_world *w = shared_world(&fd);
    team_world_begin(w, n);
    for (int r = 0; r < n; r++) {
        char text[5][16];
        const int numbers[] = {r, p.devices, p.capture, p.sums, fd};
        for (int i = 0; i < 5; i++)
            snprintf(text[i], sizeof text[i], "%d", numbers[i]);
        pids[r] = fork();
        if (pids[r] == 0) {
            execl("/proc/self/exe", "rank", "--rank", text[0], text[1], text[2], text[3], text[4], (char *)NULL);
            _exit(3);
        }
    }
    for (int r = 0; r < n; r++) {
        int status;
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_int_equal(status, 0);
    }
    pthread_barrier_destroy(&w->barrier);
    munmap(w, sizeof *w);
    close(fd);
}

static int be_rank(char **argv)
{
    int rank = atoi(argv[0]), fd = atoi(argv[4]);
    team_world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (w == MAP_FAILED)
        return 2;
    plan p = {atoi(argv[1]), atoi(argv[2]), 2, atoi(argv[3])};
    fake_cuda_emulate(p.sums ? NULL : all_meet);
    return live(w, rank, &p) && (fake_cuda_early() > 0) == !getenv("TEST_LATE") ? 0 : 1;
}

static void on_processes(void **state)
{
    run_processes(2, (plan){2, -1, 2, false});
    run_processes(4, (plan){4, -1, 2, false});
    run_processes(2, (plan){1, -1, 2, false}); /* they share a device */
    run_processes(2, (plan){2, PEALI_CU_CAPTURE_GLOBAL, 2, false});
    static const char *const late[][2] = {{"FAKE_CUDA_PTX", "80"}, {"PEAL_EARLY", "0"}, {"FAKE_CUDA_VERSION", "12020"}};
    setenv("TEST_LATE", "1", 1); /* with one of these no kernel begins early; kernels of CUDA 13 are refused by the last */
    for (int i = 0; i < (peali_cuda_toolkit < 13000 ? 3 : 2); i++) {
        setenv(late[i][0], late[i][1], 1);
        run_processes(2, (plan){2, -1, 1, false});
        unsetenv(late[i][0]);
    }
    unsetenv("TEST_LATE");
}

/* By the emulation, where the compiler of this build has it. */
static void right_sums(void **state)
{
    const bool there = fake_cuda_emulate(NULL);
    if (there) {
        run_threads(2, (plan){2, -1, 2, true});
        run_threads(3, (plan){1, -1, 1, true});
        run_processes(4, (plan){2, -1, 2, true});
    }
    fake_cuda_emulate(all_meet);
    if (!there)
        skip();
}

/* A thread that has no context gets the primary one of device 0, which nobody holds afterwards. */
static void no_context(void **state)
{
    team_world w;
    peali_team *team;
    peali_cu_ctx current, primary;
    team_world_begin(&w, 1);
    assert_int_equal(cu->CtxGetCurrent(&current), 0);
    assert_null(current);
    assert_int_equal(team_world_meet(&w, 0, &team), PEAL_OK);
    assert_int_equal(peali_team_device(team), 0);
    assert_true(peali_team_layout(team)->bytes > 0);
    team_world_close(&w, 0, &team);
    assert_int_equal(cu->CtxGetCurrent(&current), 0);
    assert_null(current);
    assert_int_equal(cu->DevicePrimaryCtxRetain(&primary, 0), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), 0);
    assert_int_equal(cu->CtxPushCurrent(primary), 201);
    pthread_barrier_destroy(&w.barrier);
}

/* Each takes half of what is left, until that is too little; all of it comes back. */
static void scratch_share(void **state)
{
    enum { MANY = 16 };
    team_world w;
    peali_team *teams[MANY];
    uint64_t first = 0, sum = 0, last = UINT64_MAX;
    int n = 0;
    team_world_begin(&w, 1);
    for (peal_status status = PEAL_OK; n < MANY && status == PEAL_OK; n += status == PEAL_OK) {
        status = peali_team_open(&teams[n], 0, &w.cards[0]);
        assert_int_equal(w.cards[0].status, status);
        if (status != PEAL_OK) {
            assert_int_equal(status, PEAL_ERR_MEMORY);
            assert_null(teams[n]);
            break;
        }
        assert_true(w.cards[0].scratch <= last / 2 + 4096);
        last = w.cards[0].scratch;
        first = n == 0 ? last : first;
        sum += last;
    }
    assert_true(n >= 4 && n < MANY);
    assert_true(first > 500000 && first <= 512 << 10 && sum <= 1 << 20);
    while (n > 0)
        peali_team_close(&teams[--n]);
    assert_int_equal(peali_team_open(&teams[0], 0, &w.cards[0]), PEAL_OK);
    assert_int_equal(w.cards[0].scratch, first);
    peali_team_close(&teams[0]);
    pthread_barrier_destroy(&w.barrier);
}

/* Each call of the driver fails once, on one rank of two: both learn it, or do without, and nothing stays. */
typedef struct failing_member {
    team_world *world;
    int rank;
    peal_status status;
    bool lines;
    size_t left[2];
} failing_member;

static void *failing_thread(void *arg)
{
    failing_member *m = arg;
    peali_team *team;
    peali_cu_ctx popped;
    size_t total;
    team_world_device(cu, m->rank);
    cuMemGetInfo_v2(&m->left[0], &total);
    pthread_barrier_wait(&m->world->barrier);
    m->status = team_world_meet(m->world, m->rank, &team);
    m->lines = m->status == PEAL_OK && peali_team_lines(team);
    if (m->rank == 0)
        fake_cuda_fail("", 0, 0);
    team_world_close(m->world, m->rank, &team);
    cuMemGetInfo_v2(&m->left[1], &total);
    cu->CtxPopCurrent(&popped);
    cu->DevicePrimaryCtxRelease(m->rank);
    return NULL;
}

/* The status of both ranks, which is the same. */
static peal_status fail_both(const char *symbol, int n)
{
    team_world w;
    failing_member members[2];
    pthread_t threads[2];
    team_world_begin(&w, 2);
    fake_cuda_fail(symbol, n, 999);
    for (int r = 0; r < 2; r++) {
        members[r] = (failing_member){.world = &w, .rank = r};
        assert_int_equal(pthread_create(&threads[r], NULL, failing_thread, &members[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    assert_int_equal(members[0].status, members[1].status);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(members[r].left[0], members[r].left[1]);
        assert_true(!members[r].lines || !w.far); /* over NVLink alone */
    }
    pthread_barrier_destroy(&w.barrier);
    return members[0].status;
}

#define NAME(name, symbol, parameters) #symbol,

/* Those of the NMUST names that cannot be done without fail the team. */
static void each_of_all_fails(const char *const *must, size_t nmust)
{
    static const char *const names[] = {PEALI_CUDA_FUNCTIONS(NAME)};
    size_t seen = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool failed = false;
        for (int n = 1; n <= 6; n++)
            failed = fail_both(names[i], n) != PEAL_OK || failed;
        for (size_t k = 0; k < nmust; k++)
            seen += failed && strcmp(names[i], must[k]) == 0;
    }
    assert_int_equal(seen, nmust);
    assert_int_equal(fail_both("", 0), PEAL_OK);
}

static void each_fails(void **state)
{
    static const char *const must[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuMemsetD8Async", "cuStreamQuery",
                                       "cuMemcpyAsync", "cuDeviceGetUuid_v2", "cuKernelGetFunction"};
    each_of_all_fails(must, sizeof must / sizeof must[0]);
}

/* Where devices do not reach each other, too. */
static void each_fails_staged(void **state)
{
    static const char *const must[] = {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"};
    setenv("FAKE_CUDA_P2P", "none", 1);
    each_of_all_fails(must, sizeof must / sizeof must[0]);
    unsetenv("FAKE_CUDA_P2P");
}

/* A device that the driver does not let reach the other, by one rank's words alone: right sums, through the host. */
static void one_way(void **state)
{
    fake_cuda_fail("cuCtxEnablePeerAccess", 1, 217);
    run_threads(3, (plan){3, -1, 1, fake_cuda_emulate(NULL)});
    fake_cuda_emulate(all_meet);
}

/* A thread whose context is another device's launches all the same, and an abort ends a kernel that waits. */
static void abort_frees(void **state)
{
    team_world w = {.n = 1};
    peali_team *team;
    peali_cu_ctx popped;
    peali_cu_strm stream;
    peali_cu_ptr out;
    pthread_barrier_init(&w.barrier, NULL, 1);
    team_world_device(cu, 0);
    assert_int_equal(cu->StreamCreate(&stream, 0), 0);
    assert_int_equal(cu->MemAlloc(&out, 4), 0);
    assert_int_equal(team_world_meet(&w, 0, &team), PEAL_OK);
    team_world_device(cu, 1);
    peali_cuda_call call = a_call(0, 1, 7);
    call.slices = 1;
    assert_int_equal(peali_team_launch(team, &call, 1, (void *)(uintptr_t)out, (void *)(uintptr_t)out, stream), PEAL_OK);
    assert_null(peali_team_report(team));
    peali_team_abort(team);
    assert_int_equal(cu->StreamSynchronize(stream), 0);
    assert_int_equal(peali_team_report(team)->kind, PEALI_CUDA_ABORTED);
    assert_int_equal(cu->CtxPopCurrent(&popped), 0);
    team_world_close(&w, 0, &team);
    assert_int_equal(cu->MemFree(out), 0);
    assert_int_equal(cu->CtxPopCurrent(&popped), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(1), 0);
    pthread_barrier_destroy(&w.barrier);
}

/* While another thread captures in global mode, too; its capture stays valid. */
static void *open_and_close(void *status)
{
    team_world w;
    peali_team *team;
    team_world_begin(&w, 1);
    *(peal_status *)status = team_world_meet(&w, 0, &team);
    peali_team_close(&team);
    pthread_barrier_destroy(&w.barrier);
    return NULL;
}

static void beside_a_capture(void **state)
{
    peal_status status = PEAL_ERR_CUDA;
    peali_cu_strm stream;
    peali_cu_ctx popped;
    peali_cu_enum capturing;
    fake_graph graph;
    pthread_t thread;
    assert_non_null(team_world_device(cu, 1));
    assert_int_equal(cu->StreamCreate(&stream, 0), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, PEALI_CU_CAPTURE_GLOBAL), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_and_close, &status), 0);
    pthread_join(thread, NULL);
    assert_int_equal(status, PEAL_OK);
    assert_int_equal(cu->StreamIsCapturing(stream, &capturing), 0);
    assert_int_equal(capturing, PEALI_CU_CAPTURE_ACTIVE);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cu->StreamDestroy(stream), 0);
    assert_int_equal(cu->CtxPopCurrent(&popped), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(1), 0);
}

/* A team that fails inside a capture, at any call of the driver, leaves the capture valid. */
static void refused_in_a_capture(void **state)
{
    static const char *const calls[] = {"cuStreamCreate", "cuMemAlloc_v2", "cuStreamQuery", "cuMemcpyAsync"};
    team_world w;
    peali_team *team;
    peali_cu_strm stream;
    peali_cu_ctx popped;
    peali_cu_enum capturing;
    fake_graph graph;
    team_world_begin(&w, 1);
    assert_non_null(team_world_device(cu, 0));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(cu->StreamCreate(&stream, 0), 0);
        assert_int_equal(cuStreamBeginCapture_v2(stream, PEALI_CU_CAPTURE_GLOBAL), 0);
        fake_cuda_fail(calls[i], 1, 999);
        assert_int_equal(team_world_meet(&w, 0, &team), PEAL_ERR_CUDA);
        team_world_close(&w, 0, &team);
        assert_int_equal(cu->StreamIsCapturing(stream, &capturing), 0);
        assert_int_equal(capturing, PEALI_CU_CAPTURE_ACTIVE);
        assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
        assert_int_equal(cuGraphDestroy(graph), 0);
        assert_int_equal(cu->StreamDestroy(stream), 0);
    }
    assert_int_equal(cu->CtxPopCurrent(&popped), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), 0);
    pthread_barrier_destroy(&w.barrier);
}

static void kinds_of_memory(void **state)
{
    int device, here = 0;
    peali_cu_ptr at, managed;
    void *pinned;
    peali_cu_ctx popped;
    team_world_device(cu, 1);
    assert_int_equal(cu->MemAlloc(&at, 100), 0);
    assert_int_equal(cuMemAllocManaged(&managed, 100, 1), 0);
    assert_int_equal(cu->MemHostAlloc(&pinned, 100, 0), 0);
    assert_int_equal(peali_cuda_memory((void *)(uintptr_t)(at + 99), &device), PEALI_MEMORY_DEVICE);
    assert_int_equal(device, 1);
    assert_int_equal(peali_cuda_memory((void *)(uintptr_t)managed, &device), PEALI_MEMORY_MANAGED);
    assert_int_equal(device, 1);
    assert_int_equal(peali_cuda_memory(pinned, &device), PEALI_MEMORY_HOST);
    assert_int_equal(peali_cuda_memory(&here, &device), PEALI_MEMORY_HOST);
    assert_int_equal(device, -1);
    assert_int_equal(cu->MemFree(at), 0);
    assert_int_equal(cu->MemFree(managed), 0);
    assert_int_equal(cu->MemFreeHost(pinned), 0);
    assert_int_equal(peali_cuda_memory((void *)(uintptr_t)at, &device), PEALI_MEMORY_WRONG);
    assert_int_equal(peali_cuda_memory(NULL, &device), PEALI_MEMORY_WRONG);
    assert_int_equal(cu->CtxPopCurrent(&popped), 0);
    assert_int_equal(cu->DevicePrimaryCtxRelease(1), 0);
}

int main(int argc, char **argv)
{
    const char *why;
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    setenv("PEAL_SCRATCH", "1m", 1);
    cu = peali_cuda_driver_get(&why);
    if (!cu) {
        puts(why);
        return 1;
    }
    fake_cuda_emulate(all_meet);
    if (argc == 7 && strcmp(argv[1], "--rank") == 0)
        return be_rank(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_context), cmocka_unit_test(on_threads), cmocka_unit_test(in_captures), cmocka_unit_test(memory_flat),
        cmocka_unit_test(on_processes), cmocka_unit_test(right_sums), cmocka_unit_test(scratch_share), cmocka_unit_test(each_fails),
        cmocka_unit_test(each_fails_staged), cmocka_unit_test(one_way), cmocka_unit_test(abort_frees),
        cmocka_unit_test(beside_a_capture), cmocka_unit_test(refused_in_a_capture), cmocka_unit_test(kinds_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
