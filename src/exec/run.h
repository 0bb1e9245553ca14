/*
 * Runs plans on a CPU rank: one cursor for each slice in flight, the oldest that can go on is served first.
 *
 * A runner belongs to one rank of one communicator and runs one plan at a time. Its memory is made with the plans; running
 * allocates nothing.
 */
#ifndef PEALI_RUN_H
#define PEALI_RUN_H

#include "exec/parley.h"
#include "exec/reach.h"
#include "net/net.h"

typedef struct peali_runner peali_runner;

/* Which plans have a thread for their messages (courier.h): none; those that compute meanwhile; all. */
typedef enum peali_courier_use { PEALI_COURIER_OFF, PEALI_COURIER_AUTO, PEALI_COURIER_ON } peali_courier_use;

/* How a rank meets its surroundings. */
typedef struct peali_setting {
    peali_net *net;       /* stays the caller's */
    peali_courier_use courier;
    int cores;            /* of this host, for each rank there; 0: ranks outnumber them, so one that waits yields at once */
    int64_t parley_ns;    /* without progress for so long, ranks tell each other what they called */
    bool pooled;          /* ranks within reach are processes: they see what lies in the pool, and nothing else */
    size_t piece;         /* ranks help each other with every sum, in pieces of so many bytes; 0: with long ones */
    bool staged;          /* pull: no buffer of this rank counts as seen; it fills and drains staging of its own */
    int32_t me, nreach;   /* this rank among those within reach */
    const int32_t *ranks; /* their numbers in the communicator, which stay the caller's */
    peali_public **shown; /* of each of them; the runner releases them at its end */
    ptrdiff_t *shift;     /* of each of them: what its addresses lack to be this rank's; NULL: nothing */
    peali_lands lands;
    const char *title;    /* of the communicator, for people; it and WORLD stay the caller's, NULL: none */
    const int32_t *world; /* of each rank of the communicator: its number among all that were started together; NULL: the same */
} peali_setting;

/* A runner in SETTING, whose arrays of publics and shifts it copies. PEAL_OK or PEAL_ERR_MEMORY, with nothing taken over. */
PEAL_MUST_CHECK peal_status peali_runner_create(const peali_setting *setting, peali_runner **out);
void peali_runner_destroy(peali_runner **runner);

/* HASH of what is forced from here on: calls differ where it does. No plan is running. */
void peali_runner_force(peali_runner *runner, uint64_t hash);

/* Before the end of a runner that some other rank could not make: what they show has been nobody's but their own. */
void peali_runner_part(peali_runner *runner);

/* From here on messages go by NET, which is over the one they went by so far. No plan is running. */
void peali_runner_share(peali_runner *runner, peali_net *net);

/* Makes room for PLAN, once, when it is made; from then on it is RUNNER's alone. PEAL_OK or PEAL_ERR_MEMORY. No plan is running. */
PEAL_MUST_CHECK peal_status peali_runner_fit(peali_runner *runner, peali_plan *plan);

/* PEALI_PLAN_SCALARS bytes, which the caller fills while no plan is running. */
unsigned char *peali_runner_scalars(peali_runner *runner);

/* Starts PLAN on the buffers of one call. SEQUENCE is the call's number in its communicator, for messages to people. */
void peali_run_start(peali_runner *runner, const peali_plan *plan, const void *in, void *out, uint64_t sequence);

/* Likewise, as a part of call AS, with which the other ranks compare theirs; its history is filled in. */
void peali_run_start_as(peali_runner *runner, const peali_plan *plan, const void *in, void *out, const peali_signature *as);

/*
 * There is no plan for a part of call AS, which other ranks may be in by now: it fails with STATUS on all of them. Steps tell them.
 * No plan is running.
 */
void peali_run_lost(peali_runner *runner, const peali_signature *as, peal_status status);

/*
 * Moves the running plan on as far as it goes. PEAL_OK: it is complete and every message was delivered; PEAL_IN_PROGRESS; or an
 * error, logged, after which the runner is of no more use and returns the same again.
 */
PEAL_MUST_CHECK peal_status peali_run_step(peali_runner *runner);

/* After a call: were the buffers that count (lower.h, tells) seen? All within reach are told the same; -1: some cannot know. */
int peali_run_seen(const peali_runner *runner);

/*
 * Where the program does not tell it: shows, of the call that has just begun, whether this rank's buffers are; and, after a call,
 * reads what all have shown in the last one that they showed it in: -1 where that is not due. CLASS: of the call, 0 to
 * PEALI_RUN_CLASSES - 1; all ranks ask of the same, after the same calls.
 */
enum { PEALI_RUN_CLASSES = 64 * PEAL_KIND_COUNT };
void peali_run_show(peali_runner *runner, int class);
int peali_run_look(peali_runner *runner, int class);

/*
 * Takes note of a call that runs elsewhere, on GPUs, shows it to the ranks within reach, and fills in its history. Nothing: one in
 * which there is nothing to do; refused: one that never began. Other ranks may have called otherwise.
 */
void peali_run_note(peali_runner *runner, peali_signature *call);
void peali_run_nothing(peali_runner *runner, const peali_job *job, uint64_t sequence);
void peali_run_refused(peali_runner *runner, uint64_t sequence);

/* Call SEQUENCE does not begin, as the runner was aborted, which other ranks hear of; nothing where they have. */
void peali_run_aborted(peali_runner *runner, uint64_t sequence);

/* What rank X within reach called last; false: nothing yet, or it is about to call something else. Threads: any. */
bool peali_runner_shown(const peali_runner *runner, int32_t x, peali_signature *call);

/*
 * Tells the ranks within reach that calls differ, or that one failed: the call that each of them is in, or the next one, fails,
 * too, unless it is one before that. Threads: any.
 */
void peali_runner_tell(const peali_runner *runner, const peali_quarrel *quarrel);

/* The calls in full. Threads: any. */
void peali_run_say_quarrel(const peali_runner *runner, const peali_quarrel *quarrel);

/* Was this rank told so, and what? Threads: any. */
bool peali_runner_told(const peali_runner *runner, peali_quarrel *quarrel);

/* Over what a call of RUNNER failed; false where none did, or nobody knows. Threads: any. */
bool peali_runner_quarrel(const peali_runner *runner, peali_quarrel *quarrel);

/* What went wrong was said by who looks after this rank's calls elsewhere. */
void peali_runner_hush(peali_runner *runner);

/* What lies at ADDRESS of rank X within reach, in its pool where ranks are processes, as this rank has it. Threads: any. */
void *peali_runner_theirs(const peali_runner *runner, int32_t x, uint64_t address);

/* Zeroed memory that the ranks within reach can touch, and back. NULL where there is none. */
void *peali_runner_get(const peali_runner *runner, size_t bytes);
void peali_runner_put_back(const peali_runner *runner, void *at);

/*
 * The failure after which RUNNER is of no more use; else PEAL_OK. No plan is started after one: other ranks may still be in that
 * which failed, and touch what this one shows and its scratch. Threads: any.
 */
peal_status peali_runner_failure(const peali_runner *runner);

/* For how long a call waits, by PEAL_TIMEOUT; 0: for ever. */
int64_t peali_run_limit_ns(bool patient);

/* What a loop around steps does between them: a pause, or the core for somebody else. */
void peali_run_rest(const peali_runner *runner);

/* From here on absent ranks are named after 60 s, and there is no deadline by default. */
void peali_runner_be_patient(peali_runner *runner);

/* Makes the running call, and every later one, end with PEAL_ERR_ABORTED. Threads: any. */
void peali_runner_abort(peali_runner *runner);

#endif
