/*
 * Ranks that keep a call waiting: within the deadline, and however short that is, each rank that fails names them and nobody else,
 * also where it waits for others that are held up themselves; and who comes after the deadline is told so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "comm/comm_private.h"
#include "exec/runner.h"
#include "team.h"

enum { RANKS = 8, COUNT = 100000, PARLEY_MS = 150, LATE_MS = 400 }; /* and PEAL_TIMEOUT is 0.8 */

static char log_path[64];

struct scene {
    unsigned n;
    unsigned missing; /* bit per rank */
    bool begins;      /* those do begin the call before the others do, and go no further */
    int begun;        /* such ranks that have */
    int over;         /* ranks that are done */
    float *data[RANKS];
    peal_status status[RANKS];
    int64_t took_ns[RANKS];
};

/* In how many lines of the log A and B are, in this order. */
static unsigned lines(const char *a, const char *b)
{
    char line[2048];
    unsigned n = 0;
    FILE *f = fopen(log_path, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, a);
        n += at && strstr(at, b);
    }
    if (f)
        fclose(f);
    return n;
}

static void await(const int *count, unsigned n)
{
    while ((unsigned)peali_load_acquire(count) < n)
        peali_clock_sleep(1000000);
}

/* A rank above the others of a tree may leave the broadcast, and fails in the barrier. */
static peal_status call(struct scene *s, peal_comm *comm, int rank)
{
    peal_status status = peal_broadcast(s->data[rank], COUNT, PEAL_FLOAT, 0, comm, NULL);
    return status == PEAL_OK ? peal_barrier(comm, NULL) : status;
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    bool missing = s->missing >> rank & 1;
    unsigned present = s->n - (unsigned)__builtin_popcount(s->missing);
    peal_request *request = NULL;
    if (missing && s->begins) {
        s->status[rank] = peal_iallreduce(s->data[rank], s->data[rank], COUNT, PEAL_FLOAT, PEAL_SUM, comm, NULL, &request);
        if (s->status[rank] == PEAL_OK)
            s->status[rank] = peal_test(&request);
        (void)peali_add_release(&s->begun, 1);
    }
    if (missing)
        await(&s->over, present);
    else if (s->begins)
        await(&s->begun, s->n - present);
    int64_t from_ns = peali_clock_ns();
    if (request)
        s->status[rank] = peal_wait(&request);
    else if (s->begins)
        s->status[rank] = peal_allreduce(s->data[rank], s->data[rank], COUNT, PEAL_FLOAT, PEAL_SUM, comm, NULL);
    else
        s->status[rank] = call(s, comm, rank);
    s->took_ns[rank] = peali_clock_ns() - from_ns;
    (void)peali_add_release(&s->over, 1);
    await(&s->over, s->n);
}

/* Plays S in LAYOUT. All fail, and each of those that waited says SILENT. */
static void run(struct scene *s, peali_layout layout, const char *silent)
{
    peali_layout layouts[RANKS];
    char sayer[32];
    for (unsigned r = 0; r < s->n; r++) {
        layouts[r] = layout;
        layouts[r].parley_ms = PARLEY_MS;
        s->data[r] = calloc(COUNT, sizeof *s->data[r]);
    }
    truncate(log_path, 0);
    assert_int_equal(team_run_in(s->n, layouts, play, s), PEAL_OK);
    for (unsigned r = 0; r < s->n; r++) {
        bool missing = s->missing >> r & 1;
        free(s->data[r]);
        assert_int_equal(s->status[r], PEAL_ERR_TIMEOUT);
        snprintf(sayer, sizeof sayer, "warn rank %u: ", r);
        assert_true(missing || lines(sayer, silent) >= 1);
        assert_true(!missing || lines(sayer, "which failed there: timeout") == 1);
        assert_true(!missing || s->took_ns[r] < 700000000);
    }
    assert_int_equal(lines("no word from ", ""), lines(silent, ""));
}

static void last_of_tree(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        struct scene s = {.n = RANKS, .missing = 1u << 7};
        run(&s, (peali_layout){.apart = apart}, "no word from rank 7; not called there yet?");
    }
}

static void several(void **state)
{
    struct scene s = {.n = RANKS, .missing = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 6};
    run(&s, (peali_layout){.apart = true}, "no word from ranks 2-4, 6; not called there yet?");
}

static void busy(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        struct scene s = {.n = 3, .missing = 1u << 1, .begins = true};
        run(&s, (peali_layout){.apart = apart}, "no word from rank 1 since the call began there;");
    }
}

static void late_or_absent(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    if (rank == 2)
        await(&s->over, 2);
    if (rank == 1)
        peali_clock_sleep((int64_t)LATE_MS * 1000000);
    int64_t from_ns = peali_clock_ns();
    s->status[rank] = peal_barrier(comm, NULL);
    s->took_ns[rank] = peali_clock_ns() - from_ns;
    (void)peali_add_release(&s->over, 1);
    await(&s->over, 3);
}

