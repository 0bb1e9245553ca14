/*
 * Waiting: when to give the core away, when to drive the host library, when to ask the other ranks what they called, and when to
 * give up. A call that fails lingers until the other ranks know, so that each of them can say what was wrong, and none reads what
 * the program may free after it. A rank that left a call on trust, because it only had to send there, listens on.
 */
#include "exec/runner.h"

#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "net/net_ucx.h"

enum {
    SPINS_ALONE = 2000,   /* passes without progress before a core is given away: about 50 us, beyond most waits */
    YIELDS_A_LOOK = 16, /* at what the kernel did with the core meanwhile: to ask it takes about as long as to yield */
    UNNAMED = 20, /* times the parley's: for so long a rank with a wrong call waits to be told which */
    PASSES_A_CLOCK = 256, /* passes without progress before the clock is looked at; while yielding, in each */
};

/*
 * Who waits drives the host library so often (FACTS, "Progress"), and less where all ranks wait for each other in memory: a call of
 * it may enter the kernel, and a rank that is away for 100 us holds up all. 16 took 1500 us instead of 590.
 */
static const int64_t DRIVE_NS = 50 * 1000;
static const int64_t DRIVE_ALONE_NS = 500 * 1000; /* without messages of its own and with a core of its own */
static const int64_t DRIVE_DOZING_NS = 2 * 1000000;

/* Who waited for long does not feel a nap of a 200th of that. */
static const int64_t LONG_NS = 10 * 1000000;
static const int64_t NAP_NS = 50 * 1000, NAP_MOST_NS = 250 * 1000;
/*
 * Where ranks share cores, yielding to each other is work as well, and takes the core from the one that has some: across hosts,
 * who waited for longer than a message takes there sleeps for a part of that time, so that it notices late by no more than that.
 * In a call that has waited for long already the next message will hardly come at once, either.
 */
static const int64_t DOZE_AFTER_NS = 100 * 1000;
static const int64_t DOZE_SOON_NS = 10 * 1000, SOON_FROM_NS = 2 * 1000000;
enum { DOZE_PART = 4, NAP_PART = 200 };
static const int64_t HEED_NS = 1000000; /* calls that follow each other faster need not all ask whether one before them was wrong */
static const int64_t PATIENT_NS = 60 * 1000000000LL;

/* The first message that is not over, or else what the rank within reach that is waited for says of its own; "" if nothing. */
static void find_stuck(const peali_runner *r, char text[PEALI_REACH_STUCK * sizeof(uint64_t)])
{
    enum { BYTES = PEALI_REACH_STUCK * sizeof(uint64_t) };
    int32_t window = r->plan->job.window, first = peali_run_oldest(r), awaited = peali_run_awaits(r, &r->cursors[first]);
    char way[PEALI_NET_WAY + 8], rank[PEALI_RUN_RANK];
    text[0] = '\0';
    for (int32_t k = 0; k < window; k++) {
        const peali_cursor *c = &r->cursors[(first + k) % window];
        for (int32_t no = 0; c->slice < r->plan->job.slices && no < c->pc; no++) {
            const peali_instr *i = &r->plan->program->instrs[no];
            if ((i->kind != PEALI_I_SEND && i->kind != PEALI_I_RECV) || !peali_run_pending(r, c, no))
                continue;
            peali_run_way(r, c, i, way, sizeof way);
            peali_run_rank(r, (int)i->peer, rank);
            snprintf(text, BYTES, "%s rank %s%s", i->kind == PEALI_I_SEND ? "to" : "from", rank, way);
            return;
        }
    }
    for (int32_t x = 0; x < r->nreach; x++)
        if (r->ranks[x] == awaited && peali_load_acquire(&r->shown[x]->is_stuck)) /* pairs with say_stuck() */
            for (int w = 0; w < PEALI_REACH_STUCK; w++)
                ((uint64_t *)(void *)text)[w] = peali_load_relaxed(&r->shown[x]->stuck[w]);
}

/* For ranks within reach, whose own messages may not even have begun. */
static void say_stuck(const peali_runner *r)
{
    _Alignas(uint64_t) char text[PEALI_REACH_STUCK * sizeof(uint64_t)] = "";
    if (r->nreach == 1 || r->left == 0 || peali_load_relaxed(&r->mine->is_stuck))
        return;
    find_stuck(r, text);
    for (int w = 0; text[0] && w < PEALI_REACH_STUCK; w++)
        peali_store_relaxed(&r->mine->stuck[w], ((const uint64_t *)(const void *)text)[w]);
    peali_store_release(&r->mine->is_stuck, text[0] != '\0');
}

