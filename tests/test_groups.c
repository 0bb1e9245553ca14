/*
 * The levels that are found for ranks bound here and there on recorded machines: 1 socket, 2 sockets, 8 NUMA domains, uneven; and
 * what communicators make of them. Each machine is that of a child process, for a process reads its machine once. The argument is
 * the folder of recorded machines.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <peal/peal.h>

#include "topo/machine.h"

enum { MOST = 64 };

static const char *folder;

/* What is expected of ranks bound to CORES ("0 1 2-3", a word each; "-" is no core): LEVEL, and the group of each rank. */
typedef struct bound {
    const char *cores, *wanted, *level, *groups;
} bound;

static int seats_of(const char *cores, peali_seat *seats)
{
    int n = 0, used;
    for (char word[16]; sscanf(cores, "%15s%n", word, &used) == 1; cores += used) {
        int first = 0, last = -1;
        peali_place place = {.cores = {0}};
        if (sscanf(word, "%d-%d", &first, &last) == 1)
            last = first;
        for (int c = first; c <= last; c++)
            place.cores[c / 64] |= (uint64_t)1 << c % 64;
        peali_machine_seat(&place, &seats[n++]);
    }
    return n;
}

static int differs(const bound *b)
{
    peali_seat seats[MOST];
    int group[MOST], n = seats_of(b->cores, seats), level = peali_groups_find(seats, n, b->wanted, group);
    const char *name = level < 0 ? "none" : peali_level_name(level);
    int wrong = n != (int)strlen(b->groups) || strcmp(name, b->level) != 0;
    for (int r = 0; !wrong && r < n; r++)
        wrong = group[r] != b->groups[r] - '0';
    if (wrong)
        fprintf(stderr, "ranks on %s (wanted %s): found %s, not %s\n", b->cores, b->wanted ? b->wanted : "any", name, b->level);
    return wrong;
}

