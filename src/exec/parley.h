/*
 * When a call does not end in good time, or ended badly, its ranks tell each other what they called, and what they called before. A
 * parley sends this rank's word to every rank on a channel of its own, and listens for theirs; it never touches the messages of
 * calls.
 */
#ifndef PEALI_PARLEY_H
#define PEALI_PARLEY_H

#include "exec/signature.h"
#include "net/net.h"

typedef struct peali_parley peali_parley;

/* Nothing is sent and no memory used before the first peali_parley_open. PEAL_OK or PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_parley_create(peali_net *net, peali_parley **out);

/* From here on words go by NET, which is over the one they went by so far. */
void peali_parley_share(peali_parley *parley, peali_net *net);
void peali_parley_destroy(peali_parley **parley);

/* Two calls that differ, of ranks ONE_RANK and OTHER_RANK; or one that failed on its rank, whatever the others called. */
typedef struct peali_quarrel {
    peali_signature one, other; /* one: magic 0: it is forgotten */
    int32_t one_rank;           /* -1: no quarrel */
    int32_t other_rank;         /* less than 0: none, but the peal_status that ONE failed with */
} peali_quarrel;

/* What the calls of those who hear of it fail with. */
static inline peal_status peali_quarrel_status(const peali_quarrel *q)
{
    return q->other_rank < 0 ? (peal_status)q->other_rank : PEAL_ERR_MISMATCH;
}

/* Takes note of a call of this rank. The last few are part of its word, and are held against what other ranks say. */
void peali_parley_note(peali_parley *parley, const peali_signature *call);

/* Holds a call of RANK against this rank's of that number, if it is remembered. */
void peali_parley_hold(peali_parley *parley, int rank, const peali_signature *theirs);

/* Sends this rank's word, with QUARREL in it, to all ranks, and listens from here on. The same word twice is sent once. */
void peali_parley_open(peali_parley *parley, const peali_quarrel *quarrel);

/* Sends it without one, for a call that ended here and may never end elsewhere. Not to who took none of the last few. */
void peali_parley_mention(peali_parley *parley);

/* Listens to RANK from here on. Furnish makes the memory for it: PEAL_OK or PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_parley_furnish(peali_parley *parley);
void peali_parley_listen(peali_parley *parley, int rank);

/* Is it over a call behind SEQUENCE? That one may end well. A call that is made whenever is behind none. */
static inline bool peali_quarrel_later(const peali_quarrel *q, uint64_t sequence)
{
    return q->one.sequence != PEALI_SIGNATURE_ANY && q->one.sequence > sequence;
}

/*
 * True where a rank tells of a quarrel, or what it called contradicts what this one did, in call SEQUENCE or one before it:
 * *QUARREL. Drives the messages.
 */
bool peali_parley_heard(peali_parley *parley, uint64_t sequence, peali_quarrel *quarrel);

/* True where all ranks know of the quarrel, and said so: none of them goes on with the call. */
bool peali_parley_settled(peali_parley *parley);

/* What RANK said, as far as it has heard of this rank's last call: nothing; or that it is in an earlier one, in this, or later. */
typedef enum peali_stand { PEALI_STAND_SILENT, PEALI_STAND_BEHIND, PEALI_STAND_HERE, PEALI_STAND_AHEAD } peali_stand;
peali_stand peali_parley_stand(const peali_parley *parley, int rank);

#endif