/* Where ranks within reach are waited for, what keeps them may keep a message, too. */
static void describe_stuck(const peali_runner *r, char *text, size_t bytes)
{
    _Alignas(uint64_t) char stuck[PEALI_REACH_STUCK * sizeof(uint64_t)] = "";
    find_stuck(r, stuck);
    snprintf(text, bytes, stuck[0] ? "; nor is a message %s over" : "", stuck);
}

static void describe_wait(const peali_runner *r, char *what, size_t bytes)
{
    const peali_program *p = r->plan->program;
    const peali_cursor *c = &r->cursors[peali_run_oldest(r)];
    snprintf(what, bytes, "delivery of its last messages");
    if (r->left == 0)
        return;
    const peali_instr *i = &p->instrs[c->pc];
    const int32_t *waits = p->waits + i->waits;
    int32_t k = 0;
    while (k < i->nwaits && !peali_run_pending(r, c, waits[k]))
        k++;
    const peali_instr *m = k < i->nwaits ? &p->instrs[waits[k]] : i;
    int32_t awaited = peali_run_awaits(r, c);
    char way[300], rank[PEALI_RUN_RANK], from[PEALI_RUN_RANK + 16] = "that have just come";
    if (m != i)
        peali_run_way(r, c, m, way, sizeof way);
    else
        describe_stuck(r, way, sizeof way);
    if (awaited >= 0)
        snprintf(from, sizeof from, "from rank %s", peali_run_rank(r, (int)awaited, rank));
    if (m != i)
        snprintf(what, bytes, "%zu bytes %s rank %s on lane %d%s, slice %d of %d, instruction %d of %d",
                 peali_run_length(r, c, m, 0), m->kind == PEALI_I_SEND ? "to" : "from", peali_run_rank(r, (int)m->peer, rank),
                 m->lane, way, (int)c->slice, (int)r->plan->job.slices, (int)waits[k], (int)p->ninstrs);
    else
        snprintf(what, bytes, "%zu bytes %s in shared memory, slice %d of %d, instruction %d of %d%s",
                 peali_run_length(r, c, i, 0), from, (int)c->slice, (int)r->plan->job.slices, (int)c->pc, (int)p->ninstrs, way);
}

/* Says what the oldest slice waits for: the first message that is not over, ranks within reach, or the flush; and who is silent. */
static void report(const peali_runner *r, int64_t waited_ns)
{
    char what[480], call[PEALI_SIGNATURE_TEXT], who[PEALI_RUN_ABSENT];
    bool speaker, absent = peali_run_absent(r, who, sizeof who, &speaker);
    describe_wait(r, what, sizeof what);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->net->rank, "%s (%s) waits since %.1f s for %s%s%s%s",
              peali_signature_words(&r->signature, call), r->plan->job.algo->name, (double)waited_ns * 1e-9, what,
              absent ? "; " : "", who, r->title);
}

void peali_run_say_quarrel(const peali_runner *r, const peali_quarrel *quarrel)
{
    char one[PEALI_SIGNATURE_TEXT] = "a call", other[PEALI_SIGNATURE_TEXT], who[2][PEALI_RUN_RANK];
    if (quarrel->one.magic)
        peali_signature_words(&quarrel->one, one);
    peali_run_rank(r, quarrel->one_rank, who[0]);
    if (quarrel->other_rank < 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->net->rank, "rank %s made %s, which failed there: %s%s", who[0], one,
                  peal_status_text(peali_quarrel_status(quarrel)), r->title);
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->net->rank,
                  "calls differ: rank %s called %s; rank %s called %s%s; make the same calls in the same order on all ranks%s",
                  who[0], one, peali_run_rank(r, quarrel->other_rank, who[1]), peali_signature_words(&quarrel->other, other),
                  quarrel->one.forced != quarrel->other.forced ? ", and forces other algorithms or slices (peal_comm_force)" : "",
                  r->title);
}

/* Until ranks that just wait have asked, too, and their answers have come. */
static int64_t answers_ns(const peali_runner *r)
{
    return r->parley_ns + r->parley_ns / 2;
}

/*
 * Silent ranks are named by the lowest rank that is there, once in a wait, and again after a minute. In the minute behind, a wait
 * has to outlast that one to be told of: what comes late in each call is said once, and who does not come at all still is named.
 */
