/*
 * What the ranks of a net over UCX tell each other before its first message: an address for each rail, which UCX unpacks without
 * looking at a length, so that it travels in an envelope and is checked first.
 */
#ifndef PEALI_UCX_CARDS_H
#define PEALI_UCX_CARDS_H

#include "net/envelope.h"
#include "net/ucx_hub.h"

/* What a card begins with. */
typedef struct peali_ucx_head {
    unsigned char envelope[PEALI_ENVELOPE_HEAD]; /* of all behind it */
    uint32_t rank, id;
    uint64_t host;
    uint32_t near, nrails; /* as many workers are behind it, each a peali_ucx_card and an address */
} peali_ucx_head;

/* The card of HEAD and the workers of its HUBS, of BYTES; the caller frees it. NULL: no memory. */
peali_ucx_head *peali_ucx_card_make(const peali_ucx_head *head, peali_ucx_hub *const *hubs, size_t *bytes);

/* Is the card of RANK, in the STRIDE bytes at CARD, what it sent? Then HEAD is its head; else it is logged for READER. */
bool peali_ucx_head_open(const void *card, size_t stride, int reader, int rank, peali_ucx_head *head);

/* What to call a worker's device; there is no name where UCX takes what it likes. */
static inline const char *peali_ucx_card_device(const peali_ucx_card *card)
{
    return card->device[0] ? card->device : "any device";
}

/* Worker NUMBER of CARD; returns its address. Of all that follows, cards have been opened. */
const void *peali_ucx_card_worker(const void *card, int number, peali_ucx_card *worker);

/* The number of the worker for DEVICE among those of CARD; -1: there is none. */
int peali_ucx_card_find(const void *card, const char *device);

/*
 * Puts the devices that are in all N cards, which lie STRIDE bytes apart, in the order of the first, into NAMES; how many. Where
 * there are any, what is near by BERTHS is numbered by them.
 */
int peali_ucx_cards_common(const void *cards, size_t stride, int n, char (*names)[PEALI_UCX_DEVICE], peali_ucx_berth *berths);

#endif
