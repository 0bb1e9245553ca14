/*
 * Calls that differ between ranks: every rank says what was called here and there, in full, within 2 s (or a little more where the
 * machine is overloaded, which is counted); where the call lets it go before anybody could know, at its next call. And a rank that
 * is merely late is named, and then all is right.
 *
 * Many scenes are played at a time, each on a communicator of its own with calls of its own numbers, by which the lines of the log
 * find their scene. With the argument "all" every scene, else a sample. Built with TEST_MPI the ranks are the processes of mpirun
 * and the times those that users have; else they are threads, and waits are cut short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "mismatch_scenes.h"

enum { MOST_RANKS = 8, MOST_SCENES = 1500, MOST_AT_ONCE = 24, LARGE_AT_ONCE = 2, NEVER = -1 };
static const int64_t SECOND = 1000000000, PATIENCE = 60;

/* How a rank came through a scene. */
struct end {
    int status; /* the first that is not PEAL_OK */
    int at;     /* of which of its calls */
};

/* Scenes that are played together, as rank 0 sees them. */
struct round {
    int n, nscenes;
    struct scene scenes[MOST_AT_ONCE];
    struct end ends[MOST_RANKS][MOST_AT_ONCE];
    int64_t said_ns[MOST_AT_ONCE][MOST_RANKS]; /* by which rank, since the start; NEVER */
    int64_t start_ns;
    FILE *log;
};

/* A rank in a round. */
struct player {
    int rank;
    struct round *round;
    peal_comm *comms[MOST_AT_ONCE];
    peal_request *requests[MOST_AT_ONCE];
    int at[MOST_AT_ONCE]; /* the call that comes, or is under way */
    bool over[MOST_AT_ONCE];
    void *in, *out[MOST_AT_ONCE];
};

static char log_path[64];
static bool all_scenes;

#ifdef TEST_MPI
#include "test_mismatch_mpi.h"
#else
#include "test_mismatch_threads.h"
#endif

/* For the largest scene; of most, next to nothing is touched. */
enum { ROOM = SCENE_LARGE_BYTES + SCENE_SPARE_BYTES };
static void *room(void)
{
    void *p = peali_alloc_pages(ROOM);
    if (!p)
        exit(2);
    return p;
}

static unsigned long long first_number(int scene)
{
    return 1 + (unsigned long long)scene * SCENE_CALLS;
}

/* A right call, and so many empty ones that the scene's own have the numbers that are theirs. */
static void prepare(struct player *p, int k)
{
    struct scene *s = &p->round->scenes[k];
    float one = 1, sum = 0;
    if (owns_round(p))
        scene_settle(s, p->comms[k]);
    if (s->algo && peal_comm_force(p->comms[k], s->kind, s->algo->name) != PEAL_OK)
        exit(2);
    if (peal_allreduce(&one, &sum, 1, PEAL_FLOAT, PEAL_SUM, p->comms[k], NULL) != PEAL_OK || sum != (float)p->round->n)
        exit(2);
    for (unsigned long long i = 1; i < first_number(k); i++)
        if (peal_allreduce(NULL, NULL, 0, PEAL_FLOAT, PEAL_SUM, p->comms[k], NULL) != PEAL_OK)
            exit(2);
}

static void finish(struct player *p, int k, peal_status status)
{
    struct end *end = &p->round->ends[p->rank][k];
    p->requests[k] = NULL;
    if (status != PEAL_OK)
        *end = (struct end){status, p->at[k]};
    p->over[k] = status != PEAL_OK;
    p->at[k]++;
}

