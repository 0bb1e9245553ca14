/* The GPUs of this host and the paths between them, as NVML knows them; it sees also those that a process hides from CUDA. */
#ifndef PEALI_GPUS_H
#define PEALI_GPUS_H

#include <stdbool.h>

enum { PEALI_GPUS = 32 };

/* What lies between two GPUs, the nearest first. */
typedef enum peali_gpu_path {
    PEALI_PATH_SELF,
    PEALI_PATH_NVLINK,
    PEALI_PATH_PCIE, /* through PCI switches, or on one board */
    PEALI_PATH_HOST, /* through the host: its bridges, its memory, or between its sockets */
} peali_gpu_path;

typedef struct peali_gpus {
    int n;
    struct {
        char name[96];
        char bus[32]; /* PCI: 00000000:0f:00.0 */
    } gpus[PEALI_GPUS];
    struct {
        peali_gpu_path path;
        int nvlinks;   /* that can carry what one sends to the other */
        bool no_peers; /* the driver does not let them access each other's memory */
    } between[PEALI_GPUS][PEALI_GPUS];
} peali_gpus;

/* True where GPUS was filled; else WHY gets a constant text with what is missing. The first call takes a while. Threads: any. */
bool peali_gpus_find(peali_gpus *gpus, const char **why);

#endif
