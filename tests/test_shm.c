/*
 * Shared memory between processes, under mpirun: random collectives in a row, in all layouts, on ordinary memory and on memory that
 * peers reach; several communicators in flight; that slices land; and what communicators cost, while they are there and afterwards.
 *
 * usage: test_shm [SCENES [CALLS [FIRST_SEED]]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/comm_private.h"
#include "exec/pool.h"
#include "turns.h"
#include "world.h"

enum { LONGEST = 30000, SHIFTS = 16, SCENE_SECONDS = 100, COMMS = 3 };

static int scenes = 24, calls = 40, first_seed = 1;
static const size_t sizes[] = {1, 2, 5, 64, 1000, 1025, 5000, LONGEST};

/* Room for a whole vector, in and out, in memory of both kinds. */
typedef struct rooms {
    uint32_t *ordinary[2], *shared[2];
} rooms;

static size_t room_bytes(void)
{
    return ((size_t)world_size * LONGEST + SHIFTS) * sizeof(uint32_t);
}

static void rooms_open(rooms *r)
{
    for (int k = 0; k < 2; k++) {
        r->ordinary[k] = malloc(room_bytes());
        r->shared[k] = peal_mem_alloc(room_bytes());
        assert_true(r->ordinary[k] && r->shared[k] && peali_pool_holds(r->shared[k], room_bytes()));
    }
}

static void rooms_close(rooms *r)
{
    for (int k = 0; k < 2; k++) {
        free(r->ordinary[k]);
        peal_mem_free(r->shared[k]);
    }
}

/* Whose buffers lie in shared memory. */
typedef enum memory { NOBODY, ALL, ALL_BUT_ONE, IN_TURNS, ANYBODY, MEMORIES } memory;

static bool is_shared(memory m, const turn *t, unsigned *mine)
{
    return m == ALL || (m == ALL_BUT_ONE && t->rank != (int)(t->call / 4) % t->n) || (m == IN_TURNS && t->call / 4 % 2) ||
           (m == ANYBODY && turn_next(mine) % 2);
}

/* Finds a place for the buffers of T; memory comes and goes between the calls. */
static void place(rooms *r, memory m, turn *t, unsigned *mine)
{
    if (turn_next(mine) % 8 == 0) {
        peal_mem_free(r->shared[0]);
        r->shared[0] = peal_mem_alloc(room_bytes());
    }
    t->in = (is_shared(m, t, mine) ? r->shared : r->ordinary)[0] + turn_next(mine) % SHIFTS;
    t->out = (is_shared(m, t, mine) ? r->shared : r->ordinary)[1] + turn_next(mine) % SHIFTS;
}

static char doing[200]; /* what is said where it takes too long */

static void too_long(int number)
{
    (void)!write(STDERR_FILENO, doing, strlen(doing));
    _exit(3);
}

typedef struct scene {
    int n;
    unsigned seed;
    memory memory;
    char nodes[32];
    peali_layout layout;
} scene;

static void lay_out(scene *s)
{
    unsigned seed = s->seed * 7919u;
    s->n = 2 + (int)(turn_next(&seed) % (unsigned)(world_size - 1));
    s->memory = (memory)(turn_next(&seed) % MEMORIES);
    if (turn_next(&seed) % 2)
        turn_nodes(s->nodes, sizeof s->nodes, s->n, &seed);
    else
        snprintf(s->nodes, sizeof s->nodes, "%d", s->n);
    unsigned mode = turn_next(&seed) % 4;
    s->layout = (peali_layout){.nodes = s->nodes, .push = mode == 1, .pull = mode == 2};
    s->layout.slices = (int)(turn_next(&seed) % 6);
    s->layout.window = (int)(turn_next(&seed) % 5);
    s->layout.stream = s->seed % 2;
    s->layout.land_bytes = turn_next(&seed) % 2 ? 16 << 10 : 0;
    s->layout.piece = turn_next(&seed) % 2 ? 1024 : 0;
    s->layout.staged = world_rank == (int)(turn_next(&seed) % (unsigned)s->n) && mode != 1 && turn_next(&seed) % 2;
}

