/*
 * The language of schedules: all that an algorithm file needs, and all that it may include. Experimental until 1.0.
 *
 * A schedule is what one rank does, over symbolic blocks: sends, receives, copies and reductions. An algorithm is a pure
 * function that writes it down. It never sees a count, a type, a pointer or a transport, and it lists no dependencies: two
 * operations of a rank are ordered exactly when they touch a common piece and one of them writes it.
 *
 * Blocks. The vector has B blocks, block b of `count` elements being [b*count/B, (b+1)*count/B). Data of a block stays in that
 * block: an operation names one range of blocks and the buffers it goes from and to. In an allgather a rank's IN, in a
 * reduce-scatter its OUT, has its own block only.
 *
 * Matching. The k-th send from a to b on a lane meets the k-th receive at b from a on that lane, and has the same range.
 *
 * The first bad argument stays in the schedule with its place, and building goes on without effect: an algorithm has no
 * error code.
 */
#ifndef PEAL_ALGO_H
#define PEAL_ALGO_H

#include <peal/peal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct peal_sched peal_sched;

/* What is to be done, as far as an algorithm may know it. */
typedef struct peal_problem {
    peal_kind kind;
    peal_op op;
    int nranks;
    int root;        /* broadcast and reduce; else 0 */
    int nnodes;      /* 1 or more; every node holds at least one rank */
    const int *node; /* node of each rank, ascending along the ranks; NULL: all ranks are on node 0 */
} peal_problem;

/* Parts PART to PART+PARTS-1 of a buffer, counted modulo the parts that peal_blocks named. Made by the functions below. */
typedef struct peal_range {
    int buf;
    int part;
    int parts;
} peal_range;

enum { PEAL_BUF_IN = 0, PEAL_BUF_OUT = 1, PEAL_BUF_TMP = 2 }; /* slot i of scratch is PEAL_BUF_TMP + i */
enum { PEAL_SLOTS = 16383 }; /* the number of a buffer has 16 bits, and a slot takes two numbers */

static inline peal_range peal_in(int part, int parts)
{
    peal_range r = {PEAL_BUF_IN, part, parts};
    return r;
}

static inline peal_range peal_out(int part, int parts)
{
    peal_range r = {PEAL_BUF_OUT, part, parts};
    return r;
}

/*
 * Scratch slot SLOT (0 to PEAL_SLOTS-1): one piece, which holds the parts that were last received or copied there, PARTS from PART
 * on. What is read may be some of these, unless they wrap.
 */
static inline peal_range peal_tmps(int slot, int part, int parts)
{
    peal_range r = {slot < 0 ? slot : PEAL_BUF_TMP + (slot < PEAL_SLOTS ? slot : PEAL_SLOTS), part, parts};
    return r;
}

/* Likewise, of part PART alone. */
static inline peal_range peal_tmp(int slot, int part)
{
    return peal_tmps(slot, part, 1);
}

/* A modulo N in 0 .. N-1, also for negative A. */
static inline int peal_mod(int a, int n)
{
    int m = a % n;
    return m < 0 ? m + n : m;
}

/* The least L with 2^L >= N. */
static inline int peal_log2_ceil(int n)
{
    int l = 0;
    while (INT64_C(1) << l < n)
        l++;
    return l;
}

/* The least L with BASE^L >= N. */
static inline int peal_log_ceil(int n, int base)
{
    int l = 0;
    for (int64_t reach = 1; reach < n; reach *= base)
        l++;
    return l;
}

/* The greatest L with 2^L <= N. */
static inline int peal_log2_floor(int n)
{
    int l = 0;
    while (n >>= 1)
        l++;
    return l;
}

/* Divides the vector (in a called algorithm: its range of it) into N parts. Comes first, with the same N on all ranks. */
PEAL_PUBLIC void peal_blocks(peal_sched *s, int n);

/* The four verbs. Ranges of one operation name the same parts. peal_reduce_into: d = d op s. A copy onto itself is dropped. */
PEAL_PUBLIC void peal_send(peal_sched *s, int peer, peal_range from);
PEAL_PUBLIC void peal_recv(peal_sched *s, int peer, peal_range into);
PEAL_PUBLIC void peal_copy(peal_sched *s, peal_range d, peal_range from);
PEAL_PUBLIC void peal_reduce_into(peal_sched *s, peal_range d, peal_range from);

/* The following messages travel on LANE (0 at first, below PEAL_LANES), an independent FIFO channel. */
enum { PEAL_LANES = 62 };
PEAL_PUBLIC void peal_lane(peal_sched *s, int lane);

/* What an algorithm costs, in closed form; `peal check` proves it. */
typedef struct peal_bill {
    int blocks;   /* B */
    int rounds;   /* the longest chain of messages, each of which needs the one before */
    int64_t sent; /* the most blocks that any rank sends */
    int slots;    /* the most scratch slots that any rank uses */
} peal_bill;

