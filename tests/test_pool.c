/* The pool: limits, blocks, zeros, threads. Its forks are in test_fork.c. */
#include "pool_test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/idle.h"
#include "exec/host.h"

/* --- limits, in children that have no pool yet */

static void limit(int what, size_t most)
{
    struct rlimit r = {most, most};
    CHILD_CHECK(1, setrlimit(what, &r) == 0);
}

static void refused(void)
{
    void *before = malloc(1);
    CHILD_CHECK(3, peali_pool_open(&view) == PEAL_ERR_UNSUPPORTED);
    CHILD_CHECK(4, peali_pool_open(&view) == PEAL_ERR_UNSUPPORTED);
    CHILD_CHECK(5, peali_pool_alloc(1, PEALI_POOL_USER) == NULL);
    CHILD_CHECK(6, !peali_pool_holds(before, 1) && !peali_pool_owns(before) && !peali_pool_holds(NULL, 0));
    unsigned char *plain = peal_mem_alloc(10 * PAGE + 1);
    CHILD_CHECK(7, plain && (uintptr_t)plain % PAGE == 0 && all_are(plain, 10 * PAGE + 1, 0));
    memset(plain, 1, 10 * PAGE + 1);
    peal_mem_free(plain);
    free(before);
}

static void no_descriptors(void)
{
    limit(RLIMIT_NOFILE, 3);
    refused();
}

static void no_file_size(void)
{
    limit(RLIMIT_FSIZE, 100 * MIB);
    refused();
}

/* However many they are. */
static void limited_addresses(void)
{
    limit(RLIMIT_AS, (size_t)1 << 62);
    refused();
}

/* What a fork makes private counts there, which nobody could do without. */
static void limited_data(void)
{
    limit(RLIMIT_DATA, (size_t)1 << 62);
    refused();
}

static void little_file_size(void)
{
    limit(RLIMIT_FSIZE, (size_t)2300 * MIB);
    CHILD_CHECK(8, peali_pool_open(&view) == PEAL_OK);
    CHILD_CHECK(9, view.bytes >= (size_t)1024 * MIB && view.bytes <= (size_t)2300 * MIB && view.bytes % (2 * MIB) == 0);
    unsigned char *at = peali_pool_alloc(view.bytes, PEALI_POOL_USER);
    CHILD_CHECK(10, at == view.base);
    at[view.bytes - 1] = 1;
    CHILD_CHECK(11, peali_pool_alloc(1, PEALI_POOL_USER) == NULL);
    peali_pool_free(at);
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(in_child(no_descriptors), 0);
    assert_int_equal(in_child(no_file_size), 0);
    assert_int_equal(in_child(limited_addresses), 0);
    assert_int_equal(in_child(limited_data), 0);
    assert_int_equal(in_child(little_file_size), 0);
}

/* --- one process */

static void opens(void **state)
{
    (void)state;
    peali_pool_view again;
    open_pool();
    assert_int_equal(peali_pool_open(&again), PEAL_OK);
    assert_memory_equal(&view, &again, sizeof view);
    assert_true(view.id[0] || view.id[1]);
    assert_int_equal((uintptr_t)view.base % (2 * MIB), 0);
    assert_int_equal(ftruncate(view.fd, 0), -1);
    assert_int_equal(write(STDOUT_FILENO, view.base + view.bytes - 1, 1), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(ftruncate(view.fd, (off_t)view.bytes * 2), -1);
    assert_all_free();
}

static void zeroed(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        unsigned char *small = user(1), *large = user(5 * MIB), *peers = peali_pool_alloc(3 * PAGE + 1, PEALI_POOL_PEERS);
        assert_true(all_are(small, PAGE, 0) && all_are(large, 5 * MIB, 0) && all_are(peers, 4 * PAGE, 0));
        assert_int_equal((uintptr_t)small % PAGE, 0);
        assert_int_equal((uintptr_t)large % (2 * MIB), 0);
        memset(small, 1, PAGE);
        memset(large, 2, 5 * MIB);
        memset(peers, 3, 4 * PAGE);
        assert_true(all_are(as_peer(small), PAGE, 1) && all_are(as_peer(large), 5 * MIB, 2));
        assert_true(all_are(as_peer(peers), 4 * PAGE, 3));
        assert_true(memory_of_file() >= 5 * MIB + 5 * PAGE);
        peali_pool_free(large);
        peali_pool_free(small);
        peali_pool_free(peers);
        assert_all_free();
    }
}

