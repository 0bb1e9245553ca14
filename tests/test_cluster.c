/*
 * Collectives across the hosts of cluster.sh, over the transport that PEAL_NET names. With "right": allreduce of all sizes, by all
 * algorithms; and what levels send to other hosts is the least that they can, and the links carry no more than that but for 3 %.
 * With "cut" and a number: so many times a link is cut in the middle of a call, every rank is told in time which one it waits for,
 * and once the link is mended the next communicator works. With "broken": where UCX's connections are gone between two calls, the
 * second makes new ones; MPI's are known by ports that the environment gives it. With "mixed": where UCX's devices of one host do
 * not lead to another, who asked for UCX is told so when a communicator is made, and who did not has MPI. With
 * "fewer", and two links: where a host lacks its first device, what is left meets the other hosts' of that name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mpi.h>

#include <peal/mpi.h>

#include "base/clock.h"
#include "base/config.h"
#include "comm/comm_private.h"
#include "exec/signature.h"
#include "world.h"

enum { HOSTS = 64, LARGE = 4 << 20 /* floats */ };

static int rank, size, host, nhosts, runs = 1;
static int *host_of; /* of each rank */
static double longest; /* seconds from a cut until this rank was told */

static void find_hosts(void)
{
    const char *text = getenv("CLUSTER_HOST");
    if (!text) {
        fprintf(stderr, "test_cluster: start it by cluster.sh\n");
        exit(2);
    }
    host = atoi(text);
    host_of = calloc((size_t)size, sizeof *host_of);
    assert_non_null(host_of);
    MPI_Allgather(&host, 1, MPI_INT, host_of, 1, MPI_INT, MPI_COMM_WORLD);
    nhosts = host_of[size - 1] + 1;
    assert_true(nhosts >= 2 && nhosts <= HOSTS);
}

static peal_comm *comm_make(void)
{
    peal_comm *comm = NULL;
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &comm), PEAL_OK);
    return comm;
}

static void hosts_are_nodes(void **state)
{
    (void)state;
    peal_comm *comm = comm_make();
    int near = 0;
    assert_int_equal(peal_comm_nodes(comm), nhosts);
    for (int r = 0; r < size; r++) {
        assert_int_equal(comm->node[r], host_of[r]);
        near += host_of[r] == host;
    }
    assert_int_equal(comm->reach.nranks, near);
    for (int x = 0; x < near; x++)
        assert_int_equal(host_of[comm->near[x]], host);
    peal_comm_destroy(&comm);
}

static int32_t value(size_t i, int of)
{
    return (int32_t)(i * 7 + (size_t)of * 1000003 + 1);
}

/* Sums COUNT numbers of each rank, in place or not, and looks at all of them. */
static void sum(peal_comm *comm, size_t count, bool inplace, const char *what)
{
    int32_t *in = malloc((count + 1) * sizeof *in), *out = malloc((count + 1) * sizeof *out);
    size_t wrong = 0;
    assert_true(in && out);
    for (size_t i = 0; i < count; i++)
        (inplace ? out : in)[i] = value(i, rank);
    peal_status status = peal_allreduce(inplace ? out : in, out, count, PEAL_INT32, PEAL_SUM, comm, NULL);
    for (size_t i = 0; i < count && status == PEAL_OK; i++) {
        uint32_t all = (uint32_t)size * (uint32_t)(i * 7 + 1) + 1000003u * (uint32_t)(size * (size - 1) / 2);
        wrong += (uint32_t)out[i] != all;
    }
    free(in);
    free(out);
    if (status != PEAL_OK || wrong)
        fail_msg("%s of %zu: %s, %zu wrong", what, count, peal_status_text(status), wrong);
}

static void all_sizes(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 5, 15, 16, 17, 100, 255, 256, 257, 1000, 4097, 10007, 65537, 262147, 1 << 20};
    peal_comm *comm = comm_make();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int inplace = 0; inplace < 2; inplace++)
            sum(comm, counts[i], inplace, "what Peal chooses");
    peal_comm_destroy(&comm);
}

