/*
 * The network ports and GPUs of a host as the kernel shows them in /sys and /proc: how fast each link runs, how near they are to
 * each other, and what keeps the network from reading a GPU's memory. Files are read and nothing else is touched, so a recorded
 * tree of files gives the same answers as its machine.
 */
#ifndef PEALI_FABRIC_H
#define PEALI_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PEALI_FABRIC_PORTS = 64, PEALI_FABRIC_GPUS = 32 }; /* more are not looked at */

typedef struct peali_pci {
    char address[16];         /* "0000:19:00.0"; "": no such device (a port in software) */
    char path[256];           /* the bridges to it and itself, "pci0000:15/0000:15:01.0/0000:19:00.0" */
    unsigned vendor, device;
    int numa;                 /* -1: not known */
    int lanes, lanes_most;    /* of its link; 0: not known */
    int speed, speed_most;    /* of a lane, in units of 0.1 GT/s */
} peali_pci;

typedef struct peali_port {
    char device[64]; /* "mlx5_0", as long as the kernel allows */
    int number;
    peali_pci pci;
    char state[16];  /* "ACTIVE", "DOWN", "INIT"... */
    bool active;
    bool ethernet;
    int rate_mbit;   /* per second */
    char width[24];  /* "4X NDR" */
    int gid;         /* of an Ethernet port: the first that is RoCE v2 over IPv4; -1: none */
    char node[64];   /* where programs open it, "/dev/infiniband/uverbs0"; "": not known */
    bool may_open;   /* this process may */
} peali_port;

typedef struct peali_fabric {
    char host[64], kernel[64];
    char driver[32];     /* of NVIDIA, "550.54.15"; "": none */
    bool driver_is_open; /* the open kernel module */
    bool peer_memory;    /* nvidia_peermem is loaded */
    int nports, ngpus;
    peali_port port[PEALI_FABRIC_PORTS]; /* in the order of their names */
    peali_pci gpu[PEALI_FABRIC_GPUS];    /* in the order of their addresses, CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID */
} peali_fabric;

/* What /sys does not say of this process and its libraries. */
typedef struct peali_fabric_here {
    int ucx[3];            /* version; all 0: there is none */
    bool ucx_ib, ucx_cuda; /* it has these modules */
    size_t locked_bytes;   /* what this process may lock into memory; SIZE_MAX: all */
} peali_fabric_here;

/* Threads: any. */
peali_fabric_here peali_fabric_look_here(void);

/* The host whose / is at ROOT ("" for this one). NULL: no memory. The caller frees it with peali_free. Threads: any. */
peali_fabric *peali_fabric_read(const char *root);

/* How far two devices are apart, in the words of nvidia-smi: "PIX", "PXB", "PHB", "NODE" or "SYS"; smaller is nearer. */
typedef enum peali_distance { PEALI_PIX, PEALI_PXB, PEALI_PHB, PEALI_NODE, PEALI_SYS } peali_distance;
peali_distance peali_fabric_distance(const peali_pci *a, const peali_pci *b);

/* What keeps all GPUs from being read by the network directly; NULL: nothing that shows here. Threads: any. */
const char *peali_fabric_no_direct(const peali_fabric *fabric, const peali_fabric_here *here);

/*
 * Should the device of UCX that is named RAIL ("mlx5_0:1") read the memory of the GPU at the PCI address GPU by itself? Not where
 * more than switches are between them: then host memory is as good a way. WHY, of BYTES, says why not. Threads: any.
 */
bool peali_fabric_direct(const peali_fabric *fabric, const peali_fabric_here *here, const char *gpu, const char *rail, char *why,
                         size_t bytes);
const char *peali_distance_name(peali_distance distance); /* "PIX" */

/*
 * Does port P run slower than it should: than another of its kind, or its slot than the port? WHY, of BYTES, then says how.
 * Threads: any.
 */
bool peali_fabric_slow(const peali_fabric *fabric, int p, char *why, size_t bytes);

/* Logs a warning of RANK for each slow port of the host whose / is at ROOT. Threads: any. */
void peali_fabric_warn(const char *root, int rank);

/* One screen for people. Threads: any. */
void peali_fabric_print(const peali_fabric *fabric, const peali_fabric_here *here, FILE *to);

#endif
