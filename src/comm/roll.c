/*
 * The wait for those who have not come to a communicator that is not made. Of those that wait some speak for all, which are few of
 * many ranks, and of which one is there unless all of them are missing.
 */
#include "base/clock.h"
#include "base/log.h"
#include "comm/comm_private.h"
#include "exec/run.h"

static const int64_t SOON_NS = 1500 * 1000000, PATIENT_NS = 60 * 1000000000LL;
static const int64_t ANSWER_NS = 1000 * 1000000; /* time for answers */
static const int64_t STEP_NS = 1000000000;

static void say(const peali_roll *r, int64_t waited_ns, const char *unknown)
{
    char who[PEALI_ROLL_BYTES];
    bool known = r->missing(r->ctx, who);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, r->rank, "%s on %s, of %d ranks, waits since %.1f s: %s", r->call, r->name, r->nranks,
              (double)waited_ns * 1e-9, known ? who : unknown);
}

peal_status peali_comm_roll(const peali_roll *r)
{
    const bool speaks = (r->rank & (r->rank - 1)) == 0;
    const char *why = r->endless ? "not all of them have called; are some without libpeal_mpi?" :
                      "not all of them have called; do some call on another communicator, or not at all?";
    int64_t limit_ns = r->endless ? 0 : peali_run_limit_ns(r->patient), say_ns = r->patient ? PATIENT_NS : SOON_NS;
    int64_t looked_ns = peali_clock_ns(), waited_ns = 0, most_ns = limit_ns > 0 && limit_ns / 4 < STEP_NS ? limit_ns / 4 : STEP_NS;
    if (limit_ns > 0 && limit_ns / 4 * 3 < say_ns)
        say_ns = limit_ns / 4 * 3;
    const int64_t answer_ns = say_ns / 2 < ANSWER_NS ? say_ns / 2 : ANSWER_NS;
    int64_t ask_ns = say_ns - answer_ns;
    while (!r->over(r->ctx)) {
        waited_ns += peali_clock_step(&looked_ns, most_ns);
        if (limit_ns > 0 && waited_ns >= limit_ns) {
            say(r, waited_ns, "not all of them have called, or some gave up");
            return PEAL_ERR_TIMEOUT;
        }
        if (waited_ns >= say_ns) {
            if (speaks)
                say(r, waited_ns, why);
            say_ns += PATIENT_NS;
        }
        if (waited_ns >= ask_ns) {
            if (speaks)
                r->ask(r->ctx);
            ask_ns += PATIENT_NS;
            if (limit_ns > 0 && waited_ns < limit_ns - answer_ns && limit_ns - answer_ns < ask_ns)
                ask_ns = limit_ns - answer_ns;
        }
        peali_request_drive(); /* who is missing here may wait for one of these */
        peali_clock_rest(waited_ns);
    }
    return PEAL_OK;
}
