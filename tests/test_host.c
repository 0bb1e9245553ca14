/*
 * Processes that meet: each maps the others' pools, reads and writes there, and may die. Nothing may be left of them.
 *
 * The ranks are children of this process, which has no pool itself; a page that all share stands for the bootstrap.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "exec/host.h"
#include "exec/pool.h"

enum { RANKS = 8, BYTES = 3 << 20, SECONDS = 60 };

/* What all see. Guarded by arrive(): what was written before is there after. */
static struct board {
    int come; /* arrivals so far. Pair: release in arrive(), acquire in await() */
    int met, killed;
    peali_host_card card[RANKS];
    uint64_t at[RANKS]; /* a block of each rank, as the rank has it */
    ino_t file[RANKS];  /* of each rank's pool */
} *board;

/* Leaves the rank with NUMBER unless CONDITION holds. */
#define CHECK(number, condition)                                                                                                   \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "check %d failed: %s\n", number, #condition);                                                          \
            _exit(number);                                                                                                         \
        }                                                                                                                          \
    } while (0)

static void await(const int *word, int least)
{
    for (int64_t end = peali_clock_ns() + SECONDS * INT64_C(1000000000); peali_load_acquire(word) < least;) {
        CHECK(90, peali_clock_ns() < end);
        peali_clock_sleep(200000);
    }
}

/* Waits until N have come for the K-th time, k = 1, 2, ... */
static void arrive(int n, int k)
{
    __atomic_fetch_add(&board->come, 1, __ATOMIC_RELEASE);
    await(&board->come, n * k);
}

static int wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void start(pid_t *pids, int n, void (*rank)(int me, int n))
{
    memset(board, 0, sizeof *board);
    for (int r = 0; r < n; r++) {
        assert_true((pids[r] = fork()) >= 0);
        if (pids[r] == 0) {
            signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
            signal(SIGBUS, SIG_DFL);
            rank(r, n);
            _exit(0);
        }
    }
}

/* All end before one can be found wrong: they share the board with the next test. */
static void assert_all_well(const pid_t *pids, int n)
{
    int wrong = 0;
    for (int r = 0; r < n; r++)
        wrong = wait_for(pids[r]) ? r + 1 : wrong;
    assert_int_equal(wrong, 0);
}

/* Is there a descriptor or mapping of one of the ranks' pools in any process? */
static bool linked(const char *path)
{
    struct stat is;
    char name[64] = "";
    if (readlink(path, name, sizeof name - 1) < 0 || strncmp(name, "/memfd:peal", 11) != 0 || stat(path, &is) != 0)
        return false;
    for (int r = 0; r < RANKS; r++)
        if (board->file[r] && is.st_ino == board->file[r])
            return true;
    return false;
}

static int linked_in(const char *pid, const char *folder)
{
    char path[512];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%s/%s", pid, folder);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/%s/%s/%s", pid, folder, e->d_name);
        found += linked(path);
    }
    if (d)
        closedir(d);
    return found;
}