static bool speaks(peali_runner *r, int64_t waited_ns, int64_t limit_ns, int64_t now_ns)
{
    int64_t since_ns = r->complained_ns ? now_ns - r->complained_ns : PATIENT_NS;
    int64_t after_ns = r->patient ? PATIENT_NS : answers_ns(r);
    bool said = r->complained_ns > r->idle_ns;
    if (said)
        r->borne_ns = waited_ns;
    else if (since_ns < PATIENT_NS && r->borne_ns + r->borne_ns / 4 > after_ns)
        after_ns = r->borne_ns + r->borne_ns / 4;
    return (!said || since_ns >= PATIENT_NS) && waited_ns >= peali_run_sooner(after_ns, limit_ns, 3);
}

static void name_absent(peali_runner *r, int64_t waited_ns, int64_t limit_ns, int64_t now_ns)
{
    char who[PEALI_RUN_ABSENT], call[PEALI_SIGNATURE_TEXT];
    bool speaker;
    if (!speaks(r, waited_ns, limit_ns, now_ns))
        return;
    bool absent = peali_run_absent(r, who, sizeof who, &speaker);
    r->complained_ns = now_ns;
    r->borne_ns = waited_ns;
    if (absent && speaker)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->net->rank, "%s waits since %.1f s: %s%s",
                  peali_signature_words(&r->signature, call), (double)waited_ns * 1e-9, who, r->title);
    else if (!absent)
        report(r, waited_ns);
}

static void alarm_all(const peali_runner *r)
{
    for (int32_t x = 0; x < r->nreach; x++)
        peali_store_release(&r->shown[x]->alarm, 1);
}

/* This rank's call failed with STATUS, whatever others called. */
static peali_quarrel failed_here(const peali_runner *r, peal_status status)
{
    return (peali_quarrel){.one = r->signature, .one_rank = r->net->rank, .other_rank = status};
}

static void give_up_over(peali_runner *r, peali_quarrel quarrel)
{
    memcpy(r->mine->over, &quarrel, sizeof quarrel);
    peali_store_release(&r->mine->gave_up, r->signature.sequence + 1); /* pairs with peali_run_given_up */
}

static bool quarrels(const peali_runner *r)
{
    return r->quarrel.one_rank >= 0;
}

static peal_status fail(peali_runner *r, peal_status status)
{
    if (r->plan)
        peali_run_cancel(r);
    peali_run_deafen(r);
    peali_net_failed(r->net, status);
    status = peali_load_relaxed(&r->aborted) ? PEAL_ERR_ABORTED : status; /* that has been said */
    give_up_over(r, quarrels(r) ? r->quarrel : failed_here(r, status));
    alarm_all(r);
    peali_stores_done(); /* before buffers are the caller's again */
    peali_store_release(&r->failed, status); /* pairs with peali_runner_quarrel */
    r->plan = NULL;
    peali_timeline_save();
    return status;
}

/* Where only calls before this one differ, which it was the parley has to find. */
static bool names_call(const peali_runner *r)
{
    return r->dissenter >= 0 && !peali_signature_alike(&r->theirs, &r->signature);
}

/* Ranks within reach need not wait for long to hear of it, may have left, or wait for a GPU: they are told, and to ask. */
static void sound_alarm(const peali_runner *r)
{
    peali_runner_tell(r, &r->quarrel);
    alarm_all(r);
}

/* Did this rank wait for about as long itself? Then it can say for what. */
static bool timed_out(const peali_runner *r)
{
    return r->verdict == PEAL_ERR_TIMEOUT && r->plan &&
           r->waited_ns >= peali_run_sooner(INT64_MAX, peali_run_limit_ns(r->patient), 3);
}

static void say_verdict(const peali_runner *r)
{
    if (timed_out(r))
        report(r, r->waited_ns);
    else
        peali_run_say_quarrel(r, &r->quarrel);
}

/* What others say of their calls, and what those within reach show of theirs, whether they wait, go on or have left. */
static bool heard(peali_runner *r)
{
    peali_signature theirs;
    for (int32_t x = 0; x < r->nreach; x++)
        for (int k = 0; x != r->me && k < PEALI_SIGNATURE_PAST; k++)
            if (peali_signature_look(&r->shown[x]->past[k], &theirs))
                peali_parley_hold(r->parley, r->ranks[x], &theirs);
    return peali_parley_heard(r->parley, r->signature.sequence, &r->quarrel);
}

