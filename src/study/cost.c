/*
 * Every algorithm is priced by its part: how many messages follow each other, how many more a port queues, which share of the
 * vector they carry, and what of that the busiest rank has for each slice. Most parts follow from the bill; where some ranks idle
 * in a round, or a rank has many messages in one, the part has a form of its own. Sources: cost.h, and each algorithm's file.
 */
#include "study/cost.h"

#include <math.h>
#include <string.h>

#include "sched/sched.h"

/* Shares are of the vector. */
typedef struct part {
    double rounds;   /* messages one after another until the end */
    double queued;   /* messages that besides wait for each other at a port on the way */
    double chain;    /* share that all these carry */
    double messages; /* of the busiest rank, in one direction, and the share that they carry */
    double sent;
    double reduced;  /* share summed on the way, and by the busiest rank */
    double summed;
} part;

/* A whole algorithm: what each class of peers has of it. */
typedef struct shape {
    part peers[PEALI_PEERS];
} shape;

static bool reduces(peal_kind kind)
{
    return kind == PEAL_ALLREDUCE || kind == PEAL_REDUCE || kind == PEAL_REDUCE_SCATTER;
}

/* Every rank sends one message in every round, or the whole vector goes with each message. */
static part regular(const peal_bill *b, peal_kind kind, int n)
{
    double sent = (double)b->sent / b->blocks;
    if (b->blocks == 1) {
        double chain = fmax(b->rounds, sent), sums = reduces(kind);
        return (part){b->rounds, chain - b->rounds, chain, sent, sent, sums * chain, sums * sent};
    }
    double sums = reduces(kind) ? (n - 1.0) / n : 0;
    return (part){b->rounds, 0, sent, b->rounds, sent, sums, sums};
}

/* All messages of a round at once, through one port: that of a root, to which each sends one, is the busiest. */
static part direct(const peal_bill *b, peal_kind kind, int n)
{
    double messages = (double)b->sent, sent = kind == PEAL_REDUCE && b->blocks == 1 ? n - 1 : messages / b->blocks;
    double sums = reduces(kind) ? (n - 1.0) / b->blocks : 0;
    return (part){b->rounds, messages - b->rounds, sent, messages, sent, sums, sums};
}

/* Rooted: who has its block of a broadcast gives it to all but the root; and all sums of a reduce come through the root's port. */
static part two_shot(const peal_bill *b, peal_kind kind, int n)
{
    part p = direct(b, kind, n);
    if (kind == PEAL_BROADCAST && n > 2) {
        p.queued += n - 2;
        p.chain += (n - 2.0) / b->blocks;
    } else if (kind == PEAL_REDUCE && n > 2) {
        p.queued++;
        p.chain++;
    }
    return p;
}

/* A team's messages all at once; those of the reduce-scatter have a slot each, and by itself the sum has one. */
static part sra_knomial(const peal_bill *b, peal_kind kind, int n)
{
    part p = regular(b, kind, n);
    p.messages = kind == PEAL_ALLREDUCE ? 2.0 * b->slots : b->slots - b->rounds;
    p.queued = p.messages - p.rounds;
    return p;
}

static void add(part *to, peal_kind kind, const char *name, int n, double shares, double of);

static part grid(const peal_bill *b, peal_kind kind, int n)
{
    part p = {0};
    add(&p, PEAL_REDUCE_SCATTER, "direct", b->blocks, 1, 1);
    add(&p, PEAL_ALLREDUCE, "recursive_multiplying", n / b->blocks, 1, b->blocks);
    add(&p, PEAL_ALLGATHER, "direct", b->blocks, 1, 1);
    return p;
}

/* A reduce: all that come to the root come through one port; its children get as much meanwhile, from theirs. */
static part knomial(const peal_bill *b, peal_kind kind, int n)
{
    double all = b->slots;
    if (kind == PEAL_REDUCE_SCATTER)
        return sra_knomial(b, kind, n);
    return (part){b->rounds, 0, all, b->rounds, all, all, all};
}

