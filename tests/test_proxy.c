/*
 * The proxy over ranks that are threads, without a GPU: what a kernel would order, this test does. Messages arrive where and when
 * they are said to, in any number; a call that differs, a transport that fails, and words have their names; a pause does not
 * matter; communicators come and go; a fork waits for no thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "busy.h"
#include "comm/watch.h"
#include "exec/clerk.h"
#include "exec/proxy.h"
#include "exec/timeline.h"
#include "log_lines.h"
#include "net/net_fault.h"
#include "net/net_loop.h"

enum { LANES = 3, THREADS = 2, MOST = 4, AREA_UNITS = 16, WAY_UNITS = LANES * 2 * AREA_UNITS,
       WORDS = 2 * WAY_UNITS * PEALI_POST_UNIT / sizeof(uint64_t) };

static bool sleeping;  /* ranks that wait do */
static bool on_device; /* messages lie in memory that proxies cannot see */
static int clerks = 1; /* of proxies */

/* A rank: its post, and AREA_UNITS for each of two areas of each lane, one way and the other. */
typedef struct seat {
    peal_threads *threads;
    int rank, n, rounds;
    const peali_fault *fault;
    uint32_t signature; /* of its calls */
    peali_net *nets[THREADS];
    peali_proxy *proxy;
    peali_post *post;
    uint64_t *messages;
    uint64_t *seen; /* what kernels see there: what a device has of it since the last flush, in a host's memory all */
    struct peali_proxy_device device;
    uint32_t orders[LANES];
    int wrong;
    pthread_t id;
} seat;

static uint32_t unit_of(const seat *s, bool sends, uint32_t lane, uint32_t epoch, uint32_t peer)
{
    const uint32_t area = ((sends ? LANES : 0) + lane) * 2 + epoch % 2;
    return area * AREA_UNITS + peer * 2;
}

static uint64_t *data_of(seat *s, bool sends, uint32_t lane, uint32_t epoch, uint32_t peer)
{
    const size_t unit = unit_of(s, sends, lane, epoch, peer) + 1;
    return (sends ? s->messages : s->seen) + unit * (PEALI_POST_UNIT / sizeof(uint64_t));
}

/* What did not change may be under a kernel's eyes; and what is still to come may come meanwhile, which TSan need not know. */
__attribute__((no_sanitize("thread"))) static peal_status flush(void *arg)
{
    seat *s = arg;
    for (size_t i = 0; i < WORDS / 2; i++)
        if (s->seen[i] != s->messages[i])
            s->seen[i] = s->messages[i];
    return PEAL_OK;
}

/* So that each lane has both. */
static bool by_lines(uint32_t lane, uint32_t epoch)
{
    return (lane + epoch) % 3 == 0;
}

static peali_post_half *lines_of(seat *s, bool sends, uint32_t lane, uint32_t epoch, uint32_t peer)
{
    return (peali_post_half *)(s->post + 1) + unit_of(s, sends, lane, epoch, peer) * (PEALI_POST_UNIT / sizeof(peali_post_half));
}

static void let_others(void)
{
    sleeping ? peali_clock_sleep(20000) : peali_clock_yield();
}

/* The later half, and then the earlier one. */
static void lay(peali_post_half *line, uint32_t flag, uint64_t value)
{
    peali_store_release(&line[1], (value >> 32) | (uint64_t)flag << 32);
    let_others();
    peali_store_release(&line[0], (uint32_t)value | (uint64_t)flag << 32);
}

/* As give_order of the kernels; it pairs with the proxy's take. */
static void give(seat *s, uint32_t lane, const peali_post_order *o)
{
    const uint32_t number = ++s->orders[lane];
    uint32_t word[PEALI_POST_HALVES];
    memcpy(word, o, sizeof *o);
    for (uint32_t k = 0; k < PEALI_POST_HALVES; k++) { /* in no order of their own */
        const uint32_t i = (k * 3 + number) % PEALI_POST_HALVES;
        peali_store_release(&s->post->orders[lane][number % PEALI_POST_ORDERS][i], word[i] | (uint64_t)number << 32);
        if (k == PEALI_POST_HALVES / 2)
            let_others();
    }
}

static void order(seat *s, bool sends, uint32_t lane, uint32_t epoch, uint32_t peer)
{
    const bool lines = by_lines(lane, epoch);
    const peali_post_order o = {.signature = s->signature, .epoch = epoch, .at = unit_of(s, sends, lane, epoch, peer),
                                .units = lines ? 1 : 2, .flag = epoch | 0x80000000u, .peer = (uint16_t)peer,
                                .slot = (uint8_t)peer, .sends = sends, .lines = lines};
    give(s, lane, &o);
}

