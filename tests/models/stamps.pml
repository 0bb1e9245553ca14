/*
 * Push on a CPU (exec/run.c and small.c: landed, credited, learn, leave): a rank stores what others read in an area of its
 * own, and stamps it with the number of the slice. Numbers do not begin again.
 *
 * Modelled: N ranks, CALLS calls in a row of SLICES slices, WINDOW of them in flight, and twice as many areas. In a call all
 * read from all, or all from a root (broadcast), or a root from all (reduce). Before a rank begins slice g it makes sure that
 * all have left the slice that had the area before: each says how many slices it has left, and the end of a slice in which
 * all read from all says that all have begun it. Stores become visible in any order, but that of a stamp, or of what was
 * left, after all that its rank stored before.
 *
 * Proved: data behind a stamp of this slice is of this slice; nobody waits for ever.
 *
 * Assumed: loads stay in order (acquire).
 *
 * BUG_NO_RELEASE   a stamp may become visible before its data
 * BUG_NO_CREDIT    nobody waits for what others have left
 * BUG_OPEN         the end of any slice is taken for news of all ranks
 * BUG_LEARN        who has begun a slice is taken to have left it
 * BUG_NEWEST       a rank says that it has left the newest slice that it is through with, while an older one is in flight
 */
#ifndef N
#define N 2
#endif
#ifndef SLICES
#define SLICES 2
#endif
#ifndef WINDOW
#define WINDOW 1
#endif
#ifndef CALLS
#define CALLS 3
#endif
#define AREAS (2 * WINDOW)

#define DATA(rank, w) ((rank) * AREAS + SLICE(w) % AREAS)
#define STAMP(rank, w) (N * AREAS + (rank) * AREAS + SLICE(w) % AREAS)
#define LEFT(rank) (2 * N * AREAS + (rank))
#define ALL (2 * N * AREAS + N)

byte memory[ALL];
byte flying[ALL]; /* 1 + what was stored there, and is not visible yet */

/* What is stored becomes visible some time. */
active [ALL] proctype Wire()
{
end:
    do
    :: d_step { flying[_pid] -> memory[_pid] = flying[_pid] - 1; flying[_pid] = 0 }
    od
}

/* What the calls are: whoever begins one first decides. */
mtype = { ALL_TO_ALL, BROADCAST, REDUCE };
mtype kind[CALLS + 1];

inline start()
{
    if
    :: kind[call] == 0 ->
        if
        :: kind[call] = ALL_TO_ALL
        :: kind[call] = BROADCAST
        :: kind[call] = REDUCE
        fi
    :: else
    fi;
    for (x : 0 .. WINDOW - 1) { slice[x] = x }
    x = 0
}

#define IS(what) (kind[call] == what)
#define READS(who, from) ((who) != (from) && (IS(ALL_TO_ALL) || (IS(BROADCAST) && (from) == 0) || (IS(REDUCE) && (who) == N - 1)))
#define STORES (IS(ALL_TO_ALL) || (IS(BROADCAST) && me == 0) || (IS(REDUCE) && me != N - 1))

/* The slice at cursor w, numbered through all calls. */
#define SLICE(w) (base + slice[w])

#ifdef BUG_NO_CREDIT
#define SURE(w) true
#else
#define SURE(w) (sure + AREAS > SLICE(w))
#endif
#define HAS_LEFT(x, w) ((x) == me || memory[LEFT(x)] + AREAS > SLICE(w))
#define CREDITED(w) (SURE(w) || (HAS_LEFT(0, w) && HAS_LEFT(1, w) && HAS_LEFT(N - 1, w)))
#define STAMPED(x, w) (!READS(me, x) || memory[STAMP(x, w)] == SLICE(w) + 1)
#define MAY(w) (slice[w] < SLICES && ((!begun[w] && CREDITED(w)) || \
                                      (begun[w] && STAMPED(0, w) && STAMPED(1, w) && STAMPED(N - 1, w))))

#ifdef BUG_NO_RELEASE
#define VISIBLE(at) true
#else
#define VISIBLE(at) (!flying[at])
#endif

/* All that this rank stored is visible. */
inline release()
{
    for (x : 0 .. AREAS - 1) { VISIBLE(me * AREAS + x) && VISIBLE((N + me) * AREAS + x) }
    x = 0
}

inline enter(w)
{
    if
    :: !SURE(w) -> sure = SLICE(w) + 1 - AREAS
    :: else
    fi
}

inline fill(w)
{
    if
    :: STORES ->
        flying[DATA(me, w)] = 1 + SLICE(w) + 1;
        release();
        flying[STAMP(me, w)] = 1 + SLICE(w) + 1
    :: else
    fi
}

inline read(w)
{
    for (x : 0 .. N - 1) { assert(!READS(me, x) || memory[DATA(x, w)] == SLICE(w) + 1) }
    x = 0
}

#ifdef BUG_OPEN
#define CLOSED true
#else
#define CLOSED IS(ALL_TO_ALL)
#endif
#ifdef BUG_LEARN
#define BEGUN 0
#else
#define BEGUN WINDOW
#endif

/* All have begun slice g, so they have left g - WINDOW, and all slices of the calls before. */
inline learn(w)
{
    if
    :: CLOSED && sure + BEGUN < SLICE(w) + 1 -> sure = SLICE(w) + 1 - BEGUN
    :: else
    fi;
    if
    :: CLOSED && sure < base -> sure = base
    :: else
    fi
}

#if WINDOW == 1
#define OLDEST slice[0]
#define NEWEST slice[0]
#else
#define OLDEST (slice[0] < slice[1] -> slice[0] : slice[1])
#define NEWEST (slice[0] < slice[1] -> slice[1] - 1 : slice[0] - 1)
#endif
#ifdef BUG_NEWEST
#define GONE NEWEST
#else
#define GONE OLDEST
#endif

inline leave(w)
{
    learn(w);
    slice[w] = slice[w] + WINDOW;
    release();
    flying[LEFT(me)] = 1 + base + (GONE < SLICES -> GONE : SLICES)
}

inline step(w)
{
    if
    :: !begun[w] -> begun[w] = true; enter(w); fill(w)
    :: begun[w] -> begun[w] = false; read(w); leave(w)
    fi
}

proctype Rank(byte me)
{
    byte call = 1, base = 0, sure = 0, x;
    byte slice[WINDOW];
    bool begun[WINDOW];
    do
    :: call > CALLS -> break
    :: else ->
        atomic { start() }
        do
        :: atomic { MAY(0) -> step(0) }
#if WINDOW > 1
        :: atomic { MAY(1) -> step(1) }
#endif
        :: OLDEST >= SLICES -> break
        od;
        atomic { base = base + SLICES; call++ }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N - 1) { run Rank(i) }
    }
}
