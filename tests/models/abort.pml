/*
 * Leaving (cuda/call.h: abort, deadline_ns, report): a rank that cannot go on leaves, and so do all others.
 *
 * Modelled: one lane of N ranks whose CTAs have THREADS threads, and CALLS calls in a row, each of one slice in which all send to
 * all. A thread that waits looks LIMIT times; then, or when its host says so, or when another CTA of its rank has given up, so
 * does it, which may happen anywhere, even if others are merely slow. It comes to the CTA's barrier nevertheless; the barrier
 * tells all threads that one gave up, and the rank is dead: its number stays, and later calls store nothing and wait for nothing
 * but that barrier, for threads of one CTA may find differently whether the rank is dead. With LAUNCHES, calls have no barrier and
 * end with their launches: who gives up has said that the rank is dead by then. A rank's memory is freed when all have agreed that
 * none has calls any more. A cell is a call and a number, loaded once for the number and once more for the data.
 * (That stores become visible late is the subject of other models.)
 *
 * Proved: every thread comes to its end, after at most LIMIT looks for each message; what a call takes is this call's data,
 * however many ranks have given up; nobody stores to memory that is freed.
 *
 * BUG_NO_DEADLINE  who waits heeds its host only
 * BUG_NO_BARRIER   who gives up, or finds the rank dead, does not come to the barrier
 * BUG_GO_ON        after a call that was given up the next one runs, with the next number
 * BUG_AGAIN        likewise, with the same number
 * BUG_FREE         a rank frees its memory when it has no calls any more itself
 */
#ifndef N
#define N 2
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef CALLS
#define CALLS 3
#endif
#define LIMIT 1

#define NUMBERS 8
#define AT(rank, number, from, thread) ((((rank) * 2 + (number) % 2) * N + (from)) * THREADS + (thread))

byte cell[N * 2 * N * THREADS];
bool aborted[N], dead[N], freed[N];
byte met[N * THREADS];  /* by thread: the last call whose barrier it has come to */
bool gave_up[N * 2];    /* by rank: what the barrier of an odd or even call tells */
byte gone;

/* A host says so, or another CTA of a rank gives up, at any time. */
active proctype Others()
{
    if
    :: aborted[0] = true
    :: dead[0] = true
    fi
}

inline send()
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: x != me ->
                assert(!freed[x]);
                cell[AT(x, number, me, thread)] = call * NUMBERS + number
            :: else
            fi
        }
        x = 0
    }
}

#define HERE (cell[AT(me, number, x, thread)] % NUMBERS == number)

inline await()
{
    looks = 0;
    do
    :: HERE -> assert(cell[AT(me, number, x, thread)] == call * NUMBERS + number); break
#ifndef BUG_NO_DEADLINE
    :: !HERE && looks < LIMIT -> looks++
    :: !HERE && looks == LIMIT -> given_up = true; break
#endif
    :: !HERE && (aborted[me] || dead[me]) -> given_up = true; break
    od;
    looks = 0
}

#define TOLD gave_up[me * 2 + call % 2]

#ifdef BUG_NO_BARRIER
#define COMES (!given_up)
#else
#define COMES true
#endif

inline meet()
{
    d_step {
        TOLD = TOLD || given_up;
        if
        :: COMES -> met[me * THREADS + thread] = call
        :: else
        fi
    }
#if THREADS > 1
    !COMES || met[me * THREADS + 1 - thread] >= call
#endif
}

/* Without a barrier: the next launch begins when all threads of this one have ended. */
inline end_launch()
{
    d_step {
        if
#ifndef BUG_GO_ON
        :: given_up -> dead[me] = true
#endif
        :: else -> number++
        fi;
        met[me * THREADS + thread] = call
    }
#if THREADS > 1
    met[me * THREADS + 1 - thread] >= call
#endif
}

inline end_slice()
{
    meet();
    d_step {
        if
#ifndef BUG_GO_ON
#ifndef BUG_AGAIN
        :: TOLD -> dead[me] = true
#else
        :: TOLD -> TOLD = false
#endif
#endif
        :: else -> number++
        fi
    }
}

proctype Thread(byte me; byte thread)
{
    byte call = 1, number = 1, x, looks;
    bool given_up;
    do
    :: call <= CALLS ->
        given_up = dead[me];
        if
        :: !given_up -> send()
        :: else
        fi;
        x = 0;
        do
        :: x < N && x != me && !given_up -> await(); x++
        :: x < N && x == me -> x++
        :: x == N || given_up -> break
        od;
#ifdef LAUNCHES
        end_launch();
#else
        end_slice();
#endif
        d_step {
            given_up = false;
            x = 0;
            call++
        }
    :: else -> break
    od;
    gone++;
#ifndef BUG_FREE
    gone == N * THREADS;
#endif
    freed[me] = true
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N * THREADS - 1) { run Thread(i / THREADS, i % THREADS) }
    }
}