/* VARIABLE tells hwloc the machine. */
static void on(const char *variable, const char *machine, const bound *cases)
{
#ifndef PEALI_HAVE_HWLOC
    print_message("no hwloc: nothing is known of a machine\n");
    skip();
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int wrong = setenv(variable, machine, 1);
        for (const bound *b = cases; b->cores; b++)
            wrong |= differs(b);
        _exit(wrong);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void one_socket(void **state)
{
    on("HWLOC_SYNTHETIC", "pack:1 [numa] l3:1 l2:8 core:1 pu:2",
       (const bound[]){{"0-1 2-3 4-5 6-7", NULL, "none", "0000"},
                       {"0 1 2 3 4 5 6 7", NULL, "none", "00000000"},
                       {"0 1 2 3 4 5 6 7", "core", "core", "00112233"},
                       {"0 1 2 3 4 5 6 7", "l2", "l2", "00112233"},
                       {"0 1 2 3 4 5 6 7", "l3", "none", "00000000"},
                       {0}});
}

static void two_sockets(void **state)
{
    on("HWLOC_SYNTHETIC", "pack:2 [numa] l3:1 core:4 pu:1(indexes=0,2,4,6,1,3,5,7)",
       (const bound[]){{"0 2 4 6 1 3 5 7", NULL, "socket", "00001111"},
                       {"0 2 4 6 1 3 5 7", "numa", "numa", "00001111"},
                       {"0 2 4 6 1 3 5 7", "core", "none", "00000000"}, /* each alone */
                       {"1 3 0 2", NULL, "socket", "0011"},
                       {"0 2 4 1", NULL, "socket", "0001"},
                       {"0 2 2 1 1", NULL, "socket", "00011"},
                       {"0 1 2 3", NULL, "none", "0000"}, /* by turns */
                       {"0 2 1 4", NULL, "none", "0000"},
                       {"0 2 1", NULL, "none", "000"}, /* a group would be of one */
                       {"0 2 4 0-7", NULL, "none", "0000"},
                       {"0-7 0-7 0-7 0-7", NULL, "none", "0000"},
                       {"0 2 1 -", NULL, "none", "0000"},
                       {"0 2 1 99", NULL, "none", "0000"},
                       {"0", NULL, "none", "0"},
                       {0}});
}

static void eight_domains(void **state)
{
    on("HWLOC_SYNTHETIC", "pack:2 numa:4 l3:2 l2:2 core:1 pu:1",
       (const bound[]){{"0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30", NULL, "socket", "0000000011111111"},
                       {"0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30", "numa", "numa", "0011223344556677"},
                       {"0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15", NULL, "numa", "00112233"},
                       {"0-3 0-3 4-7 4-7 16-19 16-19 20-23 20-23", NULL, "socket", "00001111"},
                       {"0-3 0-3 4-7 4-7 16-19 16-19 20-23 20-23", "numa", "numa", "00112233"},
                       {"0-3 0-3 4-7 4-7 16-19 16-19 20-23 20-23", "l3", "none", "00000000"},
                       {"0 1 2 3", NULL, "l3", "0011"},
                       {"0 4 8 12", NULL, "none", "0000"},
                       {"0 1 4 5 8 9 12 13 14", NULL, "numa", "001122333"},
                       {0}});
}

static void uneven(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/uneven.xml", folder);
    on("HWLOC_XMLFILE", path,
       (const bound[]){{"0 1 2 3 4 5 6 7 8 9 10 11", NULL, "socket", "000000001111"},
                       {"0 1 2 3 4 5 6 7 8 9 10 11", "l3", "l3", "000011112222"},
                       {"0 1 2 3 4 5 6 7", NULL, "l3", "00001111"},
                       {"0 8 9 10", NULL, "socket", "0111"},
                       {"8 9 10 11", NULL, "none", "0000"},
                       {0}});
}

/* A NUMA node of memory alone is local to all cores, and comes behind those that are nearer. */
static void memory_node(void **state)
{
    on("HWLOC_SYNTHETIC", "[numa] pack:2 [numa] core:2 pu:1",
       (const bound[]){{"0 1 2 3", "numa", "numa", "0011"}, {0}});
}

/* Rank r of a communicator of threads, bound to one core. */
typedef struct thread_rank {
    pthread_t id;
    peal_threads *threads;
    int rank, nranks, core, nodes, wrong;
} thread_rank;

static int sum_wrong(peal_comm *comm, const thread_rank *t, size_t count)
{
    double in[20000] = {0}, out[20000];
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        in[i] = 1e5 * t->rank + (double)i;
    wrong |= peal_allreduce(in, out, count, PEAL_DOUBLE, PEAL_SUM, comm, NULL) != PEAL_OK;
    for (size_t i = 0; i < count; i++)
        wrong |= out[i] != 1e5 * (t->nranks * (t->nranks - 1) / 2) + t->nranks * (double)i;
    return wrong;
}

/* By Peal's own choice and in levels, small (pushed) and larger (pulled). */
static int sums_wrong(peal_comm *comm, const thread_rank *t)
{
    static const char *const algos[] = {NULL, "hierarchical", "hierarchical_tree"};
    int wrong = 0;
    for (int a = 0; a < 3; a++) {
        wrong |= peal_comm_force(comm, PEAL_ALLREDUCE, algos[a]) != PEAL_OK;
        wrong |= sum_wrong(comm, t, 3) | sum_wrong(comm, t, 20000);
    }
    return wrong;
}

static void *run_rank(void *arg)
{
    thread_rank *t = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(t->core, &set);
    peal_comm *comm = NULL;
    t->wrong = sched_setaffinity(0, sizeof set, &set) != 0;
    t->wrong |= peal_comm_create_threads(t->threads, t->rank, &comm) != PEAL_OK;
    if (!comm)
        return NULL;
    t->nodes = peal_comm_nodes(comm);
    t->wrong |= strcmp(peal_comm_choice(comm, PEAL_ALLREDUCE, 1, PEAL_DOUBLE, PEAL_SUM), "one_shot") != 0; /* levels are no hosts */
    t->wrong |= sums_wrong(comm, t);
    peal_comm_destroy(&comm);
    return NULL;
}

/* The nodes that ranks bound to CORES find, the same on each; 0: something went wrong. */
static int nodes_of(const int *cores, int n)
{
    thread_rank ranks[8];
    peal_threads *threads = NULL;
    if (peal_threads_create(n, &threads) != PEAL_OK)
        return 0;
    for (int r = 0; r < n; r++) {
        ranks[r] = (thread_rank){.threads = threads, .rank = r, .nranks = n, .core = cores[r]};
        if (pthread_create(&ranks[r].id, NULL, run_rank, &ranks[r]) != 0)
            abort();
    }
    int nodes = -1;
    for (int r = 0; r < n; r++) {
        pthread_join(ranks[r].id, NULL);
        nodes = ranks[r].wrong || (r > 0 && ranks[r].nodes != nodes) ? 0 : ranks[r].nodes;
    }
    peal_threads_destroy(&threads);
    return nodes;
}

/* Ranks on two cores, in sockets of one core each, under VARIABLE. */
static void communicate(const char *variable, const char *value, const int *cores, int n, int nodes)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HWLOC_SYNTHETIC", "pack:1024 numa:1 core:1 pu:1", 1);
        setenv(variable, value, 1);
        _exit(nodes_of(cores, n));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), nodes);
}

