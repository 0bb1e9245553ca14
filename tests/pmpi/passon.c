/*
 * What Peal passes on is done by MPI as if Peal were not there, wrong arguments included, and is counted under its reason. With an
 * argument: this MPI looks at none and crashes, so there are no wrong ones but those that Peal itself finds.
 */
#include "pmpi.h"

static MPI_Comm handled; /* the communicator of the last error */
static int handled_class, handled_calls;

static void handler(MPI_Comm *comm, int *error, ...)
{
    handled = *comm;
    handled_class = error_class(*error);
    handled_calls++;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void user_op(void)
{
    MPI_Op op;
    int in = rank + 1, out = 0;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(out == nranks * (nranks + 1) / 2);
    MPI_Reduce(&in, &out, 1, MPI_INT, op, 1, MPI_COMM_WORLD);
    CHECK(out == nranks * (nranks + 1) / 2);
    MPI_Op_free(&op);
    expect("passed on user-defined op", 2);
}

static void add_two(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int two = 2 * *count;
    add(in, inout, &two, NULL);
}

static void derived_type(void)
{
    MPI_Op op;
    MPI_Datatype two;
    int in[2] = {1, rank}, out[2] = {0, 0};
    MPI_Op_create(add_two, 1, &op);
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    MPI_Allreduce(in, out, 1, two, op, MPI_COMM_WORLD);
    CHECK(out[0] == nranks && out[1] == nranks * (nranks - 1) / 2);
    MPI_Type_free(&two);
    MPI_Op_free(&op);
    expect("passed on derived type", 1);
}

static void pair_type(void)
{
    struct {
        double value;
        int index;
    } in = {rank == 1 ? -1 : rank, rank}, out = {0, 0};
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(out.index == 1 && out.value == -1);
    expect("passed on pair type", 1);
}

/* A Fortran LOGICAL, as its compiler has it. */
static void other_types(void)
{
    int in = 1, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD);
    CHECK(out != 0);
    in = 0;
    MPI_Allreduce(&in, &out, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD);
    CHECK(out == 0);
    expect("passed on type not supported", 2);
}

static void no_elements(void)
{
    int in = 1, out = 42;
    CHECK(MPI_Allreduce(&in, &out, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && out == 42);
}

static void lone_rank(void)
{
    int in = 3, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    CHECK(out == 3);
    CHECK(MPI_Barrier(MPI_COMM_SELF) == MPI_SUCCESS);
    expect("passed on one rank", 2);
}

static void intercommunicator(void)
{
    MPI_Comm half, inter;
    int side = rank % 2, in = rank, out = -1, want = 0, rank_0_has = 0;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, inter);
    for (int r = 0; r < nranks; r++) {
        want += r % 2 == side ? 0 : r;
        rank_0_has += r % 2 ? r : 0;
    }
    CHECK(out == want);
    MPI_Bcast(&out, 1, MPI_INT, side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    CHECK(!side || out == rank_0_has);
    int got[8];
    CHECK(nranks <= 8);
    MPI_Allgather(&in, 1, MPI_INT, got, 1, MPI_INT, inter);
    for (int r = 1 - side; r < nranks; r += 2)
        CHECK(got[r / 2] == r);
    CHECK(MPI_Barrier(inter) == MPI_SUCCESS);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    expect("passed on intercommunicator", 4);
}

/* CLASS 0: any error; MPIs differ. */
static void wrong(MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op, int class)
{
    double in = 1, out = 0;
    int calls = handled_calls, error = MPI_Allreduce(&in, &out, count, type, op, comm);
    CHECK(error != MPI_SUCCESS && error_class(error) == handled_class);
    CHECK(class == 0 || handled_class == class);
    CHECK(handled_calls == calls + 1 && handled == (comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm));
}

/*
 * On a communicator with a handler of its own; it is the user's handler that hears of each, once. Debian's MPICH lets a negative
 * count and a wrong op through, and crashes.
 */
static void wrong_arguments(MPI_Comm comm)
{
    int zero = 1; /* that of no_elements */
#ifdef OPEN_MPI
    int in = 1, calls = handled_calls;
    wrong(comm, -1, MPI_INT, MPI_SUM, MPI_ERR_COUNT);
    wrong(comm, 1, MPI_DOUBLE, MPI_LAND, MPI_ERR_OP);
    wrong(comm, 1, MPI_INTEGER, MPI_LAND, MPI_ERR_OP);
    CHECK(error_class(MPI_Barrier(NULL)) == MPI_ERR_COMM && handled == MPI_COMM_WORLD);
    CHECK(error_class(MPI_Bcast(&in, 1, NULL, 0, comm)) == MPI_ERR_TYPE && handled == comm);
    CHECK(handled_calls == calls + 5);
    zero++;
    expect("passed on null handle", 2);
    expect("passed on op not defined for the type", 2);
#endif
    wrong(comm, 1, MPI_DATATYPE_NULL, MPI_SUM, 0);
    wrong(comm, 1, MPI_INT, MPI_OP_NULL, MPI_ERR_OP);
    wrong(MPI_COMM_NULL, 1, MPI_INT, MPI_SUM, MPI_ERR_COMM);
    CHECK(error_class(MPI_Barrier(MPI_COMM_NULL)) == MPI_ERR_COMM && handled == MPI_COMM_WORLD);
    expect("passed on count zero or negative", zero);
    expect("passed on null handle", 4);
}

static void wrong_root(MPI_Comm comm)
{
    int in = 1, out = 0, calls = handled_calls;
    CHECK(error_class(MPI_Bcast(&in, 1, MPI_INT, nranks, comm)) == MPI_ERR_ROOT);
    CHECK(error_class(MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, -7, comm)) == MPI_ERR_ROOT);
    CHECK(handled_calls == calls + 2 && handled == comm);
    expect("passed on root is no rank", 2);
}

