/*
 * The workbench of one lowering: pending values (fuse.c) become emitted instructions (emit.c), driven by the operations of all
 * ranks within reach in one fixed order (lower.c). All of it lies in one arena that ends with the lowering.
 */
#ifndef PEALI_WORK_H
#define PEALI_WORK_H

#include <setjmp.h>

#include "lower/lower.h"
#include "sched/cuts.h"

/* A set of events that come from out of reach (arrivals, completions of sends); w->nwords words. */
typedef uint64_t peali_events;

/*
 * A value that is known but not stored yet: sources in order, and where it goes. All operands have the range [first, end) of
 * cuts.
 */
typedef struct peali_pending {
    int32_t exec; /* index of the rank that runs it */
    int32_t first, end;
    int32_t nsrc, ndst, src_cap, dst_cap;
    peali_loc *src, *dst;
    bool live;
    int32_t after;         /* of what its rank sends: as many went out before it had its last source */
    peali_events *allowed; /* published: the events that it may wait for; NULL before another rank relies on it */
} peali_pending;

/* An emitted instruction. */
typedef struct peali_rec {
    peali_instr i;
    int32_t rank, no, seq; /* index of its rank; its number there; its number among all */
    bool async;            /* send or recv: over only where somebody waited */
    struct peali_rec *waiter; /* async: the first instruction of its rank that waits for it and is itself not async */
    bool waited;
    struct peali_rec *asker; /* who last noted that it comes after this one */
    peali_loc *locs; /* sources, then destinations */
    struct peali_rec **waits, **awaits;
    int32_t *clock; /* instructions of each rank that are over before this one is */
    peali_events *events; /* that happened before it begins (send, recv) or is over (all others) */
    int32_t event;        /* async: the event of its being over; else -1 */
} peali_rec;

typedef struct peali_link {
    void *what;
    struct peali_link *next;
} peali_link;

/* One piece of a rank's IN and OUT (which may be one memory), one scratch buffer, or one landing slot of a rank. */
typedef struct peali_cell {
    peali_link *writers, *readers; /* pending values; dead ones are skipped */
    peali_rec *wrote;              /* emitted: the last writer, and readers since */
    peali_link *read;
} peali_cell;

typedef struct peali_vec {
    void **at;
    int32_t n, cap;
} peali_vec;

/* A landing slot (push): written once a slice, by one store of a peer within reach or by one message from out of reach. */
typedef struct peali_landing {
    peali_cell cell;
    int32_t first, end; /* cuts */
    bool read;
} peali_landing;

/* The values that a rank sends within reach, as they are sent, of which so many are stored. */
typedef struct peali_outgoing {
    peali_vec sent;
    int32_t stored;
} peali_outgoing;

typedef struct peali_work {
    peali_arena arena;
    const peali_reach *reach;
    peali_mode mode;
    int fuse;  /* 2: all that can be; 1: a rank's own copies are stored at once; 0: every value is */
    bool bad;  /* an outgoing message waits for an event that it would not wait for in list order */
    peal_sched **scheds; /* per rank within reach */
    peali_cuts cuts;
    int32_t npieces, ncells;
    peali_cell *cells;   /* ncells of each rank: pieces, then scratch buffers */
    peali_vec *code;     /* per rank: its peali_rec in order */
    peali_vec pendings;  /* all, in order of birth */
    peali_vec *run_by;   /* per rank: those that it runs, likewise, but for some that are stored */
    int nested;          /* calls that go through one of these */
    peali_vec *landings; /* per rank: its peali_landing */
    peali_outgoing *outgoing; /* per rank */
    int32_t nrecs;
    int32_t nevents, nwords;
    peali_events **list_order; /* per rank: events that happened before its next operation, run in list order */
    peali_events **now;        /* per rank: events that happened before its next instruction */
    jmp_buf *end;        /* where lowering goes on when memory runs out; NULL: it is over */
    bool failed;         /* memory ran out */
} peali_work;