/* Who is told that another one gave up does not wait once more for answers of who did not come. */
static void told(void **state)
{
    struct scene s = {.n = 3};
    peali_layout layouts[3] = {{.parley_ms = 2000}, {.parley_ms = 2000}, {.parley_ms = 2000}};
    assert_int_equal(team_run_in(3, layouts, late_or_absent, &s), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(s.status[r], PEAL_ERR_TIMEOUT);
    assert_in_range(s.took_ns[1], 0, 2500000000); /* 0.4 s until it is told, and one; once it was three */
}

static void late_twice(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    if (rank == 1)
        peali_clock_sleep((int64_t)LATE_MS * 1000000);
    s->status[rank] = peal_barrier(comm, NULL);
    if (rank == 1)
        await(&s->over, 1);
    if (s->status[rank] == PEAL_OK)
        s->status[rank] = peal_barrier(comm, NULL);
    (void)peali_add_release(&s->over, 1);
    await(&s->over, 2);
}

/* Who was late in a call and does not come to the next one is named twice, the second time well before the deadline. */
static void again(void **state)
{
    struct scene s = {.n = 2};
    peali_layout layouts[2] = {{.parley_ms = PARLEY_MS}, {.parley_ms = PARLEY_MS}};
    truncate(log_path, 0);
    assert_int_equal(team_run_in(2, layouts, late_twice, &s), PEAL_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(s.status[r], PEAL_ERR_TIMEOUT);
    assert_int_equal(lines("rank 0: barrier number 0 waits since", "s: no word from rank 1;"), 1);
    assert_int_equal(lines("rank 0: barrier number 1 waits since", "s: no word from rank 1;"), 1);
}

enum { LONG = 16 << 20, ATTEMPTS = 100 }; /* so long that rank 0 loses its core within the sum, where others want it */

/* Takes a piece of the sum behind that of WORD. */
static bool takes_piece(uint64_t *claims, uint64_t word)
{
    uint64_t is;
    while (peali_sum_number(is = peali_load_acquire(claims)) == peali_sum_number(word))
        peali_clock_sleep(20000); /* who sleeps has its core back at once, also where there are few */
    while (peali_sum_first(is) < peali_sum_end(is) && !peali_swap_acquire(claims, is, is - 1))
        is = peali_load_acquire(claims);
    return peali_sum_first(is) < peali_sum_end(is);
}

/* Rank 1 takes one, as soon as it is quick enough, and goes no further. */
static void stops_in_a_piece(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    const peali_runner *r = comm->runner;
    for (unsigned k = 1; k <= ATTEMPTS && s->status[rank] == PEAL_OK; k++) {
        peal_request *request;
        s->status[rank] = peal_iallreduce(s->data[rank], s->data[rank], LONG, PEAL_FLOAT, PEAL_SUM, comm, NULL, &request);
        if (rank == 1) {
            assert_int_equal(peal_test(&request), PEAL_IN_PROGRESS); /* it has entered */
            uint64_t *claims = &r->shown[0]->sum.claims, word = peali_load_acquire(claims);
            peali_store_relaxed(&r->mine->helping, 1);
            (void)peali_add_release(&s->begun, 1);
            if (takes_piece(claims, word))
                await(&s->over, 1);
            peali_store_relaxed(&r->mine->helping, 0);
        } else {
            await(&s->begun, k);
        }
        s->status[rank] = peal_wait(&request);
    }
    (void)peali_add_release(&s->over, 1);
    await(&s->over, 2);
}

/* Whoever stops while it adds up a piece of another's sum is waited for by that one, and named like any other. */
static void helper(void **state)
{
    struct scene s = {.n = 2};
    peali_layout layouts[2];
    for (int r = 0; r < 2; r++) {
        layouts[r] = (peali_layout){.pull = true, .piece = 64, .parley_ms = PARLEY_MS};
        s.data[r] = calloc(LONG, sizeof *s.data[r]);
    }
    truncate(log_path, 0);
    assert_int_equal(team_run_in(2, layouts, stops_in_a_piece, &s), PEAL_OK);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(s.status[r], PEAL_ERR_TIMEOUT);
        free(s.data[r]);
    }
    assert_int_equal(lines("warn rank 0: allreduce number ", "bytes from rank 1 in shared memory, slice "), 1);
    assert_true(lines("no word from rank 1 since the call began there;", "") >= 1);
    assert_int_equal(lines("no word from rank 0", ""), 0);
}

static peal_threads *threads;

/* As the rank at RANK. */
static void *make(void *rank)
{
    peal_comm *comm = NULL;
    peal_status status = peal_comm_create_threads(threads, *(int *)rank, &comm);
    peal_comm_destroy(&comm);
    return status == PEAL_ERR_TIMEOUT ? NULL : rank;
}

static void make_two(int n, int one, int other)
{
    int ranks[2] = {one, other};
    pthread_t id[2];
    truncate(log_path, 0);
    assert_int_equal(peal_threads_create(n, &threads), PEAL_OK);
    for (int k = 0; k < 2; k++)
        assert_int_equal(pthread_create(&id[k], NULL, make, &ranks[k]), 0);
    for (int k = 0; k < 2; k++) {
        void *wrong;
        pthread_join(id[k], &wrong);
        assert_null(wrong);
    }
    peal_threads_destroy(&threads);
}

/* Communicators of threads: one that does not call, and one that calls as another rank. */
static void unmade(void **state)
{
    make_two(4, 0, 2);
    assert_int_equal(lines("rank 0: peal_comm_create_threads waits since 0.6 s: ", "no word from ranks 1, 3 of 4;"), 1);
    assert_int_equal(lines("no word from", ""), 1);
    make_two(2, 0, 0);
    assert_int_equal(lines("two threads call as rank 0 of 2;", ""), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(last_of_tree), cmocka_unit_test(several), cmocka_unit_test(busy),
                                       cmocka_unit_test(again),        cmocka_unit_test(helper),  cmocka_unit_test(unmade),
                                       cmocka_unit_test(told)};
    snprintf(log_path, sizeof log_path, "absent.%d.log", (int)getpid());
    fclose(fopen(log_path, "w"));
    setenv("PEAL_LOG_FILE", log_path, 1);
    setenv("PEAL_TIMEOUT", "0.8", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