static int sockets_of(int rank)
{
    char name[64], line[512];
    int found = 0;
    snprintf(name, sizeof name, "@peal-%016llx%016llx", (unsigned long long)board->card[rank].socket[0],
             (unsigned long long)board->card[rank].socket[1]);
    FILE *f = fopen("/proc/net/unix", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        found += strstr(line, name) != NULL;
    fclose(f);
    return found;
}

static void assert_nothing_left(int n)
{
    int found = 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            found += linked_in(e->d_name, "fd") + linked_in(e->d_name, "map_files");
    closedir(d);
    assert_int_equal(found, 0);
    for (int r = 0; r < n; r++)
        assert_int_equal(sockets_of(r), 0);
    d = opendir("/dev/shm");
    for (struct dirent *e; d && (e = readdir(d));)
        assert_null(strstr(e->d_name, "peal-"));
    if (d)
        closedir(d);
}

static void all_well(int n, void (*rank)(int me, int n))
{
    pid_t pids[RANKS];
    start(pids, n, rank);
    assert_all_well(pids, n);
    assert_nothing_left(n);
}

/* --- what a rank does */

static unsigned char pattern(int rank, size_t i)
{
    return (unsigned char)(i * 7 + (size_t)rank * 31 + 1);
}

__attribute__((no_sanitize("thread"))) static unsigned char *publish(int me) /* TSan sees no other process */
{
    peali_pool_view view;
    struct stat is;
    unsigned char *at = peali_pool_alloc(BYTES, PEALI_POOL_USER);
    CHECK(1, at && peali_pool_open(&view) == PEAL_OK && fstat(view.fd, &is) == 0);
    for (size_t i = 0; i < BYTES; i++)
        at[i] = i < 4096 ? 0 : pattern(me, i);
    board->at[me] = (uint64_t)(uintptr_t)at;
    board->file[me] = is.st_ino;
    return at;
}

static peali_host *open_and_meet(int me, int n, int k, ptrdiff_t *shift)
{
    peali_host *host = NULL;
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
    arrive(n, k);
    CHECK(3, peali_host_meet(host, board->card, n, me, shift) == PEAL_OK);
    CHECK(4, shift[me] == 0);
    peali_host_hang_up(host);
    return host;
}

static unsigned char *block_of(int rank, const ptrdiff_t *shift)
{
    return (unsigned char *)(uintptr_t)(board->at[rank] + (uint64_t)shift[rank]);
}

static void read_all(int n, const ptrdiff_t *shift)
{
    for (int r = 0; r < n; r++)
        for (size_t i = 4096; i < BYTES; i += 61)
            CHECK(5, block_of(r, shift)[i] == pattern(r, i));
}

static void meets(int me, int n)
{
    ptrdiff_t shift[RANKS];
    unsigned char *mine = publish(me);
    peali_host *host = open_and_meet(me, n, 1, shift);
    read_all(n, shift);
    for (int r = 0; r < n; r++)
        block_of(r, shift)[me] = (unsigned char)(me + 100);
    arrive(n, 2);
    for (int r = 0; r < n; r++)
        CHECK(6, mine[r] == r + 100);
    arrive(n, 3);
    peali_host_close(&host);
    CHECK(7, host == NULL);
    peali_pool_free(mine);
}

static void two_to_eight(void **state)
{
    for (int n = 1; n <= RANKS; n = n < 3 ? n + 1 : n + 5) {
        all_well(n, meets);
    }
}

static peali_host *open_and_know(int me, int n, int k, bool known, ptrdiff_t *shift)
{
    peali_host *host = NULL;
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
    arrive(n, k);
    CHECK(10, peali_host_knows(host, board->card, n, shift) == known);
    peali_host_hang_up(host);
    return host;
}

/* Many communicators one after another; the third and later ones find the pools mapped, whether they ask for them or not. */
static void meets_again(int me, int n)
{
    ptrdiff_t shift[RANKS], first[RANKS];
    peali_host *host[10];
    (void)publish(me);
    for (int k = 0; k < 10; k++) {
        host[k] = k % 2 ? open_and_meet(me, n, 2 * k + 1, k > 1 ? shift : first) : open_and_know(me, n, 2 * k + 1, k > 0, shift);
        CHECK(8, k < 2 || memcmp(shift, first, (size_t)n * sizeof *shift) == 0);
        arrive(n, 2 * k + 2);
    }
    for (int k = 0; k < 9; k++)
        peali_host_close(&host[k]);
    read_all(n, first);
    peali_host_close(&host[9]);
    arrive(n, 21);
}

static void many_communicators(void **state)
{
    all_well(4, meets_again);
}

/* --- several ranks in a process, on several threads at once */

enum { PROCESSES = 2, EACH = 4 };

static void *thread_rank(void *arg)
{
    int me = *(int *)arg;
    ptrdiff_t shift[RANKS];
    peali_host *host = open_and_meet(me, PROCESSES * EACH, 1, shift);
    read_all(PROCESSES * EACH, shift);
    for (int r = me / EACH * EACH; r < me / EACH * EACH + EACH; r++)
        CHECK(9, shift[r] == 0);
    arrive(PROCESSES * EACH, 2);
    peali_host_close(&host);
    return NULL;
}

static void threads_meet(int process, int n)
{
    pthread_t ids[EACH];
    int rank[EACH];
    for (int t = 0; t < EACH; t++)
        (void)publish(rank[t] = process * EACH + t);
    for (int t = 0; t < EACH; t++)
        CHECK(10, pthread_create(&ids[t], NULL, thread_rank, &rank[t]) == 0);
    for (int t = 0; t < EACH; t++)
        pthread_join(ids[t], NULL);
}

static void ranks_are_threads(void **state)
{
    pid_t pids[PROCESSES];
    for (int round = 0; round < 5; round++) {
        start(pids, PROCESSES, threads_meet);
        assert_all_well(pids, PROCESSES);
        assert_nothing_left(PROCESSES * EACH);
    }
}

/* --- deaths */

/* Rank 0 is killed by the test; what it had stays readable for the others, who are killed later or end. */
static void outlives(int me, int n)
{
    ptrdiff_t shift[RANKS];
    (void)publish(me);
    peali_host *host = open_and_meet(me, n, 1, shift);
    __atomic_fetch_add(&board->met, 1, __ATOMIC_RELEASE);
    if (me == 0)
        pause();
    await(&board->killed, 1);
    read_all(n, shift);
    block_of(0, shift)[me] = 1;
    if (me == 1)
        pause();
    peali_host_close(&host);
}

static void assert_killed(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(wait_for(pid), 256 + SIGKILL);
}

static void one_is_killed(void **state)
{
    pid_t pids[4];
    start(pids, 4, outlives);
    await(&board->met, 4);
    assert_killed(pids[0]);
    peali_store_release(&board->killed, 1);
    assert_all_well(pids + 2, 2);
    assert_killed(pids[1]);
    assert_nothing_left(4);
}

static void all_are_killed(void **state)
{
    pid_t pids[RANKS];
    for (int round = 0; round <= RANKS; round++) {
        start(pids, RANKS, outlives);
        await(&board->met, round); /* later and later in the meeting */
        for (int r = 0; r < RANKS; r++) /* who runs on sees that others are gone, and ends by itself */
            assert_true(kill(pids[r], SIGSTOP) == 0 && waitpid(pids[r], NULL, WUNTRACED) == pids[r]);
        for (int r = 0; r < RANKS; r++)
            assert_killed(pids[r]);
        assert_nothing_left(RANKS);
    }
}

/* --- strangers */

/* Sends BYTES at WHAT and, unless FD is -1, a descriptor to the socket of CARD. */
static void send_stray(const peali_host_card *card, const void *what, size_t bytes, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int chars = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "peal-%016llx%016llx", (unsigned long long)card->socket[0],
                         (unsigned long long)card->socket[1]);
    struct iovec data = {(void *)(uintptr_t)what, bytes};
    struct msghdr message = {&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)chars), &data, 1, NULL, 0, 0};
    if (fd >= 0) {
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    int from = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(20, from >= 0 && sendmsg(from, &message, 0) == (ssize_t)bytes);
    close(from);
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (; readdir(d); n++)
        continue;
    closedir(d);
    return n;
}

