/*
 * Data, then a flag (cuda/call.h, PEALI_CUDA_BULK), in two areas, by programs in which the end of every rank waits for the
 * begin of all.
 *
 * Modelled: one lane of N ranks whose CTAs have THREADS threads, and slices without end, in which all send to all. Each
 * thread stores a cell of data of each message; a barrier; the first thread stores the flag, with release. The receiver's
 * threads each look at the flag, with acquire, and load a cell, whichever thread had it in the slice before. Stores become
 * visible in any order, but a releasing one after all that its CTA stored before. (lines.pml has what is done about old
 * flags; here each is used in every slice.)
 *
 * Proved: data that is loaded is of this slice; nothing is stored to while an older store is on its way there; nobody waits
 * for ever.
 *
 * Assumed: loads are over before the CTA's next barrier, and before its launch has ended, which takes a barrier's place.
 *
 * BUG_ONE_AREA     one area instead of two
 * BUG_FLAG_FIRST   the flag is stored before the data
 * BUG_NO_RELEASE   the flag may become visible before data that was stored before it
 * BUG_NO_ACQUIRE   data may be loaded before the flag
 * BUG_NO_BARRIER   the flag may be stored before another thread has stored its data
 */
#ifndef N
#define N 2
#endif
#ifndef THREADS
#define THREADS 1
#endif
#define NUMBERS 4
#define SLICES 8

#define NUMBER(slice) ((slice) % NUMBERS)
#ifdef BUG_ONE_AREA
#define AREA(slice) 0
#else
#define AREA(slice) ((slice) % 2)
#endif

/* A message: its data, and behind that its flag. */
#define CELLS (THREADS + 1)
#define AT(rank, slice, from, cell) ((((rank) * 2 + AREA(slice)) * N + (from)) * CELLS + (cell))
#define FLAG THREADS
#define ALL (N * 2 * N * CELLS)

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

/* Which cell of a message a thread has changes from one use of an area to the next. */
#define HAVE ((thread + slice / 2) % THREADS)

inline store(cell, value)
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: x != me ->
                assert(!flying[AT(x, slice, me, cell)]);
                flying[AT(x, slice, me, cell)] = 1 + value
            :: else
            fi
        }
        x = 0
    }
}

#ifdef BUG_NO_RELEASE
#define VISIBLE(at) true
#else
#define VISIBLE(at) (!flying[at])
#endif

/* All that this CTA stored in this slice is visible. */
inline release()
{
    for (x : 0 .. N * THREADS - 1) {
        VISIBLE(AT(x / THREADS, slice, me, x % THREADS))
    }
    x = 0
}

/* By thread and barrier: the last slice in which it has come there. */
#define STORED 0
#define LOADED 1
byte come[N * THREADS * 2];

inline meet(at)
{
    come[(me * THREADS + thread) * 2 + at] = slice;
#if THREADS > 1
    come[(me * THREADS + 1 - thread) * 2 + at] == slice || come[(me * THREADS + 1 - thread) * 2 + at] == (slice + 1) % SLICES
#endif
}

inline send()
{
#ifdef BUG_FLAG_FIRST
    if
    :: thread == 0 -> store(FLAG, NUMBER(slice))
    :: else
    fi;
    store(HAVE, slice)
#else
    store(HAVE, slice);
#ifndef BUG_NO_BARRIER
    meet(STORED);
#endif
    if
    :: thread == 0 -> release(); store(FLAG, NUMBER(slice))
    :: else
    fi
#endif
}

inline receive(from)
{
#ifdef BUG_NO_ACQUIRE
    if
    :: early = memory[AT(me, slice, from, HAVE)]; memory[AT(me, slice, from, FLAG)] == NUMBER(slice)
    :: memory[AT(me, slice, from, FLAG)] == NUMBER(slice) -> early = memory[AT(me, slice, from, HAVE)]
    fi;
    assert(early == slice)
#else
    memory[AT(me, slice, from, FLAG)] == NUMBER(slice);
    assert(memory[AT(me, slice, from, HAVE)] == slice)
#endif
}

proctype Thread(byte me; byte thread)
{
    byte slice = 1, x, early;
    do
    :: atomic {
        send();
        for (x : 0 .. N - 1) {
            if
            :: x != me -> receive(x)
            :: else
            fi
        }
        x = 0;
        early = 0
       }
       atomic {
        meet(LOADED);
        slice = (slice + 1) % SLICES
       }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N * THREADS - 1) { run Thread(i / THREADS, i % THREADS) }
    }
}
