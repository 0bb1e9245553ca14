/*
 * What every transport must do: one suite, run by threads over net_loop, and (built with TEST_MPI, under mpirun) over net_mpi.
 * With the argument "ucx" it runs over net_ucx that met over either, with "rails" too on two rails, and with "fault" whatever it is
 * delays and reorders.
 *
 * A case is a function that each rank runs with two nets of the same ranks. It records what is wrong in its rank, as cmocka's
 * asserts belong to the main thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/net_fault.h"
#include "net/net_shared.h"
#include "net/net_ucx.h"
#include "test_net_words.h"

enum { TAG_LAST = (1 << PEALI_NET_TAG_BITS) - 1, LANE = 1 << 16 /* in a tag, as collectives use them */ };
static const int64_t patience_ns = 100000000000; /* of any wait: far beyond the slowest run under valgrind */

struct rank {
    peali_net *net, *second;
    int rank, n;
    int bad;
};

typedef void play(struct rank *me);

static char log_path[64];
static bool over_ucx, on_rails, beside, faulty;

#define EXPECT(me, condition) expect((me), (condition), #condition, __LINE__)

static bool expect(struct rank *me, bool holds, const char *text, int line)
{
    if (!holds && me->bad++ < 3)
        fprintf(stderr, "rank %d of %d over %s, line %d: not true: %s\n", me->rank, me->n, me->net->name, line, text);
    return holds;
}

static void *room(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p)
        exit(2);
    return p;
}

static void send_to(struct rank *me, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    EXPECT(me, me->net->send(me->net, peer, tag, data, bytes, req) == PEAL_OK);
}

static void recv_from(struct rank *me, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    EXPECT(me, me->net->recv(me->net, peer, tag, data, bytes, req) == PEAL_OK);
}

static peal_status end_of(struct rank *me, peali_net *net, peali_net_req *req)
{
    int64_t until = peali_clock_ns() + patience_ns;
    for (;;) {
        peal_status status = net->test(net, req);
        if (status != PEAL_IN_PROGRESS)
            return status;
        if (!EXPECT(me, peali_clock_ns() < until) || net->progress(net) != PEAL_OK)
            return PEAL_ERR_TIMEOUT;
    }
}

static void wait_for(struct rank *me, peali_net_req *req)
{
    EXPECT(me, end_of(me, me->net, req) == PEAL_OK);
}

static int above(const struct rank *me, int far)
{
    return (me->rank + far) % me->n;
}

static int below(const struct rank *me, int far)
{
    return (me->rank - far + me->n) % me->n;
}

/* Every rank sends to every rank, itself among them; bytes behind the message stay. */
static void pairs(struct rank *me)
{
    static const size_t sizes[] = {0, 1, 8, 8192, 65536, (1 << 20) + 3};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        unsigned char *out = room(sizes[s]), *in = room(sizes[s] + 1);
        for (int far = 0; far < me->n; far++) {
            peali_net_req give, take;
            fill(out, sizes[s], (uint32_t)(me->rank * 64 + above(me, far)));
            in[sizes[s]] = 0xa5;
            recv_from(me, below(me, far), 7, in, sizes[s], &take);
            send_to(me, above(me, far), 7, out, sizes[s], &give);
            wait_for(me, &take);
            wait_for(me, &give);
            EXPECT(me, filled(in, sizes[s], (uint32_t)(below(me, far) * 64 + me->rank)));
            EXPECT(me, in[sizes[s]] == 0xa5);
        }
        free(out);
        free(in);
    }
}

/* Sends a message to the rank above, and waits for that of the rank below. */
static void token(struct rank *me, uint32_t tag)
{
    peali_net_req give, take;
    recv_from(me, below(me, 1), tag, NULL, 0, &take);
    send_to(me, above(me, 1), tag, NULL, 0, &give);
    wait_for(me, &take);
    wait_for(me, &give);
}

