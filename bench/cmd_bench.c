/* peal bench: one race, its table, JSON and plot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report.h"

/* The first rank writes; files that fail make the run fail, a plot without gnuplot does not. */
static int write_files(const peali_race *race, const peali_origin *host)
{
    if (race->flags->plot)
        peali_plot_svg(race, host, race->flags->plot);
    return race->flags->json && !peali_save_json(race, host, race->flags->json);
}

static int race_once(peali_team *team, void *arg)
{
    peali_race race = {.flags = arg, .team = team};
    peali_origin host = peali_origin_find();
    if (team->rank == 0)
        peali_report_head(&race, &host);
    int result = peali_race_run(&race, peali_report_row);
    if (team->rank == 0) {
        peali_report_winners(&race);
        if (write_files(&race, &host))
            result = 1;
    }
    peali_race_end(&race);
    return result;
}

/* A peer that is Peal in disguise would make the race a lie. */
static bool interposed(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "libpeal_mpi");
}

static int refuse(const char *why)
{
    if (peali_flags_first())
        fprintf(stderr, "peal bench: %s\n", why);
    return 2;
}

int peali_cmd_bench(int argc, char **argv)
{
    peali_flags flags;
    int code = peali_flags_parse(argc, argv, &flags);
    if (code != -1)
        return code;
    if (flags.vs_mpi && interposed())
        return refuse("--vs mpi under libpeal_mpi.so would race Peal against itself; unset LD_PRELOAD");
    if (flags.vs_mpi && flags.threads)
        return refuse("--vs mpi wants ranks that are MPI processes: start it by mpirun, without --threads");
    if (flags.threads)
        return peali_team_threads(flags.threads, race_once, &flags);
#ifdef PEALI_BENCH_MPI
    return peali_team_mpi(race_once, &flags);
#else
    return refuse("built without MPI, so ranks are threads: give --threads N");
#endif
}
