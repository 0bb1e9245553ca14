/*
 * How well allreduce fills the links of a cluster (tests/cluster.sh). In turns: plain TCP of one host to the next, alone; of each host
 * to the next over every link at once; and Peal's allreduce of each size. What counts is bytes that a host must send, 2(N-1)/N of
 * the vector, by time; and that by what TCP reached in the same round on all links at once. Then what the stages of levels take alone: inside the hosts, and between them.
 *
 *     goodput ROUNDS MIB...
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <peal/mpi.h>

enum { LINKS = 2, SIZES = 8, ROUNDS = 64, PORT = 7700, STREAM = 32 << 20, PIECE = 256 << 10 };
enum { BEFORE = 8 }; /* calls that make plans and connections, and try ways (src/exec/trial.c) */

static int rank, size, host, nhosts, local, ranks_here, nlinks;
static peal_comm *world, *inside, *between;

/* One connection to the next host, and one from the one before. */
typedef struct stream {
    int out, in;
    pthread_t sender;
} stream;

static stream streams[LINKS];
static char *piece;

static void die(const char *what)
{
    fprintf(stderr, "goodput: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(peal_status status)
{
    if (status != PEAL_OK)
        die(peal_status_text(status));
}

/* Ranks that wait leave the cores to those that work. */
static void meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        usleep(200);
}

static double slowest(double mine)
{
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static struct sockaddr_in address_of(int link, int of)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    char text[32];
    snprintf(text, sizeof text, "%s.%d.%d", getenv("CLUSTER_DATA"), link, of + 1);
    inet_pton(AF_INET, text, &at.sin_addr);
    return at;
}

static void connect_link(int link)
{
    struct sockaddr_in here = address_of(link, host), next = address_of(link, (host + 1) % nhosts);
    int on = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    stream *s = &streams[link];
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (local == 0 && (bind(door, (struct sockaddr *)&here, sizeof here) != 0 || listen(door, 1) != 0))
        die("no socket");
    meet();
    if (local == 0) {
        s->out = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s->out, (struct sockaddr *)&next, sizeof next) != 0)
            die("no connection");
        s->in = accept(door, NULL, NULL);
    }
    close(door);
}

static void *send_all(void *arg)
{
    stream *s = arg;
    for (size_t done = 0; done < STREAM;) {
        ssize_t n = send(s->out, piece, PIECE, 0);
        if (n <= 0)
            die("send");
        done += (size_t)n;
    }
    return NULL;
}

static void *receive_all(void *arg)
{
    static _Thread_local char into[PIECE];
    stream *s = arg;
    for (size_t done = 0; done < STREAM;) {
        ssize_t n = recv(s->in, into, PIECE, 0);
        if (n <= 0)
            die("receive");
        done += (size_t)n;
    }
    return NULL;
}

/* Gbit/s of a host's links together, the slowest host's: of all hosts at once, or of host 0 to the next ALONE. */
static double plain_tcp(bool alone)
{
    pthread_t receivers[LINKS];
    bool sends = local == 0 && (!alone || host == 0), receives = local == 0 && (!alone || host == 1);
    meet();
    double start = MPI_Wtime();
    for (int l = 0; l < nlinks; l++) {
        if (sends)
            pthread_create(&streams[l].sender, NULL, send_all, &streams[l]);
        if (receives)
            pthread_create(&receivers[l], NULL, receive_all, &streams[l]);
    }
    for (int l = 0; l < nlinks; l++) {
        if (sends)
            pthread_join(streams[l].sender, NULL);
        if (receives)
            pthread_join(receivers[l], NULL);
    }
    double took = MPI_Wtime() - start;
    meet();
    return (double)STREAM * nlinks * 8e-9 / slowest(took);
}

/* Seconds of one allreduce of COUNT floats that were just written, and all results are looked at. */
static double timed_allreduce(float *in, float *out, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        in[i] = (float)(i % 1000) + (float)rank;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(peal_allreduce(in, out, count, PEAL_FLOAT, PEAL_SUM, world, NULL));
    double took = MPI_Wtime() - start;
    for (size_t i = 0; i < count; i++)
        wrong += out[i] != (float)(i % 1000) * (float)size + (float)(size * (size - 1) / 2);
    if (wrong)
        die("wrong results");
    return slowest(took);
}