static void all_algorithms(void **state)
{
    (void)state;
    peal_comm *comm = comm_make();
    const peal_problem problem = peali_comm_problem(comm, PEAL_ALLREDUCE, PEAL_SUM, 0);
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        if ((*a)->kind != PEAL_ALLREDUCE || !peali_algo_fits(*a, &problem))
            continue;
        assert_int_equal(peal_comm_force(comm, PEAL_ALLREDUCE, (*a)->name), PEAL_OK);
        for (size_t slice = 0; slice <= 4096; slice += 4096) {
            peal_comm_force_slice(comm, slice);
            sum(comm, 37, false, (*a)->name);
            sum(comm, 20011, true, (*a)->name);
        }
    }
    peal_comm_destroy(&comm);
}

/* What the transport was asked to send to other hosts; a lead's signature is no payload. */
static peal_status (*really_send)(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req);
static double sent;

static peal_status counted_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    if (host_of[peer] != host)
        sent += (double)(bytes - (tag >> 16 == PEAL_LANES ? sizeof(peali_signature) : 0));
    return really_send(net, peer, tag, data, bytes, req);
}

/* Bytes that the links of this host have carried, both ways together, for its first rank; else 0. */
static double carried(void)
{
    double all = 0;
    for (int link = 0; link < 2 && (rank == 0 || host_of[rank - 1] != host); link++)
        for (int way = 0; way < 2; way++) {
            char path[96];
            long long bytes = 0;
            snprintf(path, sizeof path, "/sys/class/net/eth%d/statistics/%s_bytes", link, way ? "rx" : "tx");
            FILE *f = fopen(path, "r");
            if (f && fscanf(f, "%lld", &bytes) != 1)
                bytes = 0;
            if (f)
                fclose(f);
            all += (double)bytes;
        }
    return all;
}

static double total(double mine)
{
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void count_bytes(peal_comm *comm, const char *algo)
{
    const peal_problem problem = peali_comm_problem(comm, PEAL_ALLREDUCE, PEAL_SUM, 0);
    if (!peali_algo_fits(peali_algo_find(PEAL_ALLREDUCE, algo), &problem))
        return;
    assert_int_equal(peal_comm_force(comm, PEAL_ALLREDUCE, algo), PEAL_OK);
    sum(comm, LARGE / 4, true, algo); /* connections are made */
    sent = 0;
    double before = total(carried());
    sum(comm, LARGE, true, algo);
    double payload = total(sent), on_links = total(carried()) - before;
    double least = 2.0 * (nhosts - 1) * LARGE * sizeof(int32_t); /* each host but one gives its sum, and gets all */
    if (rank == 0)
        printf("# %s: payload %.0f bytes, closed form %.0f, links carried %.4f times that each way\n", algo, payload, least,
               on_links / 2 / least);
    assert_true(payload == least);
    assert_true(on_links / 2 >= least && on_links / 2 <= 1.03 * least);
}

static void least_bytes(void **state)
{
    (void)state;
    peal_comm *comm = comm_make();
    really_send = comm->net->send;
    comm->net->send = counted_send;
    peal_comm_force_slice(comm, 512 << 10);
    count_bytes(comm, "hierarchical");
    count_bytes(comm, "hierarchical_tree");
    count_bytes(comm, "hierarchical_grid");
    peal_comm_destroy(&comm);
}

/* A child cuts the far end of this host's cable while its parent is in a call, and says when. */
static pid_t cut_soon(int64_t *when_ns)
{
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        int wrong = system("ip -n $CLUSTER_SWITCH link set h${CLUSTER_HOST}l0 down");
        *when_ns = peali_clock_ns();
        _exit(wrong != 0);
    }
    return child;
}

static void mend_link(void)
{
    assert_int_equal(system("ip -n $CLUSTER_SWITCH link set h${CLUSTER_HOST}l0 up"), 0);
}

/* Does the log of this rank, from AT on, name the error, this host and another? */
static bool told(const char *path, long at)
{
    char line[4096], mine[96], here[72] = "";
    bool found = false;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    gethostname(here, sizeof here - 1);
    assert_non_null(strrchr(here, '-'));
    *strrchr(here, '-') = '\0';
    snprintf(mine, sizeof mine, "host %s-%d", here, host);
    while (fgets(line, sizeof line, f))
        for (int h = 0; h < nhosts && strstr(line, "waits since") && strstr(line, mine); h++) {
            char other[96];
            snprintf(other, sizeof other, "host %s-%d", here, h);
            found |= h != host && strstr(line, other);
        }
    fclose(f);
    return found;
}

