/* peal bench: one race, its table, JSON and plot. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_bench_gpu.h"
#include "commands.h"
#include "report.h"
#include "ulp.h"

static int nothing_raced(const peali_race *race)
{
    const peali_flags *f = race->flags;
    char first[24], last[24];
    if (race->team->rank == 0 && race->nrunners == 0)
        fprintf(stderr, "peal bench: nothing to race: none of --algo %s fits %d ranks on %d node%s\n", f->algo, race->team->nranks,
                peal_comm_nodes(race->team->comm), peal_comm_nodes(race->team->comm) > 1 ? "s" : "");
    else if (race->team->rank == 0)
        fprintf(stderr, "peal bench: nothing to race: none of the types (-t) takes the op (-o), or no size from %s (-b) to %s (-e) "
                        "has %zu of its elements\n", peali_bytes_text(f->min_bytes, first),
                peali_bytes_text(f->max_bytes, last), peali_race_parts(race));
    return 2;
}

static int race_hosts(peali_race *race, const peali_origin *host)
{
    if (race->team->rank == 0)
        peali_report_head(race, host);
    int result = peali_race_run(race, peali_report_row);
    if (race->nrows == 0)
        return nothing_raced(race);
    if (race->team->rank == 0 && !peali_report_all(race, host))
        result = 1;
    return result;
}

static int race_once(peali_team *team, void *arg)
{
    peali_race race = {.flags = arg, .team = team};
    peali_origin host = peali_origin_find();
    int result = race.flags->cuda ? peali_bench_gpu_run(&race, &host) : race_hosts(&race, &host);
    peali_race_end(&race);
    return result;
}

/* A peer that is Peal in disguise would make the race a lie. */
static bool interposed(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "libpeal_mpi");
}

/* WHY is "": that is printed already. */
static int refuse(const char *why)
{
#ifdef PEALI_BENCH_MPI
    if (peali_flags_launched())
        return peali_team_mpi("bench", why, NULL, NULL);
#endif
    if (*why)
        fprintf(stderr, "peal bench: %s\n", why);
    return 2;
}

/* All that --ulp is to measure rounds, and can be known exactly. */
static bool rounds(const peali_flags *flags)
{
    bool all = flags->kind != PEAL_ALLGATHER && flags->kind != PEAL_BROADCAST;
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op < PEAL_OP_COUNT; op++)
            if ((flags->types >> type & 1) && (flags->ops >> op & 1))
                all &= peali_ulp_takes((peal_type)type, (peal_op)op);
    return all;
}

/* A type of which the longest vector has more elements than MPI counts, or -1. */
static int too_long_for_mpi(const peali_flags *flags)
{
    const bool shares = flags->kind == PEAL_ALLGATHER || flags->kind == PEAL_REDUCE_SCATTER;
    const size_t parts = shares && peali_flags_launched() ? (size_t)peali_flags_launched() : 1;
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        if ((flags->types >> type & 1) && flags->max_bytes / peal_type_bytes((peal_type)type) / parts > INT_MAX)
            return type;
    return -1;
}

/* A file that the race would be lost for, or NULL. */
static const char *unwritable(const peali_flags *flags)
{
    const char *const files[] = {flags->json, flags->plot};
    for (int i = 0; i < 2; i++)
        if (files[i] && peali_flags_first() && !peali_flags_writable(files[i]))
            return files[i];
    return NULL;
}

/* What cannot be raced, or NULL. */
static const char *misused(const peali_flags *flags)
{
    static char why[512];
    const char *file = unwritable(flags);
    if (file) {
        snprintf(why, sizeof why, "%s %s cannot be written: %s", file == flags->json ? "--json" : "--plot", file, strerror(errno));
        return why;
    }
    const char *crowd = flags->gpus ? peali_flags_crowd("-g", flags->gpus) : peali_flags_crowd("--threads", flags->threads);
    if (crowd)
        return crowd;
    if (flags->vs_mpi && interposed())
        return "--vs mpi under libpeal_mpi.so would race Peal against itself; unset LD_PRELOAD";
    if (flags->vs_mpi && flags->threads)
        return "--vs mpi wants ranks that are MPI processes: start it by mpirun, without --threads";
    if (flags->vs_mpi && too_long_for_mpi(flags) >= 0) {
        snprintf(why, sizeof why, "--vs mpi: MPI's counts end at %d, and -e %zu has more elements of %s (-t)", INT_MAX,
                 flags->max_bytes, peal_type_name((peal_type)too_long_for_mpi(flags)));
        return why;
    }
    if (flags->cuda && flags->vs_mpi)
        return "--mem cuda: the peer is NCCL; give --vs nccl";
    if (!flags->cuda && (flags->vs_nccl || flags->gpus || flags->graph || flags->registered || flags->calls > 1 || flags->ulp))
        return "--vs nccl, -g, -m, --graph, --register and --ulp are for GPUs; give --mem cuda too";
    if (flags->ulp && !rounds(flags))
        return "--ulp is for sums and averages (-o) of fp8_e4m3, fp8_e5m2, fp16, bf16, float and double (-t), "
               "by allreduce, reduce_scatter and reduce";
    if (flags->gpus && flags->threads)
        return "-g is the number of threads too; leave --threads away";
    if (flags->cuda && flags->threads)
        return "--mem cuda: give -g N for threads with a GPU each";
    return flags->cuda && peali_bench_gpu_missing(flags, why, sizeof why) ? why : NULL;
}

int peali_cmd_bench(int argc, char **argv)
{
    peali_flags flags;
    int code = peali_flags_parse(argc, argv, &flags);
    if (code == 0)
        return 0;
    const char *why = code == -1 ? misused(&flags) : "";
    if (why)
        return refuse(why);
    if (flags.threads || flags.gpus)
        return peali_team_threads(flags.threads ? flags.threads : flags.gpus, race_once, &flags);
#ifdef PEALI_BENCH_MPI
    return peali_team_mpi("bench", NULL, race_once, &flags);
#else
    return refuse("built without MPI, so ranks are threads: give --threads N, or -g N with --mem cuda");
#endif
}
