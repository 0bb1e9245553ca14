/*
 * One rank of one candidate. The driver (peers.py) has all candidates started at once, each asleep until it is told what to run: so
 * they take turns within seconds of each other on the same cores.
 *
 *     race SOCKET PAGE shared|ordinary
 *
 * Each call is timed on data that its owner has just written, from a time at which all ranks start together to the end of the
 * slowest; then its result is verified, all of it.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "data.h"
#include "meet.h"
#include "stream.h"

static const char *const kind_names[KINDS] = {
    [ALLREDUCE] = "allreduce", [ALLGATHER] = "allgather", [REDUCE_SCATTER] = "reduce_scatter", [BROADCAST] = "broadcast",
    [REDUCE] = "reduce", [BARRIER] = "barrier", [MEMORY] = "memory",
};

static int rank, nranks, driver;
static bool shared;
static meet *here;
static long ncalls; /* so far: no two calls in a row have the same data, or the same set of buffers */

/* The buffers: SETS times STRIDE bytes each. They are kept while calls of one size follow each other. */
static struct {
    char *in, *out;
    size_t stride;
    int sets;
} held;

static void die(const char *what)
{
    fprintf(stderr, "race: rank %d: %s\n", rank, what);
    _exit(1);
}

static char *take(size_t bytes)
{
    char *memory = shared ? calls_share(bytes) : malloc(bytes);
    if (!memory)
        die("no memory");
    return memset(memory, 0, bytes); /* by its owner, so that it lies near */
}

static void let_go(char **memory)
{
    if (shared && *memory)
        calls_unshare(*memory);
    else
        free(*memory);
    *memory = NULL;
}

static void hold(const job *j)
{
    size_t stride = (j->bytes + 63) / 64 * 64 + 64;
    if (held.out && held.stride == stride && held.sets == j->sets && !held.in == j->inplace)
        return;
    let_go(&held.in);
    let_go(&held.out);
    held.stride = stride;
    held.sets = j->sets;
    held.in = j->inplace ? NULL : take(stride * (size_t)j->sets);
    held.out = take(stride * (size_t)j->sets);
}

/* The elements that this rank gives. */
static size_t given(const job *j)
{
    switch (j->kind) {
    case REDUCE_SCATTER: return j->count * (size_t)nranks;
    case BROADCAST: return rank == 0 ? j->count : 0;
    case BARRIER: case MEMORY: return 0;
    default: return j->count;
    }
}

static long check(const job *j, const data *d, const char *out)
{
    long wrong = 0;
    switch (j->kind) {
    case ALLREDUCE: return data_wrong(d, -1, ncalls, 0, out, j->count);
    case REDUCE_SCATTER: return data_wrong(d, -1, ncalls, (size_t)rank * j->count, out, j->count);
    case BROADCAST: return data_wrong(d, 0, ncalls, 0, out, j->count);
    case REDUCE: return rank == 0 ? data_wrong(d, -1, ncalls, 0, out, j->count) : 0;
    case ALLGATHER:
        for (int r = 0; r < nranks; r++)
            wrong += data_wrong(d, r, ncalls, 0, out + (size_t)r * j->count * d->elem, j->count);
        return wrong;
    default: return 0;
    }
}

/* A barrier is verified by a rank that comes late: nobody leaves before. */
enum { LATE_US = 200 };

static void come_late(const job *j, int call, int64_t start)
{
    if (j->kind == BARRIER && call == 0 && rank == nranks - 1)
        while (peali_clock_ns() < start + LATE_US * 1000)
            ;
}

/* The turn's time is over, unless it had too few calls. */
enum { LEAST_CALLS = 3 };

static bool enough(const job *j, int call, int64_t since)
{
    return rank == 0 && call >= LEAST_CALLS && peali_clock_ns() > since + j->us * 1000;
}

