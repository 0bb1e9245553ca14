/*
 * Orders of a lane are started in their order, which is that of both ends' programs, so that messages of one peer, lane of the
 * algorithm and lane of the kernel meet in pairs by one tag. Threads have lanes of their own, and nets: none waits for another.
 */
#include "exec/proxy.h"

#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"
#include "exec/clerk.h"
#include "exec/timeline.h"

enum {
    LISTEN_EVERY = 256, /* passes; what is heard then is no news to who is at work */
    LANE_BITS = 6,
};

/* Behind the tags of the host's calls and their leads: those of messages, and the one of words. */
enum {
    TAGS = PEALI_PROXY_TAGS + 1,
    WORD_TAG = TAGS + (1 << 2 * LANE_BITS),
};

/* An order, from when it was taken to when it is over. */
typedef struct letter {
    peali_post_order order;
    bool over, head_over;
    peali_post_head head; /* sent ahead, or as it arrived */
    peali_net_req req, head_req;
} letter;

/* Orders up to `over` are over, those up to `taken` under way; numbers go round. */
typedef struct desk {
    uint32_t over, taken;
    letter letters[PEALI_POST_ORDERS];
} desk;

/* Words to another rank, and from it. */
typedef struct line {
    bool listening, sending;
    peali_net_req send, recv;
    peali_proxy_word heard;
} line;

/* What one thread does of a proxy's work: each lane whose number leaves that of the share, divided by how many there are. */
typedef struct share {
    peali_errand errand;
    peali_proxy *of;
    uint32_t number;
    peali_net *net;
    peali_proxy_news news;
    bool driven;     /* in this pass */
    bool holds;      /* what was cancelled and is under way still, so that the proxy's memory is never freed */
    unsigned passes;
    char apart[64];  /* no line of a cache is of two threads */
} share;

struct peali_proxy {
    peali_proxy_word told; /* by this rank; words are the first share's */
    line *lines;           /* per rank */
    peali_proxy_box box;
    unsigned char *plain;  /* what lines hold, as messages: of those that leave, those that arrive, and room for one too long */
    bool timed;
    uint32_t nshares;
    share shares[PEALI_CLERKS];
    desk desks[];
};

/* Lines of what leaves lie behind those of what arrives; their messages before, so that one that is too long takes none of them. */
static unsigned char *message_of(const peali_proxy *p, const peali_post_order *o)
{
    const size_t at = (size_t)o->at * PEALI_POST_UNIT, lines = p->box.lines_bytes;
    return o->lines ? p->plain + (at + lines / 2) % lines : p->box.messages + at;
}

/* A line is half data, and the slots of lines are apart (cuda/load.c), so that a message has room where they have it. */
static size_t bytes_of(const peali_post_order *o)
{
    const size_t bytes = (size_t)o->units * PEALI_POST_UNIT;
    return o->lines ? sizeof(peali_post_head) + bytes / 2 : bytes;
}

static peali_post_half *lines_of(const peali_proxy *p, const peali_post_order *o)
{
    return (peali_post_half *)((unsigned char *)(p->box.post + 1) + (size_t)o->at * PEALI_POST_UNIT);
}

/* Data of lines O: false where some of it is not there yet. Pairs with store_line of the kernels. */
static bool take_lines(const peali_proxy *p, const peali_post_order *o)
{
    const peali_post_half *half = lines_of(p, o);
    uint32_t *word = (uint32_t *)(message_of(p, o) + sizeof(peali_post_head));
    for (uint32_t i = 0; i < 2 * o->units; i++) {
        const peali_post_half now = peali_load_acquire(&half[i]);
        if (now >> 32 != o->flag)
            return false;
        word[i] = (uint32_t)now;
    }
    return true;
}

/* Pairs with load_line of the kernels. */
static void lay_lines(const peali_proxy *p, const peali_post_order *o)
{
    peali_post_half *half = lines_of(p, o);
    const uint32_t *word = (const uint32_t *)(message_of(p, o) + sizeof(peali_post_head));
    for (uint32_t i = 0; i < 2 * o->units; i++)
        peali_store_release(&half[i], word[i] | (uint64_t)o->flag << 32);
}