/* The receive is there before its send, then the send before its receive: a token on another tag says so. */
static void before_and_after(struct rank *me)
{
    enum { BYTES = 100000 };
    unsigned char *out = room(BYTES), *in = room(BYTES);
    static const size_t sizes[] = {8, BYTES};
    for (int i = 0; i < 4; i++) {
        bool send_first = i & 1;
        size_t bytes = sizes[i / 2];
        peali_net_req give, take;
        fill(out, bytes, (uint32_t)(me->rank * 4 + i));
        if (send_first)
            send_to(me, above(me, 1), 1, out, bytes, &give);
        else
            recv_from(me, below(me, 1), 1, in, bytes, &take);
        token(me, 2);
        if (send_first)
            recv_from(me, below(me, 1), 1, in, bytes, &take);
        else
            send_to(me, above(me, 1), 1, out, bytes, &give);
        wait_for(me, &take);
        wait_for(me, &give);
        EXPECT(me, filled(in, bytes, (uint32_t)(below(me, 1) * 4 + i)));
    }
    free(out);
    free(in);
}

/* Messages are taken in the opposite order of their tags. */
static void overtaking(struct rank *me)
{
    enum { TAGS = 300 };
    peali_net_req give[TAGS], take;
    uint32_t out[TAGS], in;
    for (uint32_t i = 0; i < TAGS; i++) {
        out[i] = mix((uint32_t)me->rank * TAGS + i);
        send_to(me, above(me, 1), TAG_LAST - i, &out[i], sizeof(out[i]), &give[i]);
    }
    for (uint32_t i = TAGS; i-- > 0;) {
        recv_from(me, below(me, 1), TAG_LAST - i, &in, sizeof(in), &take);
        wait_for(me, &take);
        EXPECT(me, in == mix((uint32_t)below(me, 1) * TAGS + i));
    }
    for (int i = 0; i < TAGS; i++)
        wait_for(me, &give[i]);
}

/* Messages of one tag keep their order, also where the peer takes none until all were sent. */
static void fifo(struct rank *me)
{
    enum { MESSAGES = 1000 };
    peali_net_req *give = room(MESSAGES * sizeof(*give)), take;
    uint32_t *out = room(MESSAGES * sizeof(*out)), in;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        out[i] = i + 1;
        send_to(me, above(me, 1), 3, &out[i], sizeof(out[i]), &give[i]);
    }
    token(me, 4);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        recv_from(me, below(me, 1), 3, &in, sizeof(in), &take);
        wait_for(me, &take);
        EXPECT(me, in == i + 1);
    }
    for (int i = 0; i < MESSAGES; i++)
        wait_for(me, &give[i]);
    free(give);
    free(out);
}

/* Rounds on lane 1: each ends before the next begins. */
static void busy_lane(struct rank *me, unsigned char *out, unsigned char *in, size_t most)
{
    enum { ROUNDS = 30 };
    for (uint32_t i = 0; i < ROUNDS; i++) {
        size_t bytes = most >> i % 18;
        peali_net_req give, take;
        fill(out, bytes, (uint32_t)me->rank * ROUNDS + i);
        recv_from(me, below(me, 1), LANE + i, in, bytes, &take);
        send_to(me, above(me, 1), LANE + i, out, bytes, &give);
        wait_for(me, &take);
        wait_for(me, &give);
        EXPECT(me, filled(in, bytes, (uint32_t)below(me, 1) * ROUNDS + i));
    }
}

/*
 * A lane whose messages nobody takes yet holds up no other one: neither by messages that fill what room there is on the way, nor by
 * those that wait for their receive. Nor does a lane whose receives wait.
 */
static void blocked_lane(struct rank *me)
{
    enum { BLOCKED = 48, MOST = 300000 };
    static const size_t sizes[] = {8, 8000, MOST};
    peali_net_req give[BLOCKED], early, take;
    unsigned char *out = room((BLOCKED + 1) * MOST), *in = room(2 * MOST), late = 0, word = 42;
    recv_from(me, below(me, 1), 2 * LANE, &late, 1, &early);
    for (uint32_t i = 0; i < BLOCKED; i++) {
        fill(out + i * MOST, sizes[i % 3], (uint32_t)me->rank * BLOCKED + i);
        send_to(me, above(me, 1), i, out + i * MOST, sizes[i % 3], &give[i]);
    }
    busy_lane(me, out + BLOCKED * MOST, in, MOST);
    for (uint32_t i = 0; i < BLOCKED; i++) {
        recv_from(me, below(me, 1), i, in, sizes[i % 3], &take);
        wait_for(me, &take);
        EXPECT(me, filled(in, sizes[i % 3], (uint32_t)below(me, 1) * BLOCKED + i));
    }
    send_to(me, above(me, 1), 2 * LANE, &word, 1, &take);
    for (int i = 0; i < BLOCKED; i++)
        wait_for(me, &give[i]);
    wait_for(me, &take);
    wait_for(me, &early);
    EXPECT(me, late == word);
    free(out);
    free(in);
}