/* An algorithm: one of these at the end of its file, named peal_algo_<collective>_<name>. */
typedef struct peal_algo {
    const char *name;
    peal_kind kind;
    int in_rank_order;                    /* 1: every sum is taken in rank order, so all n! orders of arrival give one result */
    int (*fits)(const peal_problem *p);   /* NULL: always */
    void (*build)(peal_sched *s, const peal_problem *p, int rank);
    peal_bill (*bill)(const peal_problem *p);
} peal_algo;

/*
 * Composition: runs ALGO, as rank RANK of the NRANKS ranks RANKS (in the caller's numbering; NULL: all), on parts PART to
 * PART+PARTS-1 of the caller, without wrapping. Its IN is the caller's buffer IN (PEAL_BUF_*); its scratch slots count from SLOT
 * and its lanes from LANE of the caller. Where GRAIN is above 0, its parts begin at multiples of GRAIN of the caller's parts.
 */
typedef struct peal_call {
    const peal_algo *algo;
    const peal_problem *problem; /* as the called algorithm sees it */
    const int *ranks;
    int rank;
    int part, parts;
    int in;
    int slot, lane;
    int grain; /* divides PARTS */
} peal_call;
PEAL_PUBLIC void peal_run(peal_sched *s, const peal_call *call);

/*
 * Allreduce in levels, of any algorithms: SCATTER within each node, ACROSS on each share among the ranks that hold it, GATHER
 * within each node. Comes instead of peal_blocks. There are as many shares as the largest node has ranks, the same on all nodes;
 * rank j of a node of g holds shares [G*j/g, G*(j+1)/g) of G. ACROSS is called with one rank of each node, in order of nodes, and
 * sees them as nodes of ROW ranks each (0: one node), so that it may have levels in turn.
 */
typedef struct peal_levels {
    const peal_algo *scatter; /* a reduce-scatter */
    const peal_algo *across;  /* an allreduce */
    const peal_algo *gather;  /* an allgather */
    int row;
} peal_levels;
PEAL_PUBLIC void peal_run_levels(peal_sched *s, const peal_problem *p, int rank, const peal_levels *levels);

/* Likewise, with every Q ranks in a row in place of nodes; Q divides N. */
PEAL_PUBLIC void peal_run_rows(peal_sched *s, const peal_problem *p, int rank, int q, const peal_levels *levels);

/*
 * Runs ACROSS among the first ranks of the nodes, of which RANK is one: an allreduce of one block, or an allgather of the blocks of
 * the nodes, all of one size. Its IN is OUT.
 */
PEAL_PUBLIC void peal_run_leaders(peal_sched *s, const peal_problem *p, int rank, const peal_algo *across);

/* The first rank of node NODE (nranks for NODE = nnodes), and the ranks of the largest node. */
PEAL_PUBLIC int peal_node_first(const peal_problem *p, int node);
PEAL_PUBLIC int peal_node_largest(const peal_problem *p);

/*
 * The rank of node NODE that stands for RANK there: of g ranks it is floor(j*g/h), where RANK is number j of its node's h; on its
 * own node RANK itself. The ranks of NODE that RANK stands for, first to end-1, or none. A rank that deals with each other rank
 * of its node for each that it stands for, itself too, deals so many times at most.
 */
typedef struct peal_ranks {
    int first, end;
} peal_ranks;
PEAL_PUBLIC int peal_node_stand(const peal_problem *p, int rank, int node);
PEAL_PUBLIC peal_ranks peal_node_behind(const peal_problem *p, int rank, int node);
PEAL_PUBLIC int64_t peal_node_deals(const peal_problem *p);

/*
 * The neighbours of RANK in in-order binary tree TREE (0 or 1) over N ranks, which is floor(log2 N) deep. No rank has children in
 * both trees. Source: Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
 * Computing 35, 2009.
 */
typedef struct peal_tree {
    int parent; /* -1: RANK is the root */
    int nchildren;
    int child[2];
} peal_tree;
PEAL_PUBLIC peal_tree peal_tree_of(int tree, int n, int rank);
PEAL_PUBLIC int peal_tree_root(int tree, int n);

/*
 * The largest prime factor of N (1: 1). The largest divisor of N that is at most MOST. And the largest factor of N > 1 where that
 * is the product of the fewest factors up to MOST, as even as N allows: 64 of up to 8 is 8 x 8, 32 of up to 4 is 4 x 4 x 2; if its
 * largest prime is above MOST, that.
 */
PEAL_PUBLIC int peal_largest_prime(int n);
PEAL_PUBLIC int peal_largest_divisor(int n, int most);
PEAL_PUBLIC int peal_largest_factor(int n, int most);

#ifdef __cplusplus
}
#endif
#endif