static peali_post_head head_of(const peali_post_order *o)
{
    return (peali_post_head){o->signature, o->epoch, bytes_of(o)};
}

static uint32_t tag_of(const peali_post_order *o, uint32_t lane)
{
    return TAGS + (lane << LANE_BITS | o->lane);
}

/* For the timeline. */
static peali_moment moment_of(const share *s, const letter *l)
{
    return (peali_moment){.what = l->order.sends ? "gpu send" : "gpu recv", .how = "", .key = (uintptr_t)l, .rank = s->net->rank,
                          .peer = l->order.peer, .slice = -1, .bytes = bytes_of(&l->order)};
}

static void fail(share *s, const peali_post_order *o, peal_status status, uint32_t its)
{
    if (s->news.status == PEAL_OK)
        s->news = (peali_proxy_news){status, o->peer, o->signature, its};
}

static bool serves(const share *s)
{
    return s->news.status == PEAL_OK;
}

static void cancel(share *s, peali_net_req *req)
{
    s->holds |= !s->net->cancel(s->net, req);
}

/* The head of a message in a device's memory goes ahead of it, from and to where the host sees it. */
static peal_status start_head(const share *s, uint32_t tag, letter *l)
{
    const peali_proxy *p = s->of;
    const peali_post_order *o = &l->order;
    l->head = head_of(o);
    l->head_over = !p->box.device;
    if (!p->box.device && o->sends)
        memcpy(message_of(p, o), &l->head, sizeof l->head);
    if (!p->box.device)
        return PEAL_OK;
    return o->sends ? s->net->send(s->net, o->peer, tag, &l->head, sizeof l->head, &l->head_req)
                    : s->net->recv(s->net, o->peer, tag, &l->head, sizeof l->head, &l->head_req);
}

static peal_status start(share *s, uint32_t lane, letter *l)
{
    const peali_proxy *p = s->of;
    const peali_post_order *o = &l->order;
    const uint32_t tag = tag_of(o, lane);
    const size_t apart = p->box.device ? sizeof l->head : 0, bytes = bytes_of(o) - apart;
    unsigned char *at = message_of(p, o) + apart;
    peal_status status = start_head(s, tag, l);
    if (status != PEAL_OK)
        return status;
    status = o->sends ? s->net->send(s->net, o->peer, tag, at, bytes, &l->req)
                      : s->net->recv_some(s->net, o->peer, tag, at, p->box.most - apart, &l->req);
    if (status != PEAL_OK && !l->head_over)
        cancel(s, &l->head_req);
    return status;
}

/* Order NUMBER of LANE and, of lines to be sent, their data: false where some of it is not there yet. */
static bool take_order(const peali_proxy *p, uint32_t lane, uint32_t number, peali_post_order *order)
{
    const peali_post_half *half = p->box.post->orders[lane][number % PEALI_POST_ORDERS];
    uint32_t word[PEALI_POST_HALVES];
    for (int i = 0; i < PEALI_POST_HALVES; i++) {
        const peali_post_half now = peali_load_acquire(&half[i]);
        if (now >> 32 != number)
            return false;
        word[i] = (uint32_t)now;
    }
    memcpy(order, word, sizeof *order);
    return !(order->lines && order->sends) || take_lines(p, order);
}

/* Starts what kernels have ordered. */
static void begin_orders(share *s, uint32_t lane)
{
    desk *d = &s->of->desks[lane];
    peali_post_order order;
    while (take_order(s->of, lane, d->taken + 1, &order)) {
        letter *l = &d->letters[++d->taken % PEALI_POST_ORDERS];
        l->order = order;
        if (s->of->timed)
            peali_timeline_begin(moment_of(s, l));
        peal_status status = start(s, lane, l);
        l->over = status != PEAL_OK; /* it was not started */
        if (l->over)
            fail(s, &l->order, status, 0);
    }
}

