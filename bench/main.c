/* The `peal` command: one table of subcommands, which is also its help. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "flags.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    int once; /* of processes that were started together, the first does it: it is the same in all */
    const char *usage, *meaning;
} commands[] = {
    {"bench", peali_cmd_bench, 0, "bench COLLECTIVE [flags]", "races algorithms, and the MPI's own, on this machine"},
    {"check", peali_cmd_check, 1, "check [--algo NAME] [-n MAX]", "proves every schedule for 1 to MAX ranks"},
    {"show", peali_cmd_show, 1, "show COLLECTIVE NAME -n RANKS", "draws the rounds; prints schedules and programs"},
    {"sim", peali_cmd_sim, 1, "sim COLLECTIVE -n RANKS [flags]", "predicts what algorithms take on a machine of given figures"},
    {"tune", peali_cmd_tune, 0, "tune [COLLECTIVE...] [-o FILE]", "measures this machine and writes a table for PEAL_TUNING"},
    {"info", peali_cmd_info, 0, "info [--topo|--rdma]", "version, what is built in, variables, algorithms, machine, GPUs, network"},
};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

static void help(FILE *to)
{
    fputs("usage:\n", to);
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(to, "  peal %-30s %s\n", commands[i].usage, commands[i].meaning);
    fprintf(to, "  peal %-30s %s\n", "help", "this text; `peal bench --help` lists the flags of a race");
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < NCOMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].once && !peali_flags_first() ? 0 : commands[i].run(argc - 1, argv + 1);
    if (!peali_flags_first())
        return 0; /* the first says it */
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help(stdout);
        return 0;
    }
    fprintf(stderr, *name ? "peal: no subcommand '%s'\n" : "peal: a subcommand is missing%s\n", name);
    help(stderr);
    return 2;
}

/* What was printed may not have arrived: on a full disk, or a closed descriptor. */
int main(int argc, char **argv)
{
    int code = run(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("peal: standard output could not be written\n", stderr);
    return code ? code : 1;
}
