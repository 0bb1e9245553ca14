/*
 * Lines that carry their flag (cuda/call.h, PEALI_CUDA_LL and LL128), in two areas, by programs in which the end of every
 * rank waits for the begin of all (all_hear): no credit is asked for.
 *
 * Modelled: one lane of N ranks whose CTAs have THREADS threads, and slices without end, be they of one call or of many. In
 * each, all send to all (one-shot), or all send to rank 0, which answers (two-shot: a leaf hears of the others through rank 0
 * only). A message has a line for each thread; which thread has which line changes, as it does where lengths differ. Stores
 * become visible in any order, each as late as it can. A slice's number, modulo NUMBERS, is its flag. Memory that nothing was
 * sent to for a round of numbers would still have the flags of that round, so at the end of a slice a rank cleans a share of
 * the area that it leaves; each share has its turn several times a round. (The kernels do so in two slices of 1024.)
 *
 * A launch has one slice to three. Between them the threads of a CTA meet; behind the last one they do not, for the next launch of
 * the stream begins when all of this one have ended. Which slice is next is on record: each thread reads it as its launch begins,
 * and thread 0 writes it at the end, when all have read it.
 *
 * With SLIDES (cuda/exchange_lines.cuh) each thread has the same lines in all slices, of which a launch has any number, but that
 * thread 1 may have none in the last one or two. Threads meet only before the very last then, and where a slice is due: when all
 * have got theirs, thread 0 cleans all lines of the area, and then the next slice begins. No thread is four slices ahead of
 * another.
 *
 * A line is one byte: CLEAN, or the slice that it belongs to, modulo SLICES. Its flag is that modulo NUMBERS; SLICES is twice
 * NUMBERS, so data of another round shows.
 *
 * Proved: what is taken for a line of this slice is one, neither of another slice nor of another round; no line is stored to
 * while an older store is on its way there; nobody waits for ever.
 *
 * Assumed: a line becomes visible whole; a thread's loads are over before its later stores, for it branches on what it
 * loaded; a CTA's barrier orders the loads before it and the stores after it, and so does the end of a launch.
 *
 * BUG_ONE_AREA     one area instead of two
 * BUG_SILENT       where there is no data, no line is sent, and nobody waits for one
 * BUG_NO_BARRIER   the threads of a CTA go from slice to slice on their own
 * BUG_OVERLAP      a launch begins before the one before it has ended
 * BUG_EARLY_RECORD thread 0 does not wait until all have read what is on record
 * BUG_NO_CLEAN     old flags stay
 * BUG_ZERO         the flag of a clean line is 0, which is a number
 * BUG_SKIP_ZERO    0 is no number, so an area is used twice in a row: by the last odd one and by 1
 * BUG_LATE_CLEAN   no fence between cleaning and the next slice
 * BUG_NO_DUE       SLIDES: thread 0 cleans as soon as it has got its own lines
 * BUG_SLIDES_ON    SLIDES: the others do not wait until it has
 * BUG_SHRINKS      SLIDES: nor before a launch's last slice, in which thread 1 has no line
 */
#ifndef N
#define N 2
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifdef BUG_SKIP_ZERO
#define NUMBERS 7
#define FIRST 1
#else
#define NUMBERS 8
#define FIRST 0
#endif
#define SLICES (2 * NUMBERS)

#define NUMBER(slice) (FIRST + (slice) % NUMBERS)
#define CLEAN SLICES
#ifdef BUG_ZERO
#define NO_FLAG 0
#else
#define NO_FLAG (FIRST + NUMBERS)
#endif
#define FLAG(value) ((value) == CLEAN -> NO_FLAG : FIRST + (value) % NUMBERS)
#ifdef BUG_ONE_AREA
#define AREA(slice) 0
#else
#define AREA(slice) (NUMBER(slice) % 2)
#endif

#define LINES (N * 2 * N * THREADS)
#define AT(rank, slice, slot, thread) ((((rank) * 2 + AREA(slice)) * N + (slot)) * THREADS + (thread))

byte line[LINES] = CLEAN;
byte flying[LINES]; /* 1 + what was stored there, and is not visible yet */

/* What is stored becomes visible some time. */
active [LINES] proctype Wire()
{
end:
    do
    :: d_step { flying[_pid] -> line[_pid] = flying[_pid] - 1; flying[_pid] = 0 }
    od
}

/* What the slices are: whoever begins one first decides. */
mtype = { ALL_TO_ALL, STAR };
mtype kind[4];
bit shift[4]; /* thread t has line t + shift of each message */
bit last[4];  /* of its launch */
bit less[4];  /* thread 1 has no line in it */
bit meets[4]; /* nor in the next one, which is its launch's last */
byte more;    /* slices have come in the newest launch, of which none was its last; SLIDES: what is known of the next one */
#define LESS 1 /* it will be less, */
#define LAST 2 /* and the last one */
#define DUE (slice % 4 < 2) /* SLIDES */
byte newest;
byte through[4]; /* threads */

/* What no thread looks at any more is forgotten. */
inline end()
{
    through[slice % 4]++;
    if
    :: through[slice % 4] == N * THREADS -> through[slice % 4] = 0; kind[slice % 4] = 0; shift[slice % 4] = 0; last[slice % 4] = 0;
        less[slice % 4] = 0; meets[slice % 4] = 0
    :: else
    fi
}