struct message {
    int from, to;
    uint32_t tag;
    size_t bytes;
};

/* Message INDEX of a traffic that all ranks know. */
static struct message message_of(uint32_t index, int n)
{
    uint32_t a = mix(index * 2 + 1), b = mix(index * 2 + 2);
    return (struct message){.from = (int)(a % (uint32_t)n), .to = (int)((a >> 8) % (uint32_t)n), .tag = a >> 29,
                            .bytes = (b >> 16) % ((size_t)1 << (b % 16))};
}

/* A window of messages under way, as a rank that sends to itself has two ends of one message in it. */
enum { WINDOW = 64 };
struct traffic {
    peali_net_req req[WINDOW];
    unsigned char *data[WINDOW];
    size_t bytes[WINDOW];
    uint32_t seed[WINDOW]; /* of a receive; 0: a send */
    uint32_t begun;
};

static void traffic_end(struct rank *me, struct traffic *t, uint32_t slot)
{
    if (!t->data[slot])
        return;
    wait_for(me, &t->req[slot]);
    if (t->seed[slot])
        EXPECT(me, filled(t->data[slot], t->bytes[slot], t->seed[slot]));
    free(t->data[slot]);
    t->data[slot] = NULL;
}

static void traffic_begin(struct rank *me, struct traffic *t, const struct message *m, uint32_t seed, bool receives)
{
    uint32_t slot = t->begun++ % WINDOW;
    traffic_end(me, t, slot);
    t->data[slot] = room(m->bytes);
    t->bytes[slot] = m->bytes;
    t->seed[slot] = receives ? seed : 0;
    if (receives) {
        recv_from(me, m->from, m->tag, t->data[slot], m->bytes, &t->req[slot]);
        return;
    }
    fill(t->data[slot], m->bytes, seed);
    send_to(me, m->to, m->tag, t->data[slot], m->bytes, &t->req[slot]);
}

static void random_traffic(struct rank *me)
{
    enum { MESSAGES = 2000 };
    struct traffic *t = room(sizeof(*t));
    for (uint32_t i = 1; i <= MESSAGES; i++) {
        struct message m = message_of(i, me->n);
        if (m.from == me->rank)
            traffic_begin(me, t, &m, i, false);
        if (m.to == me->rank)
            traffic_begin(me, t, &m, i, true);
    }
    for (uint32_t slot = 0; slot < WINDOW; slot++)
        traffic_end(me, t, slot);
    free(t);
}

/* The same tag on two communicators of the same ranks. */
static void apart(struct rank *me)
{
    peali_net_req give[2], take[2];
    int in[2] = {0, 0}, out[2] = {10, 20};
    peali_net *nets[2] = {me->net, me->second};
    for (int i = 0; i < 2; i++)
        EXPECT(me, nets[i]->send(nets[i], above(me, 1), 5, &out[i], sizeof(int), &give[i]) == PEAL_OK);
    for (int i = 1; i >= 0; i--) {
        EXPECT(me, nets[i]->recv(nets[i], below(me, 1), 5, &in[i], sizeof(int), &take[i]) == PEAL_OK);
        EXPECT(me, end_of(me, nets[i], &take[i]) == PEAL_OK);
        EXPECT(me, end_of(me, nets[i], &give[i]) == PEAL_OK);
        EXPECT(me, in[i] == out[i]);
    }
}

/*
 * What was cancelled is not touched any more, and the rest goes on. MPI cannot take back a send: there only receives are
 * cancelled, and their tags not used again.
 */
static void cancelled(struct rank *me)
{
    enum { LARGE = 4 << 20, FIRST = 1000, SECOND = 1001, THEN = 1002 };
    unsigned char *data = room(LARGE), small[64];
    peali_net_req req, also, then;
    if (me->rank == 1) {
        recv_from(me, 0, FIRST, small, sizeof(small), &req);
        recv_from(me, 0, SECOND, data, LARGE, &also);
        me->net->cancel(me->net, &req);
        me->net->cancel(me->net, &also);
        fill(small, sizeof(small), 3);
        fill(data, LARGE, 4);
        send_to(me, 0, THEN, NULL, 0, &then);
        wait_for(me, &then);
    }
    if (me->rank == 0) {
        recv_from(me, 1, THEN, NULL, 0, &then);
        wait_for(me, &then);
    }
    if (me->rank == 0 && strcmp(me->net->name, "mpi") != 0) {
        send_to(me, 1, FIRST, small, sizeof(small), &req);
        send_to(me, 1, SECOND, data, LARGE, &also);
        me->net->cancel(me->net, &req);
        me->net->cancel(me->net, &also);
    }
    token(me, 6);
    if (me->rank == 1)
        EXPECT(me, filled(small, sizeof(small), 3) && filled(data, LARGE, 4));
    free(data);
    token(me, 6);
}

