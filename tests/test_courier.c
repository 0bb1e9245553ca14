/* Messages move while nobody calls for them, in their order; what cannot start ends what follows; what is cancelled is let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/resource.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "exec/clerk.h"
#include "exec/courier.h"

enum { MOST = 64 };

/* A transport of one clerk: it takes down what was started, and ends each message when it may. */
typedef struct tape {
    peali_net net;
    int started[MOST], nstarted; /* tags, in order */
    int cancelled;
    int fails_at; /* the start of this number fails, once; -1: none */
    int may_end;  /* messages, by the order of their starts */
    bool inside;  /* somebody calls it */
    bool wrong;   /* two did at once, or it was told something else than what was said */
    int flushes, driven;
} tape;

static tape *enter(peali_net *net)
{
    tape *t = (tape *)net;
    t->wrong |= t->inside; /* which TSan would say, too */
    t->inside = true;
    return t;
}

static peal_status leave(tape *t, peal_status status)
{
    t->inside = false;
    return status;
}

static peal_status begin(peali_net *net, bool right, uint32_t tag, peali_net_req *req)
{
    tape *t = enter(net);
    t->wrong |= !right;
    if (t->nstarted == t->fails_at) {
        t->fails_at = -1;
        return leave(t, PEAL_ERR_NET);
    }
    memset(req->word, 0x5a, sizeof req->word);
    req->word[0] = (uint64_t)t->nstarted;
    t->started[t->nstarted] = (int)tag;
    peali_store_release(&t->nstarted, t->nstarted + 1);
    return leave(t, PEAL_OK);
}

static peal_status tape_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    return begin(net, peer == 1 && bytes == *(const unsigned char *)data, tag, req);
}

static peal_status tape_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    *(unsigned char *)data = (unsigned char)tag;
    return begin(net, peer == 2 && bytes == 1, tag, req);
}

static peal_status tape_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return begin(net, peer == 3 && bytes == 1, tag, req);
}

static peal_status tape_test(peali_net *net, peali_net_req *req)
{
    tape *t = enter(net);
    return leave(t, (int)req->word[0] < peali_load_relaxed(&t->may_end) ? PEAL_OK : PEAL_IN_PROGRESS);
}

static bool tape_cancel(peali_net *net, peali_net_req *req)
{
    tape *t = enter(net);
    t->cancelled++;
    (void)leave(t, PEAL_OK);
    return req->word[0] % 2 == 0;
}

static peal_status tape_flush(peali_net *net)
{
    tape *t = enter(net);
    return leave(t, ++t->flushes < 3 ? PEAL_IN_PROGRESS : PEAL_OK);
}

static peal_status tape_progress(peali_net *net)
{
    tape *t = enter(net);
    t->driven++;
    return leave(t, PEAL_OK);
}

static tape new_tape(void)
{
    return (tape){.net = {.name = "tape", .nranks = 4, .any_thread = true, .send = tape_send, .recv = tape_recv,
                          .recv_some = tape_recv_some, .test = tape_test, .cancel = tape_cancel, .progress = tape_progress,
                          .flush = tape_flush},
                  .fails_at = -1};
}

static peal_status wait_for(peali_net *net, peali_net_req *req)
{
    peal_status status;
    while ((status = net->test(net, req)) == PEAL_IN_PROGRESS)
        peali_clock_yield();
    return status;
}

static void test_moves_by_itself(void **state)
{
    enum { ROUNDS = 50, EACH = 20 };
    tape t = new_tape(), second = new_tape();
    peali_net *net;
    assert_int_equal(peali_courier_create(&t.net, &net), PEAL_OK);
    assert_string_equal(net->name, "tape");
    for (int round = 0; round < ROUNDS; round++) {
        peali_net_req req[EACH];
        unsigned char data[EACH];
        t.nstarted = 0;
        peali_store_relaxed(&t.may_end, 0);
        for (int i = 0; i < EACH; i++) {
            data[i] = (unsigned char)(i + 1);
            if (i % 3 == 0)
                assert_int_equal(net->send(net, 1, (uint32_t)i, &data[i], data[i], &req[i]), PEAL_OK);
            else
                assert_int_equal((i % 3 == 1 ? net->recv : net->recv_some)(net, 1 + i % 3, (uint32_t)i, &data[i], 1, &req[i]),
                                 PEAL_OK);
        }
        while (peali_load_acquire(&t.nstarted) < EACH) /* nobody calls NET meanwhile */
            peali_clock_yield();
        for (int i = 0; i < EACH; i++) {
            assert_int_equal(t.started[i], i);
            assert_int_equal(net->test(net, &req[i]), PEAL_IN_PROGRESS);
        }
        for (int i = 0; i < EACH; i++) {
            peali_store_relaxed(&t.may_end, i + 1);
            assert_int_equal(wait_for(net, &req[i]), PEAL_OK);
            assert_int_equal(data[i], i % 3 == 1 ? i : i + 1);
        }
    }
    peali_courier_move(net, &second.net);
    peali_net_req req;
    unsigned char one = 1;
    second.may_end = 1;
    assert_int_equal(net->send(net, 1, 7, &one, 1, &req), PEAL_OK);
    assert_int_equal(wait_for(net, &req), PEAL_OK);
    assert_int_equal(second.nstarted, 1);
    while (net->flush(net) == PEAL_IN_PROGRESS)
        ;
    assert_int_equal(second.flushes, 3);
    net->destroy(net);
    assert_false(t.wrong || second.wrong);
}

