/*
 * Rails: the network devices over which UCX's messages are spread, and which of them a message takes.
 *
 * Rail i of one rank meets rail i of another: a process lists its devices in one order, as all processes of its host do. Where
 * some have fewer, those of one name meet.
 */
#ifndef PEALI_UCX_RAILS_H
#define PEALI_UCX_RAILS_H

#include <stddef.h>
#include <stdint.h>

enum {
    PEALI_UCX_RAILS = 16,
    PEALI_UCX_LIST = 64,   /* devices that are told apart at all */
    PEALI_UCX_DEVICE = 40, /* bytes of a name: UCX's have at most 32 */
};

/* Names of network devices. */
typedef struct peali_ucx_list {
    int n;
    char name[PEALI_UCX_LIST][PEALI_UCX_DEVICE];
} peali_ucx_list;

typedef struct peali_ucx_rails {
    int n;                                        /* 1 or more */
    char device[PEALI_UCX_RAILS][PEALI_UCX_DEVICE]; /* "": whatever UCX takes by itself */
    uint32_t near;                                /* bit per device */
    uint64_t host;                                /* a name of this host */
    int number;                                   /* of the workers for each device, from 0 */
} peali_ucx_rails;

/* What decides over a rank's messages. */
typedef struct peali_ucx_berth {
    uint64_t host;
    uint32_t near;  /* rails near to the rank; then those that it sends on */
    uint16_t turn;  /* its number among its host's ranks */
} peali_ucx_berth;

/*
 * A rank sends on the rails near to it, and on those that are near to no rank of its host, which would lie idle else. From what N
 * ranks told, in rank order, it follows for all of them, for the first NRAILS rails.
 */
void peali_ucx_berths(peali_ucx_berth *berths, int n, int nrails);

/* The rank of another host that follows RANK, of N in a ring; -1: there is none. */
int peali_ucx_next_host(const peali_ucx_berth *berths, int n, int rank);

/*
 * The rail of the message with TAG from a rank to another. Slices take the sender's rails in turn, and ranks of one host and lanes
 * begin with different ones. Within a host it is always the first.
 */
int peali_ucx_rail(const peali_ucx_berth *from, const peali_ucx_berth *to, uint32_t tag);

#endif
