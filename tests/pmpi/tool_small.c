/* An MPI of version 3, behind Peal: who asks the loader for calls with counts of MPI_Count finds none. */
#include <dlfcn.h>
#include <string.h>

__attribute__((visibility("default"))) void *dlsym(void *restrict from, const char *restrict name)
{
    size_t len = strlen(name);
    void *(*real)(void *, const char *) = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return strncmp(name, "PMPI_", 5) == 0 && strcmp(name + len - 2, "_c") == 0 ? NULL : real(from, name);
}
