/*
 * Exchanges in two stages by lines that carry their flag (cuda/exchange_lines.cuh, SHARES), in two areas: in each slice a rank
 * gives words to all, sums what it gets, gives all its sum, and gets theirs. It gives words of the next slice before it awaits sums
 * of this one.
 *
 * Modelled: one warp of N ranks, whose lines are one for each stage and sender, and slices without end. Whether a rank gives words
 * ahead is open at each slice: one whose program is interpreted does not, nor does any at the end of a launch, or before lines are
 * cleaned. Stores become visible in any order, each as late as it can. A slice's number, modulo NUMBERS, is its flag. A line is the
 * slice that it belongs to, modulo SLICES, which is twice as many, so that data of another round shows.
 *
 * Proved: what is taken for a line of this slice is one; no line is stored to before its reader has had what was there, and so
 * none while an older store is on its way; nobody waits for ever.
 *
 * BUG_ONE_AREA  one area instead of two
 * BUG_FAR       words are given two slices ahead
 * BUG_NO_WORDS  sums are given before the words of all have come
 * BUG_UNEVEN    the warp has no line of rank 0's block in one slice of four
 */
#ifndef N
#define N 2
#endif
#define NUMBERS 4
#define SLICES (2 * NUMBERS)
#define NOTHING SLICES
#ifdef BUG_ONE_AREA
#define AREA(slice) 0
#else
#define AREA(slice) ((slice) % 2)
#endif
#ifdef BUG_FAR
#define MOST 2
#else
#define MOST 1
#endif

#ifdef BUG_UNEVEN
#define HAS(block, slice) ((block) != 0 || (slice) % 4 != 3)
#else
#define HAS(block, slice) true
#endif

#define WORDS 0
#define SUMS 1
#define BLOCK(stage, sender, receiver) ((stage) == WORDS -> (receiver) : (sender))
#define LINES (N * 2 * 2 * N)
#define AT(rank, slice, stage, sender) ((((rank) * 2 + AREA(slice)) * 2 + (stage)) * N + (sender))

byte line[LINES] = NOTHING;
byte flying[LINES]; /* 1 + what was stored there, and is not visible yet */
bit unread[LINES];  /* what was stored last, its reader has not had */

/* What is stored becomes visible some time. */
active [LINES] proctype Wire()
{
end:
    do
    :: d_step { flying[_pid] -> line[_pid] = flying[_pid] - 1; flying[_pid] = 0 }
    od
}

inline give(stage, s)
{
    d_step {
        for (x : 0 .. N - 1) {
            if
            :: x != me && HAS(BLOCK(stage, me, x), s) ->
                assert(!unread[AT(x, s, stage, me)] && !flying[AT(x, s, stage, me)]);
                flying[AT(x, s, stage, me)] = 1 + (s);
                unread[AT(x, s, stage, me)] = 1
            :: else
            fi
        }
        x = 0
    }
}

inline get(stage)
{
    for (x : 0 .. N - 1) {
        if
        :: x != me && HAS(BLOCK(stage, x, me), slice) ->
            line[AT(me, slice, stage, x)] != NOTHING && line[AT(me, slice, stage, x)] % NUMBERS == slice % NUMBERS;
            assert(line[AT(me, slice, stage, x)] == slice);
            unread[AT(me, slice, stage, x)] = 0
        :: else
        fi
    }
    x = 0
}

proctype Rank(byte me)
{
    byte slice, x, ahead; /* slices whose words are given, from this one on */
    do
    :: atomic {
        if
        :: ahead == 0 -> give(WORDS, slice); ahead = 1
        :: else
        fi
       }
#ifndef BUG_NO_WORDS
       atomic { get(WORDS) }
#endif
       atomic {
        give(SUMS, slice);
        if
        :: true
        :: ahead == 1 -> give(WORDS, (slice + 1) % SLICES); ahead = 2
#if MOST > 1
        :: ahead == 1 -> give(WORDS, (slice + 1) % SLICES); give(WORDS, (slice + 2) % SLICES); ahead = 3
        :: ahead == 2 -> give(WORDS, (slice + 2) % SLICES); ahead = 3
#endif
        fi
       }
#ifdef BUG_NO_WORDS
       atomic { get(WORDS) }
#endif
       atomic {
        get(SUMS);
        slice = (slice + 1) % SLICES;
        ahead--
       }
    od
}

init
{
    byte r;
    atomic {
        for (r : 0 .. N - 1) { run Rank(r) }
    }
}
