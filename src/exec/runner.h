/*
 * A runner from inside: the state that making room, computing, messages, the loop and waiting share.
 */
#ifndef PEALI_RUNNER_H
#define PEALI_RUNNER_H

#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "exec/run.h"
#include "exec/timeline.h"

enum {
    PEALI_RUN_WARM = 4,  /* addresses of OUT that are thought to be in the caches still, where these have room for so many */
    PEALI_RUN_AROUND = 9 /* 2^9 places: of 64 ranks that take 8 buffers in turn, each its own */
};

typedef struct peali_cursor {
    int32_t slice; /* number within the call; K or more: none left */
    int32_t pc;
    int32_t place; /* among the slices in flight: of scratch and staging */
    int32_t area;  /* push: where it lands */
    bool offered;  /* others are not done yet with what they took of its instruction */
    bool *over;    /* per request: its message is over */
    bool *open;    /* per request: the timeline has the begin of its message, and not its end */
    peali_net_req *reqs;
} peali_cursor;

/* The message that carries the signature from one rank to another, before or with any other in a call. */
typedef struct peali_lead {
    enum { PEALI_LEAD_TO_COME, PEALI_LEAD_POSTED, PEALI_LEAD_OVER, PEALI_LEAD_TAKEN } state; /* taken: its data is in its place */
    uint8_t lane; /* whose first message it has with it, in slice 0 and if that is small; PEAL_LANES: none */
    peali_net_req req;
} peali_lead;

typedef struct peali_stray {
    bool posted; /* and not over */
    peali_net_req req;
    unsigned char at[]; /* as long as a lead may be */
} peali_stray;

struct peali_runner {
    peali_net *net;     /* of this call, or the last one: one of the next two */
    peali_net *direct;  /* the caller's */
    peali_net *courier; /* NULL: before the first plan that goes by it */
    peali_courier_use use;
    int64_t began_ns;   /* the call, where its plan has a trial */
    int64_t heard_ns;   /* when the last call with messages ended, or this was made */
    bool outnumbered, pooled, staged, timed;
    int32_t me, nreach;
    const int32_t *ranks; /* within reach, in the communicator */
    peali_public **shown, *mine;
    ptrdiff_t *shift;     /* of each: added to its addresses */
    uintptr_t around[1 << PEALI_RUN_AROUND]; /* places of the last stores to memory of others */
    uint64_t *agreed;     /* of each: the last call that it is known to share with this rank, as its hash */
    peali_lands lands;
    const char *title;    /* "" or " (...)", for the end of what is said */
    const int32_t *world; /* NULL: ranks have one number */
    int64_t *known, sure; /* push: slices that each rank within reach, and that all of them, are known to have left */
    peal_status failed;
    int aborted; /* relaxed: a flag that says stop, and orders nothing */
    const peali_plan *plan;
    const unsigned char *in;
    unsigned char *out;
    bool staged_in, staged_out; /* in this call */
    const void *outs[PEALI_RUN_WARM]; /* the last ones of calls that stream into cold buffers */
    unsigned nouts;
    _Alignas(max_align_t) unsigned char scalars[PEALI_PLAN_SCALARS];
    bool seen;             /* in this call, of the buffers that count (lower.h, tells), those heard of so far are */
    int heard;             /* that of the last call; -1: not all ranks know */
    int64_t left_by_all;   /* slices, as many on all ranks (show.c) */
    int64_t due[PEALI_RUN_CLASSES];         /* of each class: what all have to have left before it is read, or shown anew */
    uint64_t shows[PEALI_RUN_CLASSES / 64]; /* bit per class: it is shown, and not read yet */
    peali_signature signature, theirs; /* theirs: of rank dissenter, if that is not -1 */
    uint64_t call;         /* hash of the signature, or of the last one */
    uint64_t forced;       /* hash of what the communicator forces */
    int dissenter;
    peali_parley *parley;
    peali_quarrel quarrel; /* over which this call failed, if it did */
    peal_status verdict;    /* the call failed, and its ranks still tell each other why */
    int64_t verdict_ns;     /* since when */
    bool patient;
    int64_t parley_ns;
    unsigned idle;          /* passes without progress */
    int64_t idle_ns;        /* since when; 0: not idle */
    int64_t driven_ns;      /* idle: when the host library was last driven, or the wait began */
    int64_t looked_ns;      /* when the clock was last looked at */
    int64_t waited_ns;      /* for how long, when the clock was last looked at */
    int64_t waits_ns;       /* all waits of this call before, together */
    int64_t complained_ns;  /* when this rank last spoke of absent ones, */
    int64_t borne_ns;       /* and for how long it has waited then in all */
    uint64_t base; /* slices of all calls before this one */
    int32_t left;  /* slices that have not left this rank */
    bool moved;    /* something went on in the last step */
    bool streamed; /* what nobody has been told of yet */
    peali_cursor *cursors;
    int32_t ncursors, nreqs, noperands; /* for how much there is room */
    size_t scratch_bytes, staging_bytes;
    bool *over, *open;
    peali_net_req *reqs;
    peali_lead *leads;
    unsigned char *bounce; /* per lead: a signature, and behind it the data of a small message */
    bool remains;          /* a message of a call that failed is under way still: what it may read or write is never freed */
    size_t lead_bytes;     /* at most, of any call */
    int32_t nleads;
    void *strays;        /* per rank, a peali_stray: a lead that is not expected; NULL before the first call that lasted */
    bool astray;         /* they are under way */
    bool begun;          /* the call has made its first step */
    bool hushed;         /* what went wrong was said elsewhere */
    bool trusts;         /* this rank left a call that only had it send; whether all called alike is to be heard yet */
    int64_t heeded_ns;   /* when it last asked */
    unsigned char *scratch, *staging;
    void **dst;
    const void **src;
    size_t piece;        /* of any sum, in which ranks help each other; 0: as help.c finds */
    unsigned char *spare; /* push: for the part of IN that an offered sum reads */
    size_t spare_bytes;
    unsigned char *part; /* of OUT: what gets an offered sum at its end, PAST the caches; NULL: nothing does */
    bool part_past;
    uint64_t helpers;    /* pieces of this rank's sum that others took, until all are done */
    bool looked_again;   /* for what it waits for itself, since it saw another's offer */
};