/* False: the proxy has given up, or 20 s are over. */
static bool wait_on(const seat *s, int64_t end_ns)
{
    let_others();
    return peali_proxy_ask(s->proxy).status == PEAL_OK && peali_clock_ns() < end_ns;
}

static bool becomes(const seat *s, const uint32_t *at, uint32_t value)
{
    const int64_t end_ns = peali_clock_ns() + 20 * INT64_C(1000000000);
    while ((int32_t)(peali_load_acquire(at) - value) < 0) /* pairs with the proxy's releases */
        if (!wait_on(s, end_ns))
            return false;
    return true;
}

/* What PEER sent, when it is there. */
static bool arrives(seat *s, uint32_t lane, uint32_t epoch, uint32_t peer, uint64_t *value)
{
    const int64_t end_ns = peali_clock_ns() + 20 * INT64_C(1000000000);
    const uint32_t flag = epoch | 0x80000000u;
    if (!by_lines(lane, epoch)) {
        bool there = becomes(s, &s->post->flags[lane][epoch % 2][peer], flag);
        *value = there ? data_of(s, false, lane, epoch, peer)[0] : 0;
        return there;
    }
    const peali_post_half *line = lines_of(s, false, lane, epoch, peer);
    peali_post_half first, second;
    while ((first = peali_load_acquire(&line[0])) >> 32 != flag || (second = peali_load_acquire(&line[1])) >> 32 != flag)
        if (!wait_on(s, end_ns))
            return false;
    *value = (uint32_t)first | second << 32;
    return true;
}

/* Every rank tells every other one what nobody else tells, on one lane: first, as who receives another call's stops there. */
static bool exchange(seat *s, uint32_t lane, uint32_t epoch, uint32_t before)
{
    if (!becomes(s, &s->post->over[lane].number, before))
        return false;
    for (uint32_t peer = 0; peer < (uint32_t)s->n; peer++) {
        if (peer == (uint32_t)s->rank)
            continue;
        const uint64_t value = epoch * 10000 + lane * 1000 + (uint32_t)s->rank * 10 + peer;
        if (!by_lines(lane, epoch))
            data_of(s, true, lane, epoch, peer)[0] = value;
        order(s, true, lane, epoch, peer);
        if (by_lines(lane, epoch))
            lay(lines_of(s, true, lane, epoch, peer), epoch | 0x80000000u, value << 32 | ~(uint32_t)value);
    }
    for (uint32_t peer = 0; peer < (uint32_t)s->n; peer++)
        if (peer != (uint32_t)s->rank)
            order(s, false, lane, epoch, peer);
    for (uint32_t peer = 0; peer < (uint32_t)s->n; peer++) {
        if (peer == (uint32_t)s->rank)
            continue;
        uint64_t value, wanted = epoch * 10000 + lane * 1000 + peer * 10 + (uint32_t)s->rank;
        if (!arrives(s, lane, epoch, peer, &value))
            return false;
        s->wrong += value != (by_lines(lane, epoch) ? wanted << 32 | ~(uint32_t)wanted : wanted);
    }
    return true;
}

static void begin(seat *s)
{
    const size_t lines_bytes = WORDS * sizeof(uint64_t);
    s->post = aligned_alloc(1024, sizeof *s->post + lines_bytes);
    memset(s->post, 0, sizeof *s->post + lines_bytes);
    s->messages = calloc(WORDS, sizeof *s->messages);
    s->seen = on_device ? calloc(WORDS, sizeof *s->seen) : s->messages;
    s->device = (struct peali_proxy_device){s, flush};
    const peali_proxy_box box = {s->post, lines_bytes, (unsigned char *)s->messages, LANES, WAY_UNITS * PEALI_POST_UNIT,
                                 on_device ? &s->device : NULL};
    for (uint32_t *flag = s->post->flags[0][0]; flag < s->post->flags[LANES][0]; flag++)
        *flag = 0x80000000u; /* so that all are compared alike */
    memset(s->orders, 0, sizeof s->orders);
    for (int i = 0; i < clerks; i++)
        if (peali_net_loop_create(s->threads, s->rank, &s->nets[i]) != PEAL_OK ||
            (s->fault && peali_net_fault_create(s->nets[i], s->fault, &s->nets[i]) != PEAL_OK))
            abort();
    if (peali_proxy_begin(s->nets, clerks, &box, &s->proxy) != PEAL_OK)
        abort();
}

