/*
 * Where the messages of GPUs lie, which all ranks have alike: in GPU memory, where the network reads and writes it by itself
 * (GPUDirect RDMA), or in host memory, which kernels fill and drain. The first is taken where every rank has what it needs, and a
 * message from each rank to one out of reach arrived as it was sent. UCX sends GPU memory without such a network, too, by copies of
 * its own, which are 3 to 40 times slower than those of the kernels: that has to be asked for.
 */
#include "comm/device.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/transport.h"
#include "net/net_shared.h"
#include "topo/fabric.h"

enum { SMALL = 1024, TAG = PEALI_PROXY_TAGS };
#define WAIT_NS INT64_C(10000000000)

/* What a rank tells the others, as bytes. */
typedef struct offer {
    int32_t gdr; /* PEAL_GDR there */
    int32_t can; /* its messages may lie in GPU memory */
} offer;

/* What this rank lacks: an error where the user wanted it. */
static void say(const peali_device *d, const char *why)
{
    if (peali_config_get()->gdr == PEALI_GDR_ON)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, d->comm->rank, "PEAL_GDR=on: messages cannot lie in GPU memory: %s; take "
                  "PEAL_GDR=off or auto", why);
    else
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, d->comm->rank, "messages of GPUs lie in host memory: %s", why);
}

/* Does the network read and write this rank's GPU by itself? */
static bool is_direct(const peali_device *d, peali_net_why *why)
{
    if (peali_team_host_reads(d->team))
        return true;
    char gpu[32] = "";
    const char *no_ucx;
    peali_ucx_rails rails = {0};
    const peali_fabric_here here = peali_fabric_look_here();
    peali_fabric *fabric = peali_fabric_read("");
    bool so = d->comm->net->rails > 0 && fabric && peali_transport_rails(d->comm->rank, &rails, &no_ucx) == PEAL_OK;
    snprintf(why->text, sizeof why->text, "messages go over %s", d->comm->net->name);
    (void)peali_cuda_driver_get(NULL)->DeviceGetPCIBusId(gpu, sizeof gpu, peali_team_device(d->team));
    for (int i = 0; i < d->comm->net->rails && so; i++)
        so = peali_fabric_direct(fabric, &here, gpu, rails.device[i], why->text, sizeof why->text);
    peali_free(fabric);
    return so;
}

static peal_status enter_device(void *team, uint32_t *visit)
{
    return peali_team_enter(team, visit);
}

static void leave_device(void *team, const uint32_t *visit)
{
    peali_team_leave(team, visit);
}

static bool map(peali_device *d, const peali_team_mail *mail, peali_net_why *why)
{
    peali_net *net = d->comm->net;
    const peali_net_memory memory = {mail->at, mail->bytes, mail->id, peali_team_host_reads(d->team),
                                     {d->team, enter_device, leave_device}};
    if (!net->map) {
        snprintf(why->text, sizeof why->text, "messages go over %s, which takes none from there", net->name);
        return memory.host_reads || net->device_memory;
    }
    d->mapped = net->map(net, &memory, why) == PEAL_OK;
    return d->mapped;
}

/* Can this rank's messages lie in GPU memory? Then MAIL is there, and mapped. */
static bool prepare(peali_device *d, const peali_team_mail **mail)
{
    peali_net_why why = {"its allocation failed"};
    if (peali_config_get()->gdr == PEALI_GDR_OFF)
        snprintf(why.text, sizeof why.text, "PEAL_GDR=off");
    else if (!peali_team_takes_writes(d->team))
        snprintf(why.text, sizeof why.text, "kernels of device %d are not sure to see what a network writes there",
                 peali_team_device(d->team));
    else if ((peali_config_get()->gdr == PEALI_GDR_ON || is_direct(d, &why)) &&
             peali_team_make_mail(d->team, true, mail) == PEAL_OK && map(d, *mail, &why))
        return true;
    say(d, why.text);
    return false;
}

static void unmap(peali_device *d)
{
    if (d->mapped)
        d->comm->net->unmap(d->comm->net);
    d->mapped = false;
}