inline begin()
{
    if
    :: slice == (newest + 1) % SLICES && !kind[slice % 4] ->
        newest = slice;
        if
        :: kind[slice % 4] = ALL_TO_ALL
#if THREADS == 1
        :: kind[slice % 4] = STAR
#endif
        fi;
        if
        :: shift[slice % 4] = 0
#if THREADS > 1 && !defined(SLIDES)
        :: shift[slice % 4] = 1
#endif
        fi;
#ifdef SLIDES
        less[slice % 4] = more & LESS;
        if
        :: more != LESS -> last[slice % 4] = 1; more = 0
        :: more <= LESS -> meets[slice % 4] = 1; more = LESS | LAST
        :: !more -> more = LESS
        :: !more
        fi
#else
        if
        :: last[slice % 4] = 1; more = 0
#if THREADS > 1
        :: more < 2 -> last[slice % 4] = 0; more++
#endif
        fi
#endif
    :: slice != (newest + 1) % SLICES -> assert(kind[slice % 4])
    fi
}

#define HAVE ((thread + shift[slice % 4]) % THREADS)

inline store(rank, slot)
{
    assert(!flying[AT(rank, slice, slot, HAVE)]); /* an older store to this line would be overtaken */
    flying[AT(rank, slice, slot, HAVE)] = 1 + slice
}

inline await(slot)
{
    FLAG(line[AT(me, slice, slot, HAVE)]) == NUMBER(slice);
    assert(line[AT(me, slice, slot, HAVE)] == slice)
}

#ifdef BUG_SILENT
#define SPEAKS(rank) ((rank) != 0)
#else
#define SPEAKS(rank) true
#endif

inline all_to_all()
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: x != me && SPEAKS(me) -> store(x, me)
            :: else
            fi
        }
        x = 0
    }
    for (x : 0 .. N - 1) {
        if
        :: x != me && SPEAKS(x) -> await(x)
        :: else
        fi
    }
}

/* Other slots than all to all has, so that a line has several writers. */
inline star()
{
    if
    :: me == 0 ->
        for (x : 1 .. N - 1) { await((x + 1) % N) }
        x = 0;
        d_step {
            for (x : 1 .. N - 1) { store(x, x) }
            x = 0
        }
    :: else ->
        store(0, (me + 1) % N);
        await(me)
    fi
}

byte met[N * THREADS]; /* by thread: the last slice that it is through with */
byte record[N];        /* the last slice of the last launch */
bool have_read[N];     /* thread 1 has, in this launch */

#define OTHER met[me * THREADS + 1 - thread]
#define OTHER_TOO (THREADS == 1 || (OTHER + SLICES - slice) % SLICES < 4) /* there, or already further */
#ifdef BUG_EARLY_RECORD
#define MAY_WRITE true
#else
#define MAY_WRITE (THREADS == 1 || have_read[me])
#endif

#if defined(BUG_SLIDES_ON)
#define MEETS meets[slice % 4]
#elif defined(BUG_SHRINKS)
#define MEETS DUE
#else
#define MEETS (DUE || meets[slice % 4])
#endif

/* As a thread begins a launch. */
inline look_up()
{
    slice = (record[me] + 1) % SLICES;
    have_read[me] = have_read[me] || thread == 1
}

/* The CTA's barrier at the end of a slice, or the end of the launch. */
inline meet()
{
    if
    :: last[slice % 4] && thread == 0 -> MAY_WRITE; have_read[me] = false; record[me] = slice
    :: else
    fi;
    met[me * THREADS + thread] = slice;
    if
#if defined(SLIDES)
    :: !last[slice % 4] && MEETS -> OTHER_TOO
#elif !defined(SLIDES) && !defined(BUG_NO_BARRIER)
    :: !last[slice % 4] -> OTHER_TOO
#endif
#ifndef BUG_OVERLAP
    :: last[slice % 4] -> OTHER_TOO
#endif
    :: else
    fi
}

/* One slot of two is cleaned at the end of each slice, so every line several times a round. A fence: it is visible at once. */
#define SHARE(slice) (((slice) / 2) % 2)

#if defined(BUG_NO_CLEAN)
#define CLEANED skip
#elif defined(BUG_LATE_CLEAN)
#define CLEANED flying[AT(me, slice, x, HAVE)] = 1 + CLEAN
#else
#define CLEANED line[AT(me, slice, x, HAVE)] = CLEAN
#endif

#ifdef SLIDES
byte got[N * THREADS]; /* by thread: the last due slice of which it has its lines */
#define OTHER_GOT (got[me * THREADS + 1 - thread] == slice)
#ifdef BUG_NO_DUE
#define MAY_CLEAN true
#else
#define MAY_CLEAN OTHER_GOT
#endif

inline clean()
{
    if
    :: DUE ->
        got[me * THREADS + thread] = slice;
        if
        :: thread == 0 ->
            MAY_CLEAN;
            d_step {
                for (x : 0 .. N * THREADS - 1) { line[AT(me, slice, 0, 0) + x] = CLEAN }
                x = 0
            }
        :: else
        fi
    :: else
    fi
}
#else
inline clean()
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: x % 2 == SHARE(slice) -> CLEANED
            :: else
            fi
        }
        x = 0
    }
}
#endif

proctype Thread(byte me; byte thread)
{
    byte slice, x;
    bool begins = true; /* a launch */
    do
    :: atomic {
        if
        :: begins -> look_up()
        :: else -> slice = (slice + 1) % SLICES
        fi;
        begin();
        if
        :: less[slice % 4] && thread == 1
        :: else ->
            if
            :: kind[slice % 4] == ALL_TO_ALL -> all_to_all()
            :: else -> star()
            fi
        fi;
        x = 0
       }
       atomic {
        clean();
        meet();
        begins = last[slice % 4];
        end()
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