static int play(peal_comm *comm, const scene *s, rooms *r)
{
    unsigned seed = s->seed, mine = s->seed * 31u + (unsigned)world_rank;
    for (unsigned call = 0; call < (unsigned)calls; call++) {
        turn t = {.call = call, .n = s->n, .rank = world_rank};
        turn_draw(&t, sizes, sizeof sizes / sizeof *sizes, s->nodes, &seed);
        place(r, s->memory, &t, &mine);
        if (turn_play(comm, &t))
            return 1;
        if (turn_next(&mine) % 16 == 0)
            usleep(200);
    }
    return 0;
}

static void random_calls_in_a_row(void **state)
{
    rooms r;
    rooms_open(&r);
    for (int k = 0; k < scenes; k++) {
        scene s = {.seed = (unsigned)(first_seed + k)};
        peal_comm *comm;
        int wrong = 0;
        lay_out(&s);
        snprintf(doing, sizeof doing, "seed %u, %d ranks (%s), memory %d, push %d, pull %d, slices %d, window %d, %zu bytes\n",
                 s.seed, s.n, s.nodes, s.memory, s.layout.push, s.layout.pull, s.layout.slices, s.layout.window,
                 s.layout.land_bytes);
        alarm(SCENE_SECONDS);
        assert_int_equal(world_comm(&s.layout, s.n, world_rank, &comm), PEAL_OK);
        if (comm)
            wrong = play(comm, &s, &r);
        if (!world_all(!wrong))
            fail_msg("wrong %s: %s", wrong ? "here" : "elsewhere", doing);
        peal_comm_destroy(&comm);
    }
    rooms_close(&r);
}

/* Ends the calls of all communicators, in an order of this rank's own. */
static int end_all(turn *t, peal_request **requests, unsigned *mine)
{
    int wrong = 0;
    for (int left = COMMS; left > 0;) {
        unsigned k = turn_next(mine) % COMMS;
        if (!requests[k])
            continue;
        peal_status status = turn_next(mine) % 2 ? peal_test(&requests[k]) : peal_wait(&requests[k]);
        if (status == PEAL_IN_PROGRESS)
            continue;
        wrong |= status != PEAL_OK || turn_wrong(&t[k]);
        left--;
    }
    return wrong;
}

static int start_all(peal_comm *const *comms, rooms *r, unsigned call, unsigned *seed, unsigned *mine)
{
    peal_request *requests[COMMS] = {NULL};
    turn t[COMMS];
    unsigned first = turn_next(mine) % COMMS;
    char nodes[16];
    snprintf(nodes, sizeof nodes, "%d", world_size);
    for (unsigned k = 0; k < COMMS; k++) {
        t[k] = (turn){.call = call * COMMS + k, .n = world_size, .rank = peal_comm_rank(comms[k])};
        turn_draw(&t[k], sizes, sizeof sizes / sizeof *sizes, nodes, seed);
        place(&r[k], ANYBODY, &t[k], mine);
    }
    for (unsigned i = 0; i < COMMS; i++) {
        unsigned k = (first + i) % COMMS;
        if (turn_start(comms[k], &t[k], &requests[k]) != PEAL_OK)
            return 1;
    }
    return end_all(t, requests, mine);
}

/* One with the ranks in order, one with them turned round, one of messages. */
static void several_in_flight(void **state)
{
    peal_comm *comms[COMMS];
    rooms r[COMMS];
    unsigned seed = 7, mine = (unsigned)world_rank;
    int wrong = 0;
    for (int k = 0; k < COMMS; k++) {
        rooms_open(&r[k]);
        assert_int_equal(world_comm(&(peali_layout){.apart = k == 2}, world_size, k == 1 ? -world_rank : world_rank, &comms[k]),
                         PEAL_OK);
    }
    alarm(SCENE_SECONDS);
    for (unsigned call = 0; call < 40 && !wrong; call++)
        wrong = start_all(comms, r, call, &seed, &mine);
    assert_true(world_all(!wrong));
    for (int k = 0; k < COMMS; k++) {
        peal_comm_destroy(&comms[k]);
        rooms_close(&r[k]);
    }
}

