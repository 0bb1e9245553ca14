/*
 * One table drives all: what is read, what `peal info` prints, and which names are known. The defaults are texts of the same
 * form as the values, so that there is one way to read either.
 */
#include "base/config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

extern char **environ;

#define SPELL(number) #number
#define DIGITS(number) SPELL(number)

/* Each reads TEXT into C, and answers false where TEXT breaks the rule. */
typedef bool reader(const char *text, peali_config *c);

/* Read once, constant afterwards; the texts are copies because a program may change its environment. */
static peali_config config;
static char log_file[1024], algo[64], nodes[256], tuning[1024], timeline[1024], net_devices[1024], host_id[256];
static pthread_once_t parsed = PTHREAD_ONCE_INIT, checked = PTHREAD_ONCE_INIT;
static peal_status verdict;
static bool wrong[24]; /* beside table */

/* The index of the LEN bytes at TEXT in the list NAMES, or -1. */
static int find(const char *text, size_t len, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == len && strncmp(names[i], text, len) == 0)
            return i;
    return -1;
}

static bool read_level(const char *text, peali_config *c)
{
    static const char *const names[] = {"warn", "info", "debug", "trace", NULL};
    int level = find(text, strlen(text), names);
    if (level >= 0)
        c->log_level = level;
    return level >= 0;
}

static bool read_subsys(const char *text, peali_config *c)
{
    static const char *const names[] = {"init", "coll", "net", "graph", "tune", "all", NULL};
    unsigned bits = 0;
    for (const char *word = text;; word += strcspn(word, ",") + 1) {
        size_t len = strcspn(word, ",");
        int i = find(word, len, names);
        if (i < 0)
            return false;
        bits |= names[i + 1] ? 1u << i : ~0u; /* the last one is all */
        if (!word[len])
            break;
    }
    c->log_subsys = bits;
    return true;
}

/* Copies TEXT to ROOM bytes at PLACE and points OUT there; NONE stands for no text. */
static bool keep(const char *text, const char *none, char *place, size_t room, const char **out)
{
    if (strlen(text) >= room)
        return false;
    *out = strcmp(text, none) == 0 ? NULL : strcpy(place, text);
    return true;
}

static bool read_file(const char *text, peali_config *c)
{
    return keep(text, "stderr", log_file, sizeof(log_file), &c->log_file);
}

static bool read_timeline(const char *text, peali_config *c)
{
    return keep(text, "off", timeline, sizeof(timeline), &c->timeline);
}

static bool read_algo(const char *text, peali_config *c)
{
    return keep(text, "auto", algo, sizeof(algo), &c->algo);
}

/* What the sizes add up to is checked where the ranks are known. */
static bool read_nodes(const char *text, peali_config *c)
{
    bool list = text[0] && strspn(text, "0123456789+") == strlen(text);
    return (list || strcmp(text, "auto") == 0) && keep(text, "auto", nodes, sizeof(nodes), &c->nodes);
}

static bool read_level_inside(const char *text, peali_config *c)
{
    static const char *const names[] = {"none", "socket", "numa", "l3", "l2", "core", "auto", NULL};
    int i = find(text, strlen(text), names);
    if (i >= 0)
        c->level = names[i + 1] ? names[i] : NULL; /* the last one is auto */
    return i >= 0;
}

static bool read_tuning(const char *text, peali_config *c)
{
    return keep(text, "auto", tuning, sizeof(tuning), &c->tuning);
}

static bool read_net(const char *text, peali_config *c)
{
    static const char *const names[] = {"mpi", "ucx", "loop", "auto", NULL};
    int i = find(text, strlen(text), names);
    if (i >= 0)
        c->net = names[i + 1] ? names[i] : NULL; /* the last one is auto */
    return i >= 0;
}

/* Which devices there are is known where they are used. */
static bool read_net_devices(const char *text, peali_config *c)
{
    const char *list = text + (text[0] == '^');
    bool empty = !list[0] || list[0] == ',' || list[strlen(list) - 1] == ',' || strstr(list, ",,");
    return !empty && !strpbrk(list, "^ ") && keep(text, "auto", net_devices, sizeof(net_devices), &c->net_devices);
}