/* The call failed with STATUS; the ranks are told before it ends. */
static peal_status dispute(peali_runner *r, peal_status status)
{
    r->verdict = status;
    r->verdict_ns = peali_clock_ns();
    if (!quarrels(r) && names_call(r))
        r->quarrel = (peali_quarrel){r->signature, r->theirs, r->net->rank, r->dissenter};
    if (!quarrels(r) && !heard(r) && status != PEAL_ERR_MISMATCH)
        r->quarrel = failed_here(r, status);
    if (quarrels(r)) {
        r->verdict = status == PEAL_ERR_MISMATCH ? peali_quarrel_status(&r->quarrel) : status;
        say_verdict(r);
        sound_alarm(r);
    }
    if (r->plan)
        peali_run_hands_off(r);
    peali_parley_open(r->parley, &r->quarrel);
    return PEAL_IN_PROGRESS;
}

void peali_run_lost(peali_runner *r, const peali_signature *as, peal_status status)
{
    r->signature = *as;
    peali_run_note(r, &r->signature);
    r->waited_ns = 0;
    r->quarrel = failed_here(r, status);
    (void)dispute(r, status);
}

static void say_unclear(const peali_runner *r)
{
    char call[PEALI_SIGNATURE_TEXT], rank[PEALI_RUN_RANK], who[PEALI_RUN_RANK + 8] = "another rank";
    if (r->dissenter >= 0)
        snprintf(who, sizeof who, "rank %s", peali_run_rank(r, r->dissenter, rank));
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->net->rank,
              "calls differ: in or before %s, %s made others than this rank, and does not say which; make the same calls in the "
              "same order on all ranks%s", peali_signature_words(&r->signature, call), who, r->title);
}

/* Who gives up himself waits for no answer of who did not come at all; who is told of it stays while others may look at him. */
static bool expects_answers(const peali_runner *r)
{
    return r->verdict != PEAL_ERR_TIMEOUT || r->quarrel.one_rank != r->net->rank;
}

/* Was what it is about refused, or aborted? */
static bool is_over(const peali_quarrel *q)
{
    return q->other_rank == PEAL_ERR_ABORTED || q->one.kind == PEALI_SIGNATURE_REFUSED ||
           (q->other_rank >= 0 && q->other.kind == PEALI_SIGNATURE_REFUSED);
}

/*
 * Without a name an error is worth little, and a rank that left on trust may be heard of in its next call only. Who did not come
 * in all of a deadline, or had its call refused, or aborted it, will hardly answer soon: then it is for those within reach, who are
 * told at the same time, and whoever comes from elsewhere behind that waits for a deadline of its own.
 */
static int64_t lingers_ns(const peali_runner *r)
{
    if (!quarrels(r))
        return UNNAMED * r->parley_ns;
    return r->verdict == PEAL_ERR_TIMEOUT || is_over(&r->quarrel) ? r->parley_ns / 2 : answers_ns(r);
}

static peal_status linger(peali_runner *r)
{
    if (!quarrels(r) && (heard(r) || (peali_run_overhear(r) == PEAL_ERR_MISMATCH && names_call(r))))
        return dispute(r, PEAL_ERR_MISMATCH);
    bool settled = peali_parley_settled(r->parley) && quarrels(r);
    bool late = !expects_answers(r) || peali_clock_ns() - r->verdict_ns > lingers_ns(r);
    if (!settled && !late)
        return PEAL_IN_PROGRESS;
    if (!quarrels(r))
        say_unclear(r);
    return fail(r, r->verdict);
}

int64_t peali_run_limit_ns(bool patient)
{
    int64_t limit_ns = peali_config_get()->timeout_ns;
    return limit_ns >= 0 ? limit_ns : patient ? 0 : PEALI_DEFAULT_TIMEOUT_NS;
}

/* Waits for another host, or for who does, and the core is wanted. */
static bool dozes(const peali_runner *r)
{
    int64_t after_ns = r->waits_ns > SOON_FROM_NS ? DOZE_SOON_NS : DOZE_AFTER_NS;
    return peali_run_crowded(r) && r->nreach < r->net->nranks && r->waited_ns > after_ns;
}

static peal_status drive(peali_runner *r, int64_t now_ns)
{
    bool alone = !peali_run_crowded(r) && r->plan->nmessages == 0;
    if (now_ns - r->driven_ns < (dozes(r) ? DRIVE_DOZING_NS : alone ? DRIVE_ALONE_NS : DRIVE_NS))
        return PEAL_OK;
    r->driven_ns = now_ns;
    peali_net_ucx_drive();
    return r->net->progress(r->net);
}

