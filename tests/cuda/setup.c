/* Two ranks, threads on devices 0 and 1, make a team of GPUs and print how that ends. For tests of what the log says then. */
#include <stdio.h>

#include "cuda/image.h"
#include "team_world.h"

#ifdef TEST_TOOLKIT
const unsigned char peali_cuda_image[] = "// any";
const size_t peali_cuda_image_bytes = sizeof peali_cuda_image;
const int peali_cuda_toolkit = TEST_TOOLKIT;
#endif

static team_world world;

static void *rank_thread(void *arg)
{
    const int rank = *(int *)arg;
    peali_team *team;
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    if (cu && !team_world_device(cu, rank))
        puts("no context");
    peal_status status = team_world_meet(&world, rank, &team);
    if (rank == 0 && status == PEAL_OK && peali_team_far(team))
        puts(peali_team_far(team));
    team_world_close(&world, rank, &team);
    if (rank == 0)
        puts(peal_status_text(status));
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int ranks[2] = {0, 1};
    team_world_begin(&world, 2);
    for (int r = 0; r < 2; r++)
        if (pthread_create(&threads[r], NULL, rank_thread, &ranks[r]) != 0)
            return 1;
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    return 0;
}
