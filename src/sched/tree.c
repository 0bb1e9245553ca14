/*
 * Two in-order binary trees. Positions 1 to n; the lowest set bit of a position is its height: odd ones are leaves, even ones have
 * a left child. The second tree is the first with all ranks moved on by one, so leaves become inner nodes and the reverse (with
 * odd n, one rank is a leaf in both).
 */
#include <peal/algo.h>

static int rank_at(int tree, int n, int position)
{
    return peal_mod(position - 1 - tree, n);
}

int peal_tree_root(int tree, int n)
{
    return rank_at(tree, n, 1 << peal_log2_floor(n));
}

peal_tree peal_tree_of(int tree, int n, int rank)
{
    int x = (rank + tree) % n + 1, bit = x & -x, up = (x - bit) | 2 * bit;
    peal_tree t = {.parent = -1};

    if (up > n || up < 0)
        up = x - bit; /* 0 at the root */
    if (up > 0)
        t.parent = rank_at(tree, n, up);
    if (bit == 1)
        return t;
    t.child[t.nchildren++] = rank_at(tree, n, x - bit / 2);
    for (bit /= 2; bit > 0 && x + bit > n;)
        bit /= 2;
    if (bit > 0)
        t.child[t.nchildren++] = rank_at(tree, n, x + bit);
    return t;
}
