/* One small message each way per pair of ranks and word. What a word tells is found when it is heard, and kept: it is said once. */
#include "exec/parley.h"

#include <string.h>

#include "base/arena.h"

enum {
    MENTIONS = 16, /* at most, so that words which nobody takes do not pile up: the first of them says what counts */
    TAG = (1 << PEALI_NET_TAG_BITS) - 1, /* the last one there is; behind PEAL_LANES are those of leads, then of GPUs */
};

typedef struct word {
    uint64_t now;     /* number of the last call, */
    uint64_t answers; /* and the latest that another rank said it is in: who hears of a later one says again where it is */
    peali_signature past[PEALI_SIGNATURE_PAST]; /* by their numbers modulo that; magic 0: none */
    peali_quarrel quarrel;
} word;

typedef struct message {
    word what;
    peali_net_req req;
    bool sending;
} message;

/* A rank that is told of a quarrel while it is busy elsewhere has not taken the word before: there is room for both. */
typedef struct line {
    message sent[2]; /* without a quarrel, and with one */
    word heard;
    peali_net_req recv;
    bool listening, spoke, quarrels;
    int mentions; /* words that it may not have taken yet */
    uint64_t now, answers; /* where it spoke: in its last word */
} line;

struct peali_parley {
    peali_net *net;
    word mine;
    bool open;
    peali_quarrel found; /* by what others said */
    line *lines; /* per rank */
};

peal_status peali_parley_create(peali_net *net, peali_parley **out)
{
    peali_parley *p = peali_alloc(1, sizeof *p);
    if (!p)
        return PEAL_ERR_MEMORY;
    peali_parley_share(p, net);
    p->found.one_rank = p->mine.quarrel.one_rank = -1;
    *out = p;
    return PEAL_OK;
}

void peali_parley_share(peali_parley *parley, peali_net *net)
{
    parley->net = net->aside ? net->aside : net;
}

void peali_parley_destroy(peali_parley **parley)
{
    peali_parley *p = *parley;
    *parley = NULL;
    if (!p)
        return;
    bool forgotten = true;
    for (int r = 0; p->lines && r < p->net->nranks; r++) {
        for (int k = 0; k < 2; k++)
            if (p->lines[r].sent[k].sending)
                forgotten &= p->net->cancel(p->net, &p->lines[r].sent[k].req);
        if (p->lines[r].listening)
            forgotten &= p->net->cancel(p->net, &p->lines[r].recv);
    }
    if (forgotten)
        peali_free(p->lines);
    peali_free(p);
}

static bool sending(peali_parley *p, message *m)
{
    m->sending = m->sending && p->net->test(p->net, &m->req) == PEAL_IN_PROGRESS;
    return m->sending;
}

/* One word of a kind at a time: the next one follows when this one is over (peali_parley_settled). */
static void tell(peali_parley *p, int rank)
{
    message *m = &p->lines[rank].sent[p->mine.quarrel.one_rank >= 0];
    if (sending(p, m) || memcmp(&m->what, &p->mine, sizeof m->what) == 0)
        return;
    m->what = p->mine;
    m->sending = p->net->send(p->net, rank, TAG, &m->what, sizeof m->what, &m->req) == PEAL_OK;
}

void peali_parley_listen(peali_parley *p, int rank)
{
    line *l = &p->lines[rank];
    if (!l->listening)
        l->listening = p->net->recv(p->net, rank, TAG, &l->heard, sizeof l->heard, &l->recv) == PEAL_OK;
}

void peali_parley_note(peali_parley *p, const peali_signature *call)
{
    p->mine.now = call->sequence;
    p->mine.past[call->sequence % PEALI_SIGNATURE_PAST] = *call;
}

peal_status peali_parley_furnish(peali_parley *p)
{
    if (!p->lines)
        p->lines = peali_alloc((size_t)p->net->nranks, sizeof *p->lines);
    return p->lines ? PEAL_OK : PEAL_ERR_MEMORY;
}

