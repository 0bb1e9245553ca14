/* One table is the parser's list and the manual. */
#include "flags.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "sched/tuning.h"

enum { F_ALGO = 256, F_VS, F_THREADS, F_JSON, F_PLOT, F_INPLACE, F_MEM, F_GRAPH, F_REGISTER, F_ULP };

static const struct flag {
    int code;
    const char *name, *value, *meaning;
} table[] = {
    {'b', "minbytes", "SIZE", "first size, in bytes or with K, M, G (16)"},
    {'e', "maxbytes", "SIZE", "last size (64M)"},
    {'f', "stepfactor", "X", "each size is X times the one before (4), 1.01 at least"},
    {'i', "stepbytes", "SIZE", "each size is SIZE more than the one before, in place of -f"},
    {'d', "datatype", "TYPE", "element type, or all (float)"},
    {'t', "type", "TYPE", "the same"},
    {'o', "op", "OP", "reduction, or all (sum)"},
    {'n', "iters", "N", "timed calls per size and variant (as many as 0.3 s hold, 5 to 2000)"},
    {'w', "warmup_iters", "N", "calls before these (2)"},
    {'c', "check", "0|1", "verify every call's result (1)"},
    {F_INPLACE, "inplace", "no|yes|both", "send and receive buffer are one (no)"},
    {F_ALGO, "algo", "NAMES|all|auto", "algorithms to race, between commas; auto is Peal's choice (auto)"},
    {F_MEM, "mem", "host|shared|cuda", "buffers of malloc, of peal_mem_alloc, or on a GPU for each rank (host)"},
    {F_VS, "vs", "mpi|nccl", "race the MPI's own collective too, or NCCL's (--mem cuda), in turns"},
    {'g', "ngpus", "N", "--mem cuda: ranks are N threads of this process, on GPUs 0 to N-1 (MPI processes, by their local ranks)"},
    {'m', "agg_iters", "N", "--mem cuda: calls enqueued in a row for one time, which is divided by N (1)"},
    {F_GRAPH, "graph", "N", "--mem cuda: also race N calls that are captured into a graph and replayed"},
    {F_REGISTER, "register", NULL, "--mem cuda: Peal's buffers are registered (peal_register)"},
    {F_ULP, "ulp", NULL, "--mem cuda: also the largest error of sums that round, in units in the last place of exact ones"},
    {F_THREADS, "threads", "N", "ranks are N threads of this process (they are MPI processes)"},
    {F_JSON, "json", "FILE", "write machine, versions and rows to FILE"},
    {F_PLOT, "plot", "FILE.svg", "draw time against size to FILE.svg, by gnuplot"},
    {'h', "help", NULL, "this text"},
};
enum { NFLAGS = sizeof table / sizeof table[0], MOST_NUMBER = 10000000 /* times PEALI_RUNNERS is an int */ };

/* The first of three that a launcher set, or NULL. */
static const char *first_of(const char *const names[3])
{
    const char *value = NULL;
    for (int i = 0; i < 3 && !value; i++)
        value = getenv(names[i]);
    return value;
}

/* The rank that a launcher gave this process, or NULL. */
static const char *given_rank(void)
{
    static const char *const names[3] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    return first_of(names);
}

int peali_flags_launched(void)
{
    static const char *const names[3] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    const char *size = first_of(names);
    const int n = size ? atoi(size) : 1;
    return !given_rank() ? 0 : n > 1 ? n : 1;
}

const char *peali_flags_crowd(const char *flag, int n)
{
    static char why[192];
    const int launched = peali_flags_launched();
    snprintf(why, sizeof why, "%s %d: ranks would be %d threads of each of the %d processes that were started; start one, or leave "
             "%s away", flag, n, n, launched, flag);
    return n > 0 && launched > 1 ? why : NULL;
}

bool peali_flags_first(void)
{
    const char *rank = given_rank();
    return !rank || atoi(rank) == 0;
}

static void usage(FILE *to)
{
    fputs("usage: mpirun -n RANKS peal bench COLLECTIVE [flags], or peal bench COLLECTIVE --threads RANKS [flags],\n"
          "       or peal bench COLLECTIVE --mem cuda -g GPUS [flags]\n"
          "  sizes are those of the vector; of allgather and reduce_scatter: of all ranks together\n", to);
    for (int i = 0; i < NFLAGS; i++) {
        char letter[8] = "    ", name[64];
        if (table[i].code < 256)
            snprintf(letter, sizeof letter, "-%c, ", table[i].code);
        snprintf(name, sizeof name, "--%s %s", table[i].name, table[i].value ? table[i].value : "");
        fprintf(to, "  %s%-26s %s\n", letter, name, table[i].meaning);
    }
}

size_t peali_flags_size(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    const char *const suffixes = "KMG", *found = *end ? strchr(suffixes, *end & ~0x20) : NULL;
    if (found && *found)
        for (end++; found >= suffixes; found--)
            value *= 1024;
    return *end || !(value >= 1) || value > 1e15 ? 0 : (size_t)value;
}

