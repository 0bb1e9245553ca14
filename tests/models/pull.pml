/*
 * Pull on a CPU (exec/run.c: awaited, advance; exec/room.c: show_buffers): readers load from peers' buffers and scratch, and
 * store into their OUT, once flags are up that only grow, shared by all calls of a communicator with no barrier between them.
 *
 * Modelled: N ranks, CALLS calls in a row of SLICES slices, WINDOW of them in flight. A call is an allreduce, whose ranks
 * each reduce a block of all INs and store it into all OUTs; or a broadcast, in which all load the root's IN; or a reduce,
 * whose root loads what the others have copied to their scratch. A rank's program is enter, one instruction, exit; the first
 * two raise a flag. Before a call its user writes IN and spoils OUT, after it he reads OUT. Stores become visible in any
 * order, but that of a flag after all that its rank stored before.
 *
 * Proved: what is loaded from IN, from scratch and, by the user, from OUT is of this call; a rank whose memory is touched
 * shows this call; nobody waits for ever.
 *
 * Assumed: loads stay in order (acquire).
 *
 * BUG_NO_RELEASE   a flag may become visible before what was stored before it
 * BUG_NO_ENTER     peers' buffers are touched before they have entered
 * BUG_EXIT         a rank leaves while others read its IN
 * BUG_SCRATCH      a rank leaves while others read its scratch
 * BUG_NO_TURN      slices raise a flag, which says how many of them are done, in any order
 */
#ifndef N
#define N 2
#endif
#ifndef SLICES
#define SLICES 1
#endif
#ifndef WINDOW
#define WINDOW 1
#endif
#ifndef CALLS
#define CALLS 3
#endif

#define IN(rank, k) ((rank) * SLICES + (k))
#define OUT(rank, block, k) (N * SLICES + ((rank) * N + (block)) * SLICES + (k))
#define SCRATCH(rank, w) (N * SLICES * (N + 1) + (rank) * WINDOW + (w))
#define CALL(rank) (N * SLICES * (N + 1) + N * WINDOW + (rank))
#define FLAG(rank, f) (N * SLICES * (N + 1) + N * WINDOW + N + (rank) * 2 + (f))
#define ALL (N * SLICES * (N + 1) + N * WINDOW + N * 3)

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
mtype = { ALLREDUCE, BROADCAST, REDUCE };
mtype kind[CALLS + 1];

inline choose()
{
    if
    :: kind[call] == 0 ->
        if
        :: kind[call] = ALLREDUCE
        :: kind[call] = BROADCAST
        :: kind[call] = REDUCE
        fi
    :: else
    fi
}

#define ROOT (N - 1)
#define IS(what) (kind[call] == what)

inline start()
{
    choose();
    d_step {
        for (x : 0 .. SLICES * N - 1) {
            flying[IN(me, x % SLICES)] = 1 + call;
            memory[OUT(me, x / SLICES, x % SLICES)] = 0
        }
        flying[CALL(me)] = 1 + call;
        for (x : 0 .. WINDOW - 1) { slice[x] = x }
        x = 0
    }
}

/* Waiting. */
#define UP(x, f, w) ((x) == me || memory[FLAG(x, f)] > base + slice[w])
#if N == 2
#define ALL_UP(f, w) (UP(0, f, w) && UP(1, f, w))
#else
#define ALL_UP(f, w) (UP(0, f, w) && UP(1, f, w) && UP(2, f, w))
#endif
#ifdef BUG_NO_TURN
#define TURN(f, w) true
#else
#define TURN(f, w) (slice[w] == 0 || raised[f] == base + slice[w])
#endif
#ifdef BUG_NO_ENTER
#define ENTERED(w) true
#else
#define ENTERED(w) ALL_UP(0, w)
#endif
#ifdef BUG_EXIT
#define READ(w) true
#else
#define READ(w) ALL_UP(1, w)
#endif
#ifdef BUG_SCRATCH
#define REDUCED(w) true
#else
#define REDUCED(w) UP(ROOT, 1, w)
#endif

