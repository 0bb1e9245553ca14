/*
 * Unconnected datagrams between abstract sockets: nothing is left in a file system, a message is whole or not there, and one socket
 * serves all peers. The name of a socket is random, but any user of the host can read it, so that a message counts only if it comes
 * from a process of the same user and holds the whole card of the sender, which only members of the communicator were given. Of its
 * descriptor it is asked that nobody can make it shorter: reading past the end would kill this process.
 *
 * A socket takes about ten messages that were not read; so each rank sends and reads in turns, and every rank reads what it is sent
 * even where it cannot use it, for the others' sake.
 */
#include "exec/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/streams.h"
#include "exec/memfile.h"
#include "exec/pool.h"

#define PATIENCE_NS ((int64_t)30000000000)
#define STEP_NS ((int64_t)1000000000)

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    TO_SEND = 1,
    TO_GET = 2,
    RANKS_MOST = 4096 /* of a host; on the stack, so that no lack of memory keeps a rank from answering the others */
};

/* The pool of another process, mapped here. */
struct mapping {
    uint64_t pool[2];
    unsigned char *base;
    size_t bytes;
    int uses;
    struct mapping *next;
};

/* All that are mapped: one list, because the memory is the process'. A child has none of them, and does not look. */
static struct mapping *mappings;
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

struct peali_host {
    int fd;
    pid_t process;
    peali_host_card card;
    peali_pool_view pool;
    struct mapping **held;
    int nheld;
};

/* One call of peali_host_meet. */
struct meeting {
    peali_host *host;
    const peali_host_card *cards;
    int n, me, left;     /* left: messages to send and to get */
    ptrdiff_t *shift;
    peal_status status;
    unsigned char todo[RANKS_MOST]; /* by rank: TO_SEND, TO_GET */
};

static bool same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* The address of the socket named NAME; returns its length. A leading zero byte: it is no file. */
static socklen_t name_of(const uint64_t name[2], struct sockaddr_un *at)
{
    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    int chars = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "peal-%016llx%016llx", (unsigned long long)name[0],
                         (unsigned long long)name[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)chars);
}

/* Opens a socket of a new name; -1, with errno, where that is refused. */
static int open_socket(uint64_t name[2])
{
    struct sockaddr_un at;
    int on = 1, fd = peali_above_streams(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (getrandom(name, 2 * sizeof *name, 0) == (ssize_t)(2 * sizeof *name) &&
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&at, name_of(name, &at)) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

peal_status peali_host_open(peali_host **host, peali_host_card *card)
{
    memset(card, 0, sizeof *card);
    peali_host *h = peali_alloc(1, sizeof *h);
    if (!h)
        return PEAL_ERR_MEMORY;
    peal_status status = peali_pool_open(&h->pool);
    if (status == PEAL_OK && (h->fd = open_socket(h->card.socket)) < 0) {
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, -1, "no memory shared between processes: no socket: %s", strerror(errno));
        status = PEAL_ERR_UNSUPPORTED;
    }
    if (status != PEAL_OK) {
        peali_free(h);
        return status;
    }
    memcpy(h->card.pool, h->pool.id, sizeof h->card.pool);
    h->card.base = (uint64_t)(uintptr_t)h->pool.base;
    h->card.bytes = h->pool.bytes;
    h->card.user = getuid();
    h->process = getpid();
    *card = h->card;
    *host = h;
    return PEAL_OK;
}

static struct mapping *find(const uint64_t pool[2])
{
    struct mapping *p = mappings;
    while (p && !same(p->pool, pool))
        p = p->next;
    return p;
}

/* Maps what CARD says from FD, not for children, to whom it means nothing. False, with errno: refused. */
static bool map(struct mapping *p, const peali_host_card *card, int fd)
{
    p->base = peali_memfile_map(fd, card->bytes, PROT_READ | PROT_WRITE);
    if (!p->base)
        return false;
    memcpy(p->pool, card->pool, sizeof p->pool);
    p->bytes = card->bytes;
    (void)madvise(p->base, p->bytes, MADV_DONTFORK); /* refused: it only takes longer to vanish */
    return true;
}

/* Finds the pool of CARD, or maps it from FD, as FRESH; NULL with errno. */
static struct mapping *find_or_map(const peali_host_card *card, int fd, struct mapping *fresh)
{
    pthread_mutex_lock(&mappings_lock);
    struct mapping *p = find(card->pool);
    if (!p && map(fresh, card, fd)) {
        p = fresh;
        p->next = mappings;
        mappings = p;
    }
    if (p)
        p->uses++;
    pthread_mutex_unlock(&mappings_lock);
    return p;
}

/* Holds the pool of CARD until HOST is closed; NULL with errno. */
static struct mapping *hold(peali_host *host, const peali_host_card *card, int fd)
{
    struct mapping **held = peali_realloc(host->held, (size_t)host->nheld + 1, sizeof *held), *fresh = NULL, *p = NULL;
    if (held) {
        host->held = held;
        fresh = peali_alloc(1, sizeof *fresh);
    }
    errno = ENOMEM;
    if (fresh)
        p = find_or_map(card, fd, fresh);
    if (p)
        held[host->nheld++] = p;
    if (p != fresh)
        peali_free(fresh);
    return p;
}

/* What is to be added to an address in the pool of CARD to have it in P. */
static ptrdiff_t shift_to(const struct mapping *p, const peali_host_card *card)
{
    return (ptrdiff_t)((uint64_t)(uintptr_t)p->base - card->base);
}

static void let_go(struct mapping *p)
{
    pthread_mutex_lock(&mappings_lock);
    bool last = --p->uses == 0;
    if (last) {
        struct mapping **at = &mappings;
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
        munmap(p->base, p->bytes);
    }
    pthread_mutex_unlock(&mappings_lock);
    if (last)
        peali_free(p);
}

/* Notes that the ranks cannot share memory, because of local rank RANK; they go on to meet, as others wait for them. */
static void fail(struct meeting *m, int rank, const char *what, const char *why)
{
    m->status = PEAL_ERR_UNSUPPORTED;
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, -1, "no memory shared between processes: local rank %d of %d, %s local rank %d: %s",
              m->me, m->n, what, rank, why);
}

