/* The flags of `peal bench`: nccl-tests' where they exist. */
#ifndef PEALI_FLAGS_H
#define PEALI_FLAGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <peal/peal.h>

typedef struct peali_flags {
    peal_kind kind;
    size_t min_bytes, max_bytes;
    size_t step_bytes; /* 0: sizes grow by FACTOR */
    double factor;
    int iters; /* 0: as many as fit the time */
    int warmup;
    bool check;
    unsigned types, ops; /* bit per peal_type, peal_op */
    bool place[2];       /* out of place, in place */
    const char *algo;    /* "auto", "all", or names between commas */
    bool shared;         /* buffers of peal_mem_alloc */
    bool cuda;           /* buffers on GPUs */
    bool vs_mpi, vs_nccl;
    bool registered; /* on GPUs: Peal's buffers are */
    bool ulp;        /* on GPUs: errors of sums are measured */
    int threads; /* 0: ranks are MPI processes */
    int gpus;    /* as THREADS, each with a GPU */
    int calls;   /* on GPUs: in a row, for one time */
    int graph;   /* on GPUs: in a graph, for one time; 0: none is raced */
    const char *json, *plot;
} peali_flags;

/* Fills FLAGS; -1, or the exit code where that is all there was to do (help, or an error that was printed by the first rank). */
int peali_flags_parse(int argc, char **argv, peali_flags *flags);

/* SIZE ("16", "64M") in bytes, 0 where TEXT is none. */
size_t peali_flags_size(const char *text);

/* A number above 0, 0 where TEXT is none; between two sizes so much at least, or there are too many of them. */
double peali_flags_real(const char *text);
static const double PEALI_FLAGS_FACTOR = 1.01;

/* NAMES is "all" or names between commas (known: or "auto"): are all of them algorithms of KIND; is NAME among them? */
bool peali_flags_known(peal_kind kind, const char *names);
bool peali_flags_listed(const char *name, const char *names);

/* Of sizes that are in the wrong order, what to say: "64M < 1G". */
enum { PEALI_FLAGS_ORDER = 56 };
const char *peali_flags_order(size_t last, size_t first, char text[PEALI_FLAGS_ORDER]);

/* Where getopt_long stopped: the flag that is none, or lacks a value; and what to say before its wrong value: "-b: wrong value". */
enum { PEALI_FLAGS_WORD = 48 };
const char *peali_flags_stop(char *const *argv, char text[PEALI_FLAGS_WORD]);
const char *peali_flags_wrong(char *const *argv, char text[PEALI_FLAGS_WORD]);

/* Can FILE be made, or written to? As it was before; else errno says why. */
bool peali_flags_writable(const char *file);

/*
 * FILE, and one of the same folder that takes its place when it is whole, so that no reader sees half of it. A link stays, for what
 * it leads to is replaced.
 */
typedef struct peali_flags_place {
    char file[PATH_MAX], beside[PATH_MAX + sizeof ".new"];
} peali_flags_place;
void peali_flags_find_place(const char *file, peali_flags_place *at);

/*
 * Known before MPI starts. launched: how many processes a launcher started, this one among them (where it does not say, 1); 0: no
 * launcher did. first: that, or as rank 0: the one that prints.
 */
int peali_flags_launched(void);
bool peali_flags_first(void);

/* Why ranks cannot be N threads of this process, as FLAG asks for: a launcher started several. NULL: they can. */
const char *peali_flags_crowd(const char *flag, int n);

#endif
