/* Schedules for test_check.c: defects are in as few operations as show them, and what check says of them names the rank. */
#include "check_samples.h"

static void add(peal_sched *s, int peer, int slot)
{
    peal_recv(s, peer, peal_tmp(slot, 0));
    peal_reduce_into(s, peal_out(0, 1), peal_tmp(slot, 0));
}

static void begin(peal_sched *s)
{
    peal_blocks(s, 1);
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
}

/* Right ones, of every kind. */

static void swap_two(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    peal_send(s, 1 - rank, peal_out(0, 1));
    add(s, 1 - rank, 0);
}

static void spread(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    if (rank != p->root) {
        peal_recv(s, p->root, peal_out(0, 1));
        return;
    }
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (int r = 0; r < p->nranks; r++)
        if (r != rank)
            peal_send(s, r, peal_out(0, 1));
}

static void collect(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    if (rank != p->root) {
        peal_send(s, p->root, peal_in(0, 1));
        return;
    }
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (int r = 0; r < p->nranks; r++)
        if (r != rank)
            add(s, r, 0);
}

static void gather_all(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_blocks(s, n);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_out(rank, 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_out(peal_mod(rank - i, n), 1));
}

static void scatter_sums(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_blocks(s, n);
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_in(peal_mod(rank + i, n), 1));
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 1; i < n; i++) {
        peal_recv(s, peal_mod(rank - i, n), peal_tmp(i, rank));
        peal_reduce_into(s, peal_out(rank, 1), peal_tmp(i, rank));
    }
}

/* Everybody's vector is received by everybody, then summed in rank order into scratch. */
static void in_order(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_blocks(s, 1);
    peal_copy(s, peal_tmp(rank, 0), peal_in(0, 1));
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_in(0, 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_tmp(peal_mod(rank - i, n), 0));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, peal_tmp(0, 0), peal_tmp(r, 0));
    peal_copy(s, peal_out(0, 1), peal_tmp(0, 0));
}

/* A range that wraps, through a slot: blocks 2, 3, 0 of 4 travel in one call. */
static void wrapped(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 4);
    if (rank == 0) {
        peal_copy(s, peal_out(0, 4), peal_in(0, 4));
        peal_send(s, 1, peal_out(2, 3));
        peal_send(s, 1, peal_out(1, 1));
        return;
    }
    peal_recv(s, 0, peal_tmps(0, 2, 3));
    peal_copy(s, peal_out(2, 3), peal_tmps(0, 2, 3));
    peal_recv(s, 0, peal_out(1, 1));
}

/* What a slot holds is read part by part. */
static void parts(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 4);
    if (rank == 0) {
        peal_copy(s, peal_out(0, 4), peal_in(0, 4));
        peal_send(s, 1, peal_out(1, 3));
        peal_send(s, 1, peal_out(0, 1));
        return;
    }
    peal_recv(s, 0, peal_tmps(0, 1, 3));
    peal_copy(s, peal_out(2, 2), peal_tmps(0, 2, 2));
    peal_copy(s, peal_out(1, 1), peal_tmps(0, 1, 1));
    peal_recv(s, 0, peal_out(0, 1));
}

/* A slot is one piece where it is written. */
static void part_added_to(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 2);
    peal_copy(s, peal_tmps(0, 0, 2), peal_in(0, 2));
    peal_reduce_into(s, peal_tmp(0, 1), peal_in(1, 1));
}

/* One that wraps is two. */
static void part_of_wrapped(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 4);
    peal_copy(s, peal_tmps(0, 2, 3), peal_in(2, 3));
    peal_copy(s, peal_out(0, 1), peal_tmp(0, 0));
}

static void two_lanes(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 2);
    for (int half = 0; half < 2; half++) {
        peal_lane(s, rank == 0 ? half : 1 - half);
        if (rank == 0)
            peal_send(s, 1, peal_in(half, 1));
        else
            peal_recv(s, 0, peal_out(1 - half, 1));
    }
    if (rank == 0)
        peal_copy(s, peal_out(0, 2), peal_in(0, 2));
}

/* Wrong values. */