/* The host library: by the net that has a host of its own, or is it. */
static void test_drives_the_host(void **state)
{
    tape t = new_tape(), host = new_tape();
    peali_net *net;
    assert_int_equal(peali_courier_create(&t.net, &net), PEAL_OK);
    assert_int_equal(net->progress(net), PEAL_OK);
    assert_int_equal(t.driven, 1);
    t.net.aside = &host.net;
    peali_courier_move(net, &t.net);
    assert_int_equal(net->progress(net), PEAL_OK);
    assert_int_equal(t.driven, 1);
    assert_int_equal(host.driven, 1);
    net->destroy(net);
}

/* A receiver would take the third message for the second one. */
static void test_nothing_follows_a_failure(void **state)
{
    tape t = new_tape();
    t.fails_at = 1;
    t.may_end = MOST;
    peali_net *net;
    peali_net_req req[3];
    const unsigned char one = 1;
    assert_int_equal(peali_courier_create(&t.net, &net), PEAL_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(net->send(net, 1, 0, &one, 1, &req[i]), PEAL_OK);
    assert_int_equal(wait_for(net, &req[0]), PEAL_OK);
    assert_int_equal(wait_for(net, &req[1]), PEAL_ERR_NET);
    assert_int_equal(wait_for(net, &req[2]), PEAL_ERR_NET);
    assert_int_equal(t.nstarted, 1);
    net->destroy(net);
}

/* Each that is under way, or still lies there, and the others go on. */
static void test_cancels(void **state)
{
    enum { ROUNDS = 200, EACH = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        tape t = new_tape();
        peali_net *net;
        peali_net_req req[EACH];
        const unsigned char one = 1;
        assert_int_equal(peali_courier_create(&t.net, &net), PEAL_OK);
        for (int i = 0; i < EACH; i++)
            assert_int_equal(net->send(net, 1, (uint32_t)i, &one, 1, &req[i]), PEAL_OK);
        for (int spin = 0; spin < round * 10; spin++)
            peali_clock_pause();
        for (int i = round % EACH; i < EACH; i += 2) {
            const int before = t.cancelled;
            const bool forgotten = net->cancel(net, &req[i]);
            assert_true(forgotten || (t.cancelled > before && req[i].word[0] % 2 == 1));
        }
        peali_store_relaxed(&t.may_end, MOST);
        for (int i = 0; i < EACH; i++)
            if (i < round % EACH || (i - round % EACH) % 2)
                assert_int_equal(wait_for(net, &req[i]), PEAL_OK);
        net->destroy(net);
        assert_false(t.wrong);
    }
}

/* Of this process, in microseconds. */
static int64_t processor_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

/* A clerk of couriers sleeps until it is called; and looks again, where it gets an errand that nobody calls for. */
static int passes; /* of that errand */

static bool pass(peali_errand *errand, bool rested)
{
    (void)peali_add_relaxed(&passes, 1);
    return false;
}

static void test_sleeps(void **state)
{
    tape t = new_tape();
    peali_net *net;
    peali_net_req req;
    const unsigned char one = 1;
    t.may_end = MOST;
    assert_int_equal(peali_courier_create(&t.net, &net), PEAL_OK);
    int64_t took_us = INT64_MAX;
    for (int i = 0; i < 100 && took_us > 100; i++) { /* on a busy machine the clerk is not tired so soon */
        const int64_t before_us = processor_us();
        peali_clock_sleep(100000000);
        took_us = processor_us() - before_us;
    }
    assert_true(took_us <= 100); /* naps of 1 ms take 800 to 2000 of it */
    assert_int_equal(net->send(net, 1, 0, &one, 1, &req), PEAL_OK);
    assert_int_equal(wait_for(net, &req), PEAL_OK);
    peali_clock_sleep(200000000);
    peali_errand looks = {.clerk = 0, .pass = pass};
    assert_int_equal(peali_clerk_give(&looks), 0);
    while (peali_load_relaxed(&passes) < 20)
        peali_clock_yield();
    peali_clerk_take_back(&looks);
    net->destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_by_itself),
        cmocka_unit_test(test_drives_the_host),
        cmocka_unit_test(test_nothing_follows_a_failure),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
