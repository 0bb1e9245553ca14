/*
 * Communicators that come and go, duplicated with the user's attributes, one of which calls when they go; some left for
 * MPI_Finalize, during which an attribute of the user's own still calls a collective; and where MPI has sessions, some after it.
 * Argument: how many come and go.
 */
#include <unistd.h>

#include "pmpi.h"

enum { ALIVE = 24 }; /* all may have a shadow, on MPICH too */

#ifdef MPICH_NAME
enum { ROUNDS = 30 }; /* more ranks than cores take turns of the scheduler, for they never yield */
#else
enum { ROUNDS = 500 };
#endif

static int copies, deletions;
static long calls, alone, freed, idups;

static int copied(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    copies++;
    *flag = 1;
    *(void **)out = in;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    deletions++;
    return MPI_SUCCESS;
}

static int at_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    sum_ranks(MPI_COMM_WORLD);
    return MPI_SUCCESS;
}

static void call(MPI_Comm comm)
{
    int n;
    MPI_Comm_size(comm, &n);
    sum_ranks(comm);
    calls += n > 1;
    alone += n == 1;
}

static void come_and_go(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? rank : -rank, &comm);
        call(comm);
        MPI_Comm_free(&comm);
    }
}

static void many_alive(void)
{
    MPI_Comm comms[ALIVE];
    for (int i = 0; i < ALIVE; i++) {
        MPI_Comm_dup(i ? comms[i / 2] : MPI_COMM_WORLD, &comms[i]);
        call(comms[i]);
    }
    for (int i = 0; i < ALIVE; i += 2)
        MPI_Comm_free(&comms[i]);
    for (int i = 1; i < ALIVE; i += 2)
        call(comms[i]); /* the odd ones stay until MPI_Finalize */
}

/* Nothing but the duplicate has to wait for it; of one that has had a call, calls are taken meanwhile, too. */
static void duplicated_meanwhile(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Comm from, copy;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &from);
        if (i % 2)
            call(from);
        MPI_Comm_idup(from, &copy, &request);
        if (i % nranks == rank)
            usleep(2000);
        sum_ranks(from);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        call(copy);
        calls += i % 2;
        idups += i % 2 == 0;
        MPI_Comm_free(&from);
        MPI_Comm_free(&copy);
    }
}

static void users_attributes(void)
{
    int key, value = 5, found, *got;
    MPI_Comm comm, dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(copied, deleted, &key, NULL);
    MPI_Comm_set_attr(comm, key, &value);
    call(comm);
    CHECK(copies == 0 && deletions == 0);
    MPI_Comm_dup(comm, &dup);
    CHECK(copies == 1);
    call(dup);
    call(comm);
    MPI_Comm_get_attr(dup, key, &got, &found);
    CHECK(found && got == &value && copies == 1);
    MPI_Comm_free(&comm);
    call(dup);
    MPI_Comm_free(&dup);
    CHECK(deletions == 2);
    MPI_Comm_free_keyval(&key);
}

static int call_twice_more(MPI_Comm comm, int key, void *value, void *extra)
{
    for (int i = 0; i < 2; i++, freed++)
        sum_ranks(comm);
    return MPI_SUCCESS;
}

/*
 * Calls while a communicator is freed, before what Peal keeps of it is gone and after: both orders of its attributes, and without
 * any call before. The next one may have its handle.
 */
static void calls_while_freed(void)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_twice_more, &key, NULL);
    for (int i = 0; i < 60; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i % 3 == 0)
            call(comm);
        MPI_Comm_set_attr(comm, key, NULL);
        if (i % 3 == 1)
            call(comm);
        i % 2 ? MPI_Comm_free(&comm) : MPI_Comm_disconnect(&comm);
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &comm);
        call(comm);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free_keyval(&key);
}

static void split_in_two(void)
{
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    call(half);
    call(MPI_COMM_WORLD);
    MPI_Comm_free(&half);
}

/* A session outlives MPI_Finalize, and so may its communicators; those that are made then are MPI's. */
#if MPI_VERSION >= 4
static void finalize(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, dup;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "comms", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    sum_ranks(comm);
    MPI_Finalize();
    MPI_Comm_dup(comm, &dup);
    sum_ranks(dup);
    expect("taken", 1);
    expect("passed on MPI not initialized or finalized", 1);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}
#else
static void finalize(void)
{
    MPI_Finalize();
}
#endif

int main(int argc, char **argv)
{
    int key;
    start(&argc, &argv);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    call(MPI_COMM_WORLD);
    users_attributes();
    calls_while_freed();
    split_in_two();
    duplicated_meanwhile(12);
    many_alive();
    come_and_go(argc > 1 ? atoi(argv[1]) : ROUNDS);
    expect("passed on one rank", alone);
    expect("passed on communicator being freed", freed);
    expect("passed on MPI_Comm_idup before its first collective", idups);
    expect("taken", calls + 1); /* one more at_finalize, as Peal's attribute, set at MPI_Init, goes after it */
    finalize();
    return 0;
}