/* What this process has taken of the machine. */
typedef struct footprint {
    long private_kib, pool_kib, mappings, descriptors;
} footprint;

static long status_kib(const char *what)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtol(line + strlen(what), NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

static long lines_of(const char *path)
{
    long lines = 0;
    FILE *f = fopen(path, "r");
    for (int c; f && (c = getc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines;
}

static long entries_of(const char *path)
{
    long entries = 0;
    DIR *d = opendir(path);
    while (d && readdir(d))
        entries++;
    if (d)
        closedir(d);
    return entries;
}

/* What malloc keeps for later goes back first: it does so by itself now and then. */
static footprint footprint_now(void)
{
    malloc_trim(0);
    peali_pool_view view;
    struct stat file;
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    assert_int_equal(fstat(view.fd, &file), 0);
    return (footprint){status_kib("RssAnon:"), file.st_blocks / 2, lines_of("/proc/self/maps"), entries_of("/proc/self/fd")};
}

/* Calls of all sizes and kinds, on memory of both kinds. */
static void exercise(peal_comm *comm, rooms *r)
{
    char nodes[16];
    unsigned mine = 0;
    int wrong = 0;
    snprintf(nodes, sizeof nodes, "%d", world_size);
    for (unsigned call = 0; call < 64; call++) {
        unsigned seed = call;
        turn t = {.call = call, .n = world_size, .rank = world_rank};
        turn_draw(&t, &sizes[call % 8], 1, nodes, &seed);
        place(r, call / 8 % 2 ? ALL : NOBODY, &t, &mine);
        wrong |= turn_play(comm, &t);
    }
    assert_true(world_all(!wrong));
}

/* True, and said, where what a process takes is not known to be Peal's. */
static bool others_take(void)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: a sanitizer keeps what is freed\n");
    return true;
#else
    return false;
#endif
}

static void come_and_go(void **state)
{
    enum { TIMES = 100, WARM = 20 };
    footprint early = {0}, late;
    rooms r;
    if (others_take())
        skip();
    rooms_open(&r);
    alarm(SCENE_SECONDS);
    for (int k = 0; k < TIMES; k++) {
        peal_comm *comm;
        if (k == WARM)
            early = footprint_now();
        assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
        if (k % 10 == 0)
            exercise(comm, &r);
        peal_comm_destroy(&comm);
    }
    late = footprint_now();
    print_message("rank %d: after %d communicators, and after %d: private %ld KiB, %ld; pool %ld KiB, %ld; mappings %ld, %ld\n",
                  world_rank, WARM, TIMES, early.private_kib, late.private_kib, early.pool_kib, late.pool_kib, early.mappings,
                  late.mappings);
    assert_true(late.private_kib - early.private_kib < 256 && late.pool_kib - early.pool_kib < 64);
    assert_true(late.mappings - early.mappings < 8 && late.descriptors <= early.descriptors);
    rooms_close(&r);
}

/* What peal/mpi.h promises. */
static void cost(void **state)
{
    enum { AT_ONCE = 20, MOST_KIB = 1024 };
    peal_comm *comms[AT_ONCE];
    footprint before, after;
    rooms r;
    if (others_take())
        skip();
    rooms_open(&r);
    alarm(SCENE_SECONDS);
    for (int k = 0; k < AT_ONCE; k++) {
        assert_int_equal(world_comm(NULL, world_size, world_rank, &comms[k]), PEAL_OK);
        exercise(comms[k], &r);
        if (k == 0)
            before = footprint_now();
    }
    after = footprint_now();
    long private_kib = (after.private_kib - before.private_kib) / (AT_ONCE - 1);
    long pool_kib = (after.pool_kib - before.pool_kib) / (AT_ONCE - 1);
    print_message("rank %d of %d: a communicator takes %ld KiB of its own, %ld KiB that peers see\n", world_rank, world_size,
                  private_kib, pool_kib);
    assert_true(private_kib + pool_kib < MOST_KIB * (world_size - 1));
    for (int k = 0; k < AT_ONCE; k++)
        peal_comm_destroy(&comms[k]);
    rooms_close(&r);
}

/* The slices that the table has for ordinary memory fit the landing areas: else calls would be staged. */
static void long_calls_land(void **state)
{
    enum { LONG = 1 << 20 };
    peal_comm *comm;
    int32_t *in = malloc(LONG * sizeof *in), *out = malloc(LONG * sizeof *out);
    int pushed = 0, right = 0;
    assert_true(in && out);
    for (int32_t i = 0; i < LONG; i++)
        in[i] = i;
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    assert_int_equal(peal_allreduce(in, out, LONG, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
    for (int32_t i = 0; i < LONG; i++)
        right += out[i] == i * world_size;
    for (int k = 0; k < PLAN_SETS * PLAN_WAYS; k++) {
        const peali_plan *plan = comm->plans.plan[k / PLAN_WAYS][k % PLAN_WAYS];
        pushed += plan && plan->job.count == LONG && plan->program->mode == PEALI_PUSH;
    }
    assert_true(world_all(right == LONG && pushed == 1));
    peal_comm_destroy(&comm);
    free(in);
    free(out);
}

/* Calls on buffers that nobody has touched yet but their owners; the faults of this rank. */
static long faults_of_calls(peal_comm *comm, float *in, float *out, size_t each, size_t bytes)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (size_t at = 0; at + each <= bytes / sizeof *in; at += each)
        assert_int_equal(peal_allreduce(in + at, out + at, each, PEAL_FLOAT, PEAL_SUM, comm, NULL), PEAL_OK);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

/*
 * The first use of peal_mem_alloc's memory in calls: a fault for 2 MiB of every rank's in and out, as far as these are whole,
 * one for the mapping of the own that calls use, and what MPI has now and then. Without huge pages it is several a call.
 */
static void faults(void **state)
{
    enum { UNITS = 4, LAST = 128 << 10, COUNT = 4096, OTHERS = 64 };
    const size_t huge = 2 << 20, bytes = UNITS * huge;
    peal_comm *comm;
    float *in = peal_mem_alloc(bytes), *out = peal_mem_alloc(bytes), *warm = peal_mem_alloc(bytes);
    if (others_take())
        skip();
    assert_true(in && out && warm);
    memset(warm, 0, bytes);
    bool able = madvise(warm, bytes, 25 /* MADV_COLLAPSE */) == 0;
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    alarm(SCENE_SECONDS);
    (void)faults_of_calls(comm, warm, warm, COUNT, bytes / 16);
    long had = faults_of_calls(comm, in, out, COUNT, bytes - LAST);
    print_message("rank %d: %ld faults in %zu calls%s\n", world_rank, had, (bytes - LAST) / sizeof *in / COUNT,
                  able ? "" : ", no huge pages");
    assert_true(world_all(!able || had <= 2 * UNITS * (world_size + 1) + OTHERS));
    peal_comm_destroy(&comm);
    peal_mem_free(in);
    peal_mem_free(out);
    peal_mem_free(warm);
}

/*
 * The same of a block as libpeal_heap has it, which its owner has written: a fault for 64 KiB of every rank's in and out, or half
 * as many again, as Linux leaves out pages that another rank faults for. By stores alone it is one for each page of every out.
 */
static void faults_around(void **state)
{
    enum { AROUND = 64 << 10, COUNT = 1024, OTHERS = 200 };
    const size_t bytes = 4 << 20;
    peal_comm *comm;
    peali_pool_view view;
    if (others_take())
        skip();
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    float *in = peali_pool_alloc(bytes, PEALI_POOL_USER), *out = peali_pool_alloc(bytes, PEALI_POOL_USER);
    float *warm = peal_mem_alloc(bytes);
    assert_true(in && out && warm);
    memset(in, 0, bytes);
    memset(out, 0, bytes);
    memset(warm, 0, bytes);
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    alarm(SCENE_SECONDS);
    (void)faults_of_calls(comm, warm, warm, COUNT, bytes / 16);
    const long most = 4 * world_size * (long)(bytes / AROUND) + OTHERS;
    long had = faults_of_calls(comm, in, out, COUNT, bytes);
    print_message("rank %d: %ld faults in %zu calls, of %ld\n", world_rank, had, bytes / sizeof *in / COUNT, most);
    assert_true(world_all(had <= most));
    peal_comm_destroy(&comm);
    peali_pool_free(in);
    peali_pool_free(out);
    peal_mem_free(warm);
}

/* Broadcasts of ROOT's buffer, of this kind of memory, and a barrier, at whose begin ranks take note of them. */
static void broadcast(peal_comm *comm, const rooms *r, int root, bool shared, size_t count)
{
    bool sees = world_rank == root ? shared : (world_rank + root) % 2;
    uint32_t *buffer = (sees ? r->shared : r->ordinary)[0];
    for (size_t i = 0; i < count; i++)
        buffer[i] = world_rank == root ? (uint32_t)(i * 7 + count) : 0;
    assert_int_equal(peal_broadcast(buffer, count, PEAL_UINT32, root, comm, NULL), PEAL_OK);
    for (size_t i = 0; i < count; i++)
        if (buffer[i] != (uint32_t)(i * 7 + count))
            fail_msg("element %zu of %zu is %u", i, count, buffer[i]);
    assert_int_equal(peal_barrier(comm, NULL), PEAL_OK);
}

/* Of a broadcast only its root's memory counts, and all ranks are of one mind about it, whatever algorithm it takes. */
static void broadcasts_tell(void **state)
{
    static const bool seen[] = {true, true, false, false, true, false};
    const size_t counts[] = {1, 200, 5000, (size_t)world_size * LONGEST};
    rooms r;
    peal_comm *comm;
    rooms_open(&r);
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    alarm(SCENE_SECONDS);
    for (int a = -1; a < 0 || peali_algos[a]; a++) {
        if (a >= 0 && peali_algos[a]->kind != PEAL_BROADCAST)
            continue;
        if (a >= 0 && peal_comm_force(comm, PEAL_BROADCAST, peali_algos[a]->name) != PEAL_OK)
            continue;
        for (size_t k = 0; k < 4 * (sizeof seen / sizeof *seen); k++) {
            broadcast(comm, &r, (int)k % world_size, seen[k / 4], counts[k % 4]);
            int size = 63 - __builtin_clzll(counts[k % 4] * sizeof(uint32_t)), mine = comm->seen[PEAL_BROADCAST] >> size & 1;
            assert_true(world_all(mine) || world_all(!mine));
            assert_true(a >= 0 || mine == seen[k / 4]);
        }
    }
    peal_comm_destroy(&comm);
    rooms_close(&r);
}

/* Did the last sum of so many elements go by the buffers themselves? */
static bool pulled(const peal_comm *comm, size_t count)
{
    bool pulls = false;
    for (int k = 0; k < PEALI_RECENT; k++) {
        const peali_recent *r = &comm->recent[k];
        pulls |= r->plan && r->kind == PEAL_ALLREDUCE && r->count == count && r->plan->program->mode == PEALI_PULL;
    }
    return pulls;
}

/*
 * Of a sum both buffers of every rank count, whoever it is that has one where the others do not see it; and the next one of its
 * size goes by what it found.
 */
static void sums_tell(void **state)
{
    static const int hides[] = {0, 1, 0, 2, 0, 3}; /* in, and out, of one rank, in calls that expect them to be seen */
    const size_t counts[] = {1, 200, 5000, (size_t)world_size * LONGEST};
    peal_comm *comm;
    rooms r;
    rooms_open(&r);
    alarm(SCENE_SECONDS);
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    for (int k = 0; k < 48; k++) {
        const int hidden = hides[k / 4 % 6];
        const size_t count = counts[k % 4], size = 63 - (size_t)__builtin_clzll(count * sizeof(uint32_t));
        const bool mine = k < 24 ? world_rank == 0 : world_rank == world_size - 1;
        uint32_t *in = (mine && hidden & 1 ? r.ordinary : r.shared)[0], *out = (mine && hidden & 2 ? r.ordinary : r.shared)[1];
        memset(in, k + 1, count * sizeof *in);
        assert_int_equal(peal_allreduce(in, out, count, PEAL_UINT32, PEAL_BOR, comm, NULL), PEAL_OK);
        assert_int_equal(out[count - 1], 0x01010101u * (unsigned)(k + 1));
        assert_true(pulled(comm, count) == (k % 4 > 1 && k > 4 && hides[(k - 4) / 4 % 6] == 0));
        assert_int_equal(peal_barrier(comm, NULL), PEAL_OK);
        assert_true(world_all((comm->seen[PEAL_ALLREDUCE] >> size & 1) == !hidden));
    }
    peal_comm_destroy(&comm);
    rooms_close(&r);
}

/*
 * A reduce tells its root alone what memory it met, where it goes down a tree, as the table has it in ordinary memory: the others
 * find out some calls later, all in the same one, however far apart they are.
 */
static void reduces_find_out(void **state)
{
    enum { CALLS = 8 };
    const size_t counts[] = {6000, (size_t)world_size * LONGEST};
    peal_comm *comm;
    rooms r;
    rooms_open(&r);
    alarm(SCENE_SECONDS);
    assert_int_equal(world_comm(NULL, world_size, world_rank, &comm), PEAL_OK);
    for (int k = 0; k < 8 * CALLS; k++) {
        const int phase = k / 2 / CALLS; /* ordinary memory, shared, ordinary, and shared but for one rank's */
        const bool shared = phase == 1 || (phase == 3 && world_rank > 0);
        const int root = k % world_size;
        const size_t count = counts[k / CALLS % 2], size = 63 - (size_t)__builtin_clzll(count * sizeof(uint32_t));
        uint32_t **at = shared ? r.shared : r.ordinary;
        memset(at[0], k + 1, count * sizeof(uint32_t));
        assert_int_equal(peal_reduce(at[0], world_rank == root ? at[1] : NULL, count, PEAL_UINT32, PEAL_BOR, root, comm, NULL),
                         PEAL_OK);
        assert_true(world_rank != root || at[1][count - 1] == 0x01010101u * (unsigned)(k + 1));
        if (k % CALLS < CALLS - 1)
            continue;
        assert_int_equal(peal_barrier(comm, NULL), PEAL_OK);
        assert_true(world_all((comm->seen[PEAL_REDUCE] >> size & 1) == (phase == 1)));
    }
    peal_comm_destroy(&comm);
    rooms_close(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_in_a_row),
        cmocka_unit_test(several_in_flight),
        cmocka_unit_test(come_and_go),
        cmocka_unit_test(cost),
        cmocka_unit_test(long_calls_land),
        cmocka_unit_test(faults),
        cmocka_unit_test(faults_around),
        cmocka_unit_test(broadcasts_tell),
        cmocka_unit_test(sums_tell),
        cmocka_unit_test(reduces_find_out),
    };
    scenes = argc > 1 ? atoi(argv[1]) : scenes;
    calls = argc > 2 ? atoi(argv[2]) : calls;
    first_seed = argc > 3 ? atoi(argv[3]) : first_seed;
    signal(SIGALRM, too_long);
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("shm", tests, NULL, NULL);
    MPI_Finalize();
    return failed != 0;
}
