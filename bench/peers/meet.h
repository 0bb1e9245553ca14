/*
 * Where the ranks of one launch meet: a page of shared memory of which the MPI under test knows nothing, so that every candidate
 * starts its calls in the same way, all ranks at one time.
 */
#ifndef PEERS_MEET_H
#define PEERS_MEET_H

#include <stdbool.h>
#include <stdint.h>

enum { MEET_CALLS = 2000 }; /* that a page can note */

typedef struct meet meet;

/* Opens the page at PATH, a file of zeros that is large enough; NULL where that fails. */
meet *meet_open(const char *path, int rank, int nranks);

/*
 * Waits for all ranks, then until a time that all leave at. Returns that time, of peali_clock_ns; or 0 on all ranks, where rank 0
 * has had ENOUGH.
 */
int64_t meet_start(meet *m, bool enough);

/* Notes what this rank took for call CALL, and how many elements were wrong. */
void meet_note(meet *m, int call, double us, long wrong);

/* The slowest rank's time of call CALL, and the wrong elements of all ranks so far. For after a meet_start. */
double meet_slowest(const meet *m, int call);
long meet_wrong(const meet *m);

#endif