/*
 * Whose program does something else between two looks does not wait, but for as long as a rank that waits takes to ask; and for no
 * more than a part of the deadline, so that there are looks between asking and giving up.
 */
static void count_absence(peali_runner *r, int64_t limit_ns, int64_t now_ns)
{
    int64_t away_ns = now_ns - r->looked_ns - peali_run_sooner(r->parley_ns, limit_ns, 1);
    if (away_ns > 0)
        r->idle_ns += away_ns;
    r->looked_ns = now_ns;
}

static peal_status look_at_clock(peali_runner *r)
{
    int64_t now_ns = peali_clock_ns(), limit_ns = peali_run_limit_ns(r->patient);
    if (r->idle_ns == 0)
        r->idle_ns = r->driven_ns = r->looked_ns = now_ns;
    count_absence(r, limit_ns, now_ns);
    peal_status driven = drive(r, now_ns);
    if (driven < 0)
        return dispute(r, driven);
    int64_t waited_ns = r->waited_ns = now_ns - r->idle_ns;
    if (waited_ns >= peali_run_sooner(r->parley_ns, limit_ns, 2) || peali_run_alarmed(r)) {
        const bool known = peali_run_told(r);
        peali_parley_open(r->parley, &r->quarrel);
        peal_status status = known ? PEAL_ERR_MISMATCH : peali_run_overhear(r);
        if (status == PEAL_IN_PROGRESS && heard(r))
            status = PEAL_ERR_MISMATCH;
        if (status < 0)
            return dispute(r, status);
        name_absent(r, waited_ns, limit_ns, now_ns);
        say_stuck(r);
    }
    if (limit_ns == 0 || waited_ns < limit_ns)
        return PEAL_IN_PROGRESS;
    r->quarrel = failed_here(r, PEAL_ERR_TIMEOUT);
    return dispute(r, PEAL_ERR_TIMEOUT);
}

static bool yields(const peali_runner *r)
{
    return peali_run_crowded(r) || r->idle > SPINS_ALONE;
}

/* After a step that could not finish. */
static peal_status tend(peali_runner *r)
{
    r->idle = r->moved ? 0 : r->idle + 1;
    if (r->idle == 0) {
        r->waits_ns += r->waited_ns;
        r->idle_ns = r->waited_ns = 0;
    }
    if (r->idle > 0 && (yields(r) || r->idle % PASSES_A_CLOCK == 0))
        return look_at_clock(r);
    return PEAL_IN_PROGRESS;
}

/* True where a call that this rank left was wrong. */
static bool betrayed(peali_runner *r)
{
    if (r->failed != PEAL_OK || !(r->trusts || peali_run_alarmed(r)))
        return false;
    r->heeded_ns = peali_clock_ns();
    if (peali_run_told(r))
        return true;
    for (int rank = 0; peali_run_alarmed(r) && peali_parley_furnish(r->parley) == PEAL_OK && rank < r->net->nranks; rank++)
        if (rank != r->net->rank)
            peali_parley_listen(r->parley, rank);
    return peali_run_alarmed(r) ? heard(r) : peali_parley_heard(r->parley, r->signature.sequence, &r->quarrel);
}

/* Before a call does anything. */
static bool doomed(peali_runner *r)
{
    bool begun = r->begun;
    r->begun = true;
    return !begun && (peali_run_alarmed(r) || (r->trusts && peali_clock_ns() - r->heeded_ns > HEED_NS)) && betrayed(r);
}

static peal_status end(peali_runner *r)
{
    const peali_plan *plan = r->plan;
    for (int32_t k = 0; k < plan->nunheard; k++)
        peali_parley_listen(r->parley, plan->unheard[k]);
    r->trusts = plan->nunheard > 0 || (r->trusts && plan->rooted);
    peali_run_deafen(r);
    peali_run_come_home(r);
    if (peali_load_relaxed(&r->mine->is_stuck))
        peali_store_relaxed(&r->mine->is_stuck, 0);
    if (r->timed)
        peali_timeline_end(peali_run_moment(r));
    peali_run_count_left(r);
    r->base += (uint64_t)plan->job.slices;
    peali_run_look_ahead(r);
    r->heard = plan->program->tells && plan->program->nreach > 1 ? r->seen : -1;
    r->plan = NULL;
    return PEAL_OK;
}

static peali_signature refused_call(uint64_t sequence)
{
    return (peali_signature){.sequence = sequence, .kind = PEALI_SIGNATURE_REFUSED, .magic = PEALI_SIGNATURE_MAGIC};
}