/* Zeroed memory of the workbench. Where there is none, w->failed, and lowering ends; NULL after its end. */
void *peali_work_get(peali_work *w, size_t count, size_t size);
void peali_work_push(peali_work *w, peali_vec *v, void *what);
void peali_work_link(peali_work *w, peali_link **list, void *what);

/* The cells that LOC touches over cuts [first, end): the first, and how many. */
static inline peali_cell *peali_work_cells(const peali_work *w, peali_loc loc, int32_t first, int32_t end, int32_t *n)
{
    peali_cell *mine = w->cells + (int64_t)loc.rank * w->ncells;
    if (loc.buf < 0) {
        *n = 1;
        return &((peali_landing *)w->landings[loc.rank].at[-1 - loc.buf])->cell;
    }
    *n = loc.buf >= PEAL_BUF_TMP ? 1 : end - first;
    return loc.buf >= PEAL_BUF_TMP ? mine + w->npieces + loc.buf - PEAL_BUF_TMP : mine + first;
}

/* Event sets. */
static inline bool peali_events_within(const peali_work *w, const peali_events *a, const peali_events *b)
{
    for (int32_t i = 0; i < w->nwords; i++)
        if (a[i] & ~b[i])
            return false;
    return true;
}

static inline void peali_events_join(const peali_work *w, peali_events *to, const peali_events *from)
{
    for (int32_t i = 0; i < w->nwords; i++)
        to[i] |= from[i];
}

static inline void peali_events_add(peali_events *to, int32_t event)
{
    if (event >= 0)
        to[event / 64] |= (peali_events)1 << event % 64;
}

/* Emission. Operands: nsrc sources, then ndst destinations, in memory of the workbench. EVENT: see peali_rec. */
peali_rec *peali_emit(peali_work *w, int32_t rank, peali_instr instr, peali_loc *locs, int32_t event);

/* Pull, out of reach: the memory at LOC is about to be sent within reach, so what arrives there is waited for. */
void peali_emit_settle(peali_work *w, peali_loc loc, int32_t first, int32_t end);

/* Push, at the end: drops stores to a rank's own memory that are overwritten unread; nobody else can read them. */
void peali_emit_prune(peali_work *w);

/* Stores the published values of rank RANK that may not wait for EVENTS, because it is about to. */
void peali_fuse_before(peali_work *w, int32_t rank, const peali_events *events);

/* A new landing slot of RANK, for [first, end). */
peali_loc peali_fuse_land(peali_work *w, int32_t rank, int32_t first, int32_t end);

/*
 * Moves D <- S over [first, end): a copy of rank RANK, or (from != rank) a message of FROM received by RANK within reach. DEAD: the
 * scratch buffer of S is not read any more. SENT: the events before the send, in list order.
 */
typedef struct peali_move {
    int32_t rank, from;
    int32_t first, end;
    peali_loc d, s;
    bool dead;
    const peali_events *sent;
} peali_move;

/* A send of M->rank within reach: what is pending at M->s is published; push: it also goes to landing slot M->d. */
void peali_fuse_send(peali_work *w, const peali_move *m);

void peali_fuse_move(peali_work *w, const peali_move *m);
void peali_fuse_reduce(peali_work *w, const peali_move *m);

/* What a message out of reach reads: stores or looks through whatever is pending there. */
peali_loc peali_fuse_source(peali_work *w, const peali_move *m);

/* D is about to be overwritten by something that is no pending value: what reads it is stored, what would write it is dropped. */
void peali_fuse_overwrite(peali_work *w, peali_loc d, int32_t first, int32_t end);

/* Stores all that is pending and drops what no OUT and no peer needs. */
void peali_fuse_finish(peali_work *w);

/* Stores all that is pending, as it is: for lowering without fusing. */
void peali_fuse_flush(peali_work *w);

/* The program of the rank with index X, in memory of its own. */
PEAL_MUST_CHECK peal_status peali_pack(peali_work *w, int x, const peal_algo *algo, peali_program **out);

#endif