static void twice(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    peal_send(s, 1 - rank, peal_out(0, 1));
    add(s, 1 - rank, 0);
    peal_reduce_into(s, peal_out(0, 1), peal_tmp(0, 0));
}

static void share_lost(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_recv(s, 1 - rank, peal_tmp(0, 0));
    if (rank == 0)
        peal_reduce_into(s, peal_out(0, 1), peal_tmp(0, 0));
}

static void unwritten_out(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    add(s, 1 - rank, 0);
}

static void unwritten_slot(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_recv(s, 1 - rank, peal_tmp(0, 0));
    peal_reduce_into(s, peal_out(0, 1), peal_tmp(1, 0));
}

static void slot_of_another_block(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 2);
    peal_copy(s, peal_out(0, 2), peal_in(0, 2));
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_recv(s, 1 - rank, peal_tmp(0, 0));
    peal_reduce_into(s, peal_out(1, 1), peal_tmp(0, 1));
}

static void out_not_written(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 2);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
}

/* The root has its vector in IN alone: right in place, not written where OUT is other memory. */
static void root_copies_not(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    if (rank == p->root)
        peal_send(s, 1 - rank, peal_in(0, 1));
    else
        peal_recv(s, 1 - rank, peal_out(0, 1));
}

static void foreign_in(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, p->nranks);
    peal_copy(s, peal_out(0, p->nranks), peal_in(0, p->nranks));
}

static void foreign_out(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    if (rank == p->root)
        add(s, 1 - rank, 0);
    else
        peal_send(s, p->root, peal_out(0, 1));
}

static void in_after_out(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    if (rank == 0) {
        peal_send(s, 1, peal_in(0, 1));
        peal_copy(s, peal_out(0, 1), peal_in(0, 1));
        add(s, 1, 0);
        return;
    }
    peal_recv(s, 0, peal_out(0, 1));
    peal_send(s, 0, peal_in(0, 1));
    peal_reduce_into(s, peal_out(0, 1), peal_in(0, 1));
}

static void in_added_late(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    peal_copy(s, peal_tmp(0, 0), peal_in(0, 1));
    peal_send(s, 1 - rank, peal_tmp(0, 0));
    peal_recv(s, 1 - rank, peal_tmp(1, 0));
    peal_copy(s, peal_out(0, 1), peal_tmp(1, 0));
    peal_reduce_into(s, peal_out(0, 1), peal_in(0, 1));
}

/* Wrong messages. */

static void other_range(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 2);
    peal_copy(s, peal_out(0, 2), peal_in(0, 2));
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_recv(s, 1 - rank, peal_tmp(0, rank));
}

static void send_alone(peal_sched *s, const peal_problem *p, int rank)
{
    swap_two(s, p, rank);
    if (rank == 1)
        peal_send(s, 0, peal_out(0, 1));
}

static void recv_alone(peal_sched *s, const peal_problem *p, int rank)
{
    swap_two(s, p, rank);
    if (rank == 1)
        peal_recv(s, 0, peal_tmp(1, 0));
}

static void other_lane(peal_sched *s, const peal_problem *p, int rank)
{
    peal_lane(s, rank);
    swap_two(s, p, rank);
}

/* No progress. */

static void receive_first(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    begin(s);
    add(s, peal_mod(rank - 1, n), 0);
    peal_send(s, peal_mod(rank + 1, n), peal_out(0, 1));
}

static void overwrite_early(peal_sched *s, const peal_problem *p, int rank)
{
    begin(s);
    peal_send(s, 1 - rank, peal_out(0, 1));
    peal_recv(s, 1 - rank, peal_out(0, 1));
}

/* Wrong sums. */

static void own_order(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    begin(s);
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_in(0, 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_tmp(i, 0));
    for (int i = 1; i < n; i++)
        peal_reduce_into(s, peal_out(0, 1), peal_tmp(i, 0));
}

/* Wrong form. */

static void blocks_differ(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1 + rank);
}

static void undivided(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 3);
}

static void bad_argument(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    peal_send(s, rank, peal_in(0, 1));
}

