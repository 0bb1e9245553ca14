/* test_net.c over net_loop: how its ranks are started, and what concerns threads alone. */
#include <pthread.h>

#include "base/arena.h"
#include "net/net_loop.h"

struct start {
    peal_threads *threads;
    play *body;
    struct rank me;
    pthread_t thread;
};

static int ranks_most(void)
{
    return 8;
}

static void start(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
}

static void stop(void)
{
}

static void gather_threads(void *ctx, const void *mine, void *all, size_t bytes)
{
    struct start *s = ctx;
    if (peali_threads_allgather(s->threads, s->me.rank, mine, all, bytes) != PEAL_OK)
        exit(2);
}

static peali_net *net_of(struct start *s)
{
    peali_net *net;
    if (peali_net_loop_create(s->threads, s->me.rank, &net) != PEAL_OK)
        exit(2);
    return dressed(net, gather_threads, s);
}

static void *thread_main(void *arg)
{
    struct start *s = arg;
    s->me.net = net_of(s);
    s->me.second = net_of(s);
    s->body(&s->me);
    s->me.second->destroy(s->me.second);
    s->me.net->destroy(s->me.net);
    return NULL;
}

static int met; /* in this run */

static void meet_aside(const struct rank *me)
{
    int come = __atomic_add_fetch(&met, 1, __ATOMIC_ACQ_REL), all = (come + me->n - 1) / me->n * me->n;
    while (__atomic_load_n(&met, __ATOMIC_ACQUIRE) < all)
        usleep(100);
}

/* Runs BODY on N ranks and answers how many were bad. */
static int run_ranks(int n, play *body)
{
    struct start s[8];
    peal_threads *threads;
    int bad = 0;
    met = 0;
    assert_int_equal(peal_threads_create(n, &threads), PEAL_OK);
    assert_int_equal(peali_threads_size(threads), n);
    for (int r = 0; r < n; r++) {
        s[r] = (struct start){.threads = threads, .body = body, .me = {.rank = r, .n = n}};
        assert_int_equal(pthread_create(&s[r].thread, NULL, thread_main, &s[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(s[r].thread, NULL);
        bad += s[r].me.bad;
    }
    peal_threads_destroy(&threads);
    assert_null(threads);
    return bad;
}

static peal_threads *gather_place;

/* Some hundred gatherings in a row: a fast rank never spoils what a slow one reads. */
static void gather_body(struct rank *me)
{
    for (int i = 0; i < 300; i++) {
        int mine[2] = {me->rank, i}, all[8][2];
        EXPECT(me, peali_threads_allgather(gather_place, me->rank, mine, all, sizeof(mine)) == PEAL_OK);
        for (int r = 0; r < me->n; r++)
            EXPECT(me, all[r][0] == r && all[r][1] == i);
    }
}

static void allgather(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        assert_int_equal(peal_threads_create(n, &gather_place), PEAL_OK);
        assert_int_equal(run_ranks(n, gather_body), 0);
        peal_threads_destroy(&gather_place);
    }
}

/* A rank that never comes is an error for those that wait, and for who comes too late. */
static void allgather_alone(void **state)
{
    static const char *const words[] = {"rank 0", "1 of 2 threads", "PEAL_TIMEOUT", NULL};
    (void)state;
    peal_threads *threads;
    int mine = 1, all[2];
    assert_int_equal(peal_threads_create(2, &threads), PEAL_OK);
    assert_int_equal(peali_threads_allgather(threads, 0, &mine, all, sizeof(mine)), PEAL_ERR_TIMEOUT);
    assert_true(logged(words));
    assert_int_equal(peali_threads_allgather(threads, 1, &mine, all, sizeof(mine)), PEAL_ERR_TIMEOUT);
    peal_threads_destroy(&threads);
}

static void create_invalid(void **state)
{
    static const char *const words[] = {"peal_threads_create", "nranks 0", NULL};
    (void)state;
    peal_threads *threads = NULL;
    assert_int_equal(peal_threads_create(0, &threads), PEAL_ERR_INVALID);
    assert_null(threads);
    assert_true(logged(words));
    peal_threads_destroy(&threads);
}

/* Each allocation fails once; what was made before it is given back (the leak checkers look). */
static void no_memory(void **state)
{
    (void)state;
    int failures = 0;
    for (long at = 1;; at++, failures++) {
        peal_threads *threads = NULL;
        peali_net *net = NULL;
        peali_alloc_fail_at(at);
        peal_status status = peal_threads_create(2, &threads);
        if (status == PEAL_OK)
            status = peali_net_loop_create(threads, 0, &net);
        peali_alloc_fail_at(0);
        if (net)
            net->destroy(net);
        peal_threads_destroy(&threads);
        if (status == PEAL_OK)
            break;
        assert_int_equal(status, PEAL_ERR_MEMORY);
        assert_null(net);
    }
    assert_true(failures >= 4);
}

/* After a failure, requests are left over on both sides. One of them may go, and its peer never meets what is gone. */
static void abandoned(void **state)
{
    (void)state;
    peal_threads *threads;
    peali_net *net[2];
    int data = 0, out = 5;
    assert_int_equal(peal_threads_create(2, &threads), PEAL_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(peali_net_loop_create(threads, r, &net[r]), PEAL_OK);
    peali_net_req *lost = malloc(2 * sizeof(*lost)), late[2];
    assert_int_equal(net[0]->recv(net[0], 1, 1, &data, sizeof(data), &lost[0]), PEAL_OK);
    assert_int_equal(net[0]->send(net[0], 1, 2, &out, sizeof(out), &lost[1]), PEAL_OK);
    net[0]->destroy(net[0]);
    free(lost);
    assert_int_equal(net[1]->send(net[1], 0, 1, &out, sizeof(out), &late[0]), PEAL_OK);
    assert_int_equal(net[1]->recv(net[1], 0, 2, &data, sizeof(data), &late[1]), PEAL_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(net[1]->test(net[1], &late[i]), PEAL_IN_PROGRESS);
    assert_int_equal(data, 0);
    net[1]->destroy(net[1]);
    peal_threads_destroy(&threads);
}

static long allocations;

static void count_body(struct rank *me)
{
    token(me, 1);
    long before = peali_alloc_count();
    fifo(me);
    token(me, 1);
    if (me->rank == 0)
        allocations = peali_alloc_count() - before;
}

static void no_allocation(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, count_body), 0);
    assert_int_equal(allocations, 0);
}

static const struct CMUnitTest own_tests[] = {
    cmocka_unit_test(allgather),  cmocka_unit_test(allgather_alone), cmocka_unit_test(create_invalid),
    cmocka_unit_test(no_memory),  cmocka_unit_test(abandoned),       cmocka_unit_test(no_allocation),
};
