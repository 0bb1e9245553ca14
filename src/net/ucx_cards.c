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

const void *peali_ucx_card_worker(const void *card, int number, peali_ucx_card *worker)
{
    const char *at = (const char *)card + sizeof(peali_ucx_head);
    memcpy(worker, at, sizeof(*worker));
    for (; number > 0; number--) {
        at += sizeof(*worker) + worker->bytes;
        memcpy(worker, at, sizeof(*worker));
    }
    return at + sizeof(*worker);
}

int peali_ucx_card_find(const void *card, const char *device)
{
    peali_ucx_head head;
    peali_ucx_card worker;
    memcpy(&head, card, sizeof(head));
    for (int i = 0; i < (int)head.nrails; i++) {
        (void)peali_ucx_card_worker(card, i, &worker);
        if (strcmp(worker.device, device) == 0)
            return i;
    }
    return -1;
}

static bool all_have(const char *cards, size_t stride, int n, const char *device)
{
    int have = 0;
    while (have < n && peali_ucx_card_find(cards + (size_t)have * stride, device) >= 0)
        have++;
    return have == n;
}

static uint32_t near_by(const void *card, char (*names)[PEALI_UCX_DEVICE], int n, uint32_t before)
{
    uint32_t near = 0;
    for (int rail = 0; rail < n; rail++)
        near |= (before >> peali_ucx_card_find(card, names[rail]) & 1) << rail;
    return near;
}

int peali_ucx_cards_common(const void *cards, size_t stride, int n, char (*names)[PEALI_UCX_DEVICE], peali_ucx_berth *berths)
{
    peali_ucx_head head;
    int found = 0;
    memcpy(&head, cards, sizeof(head));
    for (int i = 0; i < (int)head.nrails; i++) {
        peali_ucx_card worker;
        (void)peali_ucx_card_worker(cards, i, &worker);
        if (peali_ucx_card_find(cards, worker.device) == i && all_have(cards, stride, n, worker.device))
            memcpy(names[found++], worker.device, sizeof(worker.device));
    }
    for (int r = 0; r < n && found > 0; r++)
        berths[r].near = near_by((const char *)cards + (size_t)r * stride, names, found, berths[r].near);
    return found;
}