#define MAY_ENTER(w) TURN(0, w)
#define MAY_RUN(w) (TURN(1, w) && ((IS(ALLREDUCE) && ENTERED(w)) || (IS(BROADCAST) && UP(ROOT, 0, w)) || \
                                   (IS(REDUCE) && (me != ROOT || ALL_UP(1, w)))))
#define MAY_EXIT(w) ((IS(ALLREDUCE) && READ(w)) || (IS(BROADCAST) && (me != ROOT || READ(w))) || \
                     (IS(REDUCE) && (me == ROOT || REDUCED(w))))
#define MAY(w) (slice[w] < SLICES && ((pc[w] == 0 && MAY_ENTER(w)) || (pc[w] == 1 && MAY_RUN(w)) || (pc[w] == 2 && MAY_EXIT(w))))

/* Doing. */
inline release()
{
#ifndef BUG_NO_RELEASE
    for (x : 0 .. N * SLICES - 1) { !flying[IN(me, x % SLICES)] && !flying[OUT(x / SLICES, me, x % SLICES)] }
    for (x : 0 .. WINDOW - 1) { !flying[SCRATCH(me, x)] }
    !flying[CALL(me)];
#endif
    x = 0
}

inline raise(f, w)
{
    release();
    raised[f] = base + slice[w] + 1;
    flying[FLAG(me, f)] = 1 + raised[f]
}

inline load(rank, at)
{
    assert(memory[CALL(rank)] == call || (rank) == me);
    assert(memory[at] == call || (rank) == me)
}

inline run_instr(w)
{
    if
    :: IS(ALLREDUCE) ->
        for (x : 0 .. N - 1) { load(x, IN(x, slice[w])) }
        for (x : 0 .. N - 1) { flying[OUT(x, me, slice[w])] = 1 + call }
    :: IS(BROADCAST) ->
        load(ROOT, IN(ROOT, slice[w]));
        flying[OUT(me, me, slice[w])] = 1 + call
    :: IS(REDUCE) && me == ROOT ->
        for (x : 0 .. N - 2) { load(x, SCRATCH(x, w)) }
        flying[OUT(me, me, slice[w])] = 1 + call
    :: IS(REDUCE) && me != ROOT ->
        flying[SCRATCH(me, w)] = 1 + call
    fi;
    raise(1, w)
}

inline step(w)
{
    if
    :: pc[w] == 0 -> raise(0, w); pc[w] = 1
    :: pc[w] == 1 -> run_instr(w); pc[w] = 2
    :: pc[w] == 2 -> pc[w] = 0; slice[w] = slice[w] + WINDOW
    fi
}

#define WANTED(block) (IS(ALLREDUCE) || (IS(REDUCE) && me == ROOT && (block) == me) || (IS(BROADCAST) && (block) == me))
/* A rank sees its own stores at once. */
#define RESULT(block, k) (memory[OUT(me, block, k)] == call || ((block) == me && flying[OUT(me, me, k)] == 1 + call))

inline finish()
{
    for (x : 0 .. SLICES * N - 1) {
        assert(!WANTED(x / SLICES) || RESULT(x / SLICES, x % SLICES))
    }
    x = 0;
    base = base + SLICES;
    call++
}

#if WINDOW == 1
#define LEFT (slice[0] >= SLICES)
#else
#define LEFT (slice[0] >= SLICES && slice[1] >= SLICES)
#endif

proctype Rank(byte me)
{
    byte call = 1, base = 0, x;
    byte pc[WINDOW], slice[WINDOW], raised[2];
    do
    :: call > CALLS -> break
    :: else ->
        atomic { start() }
        do
        :: atomic { MAY(0) -> step(0) }
#if WINDOW > 1
        :: atomic { MAY(1) -> step(1) }
#endif
        :: LEFT -> break
        od;
        atomic { finish() }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. N - 1) { run Rank(i) }
    }
}