/* Ranks within reach must leave the buffers alone, and those elsewhere would wait for this one. */
static peal_status give_up(peali_runner *r)
{
    r->quarrel = failed_here(r, PEAL_ERR_ABORTED);
    peali_runner_tell(r, &r->quarrel);
    peali_parley_open(r->parley, &r->quarrel);
    return fail(r, PEAL_ERR_ABORTED);
}

void peali_run_aborted(peali_runner *r, uint64_t sequence)
{
    if (r->failed != PEAL_OK || !peali_load_relaxed(&r->aborted))
        return;
    r->signature = refused_call(sequence); /* and not noted, as it is no other call than theirs */
    (void)give_up(r);
}

peal_status peali_run_step(peali_runner *r)
{
    if (r->failed != PEAL_OK)
        return r->failed;
    if (peali_load_relaxed(&r->aborted))
        return give_up(r);
    if (r->verdict != PEAL_OK)
        return linger(r);
    peal_status status = doomed(r) || peali_run_given_up(r) ? PEAL_ERR_MISMATCH : peali_run_advance(r);
    if (status == PEAL_IN_PROGRESS)
        return tend(r);
    if (status == PEAL_OK && peali_run_came_too_late(r))
        status = PEAL_ERR_MISMATCH;
    return status < 0 ? dispute(r, status) : end(r);
}

void peali_run_nothing(peali_runner *r, const peali_job *job, uint64_t sequence)
{
    peali_signature call = peali_signature_of(job, sequence);
    peali_run_note(r, &call);
}

/* Whatever it was that it was refused for, and whatever arguments it had: where all ranks had one refused, they are alike. */
void peali_run_refused(peali_runner *r, uint64_t sequence)
{
    peali_signature call = refused_call(sequence);
    peali_run_note(r, &call);
    if (r->nreach < r->net->nranks)
        peali_parley_mention(r->parley);
}

void peali_run_note(peali_runner *r, peali_signature *call)
{
    call->history = r->call;
    call->forced = r->forced;
    r->call = peali_signature_hash(call);
    peali_parley_note(r->parley, call);
    peali_signature_show(&r->mine->past[call->sequence % PEALI_SIGNATURE_PAST], call, r->call);
    peali_store_relaxed(&r->mine->front.call, r->call);
}

void peali_runner_hush(peali_runner *r)
{
    r->hushed = true;
}

void peali_runner_last_words(peali_runner *r)
{
    r->signature.sequence = PEALI_SIGNATURE_ANY; /* behind all calls, also those in which there was nothing to do */
    if (!r->hushed && betrayed(r))
        peali_run_say_quarrel(r, &r->quarrel);
}

/* For how long a rank that waits may sleep now. */
static int64_t nap_ns(const peali_runner *r)
{
    const bool doze = dozes(r);
    if (!doze && r->verdict != PEAL_OK)
        return NAP_NS;
    if (!doze && r->waited_ns <= LONG_NS)
        return 0;
    const int64_t part_ns = r->waited_ns / (doze ? DOZE_PART : NAP_PART);
    return part_ns < NAP_MOST_NS ? part_ns : NAP_MOST_NS;
}

int peali_run_wanted;

/*
 * Ranks that have cores enough may share them with others: those of another communicator, or of another program. So the kernel is
 * asked how often it let somebody else run.
 */
static void give_core_away(bool outnumbered)
{
    static _Thread_local unsigned yields;
    static _Thread_local long before;
    unsigned turn = yields++ % YIELDS_A_LOOK;
    if (turn == 0)
        before = peali_clock_taken();
    outnumbered ? peali_clock_yield() : peali_clock_give_way();
    if (turn < YIELDS_A_LOOK - 1)
        return;
    long times = peali_clock_taken() - before;
    int wanted = peali_load_relaxed(&peali_run_wanted);
    if (wanted ? times == 0 : times > YIELDS_A_LOOK / 2)
        peali_store_relaxed(&peali_run_wanted, !wanted);
}

void peali_run_rest(const peali_runner *r)
{
    int64_t nap = nap_ns(r);
    if (nap > 0)
        peali_clock_sleep(nap);
    else if (yields(r))
        give_core_away(r->outnumbered);
    else
        peali_clock_pause();
}

int peali_run_seen(const peali_runner *r)
{
    return r->heard;
}

void peali_runner_abort(peali_runner *r)
{
    peali_store_relaxed(&r->aborted, 1);
}

void peali_runner_be_patient(peali_runner *r)
{
    r->patient = true;
}
