/*
 * A rank that can have no memory to share, by a limit on files or on addresses, or because it has no descriptor left for one more
 * communicator, or may send to no process of its host: all exchange messages of MPI then, at once, and the addresses are the
 * program's. One descriptor is enough where ranks have met.
 * Arguments: file, addresses, sends, or the descriptors that are left to it, and the rank; -1: all.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pmpi.h"

static void limit(int what, long most)
{
    struct rlimit is;
    CHECK(getrlimit(what, &is) == 0);
    is.rlim_cur = (rlim_t)most;
    CHECK(setrlimit(what, &is) == 0);
}

/* As a sandbox does that lets a process open sockets. */
static void forbid_sends(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char **argv)
{
    enum { FILE_BYTES = 1 << 20, CALLS = 3 };
    const long addresses = 8L << 30;
    MPI_Comm comm;
    start(&argc, &argv);
    bool file = strcmp(argv[1], "file") == 0, few = strcmp(argv[1], "addresses") == 0, mute = strcmp(argv[1], "sends") == 0;
    bool met = !file && !few && !mute;
    if (met)
        sum_ranks(MPI_COMM_WORLD);
    int free_one = dup(0), who = atoi(argv[2]);
    close(free_one);
    if ((who < 0 || who == rank) && mute)
        forbid_sends();
    else if (who < 0 || who == rank)
        limit(few ? RLIMIT_AS : file ? RLIMIT_FSIZE : RLIMIT_NOFILE,
              few ? addresses : file ? FILE_BYTES : free_one + atoi(argv[1]));
    double began = MPI_Wtime();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < CALLS; i++)
        sum_ranks(comm);
    CHECK(MPI_Wtime() - began < 15);
    CHECK(mmap(NULL, (size_t)addresses / 4 * 3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
    expect("taken", CALLS + met);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
