/*
 * The nets of a GPU's messages: that of the communicator, and beside it, where what a message takes of a processor is what bounds
 * it, one more for each further thread. All ranks have as many.
 */
#include "comm/device.h"

#include <string.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/log.h"
#include "topo/machine.h"

/*
 * Threads, where nobody says how many: one for each four cores of a rank; the program, and what it computes with, want some, too.
 * Allreduce by 2, 4 and 8 threads, 2 H100 as two nodes over lo, 16 cores a rank, graphs: 64 KiB 41, 35 and 35 us, 256 KiB 104, 69
 * and 51, 16 MiB 5.2, 2.7 and 1.7 ms; with other programs on 24 of the 32 cores 64 KiB 43, 67 and 171, 16 MiB 5.3, 8.9 and 6.0
 * (NCCL 167 us and 6.7 ms); on all 160, 159 and 145, 22, 16 and 11 (NCCL 13 and 35 ms). Four ranks of 16 cores with 8 threads, 4
 * H200 on a machine that had not the cores it showed: calls by 4 or 5 of them 72 and 115 us, by 8 644 (NCCL 148, 163, 138).
 */
enum {
    CORES_EACH = 4,
    ROOM = 8192, /* for a card */
};

/* What a rank tells the others, as bytes. */
typedef struct wish {
    peali_place place;
    int32_t asked; /* PEAL_PROXY_THREADS there */
    int32_t can;   /* its transport has nets beside others */
} wish;

typedef struct stock {
    int32_t nets; /* that it has */
    uint32_t card; /* the longest, in bytes */
} stock;

/* How many nets all ranks take. */
static int agreed(const peal_comm *comm, const wish *all)
{
    int least = PEALI_CLERKS;
    for (int r = 0; r < comm->nranks; r++) {
        const int cores = peali_machine_share(&all->place, sizeof *all, comm->nranks, r);
        int n = all[r].asked ? all[r].asked : cores / CORES_EACH;
        n = !all[r].can || n < 1 ? 1 : n;
        least = n < least ? n : least;
    }
    return least;
}

static void drop(peali_device *d, int left)
{
    while (d->nnets > left) {
        peali_net *net = d->nets[--d->nnets];
        if (d->nnets > 0) /* the first is the communicator's */
            net->destroy(net);
    }
}

/* Makes N, or fewer. */
static stock make(peali_device *d, int n)
{
    const peali_net *first = d->comm->net;
    stock mine = {.card = 0};
    d->nnets = 1;
    while (d->nnets < n && first->beside(first, d->nnets, &d->nets[d->nnets]) == PEAL_OK) {
        const size_t bytes = d->nets[d->nnets++]->card_bytes;
        mine.card = bytes > mine.card ? (uint32_t)bytes : mine.card;
    }
    if (mine.card > ROOM)
        drop(d, 1);
    mine.nets = d->nnets;
    return mine;
}

/* Whatever goes wrong on this rank with one of them, it takes part in the exchange of all. */
static peal_status meet(peali_device *d, const peali_call *c, size_t card, char *room)
{
    peal_status met = PEAL_OK, status = PEAL_OK;
    for (int i = 1; i < d->nnets && status == PEAL_OK; i++) {
        peali_net *net = d->nets[i];
        memcpy(room, net->card, net->card_bytes);
        status = peali_device_exchange(d->comm, c, room, room + card, card);
        if (status == PEAL_OK && met == PEAL_OK)
            met = net->meet(net, room + card, card);
    }
    return status == PEAL_OK ? met : status;
}

static peal_status furnish(peali_device *d, const peali_call *c, int n, char *room)
{
    stock mine = make(d, room ? n : 1), all[PEALI_DEVICE_RANKS];
    peal_status status = peali_device_exchange(d->comm, c, &mine, all, sizeof mine);
    for (int r = 0; r < d->comm->nranks && status == PEAL_OK; r++) {
        n = all[r].nets < n ? all[r].nets : n;
        mine.card = all[r].card > mine.card ? all[r].card : mine.card;
    }
    drop(d, n);
    return status == PEAL_OK ? meet(d, c, mine.card, room) : status;
}

peal_status peali_device_open_nets(peali_device *d, const peali_call *c)
{
    peal_comm *comm = d->comm;
    wish mine = {.asked = peali_config_get()->proxy_threads, .can = comm->net->beside != NULL}, all[PEALI_DEVICE_RANKS];
    peali_machine_place(&mine.place);
    peal_status status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    const int n = status == PEAL_OK ? agreed(comm, all) : 1;
    if (n == 1)
        return status;
    char *room = peali_alloc((size_t)comm->nranks + 1, ROOM);
    status = furnish(d, c, n, room);
    peali_free(room);
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "messages of GPUs are sent and received by %d threads", d->nnets);
    return status;
}

void peali_device_close_nets(peali_device *d)
{
    drop(d, 0);
}