static bool once(const job *j, const data *d, int call, int64_t since)
{
    size_t at = held.stride * (size_t)(++ncalls % held.sets);
    char *in = held.in ? held.in + at : NULL, *out = held.out + at;
    data_give(d, rank, ncalls, in ? in : out, given(j));
    int64_t start = meet_start(here, enough(j, call, since));
    if (start == 0)
        return false;
    come_late(j, call, start);
    bool ok = j->kind == MEMORY ? stream(in, out, j->bytes) : calls_do(j, in, out);
    double us = (double)(peali_clock_ns() - start) / 1e3;
    bool early = j->kind == BARRIER && call == 0 && us < LATE_US;
    meet_note(here, call, us, !ok + early + check(j, d, out));
    return true;
}

/* Rank 0 tells the driver: wrong elements, the algorithm, and each call's time. */
static void tell(const job *j, int calls)
{
    static char text[64 + 16 * MEET_CALLS];
    static long told;
    long wrong = meet_wrong(here);
    size_t n = (size_t)snprintf(text, sizeof text, "%ld %s", wrong - told, calls_choice(j));
    told = wrong;
    for (int c = 0; c < calls; c++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %.3f", meet_slowest(here, c));
    if (send(driver, text, n, 0) < 0)
        die("the driver has gone");
}

static void run(const job *j)
{
    static data tables[2];
    data *d = &tables[j->max];
    if (d->elem == 0)
        data_make(d, nranks, j->max);
    hold(j);
    int calls = 0;
    int64_t since = peali_clock_ns();
    while (calls < j->calls && once(j, d, calls, since))
        calls++;
    meet_start(here, false);
    if (rank == 0)
        tell(j, calls);
    meet_start(here, false);
}

/* "allreduce MAX INPLACE ALGO BYTES CALLS MICROSECONDS SETS"; an empty message ends it. */
static bool hear(job *j)
{
    char text[256], name[32];
    int max, inplace;
    ssize_t n = recv(driver, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    *j = (job){.kind = KINDS};
    if (sscanf(text, "%31s %d %d %d %zu %d %ld %d", name, &max, &inplace, &j->algo, &j->bytes, &j->calls, &j->us, &j->sets) != 8)
        return false;
    for (int k = 0; k < KINDS; k++)
        if (strcmp(name, kind_names[k]) == 0)
            j->kind = (enum kind)k;
    if (j->kind == KINDS || j->calls > MEET_CALLS)
        die("a command that is not understood");
    j->max = max;
    j->inplace = inplace;
    j->count = j->bytes / (max ? sizeof(double) : sizeof(float));
    if (j->kind == ALLGATHER || j->kind == REDUCE_SCATTER)
        j->count /= (size_t)nranks;
    return true;
}

static void dial(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    driver = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (driver < 0 || connect(driver, (struct sockaddr *)&to, sizeof to) != 0)
        die("the driver does not answer");
}

/* "RANK NRANKS PID CORES FIRST-CORE ALGOS... LIBRARY": the algorithms of each collective that can be asked for. */
static void introduce(void)
{
    char text[1024];
    cpu_set_t cores;
    int first = 0;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        die("no affinity");
    while (first < CPU_SETSIZE && !CPU_ISSET(first, &cores))
        first++;
    int n = snprintf(text, sizeof text, "%d %d %ld %d %d", rank, nranks, (long)getpid(), CPU_COUNT(&cores), first);
    for (int k = 0; k < MEMORY; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %d", calls_algos((enum kind)k));
    n += snprintf(text + n, sizeof text - (size_t)n, " %s", calls_library());
    if (send(driver, text, strlen(text), 0) < 0)
        die("the driver has gone");
}

int main(int argc, char **argv)
{
    job j;
    calls_start(&argc, &argv, &rank, &nranks);
    if (argc != 4)
        die("race SOCKET PAGE shared|ordinary");
    shared = strcmp(argv[3], "shared") == 0;
    here = meet_open(argv[2], rank, nranks);
    if (!here)
        die("no page to meet in");
    dial(argv[1]);
    introduce();
    while (hear(&j))
        run(&j);
    let_go(&held.in);
    let_go(&held.out);
    calls_end();
    return 0;
}