/* Others want the cores of this process, as the kernel showed. Relaxed: a hint. */
extern int peali_run_wanted;

/* Who waits shall give its core away at once. */
static inline bool peali_run_crowded(const peali_runner *r)
{
    return r->outnumbered || peali_load_relaxed(&peali_run_wanted);
}

/* Its number among all that were started together. */
static inline int peali_run_world(const peali_runner *r, int rank)
{
    return r->world ? r->world[rank] : rank;
}

static inline uint64_t peali_run_slice(const peali_runner *r, const peali_cursor *c)
{
    return r->base + (uint64_t)c->slice;
}

/* Push: the landing area that comes BY behind AREA, at most all of them. */
static inline int32_t peali_run_area(const peali_runner *r, int32_t area, int32_t by)
{
    return area + by < r->lands.areas ? area + by : area + by - r->lands.areas;
}

/*
 * Push: what says that slice G of this call has landed. A call with another signature stamps otherwise; one bit says whether
 * peers see the buffers that count (lower.h, tells) of the writer, and of all whom it heard of.
 */
enum { PEALI_RUN_STAMP_BITS = 40 };
#define PEALI_RUN_SEEN ((uint64_t)1 << PEALI_RUN_STAMP_BITS)

static inline uint64_t peali_run_stamp(const peali_runner *r, uint64_t g)
{
    return r->call << PEALI_RUN_STAMP_BITS << 1 | (r->seen ? PEALI_RUN_SEEN : 0) | ((g + 1) & (PEALI_RUN_SEEN - 1));
}

/* Is THERE the stamp of slice G? If it is, this rank has heard of its writer. */
static inline bool peali_run_stamped(peali_runner *r, uint64_t there, uint64_t g)
{
    bool is = (there | PEALI_RUN_SEEN) == (peali_run_stamp(r, g) | PEALI_RUN_SEEN);
    r->seen &= !is || (there & PEALI_RUN_SEEN);
    return is;
}

/* Whose memory operand LOC is, among the ranks within reach: a program that has messages only knows none but its own. */
static inline int32_t peali_run_owner(const peali_runner *r, peali_loc loc)
{
    return loc.rank + r->me - r->plan->program->me;
}