/* A chain of messages, which the bill counts, may pass by some rounds of a rank. Ranges that wrap, as one may in every round but
 * those of one block, are two messages; the reduce-scatter sends each block by itself. */
static part circulant(const peal_bill *b, peal_kind kind, int n)
{
    if (kind == PEAL_REDUCE_SCATTER)
        return direct(b, kind, n);
    part p = regular(b, kind, n);
    double phases = kind == PEAL_ALLREDUCE ? 2 : 1, rounds = phases * peal_log2_ceil(n);
    p.rounds = rounds;
    p.queued = rounds - phases;
    p.messages = rounds + p.queued;
    return p;
}

/* The bill counts a chain of messages; a rank that took part for another is at work in all rounds. */
static part recursive_doubling(const peal_bill *b, peal_kind kind, int n)
{
    int power = peal_log2_floor(n);
    double rounds = power + 2.0 * (n > 1 << power), sums = (double)b->sent;
    return (part){rounds, 0, rounds, sums, sums, sums, sums};
}

/* Where ranks fold, one vector goes in and one comes out; the bill has one of them. */
static part rabenseifner(const peal_bill *b, peal_kind kind, int n)
{
    part p = regular(b, kind, n);
    bool fold = b->blocks < n;
    p.chain += fold;
    p.messages -= fold;
    p.reduced = p.summed = (b->blocks - 1.0) / b->blocks + fold;
    return p;
}

static part binomial(const peal_bill *b, peal_kind kind, int n)
{
    double l = peal_log2_ceil(n), both = kind == PEAL_ALLREDUCE ? 2 : 1, sums = reduces(kind) ? l : 0;
    double each = kind == PEAL_REDUCE ? l : (double)b->sent;
    return (part){both * l, 0, both * l, each, each, sums, sums};
}

/* Two trees, half of the vector each: on every level the second child waits for the first at its parent's port. */
static part trees(const peal_bill *b, peal_kind kind, int n)
{
    bool both = kind == PEAL_ALLREDUCE;
    int nodes = both ? n : n - 1, only_child = peal_tree_of(0, nodes, peal_tree_root(0, nodes)).nchildren == 1;
    double ways = both ? 2 : 1, levels = b->rounds, queued = levels - ways * only_child, sums = reduces(kind);
    double sent = (double)b->sent;
    return (part){levels, queued, (levels + queued) / 2, sent, sent / 2, sums * levels / ways, sums};
}

static const struct form {
    const char *name;
    part (*of)(const peal_bill *b, peal_kind kind, int n);
} forms[] = {
    {"circulant", circulant}, {"recursive_doubling", recursive_doubling}, {"rabenseifner", rabenseifner},
    {"binomial", binomial},   {"double_binary_tree", trees},              {"two_tree", trees},
    {"direct", direct},       {"one_shot", direct},                       {"two_shot", two_shot},
    {"sra_knomial", sra_knomial},  {"grid", grid},                       {"grid_wide", grid},
    {"knomial", knomial},
};

static part part_of(const peal_algo *algo, const peal_problem *problem)
{
    peal_bill bill = algo->bill(problem);
    if (problem->nranks == 1)
        return (part){0};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(algo->name, forms[i].name) == 0)
            return forms[i].of(&bill, algo->kind, problem->nranks);
    return regular(&bill, algo->kind, problem->nranks);
}

/* Adds the algorithm of KIND named NAME over N peers, run at once on SHARES shares of 1/OF of the vector. */
static void add(part *to, peal_kind kind, const char *name, int n, double shares, double of)
{
    peal_problem problem = {.kind = kind, .op = PEAL_SUM, .nranks = n, .nnodes = 1};
    part p = part_of(peali_algo_find(kind, name), &problem);
    to->rounds += p.rounds;
    to->queued += p.queued + (shares - 1) * p.messages;
    to->chain += (p.chain + (shares - 1) * p.sent) / of;
    to->messages += shares * p.messages;
    to->sent += shares * p.sent / of;
    to->reduced += (p.reduced + (shares - 1) * p.summed) / of;
    to->summed += shares * p.summed / of;
}