static bool read_host_id(const char *text, peali_config *c)
{
    return keep(text, "auto", host_id, sizeof(host_id), &c->host_id);
}

/* Reads the digits at *AT, a number up to 2^40, and moves *AT behind them; -1 where there is none. */
static int64_t digits(const char **at)
{
    const char *first = *at;
    int64_t n = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        n = n * 10 + (**at - '0');
        if (n > (int64_t)1 << 40)
            return -1;
    }
    return *at > first ? n : -1;
}

/* Bytes, with k, m or g, up to 1024g; 0 where TEXT is not of that form. */
static int64_t bytes_of(const char *text)
{
    int64_t n = digits(&text);
    if (n <= 0)
        return 0;
    static const char units[] = "kmg";
    const char *unit = *text ? strchr(units, *text | 0x20) : NULL;
    if (*text && (!unit || text[1]))
        return 0;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    return n > (int64_t)1 << (40 - shift) ? 0 : n << shift;
}

static bool read_slice(const char *text, peali_config *c)
{
    bool chosen = strcmp(text, "auto") == 0;
    c->slice_bytes = chosen ? 0 : bytes_of(text);
    return chosen || c->slice_bytes > 0;
}

static bool read_scratch(const char *text, peali_config *c)
{
    c->scratch_bytes = bytes_of(text);
    return c->scratch_bytes > 0;
}

/* By hand, because strtod wants a comma where the program set such a locale. */
static bool read_timeout(const char *text, peali_config *c)
{
    enum { SECONDS_MOST = 1000000000 };
    if (strcmp(text, "auto") == 0) {
        c->timeout_ns = -1;
        return true;
    }
    int64_t ns = digits(&text);
    if (ns < 0 || ns > SECONDS_MOST)
        return false;
    ns *= 1000000000;
    if (*text == '.')
        for (int64_t unit = 100000000; *++text >= '0' && *text <= '9'; unit /= 10)
            ns += (*text - '0') * unit;
    if (*text)
        return false;
    c->timeout_ns = ns;
    return true;
}

static bool read_shm(const char *text, peali_config *c)
{
    c->shm = strcmp(text, "on") == 0;
    return c->shm || strcmp(text, "off") == 0;
}

static bool read_proto(const char *text, peali_config *c)
{
    static const char *const names[] = {"ll", "ll128", "bulk", "direct", "engines", "auto", NULL};
    int i = find(text, strlen(text), names);
    if (i >= 0)
        c->proto = names[i + 1] ? i : -1; /* the last one is auto */
    return i >= 0;
}

/* auto, which is 0, or 1 to MOST. */
static bool read_number(const char *text, int most, int *number)
{
    bool chosen = strcmp(text, "auto") == 0;
    int64_t n = chosen ? 0 : digits(&text);
    if (!chosen && (n < 1 || n > most || *text))
        return false;
    *number = (int)n;
    return true;
}

static bool read_max_ctas(const char *text, peali_config *c)
{
    return read_number(text, PEALI_MOST_CTAS, &c->max_ctas);
}

static bool read_proxy_threads(const char *text, peali_config *c)
{
    return read_number(text, PEALI_MOST_PROXY_THREADS, &c->proxy_threads);
}

static bool read_engines(const char *text, peali_config *c)
{
    bool off = strcmp(text, "off") == 0;
    c->engines_bytes = off ? 0 : bytes_of(text);
    return off || c->engines_bytes > 0;
}

/* 0 or 1. */
static bool read_bit(const char *text, bool *bit)
{
    *bit = text[0] == '1';
    return (text[0] == '0' || text[0] == '1') && !text[1];
}

/* auto, which is -1, 0 or 1. */
static bool read_choice(const char *text, int *choice)
{
    static const char *const names[] = {"auto", "0", "1", NULL};
    int i = find(text, strlen(text), names);
    if (i >= 0)
        *choice = i - 1;
    return i >= 0;
}

static bool read_interpose(const char *text, peali_config *c)
{
    return read_choice(text, &c->interpose);
}

static bool read_progress_thread(const char *text, peali_config *c)
{
    return read_choice(text, &c->progress_thread);
}

static bool read_p2p(const char *text, peali_config *c)
{
    return read_bit(text, &c->p2p);
}