/* Two calls that differ do not take each other's data. */
static peal_status compare(const letter *l)
{
    const peali_post_head mine = head_of(&l->order);
    return l->order.sends || memcmp(&mine, &l->head, sizeof mine) == 0 ? PEAL_OK : PEAL_ERR_MISMATCH;
}

/* To drive the transport for each of what is under way, which are hundreds, takes longer than their messages. */
static peal_status ask(share *s, peali_net_req *req)
{
    if (s->driven && s->net->peek)
        return s->net->peek(s->net, req);
    s->driven = true;
    return s->net->test(s->net, req);
}

static peal_status test_head(share *s, letter *l)
{
    peal_status status = ask(s, &l->head_req);
    l->head_over = status != PEAL_IN_PROGRESS;
    if (status == PEAL_OK)
        status = compare(l);
    if (status < 0)
        cancel(s, &l->req);
    return status;
}

/* PEAL_OK: L is over, and what it brought is where kernels see it. */
static peal_status test(share *s, letter *l)
{
    const peali_proxy *p = s->of;
    peal_status status = l->head_over ? PEAL_OK : test_head(s, l);
    if (status == PEAL_OK)
        status = ask(s, &l->req);
    if (status != PEAL_OK || l->order.sends)
        return status;
    if (p->box.device)
        return l->order.lines ? PEAL_OK : p->box.device->flush(p->box.device->ctx);
    memcpy(&l->head, message_of(p, &l->order), sizeof l->head);
    return compare(l);
}

/* The data is there before the flag (bulk::begin acquires it). */
static void look(share *s, uint32_t lane, letter *l)
{
    const peali_post_order *o = &l->order;
    peal_status status = test(s, l);
    if (status == PEAL_IN_PROGRESS)
        return;
    l->over = true;
    if (s->of->timed)
        peali_timeline_end(moment_of(s, l));
    if (status != PEAL_OK)
        fail(s, o, status, status == PEAL_ERR_MISMATCH ? l->head.signature : 0);
    else if (!o->sends && o->lines)
        lay_lines(s->of, o);
    else if (!o->sends)
        peali_store_release(&s->of->box.post->flags[lane][o->epoch & 1][o->slot], o->flag);
}

/* Does anything move? A kernel stores into the areas of what is over behind its look at that (look_over, then meet). */
static bool serve(share *s, uint32_t lane)
{
    desk *d = &s->of->desks[lane];
    const uint32_t taken = d->taken, before = d->over;
    begin_orders(s, lane);
    for (uint32_t n = d->over + 1; n != d->taken + 1 && serves(s); n++)
        if (!d->letters[n % PEALI_POST_ORDERS].over)
            look(s, lane, &d->letters[n % PEALI_POST_ORDERS]);
    if (!serves(s))
        return false;
    while (d->over != d->taken && d->letters[(d->over + 1) % PEALI_POST_ORDERS].over)
        d->over++;
    if (d->over != before)
        peali_store_release(&s->of->box.post->over[lane].number, d->over);
    return d->over != before || d->taken != taken;
}

/* Serves all lanes of S: does anything move? */
static bool serve_all(share *s)
{
    bool moved = false;
    s->driven = false;
    for (uint32_t lane = s->number; lane < s->of->box.lanes && serves(s); lane += s->of->nshares)
        moved |= serve(s, lane);
    return moved;
}

/* Is anything under way, of messages that have not failed? */
static bool is_busy(const share *s)
{
    bool any = false;
    for (uint32_t lane = s->number; lane < s->of->box.lanes && serves(s); lane += s->of->nshares)
        any |= s->of->desks[lane].over != s->of->desks[lane].taken;
    return any;
}

/* What cannot be told need not be: the ranks that wait have deadlines. */
static void tell(peali_proxy *p)
{
    peali_net *net = p->shares[0].net;
    for (int r = 0; r < net->nranks; r++)
        if (r != net->rank)
            p->lines[r].sending = net->send(net, r, WORD_TAG, &p->told, sizeof p->told, &p->lines[r].send) == PEAL_OK;
}

