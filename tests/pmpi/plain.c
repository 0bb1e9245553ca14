/*
 * COUNT allreduces on MPI_COMM_WORLD and what is expected of them: plain COUNT WHAT. TEST_VERSION: what this MPI says that it is;
 * TEST_ABI: the version of the standard ABI that it says it has.
 */
#include <dlfcn.h>

#include "pmpi.h"

/* In the place of MPI's own, for libpeal_mpi too. */
__attribute__((visibility("default"))) int PMPI_Get_library_version(char *version, int *len)
{
    const char *said = getenv("TEST_VERSION");
    int (*mpi)(char *, int *);
    *(void **)&mpi = dlsym(RTLD_NEXT, "PMPI_Get_library_version");
    if (!said)
        return mpi(version, len);
    *len = (int)strlen(strcpy(version, said));
    return MPI_SUCCESS;
}

int PMPI_Abi_get_version(int *major, int *minor); /* of MPI 5 */

__attribute__((visibility("default"))) int PMPI_Abi_get_version(int *major, int *minor)
{
    const char *said = getenv("TEST_ABI");
    *major = said ? atoi(said) : -1;
    *minor = said ? 0 : -1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int i = 0; i < atoi(argv[1]); i++)
        sum_ranks(MPI_COMM_WORLD);
    if (argc > 2)
        expect(argv[2], atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