static void holds(void **state)
{
    (void)state;
    unsigned char *at = user(3 * PAGE), *plain = malloc(PAGE);
    assert_true(peali_pool_holds(at, 3 * PAGE) && peali_pool_holds(at + 5, 1) && peali_pool_holds(at, 0));
    assert_true(peali_pool_owns(at));
    assert_false(peali_pool_holds(plain, 1) || peali_pool_holds(plain, 0) || peali_pool_owns(plain));
    assert_false(peali_pool_holds(NULL, 0) || peali_pool_holds(at, SIZE_MAX) || peali_pool_holds(view.base - 1, 2));
    assert_true(peali_pool_holds(view.base, view.bytes));
    assert_false(peali_pool_holds(view.base + 1, view.bytes) || peali_pool_holds(view.base + view.bytes, 0));
    free(plain);
    peali_pool_free(at);
}

static void sizes_at_the_end(void **state)
{
    (void)state;
    assert_null(peali_pool_alloc(view.bytes + 1, PEALI_POOL_USER));
    assert_null(peali_pool_alloc(SIZE_MAX, PEALI_POOL_USER));
    void *most = user(view.bytes - 2 * MIB), *none = user(0);
    assert_null(peali_pool_alloc(3 * MIB, PEALI_POOL_USER));
    peali_pool_free(none);
    void *rest = user(2 * MIB);
    assert_null(peali_pool_alloc(0, PEALI_POOL_PEERS));
    peali_pool_free(most);
    peali_pool_free(rest);
    assert_all_free();
}

/* Blocks of 1 to 4 pages, freed in another order: each keeps what was written to its first bytes. */
static void thousands(void **state)
{
    (void)state;
    enum { BLOCKS = 10000 };
    static int *block[BLOCKS];
    unsigned seed = 1;
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = (int *)user((size_t)(1 + i % 4) * PAGE);
        *block[i] = i;
    }
    for (int i = BLOCKS - 1; i > 0; i--) {
        int j = (int)(next_random(&seed) % (unsigned)(i + 1)), *kept = block[i];
        block[i] = block[j];
        block[j] = kept;
    }
    for (int i = 0; i < BLOCKS; i += 2)
        peali_pool_free(block[i]);
    for (int i = 0; i < BLOCKS; i += 2) {
        block[i] = (int *)user(3 * PAGE);
        assert_int_equal(*block[i], 0);
    }
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(i % 2 == 0 || *block[i] >= 0);
        peali_pool_free(block[i]);
    }
    assert_all_free();
}

static void parts(void **state)
{
    (void)state;
    unsigned char *at = user(8 * PAGE);
    memset(at, 7, 8 * PAGE);
    peali_pool_split(at, 5 * PAGE);
    peali_pool_split(at + 5 * PAGE, PAGE);
    peali_pool_free(at + 6 * PAGE);
    assert_int_equal(memory_of_file(), 6 * PAGE);
    peali_pool_free(at);
    assert_true(all_are(at + 5 * PAGE, PAGE, 7));
    peali_pool_free(at + 5 * PAGE);
    assert_all_free();
}

/* --- threads */

static void threads(void **state)
{
    (void)state;
    unsigned seed[4] = {1, 2, 3, 4};
    thread_work *const work[] = {churn, churn, churn, churn};
    assert_true(on_threads(4, work, (void *const[]){&seed[0], &seed[1], &seed[2], &seed[3]}, NULL));
    assert_all_free();
}

static void without_streams(void)
{
    peali_memfile file;
    peali_host *host = NULL;
    peali_host_card card;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    CHILD_CHECK(1, peali_memfile_open(&file, PAGE));
    CHILD_CHECK(2, peali_host_open(&host, &card) == PEAL_OK);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        CHILD_CHECK(3 + fd, fcntl(fd, F_GETFD) < 0);
    peali_host_close(&host);
    peali_memfile_close(&file);
}

/* What a program prints to a stream that it closed lands neither in memory nor in a socket. */
static void no_stream_is_ours(void **state)
{
    assert_int_equal(in_child(without_streams), 0);
}

static void public_calls(void **state)
{
    (void)state;
    unsigned char *at = peal_mem_alloc(3 * MIB), *none = peal_mem_alloc(0), *most = peal_mem_alloc(SIZE_MAX);
    assert_true(at && none && !most && peali_pool_holds(at, 3 * MIB));
    peal_mem_free(at + PAGE); /* these say what was wrong, and free nothing */
    peal_mem_free(at + 1);
    memset(at, 7, 3 * MIB);
    assert_true(all_are(at, 3 * MIB, 7));
    peal_mem_free(at);
    peal_mem_free(at);
    peal_mem_free(none);
    peal_mem_free(NULL);
    assert_all_free();
}