static bool read_early(const char *text, peali_config *c)
{
    return read_bit(text, &c->early);
}

static bool read_gdr(const char *text, peali_config *c)
{
    static const char *const names[] = {"off", "auto", "on", NULL};
    int i = find(text, strlen(text), names);
    if (i >= 0)
        c->gdr = i;
    return i >= 0;
}

static const struct variable {
    const char *name, *initial, *choices, *meaning;
    reader *read;
} table[] = {
    {"PEAL_LOG", "warn", "warn, info, debug or trace", "How much is logged; warn is errors and warnings only.", read_level},
    {"PEAL_LOG_SUBSYS", "all", "a comma list of init, coll, net, graph, tune, all", "Which parts log; warnings always pass.",
     read_subsys},
    {"PEAL_LOG_FILE", "stderr", "stderr, or a path below 1024 bytes; %h is the host, %p the process, %r the rank or x",
     "Where log lines go.", read_file},
    {"PEAL_ALGO", "auto", "auto, or the name of an algorithm (peal info lists them)", "The algorithm of every call that it fits.",
     read_algo},
    {"PEAL_NET", "auto", "auto, mpi, ucx or loop (ranks are threads)",
     "What carries messages; auto is ucx between several hosts if all have it and it leads to all, else what a communicator was "
     "started over: mpi, or loop.",
     read_net},
    {"PEAL_NET_DEVICES", "auto", "auto, or a comma list of devices as eth0,mlx5_0:1; ^ before it leaves these out",
     "The network devices that messages over ucx are spread over; auto is all of the fastest kind.", read_net_devices},
    {"PEAL_HOST_ID", "auto", "auto, or a text below 256 bytes",
     "What stands for the identity of this process' host: ranks with different ones share no memory.", read_host_id},
    {"PEAL_SLICE", "auto", "auto, or bytes from 1 to 1024g, with k, m or g", "The size of a slice of a large message.", read_slice},
    {"PEAL_NODES", "auto", "auto, or the ranks of each node in rank order, as 4+4+3",
     "Which ranks (of MPI_COMM_WORLD) share a node; auto is by their hosts. For tests.", read_nodes},
    {"PEAL_LEVEL", "auto", "auto, none, socket, numa, l3, l2 or core",
     "What nodes are on a single host, where ranks are bound; auto is the first of socket, numa and l3 that divides them.",
     read_level_inside},
    {"PEAL_TIMELINE", "off", "off, or a path below 1024 bytes; %h is the host, %p the process, %r the rank or x",
     "Where a timeline of calls and messages is written, for Perfetto; `cat` of all ranks' files, 0 first, is that of all.",
     read_timeline},
    {"PEAL_TUNING", "auto", "auto, or a path below 1024 bytes; peal tune writes such files",
     "The table that choices are made by; auto is the built-in one.", read_tuning},
    {"PEAL_TIMEOUT", "auto", "auto, or seconds, decimals allowed, to 1000000000; 0 for none",
     "How long a call waits before it fails; auto is 1800, and none for calls taken from an MPI program.", read_timeout},
    {"PEAL_SHM", "on", "on or off", "off: ranks of one host exchange messages, as those of different hosts do.", read_shm},
    {"PEAL_PROTO", "auto", "auto, ll, ll128, bulk, direct or engines",
     "How data crosses between GPUs: lines of 16 or of 128 bytes with flags in them, data and then a flag; or, direct, buffers of "
     "peers are read and stored to in place where all ranks have mapped them, and else as by bulk; or, engines, an allreduce by "
     "copy engines.", read_proto},
    {"PEAL_MAX_CTAS", "auto", "auto, or 1 to " DIGITS(PEALI_MOST_CTAS), "How many CTAs a call on device memory takes at most.",
     read_max_ctas},
    {"PEAL_SCRATCH", "16m", "bytes from 1 to 1024g, with k, m or g",
     "GPU memory of all communicators of a process on one GPU; each takes half of what is left.", read_scratch},
    {"PEAL_ENGINES", "1g", "off, or bytes from 1 to 1024g, with k, m or g",
     "GPU memory that a communicator takes, beside PEAL_SCRATCH, when a call first goes by copy engines, as allreduces do from "
     "128 MiB (2 ranks) or 256 MiB (3 and 4) on; off: none does.", read_engines},
    {"PEAL_P2P", "1", "0 or 1", "0: GPUs do not access each other's memory; calls go through memory of the host.", read_p2p},
    {"PEAL_EARLY", "1", "0 or 1",
     "0: a call on a GPU is not placed there before all that stands before it in its stream has ended. For programs one of whose "
     "kernels, launched programmatically, ends without waiting for what stands before it.", read_early},
    {"PEAL_GDR", "auto", "off, auto or on",
     "Whether messages of GPUs leave from GPU memory; auto: where the network reads it by itself, is near, and a test message "
     "arrived; on: or the call is refused; off: they go through host memory.", read_gdr},
    {"PEAL_PROXY_THREADS", "auto", "auto, or 1 to " DIGITS(PEALI_MOST_PROXY_THREADS),
     "How many threads of a process send and receive for its GPUs where messages in host memory go over ucx by tcp, if all ranks "
     "have so many; auto is one for every 4 cores of a rank, " DIGITS(PEALI_MOST_PROXY_THREADS) " at most.", read_proxy_threads},
    {"PEAL_PROGRESS_THREAD", "auto", "auto, 0 or 1",
     "Whether a thread of a process moves messages of host memory while a rank computes; auto: where they go over ucx by tcp, in "
     "calls of several slices that also have peers on their host, if there are two cores for each rank and as long as calls are "
     "quicker so, two of 64 to 1024 being tried either way; 1: in all calls but those while others want the cores.",
     read_progress_thread},
    {"PEAL_INTERPOSE", "auto", "auto, 0 or 1", "Whether libpeal_mpi takes the program's collectives; auto: where it is preloaded, "
     "and not where the program is linked to it.", read_interpose},
};
enum { VARIABLES = sizeof(table) / sizeof(table[0]) };
_Static_assert(VARIABLES <= sizeof(wrong) / sizeof(wrong[0]), "room for each variable");