#ifndef OPEN_MPI
/* Open MPI does not know, and crashes. Nothing is passed on: that it is gone has been said. */
static void gone(void)
{
    MPI_Comm comm, again;
    int counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, in[8] = {0}, out = 0, calls = handled_calls;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    again = comm;
    MPI_Comm_free(&comm);
    CHECK(error_class(MPI_Allreduce(in, &out, 1, MPI_INT, MPI_SUM, again)) == MPI_ERR_COMM);
    CHECK(error_class(MPI_Reduce_scatter(in, &out, counts, MPI_INT, MPI_SUM, again)) == MPI_ERR_COMM);
    counts[0] = 0; /* which is MPI's of others */
    CHECK(error_class(MPI_Reduce_scatter(in, &out, counts, MPI_INT, MPI_SUM, again)) == MPI_ERR_COMM);
    CHECK(handled_calls == calls + 3 && handled == MPI_COMM_WORLD);
}
#endif

/* These are equal on all ranks only by chance: Peal has taken the call, and says so itself. */
static void wrong_buffers(MPI_Comm comm)
{
    int in = 1, out = 0, calls = handled_calls;
    CHECK(error_class(MPI_Allreduce(NULL, &out, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Allreduce(&in, NULL, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Allreduce(&in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Bcast(NULL, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Allgather(&in, 1, MPI_INT, NULL, 1, MPI_INT, comm)) == MPI_ERR_BUFFER);
    CHECK(error_class(MPI_Allgather(&in, 2, MPI_INT, &out, 1, MPI_INT, comm)) == MPI_ERR_COUNT);
    CHECK(error_class(MPI_Allgather(&in, 1, (MPI_Datatype)0, &out, 1, MPI_INT, comm)) == MPI_ERR_TYPE);
    CHECK(error_class(MPI_Reduce_scatter_block(&in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
    const void *from = rank == 1 ? &in : MPI_IN_PLACE;
    CHECK(error_class(MPI_Reduce(from, rank == 1 ? MPI_IN_PLACE : &out, 1, MPI_INT, MPI_SUM, 1, comm)) == MPI_ERR_BUFFER);
    CHECK(handled_calls == calls + 9 && handled == comm);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
    CHECK(out == nranks);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Errhandler mine, kept;
    start(&argc, &argv);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, mine);
    user_op();
    derived_type();
    pair_type();
    other_types();
    no_elements();
    lone_rank();
    intercommunicator();
    if (argc == 1) {
        wrong_arguments(comm);
        wrong_root(comm);
#ifndef OPEN_MPI
        gone();
#endif
    } else {
        expect("passed on count zero or negative", 1);
    }
    wrong_buffers(comm);
    MPI_Comm_get_errhandler(comm, &kept);
    CHECK(kept == mine);
    expect("taken", 1);
    MPI_Finalize();
    return 0;
}