/* Faults of this thread in touching the first byte of each page; a sanitizer's own would count too. */
__attribute__((no_sanitize("address", "thread"))) static long faults_of(volatile unsigned char *at, size_t bytes)
{
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_minflt - before.ru_minflt;
}

/* Large blocks of one core begin at different places of what one way of a cache holds, are whole, and go where they came from. */
static void colours(void **state)
{
    (void)state;
    enum { BLOCKS = 32, WAY = 128 << 10, BYTES = 2 * MIB + PAGE };
    unsigned char *at[BLOCKS], *small = peal_mem_alloc(PAGE);
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int k = 0; k < BLOCKS; k++) {
        at[k] = peal_mem_alloc(BYTES);
        assert_true(at[k] && peali_pool_holds(at[k], BYTES) && (uintptr_t)at[k] % PAGE == 0 && all_are(at[k], BYTES, 0));
        memset(at[k], k + 1, BYTES);
        for (int j = 0; j < k; j++)
            assert_true((size_t)(at[k] - at[j]) % WAY != 0);
    }
    for (int k = 0; k < BLOCKS; k++) {
        assert_true(all_are(at[k], BYTES, k + 1));
        peal_mem_free(at[k]);
    }
    peal_mem_free(small);
    sched_setaffinity(0, sizeof before, &before);
    assert_all_free();
}

/* Who first touches memory of peal_mem_alloc, its owner or a peer, has one fault for 2 MiB, as far as these are whole. */
static void faults(void **state)
{
    (void)state;
    enum { UNITS = 6, ODD = 3 * PAGE };
    unsigned char *probe = user(2 * MIB), *at = peal_mem_alloc(UNITS * 2 * MIB + ODD);
    probe[0] = 1;
    bool able = madvise(probe, 2 * MIB, 25 /* MADV_COLLAPSE */) == 0;
    int reason = errno;
    peali_pool_free(probe);
    assert_true(at && all_are(at, UNITS * 2 * MIB + ODD, 0));
    if (!able) {
        print_message("skipped: no huge pages of shared memory: %s\n", strerror(reason));
        peal_mem_free(at);
        skip();
    }
    const size_t whole = UNITS * 2 * MIB - (uintptr_t)at % (2 * MIB);
    long own = faults_of(at, whole), peers = faults_of(as_peer(at), whole);
    print_message("faults in %d MiB: its owner %ld, a peer %ld\n", UNITS * 2, own, peers);
    assert_true(own <= UNITS && peers <= UNITS);
    peal_mem_free(at);
    assert_all_free();
}

static long shared_pages(void)
{
    long all, resident, shared = -1;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%ld %ld %ld", &all, &resident, &shared) == 3);
    fclose(f);
    return shared;
}

/* More than half of a core's share of what lies idle may never be written: to take it at once could cost all their lives. */
static void large(void **state)
{
    (void)state;
    const size_t bytes = peali_idle_all() / 2 / (size_t)sysconf(_SC_NPROCESSORS_ONLN) + 256 * MIB;
    const long before = shared_pages();
    unsigned char *at = peal_mem_alloc(bytes);
    assert_non_null(at);
    print_message("of %zu MiB were taken: %ld\n", bytes / MIB, (shared_pages() - before) * (long)PAGE / (long)MIB);
    assert_true(!peali_pool_holds(at, bytes) || shared_pages() - before < (long)(32 * MIB / PAGE));
    at[bytes - 1] = 1;
    peal_mem_free(at);
    assert_all_free();
}

int main(void)
{
    POOL_SKIP_UNLESS_SUPPORTED();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits), /* first two: nothing has opened the pool of this process yet */
        cmocka_unit_test(no_stream_is_ours),
        cmocka_unit_test(opens),
        cmocka_unit_test(zeroed),
        cmocka_unit_test(holds),
        cmocka_unit_test(sizes_at_the_end),
        cmocka_unit_test(thousands),
        cmocka_unit_test(parts),
        cmocka_unit_test(threads),
        cmocka_unit_test(public_calls),
        cmocka_unit_test(colours),
        cmocka_unit_test(faults),
        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
