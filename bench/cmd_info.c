/*
 * peal info: what this Peal is, what it was told, and where it runs; --topo: how the GPUs there are connected; --rdma: what the
 * network and the GPUs of the host can do.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <peal/peal.h>

#include "base/arena.h"
#include "base/config.h"
#include "commands.h"
#include "links.h"
#include "report.h"
#include "sched/sched.h"
#include "sched/tuning.h"
#include "topo/fabric.h"
#include "topo/gpus.h"
#include "topo/machine.h"

static void print_build(void)
{
    printf("peal %s (%s), %s\n", PEAL_VERSION, peali_origin_commit(), peali_origin_compiler());
    printf("built in: transports loop%s%s; kernels for %s\n", PEALI_MPI_VERSION[0] ? ", mpi (Open MPI " PEALI_MPI_VERSION ")" : "",
           PEALI_UCX_VERSION[0] ? ", ucx (" PEALI_UCX_VERSION ")" : "", PEALI_GPU_ARCH[0] ? "GPUs " PEALI_GPU_ARCH : "no GPU");
}

static void print_machine(void)
{
    char text[512];
    printf("\nmachine: %s\n", peali_machine_describe(text, sizeof text));
    printf("levels:");
    for (int level = 0; level < PEALI_LEVELS; level++)
        if (peali_machine_objects(level))
            printf(" %s %d", peali_level_name(level), peali_machine_objects(level));
    printf("%s\n", peali_machine_objects(PEALI_CORE) ? "" : " not known");
}

/* "nvlink 18", "pcie", "host"; with "!" where the driver lets neither access the other's memory. */
static void print_path(const peali_gpus *g, int a, int b)
{
    static const char *const names[] = {"-", "nvlink", "pcie", "host"};
    char text[32];
    int len = snprintf(text, sizeof text, "%s", names[g->between[a][b].path]);
    if (g->between[a][b].nvlinks)
        len += snprintf(text + len, sizeof text - (size_t)len, " %d", g->between[a][b].nvlinks);
    snprintf(text + len, sizeof text - (size_t)len, "%s", g->between[a][b].no_peers ? "!" : "");
    printf(" %10s", text);
}

static void print_gpus(void)
{
    peali_gpus g;
    const char *why;
    if (!peali_gpus_find(&g, &why)) {
        printf("gpus: none, because %s\n", why);
        return;
    }
    printf("gpus:\n");
    for (int i = 0; i < g.n; i++)
        printf("  %2d  %s  %s\n", i, g.gpus[i].bus, g.gpus[i].name);
    printf("\n    ");
    for (int b = 0; b < g.n; b++)
        printf(" %10d", b);
    for (int a = 0; a < g.n; a++) {
        printf("\n  %2d", a);
        for (int b = 0; b < g.n; b++)
            print_path(&g, a, b);
    }
    printf("\n\nnvlink N: by N links; pcie: through PCI switches; host: through the host; !: no access to each other's memory\n");
    peali_links_print(&g);
}

static void print_algos(void)
{
    printf("\nalgorithms:\n");
    for (int i = 0; peali_algos[i]; i++)
        printf("  %-16s %s%s\n", peal_kind_name(peali_algos[i]->kind), peali_algos[i]->name,
               peali_algos[i]->in_rank_order ? " (sums in rank order)" : "");
}

/* False where a communicator would be refused for them: said on stderr, in the same words. */
static bool print_config(void)
{
    peal_config_entry entry;
    printf("\nvariables:\n");
    for (int i = 0; peal_config_list(i, &entry); i++)
        printf("  %-18s %-10s %s (%s)\n", entry.name, entry.value, entry.meaning, entry.choices);
    fflush(stdout);
    return peali_config_check() == PEAL_OK && peali_tuning_get();
}

/* ROOT is the / of the host that is shown; "" for this one. */
static int print_rdma(const char *root)
{
    char sys[PATH_MAX];
    snprintf(sys, sizeof sys, "%s/sys", root);
    if (access(sys, F_OK) != 0) {
        fprintf(stderr, "peal info: --root %s: there is no sys in it: %s\n", root, strerror(errno));
        return 2;
    }
    peali_fabric *fabric = peali_fabric_read(root);
    peali_fabric_here here = peali_fabric_look_here();
    if (!fabric) {
        fputs("peal info: no memory\n", stderr);
        return 1;
    }
    peali_fabric_print(fabric, &here, stdout);
    peali_free(fabric);
    return 0;
}

static int help(void)
{
    puts("usage: peal info [--topo|--rdma [--root DIR]]\n"
         "  --topo               this host's GPUs, how they are connected, and how fast copies between them are\n"
         "  --rdma               its network ports and GPUs: what works, what is slow, and why\n"
         "  --root DIR           of a host whose /sys and /proc were copied to DIR\n"
         "  -h, --help           this text");
    return 0;
}

int peali_cmd_info(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return help();
    bool topo = argc == 2 && strcmp(argv[1], "--topo") == 0;
    if (argc == 2 && strcmp(argv[1], "--rdma") == 0)
        return print_rdma("");
    if (argc == 4 && strcmp(argv[1], "--rdma") == 0 && strcmp(argv[2], "--root") == 0)
        return print_rdma(argv[3]);
    if (argc > 1 && !topo) {
        fprintf(stderr, "peal info: takes --topo, --rdma [--root DIR] or nothing, so not '%s'\n", argv[argc - 1]);
        return 2;
    }
    if (topo) {
        print_machine();
        print_gpus();
        return 0;
    }
    print_build();
    print_machine();
    print_algos();
    return !print_config();
}
