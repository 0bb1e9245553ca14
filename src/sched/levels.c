/*
 * Allreduce in levels. Every node cuts the vector at the same shares, whatever its size, so that the second level is the same small
 * allreduce for each share, and every rank of the largest node has one.
 */
#include "base/arena.h"
#include "sched/sched.h"

int peal_node_first(const peal_problem *p, int node)
{
    int lo = 0, hi = p->nranks;
    if (!p->node)
        return node == 0 ? 0 : p->nranks;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (p->node[mid] < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int peal_node_largest(const peal_problem *p)
{
    int most = 0, size = 0;
    if (!p->node)
        return p->nranks;
    for (int r = 0; r < p->nranks; r++) {
        size = r > 0 && p->node[r] == p->node[r - 1] ? size + 1 : 1;
        most = size > most ? size : most;
    }
    return most;
}

static int node_size(const peal_problem *p, int node)
{
    return peal_node_first(p, node + 1) - peal_node_first(p, node);
}

int peal_node_stand(const peal_problem *p, int rank, int node)
{
    int at = p->node ? p->node[rank] : 0;
    int64_t number = rank - peal_node_first(p, at);
    return peal_node_first(p, node) + (int)(number * node_size(p, node) / node_size(p, at));
}

peal_ranks peal_node_behind(const peal_problem *p, int rank, int node)
{
    int at = p->node ? p->node[rank] : 0, first = peal_node_first(p, node);
    int64_t number = rank - peal_node_first(p, at), size = node_size(p, at), others = node_size(p, node);
    return (peal_ranks){first + (int)((number * others + size - 1) / size),
                        first + (int)(((number + 1) * others + size - 1) / size)};
}

/* The first rank behind RANK's node. */
static int next_node(const peal_problem *p, int rank)
{
    int r = rank + 1;
    while (r < p->nranks && p->node && p->node[r] == p->node[rank])
        r++;
    return p->node ? r : p->nranks;
}

/* The least size of a node above SIZE; 0: none is. */
static int next_size(const peal_problem *p, int size)
{
    int least = 0;
    for (int r = 0, end; r < p->nranks; r = end) {
        end = next_node(p, r);
        least = end - r > size && (least == 0 || end - r < least) ? end - r : least;
    }
    return least;
}

/* The first rank of a node stands for the most. */
int64_t peal_node_deals(const peal_problem *p)
{
    int64_t most = 0, largest = peal_node_largest(p);
    if (largest * p->nnodes == p->nranks)
        return p->nnodes * (largest - 1);
    for (int size = next_size(p, 0); size > 0; size = next_size(p, size)) {
        int64_t stands = 0;
        for (int r = 0, end; r < p->nranks; r = end) {
            end = next_node(p, r);
            stands += (end - r - 1) / size + 1;
        }
        most = stands * (size - 1) > most ? stands * (size - 1) : most;
    }
    return most;
}

typedef struct levels {
    peal_sched *s;
    const peal_problem *p;
    int largest, mine, size; /* ranks of the largest node; this node, and its ranks */
    int *first;              /* of each node, and one past them: its first rank */
    int *ranks;              /* those of a call */
    int *row;                /* of each node, as ACROSS sees it */
    peal_problem across;
    int grain;               /* parts of a share */
} levels;

static bool prepare(levels *l, int rank, const peal_levels *how)
{
    int n = l->p->nranks, nodes = l->p->nnodes;
    l->first = peali_alloc((size_t)nodes * 2 + 1 + (size_t)(nodes > n ? nodes : n), sizeof *l->first);
    if (!l->first)
        return false;
    l->row = l->first + nodes + 1;
    l->ranks = l->row + nodes;
    for (int r = 1; l->p->node && r < n; r++)
        if (l->p->node[r] != l->p->node[r - 1])
            l->first[l->p->node[r]] = r;
    l->first[nodes] = n;
    l->mine = l->p->node ? l->p->node[rank] : 0;
    l->size = l->first[l->mine + 1] - l->first[l->mine];
    for (int i = 0; i < nodes; i++)
        l->largest = l->first[i + 1] - l->first[i] > l->largest ? l->first[i + 1] - l->first[i] : l->largest;
    l->across = (peal_problem){.kind = PEAL_ALLREDUCE, .op = l->p->op, .nranks = nodes, .nnodes = 1};
    if (how->row > 0) {
        for (int i = 0; i < nodes; i++)
            l->row[i] = i / how->row;
        l->across.nnodes = (nodes - 1) / how->row + 1;
        l->across.node = l->row;
    }
    return true;
}

static void within(levels *l, int rank, const peal_algo *algo, int in)
{
    peal_problem p = {.kind = algo->kind, .op = l->p->op, .nranks = l->size, .nnodes = 1};
    int parts = l->largest * l->grain;
    for (int i = 0; i < l->size; i++)
        l->ranks[i] = l->first[l->mine] + i;
    peal_run(l->s, &(peal_call){.algo = algo, .problem = &p, .ranks = l->ranks, .rank = rank - l->first[l->mine], .parts = parts,
                                .in = in, .grain = l->grain});
}

static void across(levels *l, const peal_algo *algo, int share, int slot)
{
    for (int i = 0; i < l->p->nnodes; i++) {
        int64_t size = l->first[i + 1] - l->first[i]; /* of most nodes the largest's, which saves a division */
        l->ranks[i] = l->first[i] + (size == l->largest ? share : (int)(((share + 1) * size - 1) / l->largest));
    }
    peal_run(l->s, &(peal_call){.algo = algo, .problem = &l->across, .ranks = l->ranks, .rank = l->mine, .part = share * l->grain,
                                .parts = l->grain, .in = PEAL_BUF_OUT, .slot = slot});
}

void peal_run_levels(peal_sched *s, const peal_problem *p, int rank, const peal_levels *how)
{
    levels l = {.s = s, .p = p};
    if (!prepare(&l, rank, how)) {
        s->error = PEAL_ERR_MEMORY;
        return;
    }
    peal_bill bill = how->across->bill(&l.across);
    int64_t largest = l.largest, mine = rank - l.first[l.mine];
    int share = (int)(largest * mine / l.size), end = (int)(largest * (mine + 1) / l.size);
    l.grain = bill.blocks;
    peal_blocks(s, l.largest * l.grain);
    within(&l, rank, how->scatter, PEAL_BUF_IN);
    for (int i = 0; share + i < end; i++)
        across(&l, how->across, share + i, i * bill.slots);
    within(&l, rank, how->gather, PEAL_BUF_OUT);
    peali_free(l.first);
}

void peal_run_rows(peal_sched *s, const peal_problem *p, int rank, int q, const peal_levels *how)
{
    peal_problem rows = *p;
    int *row = peali_alloc((size_t)p->nranks, sizeof *row);
    if (!row) {
        s->error = PEAL_ERR_MEMORY;
        return;
    }
    for (int r = 0; r < p->nranks; r++)
        row[r] = r < q ? 0 : row[r - q] + 1;
    rows.node = row;
    rows.nnodes = p->nranks / q;
    peal_run_levels(s, &rows, rank, how);
    peali_free(row);
}

void peal_run_leaders(peal_sched *s, const peal_problem *p, int rank, const peal_algo *across)
{
    peal_problem leaders = {.kind = across->kind, .op = p->op, .nranks = p->nnodes, .nnodes = 1};
    bool gathers = across->kind == PEAL_ALLGATHER;
    int *ranks = peali_alloc((size_t)p->nnodes, sizeof *ranks);
    if (!ranks) {
        s->error = PEAL_ERR_MEMORY;
        return;
    }
    for (int r = p->nranks - 1; r >= 0; r--)
        ranks[p->node ? p->node[r] : 0] = r;
    peal_run(s, &(peal_call){.algo = across, .problem = &leaders, .ranks = ranks, .rank = p->node ? p->node[rank] : 0,
                             .parts = gathers ? p->nranks : 1, .in = PEAL_BUF_OUT, .grain = gathers ? p->nranks / p->nnodes : 1});
    peali_free(ranks);
}