static void end(seat *s)
{
    peali_proxy_end(&s->proxy, 2 * INT64_C(1000000000));
    s->wrong += peali_threads_agree(s->threads, s->rank, PEAL_OK) != PEAL_OK;
    for (int i = 0; i < clerks; i++)
        s->nets[i]->destroy(s->nets[i]);
    for (size_t i = 0; on_device && i < WORDS; i += 2 * PEALI_POST_UNIT / sizeof(uint64_t))
        s->wrong += s->messages[i] != 0 || s->messages[i + 1] != 0; /* heads do not go there */
    if (on_device)
        free(s->seen);
    free(s->messages);
    free(s->post);
}

static void *exchanges(void *arg)
{
    seat *s = arg;
    for (int twice = 0; twice < 2; twice++) {
        begin(s);
        for (uint32_t epoch = 1; epoch <= (uint32_t)s->rounds; epoch++)
            for (uint32_t lane = 0; lane < LANES; lane++) {
                const uint32_t of_slice = 2 * (uint32_t)(s->n - 1);
                s->wrong += !exchange(s, lane, epoch, epoch > 2 ? (epoch - 2) * of_slice : 0);
                if (epoch % 50 == 0 && s->rank == 0)
                    peali_clock_sleep(20000000); /* the proxy rests by then */
            }
        peali_clerk_wake((unsigned)clerks);
        end(s);
    }
    return NULL;
}

