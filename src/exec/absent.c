/*
 * Who keeps a call waiting, in words: the ranks that say nothing when they are asked. What can be known of them without an answer
 * is said, too: whether they called at all. Ranks that wait in an earlier call are held up themselves, by one that they name.
 */
#include "exec/runner.h"

#include <stdio.h>

#include "base/ranks.h"

enum { FATES = 3 };

const char *peali_run_rank(const peali_runner *r, int rank, char buf[PEALI_RUN_RANK])
{
    if (r->world)
        snprintf(buf, PEALI_RUN_RANK, "%d (world %d)", rank, r->world[rank]);
    else
        snprintf(buf, PEALI_RUN_RANK, "%d", rank);
    return buf;
}

/* Adds words with the list in them, where it has any, to TEXT. */
static size_t say(peali_ranks *l, const char *before, const char *behind, char *text, size_t at, size_t bytes)
{
    if (l->n == 0 || at >= bytes)
        return at;
    const char *joint = at == 0 ? "" : text[at - 1] == '?' ? " " : "; ", *ranks = peali_ranks_end(l);
    return at + (size_t)snprintf(text + at, bytes - at, "%s%s%s %s%s", joint, before, l->n > 1 ? "s" : "", ranks, behind);
}

/* Of RANK; NULL: it is not within reach. */
static const peali_public *shown_of(const peali_runner *r, int rank)
{
    int32_t x = 0;
    while (x < r->nreach && r->ranks[x] != rank)
        x++;
    return x < r->nreach ? r->shown[x] : NULL;
}

/* Within reach ranks show what they called, whether they answer or not. */
static bool shows(const peali_runner *r, int rank)
{
    peali_signature theirs;
    const peali_public *p = shown_of(r, rank);
    return p && peali_signature_look(&p->past[r->signature.sequence % PEALI_SIGNATURE_PAST], &theirs) &&
           theirs.sequence >= r->signature.sequence;
}

/* Adds what has become of the processes of the first silent ones: "; process 1234 of rank 2 is stopped". */
static size_t say_fates(const peali_runner *r, char *text, size_t at, size_t bytes)
{
    int told = 0;
    for (int32_t x = 0; x < r->nreach && told < FATES && at < bytes; x++) {
        const peali_process *of = &r->shown[x]->process;
        bool silent = x != r->me && peali_parley_stand(r->parley, r->ranks[x]) == PEALI_STAND_SILENT;
        char rank[PEALI_RUN_RANK];
        const char *fate = silent && of->id != r->mine->process.id ? peali_process_fate(of) : NULL;
        if (!fate)
            continue;
        told++;
        at += (size_t)snprintf(text + at, bytes - at, "%sprocess %llu of rank %s %s", text[at - 1] == '?' ? " " : "; ",
                               (unsigned long long)of->id, peali_run_rank(r, (int)r->ranks[x], rank), fate);
    }
    return at;
}

/* Others have sent it. */
static bool sent(const peali_runner *r, int rank)
{
    for (int32_t lead = 0; r->plan && lead < r->plan->nleads; lead++) {
        const peali_instr *i = &r->plan->program->instrs[r->plan->first[lead]];
        if (i->peer == rank && i->kind == PEALI_I_RECV && r->leads[lead].state >= PEALI_LEAD_OVER)
            return true;
    }
    return false;
}

bool peali_run_absent(const peali_runner *r, char *text, size_t bytes, bool *speaker)
{
    peali_ranks away = {.world = r->world}, stuck = {.world = r->world}, behind = {.world = r->world};
    *speaker = true;
    for (int rank = 0; rank < r->net->nranks; rank++) {
        peali_stand stand = rank == r->net->rank ? PEALI_STAND_AHEAD : peali_parley_stand(r->parley, rank);
        *speaker &= stand != PEALI_STAND_HERE || rank > r->net->rank;
        if (stand == PEALI_STAND_SILENT)
            peali_ranks_put(shows(r, rank) || sent(r, rank) ? &stuck : &away, rank);
        else if (stand == PEALI_STAND_BEHIND)
            peali_ranks_put(&behind, rank);
    }
    text[0] = '\0';
    size_t at = say(&away, "no word from rank", "; not called there yet?", text, 0, bytes);
    at = say(&stuck, "no word from rank", " since the call began there; stopped, or busy elsewhere?", text, at, bytes);
    at = at > 0 ? say_fates(r, text, at, bytes) : 0;
    (void)say(&behind, "in an earlier call: rank", "", text, at, bytes);
    return text[0];
}
