/* peal bench --mem cuda: which GPU a rank has, and what is missing before there are ranks. */
#include "cmd_bench_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "race_gpu.h"

static int number_of(const char *const *names)
{
    for (; *names; names++)
        if (getenv(*names))
            return atoi(getenv(*names));
    return -1;
}

/* This process among those of its host, from whichever launcher started it; -1: nobody says. */
static int local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                        "SLURM_LOCALID", NULL};
    return number_of(names);
}

/* How many these are; -1: nobody says. */
static int local_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", NULL};
    return number_of(names);
}

/* Where a launcher shows each rank one GPU, that is number 0 for all. */
static int device_of(const peali_team *team, const peali_flags *flags, int devices)
{
    int local = local_rank();
    return flags->gpus ? team->rank : devices == 1 ? 0 : local >= 0 ? local : team->rank;
}

static int count_devices(void)
{
    int devices = 0;
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    return cu && cu->DeviceGetCount(&devices) == 0 ? devices : 0;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...": the first word that begins with a digit, but for x86_64. */
static void find_driver(char *to, size_t size)
{
    char line[256] = "";
    FILE *from = fopen("/proc/driver/nvidia/version", "r");
    if (from && !fgets(line, sizeof line, from))
        line[0] = 0;
    if (from)
        fclose(from);
    for (char *word = strtok(line, " "); word && !to[0]; word = strtok(NULL, " "))
        if (word[0] >= '0' && word[0] <= '9')
            snprintf(to, size, "%.40s", word);
}

bool peali_bench_gpu_missing(const peali_flags *flags, char *why, size_t size)
{
    const char *reason = NULL;
    int devices = count_devices();
    if (!peali_cuda_driver_get(&reason) || (flags->vs_nccl && !peali_nccl_get(&reason)))
        snprintf(why, size, "--mem cuda: %s", reason);
    else if (flags->gpus > devices)
        snprintf(why, size, "-g %d: this machine has %d GPU%s (CUDA_VISIBLE_DEVICES may hide some)", flags->gpus, devices,
                 devices == 1 ? "" : "s");
    else if (!flags->gpus && devices > 1 && local_ranks() > devices)
        snprintf(why, size, "--mem cuda: %d ranks on this host, which has %d GPUs: start one for each", local_ranks(), devices);
    else
        return false;
    return true;
}

int peali_bench_gpu_run(peali_race *race, const peali_origin *host)
{
    const char *why;
    const peali_nccl *nccl = race->flags->vs_nccl ? peali_nccl_get(&why) : NULL;
    peali_race_gpu gpu = {.cuda_version = peali_cuda_driver_get(NULL)->version, .nccl_version = nccl ? nccl->version : 0,
                          .nvls = nccl ? nccl->nvls : NULL};
    find_driver(gpu.driver, sizeof gpu.driver);
    peali_gpu_race *g = peali_gpu_race_open(race, device_of(race->team, race->flags, count_devices()), nccl, &gpu);
    bool first = race->team->rank == 0;
    if (first)
        peali_report_gpu_head(race, host);
    int result = peali_gpu_race_run(g, peali_report_gpu_row);
    if (first && !peali_report_all(race, host))
        result = 1;
    peali_gpu_race_close(&g);
    return result;
}
