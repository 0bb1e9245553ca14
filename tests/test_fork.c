/*
 * Forks of a process that has a pool: parent and child see their own writes only, also while other threads work, and what the
 * parent frees is used again when nobody can see it any more.
 */
#include "pool_test.h"

#include <fcntl.h>

#include "base/atomics.h"

/* TSan copies its shadow at each fork. */
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 50, ROUNDS_BESIDE = 10 };
#else
enum { ROUNDS = 2000, ROUNDS_BESIDE = 200 };
#endif

enum { BESIDE_BYTES = 16 * MIB };

static unsigned char *data, *flags; /* what the children below find */
static int go[2], ready[2];         /* pipes: the parent lets the child go on; the child has come there */

static void step(int fd)
{
    char byte = 0;
    if (write(fd, &byte, 1) != 1)
        _exit(90);
}

static void await_step(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        _exit(91);
}

static void setup_blocks(void)
{
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    data = user(4 * MIB);
    flags = peali_pool_alloc(PAGE, PEALI_POOL_PEERS);
    assert_non_null(flags);
    memset(data, 1, 4 * MIB);
    flags[0] = 1;
}

static void close_pipes(void)
{
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
}

static void child_writes(void)
{
    CHILD_CHECK(1, all_are(data, 4 * MIB, 1));
    memset(data, 2, MIB);
    step(ready[1]);
    await_step(go[0]);
    CHILD_CHECK(2, all_are(data, MIB, 2) && all_are(data + MIB, 3 * MIB, 1));
}

/* Each sees its own writes, and the peer none of them. */
static void fork_keeps_apart(void **state)
{
    (void)state;
    setup_blocks();
    pid_t child = start(child_writes);
    assert_false(peali_pool_holds(data, 1) || peali_pool_holds(data + 4 * MIB - 1, 1));
    assert_true(peali_pool_holds(flags, PAGE));
    await_step(ready[0]);
    assert_true(all_are(data, 4 * MIB, 1));
    memset(data + MIB, 3, MIB);
    flags[0] = 2;
    step(go[1]);
    assert_int_equal(wait_for(child), 0);
    assert_true(all_are(data, MIB, 1) && all_are(data + MIB, MIB, 3) && all_are(data + 2 * MIB, 2 * MIB, 1));
    assert_true(all_are(as_peer(data), 4 * MIB, 1) && as_peer(flags)[0] == 2);
    peali_pool_free(data);
    data = user(4 * MIB);
    assert_true(peali_pool_holds(data, 4 * MIB) && all_are(data, 4 * MIB, 0));
    data[5] = 9;
    assert_int_equal(as_peer(data)[5], 9);
    peali_pool_free(data);
    peali_pool_free(flags);
    close_pipes();
    assert_all_free();
}

static void child_reads_late(void)
{
    for (int fd = 3; fd < 64; fd++)
        if (fd != go[0])
            close(fd);
    await_step(go[0]);
    CHILD_CHECK(1, all_are(data, 4 * MIB, 1));
}

static void child_of_before(void)
{
    CHILD_CHECK(1, data[0] == 1);
}

/*
 * What the parent frees, a child that has not read it yet still has, even if it closed all descriptors, and was not the first that
 * found it; later it is used again.
 */
static void freed_before_child_reads(void **state)
{
    (void)state;
    setup_blocks();
    assert_int_equal(in_child(child_of_before), 0);
    pid_t child = start(child_reads_late);
    peali_pool_free(data);
    unsigned char *other[8];
    for (int i = 0; i < 8; i++)
        memset(other[i] = user(4 * MIB), 5, 4 * MIB);
    assert_null(peali_pool_alloc(view.bytes - 32 * MIB - 2 * MIB, PEALI_POOL_USER));
    step(go[1]);
    assert_int_equal(wait_for(child), 0);
    for (int i = 0; i < 8; i++)
        peali_pool_free(other[i]);
    peali_pool_free(flags);
    close_pipes();
    assert_all_free();
}

static void grandchild(void)
{
    CHILD_CHECK(20, data[0] == 2 && data[MIB] == 1);
    data[0] = 3;
    peali_pool_free(data);
}