double peali_flags_real(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *end || !(value > 0) || value > 1e15 ? 0 : value;
}

const char *peali_flags_order(size_t last, size_t first, char text[PEALI_FLAGS_ORDER])
{
    char a[24], b[24];
    snprintf(text, PEALI_FLAGS_ORDER, "%s < %s", peali_bytes_text(last, a), peali_bytes_text(first, b));
    return text;
}

/* A letter may be one of several in a word. */
const char *peali_flags_stop(char *const *argv, char text[PEALI_FLAGS_WORD])
{
    if (optopt <= 0 || optopt >= F_ALGO)
        return argv[optind - 1];
    snprintf(text, PEALI_FLAGS_WORD, "-%c", optopt);
    return text;
}

/* The value is the next word, or the rest of the flag's. */
const char *peali_flags_wrong(char *const *argv, char text[PEALI_FLAGS_WORD])
{
    const char *flag = argv[optind - 1 - (optarg == argv[optind - 1])];
    snprintf(text, PEALI_FLAGS_WORD, "%.*s: wrong value", flag[1] == '-' ? (int)strcspn(flag, "=") : 2, flag);
    return text;
}

bool peali_flags_writable(const char *file)
{
    struct stat is;
    if (stat(file, &is) == 0) {
        bool folder = S_ISDIR(is.st_mode); /* which root may write to */
        errno = EISDIR;
        return !folder && access(file, W_OK) == 0;
    }
    FILE *fresh = fopen(file, "w");
    char *made = fresh ? realpath(file, NULL) : NULL; /* not FILE itself where that is a link to what was not there */
    bool gone = made && remove(made) == 0;
    free(made);
    return fresh && fclose(fresh) == 0 && gone;
}

void peali_flags_find_place(const char *file, peali_flags_place *at)
{
    if (!realpath(file, at->file))
        snprintf(at->file, sizeof at->file, "%s", file);
    snprintf(at->beside, sizeof at->beside, "%s.new", at->file);
}

static bool number(const char *text, int least, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (!*text || *end || value < least || value > MOST_NUMBER)
        return false;
    *out = (int)value;
    return true;
}

/* Bit of the name among COUNT names, all bits for "all", 0 for none. */
static unsigned names_to_bits(const char *text, int count, const char *(*name)(int i))
{
    unsigned bits = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(text, "all") == 0 || strcmp(text, name(i)) == 0)
            bits |= 1u << i;
    return bits;
}

static const char *type_name(int i)
{
    return peal_type_name((peal_type)i);
}

static const char *op_name(int i)
{
    return peal_op_name((peal_op)i);
}

static bool set_place(peali_flags *flags, const char *text)
{
    bool both = strcmp(text, "both") == 0;
    flags->place[0] = both || strcmp(text, "no") == 0;
    flags->place[1] = both || strcmp(text, "yes") == 0;
    return flags->place[0] || flags->place[1];
}

