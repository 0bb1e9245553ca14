/* Lists of schedules run in their order: a send is buffered, a receive waits for its send, which is found by counting. */
#include "program_values.h"

#include <stdlib.h>
#include <string.h>

uint64_t value_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

value value_share(int call, int slice, int rank, int block)
{
    uint64_t x = value_mix((uint64_t)(((call * 16 + slice) * 64 + rank) * 1024 + block + 1));
    return (value){x, value_mix(x)};
}

value value_fold(value a, value b)
{
    return (value){a.sum + b.sum, value_mix(a.bits * 5 + b.bits)};
}

typedef struct lists {
    const program_case *what;
    int nblocks, cursor[PROGRAM_RANKS];
    value *mem[PROGRAM_RANKS];
    value *mail[PROGRAM_RANKS]; /* of each operation that sent */
} lists;

static value *list_at(const lists *l, int rank, int buf, const peali_op *op, int e)
{
    return &l->mem[rank][buf * l->nblocks + op->first + e];
}

static int nth_send(const peal_sched *s, int to, int lane, int k)
{
    for (int i = 0; i < s->nops; i++)
        if (s->ops[i].verb == PEALI_SEND && s->ops[i].peer == to && s->ops[i].lane == lane && k-- == 0)
            return i;
    abort();
}

static bool list_step(lists *l, int rank)
{
    const peal_sched *s = l->what->sched[rank];
    int i = l->cursor[rank], k = 0;
    if (i == s->nops)
        return false;
    const peali_op *op = &s->ops[i];
    const value *data = NULL;
    if (op->verb == PEALI_RECV) {
        for (int j = 0; j < i; j++)
            k += s->ops[j].verb == PEALI_RECV && s->ops[j].peer == op->peer && s->ops[j].lane == op->lane;
        k = nth_send(l->what->sched[op->peer], rank, op->lane, k);
        if (l->cursor[op->peer] <= k)
            return false;
        data = &l->mail[op->peer][k * l->nblocks];
    }
    for (int e = 0; e < op->end - op->first; e++) {
        if (op->verb == PEALI_SEND)
            l->mail[rank][i * l->nblocks + e] = *list_at(l, rank, op->src, op, e);
        else if (op->verb == PEALI_REDUCE)
            *list_at(l, rank, op->dst, op, e) = value_fold(*list_at(l, rank, op->dst, op, e), *list_at(l, rank, op->src, op, e));
        else
            *list_at(l, rank, op->dst, op, e) = data ? data[e] : *list_at(l, rank, op->src, op, e);
    }
    l->cursor[rank]++;
    return true;
}

static value *get(int count)
{
    value *p = calloc(count > 0 ? (size_t)count : 1, sizeof *p);
    if (!p)
        abort();
    return p;
}

void program_want(const program_case *what, int call, int slice, value *want)
{
    lists l = {.what = what, .nblocks = what->sched[0]->nblocks};
    int n = what->problem->nranks;
    for (int r = 0; r < n; r++) {
        l.mem[r] = get(what->sched[r]->nbufs * l.nblocks);
        l.mail[r] = get(what->sched[r]->nops * l.nblocks);
        for (int b = 0; b < l.nblocks; b++)
            l.mem[r][b] = value_share(call, slice, r, b);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < n; r++)
            while (list_step(&l, r))
                moved = true;
    }
    for (int r = 0; r < n; r++) {
        memcpy(&want[r * l.nblocks], l.mem[r] + l.nblocks, (size_t)l.nblocks * sizeof *want);
        free(l.mem[r]);
        free(l.mail[r]);
    }
}