static void communicators(void **state)
{
    cpu_set_t set;
    int a = 0, b;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(a, &set))
        a++;
    for (b = a + 1; b < CPU_SETSIZE && !CPU_ISSET(b, &set); b++)
        ;
    if (b == CPU_SETSIZE) {
        print_message("one core: ranks cannot be bound to two\n");
        skip();
    }
    const int halves[] = {a, a, b, b, b}, turns[] = {a, b, a, b};
#ifdef PEALI_HAVE_HWLOC
    communicate("PEAL_LEVEL", "auto", halves, 5, 2);
    communicate("PEAL_LEVEL", "l2", halves, 5, 1);
    communicate("PEAL_LEVEL", "core", halves, 5, 2);
#else
    communicate("PEAL_LEVEL", "auto", halves, 5, 1);
#endif
    communicate("PEAL_LEVEL", "none", halves, 5, 1);
    communicate("PEAL_LEVEL", "auto", turns, 4, 1);
    communicate("PEAL_LEVEL", "auto", halves, 3, 1);
    communicate("PEAL_NODES", "5", halves, 5, 1);
    communicate("PEAL_SHM", "off", halves, 5, 1);
}

/* Names are pairs of words, with something else behind each. */
static void expect(const char *names, int groups, const char *numbers)
{
    uint64_t ids[16][3] = {{0}};
    int n = (int)strlen(names), group[16];
    for (int r = 0; r < n; r++) {
        ids[r][0] = 1;
        ids[r][1] = (uint64_t)names[r];
        ids[r][2] = (uint64_t)r;
    }
    memset(group, -1, sizeof group);
    assert_int_equal(peali_groups_number(ids, sizeof(uint64_t[2]), sizeof ids[0], n, group), groups);
    for (int r = 0; r < n; r++)
        assert_int_equal(group[r], numbers[r] - '0');
    assert_int_equal(group[n], -1);
}

static void numbers(void **state)
{
    expect("a", 1, "0");
    expect("aaaa", 1, "0000");
    expect("aabbb", 2, "00111");
    expect("bba", 2, "001"); /* a communicator in the opposite order */
    expect("cab", 3, "012");
    expect("ca", 2, "01"); /* a rank of each of two */
    expect("abab", 1, "0000");
    expect("abca", 1, "0000");
    expect("aabba", 1, "00000");
}

/* Also when no file can be opened any more. */
static void stays_here(void **state)
{
    peali_place early, late;
    struct rlimit most, none;
    peali_machine_place(&early);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
    none = (struct rlimit){0, most.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    peali_machine_place(&late);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
    assert_memory_equal(&early, &late, sizeof early);
}

int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : ".";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_socket),    cmocka_unit_test(two_sockets), cmocka_unit_test(eight_domains),
        cmocka_unit_test(uneven),        cmocka_unit_test(memory_node), cmocka_unit_test(numbers),
        cmocka_unit_test(communicators), cmocka_unit_test(stays_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
