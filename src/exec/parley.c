/* One small message each way per pair of ranks and word; the word of an earlier call, left over from a slow one, is passed over. */
#include "exec/parley.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { TAG = (1 << PEALI_NET_TAG_BITS) - 1 }; /* of the lane behind the last (PEAL_LANES) */

typedef struct line {
    peali_word sent, heard, last; /* last: the newest that was heard; magic 0: none yet */
    peali_net_req send, recv;
    bool sending, listening;
} line;

struct peali_parley {
    peali_net *net;
    peali_word word;
    bool open;
    line *lines; /* per rank */
};

peal_status peali_parley_create(peali_net *net, peali_parley **out)
{
    peali_parley *p = peali_alloc(1, sizeof *p);
    if (!p)
        return PEAL_ERR_MEMORY;
    p->net = net;
    *out = p;
    return PEAL_OK;
}

void peali_parley_destroy(peali_parley **parley)
{
    peali_parley *p = *parley;
    *parley = NULL;
    if (!p)
        return;
    for (int r = 0; p->lines && r < p->net->nranks; r++) {
        if (p->lines[r].sending)
            p->net->cancel(p->net, &p->lines[r].send);
        if (p->lines[r].listening)
            p->net->cancel(p->net, &p->lines[r].recv);
    }
    peali_free(p->lines);
    peali_free(p);
}

/* One word at a time: the next one follows when this one is over (peali_parley_told). */
static void tell(peali_parley *p, int rank)
{
    line *l = &p->lines[rank];
    if (l->sending && p->net->test(p->net, &l->send) == PEAL_IN_PROGRESS)
        return;
    l->sending = false;
    if (memcmp(&l->sent, &p->word, sizeof l->sent) == 0)
        return;
    l->sent = p->word;
    l->sending = p->net->send(p->net, rank, TAG, &l->sent, sizeof l->sent, &l->send) == PEAL_OK;
}

static void listen(peali_parley *p, int rank)
{
    line *l = &p->lines[rank];
    if (!l->listening)
        l->listening = p->net->recv(p->net, rank, TAG, &l->heard, sizeof l->heard, &l->recv) == PEAL_OK;
}

void peali_parley_open(peali_parley *p, const peali_word *word)
{
    if (p->open && memcmp(&p->word, word, sizeof *word) == 0)
        return;
    if (!p->lines)
        p->lines = peali_alloc((size_t)p->net->nranks, sizeof *p->lines);
    if (!p->lines)
        return; /* without memory there is no word, and the deadline ends the call */
    p->open = true;
    p->word = *word;
    for (int r = 0; r < p->net->nranks; r++)
        if (r != p->net->rank) {
            tell(p, r);
            listen(p, r);
        }
}

static void hear(peali_parley *p, int rank)
{
    line *l = &p->lines[rank];
    if (!l->listening)
        return;
    peal_status status = p->net->test(p->net, &l->recv);
    if (status == PEAL_IN_PROGRESS)
        return;
    l->listening = false;
    if (status != PEAL_OK || l->heard.mine.magic != PEALI_SIGNATURE_MAGIC)
        return;
    l->last = l->heard;
    listen(p, rank);
}

bool peali_parley_quarrel(peali_parley *p, peali_word *word)
{
    const peali_signature *mine = &p->word.mine;
    for (int r = 0; p->open && r < p->net->nranks; r++) {
        if (r == p->net->rank)
            continue;
        hear(p, r);
        const peali_word *last = &p->lines[r].last;
        if (!last->mine.magic || last->mine.sequence != mine->sequence)
            continue;
        if (last->one_rank >= 0) {
            *word = *last;
            return true;
        }
        if (!peali_signature_equal(&last->mine, mine)) {
            *word = (peali_word){*mine, *mine, last->mine, p->net->rank, r};
            return true;
        }
    }
    return false;
}

bool peali_parley_told(peali_parley *p)
{
    bool all = true;
    for (int r = 0; p->open && r < p->net->nranks; r++) {
        if (r == p->net->rank)
            continue;
        tell(p, r);
        all &= !p->lines[r].sending;
    }
    return all;
}

int peali_parley_absent(const peali_parley *p, char *text, size_t bytes, bool *speaker)
{
    int absent = 0;
    size_t at = 0;
    *speaker = true;
    text[0] = '\0';
    for (int r = 0; p->open && r < p->net->nranks; r++) {
        const line *l = &p->lines[r];
        if (r == p->net->rank)
            continue;
        if (l->last.mine.magic && l->last.mine.sequence >= p->word.mine.sequence) {
            *speaker &= r > p->net->rank;
            continue;
        }
        if (absent++ < 16 && at < bytes)
            at += (size_t)snprintf(text + at, bytes - at, "%s%d", absent > 1 ? ", " : "", r);
    }
    if (absent > 16 && at < bytes)
        snprintf(text + at, bytes - at, " and %d more", absent - 16);
    return absent;
}