static void move_on(struct player *p, int k)
{
    const struct scene *s = &p->round->scenes[k];
    bool bad = p->rank == s->bad, late = bad && s->defect == MISSING && p->at[k] == 0;
    struct call call;
    if (p->requests[k]) {
        peal_status status = peal_test(&p->requests[k]);
        if (status != PEAL_IN_PROGRESS)
            finish(p, k, status);
    } else if (!scene_call(s, bad, p->at[k], &call)) {
        p->over[k] = true;
    } else if (!late || may_come(p->round, k)) {
        peal_status status = scene_begin(&call, p->in, p->out[k], p->comms[k], &p->requests[k]);
        if (status != PEAL_OK)
            finish(p, k, call.type == PEAL_TYPE_COUNT && status == PEAL_ERR_INVALID ? PEAL_OK : status);
    }
}

/* True where LINE says that RANK, and perhaps others that are slow today, have not come. */
static bool misses(const char *line, int rank)
{
    const char *at = strstr(line, "no word from rank");
    at += at ? strcspn(at, "0123456789;") : 0;
    while (at && *at && *at != ';') {
        char *end;
        if (strtol(at, &end, 10) == rank)
            return true;
        at = end + strcspn(end, "0123456789;");
    }
    return false;
}

/* Notes when LINE was seen, where it says of a scene what it should. */
static void note(struct round *r, const char *line)
{
    const char *number = strstr(line, "number "), *other = number ? strstr(number + 1, "number ") : NULL;
    int rank;
    if (!number || sscanf(line, "[peal] warn rank %d: ", &rank) != 1 || rank >= r->n)
        return;
    unsigned long long one = strtoull(number + 7, NULL, 10), two = other ? strtoull(other + 7, NULL, 10) : one;
    int k = (int)((one < two ? one : two) - 1) / SCENE_CALLS;
    if (k < 0 || k >= r->nscenes || r->said_ns[k][rank] != NEVER)
        return;
    const struct scene *s = &r->scenes[k];
    if (s->defect == MISSING ? misses(line, s->bad) : scene_named(s, r->n, first_number(k), line))
        peali_store_relaxed(&r->said_ns[k][rank], peali_clock_ns() - r->start_ns);
}

static void watch(struct round *r)
{
    char line[2048];
    for (long from = ftell(r->log); fgets(line, sizeof line, r->log); from = ftell(r->log)) {
        if (!strchr(line, '\n')) {
            fseek(r->log, from, SEEK_SET);
            return;
        }
        note(r, line);
    }
    clearerr(r->log);
}

static bool any_left(const struct player *p)
{
    for (int k = 0; k < p->round->nscenes; k++)
        if (!p->over[k])
            return true;
    return false;
}

/* What each rank does. */
static void play(struct player *p)
{
    struct round *r = p->round;
    p->in = room();
    for (int k = 0; k < r->nscenes; k++) {
        p->out[k] = room();
        p->comms[k] = comm_new(p);
        prepare(p, k);
    }
    meet(p);
    if (owns_round(p))
        r->start_ns = peali_clock_ns();
    meet(p);
    while (any_left(p) && peali_clock_ns() - r->start_ns < PATIENCE * SECOND) {
        for (int k = 0; k < r->nscenes; k++)
            if (!p->over[k])
                move_on(p, k);
        if (p->rank == 0)
            watch(r);
        peali_clock_sleep(500 * 1000);
    }
    meet(p); /* a rank that has ended its communicator could not be told */
    for (int k = 0; k < r->nscenes; k++) {
        if (!p->over[k])
            r->ends[p->rank][k] = (struct end){PEAL_IN_PROGRESS, p->at[k]};
        peal_comm_destroy(&p->comms[k]);
        peali_free_pages(p->out[k], ROOM);
    }
    peali_free_pages(p->in, ROOM);
}

/* Over all rounds. */
struct tally {
    int scenes, in_call, in_next, silent, late, wrong; /* late: said after 2 s */
    int64_t slowest_ns;
};

static void time_of(struct tally *t, int64_t said_ns)
{
    t->late += said_ns > 2 * SECOND;
    t->slowest_ns = said_ns > t->slowest_ns ? said_ns : t->slowest_ns;
}