bool peali_flags_known(peal_kind kind, const char *text)
{
    if (strcmp(text, "all") == 0 || strcmp(text, "auto") == 0)
        return true;
    for (;;) {
        char name[64];
        int length = (int)strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", length, text);
        if (!peali_algo_find(kind, name))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

bool peali_flags_listed(const char *name, const char *names)
{
    size_t length = strlen(name);
    bool all = strcmp(names, "all") == 0;
    for (; names && !all; names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL)
        if (strncmp(names, name, length) == 0 && (names[length] == ',' || !names[length]))
            return true;
    return all;
}

static bool set_size(peali_flags *flags, int code, const char *text)
{
    size_t bytes = peali_flags_size(text);
    *(code == 'b' ? &flags->min_bytes : code == 'e' ? &flags->max_bytes : &flags->step_bytes) = bytes;
    return bytes > 0;
}

static bool set_memory(peali_flags *flags, const char *text)
{
    flags->shared = strcmp(text, "shared") == 0;
    flags->cuda = strcmp(text, "cuda") == 0;
    return flags->shared || flags->cuda || strcmp(text, "host") == 0;
}

static bool set_peer(peali_flags *flags, const char *text)
{
    flags->vs_mpi |= strcmp(text, "mpi") == 0;
    flags->vs_nccl |= strcmp(text, "nccl") == 0;
    return strcmp(text, "mpi") == 0 || strcmp(text, "nccl") == 0;
}

static bool set(peali_flags *flags, int code, char *text)
{
    int check = -1;
    switch (code) {
    case 'b': case 'e': case 'i': return set_size(flags, code, text);
    case 'f': return (flags->factor = peali_flags_real(text)) >= PEALI_FLAGS_FACTOR;
    case 'd': case 't': return (flags->types = names_to_bits(text, PEAL_TYPE_COUNT, type_name)) != 0;
    case 'o': return (flags->ops = names_to_bits(text, PEAL_OP_COUNT, op_name)) != 0;
    case 'n': return number(text, 1, &flags->iters);
    case 'w': return number(text, 0, &flags->warmup);
    case 'c': return number(text, 0, &check) && (flags->check = check != 0, check < 2);
    case F_INPLACE: return set_place(flags, text);
    case F_ALGO: return peali_flags_known(flags->kind, flags->algo = text);
    case F_MEM: return set_memory(flags, text);
    case F_VS: return set_peer(flags, text);
    case 'g': return number(text, 1, &flags->gpus);
    case 'm': return number(text, 1, &flags->calls);
    case F_GRAPH: return number(text, 1, &flags->graph);
    case F_REGISTER: flags->registered = true; return true;
    case F_ULP: flags->ulp = true; return true;
    case F_THREADS: return number(text, 1, &flags->threads);
    case F_JSON: flags->json = text; return true;
    case F_PLOT: flags->plot = text; return true;
    default: return false;
    }
}

static void list(const char *what, int count, const char *(*name)(int i))
{
    fprintf(stderr, "  %s:", what);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %s", name(i));
    fputs(" all\n", stderr);
}

static int refuse(const char *what, const char *text)
{
    if (!peali_flags_first())
        return 2;
    fprintf(stderr, "peal bench: %s '%s'\n", what, text);
    usage(stderr);
    list("TYPE", PEAL_TYPE_COUNT, type_name);
    list("OP", PEAL_OP_COUNT, op_name);
    for (int k = 0; k < PEALI_TUNING_KINDS; k++) {
        fprintf(stderr, "  NAMES of %s:", peal_kind_name((peal_kind)k));
        for (int i = 0; peali_algos[i]; i++)
            if (peali_algos[i]->kind == (peal_kind)k)
                fprintf(stderr, " %s", peali_algos[i]->name);
        fputs(" all auto\n", stderr);
    }
    return 2;
}

/* getopt's two lists, from the table. */
static void spell(struct option *longs, char *shorts)
{
    *shorts++ = ':';
    for (int i = 0; i < NFLAGS; i++) {
        longs[i] = (struct option){table[i].name, table[i].value ? required_argument : no_argument, NULL, table[i].code};
        if (table[i].code < 256)
            *shorts++ = (char)table[i].code;
        if (table[i].code < 256 && table[i].value)
            *shorts++ = ':';
    }
}

static int parse_all(int argc, char **argv, peali_flags *flags)
{
    struct option longs[NFLAGS + 1] = {{0}};
    char shorts[2 * NFLAGS + 2] = "";
    spell(longs, shorts);
    optind = 1;
    for (;;) {
        char word[PEALI_FLAGS_WORD];
        int code = getopt_long(argc, argv, shorts, longs, NULL);
        if (code == -1)
            return optind < argc ? refuse("a word too many", argv[optind]) : -1;
        if (code == 'h') {
            if (peali_flags_first())
                usage(stdout);
            return 0;
        }
        if (code == '?' || code == ':')
            return refuse(code == ':' ? "a value is missing after" : "unknown flag", peali_flags_stop(argv, word));
        if (!set(flags, code, optarg))
            return refuse(peali_flags_wrong(argv, word), optarg);
    }
}

int peali_flags_parse(int argc, char **argv, peali_flags *flags)
{
    *flags = (peali_flags){.kind = PEAL_ALLREDUCE, .min_bytes = 16, .max_bytes = 64 << 20, .factor = 4, .warmup = 2, .check = true,
                           .types = 1u << PEAL_FLOAT, .ops = 1u << PEAL_SUM, .place = {true, false}, .algo = "auto", .calls = 1};
    char sizes[PEALI_FLAGS_ORDER];
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    int kind = help ? PEAL_ALLREDUCE : peali_tuning_kind(argc < 2 ? "" : argv[1]);
    if (kind < 0)
        return refuse("no collective", argc < 2 ? "" : argv[1]);
    flags->kind = (peal_kind)kind;
    opterr = 0;
    int code = help ? parse_all(argc, argv, flags) : parse_all(argc - 1, argv + 1, flags);
    const unsigned types = flags->types;
    if (flags->vs_mpi) {
        flags->ops &= ~(1u << PEAL_AVG);
        flags->types &= ~(1u << PEAL_FP8_E4M3 | 1u << PEAL_FP8_E5M2 | 1u << PEAL_FP16 | 1u << PEAL_BF16);
    }
    if (code == -1 && !flags->ops)
        return refuse("MPI, the peer, has no op", "avg");
    if (code == -1 && !flags->types)
        return refuse("MPI, the peer, has no type", type_name(__builtin_ctz(types)));
    if (code == -1 && flags->min_bytes > flags->max_bytes)
        return refuse("the last size (-e) is below the first (-b):", peali_flags_order(flags->max_bytes, flags->min_bytes, sizes));
    return code;
}