/* The first rank whose messages cannot lie in GPU memory, or -1; FORCED: some rank insists. */
static int refuser(const peal_comm *comm, const offer *all, bool *forced)
{
    int first = -1;
    *forced = false;
    for (int r = comm->nranks - 1; r >= 0; r--) {
        first = all[r].can ? first : r;
        *forced |= all[r].gdr == PEALI_GDR_ON;
    }
    return first;
}

/* What ranks try. */
typedef struct trial {
    peali_device *d;
    const peali_team_mail *mail;
    size_t bytes[2];
    unsigned char *want, *got;
    int64_t end_ns;
    bool holds; /* the transport may still touch the mail */
} trial;

/* To whom rank R sends: the next one out of its reach. */
static int receiver_of(const peali_device *d, int r)
{
    int to = r;
    do
        to = (to + 1) % d->comm->nranks;
    while (d->first[to] == d->first[r]);
    return to;
}

static void fill(unsigned char *at, size_t bytes, int rank)
{
    uint32_t x = 2654435761u * (uint32_t)(rank + 1);
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        at[i] = (unsigned char)(x >> 24);
    }
}

/* Where number K of the messages is, that arrives or leaves. */
static unsigned char *place(const trial *t, int k, bool leaves)
{
    return t->mail->at + (leaves ? t->mail->bytes / 2 : 0) + (k ? t->bytes[0] : 0);
}

static peal_status wait_for(trial *t, peali_net_req *req)
{
    peali_net *net = t->d->comm->net;
    peal_status status;
    int64_t begin_ns = peali_clock_ns(), now_ns = begin_ns;
    while ((status = net->test(net, req)) == PEAL_IN_PROGRESS && now_ns < t->end_ns) {
        peali_clock_rest(now_ns - begin_ns);
        now_ns = peali_clock_ns();
    }
    if (status != PEAL_IN_PROGRESS)
        return status;
    t->holds |= !net->cancel(net, req);
    return PEAL_ERR_TIMEOUT;
}

static peal_status receive(trial *t, int from, int k)
{
    peali_net *net = t->d->comm->net;
    peali_net_req req;
    unsigned char *at = place(t, k, false);
    peal_status status = net->recv(net, from, TAG, at, t->bytes[k], &req);
    if (status == PEAL_OK)
        status = wait_for(t, &req);
    if (status == PEAL_OK)
        status = peali_team_flush(t->d->team);
    if (status == PEAL_OK)
        status = peali_team_copy(t->d->team, t->got, at, t->bytes[k]);
    fill(t->want, t->bytes[k], from);
    if (status == PEAL_OK && memcmp(t->got, t->want, t->bytes[k]) != 0)
        status = PEAL_ERR_NET;
    if (status != PEAL_OK)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, net->rank, "GPU memory: a message of %zu bytes from rank %d: %s", t->bytes[k],
                  from, status == PEAL_ERR_NET ? "other bytes than it sent" : peal_status_text(status));
    return status;
}

static peal_status send(const trial *t, int k, peali_net_req *req)
{
    peali_net *net = t->d->comm->net;
    unsigned char *at = place(t, k, true);
    fill(t->want, t->bytes[k], net->rank);
    peal_status status = peali_team_copy(t->d->team, at, t->want, t->bytes[k]);
    return status == PEAL_OK ? net->send(net, receiver_of(t->d, net->rank), TAG, at, t->bytes[k], req) : status;
}

/* Receives from every rank that sends to this one, whatever went wrong here, as the others wait for that. */
static bool exchange(trial *t)
{
    const int me = t->d->comm->rank;
    peali_net_req sends[2];
    int sent = 0;
    while (sent < 2 && send(t, sent, &sends[sent]) == PEAL_OK)
        sent++;
    bool well = sent == 2;
    for (int r = 0; r < t->d->comm->nranks; r++)
        for (int k = 0; k < 2 && receiver_of(t->d, r) == me; k++)
            well &= receive(t, r, k) == PEAL_OK;
    while (sent > 0)
        well &= wait_for(t, &sends[--sent]) == PEAL_OK;
    return well;
}