static void flushed(struct rank *me)
{
    int64_t until = peali_clock_ns() + patience_ns;
    peal_status status;
    do {
        status = me->net->flush(me->net);
    } while (status == PEAL_IN_PROGRESS && EXPECT(me, peali_clock_ns() < until));
    EXPECT(me, status == PEAL_OK);
}

static void flush(struct rank *me)
{
    token(me, 6);
    flushed(me);
}

enum { BURST = 64, PIECE = 1500 };

/* Over something else than the transport (test_net_loop.h, test_net_mpi.h): all meet. */
static void meet_aside(const struct rank *me);

/*
 * The first messages there are, each way between two ranks used one way alone; and who has sent and received all of its own drives
 * nothing more. MPI promises no such thing.
 */
static void one_way(struct rank *me)
{
    if (strcmp(me->net->name, "mpi") != 0)
        flush(me);
    meet_aside(me);
}

static void send_burst(struct rank *me, int peer, int n, const unsigned char *data)
{
    peali_net_req reqs[BURST];
    for (int i = 0; i < n; i++)
        send_to(me, peer, 12, data, PIECE, &reqs[i]);
    for (int i = 0; i < n; i++)
        wait_for(me, &reqs[i]);
}

static void receive_late(struct rank *me, long late_ns, int n, unsigned char *data)
{
    const struct timespec late = {.tv_nsec = late_ns};
    peali_net_req req;
    nanosleep(&late, NULL);
    for (int i = 0; i < n && me->bad == 0; i++) {
        recv_from(me, 0, 12, data, PIECE, &req);
        wait_for(me, &req);
    }
}

/*
 * Bursts to a peer that comes late, some of which just fill the buffers on the way: who has flushed drives nothing until they have
 * come. MPI promises no such thing.
 */
static void delivered(struct rank *me)
{
    unsigned char data[PIECE] = {0};
    bool promised = strcmp(me->net->name, "mpi") != 0;
    for (int n = 1; promised && me->n == 2 && n <= BURST; n += 1 + n / 4) {
        if (me->rank == 0) {
            send_burst(me, 1, n, data);
            flushed(me);
        } else {
            receive_late(me, 5000000, n, data);
        }
        meet_aside(me);
    }
}

/* Likewise, where the last rank, of two the same, is sent to while a flush for the first is under way, and comes later still. */
static void delivered_both(struct rank *me)
{
    unsigned char data[PIECE] = {0};
    bool promised = strcmp(me->net->name, "mpi") != 0;
    int last = me->n - 1;
    for (int n = 1; promised && me->n <= 3 && n <= BURST; n++) {
        if (me->rank == 0) {
            send_burst(me, 1, n, data);
            EXPECT(me, me->net->flush(me->net) >= PEAL_OK);
            send_burst(me, last, n, data);
            flushed(me);
        } else {
            receive_late(me, me->rank == last ? 4000000 : 1000000, last == 1 ? 2 * n : n, data);
        }
        meet_aside(me);
    }
}

/* True where one line of the log has all of WORDS. */
static bool logged(const char *const *words)
{
    char line[4096];
    bool found = false;
    FILE *log = fopen(log_path, "r");
    while (log && !found && fgets(line, sizeof(line), log)) {
        found = true;
        for (int i = 0; words[i]; i++)
            found = found && strstr(line, words[i]);
    }
    if (log)
        fclose(log);
    return found;
}

