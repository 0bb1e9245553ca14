/* An MPI that takes device memory, or does not, as TEST_CUDA has it. */
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void)
{
    const char *yes = getenv("TEST_CUDA");
    return yes && strcmp(yes, "1") == 0;
}
