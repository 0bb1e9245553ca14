/*
 * Double binary tree allreduce: half of the vector is summed up one binary tree and comes down again, the other half does so in a
 * second tree in which the inner nodes of the first are leaves. So every rank sends and receives all the time once slices fill the
 * trees, each of which has a lane.
 *
 *     n = 4:    tree 0, block 0      tree 1, block 1
 *                   3                    2
 *                  1                    0
 *                 0 2                  3 1
 *     up, then down: round 0, 0->1 2->1, 3->0 1->0; round 1, 1->3, 0->2; round 2, 3->1, 2->0; round 3, 1->0 1->2, 0->3 0->1
 *
 * Blocks:         2
 * Rounds:         2 floor(log2 n): the depth of a tree, up and down
 * Sent per rank:  n blocks to n = 4, then 4 (0 for n = 1): up and to two children in one tree, up in the other
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
 *                 Computing 35, 2009; as an allreduce, Jeaugey, Massively scale your deep learning training with NCCL 2.4, 2019
 */
#include <peal/algo.h>

static void up(peal_sched *s, const peal_tree *t, int tree)
{
    peal_lane(s, tree);
    for (int c = 0; c < t->nchildren; c++)
        peal_recv(s, t->child[c], peal_tmp(c, tree));
    for (int c = 0; c < t->nchildren; c++)
        peal_reduce_into(s, peal_out(tree, 1), peal_tmp(c, tree));
    if (t->parent >= 0)
        peal_send(s, t->parent, peal_out(tree, 1));
}

static void down(peal_sched *s, const peal_tree *t, int tree)
{
    peal_lane(s, tree);
    if (t->parent >= 0)
        peal_recv(s, t->parent, peal_out(tree, 1));
    for (int c = 0; c < t->nchildren; c++)
        peal_send(s, t->child[c], peal_out(tree, 1));
}

/* A leaf waits for nobody on the way up, and nobody waits for it on the way down. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    peal_tree trees[2] = {peal_tree_of(0, p->nranks, rank), peal_tree_of(1, p->nranks, rank)};
    int inner = trees[1].nchildren > 0, leaf = !inner;

    peal_blocks(s, 2);
    peal_copy(s, peal_out(0, 2), peal_in(0, 2));
    up(s, &trees[leaf], leaf);
    up(s, &trees[inner], inner);
    down(s, &trees[inner], inner);
    down(s, &trees[leaf], leaf);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, most = n < 4 ? n : 4;
    return (peal_bill){.blocks = 2, .rounds = 2 * peal_log2_floor(n), .sent = n > 1 ? most : 0, .slots = n < 3 ? n - 1 : 2};
}

const peal_algo peal_algo_allreduce_double_binary_tree = {"double_binary_tree", PEAL_ALLREDUCE, 0, NULL, build, bill};