/* A small message and a long one, as UCX sends them in different ways. */
static bool try_messages(peali_device *d, const peali_team_mail *mail)
{
    const int64_t half = peali_config_get()->timeout_ns / 2; /* the others still wait then */
    const size_t area = peali_team_layout(d->team)->area_bytes[PEALI_CUDA_BULK];
    trial t = {.d = d, .mail = mail, .bytes = {SMALL, area}, .want = peali_alloc(1, area), .got = peali_alloc(1, area),
               .end_ns = peali_clock_ns() + (half > 0 && half < WAIT_NS ? half : WAIT_NS)};
    bool well = t.want && t.got && exchange(&t);
    peali_free(t.want);
    peali_free(t.got);
    if (t.holds) { /* not well, so it is nobody's mail */
        peali_team_keep_mail(d->team);
        d->mapped = false;
    }
    return well;
}

/*
 * Agrees with all ranks whether messages lie in GPU memory: then *MAIL is there, else NULL. PEAL_ERR_UNSUPPORTED: they do not, and
 * some rank insists on it.
 */
static peal_status agree(peali_device *d, const peali_call *c, const peali_team_mail **mail)
{
    peal_comm *comm = d->comm;
    bool forced;
    offer all[PEALI_DEVICE_RANKS], mine = {.gdr = peali_config_get()->gdr};
    mine.can = prepare(d, mail);
    peal_status status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    if (status == PEAL_OK && refuser(comm, all, &forced) < 0) {
        mine.can = try_messages(d, *mail);
        if (!mine.can)
            say(d, "a test message did not arrive as it was sent");
        status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    }
    if (status != PEAL_OK)
        return status;
    const int other = refuser(comm, all, &forced);
    if (other < 0)
        return PEAL_OK;
    *mail = NULL;
    if (forced && mine.can && mine.gdr == PEALI_GDR_ON)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, comm->rank, "PEAL_GDR=on: messages of rank %d cannot lie in GPU memory; its log "
                  "at info says why; set PEAL_GDR alike on all ranks", other);
    return forced ? PEAL_ERR_UNSUPPORTED : PEAL_OK;
}

static peal_status flush_device(void *team)
{
    return peali_team_flush(team);
}

/* Where messages go, beside those of this rank's calls on host memory. */
static peal_status begin(peali_device *d, const peali_team_mail *mail)
{
    peal_comm *comm = d->comm;
    const peali_cuda_layout *l = peali_team_layout(d->team);
    peali_proxy_box box = {.post = peali_team_post(d->team), .lines_bytes = peali_team_lines_bytes(d->team), .messages = mail->at,
                           .lanes = l->lanes, .most = l->area_bytes[PEALI_CUDA_BULK], .device = mail->device ? &d->gpu : NULL};
    peali_net *net;
    peal_status status = peali_net_shared_create(comm->net, &net);
    if (status != PEAL_OK)
        return status;
    comm->net = d->nets[0] = net;
    peali_runner_share(comm->runner, net);
    d->gpu = (struct peali_proxy_device){d->team, flush_device};
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "messages of this rank's GPU lie in %s memory, %zu KiB",
              mail->device ? "its" : "host", mail->bytes >> 10);
    static int told; /* in this process */
    if (peali_thread_has_one_core() && peali_add_relaxed(&told, 1) == 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, comm->rank, "this rank is bound to one core, which it shares with the thread of "
                  "its GPU's messages: slow; start with mpirun --bind-to none, or srun -c 2");
    return peali_proxy_begin(d->nets, d->nnets, &box, &d->proxy);
}

peal_status peali_device_open_post(peali_device *d, const peali_call *c)
{
    const peali_team_mail *mail = NULL;
    peal_status made = peali_team_make_post(d->team), status = agree(d, c, &mail);
    d->nnets = 1;
    if (status == PEAL_OK && !mail)
        status = peali_device_open_nets(d, c);
    if (status != PEAL_OK || made != PEAL_OK)
        return made != PEAL_OK ? made : status;
    if (!mail) {
        unmap(d);
        peali_team_drop_mail(d->team);
        status = peali_team_make_mail(d->team, false, &mail);
    }
    return status == PEAL_OK ? begin(d, mail) : status;
}

void peali_device_close_post(peali_device *d, int64_t patience_ns)
{
    peali_proxy_end(&d->proxy, patience_ns);
    peali_device_close_nets(d);
    unmap(d);
}
