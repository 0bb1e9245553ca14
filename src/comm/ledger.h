/*
 * What the signatures mean that kernels compare: a kernel knows 32 bits of a peer's call, and people want all of it. Each rank
 * keeps a ledger of its calls on device memory where its peers can read it.
 */
#ifndef PEALI_LEDGER_H
#define PEALI_LEDGER_H

#include <stdbool.h>

#include "exec/signature.h"

enum { PEALI_LEDGER_ENTRIES = 512, PEALI_LEDGER_HOW = 96 };

/* A call, whenever it is made, and how it is done: "one_shot, ll, at most 4 CTAs, in a graph". */
typedef struct peali_ledger_call {
    peali_signature call;
    char how[PEALI_LEDGER_HOW];
} peali_ledger_call;

/* Zeroed memory is an empty one. Pages that no entry is on cost nothing. */
typedef struct peali_ledger {
    int parted; /* ranks that have let go of it, and of the GPU of its owner */
    struct {
        uint64_t key; /* 0: none */
        uint64_t words[sizeof(peali_ledger_call) / sizeof(uint64_t)];
    } entries[PEALI_LEDGER_ENTRIES];
} peali_ledger;

/* Notes that KEY, which is not 0, stands for CALL; another key may lose its place. Threads: one writes. */
void peali_ledger_write(peali_ledger *ledger, uint32_t key, const peali_ledger_call *call);

/* The call of KEY; false where it is not known here. Threads: any. */
bool peali_ledger_read(const peali_ledger *ledger, uint32_t key, peali_ledger_call *call);

#endif