static void done(struct meeting *m, int rank, unsigned char what)
{
    m->todo[rank] &= (unsigned char)~what;
    m->left--;
}

/* Takes the descriptor FD, or none (-1), from local rank RANK. */
static void take(struct meeting *m, int rank, int fd)
{
    const peali_host_card *card = &m->cards[rank];
    struct mapping *p;
    struct stat is;
    done(m, rank, TO_GET);
    if (fd < 0)
        fail(m, rank, "memory of", "no descriptor came with its message; see ulimit -n");
    else if (fstat(fd, &is) != 0 || (uint64_t)is.st_size != card->bytes || (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
        fail(m, rank, "memory of", "the descriptor is of another file");
    else if (!(p = hold(m->host, card, fd)))
        fail(m, rank, "memory of", strerror(errno));
    else
        m->shift[rank] = shift_to(p, card);
}

/* Sends this rank's card to RANK, with its pool's descriptor or without; 0, or errno. */
static int post(const struct meeting *m, int rank, bool with)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct sockaddr_un at;
    struct iovec data = {&m->host->card, sizeof m->host->card};
    struct msghdr message = {.msg_name = &at, .msg_namelen = name_of(m->cards[rank].socket, &at), .msg_iov = &data,
                             .msg_iovlen = 1, .msg_control = with ? &control : NULL, .msg_controllen = with ? sizeof control : 0};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &m->host->pool.fd, sizeof(int));
    return sendmsg(m->host->fd, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Its queue is full, or more descriptors of this user are under way than a process may have. */
static bool passes(int reason)
{
    return reason == EAGAIN || reason == ETOOMANYREFS || reason == ENOBUFS || reason == EINTR;
}

/* RANK's socket is not there, though it was not told yet: it sends nothing, either. Said once: the others of its host are alike. */
static void miss(struct meeting *m, int rank)
{
    if (m->status == PEAL_OK)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1,
                  "local rank %d of %d: local rank %d has no socket here, so they share no memory: its process ended, or is on "
                  "another host that counts as this one (PEAL_HOST_ID tells them apart)", m->me, m->n, rank);
    m->status = PEAL_ERR_UNSUPPORTED;
    if (m->todo[rank] & TO_GET)
        done(m, rank, TO_GET);
}

/*
 * True: RANK was told, or is not there. Where no descriptor may be sent, the message alone says that. Where that may not be sent
 * either (a sandbox keeps processes from each other), nothing comes from there as a rule.
 */
static bool tell(struct meeting *m, int rank)
{
    int reason = post(m, rank, true);
    if (reason == ECONNREFUSED)
        miss(m, rank);
    if (reason == 0 || reason == ECONNREFUSED)
        return true;
    int bare = passes(reason) ? reason : post(m, rank, false);
    if (passes(bare))
        return false;
    fail(m, rank, "message to", strerror(reason));
    if (bare != 0 && (m->todo[rank] & TO_GET))
        done(m, rank, TO_GET);
    return true;
}

/* What came in one message: the descriptor, -1 where there was none; and is its sender of this user? */
static bool read_control(struct msghdr *message, int *fd)
{
    bool known = false;
    *fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct ucred sender;
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(int))) {
            memcpy(fd, CMSG_DATA(c), sizeof(int));
            *fd = peali_above_streams(*fd);
        }
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof sender)) {
            memcpy(&sender, CMSG_DATA(c), sizeof sender);
            known = sender.uid == getuid();
        }
    }
    return known;
}

/* The rank that CARD is of, if a message of it is waited for; -1. */
static int sender_of(const struct meeting *m, const peali_host_card *card)
{
    for (int r = 0; r < m->n; r++)
        if ((m->todo[r] & TO_GET) && memcmp(&m->cards[r], card, sizeof *card) == 0)
            return r;
    return -1;
}

