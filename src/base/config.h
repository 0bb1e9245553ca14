/*
 * The PEAL_* environment variables: one table that is parsed, printed by `peal info` and checked for unknown names.
 *
 * Read once, at first use, and constant afterwards.
 */
#ifndef PEALI_CONFIG_H
#define PEALI_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <peal/peal.h>

/* The most that PEAL_PROXY_THREADS and PEAL_MAX_CTAS take: macros, as their texts say it. */
#define PEALI_MOST_PROXY_THREADS 8
#define PEALI_MOST_CTAS 128

/* What PEAL_TIMEOUT is by itself, where there is one. */
#define PEALI_DEFAULT_TIMEOUT_NS (1800 * INT64_C(1000000000))

enum { PEALI_GDR_OFF, PEALI_GDR_AUTO, PEALI_GDR_ON };

typedef struct peali_config {
    int log_level;          /* PEAL_LOG */
    unsigned log_subsys;    /* PEAL_LOG_SUBSYS: bit per enum peali_log_subsys */
    const char *log_file;   /* PEAL_LOG_FILE, NULL: stderr */
    const char *algo;       /* PEAL_ALGO, NULL: Peal chooses */
    const char *net;        /* PEAL_NET, NULL: what the communicator was started over */
    const char *net_devices; /* PEAL_NET_DEVICES, NULL: Peal chooses */
    const char *host_id;    /* PEAL_HOST_ID, NULL: what the kernel says */
    const char *nodes;      /* PEAL_NODES, NULL: the hosts */
    const char *level;      /* PEAL_LEVEL, NULL: Peal chooses */
    const char *timeline;   /* PEAL_TIMELINE, NULL: none */
    const char *tuning;     /* PEAL_TUNING, NULL: the built-in table */
    int64_t slice_bytes;    /* PEAL_SLICE, 0: Peal chooses */
    int64_t timeout_ns;     /* PEAL_TIMEOUT, 0: none, -1: as the caller is used to */
    int64_t scratch_bytes;  /* PEAL_SCRATCH */
    bool shm;               /* PEAL_SHM */
    int proto;              /* PEAL_PROTO: a peali_cuda_proto, or their number: direct, or one more: engines; -1: Peal chooses */
    int max_ctas;           /* PEAL_MAX_CTAS, 0: Peal chooses */
    int64_t engines_bytes;  /* PEAL_ENGINES, 0: off */
    bool p2p;               /* PEAL_P2P */
    bool early;             /* PEAL_EARLY */
    int gdr;                /* PEAL_GDR */
    int proxy_threads;      /* PEAL_PROXY_THREADS, 0: Peal chooses */
    int progress_thread;    /* PEAL_PROGRESS_THREAD: 0 or 1; -1: Peal chooses */
    int interpose;          /* PEAL_INTERPOSE: 0 or 1; -1: where it is preloaded */
} peali_config;

/* The configuration; wrong variables have their default. Exported for libpeal_mpi. Threads: any. */
PEAL_PUBLIC const peali_config *peali_config_get(void);

/* PEAL_OK, or PEAL_ERR_CONFIG where a PEAL_* variable has a wrong name or value: logged once with what is valid. Threads: any. */
PEAL_MUST_CHECK peal_status peali_config_check(void);

#endif