static long end_of(const char *path)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long at = ftell(f);
    fclose(f);
    return at;
}

static peal_status call_until_failure(peal_comm *comm, float *data)
{
    peal_status status = PEAL_OK;
    while (status == PEAL_OK)
        status = peal_allreduce(data, data, LARGE, PEAL_FLOAT, PEAL_MAX, comm, NULL);
    return status;
}

/*
 * A barrier that leaves the cores alone, with a word from each rank to each: a connection that has lost packets tries again after
 * a while that gets longer and longer, and one that works says nothing of the others.
 */
static void wait_for_all(void)
{
    MPI_Request request;
    int done = 0;
    char *mine = calloc(2, (size_t)size);
    assert_non_null(mine);
    MPI_Ialltoall(mine, 1, MPI_CHAR, mine + size, 1, MPI_CHAR, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        usleep(1000);
    free(mine);
}

/* How long in all this rank's core was somebody else's: by as much a thread that only sleeps wakes too late. */
typedef struct stalls {
    pthread_t thread;
    int over; /* relaxed: a flag that says stop, and orders nothing */
    double all_s;
} stalls;

static void *count_stalls(void *arg)
{
    stalls *s = arg;
    while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED)) {
        int64_t began_ns = peali_clock_ns();
        usleep(2000);
        s->all_s += (double)(peali_clock_ns() - began_ns - 2000000) / 1e9;
    }
    return NULL;
}

static peal_status call_and_count(peal_comm *comm, float *data, double *stalled_s)
{
    stalls s = {.over = 0};
    assert_int_equal(pthread_create(&s.thread, NULL, count_stalls, &s), 0);
    peal_status status = call_until_failure(comm, data);
    __atomic_store_n(&s.over, 1, __ATOMIC_RELAXED);
    pthread_join(s.thread, NULL);
    *stalled_s = s.all_s;
    return status;
}

