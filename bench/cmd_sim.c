/* peal sim: what the model and the simulator say that algorithms take on a machine of the given figures. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "flags.h"
#include "report.h"
#include "sched/tuning.h"
#include "study/sim.h"

/* A run of more messages takes minutes. Most entrants of a size: as many as a collective has algorithms, and some. */
enum { MOST_RANKS = 4096, MOST_MESSAGES = 2000000, MOST_ENTRANTS = 64 };
enum { F_ALGO = 256, F_NODE, F_NEAR, F_FAR, F_REDUCE };

typedef struct request {
    peal_problem problem;
    int node[MOST_RANKS];
    int per_node;
    size_t min_bytes, max_bytes;
    double factor;
    const char *algo;
    peali_cost_params params;
} request;

typedef struct entrant {
    const peal_algo *algo;
    peali_slicing best;
    double ns;   /* simulated; below 0: not */
    bool failed; /* its simulation did: it does not come to an end, or memory ran out */
} entrant;

static void usage(FILE *to)
{
    fputs("usage: peal sim COLLECTIVE -n RANKS [flags]\n"
          "  -n RANKS             number of ranks, 1 to 4096\n"
          "  -b SIZE, -e SIZE     first and last size, in bytes or with K, M, G (16, 64M)\n"
          "  -f X                 each size is X times the one before (4)\n"
          "  --algo NAMES|all     algorithms, between commas (all)\n"
          "  --per-node RANKS     ranks of a node (all ranks are on one)\n"
          "  --near US,GB/s       latency and bandwidth between ranks of a node (1,10)\n"
          "  --far US,GB/s        and between nodes (2,10)\n"
          "  --reduce GB/s        speed of sums (20)\n"
          "  -h, --help           this text\n", to);
}

static int misuse(const char *what, const char *text)
{
    fprintf(stderr, "peal sim: %s '%s'\n", what, text);
    usage(stderr);
    return 2;
}

static bool number(const char *text, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    return *text && !*end && value >= 1 && value <= MOST_RANKS;
}

static const double MOST_NS = 1e18; /* beyond it sums are no numbers */

/* Latency takes the port (study/cost.h). */
static bool set_link(peali_link_cost *link, const char *text)
{
    double us, gbs;
    char more;
    if (sscanf(text, "%lf,%lf%c", &us, &gbs, &more) != 2 || !(us >= 0) || !(gbs > 0))
        return false;
    *link = (peali_link_cost){.send_ns = us * 1e3, .byte_ns = 1 / gbs};
    return us * 1e3 <= MOST_NS && link->byte_ns <= MOST_NS;
}

static bool set_reduce(request *q, const char *text)
{
    double gbs = peali_flags_real(text);
    q->params.reduce_byte_ns = gbs > 0 ? 1 / gbs : 0;
    return gbs > 0 && q->params.reduce_byte_ns <= MOST_NS;
}

static bool set(request *q, int code, const char *text)
{
    switch (code) {
    case 'n': return number(text, &q->problem.nranks);
    case 'b': return (q->min_bytes = peali_flags_size(text)) > 0;
    case 'e': return (q->max_bytes = peali_flags_size(text)) > 0;
    case 'f': return (q->factor = peali_flags_real(text)) >= PEALI_FLAGS_FACTOR;
    case F_ALGO: q->algo = text; return true;
    case F_NODE: return number(text, &q->per_node);
    case F_NEAR: return set_link(&q->params.link[PEALI_NEAR], text);
    case F_FAR: return set_link(&q->params.link[PEALI_FAR], text);
    default: return set_reduce(q, text);
    }
}

/* -1, or the exit code where that was all. */
static int parse(request *q, int argc, char **argv)
{
    static const struct option longs[] = {
        {"algo", required_argument, NULL, F_ALGO}, {"per-node", required_argument, NULL, F_NODE},
        {"near", required_argument, NULL, F_NEAR}, {"far", required_argument, NULL, F_FAR},
        {"reduce", required_argument, NULL, F_REDUCE}, {"help", no_argument, NULL, 'h'}, {0}};
    char word[PEALI_FLAGS_WORD];
    int code;
    opterr = 0;
    optind = 1;
    while ((code = getopt_long(argc, argv, ":n:b:e:f:h", longs, NULL)) != -1) {
        if (code == 'h') {
            usage(stdout);
            return 0;
        }
        if (code == '?' || code == ':')
            return misuse(code == ':' ? "a value is missing after" : "unknown flag", peali_flags_stop(argv, word));
        if (!set(q, code, optarg))
            return misuse(peali_flags_wrong(argv, word), optarg);
    }
    if (optind + 1 != argc)
        return misuse("one collective is wanted, not", argc > optind ? argv[optind + 1] : "");
    if (q->problem.nranks == 0)
        return misuse("-n is missing after", argv[optind]);
    return -1;
}

