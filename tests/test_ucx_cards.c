/*
 * The cards of net_ucx, which hold addresses that UCX would believe: damaged ones are refused with the rank that they came from.
 * They are those of one worker, until a call failed. And how a process that has UCX ends, and that UCX does not end it.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/envelope.h"
#include "net/net_ucx.h"

static char log_path[64];

static void destroy(peali_net *net)
{
}

/* Two ranks of this process, and the transport that they were started over: no message goes by it here. */
static peali_net hosts[2] = {{.name = "none", .rank = 0, .nranks = 2, .destroy = destroy},
                             {.name = "none", .rank = 1, .nranks = 2, .destroy = destroy}};
static peali_net *nets[2];
static char *cards;
static size_t stride;

static int lay_out_cards(void)
{
    stride = nets[nets[0]->card_bytes < nets[1]->card_bytes]->card_bytes + 8;
    cards = calloc(2, stride);
    for (int r = 0; r < 2; r++)
        memcpy(cards + (size_t)r * stride, nets[r]->card, nets[r]->card_bytes);
    return 0;
}

static int open_nets(void **state)
{
    (void)state;
    const peali_ucx_rails rails = {.n = 1, .near = 1, .host = 1};
    for (int r = 0; r < 2; r++)
        if (peali_net_ucx_create(&hosts[r], &rails, &nets[r]) != PEAL_OK)
            return 1;
    return lay_out_cards();
}

static int close_nets(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++)
        nets[r]->destroy(nets[r]);
    free(cards);
    return 0;
}

/* Rank 0 refuses the cards, and says WORDS of that of rank 1. */
static void refuses(const char *words)
{
    char said[1024] = "", expected[256];
    if (truncate(log_path, 0) != 0)
        assert_int_equal(errno, ENOENT); /* nothing was said yet */
    assert_int_equal(nets[0]->meet(nets[0], cards, stride), PEAL_ERR_NET);
    FILE *log = fopen(log_path, "r");
    assert_non_null(log);
    said[fread(said, 1, sizeof said - 1, log)] = '\0';
    fclose(log);
    snprintf(expected, sizeof expected, "[peal] warn rank 0: the ucx address of rank 1 %s\n", words);
    assert_string_equal(said, expected);
}

static void damaged(void **state)
{
    (void)state;
    char *card = cards + stride, *kept = malloc(stride);
    memcpy(kept, card, stride);

    card[nets[1]->card_bytes - 1] ^= 1;
    refuses("was damaged on its way: its checksum is wrong");
    memset(card, 0, stride);
    refuses("is in no envelope");
    memcpy(card, cards, stride);
    refuses("is that of rank 0");
    memcpy(card, kept, stride);
    peali_envelope_seal(card, PEALI_ENVELOPE_KEY, 8);
    refuses("is a key, not an address");
    peali_envelope_seal(card, PEALI_ENVELOPE_ADDRESS, 7);
    refuses("is too short");

    memcpy(card, kept, stride);
    assert_int_equal(nets[0]->meet(nets[0], cards, stride), PEAL_OK);
    free(kept);
}

/* Does rank R of nets made now have the worker whose address is in CARD? */
static bool same_worker(int r, const char *card)
{
    enum { HEAD = 48 }; /* of a card: what is the net's, not its worker's */
    bool same = memcmp(cards + (size_t)r * stride + HEAD, card + HEAD, nets[r]->card_bytes - HEAD) == 0;
    assert_true(nets[r]->card_bytes > HEAD);
    return same;
}

static void forsaken(void **state)
{
    char *kept = malloc(stride);
    memcpy(kept, cards, stride);
    assert_true(same_worker(1, kept));
    close_nets(state);
    assert_int_equal(open_nets(state), 0);
    assert_true(same_worker(0, kept));
    nets[1]->forsake(nets[1]);
    close_nets(state);
    assert_int_equal(open_nets(state), 0);
    assert_false(same_worker(0, kept));
    free(kept);
}

