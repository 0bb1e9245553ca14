/*
 * When a call does not end in good time, or ended badly, its ranks tell each other what they called. A parley sends this rank's
 * signature to every rank on a channel of its own, and listens for theirs; it never touches the messages of calls.
 */
#ifndef PEALI_PARLEY_H
#define PEALI_PARLEY_H

#include "exec/signature.h"
#include "net/net.h"

typedef struct peali_parley peali_parley;

/* Nothing is sent and no memory used before the first peali_parley_open. PEAL_OK or PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_parley_create(peali_net *net, peali_parley **out);
void peali_parley_destroy(peali_parley **parley);

/* A rank's word: what it called, and the two calls over which it failed, if it did. */
typedef struct peali_word {
    peali_signature mine;
    peali_signature one, other;     /* of ranks ONE_RANK and OTHER_RANK; they differ */
    int32_t one_rank, other_rank;   /* -1: no quarrel */
} peali_word;

/* Sends WORD to all ranks, and listens from here on. The same word a second time does nothing. */
void peali_parley_open(peali_parley *parley, const peali_word *word);

/*
 * True where a rank's word contradicts this one's, or tells of a quarrel in the same call; *WORD then names it. Drives the
 * messages.
 */
bool peali_parley_quarrel(peali_parley *parley, peali_word *word);

/* True where this rank's last word reached all ranks. */
bool peali_parley_told(peali_parley *parley);

/*
 * Lists in TEXT the ranks that have not said a word in this call or a later one; their number. Where some did, the lowest rank that
 * did is to speak for all: *SPEAKER.
 */
int peali_parley_absent(const peali_parley *parley, char *text, size_t bytes, bool *speaker);

#endif