/* Rank 0 has strange messages in its socket before any other: garbage, a stale card, longer ones, one of another user. */
static void ignores(int me, int n)
{
    ptrdiff_t shift[RANKS];
    peali_host *host = NULL;
    (void)publish(me);
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
    arrive(n, 1);
    int null = open("/dev/null", O_RDONLY);
    peali_host_card stale[2] = {board->card[n - 1], board->card[n - 1]};
    stale[0].pool[1]++;
    if (me == 0) {
        send_stray(&board->card[0], "x", 1, null);
        send_stray(&board->card[0], &stale[0], sizeof stale[0], null);
        send_stray(&board->card[0], &stale[0], sizeof stale[0], -1);
        send_stray(&board->card[0], &stale[0], sizeof stale, null);
        send_stray(&board->card[0], &board->card[0], sizeof stale[0], null);
    }
    close(null);
    pid_t stranger = me == 0 && getuid() == 0 ? fork() : -1; /* only root may be another user */
    if (stranger == 0) {
        CHECK(21, setuid(65534) == 0);
        send_stray(&board->card[0], &stale[1], sizeof stale[1], -1);
        _exit(0);
    }
    CHECK(22, stranger < 0 || wait_for(stranger) == 0);
    int before = descriptors();
    arrive(n, 2);
    CHECK(3, peali_host_meet(host, board->card, n, me, shift) == PEAL_OK && descriptors() == before);
    read_all(n, shift);
    arrive(n, 3);
    peali_host_close(&host);
}

static void strangers(void **state)
{
    all_well(3, ignores);
}

/* --- what cannot be */

/* Nor is one of use that another user has, whose messages would be dropped. */
static void no_pool_on_one(int me, int n)
{
    for (int another = 0; another < 2; another++) {
        ptrdiff_t shift[RANKS];
        peali_host *host = NULL;
        CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
        arrive(n, 3 * another + 1);
        if (me == 0 && another)
            board->card[n - 1].user++;
        else if (me == 0)
            memset(&board->card[n - 1], 0, sizeof board->card[0]);
        arrive(n, 3 * another + 2);
        CHECK(3, peali_host_meet(host, board->card, n, me, shift) == PEAL_ERR_UNSUPPORTED);
        peali_host_close(&host);
        arrive(n, 3 * another + 3);
    }
}

static void limit(int what, rlim_t most)
{
    CHECK(30, setrlimit(what, &(struct rlimit){most, most}) == 0);
}