/* A message from rank 0 to rank 1 that is longer, then one that is shorter than its receive. */
static void wrong_length(struct rank *me)
{
    static const char *const shorter[] = {" rank 1:", "from rank 0", "tag 8", "has 16 bytes", "receive 24", NULL};
    static const char *const longer[] = {" rank 1:", "from rank 0", "tag 9", "its receive 8", NULL};
    unsigned char data[32];
    peali_net_req req;
    fill(data, sizeof(data), 1);
    for (uint32_t tag = 8; tag <= 9; tag++) {
        if (me->rank == 0) {
            send_to(me, 1, tag, data, 16, &req);
            peal_status status = end_of(me, me->net, &req); /* who sends need not learn of it */
            EXPECT(me, status == PEAL_OK || status == PEAL_ERR_NET);
        } else if (me->rank == 1) {
            recv_from(me, 0, tag, data, tag == 8 ? 24 : 8, &req);
            EXPECT(me, end_of(me, me->net, &req) == PEAL_ERR_NET);
            EXPECT(me, logged(tag == 8 ? shorter : longer));
        }
    }
}

/* Where a shorter message will do: messages of each length up to the receive's, then one that is longer. */
static void some(struct rank *me)
{
    enum { MOST = 24 };
    static const char *const longer[] = {" rank 1:", "from rank 0", "tag 9", "its receive 24", NULL};
    unsigned char data[MOST + 8], in[MOST];
    peali_net_req req;
    fill(data, sizeof(data), 1);
    for (size_t bytes = 0; bytes <= MOST + 8; bytes += 8) {
        peal_status right = bytes > MOST ? PEAL_ERR_NET : PEAL_OK;
        if (me->rank == 0) {
            send_to(me, 1, 9, data, bytes, &req);
            peal_status status = end_of(me, me->net, &req);
            EXPECT(me, status == PEAL_OK || status == right);
        } else if (me->rank == 1) {
            EXPECT(me, me->net->recv_some(me->net, 0, 9, in, MOST, &req) == PEAL_OK);
            EXPECT(me, end_of(me, me->net, &req) == right);
            EXPECT(me, right != PEAL_OK || memcmp(in, data, bytes) == 0);
        }
    }
    EXPECT(me, me->rank != 1 || logged(longer));
}

struct test {
    const char *name;
    play *body;
    int least; /* ranks */
};

static struct test tests[] = {
    {"one way", one_way, 1}, /* before there are connections */
    {"every pair, every size", pairs, 1},
    {"receives before and after their sends", before_and_after, 1},
    {"tags overtake", overtaking, 1},
    {"one tag keeps its order", fifo, 1},
    {"a blocked lane blocks no other", blocked_lane, 1},
    {"random traffic", random_traffic, 1},
    {"communicators are apart", apart, 1},
    {"flush", flush, 1},
    {"delivered without its sender", delivered, 2},
    {"delivered, sent in a flush", delivered_both, 2},
    {"wrong length", wrong_length, 2},
    {"some length", some, 2},
    {"cancelled", cancelled, 2},
};
enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

/* Gathers BYTES of all ranks in rank order. */
typedef void gather(void *ctx, const void *mine, void *all, size_t bytes);

#include "test_net_dress.h"
#ifdef TEST_MPI
#include "test_net_mpi.h"
#else
#include "test_net_loop.h"
#endif

/* Each test with every number of ranks that there can be. */
static void each_size(void **state)
{
    const struct test *t = *state;
    for (int n = t->least; n <= ranks_most(); n++) {
        assert_int_equal(run_ranks(n, t->body), 0);
        for (; nkept > 0; nkept--)
            kept[nkept - 1]->destroy(kept[nkept - 1]);
    }
}

int main(int argc, char **argv)
{
    snprintf(log_path, sizeof(log_path), "test_net.%ld.log", (long)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    setenv("PEAL_TIMEOUT", "1.5", 1);
    start(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        over_ucx |= strcmp(argv[i], "ucx") == 0;
        on_rails |= strcmp(argv[i], "rails") == 0;
        beside |= strcmp(argv[i], "beside") == 0;
        faulty |= strcmp(argv[i], "fault") == 0;
    }
    struct CMUnitTest units[TESTS];
    for (int i = 0; i < TESTS; i++)
        units[i] = (struct CMUnitTest){.name = tests[i].name, .test_func = each_size, .initial_state = &tests[i]};
    int failed = cmocka_run_group_tests_name("net", units, NULL, NULL);
    if (!over_ucx && !faulty)
        failed += cmocka_run_group_tests_name("net, this transport alone", own_tests, NULL, NULL);
    stop();
    unlink(log_path);
    return failed != 0;
}
