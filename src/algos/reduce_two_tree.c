/*
 * Two-tree reduce: each half of the vector is summed up a binary tree over the ranks other than the root, whose top gives it to the
 * root. The inner nodes of one tree are leaves of the other, so every rank sends as much as it receives. Each tree has a lane.
 *
 *     n = 4, root 0:    tree 0, block 0      tree 1, block 1
 *                           0                    0
 *                           2                    1
 *                          1 3                  3 2
 *     round 0: 1->2 3->2, 3->1 2->1; round 1: 2->0, 1->0
 *
 * Blocks:         2
 * Rounds:         1 + floor(log2(n-1)): the depth of a tree, and to the root; 0 for n = 1
 * Sent per rank:  2 blocks, 0 for n = 1
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
 *                 Computing 35, 2009
 */
#include <peal/algo.h>

/* Trees count the ranks after the root from 0 on; -1 is the root. */
static int rank_of(const peal_problem *p, int in_tree)
{
    return peal_mod(p->root + 1 + in_tree, p->nranks);
}

static void up(peal_sched *s, const peal_problem *p, int tree, const peal_tree *t)
{
    peal_lane(s, tree);
    for (int c = 0; c < t->nchildren; c++)
        peal_recv(s, rank_of(p, t->child[c]), peal_tmp(c, tree));
    if (t->nchildren > 0)
        peal_reduce_into(s, peal_tmp(0, tree), peal_in(tree, 1));
    if (t->nchildren > 1)
        peal_reduce_into(s, peal_tmp(0, tree), peal_tmp(1, tree));
    peal_send(s, rank_of(p, t->parent), t->nchildren > 0 ? peal_tmp(0, tree) : peal_in(tree, 1));
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int others = p->nranks - 1;

    peal_blocks(s, 2);
    if (rank != p->root) {
        int me = peal_mod(rank - p->root - 1, p->nranks);
        peal_tree trees[2] = {peal_tree_of(0, others, me), peal_tree_of(1, others, me)};
        int inner = trees[1].nchildren > 0;
        up(s, p, !inner, &trees[!inner]);
        up(s, p, inner, &trees[inner]);
        return;
    }
    peal_copy(s, peal_out(0, 2), peal_in(0, 2));
    for (int tree = 0; tree < 2 && others > 0; tree++) {
        peal_lane(s, tree);
        peal_recv(s, rank_of(p, peal_tree_root(tree, others)), peal_tmp(tree, tree));
        peal_reduce_into(s, peal_out(tree, 1), peal_tmp(tree, tree));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){
        .blocks = 2, .rounds = n > 1 ? 1 + peal_log2_floor(n - 1) : 0, .sent = n > 1 ? 2 : 0, .slots = n > 1 ? 2 : 0};
}

const peal_algo peal_algo_reduce_two_tree = {"two_tree", PEAL_REDUCE, 0, NULL, build, bill};