static void child_lives_on(void)
{
    peali_pool_view mine;
    CHILD_CHECK(1, peali_pool_open(&mine) == PEAL_ERR_UNSUPPORTED);
    CHILD_CHECK(2, !peali_pool_alloc(PAGE, PEALI_POOL_USER) && !peali_pool_alloc(PAGE, PEALI_POOL_PEERS));
    CHILD_CHECK(3, !peali_pool_holds(data, 1) && !peali_pool_holds(flags, 1) && peali_pool_owns(data));
    memset(data, 2, MIB);
    CHILD_CHECK(4, in_child(grandchild) == 0 && data[0] == 2);
    peali_pool_split(data, MIB);
    peali_pool_free(data);
    CHILD_CHECK(5, all_are(data + MIB, 3 * MIB, 1));
    peali_pool_free(data + MIB);
    peali_pool_free(flags);
    unsigned char *plain = peal_mem_alloc(PAGE);
    CHILD_CHECK(6, plain && !peali_pool_owns(plain));
    peal_mem_free(plain);
}

static void child_frees(void **state)
{
    (void)state;
    setup_blocks();
    assert_int_equal(in_child(child_lives_on), 0);
    assert_true(all_are(data, 4 * MIB, 1) && all_are(as_peer(data), 4 * MIB, 1) && flags[0] == 1);
    peali_pool_free(data);
    peali_pool_free(flags);
    close_pipes();
    assert_all_free();
}

/* A child that ran another program sees nothing any more, however long that lives. */
static void child_runs_a_program(void **state)
{
    (void)state;
    setup_blocks();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    peali_pool_free(data);
    peali_pool_free(flags);
    void *all = NULL;
    for (int tries = 0; tries < 2000 && !all; tries++) {
        usleep(5000);
        all = peali_pool_alloc(view.bytes, PEALI_POOL_USER);
    }
    assert_non_null(all);
    assert_int_equal(kill(child, SIGKILL), 0);
    wait_for(child);
    peali_pool_free(all);
    close_pipes();
    assert_all_free();
}

/* More living children than there are tokens; blocks that are born and freed between their forks. */
static void many_children(void **state)
{
    (void)state;
    enum { CHILDREN = 40 };
    pid_t child[CHILDREN];
    setup_blocks();
    for (int i = 0; i < CHILDREN; i++) {
        unsigned char *brief = user(PAGE);
        child[i] = start(child_reads_late);
        peali_pool_free(brief);
    }
    peali_pool_free(data);
    for (int i = 0; i < CHILDREN; i++)
        step(go[1]);
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(wait_for(child[i]), 0);
    peali_pool_free(flags);
    close_pipes();
    assert_all_free();
}

/* --- forks while others work */

static int stop;

/* Counts in a block of its own that is made anew now and then: no count may be lost. */
static void *count(void *arg)
{
    (void)arg;
    for (int round = 0; !peali_load_acquire(&stop); round++) {
        volatile unsigned *n = peali_pool_alloc(2 * PAGE, PEALI_POOL_USER);
        for (unsigned i = 1; n && i <= 5000; i++) {
            n[0]++;
            n[1024]++;
            if (n[0] != i || n[1024] != i)
                return (void *)n;
        }
        if (n)
            peali_pool_free((void *)n);
    }
    return NULL;
}

static unsigned round_number;

static void child_of_round(void)
{
    unsigned *at = (unsigned *)data;
    for (unsigned i = 0; i < 4; i++)
        CHILD_CHECK(1, at[i * 1024] == round_number);
    for (unsigned i = 0; i < 4; i++)
        at[i * 1024] = 0;
    peali_pool_free(data);
}

/* The block is at times as old as the round before, and at times new; ROUNDS times. */
static void forks(int rounds)
{
    data = user(4 * PAGE);
    for (round_number = 1; round_number <= (unsigned)rounds; round_number++) {
        if (round_number % 3 == 0) {
            peali_pool_free(data);
            data = user(4 * PAGE);
        }
        for (unsigned i = 0; i < 4; i++)
            ((unsigned *)data)[i * 1024] = round_number;
        assert_int_equal(in_child(child_of_round), 0);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(((unsigned *)data)[i * 1024], round_number);
    }
    peali_pool_free(data);
}

static void fork_rounds(void **state)
{
    (void)state;
    forks(ROUNDS);
    assert_all_free();
}

static void fork_often(void)
{
    forks(ROUNDS_BESIDE);
    peali_store_release(&stop, 1);
}

static void fork_beside_threads(void **state)
{
    (void)state;
    unsigned seed[2] = {7, 8};
    thread_work *const work[] = {count, count, churn, churn};
    assert_true(on_threads(4, work, (void *const[]){NULL, NULL, &seed[0], &seed[1]}, fork_often));
    assert_all_free();
}

static void *fork_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS_BESIDE / 4; i++) {
        pid_t child = fork();
        int status;
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return &stop;
    }
    return NULL;
}