static inline int32_t peali_run_first_req(const peali_plan *plan, int32_t instr)
{
    return plan->first_req ? plan->first_req[instr] : instr;
}

/*
 * Compute: where span UNIT of operand LOC lies, its bytes, the instruction itself, that the slots it filled have what they should,
 * and staging. Pull: does it lie where the user has it, even where its buffer is staged? Does what its owner shows of its memory
 * count (lower.h, tells)?
 */
unsigned char *peali_run_address(const peali_runner *r, const peali_cursor *c, const peali_instr *i, peali_loc loc, int32_t unit);
size_t peali_run_length(const peali_runner *r, const peali_cursor *c, const peali_instr *i, int32_t unit);
void peali_run_compute(peali_runner *r, const peali_cursor *c, const peali_instr *i);
void peali_run_stamp_slots(peali_runner *r, const peali_cursor *c, const peali_instr *i);
void peali_run_stage(peali_runner *r, const peali_cursor *c, bool fills);
bool peali_run_at_home(const peali_runner *r, const peali_instr *i, peali_loc loc);
bool peali_run_tells(const peali_runner *r, peali_loc loc);

/* This rank will store BYTES to AT, in memory that OWNER shows. */
void peali_run_map_around(peali_runner *r, int32_t owner, const void *at, size_t bytes);

/* Combines BYTES of r->src into each of r->dst; PAST the caches. */
void peali_run_combine(peali_runner *r, int ndst, int nsrc, size_t bytes, bool past);

/*
 * Ranks that wait help the others (help.c). Do they in PLAN? Offers the sum of I, BYTES of r->src into r->dst PAST the caches, and
 * adds up what others leave; false: it is none to offer, and nothing was done. Have they done what they took? Then the end, which
 * is nothing where no sum was offered. And: adds up a piece of another rank's, if there is one; true: this rank is to look again.
 * The rank within reach that helps this one; -1: none.
 */
bool peali_run_helps(const peali_runner *r, const peali_plan *plan);
bool peali_run_offer(peali_runner *r, const peali_instr *i, size_t bytes, bool past);
bool peali_run_offer_is_over(peali_runner *r);
void peali_run_offer_end(peali_runner *r);
bool peali_run_help(peali_runner *r);
int32_t peali_run_helper(const peali_runner *r);

/* Before messages begin, and before another thread of this rank may go on; peali_run_tell does so by itself. */
static inline void peali_run_settle(peali_runner *r)
{
    if (r->streamed)
        peali_reduce_settle();
    r->streamed = false;
}

/* Tells others: who sees VALUE in WORD sees all that this rank stored before. */
static inline void peali_run_tell(peali_runner *r, uint64_t *word, uint64_t value)
{
    peali_run_settle(r);
    peali_store_release(word, value);
}

/* Asks for the line AT, to store to. Told of x86-64 alone, gcc asks to read; CPUs without this instruction take it for none. */
static inline void peali_run_ask_to_store(const void *at)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const unsigned char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* At the end of a call: gives the user what a fork during it has parted from the buffer. */
void peali_run_come_home(const peali_runner *r);

/* Push: writes to each line of the BYTES that landed AT for this rank alone, which may read them again: all stays what it is. */
static inline void peali_run_take_over(const void *at, size_t bytes)
{
    for (size_t o = 0; o < bytes; o += PEALI_REACH_LINE) {
        volatile unsigned char *line = (volatile unsigned char *)at + o;
        *line = *line;
    }
}

/* Push: the line of landing slot LOC, whose value is its stamp. */
peali_line *peali_run_landing(const peali_runner *r, const peali_cursor *c, peali_loc loc);

/* Messages: starts that of the instruction at C; tells whether that of instruction NO is over, and asks nobody; forgets all. */
peal_status peali_run_message(peali_runner *r, peali_cursor *c, const peali_instr *i);
peal_status peali_run_over(peali_runner *r, peali_cursor *c, int32_t no);
bool peali_run_pending(const peali_runner *r, const peali_cursor *c, int32_t no);

