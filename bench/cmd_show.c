/* peal show: what an algorithm costs, a picture of its rounds, and of a rank the schedule and the program that it is lowered to. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "commands.h"
#include "flags.h"
#include "lower/program_text.h"
#include "sched/text.h"
#include "sched/tuning.h"
#include "study/draw.h"
#include "why.h"

enum { MOST_RANKS = 4096, MOST_DRAWN = 64, COLUMNS = 132, F_NODES = 256, F_REACH, F_ROOT, F_WHY, F_NET };

typedef struct request {
    const peal_algo *algo;
    peal_problem problem;
    int32_t node[MOST_RANKS];
    int listed; /* ranks of `node`; 0: no --nodes */
    int rank; /* -1: all */
    bool reach;
    peali_mode mode;
    bool why; /* a size comes in place of the algorithm's name */
    const char *net;
    size_t bytes;
} request;

static void usage(FILE *to)
{
    fputs("usage: peal show COLLECTIVE NAME -n RANKS [flags], or peal show --why COLLECTIVE SIZE -n RANKS [flags]\n"
          "  --why                what Peal takes for SIZE (of the vector), by which row of the table, and the alternatives\n"
          "  --net NAME           why: over loop, mpi, ucx, shm, or direct, which is shm for buffers that all ranks see\n"
          "                       (PEAL_NET, or mpi)\n"
          "  -n RANKS             number of ranks, 1 to 4096\n"
          "  -r RANK|all          whose schedule and program (0)\n"
          "  --nodes N+N...       ranks of each node, as 4+4+3, in place of -n (one node)\n"
          "  --reach pull|push|place  ranks of a node read each other's memory (pull: shared memory), write it (push: NVLink),\n"
          "                       or read it and write results there (place: direct calls); else the program has messages only\n"
          "  --root RANK          of a broadcast or reduce (0)\n"
          "  -h, --help           this text\n"
          "COLLECTIVE NAME:\n", to);
    for (int k = 0; k < PEAL_KIND_COUNT; k++) {
        int n = 0;
        for (int i = 0; peali_algos[i]; i++)
            if (peali_algos[i]->kind == (peal_kind)k)
                fprintf(to, "%s %s", n++ ? "" : peal_kind_name((peal_kind)k), peali_algos[i]->name);
        fputs(n ? "\n" : "", to);
    }
}

static int misuse(const char *what, const char *text)
{
    fprintf(stderr, "peal show: %s '%s'\n", what, text);
    usage(stderr);
    return 2;
}

/* TEXT as a number from LEAST to MOST, up to its end or a '+'; false where it is none. */
static bool number(const char *text, int least, int most, int *out, const char **rest)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || (*end && !(rest && *end == '+')) || value < least || value > most)
        return false;
    *out = (int)value;
    if (rest)
        *rest = end;
    return true;
}

static bool set_nodes(request *q, const char *text)
{
    int n = 0, size = 0;
    for (q->problem.nnodes = 0;; text++) {
        if (!number(text, 1, MOST_RANKS - n, &size, &text))
            return false;
        for (int i = 0; i < size; i++)
            q->node[n++] = q->problem.nnodes;
        q->problem.nnodes++;
        if (!*text)
            break;
    }
    q->listed = n;
    q->problem.node = q->node;
    return true;
}

static bool set_reach(request *q, const char *text)
{
    q->reach = true;
    int mode = PEALI_PULL;
    while (mode < PEALI_MODES && strcmp(text, peali_mode_name((peali_mode)mode)) != 0)
        mode++;
    q->mode = (peali_mode)mode;
    return mode < PEALI_MODES;
}

static bool set(request *q, int code, const char *text)
{
    switch (code) {
    case 'n': return number(text, 1, MOST_RANKS, &q->problem.nranks, NULL);
    case 'r': q->rank = -1; return strcmp(text, "all") == 0 || number(text, 0, MOST_RANKS - 1, &q->rank, NULL);
    case F_NODES: return set_nodes(q, text);
    case F_REACH: return set_reach(q, text);
    case F_WHY: return q->why = true;
    case F_NET: q->net = text; return peali_tuning_transport(text) && strcmp(text, "hosts") != 0 && strcmp(text, "*") != 0;
    default: return number(text, 0, MOST_RANKS - 1, &q->problem.root, NULL);
    }
}

