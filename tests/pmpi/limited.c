/*
 * A rank that can have no memory to share, by a limit of its own or because it has no descriptor left: all exchange messages then.
 * Arguments: file, or the descriptors that are left to it, and the rank; -1: all.
 */
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
    start(&argc, &argv);
    int free_one = dup(0), who = atoi(argv[2]);
    close(free_one);
    if (who < 0 || who == rank)
        limit(strcmp(argv[1], "file") == 0 ? RLIMIT_FSIZE : RLIMIT_NOFILE,
              strcmp(argv[1], "file") == 0 ? FILE_BYTES : free_one + atoi(argv[1]));
    for (int i = 0; i < CALLS; i++)
        sum_ranks(MPI_COMM_WORLD);
    expect("taken", CALLS);
    MPI_Finalize();
    return 0;
}