static void no_socket(int me, int n)
{
    static const peali_host_card nothing;
    peali_pool_view view;
    peali_host *host = NULL;
    CHECK(1, peali_pool_open(&view) == PEAL_OK);
    memset(&board->card[me], 1, sizeof nothing);
    limit(RLIMIT_NOFILE, (rlim_t)view.fd + 1);
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_ERR_UNSUPPORTED && !host);
    CHECK(3, memcmp(&board->card[me], &nothing, sizeof nothing) == 0);
}

/* Rank 0 has no descriptor left to receive one: it says so, and the others do not wait for it. */
static void no_descriptor_left(int me, int n)
{
    ptrdiff_t shift[RANKS];
    peali_host *host = NULL;
    (void)publish(me);
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
    if (me == 0) {
        int next = dup(0);
        close(next);
        limit(RLIMIT_NOFILE, (rlim_t)next);
    }
    arrive(n, 1);
    CHECK(3, peali_host_meet(host, board->card, n, me, shift) == (me ? PEAL_OK : PEAL_ERR_UNSUPPORTED));
    peali_host_close(&host);
}

static rlim_t mapped_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(32, f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Rank 0 may not map a pool any more. */
static void no_addresses_left(int me, int n)
{
    ptrdiff_t shift[RANKS];
    peali_host *host = NULL;
    (void)publish(me);
    CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
    if (me == 0)
        limit(RLIMIT_AS, mapped_bytes() + (256 << 20));
    arrive(n, 1);
    CHECK(3, peali_host_meet(host, board->card, n, me, shift) == (me ? PEAL_OK : PEAL_ERR_UNSUPPORTED));
    peali_host_close(&host);
}

/* The last rank has a card, and does not come: its process has ended, or it is on another host; or (THERE) it may come yet. */
static void one_never_comes(int me, int n)
{
    ptrdiff_t shift[RANKS];
    setenv("PEAL_TIMEOUT", "1", 1); /* read at first use, which is here */
    for (int there = 0; there < 2; there++) {
        peali_host *host = NULL;
        CHECK(2, peali_host_open(&host, &board->card[me]) == PEAL_OK);
        if (me == n - 1 && !there)
            peali_host_close(&host);
        arrive(n, 2 * there + 1);
        int64_t begin = peali_clock_ns();
        CHECK(3, me == n - 1 || peali_host_meet(host, board->card, n, me, shift) ==
                                    (there ? PEAL_ERR_TIMEOUT : PEAL_ERR_UNSUPPORTED));
        CHECK(4, me == n - 1 || !there || peali_clock_ns() - begin >= 1000000000);
        arrive(n, 2 * there + 2);
        peali_host_close(&host);
    }
}

static void refusals(void **state)
{
    static void (*const cases[])(int, int) = {no_pool_on_one, no_socket, no_descriptor_left, no_addresses_left, one_never_comes};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        all_well(4, cases[i]);
    }
}

/* --- forks of a rank */

/* A child has its own memory, and none of peers': reading it is an error. */
static void child_of_rank(peali_host *host, const ptrdiff_t *shift, int me, int n)
{
    peali_host *another = NULL;
    peali_host_card card;
    int ends[2];
    CHECK(40, pipe(ends) == 0);
    for (int r = 0; r < n; r++)
        CHECK(44, write(ends[1], block_of(r, shift) + 4096, 1) == (r == me ? 1 : -1));
    CHECK(41, peali_host_open(&another, &card) == PEAL_ERR_UNSUPPORTED);
    peali_host_close(&host);
}

static void forks(int me, int n)
{
    ptrdiff_t shift[RANKS];
    unsigned char *mine = publish(me);
    peali_host *host = open_and_meet(me, n, 1, shift);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(42, child >= 0);
        if (child == 0) {
            child_of_rank(host, shift, me, n);
            _exit(0);
        }
        read_all(n, shift);
        CHECK(43, wait_for(child) == 0);
    }
    mine[4096] = 0; /* private by now: nobody sees it */
    arrive(n, 2);
    read_all(me, shift);
    arrive(n, 3);
    peali_host_close(&host);
}

static void ranks_fork(void **state)
{
    all_well(3, forks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_to_eight),
        cmocka_unit_test(many_communicators),
        cmocka_unit_test(ranks_are_threads),
        cmocka_unit_test(one_is_killed),
        cmocka_unit_test(all_are_killed),
        cmocka_unit_test(strangers),
        cmocka_unit_test(refusals),
        cmocka_unit_test(ranks_fork),
    };
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    pid_t pid;
    start(&pid, 1, meets);
    if (wait_for(pid) != 0) {
        printf("skipped: not even one process meets; PEAL_LOG=info says why\n");
        return 77;
    }
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
