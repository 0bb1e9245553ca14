/* All of a card is under one checksum, so what stands in it of lengths is believed. */
#include "net/ucx_cards.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

peali_ucx_head *peali_ucx_card_make(const peali_ucx_head *head, peali_ucx_hub *const *hubs, size_t *bytes)
{
    *bytes = sizeof(*head);
    for (uint32_t i = 0; i < head->nrails; i++)
        *bytes += sizeof(peali_ucx_card) + hubs[i]->card.bytes;
    peali_ucx_head *card = peali_alloc(1, *bytes);
    if (!card)
        return NULL;
    *card = *head;
    char *at = (char *)(card + 1);
    for (uint32_t i = 0; i < head->nrails; i++) {
        const peali_ucx_hub *hub = hubs[i];
        memcpy(at, &hub->card, sizeof(hub->card));
        memcpy(at + sizeof(hub->card), hub->address, hub->card.bytes);
        at += sizeof(hub->card) + hub->card.bytes;
    }
    peali_envelope_seal(card, PEALI_ENVELOPE_ADDRESS, *bytes - PEALI_ENVELOPE_HEAD);
    return card;
}

bool peali_ucx_head_open(const void *card, size_t stride, int reader, int rank, peali_ucx_head *head)
{
    char why[PEALI_ENVELOPE_WHY];
    size_t bytes;
    const void *inside = peali_envelope_open(card, stride, PEALI_ENVELOPE_ADDRESS, &bytes, why);
    if (inside && bytes < sizeof(*head) - PEALI_ENVELOPE_HEAD) {
        snprintf(why, sizeof(why), "is too short");
    } else if (inside) {
        memcpy(head, card, sizeof(*head));
        if (head->rank == (uint32_t)rank)
            return true;
        snprintf(why, sizeof(why), "is that of rank %u", head->rank);
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, reader, "the ucx address of rank %d %s", rank, why);
    return false;
}