const sample samples[] = {
    {"swap", PEAL_ALLREDUCE, 2, 0, swap_two, {1, 1, 1, 1}, NULL, 1},
    {"spread", PEAL_BROADCAST, 5, 3, spread, {1, 1, 4, 0}, NULL, 0},
    {"collect", PEAL_REDUCE, 5, 2, collect, {1, 1, 1, 1}, NULL, 0},
    {"gather_all", PEAL_ALLGATHER, 5, 0, gather_all, {5, 1, 4, 0}, NULL, 0},
    {"scatter_sums", PEAL_REDUCE_SCATTER, 5, 0, scatter_sums, {5, 1, 4, 5}, NULL, 0},
    {"in_order", PEAL_ALLREDUCE, 7, 0, in_order, {1, 1, 6, 7}, NULL, 1},
    {"in_order", PEAL_ALLREDUCE, 70, 0, in_order, {1, 1, 69, 70}, NULL, 1},
    {"wrapped", PEAL_BROADCAST, 2, 0, wrapped, {4, 1, 4, 1}, NULL, 0},
    {"two_lanes", PEAL_BROADCAST, 2, 0, two_lanes, {2, 1, 2, 0}, NULL, 0},
    {"parts", PEAL_BROADCAST, 2, 0, parts, {4, 1, 4, 1}, NULL, 0},

    {"twice", PEAL_ALLREDUCE, 2, 0, twice, {1, 1, 1, 1},
     "allreduce twice, n 2, rank 0, operation 4 (reduce OUT block 0 from tmp 0): sums block 0 with the share of rank 1 on both", 0},
    {"share_lost", PEAL_ALLREDUCE, 2, 0, share_lost, {1, 1, 1, 1},
     "rank 1: ends with block 0 of OUT lacking the share of rank 0", 0},
    {"unwritten_out", PEAL_ALLREDUCE, 2, 0, unwritten_out, {1, 1, 1, 1},
     "rank 0, operation 0 (send OUT block 0 to rank 1 lane 0): reads block 0 of OUT, which nothing wrote", 0},
    {"unwritten_slot", PEAL_ALLREDUCE, 2, 0, unwritten_slot, {1, 1, 1, 2},
     "rank 0, operation 3 (reduce OUT block 0 from tmp 1): reads tmp 1, which nothing wrote", 0},
    {"slot_of_another_block", PEAL_ALLREDUCE, 2, 0, slot_of_another_block, {2, 1, 1, 1},
     "rank 1, operation 3 (reduce OUT block 1 from tmp 0): reads tmp 0, which holds block 0", 0},
    {"part_added_to", PEAL_ALLREDUCE, 2, 0, part_added_to, {2, 0, 0, 1},
     "rank 0, operation 1 (reduce tmp 0 block 1 from IN): reads tmp 0, which holds blocks 0..1", 0},
    {"part_of_wrapped", PEAL_ALLREDUCE, 2, 0, part_of_wrapped, {4, 0, 0, 1},
     "rank 0, operation 2 (copy OUT block 0 from tmp 0): reads tmp 0, which holds blocks 2..3", 0},
    {"out_not_written", PEAL_ALLREDUCE, 2, 0, out_not_written, {2, 0, 0, 0}, "rank 0: ends with block 0 of OUT lacking", 0},
    {"out_not_written", PEAL_BROADCAST, 2, 0, out_not_written, {2, 0, 0, 0},
     "rank 1, operation 0 (copy OUT block 1 from IN): reads block 1 of IN, which this rank is not given", 0},
    {"root_copies_not", PEAL_BROADCAST, 2, 1, root_copies_not, {1, 1, 1, 0},
     "root 1, rank 1: ends with block 0 of OUT not written", 0},
    {"foreign_in", PEAL_ALLGATHER, 3, 0, foreign_in, {3, 0, 0, 0},
     "rank 0, operation 0 (copy OUT blocks 0..2 from IN): reads block 1 of IN, which this rank is not given", 0},
    {"foreign_out", PEAL_REDUCE, 2, 1, foreign_out, {1, 1, 1, 1},
     "reduce foreign_out, n 2, root 1, rank 0, operation 0 (copy OUT block 0 from IN): writes blocks of OUT that the user", 0},
    {"in_after_out", PEAL_ALLREDUCE, 2, 0, in_after_out, {1, 1, 1, 1},
     "rank 1, operation 1 (send IN block 0 to rank 0 lane 0): sends another block 0 if IN is OUT", 0},
    {"in_added_late", PEAL_ALLREDUCE, 2, 0, in_added_late, {1, 1, 1, 2},
     "rank 1, operation 4 (reduce OUT block 0 from IN): sums block 0 with the share of rank 0 on both sides if IN is OUT", 0},

    {"other_range", PEAL_ALLREDUCE, 2, 0, other_range, {2, 1, 1, 1},
     "rank 1, operation 2 (recv tmp 0 block 1 from rank 0 lane 0): meets rank 0's operation 1 (send OUT block 0 to rank 1 lane 0), "
     "which has another range", 0},
    {"send_alone", PEAL_ALLREDUCE, 2, 0, send_alone, {1, 1, 1, 1},
     "rank 1, operation 4 (send OUT block 0 to rank 0 lane 0): rank 0 has no receive for it", 0},
    {"recv_alone", PEAL_ALLREDUCE, 2, 0, recv_alone, {1, 1, 1, 2},
     "rank 1, operation 4 (recv tmp 1 block 0 from rank 0 lane 0): there is no send for it", 0},
    {"other_lane", PEAL_ALLREDUCE, 2, 0, other_lane, {1, 1, 1, 1},
     "rank 0, operation 2 (recv tmp 0 block 0 from rank 1 lane 0): there is no send for it", 0},

    {"receive_first", PEAL_ALLREDUCE, 3, 0, receive_first, {1, 1, 1, 1},
     "(recv tmp 0 block 0 from rank 2 lane 0): deadlock: waits for rank 2, which in operation 1 (recv tmp 0 block 0 from rank 1 "
     "lane 0) waits for rank 1, which in operation 1 (recv tmp 0 block 0 from rank 0 lane 0) waits for this rank", 0},
    {"overwrite_early", PEAL_ALLREDUCE, 2, 0, overwrite_early, {1, 1, 1, 0},
     "rank 0, operation 2 (recv OUT block 0 from rank 1 lane 0): deadlock: waits for rank 1, which in operation 2", 0},

    {"own_order", PEAL_ALLREDUCE, 3, 0, own_order, {1, 1, 2, 3}, "rank 1: sums block 0 of OUT in another order", 0},
    {"collect", PEAL_REDUCE, 5, 2, collect, {1, 1, 1, 1}, "rank 2: block 0 of OUT is not summed in rank order", 1},
    {"own_order", PEAL_ALLREDUCE, 66, 0, own_order, {1, 1, 65, 66}, "rank 1: sums block 0 of OUT in another order", 0},
    {"out_not_written", PEAL_ALLREDUCE, 70, 0, blocks_differ, {1, 0, 0, 0}, "rank 1: has 2 blocks, rank 0 has 1", 0},

    {"swap", PEAL_ALLREDUCE, 2, 0, swap_two, {2, 1, 1, 1}, "the bill says 2 blocks, the schedule has 1", 0},
    {"swap", PEAL_ALLREDUCE, 2, 0, swap_two, {1, 2, 1, 1}, "the bill says 2 rounds, the schedules take 1", 0},
    {"spread", PEAL_BROADCAST, 5, 3, spread, {1, 1, 5, 0}, "rank 3: the bill says 5 blocks sent, this rank sends most, 4", 0},
    {"swap", PEAL_ALLREDUCE, 2, 0, swap_two, {1, 1, 1, 0}, "rank 0: the bill says 0 slots, this rank uses most, 1", 0},

    {"undivided", PEAL_ALLGATHER, 2, 0, undivided, {3, 0, 0, 0}, "3 blocks cannot be divided among 2 ranks", 0},
    {"bad_argument", PEAL_ALLREDUCE, 2, 0, bad_argument, {1, 1, 1, 0}, "rank 0: a bad argument", 0},
};

const size_t nsamples = sizeof samples / sizeof *samples;