/* Two forks at a time. */
static void forks_overlap(void **state)
{
    (void)state;
    unsigned seed = 9;
    thread_work *const work[] = {fork_some, fork_some, churn};
    assert_true(on_threads(3, work, (void *const[]){NULL, NULL, &seed}, NULL));
    assert_all_free();
}

static unsigned char *stored;
static int stop;
static long unseen; /* stores of which holds() said that peers see them, and they did not */

static void *store_and_look(void *arg)
{
    for (unsigned n = 1; !peali_load_acquire(&stop); n++)
        for (size_t at = 0; at < BESIDE_BYTES; at += PAGE) {
            *(volatile unsigned char *)(stored + at) = (unsigned char)n;
            unseen += peali_pool_holds(stored + at, 1) && *(volatile unsigned char *)as_peer(stored + at) != (unsigned char)n;
        }
    return arg;
}

/* While one thread forks, what another stores is private at once, or seen. */
static void stores_beside_a_fork(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS_BESIDE / 5; round++) {
        pthread_t thread;
        stored = user(BESIDE_BYTES);
        memset(stored, 0, BESIDE_BYTES);
        stop = 0;
        assert_int_equal(pthread_create(&thread, NULL, store_and_look, NULL), 0);
        usleep(2000);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        usleep(1000);
        peali_store_release(&stop, 1);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(wait_for(child), 0);
        peali_pool_free(stored);
        assert_int_equal(unseen, 0);
    }
}

/* system() and its like make children that only run a program: nothing becomes private. */
static void system_changes_nothing(void **state)
{
    (void)state;
    unsigned char *at = user(PAGE);
    assert_int_equal(system("exit 3"), 3 << 8);
    FILE *f = popen("echo here", "r");
    char line[16] = "";
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(pclose(f), 0);
    assert_string_equal(line, "here\n");
    assert_true(peali_pool_holds(at, PAGE));
    peali_pool_free(at);
}

static void descriptor_is_closed(void)
{
    peali_pool_view now;
    close(view.fd);
    CHILD_CHECK(1, open("/dev/null", O_RDWR) == view.fd);
    CHILD_CHECK(2, peali_pool_open(&now) == PEAL_ERR_UNSUPPORTED);
    unsigned char *at = peali_pool_alloc(PAGE, PEALI_POOL_USER);
    CHILD_CHECK(3, at);
    at[0] = 1;
    CHILD_CHECK(4, system("true") == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(at[0] == 1 ? 0 : 1);
    CHILD_CHECK(5, wait_for(child) == 0 && at[0] == 1);
    peali_pool_free(at);
    at = peali_pool_alloc(PAGE, PEALI_POOL_USER);
    CHILD_CHECK(6, at && at[0] == 0);
}

/* In a process of its own, started anew: nobody else has that pool. */
static int lose_descriptor(void)
{
    if (peali_pool_open(&view) != PEAL_OK)
        return 100;
    descriptor_is_closed();
    return 0;
}

static void closed_by_program(void **state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_pool", "lose-descriptor", (char *)NULL);
        _exit(101);
    }
    assert_int_equal(wait_for(child), 0);
}

static int open_the_pool(void **state)
{
    (void)state;
    open_pool();
    return 0;
}

static int asks; /* of a handler that was there before the pool's, and so comes behind it */
static void *got[2];

static void ask(void)
{
    if (asks)
        got[0] = peali_pool_alloc(PAGE, PEALI_POOL_USER);
    if (asks)
        got[1] = peali_pool_alloc(PAGE, PEALI_POOL_PEERS);
}

/* The user's memory that were taken now, nobody would make private; what peers share stays so. */
static void no_new_memory_in_a_fork(void **state)
{
    (void)state;
    asks = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    asks = 0;
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_null(got[0]);
    assert_non_null(got[1]);
    peali_pool_free(got[1]);
}

__attribute__((constructor(101))) static void ask_behind_the_pool(void)
{
    pthread_atfork(ask, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return lose_descriptor();
    POOL_SKIP_UNLESS_SUPPORTED();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_keeps_apart),
        cmocka_unit_test(no_new_memory_in_a_fork),
        cmocka_unit_test(freed_before_child_reads),
        cmocka_unit_test(child_frees),
        cmocka_unit_test(child_runs_a_program),
        cmocka_unit_test(many_children),
        cmocka_unit_test(fork_rounds),
        cmocka_unit_test(fork_beside_threads),
        cmocka_unit_test(forks_overlap),
        cmocka_unit_test(stores_beside_a_fork),
        cmocka_unit_test(system_changes_nothing),
        cmocka_unit_test(closed_by_program),
    };
    return cmocka_run_group_tests_name("fork", tests, open_the_pool, NULL);
}
