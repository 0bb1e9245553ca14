/*
 * Credits (cuda/call.h, left and heard): programs in which a rank may be through before others have begun, among programs in
 * which the end of every rank waits for the begin of all.
 *
 * Modelled: one lane of N ranks, and slices without end: all send to all, or a root to all (broadcast), or all to a root
 * (reduce). Lines, their two areas and old flags are as in lines.pml. A rank that has to store at b in slice e, and has not heard
 * in slice e-1 that all had begun it, waits until b says that it has left slice e-2: b stores the number of the last slice it
 * left at every other rank. It does so as it begins a slice in which not all hear; and every REFRESH slices (65536 in the
 * kernels), because which of two numbers is behind is only known while they are less than half a round apart. With PROMPT what a
 * rank says is visible at once, and the whole area is cleaned, which leaves three ranks few enough states.
 *
 * Proved: what is taken for a line of this slice is one; no line is stored to while an older store is on its way there;
 * nobody waits for ever.
 *
 * Assumed: as in lines.pml; and that a rank has left a slice is visible before it says so of a later one.
 *
 * BUG_NO_CREDIT    nobody waits for what others have left
 * BUG_LATE_CREDIT  slice e-3 is enough
 * BUG_EARLY_LEFT   a rank says as it begins a slice that it has left that
 * BUG_OLD_LEFT     no REFRESH: after half a round of slices in which all hear, what is behind looks ahead
 * BUG_OLD_HEARD    after a slice in which not all hear, what was heard before it still counts
 */
#ifndef N
#define N 2
#endif
#define NUMBERS 8
#define SLICES 16
#define REFRESH 2

#define NUMBER(slice) ((slice) % NUMBERS)
#define CLEAN SLICES
#define FLAG(value) ((value) == CLEAN -> NUMBERS : (value) % NUMBERS)
#define AREA(slice) ((slice) % 2)
#define LINES (N * 2 * N)
#define LINE(rank, slice, from) (((rank) * 2 + AREA(slice)) * N + (from))
#define LEFT(at, of) (LINES + (at) * N + (of))
#define ALL (LINES + N * N)

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

/* What the slices are: whoever begins one first decides. */
mtype = { ALL_TO_ALL, BROADCAST, REDUCE };
mtype kind[8];
byte root[8];
byte newest;
byte through[8]; /* ranks */

/* What no rank looks at any more is forgotten. */
inline end()
{
    through[slice % 8]++;
    if
    :: through[slice % 8] == N -> through[slice % 8] = 0; kind[slice % 8] = 0; root[slice % 8] = 0
    :: else
    fi;
    slice = (slice + 1) % SLICES
}

inline begin()
{
    if
    :: slice == (newest + 1) % SLICES ->
        newest = slice;
        if
        :: kind[slice % 8] = ALL_TO_ALL; root[slice % 8] = 0
        :: kind[slice % 8] = BROADCAST; root[slice % 8] = 0
        :: kind[slice % 8] = REDUCE; root[slice % 8] = N - 1
#if N == 2
        :: kind[slice % 8] = BROADCAST; root[slice % 8] = N - 1
#endif
        fi
    :: else -> assert(kind[slice % 8])
    fi
}

#define ROOT root[slice % 8]
#define ALL_HEAR (kind[slice % 8] == ALL_TO_ALL)
#define STORES(from, to) ((from) != (to) && (ALL_HEAR || (kind[slice % 8] == BROADCAST && (from) == ROOT) || \
                                             (kind[slice % 8] == REDUCE && (to) == ROOT)))

#define HALF (NUMBERS / 2)
#ifdef BUG_LATE_CREDIT
#define BEHIND 3
#else
#define BEHIND 2
#endif
#define HAS_LEFT(x) ((memory[LEFT(me, x)] + 2 * NUMBERS - NUMBER(slice) + BEHIND) % NUMBERS < HALF)

#ifdef PROMPT
#define SAY(x, last) memory[LEFT(x, me)] = NUMBER(last)
#else
#define SAY(x, last) !flying[LEFT(x, me)] -> flying[LEFT(x, me)] = 1 + NUMBER(last)
#endif

inline say_left(last)
{
    for (x : 0 .. N - 1) {
        if
        :: x != me -> SAY(x, last)
        :: else
        fi
    }
    x = 0
}

#ifdef BUG_NO_CREDIT
#define NEEDS false
#else
#define NEEDS (!heard)
#endif

#ifdef BUG_EARLY_LEFT
#define LEAVES slice
#else
#define LEAVES (slice + NUMBERS - 1)
#endif

inline credit()
{
    if
    :: !ALL_HEAR -> say_left(LEAVES)
    :: else
    fi;
    if
    :: NEEDS ->
        for (x : 0 .. N - 1) {
            if
            :: STORES(me, x) -> HAS_LEFT(x)
            :: else
            fi
        }
    :: else
    fi
}

inline send()
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: STORES(me, x) ->
                assert(!flying[LINE(x, slice, me)]);
                flying[LINE(x, slice, me)] = 1 + slice
            :: else
            fi
        }
        x = 0
    }
}

inline receive()
{
    for (x : 0 .. N - 1) {
        if
        :: STORES(x, me) ->
            FLAG(memory[LINE(me, slice, x)]) == NUMBER(slice);
            assert(memory[LINE(me, slice, x)] == slice)
        :: else
        fi
    }
    x = 0
}

#ifdef PROMPT
#define SHARE(x) true
#else
#define SHARE(x) (x % 2 == (slice / 2) % 2)
#endif
/* A share of the area at the end of a slice. A fence: it is visible at once. */
inline clean()
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: SHARE(x) -> memory[LINE(me, slice, x)] = CLEAN
            :: else
            fi
        }
        x = 0
    }
}

#ifdef BUG_OLD_LEFT
#define SAYS false
#else
#define SAYS (slice % REFRESH == 0)
#endif

inline leave()
{
    if
    :: SAYS -> say_left(slice)
    :: else
    fi
}

#ifdef BUG_OLD_HEARD
#define HEARD (heard || ALL_HEAR)
#else
#define HEARD ALL_HEAR
#endif

proctype Rank(byte me)
{
    byte slice = 1, x;
    bool heard;
    do
    :: atomic {
        begin();
        credit();
        send();
        receive()
       }
       atomic {
        clean();
        leave();
        heard = HEARD;
        end()
       }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N - 1) { run Rank(i) }
    }
}