static double timed_inside(float *in, float *out, size_t count)
{
    size_t share = count / (size_t)ranks_here;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(peal_reduce_scatter(in, out, share, PEAL_FLOAT, PEAL_SUM, inside, NULL));
    check(peal_allgather(out, in, share, PEAL_FLOAT, inside, NULL));
    return slowest(MPI_Wtime() - start);
}

static double timed_between(float *in, float *out, size_t count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(peal_allreduce(in, out, count / (size_t)ranks_here, PEAL_FLOAT, PEAL_SUM, between, NULL));
    return slowest(MPI_Wtime() - start);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void run_size(float *in, float *out, size_t mib, int rounds)
{
    static double tcp[ROUNDS], alone[ROUNDS], ratio[ROUNDS], whole[ROUNDS], inner[ROUNDS], outer[ROUNDS];
    size_t count = (mib << 20) / sizeof(float);
    for (int i = 0; i < BEFORE; i++)
        (void)timed_allreduce(in, out, count);
    for (int i = 0; i < rounds; i++) {
        alone[i] = plain_tcp(true);
        tcp[i] = plain_tcp(false);
        whole[i] = timed_allreduce(in, out, count);
        ratio[i] = 2.0 * (nhosts - 1) / nhosts * (double)(mib << 20) * 8e-9 / whole[i] / tcp[i];
        inner[i] = timed_inside(in, out, count);
        outer[i] = timed_between(in, out, count);
    }
    if (rank > 0)
        return;
    double t = median(tcp, rounds), a = median(alone, rounds), w = median(whole, rounds), r = median(ratio, rounds);
    double in_ms = median(inner, rounds) * 1e3, out_ms = median(outer, rounds) * 1e3;
    double longer = in_ms > out_ms ? in_ms : out_ms;
    printf("goodput hosts %d ranks %d links %d mib %zu algo %s tcp_gbits %.3f alone_gbits %.3f allreduce_ms %.2f of_tcp %.3f "
           "inside_ms %.2f between_ms %.2f of_longer %.3f of_sum %.3f\n", nhosts, size, nlinks, mib,
           peal_comm_choice(world, PEAL_ALLREDUCE, count, PEAL_FLOAT, PEAL_SUM), t, a, w * 1e3, r, in_ms, out_ms, w * 1e3 / longer,
           w * 1e3 / (in_ms + out_ms));
    fflush(stdout);
}

static peal_comm *comm_of(int color)
{
    MPI_Comm some;
    peal_comm *comm = NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, rank, &some);
    check(peal_comm_create_mpi(some, &comm));
    MPI_Comm_free(&some);
    return comm;
}

static void find_place(void)
{
    MPI_Comm node;
    int one = 0, all;
    host = getenv("CLUSTER_HOST") ? atoi(getenv("CLUSTER_HOST")) : 0;
    MPI_Allreduce(&host, &nhosts, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    nhosts++;
    MPI_Comm_split(MPI_COMM_WORLD, host, rank, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_size(node, &ranks_here);
    MPI_Comm_free(&node);
    one = ranks_here * nhosts == size;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (nhosts < 2 || !all)
        die("wants hosts of cluster.sh, two or more with as many ranks each");
    nlinks = access("/sys/class/net/eth1", F_OK) == 0 ? 2 : 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 2 ? atoi(argv[1]) : 0;
    size_t most = 0;
    for (int i = 2; i < argc; i++)
        most = (size_t)atoi(argv[i]) > most ? (size_t)atoi(argv[i]) : most;
    if (rounds < 1 || rounds > ROUNDS || most == 0)
        die("usage: goodput ROUNDS MIB...");
    find_place();
    float *in = calloc(most, 1 << 20), *out = calloc(most, 1 << 20);
    piece = calloc(1, PIECE);
    if (!in || !out || !piece)
        die("no memory");
    for (int l = 0; l < nlinks; l++)
        connect_link(l);
    world = comm_of(0);
    inside = comm_of(host);
    between = comm_of(local);
    for (int i = 2; i < argc; i++)
        run_size(in, out, (size_t)atoi(argv[i]), rounds);
    peal_comm_destroy(&world);
    peal_comm_destroy(&inside);
    peal_comm_destroy(&between);
    MPI_Finalize();
    return 0;
}