/* Who waits elsewhere drives workers, too, that are some net's still and no net's to come. */
static void driven(void **state)
{
    enum { BYTES = 1 << 20 };
    (void)state;
    char *from = malloc(BYTES), *to = calloc(1, BYTES);
    peali_net_req send, recv;
    peal_status sent = PEAL_IN_PROGRESS, received = PEAL_IN_PROGRESS;
    memset(from, 7, BYTES);
    for (int r = 0; r < 2; r++)
        assert_int_equal(nets[r]->meet(nets[r], cards, stride), PEAL_OK);
    nets[0]->forsake(nets[0]);
    assert_int_equal(nets[1]->send(nets[1], 0, 5, from, BYTES, &send), PEAL_OK);
    assert_int_equal(nets[0]->recv(nets[0], 1, 5, to, BYTES, &recv), PEAL_OK);
    for (int i = 0; i < 1000000 && (sent == PEAL_IN_PROGRESS || received == PEAL_IN_PROGRESS); i++) {
        peali_net_ucx_drive();
        sent = sent == PEAL_IN_PROGRESS ? nets[1]->peek(nets[1], &send) : sent;
        received = received == PEAL_IN_PROGRESS ? nets[0]->peek(nets[0], &recv) : received;
    }
    assert_int_equal(sent, PEAL_OK);
    assert_int_equal(received, PEAL_OK);
    assert_memory_equal(from, to, BYTES);
    free(from);
    free(to);
}

/*
 * What a receive that could not be taken back still writes comes no more, while others drive UCX and not the worker it is of; and
 * no net to come drives that.
 */
static void left_alone(void **state)
{
    enum { BYTES = 64 << 20 };
    (void)state;
    volatile char *to = calloc(1, BYTES);
    peal_status sent = PEAL_IN_PROGRESS;
    char *from = malloc(BYTES);
    peali_net_req send, recv;
    peali_net *next;
    memset(from, 7, BYTES);
    for (int r = 0; r < 2; r++)
        assert_int_equal(nets[r]->meet(nets[r], cards, stride), PEAL_OK);
    assert_int_equal(nets[0]->send(nets[0], 1, 5, from, BYTES, &send), PEAL_OK);
    assert_int_equal(nets[1]->recv(nets[1], 0, 5, (char *)to, BYTES, &recv), PEAL_OK);
    for (int i = 0; i < 10000000 && !to[0]; i++)
        if (nets[0]->test(nets[0], &send) != PEAL_IN_PROGRESS || nets[1]->test(nets[1], &recv) != PEAL_IN_PROGRESS)
            break;
    assert_true(to[0] == 7 && to[BYTES - 1] == 0);
    nets[1]->cancel(nets[1], &recv); /* in vain: the sender does nothing */
    assert_int_equal(peali_net_ucx_create(&hosts[1], &(peali_ucx_rails){.n = 1, .near = 1, .host = 2}, &next), PEAL_OK);
    assert_false(same_worker(1, next->card));
    next->destroy(next);
    memset((char *)to, 0, BYTES);
    for (int i = 0; i < 100000; i++)
        peali_net_ucx_drive();
    for (size_t i = 0; i < BYTES; i++)
        if (to[i])
            fail_msg("byte %zu came after the receive was cancelled", i);
    assert_int_equal(nets[1]->recv(nets[1], 0, 6, NULL, 0, &recv), PEAL_OK); /* UCX 1.13 dies where a peer ends in the middle */
    for (int i = 0; i < 10000000 && (sent == PEAL_IN_PROGRESS || !to[BYTES - 1]); i++) {
        sent = sent == PEAL_IN_PROGRESS ? nets[0]->test(nets[0], &send) : sent;
        assert_int_equal(nets[1]->test(nets[1], &recv), PEAL_IN_PROGRESS);
    }
    assert_int_equal(sent, PEAL_OK);
    assert_int_equal(to[BYTES - 1], 7);
    nets[1]->cancel(nets[1], &recv);
    free((char *)to);
    free(from);
}

/* Where UCX takes what it likes, that is said in the place of a name. */
static void names_no_device(void **state)
{
    char text[PEALI_NET_WAY];
    (void)state;
    assert_int_equal(nets[0]->meet(nets[0], cards, stride), PEAL_OK);
    nets[0]->describe(nets[0], 1, 0, true, text, sizeof text);
    assert_non_null(strstr(text, "rail 0, any device of host "));
    assert_non_null(strstr(text, " to any device of host "));
}