static void set_nodes(request *q)
{
    int per_node = q->per_node ? q->per_node : q->problem.nranks;
    for (int r = 0; r < q->problem.nranks; r++)
        q->node[r] = r / per_node;
    q->problem.node = q->node;
    q->problem.nnodes = q->node[q->problem.nranks - 1] + 1;
}

static int enter(const request *q, entrant *entrants)
{
    int n = 0;
    for (int i = 0; peali_algos[i] && n < MOST_ENTRANTS; i++)
        if (peali_algo_fits(peali_algos[i], &q->problem) && peali_flags_listed(peali_algos[i]->name, q->algo))
            entrants[n++].algo = peali_algos[i];
    return n;
}

static void predict(const request *q, entrant *e, size_t bytes)
{
    peal_bill bill = e->algo->bill(&q->problem);
    e->best = peali_cost_best_slices(e->algo, &q->problem, bytes, &q->params);
    e->ns = -1;
    e->failed = false;
    if ((double)bill.sent * q->problem.nranks * e->best.slices > MOST_MESSAGES)
        return;
    peali_sim_case what = {e->algo, &q->problem, bytes, e->best.slices, e->best.window, false};
    e->failed = peali_sim(&what, &q->params, &e->ns, NULL) != PEAL_OK; /* logged */
}

static double time_of(const entrant *e)
{
    return e->failed ? INFINITY : e->ns < 0 ? e->best.ns : e->ns;
}

/* True where all came to their end. */
static bool print_size(const request *q, entrant *entrants, int n, size_t bytes)
{
    bool all = true;
    const entrant *winner = entrants;
    char size[24], simulated[32];
    for (int i = 0; i < n; i++) {
        predict(q, &entrants[i], bytes);
        winner = time_of(&entrants[i]) < time_of(winner) ? &entrants[i] : winner;
    }
    for (int i = 0; i < n; i++) {
        const entrant *e = &entrants[i];
        snprintf(simulated, sizeof simulated, e->failed ? "fails" : e->ns < 0 ? "too many" : "%.2f", e->ns / 1e3);
        all &= !e->failed;
        printf(" %11s %-21s %6d %6d %14.2f %14s%s\n", peali_bytes_text(bytes, size), e->algo->name, e->best.slices, e->best.window,
               e->best.ns / 1e3, simulated, e == winner && !e->failed ? "  <- winner" : "");
    }
    return all;
}

static int predict_all(const request *q)
{
    entrant entrants[MOST_ENTRANTS];
    int n = enter(q, entrants);
    if (n == 0)
        return misuse("none fits these ranks and nodes:", q->algo);
    const peali_link_cost *l = q->params.link;
    printf("# %s, %d ranks on %d nodes; near %g us %g GB/s, far %g us %g GB/s, sums %g GB/s\n", peal_kind_name(q->problem.kind),
           q->problem.nranks, q->problem.nnodes, l[PEALI_NEAR].send_ns / 1e3, 1 / l[PEALI_NEAR].byte_ns, l[PEALI_FAR].send_ns / 1e3,
           1 / l[PEALI_FAR].byte_ns, 1 / q->params.reduce_byte_ns);
    printf("# K slices, W of them in flight: best by the closed form. The winner is that of the simulation where there is one.\n");
    printf("#%11s %-21s %6s %6s %14s %14s\n", "size", "variant", "K", "W", "closed(us)", "simulated(us)");
    size_t last = 0;
    bool all = true;
    for (double bytes = (double)q->min_bytes; bytes <= (double)q->max_bytes; bytes *= q->factor) {
        if ((size_t)bytes > last)
            all &= print_size(q, entrants, n, (size_t)bytes);
        last = (size_t)bytes;
    }
    return all ? 0 : 1;
}

int peali_cmd_sim(int argc, char **argv)
{
    char sizes[PEALI_FLAGS_ORDER];
    request q = {.problem = {.op = PEAL_SUM}, .min_bytes = 16, .max_bytes = 64 << 20, .factor = 4, .algo = "all"};
    peali_cost_example(&q.params);
    int code = parse(&q, argc, argv);
    if (code != -1)
        return code;
    int kind = peali_tuning_kind(argv[optind]);
    if (kind < 0)
        return misuse("no collective", argv[optind]);
    q.problem.kind = (peal_kind)kind;
    if (q.min_bytes > q.max_bytes)
        return misuse("the last size (-e) is below the first (-b):", peali_flags_order(q.max_bytes, q.min_bytes, sizes));
    if (!peali_flags_known(q.problem.kind, q.algo) || strcmp(q.algo, "auto") == 0)
        return misuse("not all are algorithms of this collective:", q.algo);
    set_nodes(&q);
    return predict_all(&q);
}
