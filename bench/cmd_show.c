/* peal show: a schedule as it was built, rank by rank, and its bill. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "study/check_parts.h"

static int misuse(const char *what, const char *text)
{
    fprintf(stderr, "peal show: %s '%s'\nusage: peal show allreduce NAME -n RANKS\n  NAME:", what, text);
    for (int i = 0; peali_algos[i]; i++)
        if (peali_algos[i]->kind == PEAL_ALLREDUCE)
            fprintf(stderr, " %s", peali_algos[i]->name);
    fputc('\n', stderr);
    return 2;
}

static int print_rank(const peal_algo *algo, const peal_problem *problem, int rank)
{
    peal_sched *sched;
    if (peali_sched_build(algo, problem, rank, &sched) != PEAL_OK)
        return 1;
    printf("\nrank %d\n", rank);
    for (int i = 0; i < sched->nops; i++) {
        char words[128];
        peali_check_words(words, sizeof words, &sched->ops[i]);
        printf("  %4d  %s\n", i, words);
    }
    peali_sched_free(&sched);
    return 0;
}

static int show(const peal_algo *algo, int nranks)
{
    peal_problem problem = {.kind = algo->kind, .op = PEAL_SUM, .nranks = nranks, .nnodes = 1};
    if (!peali_algo_fits(algo, &problem)) {
        fprintf(stderr, "peal show: %s does not fit %d ranks\n", algo->name, nranks);
        return 1;
    }
    peal_bill bill = algo->bill(&problem);
    printf("%s %s, %d ranks: %d blocks, %d rounds, at most %lld blocks sent and %d scratch slots per rank\n",
           peal_kind_name(algo->kind), algo->name, nranks, bill.blocks, bill.rounds, (long long)bill.sent, bill.slots);
    int result = 0;
    for (int rank = 0; rank < nranks && !result; rank++)
        result = print_rank(algo, &problem, rank);
    return result;
}

int peali_cmd_show(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "allreduce") != 0)
        return misuse("the collective must be 'allreduce', not", argc < 2 ? "" : argv[1]);
    const peal_algo *algo = argc < 3 ? NULL : peali_algo_find(PEAL_ALLREDUCE, argv[2]);
    if (!algo)
        return misuse("no algorithm", argc < 3 ? "" : argv[2]);
    int nranks = argc == 5 && strcmp(argv[3], "-n") == 0 ? atoi(argv[4]) : 0;
    if (nranks < 1 || nranks > 4096)
        return misuse("wants -n with 1 to 4096, not", argc < 4 ? "" : argv[argc - 1]);
    return show(algo, nranks);
}