/* Two workers, as on two hosts: what fails of the first net leaves the second another one. */
static int open_apart(void **state)
{
    peali_ucx_rails rails = {.n = 1, .near = 1, .host = 1};
    (void)state;
    if (peali_net_ucx_create(&hosts[0], &rails, &nets[0]) != PEAL_OK)
        return 1;
    nets[0]->forsake(nets[0]);
    rails.host = 2;
    return peali_net_ucx_create(&hosts[1], &rails, &nets[1]) != PEAL_OK || lay_out_cards();
}

static void *drive(void *arg)
{
    for (;;)
        peali_net_ucx_drive();
    return arg;
}

static void end_beside_drivers(void)
{
    peali_ucx_rails rails = {.n = 1, .near = 1, .host = 1};
    pthread_t thread;
    for (rails.number = 0; rails.number < 8; rails.number++)
        if (peali_net_ucx_open(0, &rails) != PEAL_OK)
            _exit(2);
    if (pthread_create(&thread, NULL, drive, NULL) != 0)
        _exit(3);
    usleep(2000);
    exit(0);
}

static void allow(int more)
{
    int next = dup(2);
    close(next);
    if (next < 0 || setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)(next + more), (rlim_t)(next + more)}) != 0)
        _exit(2);
}

/* Two nets, that connect, where the process may have MORE descriptors, from its start or (LATE) from when it has them. */
static void connect_with(int more, bool late)
{
    void *state = NULL;
    const char *why;
    if (!late)
        allow(more);
    if (!peali_net_ucx_devices(&why) || open_apart(&state) != 0)
        _exit(1);
    if (late)
        allow(more);
    bool met = nets[0]->meet(nets[0], cards, stride) == PEAL_OK && nets[1]->meet(nets[1], cards, stride) == PEAL_OK;
    close_nets(&state);
    _exit(!met);
}

#ifdef __SANITIZE_THREAD__
enum { STEP = 13, BY_SIGNAL = 0 }; /* odd: both kinds in turns. And exit is nothing for a signal's handler, says TSan */
#else
enum { STEP = 1, BY_SIGNAL = 4 };
#endif

/* Whatever comes of it, UCX does not end the process. */
static void few_descriptors(void **state)
{
    int how = -1, met[2] = {0, 0};
    (void)state;
    for (int i = 0; i < 140; i += STEP) {
        int late = i % 2;
        pid_t pid = fork();
        if (pid == 0)
            connect_with(i / 2, late);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) <= 1);
        met[late] += how == 0;
    }
    for (int late = 0; late < 2; late++)
        assert_true(met[late] > 0 && met[late] < 70 / STEP);
}

static void end_by_signal(int number)
{
    exit(number != SIGVTALRM);
}

static void end_while_driving(void)
{
    const peali_ucx_rails rails = {.n = 1, .near = 1, .host = 1};
    if (peali_net_ucx_open(0, &rails) != PEAL_OK)
        _exit(2);
    signal(SIGVTALRM, end_by_signal);
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {.tv_usec = 2000}}, NULL);
    alarm(20);
    drive(NULL);
}

/*
 * A process may end while threads of it still wait, and drive UCX as they do; and by a signal while the one that it has does so. In
 * children, before this process has UCX itself.
 */
static void ends(void **state)
{
    (void)state;
    for (int i = 0; i < 20 + BY_SIGNAL; i++) {
        int how;
        pid_t pid = fork();
        if (pid == 0)
            i < 20 ? end_beside_drivers() : end_while_driving();
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_int_equal(how, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_descriptors), cmocka_unit_test(ends),
                                       cmocka_unit_test_setup_teardown(damaged, open_nets, close_nets),
                                       cmocka_unit_test_setup_teardown(forsaken, open_nets, close_nets),
                                       cmocka_unit_test_setup_teardown(driven, open_nets, close_nets),
                                       cmocka_unit_test_setup_teardown(names_no_device, open_apart, close_nets),
                                       cmocka_unit_test_setup_teardown(left_alone, open_apart, close_nets)};
    setenv("UCX_TLS", "tcp,self", 0); /* where data comes in pieces */
    snprintf(log_path, sizeof log_path, "test_ucx_cards.%ld.log", (long)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests_name("ucx cards", tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