static void cut_and_mend(const char *path)
{
    double stalled_s;
    peal_comm *comm = comm_make();
    float *data = calloc(LARGE, sizeof *data);
    int64_t *cut_ns = mmap(NULL, sizeof *cut_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long at = end_of(path);
    assert_true(data && cut_ns != MAP_FAILED);
    sum(comm, LARGE, true, "before the cut");
    pid_t child = rank == size - 1 ? cut_soon(cut_ns) : 0;
    assert_int_equal(call_and_count(comm, data, &stalled_s), PEAL_ERR_TIMEOUT);
    int64_t told_ns = peali_clock_ns();
    if (!told(path, at))
        fail_msg("rank %d: the log %s does not say which hosts", rank, path);
    if (child) {
        int how;
        assert_true(waitpid(child, &how, 0) == child && how == 0);
        usleep(1500000); /* all others have come so far */
        mend_link();
    }
    wait_for_all();
    MPI_Bcast(cut_ns, 1, MPI_INT64_T, size - 1, MPI_COMM_WORLD);
    double took = (double)(told_ns - *cut_ns) / 1e9, deadline = (double)peali_config_get()->timeout_ns / 1e9;
    if (took > deadline + (runs > 1 ? 1 : 4) + stalled_s) /* once, among other tests, on cores that others may use */
        fail_msg("rank %d was told %.2f s after the cut, deadline %.2f, its core away for %.2f", rank, took, deadline, stalled_s);
    if (took > longest)
        longest = took;
    peal_comm_destroy(&comm);
    wait_for_all(); /* what is left of a cut call may take one of them a while */
    munmap(cut_ns, sizeof *cut_ns);
    free(data);
}

static void cut_link(void **state)
{
    (void)state;
    double worst;
    char path[256], number[16];
    snprintf(path, sizeof path, "%s", getenv("PEAL_LOG_FILE"));
    snprintf(number, sizeof number, "%d", rank);
    if (strstr(path, "%r"))
        strcpy(strstr(path, "%r"), number);
    longest = 0;
    for (int i = 0; i < runs; i++) {
        cut_and_mend(path);
        if (rank == 0 && runs > 1)
            printf("# cut %d of %d\n", i + 1, runs);
    }
    MPI_Reduce(&longest, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("# %d cuts, ranks told after %.2f s at the latest\n", runs, worst);
    peal_comm *comm = comm_make();
    sum(comm, LARGE, true, "after the last cut");
    peal_comm_destroy(&comm);
}

/* What ss does or says, given OPTIONS, of this host's connections that are not MPI's: lines, or -1. */
static int connections(const char *options)
{
    char command[160], line[512];
    int lines = 0;
    snprintf(command, sizeof command, "ss -Htn %s state established dst $CLUSTER_DATA.0.0/24 'sport > :30000 and dport > :30000'",
             options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        lines++;
    return pclose(f) == 0 ? lines : -1;
}

static void connections_break(void **state)
{
    (void)state;
    bool first = rank == 0 || host_of[rank - 1] != host;
    peal_comm *comm = comm_make();
    int left = 0;
    sum(comm, LARGE, true, "before connections broke");
    if (first)
        assert_true(connections("") > 0);
    wait_for_all();
    usleep(300000); /* beyond what a connection is taken to last without a look */
    if (first) {
        (void)connections("-K");
        left = connections("");
    }
    MPI_Allreduce(MPI_IN_PLACE, &left, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (left == 0)
        for (int i = 0; i < 3; i++)
            sum(comm, LARGE, true, "after connections broke");
    else if (rank == 0)
        printf("# skipped: ss -K of this kernel breaks no connections\n");
    peal_comm_destroy(&comm);
}

static void no_way_by_ucx(void **state)
{
    (void)state;
    peal_comm *comm;
    for (int k = 0; k < 2; k++) {
        comm = comm_make();
        assert_string_equal(comm->net->name, "mpi");
        sum(comm, LARGE, true, "between hosts of other devices");
        peal_comm_destroy(&comm);
    }
    assert_int_equal(world_comm(&(peali_layout){.net = "ucx"}, size, rank, &comm), PEAL_ERR_CONFIG);
}

static void rails_by_name(void **state)
{
    (void)state;
    peal_comm *comm = comm_make();
    assert_string_equal(comm->net->name, "ucx");
    assert_int_equal(comm->net->rails, 1);
    sum(comm, LARGE, true, "over the devices that all hosts have");
    peal_comm_destroy(&comm);
}

/* What a host of it has is known when MPI starts. */
static void lack_devices(bool first)
{
    setenv("OMPI_MCA_btl_tcp_if_include", "boot", 1);
    if (strcmp(getenv("CLUSTER_HOST"), "0") != 0)
        setenv("UCX_NET_DEVICES", first ? "eth1" : "lo", 1);
    if (first && strcmp(getenv("CLUSTER_HOST"), "0") != 0 && system("ip link set eth0 down") != 0)
        exit(2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest right[] = {cmocka_unit_test(hosts_are_nodes), cmocka_unit_test(all_sizes),
                                       cmocka_unit_test(all_algorithms), cmocka_unit_test(least_bytes)};
    const struct CMUnitTest cut[] = {cmocka_unit_test(cut_link)};
    const struct CMUnitTest broken[] = {cmocka_unit_test(connections_break)};
    const struct CMUnitTest mixed[] = {cmocka_unit_test(no_way_by_ucx)};
    const struct CMUnitTest fewer[] = {cmocka_unit_test(rails_by_name)};
    bool mixes = argc > 1 && strcmp(argv[1], "mixed") == 0, lacks = argc > 1 && strcmp(argv[1], "fewer") == 0;
    bool cuts = argc > 1 && strcmp(argv[1], "cut") == 0, breaks = argc > 1 && strcmp(argv[1], "broken") == 0;
    if (mixes || lacks)
        lack_devices(lacks);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    find_hosts();
    runs = argc > 2 ? atoi(argv[2]) : 1;
    int failed = cuts     ? cmocka_run_group_tests(cut, NULL, NULL)
                 : breaks ? cmocka_run_group_tests(broken, NULL, NULL)
                 : mixes  ? cmocka_run_group_tests(mixed, NULL, NULL)
                 : lacks  ? cmocka_run_group_tests(fewer, NULL, NULL)
                          : cmocka_run_group_tests(right, NULL, NULL);
    free(host_of);
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