/* " by" and how the message of I goes, as the transport says it; or "". */
void peali_run_way(const peali_runner *r, const peali_cursor *c, const peali_instr *i, char *text, size_t bytes);
void peali_run_cancel(peali_runner *r);

/* Forgets what would still read peers' memory: the receives. */
void peali_run_hands_off(peali_runner *r);

/* The rank within reach that C waits for, or -1. */
int32_t peali_run_awaits(const peali_runner *r, const peali_cursor *c);

/*
 * A rank within reach has given up this call, or one before it, and may use its buffers again: none of them is touched any more.
 * Where it has, r->quarrel says why.
 */
bool peali_run_given_up(peali_runner *r);

/* The same at the end of a call that has done its part, and over messages, too. */
bool peali_run_came_too_late(peali_runner *r);

/* A rank within reach has told of a quarrel in this call, or one before it: r->quarrel. */
bool peali_run_told(peali_runner *r);

/* There may be something that this rank was told. */
static inline bool peali_run_alarmed(const peali_runner *r)
{
    return peali_load_relaxed(&r->mine->alarm);
}

/* NS, or where the deadline LIMIT_NS comes sooner so many QUARTERS of it: ranks ask before it, and name who did not answer. */
static inline int64_t peali_run_sooner(int64_t ns, int64_t limit_ns, int quarters)
{
    const int64_t latest_ns = limit_ns / 4 * quarters;
    return limit_ns > 0 && latest_ns < ns ? latest_ns : ns;
}

/*
 * For a pass that ended waiting: lets messages be received whose leads have come, whatever the program waits for, because the other
 * rank's sends may wait for that. PEAL_IN_PROGRESS or an error.
 */
peal_status peali_run_hear(peali_runner *r);

/*
 * For a call that does not end: looks for leads from all ranks, whether the call expects them now, later or never.
 * PEAL_IN_PROGRESS; PEAL_ERR_MISMATCH: r->dissenter has another call; or an error of the transport. Deafen comes before the next
 * call.
 */
peal_status peali_run_overhear(peali_runner *r);
void peali_run_deafen(peali_runner *r);

/*
 * Says in TEXT (PEALI_RUN_ABSENT bytes are enough) which ranks keep the call waiting, as far as the parley tells; false: none. Of
 * those in the call the lowest rank is to speak for all: *SPEAKER.
 */
enum { PEALI_RUN_ABSENT = 1792 };
bool peali_run_absent(const peali_runner *r, char *text, size_t bytes, bool *speaker);

/* RANK, as people are told of it: "1 (world 3)" where it has another number among all that were started. Returns BUF. */
enum { PEALI_RUN_RANK = 32 };
const char *peali_run_rank(const peali_runner *r, int rank, char buf[PEALI_RUN_RANK]);

/* At the end: says what was wrong with a call that this rank left on trust, if that is known by now. */
void peali_runner_last_words(peali_runner *r);

/*
 * The loop's parts that small calls share. Pull: have the ranks that I waits for come far enough? Push: may slice C begin; what a
 * line says that has not the stamp of slice G, but THERE. And the slice is over. Push, behind a call: looks at what is left for the
 * next one.
 */
peal_status peali_run_awaited(peali_runner *r, const peali_cursor *c, const peali_instr *i);
bool peali_run_credited(peali_runner *r, const peali_cursor *c);
peal_status peali_run_stranger(peali_runner *r, uint64_t there, uint64_t g);
void peali_run_leave(peali_runner *r, peali_cursor *c);
void peali_run_look_ahead(peali_runner *r);

/* For the timeline: the call. */
peali_moment peali_run_moment(const peali_runner *r);

/* At the end of a call, what all ranks have left is counted (show.c). */
void peali_run_count_left(peali_runner *r);

/* Small calls: finds out whether PLAN is one, and all its operands; and goes on with it as far as possible. */
typedef struct peali_small peali_small;
peal_status peali_small_make(peali_runner *r, peali_plan *plan);
void peali_small_begin(const peali_runner *r);
peal_status peali_small_advance(peali_runner *r);

/* The loop: the cursor of the oldest slice in flight; and as many instructions as can go on. PEAL_OK: all slices have left. */
int32_t peali_run_oldest(const peali_runner *r);
peal_status peali_run_advance(peali_runner *r);

#endif