/* Are words of this rank still under way? */
static bool listen(peali_proxy *p)
{
    peali_net *net = p->shares[0].net;
    bool left = false;
    for (int r = 0; r < net->nranks; r++) {
        line *l = &p->lines[r];
        if (l->sending)
            left |= l->sending = net->test(net, &l->send) == PEAL_IN_PROGRESS;
        peal_status status = l->listening ? net->test(net, &l->recv) : PEAL_IN_PROGRESS;
        l->listening &= status == PEAL_IN_PROGRESS;
        if (status != PEAL_OK && status != PEAL_IN_PROGRESS)
            l->heard.status = PEAL_OK;
    }
    return left;
}

static bool work(peali_errand *errand, bool rested)
{
    share *s = (share *)errand;
    const bool moved = serve_all(s);
    s->errand.busy = is_busy(s);
    if (!rested && ++s->passes % LISTEN_EVERY != 0)
        return moved;
    if (s->number == 0)
        (void)listen(s->of);
    else
        (void)s->net->progress(s->net); /* a peer's last message may be half taken in */
    return moved;
}

static void forget(share *s, desk *d)
{
    for (uint32_t n = d->over + 1; n != d->taken + 1; n++) {
        letter *l = &d->letters[n % PEALI_POST_ORDERS];
        if (!l->over && !l->head_over)
            cancel(s, &l->head_req);
        if (!l->over)
            cancel(s, &l->req);
    }
}

static peali_proxy *make(peali_net *const *nets, int nnets, const peali_proxy_box *box)
{
    peali_net *net = nets[0];
    peali_proxy *p = peali_alloc(1, sizeof *p + box->lanes * sizeof *p->desks);
    line *lines = peali_alloc((size_t)net->nranks, sizeof *lines);
    unsigned char *plain = peali_alloc(1, box->lines_bytes + box->most);
    if (!p || !lines || !plain) {
        peali_free(p);
        peali_free(lines);
        peali_free(plain);
        return NULL;
    }
    p->box = *box;
    p->lines = lines;
    p->plain = plain;
    p->timed = peali_timeline_on();
    p->nshares = (uint32_t)nnets;
    for (uint32_t i = 0; i < p->nshares; i++)
        p->shares[i] = (share){.errand = {.clerk = i, .pass = work}, .of = p, .number = i, .net = nets[i]};
    for (int r = 0; r < net->nranks; r++) {
        line *l = &lines[r];
        l->listening = r != net->rank && net->recv(net, r, WORD_TAG, &l->heard, sizeof l->heard, &l->recv) == PEAL_OK;
    }
    return p;
}

/* Whose LANE is. */
static share *share_of(peali_proxy *p, uint32_t lane)
{
    return &p->shares[lane % p->nshares];
}

/* Forgets what is under way; where the transport cannot, it all stays. */
static void discard(peali_proxy *p)
{
    share *words = &p->shares[0];
    bool holds = false;
    for (uint32_t lane = 0; lane < p->box.lanes; lane++)
        forget(share_of(p, lane), &p->desks[lane]);
    for (int r = 0; r < words->net->nranks; r++) {
        if (p->lines[r].sending)
            cancel(words, &p->lines[r].send);
        if (p->lines[r].listening)
            cancel(words, &p->lines[r].recv);
    }
    for (uint32_t i = 0; i < p->nshares; i++)
        holds |= p->shares[i].holds;
    if (holds)
        return;
    peali_free(p->plain);
    peali_free(p->lines);
    peali_free(p);
}

peal_status peali_proxy_begin(peali_net *const *nets, int nnets, const peali_proxy_box *box, peali_proxy **proxy)
{
    peali_proxy *p = make(nets, nnets, box);
    *proxy = NULL;
    if (!p)
        return PEAL_ERR_MEMORY;
    int error = 0, hired = 0;
    while (hired < nnets && (error = peali_clerk_give(&p->shares[hired].errand)) == 0)
        hired++;
    while (error && hired > 0)
        peali_clerk_take_back(&p->shares[--hired].errand);
    if (!error) {
        *proxy = p;
        return PEAL_OK;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, nets[0]->rank, "no thread for the messages of GPUs: %s; raise the limit of threads",
              strerror(error));
    discard(p);
    return PEAL_ERR_SYSTEM;
}