static void complain(const struct round *r, int k, struct tally *t)
{
    char words[200];
    t->wrong++;
    print_message("%s:", scene_words(&r->scenes[k], r->n, words, sizeof words));
    for (int rank = 0; rank < r->n; rank++) {
        struct end e = r->ends[rank][k];
        print_message(" rank %d \"%s\" of call %d, said %.2f s;", rank, peal_status_text((peal_status)e.status), e.at,
                      r->said_ns[k][rank] == NEVER ? -1.0 : (double)r->said_ns[k][rank] * 1e-9);
    }
    print_message("\n");
}

static void judge_late(const struct round *r, int k, struct tally *t)
{
    int64_t said = NEVER;
    bool right = true;
    for (int rank = 0; rank < r->n; rank++) {
        right &= r->ends[rank][k].status == PEAL_OK;
        said = r->said_ns[k][rank] > said ? r->said_ns[k][rank] : said;
    }
    if (!right || said == NEVER)
        complain(r, k, t);
    time_of(t, said);
}

static void judge(const struct round *r, int k, struct tally *t)
{
    bool right = true;
    t->scenes++;
    if (r->scenes[k].defect == MISSING) {
        judge_late(r, k, t);
        return;
    }
    for (int rank = 0; rank < r->n; rank++) {
        struct end e = r->ends[rank][k];
        int64_t said = r->said_ns[k][rank];
        bool named = e.status == PEAL_ERR_MISMATCH && said != NEVER;
        *(!named ? &t->silent : e.at == 0 ? &t->in_call : &t->in_next) += 1;
        right &= named;
        time_of(t, said);
    }
    if (!right)
        complain(r, k, t);
}

static void empty_log(struct round *r)
{
    r->log = fopen(log_path, "w");
    if (r->log)
        fclose(r->log);
    r->log = fopen(log_path, "r");
    if (!r->log)
        exit(2);
}

/* Plays those that START names, on N ranks. */
static void play_round(struct round *r, struct tally *t)
{
    memset(r->ends, 0, sizeof r->ends);
    memset(r->said_ns, NEVER, sizeof r->said_ns);
    if (judges())
        empty_log(r);
    run_ranks(r);
    if (!judges())
        return;
    watch(r);
    fclose(r->log);
    for (int k = 0; k < r->nscenes; k++)
        judge(r, k, t);
}

/* How many scenes went wrong. */
static int play_all(int n, const char *name)
{
    static struct scene list[MOST_SCENES];
    static struct round r;
    struct tally t = {0};
    int nlist = scenes_list(n, nodes(), list, MOST_SCENES), next = 0;
    while (next < nlist) {
        r.nscenes = 0;
        r.n = n;
        int most = list[next].size == LARGE || list[next].size == HIGH_LIMIT ? LARGE_AT_ONCE : at_once();
        for (enum size size = list[next].size; next < nlist && r.nscenes < most && list[next].size == size; next++)
            if (all_scenes || next % SAMPLE == 0)
                r.scenes[r.nscenes++] = list[next];
        if (r.nscenes > 0)
            play_round(&r, &t);
    }
    if (!judges())
        return 0;
    print_message("%d ranks %s: %d of %d scenes; ranks that said what was wrong: %d in the call, %d in their next one, %d did not; "
                  "%d after 2 s, the slowest after %.2f s\n", n, name, t.scenes, nlist, t.in_call, t.in_next, t.silent, t.late,
                  (double)t.slowest_ns * 1e-9);
    return t.wrong + (t.slowest_ns > MOST_SECONDS * SECOND);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, log_path, sizeof log_path);
    all_scenes = argc > 1 && strcmp(argv[1], "all") == 0;
    setenv("PEAL_LOG_FILE", log_path, 1);
    setenv("PEAL_TIMEOUT", "50", 0);
    int failed = cmocka_run_group_tests_name("calls that differ", tests, NULL, NULL);
    end(log_path);
    return failed != 0;
}