/* The most ranks of the largest node that one of the smallest stands for. */
static double most_for_one(const peal_problem *p)
{
    int most = peal_node_largest(p), least = most;
    for (int i = 0; i < p->nnodes; i++) {
        int size = peal_node_first(p, i + 1) - peal_node_first(p, i);
        least = size < least ? size : least;
    }
    return ceil((double)most / least);
}

static void levels(shape *s, const peal_problem *p, const char *across, int row)
{
    int most = peal_node_largest(p);
    double shares = most_for_one(p);
    add(&s->peers[PEALI_NEAR], PEAL_REDUCE_SCATTER, "direct", most, 1, 1);
    add(&s->peers[PEALI_NEAR], PEAL_ALLGATHER, "direct", most, 1, 1);
    add(&s->peers[PEALI_FAR], PEAL_REDUCE_SCATTER, "direct", row, shares, most);
    add(&s->peers[PEALI_FAR], PEAL_ALLREDUCE, across, p->nnodes / row, shares, (double)most * row);
    add(&s->peers[PEALI_FAR], PEAL_ALLGATHER, "direct", row, shares, most);
}

/* Within a node, what goes to each node is messages by itself. Sums of all that a rank stands for leave it, but one block. */
static void two_levels(shape *s, const peal_problem *p)
{
    int most = peal_node_largest(p);
    add(&s->peers[PEALI_NEAR], p->kind, "direct", most, p->nnodes, p->nnodes);
    add(&s->peers[PEALI_FAR], p->kind, "direct", p->nnodes, reduces(p->kind) ? most_for_one(p) : 1, most);
}

/* The nodes of a row of the grid: the greatest divisor up to the root. */
static int row_of(int nodes)
{
    int row = 1;
    for (int i = 2; (int64_t)i * i <= nodes; i++)
        row = nodes % i ? row : i;
    return row;
}

/* Ranges that leaders give to their nodes wrap, but those of the first and the last. */
static void gather_by_leaders(shape *s, const peal_problem *p)
{
    int size = peal_node_largest(p);
    double others = size - 1, far = 1 - 1.0 / p->nnodes, some = others > 0 && p->nnodes > 1, pieces = p->nnodes > 2 ? 2 : 1;
    add(&s->peers[PEALI_NEAR], PEAL_ALLGATHER, "direct", size, 1, p->nnodes);
    add(&s->peers[PEALI_FAR], PEAL_ALLGATHER, "circulant", p->nnodes, 1, 1);
    part *near = &s->peers[PEALI_NEAR];
    near->rounds += some;
    near->queued += some * (pieces * others - 1);
    near->chain += others * far;
    near->messages += some * pieces * others;
    near->sent += others * far;
}

/* Vectors come, blocks go. */
static void scatter_by_leaders(shape *s, const peal_problem *p)
{
    double others = peal_node_largest(p) - 1, some = others > 0;
    s->peers[PEALI_NEAR] = (part){2 * some, others - some, others + others / p->nranks, others, others, others, others};
    add(&s->peers[PEALI_FAR], PEAL_REDUCE_SCATTER, "direct", p->nnodes, 1, 1);
}

/* Its leader has all the messages of a node, one after another. */
static void leaders(shape *s, const peal_problem *p)
{
    double others = peal_node_largest(p) - 1, some = others > 0;
    if (p->kind == PEAL_ALLGATHER) {
        gather_by_leaders(s, p);
        return;
    }
    if (p->kind == PEAL_REDUCE_SCATTER) {
        scatter_by_leaders(s, p);
        return;
    }
    s->peers[PEALI_NEAR] = (part){2 * some, others - some, 2 * others, others, others, others, others};
    add(&s->peers[PEALI_FAR], PEAL_ALLREDUCE, "recursive_doubling", p->nnodes, 1, 1);
}