/* The variable's value; one that is set to nothing counts as not set, as shells leave it. */
static const char *value_of(const struct variable *v)
{
    const char *text = getenv(v->name);
    return text && text[0] ? text : v->initial;
}

static void parse(void)
{
    for (int i = 0; i < VARIABLES; i++) {
        wrong[i] = !table[i].read(value_of(&table[i]), &config);
        if (wrong[i])
            table[i].read(table[i].initial, &config);
    }
}

const peali_config *peali_config_get(void)
{
    pthread_once(&parsed, parse);
    return &config;
}

static bool known(const char *setting, size_t len)
{
    for (int i = 0; i < VARIABLES; i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, setting, len) == 0)
            return true;
    return false;
}

static void check_names(void)
{
    char all[512];
    size_t len = 0;
    for (int i = 0; i < VARIABLES; i++)
        len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", table[i].name);
    for (char **e = environ; e && *e; e++) { /* clearenv leaves none */
        size_t name = strcspn(*e, "=");
        if (strncmp(*e, "PEAL_", 5) != 0 || known(*e, name))
            continue;
        verdict = PEAL_ERR_CONFIG;
        const char *value = (*e)[name] ? *e + name + 1 : "";
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "unknown variable %.*s=%s: unset it, or use one of%s", (int)name, *e, value,
                  all);
    }
}

static void check_values(void)
{
    for (int i = 0; i < VARIABLES; i++) {
        if (!wrong[i])
            continue;
        verdict = PEAL_ERR_CONFIG;
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "wrong value %s=%s: use %s", table[i].name, value_of(&table[i]),
                  table[i].choices);
    }
}

/* Apart from parse, which cannot log: the log asks it where to write. */
static void check(void)
{
    peali_config_get();
    check_values();
    check_names();
}

peal_status peali_config_check(void)
{
    pthread_once(&checked, check);
    return verdict;
}

int peal_config_list(int index, peal_config_entry *entry)
{
    if (index < 0 || index >= VARIABLES || !entry)
        return 0;
    const struct variable *v = &table[index];
    *entry = (peal_config_entry){.name = v->name, .value = value_of(v), .choices = v->choices, .meaning = v->meaning};
    return 1;
}
