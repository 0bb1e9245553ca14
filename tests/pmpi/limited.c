/*
 * A rank that can have no memory to share, by a limit on files or on addresses, or because it has no descriptor left for one more
 * communicator: all exchange messages then, and the addresses are the program's. One descriptor is enough where ranks have met.
 * Arguments: file, addresses, or the descriptors that are left to it, and the rank; -1: all.
 */
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pmpi.h"

static void limit(int what, long most)
{
    struct rlimit is;
    CHECK(getrlimit(what, &is) == 0);
    is.rlim_cur = (rlim_t)most;
    CHECK(setrlimit(what, &is) == 0);
}

int main(int argc, char **argv)
{
    enum { FILE_BYTES = 1 << 20, CALLS = 3 };
    const long addresses = 8L << 30;
    MPI_Comm comm;
    start(&argc, &argv);
    bool file = strcmp(argv[1], "file") == 0, few = strcmp(argv[1], "addresses") == 0;
    if (!file && !few)
        sum_ranks(MPI_COMM_WORLD);
    int free_one = dup(0), who = atoi(argv[2]);
    close(free_one);
    if (who < 0 || who == rank)
        limit(few ? RLIMIT_AS : file ? RLIMIT_FSIZE : RLIMIT_NOFILE,
              few ? addresses : file ? FILE_BYTES : free_one + atoi(argv[1]));
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < CALLS; i++)
        sum_ranks(comm);
    CHECK(mmap(NULL, (size_t)addresses / 4 * 3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
    expect("taken", CALLS + (!file && !few));
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