/* What the kernels sent last may be under way: the calls of their receivers may depend on it. Who cannot flush has said so. */
static void finish(peali_proxy *p, int64_t patience_ns)
{
    const int64_t begin_ns = peali_clock_ns();
    int64_t waited_ns = 0;
    peal_status flushed[PEALI_CLERKS] = {PEAL_OK};
    for (bool left = true; left && waited_ns < patience_ns; waited_ns = peali_clock_ns() - begin_ns) {
        peali_clock_rest(waited_ns);
        left = listen(p);
        for (uint32_t i = 0; i < p->nshares; i++) {
            share *s = &p->shares[i];
            (void)serve_all(s);
            left |= is_busy(s);
            flushed[i] = flushed[i] < 0 ? flushed[i] : s->net->flush(s->net);
            left |= flushed[i] == PEAL_IN_PROGRESS;
        }
    }
}

void peali_proxy_end(peali_proxy **proxy, int64_t patience_ns)
{
    peali_proxy *p = *proxy;
    *proxy = NULL;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->nshares; i++)
        peali_clerk_take_back(&p->shares[i].errand);
    finish(p, patience_ns);
    discard(p);
}

peali_proxy_news peali_proxy_ask(const peali_proxy *proxy)
{
    peali_proxy_news latest = {.status = PEAL_OK};
    for (uint32_t i = 0; i < proxy->nshares && latest.status == PEAL_OK; i++) {
        peali_clerk_lock(&proxy->shares[i].errand);
        latest = proxy->shares[i].news;
        peali_clerk_unlock(&proxy->shares[i].errand);
    }
    return latest;
}

void peali_proxy_tell(peali_proxy *proxy, const peali_proxy_word *word)
{
    const peali_post_order ended = {.peer = (uint16_t)proxy->shares[0].net->rank};
    for (uint32_t i = 0; i < proxy->nshares; i++) {
        share *s = &proxy->shares[i];
        peali_clerk_lock(&s->errand);
        fail(s, &ended, (peal_status)word->status, 0);
        if (i == 0 && proxy->told.status == PEAL_OK) {
            proxy->told = *word;
            tell(proxy);
        }
        peali_clerk_unlock(&s->errand);
    }
}

bool peali_proxy_heard(peali_proxy *proxy, int32_t *from, peali_proxy_word *word)
{
    const peali_net *net = proxy->shares[0].net;
    bool heard = false;
    peali_clerk_lock(&proxy->shares[0].errand);
    for (int r = 0; r < net->nranks && !heard; r++) {
        line *l = &proxy->lines[r];
        heard = r != net->rank && !l->listening && l->heard.status != PEAL_OK;
        if (heard) {
            *from = r;
            *word = l->heard;
            l->heard.status = PEAL_OK;
        }
    }
    peali_clerk_unlock(&proxy->shares[0].errand);
    return heard;
}

/* The oldest of any lane. */
static const letter *late(const desk *d)
{
    for (uint32_t n = d->over + 1; n != d->taken + 1; n++) {
        const letter *l = &d->letters[n % PEALI_POST_ORDERS];
        if (!l->over && !l->order.sends)
            return l;
    }
    return NULL;
}

int32_t peali_proxy_waits(peali_proxy *proxy, char *text, size_t bytes)
{
    int32_t peer = -1;
    text[0] = '\0';
    for (uint32_t lane = 0; lane < proxy->box.lanes && peer < 0; lane++) {
        const share *s = share_of(proxy, lane);
        peali_clerk_lock(&s->errand);
        const letter *l = late(&proxy->desks[lane]);
        peer = l ? l->order.peer : -1;
        if (l && s->net->describe)
            s->net->describe(s->net, peer, tag_of(&l->order, lane), false, text, bytes);
        peali_clerk_unlock(&s->errand);
    }
    return peer;
}