static shape shape_of(const peal_algo *algo, const peal_problem *p)
{
    shape s = {0};
    if (strcmp(algo->name, "hierarchical") == 0 && algo->kind != PEAL_ALLREDUCE)
        two_levels(&s, p);
    else if (strcmp(algo->name, "hierarchical") == 0)
        levels(&s, p, "ring", 1);
    else if (strcmp(algo->name, "hierarchical_tree") == 0)
        levels(&s, p, "double_binary_tree", 1);
    else if (strcmp(algo->name, "hierarchical_grid") == 0)
        levels(&s, p, "ring", row_of(p->nnodes));
    else if (strcmp(algo->name, "hierarchical_halving") == 0)
        levels(&s, p, "rabenseifner", 1);
    else if (strcmp(algo->name, "hierarchical_doubling") == 0)
        levels(&s, p, "recursive_doubling", 1);
    else if (strcmp(algo->name, "hierarchical_leaders") == 0)
        leaders(&s, p);
    else
        s.peers[p->nnodes > 1 ? PEALI_FAR : PEALI_NEAR] = part_of(algo, p);
    return s;
}

/* What one slice of BYTES takes from beginning to end. */
static double first_ns(const shape *s, const peali_cost_params *params, double bytes)
{
    double ns = 0;
    for (int c = 0; c < PEALI_PEERS; c++) {
        const part *p = &s->peers[c];
        const peali_link_cost *l = &params->link[c];
        ns += p->rounds * (l->send_ns + l->latency_ns + l->recv_ns) + p->queued * fmax(l->send_ns, l->recv_ns) +
              bytes * (p->chain * l->byte_ns + p->reduced * params->reduce_byte_ns);
    }
    return ns;
}

/* What the busiest port or arithmetic of a rank needs for one slice of BYTES. */
static double further_ns(const shape *s, const peali_cost_params *params, double bytes)
{
    double most = 0, sums = 0;
    for (int c = 0; c < PEALI_PEERS; c++) {
        const part *p = &s->peers[c];
        const peali_link_cost *l = &params->link[c];
        most = fmax(most, p->messages * fmax(l->send_ns, l->recv_ns) + bytes * p->sent * l->byte_ns);
        sums += bytes * p->summed * params->reduce_byte_ns;
    }
    return fmax(most, sums);
}

static double sliced_ns(const shape *s, const peali_cost_params *params, double bytes, int slices)
{
    return first_ns(s, params, bytes / slices) + (slices - 1) * further_ns(s, params, bytes / slices);
}

void peali_cost_uniform(peali_cost_params *params, double latency_us, double gbs)
{
    *params = (peali_cost_params){.ports = 1};
    for (int c = 0; c < PEALI_PEERS; c++)
        params->link[c] = (peali_link_cost){.send_ns = latency_us * 1e3, .byte_ns = 1 / gbs};
}

void peali_cost_example(peali_cost_params *params)
{
    peali_cost_uniform(params, 1, 10);
    params->link[PEALI_FAR].send_ns = 2000;
    params->reduce_byte_ns = 0.05;
}

double peali_cost(const peal_algo *algo, const peal_problem *problem, size_t bytes, const peali_cost_params *params, int slices)
{
    shape s = shape_of(algo, problem);
    return sliced_ns(&s, params, (double)bytes, slices);
}

/* Time falls with the number of slices to its least, then rises: the first slice shrinks by ever less, the others add ever more. */
peali_slicing peali_cost_best_slices(const peal_algo *algo, const peal_problem *problem, size_t bytes,
                                     const peali_cost_params *params)
{
    shape s = shape_of(algo, problem);
    int least = 1, most = bytes < PEALI_COST_SLICES ? (int)bytes + (bytes == 0) : PEALI_COST_SLICES;
    while (least < most) {
        int middle = (least + most) / 2;
        if (sliced_ns(&s, params, (double)bytes, middle + 1) < sliced_ns(&s, params, (double)bytes, middle))
            least = middle + 1;
        else
            most = middle;
    }
    double slice = (double)bytes / least, gap = further_ns(&s, params, slice);
    double window = gap > 0 ? ceil(first_ns(&s, params, slice) / gap) + 1 : least;
    return (peali_slicing){least, window < least ? (int)window : least, sliced_ns(&s, params, (double)bytes, least)};
}