/* Reads one message; false where there is none. What was not expected is dropped. */
static bool receive(struct meeting *m)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred)) + CMSG_LEN(sizeof(int))]; /* no room for a second descriptor */
    } control;
    peali_host_card card;
    struct iovec data = {&card, sizeof card};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(struct ucred)) + CMSG_LEN(sizeof(int))};
    ssize_t got = recvmsg(m->host->fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EINTR;
    int fd, rank = -1;
    if (read_control(&message, &fd) && got == sizeof card && !(message.msg_flags & MSG_TRUNC))
        rank = sender_of(m, &card);
    if (rank >= 0)
        take(m, rank, fd);
    else
        peali_log(PEALI_LOG_DEBUG, PEALI_SUB_INIT, -1, "a message of %zd bytes that nobody waits for was dropped", got);
    if (fd >= 0)
        close(fd);
    return true;
}

/* Sends what can be sent now, each rank in an order of its own, and reads what has come. */
static void turn(struct meeting *m)
{
    for (int i = 1; i < m->n; i++) {
        int rank = (m->me + i) % m->n;
        if ((m->todo[rank] & TO_SEND) && tell(m, rank))
            done(m, rank, TO_SEND);
    }
    while (receive(m))
        continue;
}

static int64_t patience(void)
{
    int64_t set = peali_config_get()->timeout_ns;
    return set > 0 && set < PATIENCE_NS ? set : PATIENCE_NS;
}

/* The first rank that this one still waits for, by name. */
static peal_status late(const struct meeting *m)
{
    int rank = 0;
    while (!m->todo[rank])
        rank++;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "local rank %d of %d: local rank %d %s for %.1f s while they exchange shared "
              "memory; did its process end?", m->me, m->n, rank, m->todo[rank] & TO_GET ? "sent nothing" : "read nothing",
              (double)patience() / 1e9);
    return PEAL_ERR_TIMEOUT;
}

/* Nothing tells when another socket has room again; so whoever waits for that looks each millisecond. */
static peal_status exchange(struct meeting *m)
{
    int64_t looked_ns = peali_clock_ns(), waited_ns = 0;
    while (m->left > 0) {
        const int before = m->left;
        turn(m);
        waited_ns += peali_clock_step(&looked_ns, STEP_NS);
        if (m->left < before) {
            waited_ns = 0;
            continue;
        }
        if (waited_ns > patience())
            return late(m);
        struct pollfd come = {.fd = m->host->fd, .events = POLLIN};
        (void)poll(&come, 1, 1);
    }
    return m->status;
}

/* False where a rank has no pool, this one perhaps, or would not be believed: all see that. */
static bool all_have(struct meeting *m)
{
    static const peali_host_card nothing;
    for (int r = 0; r < m->n; r++) {
        bool none = memcmp(&m->cards[r], &nothing, sizeof nothing) == 0;
        if (!none && m->cards[r].user == m->cards[0].user)
            continue;
        fail(m, r, "none at", none ? "it said why" : "it is of another user");
        return false;
    }
    return true;
}

/* Says what is to be done; false: nothing. */
static bool plan(struct meeting *m)
{
    if (m->n > RANKS_MOST) {
        fail(m, RANKS_MOST, "no room for", "too many ranks on a host");
        return false;
    }
    if (!all_have(m))
        return false;
    for (int r = 0; r < m->n; r++) {
        m->shift[r] = 0;
        if (!same(m->cards[r].pool, m->host->card.pool)) {
            m->todo[r] = TO_SEND | TO_GET;
            m->left += 2;
        }
    }
    return true;
}

bool peali_host_knows(peali_host *host, const peali_host_card *cards, int n, ptrdiff_t *shift)
{
    bool known = host;
    for (int r = 0; r < n && known; r++) {
        const bool own = same(cards[r].pool, host->card.pool);
        const struct mapping *p = own ? NULL : hold(host, &cards[r], -1);
        known = own || p;
        shift[r] = p ? shift_to(p, &cards[r]) : 0;
    }
    return known;
}

peal_status peali_host_meet(peali_host *host, const peali_host_card *cards, int n, int me, ptrdiff_t *shift)
{
    struct meeting m = {.host = host, .cards = cards, .n = n, .me = me, .shift = shift};
    return plan(&m) ? exchange(&m) : PEAL_ERR_UNSUPPORTED;
}

void peali_host_hang_up(peali_host *host)
{
    close(host->fd);
    host->fd = -1;
}

void peali_host_close(peali_host **host)
{
    peali_host *h = *host;
    if (!h)
        return;
    if (h->fd >= 0)
        close(h->fd);
    for (int i = 0; i < h->nheld && h->process == getpid(); i++)
        let_go(h->held[i]);
    peali_free(h->held);
    peali_free(h);
    *host = NULL;
}