static int run(int n, seat *seats, void *(*body)(void *))
{
    int wrong = 0;
    peal_threads *threads;
    assert_int_equal(peal_threads_create(n, &threads), PEAL_OK);
    for (int r = 0; r < n; r++) {
        seats[r].threads = threads;
        seats[r].rank = r;
        seats[r].n = n;
        assert_int_equal(pthread_create(&seats[r].id, NULL, body, &seats[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(seats[r].id, NULL);
        wrong += seats[r].wrong;
    }
    peal_threads_destroy(&threads);
    return wrong;
}

static void test_exchanges(void **state)
{
    for (int n = 2; n <= MOST; n++) {
        seat seats[MOST] = {{0}};
        for (int r = 0; r < n; r++)
            seats[r] = (seat){.rounds = 120, .signature = 77};
        assert_int_equal(run(n, seats, exchanges), 0);
    }
}

/* Programs that never rest have the same two cores: their turns last milliseconds, and no message may wait for the end of one. */
static void *on_shared_cores(void *arg)
{
    enum { ROUNDS = 400 };
    seat *s = arg;
    begin(s);
    const int64_t begin_ns = peali_clock_ns();
    for (uint32_t epoch = 1; epoch <= ROUNDS; epoch++)
        s->wrong += !exchange(s, 0, epoch, epoch > 2 ? (epoch - 2) * 2 : 0);
    const int64_t took_ns = peali_clock_ns() - begin_ns;
    if (s->rank == 0)
        print_message("on shared cores: %lld us an exchange\n", (long long)(took_ns / ROUNDS / 1000));
    s->wrong += took_ns > ROUNDS * INT64_C(1000000); /* a turn is 2.8 ms here; it takes 0.4, and 2.0 where clerks look on and on */
    end(s);
    return NULL;
}

static void test_on_shared_cores(void **state)
{
    seat seats[MOST] = {{.signature = 77}, {.signature = 77}};
    busy b;
    if (!busy_begin(&b))
        skip();
    sleeping = true;
    const int wrong = run(2, seats, on_shared_cores);
    busy_end(&b);
    assert_int_equal(wrong, 0);
}

static void test_delays(void **state)
{
    const peali_fault fault = {.seed = 3, .delay = 30};
    seat seats[MOST] = {{0}};
    for (int r = 0; r < 3; r++)
        seats[r] = (seat){.rounds = 60, .signature = 77, .fault = &fault};
    assert_int_equal(run(3, seats, exchanges), 0);
}

/* Goes on until it fails. */
static void *fails(void *arg)
{
    seat *s = arg;
    begin(s);
    uint32_t epoch = 1;
    while (epoch < 100 && exchange(s, 0, epoch, epoch > 2 ? (epoch - 2) * 2 : 0))
        epoch++;
    const peali_proxy_news news = peali_proxy_ask(s->proxy);
    const peal_status want = s->fault ? PEAL_ERR_NET : PEAL_ERR_MISMATCH;
    s->wrong += news.status != want || news.peer != 1 - s->rank || news.mine != s->signature;
    s->wrong += want == PEAL_ERR_MISMATCH && news.its == s->signature;
    s->wrong += peali_threads_agree(s->threads, s->rank, PEAL_OK) != PEAL_OK; /* the other may not have heard of it yet */
    end(s);
    return NULL;
}

static void test_mismatch(void **state)
{
    seat seats[MOST] = {{.signature = 77}, {.signature = 78}};
    assert_int_equal(run(2, seats, fails), 0);
}

static void test_broken(void **state)
{
    const peali_fault fault = {.fail_at = 41, .lasting = true};
    seat seats[MOST] = {{.signature = 77, .fault = &fault}, {.signature = 77, .fault = &fault}};
    assert_int_equal(run(2, seats, fails), 0);
}

/* Rank 0's word is heard by all, once. */
static void *tells(void *arg)
{
    seat *s = arg;
    peali_proxy_word word = {PEAL_ERR_MISMATCH, {.one_rank = 0, .other_rank = 2}};
    int32_t from = -1;
    begin(s);
    if (s->rank == 0)
        peali_proxy_tell(s->proxy, &word);
    const int64_t end_ns = peali_clock_ns() + 20 * INT64_C(1000000000);
    bool heard = s->rank == 0;
    while (!heard && peali_clock_ns() < end_ns) {
        heard = peali_proxy_heard(s->proxy, &from, &word);
        peali_clock_sleep(100000);
    }
    s->wrong += !heard || (s->rank > 0 && (from != 0 || word.status != PEAL_ERR_MISMATCH || word.quarrel.other_rank != 2));
    s->wrong += peali_proxy_heard(s->proxy, &from, &word);
    end(s);
    return NULL;
}

static void test_words(void **state)
{
    seat seats[MOST] = {{0}};
    assert_int_equal(run(MOST, seats, tells), 0);
}

/* Nothing comes: who is waited for is known. */
static void *waits(void *arg)
{
    seat *s = arg;
    char text[64];
    begin(s);
    s->wrong += peali_proxy_waits(s->proxy, text, sizeof text) != -1;
    order(s, false, 1, 1, (uint32_t)(1 - s->rank));
    const int64_t end_ns = peali_clock_ns() + 20 * INT64_C(1000000000);
    while (peali_proxy_waits(s->proxy, text, sizeof text) < 0 && peali_clock_ns() < end_ns)
        peali_clock_sleep(100000);
    s->wrong += peali_proxy_waits(s->proxy, text, sizeof text) != 1 - s->rank;
    end(s);
    return NULL;
}

/* A message of a call that differs is as long as one may be; what was sent before, and is still under way, arrives all the same. */
static void *too_long(void *arg)
{
    seat *s = arg;
    const peali_post_order other = {.signature = 78, .epoch = 2, .at = WAY_UNITS, .units = WAY_UNITS, .sends = 1};
    const int64_t end_ns = peali_clock_ns() + 20 * INT64_C(1000000000);
    uint64_t value = 0;
    begin(s);
    if (s->rank == 0) {
        lay(lines_of(s, true, 0, 3, 1), 3 | 0x80000000u, 42);
        order(s, true, 0, 3, 1);
        order(s, false, 1, 2, 1);
        while (wait_on(s, end_ns))
            continue;
        s->wrong += peali_proxy_ask(s->proxy).status != PEAL_ERR_MISMATCH;
    } else {
        memset(s->messages, 0xff, WORDS * sizeof *s->messages);
        peali_clock_sleep(50000000);
        give(s, 1, &other);
    }
    s->wrong += peali_threads_agree(s->threads, s->rank, PEAL_OK) != PEAL_OK;
    if (s->rank == 1) {
        order(s, false, 0, 3, 0);
        s->wrong += !arrives(s, 0, 3, 0, &value) || value != 42;
        memset(s->messages, 0, WORDS * sizeof *s->messages);
    }
    s->wrong += peali_threads_agree(s->threads, s->rank, PEAL_OK) != PEAL_OK;
    end(s);
    return NULL;
}

static void test_too_long(void **state)
{
    seat seats[MOST] = {{.signature = 77}, {.signature = 77}};
    assert_int_equal(run(2, seats, too_long), 0);
}

static int flushes;

static peal_status cannot_flush(peali_net *net)
{
    __atomic_add_fetch(&flushes, 1, __ATOMIC_SEQ_CST);
    return PEAL_ERR_NET;
}

/* What does not come is waited for; a transport that cannot flush has said so once. */
static void *ends_broken(void *arg)
{
    seat *s = arg;
    begin(s);
    for (int i = 0; i < clerks; i++)
        s->nets[i]->flush = cannot_flush;
    order(s, false, 1, 1, (uint32_t)(1 - s->rank));
    peali_clock_sleep(50000000);
    end(s);
    return NULL;
}

static void test_ends_broken(void **state)
{
    seat seats[MOST] = {{.signature = 77}, {.signature = 77}};
    assert_int_equal(run(2, seats, ends_broken), 0);
    assert_int_equal(flushes, 2 * clerks);
}

static void test_waits(void **state)
{
    seat seats[MOST] = {{.signature = 77}, {.signature = 77}};
    assert_int_equal(run(2, seats, waits), 0);
}

typedef struct watchman {
    peali_watched watched;
    const peali_proxy *proxy;
} watchman;

/* As a communicator's: it asks the proxy. */
static void ask_proxy(peali_watched *watched)
{
    const peali_proxy *proxy = peali_load_acquire(&((watchman *)watched)->proxy);
    peali_clock_sleep(20000000);
    if (proxy)
        (void)peali_proxy_ask(proxy);
}

/* A child has none of the threads, and can have its own (but for TSan). */
static void have_child(void)
{
    static watchman own = {{ask_proxy, NULL}, NULL};
    int status;
    pid_t child = fork();
    if (child == 0) {
#ifdef __SANITIZE_THREAD__
        _exit(0);
#endif
        alarm(10);
        const bool begun = peali_watch_begin(&own.watched) == PEAL_OK;
        peali_watch_end(&own.watched);
        _exit(!begun);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The first test: there is a watch before there is a proxy. The process is ended where it waits for itself. */
static void test_forks(void **state)
{
    watchman w = {{ask_proxy, NULL}, NULL};
    seat s = {.n = 1};
    assert_int_equal(peali_watch_begin(&w.watched), PEAL_OK);
    assert_int_equal(peal_threads_create(1, &s.threads), PEAL_OK);
    begin(&s);
    peali_store_release(&w.proxy, s.proxy);
    alarm(20);
    for (int k = 0; k < 30; k++) {
        peali_clock_sleep(7000000);
        have_child();
    }
    alarm(0);
    peali_watch_end(&w.watched);
    end(&s);
    peal_threads_destroy(&s.threads);
}

static char timeline[64];

static void remove_timeline(void)
{
    unlink(timeline);
}

/* The last test: what those before it sent and received is there, as far back as there is room. */
static void test_timeline(void **state)
{
    peali_timeline_save();
    for (int sends = 0; sends < 2; sends++) {
        const char *what = sends ? "\"name\":\"gpu send\"" : "\"name\":\"gpu recv\"";
        assert_true(log_lines_both(timeline, what, "\"ph\":\"b\"") > 0);
        assert_true(log_lines_both(timeline, what, "\"ph\":\"e\"") > 0);
    }
}

/* device: messages lie in its memory; threads: several have them; shared: only how long they take where cores are shared. */
int main(int argc, char **argv)
{
    const struct CMUnitTest shared[] = {cmocka_unit_test(test_on_shared_cores)};
    if (argc > 1 && strcmp(argv[1], "shared") == 0)
        return cmocka_run_group_tests_name(argv[1], shared, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forks),    cmocka_unit_test(test_exchanges), cmocka_unit_test(test_delays),
        cmocka_unit_test(test_mismatch), cmocka_unit_test(test_broken),    cmocka_unit_test(test_words),
        cmocka_unit_test(test_waits),    cmocka_unit_test(test_ends_broken), cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_timeline),
    };
    atexit(remove_timeline);
    snprintf(timeline, sizeof timeline, "proxy.%d.json", (int)getpid());
    setenv("PEAL_TIMELINE", "proxy.%p.json", 1);
    on_device = argc > 1 && strcmp(argv[1], "device") == 0;
    clerks = argc > 1 && strcmp(argv[1], "threads") == 0 ? THREADS : 1;
    return cmocka_run_group_tests_name(argc > 1 ? argv[1] : "proxy", tests, NULL, NULL);
}