/* -1, or the exit code where that was all. */
static int parse(request *q, int argc, char **argv)
{
    static const struct option longs[] = {{"nodes", required_argument, NULL, F_NODES}, {"reach", required_argument, NULL, F_REACH},
                                          {"root", required_argument, NULL, F_ROOT}, {"why", no_argument, NULL, F_WHY},
                                          {"net", required_argument, NULL, F_NET}, {"help", no_argument, NULL, 'h'}, {0}};
    char word[PEALI_FLAGS_WORD];
    int code;
    opterr = 0;
    optind = 1;
    while ((code = getopt_long(argc, argv, ":n:r:h", longs, NULL)) != -1) {
        if (code == 'h') {
            usage(stdout);
            return 0;
        }
        if (code == '?' || code == ':')
            return misuse(code == ':' ? "a value is missing after" : "unknown flag", peali_flags_stop(argv, word));
        if (!set(q, code, optarg))
            return misuse(code == 'n' ? "-n wants 1 to 4096, not" : peali_flags_wrong(argv, word), optarg);
    }
    if (optind + 2 < argc)
        return misuse("a word too many", argv[optind + 2]);
    return optind + 2 == argc ? -1 : misuse("a collective and an algorithm are wanted, not", argc > optind ? argv[optind] : "");
}

/* NAME: of the algorithm, or the size of which to say why. */
static int find(request *q, const char *kind, const char *name)
{
    int k = peali_tuning_kind(kind);
    if (k < 0)
        return misuse("no collective", kind);
    q->problem.kind = (peal_kind)k;
    q->algo = q->why ? NULL : peali_algo_find(q->problem.kind, name);
    q->bytes = q->why ? peali_flags_size(name) : 0;
    if (!q->algo && !q->bytes)
        return misuse(q->why ? "no size" : "no algorithm", name);
    if (q->problem.nranks == 0)
        q->problem.nranks = q->listed;
    if (q->problem.nranks == 0)
        return misuse("-n or --nodes is missing after", name);
    if (q->listed && q->listed != q->problem.nranks)
        return misuse("-n and --nodes have different numbers of ranks after", name);
    if (q->rank >= q->problem.nranks || q->problem.root >= q->problem.nranks)
        return misuse("the rank or root is not below the number of ranks of", name);
    if (q->why || peali_algo_fits(q->algo, &q->problem))
        return -1;
    fprintf(stderr, "peal show: %s does not fit %d ranks on %d nodes\n", name, q->problem.nranks, q->problem.nnodes);
    return 1;
}

static bool show_program(const request *q, int rank)
{
    int32_t ranks[MOST_RANKS];
    peali_reach reach = {0, ranks, q->mode};
    for (int r = 0; r < q->problem.nranks; r++)
        if (r == rank || (q->reach && q->node[r] == q->node[rank]))
            ranks[reach.nranks++] = r;
    peali_program *program;
    if (peali_lower(q->algo, &q->problem, &reach, rank, &program) != PEAL_OK)
        return false;
    fputc('\n', stdout);
    peali_program_print(program, stdout);
    peali_program_free(&program);
    return true;
}

static bool show_rank(const request *q, int rank)
{
    peal_sched *sched;
    if (peali_sched_build(q->algo, &q->problem, rank, &sched) != PEAL_OK)
        return false;
    fputc('\n', stdout);
    peali_sched_print(sched, stdout);
    peali_sched_free(&sched);
    return show_program(q, rank);
}

static int show(const request *q)
{
    int n = q->problem.nranks;
    peal_bill bill = q->algo->bill(&q->problem);
    printf("%s %s, %d ranks: %d blocks, %d rounds, at most %lld blocks sent and %d scratch slots per rank\n\n",
           peal_kind_name(q->problem.kind), q->algo->name, n, bill.blocks, bill.rounds, (long long)bill.sent, bill.slots);
    if (n > MOST_DRAWN)
        printf("no picture of more than %d ranks\n", MOST_DRAWN);
    else if (peali_draw(q->algo, &q->problem, COLUMNS, stdout) != PEAL_OK)
        return 1;
    for (int rank = q->rank < 0 ? 0 : q->rank; rank < (q->rank < 0 ? n : q->rank + 1); rank++)
        if (!show_rank(q, rank))
            return 1;
    return 0;
}

int peali_cmd_show(int argc, char **argv)
{
    static request q = {.problem = {.op = PEAL_SUM, .nnodes = 1}}; /* too large for a stack; one command is one process */
    int code = parse(&q, argc, argv);
    if (code == -1)
        code = find(&q, argv[argc - 2], argv[argc - 1]);
    if (code != -1)
        return code;
    const char *net = q.net ? q.net : peali_config_get()->net ? peali_config_get()->net : "mpi";
    return q.why ? peali_why(&q.problem, net, q.bytes) : show(&q);
}