void peali_parley_open(peali_parley *p, const peali_quarrel *quarrel)
{
    if (peali_parley_furnish(p) != PEAL_OK)
        return; /* without memory there is no word, and the deadline ends the call */
    p->open = true;
    p->mine.quarrel = *quarrel;
    for (int r = 0; r < p->net->nranks; r++)
        if (r != p->net->rank) {
            tell(p, r);
            peali_parley_listen(p, r);
        }
}

/* Of quarrels, that over the first call is what went wrong; over a call that is made whenever, before all others: 1 more is 0. */
static void keep(peali_parley *p, const peali_quarrel *quarrel)
{
    if (quarrel->one_rank >= 0 && (p->found.one_rank < 0 || quarrel->one.sequence + 1 < p->found.one.sequence + 1))
        p->found = *quarrel;
}

void peali_parley_hold(peali_parley *p, int rank, const peali_signature *theirs)
{
    const peali_signature *mine = &p->mine.past[theirs->sequence % PEALI_SIGNATURE_PAST];
    if (mine->magic && theirs->magic && mine->sequence == theirs->sequence && !peali_signature_alike(mine, theirs))
        keep(p, &(peali_quarrel){*mine, *theirs, p->net->rank, rank});
}

/* True where a word of RANK has come. */
static bool hear(peali_parley *p, int rank)
{
    line *l = &p->lines[rank];
    peal_status status = l->listening ? p->net->test(p->net, &l->recv) : PEAL_IN_PROGRESS;
    if (status == PEAL_IN_PROGRESS)
        return false;
    l->listening = false;
    if (status != PEAL_OK)
        return false;
    l->spoke = true;
    l->mentions = 0;
    l->now = l->heard.now;
    l->answers = l->heard.answers;
    if (l->now > p->mine.answers && l->now != PEALI_SIGNATURE_ANY)
        p->mine.answers = l->now;
    for (int k = 0; k < PEALI_SIGNATURE_PAST; k++)
        peali_parley_hold(p, rank, &l->heard.past[k]);
    l->quarrels = l->heard.quarrel.one_rank >= 0;
    keep(p, &l->heard.quarrel);
    peali_parley_listen(p, rank);
    return true;
}

bool peali_parley_heard(peali_parley *p, uint64_t sequence, peali_quarrel *quarrel)
{
    for (int r = 0; p->lines && r < p->net->nranks; r++)
        if (r != p->net->rank)
            while (hear(p, r)) /* the last word says most */
                ;
    if (p->found.one_rank < 0 || peali_quarrel_later(&p->found, sequence))
        return false;
    *quarrel = p->found;
    return true;
}

void peali_parley_mention(peali_parley *p)
{
    if (peali_parley_furnish(p) != PEAL_OK)
        return;
    p->open = true;
    for (int r = 0; r < p->net->nranks; r++) {
        if (r == p->net->rank)
            continue;
        peali_parley_listen(p, r);
        while (hear(p, r))
            ;
        if (p->lines[r].mentions == MENTIONS)
            continue;
        p->lines[r].mentions++;
        tell(p, r);
    }
}

bool peali_parley_settled(peali_parley *p)
{
    bool all = true;
    for (int r = 0; p->open && r < p->net->nranks; r++) {
        if (r == p->net->rank)
            continue;
        tell(p, r);
        hear(p, r);
        all &= !sending(p, &p->lines[r].sent[0]) && !sending(p, &p->lines[r].sent[1]) && p->lines[r].quarrels;
    }
    return all;
}

peali_stand peali_parley_stand(const peali_parley *p, int rank)
{
    const line *l = p->open ? &p->lines[rank] : NULL;
    if (!l || !l->spoke || (l->now < p->mine.now && l->answers < p->mine.now))
        return PEALI_STAND_SILENT;
    return l->now < p->mine.now ? PEALI_STAND_BEHIND : l->now > p->mine.now ? PEALI_STAND_AHEAD : PEALI_STAND_HERE;
}
