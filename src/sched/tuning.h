/*
 * Tuning tables: which algorithm a call takes, and how large its slices are. Text, one row a line, `#` begins a comment line:
 *
 *     # collective transport ranks bytes algorithm          slice_bytes
 *     allreduce    mpi       4     16k   recursive_doubling 0
 *     allreduce    mpi       4     inf   ring               256k
 *
 * Transports are those of messages (mpi, ucx, loop), and where all ranks share memory `shm`, and `direct` for buffers that they all
 * see (peal_mem_alloc). Rows of `hosts` hold between several hosts whose ranks share memory within each, whatever their messages go
 * by; what they count as ranks is hosts.
 *
 * For that collective over that transport (`*`: any) with about that many ranks, up to BYTES of the vector (allgather and
 * reduce-scatter: of all ranks together) take the algorithm, in slices of SLICE_BYTES (0: in one). Rows of one collective,
 * transport and number of ranks stand together, bytes ascending, and the last has `inf`. A row whose algorithm does not fit, or
 * has levels where there is one node, is passed over for the next: so a fallback stands below with the same bytes.
 */
#ifndef PEALI_TUNING_H
#define PEALI_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"

enum {
    PEALI_TUNING_KINDS = PEAL_BARRIER, /* the collectives that have algorithms, and so rows: all but the last, the barrier */
    PEALI_TUNING_ROWS = 1024, /* the most that a table has, the built-in rows among them */
    PEALI_TUNING_WHY = 256,
};

/*
 * W. More slices in flight than a pipeline is deep gain nothing; 4 covers trees to 16 ranks (LOWERING, "Order of slices"). Between
 * hosts more of them wait for each other in the sockets of a link, and the oldest, which the next round waits for, waits longest.
 */
enum { PEALI_TUNING_WINDOW = 4 };

typedef struct peali_tuning_row {
    peal_kind kind;
    char transport[8];
    int32_t ranks;
    int32_t line; /* in its file, or in the built-in text */
    bool given;   /* by a file; else built in */
    size_t bytes; /* SIZE_MAX: inf */
    size_t slice_bytes;
    const peal_algo *algo;
} peali_tuning_row;

/* Plain data. The rows of a file come first, then the built-in ones, for the collectives and transports that the file lacks. A file
 * that has a collective for `shm` has it for `direct`, too. */
typedef struct peali_tuning {
    int nrows, ngiven;
    peali_tuning_row rows[PEALI_TUNING_ROWS];
} peali_tuning;

/*
 * Reads the table of file PATH (NULL: none), and the built-in one; false and WHY where it is unreadable or malformed.
 *
 * Threads: any.
 */
bool peali_tuning_read(const char *path, peali_tuning *tuning, char why[PEALI_TUNING_WHY]);

/*
 * This process' table: read once, as PEAL_TUNING has it, and constant afterwards. NULL where that file is wrong, or PEAL_ALGO
 * names no algorithm, which is logged once. Threads: any.
 */
const peali_tuning *peali_tuning_get(void);

/* A hash of what the table says, but for comments and layout. */
uint64_t peali_tuning_hash(const peali_tuning *tuning);

/*
 * The rows that decide: those of the nearest number of ranks by ratio; of equally near ones, those that name the transport. On
 * NHOSTS hosts, more than one, rows of `hosts` come first.
 */
typedef struct peali_tuning_span {
    const peali_tuning_row *rows;
    int nrows;
} peali_tuning_span;
peali_tuning_span peali_tuning_find(const peali_tuning *tuning, peal_kind kind, const char *transport, int nranks, int nhosts);

/* Where all buffers were seen: rows of `direct`, unless a file has some for TRANSPORT, and none for that. */
peali_tuning_span peali_tuning_find_seen(const peali_tuning *tuning, peal_kind kind, const char *transport, int nranks, int nhosts);

typedef struct peali_tuning_choice {
    const peal_algo *algo;
    size_t slice_bytes;
    const peali_tuning_row *row; /* that decided; NULL: none fits, and ALGO is the first of all algorithms that does */
} peali_tuning_choice;

/* For BYTES of PROBLEM. A pure function; ALGO is NULL only where no algorithm fits. Threads: any. */
peali_tuning_choice peali_tuning_choose(peali_tuning_span span, const peal_problem *problem, size_t bytes);

enum {
    PEALI_TUNING_SLICES = 1 << 15, /* tags tell 2^16 of them apart; half of them keeps a fast rank's next call apart too */
    PEALI_TUNING_STAGED = 16 << 20, /* bytes of the longest slice that is staged: each rank takes up to 2 W of them */
};

/* K: the slices of BYTES. */
static inline size_t peali_tuning_slices(size_t bytes, size_t slice_bytes)
{
    size_t slices = slice_bytes ? (bytes - (bytes > 0)) / slice_bytes + 1 : 1;
    return slices < PEALI_TUNING_SLICES ? slices : PEALI_TUNING_SLICES;
}

/*
 * W where slices land in areas (push): more of them in flight would not stay in cache, and programs within a host are short. But
 * of many ranks one or another has always lost its core, and holds up all others as soon as they are W slices ahead. Ordinary
 * memory, 64 ranks on 64 cores of a virtual machine whose host takes some of them away, ms with W 2, 4 and 8: 4 MiB 25.6, 16.5,
 * 14.2; 16 MiB 97.8, 62.5, 40.1; 64 MiB 323, 183, 146. One that was left alone was not had. 16 and 32 ranks on 32 cores take 0.95
 * to 1.3 times as long with 3 or 4; MANY is halfway between.
 */
static inline int peali_tuning_landings(int nranks)
{
    enum { MANY = 48 };
    return nranks < MANY ? 2 : 4;
}

/* Is that a transport's name, or `*`? */
bool peali_tuning_transport(const char *name);

/* The collective of that name that has algorithms, or -1. */
int peali_tuning_kind(const char *name);

#endif
